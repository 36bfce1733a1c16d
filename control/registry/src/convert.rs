//! Conversion of objects between the version in which they are stored and those in which
//! they are served, by [`control_strategy::convert`] or by a definition's webhook.

use std::sync::Arc;

use control_types::meta;
use control_types::status::Status;
use control_types::value::Value;

use control_strategy::convert;
use control_watch_cache::CacheEntry;

use crate::custom::conversion;
use crate::served_resource::ServedResource;
use crate::storage::Storage;

/// Brings a stored object into the version that is served. One that is in that
/// version stays as it is.
///
/// # Errors
/// 500 when a webhook that converts does not do it.
pub async fn to_version(
    storage: &Storage,
    object: &mut Value,
    served: &ServedResource,
) -> Result<(), Status> {
    if let Some(converter) = served.converter() {
        let stored = std::mem::take(object);
        *object = Box::pin(converter.one(storage, stored, &served.api_version)).await?;
    }
    served.convert_by_tables(object)
}

/// Brings an object that was just stored into what reading it would give: of a
/// custom kind only what both versions know.
///
/// # Errors
/// 500 when a webhook that converts does not do it.
pub async fn as_read(
    storage: &Storage,
    object: &mut Value,
    served: &ServedResource,
) -> Result<(), Status> {
    if served.converter().is_none() {
        if served.is_stored_form() {
            return Ok(());
        }
        if served.resource.is_custom() && meta::api_version(object) == served.api_version {
            to_storage(storage, object, served).await?;
        }
    }
    to_version(storage, object, served).await
}

/// Whether an object of the served version could be brought into the one that is stored,
/// for requests that store nothing: a webhook is asked all the same.
///
/// # Errors
/// As [`to_storage`].
pub async fn can_be_stored(
    storage: &Storage,
    object: &Value,
    served: &ServedResource,
) -> Result<(), Status> {
    if served.is_stored_form() || served.converter().is_none() {
        return Ok(());
    }
    to_storage(storage, &mut object.clone(), served).await
}

/// Brings an object of the served version into the one that is stored.
///
/// # Errors
/// 500 when a webhook that converts does not do it.
pub async fn to_storage(
    storage: &Storage,
    object: &mut Value,
    served: &ServedResource,
) -> Result<(), Status> {
    if served.kind.crd_versions().is_some() {
        if let Some(converter) = served.converter() {
            let (group, version) = served.stored_as;
            let stored = meta::join_api_version(group, version);
            let given = std::mem::take(object);
            *object = Box::pin(converter.one(storage, given, &stored)).await?;
        }
        served.cache()?.strategy().prune_to_stored(object);
        return Ok(());
    }
    convert::to_stored(object, served.resource);
    Ok(())
}

impl ServedResource {
    /// A stored object in the version that is served here, if a webhook is needed for
    /// that; else as it is.
    ///
    /// # Errors
    /// 500 when the webhook does not do it.
    pub async fn in_version(
        &self,
        storage: &Storage,
        object: Arc<CacheEntry>,
    ) -> Result<Arc<CacheEntry>, Status> {
        match self.converter() {
            Some(converter) if object.api_version() != self.api_version => {
                Box::pin(converter.remembered(storage, &object, self)).await
            }
            _ => Ok(object),
        }
    }

    /// As [`ServedResource::in_version`], of many: the webhook is asked about some at a time.
    ///
    /// # Errors
    /// 500 when the webhook does not do it.
    pub async fn all_in_version(
        &self,
        storage: &Storage,
        mut objects: Vec<Arc<CacheEntry>>,
    ) -> Result<Vec<Arc<CacheEntry>>, Status> {
        let Some(converter) = self.converter() else {
            return Ok(objects);
        };
        let mut open: Vec<(usize, conversion::Slot)> = Vec::new();
        for (at, object) in objects.iter_mut().enumerate() {
            if object.api_version() == self.api_version {
                continue;
            }
            let slot = converter.slot(object, self);
            match slot.get() {
                Some(known) => *object = Arc::clone(known),
                None => open.push((at, slot)),
            }
        }
        for some in open.chunks(conversion::TOGETHER) {
            let values: Vec<Value> = some
                .iter()
                .map(|(at, _)| objects[*at].value().map_err(Status::internal))
                .collect::<Result<_, _>>()?;
            let converted = Box::pin(converter.convert(storage, values, &self.api_version)).await?;
            for ((at, slot), value) in some.iter().zip(converted) {
                let object = &mut objects[*at];
                let made = conversion::cached(object, value, self)?;
                // Somebody may have been faster; the same was made then.
                let _ = slot.set(Arc::clone(&made));
                *object = made;
            }
        }
        Ok(objects)
    }
}
