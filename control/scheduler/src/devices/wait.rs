//! Waits until devices are ready for their pod to be bound (KEP 5007).

use std::time::Duration;

use compact_str::CompactString;
use control_client::events::{ObjectReference, Severity};
use control_client::resources;
use control_devices::{BindingState, binding_state};
use jiff::Timestamp;
use tokio::time::Instant;

use super::DeviceReservation;
use super::reservation::ClaimReservation;
use super::state::{BINDING_TIMEOUT, is_overdue};
use crate::pre_binder::PreBinder;
use crate::view::Pod;

/// How often claims are looked at.
const INTERVAL: Duration = Duration::from_secs(5);

/// The reason why devices do not become ready.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WaitError {
    /// A condition says that it failed.
    #[error("device binding failed: claim={claim}, reason={reason}, message={message:?}")]
    Failed {
        /// The claim.
        claim: CompactString,
        /// The condition's reason.
        reason: CompactString,
        /// The condition's message.
        message: String,
    },
    /// It takes too long since the claim was allocated.
    #[error("device binding timeout: claim={claim}")]
    Overdue {
        /// The claim.
        claim: CompactString,
    },
    /// It takes too long.
    #[error("device binding timeout: context deadline exceeded")]
    Timeout,
    /// A claim was deleted.
    #[error("could not find ResourceClaim \"{claim}\"")]
    Gone {
        /// The claim, as `namespace/name`.
        claim: String,
    },
}

/// Whether devices of a claim have to become ready.
pub(super) fn has_binding_conditions(claim: &ClaimReservation) -> bool {
    let known = claim.claim.status.allocation.as_ref();
    let allocation = claim.allocation.as_ref().or(known);
    allocation.is_some_and(|allocation| {
        let mut results = allocation.devices.results.iter();
        results.any(|result| !result.binding_conditions.is_empty())
    })
}

pub(super) async fn wait_until_ready(
    binder: &PreBinder,
    pod: &Pod,
    node: &str,
    reservation: &DeviceReservation,
) -> Result<(), WaitError> {
    let regarding = ObjectReference::to_object(&resources::PODS, &pod.metadata);
    binder.recorder.event(
        &regarding,
        Severity::Normal,
        "BindingConditionsPending",
        "Scheduling",
        format!("waiting for binding conditions for device on node {node}"),
    );
    let deadline = Instant::now() + BINDING_TIMEOUT;
    loop {
        if are_ready(binder, reservation)? {
            return Ok(());
        }
        let next = Instant::now() + INTERVAL;
        if next > deadline {
            tokio::time::sleep_until(deadline).await;
            return Err(WaitError::Timeout);
        }
        tokio::time::sleep_until(next).await;
    }
}

/// Whether the devices of all claims are ready, as the cache shows them.
fn are_ready(binder: &PreBinder, reservation: &DeviceReservation) -> Result<bool, WaitError> {
    for claim in &reservation.claims {
        let written = claim.last_written();
        let known = written.as_ref().unwrap_or(&claim.claim);
        let (namespace, name) = (&known.metadata.namespace, &known.metadata.name);
        let seen = binder.catalog.resource_claims.get(namespace, name);
        let Some(seen) = seen.filter(|seen| seen.metadata.uid == known.metadata.uid) else {
            if written.is_some() {
                // a claim that was made just now
                return Ok(false);
            }
            return Err(WaitError::Gone {
                claim: format!("{namespace}/{name}"),
            });
        };
        let Some(allocation) = &seen.status.allocation else {
            return Ok(false);
        };
        match binding_state(allocation, &seen.status.devices) {
            BindingState::Ready => {}
            BindingState::Failed { reason, message } => {
                return Err(WaitError::Failed {
                    claim: name.clone(),
                    reason,
                    message,
                });
            }
            BindingState::Pending if is_overdue(allocation, Timestamp::now()) => {
                return Err(WaitError::Overdue {
                    claim: name.clone(),
                });
            }
            BindingState::Pending => return Ok(false),
        }
    }
    Ok(true)
}
