//! The memory manager's checkpoint, in the kubelet's form.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::checkpoint::{self as print, ManagerState as Checkpoint};
use super::nodes::{MemoryBlock, MemoryTable, NumaNode, NumaNodes};

/// Memory blocks by pod uid and container name.
pub type MemoryAssignments = BTreeMap<String, BTreeMap<String, Vec<MemoryBlock>>>;

/// The memory manager's checkpoint (version 1).
#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MemoryState {
    pub policy_name: String,
    pub machine_state: NumaNodes,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub entries: MemoryAssignments,
    pub checksum: u64,
}

impl Checkpoint for MemoryState {
    fn policy(&self) -> &str {
        &self.policy_name
    }

    fn sum(&mut self) -> &mut u64 {
        &mut self.checksum
    }

    fn printed(&self) -> String {
        let ints = |all: &[u32]| print::typed("[]int", print::list(all));
        let bytes = |n: u64| print::typed("uint64", n);
        let table = |t: &MemoryTable| {
            let all = print::fields(&[
                ("TotalMemSize", bytes(t.total)),
                ("SystemReserved", bytes(t.system_reserved)),
                ("Allocatable", bytes(t.allocatable)),
                ("Reserved", bytes(t.reserved)),
                ("Free", bytes(t.free)),
            ]);
            format!("<*>{all}")
        };
        let node = |node: &NumaNode| {
            let memory = print::map(node.memory_map.iter().map(|(k, t)| (k, table(t))));
            let all = print::fields(&[
                (
                    "NumberOfAssignments",
                    print::typed("int", node.number_of_assignments),
                ),
                (
                    "MemoryMap",
                    print::typed("map[v1.ResourceName]*state.MemoryTable", memory),
                ),
                ("Cells", ints(&node.cells)),
            ]);
            format!("<*>{all}")
        };
        let block = |block: &MemoryBlock| {
            print::fields(&[
                ("NUMAAffinity", ints(&block.nodes)),
                ("Type", print::typed("v1.ResourceName", &block.r#type)),
                ("Size", bytes(block.size)),
            ])
        };
        let pod = |of: &BTreeMap<String, Vec<MemoryBlock>>| {
            print::map(
                of.iter()
                    .map(|(name, blocks)| (name, print::list(blocks.iter().map(block)))),
            )
        };
        let nodes = print::map(self.machine_state.iter().map(|(id, one)| (id, node(one))));
        let entries = print::map(self.entries.iter().map(|(uid, of)| (uid, pod(of))));
        let all = print::fields(&[
            ("PolicyName", print::typed("string", &self.policy_name)),
            ("MachineState", print::typed("state.NUMANodeMap", nodes)),
            (
                "Entries",
                print::typed("state.ContainerMemoryAssignments", entries),
            ),
            ("Checksum", print::typed("checksum.Checksum", 0)),
        ]);
        print::typed("*state.MemoryManagerCheckpoint", all)
    }
}
