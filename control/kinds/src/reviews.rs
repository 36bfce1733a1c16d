//! Validation of access reviews (`SubjectAccessReview` and its siblings), which are never
//! stored.

use control_types::value;
use control_types::value::Value;

use crate::FieldError;
use crate::error::{Errors, Path};
use crate::rules::{collect, labels, names};
use crate::tree::Read;

const SPEC: Path<'static> = Path::new("spec");

/// The errors of a review of the given kind.
#[must_use]
pub fn check(kind: &str, review: &Value) -> Vec<FieldError> {
    collect(|errors| {
        let spec = review.at("spec");
        let (resource, other) = (
            spec.at("resourceAttributes"),
            spec.at("nonResourceAttributes"),
        );
        let at = SPEC.child("resourceAttributes");
        if !resource.is_null() && !other.is_null() {
            errors.invalid(
                &SPEC.child("nonResourceAttributes"),
                shown(other),
                "cannot be specified in combination with resourceAttributes",
            );
        }
        if resource.is_null() && other.is_null() {
            errors.invalid(
                &at,
                Value::Null,
                "exactly one of nonResourceAttributes or resourceAttributes must be specified",
            );
        }
        let named = !spec.text("user").is_empty() || !spec.items("groups").is_empty();
        if kind != "SelfSubjectAccessReview" && !named {
            errors.invalid(
                &SPEC.child("user"),
                "",
                "at least one of user or group must be specified",
            );
        }
        for (field, rule) in [
            ("fieldSelector", field_key as KeyRule),
            ("labelSelector", label_requirement),
        ] {
            selector(resource.at(field), rule, &at.child(field), errors);
        }
        let metadata = review.at("metadata");
        let local = kind == "LocalSubjectAccessReview";
        // The server itself records the writer.
        let may_say = |key: &str| key == "managedFields" || (local && key == "namespace");
        let said = metadata.as_object().into_iter().flatten();
        if said
            .into_iter()
            .any(|(key, value)| !may_say(key) && says(value))
        {
            let why = if local {
                "must be empty except for namespace"
            } else {
                "must be empty"
            };
            errors.invalid(&Path::new("metadata"), metadata.clone(), why);
        }
        if kind != "LocalSubjectAccessReview" {
            return;
        }
        let namespace = review.at("metadata").text("namespace");
        if !resource.is_null() && resource.text("namespace") != namespace {
            errors.invalid(
                &at.child("namespace"),
                resource.text("namespace"),
                "must match metadata.namespace",
            );
        }
        if !other.is_null() {
            errors.invalid(
                &SPEC.child("nonResourceAttributes"),
                shown(other),
                "disallowed on this kind of request",
            );
        }
    })
}

/// Paths are shown as the server itself holds them.
fn shown(other: &Value) -> Value {
    value!({ "Path": (other.text("path")), "Verb": (other.text("verb")) })
}

/// Whether a member of metadata is more than its type's nothing.
fn says(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
        other => other.as_i64() != Some(0),
    }
}

/// The requirement on an item besides its operator.
type KeyRule = fn(&Value, &Path<'_>, &mut Errors);

fn field_key(requirement: &Value, at: &Path<'_>, errors: &mut Errors) {
    if requirement.text("key").is_empty() {
        errors.required(&at.child("key"), "must be specified");
    }
}

fn label_requirement(requirement: &Value, at: &Path<'_>, errors: &mut Errors) {
    labels::label_key(requirement.text("key"), &at.child("key"), errors);
    for (i, value) in requirement.items("values").iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        let at = at.child("values");
        errors.invalid_each(&at.index(i), value, names::label_value(value));
    }
}

/// A selector, raw or taken apart. Operators that are not known here may be
/// known to a client that is newer.
fn selector(selector: &Value, rule: KeyRule, at: &Path<'_>, errors: &mut Errors) {
    if selector.is_null() {
        return;
    }
    let (raw, list) = (selector.text("rawSelector"), selector.items("requirements"));
    let all = at.child("requirements");
    if !raw.is_empty() && !list.is_empty() {
        errors.invalid(
            &at.child("rawSelector"),
            raw,
            "may not specified at the same time as requirements",
        );
    }
    if raw.is_empty() && list.is_empty() {
        errors.required(
            &all,
            format!("when {at} is specified, requirements or rawSelector is required"),
        );
    }
    for (i, requirement) in list.iter().enumerate() {
        let at = all.index(i);
        let values = requirement.items("values");
        match requirement.text("operator") {
            "In" | "NotIn" if values.is_empty() => errors.required(
                &at.child("values"),
                "must be specified when `operator` is 'In' or 'NotIn'",
            ),
            "Exists" | "DoesNotExist" if !values.is_empty() => errors.forbidden(
                &at.child("values"),
                "may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            ),
            _ => {}
        }
        rule(requirement, &at, errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_review_names_somebody_and_something() {
        assert_eq!(check("SubjectAccessReview", &value!({})).len(), 2);
        assert_eq!(check("SelfSubjectAccessReview", &value!({})).len(), 1);
        let local = value!({
            "metadata": {"namespace": "a"},
            "spec": {"user": "u", "resourceAttributes": {"namespace": "b"}}
        });
        let found = check("LocalSubjectAccessReview", &local);
        assert_eq!(found[0].field, "spec.resourceAttributes.namespace");
    }

    #[test]
    fn a_review_is_nothing_but_a_question() {
        let named = |kind: &str, metadata: Value| {
            let spec = value!({
                "user": "u",
                "resourceAttributes": {"namespace": (metadata.text("namespace"))}
            });
            check(kind, &value!({"metadata": (metadata), "spec": (spec)}))
        };
        let managed = value!({"managedFields": [{"manager": "m"}]});
        assert!(named("SubjectAccessReview", managed).is_empty());
        let here = value!({"namespace": "a", "labels": {}});
        assert!(named("LocalSubjectAccessReview", here).is_empty());
        let found = named("SubjectAccessReview", value!({"labels": {"a": "b"}}));
        assert_eq!(found[0].field, "metadata");
    }

    #[test]
    fn labels_asked_about_are_labels() {
        let review = value!({"spec": {"resourceAttributes": {"labelSelector": {"requirements": [
            {"key": "-", "operator": "Like"}, {"key": "a", "operator": "In", "values": ["-"]}
        ]}}}});
        let found = check("SelfSubjectAccessReview", &review);
        let fields: Vec<&str> = found.iter().map(|error| error.field.as_str()).collect();
        let at = "spec.resourceAttributes.labelSelector.requirements";
        assert_eq!(
            fields,
            [format!("{at}[0].key"), format!("{at}[1].values[0]")]
        );
    }
}
