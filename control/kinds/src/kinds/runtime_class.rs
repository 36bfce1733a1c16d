//! `RuntimeClass`: which of a node's runtimes runs a pod.

use control_types::value;
use control_types::value::Value;

use crate::error::{Errors, Path};
use crate::generic::PLAIN;
use crate::rules::resources::{self, ResourcesOwner};
use crate::rules::{collect, immutable, labels, meta, names, node_labels, quantity, tolerations};
use crate::table::{Timestamp, age, columns, name};
use crate::tree::{Read, Write};
use crate::{FieldError, Kind};

pub(crate) static KIND: Kind = Kind {
    group: "node.k8s.io",
    kind: "RuntimeClass",
    namespaced: Some(false),
    default: |object| {
        if let Some(overhead) = object.there("overhead") {
            quantity::round_list_to_milli(overhead.there("podFixed"));
        }
    },
    validate_create: |object| collect(|errors| check(object, errors)),
    validate_update,
    warnings,
    columns: columns::RUNTIME_CLASS,
    row,
    allow_create_on_update: true,
    ..PLAIN
};

fn check(object: &Value, errors: &mut Errors) {
    meta::validate(object, Some(false), names::subdomain_name, errors);
    let (handler, at) = (object.text("handler"), Path::new("handler"));
    if handler.is_empty() {
        errors.required(&at, "");
    } else {
        errors.invalid_each(&at, handler, names::dns_label(handler));
    }
    if object.has("overhead") {
        let fixed = object.at("overhead").at("podFixed").clone();
        let limits = value!({ "limits": (fixed) });
        resources::requirements(
            &limits,
            &[],
            ResourcesOwner::Container,
            &Path::new("overhead"),
            errors,
        );
    }
    if object.has("scheduling") {
        let (scheduling, at) = (object.at("scheduling"), Path::new("scheduling"));
        labels::labels(
            scheduling.at("nodeSelector"),
            &at.child("nodeSelector"),
            errors,
        );
        let list = scheduling.items("tolerations");
        let at = at.child("tolerations");
        tolerations::tolerations(list, &at, errors);
        for (i, one) in list.iter().enumerate() {
            let again = |other: &Value| {
                ["key", "operator", "value", "effect"]
                    .iter()
                    .all(|field| other.text(field) == one.text(field))
            };
            if list.iter().take(i).any(again) {
                errors.duplicate(&at.index(i), one.clone());
            }
        }
    }
}

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        check(new, errors);
        meta::update(new, old, errors);
        immutable(
            new.at("handler"),
            old.at("handler"),
            &Path::new("handler"),
            errors,
        );
    })
}

/// Warns about deprecated node labels, which still work.
fn warnings(object: &Value, _old: Option<&Value>) -> Vec<String> {
    let at = Path::new("scheduling.nodeSelector");
    object
        .at("scheduling")
        .entries("nodeSelector")
        .filter_map(|(key, _)| Some(format!("{at}: {}", node_labels::deprecated(key)?)))
        .collect()
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        object.text("handler").into(),
        age(object, now),
    ]
}
