//! Serialises the data of a revision, byte for byte as kube-controller-manager does.
//!
//! Upstream encodes the typed object, decodes it into untyped maps and encodes those. So
//! keys are sorted, numbers have passed through a float, `<`, `>` and `&` are escaped,
//! and structs without a pointer are present even when they are empty.

use std::fmt::Write as _;

use serde_json::{Map, Value, json};

/// The patch that restores a pod template.
pub(crate) fn patch(template: &Value) -> String {
    let mut template = typed(template);
    template["$patch"] = "replace".into();
    go_json(&json!({"spec": {"template": template}}))
}

/// The template that the data of a ControllerRevision restores.
pub(crate) fn template_of(revision: &Value) -> Value {
    let mut template = revision
        .pointer("/data/spec/template")
        .cloned()
        .unwrap_or_default();
    if let Some(fields) = template.as_object_mut() {
        fields.remove("$patch");
    }
    template
}

/// A template of a workload of this kind of `apps` with the defaults of today.
pub(super) fn with_defaults(kind: &str, template: &Value) -> Value {
    let object = json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {},
        "spec": {"template": typed(template)}});
    let Ok(mut tree) = control_types::Value::from_slice(object.to_string().as_bytes()) else {
        return template.clone();
    };
    (control_kinds::find_kind("apps", kind).default)(&mut tree);
    let Ok(object) = serde_json::to_value(&tree) else {
        return template.clone();
    };
    object
        .pointer("/spec/template")
        .cloned()
        .unwrap_or_default()
}

/// A template as upstream's types print it: without nulls, and with the structs that are
/// always printed.
fn typed(template: &Value) -> Value {
    let mut template = without_nulls(template);
    let Some(fields) = template.as_object_mut() else {
        return json!({"metadata": {}, "spec": {"containers": null}});
    };
    struct_field(fields, "metadata");
    if let Some(spec) = struct_field(fields, "spec") {
        for list in ["containers", "initContainers", "ephemeralContainers"] {
            for container in objects(spec.get_mut(list)) {
                struct_field(container, "resources");
            }
        }
        for volume in objects(spec.get_mut("volumes")) {
            let claim = volume
                .get_mut("ephemeral")
                .and_then(|source| source.get_mut("volumeClaimTemplate"))
                .and_then(Value::as_object_mut);
            if let Some(claim) = claim {
                struct_field(claim, "metadata");
                if let Some(spec) = struct_field(claim, "spec") {
                    struct_field(spec, "resources");
                }
            }
        }
    }
    template
}

/// A field that holds an object, which is put there when it is absent.
fn struct_field<'a>(
    fields: &'a mut Map<String, Value>,
    name: &str,
) -> Option<&'a mut Map<String, Value>> {
    fields
        .entry(name)
        .or_insert_with(|| Value::Object(Map::new()))
        .as_object_mut()
}

fn objects(list: Option<&mut Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    let items = list.and_then(Value::as_array_mut).into_iter().flatten();
    items.filter_map(Value::as_object_mut)
}

fn without_nulls(value: &Value) -> Value {
    match value {
        Value::Object(fields) => Value::Object(
            fields
                .iter()
                .filter(|(_, field)| !field.is_null())
                .map(|(name, field)| (name.clone(), without_nulls(field)))
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(without_nulls).collect()),
        other => other.clone(),
    }
}

/// JSON as Go's `encoding/json` writes a tree of maps.
pub(crate) fn go_json(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::Number(number) => write_number(number, out),
        Value::String(text) => write_text(text, out),
        Value::Array(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Object(fields) => {
            // the order of bytes, which is that of Go, whatever the map's own is
            let mut names: Vec<&String> = fields.keys().collect();
            names.sort_unstable();
            out.push('{');
            for (at, name) in names.into_iter().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                write_text(name, out);
                out.push(':');
                if let Some(field) = fields.get(name) {
                    write(field, out);
                }
            }
            out.push('}');
        }
    }
}

