use super::*;
use crate::coerce::coerce;
use crate::meta;

/// A folder of published objects with every field set, in JSON, protobuf and YAML.
fn fixtures(version: &str) -> Option<std::path::PathBuf> {
    let output = std::process::Command::new("go")
        .args(["env", "GOMODCACHE"])
        .output()
        .ok()?;
    let cache = String::from_utf8(output.stdout).ok()?;
    let folder = std::path::Path::new(cache.trim())
        .join("k8s.io/api@v0.36.3/testdata")
        .join(version);
    if !folder.is_dir() {
        println!("skipped: the Go module k8s.io/api v0.36.3 is not in Go's cache");
        return None;
    }
    Some(folder)
}

/// Group, version, kind and the three encodings of each published object.
fn published(version: &str) -> Vec<(String, String, String, std::path::PathBuf)> {
    let Some(folder) = fixtures(version) else {
        return Vec::new();
    };
    let mut all: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "pb"))
        .filter_map(|path| {
            let stem = path.file_stem()?.to_str()?.to_owned();
            let (rest, kind) = stem.rsplit_once('.')?;
            let (group, version) = rest.rsplit_once('.')?;
            let group = if group == "core" { "" } else { group };
            Some((group.to_owned(), version.to_owned(), kind.to_owned(), path))
        })
        .collect();
    all.sort();
    all
}

#[test]
fn every_published_object_reads_the_same_from_protobuf_as_from_json() {
    let mut seen = 0;
    for (group, version, kind, file) in published("HEAD") {
        let Some(schema) = registry::schema_of(&group, &version, &kind) else {
            continue;
        };
        // A watch event stands alone, without envelope.
        if kind == "WatchEvent" {
            continue;
        }
        let json = std::fs::read(file.with_extension("json")).unwrap();
        let mut expected = Value::from_slice(&json).unwrap();
        let mut found = decode(&std::fs::read(&file).unwrap()).unwrap();
        assert!(coerce(&mut expected, schema).unwrap().is_empty(), "{kind}");
        assert!(coerce(&mut found, schema).unwrap().is_empty(), "{kind}");
        assert_eq!(found.to_string(), expected.to_string(), "{kind}");
        seen += 1;
    }
    assert!(
        seen > 55 || fixtures("HEAD").is_none(),
        "only {seen} fixtures"
    );
}

#[test]
fn every_published_object_is_written_as_go_writes_it() {
    let (mut seen, mut failed) = (0, Vec::new());
    for (group, version, kind, file) in published("HEAD") {
        let Some(schema) = registry::schema_of(&group, &version, &kind) else {
            continue;
        };
        if kind == "WatchEvent" {
            continue;
        }
        let json = std::fs::read(file.with_extension("json")).unwrap();
        let json = Value::from_slice(&json).unwrap().to_vec();
        let version = meta::join_api_version(&group, &version);
        let mut out = Vec::new();
        envelope(&json, &version, &kind, schema, &mut out).unwrap();
        let expected = std::fs::read(&file).unwrap();
        if out != expected {
            let at = out.iter().zip(&expected).position(|(a, b)| a != b);
            failed.push((kind, at, out.len(), expected.len()));
        }
        seen += 1;
    }
    assert!(failed.is_empty(), "{failed:?}");
    assert!(
        seen > 55 || fixtures("HEAD").is_none(),
        "only {seen} fixtures"
    );
}

