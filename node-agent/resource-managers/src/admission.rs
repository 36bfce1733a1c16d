//! What managers tell each other, and a pod's status, while a pod is admitted.

use std::collections::BTreeMap;

use node_agent_objects::pod::{Container, Pod};
use node_agent_pod_resources::cpuset::CpuSet;

use crate::hints::NumaMask;
use crate::memory::MemoryBlock;
use crate::requests;

/// The reason and message of a pod's status when a resource manager rejects it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdmissionFailure {
    /// One word.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

impl AdmissionFailure {
    /// What nobody foresaw.
    #[must_use]
    pub fn unexpected(error: impl std::fmt::Display) -> Self {
        Self {
            reason: "UnexpectedAdmissionError",
            message: format!("Allocate failed due to {error}, which is unexpected"),
        }
    }

    pub(crate) fn not_aligned() -> Self {
        Self {
            reason: "TopologyAffinityError",
            message: "Resources cannot be allocated with Topology locality".to_owned(),
        }
    }
}

/// Resources of a pod's finished init containers that its other containers may take.
#[derive(Clone, Debug, Default)]
pub struct ReusableResources {
    pub(crate) cpus: CpuSet,
    memory: BTreeMap<(NumaMask, String), u64>,
}

impl ReusableResources {
    pub(crate) fn note_cpus(&mut self, pod: &Pod, container: &Container, own: &CpuSet) {
        self.cpus = if requests::is_passing(pod, container) {
            self.cpus.union(own)
        } else {
            self.cpus.difference(own)
        };
    }

    pub(crate) fn memory(&self, nodes: NumaMask, kind: &str) -> u64 {
        let found = self.memory.get(&(nodes, kind.to_owned()));
        found.copied().unwrap_or(0)
    }

    pub(crate) fn note_memory(&mut self, pod: &Pod, container: &Container, blocks: &[MemoryBlock]) {
        let passing = requests::is_passing(pod, container);
        for block in blocks {
            let nodes = block.nodes.iter().copied().collect();
            let held = self
                .memory
                .entry((nodes, block.r#type.clone()))
                .or_default();
            *held = if passing {
                (*held).max(block.size)
            } else {
                held.saturating_sub(block.size)
            };
        }
    }
}
