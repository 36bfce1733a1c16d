//! Between the version in which an object is stored and those in which it is
//! served. The two groups of events differ in names of fields. Between
//! autoscaling/v1 and v2 only the version is changed here: fields that one of
//! them lacks are not translated.

use control_types::meta;
use control_types::value::Value;

use crate::api::Served;

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

/// Brings a stored object into the version that is served.
pub fn to_version(object: &mut Value, served: &Served) {
    if served.resource.group == "events.k8s.io" {
        for (core, event) in EVENT_FIELDS {
            rename(object, core, event);
        }
    }
    meta::set_type(object, &served.api_version, served.resource.kind);
}

/// Brings an object of the served version into the one that is stored.
pub fn to_storage(object: &mut Value, served: &Served) {
    if served.resource.group == "events.k8s.io" {
        for (core, event) in EVENT_FIELDS {
            rename(object, event, core);
        }
    }
    let (group, version) = served.stored_as;
    let stored = meta::join_api_version(group, version);
    meta::set_type(object, &stored, served.resource.kind);
}

fn rename(object: &mut Value, from: &str, to: &'static str) {
    if let Some(value) = object.remove(from) {
        object.insert(to, value);
    }
}
