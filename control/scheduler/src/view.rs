//! What the scheduler reads of pods, nodes and the objects that group pods.
//!
//! A pod's spec is reduced while it is parsed to its [`Shape`]: what decides
//! where it may and should run. Pods of one workload have equal shapes, and
//! equal shapes are one allocation, so that 50 000 pods cost little more than
//! their names, and equal pods are recognised by pointer.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use compact_str::CompactString;
use control_client::{Meta, Resource, StringMap, View, resources};
use control_types::quantity::Quantity;
use rustc_hash::FxHashSet;
use serde::{Deserialize, Deserializer};

use crate::selector::{LabelSelector, NodeTerm};

/// The view of a pod.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "RawPod")]
pub struct Pod {
    /// The object's metadata, without annotations.
    pub metadata: Meta,
    /// The node that it is bound to; empty while it is not.
    pub node_name: CompactString,
    /// The scheduler that is to place it.
    pub scheduler_name: CompactString,
    /// Higher goes first.
    pub priority: i32,
    /// Whether others may be evicted for it.
    pub preempts: bool,
    /// Whether it is not to be placed yet (scheduling gates).
    pub gated: bool,
    /// Whether its containers ended for good, so that it uses nothing.
    pub finished: bool,
    /// The node that is being emptied for it; empty for none.
    pub nominated_node: CompactString,
    /// The condition `PodScheduled`, if it has one.
    pub scheduled: Option<Box<ScheduledCondition>>,
    /// What decides its placement.
    pub shape: Arc<Shape>,
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

/// What decides where pods may and should run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Shape {
    /// What it needs.
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
    /// Images of its containers, normalised.
    pub images: Box<[CompactString]>,
    /// How many containers there are, init containers included.
    pub containers: u32,
}

/// What a pod needs of a node.
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
    /// By how much a domain may exceed the smallest.
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
    /// Labels of the pod that the others must have, too.
    pub match_label_keys: Box<[CompactString]>,
    /// Labels of the pod in which the others must differ.
    pub mismatch_label_keys: Box<[CompactString]>,
}

/// The view of a node.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "RawNode")]
pub struct Node {
    /// The object's metadata, without annotations.
    pub metadata: Meta,
    /// Whether it is cordoned.
    pub unschedulable: bool,
    /// Its taints.
    pub taints: Box<[Taint]>,
    /// What it has for pods.
    pub allocatable: Allocatable,
    /// Images on it, by each of their names, with their sizes in bytes.
    pub images: Box<[(CompactString, i64)]>,
}

/// What a node has for pods.
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
    #[serde(deserialize_with = "or_default")]
    pub selector: StringMap,
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
    Namespace = NAMESPACES,
}

// === impl Shape ===

/// All shapes that are in use. Weak in effect: see [`Shape::shared`].
static SHAPES: LazyLock<Mutex<Shapes>> = LazyLock::new(Mutex::default);

#[derive(Default)]
struct Shapes {
    known: FxHashSet<Arc<Shape>>,
    /// Sweep out what nobody uses when there are this many.
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

    /// Whether its placement depends on where other pods are, beyond what
    /// they use.
    #[must_use]
    pub fn minds_pods(&self) -> bool {
        !self.affinity.is_empty()
            || !self.anti_affinity.is_empty()
            || !self.preferred_pods.is_empty()
    }
}

// === impl Toleration ===

