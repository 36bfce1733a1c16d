//! The CPU manager's static policy: containers of Guaranteed pods that ask for
//! whole CPUs get CPUs of their own, all others share the rest. Pure. Source of
//! the rules: KEP-3570 and the documented policy options.
//!
//! ```text
//! all CPUs = shared (reserved ones among them) + each container's own
//! ```

mod state;

use std::collections::BTreeMap;

pub use node_agent_kubelet_config::CpuPolicyOptions;
use node_agent_objects::pod::{Container, Pod, QosClass};
use node_agent_pod_resources::cpuset::{CpuSet, InvalidCpuList};
use node_agent_pod_resources::qos;

use super::assign::{self, CpuOrder, NotEnoughCpus, nodes_of};
use super::checkpoint::{FormatError, open, seal};
use super::hints::{NumaMask, TopologyHint, TopologyHints};
use super::topology::MachineTopology;
use super::{AdmissionFailure, ReusableResources, requests};
use state::CpuState;

/// Why the static policy cannot be used on a machine, or as it is configured.
#[derive(Debug, thiserror::Error)]
pub enum CpuPolicyError {
    /// Sockets share NUMA nodes.
    #[error("align-by-socket needs as many NUMA nodes as sockets, or more")]
    AlignBySocket,
    /// CPUs are reserved that the machine does not have.
    #[error("reservedSystemCPUs `{reserved}` are not all among the CPUs {all}")]
    Reserved {
        /// The reserved CPUs.
        reserved: CpuSet,
        /// The machine's CPUs.
        all: CpuSet,
    },
    /// More CPUs are reserved than there are.
    #[error(transparent)]
    NotEnough(#[from] NotEnoughCpus),
    /// No CPU is reserved.
    #[error(
        "the static policy of the CPU manager needs a reservation: set reservedSystemCPUs, or cpu of systemReserved or kubeReserved"
    )]
    NoReservation,
}

/// Why a checkpoint of the CPU manager does not fit the machine, in the kubelet's words.
#[derive(Debug, thiserror::Error)]
pub enum CpuRestoreError {
    /// It is no state of the policy.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A set of CPUs is none.
    #[error(transparent)]
    CpuList(#[from] InvalidCpuList),
    /// No CPUs are left to be shared.
    #[error("default cpuset cannot be empty")]
    NoShared,
    /// Strictly reserved CPUs are shared.
    #[error(
        "some of strictly reserved cpus: \"{reserved}\" are present in defaultCpuSet: \"{shared}\""
    )]
    ReservedShared {
        /// The reserved CPUs that are shared.
        reserved: CpuSet,
        /// The shared CPUs.
        shared: CpuSet,
    },
    /// Reserved CPUs are not shared.
    #[error("not all reserved cpus: \"{reserved}\" are present in defaultCpuSet: \"{shared}\"")]
    ReservedMissing {
        /// The reserved CPUs.
        reserved: CpuSet,
        /// The shared CPUs.
        shared: CpuSet,
    },
    /// CPUs of a container are shared.
    #[error(
        "pod: {pod}, container: {container} cpuset: \"{cpus}\" overlaps with default cpuset \"{shared}\""
    )]
    Overlap {
        /// The pod's uid.
        pod: String,
        /// The container.
        container: String,
        /// The container's CPUs.
        cpus: CpuSet,
        /// The shared CPUs.
        shared: CpuSet,
    },
    /// The machine has other CPUs.
    #[error(
        "current set of available CPUs \"{available}\" doesn't match with CPUs in state \"{known}\""
    )]
    Available {
        /// The machine's CPUs.
        available: CpuSet,
        /// The CPUs of the state.
        known: CpuSet,
    },
}

/// Exclusive CPUs by pod uid and container name.
type CpuAssignments = BTreeMap<String, BTreeMap<String, CpuSet>>;

/// The CPU manager: assigns exclusive CPUs to containers.
#[derive(Clone, Debug, PartialEq)]
pub struct CpuManager {
    topology: MachineTopology,
    options: CpuPolicyOptions,
    reserved: CpuSet,
    /// The reserved ones with the threads beside them.
    reserved_cores: CpuSet,
    shared: CpuSet,
    assigned: CpuAssignments,
}

