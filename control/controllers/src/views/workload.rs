//! The workload kinds of `apps` and their common parts.

use std::collections::BTreeMap;
use std::sync::Arc;

use control_client::{Meta, StringMap};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::common::{Condition, IntOrString, LabelSelector, Text, list, null_as_default};
use crate::hash;
use crate::history::go_json;

/// The label that a Deployment adds to the pods of each of its ReplicaSets.
pub(crate) const POD_TEMPLATE_HASH: &str = "pod-template-hash";

/// A pod template, kept as its original text.
///
/// Controllers only compare templates and copy them into pods; a full tree would cost ten
/// times the memory. The digest leaves out the `pod-template-hash` label and differences
/// that JSON allows for equal values, so that equal digests mean equal templates.
#[derive(Debug, Clone, Default)]
pub struct Template {
    /// The template as JSON.
    pub json: Arc<str>,
    /// The pods' labels.
    pub labels: StringMap,
    /// Identifies the template without its hash label.
    pub digest: u64,
}

impl Template {
    /// A template from a JSON tree.
    #[must_use]
    pub fn from_value(value: &Value) -> Self {
        let labels = value
            .pointer("/metadata/labels")
            .and_then(Value::as_object)
            .into_iter()
            .flatten()
            .filter_map(|(k, v)| Some((k.as_str(), v.as_str()?)))
            .collect();
        Self {
            json: value.to_string().into(),
            labels,
            digest: hash::digest64(value, POD_TEMPLATE_HASH),
        }
    }

    /// Returns the template as a tree; an empty object if there is none.
    #[must_use]
    pub fn to_value(&self) -> Value {
        serde_json::from_str(&self.json).unwrap_or_else(|_| Value::Object(serde_json::Map::new()))
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from_value(&Value::deserialize(deserializer)?))
    }
}

/// A Deployment.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Deployment {
    /// Name, annotations, generation.
    pub metadata: Meta,
    /// The desired state.
    pub spec: DeploymentSpec,
    /// The last reported status.
    pub status: DeploymentStatus,
}

/// A Deployment's spec.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentSpec {
    /// Wanted pods; the server's default is 1.
    pub replicas: Option<i32>,
    /// Selects its pods.
    pub selector: LabelSelector,
    /// The pod template.
    pub template: Template,
    /// How pods are replaced.
    pub strategy: Strategy,
    /// Seconds for which a pod must be ready to count as available.
    pub min_ready_seconds: i32,
    /// Old ReplicaSets to keep.
    pub revision_history_limit: Option<i32>,
    /// No rollout while set.
    pub paused: bool,
    /// Seconds without progress after which the rollout has failed.
    pub progress_deadline_seconds: Option<i32>,
}

/// How a Deployment, StatefulSet or DaemonSet replaces pods.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Strategy {
    /// `RollingUpdate`, `Recreate` or `OnDelete`.
    pub r#type: Text,
    /// Parameters of `RollingUpdate`.
    pub rolling_update: Option<RollingUpdate>,
}

/// Bounds of a rolling update.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RollingUpdate {
    /// Pods above the wanted number.
    pub max_surge: Option<IntOrString>,
    /// Pods below the wanted number.
    pub max_unavailable: Option<IntOrString>,
    /// StatefulSet: ordinals below it keep their revision.
    pub partition: Option<i32>,
}

/// A Deployment's status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DeploymentStatus {
    /// The generation that the rest of the status is about.
    pub observed_generation: i64,
    /// Pods of all its ReplicaSets.
    pub replicas: i32,
    /// Pods of the newest ReplicaSet.
    pub updated_replicas: i32,
    /// Ready pods.
    pub ready_replicas: i32,
    /// Pods ready for long enough.
    pub available_replicas: i32,
    /// Wanted pods that are not available.
    pub unavailable_replicas: i32,
    /// Pods being deleted, when all ReplicaSets tell.
    pub terminating_replicas: Option<i32>,
    /// Hash collisions met so far.
    pub collision_count: Option<i32>,
    /// Available, Progressing, ReplicaFailure.
    #[serde(deserialize_with = "list")]
    pub conditions: Vec<Condition>,
}

