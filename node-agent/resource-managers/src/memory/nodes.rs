//! The memory of NUMA nodes, and what of it is promised. Pure.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::hints::NumaMask;

/// NUMA nodes by number.
pub type NumaNodes = BTreeMap<u32, NumaNode>;

/// Bytes of one kind of memory on one NUMA node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MemoryTable {
    pub total: u64,
    pub system_reserved: u64,
    pub allocatable: u64,
    pub reserved: u64,
    pub free: u64,
}

/// One NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NumaNode {
    pub number_of_assignments: i64,
    pub memory_map: BTreeMap<String, MemoryTable>,
    pub cells: Vec<u32>,
}

/// Memory of one kind that a container holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryBlock {
    /// The nodes.
    #[serde(rename = "numaAffinity")]
    pub nodes: Vec<u32>,
    /// `memory`, or huge pages of a size.
    pub r#type: String,
    /// Bytes.
    pub size: u64,
}

/// Whether two states promise the same: how a group's memory is spread over
/// its nodes does not matter.
pub fn is_same(a: &NumaNodes, b: &NumaNodes) -> bool {
    let group = |nodes: &NumaNodes, cells: &[u32], kind: &str| -> (u64, u64) {
        let tables = cells
            .iter()
            .filter_map(|id| nodes.get(id)?.memory_map.get(kind));
        tables.fold((0, 0), |(free, reserved), t| {
            (free + t.free, reserved + t.reserved)
        })
    };
    let fixed = |t: &MemoryTable| (t.total, t.system_reserved, t.allocatable);
    let sorted = |cells: &[u32]| cells.iter().copied().collect::<NumaMask>();
    a.len() == b.len()
        && a.iter().all(|(id, one)| {
            b.get(id).is_some_and(|other| {
                one.number_of_assignments == other.number_of_assignments
                    && sorted(&one.cells) == sorted(&other.cells)
                    && one.memory_map.len() == other.memory_map.len()
                    && one.memory_map.iter().all(|(kind, table)| {
                        let same = |t: &MemoryTable| fixed(t) == fixed(table);
                        other.memory_map.get(kind).is_some_and(same)
                            && group(a, &one.cells, kind) == group(b, &one.cells, kind)
                    })
            })
        })
}

/// What a block of memory is of that the machine does not have, in the kubelet's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BookingError {
    /// The node.
    #[error("the memory assignment uses the NUMA that does not exist")]
    NoNode,
    /// The kind of memory.
    #[error("the memory assignment uses memory resource that does not exist")]
    NoResource,
}

/// Books bytes of a kind on nodes that are a group from then on.
pub fn book(
    nodes: &mut NumaNodes,
    group: &[u32],
    kind: &str,
    mut open: u64,
) -> Result<(), BookingError> {
    for id in group {
        let node = nodes.get_mut(id).ok_or(BookingError::NoNode)?;
        node.number_of_assignments += 1;
        node.cells = group.to_vec();
        let table = node
            .memory_map
            .get_mut(kind)
            .ok_or(BookingError::NoResource)?;
        let part = open.min(table.free);
        table.reserved += part;
        table.free -= part;
        open -= part;
    }
    Ok(())
}

/// Takes blocks back.
pub fn unbook(nodes: &mut NumaNodes, blocks: &[MemoryBlock]) {
    for block in blocks {
        let mut open = block.size;
        for id in &block.nodes {
            let Some(node) = nodes.get_mut(id) else {
                continue;
            };
            node.number_of_assignments -= 1;
            if node.number_of_assignments == 0 {
                node.cells = vec![*id];
            }
            if let Some(table) = node.memory_map.get_mut(&block.r#type) {
                let part = open.min(table.reserved);
                table.reserved -= part;
                table.free += part;
                open -= part;
            }
        }
    }
}
