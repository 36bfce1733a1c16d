//! Specs of persistent volume claims, on their own and in templates.

use control_types::value::Value;

use super::{labels, meta, names, one_of, pod_warnings, quantity, resources};
use crate::error::{Errors, Path};
use crate::tree::Read;

pub(crate) const ACCESS_MODES: &[&str] = &[
    "ReadOnlyMany",
    "ReadWriteMany",
    "ReadWriteOnce",
    "ReadWriteOncePod",
];

/// A template inside a pod's volume.
pub(crate) fn template(template: &Value, at: &Path<'_>, errors: &mut Errors) {
    let meta_at = at.child("metadata");
    let metadata = template.at("metadata");
    meta::annotations(
        metadata.at("annotations"),
        &meta_at.child("annotations"),
        errors,
    );
    labels::labels(metadata.at("labels"), &meta_at.child("labels"), errors);
    for field in [
        "name",
        "generateName",
        "namespace",
        "ownerReferences",
        "finalizers",
    ] {
        if metadata.has(field) {
            errors.forbidden(&meta_at.child(field), "cannot be set");
        }
    }
    spec(template.at("spec"), &at.child("spec"), errors);
}

/// `spec` of a claim.
pub(crate) fn spec(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let modes = spec.items("accessModes");
    let modes_at = at.child("accessModes");
    if modes.is_empty() {
        errors.required(&modes_at, "at least 1 access mode is required");
    }
    labels::selector(spec.at("selector"), &at.child("selector"), errors);
    for mode in modes.iter().map(Read::as_text) {
        one_of(mode, ACCESS_MODES, &modes_at, errors);
    }
    if modes.len() > 1 && modes.iter().any(|m| m.as_text() == "ReadWriteOncePod") {
        errors.forbidden(
            &modes_at,
            "may not use ReadWriteOncePod with other access modes",
        );
    }
    let storage = at.child("resources").to_string();
    let storage = Path::new(&storage);
    let storage = storage.key("storage");
    match spec.at("resources").at("requests").get("storage") {
        None => errors.required(&storage, ""),
        Some(amount) => {
            if quantity::to_nanos(amount) <= 0 {
                errors.invalid(
                    &storage,
                    resources::shown(amount),
                    "must be greater than zero",
                );
            }
        }
    }
    for field in ["storageClassName", "volumeAttributesClassName"] {
        let name = spec.text(field);
        if !name.is_empty() {
            errors.invalid_each(&at.child(field), name, names::dns_subdomain(name));
        }
    }
    if spec.has("volumeMode") {
        one_of(
            spec.text("volumeMode"),
            &["Block", "Filesystem"],
            &at.child("volumeMode"),
            errors,
        );
    }
    for field in ["dataSource", "dataSourceRef"] {
        let source = spec.at(field);
        if source.is_null() {
            continue;
        }
        let at = at.child(field);
        for part in ["name", "kind"] {
            if source.text(part).is_empty() {
                errors.required(&at.child(part), "");
            }
        }
        if source.text("apiGroup").is_empty() && source.text("kind") != "PersistentVolumeClaim" {
            errors.invalid(
                &at,
                source.text("kind"),
                "must be 'PersistentVolumeClaim' when referencing the default apiGroup",
            );
        }
        let group = source.text("apiGroup");
        if !group.is_empty() {
            errors.invalid_each(&at.child("apiGroup"), group, names::dns_subdomain(group));
        }
        let namespace = source.text("namespace");
        if !namespace.is_empty() {
            errors.invalid_each(
                &at.child("namespace"),
                namespace,
                names::dns_label(namespace),
            );
        }
    }
    sources(spec, at, errors);
}

/// Both ways to name a source must name the same one; one of another namespace has only
/// the second.
fn sources(spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (source, reference) = (spec.at("dataSource"), spec.at("dataSourceRef"));
    if source.is_null() || reference.is_null() {
        return;
    }
    // Upstream shows the path of the field here, which it cannot print.
    let shown = Value::object();
    if !reference.text("namespace").is_empty() {
        let why = "may not be specified when dataSourceRef.namespace is specified";
        errors.invalid(at, shown, why);
        return;
    }
    let is_same = source.at("apiGroup") == reference.at("apiGroup")
        && source.text("kind") == reference.text("kind")
        && source.text("name") == reference.text("name");
    if !is_same {
        errors.invalid(at, shown, "must match dataSourceRef");
    }
}

/// Warnings for the spec of a claim.
pub(crate) fn warnings(spec: &Value, at: &Path<'_>, out: &mut Vec<String>) {
    let at = at.child("resources");
    for list in ["requests", "limits"] {
        pod_warnings::fraction(
            spec.at("resources").at(list),
            "storage",
            &at.child(list),
            out,
        );
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn both_ways_to_name_a_source_agree() {
        let source = |name: &str| value!({"kind": "PersistentVolumeClaim", "name": name});
        let told = |source: Value, reference: Value| {
            let spec = value!({"dataSource": source, "dataSourceRef": reference});
            let mut errors = Errors::new();
            sources(&spec, &Path::new("spec"), &mut errors);
            let errors = errors.into_vec().into_iter();
            let told: Vec<String> = errors.map(|error| error.detail).collect();
            told.join("; ")
        };
        assert_eq!(told(source("a"), source("a")), "");
        assert_eq!(told(source("a"), Value::Null), "");
        assert_eq!(told(Value::Null, source("a")), "");
        let other = told(source("a"), source("b"));
        assert!(other.contains("must match dataSourceRef"), "{other}");
        let mut elsewhere = source("a");
        elsewhere.insert("namespace", "n");
        let elsewhere = told(source("a"), elsewhere);
        assert!(
            elsewhere.contains("may not be specified when dataSourceRef.namespace is specified"),
            "{elsewhere}"
        );
    }
}
