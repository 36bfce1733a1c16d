//! `ResourceQuota`: limits for the sum over a namespace.

use control_types::value::Value;

use crate::error::{Errors, Path};
use crate::generic::{self, PLAIN};
use crate::rules::{collect, meta, names, quantity, resources};
use crate::table::{Timestamp, age, columns, name};
use crate::tree::{Read, Write};
use crate::{FieldError, Kind};

const SCOPES: &[&str] = &[
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
    "VolumeAttributesClass",
];
const COMPUTE: &[&str] = &[
    "cpu",
    "memory",
    "limits.cpu",
    "limits.memory",
    "requests.cpu",
    "requests.memory",
];
const COUNTED: &[&str] = &[
    "ephemeral-storage",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];

pub(crate) static KIND: Kind = Kind {
    group: "",
    kind: "ResourceQuota",
    namespaced: Some(true),
    default: |object| {
        if let Some(spec) = object.there("spec") {
            quantity::round_list_to_milli(spec.there("hard"));
        }
        if let Some(status) = object.there("status") {
            quantity::round_list_to_milli(status.there("hard"));
            quantity::round_list_to_milli(status.there("used"));
        }
    },
    prepare_create: generic::no_status,
    prepare_update: generic::keep_status,
    prepare_status_update: generic::update_status,
    validate_create: |object| {
        collect(|errors| {
            meta::validate(object, Some(true), names::subdomain_name, errors);
            check_spec(object.at("spec"), errors);
        })
    },
    validate_update,
    validate_status_update: |new, old| {
        collect(|errors| {
            meta::update(new, old, errors);
            for list in ["status.hard", "status.used"] {
                let field = list.trim_start_matches("status.");
                check_amounts(new.at("status"), field, &Path::new(list), errors);
            }
        })
    },
    warnings,
    columns: columns::RESOURCE_QUOTA,
    row,
    allow_unconditional_update: true,
    ..PLAIN
};

fn is_standard(name: &str) -> bool {
    COMPUTE.contains(&name)
        || COUNTED.contains(&name)
        || resources::is_hugepages(name)
        || name.starts_with("requests.hugepages-")
}

fn check_amounts(owner: &Value, field: &str, at: &Path<'_>, errors: &mut Errors) {
    for (name, amount) in owner.entries(field) {
        let at = at.key(name);
        resources::name(name, &at, errors);
        if !name.contains('/') && !is_standard(name) {
            errors.invalid(&at, name, "must be a standard resource for quota");
        }
        resources::amount(name, amount, &at, errors);
    }
}

/// Whether objects counted under `resource` can have the property `scope`.
fn applies(scope: &str, resource: &str) -> bool {
    match scope {
        "Terminating"
        | "NotTerminating"
        | "NotBestEffort"
        | "PriorityClass"
        | "CrossNamespacePodAffinity" => resource == "pods" || COMPUTE.contains(&resource),
        "BestEffort" => resource == "pods",
        "VolumeAttributesClass" => {
            matches!(resource, "persistentvolumeclaims" | "requests.storage")
        }
        _ => true,
    }
}

fn check_spec(spec: &Value, errors: &mut Errors) {
    check_amounts(spec, "hard", &Path::new("spec.hard"), errors);
    let mut hard: Vec<&str> = spec.entries("hard").map(|(name, _)| name).collect();
    hard.sort_unstable();
    let misfits = |scope: &str| {
        hard.iter()
            .filter(|name| is_standard(name) && !applies(scope, name))
            .count()
    };
    let scopes: Vec<&str> = spec.items("scopes").iter().map(Read::as_text).collect();
    let at = Path::new("spec.scopes");
    for scope in &scopes {
        if !SCOPES.contains(scope) {
            errors.invalid(&at, spec.at("scopes").clone(), "unsupported scope");
        }
        for _ in 0..misfits(scope) {
            errors.invalid(
                &at,
                spec.at("scopes").clone(),
                "unsupported scope applied to resource",
            );
        }
    }
    check_pairs(&scopes, spec, &at, errors);
    if !spec.has("scopeSelector") {
        return;
    }
    let at = Path::new("spec.scopeSelector.matchExpressions");
    let requirements = spec.at("scopeSelector").items("matchExpressions");
    for requirement in requirements {
        let scope = requirement.text("scopeName");
        if !SCOPES.contains(&scope) {
            errors.invalid(&at.child("scopeName"), scope, "unsupported scope");
        }
        for _ in 0..misfits(scope) {
            errors.invalid(
                &at,
                spec.at("scopeSelector").clone(),
                "unsupported scope applied to resource",
            );
        }
        check_operator(requirement, &at, errors);
    }
    let scopes: Vec<&str> = requirements.iter().map(|r| r.text("scopeName")).collect();
    check_pairs(&scopes, spec, &at, errors);
}

