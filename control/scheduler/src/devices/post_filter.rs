//! PostFilter: devices are given back where that may let the pod fit.

use std::sync::Arc;

use control_client::{Client, Discard, Error, Patch, View};
use serde_json::json;

use super::unreserve::delete;
use crate::view::ResourceClaim;

/// A claim whose devices are given back.
#[derive(Clone, Debug)]
pub enum Deallocation {
    /// Its allocation does not help the pod, and nothing else uses it.
    Deallocate(Arc<ResourceClaim>),
    /// It was made for extended resources of the pod, in an attempt that failed.
    Delete(Arc<ResourceClaim>),
}

impl PartialEq for Deallocation {
    fn eq(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Deallocate(one), Self::Deallocate(other))
            | (Self::Delete(one), Self::Delete(other)) => one.metadata.uid == other.metadata.uid,
            _ => false,
        }
    }
}

impl Deallocation {
    pub(super) const fn message(&self) -> &'static str {
        match self {
            Self::Deallocate(_) => "deallocation of ResourceClaim completed",
            Self::Delete(_) => "deletion of ResourceClaim completed",
        }
    }

    /// Gives the devices back.
    ///
    /// # Errors
    /// A write failed; the pod is tried again, and so is this.
    pub async fn carry_out(&self, client: &Client) -> Result<(), Error> {
        match self {
            Self::Delete(claim) => delete(client, claim).await,
            Self::Deallocate(claim) => {
                let meta = &claim.metadata;
                let patch = json!({
                    "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
                    "status": {"allocation": null, "reservedFor": null, "devices": null},
                });
                client
                    .patch_status::<Discard>(
                        &ResourceClaim::RESOURCE,
                        &meta.namespace,
                        &meta.name,
                        Patch::Merge(&patch),
                    )
                    .await
                    .map(|_| ())
            }
        }
    }
}
