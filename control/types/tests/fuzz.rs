//! Feeds arbitrary bytes to every decoder: no panic, no hang, and no more memory than a
//! multiple of the input.
//!
//! These run a bounded number of inputs under `cargo test`, random ones and valid objects
//! with random damage; `cargo bolero test <name>` runs them under a fuzzer.

use bolero::check;
use control_types::coerce::{arrange, coerce, complete};
use control_types::protobuf::{self, Envelope};
use control_types::registry;
use control_types::schema::TypeId;
use control_types::strategic;
use control_types::value::Value;
use control_types::{labels, names, quantity, yaml};

/// Inputs a test; a fuzzer sets its own end.
const RUNS: usize = 4000;

/// Objects as a stock server answered them, in JSON and in protobuf.
fn objects() -> Vec<(Vec<u8>, Vec<u8>)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/objects");
    let mut all: Vec<_> = std::fs::read_dir(folder)
        .expect("objects")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.extension().is_some_and(|end| end == "json"))
        .collect();
    all.sort();
    all.into_iter()
        .map(|path| {
            let json = std::fs::read(&path).expect("a file");
            (
                json,
                std::fs::read(path.with_extension("pb")).expect("a file"),
            )
        })
        .collect()
}

/// One change of some bytes: where, what, how.
type Damage = (u16, u8, u8);

/// Bytes after some damage: overwritten, removed, doubled, cut.
fn damaged(bytes: &[u8], damages: &[Damage]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    for (place, byte, how) in damages.iter().take(6) {
        if out.is_empty() {
            break;
        }
        let at = usize::from(*place) * 7 % out.len();
        let end = (at + usize::from(*byte % 32)).min(out.len());
        match how % 7 {
            0 | 1 => out[at] = *byte,
            2 => out.insert(at, *byte),
            3 => drop(out.drain(at..end)),
            4 => {
                let piece = out[at..end].to_vec();
                out.splice(at..at, piece);
            }
            5 => out[at] ^= 1 << (byte % 8),
            _ => out.truncate(at.max(1)),
        }
    }
    out
}

fn schema_of(wire: &[u8]) -> (TypeId, String, String) {
    let envelope = Envelope::open(wire).expect("an object");
    let (group, short) = control_types::meta::split_api_version(envelope.version);
    let schema = registry::schema_of(group, short, envelope.kind).expect("a known kind");
    (
        schema,
        envelope.version.to_owned(),
        envelope.kind.to_owned(),
    )
}

/// What is true of all JSON: what parses is written so that it parses to the same.
fn json_holds(bytes: &[u8]) {
    let Ok(parsed) = Value::parse(bytes) else {
        return;
    };
    assert!(
        parsed.value.heap_size() <= 64 * bytes.len() + 4096,
        "{} bytes of tree for {} of text",
        parsed.value.heap_size(),
        bytes.len()
    );
    let again = Value::from_slice(&parsed.value.to_vec()).expect("what was written parses");
    assert_eq!(again, parsed.value);
    for (number, resource) in registry::resources().iter().enumerate() {
        if number % 11 != bytes.len() % 11 {
            continue;
        }
        let mut value = parsed.value.clone();
        if coerce(&mut value, resource.schema).is_err() {
            continue;
        }
        complete(&mut value, resource.schema);
        arrange(&mut value, resource.schema, true);
        let json = value.to_vec();
        let mut wire = Vec::new();
        // What decodes is stored: then it must be written and read back.
        protobuf::message(&json, resource.schema, &mut wire)
            .unwrap_or_else(|error| panic!("{}: {error}: {value}", resource.kind));
        let mut out = Vec::new();
        protobuf::to_json(&wire, resource.schema, "v1", resource.kind, &mut out)
            .unwrap_or_else(|error| panic!("{}: {error}: {value}", resource.kind));
        assert!(
            Value::from_slice(&out).is_ok(),
            "{}: {value}",
            resource.kind
        );
    }
}

/// What is true of all bytes that might be protobuf.
fn protobuf_holds(bytes: &[u8]) {
    if let Ok(tree) = protobuf::decode(bytes) {
        assert!(tree.heap_size() <= 256 * bytes.len() + 4096);
    }
    let Ok(envelope) = Envelope::open(bytes) else {
        return;
    };
    let (group, short) = control_types::meta::split_api_version(envelope.version);
    let schema = registry::schema_of(group, short, envelope.kind)
        .or_else(|| registry::schema_of("", "v1", "Pod"))
        .expect("a type");
    let mut json = Vec::new();
    if protobuf::to_json(envelope.raw, schema, "v1", "Kind", &mut json).is_err() {
        return;
    }
    assert!(json.len() <= 1024 * bytes.len() + 4096);
    // Embedded JSON is not looked at twice, so the whole may be none: that is told.
    if let Ok(value) = Value::from_slice(&json) {
        let mut value = value;
        if coerce(&mut value, schema).is_ok() {
            let mut wire = Vec::new();
            protobuf::message(&value.to_vec(), schema, &mut wire).expect("it was decoded from one");
        }
    }
}

