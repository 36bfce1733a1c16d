//! The selectors of a `SubjectAccessReview`: as text or as requirements.

use control_access::Selection;
use control_types::status::quote;
use control_types::value::Value;
use control_types::{fields, labels, value};

/// Reads `fieldSelector` and `labelSelector` of resource attributes; what cannot
/// be read is left out and told.
pub(super) fn of_review(attributes: &Value) -> Option<Box<Selection>> {
    let raw = |field: &str| {
        attributes
            .str_at(&[field, "rawSelector"])
            .unwrap_or_default()
    };
    let requirements = |field: &str| attributes.items_at(&[field, "requirements"]);
    let mut selection = Selection::parse(raw("fieldSelector"), raw("labelSelector"));
    if !requirements("fieldSelector").is_empty() {
        let (terms, errors) = terms(requirements("fieldSelector"));
        let selection = selection.get_or_insert_default();
        (selection.fields, selection.field_error) = (terms, errors);
    }
    if !requirements("labelSelector").is_empty() {
        let (all, errors) = label_requirements(requirements("labelSelector"));
        let selection = selection.get_or_insert_default();
        (selection.labels, selection.label_error) = (all, errors);
    }
    selection
}

fn terms(requirements: &[Value]) -> (Vec<fields::Term>, Option<String>) {
    let mut errors = Vec::new();
    let mut terms = Vec::new();
    for requirement in requirements {
        let text = |field: &str| requirement.str_at(&[field]).unwrap_or_default();
        let negated = match text("operator") {
            "In" => false,
            "NotIn" => true,
            other @ ("Exists" | "DoesNotExist") => {
                errors.push(format!("fieldSelectors do not yet support {other}"));
                continue;
            }
            other => {
                errors.push(format!(
                    "{} is not a valid field selector operator",
                    quote(other)
                ));
                continue;
            }
        };
        match requirement.items_at(&["values"]) {
            [one] => terms.push(fields::Term {
                field: text("key").into(),
                value: one.as_str().unwrap_or_default().into(),
                negated,
            }),
            _ => errors.push("fieldSelectors must have one value".to_owned()),
        }
    }
    (terms, together(&errors))
}

fn label_requirements(requirements: &[Value]) -> (Vec<labels::Requirement>, Option<String>) {
    let mut errors = Vec::new();
    let mut all = Vec::new();
    for requirement in requirements {
        let one = value!({ "matchExpressions": [(requirement.clone())] });
        match labels::Selector::from_object(Some(&one)) {
            Ok(selector) => all.extend(selector.requirements().iter().cloned()),
            Err(error) => errors.push(error.to_string()),
        }
    }
    (all, together(&errors))
}

fn together(errors: &[String]) -> Option<String> {
    (!errors.is_empty()).then(|| errors.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requirements_are_read_as_far_as_they_make_sense() {
        let read = of_review(&value!({
            "fieldSelector": { "requirements": [
                { "key": "spec.nodeName", "operator": "In", "values": ["n1"] },
                { "key": "a", "operator": "Exists" },
            ] },
            "labelSelector": { "rawSelector": "a=b" },
        }));
        let read = read.expect("something");
        assert_eq!((read.fields.len(), read.labels.len()), (1, 1));
        assert!(read.field_error.is_some() && read.label_error.is_none());
        assert_eq!(of_review(&value!({ "verb": "get" })), None);
    }
}
