//! The addresses of a node's pods: which are free, who has which, and how the
//! CNI plugin asks the node's agent for them.
//!
//! ```text
//! orlop-cni ──Question──► node agent ──► Store ──► one symbolic link an address
//!           ◄──Answer───
//! ```
//!
//! [`pool`] chooses and knows no file; [`store`] keeps what was chosen and is
//! safe for several processes at once; [`wire`] is what plugin and agent say to
//! each other. Without an agent the plugin works on the store itself.

pub mod pool;
pub mod store;
pub mod wire;

use std::{net::IpAddr, path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use pool::{Pool, REST};
pub use store::{Held, Store};

/// Who holds an address: one interface of one container.
#[derive(Clone, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Holder {
    /// The runtime's name of the sandbox.
    #[serde(rename = "containerID")]
    pub container_id: String,
    /// The interface in it.
    pub ifname: String,
}

impl Holder {
    /// The name of the node's end of the interface's pair: it follows from the
    /// holder, so that whoever removes it needs no record. FNV-1a, 44 bits: 11
    /// digits after the prefix, within the kernel's 15 characters.
    #[must_use]
    pub fn device(&self) -> String {
        let mut hash = 0xcbf2_9ce4_8422_2325u64;
        let separated = self
            .container_id
            .bytes()
            .chain([0])
            .chain(self.ifname.bytes());
        for byte in separated {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
        format!("orl{:011x}", hash >> 20)
    }
}

/// Why no address was given, or none taken back.
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
    /// An address was asked for that is not the pool's.
    #[error("{address} is no address that pool `{pool}` gives to pods")]
    Foreign {
        /// What was asked for.
        address: IpAddr,
        /// The pool's name.
        pool: String,
    },
    /// An address was asked for that somebody has.
    #[error("{address} is given to `{holder}` already")]
    Taken {
        /// What was asked for.
        address: IpAddr,
        /// Who has it.
        holder: String,
    },
    /// The file system.
    #[error("cannot {action} `{}`", path.display())]
    File {
        /// What was to be done.
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_of_devices_fit_the_kernel_and_differ() {
        let names: BTreeSet<String> = (0..1000)
            .map(|n| {
                let holder = Holder {
                    container_id: format!("{n:064x}"),
                    ifname: "eth0".to_owned(),
                };
                holder.device()
            })
            .collect();
        assert_eq!(names.len(), 1000);
        assert!(names.iter().all(|name| name.len() <= 15));
    }
}
