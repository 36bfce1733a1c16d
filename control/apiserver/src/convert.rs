//! Between the version in which an object is stored and those in which it is
//! served. The two groups of events differ in names of fields; `autoscaling/v1`
//! keeps in annotations what only `v2` has fields for.

use control_types::coerce;
use control_types::meta;
use control_types::registry::{self, Resource};
use control_types::schema::TypeId;
use control_types::status::Status;
use control_types::value::Value;

use crate::api::{Api, Served};

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

/// Brings a stored object into the version that is served. One that is in that
/// version stays as it is.
///
/// # Errors
/// 500 when a webhook that converts does not do it.
pub async fn to_version(api: &Api, object: &mut Value, served: &Served) -> Result<(), Status> {
    if let Some(converter) = served.converter() {
        let stored = std::mem::take(object);
        *object = Box::pin(converter.one(api, stored, &served.api_version)).await?;
    }
    by_tables(object, served)
}

/// As [`to_version`], of what needs no webhook any more.
///
/// # Errors
/// 500 when it does.
pub fn by_tables(object: &mut Value, served: &Served) -> Result<(), Status> {
    if served.kind.family().is_some() {
        if served.converter().is_some() && meta::api_version(object) != served.api_version {
            return Err(Status::internal(format!(
                "{} {} was not converted to {}",
                served.resource.kind,
                meta::name(object),
                served.api_version
            )));
        }
        served.kind.convert(object);
        return Ok(());
    }
    if meta::api_version(object) == served.api_version {
        return Ok(());
    }
    if served.resource.group == "events.k8s.io" {
        for (core, event) in EVENT_FIELDS {
            rename(object, core, event);
        }
    }
    if is_old_autoscaler(served.resource) {
        control_kinds::convert::autoscaler_to_v1(object);
    }
    meta::set_type(object, &served.api_version, served.resource.kind);
    settle(object, served.resource.schema);
    Ok(())
}

/// Brings an object that was just stored into what reading it would give: of a
/// custom kind only what both versions know.
///
/// # Errors
/// 500 when a webhook that converts does not do it.
pub async fn as_read(api: &Api, object: &mut Value, served: &Served) -> Result<(), Status> {
    if served.converter().is_none() {
        if served.is_stored_form() {
            return Ok(());
        }
        if served.resource.is_custom() && meta::api_version(object) == served.api_version {
            to_storage(api, object, served).await?;
        }
    }
    to_version(api, object, served).await
}

/// Whether an object of the served version could be brought into the one that is stored,
/// for requests that store nothing: a webhook is asked all the same.
///
/// # Errors
/// As [`to_storage`].
pub async fn can_be_stored(api: &Api, object: &Value, served: &Served) -> Result<(), Status> {
    if served.is_stored_form() || served.converter().is_none() {
        return Ok(());
    }
    to_storage(api, &mut object.clone(), served).await
}

/// Brings an object of the served version into the one that is stored.
///
/// # Errors
/// 500 when a webhook that converts does not do it.
pub async fn to_storage(api: &Api, object: &mut Value, served: &Served) -> Result<(), Status> {
    if served.kind.family().is_some() {
        if let Some(converter) = served.converter() {
            let (group, version) = served.stored_as;
            let stored = meta::join_api_version(group, version);
            let given = std::mem::take(object);
            *object = Box::pin(converter.one(api, given, &stored)).await?;
        }
        served.cache()?.nature().settle_as_stored(object);
        return Ok(());
    }
    stored_form(object, served.resource);
    Ok(())
}

/// Brings an object of a resource's version into the one that is stored. One that
/// is in that version stays as it is.
pub fn stored_form(object: &mut Value, from: &Resource) {
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
        settle(object, of);
    }
}

/// Fields that both versions have may be written in one though zero, and in the
/// other not.
fn settle(object: &mut Value, of: TypeId) {
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
