//! The memory manager's static policy: containers of Guaranteed pods get their
//! memory and huge pages from as few NUMA nodes as possible. Pure. Source of
//! the rules: KEP-1769.
//!
//! Nodes that serve one container together are a group: nothing else is given
//! from a part of them, so that what is promised of several nodes stays.

mod nodes;
mod state;

use std::collections::BTreeMap;

use node_agent_objects::pod::{Container, Pod, QosClass};
use node_agent_objects::quantity;
use node_agent_pod_resources::{hugepages, qos};

use super::checkpoint::{FormatError, open, seal};
use super::hints::{NumaMask, ProviderHints, TopologyHint, TopologyHints};
use super::topology::MachineTopology;
use super::{AdmissionFailure, ReusableResources, requests};
use nodes::{MemoryTable, NumaNode, NumaNodes, book, is_same, unbook};
use state::{MemoryAssignments, MemoryState};

pub use node_agent_kubelet_config::ReservedMemory;
pub use nodes::{BookingError, MemoryBlock};

/// The memory manager: assigns memory of NUMA nodes to containers.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryManager {
    empty: NumaNodes,
    nodes: NumaNodes,
    assigned: MemoryAssignments,
}

/// Why the static policy cannot be used on a machine, or as it is configured.
#[derive(Debug, thiserror::Error)]
pub enum MemoryPolicyError {
    /// Memory of a node is reserved that the machine does not have.
    #[error(
        "the reserved memory configuration references a NUMA node {0} that does not exist on this machine"
    )]
    NoNode(u32),
    /// No memory is reserved.
    #[error("the static policy of the memory manager needs reservedMemory for the system")]
    NoReservation,
    /// The nodes' reservations are not those of the machine.
    #[error(
        "the total amount \"{reserved}\" of type \"{kind}\" is not equal to the value \"{kept}\" determined by Node Allocatable feature"
    )]
    Total {
        /// The kind of memory.
        kind: String,
        /// Bytes reserved on all nodes.
        reserved: u64,
        /// Bytes that are kept from pods.
        kept: u64,
    },
}

/// Why a checkpoint of the memory manager does not fit the machine.
#[derive(Debug, thiserror::Error)]
pub enum MemoryRestoreError {
    /// It is no state of the policy.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// It gives memory of no nodes.
    #[error("[memorymanager] machine state can not be empty when it has memory assignments")]
    NoNodes,
    /// A container's memory does not exist.
    #[error("[memorymanager] (pod: {pod}, container: {container}) {why}")]
    Block {
        /// The pod's uid.
        pod: String,
        /// The container.
        container: String,
        /// What does not exist.
        why: BookingError,
    },
    /// What containers have and what is free do not make up the machine.
    #[error("[memorymanager] the expected machine state is different from the real one")]
    OtherState,
}

/// The kind of memory that is not in huge pages.
const MEMORY: &str = "memory";

impl MemoryManager {
    /// Of a machine of which that much is reserved. What is reserved of each
    /// kind has to be what is kept from pods of all (`kept`).
    ///
    /// # Errors
    /// Why the policy cannot be used.
    pub fn new(
        topology: &MachineTopology,
        reserved: &ReservedMemory,
        kept: &BTreeMap<String, u64>,
    ) -> Result<Self, MemoryPolicyError> {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for (node, limits) in reserved {
            if !topology.memory.contains_key(node) {
                return Err(MemoryPolicyError::NoNode(*node));
            }
            for (kind, bytes) in limits {
                let sum = sums.entry(kind).or_default();
                *sum = sum.saturating_add(*bytes);
            }
        }
        if sums.get(MEMORY).is_none_or(|bytes| *bytes == 0) {
            return Err(MemoryPolicyError::NoReservation);
        }
        for kind in sums.keys().copied().chain(kept.keys().map(String::as_str)) {
            let (own, all) = (
                sums.get(kind).copied().unwrap_or(0),
                kept.get(kind).copied().unwrap_or(0),
            );
            if own != all {
                return Err(MemoryPolicyError::Total {
                    kind: kind.to_owned(),
                    reserved: own,
                    kept: all,
                });
            }
        }
        let mut empty = NumaNodes::new();
        for (id, memory) in &topology.memory {
            let kept = |kind: &str| reserved.get(id).and_then(|of| of.get(kind)).copied();
            let table = |kind: &str, total: u64, huge: u64| {
                let system_reserved = kept(kind).unwrap_or(0);
                let allocatable = total.saturating_sub(system_reserved).saturating_sub(huge);
                MemoryTable {
                    total,
                    system_reserved,
                    allocatable,
                    reserved: 0,
                    free: allocatable,
                }
            };
            let mut memory_map = BTreeMap::new();
            let mut huge = 0_u64;
            for (size, pages) in &memory.hugepages {
                let bytes = size.saturating_mul(*pages);
                huge = huge.saturating_add(bytes);
                let kind = hugepages::resource(*size);
                memory_map.insert(kind.clone(), table(&kind, bytes, 0));
            }
            memory_map.insert(MEMORY.to_owned(), table(MEMORY, memory.total, huge));
            empty.insert(
                *id,
                NumaNode {
                    number_of_assignments: 0,
                    memory_map,
                    cells: vec![*id],
                },
            );
        }
        Ok(Self {
            nodes: empty.clone(),
            empty,
            assigned: MemoryAssignments::new(),
        })
    }

