//! What a question about access must say (`SubjectAccessReview` and its
//! siblings); nothing of them is ever stored.

use control_types::value::Value;

use crate::FieldError;
use crate::error::{Errors, Path};
use crate::rules::collect;
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
                other.clone(),
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
        selector(
            resource.at("fieldSelector"),
            &at.child("fieldSelector"),
            errors,
        );
        selector(
            resource.at("labelSelector"),
            &at.child("labelSelector"),
            errors,
        );
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
                other.clone(),
                "disallowed on this kind of request",
            );
        }
    })
}

/// A selector, raw or taken apart. Operators that are not known here may be
/// known to a client that is newer.
fn selector(selector: &Value, at: &Path<'_>, errors: &mut Errors) {
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
        if requirement.text("key").is_empty() {
            errors.required(&at.child("key"), "must be specified");
        }
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
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;

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
}
