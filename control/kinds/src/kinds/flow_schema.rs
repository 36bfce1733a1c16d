//! `FlowSchema`: which requests share a priority level.

use control_types::value;
use control_types::value::Value;

use crate::error::{Errors, Path};
use crate::generic::{self, DEFAULT};
use crate::rules::{collect, meta, names};
use crate::table::{Timestamp, age, columns, name};
use crate::tree::{Read, Write};
use crate::{FieldError, Kind};

const HIGHEST: i64 = 10_000;
const VERBS: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "proxy",
    "update",
    "watch",
];

pub(crate) static KIND: Kind = Kind {
    group: "flowcontrol.apiserver.k8s.io",
    kind: "FlowSchema",
    namespaced: Some(false),
    default: |object| object.make("spec").zero("matchingPrecedence", 1000),
    prepare_create: generic::first_generation_no_status,
    prepare_status_update: generic::update_status_keep_metadata,
    validate_create: |object| collect(|errors| check(object, errors)),
    validate_update: |new, _| collect(|errors| check(new, errors)),
    validate_status_update: |new, _| check_status(new),
    allow_unconditional_update: true,
    columns: columns::FLOW_SCHEMA,
    row,
    ..DEFAULT
};

/// Conditions of a flow object's status: each has a type, once.
pub(super) fn check_status(object: &Value) -> Vec<FieldError> {
    collect(|errors| {
        let all = Path::new("status.conditions");
        let conditions = object.at("status").items("conditions");
        for (i, condition) in conditions.iter().enumerate() {
            let at = all.index(i);
            let of = condition.text("type");
            if conditions
                .iter()
                .take(i)
                .any(|other| other.text("type") == of)
            {
                errors.duplicate(&at.child("type"), of);
            }
            if of.is_empty() {
                errors.required(&at.child("type"), "");
            }
        }
    })
}

fn check(object: &Value, errors: &mut Errors) {
    meta::validate(object, Some(false), names::subdomain_name, errors);
    let (spec, at) = (object.at("spec"), Path::new("spec"));
    let own = object.at("metadata").text("name");
    let precedence = spec.num("matchingPrecedence");
    let precedence_at = at.child("matchingPrecedence");
    if precedence <= 0 {
        errors.invalid(&precedence_at, precedence, "must be a positive value");
    }
    if precedence > HIGHEST {
        let why = format!("must not be greater than {HIGHEST}");
        errors.invalid(&precedence_at, precedence, why);
    }
    if precedence == 1 && own != "exempt" {
        errors.invalid(
            &precedence_at,
            precedence,
            "only the schema named 'exempt' may have matchingPrecedence 1",
        );
    }
    let method = spec.at("distinguisherMethod");
    if !method.is_null() && !matches!(method.text("type"), "ByNamespace" | "ByUser") {
        errors.not_supported(
            &at.child("distinguisherMethod").child("type"),
            // shown as the structure in Go
            value!({"Type": (method.text("type"))}),
            &["ByNamespace", "ByUser"],
        );
    }
    let level = spec.at("priorityLevelConfiguration").text("name");
    let level_at = at.child("priorityLevelConfiguration");
    if level.is_empty() {
        errors.required(&level_at.child("name"), "must reference a priority level");
    } else {
        errors.invalid_each(&level_at.child("name"), level, names::dns_subdomain(level));
    }
    let all = at.child("rules");
    for (i, rule) in spec.items("rules").iter().enumerate() {
        check_rule(rule, &all.index(i), errors);
    }
    if mandatory(own).is_some_and(|fixed| fixed != *spec) {
        let why = format!("spec of '{own}' must equal the fixed value");
        errors.invalid(&at, spec.clone(), why);
    }
}

/// The spec of a schema that must be there as the server makes it.
fn mandatory(name: &str) -> Option<Value> {
    let rule = |groups: &[&str]| {
        let subjects = groups
            .iter()
            .map(|group| value!({"kind": "Group", "group": {"name": (*group)}}));
        value!({
            "subjects": (subjects.collect::<Vec<Value>>()),
            "resourceRules": [{
                "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"],
                "clusterScope": true, "namespaces": ["*"]
            }],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}]
        })
    };
    match name {
        "exempt" => Some(value!({
            "priorityLevelConfiguration": {"name": "exempt"},
            "matchingPrecedence": 1,
            "rules": [(rule(&["system:masters"]))]
        })),
        "catch-all" => Some(value!({
            "priorityLevelConfiguration": {"name": "catch-all"},
            "matchingPrecedence": 10000,
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [(rule(&["system:unauthenticated", "system:authenticated"]))]
        })),
        _ => None,
    }
}

fn check_rule(rule: &Value, at: &Path<'_>, errors: &mut Errors) {
    let subjects_at = at.child("subjects");
    let subjects = rule.items("subjects");
    if subjects.is_empty() {
        errors.required(&subjects_at, "subjects must contain at least one value");
    }
    for (i, subject) in subjects.iter().enumerate() {
        check_subject(subject, &subjects_at.index(i), errors);
    }
    let (resources, urls) = (rule.items("resourceRules"), rule.items("nonResourceRules"));
    if resources.is_empty() && urls.is_empty() {
        errors.required(
            at,
            "at least one of resourceRules and nonResourceRules has to be non-empty",
        );
    }
    let all = at.child("resourceRules");
    for (i, rule) in resources.iter().enumerate() {
        check_resources(rule, &all.index(i), errors);
    }
    let all = at.child("nonResourceRules");
    for (i, rule) in urls.iter().enumerate() {
        let at = all.index(i);
        check_verbs(rule, &at, errors);
        let list = texts(rule, "nonResourceURLs");
        let at = at.child("nonResourceURLs");
        if list.is_empty() {
            errors.required(&at, "nonResourceURLs must contain at least one value");
        } else if list.contains(&"*") {
            alone(rule, "nonResourceURLs", "non-resource URLs", &at, errors);
        } else {
            for (i, url) in list.into_iter().enumerate() {
                check_url(url, &at.index(i), errors);
            }
        }
    }
}

