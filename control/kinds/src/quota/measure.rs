//! How a kind is measured, and the writes that are measured.

use control_types::value::Value;

use super::amount::Usage;

/// Device classes by name, and the extended resource that each stands for (may be empty).
/// Needed only for device claims.
pub type Classes<'a> = &'a [(String, String)];

/// A write to be measured.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// Group of the resource.
    pub group: &'a str,
    /// Plural of the resource.
    pub plural: &'a str,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The object as it is to be.
    pub new: &'a Value,
    /// The object as it is; none: it is new.
    pub old: Option<&'a Value>,
}

/// Everything particular to the kinds that are measured by more than their number.
pub(super) struct Measure {
    pub(super) group: &'static str,
    pub(super) plural: &'static str,
    /// Returns the usage of an object.
    pub(super) usage: fn(&Value, Classes<'_>, jiff::Timestamp) -> Usage,
    /// Whether a limit of this name is about the kind.
    pub(super) tracks: fn(&str, Classes<'_>) -> bool,
    /// Whether a request has to be looked at.
    pub(super) handles: fn(&Request<'_>) -> bool,
    /// Whether an object has the property that a scope of a quota asks for.
    pub(super) in_scope: fn(&Value, &Value) -> bool,
    /// Checks that an object sets what is required if these resources are limited.
    pub(super) constraints: fn(&[&str], &Value) -> Result<(), ConstraintError>,
}

/// Error for an object that does not set limited resources, each with the containers that
/// lack it; the message is kube-apiserver's.
#[derive(Debug, thiserror::Error)]
#[error("must specify {}", .0.join("; "))]
pub(super) struct ConstraintError(pub(super) Vec<String>);
