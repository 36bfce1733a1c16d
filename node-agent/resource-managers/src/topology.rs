//! What the machine is made of: sockets, NUMA nodes, caches, cores and CPUs,
//! read from `/sys`.
//!
//! Numbers of cores are made unique as the kubelet makes them so: a core is
//! called by its lowest CPU.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use node_agent_pod_resources::cpuset::CpuSet;
use node_agent_pod_resources::hugepages;

use super::hints::{Distances, NumaMask};

/// The core, socket and NUMA node of a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuLocation {
    /// Its core.
    pub core: u32,
    /// Its socket.
    pub socket: u32,
    /// Its NUMA node.
    pub numa: u32,
    /// Its last level of cache.
    pub cache: u32,
}

/// The memory of a NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeMemory {
    /// Bytes in all.
    pub total: u64,
    /// By bytes of a page: how many huge pages there are.
    pub hugepages: BTreeMap<u64, u64>,
}

/// The machine's CPUs and NUMA nodes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachineTopology {
    /// By number: the CPUs that are online.
    pub cpus: BTreeMap<u32, CpuLocation>,
    /// By number: the NUMA nodes.
    pub memory: BTreeMap<u32, NodeMemory>,
    /// How far nodes are from each other.
    pub distances: Distances,
}

impl MachineTopology {
    /// Reads it below `sys`, usually `/sys`. A kernel without NUMA has one
    /// node, whose memory is `memory` bytes.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn read(sys: &Path, memory: u64) -> io::Result<Self> {
        let devices = sys.join("devices/system");
        let online = list(&devices.join("cpu/online"))?;
        let mut nodes: BTreeMap<u32, CpuSet> = BTreeMap::new();
        if let Ok(all) = list(&devices.join("node/online")) {
            for node in all.iter() {
                let cpus = list(&devices.join(format!("node/node{node}/cpulist")))?;
                nodes.insert(node, cpus);
            }
        }
        let mut found = Self::default();
        for node in nodes.keys() {
            let folder = devices.join(format!("node/node{node}"));
            found.memory.insert(*node, node_memory(&folder)?);
            let line = fs::read_to_string(folder.join("distance")).unwrap_or_default();
            let far = line.split_whitespace().filter_map(|n| n.parse().ok());
            let to: BTreeMap<u32, u64> = nodes.keys().copied().zip(far).collect();
            found.distances.insert(*node, to);
        }
        if nodes.is_empty() {
            nodes.insert(0, online.clone());
            let total = memory;
            let hugepages = hugepages::pages(&sys.join("kernel/mm/hugepages"));
            found.memory.insert(0, NodeMemory { total, hugepages });
        }
        for cpu in online.iter() {
            let folder = devices.join(format!("cpu/cpu{cpu}"));
            let siblings = list(&folder.join("topology/thread_siblings_list"))
                .or_else(|_| list(&folder.join("topology/core_cpus_list")))?;
            let socket = number(&folder.join("topology/physical_package_id")).unwrap_or(0);
            let numa = nodes.iter().find(|(_, cpus)| cpus.contains(cpu));
            found.cpus.insert(
                cpu,
                CpuLocation {
                    core: siblings.iter().next().unwrap_or(cpu),
                    // some machines do not say, with -1
                    socket: u32::try_from(socket).unwrap_or(0),
                    numa: numa.map_or(0, |(node, _)| *node),
                    cache: last_cache(&folder.join("cache")).unwrap_or(0),
                },
            );
        }
        Ok(found)
    }

    /// All CPUs.
    #[must_use]
    pub fn all(&self) -> CpuSet {
        self.cpus.keys().copied().collect()
    }

    /// Those of which the place is as asked.
    #[must_use]
    pub fn select(&self, is: impl Fn(&CpuLocation) -> bool) -> CpuSet {
        let found = self.cpus.iter().filter(|(_, place)| is(place));
        found.map(|(cpu, _)| *cpu).collect()
    }

    /// Those of NUMA nodes.
    #[must_use]
    pub fn in_nodes(&self, nodes: NumaMask) -> CpuSet {
        self.select(|place| nodes.contains(place.numa))
    }

    /// How many there are of what `part` numbers.
    #[must_use]
    pub fn count(&self, part: impl Fn(&CpuLocation) -> u32) -> usize {
        let all: std::collections::BTreeSet<u32> = self.cpus.values().map(part).collect();
        all.len()
    }

    /// Threads of a core.
    #[must_use]
    pub fn per_core(&self) -> usize {
        self.cpus.len() / self.count(|p| p.core).max(1)
    }

    /// The NUMA nodes that have CPUs or memory.
    #[must_use]
    pub fn nodes(&self) -> NumaMask {
        let of_cpus = self.cpus.values().map(|place| place.numa);
        self.memory.keys().copied().chain(of_cpus).collect()
    }
}