impl Toleration {
    /// Whether a taint is tolerated (`core/v1` Toleration).
    #[must_use]
    pub fn tolerates(&self, taint: &Taint) -> bool {
        if !self.effect.is_empty() && self.effect != taint.effect {
            return false;
        }
        if !self.key.is_empty() && self.key != taint.key {
            return false;
        }
        match self.operator.as_str() {
            "" | "Equal" => self.value == taint.value,
            "Exists" => true,
            // `Lt` and `Gt` are behind a gate that is off by default
            _ => false,
        }
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

// === What the API server sends ===

#[derive(Deserialize)]
struct RawPod {
    metadata: Meta,
    #[serde(default)]
    spec: RawPodSpec,
    #[serde(default)]
    status: RawPodStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawPodSpec {
    node_name: CompactString,
    scheduler_name: CompactString,
    priority: Option<i32>,
    preemption_policy: CompactString,
    #[serde(deserialize_with = "or_default")]
    scheduling_gates: Vec<serde::de::IgnoredAny>,
    #[serde(deserialize_with = "or_default")]
    node_selector: StringMap,
    #[serde(deserialize_with = "or_default")]
    affinity: RawAffinity,
    #[serde(deserialize_with = "or_default")]
    tolerations: Vec<Toleration>,
    #[serde(deserialize_with = "or_default")]
    containers: Vec<RawContainer>,
    #[serde(deserialize_with = "or_default")]
    init_containers: Vec<RawContainer>,
    #[serde(deserialize_with = "or_default")]
    overhead: Quantities,
    #[serde(deserialize_with = "or_default")]
    resources: RawResources,
    #[serde(deserialize_with = "or_default")]
    topology_spread_constraints: Vec<RawSpread>,
    host_network: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawPodStatus {
    phase: CompactString,
    nominated_node_name: CompactString,
    #[serde(deserialize_with = "or_default")]
    conditions: Vec<RawCondition>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawCondition {
    r#type: CompactString,
    #[serde(flatten)]
    rest: ScheduledCondition,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawContainer {
    image: CompactString,
    restart_policy: CompactString,
    #[serde(deserialize_with = "or_default")]
    ports: Vec<RawPort>,
    #[serde(deserialize_with = "or_default")]
    resources: RawResources,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawPort {
    container_port: i32,
    host_port: i32,
    #[serde(rename = "hostIP")]
    host_ip: CompactString,
    protocol: CompactString,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawResources {
    #[serde(deserialize_with = "or_default")]
    requests: Quantities,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawAffinity {
    #[serde(deserialize_with = "or_default")]
    node_affinity: RawNodeAffinity,
    #[serde(deserialize_with = "or_default")]
    pod_affinity: RawPodAffinity,
    #[serde(deserialize_with = "or_default")]
    pod_anti_affinity: RawPodAffinity,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawNodeAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<RawNodeSelector>,
    #[serde(
        rename = "preferredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "or_default"
    )]
    preferred: Vec<RawPreferredNode>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawNodeSelector {
    #[serde(deserialize_with = "or_default")]
    node_selector_terms: Vec<NodeTerm>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawPreferredNode {
    weight: i32,
    preference: NodeTerm,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawPodAffinity {
    #[serde(
        rename = "requiredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "or_default"
    )]
    required: Vec<RawPodTerm>,
    #[serde(
        rename = "preferredDuringSchedulingIgnoredDuringExecution",
        deserialize_with = "or_default"
    )]
    preferred: Vec<RawPreferredPod>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawPreferredPod {
    weight: i32,
    pod_affinity_term: RawPodTerm,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawPodTerm {
    label_selector: Option<LabelSelector>,
    topology_key: CompactString,
    #[serde(deserialize_with = "or_default")]
    namespaces: Vec<CompactString>,
    namespace_selector: Option<LabelSelector>,
    #[serde(deserialize_with = "or_default")]
    match_label_keys: Vec<CompactString>,
    #[serde(deserialize_with = "or_default")]
    mismatch_label_keys: Vec<CompactString>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawSpread {
    max_skew: i32,
    topology_key: CompactString,
    when_unsatisfiable: CompactString,
    min_domains: Option<i32>,
    label_selector: Option<LabelSelector>,
    #[serde(deserialize_with = "or_default")]
    match_label_keys: Vec<CompactString>,
    node_affinity_policy: Option<CompactString>,
    node_taints_policy: Option<CompactString>,
}

#[derive(Default, Deserialize)]
struct RawNode {
    metadata: Meta,
    #[serde(default)]
    spec: RawNodeSpec,
    #[serde(default)]
    status: RawNodeStatus,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawNodeSpec {
    unschedulable: bool,
    #[serde(deserialize_with = "or_default")]
    taints: Vec<Taint>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawNodeStatus {
    #[serde(deserialize_with = "or_default")]
    allocatable: Quantities,
    #[serde(deserialize_with = "or_default")]
    images: Vec<RawImage>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawImage {
    #[serde(deserialize_with = "or_default")]
    names: Vec<CompactString>,
    size_bytes: i64,
}

fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// Quantities by resource: thousandths for `cpu`, whole units otherwise.
#[derive(Clone, Default, Deserialize)]
#[serde(from = "StringOrNumberMap")]
struct Quantities(Vec<(CompactString, i64)>);

/// JSON allows quantities to be numbers.
#[derive(Deserialize)]
struct StringOrNumberMap(std::collections::BTreeMap<CompactString, StringOrNumber>);

#[derive(Deserialize)]
#[serde(untagged)]
enum StringOrNumber {
    String(CompactString),
    Number(serde_json::Number),
}

impl From<StringOrNumberMap> for Quantities {
    fn from(map: StringOrNumberMap) -> Self {
        let quantity = |name: &str, text: &str| {
            // the API server accepts no other; what is none counts as zero
            let quantity = Quantity::parse(text).unwrap_or(Quantity::ZERO);
            if name == "cpu" {
                quantity.milli_value()
            } else {
                quantity.value()
            }
        };
        Self(
            map.0
                .into_iter()
                .map(|(name, value)| {
                    let number = match value {
                        StringOrNumber::String(text) => quantity(&name, &text),
                        StringOrNumber::Number(number) => quantity(&name, &number.to_string()),
                    };
                    (name, number)
                })
                .collect(),
        )
    }
}

impl Quantities {
    fn get(&self, name: &str) -> Option<i64> {
        self.0
            .iter()
            .find(|(candidate, _)| candidate == name)
            .map(|(_, value)| *value)
    }

    fn combine(&mut self, other: &Self, with: impl Fn(i64, i64) -> i64) {
        for (name, value) in &other.0 {
            match self.0.iter_mut().find(|(known, _)| known == name) {
                Some((_, known)) => *known = with(*known, *value),
                None => self.0.push((name.clone(), with(0, *value))),
            }
        }
    }

    fn add(&mut self, other: &Self) {
        self.combine(other, i64::saturating_add);
    }

    fn raise(&mut self, other: &Self) {
        self.combine(other, i64::max);
    }
}

// === From the raw to the lean ===

impl From<RawPod> for Pod {
    fn from(raw: RawPod) -> Self {
        let RawPod {
            metadata,
            spec,
            status,
        } = raw;
        let scheduled = status
            .conditions
            .into_iter()
            .find(|condition| condition.r#type == "PodScheduled")
            .map(|condition| Box::new(condition.rest));
        Self {
            metadata: lean(metadata),
            priority: spec.priority.unwrap_or(0),
            preempts: spec.preemption_policy != "Never",
            gated: !spec.scheduling_gates.is_empty(),
            finished: matches!(status.phase.as_str(), "Succeeded" | "Failed"),
            nominated_node: status.nominated_node_name,
            scheduled,
            node_name: spec.node_name.clone(),
            scheduler_name: spec.scheduler_name.clone(),
            shape: shape(spec).shared(),
        }
    }
}

impl From<RawNode> for Node {
    fn from(raw: RawNode) -> Self {
        let RawNode {
            metadata,
            spec,
            status,
        } = raw;
        let mut extended = Vec::new();
        let mut allocatable = Allocatable::default();
        for (name, value) in status.allocatable.0 {
            match name.as_str() {
                "cpu" => allocatable.cpu = value,
                "memory" => allocatable.memory = value,
                "ephemeral-storage" => allocatable.storage = value,
                "pods" => allocatable.pods = value,
                _ => extended.push((name, value)),
            }
        }
        allocatable.extended = extended.into();
        Self {
            metadata: lean(metadata),
            unschedulable: spec.unschedulable,
            taints: spec.taints.into(),
            allocatable,
            images: status
                .images
                .into_iter()
                .flat_map(|image| {
                    image
                        .names
                        .into_iter()
                        .map(move |name| (name, image.size_bytes))
                })
                .collect(),
        }
    }
}

fn lean(mut meta: Meta) -> Meta {
    meta.annotations = StringMap::default();
    meta.finalizers = Vec::new();
    meta
}

fn shape(spec: RawPodSpec) -> Shape {
    let requests = requests(&spec);
    let affinity = spec.affinity;
    let mut preferred_pods = Vec::new();
    for (sign, preferred) in [
        (1, affinity.pod_affinity.preferred),
        (-1, affinity.pod_anti_affinity.preferred),
    ] {
        for term in preferred {
            if term.weight != 0 {
                preferred_pods.push((sign * term.weight, pod_term(term.pod_affinity_term)));
            }
        }
    }
    // ports of init containers count only for sidecars
    let sidecars = spec
        .init_containers
        .iter()
        .filter(|container| container.restart_policy == "Always");
    let ports = spec
        .containers
        .iter()
        .chain(sidecars)
        .flat_map(|container| &container.ports)
        .filter_map(|port| host_port(port, spec.host_network))
        .collect();
    let images = spec
        .init_containers
        .iter()
        .chain(&spec.containers)
        .map(|container| normal_image(&container.image))
        .collect();
    let containers = spec.init_containers.len() + spec.containers.len();
    Shape {
        requests,
        node_selector: spec
            .node_selector
            .iter()
            .map(|(key, value)| (key.into(), value.into()))
            .collect(),
        required_nodes: affinity
            .node_affinity
            .required
            .map(|selector| selector.node_selector_terms.into()),
        preferred_nodes: affinity
            .node_affinity
            .preferred
            .into_iter()
            .filter(|preferred| preferred.weight != 0)
            .map(|preferred| (preferred.weight, preferred.preference))
            .collect(),
        tolerations: spec.tolerations.into(),
        ports,
        spread: spec
            .topology_spread_constraints
            .into_iter()
            .map(spread)
            .collect(),
        affinity: affinity
            .pod_affinity
            .required
            .into_iter()
            .map(pod_term)
            .collect(),
        anti_affinity: affinity
            .pod_anti_affinity
            .required
            .into_iter()
            .map(pod_term)
            .collect(),
        preferred_pods: preferred_pods.into(),
        images,
        containers: u32::try_from(containers).unwrap_or(u32::MAX),
    }
}

fn pod_term(raw: RawPodTerm) -> PodTerm {
    PodTerm {
        selector: raw.label_selector.unwrap_or_else(LabelSelector::nothing),
        topology_key: raw.topology_key,
        namespaces: raw.namespaces.into(),
        namespace_selector: raw.namespace_selector,
        match_label_keys: raw.match_label_keys.into(),
        mismatch_label_keys: raw.mismatch_label_keys.into(),
    }
}

fn spread(raw: RawSpread) -> Spread {
    Spread {
        max_skew: raw.max_skew,
        topology_key: raw.topology_key,
        hard: raw.when_unsatisfiable != "ScheduleAnyway",
        min_domains: raw.min_domains.unwrap_or(1),
        selector: raw.label_selector.unwrap_or_else(LabelSelector::nothing),
        match_label_keys: raw.match_label_keys.into(),
        honour_affinity: raw.node_affinity_policy.as_deref() != Some("Ignore"),
        honour_taints: raw.node_taints_policy.as_deref() == Some("Honor"),
    }
}

fn host_port(port: &RawPort, host_network: bool) -> Option<HostPort> {
    let number = match (port.host_port, host_network) {
        (0, true) => port.container_port,
        (number, _) => number,
    };
    let or = |text: &CompactString, default: &str| {
        if text.is_empty() {
            CompactString::from(default)
        } else {
            text.clone()
        }
    };
    Some(HostPort {
        address: or(&port.host_ip, "0.0.0.0"),
        protocol: or(&port.protocol, "TCP"),
        port: u16::try_from(number).ok().filter(|port| *port != 0)?,
    })
}

/// With a tag, as nodes report their images.
fn normal_image(name: &CompactString) -> CompactString {
    if name.rfind(':') <= name.rfind('/') {
        compact_str::format_compact!("{name}:latest")
    } else {
        name.clone()
    }
}

/// The sum of what a pod needs (KEP-753 for sidecars, KEP-2837 for requests of
/// the whole pod).
fn requests(spec: &RawPodSpec) -> Requests {
    const CPU: i64 = 100;
    const MEMORY: i64 = 200 << 20;

    let total = |nonzero: bool| {
        let of = |container: &RawContainer| {
            let mut requests = container.resources.requests.clone();
            if nonzero {
                for (name, default) in [("cpu", CPU), ("memory", MEMORY)] {
                    if requests.get(name).is_none() {
                        requests.0.push((name.into(), default));
                    }
                }
            }
            requests
        };
        let mut sum = Quantities::default();
        for container in &spec.containers {
            sum.add(&of(container));
        }
        // init containers run one after the other, beside the sidecars that
        // were started before them
        let mut sidecars = Quantities::default();
        let mut starting = Quantities::default();
        for container in &spec.init_containers {
            let mut needs = of(container);
            if container.restart_policy == "Always" {
                sum.add(&needs);
                sidecars.add(&needs);
                needs = sidecars.clone();
            } else {
                needs.add(&sidecars);
            }
            starting.raise(&needs);
        }
        sum.raise(&starting);
        for (name, value) in &spec.resources.requests.0 {
            if matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-") {
                match sum.0.iter_mut().find(|(known, _)| known == name) {
                    Some((_, known)) => *known = *value,
                    None => sum.0.push((name.clone(), *value)),
                }
            }
        }
        sum.add(&spec.overhead);
        sum
    };
    let sum = total(false);
    let nonzero = total(true);
    let mut extended: Vec<(CompactString, i64)> = sum
        .0
        .iter()
        .filter(|(name, value)| {
            *value != 0 && !matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage")
        })
        .cloned()
        .collect();
    extended.sort();
    Requests {
        cpu: sum.get("cpu").unwrap_or(0),
        memory: sum.get("memory").unwrap_or(0),
        storage: sum.get("ephemeral-storage").unwrap_or(0),
        cpu_nonzero: nonzero.get("cpu").unwrap_or(0),
        memory_nonzero: nonzero.get("memory").unwrap_or(0),
        extended: extended.into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(spec: serde_json::Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": spec})).unwrap()
    }

    #[test]
    fn requests_are_summed_with_sidecars_init_containers_and_overhead() {
        let pod = pod(json!({
            "containers": [
                {"resources": {"requests": {"cpu": "100m", "memory": "64Mi", "example.com/gpu": "2"}}},
                {},
            ],
            "initContainers": [
                {"restartPolicy": "Always", "resources": {"requests": {"cpu": "50m"}}},
                {"resources": {"requests": {"cpu": 1}}},
            ],
            "overhead": {"cpu": "10m"},
        }));
        let requests = &pod.shape.requests;
        // the init container beside the sidecar needs more than all containers
        assert_eq!(requests.cpu, 1050 + 10);
        assert_eq!(requests.memory, 64 << 20);
        assert_eq!(requests.cpu_nonzero, 1060);
        assert_eq!(requests.memory_nonzero, (64 << 20) + 2 * (200 << 20));
        assert_eq!(*requests.extended, [("example.com/gpu".into(), 2)]);
    }

    #[test]
    fn requests_of_the_pod_replace_those_of_its_containers() {
        let pod = pod(json!({
            "containers": [{"resources": {"requests": {"cpu": "100m", "example.com/gpu": "1"}}}],
            "resources": {"requests": {"cpu": "2", "example.com/gpu": "9"}},
        }));
        assert_eq!(pod.shape.requests.cpu, 2000);
        assert_eq!(
            *pod.shape.requests.extended,
            [("example.com/gpu".into(), 1)]
        );
    }

    #[test]
    fn equal_shapes_are_one_allocation() {
        let spec =
            json!({"containers": [{"image": "web"}], "tolerations": [{"operator": "Exists"}]});
        let (a, b) = (pod(spec.clone()), pod(spec));
        assert!(Arc::ptr_eq(&a.shape, &b.shape));
        assert_eq!(*a.shape.images, ["web:latest"]);
        let other = pod(json!({"containers": [{"image": "registry:5000/web:2"}]}));
        assert!(!Arc::ptr_eq(&a.shape, &other.shape));
        assert_eq!(*other.shape.images, ["registry:5000/web:2"]);
    }

    #[test]
    fn a_node_is_read_with_numbers_as_quantities() {
        let node: Node = serde_json::from_value(json!({
            "metadata": {"name": "n"},
            "status": {"allocatable": {"cpu": 2, "memory": "1Gi", "pods": "110", "example.com/gpu": "3"}},
        }))
        .unwrap();
        assert_eq!(node.allocatable.cpu, 2000);
        assert_eq!(node.allocatable.memory, 1 << 30);
        assert_eq!(node.allocatable.pods, 110);
        assert_eq!(*node.allocatable.extended, [("example.com/gpu".into(), 3)]);
    }

    #[test]
    fn tolerations_and_host_ports_match_as_the_api_says() {
        let taint = Taint {
            key: "a".into(),
            value: "1".into(),
            effect: "NoSchedule".into(),
        };
        let tolerates = |json| {
            serde_json::from_value::<Toleration>(json)
                .unwrap()
                .tolerates(&taint)
        };
        assert!(tolerates(json!({"operator": "Exists"})));
        assert!(tolerates(json!({"key": "a", "value": "1"})));
        assert!(tolerates(
            json!({"key": "a", "operator": "Exists", "effect": "NoSchedule"})
        ));
        assert!(!tolerates(json!({"key": "a", "value": "2"})));
        assert!(!tolerates(
            json!({"key": "a", "operator": "Exists", "effect": "NoExecute"})
        ));
        assert!(!tolerates(json!({"key": "b", "operator": "Exists"})));

        let port = |address: &str, protocol: &str, port| HostPort {
            address: address.into(),
            protocol: protocol.into(),
            port,
        };
        assert!(port("0.0.0.0", "TCP", 80).conflicts(&port("127.0.0.1", "TCP", 80)));
        assert!(!port("10.0.0.1", "TCP", 80).conflicts(&port("127.0.0.1", "TCP", 80)));
        assert!(!port("0.0.0.0", "TCP", 80).conflicts(&port("0.0.0.0", "UDP", 80)));
    }
}
