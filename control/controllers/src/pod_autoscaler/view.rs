//! Lean views of HorizontalPodAutoscalers and the pods that they count.

use control_client::{Meta, Resource, View};
use control_types::quantity::Quantity;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

use crate::views::{Condition, LabelSelector, Phase, Text, null_as_default};

/// The resource of HorizontalPodAutoscalers.
pub(super) const AUTOSCALERS: Resource = Resource::namespaced(
    "autoscaling",
    "v2",
    "horizontalpodautoscalers",
    "HorizontalPodAutoscaler",
);

/// A HorizontalPodAutoscaler.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct HorizontalPodAutoscaler {
    /// Name.
    pub metadata: Meta,
    /// The specification.
    pub spec: AutoscalerSpec,
    /// The status that this controller wrote last.
    pub status: AutoscalerStatus,
}

impl View for HorizontalPodAutoscaler {
    const RESOURCE: Resource = AUTOSCALERS;
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// The spec of a HorizontalPodAutoscaler.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AutoscalerSpec {
    /// The object that is scaled.
    pub scale_target_ref: ObjectRef,
    /// Least number of pods; 1 when absent.
    pub min_replicas: Option<i32>,
    /// Most pods.
    pub max_replicas: i32,
    /// The metrics that determine the number of pods.
    #[serde(deserialize_with = "null_as_default")]
    pub metrics: Vec<MetricSpec>,
    /// How fast it may change.
    pub behavior: Option<Behavior>,
}

/// A reference to an object of the same namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectRef {
    /// Its kind.
    pub kind: Text,
    /// Its name.
    pub name: Text,
    /// Group and version of its kind.
    #[serde(skip_serializing_if = "Text::is_empty")]
    pub api_version: Text,
}

/// A metric and its target; one of the sources is there.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MetricSpec {
    /// The kind of source.
    pub r#type: Text,
    /// A resource of all containers.
    pub resource: Option<ResourceMetric>,
    /// A resource of one container.
    pub container_resource: Option<ResourceMetric>,
    /// A metric of each pod.
    pub pods: Option<CustomMetric>,
    /// A metric of one object.
    pub object: Option<CustomMetric>,
    /// A metric of something outside of the cluster.
    pub external: Option<CustomMetric>,
}

/// A resource that pods request.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ResourceMetric {
    /// The resource.
    pub name: Text,
    /// The container, if it is only one.
    pub container: Text,
    /// The target value.
    pub target: MetricTarget,
}

/// A metric of the custom or external metrics API.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CustomMetric {
    /// The metric.
    pub metric: MetricName,
    /// The object that has it.
    pub described_object: ObjectRef,
    /// The target value.
    pub target: MetricTarget,
}

/// The name of a metric.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MetricName {
    /// Its name.
    pub name: Text,
    /// Selects the values that count.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
}

/// The target value of a metric; one of the fields is set.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MetricTarget {
    /// `Utilization`, `Value` or `AverageValue`.
    pub r#type: Text,
    /// For all pods together.
    pub value: Option<Text>,
    /// For each pod on average.
    pub average_value: Option<Text>,
    /// In percent of the pods' requests, on average.
    pub average_utilization: Option<i32>,
}

/// How fast the number of pods may change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Behavior {
    /// Upwards.
    pub scale_up: Rules,
    /// Downwards.
    pub scale_down: Rules,
}

/// How fast it may change in one direction.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rules {
    /// For how long recommendations count.
    pub stabilization_window_seconds: Option<i32>,
    /// `Max`, `Min` or `Disabled`.
    pub select_policy: Text,
    /// Bounds, each for a time.
    #[serde(deserialize_with = "null_as_default")]
    pub policies: Vec<ScalingPolicy>,
    /// Within how much of the target nothing changes.
    pub tolerance: Option<Text>,
}

/// A bound of changes within a time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ScalingPolicy {
    /// `Pods` or `Percent`.
    pub r#type: Text,
    /// How many.
    pub value: i32,
    /// In which time.
    pub period_seconds: i32,
}

/// The status of a HorizontalPodAutoscaler.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct AutoscalerStatus {
    /// When the number of pods was last changed.
    pub last_scale_time: Option<Timestamp>,
    /// Pods that the target asks for.
    pub current_replicas: i32,
    /// Pods that it should ask for.
    pub desired_replicas: i32,
    /// The metrics as they were last.
    #[serde(deserialize_with = "null_as_default")]
    pub current_metrics: Vec<Value>,
    /// AbleToScale, ScalingActive, ScalingLimited.
    #[serde(deserialize_with = "null_as_default")]
    pub conditions: Vec<Condition>,
}

/// The subresource `scale` of the target.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Scale {
    pub(super) spec: ScaleSpec,
    pub(super) status: ScaleStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct ScaleSpec {
    pub(super) replicas: i32,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct ScaleStatus {
    pub(super) replicas: i32,
    pub(super) selector: String,
}

/// A pod with its requests. Read from the server on demand: no cache keeps the requests
/// of all pods for the few that are scaled by them.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct ScaledPod {
    pub(super) metadata: Meta,
    pub(super) spec: ScaledPodSpec,
    pub(super) status: ScaledPodStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ScaledPodSpec {
    #[serde(deserialize_with = "null_as_default")]
    pub(super) containers: Vec<ContainerResources>,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) init_containers: Vec<ContainerResources>,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) resources: Resources,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ContainerResources {
    pub(super) name: Text,
    pub(super) restart_policy: Text,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) resources: Resources,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct Resources {
    #[serde(deserialize_with = "null_as_default")]
    pub(super) requests: BTreeMap<Text, Text>,
}

impl Resources {
    /// Returns the request of a resource, in thousandths.
    pub(super) fn request(&self, resource: &str) -> Option<i64> {
        milli(self.requests.get(resource)?)
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ScaledPodStatus {
    pub(super) phase: Phase,
    pub(super) start_time: Option<Timestamp>,
    #[serde(deserialize_with = "null_as_default")]
    pub(super) conditions: Vec<PodConditionStatus>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PodConditionStatus {
    pub(super) r#type: Text,
    pub(super) status: Text,
    pub(super) last_transition_time: Option<Timestamp>,
}

impl ScaledPod {
    pub(super) fn ready(&self) -> Option<&PodConditionStatus> {
        self.status.conditions.iter().find(|c| c.r#type == "Ready")
    }

    pub(super) fn is_running_and_ready(&self) -> bool {
        self.status.phase == Phase::Running && self.ready().is_some_and(|c| c.status == "True")
    }
}

/// A quantity in thousandths.
pub(super) fn milli(text: &str) -> Option<i64> {
    Some(Quantity::parse(text).ok()?.milli_value())
}
