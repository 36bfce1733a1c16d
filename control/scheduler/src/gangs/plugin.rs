//! The plugin GangScheduling: how many pods of a gang there must be.

use std::time::Duration;

use super::Gangs;
use crate::cluster::Cluster;
use crate::event::{Event, Subject};
use crate::plugins::{Permission, Plugin};
use crate::snapshot::Wake;
use crate::unmet::UnmetReason;
use crate::view::Pod;

/// The plugin's name.
pub(crate) const GANG_SCHEDULING: &str = "GangScheduling";

/// How long a pod that has a node waits for others of its gang to have one.
const PERMITTED_WITHIN: Duration = Duration::from_secs(300);

/// Schedules a gang when as many of its pods as it needs fit.
pub(crate) struct GangScheduling;

fn unmet(reason: String) -> UnmetReason {
    UnmetReason {
        plugin: GANG_SCHEDULING,
        reason,
        on_each_node: false,
        resolvable: false,
        wake: Wake::POD_GROUP,
    }
}

fn is_there(gangs: &Gangs, pod: &Pod) -> Result<(), UnmetReason> {
    let Some(key) = pod.gang().filter(|_| gangs.is_enabled()) else {
        return Ok(());
    };
    let Some(group) = gangs.group(&key) else {
        // as upstream has it, to the letter
        return Err(unmet(format!(
            "waiting for pods's pod group {:?} to appear in scheduling queue",
            key.1
        )));
    };
    if group
        .min_count
        .is_some_and(|it| gangs.counts(&key).all < it)
    {
        let reason = "waiting for minCount pods from a gang to appear in scheduling queue";
        return Err(unmet(reason.to_owned()));
    }
    Ok(())
}

impl Plugin for GangScheduling {
    fn name(&self) -> &'static str {
        GANG_SCHEDULING
    }

    fn pre_enqueue(&self, cluster: &Cluster, pod: &Pod) -> Result<(), UnmetReason> {
        is_there(&cluster.gangs, pod)
    }

    fn permit(&self, cluster: &Cluster, pod: &Pod) -> Permission {
        let gangs = &cluster.gangs;
        let Some(key) = pod.gang().filter(|_| gangs.is_enabled()) else {
            return Permission::Allowed;
        };
        let Some(group) = gangs.group(&key) else {
            return Permission::Failed(format!(
                "failed to get podGroup {}/{}: podgroup.scheduling.k8s.io {:?} not found",
                key.0, key.1, key.1
            ));
        };
        match group.min_count {
            Some(needed) if gangs.counts(&key).scheduled < needed => Permission::Wait {
                plugin: GANG_SCHEDULING,
                within: PERMITTED_WITHIN,
                message: "waiting for minCount pods from a gang to be scheduled",
            },
            _ => Permission::Allowed,
        }
    }

    fn wakes(&self) -> Wake {
        Wake::POD_GROUP
    }

    fn hint(&self, _: &Cluster, pod: &Pod, event: &Event<'_>) -> bool {
        match event.subject {
            Subject::Gang { gang, .. } => pod.gang().as_ref() == Some(gang),
            _ => false,
        }
    }
}
