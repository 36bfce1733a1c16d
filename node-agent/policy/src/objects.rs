//! The fields of API objects that decide about policy.
//!
//! Fields are unchecked API values: addresses may be invalid and numbers out of range.
//! [`lower`](crate::lower) never lets invalid values allow more.

use std::collections::BTreeMap;

pub use control_types::label_selector::{LabelRequirement as Expression, LabelSelector};
use serde::{Deserialize, Deserializer};

/// `metadata` of an object.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Metadata {
    /// Name.
    pub name: String,
    /// Namespace.
    pub namespace: String,
    /// Labels.
    #[serde(deserialize_with = "nullable")]
    pub labels: BTreeMap<String, String>,
    /// Annotations; only those of the host firewall are read.
    #[serde(deserialize_with = "nullable")]
    pub annotations: BTreeMap<String, String>,
    /// RFC 3339; of two pods with one address the younger one has it.
    pub creation_timestamp: Option<String>,
}

/// A Pod (`v1`).
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Pod {
    /// Name, namespace and labels.
    pub metadata: Metadata,
    /// The desired state.
    pub spec: PodSpec,
    /// The observed state.
    #[serde(deserialize_with = "nullable")]
    pub status: PodStatus,
}

/// A Pod's `spec`.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// The node; empty as long as none is chosen.
    #[serde(deserialize_with = "nullable")]
    pub node_name: String,
    /// Whether it is in the node's network.
    #[serde(deserialize_with = "nullable")]
    pub host_network: bool,
    /// For the names of ports.
    #[serde(deserialize_with = "nullable")]
    pub containers: Vec<Container>,
    /// Those that stay (sidecars) have ports too.
    #[serde(deserialize_with = "nullable")]
    pub init_containers: Vec<Container>,
}

/// One of a Pod's containers.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Ports.
    #[serde(deserialize_with = "nullable")]
    pub ports: Vec<ContainerPort>,
    /// `Always` makes an init container a sidecar.
    pub restart_policy: Option<String>,
}

/// One of a container's `ports`.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    /// Its name, if it has one.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// Number.
    pub container_port: i64,
    /// `TCP` (also if absent), `UDP` or `SCTP`.
    pub protocol: Option<String>,
}

/// A Pod's `status`.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Succeeded` and `Failed` pods have no addresses any more.
    #[serde(deserialize_with = "nullable")]
    pub phase: String,
    /// The first address.
    #[serde(rename = "podIP", deserialize_with = "nullable")]
    pub pod_ip: String,
    /// All addresses.
    #[serde(rename = "podIPs", deserialize_with = "nullable")]
    pub pod_ips: Vec<PodIp>,
}

/// One of `podIPs`.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(default)]
pub struct PodIp {
    /// The address.
    pub ip: String,
}

/// A Namespace (`v1`).
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(default)]
pub struct Namespace {
    /// Name and labels.
    pub metadata: Metadata,
}

/// A Node (`v1`).
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(default)]
pub struct Node {
    /// Name and labels.
    pub metadata: Metadata,
    /// The ranges of its pods.
    #[serde(deserialize_with = "nullable")]
    pub spec: NodeSpec,
    /// Addresses.
    #[serde(deserialize_with = "nullable")]
    pub status: NodeStatus,
}

/// A Node's `spec`.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(default)]
pub struct NodeSpec {
    /// The first of `podCIDRs`.
    #[serde(rename = "podCIDR", deserialize_with = "nullable")]
    pub pod_cidr: String,
    /// The ranges from which its pods get their addresses.
    #[serde(rename = "podCIDRs", deserialize_with = "nullable")]
    pub pod_cidrs: Vec<String>,
}

impl NodeSpec {
    /// All ranges, as they are written; the first one may be there twice.
    pub fn ranges(&self) -> impl Iterator<Item = &str> {
        let all = self.pod_cidrs.iter().chain([&self.pod_cidr]);
        all.map(String::as_str).filter(|it| !it.is_empty())
    }
}

