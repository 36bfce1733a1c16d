//! Approval of definitions in the groups of the Kubernetes community (KEP-1111).

use control_types::meta;
use control_types::status::quote;
use control_types::value::Value;

/// The annotation with the approval.
pub const ANNOTATION: &str = "api-approved.kubernetes.io";

/// How far a definition is approved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Approved by a pull request.
    Approved,
    /// It says that it is not.
    Bypassed,
    /// The annotation is none.
    Invalid,
    /// There is no annotation.
    Missing,
}

/// The approval state of a definition.
#[derive(Debug)]
pub struct Approval {
    /// How far.
    pub state: State,
    /// For people.
    pub message: String,
    /// The annotation; empty if there is none.
    pub annotation: String,
}

/// Whether a group belongs to the community.
#[must_use]
pub fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"].iter().any(|root| {
        group
            .strip_suffix(root)
            .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

/// Returns the approval state of a definition of such a group.
#[must_use]
pub fn evaluate(definition: &Value) -> Approval {
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    let annotation = meta::annotation(definition, ANNOTATION).unwrap_or_default();
    let (state, message) = if annotation.is_empty() {
        (
            State::Missing,
            format!("protected groups must have approval annotation \"{ANNOTATION}\", {see}"),
        )
    } else if annotation.starts_with("unapproved") {
        (
            State::Bypassed,
            format!("not approved: {}", quote(annotation)),
        )
    } else if is_address(annotation) {
        (State::Approved, format!("approved in {annotation}"))
    } else {
        (
            State::Invalid,
            format!(
                "protected groups must have approval annotation \"{ANNOTATION}\" with either a URL or a reason starting with \"unapproved\", {see}"
            ),
        )
    };
    Approval {
        state,
        message,
        annotation: annotation.to_owned(),
    }
}

/// A scheme and a host.
fn is_address(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else {
        return false;
    };
    let host = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
        && scheme
            .chars()
            .all(|one| one.is_ascii_alphanumeric() || matches!(one, '+' | '-' | '.'));
    is_scheme && !host.is_empty() && !text.contains(|one: char| one.is_control() || one == ' ')
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn protected_groups_need_an_approval() {
        assert!(is_protected("foo.k8s.io") && is_protected("kubernetes.io"));
        assert!(!is_protected("my-k8s.io") && !is_protected("example.com"));
        let with = |annotation: Option<&str>| {
            let mut one = value!({"metadata": {}});
            if let Some(text) = annotation {
                meta::set_annotation(&mut one, ANNOTATION, text);
            }
            evaluate(&one).state
        };
        assert_eq!(with(None), State::Missing);
        assert_eq!(with(Some("unapproved, test")), State::Bypassed);
        assert_eq!(with(Some("https://x.y/1")), State::Approved);
        assert_eq!(with(Some("http:///a")), State::Invalid);
        assert_eq!(with(Some("yes")), State::Invalid);
    }
}
