//! Lean views of pods, nodes and the objects that group pods.
//!
//! A pod's spec is reduced while it is parsed to its [`Shape`]: the parts that decide
//! where it may and should run. Pods of one workload have equal shapes, and equal shapes
//! share one allocation, so that 50 000 pods cost little more than their names, and equal
//! pods are recognised by pointer.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use compact_str::CompactString;
use control_client::{Meta, Resource, StringMap, View, resources};
use control_devices::ContainerRequests;
use control_types::taints::{TaintRef, TolerationRef};
use rustc_hash::FxHashSet;
use serde::Deserialize;

use crate::selector::{LabelSelector, NodeTerm};

mod devices;
mod disks;
mod keys;
mod null;
mod pod_group;
mod storage;
mod wire;

pub use disks::PodDisk;
pub use keys::{ClaimKey, GangKey, PodKey};
pub use storage::{
    ClaimRef, CsiDriver, CsiDriverSpec, CsiNode, CsiStorageCapacity, PersistentVolume,
    PersistentVolumeClaim, StorageClass, TopologyLabel, TopologyTerm, VolumeAttachment,
    VolumeSource,
};

pub use pod_group::{GroupCondition, PodGroup};

pub use devices::{Consumer, DeviceClass, ResourceClaim, ResourceClaimStatus, ResourceSlice};

/// The view of a pod.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "wire::RawPod")]
pub struct Pod {
    /// The object's metadata, without annotations.
    pub metadata: Meta,
    /// The node that it is bound to; empty while it is not.
    pub node_name: CompactString,
    /// The scheduler that is to place it.
    pub scheduler_name: CompactString,
    /// Higher goes first.
    pub priority: i32,
    /// Whether it may preempt others.
    pub preempts: bool,
    /// Whether it is not to be placed yet (scheduling gates).
    pub gated: bool,
    /// Whether its containers have terminated, so that it uses no resources.
    pub finished: bool,
    /// The PodGroup of its namespace with whose pods it is scheduled.
    pub pod_group: Option<CompactString>,
    /// The node that is being emptied for it; empty if none.
    pub nominated_node: CompactString,
    /// When the node took it on, if it did.
    pub started: Option<jiff::Timestamp>,
    /// Whether a scheduler had it evicted for a more important pod.
    pub preempted: bool,
    /// The condition `PodScheduled`, if it has one.
    pub scheduled: Option<Box<ScheduledCondition>>,
    /// The parts of its spec that decide its placement.
    pub shape: Arc<Shape>,
    /// The claims that it needs.
    pub claims: Box<[PodClaim]>,
    /// Volumes that name their storage directly.
    pub disks: Box<[PodDisk]>,
    /// The requests of its containers, if devices may satisfy some of them.
    pub containers: Box<[ContainerRequests]>,
}

/// A claim that a pod needs.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PodClaim {
    /// A claim to a volume.
    Volume {
        /// Its name.
        name: CompactString,
        /// Whether a controller makes it for the pod.
        ephemeral: bool,
    },
    /// A claim to devices.
    Device {
        /// Its name.
        name: CompactString,
        /// Whether a controller made it for the pod.
        from_template: bool,
    },
    /// A claim to devices that a controller has not made yet.
    DeviceToBeMade,
}

/// The condition `PodScheduled` of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ScheduledCondition {
    /// `True` or `False`.
    pub status: CompactString,
    /// One word.
    pub reason: CompactString,
    /// A sentence.
    pub message: String,
}

