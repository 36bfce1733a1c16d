//! DynamicResources: a pod runs where the devices of its claims are, or can be allocated.

use control_client::Change;

use super::claims::{WAKES, claims, pre_enqueue};
use crate::bits::Bits;
use crate::catalog::CatalogEvent;
use crate::cluster::Cluster;
use crate::event::{Event, Subject};
use crate::plugins::{Cycle, Plugin, RejectedNodes, proportional};
use crate::snapshot::Wake;
use crate::unmet::UnmetReason;
use crate::view::{Pod, ResourceClaim};

pub(crate) struct DynamicResources;

impl Plugin for DynamicResources {
    fn name(&self) -> &'static str {
        "DynamicResources"
    }

    fn pre_enqueue(&self, cluster: &Cluster, pod: &Pod) -> Result<(), UnmetReason> {
        pre_enqueue(pod, &cluster.catalog)
    }

    fn filter_cycle(&self, cycle: &Cycle<'_>, nodes: &mut Bits, rejected: &mut RejectedNodes) {
        if let Some(work) = &cycle.devices.work {
            work.filter(cycle.snapshot, nodes, rejected);
        }
    }

    fn score_cycle(&self, cycle: &Cycle<'_>, nodes: &Bits, scores: &mut [i64]) -> bool {
        let Some(work) = &cycle.devices.work else {
            return false;
        };
        for place in nodes.iter() {
            if let Some(score) = scores.get_mut(place) {
                *score = work.score(place);
            }
        }
        true
    }

    fn normalize_cycle(&self, nodes: &Bits, scores: &mut [i64]) {
        proportional(nodes, scores, false);
    }

    fn wakes(&self) -> Wake {
        WAKES
    }

    fn hint(&self, cluster: &Cluster, pod: &Pod, event: &Event<'_>) -> bool {
        match event.subject {
            Subject::Itself { new, .. } => pre_enqueue(new, &cluster.catalog).is_ok(),
            Subject::Object(CatalogEvent::ResourceClaim(change)) => {
                let current = change.current.as_deref();
                current
                    .is_some_and(|claim| may_help(cluster, pod, change.previous.as_deref(), claim))
            }
            Subject::Object(
                CatalogEvent::ResourceSlice(Change { current: None, .. })
                | CatalogEvent::DeviceClass(Change { current: None, .. }),
            ) => false,
            _ => true,
        }
    }
}

/// Whether a claim that was made or changed may make a pod fit.
fn may_help(
    cluster: &Cluster,
    pod: &Pod,
    previous: Option<&ResourceClaim>,
    claim: &ResourceClaim,
) -> bool {
    let Ok(claims) = claims(pod, &cluster.catalog) else {
        return false;
    };
    let is_same = |previous: &&ResourceClaim| previous.metadata.uid == claim.metadata.uid;
    let previous = previous.filter(is_same);
    let had_devices = previous.is_some_and(|previous| previous.status.allocation.is_some());
    if had_devices && claim.status.allocation.is_none() {
        // others can have its devices
        return true;
    }
    let mut uids = claims.iter().map(|claim| &claim.metadata.uid);
    uids.any(|uid| *uid == claim.metadata.uid)
        && previous.is_none_or(|previous| previous.status != claim.status)
}
