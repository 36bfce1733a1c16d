use super::*;
use crate::coerce::coerce;

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

#[test]
fn malformed_bytes_are_refused() {
    assert_eq!(decode(b"{}"), Err(Error::Magic));
    assert_eq!(decode(b"k8s\0\x0a\xff"), Err(Error::Truncated));
    assert_eq!(decode(b"k8s\0\x0f"), Err(Error::WireType(7)));
    assert!(matches!(decode(b"k8s\0"), Err(Error::Kind { .. })));
    let pod = b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12";
    assert_eq!(decode(pod), Err(Error::Truncated));
    let wrong = [&pod[..], &[2, 0x08, 1]].concat();
    assert_eq!(decode(&wrong), Err(Error::WireType(0)));
}