/// A Node's `status`.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(default)]
pub struct NodeStatus {
    /// Addresses and names; names are left out.
    #[serde(deserialize_with = "nullable")]
    pub addresses: Vec<NodeAddress>,
}

/// One of a Node's `addresses`.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(default)]
pub struct NodeAddress {
    /// The address, or a name.
    pub address: String,
}

/// A NetworkPolicy (`networking.k8s.io/v1`).
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(default)]
pub struct NetworkPolicy {
    /// Name and namespace.
    pub metadata: Metadata,
    /// The desired state.
    #[serde(deserialize_with = "nullable")]
    pub spec: NetworkPolicySpec,
}

/// A NetworkPolicy's `spec`.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkPolicySpec {
    /// The pods; absent means all of the namespace.
    #[serde(deserialize_with = "nullable")]
    pub pod_selector: LabelSelector,
    /// Rules for incoming traffic.
    #[serde(deserialize_with = "nullable")]
    pub ingress: Vec<NetworkPolicyIngress>,
    /// Rules for outgoing traffic.
    #[serde(deserialize_with = "nullable")]
    pub egress: Vec<NetworkPolicyEgress>,
    /// `Ingress`, `Egress`; absent: `Ingress`, and `Egress` if it has rules.
    #[serde(deserialize_with = "nullable")]
    pub policy_types: Vec<String>,
}

/// One of a NetworkPolicy's `ingress`.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(default)]
pub struct NetworkPolicyIngress {
    /// The sources; empty means all.
    #[serde(deserialize_with = "nullable")]
    pub from: Vec<NetworkPolicyPeer>,
    /// The ports; empty means all.
    #[serde(deserialize_with = "nullable")]
    pub ports: Vec<NetworkPolicyPort>,
}

/// One of a NetworkPolicy's `egress`.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(default)]
pub struct NetworkPolicyEgress {
    /// The destinations; empty means all.
    #[serde(deserialize_with = "nullable")]
    pub to: Vec<NetworkPolicyPeer>,
    /// The ports; empty means all.
    #[serde(deserialize_with = "nullable")]
    pub ports: Vec<NetworkPolicyPort>,
}

/// One of `from` or `to`.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkPolicyPeer {
    /// Pods, of the policy's namespace unless `namespace_selector` is there.
    pub pod_selector: Option<LabelSelector>,
    /// Namespaces.
    pub namespace_selector: Option<LabelSelector>,
    /// Addresses.
    pub ip_block: Option<IpBlock>,
}

/// `ipBlock`.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(default)]
pub struct IpBlock {
    /// These addresses
    pub cidr: String,
    /// without these.
    #[serde(deserialize_with = "nullable")]
    pub except: Vec<String>,
}

/// One of a NetworkPolicy's `ports`.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct NetworkPolicyPort {
    /// `TCP` (also if absent), `UDP` or `SCTP`.
    pub protocol: Option<String>,
    /// Number or name; absent means all of the protocol.
    pub port: Option<IntOrString>,
    /// The last one of a range.
    pub end_port: Option<i64>,
}

/// A number or a name.
#[derive(Deserialize, Clone, Debug, PartialEq, Eq)]
#[serde(untagged)]
pub enum IntOrString {
    /// A number.
    Int(i64),
    /// A name.
    String(String),
}

/// A ClusterNetworkPolicy (`policy.networking.k8s.io/v1alpha2`).
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(default)]
pub struct ClusterNetworkPolicy {
    /// Name.
    pub metadata: Metadata,
    /// The desired state.
    #[serde(deserialize_with = "nullable")]
    pub spec: ClusterNetworkPolicySpec,
}

/// A ClusterNetworkPolicy's `spec`.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(default)]
pub struct ClusterNetworkPolicySpec {
    /// `Admin` or `Baseline`.
    pub tier: String,
    /// 0 to 1000; the lower number comes first.
    pub priority: i64,
    /// The pods.
    #[serde(deserialize_with = "nullable")]
    pub subject: PodPeer,
    /// Rules for incoming traffic, in order.
    #[serde(deserialize_with = "nullable")]
    pub ingress: Vec<ClusterIngress>,
    /// Rules for outgoing traffic, in order.
    #[serde(deserialize_with = "nullable")]
    pub egress: Vec<ClusterEgress>,
}