/// The parts of a spec that decide where pods may and should run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape {
    /// The resource requests.
    pub requests: Requests,
    /// Labels that the node must have.
    pub node_selector: Box<[(CompactString, CompactString)]>,
    /// Required node affinity: one of the terms must match. `None`: none
    /// required; an empty list matches no node.
    pub required_nodes: Option<Box<[NodeTerm]>>,
    /// Preferred node affinity, with weights.
    pub preferred_nodes: Box<[(i32, NodeTerm)]>,
    /// Taints that it tolerates.
    pub tolerations: Box<[Toleration]>,
    /// Ports of the host that it uses.
    pub ports: Box<[HostPort]>,
    /// How pods like it are to be spread.
    pub spread: Box<[Spread]>,
    /// Pods near which it must run.
    pub affinity: Box<[PodTerm]>,
    /// Pods near which it must not run.
    pub anti_affinity: Box<[PodTerm]>,
    /// Pods near which it should run (negative weight: should not).
    pub preferred_pods: Box<[(i32, PodTerm)]>,
    /// Images of its containers, and those that it mounts, normalised.
    pub images: Box<[CompactString]>,
    /// How many containers there are, init containers included.
    pub containers: u32,
    /// Features that the node must declare.
    pub required_features: Box<[CompactString]>,
}

/// The resources that a pod needs of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Requests {
    /// Thousandths of a CPU.
    pub cpu: i64,
    /// Bytes.
    pub memory: i64,
    /// Bytes.
    pub storage: i64,
    /// As `cpu`, with 100 m for each container that asks for none: for scores.
    pub cpu_nonzero: i64,
    /// As `memory`, with 200 MiB for each container that asks for none.
    pub memory_nonzero: i64,
    /// As `cpu_nonzero`, without pod-level requests: upstream's NodeResourcesFit scores
    /// nodes for a new pod by its containers alone.
    pub cpu_scored: i64,
    /// As `memory_nonzero`, likewise.
    pub memory_scored: i64,
    /// All other resources, sorted by name.
    pub extended: Box<[(CompactString, i64)]>,
}

/// A toleration of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct Toleration {
    /// Empty: any key.
    pub key: CompactString,
    /// `Equal` (also when empty), `Exists`.
    pub operator: CompactString,
    /// The value for `Equal`.
    pub value: CompactString,
    /// Empty: any effect.
    pub effect: CompactString,
}

/// A taint of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(default)]
pub struct Taint {
    /// Its key.
    pub key: CompactString,
    /// Its value.
    pub value: CompactString,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: CompactString,
}

/// A port of the host.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HostPort {
    /// `0.0.0.0` for all addresses.
    pub address: CompactString,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: CompactString,
    /// Its number.
    pub port: u16,
}

/// A topology spread constraint.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spread {
    /// The maximum excess of a domain over the smallest.
    pub max_skew: i32,
    /// The node label whose values are the domains.
    pub topology_key: CompactString,
    /// Whether placement fails otherwise (`DoNotSchedule`).
    pub hard: bool,
    /// Fewer domains than this count as one more, empty.
    pub min_domains: i32,
    /// Pods that count.
    pub selector: LabelSelector,
    /// Labels of the pod itself that are added to the selector.
    pub match_label_keys: Box<[CompactString]>,
    /// Whether nodes that the pod's affinity excludes are left out.
    pub honour_affinity: bool,
    /// Whether nodes whose taints the pod does not tolerate are left out.
    pub honour_taints: bool,
}

/// A pod affinity term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodTerm {
    /// Pods that it is about.
    pub selector: LabelSelector,
    /// The node label whose equal values are "near".
    pub topology_key: CompactString,
    /// Namespaces of those pods; with no selector either, the pod's own.
    pub namespaces: Box<[CompactString]>,
    /// Namespaces by their labels.
    pub namespace_selector: Option<LabelSelector>,
    /// Labels of the pod that the others must have as well.
    pub match_label_keys: Box<[CompactString]>,
    /// Labels of the pod in which the others must differ.
    pub mismatch_label_keys: Box<[CompactString]>,
}

/// The view of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "wire::RawNode")]
pub struct Node {
    /// The object's metadata, without annotations.
    pub metadata: Meta,
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// Its taints.
    pub taints: Box<[Taint]>,
    /// The allocatable resources.
    pub allocatable: Allocatable,
    /// Features that it declares.
    pub features: Box<[CompactString]>,
    /// Images on it, by each of their names, with their sizes in bytes.
    pub images: Box<[(CompactString, i64)]>,
}

