//! The addresses of a node's pods: which are free, which are allocated, and how the CNI
//! plugin requests them from the node's agent.
//!
//! ```text
//! orlop-cni ──Question──► node agent ──► Store ──► one symbolic link an address
//!           ◄──Answer───
//! ```
//!
//! [`pool`] chooses and knows no file; [`store`] keeps allocations and is safe for
//! several processes at once; [`wire`] is the protocol between plugin and agent. Without
//! an agent the plugin uses the store itself. Both create a pod's interface by the same
//! kernel messages: [`messages`].

pub mod messages;
pub mod pool;
pub mod store;
pub mod wire;

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    path::PathBuf,
    time::Duration,
};

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use pool::{Pool, REST};
pub use store::{AddressRequest, HeldAddress, Store, TakenAddresses};

/// The holder of an address: one interface of one container.
#[derive(Clone, Debug, Default, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Holder {
    /// The runtime's name of the sandbox.
    #[serde(rename = "containerID")]
    pub container_id: String,
    /// The interface in it.
    pub ifname: String,
}

impl Holder {
    /// Returns the name of the node's end of the interface pair: it is derived from the
    /// holder, so that its removal needs no record. FNV-1a, 44 bits: 11 digits after the
    /// prefix, within the kernel's 15 characters.
    #[must_use]
    pub fn device(&self) -> String {
        format!("orl{:011x}", self.hash(&[]) >> 20)
    }

    /// Returns the hardware address of the node's end. Programs that assign persistent
    /// addresses to devices leave explicitly set ones alone.
    #[must_use]
    pub fn host_mac(&self) -> [u8; 6] {
        self.mac(1)
    }

    /// The hardware address of the pod's end, unless the runtime or the kernel chose one.
    #[must_use]
    pub fn pod_mac(&self) -> [u8; 6] {
        self.mac(2)
    }

    /// Returns a unicast, locally administered address (IEEE 802, section 8.4).
    fn mac(&self, end: u8) -> [u8; 6] {
        let [_, _, first, rest @ ..] = self.hash(&[0, end]).to_be_bytes();
        let [b, c, d, e, f] = rest;
        [first & 0xfc | 0x02, b, c, d, e, f]
    }

    fn hash(&self, more: &[u8]) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        let separated = self
            .container_id
            .bytes()
            .chain([0])
            .chain(self.ifname.bytes())
            .chain(more.iter().copied());
        for byte in separated {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        hash
    }
}

/// The gateway that pods see. No host has this address: a fixed neighbour entry in the
/// pod maps it to the hardware address of the host's end.
pub const GATEWAY_V4: Ipv4Addr = Ipv4Addr::new(169, 254, 1, 1);
/// The same for IPv6.
pub const GATEWAY_V6: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);

/// The gateway for an address's IP version.
#[must_use]
pub const fn gateway(address: &IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => IpAddr::V4(GATEWAY_V4),
        IpAddr::V6(_) => IpAddr::V6(GATEWAY_V6),
    }
}

/// The length of the prefix that is one address alone.
#[must_use]
pub const fn host_prefix(address: &IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

/// Reason why no address was allocated or released.
#[derive(Debug, Error)]
pub enum Error {
    /// All are held by pods.
    #[error("no address is free in pool `{pool}`: delete pods or give the node a wider range")]
    Exhausted {
        /// The pool's name.
        pool: String,
    },
    /// All that no pod holds were given back a moment ago.
    #[error(
        "no address of pool `{pool}` has rested enough: the next one is free in {} s",
        next.as_secs() + 1
    )]
    Resting {
        /// The pool's name.
        pool: String,
        /// Until one has.
        next: Duration,
    },
    /// The pool has no range.
    #[error("pool `{0}` has no range on this node: see the node's annotation orlop.dev/ip-pools")]
    NoPool(String),
    /// A requested address is outside of the pool.
    #[error("{address} is no address that pool `{pool}` gives to pods")]
    Foreign {
        /// The requested address.
        address: IpAddr,
        /// The pool's name.
        pool: String,
    },
    /// A requested address is in use.
    #[error("{address} is given to `{holder}` already")]
    Taken {
        /// The requested address.
        address: IpAddr,
        /// The holder.
        holder: String,
    },
    /// The file system.
    #[error("cannot {action} `{}`", path.display())]
    File {
        /// The operation.
        action: &'static str,
        /// The path.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn holders() -> impl Iterator<Item = Holder> {
        (0..1000).map(|n| Holder {
            container_id: format!("{n:064x}"),
            ifname: "eth0".to_owned(),
        })
    }

    #[test]
    fn names_of_devices_fit_the_kernel_and_differ() {
        let names: BTreeSet<String> = holders().map(|it| it.device()).collect();
        assert_eq!(names.len(), 1000);
        assert!(names.iter().all(|name| name.len() <= 15));
        // By them devices of former versions are found.
        let first = holders().next().map(|it| it.device());
        assert_eq!(first.as_deref(), Some("orl5015362034c"));
    }

    #[test]
    fn hardware_addresses_are_those_of_one_host_and_differ() {
        let both = holders().flat_map(|it| [it.host_mac(), it.pod_mac()]);
        let macs: BTreeSet<[u8; 6]> = both.collect();
        assert_eq!(macs.len(), 2000);
        assert!(
            macs.iter().all(|mac| mac[0] & 3 == 2),
            "of a group, or global"
        );
    }
}