impl CpuManager {
    /// Of a machine with so many CPUs reserved, or those named.
    ///
    /// # Errors
    /// Why the policy cannot be used.
    pub fn new(
        topology: MachineTopology,
        options: CpuPolicyOptions,
        reserved: Result<CpuSet, usize>,
    ) -> Result<Self, CpuPolicyError> {
        if options.by_socket && topology.count(|p| p.socket) > topology.count(|p| p.numa) {
            return Err(CpuPolicyError::AlignBySocket);
        }
        let all = topology.all();
        let mut new = Self {
            topology,
            options,
            reserved: CpuSet::default(),
            reserved_cores: CpuSet::default(),
            shared: all.clone(),
            assigned: CpuAssignments::new(),
        };
        let reserved = match reserved {
            Ok(named) if named.is_subset(&all) => named,
            Ok(reserved) => return Err(CpuPolicyError::Reserved { reserved, all }),
            Err(count) => new.take(&all, count)?,
        };
        if reserved.is_empty() {
            return Err(CpuPolicyError::NoReservation);
        }
        let of = |cpu| new.topology.cpus.get(&cpu).map(|place| place.core);
        let cores: Vec<u32> = reserved.iter().filter_map(of).collect();
        new.reserved_cores = new.topology.select(|place| cores.contains(&place.core));
        new.reserved = reserved;
        new.shared = new.pool();
        Ok(new)
    }

    /// What is shared while nothing is assigned.
    fn pool(&self) -> CpuSet {
        let all = self.topology.all();
        if self.options.strict_reservation {
            all.difference(&self.reserved)
        } else {
            all
        }
    }

    /// The CPUs that are nobody's own.
    #[must_use]
    pub fn shared(&self) -> &CpuSet {
        &self.shared
    }

    /// The CPUs that can be somebody's own.
    #[must_use]
    pub fn allocatable(&self) -> CpuSet {
        self.topology.all().difference(&self.reserved)
    }

    /// The CPUs of a container's own.
    #[must_use]
    pub fn own(&self, pod: &str, container: &str) -> Option<&CpuSet> {
        self.assigned.get(pod)?.get(container)
    }

    /// Whether any container of the pod has CPUs of its own.
    #[must_use]
    pub fn is_exclusive(&self, pod: &str) -> bool {
        self.assigned.contains_key(pod)
    }

    fn free(&self) -> CpuSet {
        self.shared.difference(&self.reserved)
    }

    fn take(&self, free: &CpuSet, count: usize) -> Result<CpuSet, NotEnoughCpus> {
        let order = CpuOrder {
            spread: self.options.across_cores,
            caches: self.options.by_cache,
        };
        if self.options.across_nodes {
            let group = if self.options.full_cores_only {
                self.topology.per_core()
            } else {
                1
            };
            return assign::distributed(&self.topology, free, count, group, order);
        }
        assign::packed(&self.topology, free, count, order)
    }

    /// Where a container's CPUs could be; none where it gets none of its own.
    #[must_use]
    pub fn places(
        &self,
        pod: &Pod,
        container: &Container,
        reuse: &ReusableResources,
    ) -> Option<TopologyHints> {
        let wanted = exclusive(pod, container);
        if wanted == 0 {
            return None;
        }
        let found = match self.own(pod.uid(), &container.name) {
            Some(own) if own.len() == wanted => self.hints(own, &CpuSet::default(), wanted),
            Some(_) => Vec::new(),
            None => self.hints(&self.free(), &reuse.cpus, wanted),
        };
        Some(Some(found))
    }

    /// The same for all of a pod together.
    #[must_use]
    pub fn pod_places(&self, pod: &Pod) -> Option<TopologyHints> {
        let wanted = requests::of_pod(pod, |c| exclusive(pod, c) as u64);
        let wanted = usize::try_from(wanted).unwrap_or(usize::MAX);
        if wanted == 0 {
            return None;
        }
        let mut own = CpuSet::default();
        for container in pod.spec.init_containers.iter().chain(&pod.spec.containers) {
            if let Some(cpus) = self.own(pod.uid(), &container.name) {
                if cpus.len() != exclusive(pod, container) {
                    return Some(Some(Vec::new()));
                }
                own = own.union(cpus);
            }
        }
        Some(Some(if own.len() == wanted {
            self.hints(&own, &CpuSet::default(), wanted)
        } else {
            self.hints(&self.free(), &own, wanted)
        }))
    }

