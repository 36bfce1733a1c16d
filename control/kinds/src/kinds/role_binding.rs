//! `RoleBinding` and `ClusterRoleBinding`: grant a role to subjects.

use control_types::value;
use control_types::value::Value;

use crate::error::{Errors, Path};
use crate::generic::PLAIN;
use crate::rules::{collect, meta, names};
use crate::table::{Timestamp, age, columns, name};
use crate::tree::{Read, Write, same};
use crate::{FieldError, Kind};

const GROUP: &str = "rbac.authorization.k8s.io";

pub(crate) static ROLE_BINDING: Kind = Kind {
    group: GROUP,
    kind: "RoleBinding",
    namespaced: Some(true),
    default,
    validate_create: |object| collect(|errors| check(object, true, errors)),
    validate_update: |new, old| validate_update(new, old, true),
    columns: columns::ROLE_BINDING,
    row,
    allow_create_on_update: true,
    allow_unconditional_update: true,
    ..PLAIN
};

pub(crate) static CLUSTER_ROLE_BINDING: Kind = Kind {
    kind: "ClusterRoleBinding",
    namespaced: Some(false),
    validate_create: |object| collect(|errors| check(object, false, errors)),
    validate_update: |new, old| validate_update(new, old, false),
    columns: columns::CLUSTER_ROLE_BINDING,
    group: GROUP,
    default,
    row,
    allow_create_on_update: true,
    allow_unconditional_update: true,
    ..PLAIN
};

fn default(object: &mut Value) {
    object.make("roleRef").blank("apiGroup", GROUP);
    for subject in object.items_mut("subjects") {
        if matches!(subject.text("kind"), "User" | "Group") {
            subject.blank("apiGroup", GROUP);
        }
    }
}

fn check(object: &Value, namespaced: bool, errors: &mut Errors) {
    meta::validate(object, Some(namespaced), names::segment_name, errors);
    let role = object.at("roleRef");
    let at = Path::new("roleRef");
    if role.text("apiGroup") != GROUP {
        errors.not_supported(&at.child("apiGroup"), role.text("apiGroup"), &[GROUP]);
    }
    let kinds: &[&str] = if namespaced {
        &["Role", "ClusterRole"]
    } else {
        &["ClusterRole"]
    };
    if !kinds.contains(&role.text("kind")) {
        errors.not_supported(&at.child("kind"), role.text("kind"), kinds);
    }
    let name = role.text("name");
    if name.is_empty() {
        errors.required(&at.child("name"), "");
    } else {
        errors.invalid_each(&at.child("name"), name, names::segment_name(name, false));
    }
    let all = Path::new("subjects");
    for (i, subject) in object.items("subjects").iter().enumerate() {
        check_subject(subject, namespaced, &all.index(i), errors);
    }
}

fn check_subject(subject: &Value, namespaced: bool, at: &Path<'_>, errors: &mut Errors) {
    let (name, group) = (subject.text("name"), subject.text("apiGroup"));
    if name.is_empty() {
        errors.required(&at.child("name"), "");
    }
    match subject.text("kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                errors.invalid_each(&at.child("name"), name, names::dns_subdomain(name));
            }
            if !group.is_empty() {
                errors.not_supported(&at.child("apiGroup"), group, &[""]);
            }
            if !namespaced && subject.text("namespace").is_empty() {
                errors.required(&at.child("namespace"), "");
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                errors.not_supported(&at.child("apiGroup"), group, &[GROUP]);
            }
        }
        other => errors.not_supported(
            &at.child("kind"),
            other,
            &["ServiceAccount", "User", "Group"],
        ),
    }
}

fn validate_update(new: &Value, old: &Value, namespaced: bool) -> Vec<FieldError> {
    collect(|errors| {
        check(new, namespaced, errors);
        meta::update(new, old, errors);
        if !same(new.at("roleRef"), old.at("roleRef")) {
            // Shown as the server's own struct, which has no names for JSON.
            let text = |key: &str| new.at("roleRef").text(key).to_owned();
            let shown = value!({
                "APIGroup": (text("apiGroup")),
                "Kind": (text("kind")),
                "Name": (text("name"))
            });
            errors.invalid(&Path::new("roleRef"), shown, "cannot change roleRef");
        }
    })
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let role = object.at("roleRef");
    let of = |kind: &str| {
        let all: Vec<String> = object
            .items("subjects")
            .iter()
            .filter(|subject| subject.text("kind") == kind)
            .map(|subject| match kind {
                "ServiceAccount" => {
                    format!("{}/{}", subject.text("namespace"), subject.text("name"))
                }
                _ => subject.text("name").to_owned(),
            })
            .collect();
        Value::from(all.join(", "))
    };
    vec![
        name(object),
        format!("{}/{}", role.text("kind"), role.text("name")).into(),
        age(object, now),
        of("User"),
        of("Group"),
        of("ServiceAccount"),
    ]
}