/// Numbers go through a 64-bit float, whose shortest form without an exponent is written.
fn write_number(number: &serde_json::Number, out: &mut String) {
    /// Integers up to this are exact floats.
    const EXACT: u64 = 1 << 53;
    let written = match (number.as_i64(), number.as_f64()) {
        (Some(whole), _) if whole.unsigned_abs() <= EXACT => write!(out, "{whole}"),
        (_, Some(float)) => write!(out, "{float}"),
        _ => write!(out, "{number}"),
    };
    debug_assert!(written.is_ok(), "a String takes everything");
}

fn write_text(text: &str, out: &mut String) {
    let quoted = Value::from(text).to_string();
    for character in quoted.chars() {
        match character {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;
    use crate::hash::revision_hash;
    use crate::history::revision_name;

    /// Revisions that kube-controller-manager 1.36 made, with the templates that the API
    /// server served.
    #[derive(Deserialize)]
    struct Recorded {
        revisions: Vec<RecordedRevision>,
    }

    #[derive(Deserialize)]
    struct RecordedRevision {
        kind: String,
        owner: String,
        name: String,
        labels: std::collections::BTreeMap<String, String>,
        template: Value,
        data: String,
    }

    fn recorded() -> Vec<RecordedRevision> {
        let all: Recorded =
            serde_json::from_str(include_str!("kube_controller_manager.json")).unwrap();
        assert!(all.revisions.len() >= 9);
        all.revisions
    }

    #[test]
    fn data_of_revisions_equals_that_of_kube_controller_manager() {
        for revision in recorded() {
            assert_eq!(
                patch(&revision.template),
                revision.data,
                "{}",
                revision.name
            );
            let parsed: Value = serde_json::from_str(&revision.data).unwrap();
            assert_eq!(go_json(&parsed), revision.data, "{}", revision.name);
        }
    }

    #[test]
    fn names_of_statefulset_revisions_equal_those_of_kube_controller_manager() {
        for revision in recorded() {
            if revision.kind == "StatefulSet" {
                let hash = revision_hash(&patch(&revision.template), 0);
                assert_eq!(hash, revision.labels[crate::history::HASH_LABEL]);
                assert_eq!(revision_name(&revision.owner, &hash), revision.name);
            }
        }
    }

    #[test]
    fn fields_that_a_server_leaves_out_do_not_change_the_data() {
        let bare = json!({"metadata": {"creationTimestamp": null},
            "spec": {"containers": [{"name": "c"}]}});
        let full =
            json!({"metadata": {}, "spec": {"containers": [{"name": "c", "resources": {}}]}});
        assert_eq!(patch(&bare), patch(&full));
        let ephemeral = |claim: Value| json!({"spec": {"volumes": [{"name": "v", "ephemeral": {"volumeClaimTemplate": claim}}]}});
        assert_eq!(
            patch(&ephemeral(json!({"spec": {}}))),
            patch(&ephemeral(
                json!({"metadata": {}, "spec": {"resources": {}}})
            ))
        );
    }

    #[test]
    fn revision_of_an_older_server_gets_the_defaults_of_today() {
        for revision in recorded() {
            let template = with_defaults(&revision.kind, &revision.template);
            assert_eq!(patch(&template), revision.data, "{}", revision.name);
            let mut old = revision.template.clone();
            old["spec"].as_object_mut().unwrap().remove("dnsPolicy");
            old["metadata"]["creationTimestamp"] = Value::Null;
            if revision.template["spec"]["dnsPolicy"] == "ClusterFirst" {
                assert_ne!(patch(&old), revision.data);
                let template = with_defaults(&revision.kind, &old);
                assert_eq!(patch(&template), revision.data, "{}", revision.name);
            }
        }
    }

    #[test]
    fn large_integers_are_rounded_to_floats() {
        let numbers = json!([0, -7, 9_007_199_254_740_995_i64, 1.5, i64::MAX]);
        assert_eq!(
            go_json(&numbers),
            "[0,-7,9007199254740996,1.5,9223372036854776000]"
        );
    }
}