    /// What a container has.
    #[must_use]
    pub fn blocks(&self, pod: &str, container: &str) -> &[MemoryBlock] {
        let found = self.assigned.get(pod).and_then(|of| of.get(container));
        found.map_or(&[], Vec::as_slice)
    }

    /// The nodes of a container's memory; none where it has none of its own.
    #[must_use]
    pub fn nodes_of(&self, pod: &str, container: &str) -> Vec<u32> {
        let mut all: Vec<u32> = self
            .blocks(pod, container)
            .iter()
            .flat_map(|block| block.nodes.iter().copied())
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// What can be given, as blocks.
    #[must_use]
    pub fn allocatable(&self) -> Vec<MemoryBlock> {
        let of_node = |(id, node): (&u32, &NumaNode)| -> Vec<MemoryBlock> {
            let some = node.memory_map.iter().filter(|(_, t)| t.allocatable > 0);
            some.map(|(kind, table)| MemoryBlock {
                nodes: vec![*id],
                r#type: kind.clone(),
                size: table.allocatable,
            })
            .collect()
        };
        self.nodes.iter().flat_map(of_node).collect()
    }

    /// Where a container's memory could be, by kind.
    #[must_use]
    pub fn places(
        &self,
        pod: &Pod,
        container: &Container,
        reuse: &ReusableResources,
    ) -> ProviderHints {
        let wanted = wanted(pod, container);
        let held = self
            .assigned
            .get(pod.uid())
            .and_then(|of| of.get(&container.name));
        match held {
            Some(held) => regenerated(held, &wanted),
            None => self.hints(&wanted, reuse),
        }
    }

    /// The same for all of a pod together.
    #[must_use]
    pub fn pod_places(&self, pod: &Pod) -> ProviderHints {
        let mut all = BTreeMap::new();
        for container in &pod.spec.containers {
            for kind in wanted(pod, container).into_keys() {
                let of = |c: &Container| wanted(pod, c).get(&kind).copied().unwrap_or(0);
                let sum = requests::of_pod(pod, of);
                all.insert(kind, sum);
            }
        }
        let containers = pod.spec.init_containers.iter().chain(&pod.spec.containers);
        let of = |c: &Container| self.assigned.get(pod.uid())?.get(&c.name);
        let mut held = containers.filter_map(of);
        match held.next() {
            Some(held) => regenerated(held, &all),
            None => self.hints(&all, &ReusableResources::default()),
        }
    }

    /// The sets of nodes that have as much, of which no part is in a group
    /// with others.
    fn hints(&self, wanted: &BTreeMap<String, u64>, reuse: &ReusableResources) -> ProviderHints {
        if wanted.is_empty() {
            return ProviderHints::new();
        }
        let all: NumaMask = self.nodes.keys().copied().collect();
        let mut least = all.count();
        let mut found = Vec::new();
        for mask in all.subsets() {
            let sum = |kind: &str, of: &dyn Fn(&MemoryTable) -> u64| -> u64 {
                let tables = mask
                    .iter()
                    .filter_map(|id| self.nodes.get(&id)?.memory_map.get(kind));
                tables.map(of).fold(0, u64::saturating_add)
            };
            if wanted
                .iter()
                .any(|(kind, size)| sum(kind, &|t| t.allocatable) < *size)
            {
                continue;
            }
            least = least.min(mask.count());
            let fits = wanted.iter().all(|(kind, size)| {
                let again = reuse.memory(mask, kind);
                sum(kind, &|t| t.free).saturating_add(again) >= *size
            });
            if fits && self.keeps_groups(mask) {
                found.push(mask);
            }
        }
        let places: TopologyHints = Some(
            found
                .into_iter()
                .map(|nodes| TopologyHint {
                    nodes: Some(nodes),
                    preferred: nodes.count() == least,
                })
                .collect(),
        );
        let one = |kind: &String| (kind.clone(), places.clone());
        wanted.keys().map(one).collect()
    }

    /// Whether nodes are free to be taken together.
    fn keeps_groups(&self, mask: NumaMask) -> bool {
        let same = |cells: &[u32]| cells.iter().copied().collect::<NumaMask>() == mask;
        mask.iter()
            .filter_map(|id| self.nodes.get(&id))
            .all(|node| {
                if mask.count() == 1 {
                    node.cells.len() <= 1
                } else {
                    node.number_of_assignments == 0 || same(&node.cells)
                }
            })
    }

    /// Whether nodes chosen by others may be taken together.
    fn may_join(&self, mask: NumaMask) -> bool {
        let same = |cells: &[u32]| cells.iter().copied().collect::<NumaMask>() == mask;
        let mut nodes = mask.iter().filter_map(|id| self.nodes.get(&id));
        mask.count() == 1 || nodes.all(|node| node.number_of_assignments == 0 || same(&node.cells))
    }

    /// Gives a container the memory that it asks for, from the nodes of `near`
    /// where they have it, and from more where they have not.
    ///
    /// # Errors
    /// Why it cannot have it.
    pub fn allocate(
        &mut self,
        pod: &Pod,
        container: &Container,
        near: TopologyHint,
        reuse: &mut ReusableResources,
    ) -> Result<(), AdmissionFailure> {
        if qos::class(&pod.spec) != QosClass::Guaranteed || pod.spec.has_own_resources() {
            return Ok(());
        }
        let held = self
            .assigned
            .get(pod.uid())
            .and_then(|of| of.get(&container.name));
        if let Some(held) = held {
            reuse.note_memory(pod, container, held);
            return Ok(());
        }
        let wanted = wanted(pod, container);
        let mask = self.choose(&wanted, near, reuse)?;
        let nodes: Vec<u32> = mask.iter().collect();
        let mut blocks = Vec::new();
        for (kind, size) in &wanted {
            blocks.push(MemoryBlock {
                nodes: nodes.clone(),
                r#type: kind.clone(),
                size: *size,
            });
            let more = size.saturating_sub(reuse.memory(mask, kind));
            book(&mut self.nodes, &nodes, kind, more).map_err(AdmissionFailure::unexpected)?;
        }
        reuse.note_memory(pod, container, &blocks);
        let of_pod = self.assigned.entry(pod.uid().to_owned()).or_default();
        take_over(of_pod, pod, container, &blocks);
        of_pod.insert(container.name.clone(), blocks);
        Ok(())
    }

    fn choose(
        &self,
        wanted: &BTreeMap<String, u64>,
        near: TopologyHint,
        reuse: &ReusableResources,
    ) -> Result<NumaMask, AdmissionFailure> {
        let refuse = |why: &str| AdmissionFailure::unexpected(format!("[memorymanager] {why}"));
        let said = self.hints(wanted, reuse);
        let hints = said.get(MEMORY).cloned().flatten().unwrap_or_default();
        let nodes = |hint: &TopologyHint| hint.nodes.unwrap_or_default();
        let best = |among: Vec<TopologyHint>| {
            among
                .into_iter()
                .min_by_key(|hint| (!hint.preferred, nodes(hint).count(), nodes(hint)))
        };
        let mut chosen = match near.nodes {
            Some(_) => near,
            None => best(hints.clone()).ok_or_else(|| {
                refuse("failed to get the default NUMA affinity, no NUMA nodes with enough memory is available")
            })?,
        };
        if near.preferred && !chosen.preferred {
            return Err(refuse("failed to find the default preferred hint"));
        }
        let has = |mask: NumaMask, kind: &str| -> u64 {
            let tables = mask
                .iter()
                .filter_map(|id| self.nodes.get(&id)?.memory_map.get(kind));
            tables.map(|t| t.free).fold(0, u64::saturating_add)
        };
        let mask = nodes(&chosen);
        if wanted.iter().any(|(kind, size)| has(mask, kind) < *size) {
            let wider = hints.into_iter().filter(|h| nodes(h).and(mask) == mask);
            chosen = best(wider.collect()).ok_or_else(|| {
                refuse("failed to find NUMA nodes to extend the current topology hint")
            })?;
            if near.preferred && !chosen.preferred {
                return Err(refuse("failed to find the extended preferred hint"));
            }
        }
        let mask = nodes(&chosen);
        if !self.may_join(mask) {
            return Err(refuse("preferred hint violates NUMA node allocation"));
        }
        Ok(mask)
    }

    /// Takes back what an init container has that is through.
    pub fn release(&mut self, pod: &str, container: &str) -> bool {
        let Some(of_pod) = self.assigned.get_mut(pod) else {
            return false;
        };
        let Some(blocks) = of_pod.remove(container) else {
            return false;
        };
        if of_pod.is_empty() {
            self.assigned.remove(pod);
        }
        unbook(&mut self.nodes, &blocks);
        true
    }

    /// Takes back what pods have that are not to be kept; whether there was any.
    pub fn keep(&mut self, keeps: impl Fn(&str) -> bool) -> bool {
        let gone: Vec<String> = self
            .assigned
            .keys()
            .filter(|p| !keeps(p))
            .cloned()
            .collect();
        for pod in &gone {
            for blocks in self.assigned.remove(pod).unwrap_or_default().into_values() {
                unbook(&mut self.nodes, &blocks);
            }
        }
        !gone.is_empty()
    }

    /// As the kubelet's checkpoint (`memory_manager_state`).
    #[must_use]
    pub fn save(&self) -> String {
        seal(MemoryState {
            policy_name: "Static".to_owned(),
            machine_state: self.nodes.clone(),
            entries: self.assigned.clone(),
            checksum: 0,
        })
    }

    /// Goes on with what a checkpoint says.
    ///
    /// # Errors
    /// Why it cannot be gone on with.
    pub fn restore(&mut self, text: &str) -> Result<(), MemoryRestoreError> {
        let state: MemoryState = open(text, "Static")?;
        if state.machine_state.is_empty() {
            return if state.entries.is_empty() {
                Ok(())
            } else {
                Err(MemoryRestoreError::NoNodes)
            };
        }
        let mut expected = self.empty.clone();
        for (pod, containers) in &state.entries {
            for (container, blocks) in containers {
                for block in blocks {
                    book(&mut expected, &block.nodes, &block.r#type, block.size).map_err(
                        |why| MemoryRestoreError::Block {
                            pod: pod.clone(),
                            container: container.clone(),
                            why,
                        },
                    )?;
                }
            }
        }
        if !is_same(&expected, &state.machine_state) {
            return Err(MemoryRestoreError::OtherState);
        }
        self.nodes = state.machine_state;
        self.assigned = state.entries;
        Ok(())
    }
}

/// What a container takes over of init containers that are through before it
/// is not theirs any more.
fn take_over(
    of_pod: &mut BTreeMap<String, Vec<MemoryBlock>>,
    pod: &Pod,
    container: &Container,
    blocks: &[MemoryBlock],
) {
    for block in blocks {
        let mut open = block.size;
        let before = pod.spec.init_containers.iter();
        for init in before.take_while(|init| init.name != container.name) {
            if init.is_sidecar() {
                continue;
            }
            for own in of_pod.get_mut(&init.name).into_iter().flatten() {
                if own.r#type == block.r#type && own.nodes == block.nodes {
                    let part = open.min(own.size);
                    own.size -= part;
                    open -= part;
                }
            }
        }
    }
}

