//! Whether the node takes a pod at all. Pure.
//!
//! The scheduler has looked at most of this, but pods also come past it (a
//! `nodeName` in a manifest, a label that has changed since), and what only the
//! node knows is checked here alone. The order, reasons and messages are the
//! kubelet's; a refusal ends the pod as `Failed`.

use std::collections::BTreeMap;
use std::sync::Arc;

use control_types::labels::Operator;
use node_agent_node_lifecycle::guard;
use node_agent_node_lifecycle::machine::Pressure;
use node_agent_objects::pod::{NodeSelectorRequirement, NodeSelectorTerm, Pod, PodSpec};
use node_agent_objects::quantity;
use node_agent_pod_registry::TerminationCause;
use node_agent_pod_resources::qos;

/// The node's resources and the pods that it runs.
#[derive(Clone, Copy)]
pub struct NodeSnapshot<'a> {
    /// Its name.
    pub name: &'a str,
    /// A label of it.
    pub label: &'a dyn Fn(&str) -> Option<String>,
    /// What it has for pods.
    pub allocatable: &'a BTreeMap<String, String>,
    /// Settings of the kernel beyond the safe ones that pods may change; a
    /// trailing `*` stands for anything.
    pub sysctls: &'a [String],
    /// What it is short of.
    pub pressure: Pressure,
    /// Whether its machine is going down.
    pub leaving: bool,
}

/// Settings of the kernel that belong to a pod alone and harm no other.
const SAFE_SYSCTLS: [&str; 12] = [
    "kernel.shm_rmid_forced",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.ping_group_range",
    "net.ipv4.ip_unprivileged_port_start",
    "net.ipv4.ip_local_reserved_ports",
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_wmem",
];

/// Why the node does not take `pod` beside `others`, if it does not.
#[must_use]
pub fn refusal(pod: &Pod, node: NodeSnapshot<'_>, others: &[Arc<Pod>]) -> Option<TerminationCause> {
    let spec = &pod.spec;
    if node.leaving {
        return Some(TerminationCause {
            reason: "NodeShutdown".to_owned(),
            message: "Pod was rejected: Pod was rejected as the node is shutting down.".to_owned(),
            disruption: false,
        });
    }
    if let Some(message) = guard::refuses(node.pressure, pod) {
        return Some(TerminationCause {
            reason: "Evicted".to_owned(),
            message: format!("Pod was rejected: {message}"),
            disruption: false,
        });
    }
    let refuse = |reason: &str, message: String| {
        Some(TerminationCause {
            reason: reason.to_owned(),
            message: format!("Pod was rejected: {message}"),
            disruption: false,
        })
    };
    if let Some(message) = forbidden_sysctl(spec, node.sysctls) {
        return refuse("SysctlForbidden", message);
    }
    if spec.os.as_ref().is_some_and(|os| os.name != "linux") {
        return refuse(
            "PodOSNotSupported",
            "Failed to admit pod as the OS field doesn't match node OS".to_owned(),
        );
    }
    if let Some((reason, message)) = short_of(spec, node, others) {
        return refuse(&reason, message);
    }
    if !matches_node(spec, node) {
        let message =
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector";
        return refuse("NodeAffinity", message.to_owned());
    }
    if takes_port(spec, others) {
        let message = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";
        return refuse("NodePorts", message.to_owned());
    }
    None
}

fn forbidden_sysctl(spec: &PodSpec, allowed: &[String]) -> Option<String> {
    let wanted = &spec.security_context.as_ref()?.sysctls;
    wanted.iter().find_map(|sysctl| {
        let name = sysctl.name.replace('/', ".");
        let safe = SAFE_SYSCTLS.contains(&name.as_str())
            || allowed.iter().any(|a| match a.strip_suffix('*') {
                Some(prefix) => name.starts_with(prefix),
                None => *a == name,
            });
        if !safe {
            return Some(format!("forbidden sysctl: \"{name}\" not allowlisted"));
        }
        // in the host's namespaces they would be the host's
        let namespaced = if name.starts_with("net.") {
            !spec.host_network
        } else {
            !spec.host_ipc
        };
        let which = if name.starts_with("net.") {
            "network"
        } else {
            "ipc"
        };
        (!namespaced)
            .then(|| format!("forbidden sysctl: \"{name}\" not allowed with host {which} enabled"))
    })
}

fn short_of(
    spec: &PodSpec,
    node: NodeSnapshot<'_>,
    others: &[Arc<Pod>],
) -> Option<(String, String)> {
    for (name, text) in node.allocatable {
        let most = if name == "cpu" {
            quantity::milli(text)
        } else {
            quantity::whole(text)
        }?;
        let of = |spec: &PodSpec| match name.as_str() {
            "pods" => 1,
            _ => qos::pod_request(spec, name),
        };
        let asked = of(spec);
        if asked == 0 {
            continue;
        }
        let used: i64 = others
            .iter()
            .map(|other| of(&other.spec))
            .fold(0, i64::saturating_add);
        if used.saturating_add(asked) > most {
            let message = format!(
                "Node didn't have enough resource: {name}, requested: {asked}, used: {used}, capacity: {most}"
            );
            return Some((format!("OutOf{name}"), message));
        }
    }
    None
}

fn matches_node(spec: &PodSpec, node: NodeSnapshot<'_>) -> bool {
    let selected = spec
        .node_selector
        .iter()
        .all(|(key, value)| (node.label)(key).as_ref() == Some(value));
    let required = spec
        .affinity
        .as_ref()
        .and_then(|a| a.node_affinity.as_ref())
        .and_then(|a| {
            a.required_during_scheduling_ignored_during_execution
                .as_ref()
        });
    selected && required.is_none_or(|r| r.node_selector_terms.iter().any(|t| term(t, node)))
}

