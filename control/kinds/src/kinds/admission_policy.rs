//! `ValidatingAdmissionPolicy` and `MutatingAdmissionPolicy`: rules in
//! expressions that the server evaluates itself.

use control_cel::Type;
use control_types::value::Value;

use crate::error::{Errors, Path};
use crate::generic::{self, DEFAULT};
use crate::rules::expressions::{self, Names};
use crate::rules::{collect, conditions, labels, matching, meta, names, one_of};
use crate::table::{Timestamp, age, columns, name};
use crate::tree::{Read, Write, same};
use crate::{FieldError, Kind};

const GROUP: &str = "admissionregistration.k8s.io";
const ANNOTATIONS: usize = 20;
const ANNOTATION_LENGTH: usize = 5 * 1024;

pub(crate) static VALIDATING: Kind = Kind {
    group: GROUP,
    kind: "ValidatingAdmissionPolicy",
    namespaced: Some(false),
    default,
    prepare_create: generic::first_generation_no_status,
    prepare_status_update: generic::update_status_keep_metadata,
    validate_create: |object| collect(|errors| validating(object, None, errors)),
    validate_update: |new, old| collect(|errors| validating(new, Some(old), errors)),
    validate_status_update,
    columns: columns::VALIDATING_ADMISSION_POLICY,
    row: |object, now| row(object, "validations", now),
    ..DEFAULT
};

pub(crate) static MUTATING: Kind = Kind {
    group: GROUP,
    kind: "MutatingAdmissionPolicy",
    namespaced: Some(false),
    default,
    prepare_create: generic::first_generation_no_status,
    validate_create: |object| collect(|errors| mutating(object, None, errors)),
    validate_update: |new, old| collect(|errors| mutating(new, Some(old), errors)),
    columns: columns::MUTATING_ADMISSION_POLICY,
    row: |object, now| row(object, "mutations", now),
    ..DEFAULT
};

fn default(object: &mut Value) {
    let spec = object.make("spec");
    spec.absent("failurePolicy", "Fail");
    matching::default_resources(spec.there("matchConstraints"));
}

/// Validates what both kinds have in common. Returns the names that the policy's
/// expressions may use.
fn common(object: &Value, old: Option<&Value>, errors: &mut Errors) -> Names {
    meta::validate(object, Some(false), names::subdomain_name, errors);
    let (spec, at) = (object.at("spec"), Path::new("spec"));
    let policies = &["Fail", "Ignore"];
    one_of(
        spec.text("failurePolicy"),
        policies,
        &at.child("failurePolicy"),
        errors,
    );
    let params = spec.has("paramKind");
    if params {
        matching::param_kind(spec.at("paramKind"), &at.child("paramKind"), errors);
    }
    let constraints_at = at.child("matchConstraints");
    if spec.has("matchConstraints") {
        let constraints = spec.at("matchConstraints");
        matching::match_resources(constraints, &constraints_at, errors);
        if constraints.items("resourceRules").is_empty() {
            errors.required(&constraints_at.child("resourceRules"), "");
        }
    } else {
        errors.required(&constraints_at, "");
    }
    let unchanged = |old: &Value| {
        ["paramKind", "matchConditions"]
            .iter()
            .all(|field| same(spec.at(field), old.at("spec").at(field)))
    };
    if !old.is_some_and(unchanged) {
        expressions::match_conditions(
            spec.items("matchConditions"),
            params,
            &at.child("matchConditions"),
            errors,
        );
    }
    let mut known = Names {
        params,
        authorizer: true,
        ..Names::default()
    };
    let all = at.child("variables");
    for (i, variable) in spec.items("variables").iter().enumerate() {
        let at = all.index(i);
        let name = variable.text("name");
        if name.trim().is_empty() {
            errors.required(&at.child("name"), "name is not specified");
        } else if !control_cel::is_identifier(name) {
            errors.invalid(&at.child("name"), name, "must be a valid CEL identifier");
        }
        let expression = variable.text("expression");
        known.variables.get_or_insert_default();
        if expression.trim().is_empty() {
            errors.required(&at.child("expression"), "expression is not specified");
            continue;
        }
        let of = expressions::check(expression, &known, &[], &at.child("expression"), errors);
        known.declare(name, &of);
    }
    known
}

fn validating(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let names = common(object, old, errors);
    let (spec, at) = (object.at("spec"), Path::new("spec"));
    let validations = spec.items("validations");
    let annotations = spec.items("auditAnnotations");
    if validations.is_empty() && annotations.is_empty() {
        let why = "validations or auditAnnotations must contain at least one item";
        for field in ["validations", "auditAnnotations"] {
            errors.required(&at.child(field), why);
        }
        return;
    }
    let all = at.child("validations");
    for (i, validation) in validations.iter().enumerate() {
        check_validation(validation, &names, &all.index(i), errors);
    }
    let all = at.child("auditAnnotations");
    if annotations.len() > ANNOTATIONS {
        errors.invalid(
            &all,
            spec.at("auditAnnotations").clone(),
            format!("must not have more than {ANNOTATIONS} auditAnnotations"),
        );
    }
    let own = object.at("metadata").text("name");
    for (i, annotation) in annotations.iter().enumerate() {
        let at = all.index(i);
        let key = annotation.text("key");
        if own.is_empty() {
            let why = "requires metadata.name be non-empty";
            errors.invalid(&at.child("key"), key, why);
        } else {
            labels::label_key(&format!("{own}/{key}"), &at.child("key"), errors);
        }
        let expression = annotation.text("valueExpression").trim();
        let value_at = at.child("valueExpression");
        if expression.is_empty() {
            errors.required(&value_at, "valueExpression is not specified");
        } else if expression.len() > ANNOTATION_LENGTH {
            let why = format!("must not exceed {ANNOTATION_LENGTH} bytes in length");
            errors.required(&value_at, why);
        } else {
            let wanted = [Type::String, Type::Null];
            expressions::check(expression, &names, &wanted, &value_at, errors);
        }
        if annotations
            .iter()
            .take(i)
            .any(|other| other.text("key") == key)
        {
            errors.duplicate(&at.child("key"), key);
        }
    }
}