fn check_operator(requirement: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (scope, operator) = (requirement.text("scopeName"), requirement.text("operator"));
    if !matches!(scope, "PriorityClass" | "VolumeAttributesClass")
        && SCOPES.contains(&scope)
        && operator != "Exists"
    {
        errors.invalid(
            &at.child("operator"),
            operator,
            "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity",
        );
    }
    let values = requirement.items("values");
    match operator {
        "In" | "NotIn" if values.is_empty() => errors.required(
            &at.child("values"),
            "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector",
        ),
        "Exists" | "DoesNotExist" if !values.is_empty() => errors.invalid(
            &at.child("values"),
            requirement.at("values").clone(),
            "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
        ),
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => errors.invalid(
            &at.child("operator"),
            other,
            "not a valid selector operator",
        ),
    }
}

fn check_pairs(scopes: &[&str], spec: &Value, at: &Path<'_>, errors: &mut Errors) {
    for pair in [
        ["BestEffort", "NotBestEffort"],
        ["Terminating", "NotTerminating"],
    ] {
        if pair.iter().all(|scope| scopes.contains(scope)) {
            errors.invalid(at, spec.at("scopes").clone(), "conflicting scopes");
        }
    }
}

fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        check_spec(new.at("spec"), errors);
        let scopes = |object: &Value| {
            let mut all: Vec<String> = object
                .at("spec")
                .items("scopes")
                .iter()
                .map(|scope| scope.as_text().to_owned())
                .collect();
            all.sort_unstable();
            all.dedup();
            all
        };
        if scopes(new) != scopes(old) {
            errors.invalid(
                &Path::new("spec.scopes"),
                new.at("spec").at("scopes").clone(),
                "field is immutable",
            );
        }
    })
}

fn warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    if old.is_some() {
        return Vec::new();
    }
    let hard = object.at("spec").at("hard");
    let mut out = Vec::new();
    for resource in ["cpu", "memory", "ephemeral-storage"] {
        let mut asked = format!("requests.{resource}");
        if !hard.has(&asked) && resource != "ephemeral-storage" {
            resource.clone_into(&mut asked);
        }
        let limit = format!("limits.{resource}");
        let (request, most) = (hard.at(&asked), hard.at(&limit));
        if !request.is_null()
            && !most.is_null()
            && quantity::to_nanos(request) > quantity::to_nanos(most)
        {
            out.push(format!(
                "ResourceQuota {asked} ({}) should be less than {limit} ({})",
                resources::shown(request),
                resources::shown(most)
            ));
        }
    }
    out
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let status = object.at("status");
    let mut hard: Vec<(&str, &Value)> = status.entries("hard").collect();
    hard.sort_unstable_by_key(|(name, _)| *name);
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, most) in hard {
        let used = status.at("used").at(resource);
        let used = if used.is_null() {
            "0".to_owned()
        } else {
            resources::shown(used)
        };
        let text = format!("{resource}: {used}/{}", resources::shown(most));
        if resource.starts_with("limits.") {
            limits.push(text);
        } else {
            requests.push(text);
        }
    }
    vec![
        name(object),
        requests.join(", ").into(),
        limits.join(", ").into(),
        age(object, now),
    ]
}
