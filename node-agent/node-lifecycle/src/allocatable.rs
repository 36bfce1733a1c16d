//! What all pods may have together, held by the kernel: the limits of their common
//! control group (`enforceNodeAllocatable`; source: the published documentation of
//! node allocatable).

use std::time::Duration;

use node_agent_cgroups::{Cgroups, NodeLimits};
use node_agent_cri::api::HugepageLimit;
use node_agent_kubelet_config::Settings;
use node_agent_objects::error_chain;
use node_agent_objects::events::NodeEvents;
use node_agent_objects::quantity;
use node_agent_pod_resources::{hugepages, qos};
use tokio_util::sync::CancellationToken;

use super::machine::Machine;

/// How long it takes to the next try: pods may use more than they shall have now.
const RETRY: Duration = Duration::from_secs(60);

/// The limits of all pods of a machine: all that it has, less what is reserved if that is
/// enforced. What must stay free of evictions is left to them. Pure.
#[must_use]
pub fn node_limits(machine: &Machine, settings: &Settings) -> NodeLimits {
    let kept = |name: &str, read: fn(&str) -> Option<i64>| -> u64 {
        let text = settings
            .reserved
            .get(name)
            .filter(|_| settings.enforce_pods);
        let amount = text.and_then(|text| read(text));
        amount.and_then(|n| u64::try_from(n).ok()).unwrap_or(0)
    };
    let signed = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let milli = machine.cpus.saturating_mul(1000);
    let huge = machine.hugepages.iter().map(|(size, pages)| {
        let reserved = kept(&hugepages::resource(*size), quantity::whole);
        HugepageLimit {
            page_size: hugepages::unit(*size),
            limit: size.saturating_mul(*pages).saturating_sub(reserved),
        }
    });
    NodeLimits {
        cpu_shares: qos::cpu_shares(signed(milli.saturating_sub(kept("cpu", quantity::milli)))),
        memory: signed(
            machine
                .memory
                .saturating_sub(kept("memory", quantity::whole)),
        ),
        tasks: machine
            .tasks
            .map(|most| most.saturating_sub(kept("pid", quantity::whole))),
        huge: huge.collect(),
    }
}

/// Sets the limits, and tries again until they can be set or `end`.
pub async fn enforce(
    cgroups: Cgroups,
    events: NodeEvents,
    limits: NodeLimits,
    end: CancellationToken,
) {
    loop {
        let Err(error) = cgroups.limit_node(&limits).await else {
            let message = "Updated Node Allocatable limit across pods";
            let reason = "NodeAllocatableEnforced";
            events.node_normal(reason, message);
            return;
        };
        let group = cgroups.layout().root();
        let error = error_chain(&error);
        tracing::warn!(group, error, "failed to enforce node allocatable limits");
        let message = format!("Failed to update Node Allocatable Limits \"{group}\": {error}");
        let reason = "FailedNodeAllocatableEnforcement";
        events.node_warning(reason, message);
        tokio::select! {
            () = end.cancelled() => return,
            () = tokio::time::sleep(RETRY) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_together_get_what_is_not_reserved() {
        let machine = Machine {
            cpus: 4,
            memory: 1000,
            tasks: Some(500),
            hugepages: [(2 << 20, 3)].into_iter().collect(),
            ..Machine::default()
        };
        let mut settings = Settings::default();
        for (name, amount) in [
            ("cpu", "500m"),
            ("memory", "100"),
            ("pid", "50"),
            ("hugepages-2Mi", "2Mi"),
        ] {
            settings.reserved.insert(name.into(), amount.into());
        }
        let huge = |limit| {
            let page_size = "2MB".to_owned();
            vec![HugepageLimit { page_size, limit }]
        };
        let enforced = NodeLimits {
            cpu_shares: 3584,
            memory: 900,
            tasks: Some(450),
            huge: huge(4 << 20),
        };
        assert_eq!(node_limits(&machine, &settings), enforced);
        settings.enforce_pods = false;
        let all = NodeLimits {
            cpu_shares: 4096,
            memory: 1000,
            tasks: Some(500),
            huge: huge(6 << 20),
        };
        assert_eq!(node_limits(&machine, &settings), all);
        settings.enforce_pods = true;
        settings.reserved.insert("memory".into(), "2000".into());
        assert_eq!(node_limits(&machine, &settings).memory, 0);
    }
}
