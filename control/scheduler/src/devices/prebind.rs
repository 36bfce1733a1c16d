//! PreBind: writes allocations and reservations of claims before their pod is bound.

use std::sync::Arc;
use std::time::Duration;

use control_client::{Client, Discard, Error, Patch, View, resources};
use control_devices::ContainerResourceRequest;
use control_devices::api::{AllocationResult, FINALIZER};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::DeviceReservation;
use super::reservation::ClaimReservation;
use super::unreserve::ATTEMPTS;
use super::wait::{WaitError, has_binding_conditions, wait_until_ready};
use crate::pre_binder::PreBinder;
use crate::view::{Consumer, Pod, ResourceClaim};

/// Pause between attempts that others got in the way of.
const PAUSE: Duration = Duration::from_millis(10);

/// Error that prevents the allocation of devices. The message is kube-scheduler's.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClaimPreBindError {
    /// The devices found cannot be allocated after all.
    #[error("{0}")]
    Allocation(String),
    /// A write or a read failed.
    #[error("{what}")]
    Api {
        /// The operation.
        what: String,
        /// The reason.
        #[source]
        source: Box<Error>,
    },
    /// Others changed the claim.
    #[error("claim {claim} got {what} in the meantime")]
    Changed {
        /// The claim, as `namespace/name`.
        claim: String,
        /// The concurrent change.
        what: &'static str,
    },
    /// Devices are not ready.
    #[error(transparent)]
    NotReady(#[from] WaitError),
}

pub(crate) async fn prebind(
    binder: &PreBinder,
    pod: &Pod,
    node: &str,
    reservation: &DeviceReservation,
) -> Result<(), ClaimPreBindError> {
    if let Some(why) = &reservation.failed {
        return Err(ClaimPreBindError::Allocation(why.clone()));
    }
    for claim in &reservation.claims {
        claim.set_under_way(true);
    }
    for claim in &reservation.claims {
        if !claim.claim.is_reserved_for(&pod.metadata.uid) {
            bind_claim(&binder.client, pod, claim).await?;
        }
    }
    let mut claims = reservation.claims.iter();
    if claims.any(has_binding_conditions) {
        wait_until_ready(binder, pod, node, reservation).await?;
    }
    Ok(())
}

/// Writes a claim's allocation, and that the pod uses it.
async fn bind_claim(
    client: &Client,
    pod: &Pod,
    reservation: &ClaimReservation,
) -> Result<(), ClaimPreBindError> {
    let mut claim = Arc::clone(&reservation.claim);
    if reservation.mappings.is_some() {
        claim = Arc::new(create_claim(client, pod, &claim).await?);
        reservation.set_written(Arc::clone(&claim));
    }
    let uid = claim.metadata.uid.clone();
    let mut attempt = 1;
    let written = loop {
        let written = write_claim(client, pod, &claim, reservation.allocation.as_deref()).await;
        let Err(WriteError::Conflict(error)) = written else {
            break written;
        };
        if attempt >= ATTEMPTS {
            break Err(WriteError::Conflict(error));
        }
        attempt += 1;
        tokio::time::sleep(PAUSE).await;
        let meta = &claim.metadata;
        let current: Result<ResourceClaim, _> = client
            .get(&ResourceClaim::RESOURCE, &meta.namespace, &meta.name)
            .await;
        let current = current.map_err(|source| ClaimPreBindError::Api {
            what: format!("get updated claim {} after conflict", reference(&claim)),
            source: Box::new(source),
        })?;
        if current.metadata.uid != uid {
            return Err(changed(&claim, "deleted"));
        }
        claim = Arc::new(current);
    };
    let claim = match written {
        Ok(claim) => Arc::new(claim),
        Err(WriteError::Conflict(error) | WriteError::Final(error)) => return Err(error),
    };
    reservation.set_written(Arc::clone(&claim));
    if let Some(mappings) = &reservation.mappings {
        write_pod_status(client, pod, &claim, mappings).await?;
    }
    Ok(())
}

enum WriteError {
    /// Another writer was faster.
    Conflict(ClaimPreBindError),
    Final(ClaimPreBindError),
}

impl WriteError {
    fn of(what: String, error: Error) -> Self {
        let is_conflict = error.is_conflict();
        let error = ClaimPreBindError::Api {
            what,
            source: Box::new(error),
        };
        if is_conflict {
            Self::Conflict(error)
        } else {
            Self::Final(error)
        }
    }
}

