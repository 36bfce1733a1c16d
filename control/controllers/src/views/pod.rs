//! Pods: the most numerous view, so the leanest.

use std::cmp::Ordering;

use control_client::Meta;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};

use super::common::{Requirement, Text, is_present, list, null_as_default};

/// A pod as the controllers see it.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// Name, labels, owners.
    pub metadata: Meta,
    /// The desired state.
    pub spec: PodSpec,
    /// The node's report.
    pub status: PodStatus,
}

/// The part of a pod's spec that controllers read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodSpec {
    /// The node it is bound to, empty before that.
    pub node_name: Text,
    /// Its own host name, for headless services.
    pub hostname: Text,
    /// The headless service's name that gives it a DNS domain.
    pub subdomain: Text,
    /// `Always`, `OnFailure` or `Never`.
    pub restart_policy: Text,
    /// The node that a daemon's pod was made for, until it is bound.
    #[serde(rename = "affinity", deserialize_with = "target_node")]
    pub target_node: Option<Box<Text>>,
    /// For eviction from tainted nodes.
    #[serde(deserialize_with = "list")]
    pub tolerations: Vec<Toleration>,
    /// Only the ports of the containers.
    #[serde(deserialize_with = "list")]
    pub containers: Vec<Container>,
    /// Only restartable init containers (sidecars) matter here.
    #[serde(deserialize_with = "list")]
    pub init_containers: Vec<Container>,
    /// Those with claims.
    #[serde(deserialize_with = "claimed")]
    pub volumes: Vec<PodVolume>,
    /// Claims to devices.
    #[serde(deserialize_with = "list")]
    pub resource_claims: Vec<PodResourceClaim>,
}

/// A claim to devices (`v1.PodResourceClaim`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodResourceClaim {
    /// Its name within the pod.
    pub name: Text,
    /// The claim, if it is not made for the pod.
    pub resource_claim_name: Option<Text>,
    /// The template from which the claim is created.
    pub resource_claim_template_name: Option<Text>,
}

/// The claim that was made for an entry (`v1.PodResourceClaimStatus`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodResourceClaimStatus {
    /// The entry's name within the pod.
    pub name: Text,
    /// The claim; none when none is needed.
    pub resource_claim_name: Option<Text>,
}

/// The claim that the scheduler made for extended resources.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtendedResourceClaimStatus {
    /// The claim.
    pub resource_claim_name: Text,
}

/// Reads the one node name that a pod's node affinity asks for.
fn target_node<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Box<Text>>, D::Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Affinity {
        node_affinity: Option<NodeAffinity>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct NodeAffinity {
        required_during_scheduling_ignored_during_execution: Option<NodeSelector>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct NodeSelector {
        node_selector_terms: Option<Vec<Term>>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Term {
        match_fields: Option<Vec<Requirement>>,
    }
    let affinity = Option::<Affinity>::deserialize(deserializer)?;
    let required = affinity
        .and_then(|affinity| affinity.node_affinity)
        .and_then(|affinity| affinity.required_during_scheduling_ignored_during_execution);
    let terms = required.and_then(|selector| selector.node_selector_terms);
    let fields = terms
        .into_iter()
        .flatten()
        .filter_map(|term| term.match_fields);
    let on_name = fields
        .flatten()
        .find(|field| field.key == "metadata.name" && field.operator == "In");
    // several names are no target
    let names = on_name.map(|field| field.values).unwrap_or_default();
    Ok(match <[Text; 1]>::try_from(names) {
        Ok([name]) => Some(Box::new(name)),
        Err(_) => None,
    })
}

/// Reads the volumes with claims: most pods have others alone, such as their tokens.
fn claimed<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PodVolume>, D::Error> {
    let mut volumes: Vec<PodVolume> = null_as_default(deserializer)?;
    volumes.retain(|volume| volume.ephemeral || volume.persistent_volume_claim.is_some());
    volumes.shrink_to_fit();
    Ok(volumes)
}

/// A volume, of which only a claim is of interest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodVolume {
    /// Its name within the pod.
    pub name: Text,
    /// The claim behind it.
    pub persistent_volume_claim: Option<ClaimName>,
    /// Whether its claim is made for the pod.
    #[serde(deserialize_with = "is_present")]
    pub ephemeral: bool,
}

/// A reference to a claim by name.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimName {
    /// The claim's name, in the pod's namespace.
    pub claim_name: Text,
}

