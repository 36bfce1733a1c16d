//! Defaults that the server sets when an object is created, as far as controllers rely on them.

use serde_json::{Map, Value, json};

/// Fills in what `object`, which has its uid, does not say.
pub fn fill_in(resource: &str, object: &mut Value) {
    match resource {
        "pods" | "persistentvolumes" | "persistentvolumeclaims" => {
            absent(object, "status", json!({"phase": "Pending"}));
        }
        "jobs.batch" => job(object),
        "namespaces" => {
            absent(object, "spec", json!({"finalizers": ["kubernetes"]}));
            absent(object, "status", json!({"phase": "Active"}));
        }
        _ => {}
    }
}

fn absent(object: &mut Value, field: &str, value: Value) {
    if object.get(field).is_none_or(Value::is_null) {
        object[field] = value;
    }
}

/// A Job selects its pods by its own uid.
fn job(object: &mut Value) {
    let uid = object["metadata"]["uid"].clone();
    let name = object["metadata"]["name"].clone();
    let spec = &mut object["spec"];
    for (field, value) in [
        ("parallelism", json!(1)),
        ("completions", json!(1)),
        ("backoffLimit", json!(6)),
        ("completionMode", json!("NonIndexed")),
        ("suspend", json!(false)),
        ("podReplacementPolicy", json!("TerminatingOrFailed")),
        (
            "selector",
            json!({"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}),
        ),
    ] {
        absent(spec, field, value);
    }
    let labels = &mut spec["template"]["metadata"]["labels"];
    if !labels.is_object() {
        *labels = Value::Object(Map::new());
    }
    labels["batch.kubernetes.io/controller-uid"] = uid;
    labels["batch.kubernetes.io/job-name"] = name;
}
