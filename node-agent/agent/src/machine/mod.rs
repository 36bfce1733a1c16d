//! What a machine has and lacks for Orlop.
//!
//! ```text
//! gather: kernel, files, sockets ──► [MachineFacts] ──► [judge] (pure) ──► [Finding]s, each with a way out
//! ```

mod clock;
mod fetch;
mod gather;
mod judge;
mod owners;

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf};

use node_agent_datapath::{ForeignProgram, InstalledPins, Probe};
use serde::Serialize;

pub use fetch::{FetchError, fetch};
pub use gather::gather;
pub use judge::judge;

/// The role that the machine is to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MachineRole {
    /// Services only, in kube-proxy's place.
    Datapath,
    /// All that a node does, with pods.
    Node,
    /// The control plane.
    Server,
    /// Both.
    Whole,
}

/// Paths that preflight inspects.
#[derive(Clone, Debug)]
pub struct ProbePaths {
    /// Where programs and maps are pinned.
    pub pin_dir: PathBuf,
    /// The container runtime's socket.
    pub runtime_endpoint: String,
    /// Directories whose file systems need room; where one is missing, its nearest parent
    /// counts.
    pub disks: Vec<PathBuf>,
}

/// Facts that preflight found on a machine.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineFacts {
    /// The kernel's release.
    pub kernel: String,
    /// Whether this process has root's rights.
    pub root: bool,
    /// Whether the kernel describes its types.
    pub btf: bool,
    /// What the kernel could do when it was tried; empty without root.
    pub probes: Vec<Probe>,
    /// Programs of others where ours run.
    pub foreign_programs: Vec<ForeignProgram>,
    /// The datapath on this machine.
    pub datapath: Option<PinnedDatapath>,
    /// Control groups.
    pub cgroups: Cgroups,
    /// Settings of the kernel that matter, by their names.
    pub sysctls: BTreeMap<String, String>,
    /// Memory in bytes.
    pub memory: u64,
    /// Ports that are taken, of those that Orlop listens on.
    pub ports: Vec<OccupiedPort>,
    /// Network devices of this machine.
    pub devices: Vec<Nic>,
    /// The address of the default route.
    pub address: Option<IpAddr>,
    /// The container runtime.
    pub runtime: ContainerRuntime,
    /// Whether the clock is synchronized; `None` if the kernel does not say.
    pub clock_synchronized: Option<bool>,
    /// Room on file systems.
    pub disks: Vec<DiskSpace>,
}

/// The pinned datapath.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PinnedDatapath {
    /// Hooks of sockets with a program.
    pub socket_hooks: usize,
    /// Hooks of devices with a program.
    pub device_hooks: usize,
    /// Number of maps.
    pub maps: usize,
    /// Whether an agent keeps the maps up to date.
    pub in_use: bool,
}

/// The mounted versions of control groups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cgroups {
    /// Where the hierarchy of version 2 is.
    pub v2: Option<PathBuf>,
    /// Controllers of version 1.
    pub v1: Vec<String>,
}

/// A port that is in use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OccupiedPort {
    /// Its number; TCP, but for 8472.
    pub number: u16,
    /// The process that has it, if it can be told.
    pub process: Option<String>,
}

/// A network device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Nic {
    /// Its name.
    pub name: String,
    /// Its MTU.
    pub mtu: u32,
    /// Its driver.
    pub driver: String,
    /// Whether the driver runs XDP programs; `None` if the kernel does not say.
    pub xdp: Option<bool>,
}

/// A container runtime.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ContainerRuntime {
    /// Its socket.
    pub endpoint: String,
    /// Its name and version.
    pub version: Option<(String, String)>,
    /// Why it cannot be asked.
    pub error: Option<String>,
}

/// Free space of a file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DiskSpace {
    /// A directory on it.
    pub path: PathBuf,
    /// Bytes.
    pub size: u64,
    /// Bytes that are free.
    pub free: u64,
    /// Percent of the inodes that are free.
    pub inodes_free: u64,
}

/// Severity of a finding, from the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FindingLevel {
    /// As it should be.
    Ok,
    /// An optional feature that is absent.
    Absent,
    /// Works, with a drawback.
    Warning,
    /// Required, and not there.
    Missing,
}

/// One row of the preflight table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Finding {
    /// What was checked.
    pub check: String,
    /// How much it matters.
    pub verdict: FindingLevel,
    /// What was found.
    pub found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub way_out: Option<String>,
}

impl FindingLevel {
    /// The word in the table.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Absent => "absent",
            Self::Warning => "warning",
            Self::Missing => "MISSING",
        }
    }
}

impl From<InstalledPins> for PinnedDatapath {
    fn from(found: InstalledPins) -> Self {
        Self {
            socket_hooks: found.socket_hooks.len(),
            device_hooks: found.devices.len(),
            maps: found.maps,
            in_use: found.in_use,
        }
    }
}