/// Pods by their namespaces, or by both. Exactly one field is to be set.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(default)]
pub struct PodPeer {
    /// All pods of these namespaces.
    pub namespaces: Option<LabelSelector>,
    /// Some pods of some namespaces.
    pub pods: Option<NamespacedPod>,
}

/// Pods of namespaces.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct NamespacedPod {
    /// The namespaces; empty means all.
    #[serde(deserialize_with = "nullable")]
    pub namespace_selector: LabelSelector,
    /// Their pods; empty means all.
    #[serde(deserialize_with = "nullable")]
    pub pod_selector: LabelSelector,
}

/// One of a ClusterNetworkPolicy's `ingress`.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(default)]
pub struct ClusterIngress {
    /// For people.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// `Accept`, `Deny` or `Pass`.
    pub action: String,
    /// The sources.
    #[serde(deserialize_with = "nullable")]
    pub from: Vec<PodPeer>,
    /// With which protocols and ports; none means all.
    #[serde(deserialize_with = "nullable")]
    pub protocols: Vec<ClusterProtocol>,
}

/// One of a ClusterNetworkPolicy's `egress`.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(default)]
pub struct ClusterEgress {
    /// For people.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    /// `Accept`, `Deny` or `Pass`.
    pub action: String,
    /// The destinations.
    #[serde(deserialize_with = "nullable")]
    pub to: Vec<ClusterEgressPeer>,
    /// With which protocols and ports; none means all.
    #[serde(deserialize_with = "nullable")]
    pub protocols: Vec<ClusterProtocol>,
}

/// One of `to`. Exactly one field is to be set; none means one that this
/// version does not know (domain names among them).
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(default)]
pub struct ClusterEgressPeer {
    /// All pods of these namespaces.
    pub namespaces: Option<LabelSelector>,
    /// Some pods of some namespaces.
    pub pods: Option<NamespacedPod>,
    /// Addresses of these nodes.
    pub nodes: Option<LabelSelector>,
    /// Ranges of addresses.
    #[serde(deserialize_with = "nullable")]
    pub networks: Vec<String>,
}

/// One of `protocols`. Exactly one field is to be set.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterProtocol {
    /// TCP.
    pub tcp: Option<ClusterPorts>,
    /// UDP.
    pub udp: Option<ClusterPorts>,
    /// SCTP.
    pub sctp: Option<ClusterPorts>,
    /// A port of the destination pod, by name, with that port's protocol.
    #[serde(deserialize_with = "nullable")]
    pub destination_named_port: String,
}

/// The ports of a protocol.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterPorts {
    /// Absent means all.
    pub destination_port: Option<ClusterPort>,
}

/// A port, or a range of ports.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(default)]
pub struct ClusterPort {
    /// One.
    #[serde(deserialize_with = "nullable")]
    pub number: i64,
    /// Or several.
    pub range: Option<ClusterPolicyPortRange>,
}

/// A range of ports, its ends included.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(default)]
pub struct ClusterPolicyPortRange {
    /// The first.
    pub start: i64,
    /// The last.
    pub end: i64,
}

/// `null` means the same as absence: Go writes empty lists so.
fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_is_absence() {
        let policy: NetworkPolicy = serde_json::from_str(
            r#"{"metadata":{"name":"a","labels":null},"spec":{"podSelector":null,"ingress":null}}"#,
        )
        .unwrap();
        assert_eq!(policy.spec, NetworkPolicySpec::default());
    }

    #[test]
    fn an_empty_selector_is_not_an_absent_one() {
        let peer: NetworkPolicyPeer = serde_json::from_str(r#"{"podSelector":{}}"#).unwrap();
        assert_eq!(peer.pod_selector, Some(LabelSelector::default()));
        assert_eq!(peer.namespace_selector, None);
    }
}