async fn write_claim(
    client: &Client,
    pod: &Pod,
    claim: &ResourceClaim,
    allocation: Option<&AllocationResult>,
) -> Result<ResourceClaim, WriteError> {
    let resource = ResourceClaim::RESOURCE;
    let changed = |what| WriteError::Final(changed(claim, what));
    if claim.metadata.is_terminating() {
        return Err(changed("deleted"));
    }
    let mut finalized = None;
    match (allocation, &claim.status.allocation) {
        (Some(_), Some(_)) => return Err(changed("allocated elsewhere")),
        (None, None) => return Err(changed("deallocated elsewhere")),
        (None, Some(_)) => {}
        (Some(_), None) => {
            let meta = &claim.metadata;
            if !meta.finalizers.iter().any(|one| one == FINALIZER) {
                let mut finalizers = meta.finalizers.clone();
                finalizers.push(FINALIZER.into());
                let patch = json!({"metadata": {"uid": meta.uid,
                    "resourceVersion": meta.resource_version, "finalizers": finalizers}});
                let patched: Result<ResourceClaim, _> = client
                    .patch(
                        &resource,
                        &meta.namespace,
                        &meta.name,
                        "",
                        Patch::Merge(&patch),
                    )
                    .await;
                let patched = patched.map_err(|error| {
                    WriteError::of(
                        format!("add finalizer to claim {}", reference(claim)),
                        error,
                    )
                })?;
                finalized = Some(patched);
            }
        }
    }
    let claim = finalized.as_ref().unwrap_or(claim);
    let patch = status_patch(claim, pod, allocation, Timestamp::now());
    let meta = &claim.metadata;
    client
        .patch_status(&resource, &meta.namespace, &meta.name, Patch::Merge(&patch))
        .await
        .map_err(|error| {
            let what = match allocation {
                Some(_) => "allocation and reservation",
                None => "reservation",
            };
            WriteError::of(format!("add {what} to claim {}", reference(claim)), error)
        })
}

/// Returns the patch of a claim's status.
fn status_patch(
    claim: &ResourceClaim,
    pod: &Pod,
    allocation: Option<&AllocationResult>,
    now: Timestamp,
) -> Value {
    let meta = &claim.metadata;
    let mut reserved_for = claim.status.reserved_for.clone();
    reserved_for.push(Consumer {
        resource: "pods".into(),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
        ..Consumer::default()
    });
    let mut status = json!({"reservedFor": reserved_for});
    if let Some(allocation) = allocation {
        status["allocation"] = json!(allocation);
    }
    let known = claim.status.allocation.as_ref();
    if known.is_none_or(|known| known.allocation_timestamp.is_none()) {
        status["allocation"]["allocationTimestamp"] = json!(control_client::time::seconds(now));
    }
    json!({
        "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
        "status": status,
    })
}

/// Makes the claim for a pod's extended resources.
async fn create_claim(
    client: &Client,
    pod: &Pod,
    claim: &ResourceClaim,
) -> Result<ResourceClaim, ClaimPreBindError> {
    let meta = &claim.metadata;
    let body = json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "namespace": meta.namespace,
            "generateName": format!("{}-extended-resources-", pod.metadata.name),
            "ownerReferences": meta.owner_references,
            "annotations": meta.annotations,
        },
        "spec": &*claim.spec,
    });
    client
        .create(&ResourceClaim::RESOURCE, &meta.namespace, &body)
        .await
        .map_err(|source| ClaimPreBindError::Api {
            what: format!("create claim for extended resources {}/", meta.namespace),
            source: Box::new(source),
        })
}

/// Writes into the pod's status which request serves which container.
async fn write_pod_status(
    client: &Client,
    pod: &Pod,
    claim: &ResourceClaim,
    mappings: &[ContainerResourceRequest],
) -> Result<(), ClaimPreBindError> {
    let meta = &pod.metadata;
    let patch = json!({
        "metadata": {"uid": meta.uid},
        "status": {"extendedResourceClaimStatus": {
            "requestMappings": mappings, "resourceClaimName": claim.metadata.name,
        }},
    });
    client
        .patch_status::<Discard>(
            &resources::PODS,
            &meta.namespace,
            &meta.name,
            Patch::Strategic(&patch),
        )
        .await
        .map(|_| ())
        .map_err(|source| ClaimPreBindError::Api {
            what: format!(
                "update pod {}/{} ExtendedResourceClaimStatus",
                meta.namespace, meta.name
            ),
            source: Box::new(source),
        })
}

fn changed(claim: &ResourceClaim, what: &'static str) -> ClaimPreBindError {
    ClaimPreBindError::Changed {
        claim: reference(claim),
        what,
    }
}

fn reference(claim: &ResourceClaim) -> String {
    format!("{}/{}", claim.metadata.namespace, claim.metadata.name)
}

#[cfg(test)]
#[path = "prebind_tests.rs"]
mod tests;
