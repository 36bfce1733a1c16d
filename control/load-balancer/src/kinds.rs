//! The specs of the objects, as the definitions in `manifests` declare them. Defaults are
//! both there and here, since a stock server fills them in and a reader of an old object
//! must not depend on it.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize};

use crate::{PASSWORD_SECRET, Selector, Text};

/// `spec` of an `IPPool`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct IpPoolSpec {
    /// Ranges of addresses.
    #[serde(deserialize_with = "nullable")]
    pub ranges: Vec<Text>,
    /// Whether Services get addresses that do not ask for the pool; yes unless
    /// said otherwise.
    pub auto_assign: Option<bool>,
    /// Hold back addresses that end in .0 and .255.
    #[serde(rename = "avoidBuggyIPs")]
    pub avoid_buggy_ips: Option<bool>,
    /// The Services that may have its addresses; all if absent.
    pub service_selector: Option<Selector>,
    /// The namespaces whose Services may; all if absent.
    pub namespace_selector: Option<Selector>,
}

/// `spec` of an `L2Announcement`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct L2AnnouncementSpec {
    /// Names of pools; all if empty.
    #[serde(rename = "ipPools", deserialize_with = "nullable")]
    pub ip_pools: Vec<Text>,
    /// The nodes that may announce; all if absent.
    pub node_selector: Option<Selector>,
    /// The Services; all if absent.
    pub service_selector: Option<Selector>,
    /// Names of interfaces, `*` at the end for any rest; those with an address of
    /// the node if empty.
    #[serde(deserialize_with = "nullable")]
    pub interfaces: Vec<Text>,
}

/// `spec` of a `BGPPeer`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BgpPeerSpec {
    /// Our autonomous system.
    #[serde(rename = "myASN")]
    pub my_asn: u32,
    /// The router's.
    #[serde(rename = "peerASN")]
    pub peer_asn: u32,
    /// The router's address.
    pub peer_address: Text,
    /// Its port; 179 if absent.
    pub peer_port: Option<u16>,
    /// The source of connections; the kernel's choice if absent.
    pub source_address: Option<Text>,
    /// Seconds without a message after which the session is dead; 90 if absent.
    pub hold_time_seconds: Option<u16>,
    /// Seconds between attempts; 5 if absent.
    pub connect_retry_seconds: Option<u16>,
    /// Seconds for which the router keeps routes while the agent is away; 120 if
    /// absent, 0 for none (RFC 4724).
    pub restart_time_seconds: Option<u16>,
    /// Whether the router is more than a hop away.
    pub ebgp_multi_hop: Option<bool>,
    /// Our identifier; the node's first IPv4 address if absent.
    #[serde(rename = "routerID")]
    pub router_id: Option<Text>,
    /// The Secret with the password for TCP's MD5 signature (RFC 2385).
    pub password_secret: Option<PasswordSecret>,
    /// The nodes that speak with it; all if absent.
    pub node_selector: Option<Selector>,
}

/// A key of a Secret in [`crate::PASSWORD_NAMESPACE`].
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PasswordSecret {
    /// The Secret's name.
    pub name: Text,
    /// The key.
    pub key: Text,
}

impl Default for PasswordSecret {
    fn default() -> Self {
        Self {
            name: PASSWORD_SECRET.into(),
            key: "password".into(),
        }
    }
}

/// `spec` of a `BGPAdvertisement`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BgpAdvertisementSpec {
    /// Names of pools; all if empty.
    #[serde(rename = "ipPools", deserialize_with = "nullable")]
    pub ip_pools: Vec<Text>,
    /// Names of peers; all if empty.
    #[serde(deserialize_with = "nullable")]
    pub peers: Vec<Text>,
    /// The nodes that advertise; all if absent.
    pub node_selector: Option<Selector>,
    /// The Services; all if absent.
    pub service_selector: Option<Selector>,
    /// Prefix length of IPv4 routes; 32 if absent.
    pub aggregation_length: Option<u8>,
    /// Prefix length of IPv6 routes; 128 if absent.
    pub aggregation_length_v6: Option<u8>,
    /// Preference within our autonomous system; only sent to peers in it.
    pub local_pref: Option<u32>,
    /// Communities: `65000:1` (RFC 1997), `65000:1:2` (RFC 8092) or a known name.
    #[serde(deserialize_with = "nullable")]
    pub communities: Vec<Text>,
}

/// `status` of an `Announcer`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AnnouncerStatus {
    /// When the agent wrote this; others look at its changes only, never at a clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renew_time: Option<Text>,
    /// The addresses that this node answers for by ARP and NDP.
    #[serde(deserialize_with = "nullable")]
    pub addresses: Vec<Text>,
    /// Its claims: these addresses, and others that it is about to answer for.
    #[serde(deserialize_with = "nullable")]
    pub claims: Vec<AddressClaim>,
    /// The sessions with BGP peers, by the peers' names.
    #[serde(deserialize_with = "nullable")]
    pub peers: BTreeMap<Text, PeerStatus>,
}

/// An address that a node claims.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AddressClaim {
    /// The address.
    pub address: Text,
    /// The revision up to which the node had heard all others when it made the claim: the
    /// higher of two counts.
    pub term: u64,
}

/// A session with a BGP peer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PeerStatus {
    /// `Idle`, `Connect`, `OpenSent`, `OpenConfirm` or `Established` (RFC 4271).
    pub state: Text,
    /// The number of advertised routes.
    pub advertised: u32,
    /// Why there is no session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// `null` means the same as absence.
fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}