/// The allocatable resources of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allocatable {
    /// Thousandths of a CPU.
    pub cpu: i64,
    /// Bytes.
    pub memory: i64,
    /// Bytes.
    pub storage: i64,
    /// How many pods.
    pub pods: i64,
    /// All other resources.
    pub extended: Box<[(CompactString, i64)]>,
}

/// The view of a service: which pods it selects.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Service {
    /// The object's metadata.
    pub metadata: Meta,
    /// Its spec.
    #[serde(default)]
    pub spec: ServiceSpec,
}

/// Spec of a [`Service`] or a [`ReplicationController`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ServiceSpec {
    /// Labels of the pods; absent: none.
    pub selector: Option<StringMap>,
}

/// The view of a replication controller: which pods are its.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ReplicationController {
    /// The object's metadata.
    pub metadata: Meta,
    /// Its spec.
    #[serde(default)]
    pub spec: ServiceSpec,
}

/// The view of a replica set: which pods are its.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct ReplicaSet {
    /// The object's metadata.
    pub metadata: Meta,
    /// Its spec.
    #[serde(default)]
    pub spec: SetSpec,
}

/// The view of a stateful set: which pods are its.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct StatefulSet {
    /// The object's metadata.
    pub metadata: Meta,
    /// Its spec.
    #[serde(default)]
    pub spec: SetSpec,
}

/// Spec of a [`ReplicaSet`] or a [`StatefulSet`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct SetSpec {
    /// Pods that are its.
    pub selector: LabelSelector,
}

/// The view of a budget of disruptions.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodDisruptionBudget {
    /// The object's metadata.
    pub metadata: Meta,
    /// Its spec.
    pub spec: PodDisruptionBudgetSpec,
    /// Its status.
    #[serde(deserialize_with = "null::or_default")]
    pub status: PodDisruptionBudgetStatus,
}

/// Spec of a [`PodDisruptionBudget`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodDisruptionBudgetSpec {
    /// Pods that it protects.
    pub selector: Option<LabelSelector>,
}

/// Status of a [`PodDisruptionBudget`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodDisruptionBudgetStatus {
    /// How many more pods may be evicted.
    pub disruptions_allowed: i64,
    /// Names of pods whose eviction is accounted for already.
    #[serde(deserialize_with = "null::or_default")]
    pub disrupted_pods: StringMap,
}

/// The view of a namespace: its labels.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Namespace {
    /// The object's metadata.
    pub metadata: Meta,
}

macro_rules! view {
    ($($view:ident = $resource:ident),* $(,)?) => {
        $(impl View for $view {
            const RESOURCE: Resource = resources::$resource;

            fn meta(&self) -> &Meta {
                &self.metadata
            }
        })*
    };
}

view! {
    Pod = PODS,
    Node = NODES,
    Service = SERVICES,
    ReplicationController = REPLICATION_CONTROLLERS,
    ReplicaSet = REPLICA_SETS,
    StatefulSet = STATEFUL_SETS,
    PodDisruptionBudget = POD_DISRUPTION_BUDGETS,
    PodGroup = POD_GROUPS,
    Namespace = NAMESPACES,
}

// === impl Pod ===

impl Pod {
    /// Its namespace and name.
    #[must_use]
    pub fn key(&self) -> PodKey {
        (self.metadata.namespace.clone(), self.metadata.name.clone())
    }

    /// Namespace and name of its PodGroup.
    #[must_use]
    pub fn gang(&self) -> Option<GangKey> {
        let group = self.pod_group.clone()?;
        Some((self.metadata.namespace.clone(), group))
    }

    /// Whether it has claims, or names storage or devices in another way.
    #[must_use]
    pub const fn needs_volumes_or_devices(&self) -> bool {
        // All fields are named, so that a new kind of need is not forgotten here.
        let Self {
            metadata: _,
            node_name: _,
            scheduler_name: _,
            priority: _,
            preempts: _,
            gated: _,
            pod_group: _,
            finished: _,
            nominated_node: _,
            started: _,
            preempted: _,
            scheduled: _,
            shape: _,
            claims,
            disks,
            // which devices satisfy them does not depend on other pods
            containers: _,
        } = self;
        !claims.is_empty() || !disks.is_empty()
    }