fn texts<'a>(owner: &'a Value, field: &str) -> Vec<&'a str> {
    owner.items(field).iter().map(Read::as_text).collect()
}

fn alone(owner: &Value, field: &str, others: &str, at: &Path<'_>, errors: &mut Errors) {
    if owner.items(field).len() > 1 && texts(owner, field).contains(&"*") {
        let why = format!("if '*' is present, must not specify other {others}");
        errors.invalid(at, owner.at(field).clone(), why);
    }
}

fn check_verbs(rule: &Value, at: &Path<'_>, errors: &mut Errors) {
    let at = at.child("verbs");
    let verbs = texts(rule, "verbs");
    if verbs.is_empty() {
        errors.required(&at, "verbs must contain at least one value");
    } else if verbs.contains(&"*") {
        alone(rule, "verbs", "verbs", &at, errors);
    } else if !verbs.iter().all(|verb| VERBS.contains(verb)) {
        errors.not_supported(&at, rule.at("verbs").clone(), VERBS);
    }
}

fn check_resources(rule: &Value, at: &Path<'_>, errors: &mut Errors) {
    check_verbs(rule, at, errors);
    for (field, what, others) in [
        ("apiGroups", "api group", "api groups"),
        ("resources", "resource", "resources"),
    ] {
        let at = at.child(field);
        if rule.items(field).is_empty() {
            let why = format!("resource rules must supply at least one {what}");
            errors.required(&at, why);
        }
        alone(rule, field, others, &at, errors);
    }
    let at = at.child("namespaces");
    let namespaces = texts(rule, "namespaces");
    if namespaces.is_empty() && !rule.flag("clusterScope") {
        errors.required(
            &at,
            "resource rules that are not cluster scoped must supply at least one namespace",
        );
    } else if namespaces.contains(&"*") {
        alone(rule, "namespaces", "namespaces", &at, errors);
    } else {
        for (i, namespace) in namespaces.into_iter().enumerate() {
            for message in names::dns_label(namespace) {
                let why =
                    format!("each member of this list must be '*' or a DNS-1123 label; {message}");
                errors.invalid(&at.index(i), namespace, why);
            }
        }
    }
}

fn check_url(url: &str, at: &Path<'_>, errors: &mut Errors) {
    let stars = url.matches('*').count();
    let why = if url.is_empty() {
        "must not be empty"
    } else if url == "/" {
        return;
    } else if !url.starts_with('/') {
        "must start with slash"
    } else if url.contains(' ') {
        "must not contain white-space"
    } else if url.contains("//") {
        "must not contain double slash"
    } else if stars > 1 || (stars == 1 && !url.ends_with("/*")) {
        "wildcard can only do suffix matching"
    } else {
        return;
    };
    errors.invalid(at, url, why);
}

fn check_subject(subject: &Value, at: &Path<'_>, errors: &mut Errors) {
    const KINDS: [(&str, &str); 3] = [
        ("ServiceAccount", "serviceAccount"),
        ("User", "user"),
        ("Group", "group"),
    ];
    let kind = subject.text("kind");
    let Some((_, own)) = KINDS.iter().find(|(known, _)| *known == kind) else {
        let known = &["Group", "ServiceAccount", "User"];
        errors.not_supported(&at.child("kind"), kind, known);
        return;
    };
    let own_at = at.child(own);
    let inner = subject.at(own);
    if inner.is_null() {
        errors.required(
            &own_at,
            format!("{own} is required when subject kind is '{kind}'"),
        );
    } else {
        let name = inner.text("name");
        if name.is_empty() {
            errors.required(&own_at.child("name"), "");
        } else if *own == "serviceAccount" && name != "*" {
            errors.invalid_each(&own_at.child("name"), name, names::dns_subdomain(name));
        }
        if *own == "serviceAccount" {
            let (namespace, at) = (inner.text("namespace"), own_at.child("namespace"));
            if namespace.is_empty() {
                errors.required(&at, "must specify namespace for service account");
            } else {
                errors.invalid_each(&at, namespace, names::dns_label(namespace));
            }
        }
    }
    for (other_kind, other) in KINDS.iter().filter(|(known, _)| *known != kind) {
        if subject.has(other) {
            let why = format!("{other} is forbidden when subject kind is not '{other_kind}'");
            errors.forbidden(&at.child(other), why);
        }
    }
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = object.at("spec");
    let method = spec.at("distinguisherMethod");
    let dangling = object
        .at("status")
        .items("conditions")
        .iter()
        .find(|condition| condition.text("type") == "Dangling")
        .map_or("?", |condition| condition.text("status"));
    vec![
        name(object),
        spec.at("priorityLevelConfiguration").text("name").into(),
        spec.num("matchingPrecedence").into(),
        if method.is_null() {
            "<none>".into()
        } else {
            method.text("type").into()
        },
        age(object, now),
        dangling.into(),
    ]
}
