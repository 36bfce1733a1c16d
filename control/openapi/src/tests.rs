use control_types::value;
use control_types::value::Value;

use super::*;

fn read(place: &str) -> Value {
    Value::from_slice(&v3(place).unwrap().json()).unwrap()
}

#[test]
fn what_kubectl_looks_for_before_it_applies_is_there() {
    let apps = read("apis/apps/v1");
    let path = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}";
    let patch = apps.path(&["paths", path, "patch"]).unwrap();
    assert_eq!(
        patch.path(&["x-kubernetes-group-version-kind"]),
        Some(&value!({"group": "apps", "version": "v1", "kind": "Deployment"}))
    );
    let names: Vec<_> = patch
        .items_at(&["parameters"])
        .iter()
        .filter_map(|one| one.str_at(&["name"]))
        .collect();
    assert!(names.contains(&"fieldValidation") && names.contains(&"dryRun"));
}

#[test]
fn every_reference_leads_somewhere() {
    fn walk<'a>(value: &'a Value, out: &mut Vec<&'a str>) {
        match value {
            Value::Object(map) => {
                for (key, value) in map {
                    match value.as_str() {
                        Some(text) if key.as_str() == "$ref" => out.push(text),
                        _ => walk(value, out),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, out)),
            _ => {}
        }
    }
    let documents = PLACES.keys().map(|place| read(place));
    let all = Value::from_slice(&v2().json()).unwrap();
    for document in documents.chain([all]) {
        let mut references = Vec::new();
        walk(&document, &mut references);
        for reference in references {
            let keys: Vec<&str> = reference.split('/').skip(1).collect();
            assert!(document.path(&keys).is_some(), "{reference}");
        }
    }
}

/// The published documents, if Go's cache has them.
fn published() -> Option<std::path::PathBuf> {
    let output = std::process::Command::new("go")
        .args(["env", "GOMODCACHE"])
        .output()
        .ok()?;
    let cache = String::from_utf8(output.stdout).ok()?;
    let folder = format!(
        "{}/k8s.io/kubernetes@v1.36.3/api/openapi-spec",
        cache.trim()
    );
    Some(folder.into()).filter(|folder: &std::path::PathBuf| folder.is_dir())
}

/// Makes a published document comparable: it was written by a server that has
/// another encoding (CBOR) and that names no values of enumerations.
fn comparable(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|key, _| !key.contains("cbor") && key.as_str() != "enum");
            map.sort();
            for (key, value) in map.iter_mut() {
                if key.as_str() == "description"
                    && let Some(text) = value.as_str()
                    && let Some(at) = text.find("Possible enum values:")
                {
                    *value = text[..at].trim_end().into();
                }
                comparable(value);
            }
        }
        Value::Array(items) => {
            items.retain(|item| !item.as_str().is_some_and(|text| text.contains("cbor")));
            items.iter_mut().for_each(comparable);
        }
        _ => {}
    }
}

#[test]
fn documents_are_the_published_ones() {
    let Some(folder) = published() else {
        println!("skipped: the Go module of Kubernetes 1.36.3 is not in Go's cache");
        return;
    };
    let file = |name: &str| {
        let mut value = Value::from_slice(&std::fs::read(folder.join(name)).unwrap()).unwrap();
        value.remove("info");
        comparable(&mut value);
        value
    };
    let ours = |document: &Document| {
        let mut value = Value::from_slice(&document.json()).unwrap();
        value.remove("info");
        comparable(&mut value);
        value
    };
    for place in PLACES.keys() {
        let name = format!("v3/{}_openapi.json", place.replace('/', "__"));
        assert!(ours(&v3(place).unwrap()) == file(&name), "{place}");
    }
    let (ours, mut stock) = (ours(&v2()), file("swagger.json"));
    // Published with all that can be switched on; what is served must be the same.
    for part in ["paths", "definitions", "parameters"] {
        let mine = ours.get(part).and_then(Value::as_object).unwrap();
        let theirs = stock.get_mut(part).and_then(Value::as_object_mut).unwrap();
        theirs.retain(|key, _| mine.contains_key(key.as_str()));
        for ((key, mine), (_, theirs)) in mine.iter().zip(theirs.iter()) {
            assert!(mine == theirs, "{part} {key}");
        }
        assert_eq!(mine.len(), theirs.len());
    }
}

#[test]
fn values_of_enumerations_are_named() {
    let core = read("api/v1");
    let container = [
        "components",
        "schemas",
        "io.k8s.api.core.v1.Container",
        "properties",
    ];
    let container = core.path(&container).unwrap();
    assert_eq!(
        container.path(&["imagePullPolicy", "enum"]),
        Some(&value!(["Always", "IfNotPresent", "Never"]))
    );
    let ports = container.path(&["ports"]).unwrap();
    assert_eq!(
        ports.str_at(&["x-kubernetes-patch-merge-key"]),
        Some("containerPort")
    );
    assert_eq!(ports.str_at(&["x-kubernetes-list-type"]), Some("map"));
}