/// A container's ports.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Container {
    /// Its name.
    pub name: Text,
    /// `Always` on an init container makes it a sidecar.
    pub restart_policy: Text,
    /// Named ports that services may target.
    #[serde(deserialize_with = "list")]
    pub ports: Vec<PodPort>,
}

/// A container's port.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodPort {
    /// Its name, by which services may refer to it.
    pub name: Text,
    /// Its number in the pod's network.
    pub container_port: i32,
    /// `TCP` (also when empty), `UDP` or `SCTP`.
    pub protocol: Text,
}

/// A toleration (`v1.Toleration`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Toleration {
    /// The taint's key; empty with `Exists` means every key.
    pub key: Text,
    /// `Equal` (also when empty) or `Exists`.
    pub operator: Text,
    /// The taint's value for `Equal`.
    pub value: Text,
    /// The taint's effect; empty means every effect.
    pub effect: Text,
    /// How long the pod may stay, in seconds; none means for ever.
    pub toleration_seconds: Option<i64>,
}

/// The part of a pod's status that controllers read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodStatus {
    /// The phase of its lifecycle.
    pub phase: Phase,
    /// The reason of that phase, e.g. `Evicted`.
    pub reason: Text,
    /// The pod's first address.
    #[serde(rename = "podIP")]
    pub pod_ip: Text,
    /// All its addresses.
    #[serde(rename = "podIPs", deserialize_with = "list")]
    pub pod_ips: Vec<PodIp>,
    /// When its node accepted it.
    pub start_time: Option<Timestamp>,
    /// Ready and the like.
    #[serde(deserialize_with = "list")]
    pub conditions: Vec<PodCondition>,
    /// Restart counts and exit codes.
    #[serde(deserialize_with = "list")]
    pub container_statuses: Vec<ContainerStatus>,
    /// The same for init containers and sidecars.
    #[serde(deserialize_with = "list")]
    pub init_container_statuses: Vec<ContainerStatus>,
    /// The claims that were made from templates.
    #[serde(deserialize_with = "list")]
    pub resource_claim_statuses: Vec<PodResourceClaimStatus>,
    /// The claim that the scheduler made for extended resources.
    pub extended_resource_claim_status: Option<ExtendedResourceClaimStatus>,
}

/// An address of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct PodIp {
    /// The address as text.
    pub ip: Text,
}

/// A condition of a pod, without its message.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodCondition {
    /// `Ready`, `PodScheduled` and so on.
    pub r#type: Text,
    /// `True`, `False` or `Unknown`.
    pub status: Text,
    /// One word.
    pub reason: Text,
    /// When the status last changed.
    pub last_transition_time: Option<Timestamp>,
}

/// The parts of a container's state that controllers need.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerStatus {
    /// The container's name.
    pub name: Text,
    /// How often it was started again.
    pub restart_count: i32,
    /// Its current state.
    pub state: ContainerState,
}

/// Only whether it runs, and how it ended.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerState {
    /// Whether it waits to be started.
    #[serde(deserialize_with = "is_present")]
    pub waiting: bool,
    /// Set once the container has ended.
    pub terminated: Option<ContainerTermination>,
}

/// How a container ended.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerTermination {
    /// Its exit code.
    pub exit_code: i32,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
}

/// A pod's phase, in the order in which pods are preferred for deletion.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
pub enum Phase {
    /// Not all containers have started.
    #[default]
    Pending,
    /// The node cannot say.
    Unknown,
    /// Containers run.
    Running,
    /// All ended well.
    Succeeded,
    /// All containers ended, at least one of them with a failure.
    Failed,
    /// Anything that this version does not know.
    #[serde(other)]
    Other,
}

