//! Who gets which CPUs, memory and devices: the kubelet's CPU manager, memory
//! manager and topology manager.
//!
//! ```text
//! pod ──▶ hints of devices, CPUs, memory ──merge (pure)──▶ nodes ──▶ given
//!                                                          │
//!   cpu_manager_state, memory_manager_state ◀──checkpoint──┘
//! ```
//!
//! Pods are admitted one at a time, and get all that they ask for or nothing.
//! What is given stays until nothing of the pod runs any more, whoever looks
//! after it: the checkpoints are the kubelet's. Containers without CPUs of
//! their own are kept off those of others by [`reconcile`].

mod admission;
mod assign;
pub mod checkpoint;
pub mod cpu;
pub mod devices;
pub mod dra;
pub mod granted_pods;
pub mod hints;
pub mod memory;
pub mod reconcile;
pub mod requests;
#[cfg(any(test, feature = "fake"))]
pub mod testing;
pub mod topology;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use node_agent_files::atomic_file;
use node_agent_kubelet_config::{Alignment, Settings};
use node_agent_objects::error_chain;
use node_agent_objects::pod::{Container, Pod, PodSpec, QosClass};
use node_agent_pod_resources::cpuset::CpuSet;
use tokio::sync::Notify;

use crate::devices::DeviceManager;
use cpu::CpuManager;
use hints::{NumaMask, ProviderHints, TopologyHint, TopologyPolicy, TopologyScope};
use memory::{MemoryBlock, MemoryManager};
use topology::MachineTopology;

pub use admission::{AdmissionFailure, ReusableResources};
pub use checkpoint::CheckpointError;
pub(crate) use checkpoint::{checksum, fields, list, map, read as read_checkpoint, typed};

/// Where the two checkpoints are, below the agent's folder.
const CPU_STATE: &str = "cpu_manager_state";
const MEMORY_STATE: &str = "memory_manager_state";

/// The CPUs and NUMA nodes that a container is bound to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerBinding {
    /// CPUs that it may run on; none leaves it to the runtime.
    pub cpus: Option<CpuSet>,
    /// Whether they are its own.
    pub exclusive: bool,
    /// NUMA nodes that its memory comes from; empty for any.
    pub nodes: Vec<u32>,
}

