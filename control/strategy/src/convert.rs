//! Built-in and custom objects between the version in which they are stored and those
//! in which they are served, as far as no webhook is needed for that. The two groups of
//! events differ in names of fields; `autoscaling/v1` keeps in annotations what only `v2`
//! has fields for.

use control_types::registry::{self, Resource};
use control_types::schema::TypeId;
use control_types::value::Value;
use control_types::{coerce, meta};

use crate::ResourceStrategy;

/// Fields that core/v1 and events.k8s.io/v1 call differently.
const EVENT_FIELDS: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Converts a stored object to the version `api_version`, in which `resource` serves it.
pub fn to_served(
    object: &mut Value,
    strategy: &ResourceStrategy,
    resource: &Resource,
    api_version: &str,
) {
    if strategy.convert(object) || meta::api_version(object) == api_version {
        return;
    }
    if resource.group == "events.k8s.io" {
        for (core, event) in EVENT_FIELDS {
            rename(object, core, event);
        }
    }
    if is_old_autoscaler(resource) {
        control_kinds::convert::autoscaler_to_v1(object);
    }
    meta::set_type(object, api_version, resource.kind);
    normalize(object, resource.schema);
}

/// Converts an object from a resource's version to the one in which it is stored.
pub fn to_stored(object: &mut Value, from: &Resource) {
    let stored = meta::join_api_version(from.storage.group, from.storage.version);
    if meta::api_version(object) == stored {
        return;
    }
    if from.group == "events.k8s.io" {
        for (core, event) in EVENT_FIELDS {
            rename(object, event, core);
        }
    }
    if is_old_autoscaler(from) {
        control_kinds::convert::autoscaler_from_v1(object);
    }
    meta::set_type(object, &stored, from.kind);
    if let Some(of) = registry::schema_of(from.storage.group, from.storage.version, from.kind) {
        normalize(object, of);
    }
}

/// Fields that both versions have may be written in one though zero, and in the
/// other not.
fn normalize(object: &mut Value, of: TypeId) {
    // What cannot be read stays as it is: it was stored so.
    if coerce::coerce(object, of).is_ok() {
        coerce::complete(object, of);
    }
}

fn is_old_autoscaler(resource: &Resource) -> bool {
    (resource.group, resource.version) == ("autoscaling", "v1")
}

fn rename(object: &mut Value, from: &str, to: &'static str) {
    if let Some(value) = object.remove(from) {
        object.insert(to, value);
    }
}