/// A ReplicaSet; a ReplicationController is read into the same shape.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ReplicaSet {
    /// Name, owner, annotations.
    pub metadata: Meta,
    /// The desired state.
    pub spec: ReplicaSetSpec,
    /// The last reported status.
    pub status: ReplicaSetStatus,
}

/// A ReplicaSet's spec.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSetSpec {
    /// Wanted pods; the server's default is 1.
    pub replicas: Option<i32>,
    /// Selects its pods.
    pub selector: LabelSelector,
    /// The pod template.
    pub template: Template,
    /// Seconds for which a pod must be ready to count as available.
    pub min_ready_seconds: i32,
}

/// A ReplicaSet's status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ReplicaSetStatus {
    /// The generation that the rest of the status is about.
    pub observed_generation: i64,
    /// Its active pods.
    pub replicas: i32,
    /// Pods that carry all labels of the template.
    pub fully_labeled_replicas: i32,
    /// Ready pods.
    pub ready_replicas: i32,
    /// Pods ready for long enough.
    pub available_replicas: i32,
    /// Pods being deleted.
    pub terminating_replicas: Option<i32>,
    /// ReplicaFailure.
    #[serde(deserialize_with = "list")]
    pub conditions: Vec<Condition>,
}

impl ReplicaSet {
    /// Wanted pods.
    #[must_use]
    pub fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }
}

/// A ReplicationController, whose selector is a plain map.
#[derive(Debug, Clone, Default)]
pub struct ReplicationController(pub ReplicaSet);

impl<'de> Deserialize<'de> for ReplicationController {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Wire {
            metadata: Meta,
            spec: Spec,
            status: ReplicaSetStatus,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        struct Spec {
            replicas: Option<i32>,
            #[serde(deserialize_with = "null_as_default")]
            selector: BTreeMap<Text, Text>,
            template: Template,
            min_ready_seconds: i32,
        }
        let wire = Wire::deserialize(deserializer)?;
        Ok(Self(ReplicaSet {
            metadata: wire.metadata,
            spec: ReplicaSetSpec {
                replicas: wire.spec.replicas,
                selector: LabelSelector {
                    match_labels: wire.spec.selector,
                    match_expressions: Vec::new(),
                },
                template: wire.spec.template,
                min_ready_seconds: wire.spec.min_ready_seconds,
            },
            status: wire.status,
        }))
    }
}

/// A StatefulSet.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct StatefulSet {
    /// Name, generation.
    pub metadata: Meta,
    /// The desired state.
    pub spec: StatefulSetSpec,
    /// The last reported status.
    pub status: StatefulSetStatus,
}

/// A StatefulSet's spec.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatefulSetSpec {
    /// Wanted pods; the server's default is 1.
    pub replicas: Option<i32>,
    /// Selects its pods.
    pub selector: LabelSelector,
    /// The pod template.
    pub template: Template,
    /// The headless service that names the pods.
    pub service_name: Text,
    /// `OrderedReady` or `Parallel`.
    pub pod_management_policy: Text,
    /// How pods are replaced.
    pub update_strategy: Strategy,
    /// Claims for each pod, as JSON trees.
    #[serde(deserialize_with = "list")]
    pub volume_claim_templates: Vec<Value>,
    /// Old revisions to keep.
    pub revision_history_limit: Option<i32>,
    /// Seconds for which a pod must be ready to count as available.
    pub min_ready_seconds: i32,
    /// The range of ordinals.
    pub ordinals: Ordinals,
    /// The retention policy of claims.
    pub persistent_volume_claim_retention_policy: ClaimRetention,
}

/// The start of a StatefulSet's ordinals.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Ordinals {
    /// The first ordinal.
    pub start: i32,
}

/// The retention policy of a StatefulSet's claims.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimRetention {
    /// `Retain` (also when empty) or `Delete`.
    pub when_deleted: Text,
    /// `Retain` (also when empty) or `Delete`.
    pub when_scaled: Text,
}

