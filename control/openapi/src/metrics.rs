//! What documents say of `metrics.k8s.io`, where this server serves that itself:
//! written as a definition of custom resources that can be read only.

use std::sync::{Arc, LazyLock, OnceLock};

use control_types::value;
use control_types::value::Value;

use super::custom::{Custom, Parts};
use super::document::Document;
use super::protobuf;
use super::schemas::OpenApiVersion;
use super::texts::Texts;

/// The group.
pub const GROUP: &str = "metrics.k8s.io";
/// The version that is served.
pub const VERSION: &str = "v1beta1";
/// Where the document is.
pub const PLACE: &str = "apis/metrics.k8s.io/v1beta1";

static DEFINITIONS: LazyLock<[Value; 2]> = LazyLock::new(|| {
    let usage = value!({
        "type": "object",
        "description": "What is used, by name: cpu in cores, memory in bytes.",
        "additionalProperties": {
            "anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true
        }
    });
    let definition = |plural: &str, kind: &str, scope: &str, name: &str, what: Value| {
        let mut properties = value!({
            "timestamp": {
                "type": "string", "format": "date-time",
                "description": "The end of the span in which this was used."
            },
            "window": {"type": "string", "description": "How long that span is."}
        });
        properties.insert(name, what);
        value!({"spec": {
            "group": GROUP, "scope": scope,
            "names": {"plural": plural, "kind": kind, "listKind": (format!("{kind}List"))},
            "versions": [{"name": VERSION, "schema": {"openAPIV3Schema": {
                "type": "object",
                "description": (format!("{kind} says what is used at the moment.")),
                "required": ["timestamp", "window", name],
                "properties": properties
            }}}]
        }})
    };
    let containers = value!({
        "type": "array", "description": "What each container uses.",
        "items": {
            "type": "object", "required": ["name", "usage"],
            "properties": {
                "name": {"type": "string", "description": "The container's name."},
                "usage": (usage.clone())
            }
        }
    });
    [
        definition("nodes", "NodeMetrics", "Cluster", "usage", usage),
        definition("pods", "PodMetrics", "Namespaced", "containers", containers),
    ]
});

/// Paths and schemas.
pub(crate) fn parts(form: OpenApiVersion, texts: &Texts) -> Vec<Parts> {
    let all = DEFINITIONS.iter();
    all.filter_map(|definition| {
        let mut parts = Custom::find_version(definition, VERSION)?.parts(form, texts);
        for item in &mut parts.paths {
            item.operations.retain(|one| one.method == "get");
        }
        Some(parts)
    })
    .collect()
}

/// Returns the document of the version.
#[must_use]
pub fn document() -> Arc<Document> {
    static DOCUMENT: OnceLock<Arc<Document>> = OnceLock::new();
    let made = DOCUMENT.get_or_init(|| {
        let tree = super::merged::of_parts(parts(OpenApiVersion::V3, &super::merged::TEXTS));
        let json = super::document::go_json(&tree);
        Arc::new(Document::from_json(
            json,
            protobuf::v3,
            super::document::started(),
        ))
    });
    Arc::clone(made)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_what_can_be_read_and_nothing_else() {
        let document = Value::from_slice(&document().json()).expect("JSON");
        let Some(Value::Object(paths)) = document.get("paths") else {
            panic!("no paths");
        };
        let names: Vec<_> = paths.keys().map(|key| key.as_str().to_owned()).collect();
        assert_eq!(
            names,
            [
                "/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods",
                "/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods/{name}",
                "/apis/metrics.k8s.io/v1beta1/nodes",
                "/apis/metrics.k8s.io/v1beta1/nodes/{name}",
                "/apis/metrics.k8s.io/v1beta1/pods",
            ]
        );
        for (path, item) in paths.iter() {
            let methods = ["get", "post", "put", "patch", "delete"];
            let found = methods.map(|method| item.get(method).is_some());
            assert_eq!(
                found,
                [true, false, false, false, false],
                "{}",
                path.as_str()
            );
        }
        let schema = document.path(&["components", "schemas", "io.k8s.metrics.v1beta1.PodMetrics"]);
        let schema = schema.expect("a schema");
        assert!(schema.path(&["properties", "containers"]).is_some());
        let gvk = schema.items_at(&["x-kubernetes-group-version-kind"]);
        assert_eq!(gvk[0].str_at(&["kind"]), Some("PodMetrics"));
    }
}
