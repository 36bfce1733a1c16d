//! Everything particular to one kind.

use control_types::value::{Pick, Value};

use crate::error::{Errors, FieldError};
use crate::rules;
use crate::table::{Column, Timestamp};

/// A selectable field and its value, as field selectors compare them.
pub type Field = (&'static str, String);

/// Everything particular to one kind. Every function is pure and total: it accepts an
/// object of any shape and never panics.
pub struct Kind {
    /// API group; "" is the core group.
    pub group: &'static str,
    /// Kind, as in `Pod`. Empty for the generic kind.
    pub kind: &'static str,
    /// Whether objects live in a namespace; `None`: not known here (custom kinds).
    pub namespaced: Option<bool>,
    /// Path of the pod template, or of what holds the pod spec itself (`[]`: a pod).
    pub template: Option<&'static [&'static str]>,
    /// Sets the defaults that apply when an object is decoded (from requests and from the
    /// store).
    pub default: fn(&mut Value),
    /// Brings a new object into its first state: drops status, sets generation, …
    pub prepare_create: fn(&mut Value),
    /// Preserves the fields that an update of the main resource must not change; raises
    /// the generation if the spec changes.
    pub prepare_update: fn(new: &mut Value, old: &Value),
    /// Preserves the fields that an update of `status` must not change.
    pub prepare_status_update: fn(new: &mut Value, old: &Value),
    /// Errors of a new object, its metadata included.
    pub validate_create: fn(&Value) -> Vec<FieldError>,
    /// Sets what reading a new object back from the store would still default.
    pub settle: fn(&mut Value),
    /// Validates an update, including metadata by the kind's rule.
    pub validate_update: fn(new: &Value, old: &Value) -> Vec<FieldError>,
    /// Validates a status update, including metadata by the kind's rule.
    pub validate_status_update: fn(new: &Value, old: &Value) -> Vec<FieldError>,
    /// Further subresources that update the object, such as `resize`.
    pub subresources: &'static [Subresource],
    /// Warnings for the client, on create (`old` absent) and update.
    pub warnings: fn(new: &Value, old: Option<&Value>) -> Vec<String>,
    /// Names of the selectable fields besides `metadata.name` and `metadata.namespace`.
    pub selectable: &'static [&'static str],
    /// Fields of `selectable` that the stored form calls otherwise: (here, there).
    pub selectable_as: &'static [(&'static str, &'static str)],
    /// The fields that [`Kind::selectable_fields`] reads besides the paths in
    /// `selectable`.
    pub selectable_from: &'static [&'static str],
    /// Values of the fields named by `selectable`, in the stored form.
    pub selectable_fields: fn(&Value) -> Vec<Field>,
    /// Annotations (a trailing `*`: all with this beginning) that are fields in another
    /// version: the metadata alone, as tables and metadata-only answers show it, lacks them.
    pub field_annotations: &'static [&'static str],
    /// Columns of the kind's table.
    pub columns: &'static [Column],
    /// The cells of an object's row, one per column.
    pub row: fn(&Value, Timestamp) -> Vec<Value>,
    /// Conditions of the row itself (`Completed` for finished pods).
    pub row_conditions: fn(&Value) -> Vec<Value>,
    /// Whether a PUT of a name that does not exist creates it.
    pub allow_create_on_update: bool,
    /// Whether an update may come without a resource version.
    pub allow_unconditional_update: bool,
    /// Returns the grace period of a deletion in seconds, given the requested one; `None`
    /// deletes immediately.
    pub graceful: Option<fn(&Value, Option<i64>) -> i64>,
    /// Names whose single deletion is refused, with the reason; a collection's is not.
    pub undeletable: fn(&str) -> Option<&'static str>,
    /// Marks an object whose contents the server cleans up before it is removed; no grace
    /// period applies then.
    pub begin_deletion: Option<fn(&mut Value)>,
    /// The paths of the `scale` subresource.
    pub scale: Option<Scale>,
}

/// A subresource whose update changes part of the object.
pub struct Subresource {
    /// Name, as in `resize`.
    pub name: &'static str,
    /// Preserves the fields that this subresource must not change.
    pub prepare: fn(new: &mut Value, old: &Value),
    /// Errors of the change.
    pub validate: fn(new: &Value, old: &Value) -> Vec<FieldError>,
}

/// The paths of the fields that `autoscaling/v1 Scale` shows.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Path of the wanted number of replicas.
    pub spec_replicas: &'static [&'static str],
    /// Path of the observed number of replicas.
    pub status_replicas: &'static [&'static str],
    /// Path of the selector: a label selector object, or (replication controllers) a map of labels.
    pub selector: Option<&'static [&'static str]>,
}

impl Kind {
    /// The part of an object that selectors of labels and fields look at.
    #[must_use]
    pub fn selected(&self) -> Pick {
        let paths = self.selectable.iter().chain(self.selectable_from);
        Pick::from_paths(paths.copied().chain(["metadata.labels"]))
    }

    /// Prepares and validates a new object. Its metadata must be complete
    /// (name, namespace, uid, creation time). Errors mean "do not store".
    pub fn before_create(&self, object: &mut Value) -> Vec<FieldError> {
        if let Some(path) = self.template {
            rules::gates::template(object, None, path);
        }
        (self.prepare_create)(object);
        let errors = (self.validate_create)(object);
        if !errors.is_empty() {
            return errors;
        }
        (self.settle)(object);
        rules::meta::validate_path_segments(object, self.namespaced)
    }

    /// Prepares and validates an update of the main resource.
    pub fn before_update(&self, new: &mut Value, old: &Value) -> Vec<FieldError> {
        if let Some(path) = self.template {
            rules::gates::template(new, Some(old), path);
        }
        self.update(new, old, self.prepare_update, self.validate_update)
    }

    /// Prepares and validates an update of `status`.
    pub fn before_status_update(&self, new: &mut Value, old: &Value) -> Vec<FieldError> {
        self.update(
            new,
            old,
            self.prepare_status_update,
            self.validate_status_update,
        )
    }

    /// Prepares and validates an update through the subresource `name`; `None` if the
    /// kind has no such subresource.
    pub fn before_subresource_update(
        &self,
        name: &str,
        new: &mut Value,
        old: &Value,
    ) -> Option<Vec<FieldError>> {
        if name == "status" {
            return Some(self.before_status_update(new, old));
        }
        let sub = self.subresources.iter().find(|s| s.name == name)?;
        Some(self.update(new, old, sub.prepare, sub.validate))
    }

    fn update(
        &self,
        new: &mut Value,
        old: &Value,
        prepare: fn(&mut Value, &Value),
        validate: fn(&Value, &Value) -> Vec<FieldError>,
    ) -> Vec<FieldError> {
        rules::meta::keep_generation(new, old);
        prepare(new, old);
        rules::meta::keep_system_fields(new, old);
        let mut errors = Errors::new();
        errors.extend(rules::meta::validate_path_segments(new, self.namespaced));
        rules::meta::update_generic(new, old, &mut errors);
        // a kind's own rules look at metadata again, and report it again, as the API does
        errors.extend(validate(new, old));
        if errors.is_empty() {
            (self.settle)(new);
        }
        errors.into_vec()
    }
}
