//! The kinds that assign and announce load balancer addresses.
//!
//! Controller and node agent share this meaning of the objects of the group `orlop.dev`:
//! the addresses of a pool, the Services that are ours, the nodes and Services of an
//! announcement. No I/O.
//!
//! | kind | meaning |
//! | --- | --- |
//! | `IPPool` | the addresses that Services may get |
//! | `L2Announcement` | the addresses that are answered for by ARP and NDP, and where |
//! | `BGPPeer` | the routers with which nodes speak BGP |
//! | `BGPAdvertisement` | the addresses that are advertised to the routers, and how |
//! | `Announcer` | written by each node's agent: that it is alive, and what it announces |

use compact_str::CompactString;
pub use control_types::label_selector::{
    LabelRequirement as Requirement, LabelSelector as Selector,
};

mod kinds;
mod range;

pub use kinds::{
    AddressClaim, AnnouncerStatus, BgpAdvertisementSpec, BgpPeerSpec, IpPoolSpec,
    L2AnnouncementSpec, PasswordSecret, PeerStatus,
};
pub use range::{AddressRange, Pool, PoolError, RangeError};

/// A short string.
pub type Text = CompactString;

/// The API group of all kinds here.
pub const GROUP: &str = "orlop.dev";
/// Its version.
pub const VERSION: &str = "v1alpha1";
/// The `spec.loadBalancerClass` that asks for us by name.
pub const CLASS: &str = "orlop.dev/load-balancer";
/// Keeps a Service until its address is given back; the name is Kubernetes'.
pub const FINALIZER: &str = "service.kubernetes.io/load-balancer-cleanup";
/// On a Service: the addresses wanted, one a family, with commas between.
pub const WANTED_ADDRESSES: &str = "orlop.dev/load-balancer-ips";
/// On a Service: the pool wanted.
pub const WANTED_POOL: &str = "orlop.dev/ip-pool";
/// On a Service: Services with the same text here may share an address.
pub const SHARING_KEY: &str = "orlop.dev/allow-shared-ip";
/// On a Service, written by the controller: its address is ours to take back.
pub const ASSIGNED: &str = "orlop.dev/load-balancer-assigned";
/// The namespace of the passwords of BGP peers.
pub const PASSWORD_NAMESPACE: &str = "kube-system";
/// The Secret that they are in unless a peer names another.
pub const PASSWORD_SECRET: &str = "orlop-bgp";
/// On a Node: it announces nothing (the name is Kubernetes').
pub const EXCLUDED_NODE: &str = "node.kubernetes.io/exclude-from-external-load-balancers";

/// The definitions of all kinds, as YAML documents.
pub const DEFINITIONS: &str = include_str!("manifests/definitions.yaml");
/// The rights that controller and agents need in a cluster that does not know
/// Orlop's own roles, as YAML documents.
pub const RIGHTS: &str = include_str!("manifests/rights.yaml");

/// Whether a Service of type LoadBalancer with this class is ours. One without
/// a class is, where we are the `default`.
#[must_use]
pub fn is_our_class(class: Option<&str>, default: bool) -> bool {
    class.map_or(default, |class| class == CLASS)
}
