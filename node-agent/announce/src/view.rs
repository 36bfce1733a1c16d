//! Lean views of the API objects that decide about announcements.

use std::net::IpAddr;

use compact_str::CompactString;
use control_client::{Meta, Resource, View, resources};
use control_load_balancer::{
    AnnouncerStatus, BgpAdvertisementSpec, BgpPeerSpec, EXCLUDED_NODE, IpPoolSpec,
    L2AnnouncementSpec,
};
use serde::{Deserialize, Deserializer};

type Text = CompactString;

/// A Service.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Service {
    /// Name and labels.
    pub metadata: Meta,
    /// The desired state.
    pub spec: ServiceSpec,
    /// Its addresses.
    pub status: ServiceStatus,
}

/// Its spec.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceSpec {
    /// Only `LoadBalancer` matters here.
    pub r#type: Text,
    /// `Local`: only nodes with an endpoint serve it.
    #[serde(deserialize_with = "nullable")]
    pub external_traffic_policy: Text,
}

/// Its status.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceStatus {
    /// The load balancer's addresses.
    pub load_balancer: LoadBalancer,
}

/// `status.loadBalancer`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct LoadBalancer {
    /// Addresses or names.
    #[serde(deserialize_with = "nullable")]
    pub ingress: Vec<Ingress>,
}

/// One address.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Ingress {
    /// The address.
    #[serde(deserialize_with = "nullable")]
    pub ip: Text,
    /// `Proxy`: packets do not carry this address to nodes.
    pub ip_mode: Option<Text>,
}

impl Service {
    /// The addresses that packets to it carry.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let ingress = self.status.load_balancer.ingress.iter();
        ingress
            .filter(|one| one.ip_mode.as_deref() != Some("Proxy"))
            .filter_map(|one| one.ip.parse().ok())
    }
}

/// An EndpointSlice: which nodes have endpoints.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Slice {
    /// Its label names the Service.
    pub metadata: Meta,
    /// The endpoints.
    #[serde(deserialize_with = "nullable")]
    pub endpoints: Vec<Endpoint>,
}

/// One endpoint.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint {
    /// The node on which it runs.
    pub node_name: Option<Text>,
    /// How it is.
    #[serde(deserialize_with = "nullable")]
    pub conditions: Conditions,
}

/// An endpoint's conditions.
#[derive(Debug, Clone, Copy, Default, Deserialize)]
#[serde(default)]
pub struct Conditions {
    /// Absent means yes.
    pub ready: Option<bool>,
    /// Absent means as `ready`.
    pub serving: Option<bool>,
}

impl Slice {
    /// The Service it belongs to.
    #[must_use]
    pub fn service(&self) -> Option<&str> {
        self.metadata.labels.get("kubernetes.io/service-name")
    }
}

/// A Node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Name and labels.
    pub metadata: Meta,
    /// How it is.
    pub status: NodeStatus,
}

/// A Node's status.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct NodeStatus {
    /// `Ready` and `NetworkUnavailable` matter.
    #[serde(deserialize_with = "nullable")]
    pub conditions: Vec<NodeCondition>,
    /// The node's addresses.
    #[serde(deserialize_with = "nullable")]
    pub addresses: Vec<NodeAddress>,
}

/// A condition of a Node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct NodeCondition {
    /// The type of address.
    pub r#type: Text,
    /// `True`, `False` or `Unknown`.
    pub status: Text,
}

/// An address of a Node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct NodeAddress {
    /// `InternalIP` matters.
    pub r#type: Text,
    /// The address.
    pub address: Text,
}

impl Node {
    fn condition(&self, name: &str) -> Option<&str> {
        let mut all = self.status.conditions.iter();
        all.find(|it| it.r#type == name)
            .map(|it| it.status.as_str())
    }

    /// Whether it may announce at all.
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        !self.metadata.is_terminating()
            && !self.metadata.labels.contains_key(EXCLUDED_NODE)
            && self.condition("NetworkUnavailable") != Some("True")
    }

    /// Whether the control plane holds it for healthy.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.condition("Ready") == Some("True")
    }

    /// Its own addresses.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> + '_ {
        let all = self.status.addresses.iter();
        all.filter(|it| it.r#type == "InternalIP")
            .filter_map(|it| it.address.parse().ok())
    }
}

macro_rules! custom {
    ($($(#[$doc:meta])* $name:ident, $spec:ty, $plural:literal, $kind:literal;)*) => {
        $($(#[$doc])*
        #[derive(Debug, Clone, Default, Deserialize)]
        #[serde(default)]
        pub struct $name {
            /// Its name.
            pub metadata: Meta,
            /// The spec.
            #[serde(deserialize_with = "nullable")]
            pub spec: $spec,
        }

        impl View for $name {
            const RESOURCE: Resource = Resource::cluster("orlop.dev", "v1alpha1", $plural, $kind);
            fn meta(&self) -> &Meta {
                &self.metadata
            }
        })*
    };
}

custom! {
    /// An IPPool.
    IpPool, IpPoolSpec, "ippools", "IPPool";
    /// An L2Announcement.
    L2Announcement, L2AnnouncementSpec, "l2announcements", "L2Announcement";
    /// A BGPPeer.
    BgpPeer, BgpPeerSpec, "bgppeers", "BGPPeer";
    /// A BGPAdvertisement.
    BgpAdvertisement, BgpAdvertisementSpec, "bgpadvertisements", "BGPAdvertisement";
}

/// An Announcer, named like its node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Announcer {
    /// Its name.
    pub metadata: Meta,
    /// The status, written by its node's agent.
    #[serde(deserialize_with = "nullable")]
    pub status: AnnouncerStatus,
}

/// Announcers.
pub const ANNOUNCERS: Resource =
    Resource::cluster("orlop.dev", "v1alpha1", "announcers", "Announcer");

macro_rules! views {
    ($($view:ty = $resource:expr;)*) => {
        $(impl View for $view {
            const RESOURCE: Resource = $resource;
            fn meta(&self) -> &Meta {
                &self.metadata
            }
        })*
    };
}

views! {
    Service = resources::SERVICES;
    Slice = resources::ENDPOINT_SLICES;
    Node = resources::NODES;
    Announcer = ANNOUNCERS;
}

/// `null` means the same as absence.
fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
