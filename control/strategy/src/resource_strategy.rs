//! How the objects of a kind behave.

use std::sync::Arc;

use control_fields::Filter;
use control_kinds::{Column, CustomKind, Field, FieldError, Kind, Reset, Scale, Timestamp};
use control_types::meta;
use control_types::value::Value;

use crate::CrdVersions;

/// The behaviour of a kind in one version: defaults, validation, columns, selectable fields.
#[derive(Clone)]
pub enum ResourceStrategy {
    /// A built-in kind.
    BuiltIn(&'static Kind),
    /// A custom kind, with all versions of its definition.
    Custom(Arc<CustomKind>, Arc<CrdVersions>),
}

impl From<&'static Kind> for ResourceStrategy {
    fn from(kind: &'static Kind) -> Self {
        Self::BuiltIn(kind)
    }
}

impl std::fmt::Debug for ResourceStrategy {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::BuiltIn(kind) => formatter.debug_tuple("BuiltIn").field(&kind.kind).finish(),
            Self::Custom(kind, _) => formatter.debug_tuple("Custom").field(&kind.kind).finish(),
        }
    }
}

impl ResourceStrategy {
    /// Facts that are the same for all custom kinds.
    #[must_use]
    pub fn facts(&self) -> &'static Kind {
        match self {
            Self::BuiltIn(kind) => kind,
            Self::Custom(..) => &control_kinds::GENERIC,
        }
    }

    /// Whether objects live in a namespace, where that is known.
    #[must_use]
    pub fn namespaced(&self) -> Option<bool> {
        match self {
            Self::BuiltIn(kind) => kind.namespaced,
            Self::Custom(kind, _) => Some(kind.namespaced),
        }
    }

    /// Returns all versions of a custom kind.
    #[must_use]
    pub fn crd_versions(&self) -> Option<&Arc<CrdVersions>> {
        match self {
            Self::BuiltIn(_) => None,
            Self::Custom(_, versions) => Some(versions),
        }
    }

    /// Gives absent fields their defaults.
    pub fn default(&self, object: &mut Value) {
        match self {
            Self::BuiltIn(kind) => (kind.default)(object),
            Self::Custom(kind, _) => kind.default(object),
        }
    }

    /// Prepares and validates a new object.
    pub fn before_create(&self, object: &mut Value) -> Vec<FieldError> {
        match self {
            Self::BuiltIn(kind) => kind.before_create(object),
            Self::Custom(kind, _) => kind.before_create(object),
        }
    }

    /// Prepares and validates an update of the main resource.
    pub fn before_update(&self, new: &mut Value, old: &Value) -> Vec<FieldError> {
        match self {
            Self::BuiltIn(kind) => kind.before_update(new, old),
            Self::Custom(kind, _) => kind.before_update(new, old),
        }
    }

    /// Prepares and validates an update through a subresource; `None` when there
    /// is no such.
    pub fn before_subresource_update(
        &self,
        name: &str,
        new: &mut Value,
        old: &Value,
    ) -> Option<Vec<FieldError>> {
        match self {
            Self::BuiltIn(kind) => kind.before_subresource_update(name, new, old),
            Self::Custom(kind, _) if name == "status" => kind.before_status_update(new, old),
            Self::Custom(..) => None,
        }
    }

    /// Warnings for the client, on create (`old` absent) and update.
    #[must_use]
    pub fn warnings(&self, new: &Value, old: Option<&Value>) -> Vec<String> {
        match self {
            Self::BuiltIn(kind) => (kind.warnings)(new, old),
            Self::Custom(kind, _) => kind.warnings(new, old),
        }
    }

    /// Warnings for the client whose update is refused for `errors`.
    #[must_use]
    pub fn warnings_of_refused(
        &self,
        new: &Value,
        old: &Value,
        errors: &[FieldError],
    ) -> Vec<String> {
        match self {
            Self::BuiltIn(_) => Vec::new(),
            Self::Custom(kind, _) => kind.warnings_of_refused(new, old, errors),
        }
    }

    /// Why the object of this name is not deleted by itself; `None`: it may be.
    #[must_use]
    pub fn undeletable(&self, name: &str) -> Option<&'static str> {
        (self.facts().undeletable)(name)
    }

    /// Names of the selectable fields besides name and namespace.
    #[must_use]
    pub fn selectable(&self) -> &[&'static str] {
        match self {
            Self::BuiltIn(kind) => kind.selectable,
            Self::Custom(kind, _) => kind.selectable(),
        }
    }

    /// Values of the selectable fields.
    #[must_use]
    pub fn selectable_fields(&self, object: &Value) -> Vec<Field> {
        match self {
            Self::BuiltIn(kind) => (kind.selectable_fields)(object),
            Self::Custom(kind, _) => kind.selectable_fields(object),
        }
    }

    /// Columns of the table.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        match self {
            Self::BuiltIn(kind) => kind.columns,
            Self::Custom(kind, _) => kind.columns(),
        }
    }

    /// The cells of an object's row.
    #[must_use]
    pub fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        match self {
            Self::BuiltIn(kind) => (kind.row)(object, now),
            Self::Custom(kind, _) => kind.row(object, now),
        }
    }

    /// Where the `scale` subresource finds its numbers.
    #[must_use]
    pub fn scale(&self) -> Option<Scale> {
        match self {
            Self::BuiltIn(kind) => kind.scale,
            Self::Custom(kind, _) => kind.scale(),
        }
    }

    /// The fields that a write through an endpoint cannot come to own.
    #[must_use]
    pub fn reset(&self, group: &str, name: &str, subresource: &str) -> Option<Filter> {
        let reset = match self {
            Self::BuiltIn(_) => control_kinds::reset(group, name, subresource),
            Self::Custom(kind, _) => kind.reset(subresource),
        };
        match reset {
            Reset::Nothing => None,
            Reset::Fields(paths) => Some(Filter::Exclude(paths.iter().copied().collect())),
            Reset::AllBut(paths) => Some(Filter::Include(paths)),
        }
    }

    /// Brings an object of another version of a custom kind into this one; tells
    /// whether the kind is custom.
    pub fn convert(&self, object: &mut Value) -> bool {
        match self {
            Self::BuiltIn(_) => false,
            Self::Custom(kind, _) => {
                kind.convert(object);
                true
            }
        }
    }

    /// Brings a stored object into the present form of the version in which it was
    /// stored; tells whether it may have changed. Built-in kinds are stored in it.
    ///
    /// That need not be the version in which objects are stored now, which may lack
    /// what another version shows: no version is taken in between. What only a
    /// webhook can convert stays as it is.
    pub fn upgrade_stored(&self, object: &mut Value) -> bool {
        let Self::Custom(stored, versions) = self else {
            return false;
        };
        let (group, version) = meta::split_api_version(meta::api_version(object));
        if (group, version) == (stored.group, stored.version) {
            stored.normalize(object);
            return true;
        }
        if versions.webhook_converts {
            return false;
        }
        // One of a version that there is not any more is of the present one.
        let own = versions.version(version).filter(|own| own.group == group);
        own.unwrap_or(stored).normalize(object);
        true
    }

    /// Brings an object that a webhook need not convert into the version in which it
    /// is to be stored. Built-in kinds have tables for that.
    pub fn prune_to_stored(&self, object: &mut Value) {
        if let Self::Custom(stored, _) = self {
            stored.normalize(object);
        }
    }
}