impl Pod {
    /// Returns whether the pod has succeeded or failed.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        matches!(self.status.phase, Phase::Succeeded | Phase::Failed)
    }

    /// Neither ended nor being deleted.
    #[must_use]
    pub fn is_active(&self) -> bool {
        !self.is_terminal() && self.metadata.deletion_timestamp.is_none()
    }

    /// Being deleted but not ended yet.
    #[must_use]
    pub fn is_terminating(&self) -> bool {
        !self.is_terminal() && self.metadata.deletion_timestamp.is_some()
    }

    /// A condition by type.
    #[must_use]
    pub fn condition(&self, r#type: &str) -> Option<&PodCondition> {
        self.status.conditions.iter().find(|c| c.r#type == r#type)
    }

    /// The node that it runs on or was made for, if there is one.
    #[must_use]
    pub fn node(&self) -> Option<&str> {
        let bound = Some(&self.spec.node_name).filter(|name| !name.is_empty());
        bound.or(self.spec.target_node.as_deref()).map(Text::as_str)
    }

    /// Whether the `Ready` condition is `True`.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.condition("Ready").is_some_and(|c| c.status == "True")
    }

    /// When it became ready, if it is.
    #[must_use]
    pub fn ready_since(&self) -> Option<Timestamp> {
        self.condition("Ready")
            .filter(|c| c.status == "True")
            .and_then(|c| c.last_transition_time)
    }

    /// Ready for at least `min_ready` seconds.
    #[must_use]
    pub fn is_available(&self, min_ready: i32, now: Timestamp) -> bool {
        self.is_ready()
            && self
                .available_in(min_ready, now)
                .is_none_or(|left| left <= 0)
            && (min_ready == 0 || self.ready_since().is_some())
    }

    /// Milliseconds until a ready pod counts as available; none when it is not
    /// ready, is so already or never said since when.
    #[must_use]
    pub fn available_in(&self, min_ready: i32, now: Timestamp) -> Option<i64> {
        if min_ready == 0 {
            return None;
        }
        let at = self.ready_since()?.as_millisecond() + i64::from(min_ready) * 1000;
        let left = at - now.as_millisecond();
        (left > 0).then_some(left)
    }

    /// The highest restart counts: of containers, and of sidecars.
    #[must_use]
    pub fn max_restarts(&self) -> (i32, i32) {
        let regular = self
            .status
            .container_statuses
            .iter()
            .map(|c| c.restart_count);
        let sidecars = self
            .status
            .init_container_statuses
            .iter()
            .filter(|status| {
                self.spec
                    .init_containers
                    .iter()
                    .any(|c| c.name == status.name && c.restart_policy == "Always")
            })
            .map(|c| c.restart_count);
        (regular.max().unwrap_or(0), sidecars.max().unwrap_or(0))
    }

    /// The `controller.kubernetes.io/pod-deletion-cost` annotation, 0 when
    /// absent or not a number.
    #[must_use]
    pub fn deletion_cost(&self) -> i32 {
        self.metadata
            .annotations
            .get("controller.kubernetes.io/pod-deletion-cost")
            .and_then(|cost| cost.parse().ok())
            .unwrap_or(0)
    }
}

/// Orders pods so that those to delete first come first, as the documentation
/// of ReplicaSet describes: not bound, earlier phase, not ready, lower deletion
/// cost, more pods of the same set on the node (`rank`), ready for less time,
/// more restarts, younger. Times are compared on a logarithmic scale (KEP-2185)
/// so that the choice among pods of like age spreads evenly.
#[must_use]
pub(crate) fn deletion_order(a: (&Pod, usize), b: (&Pod, usize), now: Timestamp) -> Ordering {
    let ((a, rank_a), (b, rank_b)) = (a, b);
    let by_uid = || a.metadata.uid.cmp(&b.metadata.uid);
    let younger_first = |x: Option<Timestamp>, y: Option<Timestamp>| match (x, y) {
        (Some(x), Some(y)) if x == y => Ordering::Equal,
        (Some(x), Some(y)) => log_age(x, now).cmp(&log_age(y, now)).then_with(by_uid),
        (None, None) => Ordering::Equal,
        (None, Some(_)) => Ordering::Less,
        (Some(_), None) => Ordering::Greater,
    };
    let bound = |p: &Pod| !p.spec.node_name.is_empty();
    let (restarts_a, sidecars_a) = a.max_restarts();
    let (restarts_b, sidecars_b) = b.max_restarts();
    bound(a)
        .cmp(&bound(b))
        .then_with(|| a.status.phase.cmp(&b.status.phase))
        .then_with(|| a.is_ready().cmp(&b.is_ready()))
        .then_with(|| a.deletion_cost().cmp(&b.deletion_cost()))
        .then_with(|| rank_b.cmp(&rank_a))
        .then_with(|| {
            if a.is_ready() && b.is_ready() {
                younger_first(a.ready_since(), b.ready_since())
            } else {
                Ordering::Equal
            }
        })
        .then_with(|| restarts_b.cmp(&restarts_a))
        .then_with(|| sidecars_b.cmp(&sidecars_a))
        .then_with(|| younger_first(a.metadata.creation_timestamp, b.metadata.creation_timestamp))
}

