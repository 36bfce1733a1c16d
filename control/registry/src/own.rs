//! Writing the server's own objects: the one place where it does, under names
//! of its own in `managedFields`.

use control_types::status::Status;
use control_types::value::Value;
use control_types::{meta, value};

pub use crate::managed::OWN;

use crate::managed::{self, Endpoint};
use crate::registry::Registry;
use crate::served_resource::ServedResource;
use crate::write::Decision;

/// Makes an object if it is missing; else lets `mend` change it and tell
/// whether it did. `manager` is who does so.
///
/// # Errors
/// When it cannot be written.
pub async fn ensure(
    registry: &Registry,
    (group, plural): (&str, &str),
    manager: &str,
    mut object: Value,
    mend: impl Fn(&mut Value, &Value) -> bool,
) -> Result<(), Status> {
    let served = registry.resource(group, plural)?;
    let key = served.key(meta::namespace(&object), meta::name(&object));
    if let Some(present) = served.cache()?.get(&key) {
        let mut present = present.value().map_err(Status::internal)?;
        if !mend(&mut present, &object) {
            return Ok(());
        }
    }
    Endpoint::for_resource(registry, served, "").write(None, &mut object, manager);
    meta::set_uid(&mut object, &uuid::Uuid::new_v4().to_string());
    meta::set_creation_timestamp(&mut object, jiff::Timestamp::now());
    registry.allocators.complete(served, &mut object)?;
    (served.kind.facts().prepare_create)(&mut object);
    served.form().complete(&mut object);
    registry
        .modify(served, &key, false, None, |current| {
            let Some(current) = current else {
                return Ok(Decision::Put(object.clone()));
            };
            let old = current.object;
            let mut new = old.clone();
            if !mend(&mut new, &object) {
                return Ok(Decision::Keep(old));
            }
            Endpoint::for_resource(registry, served, "").write(Some(&old), &mut new, manager);
            Ok(Decision::Put(new))
        })
        .await
        .map(drop)
}

/// Changes the status of a stored object if it is there and `mend` says that it
/// changed it.
///
/// # Errors
/// When it cannot be written.
pub async fn change(
    registry: &Registry,
    served: &ServedResource,
    key: &str,
    mend: impl Fn(&mut Value) -> bool,
) -> Result<(), Status> {
    let done = registry
        .modify(served, key, false, None, |current| {
            let old = current.ok_or_else(|| served.not_found(key))?.object;
            let mut new = old.clone();
            if !mend(&mut new) {
                return Ok(Decision::Keep(old));
            }
            Endpoint::for_resource(registry, served, "status").write(Some(&old), &mut new, OWN);
            Ok(if crate::verbs::update::is_finished(&new) {
                Decision::Delete(new)
            } else {
                Decision::Put(new)
            })
        })
        .await;
    gone_is_well(done.map(drop))
}

/// Applies a status (server-side apply, forced) to a stored object: the one
/// that `wanted` makes of it, `None` to leave it alone.
///
/// # Errors
/// When it cannot be written.
pub async fn apply(
    registry: &Registry,
    served: &ServedResource,
    key: &str,
    manager: &str,
    wanted: impl Fn(&Value) -> Option<Value>,
) -> Result<(), Status> {
    let resource = served.resource;
    let done = registry
        .modify(served, key, false, None, |current| {
            let old = current.ok_or_else(|| served.not_found(key))?.object;
            let Some(status) = wanted(&old) else {
                return Ok(Decision::Keep(old));
            };
            let config = value!({
                "kind": (resource.kind),
                "apiVersion": (served.api_version.as_str()),
                "metadata": {"name": (meta::name(&old))},
                "status": (status)
            });
            let endpoint = Endpoint::for_resource(registry, served, "status");
            let mut new = endpoint.apply(Some(&old), &config, manager, true)?;
            served.form().coerce(&mut new).map_err(|error| {
                Status::internal(error.of_kind(resource.version, resource.kind, resource.kind))
            })?;
            served.form().complete(&mut new);
            managed::keep_times(&mut new, &old);
            Ok(Decision::Put(new))
        })
        .await;
    gone_is_well(done.map(drop))
}

/// Deletes an object.
///
/// # Errors
/// When it cannot be written.
pub async fn delete(registry: &Registry, served: &ServedResource, key: &str) -> Result<(), Status> {
    let done = registry
        .modify(served, key, false, None, |current| {
            let current = current.ok_or_else(|| served.not_found(key))?;
            Ok(Decision::Delete(current.object))
        })
        .await;
    gone_is_well(done.map(drop))
}

/// What was deleted meanwhile needs no change.
fn gone_is_well(done: Result<(), Status>) -> Result<(), Status> {
    match done {
        Err(status) if status.code == 404 => Ok(()),
        other => other,
    }
}

/// All cached objects of a resource.
///
/// # Errors
/// When one cannot be read.
pub fn all(registry: &Registry, group: &str, plural: &str) -> Result<Vec<Value>, Status> {
    let state = registry.resource(group, plural)?.cache()?.state();
    state
        .objects
        .iter()
        .map(|object| object.value().map_err(Status::internal))
        .collect()
}

/// Copies members and tells whether any differed.
pub fn copy(old: &mut Value, new: &Value, members: &[&'static str]) -> bool {
    let mut changed = false;
    for member in members {
        let wanted = new.get(member).cloned().unwrap_or_default();
        if old.get(member) != Some(&wanted) {
            old.insert(*member, wanted);
            changed = true;
        }
    }
    changed
}