/// A term without requirements selects nothing.
fn term(term: &NodeSelectorTerm, node: NodeSnapshot<'_>) -> bool {
    let some = !term.match_expressions.is_empty() || !term.match_fields.is_empty();
    some && term
        .match_expressions
        .iter()
        .all(|r| requirement(r, (node.label)(&r.key)))
        && term.match_fields.iter().all(|r| {
            let value = (r.key == "metadata.name").then(|| node.name.to_owned());
            requirement(r, value)
        })
}

fn requirement(requirement: &NodeSelectorRequirement, value: Option<String>) -> bool {
    let operator = Operator::from_name(&requirement.operator);
    operator.is_some_and(|it| it.holds(&requirement.values, value.as_deref()))
}

fn takes_port(spec: &PodSpec, others: &[Arc<Pod>]) -> bool {
    let ports = |spec: &PodSpec| -> Vec<(String, i32, String)> {
        spec.init_containers
            .iter()
            .filter(|c| c.is_sidecar())
            .chain(&spec.containers)
            .flat_map(|c| &c.ports)
            .filter(|p| p.host_port > 0)
            .map(|p| {
                let protocol = if p.protocol.is_empty() {
                    "TCP"
                } else {
                    &p.protocol
                };
                (protocol.to_owned(), p.host_port, p.host_ip.clone())
            })
            .collect()
    };
    let any = |ip: &str| ip.is_empty() || ip == "0.0.0.0" || ip == "::";
    let wanted = ports(spec);
    !wanted.is_empty()
        && others.iter().flat_map(|o| ports(&o.spec)).any(|taken| {
            wanted.iter().any(|w| {
                w.0 == taken.0 && w.1 == taken.1 && (w.2 == taken.2 || any(&w.2) || any(&taken.2))
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(spec: &serde_json::Value) -> Pod {
        serde_json::from_value(serde_json::json!({"metadata": {"name": "web"}, "spec": spec}))
            .unwrap()
    }

    fn reason(spec: serde_json::Value) -> Option<String> {
        let other = serde_json::json!({"containers": [{"name": "a",
            "ports": [{"hostPort": 80, "containerPort": 80, "hostIP": "10.0.0.1"}],
            "resources": {"requests": {"cpu": "1500m", "memory": "1Gi"}}}]});
        let allocatable = [("cpu", "2"), ("memory", "2Gi"), ("pods", "2")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into();
        let node = NodeSnapshot {
            name: "n1",
            label: &|key| (key == "zone").then(|| "7".to_owned()),
            allocatable: &allocatable,
            sysctls: &["kernel.msg*".to_owned()],
            pressure: Pressure::default(),
            leaving: false,
        };
        refusal(&pod(&spec), node, &[Arc::new(pod(&other))]).map(|s| s.reason)
    }

    #[test]
    fn the_node_refuses_what_it_cannot_give() {
        let cpu = |cpu: &str| serde_json::json!({"containers": [{"name": "a", "resources": {"requests": {"cpu": cpu}}}]});
        assert_eq!(reason(cpu("500m")), None);
        assert_eq!(reason(cpu("501m")).unwrap(), "OutOfcpu");
        let memory = serde_json::json!({"overhead": {"memory": "1"}, "containers": [{"name": "a", "resources": {"limits": {"memory": "1Gi"}}}]});
        assert_eq!(reason(memory).unwrap(), "OutOfmemory");
    }

    #[test]
    fn ports_clash_only_on_the_same_address_and_protocol() {
        let port = |ip: &str, protocol: &str| {
            serde_json::json!({"containers": [{"name": "a", "ports":
                [{"hostPort": 80, "containerPort": 1, "hostIP": ip, "protocol": protocol}]}]})
        };
        assert_eq!(reason(port("10.0.0.1", "TCP")).unwrap(), "NodePorts");
        assert_eq!(reason(port("", "TCP")).unwrap(), "NodePorts");
        assert_eq!(reason(port("10.0.0.2", "TCP")), None);
        assert_eq!(reason(port("10.0.0.1", "UDP")), None);
    }

    #[test]
    fn affinity_is_the_schedulers() {
        let with = |operator: &str, values: &[&str]| {
            serde_json::json!({"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": operator, "values": values}]}]}}}})
        };
        let cases = [
            ("In", vec!["7", "8"], true),
            ("NotIn", vec!["7"], false),
            ("Exists", vec![], true),
            ("DoesNotExist", vec![], false),
            ("Gt", vec!["6"], true),
            ("Lt", vec!["7"], false),
        ];
        for (operator, values, fits) in cases {
            let found = reason(with(operator, &values));
            assert_eq!(found.is_none(), fits, "{operator} {values:?}");
        }
        assert_eq!(
            reason(serde_json::json!({"nodeSelector": {"zone": "8"}})).unwrap(),
            "NodeAffinity"
        );
    }

    #[test]
    fn unsafe_sysctls_need_leave() {
        let with = |name: &str, host: bool| {
            serde_json::json!({"hostNetwork": host,
                "securityContext": {"sysctls": [{"name": name, "value": "1"}]}})
        };
        assert_eq!(reason(with("kernel/shm_rmid_forced", false)), None);
        assert_eq!(reason(with("kernel.msgmax", false)), None);
        assert_eq!(
            reason(with("vm.swappiness", false)).unwrap(),
            "SysctlForbidden"
        );
        assert_eq!(
            reason(with("net.ipv4.tcp_syncookies", true)).unwrap(),
            "SysctlForbidden"
        );
    }
}
