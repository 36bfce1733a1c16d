//! `Role` and `ClusterRole`: what may be done.

use control_types::value::Value;

use crate::error::{Errors, Path};
use crate::generic::PLAIN;
use crate::rules::{collect, labels, meta, names};
use crate::tree::Read;
use crate::{FieldError, Kind};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(crate) static ROLE: Kind = Kind {
    group: GROUP,
    kind: "Role",
    namespaced: Some(true),
    validate_create: |object| collect(|errors| role(object, errors)),
    validate_update: |new, old| {
        collect(|errors| {
            role(new, errors);
            meta::update(new, old, errors);
        })
    },
    allow_create_on_update: true,
    allow_unconditional_update: true,
    ..PLAIN
};

pub(crate) static CLUSTER_ROLE: Kind = Kind {
    group: GROUP,
    kind: "ClusterRole",
    namespaced: Some(false),
    validate_create: |object| collect(|errors| cluster_role(object, errors)),
    validate_update,
    allow_create_on_update: true,
    allow_unconditional_update: true,
    ..PLAIN
};

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        cluster_role(new, errors);
        meta::update(new, old, errors);
    })
}

fn role(object: &Value, errors: &mut Errors) {
    meta::validate(object, Some(true), names::segment_name, errors);
    rules(object, true, errors);
}

fn cluster_role(object: &Value, errors: &mut Errors) {
    meta::validate(object, Some(false), names::segment_name, errors);
    rules(object, false, errors);
    if !object.has("aggregationRule") {
        return;
    }
    let at = Path::new("aggregationRule.clusterRoleSelectors");
    let selectors = object.at("aggregationRule").items("clusterRoleSelectors");
    if selectors.is_empty() {
        errors.required(
            &at,
            "at least one clusterRoleSelector required if aggregationRule is non-nil",
        );
    }
    for (i, selector) in selectors.iter().enumerate() {
        let at = at.index(i);
        let before = errors.len();
        labels::selector(selector, &at, errors);
        if errors.len() > before {
            errors.invalid(&at, Value::Null, "invalid label selector.");
        }
    }
}

fn rules(object: &Value, namespaced: bool, errors: &mut Errors) {
    let all = Path::new("rules");
    for (i, rule) in object.items("rules").iter().enumerate() {
        let at = all.index(i);
        if rule.items("verbs").is_empty() {
            errors.required(&at.child("verbs"), "verbs must contain at least one value");
        }
        let urls = rule.at("nonResourceURLs");
        if !rule.items("nonResourceURLs").is_empty() {
            let at = at.child("nonResourceURLs");
            if namespaced {
                errors.invalid(
                    &at,
                    urls.clone(),
                    "namespaced rules cannot apply to non-resource URLs",
                );
            }
            let lists = ["apiGroups", "resources", "resourceNames"];
            if lists.iter().any(|list| !rule.items(list).is_empty()) {
                errors.invalid(
                    &at,
                    urls.clone(),
                    "rules cannot apply to both regular resources and non-resource URLs",
                );
            }
            continue;
        }
        if rule.items("apiGroups").is_empty() {
            errors.required(
                &at.child("apiGroups"),
                "resource rules must supply at least one api group",
            );
        }
        if rule.items("resources").is_empty() {
            errors.required(
                &at.child("resources"),
                "resource rules must supply at least one resource",
            );
        }
    }
}
