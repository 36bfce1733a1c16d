//! Unreserve: reverts writes for a pod that is not bound after all.

use control_client::{Client, DeleteOptions, Discard, Error, Patch, View};
use control_devices::api::FINALIZER;
use serde_json::json;

use super::DeviceReservation;
use crate::view::{Pod, ResourceClaim};

/// Attempts at a write that others get in the way of.
pub(super) const ATTEMPTS: u32 = 5;

/// Removes the pod's reservations of claims, and deletes the claim that was created for
/// its extended resources. The pod's next attempt repeats what fails.
pub(crate) async fn unreserve(client: &Client, pod: &Pod, reservation: &DeviceReservation) {
    for claim in &reservation.claims {
        let written = claim.last_written();
        let current = written.as_ref().unwrap_or(&claim.claim);
        let result = if claim.mappings.is_some() {
            match &written {
                Some(written) => delete(client, written).await,
                None => Ok(()),
            }
        } else if current.is_reserved_for(&pod.metadata.uid) {
            release(client, current, pod).await
        } else {
            Ok(())
        };
        match result {
            Ok(()) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => tracing::warn!(
                namespace = %current.metadata.namespace, claim = %current.metadata.name,
                error = error.chain(), "failed to revert the reservation of a claim"
            ),
        }
        claim.set_under_way(false);
    }
}

/// Takes a pod's reservation of a claim back.
async fn release(client: &Client, claim: &ResourceClaim, pod: &Pod) -> Result<(), Error> {
    let meta = &claim.metadata;
    let patch = json!({
        "metadata": {"uid": meta.uid},
        "status": {"reservedFor": [{"$patch": "delete", "uid": pod.metadata.uid}]},
    });
    client
        .patch_status::<Discard>(
            &ResourceClaim::RESOURCE,
            &meta.namespace,
            &meta.name,
            Patch::Strategic(&patch),
        )
        .await
        .map(|_| ())
}

/// Deletes a claim, whose finalizer is removed first.
pub(super) async fn delete(client: &Client, claim: &ResourceClaim) -> Result<(), Error> {
    let resource = ResourceClaim::RESOURCE;
    let (namespace, name) = (&claim.metadata.namespace, &claim.metadata.name);
    let mut meta = claim.metadata.clone();
    for attempt in 1.. {
        let finalizers = meta.finalizers.iter().filter(|one| *one != FINALIZER);
        let finalizers: Vec<_> = finalizers.collect();
        if finalizers.len() == meta.finalizers.len() {
            break;
        }
        let patch = json!({"metadata": {
            "uid": meta.uid, "resourceVersion": meta.resource_version, "finalizers": finalizers,
        }});
        let patched = client
            .patch::<Discard>(&resource, namespace, name, "", Patch::Merge(&patch))
            .await;
        match patched {
            Ok(_) => break,
            Err(error) if error.is_conflict() && attempt < ATTEMPTS => {
                let current: ResourceClaim = client.get(&resource, namespace, name).await?;
                meta = current.metadata;
            }
            Err(error) => return Err(error),
        }
    }
    let of_uid = DeleteOptions::of_uid(claim.metadata.uid.as_str());
    client
        .delete(&resource, namespace, name, &of_uid)
        .await
        .map(|_| ())
}
