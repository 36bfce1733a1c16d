//! Definitions of custom resources, which Kubernetes keeps in `v1beta1`: there a
//! definition has one name of a version besides the list of them, and what is alike
//! in all versions stands once.

use control_types::meta;
use control_types::value::{Map, Value};

/// The kind.
pub const KIND: &str = "CustomResourceDefinition";

/// What stands once when it is alike in all versions: its name in `v1` within a
/// version, and in `v1beta1` beside them.
const SHARED: [(&str, &str); 4] = [
    ("subresources", "subresources"),
    ("schema", "validation"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];

/// From `v1` to what is kept.
pub fn to_storage(definition: &mut Value) {
    meta::set_type(definition, "apiextensions.k8s.io/v1beta1", KIND);
    let Some(spec) = definition.get_mut("spec") else {
        return;
    };
    let mut hoisted = Map::new();
    if let Some(versions) = spec.get_mut("versions").and_then(Value::as_array_mut) {
        for version in versions.iter_mut() {
            rename_columns(version, "jsonPath", "JSONPath");
        }
        if let Some(name) = versions.first().and_then(|first| first.get("name")) {
            hoisted.insert("version", name.clone());
        }
        for (within, beside) in SHARED {
            let first = versions
                .first()
                .and_then(|first| first.get(within))
                .cloned();
            if let Some(first) = first
                && versions.iter().all(|one| one.get(within) == Some(&first))
            {
                for version in versions.iter_mut() {
                    version.remove(within);
                }
                hoisted.insert(beside, first);
            }
        }
    }
    if let Some(conversion) = spec.get_mut("conversion")
        && let Some(mut webhook) = conversion.remove("webhook")
    {
        for (within, beside) in [
            ("clientConfig", "webhookClientConfig"),
            ("conversionReviewVersions", "conversionReviewVersions"),
        ] {
            if let Some(value) = webhook.remove(within) {
                conversion.insert(beside, value);
            }
        }
    }
    // Absent, it would be true in this version.
    if spec.get("preserveUnknownFields").is_none() {
        hoisted.insert("preserveUnknownFields", false);
    }
    // In the order of Go's struct.
    const ORDER: [&str; 12] = [
        "group",
        "version",
        "names",
        "scope",
        "validation",
        "subresources",
        "versions",
        "additionalPrinterColumns",
        "selectableFields",
        "conversion",
        "preserveUnknownFields",
        "",
    ];
    let spec = spec.make_object();
    for (name, value) in hoisted.iter() {
        spec.insert(name, value.clone());
    }
    let place = |name: &str| ORDER.iter().position(|one| *one == name);
    spec.entries_mut()
        .sort_by_key(|(name, _)| place(name).unwrap_or(ORDER.len()));
}

/// From what is kept to `v1`.
pub fn from_storage(definition: &mut Value) {
    if meta::api_version(definition) != "apiextensions.k8s.io/v1beta1" {
        return;
    }
    meta::set_type(definition, "apiextensions.k8s.io/v1", KIND);
    let Some(spec) = definition.get_mut("spec") else {
        return;
    };
    let version = spec.remove("version");
    if spec.get("versions").is_none()
        && let Some(version) = version
    {
        let mut one = Value::object();
        one.insert("name", version);
        one.insert("served", true);
        one.insert("storage", true);
        spec.insert("versions", Value::Array(vec![one]));
    }
    for (within, beside) in SHARED {
        let shared = spec.remove(beside);
        let versions = spec.get_mut("versions").and_then(Value::as_array_mut);
        for one in versions.into_iter().flatten() {
            if let Some(shared) = &shared {
                one.insert(within, shared.clone());
            }
        }
    }
    let versions = spec.get_mut("versions").and_then(Value::as_array_mut);
    for one in versions.into_iter().flatten() {
        rename_columns(one, "JSONPath", "jsonPath");
    }
    if let Some(conversion) = spec.get_mut("conversion") {
        let mut webhook = Value::object();
        for (within, beside) in [
            ("clientConfig", "webhookClientConfig"),
            ("conversionReviewVersions", "conversionReviewVersions"),
        ] {
            if let Some(value) = conversion.remove(beside) {
                webhook.insert(within, value);
            }
        }
        if webhook
            .as_object()
            .is_some_and(|webhook| !webhook.is_empty())
        {
            conversion.insert("webhook", webhook);
        }
    }
    match spec.get("preserveUnknownFields").and_then(Value::as_bool) {
        None => {
            spec.insert("preserveUnknownFields", true);
        }
        Some(false) => {
            spec.remove("preserveUnknownFields");
        }
        Some(true) => {}
    }
}

fn rename_columns(version: &mut Value, from: &str, to: &'static str) {
    let columns = version
        .get_mut("additionalPrinterColumns")
        .and_then(Value::as_array_mut);
    for column in columns.into_iter().flatten() {
        if let Some(path) = column.remove(from) {
            column.insert(to, path);
        }
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn what_is_alike_in_all_versions_stands_once_and_comes_back() {
        let schema = value!({"openAPIV3Schema": {"type": "object"}});
        let columns = value!([{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]);
        let definition = value!({
            "kind": KIND, "apiVersion": "apiextensions.k8s.io/v1", "metadata": {"name": "a.b"},
            "spec": {
                "group": "b", "names": {"plural": "a"}, "scope": "Cluster",
                "versions": [
                    {"name": "v1", "served": true, "storage": true, "schema": (schema.clone()), "additionalPrinterColumns": (columns.clone())},
                    {"name": "v2", "served": true, "storage": false, "schema": (schema.clone())}
                ],
                "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "https://x"}, "conversionReviewVersions": ["v1"]}}
            }
        });
        let mut kept = definition.clone();
        to_storage(&mut kept);
        assert_eq!(kept.str_at(&["spec", "version"]), Some("v1"));
        assert_eq!(kept.path(&["spec", "validation"]), Some(&schema));
        assert_eq!(kept.path(&["spec", "versions", "0", "schema"]), None);
        assert_eq!(
            kept.str_at(&[
                "spec",
                "versions",
                "0",
                "additionalPrinterColumns",
                "0",
                "JSONPath"
            ]),
            Some(".spec.size")
        );
        assert_eq!(
            kept.bool_at(&["spec", "preserveUnknownFields"]),
            Some(false)
        );
        assert_eq!(
            kept.str_at(&["spec", "conversion", "webhookClientConfig", "url"]),
            Some("https://x")
        );
        from_storage(&mut kept);
        assert_eq!(kept, definition);
    }

    #[test]
    fn one_version_by_name_alone_is_a_list_of_one() {
        let mut kept = value!({"kind": KIND, "apiVersion": "apiextensions.k8s.io/v1beta1", "spec": {"version": "v1", "subresources": {"status": {}}}});
        from_storage(&mut kept);
        assert_eq!(
            kept.path(&["spec"]),
            Some(
                &value!({"versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}}}], "preserveUnknownFields": true})
            )
        );
    }
}