    /// Whether it has other tolerations than before. The API lets tolerations be added only.
    #[must_use]
    pub fn has_other_tolerations(&self, before: &Self) -> bool {
        self.shape.tolerations.len() != before.shape.tolerations.len()
    }

    /// Whether it requests less of something than before.
    #[must_use]
    pub fn requests_less_than(&self, before: &Self) -> bool {
        let (is, was) = (&self.shape.requests, &before.shape.requests);
        was.iter().any(|(name, value)| is.get(name) < value)
    }
}

// === impl Shape ===

/// All shapes that are in use. Weak in effect: see [`Shape::shared`].
static SHAPES: LazyLock<Mutex<Shapes>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Shapes {
    known: FxHashSet<Arc<Shape>>,
    /// The number of entries at which unused ones are dropped.
    sweep_at: usize,
}

impl Shape {
    /// The one allocation of shapes equal to this.
    #[must_use]
    pub fn shared(self) -> Arc<Self> {
        let mut shapes = SHAPES.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = shapes.known.get(&self) {
            return Arc::clone(known);
        }
        if shapes.known.len() >= shapes.sweep_at.max(256) {
            shapes.known.retain(|shape| Arc::strong_count(shape) > 1);
            shapes.sweep_at = shapes.known.len() * 2;
        }
        let shape = Arc::new(self);
        shapes.known.insert(Arc::clone(&shape));
        shape
    }
}

// === impl Spread ===

impl Spread {
    /// Reads a constraint of `core/v1`.
    ///
    /// # Errors
    /// It is none.
    pub fn read(constraint: serde_json::Value) -> Result<Self, serde_json::Error> {
        wire::read_spread(constraint)
    }
}

// === impl Requests ===

impl Requests {
    /// How much of a resource is requested: thousandths of CPUs, bytes, or pieces.
    #[must_use]
    pub fn get(&self, name: &str) -> i64 {
        match name {
            "cpu" => self.cpu,
            "memory" => self.memory,
            "ephemeral-storage" => self.storage,
            _ => {
                let mut extended = self.extended.iter();
                let found = extended.find(|(known, _)| known == name);
                found.map_or(0, |(_, value)| *value)
            }
        }
    }

    /// All resources, with how much of each is requested.
    pub fn iter(&self) -> impl Iterator<Item = (&str, i64)> {
        let usual = [
            ("cpu", self.cpu),
            ("memory", self.memory),
            ("ephemeral-storage", self.storage),
        ];
        let extended = self.extended.iter();
        let extended = extended.map(|(name, value)| (name.as_str(), *value));
        usual.into_iter().chain(extended)
    }
}

// === impl Allocatable ===

impl Allocatable {
    /// How much of a resource there is, in the units of [`Requests::get`].
    #[must_use]
    pub fn get(&self, name: &str) -> i64 {
        match name {
            "cpu" => self.cpu,
            "memory" => self.memory,
            "ephemeral-storage" => self.storage,
            _ => {
                let mut extended = self.extended.iter();
                let found = extended.find(|(known, _)| known == name);
                found.map_or(0, |(_, value)| *value)
            }
        }
    }
}

// === impl Toleration ===

impl Toleration {
    /// Whether a taint is tolerated (`core/v1` Toleration).
    #[must_use]
    pub fn tolerates(&self, taint: &Taint) -> bool {
        let toleration = TolerationRef {
            key: &self.key,
            operator: &self.operator,
            value: &self.value,
            effect: &self.effect,
        };
        toleration.tolerates(TaintRef {
            key: &taint.key,
            value: &taint.value,
            effect: &taint.effect,
        })
    }
}

// === impl HostPort ===

impl HostPort {
    /// Whether both cannot be used on one node.
    #[must_use]
    pub fn conflicts(&self, other: &Self) -> bool {
        const ANY: &str = "0.0.0.0";
        self.port == other.port
            && self.protocol == other.protocol
            && (self.address == other.address || self.address == ANY || other.address == ANY)
    }
}

#[cfg(test)]
mod tests;
