//! Resources that are the same objects under another name: other versions, and the
//! two groups of events.

use std::sync::Arc;

use control_types::registry;
use control_types::status::Status;
use control_types::value::Value;

use crate::api::{Api, ServedResource};
use control_strategy::ObjectSchema;
use control_strategy::decode::Expected;
use control_watch_cache::storage;

/// All resources whose objects are those of `served`, itself among them. With a
/// subresource, only those that have it.
#[must_use]
pub fn of(api: &Api, served: &Arc<ServedResource>, subresource: &str) -> Vec<Arc<ServedResource>> {
    let resource = served.resource;
    let all: Vec<Arc<ServedResource>> = if resource.is_custom() {
        let definitions = api.definitions.now();
        let versions = definitions.resources(resource.group);
        versions
            .filter(|other| other.resource.plural == resource.plural)
            .map(Arc::clone)
            .collect()
    } else {
        let prefix = storage::prefix_of(resource);
        registry::resources()
            .iter()
            .filter(|other| other.plural == resource.plural && storage::prefix_of(other) == prefix)
            .filter_map(|other| api.served(other.group, other.version, other.plural))
            .collect()
    };
    all.into_iter()
        .filter(|other| subresource.is_empty() || other.subresource(subresource).is_some())
        .collect()
}

/// The kind of the objects that `served` takes, through a subresource or not.
#[must_use]
pub fn kind_of<'a>(served: &'a ServedResource, subresource: &str) -> Expected<'a> {
    let whole = served.expected();
    match served.subresource(subresource) {
        Some(of) if of.kind != served.resource.kind => Expected {
            group: of.group,
            version: of.version,
            kind: of.kind,
            form: ObjectSchema::Typed(
                registry::schema_of(of.group, of.version, of.kind).unwrap_or(of.schema),
            ),
        },
        _ => whole,
    }
}

/// Brings an object of one resource into the version of another that is the same.
///
/// # Errors
/// When a webhook that converts cannot be asked.
pub async fn convert(
    api: &Api,
    object: &mut Value,
    from: &Arc<ServedResource>,
    to: &Arc<ServedResource>,
) -> Result<(), Status> {
    if Arc::ptr_eq(from, to) || from.api_version == to.api_version {
        return Ok(());
    }
    // A webhook converts from any version to any other.
    if !from.is_stored_form() && from.converter().is_none() {
        crate::convert::to_storage(api, object, from).await?;
    }
    if !to.is_stored_form() || to.converter().is_some() {
        crate::convert::to_version(api, object, to).await?;
    }
    Ok(())
}
