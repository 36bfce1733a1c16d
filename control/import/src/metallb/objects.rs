//! The fields of MetalLB's objects. Unknown fields are errors: they may restrict the
//! others.

use control_types::label_selector::LabelSelector;
use serde::Deserialize;

/// `spec` of an IPAddressPool.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct PoolSpec {
    pub addresses: Vec<String>,
    pub auto_assign: Option<bool>,
    #[serde(rename = "avoidBuggyIPs")]
    pub avoid_buggy_ips: Option<bool>,
    pub service_allocation: Option<ServiceAllocation>,
}

/// The Services of a pool.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct ServiceAllocation {
    pub priority: Option<i64>,
    pub namespaces: Option<Vec<String>>,
    pub namespace_selectors: Option<Vec<LabelSelector>>,
    pub service_selectors: Option<Vec<LabelSelector>>,
}

/// `spec` of an L2Advertisement.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct L2Spec {
    #[serde(rename = "ipAddressPools")]
    pub pools: Option<Vec<String>>,
    #[serde(rename = "ipAddressPoolSelectors")]
    pub pool_selectors: Option<Vec<LabelSelector>>,
    pub node_selectors: Option<Vec<LabelSelector>>,
    pub service_selectors: Option<Vec<LabelSelector>>,
    pub interfaces: Option<Vec<String>>,
    pub preferred_node_selectors: Option<Vec<PreferredNodeSelector>>,
}

/// Nodes that MetalLB 0.16 and later prefer for an address.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct PreferredNodeSelector {
    pub weight: i32,
    pub preference: LabelSelector,
}

/// `spec` of a BGPAdvertisement.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct BgpSpec {
    pub aggregation_length: Option<u8>,
    pub aggregation_length_v6: Option<u8>,
    pub local_pref: Option<u32>,
    pub as_path_prepend: Option<u8>,
    pub communities: Option<Vec<String>>,
    #[serde(rename = "ipAddressPools")]
    pub pools: Option<Vec<String>>,
    #[serde(rename = "ipAddressPoolSelectors")]
    pub pool_selectors: Option<Vec<LabelSelector>>,
    pub node_selectors: Option<Vec<LabelSelector>>,
    pub service_selectors: Option<Vec<LabelSelector>>,
    pub peers: Option<Vec<String>>,
}

/// `spec` of a BGPPeer, `v1beta1` or `v1beta2`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub(super) struct PeerSpec {
    #[serde(rename = "myASN")]
    pub my_asn: u32,
    #[serde(rename = "peerASN")]
    pub peer_asn: Option<u32>,
    /// The number that the router sees instead of `myASN`, in MetalLB 0.16 and later.
    #[serde(rename = "localASN")]
    pub local_asn: Option<u32>,
    #[serde(rename = "dynamicASN")]
    pub dynamic_asn: Option<String>,
    pub peer_address: Option<String>,
    pub interface: Option<String>,
    pub source_address: Option<String>,
    pub peer_port: Option<u16>,
    pub hold_time: Option<String>,
    pub keepalive_time: Option<String>,
    pub connect_time: Option<String>,
    #[serde(rename = "routerID")]
    pub router_id: Option<String>,
    pub node_selectors: Option<Vec<LabelSelector>>,
    pub password: Option<String>,
    pub password_secret: Option<SecretReference>,
    pub bfd_profile: Option<String>,
    pub enable_graceful_restart: Option<bool>,
    pub ebgp_multi_hop: Option<bool>,
    pub vrf: Option<String>,
    #[serde(rename = "disableMP")]
    pub disable_mp: Option<bool>,
    pub dual_stack_address_family: Option<bool>,
}

/// The Secret of a password.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct SecretReference {
    pub name: Option<String>,
    pub namespace: Option<String>,
}

/// `spec` of a Community.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct CommunitySpec {
    pub communities: Option<Vec<CommunityAlias>>,
}

/// A name of a community.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct CommunityAlias {
    pub name: String,
    pub value: String,
}
