//! Machines for tests.

use crate::topology::{CpuLocation, MachineTopology, NodeMemory};

/// A machine of so many sockets, NUMA nodes in each, cores in each and
/// threads in each; threads of a core are far apart, as Linux numbers them.
#[must_use]
pub fn machine(sockets: u32, nodes: u32, cores: u32, threads: u32) -> MachineTopology {
    let mut found = MachineTopology::default();
    let all_cores = sockets * nodes * cores;
    for core in 0..all_cores {
        let numa = core / cores;
        for thread in 0..threads {
            found.cpus.insert(
                core + thread * all_cores,
                CpuLocation {
                    core,
                    socket: numa / nodes,
                    numa,
                    cache: numa,
                },
            );
        }
    }
    for node in 0..sockets * nodes {
        let memory = NodeMemory {
            total: 16 << 30,
            hugepages: [(2 << 20, 0)].into(),
        };
        found.memory.insert(node, memory);
        let far = (0..sockets * nodes).map(|to| (to, if to == node { 10 } else { 20 }));
        found.distances.insert(node, far.collect());
    }
    found
}
