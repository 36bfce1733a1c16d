//! Services: their number, and their use of nodes and load balancers.

use control_types::value::Value;

use super::amount::{Amount, Usage};
use super::measure::{Measure, Request};
use super::scope_selector;
use crate::tree::Read as _;

pub(super) const MEASURE: Measure = Measure {
    group: "",
    plural: "services",
    usage: |service, _, _| usage(service),
    tracks: |name, _| {
        matches!(
            name,
            "services" | "services.nodeports" | "services.loadbalancers"
        )
    },
    // The type may change.
    handles: |request: &Request<'_>| request.subresource.is_empty(),
    in_scope: scope_selector::none,
    constraints: |_, _| Ok(()),
};

fn usage(service: &Value) -> Usage {
    let spec = service.at("spec");
    let ports = spec.items("ports");
    let number = |count: usize| Amount::number(i64::try_from(count).unwrap_or(i64::MAX));
    let (node_ports, balancers) = match spec.text("type") {
        "NodePort" => (ports.len(), 0),
        // Ports that are not allocated automatically count if they are set.
        "LoadBalancer" if spec.truth("allocateLoadBalancerNodePorts") == Some(false) => {
            let asked = ports.iter().filter(|port| port.num("nodePort") != 0);
            (asked.count(), 1)
        }
        "LoadBalancer" => (ports.len(), 1),
        _ => (0, 0),
    };
    let mut usage = Usage::default();
    usage.set("services", Amount::number(1));
    usage.set("services.nodeports", number(node_ports));
    usage.set("services.loadbalancers", number(balancers));
    usage
}
