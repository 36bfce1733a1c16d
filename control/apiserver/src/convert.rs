//! Conversion of objects between the version in which they are stored and those in which
//! they are served, by [`control_strategy::convert`] or by a definition's webhook.

use control_types::meta;
use control_types::status::Status;
use control_types::value::Value;

use control_strategy::convert;

use crate::api::{Api, ServedResource};

/// Brings a stored object into the version that is served. One that is in that
/// version stays as it is.
///
/// # Errors
/// 500 when a webhook that converts does not do it.
pub async fn to_version(
    api: &Api,
    object: &mut Value,
    served: &ServedResource,
) -> Result<(), Status> {
    if let Some(converter) = served.converter() {
        let stored = std::mem::take(object);
        *object = Box::pin(converter.one(api, stored, &served.api_version)).await?;
    }
    served.convert_by_tables(object)
}

/// Brings an object that was just stored into what reading it would give: of a
/// custom kind only what both versions know.
///
/// # Errors
/// 500 when a webhook that converts does not do it.
pub async fn as_read(api: &Api, object: &mut Value, served: &ServedResource) -> Result<(), Status> {
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
pub async fn can_be_stored(
    api: &Api,
    object: &Value,
    served: &ServedResource,
) -> Result<(), Status> {
    if served.is_stored_form() || served.converter().is_none() {
        return Ok(());
    }
    to_storage(api, &mut object.clone(), served).await
}

/// Brings an object of the served version into the one that is stored.
///
/// # Errors
/// 500 when a webhook that converts does not do it.
pub async fn to_storage(
    api: &Api,
    object: &mut Value,
    served: &ServedResource,
) -> Result<(), Status> {
    if served.kind.crd_versions().is_some() {
        if let Some(converter) = served.converter() {
            let (group, version) = served.stored_as;
            let stored = meta::join_api_version(group, version);
            let given = std::mem::take(object);
            *object = Box::pin(converter.one(api, given, &stored)).await?;
        }
        served.cache()?.strategy().prune_to_stored(object);
        return Ok(());
    }
    convert::to_stored(object, served.resource);
    Ok(())
}