#[test]
fn json_of_any_bytes() {
    check!()
        .with_iterations(RUNS)
        .with_type::<Vec<u8>>()
        .for_each(|bytes| json_holds(bytes));
}

#[test]
fn json_of_damaged_objects() {
    let objects = objects();
    check!()
        .with_iterations(RUNS)
        .with_type::<(u8, Vec<Damage>)>()
        .for_each(|(which, damages)| {
            let (json, _) = &objects[usize::from(*which) % objects.len()];
            json_holds(&damaged(json, damages));
        });
}

#[test]
fn protobuf_of_any_bytes() {
    check!()
        .with_iterations(RUNS)
        .with_type::<Vec<u8>>()
        .for_each(|bytes| {
            protobuf_holds(bytes);
            protobuf_holds(&[&protobuf::MAGIC[..], bytes].concat());
            let mut whole = Vec::new();
            protobuf::push_envelope_head("v1", "Pod", bytes.len(), &mut whole);
            whole.extend_from_slice(bytes);
            protobuf_holds(&whole);
        });
}

#[test]
fn protobuf_of_damaged_objects() {
    let objects = objects();
    check!()
        .with_iterations(RUNS)
        .with_type::<(u8, Vec<Damage>)>()
        .for_each(|(which, damages)| {
            let (_, wire) = &objects[usize::from(*which) % objects.len()];
            protobuf_holds(&damaged(wire, damages));
        });
}

/// What is true of all bytes that might be YAML.
fn yaml_holds(bytes: &[u8]) {
    let Ok(document) = yaml::read(bytes) else {
        return;
    };
    let most = 64 * (20_000 + 4 * bytes.len());
    assert!(document.value.heap_size() <= most + 64 * bytes.len());
    // What JSON can say is read back from how it is written.
    let text = yaml::to_string(&document.value);
    let again = yaml::read(text.as_bytes())
        .unwrap_or_else(|error| panic!("{error}: {text:?} of {:?}", document.value));
    assert_eq!(
        again.value.to_string(),
        document.value.to_string(),
        "{text:?}"
    );
}

#[test]
fn yaml_of_any_bytes() {
    check!()
        .with_iterations(RUNS)
        .with_type::<Vec<u8>>()
        .for_each(|bytes| {
            yaml_holds(bytes);
            // Nearly all random bytes are no text at all.
            let letters = b"a: -\n'\"&*!|>[]{},#?1.e\t~%@x y";
            let text: Vec<u8> = bytes
                .iter()
                .map(|byte| letters[usize::from(*byte) % letters.len()])
                .collect();
            yaml_holds(&text);
        });
}

#[test]
fn yaml_of_damaged_objects() {
    let objects: Vec<Vec<u8>> = objects()
        .into_iter()
        .map(|(json, _)| {
            let value = Value::from_slice(&json).expect("JSON");
            yaml::to_string(&value).into_bytes()
        })
        .collect();
    check!()
        .with_iterations(RUNS / 4)
        .with_type::<(u8, Vec<Damage>)>()
        .for_each(|(which, damages)| {
            yaml_holds(&damaged(
                &objects[usize::from(*which) % objects.len()],
                damages,
            ));
        });
}

#[test]
fn messages_of_any_json() {
    let objects = objects();
    check!()
        .with_iterations(RUNS)
        .with_type::<(u8, u8, Vec<Damage>)>()
        .for_each(|(which, of, damages)| {
            let (json, _) = &objects[usize::from(*which) % objects.len()];
            let (_, wire) = &objects[usize::from(*of) % objects.len()];
            let (schema, version, kind) = schema_of(wire);
            let mut out = vec![7];
            let text = damaged(json, damages);
            if protobuf::envelope(&text, &version, &kind, schema, &mut out).is_err() {
                assert_eq!(out, [7], "an error leaves nothing behind");
            }
        });
}