    /// The sets of nodes that have as many; those are preferred that are as
    /// small as the machine allows.
    fn hints(&self, free: &CpuSet, reusable: &CpuSet, wanted: usize) -> Vec<TopologyHint> {
        let nodes: NumaMask = self.topology.cpus.values().map(|p| p.numa).collect();
        let mut least = nodes.count();
        let mut found = Vec::new();
        for mask in nodes.subsets() {
            let inside = self.topology.in_nodes(mask);
            if inside.len() >= wanted {
                least = least.min(mask.count());
            }
            let has = reusable.len() + free.intersection(&inside).len();
            if reusable.is_subset(&inside) && has >= wanted {
                found.push(mask);
            }
        }
        let hint = |nodes: NumaMask| TopologyHint {
            nodes: Some(nodes),
            preferred: nodes.count() == least
                || self.options.by_socket && self.is_on_least_sockets(nodes, least),
        };
        found.into_iter().map(hint).collect()
    }

    fn sockets(&self, nodes: NumaMask) -> Vec<u32> {
        let places = self.topology.cpus.values();
        let mut all: Vec<u32> = places
            .filter(|place| nodes.contains(place.numa))
            .map(|place| place.socket)
            .collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    fn is_on_least_sockets(&self, nodes: NumaMask, least: u32) -> bool {
        let all = self.topology.count(|p| p.numa) / self.topology.count(|p| p.socket).max(1);
        all > 0 && self.sockets(nodes).len() == (least as usize).div_ceil(all)
    }

    /// Gives a container the CPUs of its own that it asks for, as far as
    /// possible on the nodes `near`.
    ///
    /// # Errors
    /// Why it cannot have them.
    pub fn allocate(
        &mut self,
        pod: &Pod,
        container: &Container,
        near: Option<NumaMask>,
        reuse: &mut ReusableResources,
    ) -> Result<(), AdmissionFailure> {
        let wanted = exclusive(pod, container);
        if wanted == 0 {
            return Ok(());
        }
        self.check_cores(wanted)?;
        if let Some(own) = self.own(pod.uid(), &container.name) {
            reuse.note_cpus(pod, container, &own.clone());
            return Ok(());
        }
        let free = self.free().union(&reuse.cpus);
        let mut taken = CpuSet::default();
        if let Some(near) = near {
            let inside = if self.options.by_socket {
                let sockets = self.sockets(near);
                self.topology.select(|p| sockets.contains(&p.socket))
            } else {
                self.topology.in_nodes(near)
            };
            let aligned = free.intersection(&inside);
            taken = self.take(&aligned, wanted.min(aligned.len()))?;
        }
        let rest = self.take(&free.difference(&taken), wanted - taken.len())?;
        let own = taken.union(&rest);
        self.shared = self.shared.difference(&own);
        reuse.note_cpus(pod, container, &own);
        tracing::info!(
            pod = pod.name(),
            container = container.name,
            cpus = %own,
            nodes = ?nodes_of(&self.topology, &own),
            "assigned exclusive CPUs"
        );
        let of_pod = self.assigned.entry(pod.uid().to_owned()).or_default();
        of_pod.insert(container.name.clone(), own);
        Ok(())
    }

    fn check_cores(&self, wanted: usize) -> Result<(), AdmissionFailure> {
        if !self.options.full_cores_only {
            return Ok(());
        }
        let per_core = self.topology.per_core();
        let message = if wanted.is_multiple_of(per_core) {
            let free = self.shared.difference(&self.reserved_cores).len();
            if wanted <= free {
                return Ok(());
            }
            format!(
                "SMT Alignment Error: not enough free physical CPUs: available physical CPUs = {free}, requested CPUs = {wanted}, CPUs per core = {per_core}"
            )
        } else {
            format!(
                "SMT Alignment Error: requested {wanted} cpus not multiple cpus per core = {per_core}"
            )
        };
        Err(AdmissionFailure {
            reason: "SMTAlignmentError",
            message,
        })
    }

    /// Takes back what pods have that are not to be kept; whether there was any.
    pub fn keep(&mut self, keeps: impl Fn(&str) -> bool) -> bool {
        let before = self.assigned.len();
        self.assigned.retain(|pod, _| keeps(pod));
        let held = self.assigned.values().flat_map(BTreeMap::values);
        let held = held.fold(CpuSet::default(), |all, own| all.union(own));
        self.shared = self.pool().difference(&held);
        before != self.assigned.len()
    }

    /// As the kubelet's checkpoint (`cpu_manager_state`).
    #[must_use]
    pub fn save(&self) -> String {
        let texts = |own: &BTreeMap<String, CpuSet>| -> BTreeMap<String, String> {
            own.iter()
                .map(|(c, s)| (c.clone(), s.to_string()))
                .collect()
        };
        let entries = self.assigned.iter();
        seal(CpuState {
            policy_name: "static".to_owned(),
            default_cpu_set: self.shared.to_string(),
            entries: entries
                .map(|(pod, own)| (pod.clone(), texts(own)))
                .collect(),
            checksum: 0,
        })
    }

    /// Goes on with what a checkpoint says.
    ///
    /// # Errors
    /// Why it cannot be gone on with.
    pub fn restore(&mut self, text: &str) -> Result<(), CpuRestoreError> {
        let state: CpuState = open(text, "static")?;
        let set = |text: &str| text.parse::<CpuSet>();
        let shared = set(&state.default_cpu_set)?;
        let mut assigned = CpuAssignments::new();
        for (pod, own) in &state.entries {
            let of_pod = assigned.entry(pod.clone()).or_default();
            for (container, cpus) in own {
                of_pod.insert(container.clone(), set(cpus)?);
            }
        }
        // what is strictly reserved is not shared either: nothing may be left
        let all_given = self.options.strict_reservation && !assigned.is_empty();
        if shared.is_empty() && !all_given {
            return if assigned.is_empty() {
                Ok(())
            } else {
                Err(CpuRestoreError::NoShared)
            };
        }
        let reserved = self.reserved.intersection(&shared);
        if self.options.strict_reservation && !reserved.is_empty() {
            return Err(CpuRestoreError::ReservedShared { reserved, shared });
        }
        if !self.options.strict_reservation && reserved != self.reserved {
            return Err(CpuRestoreError::ReservedMissing {
                reserved: self.reserved.clone(),
                shared,
            });
        }
        let mut known = shared.clone();
        for (pod, own) in &assigned {
            for (container, cpus) in own {
                if !shared.is_disjoint(cpus) {
                    return Err(CpuRestoreError::Overlap {
                        pod: pod.clone(),
                        container: container.clone(),
                        cpus: cpus.clone(),
                        shared,
                    });
                }
                known = known.union(cpus);
            }
        }
        if known != self.pool() {
            return Err(CpuRestoreError::Available {
                available: self.pool(),
                known,
            });
        }
        self.shared = shared;
        self.assigned = assigned;
        Ok(())
    }
}

impl From<NotEnoughCpus> for AdmissionFailure {
    fn from(error: NotEnoughCpus) -> Self {
        Self::unexpected(error)
    }
}

/// How many CPUs of its own a container gets.
#[must_use]
pub fn exclusive(pod: &Pod, container: &Container) -> usize {
    if pod.spec.has_own_resources() || qos::class(&pod.spec) != QosClass::Guaranteed {
        return 0;
    }
    let resources = &container.resources;
    let milli = qos::cpu(&resources.requests).or_else(|| qos::cpu(&resources.limits));
    let whole = milli.filter(|milli| milli % 1000 == 0).unwrap_or(0) / 1000;
    usize::try_from(whole).unwrap_or(0)
}

/// The checkpoint where no CPUs are anybody's own.
#[must_use]
pub fn save_none() -> String {
    seal(CpuState {
        policy_name: "none".to_owned(),
        ..CpuState::default()
    })
}

/// Whether a checkpoint is of a node where no CPUs are anybody's own.
///
/// # Errors
/// That it is of another.
pub fn check_none(text: &str) -> Result<(), CpuRestoreError> {
    open::<CpuState>(text, "none")?;
    Ok(())
}

#[cfg(test)]
mod tests;
