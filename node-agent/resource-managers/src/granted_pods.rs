//! Pods with what they were given, for the pod resources API.

use std::sync::Arc;

use node_agent_objects::pod::{Container, Pod};
use node_agent_pod_registry::PodRegistry;
use node_agent_pod_resources::cpuset::CpuSet;

use crate::ResourceManagers;
use crate::devices::{PodLister, api};
use crate::dra::ClaimManager;
use crate::memory::MemoryBlock;

/// The pods of the registry, with what the managers gave them.
#[derive(Clone)]
pub struct GrantedPods {
    /// The pods.
    pub pods: Arc<PodRegistry>,
    /// CPUs and memory of containers' own.
    pub managers: Arc<ResourceManagers>,
    /// Devices by claims.
    pub claims: Arc<ClaimManager>,
}

impl PodLister for GrantedPods {
    fn all(&self) -> Vec<Arc<Pod>> {
        let all = self.pods.all().into_iter();
        all.map(|entry| entry.pod).collect()
    }

    fn own(&self, pod: &str, container: &str) -> (CpuSet, Vec<MemoryBlock>) {
        let bound = self.managers.binding(pod, container);
        let cpus = bound.cpus.filter(|_| bound.exclusive).unwrap_or_default();
        (cpus, self.managers.blocks(pod, container))
    }

    fn claims(&self, pod: &Pod, container: &Container) -> Vec<api::DynamicResource> {
        self.claims.pod_resources(pod, container)
    }

    fn allocatable(&self) -> (CpuSet, Vec<MemoryBlock>) {
        self.managers.allocatable()
    }
}