/// Stock controllers find the revision of a template by comparing these bytes.
#[test]
fn data_of_a_revision_comes_back_as_go_wrote_it() {
    let schema = registry::schema_of("apps", "v1", "ControllerRevision").unwrap();
    let data = r#"{"spec":{"template":{"$patch":"replace","spec":{"command":["a \u003c b \u0026\u0026 c \u003e d","é \u2028\u2029"]}}}}"#;
    let json = format!(r#"{{"metadata":{{"name":"r"}},"data":{data},"revision":1}}"#);
    let contains = |bytes: &[u8]| {
        bytes
            .windows(data.len())
            .any(|part| part == data.as_bytes())
    };
    let mut written = Vec::new();
    envelope(
        json.as_bytes(),
        "apps/v1",
        "ControllerRevision",
        schema,
        &mut written,
    )
    .unwrap();
    assert!(contains(&written));
    // a tree in between loses the escapes
    let tree = decode(&written).unwrap().to_vec();
    assert!(!contains(&tree));
    let mut again = Vec::new();
    envelope(&tree, "apps/v1", "ControllerRevision", schema, &mut again).unwrap();
    assert!(contains(&again));
}

#[test]
fn malformed_bytes_are_refused_as_go_refuses_them() {
    let error = |bytes: &[u8]| decode(bytes).unwrap_err().to_string();
    assert_eq!(error(b""), "empty data");
    assert_eq!(decode(b"{}"), Err(Error::Magic));
    assert_eq!(error(b"k8s\0"), "empty body");
    assert_eq!(error(b"k8s\0\x0a\xff"), "unexpected EOF");
    assert_eq!(
        error(b"k8s\0\x0f"),
        "proto: wrong wireType = 7 for field TypeMeta"
    );
    assert!(matches!(decode(b"k8s\0\x12\0"), Err(Error::Kind { .. })));
    let namespace = |raw: &[u8]| {
        let head = b"k8s\0\x0a\x0f\x0a\x02v1\x12\x09Namespace\x12";
        let length = u8::try_from(raw.len()).unwrap();
        error(&[&head[..], &[length], raw].concat())
    };
    assert_eq!(namespace(b"\x0a\x05"), "unexpected EOF");
    assert_eq!(
        namespace(b"\x08\x01"),
        "proto: wrong wireType = 0 for field ObjectMeta"
    );
    assert_eq!(
        namespace(b"\x0b\x0c"),
        "proto: wrong wireType = 3 for field ObjectMeta"
    );
    assert_eq!(
        namespace(b"\x02\x00"),
        "proto: Namespace: illegal tag 0 (wire type 2)"
    );
    assert_eq!(
        namespace(b"\x0a\x02\x28\x01"),
        "proto: wrong wireType = 0 for field UID"
    );
}

#[test]
fn names_that_are_no_text_are_replaced() {
    let pod = b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12\x05\x0a\x03\x0a\x01\xff";
    let read = decode(pod).unwrap();
    assert_eq!(read.str_at(&["metadata", "name"]), Some("\u{fffd}"));
}

/// Objects as a stock server answered them, in JSON and in protobuf: for machines
/// without the published ones.
fn ours() -> Vec<(Vec<u8>, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/objects");
    let all: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .map(|path| {
            let json = std::fs::read(&path).unwrap();
            (json, std::fs::read(path.with_extension("pb")).unwrap())
        })
        .collect();
    assert!(all.len() > 10);
    all
}

#[test]
fn our_objects_are_the_same_bytes_in_both_directions() {
    for (json, wire) in ours() {
        let Envelope { version, kind, raw } = Envelope::open(&wire).unwrap();
        let (group, short) = meta::split_api_version(version);
        let schema = registry::schema_of(group, short, kind).unwrap();
        let mut out = Vec::new();
        envelope(&json, version, kind, schema, &mut out).unwrap();
        assert!(out == wire, "{kind} in protobuf");
        let mut out = Vec::new();
        assert!(
            json::direct(raw, schema, version, kind, &mut out),
            "{kind} went the long way"
        );
        assert_eq!(
            String::from_utf8(out).unwrap(),
            String::from_utf8(json).unwrap(),
            "{kind}"
        );
    }
}

#[test]
fn members_and_keys_in_any_order_are_written_the_same() {
    fn reversed(value: &mut Value) {
        match value {
            Value::Object(map) => {
                map.entries_mut().reverse();
                map.values_mut().for_each(reversed);
            }
            Value::Array(items) => items.iter_mut().for_each(reversed),
            _ => {}
        }
    }
    for (json, wire) in ours() {
        let Envelope { version, kind, .. } = Envelope::open(&wire).unwrap();
        let (group, short) = meta::split_api_version(version);
        let schema = registry::schema_of(group, short, kind).unwrap();
        let mut tree = Value::from_slice(&json).unwrap();
        // Lists keep their order; the managed fields' JSON is kept as it is.
        reversed(&mut tree);
        tree.remove_path(&["metadata", "managedFields"]);
        let mut expected = Value::from_slice(&json).unwrap();
        expected.remove_path(&["metadata", "managedFields"]);
        let (mut a, mut b) = (Vec::new(), Vec::new());
        envelope(&tree.to_vec_pretty(), version, kind, schema, &mut a).unwrap();
        envelope(&expected.to_vec(), version, kind, schema, &mut b).unwrap();
        assert!(a == b, "{kind}");
    }
}

#[test]
fn fields_in_another_order_are_read_over_a_tree() {
    let (json, wire) = ours()
        .into_iter()
        .find(|(json, _)| json.starts_with(b"{\"kind\":\"Lease\""))
        .unwrap();
    let envelope = Envelope::open(&wire).unwrap();
    let schema = registry::schema_of("coordination.k8s.io", "v1", "Lease").unwrap();
    // The spec before the metadata, and a field that nobody knows.
    let mut reader = WireReader(envelope.raw);
    let mut shuffled = vec![0xf8, 7, 1];
    let mut fields = Vec::new();
    while let Some((number, wire)) = reader.field("").unwrap() {
        fields.insert(0, (number, wire.bytes().unwrap()));
    }
    for (number, bytes) in fields {
        push_bytes(u8::try_from(number << 3 | 2).unwrap(), bytes, &mut shuffled);
    }
    assert!(!json::direct(&shuffled, schema, "", "", &mut Vec::new()));
    let mut out = Vec::new();
    to_json(&shuffled, schema, envelope.version, envelope.kind, &mut out).unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        String::from_utf8(json).unwrap()
    );
}