/// Why the resource managers cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The machine cannot be looked at.
    #[error("cannot read the topology of the machine")]
    Topology(#[source] std::io::Error),
    /// The topology manager cannot consider so many nodes.
    #[error(
        "unsupported on machines with more than {0} NUMA Nodes; set max-allowable-numa-nodes of topologyManagerPolicyOptions"
    )]
    TooManyNodes(u32),
    /// A socket may have several nodes.
    #[error("align-by-socket cannot be beside the topology policy single-numa-node")]
    AlignBySocket,
    /// The policy of the CPU manager cannot be used.
    #[error(transparent)]
    CpuPolicy(#[from] cpu::CpuPolicyError),
    /// The policy of the memory manager cannot be used.
    #[error(transparent)]
    MemoryPolicy(#[from] memory::MemoryPolicyError),
    /// What was given before cannot be gone on with.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// What is given cannot be noted.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

#[derive(Debug, Default)]
struct AssignedResources {
    cpus: Option<CpuManager>,
    memories: Option<MemoryManager>,
}

/// The node's CPU, memory, device and topology managers.
#[derive(Debug, Default)]
pub struct ResourceManagers {
    root: PathBuf,
    policy: TopologyPolicy,
    scope: TopologyScope,
    nodes: NumaMask,
    closest: Option<hints::Distances>,
    given: Mutex<AssignedResources>,
    /// Held while a pod is admitted: plugins are asked in between.
    turn: tokio::sync::Mutex<()>,
    /// Notified when the CPUs that are shared have changed.
    changed: Notify,
}

impl ResourceManagers {
    /// Of this machine, with what was given before.
    ///
    /// # Errors
    /// When they cannot begin.
    pub fn new(root: &Path, settings: &Settings, memory: u64) -> Result<Self, Error> {
        let topology = MachineTopology::read(Path::new("/sys"), memory);
        Self::with_topology(root, settings, topology.map_err(Error::Topology), memory)
    }

    /// Of a machine with that topology, with what was given before.
    ///
    /// # Errors
    /// When they cannot begin.
    pub fn with_topology(
        root: &Path,
        settings: &Settings,
        topology: Result<MachineTopology, Error>,
        memory: u64,
    ) -> Result<Self, Error> {
        let wish = &settings.alignment;
        let mut new = Self {
            root: root.to_owned(),
            policy: wish.policy,
            scope: wish.scope,
            ..Self::default()
        };
        let restored = |name: &str| checkpoint::read(&root.join(name));
        let cpu_error = |error: cpu::CpuRestoreError| CheckpointError {
            path: root.join(CPU_STATE),
            source: error.into(),
        };
        let memory_error = |error: memory::MemoryRestoreError| CheckpointError {
            path: root.join(MEMORY_STATE),
            source: error.into(),
        };
        let needed = wish.static_cpus || wish.static_memory || wish.policy != TopologyPolicy::None;
        let topology = if needed {
            topology?
        } else {
            MachineTopology::default()
        };
        new.nodes = topology.nodes();
        if new.nodes.count() > wish.most_nodes && wish.policy != TopologyPolicy::None {
            return Err(Error::TooManyNodes(wish.most_nodes));
        }
        new.closest = wish.closest.then(|| topology.distances.clone());
        let given = new.given.get_mut().unwrap_or_else(PoisonError::into_inner);
        let (cpu_state, memory_state) = (restored(CPU_STATE)?, restored(MEMORY_STATE)?);
        if wish.static_memory {
            let kept = settings.kept_memory(memory);
            let mut memories = MemoryManager::new(&topology, &wish.reserved_memory, &kept)?;
            if let Some(text) = &memory_state {
                memories.restore(text).map_err(memory_error)?;
            }
            given.memories = Some(memories);
        } else if let Some(text) = &memory_state {
            memory::check_none(text).map_err(memory_error)?;
        }
        if wish.static_cpus {
            if wish.options.by_socket && wish.policy == TopologyPolicy::SingleNumaNode {
                return Err(Error::AlignBySocket);
            }
            let reserved = reserved_cpus(wish, settings);
            let mut cpus = CpuManager::new(topology, wish.options, reserved)?;
            if let Some(text) = &cpu_state {
                cpus.restore(text).map_err(cpu_error)?;
            }
            given.cpus = Some(cpus);
        } else if let Some(text) = &cpu_state {
            cpu::check_none(text).map_err(cpu_error)?;
        }
        new.save()?;
        Ok(new)
    }

    fn given(&self) -> MutexGuard<'_, AssignedResources> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what is given, as the kubelet does, whatever the policies.
    fn save(&self) -> Result<(), Error> {
        let (cpus, memories) = {
            let given = self.given();
            let cpus = given
                .cpus
                .as_ref()
                .map_or_else(cpu::save_none, CpuManager::save);
            let memories = given.memories.as_ref();
            (
                cpus,
                memories.map_or_else(memory::save_none, MemoryManager::save),
            )
        };
        for (name, text) in [(CPU_STATE, cpus), (MEMORY_STATE, memories)] {
            let path = self.root.join(name);
            if std::fs::read_to_string(&path).is_ok_and(|had| had == text) {
                continue;
            }
            atomic_file::write(&path, &text).map_err(|source| Error::Write { path, source })?;
        }
        Ok(())
    }

    /// Gives a pod the devices, CPUs and memory that it asks for; all or none.
    ///
    /// # Errors
    /// Why it cannot have them.
    pub async fn admit(&self, pod: &Pod, devices: &DeviceManager) -> Result<(), AdmissionFailure> {
        let _turn = self.turn.lock().await;
        let given = self.give(pod, devices).await;
        if given.is_err() {
            devices.drop_of(pod.uid());
            let mut held = self.given();
            let gone = |uid: &str| uid != pod.uid();
            if let Some(cpus) = &mut held.cpus {
                cpus.keep(gone);
            }
            if let Some(memories) = &mut held.memories {
                memories.keep(gone);
            }
        }
        // before anything is started with them
        let noted = devices
            .save()
            .map_err(|e| format!("cannot note which devices were given: {e}"))
            .and_then(|()| self.save().map_err(|e| error_chain(&e)));
        self.changed.notify_one();
        given?;
        noted.map_err(AdmissionFailure::unexpected)
    }

    async fn give(&self, pod: &Pod, devices: &DeviceManager) -> Result<(), AdmissionFailure> {
        let mut reuse = ReusableResources::default();
        let whole = (self.policy != TopologyPolicy::None && self.scope == TopologyScope::Pod)
            .then(|| self.merge(self.pod_hints(pod, devices)))
            .transpose()?;
        for container in pod.spec.init_containers.iter().chain(&pod.spec.containers) {
            let near = match (self.policy, whole) {
                (TopologyPolicy::None, _) => TopologyHint {
                    nodes: None,
                    preferred: false,
                },
                (_, Some(whole)) => whole,
                (_, None) => self.merge(self.hints(pod, container, devices, &reuse))?,
            };
            {
                let mut held = self.given();
                if let Some(cpus) = &mut held.cpus {
                    cpus.allocate(pod, container, near.nodes, &mut reuse)?;
                }
                if let Some(memories) = &mut held.memories {
                    memories.allocate(pod, container, near, &mut reuse)?;
                }
            }
            let taken = devices.allocate(pod, container, near.nodes).await;
            taken.map_err(AdmissionFailure::unexpected)?;
        }
        Ok(())
    }

    fn merge(&self, said: Vec<ProviderHints>) -> Result<TopologyHint, AdmissionFailure> {
        let (hint, admits) = hints::merge(self.policy, self.nodes, self.closest.as_ref(), &said);
        admits
            .then_some(hint)
            .ok_or_else(AdmissionFailure::not_aligned)
    }

    fn hints(
        &self,
        pod: &Pod,
        container: &Container,
        devices: &DeviceManager,
        reuse: &ReusableResources,
    ) -> Vec<ProviderHints> {
        let held = self.given();
        let cpus = held.cpus.as_ref();
        let cpus = cpus.and_then(|cpus| cpus.places(pod, container, reuse));
        let memories = held.memories.as_ref();
        vec![
            devices.places(pod, container, self.nodes),
            cpus.map(|places| ("cpu".to_owned(), places))
                .into_iter()
                .collect(),
            memories.map_or_else(ProviderHints::new, |m| m.places(pod, container, reuse)),
        ]
    }

    fn pod_hints(&self, pod: &Pod, devices: &DeviceManager) -> Vec<ProviderHints> {
        let held = self.given();
        let cpus = held.cpus.as_ref().and_then(|cpus| cpus.pod_places(pod));
        let memories = held.memories.as_ref();
        vec![
            devices.pod_places(pod, self.nodes),
            cpus.map(|places| ("cpu".to_owned(), places))
                .into_iter()
                .collect(),
            memories.map_or_else(ProviderHints::new, |m| m.pod_places(pod)),
        ]
    }

    /// What a container is bound to.
    #[must_use]
    pub fn binding(&self, pod: &str, container: &str) -> ContainerBinding {
        let held = self.given();
        let own = held.cpus.as_ref().and_then(|c| c.own(pod, container));
        let shared = held.cpus.as_ref().map(CpuManager::shared);
        ContainerBinding {
            exclusive: own.is_some(),
            cpus: own.or(shared).filter(|cpus| !cpus.is_empty()).cloned(),
            nodes: held
                .memories
                .as_ref()
                .map_or_else(Vec::new, |m| m.nodes_of(pod, container)),
        }
    }

    /// Whether any container of the pod has CPUs of its own.
    #[must_use]
    pub fn is_exclusive(&self, pod: &str) -> bool {
        let held = self.given();
        held.cpus
            .as_ref()
            .is_some_and(|cpus| cpus.is_exclusive(pod))
    }

    /// Memory of a container's own, for monitors.
    #[must_use]
    pub fn blocks(&self, pod: &str, container: &str) -> Vec<MemoryBlock> {
        let held = self.given();
        let memories = held.memories.as_ref();
        memories.map_or_else(Vec::new, |m| m.blocks(pod, container).to_vec())
    }

    /// What can be given, for monitors: CPUs and memory.
    #[must_use]
    pub fn allocatable(&self) -> (CpuSet, Vec<MemoryBlock>) {
        let held = self.given();
        (
            held.cpus
                .as_ref()
                .map(CpuManager::allocatable)
                .unwrap_or_default(),
            held.memories
                .as_ref()
                .map_or_else(Vec::new, MemoryManager::allocatable),
        )
    }

    /// Why a pod that was granted one cannot get the other while it runs, if it
    /// cannot. What a pod has as a whole may change: nothing is given for that.
    #[must_use]
    pub fn forbids_resize(&self, granted: &PodSpec, wanted: &PodSpec) -> Option<String> {
        use node_agent_pod_resources::{qos, resize};
        let changes = |name: &str| {
            let asked = |c: &Container| {
                let all = &c.resources;
                let set = all.requests.get(name).or_else(|| all.limits.get(name));
                set.map(|text| qos::read(name, text))
            };
            resize::resizable(granted)
                .map(asked)
                .ne(resize::resizable(wanted).map(asked))
        };
        let refuses = |what: &str, policy: &str| {
            format!(
                "Resize is infeasible for Guaranteed Pods alongside {what} Manager policy \"{policy}\""
            )
        };
        if qos::class(wanted) != QosClass::Guaranteed {
            return None;
        }
        let held = self.given();
        if held.cpus.is_some() && changes("cpu") {
            return Some(refuses("CPU", "static"));
        }
        (held.memories.is_some() && changes("memory")).then(|| refuses("Memory", "Static"))
    }

    /// A container has started: what init containers before it had of memory
    /// is theirs no more.
    pub fn started(&self, pod: &Pod, container: &str) {
        let init = &pod.spec.init_containers;
        let released = {
            let mut held = self.given();
            let Some(memories) = &mut held.memories else {
                return;
            };
            let before = init.iter().take_while(|c| c.name != container);
            let through = before.filter(|c| !c.is_sidecar());
            let held = through.filter(|c| memories.release(pod.uid(), &c.name));
            held.count() > 0
        };
        if released {
            self.note();
        }
    }

    /// Takes back what pods have that are not to be kept.
    pub fn keep(&self, keeps: impl Fn(&str) -> bool) {
        let released = {
            let mut held = self.given();
            let cpus = held.cpus.as_mut().is_some_and(|c| c.keep(&keeps));
            held.memories.as_mut().is_some_and(|m| m.keep(&keeps)) || cpus
        };
        if released {
            self.note();
            self.changed.notify_one();
        }
    }

    fn note(&self) {
        if let Err(error) = self.save() {
            let error = error_chain(&error);
            tracing::warn!(error, "failed to write the checkpoint after a release");
        }
    }
}

/// The CPUs that are named as the system's, or how many are.
fn reserved_cpus(wish: &Alignment, settings: &Settings) -> Result<CpuSet, usize> {
    match &wish.reserved_cpus {
        Some(named) => Ok(named.clone()),
        None => {
            let milli = settings.reserved.get("cpu");
            let milli = milli.and_then(|text| node_agent_objects::quantity::milli(text));
            let whole = milli.and_then(|m| usize::try_from(m).ok()).unwrap_or(0);
            Err(whole.div_ceil(1000))
        }
    }
}

#[cfg(test)]
mod tests;