fn list(path: &Path) -> io::Result<CpuSet> {
    let text = fs::read_to_string(path)?;
    text.parse()
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

fn number(path: &Path) -> Option<i64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The number of the last level of cache, which is the lowest of its CPUs
/// where the kernel numbers none.
fn last_cache(folder: &Path) -> Option<u32> {
    let mut last: Option<(i64, u32)> = None;
    for entry in fs::read_dir(folder).ok()?.flatten() {
        let path = entry.path();
        let Some(level) = number(&path.join("level")) else {
            continue;
        };
        let id = number(&path.join("id"))
            .and_then(|id| u32::try_from(id).ok())
            .or_else(|| list(&path.join("shared_cpu_list")).ok()?.iter().next());
        if let Some(id) = id
            && last.is_none_or(|(highest, _)| level > highest)
        {
            last = Some((level, id));
        }
    }
    last.filter(|(level, _)| *level >= 3).map(|(_, id)| id)
}

fn node_memory(folder: &Path) -> io::Result<NodeMemory> {
    let text = fs::read_to_string(folder.join("meminfo"))?;
    let total = text.lines().find_map(|line| {
        let (_, rest) = line.split_once("MemTotal:")?;
        let kibi: u64 = rest.split_whitespace().next()?.parse().ok()?;
        kibi.checked_mul(1024)
    });
    Ok(NodeMemory {
        total: total.unwrap_or(0),
        hugepages: hugepages::pages(&folder.join("hugepages")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_read_from_sys() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: String, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let base = "devices/system";
        put(format!("{base}/cpu/online"), "0-3\n");
        put(format!("{base}/node/online"), "0-1\n");
        for node in 0..2 {
            let at = format!("{base}/node/node{node}");
            put(
                format!("{at}/cpulist"),
                if node == 0 { "0,2\n" } else { "1,3,4\n" },
            );
            put(
                format!("{at}/meminfo"),
                &format!("Node {node} MemTotal:  2048 kB\nNode {node} MemFree: 1 kB\n"),
            );
            put(
                format!("{at}/distance"),
                if node == 0 { "10 21\n" } else { "21 10\n" },
            );
            put(
                format!("{at}/hugepages/hugepages-2048kB/nr_hugepages"),
                "3\n",
            );
        }
        for cpu in 0..4 {
            let at = format!("{base}/cpu/cpu{cpu}");
            let core = if cpu % 2 == 0 { "0,2\n" } else { "1,3\n" };
            put(format!("{at}/topology/thread_siblings_list"), core);
            put(
                format!("{at}/topology/physical_package_id"),
                if cpu % 2 == 0 { "0" } else { "1" },
            );
            put(format!("{at}/cache/index0/level"), "1");
            put(format!("{at}/cache/index0/id"), "9");
            put(format!("{at}/cache/index3/level"), "3");
            put(format!("{at}/cache/index3/shared_cpu_list"), core);
        }
        let found = MachineTopology::read(dir.path(), 0).unwrap();
        let place = |core, socket, numa| CpuLocation {
            core,
            socket,
            numa,
            cache: core,
        };
        assert_eq!(found.cpus[&2], place(0, 0, 0));
        assert_eq!(found.cpus[&3], place(1, 1, 1));
        assert_eq!(found.cpus.len(), 4, "what is offline does not count");
        assert_eq!(found.memory[&1].total, 2 << 20);
        assert_eq!(found.memory[&1].hugepages, [(2 << 20, 3)].into());
        assert_eq!(found.distances[&0][&1], 21);
        assert_eq!(found.per_core(), 2);
    }

    #[test]
    fn this_machine_is_read() {
        let found = MachineTopology::read(Path::new("/sys"), 1 << 30).unwrap();
        assert!(!found.cpus.is_empty() && !found.memory.is_empty());
        assert!(found.per_core() >= 1);
        let without = tempfile::tempdir().unwrap();
        assert!(MachineTopology::read(without.path(), 0).is_err());
    }
}
