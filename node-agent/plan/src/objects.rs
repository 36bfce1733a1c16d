//! The fields of API objects that decide about the datapath.
//!
//! Fields are unchecked API values: addresses may be invalid and numbers out of range.
//! [`compile`](crate::compile) leaves out invalid ones.

use std::collections::BTreeMap;

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
    /// Annotations.
    #[serde(deserialize_with = "nullable")]
    pub annotations: BTreeMap<String, String>,
    /// When it was created (RFC 3339, UTC): of two objects that want the same,
    /// the older one has it.
    pub creation_timestamp: Option<String>,
}

/// A Service (`v1`).
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Service {
    /// Name and labels.
    pub metadata: Metadata,
    /// The desired state.
    pub spec: ServiceSpec,
    /// The load balancer's status.
    #[serde(deserialize_with = "nullable")]
    pub status: ServiceStatus,
}

/// A Service's `status`.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceStatus {
    /// Addresses of the load balancer.
    #[serde(deserialize_with = "nullable")]
    pub load_balancer: LoadBalancerStatus,
}

/// `status.loadBalancer` of a Service.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadBalancerStatus {
    /// The load balancer's addresses.
    #[serde(deserialize_with = "nullable")]
    pub ingress: Vec<LoadBalancerIngress>,
}

/// One of `status.loadBalancer.ingress`.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct LoadBalancerIngress {
    /// An address; balancers known by a name have none.
    pub ip: Option<String>,
    /// `VIP` (also if absent): packets arrive with this destination; `Proxy`: they do
    /// not, and the address is ignored.
    pub ip_mode: Option<String>,
}

/// A Service's `spec`.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec {
    /// `ClusterIP`, `NodePort`, `LoadBalancer` or `ExternalName`.
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// The first address, or `None` for a headless service.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: Option<String>,
    /// All addresses, at most one per family.
    #[serde(rename = "clusterIPs", deserialize_with = "nullable")]
    pub cluster_ips: Vec<String>,
    /// The name for which an `ExternalName` stands in DNS; no datapath depends on it.
    pub external_name: Option<String>,
    /// Ports.
    #[serde(deserialize_with = "nullable")]
    pub ports: Vec<ServicePort>,
    /// `None` or `ClientIP`.
    pub session_affinity: Option<Affinity>,
    /// How long affinity lasts.
    pub session_affinity_config: Option<AffinityConfig>,
    /// `Cluster` or `Local`.
    pub internal_traffic_policy: Option<String>,
    /// `Cluster` or `Local`.
    pub external_traffic_policy: Option<String>,
    /// Addresses that something else brings to the nodes.
    #[serde(rename = "externalIPs", deserialize_with = "nullable")]
    pub external_ips: Vec<String>,
    /// The allowed sources of the load balancer's addresses; empty: all sources.
    #[serde(deserialize_with = "nullable")]
    pub load_balancer_source_ranges: Vec<String>,
    /// The port at which load balancers check whether this node has endpoints.
    pub health_check_node_port: Option<i64>,
}

/// `spec.sessionAffinity`.
#[derive(Deserialize, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// Each connection is balanced separately.
    None,
    /// All connections of one client go to one backend.
    #[serde(rename = "ClientIP")]
    ClientIp,
    /// A value that the API does not know.
    #[serde(other)]
    Unknown,
}

/// `spec.sessionAffinityConfig`.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct AffinityConfig {
    /// For affinity `ClientIP`.
    #[serde(rename = "clientIP")]
    pub client_ip: Option<ClientIp>,
}

/// `spec.sessionAffinityConfig.clientIP`.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientIp {
    /// Seconds; the API's default is 10800.
    pub timeout_seconds: Option<i64>,
}

/// One of `spec.ports`.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct ServicePort {
    /// Name; may be absent if it is the only port.
    pub name: Option<String>,
    /// `TCP` (also if absent), `UDP` or `SCTP`.
    pub protocol: Option<String>,
    /// Port of the service's addresses.
    pub port: i64,
    /// Port of the nodes' addresses.
    pub node_port: Option<i64>,
}

