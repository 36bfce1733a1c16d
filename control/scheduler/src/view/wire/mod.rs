//! What the API server sends, and how it becomes lean.

use compact_str::CompactString;
use control_client::{Meta, StringMap};
use serde::{Deserialize, Deserializer};

use self::requests::{Quantities, requests};
use super::{
    Allocatable, HostPort, Node, Pod, PodClaim, PodTerm, Requests, ScheduledCondition, Shape,
    Spread, Taint, Toleration,
};
use crate::selector::{LabelSelector, NodeTerm};

mod requests;

#[derive(Deserialize)]
pub(super) struct RawPod {
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
    #[serde(deserialize_with = "or_default")]
    volumes: Vec<RawVolume>,
    #[serde(deserialize_with = "or_default")]
    resource_claims: Vec<RawPodResourceClaim>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawVolume {
    name: CompactString,
    persistent_volume_claim: Option<RawClaimSource>,
    ephemeral: Option<serde::de::IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawClaimSource {
    claim_name: CompactString,
}

/// A claim to devices, as the spec names it or the status knows it.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawPodResourceClaim {
    name: CompactString,
    resource_claim_name: Option<CompactString>,
    resource_claim_template_name: Option<CompactString>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawPodStatus {
    phase: CompactString,
    nominated_node_name: CompactString,
    #[serde(deserialize_with = "or_default")]
    conditions: Vec<RawCondition>,
    #[serde(deserialize_with = "or_default")]
    resource_claim_statuses: Vec<RawPodResourceClaim>,
    resources: Option<RawResources>,
    #[serde(deserialize_with = "or_default")]
    allocated_resources: Quantities,
    #[serde(deserialize_with = "or_default")]
    container_statuses: Vec<RawContainerStatus>,
    #[serde(deserialize_with = "or_default")]
    init_container_statuses: Vec<RawContainerStatus>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawContainerStatus {
    name: CompactString,
    resources: Option<RawResources>,
    #[serde(deserialize_with = "or_default")]
    allocated_resources: Quantities,
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
    name: CompactString,
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
pub(super) struct RawNode {
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

pub(super) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl From<RawPod> for Pod {
    fn from(raw: RawPod) -> Self {
        let RawPod {
            metadata,
            spec,
            status,
        } = raw;
        let requests = requests(&spec, &status);
        let claims = claims(&metadata.name, &spec, &status);
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
            shape: shape(spec, requests).shared(),
            claims,
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

fn shape(spec: RawPodSpec, requests: Requests) -> Shape {
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
        volume_nodes: Box::default(),
        images,
        containers: u32::try_from(containers).unwrap_or(u32::MAX),
    }
}

/// The claims that a pod needs. A claim to devices of a template for which none was
/// needed after all has a status without a name.
fn claims(pod: &str, spec: &RawPodSpec, status: &RawPodStatus) -> Box<[PodClaim]> {
    let volumes = spec.volumes.iter().filter_map(|volume| {
        let (name, ephemeral) = match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(claim), _) => (claim.claim_name.clone(), false),
            // The name that the controller gives it.
            (None, Some(_)) => (compact_str::format_compact!("{pod}-{}", volume.name), true),
            (None, None) => return None,
        };
        Some(PodClaim::Volume { name, ephemeral })
    });
    let devices = spec.resource_claims.iter().filter_map(|claim| {
        if let Some(name) = &claim.resource_claim_name {
            return Some(PodClaim::Device { name: name.clone() });
        }
        let mut made = status.resource_claim_statuses.iter();
        match made.find(|made| made.name == claim.name) {
            Some(made) => {
                let name = made.resource_claim_name.clone()?;
                Some(PodClaim::Device { name })
            }
            None => Some(PodClaim::DeviceToBeMade {
                template: claim
                    .resource_claim_template_name
                    .clone()
                    .unwrap_or_default(),
            }),
        }
    });
    volumes.chain(devices).collect()
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
