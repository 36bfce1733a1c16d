//! `ValidatingAdmissionPolicyBinding` and `MutatingAdmissionPolicyBinding`: where
//! a policy holds, and with which parameters.

use control_types::value::Value;

use crate::Kind;
use crate::error::{Errors, Path};
use crate::generic::{self, PLAIN};
use crate::rules::{collect, labels, matching, meta, names, one_of};
use crate::table::{Timestamp, age, columns, name};
use crate::tree::{Read, Write};

const GROUP: &str = "admissionregistration.k8s.io";

pub(crate) static VALIDATING: Kind = Kind {
    group: GROUP,
    kind: "ValidatingAdmissionPolicyBinding",
    namespaced: Some(false),
    default,
    prepare_create: generic::generation_one,
    prepare_update,
    validate_create: |object| collect(|errors| validating(object, errors)),
    validate_update: |new, _| collect(|errors| validating(new, errors)),
    columns: columns::VALIDATING_ADMISSION_POLICY_BINDING,
    row,
    ..PLAIN
};

pub(crate) static MUTATING: Kind = Kind {
    group: GROUP,
    kind: "MutatingAdmissionPolicyBinding",
    namespaced: Some(false),
    default,
    prepare_create: generic::generation_one,
    prepare_update,
    validate_create: |object| collect(|errors| mutating(object, errors)),
    validate_update: |new, _| collect(|errors| mutating(new, errors)),
    columns: columns::MUTATING_ADMISSION_POLICY_BINDING,
    row,
    ..PLAIN
};

fn default(object: &mut Value) {
    if let Some(spec) = object.there("spec") {
        matching::default_resources(spec.there("matchResources"));
    }
}

fn prepare_update(new: &mut Value, old: &Value) {
    generic::raise_generation_on(new, old, &["spec"]);
}

fn common(object: &Value, errors: &mut Errors) {
    meta::validate(object, Some(false), names::subdomain_name, errors);
    let (spec, at) = (object.at("spec"), Path::new("spec"));
    let policy = spec.text("policyName");
    if policy.is_empty() {
        errors.required(&at.child("policyName"), "");
    } else {
        errors.invalid_each(
            &at.child("policyName"),
            policy,
            names::dns_subdomain(policy),
        );
    }
    if spec.has("paramRef") {
        check_parameters(spec.at("paramRef"), &at.child("paramRef"), errors);
    }
    if spec.has("matchResources") {
        matching::match_resources(
            spec.at("matchResources"),
            &at.child("matchResources"),
            errors,
        );
    }
}

fn check_parameters(reference: &Value, at: &Path<'_>, errors: &mut Errors) {
    let exclusive = "name and selector are mutually exclusive";
    let (name, selector) = (reference.text("name"), reference.has("selector"));
    if !name.is_empty() {
        errors.invalid_each(&at.child("name"), name, names::segment_name(name, false));
        if selector {
            errors.forbidden(&at.child("name"), exclusive);
        }
    }
    if selector {
        labels::selector(reference.at("selector"), &at.child("selector"), errors);
        if !name.is_empty() {
            errors.forbidden(&at.child("selector"), exclusive);
        }
    }
    if name.is_empty() && !selector {
        errors.required(at, "one of name or selector must be specified");
    }
    let action = reference.text("parameterNotFoundAction");
    let action_at = at.child("parameterNotFoundAction");
    if action.is_empty() {
        errors.required(&action_at, "");
    } else if !matches!(action, "Deny" | "Allow") {
        errors.not_supported(&action_at, action, &["Deny", "Allow"]);
    }
}

fn validating(object: &Value, errors: &mut Errors) {
    common(object, errors);
    let all = Path::new("spec.validationActions");
    let list = object.at("spec").items("validationActions");
    let actions: Vec<&str> = list.iter().map(Read::as_text).collect();
    for (i, action) in actions.iter().enumerate() {
        one_of(action, &["Audit", "Deny", "Warn"], &all.index(i), errors);
        if actions.iter().take(i).any(|other| other == action) {
            errors.duplicate(&all.index(i), *action);
        }
    }
    if actions.contains(&"Deny") && actions.contains(&"Warn") {
        errors.invalid(
            &all,
            object.at("spec").at("validationActions").clone(),
            "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)",
        );
    }
    if actions.is_empty() {
        errors.required(&all, "at least one validation action is required");
    }
}

fn mutating(object: &Value, errors: &mut Errors) {
    common(object, errors);
    let spec = object.at("spec");
    matching::only_writes(
        spec.at("matchResources"),
        &Path::new("spec.matchResources"),
        errors,
    );
}

/// Prints a selector as Go prints the struct, which is what the column shows.
fn go_selector(selector: &Value) -> String {
    let mut out = "&LabelSelector{MatchLabels:map[string]string{".to_owned();
    for (key, value) in selector.entries("matchLabels") {
        out.push_str(&format!("{key}: {},", value.as_text()));
    }
    out.push_str("},MatchExpressions:[]LabelSelectorRequirement{");
    for requirement in selector.items("matchExpressions") {
        let values: Vec<&str> = requirement
            .items("values")
            .iter()
            .map(Read::as_text)
            .collect();
        out.push_str(&format!(
            "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
            requirement.text("key"),
            requirement.text("operator"),
            values.join(" ")
        ));
    }
    out.push_str("},}");
    out
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let spec = object.at("spec");
    let reference = spec.at("paramRef");
    let shown = match (reference.text("name"), reference.text("namespace")) {
        ("", _) if reference.has("selector") => go_selector(reference.at("selector")),
        ("", _) => "<unset>".to_owned(),
        (name, "") => format!("*/{name}"),
        (name, namespace) => format!("{namespace}/{name}"),
    };
    vec![
        name(object),
        spec.text("policyName").into(),
        shown.into(),
        age(object, now),
    ]
}
