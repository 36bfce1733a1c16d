//! Labels and label selectors.

use control_types::labels::Operator;
use control_types::value::Value;

use super::names;
use crate::error::{Errors, Path};
use crate::tree::Read;

/// A label's key.
pub(crate) fn label_key(key: &str, at: &Path<'_>, errors: &mut Errors) {
    errors.invalid_each(at, key, names::qualified(key));
}

/// A map of labels.
pub(crate) fn labels(map: &Value, at: &Path<'_>, errors: &mut Errors) {
    let Value::Object(map) = map else { return };
    for (key, value) in map.iter() {
        label_key(key, at, errors);
        errors.invalid_each(at, value.as_text(), names::label_value(value.as_text()));
    }
}

/// A `metav1.LabelSelector`; absent is right.
pub(crate) fn selector(selector: &Value, at: &Path<'_>, errors: &mut Errors) {
    labels(selector.at("matchLabels"), &at.child("matchLabels"), errors);
    let list = at.child("matchExpressions");
    for (i, requirement) in selector.items("matchExpressions").iter().enumerate() {
        selector_requirement(requirement, &list.index(i), errors);
    }
}

fn selector_requirement(requirement: &Value, at: &Path<'_>, errors: &mut Errors) {
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
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => errors.invalid(
            &at.child("operator"),
            other,
            "not a valid selector operator",
        ),
    }
    label_key(requirement.text("key"), &at.child("key"), errors);
    let list = at.child("values");
    for (i, value) in values.iter().enumerate() {
        errors.invalid_each(
            &list.index(i),
            value.as_text(),
            names::label_value(value.as_text()),
        );
    }
}

/// Whether a selector selects everything (it is there, and empty).
pub(crate) fn is_empty_selector(selector: &Value) -> bool {
    selector.size("matchLabels") == 0 && selector.items("matchExpressions").is_empty()
}

/// Whether a well-formed `metav1.LabelSelector` matches a map of labels.
pub(crate) fn matches(selector: &Value, labels: &Value) -> bool {
    let label = |key: &str| labels.has(key).then(|| labels.text(key));
    selector
        .entries("matchLabels")
        .all(|(key, value)| label(key) == Some(value.as_text()))
        && selector.items("matchExpressions").iter().all(|one| {
            let values: Vec<&str> = one.items("values").iter().map(Read::as_text).collect();
            Operator::from_name(one.text("operator"))
                .is_some_and(|it| !it.is_numeric() && it.holds(&values, label(one.text("key"))))
        })
}

/// A selector as tables print it: `a=b,c in (d,e),!f`; `<none>` when empty, `<error>` when malformed.
pub(crate) fn format(selector: &Value) -> String {
    if selector.as_object().is_none() {
        return "<none>".into();
    }
    let mut parts: Vec<(String, String)> = selector
        .entries("matchLabels")
        .map(|(k, v)| (k.to_owned(), format!("{k}={}", v.as_text())))
        .collect();
    for r in selector.items("matchExpressions") {
        let key = r.text("key");
        let mut values: Vec<&str> = r.items("values").iter().map(Read::as_text).collect();
        values.sort_unstable();
        let list = values.join(",");
        parts.push((
            key.to_owned(),
            match r.text("operator") {
                "In" => format!("{key} in ({list})"),
                "NotIn" => format!("{key} notin ({list})"),
                "Exists" => key.to_owned(),
                "DoesNotExist" => format!("!{key}"),
                _ => return "<error>".into(),
            },
        ));
    }
    if parts.is_empty() {
        return "<none>".into();
    }
    parts.sort_by(|a, b| a.0.cmp(&b.0));
    parts.into_iter().map(|p| p.1).collect::<Vec<_>>().join(",")
}

/// A map of labels as tables print it: sorted `a=b,c=d`, or `<none>`.
pub(crate) fn format_map(map: &Value) -> String {
    let Value::Object(map) = map else {
        return "<none>".into();
    };
    let mut parts: Vec<_> = map
        .iter()
        .map(|(k, v)| format!("{}={}", &**k, v.as_text()))
        .collect();
    if parts.is_empty() {
        return "<none>".into();
    }
    parts.sort_unstable();
    parts.join(",")
}
