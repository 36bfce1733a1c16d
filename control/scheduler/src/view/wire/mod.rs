//! Objects as the API server sends them, and their reduction to lean views.

use compact_str::CompactString;
use control_client::{Meta, StringMap};
use control_devices::ContainerRequests;
use serde::Deserialize;

use self::requests::{Quantities, requests};
use super::null::or_default;
use super::{
    Allocatable, HostPort, Node, Pod, PodClaim, PodDisk, PodTerm, Requests, ScheduledCondition,
    Shape, Spread, Taint, Toleration, disks,
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
    scheduling_group: RawSchedulingGroup,
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
    host_users: Option<bool>,
    #[serde(deserialize_with = "or_default")]
    volumes: Vec<RawVolume>,
    #[serde(deserialize_with = "or_default")]
    resource_claims: Vec<RawPodResourceClaim>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawSchedulingGroup {
    pod_group_name: Option<CompactString>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawVolume {
    image: Option<RawImageSource>,
    name: CompactString,
    persistent_volume_claim: Option<RawClaimSource>,
    ephemeral: Option<serde::de::IgnoredAny>,
    gce_persistent_disk: Option<disks::GcePersistentDisk>,
    aws_elastic_block_store: Option<disks::VolumeId>,
    azure_disk: Option<disks::AzureDisk>,
    cinder: Option<disks::VolumeId>,
    portworx_volume: Option<disks::VolumeId>,
    iscsi: Option<disks::Iscsi>,
    rbd: Option<disks::Rbd>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawImageSource {
    reference: CompactString,
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
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawPodStatus {
    phase: CompactString,
    nominated_node_name: CompactString,
    start_time: Option<jiff::Timestamp>,
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
    restart_policy_rules: Vec<RawRestartRule>,
    #[serde(deserialize_with = "or_default")]
    ports: Vec<RawPort>,
    #[serde(deserialize_with = "or_default")]
    resources: RawResources,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawRestartRule {
    action: CompactString,
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
#[serde(rename_all = "camelCase", default)]
struct RawNodeStatus {
    #[serde(deserialize_with = "or_default")]
    declared_features: Vec<CompactString>,
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

impl From<RawPod> for Pod {
    fn from(raw: RawPod) -> Self {
        let RawPod {
            metadata,
            mut spec,
            status,
        } = raw;
        let requests = requests(&spec, &status);
        let claims = claims(&metadata.name, &spec, &status);
        let containers = container_requests(&spec);
        let images = images(&spec);
        let preempted = status.conditions.iter().any(|condition| {
            condition.r#type == "DisruptionTarget"
                && condition.rest.status == "True"
                && condition.rest.reason == "PreemptionByScheduler"
        });
        let disks = std::mem::take(&mut spec.volumes).into_iter();
        let disks = disks.filter_map(disk).collect();
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
            pod_group: spec.scheduling_group.pod_group_name.take(),
            nominated_node: status.nominated_node_name,
            started: status.start_time,
            preempted,
            scheduled,
            node_name: spec.node_name.clone(),
            scheduler_name: spec.scheduler_name.clone(),
            shape: shape(spec, requests, images).shared(),
            claims,
            disks,
            containers,
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
            features: status.declared_features.into(),
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

/// The images of containers and of volumes, normalised.
fn images(spec: &RawPodSpec) -> Box<[CompactString]> {
    let mounted = spec.volumes.iter().filter_map(|volume| {
        let image = volume.image.as_ref()?;
        Some(&image.reference).filter(|reference| !reference.is_empty())
    });
    spec.init_containers
        .iter()
        .chain(&spec.containers)
        .map(|container| &container.image)
        .chain(mounted)
        .map(normal_image)
        .collect()
}

fn shape(spec: RawPodSpec, requests: Requests, images: Box<[CompactString]>) -> Shape {
    let required_features = required_features(&spec);
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
        required_features,
    }
}

/// Features that a node must declare to run the pod.
fn required_features(spec: &RawPodSpec) -> Box<[CompactString]> {
    let mut containers = spec.containers.iter().chain(&spec.init_containers);
    let restarts_all = containers.any(|container| {
        let mut rules = container.restart_policy_rules.iter();
        rules.any(|rule| rule.action == "RestartAllContainers")
    });
    let mut features = Vec::new();
    if restarts_all {
        features.push(CompactString::const_new(
            "RestartAllContainersOnContainerExits",
        ));
    }
    if spec.host_network && spec.host_users == Some(false) {
        features.push(CompactString::const_new("UserNamespacesHostNetworkSupport"));
    }
    features.into()
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
            return Some(PodClaim::Device {
                name: name.clone(),
                from_template: false,
            });
        }
        let mut made = status.resource_claim_statuses.iter();
        match made.find(|made| made.name == claim.name) {
            Some(made) => {
                let name = made.resource_claim_name.clone()?;
                Some(PodClaim::Device {
                    name,
                    from_template: true,
                })
            }
            None => Some(PodClaim::DeviceToBeMade),
        }
    });
    volumes.chain(devices).collect()
}

/// The disk that a volume names directly, if it is one that decisions ask about.
fn disk(volume: RawVolume) -> Option<PodDisk> {
    if volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some() {
        return None;
    }
    if let Some(iscsi) = volume.iscsi {
        return Some(iscsi.into());
    }
    if let Some(rbd) = volume.rbd {
        return Some(rbd.into());
    }
    let gce = volume.gce_persistent_disk.as_ref();
    let read_only = gce.is_some_and(disks::GcePersistentDisk::is_read_only);
    let disk = disks::in_tree(
        volume.aws_elastic_block_store,
        volume.gce_persistent_disk,
        volume.azure_disk,
        volume.cinder,
        volume.portworx_volume,
    )?;
    Some(PodDisk::InTree {
        name: volume.name,
        disk,
        read_only,
    })
}

/// Returns the requests of containers if devices may satisfy some of them; empty for most
/// pods.
fn container_requests(spec: &RawPodSpec) -> Box<[ContainerRequests]> {
    let all = || {
        let init = spec.init_containers.iter();
        let init = init.map(|container| (container, container.restart_policy != "Always"));
        init.chain(spec.containers.iter().map(|container| (container, false)))
    };
    let mut resources = all().flat_map(|(container, _)| &container.resources.requests.0);
    if !resources.any(|(name, _)| control_devices::is_extended_resource(name)) {
        return Box::default();
    }
    all()
        .map(|(container, is_short_lived)| ContainerRequests {
            name: container.name.clone(),
            is_short_lived,
            resources: container
                .resources
                .requests
                .0
                .iter()
                .map(|(name, amount)| (name.clone(), Some(*amount)))
                .collect(),
        })
        .collect()
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

pub(super) fn read_spread(constraint: serde_json::Value) -> Result<Spread, serde_json::Error> {
    serde_json::from_value(constraint).map(spread)
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
