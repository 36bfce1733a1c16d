//! Clusters of test hosts on this machine.
//!
//! A test host is a set of namespaces (network, pid, mount, uts) with its own
//! control groups; its first process, [`host::first_process`], starts the
//! node's programs again when they end. Killing that process ends everything in
//! it, mounts and eBPF pins included. The hosts are joined by veth pairs to a
//! bridge in one more network namespace, so that the machine's own network has
//! nothing added to it: the API server's port on loopback is a socket that this
//! machine opened and the host inherited.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::error::{Error, at};

pub mod down;
pub mod groups;
pub mod host;
mod loops;
pub mod network;
pub mod node;
pub mod real;
mod relay;
mod servers;
pub mod spec;
pub mod status;
pub mod up;

/// A cluster as `DIR/cluster.json` records it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Cluster {
    /// Names the control groups: `orlop-` and eight digits of the folder's hash.
    pub id: String,
    /// The process that holds the bridge's network namespace.
    pub lan: Option<i32>,
    /// The test hosts that are servers alone, in order.
    #[serde(default)]
    pub servers: Vec<Node>,
    /// The test hosts that are nodes, in order.
    pub nodes: Vec<Node>,
    /// The API server's port on this machine's loopback.
    pub port: u16,
    /// The nodes' network.
    #[serde(default)]
    pub net: network::Net,
}

/// One test host.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Node {
    /// `node-1`, `node-2`, …
    pub name: String,
    /// Its address on the bridge.
    pub address: std::net::Ipv4Addr,
    /// The process that holds its namespaces; its child is their first process.
    pub pid: i32,
    /// The port of its API server on this machine's loopback, if it has one.
    #[serde(default)]
    pub port: Option<u16>,
}

impl Cluster {
    /// All test hosts: servers, then nodes.
    pub fn hosts(&self) -> impl Iterator<Item = &Node> {
        self.servers.iter().chain(&self.nodes)
    }

    /// The cluster's name for the state folder `dir`.
    pub fn id_of(dir: &Path) -> String {
        use sha2::{Digest, Sha256};
        let digest = Sha256::digest(dir.as_os_str().as_encoded_bytes());
        format!(
            "orlop-{:02x}{:02x}{:02x}{:02x}",
            digest[0], digest[1], digest[2], digest[3]
        )
    }

    /// Reads the record; returns `None` if there is none.
    ///
    /// # Errors
    /// When it cannot be read or parsed.
    pub fn load(dir: &Path) -> Result<Option<Self>, Error> {
        let path = dir.join("cluster.json");
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(at(&path)(error)),
        };
        serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|error| at(&path)(error.into()))
    }

    /// Writes the record.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save(&self, dir: &Path) -> Result<(), Error> {
        let path = dir.join("cluster.json");
        let temporary = dir.join("cluster.json.new");
        let bytes = serde_json::to_vec_pretty(self).map_err(|error| at(&path)(error.into()))?;
        fs::write(&temporary, bytes).map_err(at(&temporary))?;
        fs::rename(&temporary, &path).map_err(at(&path))
    }
}

impl Node {
    /// Its number in the network: of the n-th node n, of the n-th server 200 more.
    pub fn number(&self) -> u8 {
        let of = |prefix: &str| self.name.strip_prefix(prefix)?.parse::<u8>().ok();
        of("node-")
            .or_else(|| of("server-").map(network::of_server))
            .unwrap_or(u8::MAX)
    }
}

/// The folder of one node's files.
pub fn node_dir(dir: &Path, name: &str) -> PathBuf {
    dir.join("nodes").join(name)
}

/// Whether the process `pid` is the keeper of the test host in `folder`: its
/// number may have been given to another process since.
pub fn is_keeper(pid: i32, folder: &Path) -> bool {
    fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| {
        line.split(|byte| *byte == 0)
            .any(|word| word == folder.as_os_str().as_encoded_bytes())
    })
}

/// The first process inside a keeper's pid namespace, as this machine numbers it.
pub fn first_process_of(keeper: i32) -> Option<i32> {
    fs::read_to_string(format!("/proc/{keeper}/task/{keeper}/children"))
        .ok()?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}