fn check_validation(validation: &Value, names: &Names, at: &Path<'_>, errors: &mut Errors) {
    let expression = validation.text("expression");
    let expression_at = at.child("expression");
    if expression.trim().is_empty() {
        errors.required(&expression_at, "expression is not specified");
    } else {
        expressions::check(expression, names, &[Type::Bool], &expression_at, errors);
    }
    let expression = validation.text("messageExpression");
    let expression_at = at.child("messageExpression");
    if !expression.is_empty() && expression.trim().is_empty() {
        errors.invalid(&expression_at, expression, "must be non-empty if specified");
    } else if !expression.is_empty() {
        let names = Names {
            authorizer: false,
            ..names.clone()
        };
        expressions::check(expression, &names, &[Type::String], &expression_at, errors);
    }
    let (message, message_at) = (validation.text("message"), at.child("message"));
    if !message.is_empty() && message.trim().is_empty() {
        errors.invalid(&message_at, message, "must be non-empty if specified");
    } else if message.trim().contains(['\n', '\r']) {
        errors.invalid(&message_at, message, "must not contain line breaks");
    }
    if validation.has("reason") {
        one_of(
            validation.text("reason"),
            &["Forbidden", "Invalid", "RequestEntityTooLarge"],
            &at.child("reason"),
            errors,
        );
    }
}

fn mutating(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let mut names = common(object, old, errors);
    // mutations may always name variables, though there be none
    names.variables.get_or_insert_default();
    names.patches = true;
    let (spec, at) = (object.at("spec"), Path::new("spec"));
    if spec.has("matchConstraints") {
        let at = at.child("matchConstraints");
        matching::only_writes(spec.at("matchConstraints"), &at, errors);
    }
    let all = at.child("mutations");
    let mutations = spec.items("mutations");
    if mutations.is_empty() {
        errors.required(&all, "mutations must contain at least one item");
    }
    for (i, mutation) in mutations.iter().enumerate() {
        check_mutation(mutation, &names, &all.index(i), errors);
    }
    let policy = spec.text("reinvocationPolicy");
    let policy_at = at.child("reinvocationPolicy");
    if policy.is_empty() {
        errors.required(&policy_at, "");
    } else {
        one_of(policy, &["IfNeeded", "Never"], &policy_at, errors);
    }
}

fn check_mutation(mutation: &Value, names: &Names, at: &Path<'_>, errors: &mut Errors) {
    let of = mutation.text("patchType");
    let (own, other) = match of {
        "JSONPatch" => ("jsonPatch", "applyConfiguration"),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch"),
        "" => return errors.required(&at.child("patchType"), ""),
        _ => {
            let known = &["ApplyConfiguration", "JSONPatch"];
            return errors.not_supported(&at.child("patchType"), of, known);
        }
    };
    if mutation.has(own) {
        let expression = mutation.at(own).text("expression").trim();
        let own_at = at.child(own);
        let expression_at = own_at.child("expression");
        if expression.is_empty() {
            errors.required(&expression_at, "");
        } else {
            let wanted = if own == "jsonPatch" {
                Type::list(Type::made("JSONPatch"))
            } else {
                Type::made("Object")
            };
            expressions::check(expression, names, &[wanted], &expression_at, errors);
        }
    } else {
        let why = format!("must be specified when patchType is {of}");
        errors.required(&at.child(own), why);
    }
    if mutation.has(other) {
        errors.invalid(
            &at.child(other),
            format!("{{{other}}}"),
            format!("must not be specified when patchType is {of}"),
        );
    }
}

fn validate_status_update(new: &Value, _old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        let (status, at) = (new.at("status"), Path::new("status"));
        let all = Path::new("status.typeChecking.expressionWarnings");
        let warnings = status.at("typeChecking").items("expressionWarnings");
        for (i, warning) in warnings.iter().enumerate() {
            let at = all.index(i);
            if warning.text("warning").is_empty() {
                errors.required(&at.child("warning"), "");
            }
            if warning.text("fieldRef").trim().is_empty() {
                errors.required(&at.child("fieldRef"), "");
            }
        }
        conditions::all(status.items("conditions"), &at.child("conditions"), errors);
    })
}

fn row(object: &Value, rules: &str, now: Timestamp) -> Vec<Value> {
    let spec = object.at("spec");
    let kind = spec.at("paramKind");
    let shown = if kind.is_null() {
        "<unset>".to_owned()
    } else {
        format!("{}/{}", kind.text("apiVersion"), kind.text("kind"))
    };
    vec![
        name(object),
        spec.items(rules).len().into(),
        shown.into(),
        age(object, now),
    ]
}
