//! Attributes of a request for authorization.

use control_types::{fields, labels};

use crate::user::User;

/// A request, as far as authorization needs it, built from the path and the method: see
/// the Kubernetes documentation on request attributes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The user.
    pub user: User,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`,
    /// `deletecollection`, `connect`-like verbs as their method maps, or a
    /// special one (`impersonate`, `bind`, `escalate`, `approve`, …). For paths:
    /// the lower-case HTTP method.
    pub verb: String,
    /// The API group; empty for the core group.
    pub group: String,
    /// The API version.
    pub version: String,
    /// The plural resource name.
    pub resource: String,
    /// The subresource, or empty.
    pub subresource: String,
    /// The namespace; empty for cluster-scoped objects and for all namespaces.
    pub namespace: String,
    /// The object's name, or empty.
    pub name: String,
    /// The URL's path, for a request that is not about a resource.
    pub path: String,
    /// Whether the request is about a resource.
    pub is_resource_request: bool,
    /// The selectors of a collection request; `None` if there are none.
    pub selection: Option<Box<Selection>>,
}

/// The selectors of a request for a collection, as far as they can be parsed: rules may
/// depend on them (KEP-4601).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// The terms of the field selector.
    pub fields: Vec<fields::Term>,
    /// Why part of the field selector is missing in `fields`.
    pub field_error: Option<String>,
    /// The requirements of the label selector.
    pub labels: Vec<labels::Requirement>,
    /// Why part of the label selector is missing in `labels`.
    pub label_error: Option<String>,
}

// === impl Attributes ===

impl Attributes {
    /// Returns whether the request selects only objects whose `field` is `value`.
    #[must_use]
    pub fn selects(&self, field: &str, value: &str) -> bool {
        self.selection.as_ref().is_some_and(|selection| {
            selection
                .fields
                .iter()
                .any(|term| !term.negated && term.field == field && term.value == value)
        })
    }

    /// Returns whether the request selects only objects whose label `key` is `value`.
    #[must_use]
    pub fn selects_label(&self, key: &str, value: &str) -> bool {
        use labels::Operator::{DoubleEquals, Equals, In};
        self.selection.as_ref().is_some_and(|selection| {
            selection.labels.iter().any(|it| {
                it.key == key
                    && matches!(it.operator, Equals | DoubleEquals | In)
                    && matches!(&it.values[..], [one] if one == value)
            })
        })
    }
}

// === impl Selection ===

impl Selection {
    /// Reads the selectors of a request; `None` when neither says anything.
    #[must_use]
    pub fn parse(field_selector: &str, label_selector: &str) -> Option<Box<Self>> {
        if field_selector.is_empty() && label_selector.is_empty() {
            return None;
        }
        let mut selection = Self::default();
        match fields::FieldSelector::parse(field_selector) {
            Ok(selector) => selection.fields = selector.terms,
            Err(error) => selection.field_error = Some(error.to_string()),
        }
        match labels::Selector::parse(label_selector) {
            Ok(selector) => selection.labels = selector.requirements().to_vec(),
            Err(error) => selection.label_error = Some(error.to_string()),
        }
        Some(Box::new(selection))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_selected_is_known_and_what_cannot_be_read_selects_nothing() {
        let asked = |fields: &str, labels: &str| Attributes {
            selection: Selection::parse(fields, labels),
            ..Attributes::default()
        };
        assert_eq!(asked("", "").selection, None);
        let one = asked("spec.nodeName=n1,status.phase!=Failed", "a=b");
        assert!(one.selects("spec.nodeName", "n1"));
        assert!(!one.selects("spec.nodeName", "n2") && !one.selects("status.phase", "Failed"));
        let wrong = asked("spec.nodeName", "a b").selection.expect("something");
        assert!(wrong.field_error.is_some() && wrong.label_error.is_some());
        assert!(wrong.fields.is_empty() && wrong.labels.is_empty());
    }
}
