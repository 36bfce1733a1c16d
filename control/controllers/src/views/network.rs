//! Services and their endpoints.

use std::collections::BTreeMap;

use control_client::Meta;
use serde::{Deserialize, Serialize};

use super::common::{IntOrString, Text, list, null_as_default};

/// A Service.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Service {
    /// Name, labels.
    pub metadata: Meta,
    /// The desired state.
    pub spec: ServiceSpec,
    /// The addresses by which it is reached from outside.
    pub status: ServiceStatus,
}

/// The part of a Service's status that is read.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceStatus {
    /// The status of a Service of type LoadBalancer.
    pub load_balancer: LoadBalancerStatus,
}

/// The addresses of a load balancer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct LoadBalancerStatus {
    /// Addresses or names.
    #[serde(deserialize_with = "list")]
    pub ingress: Vec<Ingress>,
}

/// One of a load balancer's addresses or names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Ingress {
    /// The address; empty if it is a name.
    #[serde(deserialize_with = "null_as_default")]
    pub ip: Text,
}

impl ServiceStatus {
    /// Returns the load balancer's addresses; invalid ones are left out.
    #[must_use]
    pub fn addresses(&self) -> Vec<std::net::IpAddr> {
        let ingress = self.load_balancer.ingress.iter();
        ingress.filter_map(|one| one.ip.parse().ok()).collect()
    }
}

/// The part of a Service's spec that its endpoints and addresses depend on.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec {
    /// `ClusterIP`, `NodePort`, `LoadBalancer` or `ExternalName`.
    pub r#type: Text,
    /// Selects the backend pods; none if absent.
    pub selector: Option<BTreeMap<Text, Text>>,
    /// Its ports.
    #[serde(deserialize_with = "list")]
    pub ports: Vec<ServicePort>,
    /// Its first address, or `None` for a headless one.
    #[serde(rename = "clusterIP")]
    pub cluster_ip: Text,
    /// `IPv4`, `IPv6`.
    #[serde(deserialize_with = "list")]
    pub ip_families: Vec<Text>,
    /// `SingleStack`, `PreferDualStack` or `RequireDualStack`.
    pub ip_family_policy: Option<Text>,
    /// The load balancer implementation; absent for the default one.
    pub load_balancer_class: Option<Text>,
    /// The address asked for (deprecated, and used all the same).
    #[serde(rename = "loadBalancerIP", deserialize_with = "null_as_default")]
    pub load_balancer_ip: Text,
    /// `Cluster` or `Local`: which nodes serve traffic from outside.
    #[serde(deserialize_with = "null_as_default")]
    pub external_traffic_policy: Text,
    /// Treat pods as ready that are not.
    pub publish_not_ready_addresses: bool,
    /// `PreferSameZone`, `PreferClose`, `PreferSameNode`.
    pub traffic_distribution: Option<Text>,
}

/// A port of a Service.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServicePort {
    /// Its name, empty when there is but one.
    pub name: Text,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: Text,
    /// A hint at the protocol above.
    pub app_protocol: Option<Text>,
    /// Its number at the Service's address.
    pub port: i32,
    /// The port of the pods.
    pub target_port: Option<IntOrString>,
}

impl Service {
    /// Returns whether it has no cluster address.
    #[must_use]
    pub fn is_headless(&self) -> bool {
        self.spec.cluster_ip.is_empty() || self.spec.cluster_ip == "None"
    }

    /// Whether its selector, which must be there and not empty, matches.
    #[must_use]
    pub fn selects(&self, meta: &Meta) -> bool {
        self.spec.selector.as_ref().is_some_and(|selector| {
            selector
                .iter()
                .all(|(key, value)| meta.labels.get(key) == Some(value))
        })
    }
}

/// An EndpointSlice.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSlice {
    /// Name, labels, owner.
    pub metadata: Meta,
    /// `IPv4`, `IPv6` or `FQDN`.
    pub address_type: Text,
    /// The endpoints, at most 100.
    #[serde(deserialize_with = "list")]
    pub endpoints: Vec<Endpoint>,
    /// The ports of all endpoints.
    #[serde(deserialize_with = "list")]
    pub ports: Vec<EndpointPort>,
}

/// One endpoint of a slice.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint {
    /// Its addresses; one in practice.
    #[serde(deserialize_with = "list")]
    pub addresses: Vec<Text>,
    /// Ready, serving, terminating.
    pub conditions: ConditionsOfEndpoint,
    /// Its host name below a headless service.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<Text>,
    /// The pod behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
    /// The node it runs on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<Text>,
    /// The zone of that node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<Text>,
    /// The zones and nodes from which it should be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hints: Option<Hints>,
}

/// An endpoint's conditions.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct ConditionsOfEndpoint {
    /// Whether it may get new connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Answers, though perhaps terminating.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving: Option<bool>,
    /// Whether it is being deleted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub terminating: Option<bool>,
}

/// Topology hints of an endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Hints {
    /// Zones that should use it.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "list")]
    pub for_zones: Vec<HintName>,
    /// Nodes that should use it.
    #[serde(skip_serializing_if = "Vec::is_empty", deserialize_with = "list")]
    pub for_nodes: Vec<HintName>,
}

/// A zone or node named in a hint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct HintName {
    /// Its name.
    pub name: Text,
}

/// A reference to the object behind an endpoint.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct TargetRef {
    /// `Pod` in practice.
    pub kind: Text,
    /// Its namespace.
    #[serde(skip_serializing_if = "Text::is_empty")]
    pub namespace: Text,
    /// Its name.
    pub name: Text,
    /// Its uid.
    #[serde(skip_serializing_if = "Text::is_empty")]
    pub uid: Text,
}

/// A port of a slice or of legacy endpoints.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointPort {
    /// The Service port's name. Slices carry it even when it is empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<Text>,
    /// Its number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
    /// `TCP`, `UDP` or `SCTP`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub protocol: Option<Text>,
    /// A hint at the protocol above.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_protocol: Option<Text>,
}

/// Legacy Endpoints.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct Endpoints {
    /// Named like the Service.
    pub metadata: Meta,
    /// Addresses grouped by the ports they have.
    #[serde(deserialize_with = "list")]
    pub subsets: Vec<EndpointSubset>,
}

/// Addresses that have the same ports.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointSubset {
    /// Ready ones.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<EndpointAddress>,
    /// The others.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub not_ready_addresses: Vec<EndpointAddress>,
    /// Their ports.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub ports: Vec<EndpointPort>,
}

/// An address of legacy endpoints.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EndpointAddress {
    /// The address.
    pub ip: Text,
    /// Its host name below a headless service.
    #[serde(skip_serializing_if = "Text::is_empty")]
    pub hostname: Text,
    /// The node it runs on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_name: Option<Text>,
    /// The pod behind it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_ref: Option<TargetRef>,
}