/// An EndpointSlice (`discovery.k8s.io/v1`).
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSlice {
    /// Name and labels; `kubernetes.io/service-name` names the Service.
    pub metadata: Metadata,
    /// `IPv4`, `IPv6` or `FQDN`.
    pub address_type: String,
    /// Endpoints.
    #[serde(deserialize_with = "nullable")]
    pub endpoints: Vec<Endpoint>,
    /// Ports, the same for all endpoints.
    #[serde(deserialize_with = "nullable")]
    pub ports: Vec<EndpointPort>,
}

/// One of `endpoints`.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint {
    /// Addresses; only the first counts (as the API says).
    #[serde(deserialize_with = "nullable")]
    pub addresses: Vec<String>,
    /// State.
    #[serde(deserialize_with = "nullable")]
    pub conditions: Conditions,
    /// The node on which it runs.
    pub node_name: Option<String>,
    /// The zone where it runs.
    pub zone: Option<String>,
    /// The zones and nodes that should use it, as computed by the EndpointSlice
    /// controller.
    pub hints: Option<Hints>,
}

/// `hints` of an endpoint.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Hints {
    /// Nodes of these zones.
    #[serde(deserialize_with = "nullable")]
    pub for_zones: Vec<Hint>,
    /// These nodes.
    #[serde(deserialize_with = "nullable")]
    pub for_nodes: Vec<Hint>,
}

/// One of `forZones` or `forNodes`.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Hint {
    /// The zone's or node's name.
    pub name: String,
}

/// `conditions` of an endpoint.
#[derive(Deserialize, Clone, Copy, Default, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Conditions {
    /// Whether it may serve; absent means yes.
    pub ready: Option<bool>,
    /// Would it be ready if it did not terminate; absent means yes.
    pub serving: Option<bool>,
    /// Whether it is terminating; absent means no.
    pub terminating: Option<bool>,
}

/// One of an EndpointSlice's `ports`.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointPort {
    /// The service port's name.
    pub name: Option<String>,
    /// `TCP` (also if absent), `UDP` or `SCTP`.
    pub protocol: Option<String>,
    /// The endpoints' port; absent means none that a service could use.
    pub port: Option<i64>,
}

/// A Pod (`v1`), as far as its host ports are concerned.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Pod {
    /// Name.
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
    /// In the node's own namespace: its ports are the node's anyway.
    pub host_network: bool,
    /// Containers.
    #[serde(deserialize_with = "nullable")]
    pub containers: Vec<Container>,
    /// Containers that start before; those that keep running may have ports.
    #[serde(deserialize_with = "nullable")]
    pub init_containers: Vec<Container>,
}

/// One of a Pod's `containers`.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Ports.
    #[serde(deserialize_with = "nullable")]
    pub ports: Vec<ContainerPort>,
}

/// One of a container's `ports`.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerPort {
    /// The pod's port.
    pub container_port: i64,
    /// The node's port; zero or absent means none.
    pub host_port: Option<i64>,
    /// The node's address to use; absent or unspecified means all.
    #[serde(rename = "hostIP")]
    pub host_ip: Option<String>,
    /// `TCP` (also if absent), `UDP` or `SCTP`.
    pub protocol: Option<String>,
}

/// A Pod's `status`.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// `Pending`, `Running`, `Succeeded`, `Failed` or `Unknown`.
    pub phase: Option<String>,
    /// Its addresses, at most one of each family.
    #[serde(rename = "podIPs", deserialize_with = "nullable")]
    pub pod_ips: Vec<PodIp>,
}

/// One of a Pod's addresses.
#[derive(Deserialize, Clone, Default, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
pub struct PodIp {
    /// The address.
    pub ip: String,
}

/// `null` means the same as absence: Go writes empty lists so.
pub(crate) fn nullable<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn null_lists_are_empty() {
        let slice: EndpointSlice = serde_json::from_str(
            r#"{"addressType":"IPv4","endpoints":null,"ports":null,"metadata":{"labels":null}}"#,
        )
        .unwrap();
        assert_eq!(
            slice,
            EndpointSlice {
                address_type: "IPv4".into(),
                ..EndpointSlice::default()
            }
        );
    }

    #[test]
    fn unknown_affinity_is_no_error() {
        let service: Service =
            serde_json::from_str(r#"{"spec":{"sessionAffinity":"Cookie"}}"#).unwrap();
        assert_eq!(service.spec.session_affinity, Some(Affinity::Unknown));
    }
}
