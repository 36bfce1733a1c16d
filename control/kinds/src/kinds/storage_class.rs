//! `StorageClass`: how claims get their volumes.

use control_types::value::Value;

use crate::error::{Errors, Path};
use crate::generic::PLAIN;
use crate::rules::{collect, immutable, meta, names, node_labels, one_of, volume_spec};
use crate::table::{Timestamp, age, columns};
use crate::tree::{Read, Write, same};
use crate::{FieldError, Kind};

pub(crate) static KIND: Kind = Kind {
    group: "storage.k8s.io",
    kind: "StorageClass",
    namespaced: Some(false),
    default: |object| {
        object.absent("reclaimPolicy", "Delete");
        object.absent("volumeBindingMode", "Immediate");
    },
    validate_create: |object| collect(|errors| check(object, errors)),
    validate_update,
    warnings,
    columns: columns::STORAGE_CLASS,
    row,
    allow_unconditional_update: true,
    ..PLAIN
};

/// The name of a provisioner or driver.
pub(crate) fn provisioner(text: &str, at: &Path<'_>, errors: &mut Errors) {
    if text.is_empty() {
        errors.required(at, "");
    } else {
        errors.invalid_each(
            at,
            &text.to_lowercase(),
            names::qualified(&text.to_lowercase()),
        );
    }
}

fn check(object: &Value, errors: &mut Errors) {
    meta::validate(object, Some(false), names::subdomain_name, errors);
    provisioner(
        object.text("provisioner"),
        &Path::new("provisioner"),
        errors,
    );
    volume_spec::parameters(
        object.at("parameters"),
        true,
        &Path::new("parameters"),
        errors,
    );
    let policy = object.text("reclaimPolicy");
    if !policy.is_empty() {
        one_of(
            policy,
            &["Delete", "Retain"],
            &Path::new("reclaimPolicy"),
            errors,
        );
    }
    one_of(
        object.text("volumeBindingMode"),
        &["Immediate", "WaitForFirstConsumer"],
        &Path::new("volumeBindingMode"),
        errors,
    );
    let all = Path::new("allowedTopologies");
    let terms = object.items("allowedTopologies");
    for (i, term) in terms.iter().enumerate() {
        volume_spec::topology_term(term, &all.index(i), errors);
        // an empty term counts as repeated by every term
        let empty = term.items("matchLabelExpressions").is_empty();
        let earlier = terms.iter().take(i).filter(|other| same(other, term));
        for _ in 0..earlier.count() + if empty { terms.len() } else { 0 } {
            errors.duplicate(&all.index(i).child("matchLabelExpressions"), "");
        }
    }
}

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        check(new, errors);
        meta::update(new, old, errors);
        for field in [
            "parameters",
            "provisioner",
            "reclaimPolicy",
            "volumeBindingMode",
        ] {
            immutable(new.at(field), old.at(field), &Path::new(field), errors);
        }
    })
}

fn warnings(object: &Value, _old: Option<&Value>) -> Vec<String> {
    let all = Path::new("allowedTopologies");
    let mut out = Vec::new();
    for (i, term) in object.items("allowedTopologies").iter().enumerate() {
        let at = all.index(i);
        let list = at.child("matchLabelExpressions");
        for (j, requirement) in term.items("matchLabelExpressions").iter().enumerate() {
            if let Some(why) = node_labels::deprecated(requirement.text("key")) {
                out.push(format!("{}: {why}", list.index(j).child("key")));
            }
        }
    }
    out
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let meta = object.at("metadata");
    let mut name = meta.text("name").to_owned();
    let marks = [
        "storageclass.kubernetes.io/is-default-class",
        "storageclass.beta.kubernetes.io/is-default-class",
    ];
    if marks
        .iter()
        .any(|mark| meta.at("annotations").text(mark) == "true")
    {
        name.push_str(" (default)");
    }
    vec![
        name.into(),
        object.text("provisioner").into(),
        object.text("reclaimPolicy").into(),
        object.text("volumeBindingMode").into(),
        object.flag("allowVolumeExpansion").into(),
        age(object, now),
    ]
}