#[test]
fn older_published_objects_are_read() {
    for folder in ["v1.33.0", "v1.34.0", "v1.35.0"] {
        let mut seen = 0;
        for (group, version, kind, file) in published(folder) {
            // Files beside say what an object becomes: they are no objects by name.
            if registry::schema_of(&group, &version, &kind).is_none() || kind == "WatchEvent" {
                continue;
            }
            let wire = std::fs::read(&file).unwrap();
            let Envelope { version, kind, raw } = Envelope::open(&wire).unwrap();
            let (group, short) = meta::split_api_version(version);
            let schema = registry::schema_of(group, short, kind).unwrap();
            let mut out = Vec::new();
            to_json(raw, schema, version, kind, &mut out)
                .unwrap_or_else(|error| panic!("{folder} {kind}: {error}"));
            assert!(Value::from_slice(&out).is_ok(), "{folder} {kind}");
            seen += 1;
        }
        assert!(seen > 20 || fixtures(folder).is_none(), "{folder}: {seen}");
    }
}

#[test]
fn what_does_not_fit_its_type_is_refused_and_leaves_nothing_behind() {
    let pod = registry::schema_of("", "v1", "Pod").unwrap();
    for json in [
        "",
        "{",
        "[]",
        "{\"metadata\":",
        "{\"metadata\":[]}",
        "{\"metadata\":{\"name\":1}}",
        "{\"metadata\":{\"generation\":\"1\"}}",
        "{\"metadata\":{\"generation\":1.5}}",
        "{\"metadata\":{\"generation\":99999999999999999999}}",
        "{\"metadata\":{\"creationTimestamp\":\"then\"}}",
        "{\"metadata\":{\"labels\":{\"a\":{}}}}",
        "{} {}",
        "{\"spec\":{\"hostNetwork\":1}}",
        "{\"spec\":{\"containers\":{}}}",
    ] {
        let mut out = vec![1, 2];
        assert!(
            envelope(json.as_bytes(), "v1", "Pod", pod, &mut out).is_err(),
            "{json}"
        );
        assert_eq!(out, [1, 2]);
    }
}