/// The binary logarithm of an age in nanoseconds, -1 for none.
fn log_age(then: Timestamp, now: Timestamp) -> i64 {
    let age = now.as_nanosecond() - then.as_nanosecond();
    if age > 0 { i64::from(age.ilog2()) } else { -1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(json: serde_json::Value) -> Pod {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn unknown_phase_is_kept_apart() {
        assert_eq!(
            pod(serde_json::json!({"status":{"phase":"Dreaming"}}))
                .status
                .phase,
            Phase::Other
        );
    }

    #[test]
    fn volumes_without_claims_are_left_out() {
        let pod = pod(serde_json::json!({"spec": {"volumes": [
            {"name": "token", "projected": {"sources": []}},
            {"name": "data", "persistentVolumeClaim": {"claimName": "data-0"}},
            {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {}}},
        ]}}));
        let names: Vec<&str> = pod.spec.volumes.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["data", "scratch"]);
    }

    #[test]
    fn node_of_an_unbound_pod_is_that_of_its_affinity() {
        let affinity = |values: serde_json::Value| {
            pod(serde_json::json!({"spec": {"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": values}]}
            ]}}}}}))
        };
        assert_eq!(affinity(serde_json::json!(["n0"])).node(), Some("n0"));
        assert_eq!(affinity(serde_json::json!(["n0", "n1"])).node(), None);
        assert_eq!(
            pod(serde_json::json!({"spec": {"affinity": null}})).node(),
            None
        );
        let bound = serde_json::json!({"spec": {"nodeName": "n2", "affinity": {}}});
        assert_eq!(pod(bound).node(), Some("n2"));
    }

    #[test]
    fn pod_is_available_after_min_ready_seconds() {
        let p = pod(serde_json::json!({"status":{"conditions":[
            {"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}));
        let at = |s: &str| s.parse::<Timestamp>().unwrap();
        assert!(p.is_available(0, at("2026-01-01T00:00:00Z")));
        assert!(!p.is_available(10, at("2026-01-01T00:00:09Z")));
        assert_eq!(p.available_in(10, at("2026-01-01T00:00:09Z")), Some(1000));
        assert!(p.is_available(10, at("2026-01-01T00:00:10Z")));
    }

    #[test]
    fn deletion_prefers_unbound_then_pending_then_unready_then_cost_then_rank() {
        let now: Timestamp = "2026-01-01T01:00:00Z".parse().unwrap();
        let ready = serde_json::json!([{"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]);
        let unbound = pod(serde_json::json!({"metadata":{"name":"unbound"}}));
        let pending =
            pod(serde_json::json!({"metadata":{"name":"pending"},"spec":{"nodeName":"n"}}));
        let unready = pod(
            serde_json::json!({"metadata":{"name":"unready"},"spec":{"nodeName":"n"},"status":{"phase":"Running"}}),
        );
        let cheap = pod(
            serde_json::json!({"metadata":{"name":"cheap","annotations":{"controller.kubernetes.io/pod-deletion-cost":"-1"}},
            "spec":{"nodeName":"n"},"status":{"phase":"Running","conditions":ready}}),
        );
        let crowded = pod(
            serde_json::json!({"metadata":{"name":"crowded"},"spec":{"nodeName":"n"},"status":{"phase":"Running","conditions":ready}}),
        );
        let alone = pod(
            serde_json::json!({"metadata":{"name":"alone"},"spec":{"nodeName":"m"},"status":{"phase":"Running","conditions":ready}}),
        );
        let mut pods = [
            (&alone, 1),
            (&crowded, 4),
            (&cheap, 0),
            (&unready, 0),
            (&pending, 0),
            (&unbound, 0),
        ];
        pods.sort_by(|a, b| deletion_order(*a, *b, now));
        let names: Vec<_> = pods
            .iter()
            .map(|(p, _)| p.metadata.name.to_string())
            .collect();
        assert_eq!(
            names,
            ["unbound", "pending", "unready", "cheap", "crowded", "alone"]
        );
    }
}