/// The hints of what is given already.
fn regenerated(held: &[MemoryBlock], wanted: &BTreeMap<String, u64>) -> ProviderHints {
    let same = held.len() == wanted.len()
        && held
            .iter()
            .all(|block| wanted.get(&block.r#type) == Some(&block.size));
    if !same {
        return ProviderHints::new();
    }
    let one = |block: &MemoryBlock| {
        let hint = TopologyHint {
            nodes: Some(block.nodes.iter().copied().collect()),
            preferred: true,
        };
        (block.r#type.clone(), Some(vec![hint]))
    };
    held.iter().map(one).collect()
}

/// By kind: bytes that a container gets of its own.
fn wanted(pod: &Pod, container: &Container) -> BTreeMap<String, u64> {
    if pod.spec.has_own_resources() || qos::class(&pod.spec) != QosClass::Guaranteed {
        return BTreeMap::new();
    }
    let resources = &container.resources;
    let mut all = BTreeMap::new();
    for (name, text) in resources.limits.iter().chain(&resources.requests) {
        if name == MEMORY || name.starts_with(hugepages::PREFIX) {
            let bytes = quantity::whole(text).and_then(|n| u64::try_from(n).ok());
            all.insert(name.clone(), bytes.unwrap_or(0));
        }
    }
    all
}

/// The checkpoint where no memory is anybody's own.
#[must_use]
pub fn save_none() -> String {
    seal(MemoryState {
        policy_name: "None".to_owned(),
        ..MemoryState::default()
    })
}

/// Whether a checkpoint is of a node where no memory is anybody's own.
///
/// # Errors
/// That it is of another.
pub fn check_none(text: &str) -> Result<(), MemoryRestoreError> {
    open::<MemoryState>(text, "None")?;
    Ok(())
}

#[cfg(test)]
mod tests;