/// A StatefulSet's status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StatefulSetStatus {
    /// The generation that the rest of the status is about.
    pub observed_generation: i64,
    /// Its pods.
    pub replicas: i32,
    /// Ready pods.
    pub ready_replicas: i32,
    /// Pods of the current revision.
    pub current_replicas: i32,
    /// Pods of the update revision.
    pub updated_replicas: i32,
    /// Pods ready for long enough.
    pub available_replicas: i32,
    /// The revision that the pods had before the update.
    pub current_revision: Text,
    /// The revision that they should get.
    pub update_revision: Text,
    /// Hash collisions met so far.
    pub collision_count: Option<i32>,
}

/// A DaemonSet.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct DaemonSet {
    /// Name, generation.
    pub metadata: Meta,
    /// The desired state.
    pub spec: DaemonSetSpec,
    /// The last reported status.
    pub status: DaemonSetStatus,
}

/// A DaemonSet's spec.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetSpec {
    /// Selects its pods.
    pub selector: LabelSelector,
    /// The pod template.
    pub template: Template,
    /// How pods are replaced.
    pub update_strategy: Strategy,
    /// Seconds for which a pod must be ready to count as available.
    pub min_ready_seconds: i32,
    /// Old revisions to keep.
    pub revision_history_limit: Option<i32>,
}

/// A DaemonSet's status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DaemonSetStatus {
    /// The generation that the rest of the status is about.
    pub observed_generation: i64,
    /// Nodes that run one and should.
    pub current_number_scheduled: i32,
    /// Nodes that run one and should not.
    pub number_misscheduled: i32,
    /// Nodes that should run one.
    pub desired_number_scheduled: i32,
    /// Nodes where it is ready.
    pub number_ready: i32,
    /// Nodes that run the newest template.
    pub updated_number_scheduled: i32,
    /// Nodes where it is available.
    pub number_available: i32,
    /// Nodes that should run one where it is not available.
    pub number_unavailable: i32,
    /// Hash collisions met so far.
    pub collision_count: Option<i32>,
}

/// A ControllerRevision: the history of a StatefulSet or DaemonSet.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Revision {
    /// Name, owner, labels.
    pub metadata: Meta,
    /// Counts up.
    pub revision: i64,
    /// Identifies the patch of the spec that the revision holds.
    pub data: RevisionData,
}

/// Identifies the content of a revision. The content itself, a whole template, is read
/// from the server when needed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RevisionData {
    /// The digest of the data as upstream serialises it.
    pub digest: u64,
}

impl<'de> Deserialize<'de> for RevisionData {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        Ok(Self {
            digest: hash::text_digest(&go_json(&value)),
        })
    }
}

/// A PodDisruptionBudget.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct PodDisruptionBudget {
    /// Name, generation.
    pub metadata: Meta,
    /// The desired state.
    pub spec: BudgetSpec,
    /// The last reported status.
    pub status: BudgetStatus,
}

/// A budget's spec.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetSpec {
    /// Pods that must stay.
    pub min_available: Option<IntOrString>,
    /// The number of pods that may be unavailable.
    pub max_unavailable: Option<IntOrString>,
    /// Selects its pods; none if absent.
    pub selector: Option<LabelSelector>,
}

/// A budget's status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BudgetStatus {
    /// The generation that the rest of the status is about.
    pub observed_generation: i64,
    /// Evictions granted and not seen yet, by pod name.
    #[serde(deserialize_with = "null_as_default")]
    pub disrupted_pods: BTreeMap<Text, Timestamp>,
    /// Evictions that are allowed now.
    pub disruptions_allowed: i32,
    /// Healthy pods.
    pub current_healthy: i32,
    /// Healthy pods that must stay.
    pub desired_healthy: i32,
    /// Pods counted.
    pub expected_pods: i32,
    /// DisruptionAllowed.
    #[serde(deserialize_with = "list")]
    pub conditions: Vec<Condition>,
}