#[test]
fn strategic_patches_that_nobody_wrote() {
    let objects = objects();
    let directives = [
        r#"{"$patch":"delete"}"#,
        r#"{"spec":{"$patch":"replace","containers":[]}}"#,
        r#"{"spec":{"containers":[{"$patch":"delete","name":"web"}]}}"#,
        r#"{"spec":{"$setElementOrder/containers":[{"name":"b"},{"name":"web"}],"containers":[{"name":"b","image":"x"}]}}"#,
        r#"{"metadata":{"$deleteFromPrimitiveList/finalizers":["a"],"finalizers":["b"]}}"#,
        r#"{"spec":{"$retainKeys":["x"],"strategy":{"$retainKeys":["type"],"type":"Recreate"}}}"#,
        r#"{"metadata":{"labels":{"a":null,"$patch":"merge"}}}"#,
    ];
    check!()
        .with_iterations(RUNS)
        .with_type::<(u8, u8, Vec<Damage>)>()
        .for_each(|(which, patch, damages)| {
            let (json, wire) = &objects[usize::from(*which) % objects.len()];
            let (schema, ..) = schema_of(wire);
            let patch = usize::from(*patch);
            let text = match directives.get(patch % (directives.len() + objects.len())) {
                Some(text) => text.as_bytes(),
                None => &objects[patch % objects.len()].0,
            };
            let Ok(patch) = Value::from_slice(&damaged(text, damages)) else {
                return;
            };
            let mut object = Value::from_slice(json).expect("JSON");
            let before = json.len() + text.len();
            if strategic::apply(&mut object, &patch, schema).is_ok() {
                assert!(object.to_vec().len() <= 4 * before + 4096);
            }
        });
}

#[test]
fn texts_that_nobody_wrote() {
    check!()
        .with_iterations(RUNS)
        .with_type::<Vec<u8>>()
        .for_each(|bytes| {
            let text = String::from_utf8_lossy(bytes);
            if let Ok(quantity) = quantity::Quantity::parse(&text) {
                let canonical = quantity.canonical();
                let again = quantity::Quantity::parse(&canonical).expect("its own form");
                assert_eq!(again.canonical(), canonical);
            }
            if let Ok(selector) = labels::Selector::parse(&text) {
                let printed = selector.to_string();
                let again = labels::Selector::parse(&printed).expect("its own form");
                assert_eq!(again.to_string(), printed);
            }
            let _ = names::dns1123_label(&text);
            if let Some(time) = control_types::time::parse(&text) {
                let _ = control_types::time::format_micro(time);
            }
        });
}

#[test]
fn nesting_is_bounded() {
    let pod = registry::schema_of("", "v1", "Pod").expect("a type");
    for deep in [40, 600, 100_000] {
        let json = format!(
            "{{\"metadata\":{{\"labels\":{}1{}}}}}",
            "{\"a\":".repeat(deep),
            "}".repeat(deep)
        );
        json_holds(json.as_bytes());
        let mut out = Vec::new();
        assert!(protobuf::message(json.as_bytes(), pod, &mut out).is_err());
        // Messages within messages: the schema of a definition.
        let mut raw = Vec::new();
        for _ in 0..deep.min(3000) {
            let mut outer = Vec::new();
            // `not`, field 28.
            outer.extend_from_slice(&[0xe2, 1]);
            protobuf::push_varint(&mut outer, raw.len() as u64);
            outer.extend_from_slice(&raw);
            raw = outer;
        }
        let props = TypeId::by_name(
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps",
        )
        .expect("a type");
        let read = protobuf::decode_message(&raw, props);
        assert_eq!(read.is_ok(), deep <= 40, "{deep}");
        let mut json = Vec::new();
        let printed = protobuf::to_json(&raw, props, "v1", "A", &mut json);
        assert_eq!(printed.is_ok(), deep <= 40, "{deep}");
    }
}

#[test]
fn schemas_within_schemas_are_bounded() {
    let definition =
        registry::lookup_kind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")
            .expect("a kind")
            .schema;
    for deep in [40, 490] {
        let json = format!(
            "{{\"spec\":{{\"versions\":[{{\"schema\":{{\"openAPIV3Schema\":{}{{}}{}}}}}]}}}}",
            "{\"not\":".repeat(deep),
            "}".repeat(deep)
        );
        let mut value = Value::from_slice(json.as_bytes()).expect("JSON");
        let fits = coerce(&mut value, definition);
        assert_eq!(fits.is_ok(), deep <= 40, "{deep}");
        if fits.is_ok() {
            complete(&mut value, definition);
            arrange(&mut value, definition, true);
        }
        let mut out = Vec::new();
        let written = protobuf::message(json.as_bytes(), definition, &mut out);
        assert_eq!(written.is_ok(), deep <= 40, "{deep}");
    }
}
