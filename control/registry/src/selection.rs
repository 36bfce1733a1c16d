//! Which objects of a resource a LIST or watch is about.

use control_types::status::{Status, quote};
use control_types::{fields, labels};

use crate::served_resource::ServedResource;
use control_request::options::ListOptions;
use control_strategy::ResourceStrategy;
use control_watch_cache::{CacheEntry, TreeEntry};

/// Namespace, name, labels and fields that objects must have.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// What the keys of the objects begin with: `namespace/` or nothing.
    prefix: String,
    /// The whole key, when only one object can match.
    only: Option<String>,
    labels: labels::Selector,
    fields: fields::FieldSelector,
    /// Fields that objects have only in the version that is served.
    served_fields: fields::FieldSelector,
}

impl Selection {
    /// Reads the selectors of a request for a kind; `name` is the one in the
    /// path, or empty.
    ///
    /// # Errors
    /// When a selector is malformed or names a field that the kind does not
    /// offer.
    pub fn new(
        served: &ServedResource,
        namespace: &str,
        name: &str,
        options: &ListOptions,
    ) -> Result<Self, Status> {
        let mut selection = Self::of_kind(&served.kind, namespace, name, options)?;
        if served.kind.crd_versions().is_some() && !served.is_stored_form() {
            // Versions of a custom kind select by fields of their own.
            let in_all = |field: &str| matches!(field, "metadata.name" | "metadata.namespace");
            let terms = std::mem::take(&mut selection.fields.terms);
            (selection.fields.terms, selection.served_fields.terms) =
                terms.into_iter().partition(|term| in_all(&term.field));
        }
        Ok(selection)
    }

    fn of_kind(
        kind: &ResourceStrategy,
        namespace: &str,
        name: &str,
        options: &ListOptions,
    ) -> Result<Self, Status> {
        let labels = if options.label_selector.is_empty() {
            labels::Selector::everything()
        } else {
            labels::Selector::parse(&options.label_selector)
                .map_err(|error| Status::bad_request(error.to_string()))?
        };
        let mut fields = fields::FieldSelector::parse(&options.field_selector)
            .map_err(|error| Status::bad_request(error.to_string()))?;
        for term in &mut fields.terms {
            let field = term.field.as_str();
            // Kinds of the cluster that offer fields of their own offer no namespace.
            let no_namespace = kind.namespaced() == Some(false) && !kind.selectable().is_empty();
            let known = field == "metadata.name"
                || (field == "metadata.namespace" && !no_namespace)
                || kind.selectable().contains(&field);
            if !known {
                return Err(Status::bad_request(unsupported(kind, field)));
            }
            // Objects are looked at in their stored form.
            let mut renamed = kind.facts().selectable_as.iter();
            if let Some((_, stored)) = renamed.find(|(here, _)| *here == term.field) {
                term.field = (*stored).into();
            }
        }
        let prefix = if namespace.is_empty() {
            String::new()
        } else {
            format!("{namespace}/")
        };
        let name = if name.is_empty() {
            fields.exact("metadata.name").unwrap_or_default()
        } else {
            name
        };
        let only = (!name.is_empty()
            && (!namespace.is_empty() || kind.namespaced() == Some(false)))
        .then(|| format!("{prefix}{name}"));
        Ok(Self {
            prefix,
            only,
            labels,
            fields,
            served_fields: fields::FieldSelector::default(),
        })
    }

    /// What the keys of all selected objects begin with.
    #[must_use]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The one key that can match, if only one can.
    #[must_use]
    pub fn only(&self) -> Option<&str> {
        self.only.as_deref()
    }

    /// Whether every object of the namespace is selected.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.only.is_none()
            && self.labels.is_everything()
            && self.fields.is_empty()
            && self.served_fields.is_empty()
    }

    /// Whether objects must be looked at in the version that is served, too (see
    /// [`Selection::matches_served`]).
    #[must_use]
    pub fn by_served_fields(&self) -> bool {
        !self.served_fields.is_empty()
    }

    /// Whether an object that [matches](Selection::matches) is selected by what it is
    /// in the version that is served. One that cannot be read in it is not.
    #[must_use]
    pub fn matches_served(&self, served: &ServedResource, object: &CacheEntry) -> bool {
        if self.served_fields.is_empty() {
            return true;
        }
        let Ok(tree) = served.tree(object) else {
            return false;
        };
        let fields = served.kind.selectable_fields(&tree);
        self.served_fields.matches(|name| {
            let found = fields.iter().find(|(field, _)| *field == name);
            found.map(|(_, value)| value.as_str())
        })
    }

    /// Whether an object is selected, as far as its stored form tells.
    #[must_use]
    pub fn matches(&self, object: &CacheEntry) -> bool {
        object.key().starts_with(&self.prefix)
            && self.only.as_deref().is_none_or(|only| only == object.key())
            && self.labels.matches_with(|key| object.label(key))
            && self.fields.matches(|field| object.field(field))
    }
}

/// What a client is told of a field that the kind does not offer; the wording is
/// that of the kind's own conversion, where it has one.
fn unsupported(kind: &ResourceStrategy, field: &str) -> String {
    match kind.facts().kind {
        "Job" => format!("field label {} not supported for Job", quote(field)),
        "ResourceSlice" => {
            format!("field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {field}")
        }
        name if kind.selectable().is_empty() && !name.is_empty() => format!(
            "{} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"",
            quote(field)
        ),
        _ => format!("field label not supported: {field}"),
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;
    use control_watch_cache::{Change, encode};

    fn pod(namespace: &str, name: &str, app: &str) -> CacheEntry {
        let object = value!({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": (name), "namespace": (namespace), "labels": {"app": (app)}}});
        CacheEntry::new(
            &format!("{namespace}/{name}"),
            &encode(&object),
            1,
            Change::Added,
            &control_kinds::find_kind("", "Pod").into(),
        )
        .expect("valid")
    }

    fn selection(namespace: &str, labels: &str, fields: &str) -> Result<Selection, Status> {
        let options = ListOptions {
            label_selector: labels.into(),
            field_selector: fields.into(),
            ..ListOptions::default()
        };
        Selection::of_kind(
            &control_kinds::find_kind("", "Pod").into(),
            namespace,
            "",
            &options,
        )
    }

    #[test]
    fn namespace_labels_and_fields_must_all_match() {
        let web = pod("a", "web", "x");
        assert!(
            selection("a", "app=x", "metadata.name=web")
                .expect("valid")
                .matches(&web)
        );
        assert!(selection("", "", "").expect("valid").matches(&web));
        assert!(!selection("a-b", "", "").expect("valid").matches(&web));
        assert!(!selection("a", "app=y", "").expect("valid").matches(&web));
        assert!(
            !selection("a", "", "metadata.name!=web")
                .expect("valid")
                .matches(&web)
        );
    }

    #[test]
    fn unknown_fields_are_refused() {
        assert_eq!(
            selection("a", "", "spec.bogus=1")
                .expect_err("unknown")
                .message,
            "field label not supported: spec.bogus"
        );
    }
}
