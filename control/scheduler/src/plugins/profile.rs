//! The plugins and weights for the pods of one `schedulerName`.

use super::args::{CycleArgs, PreemptionArgs};
use super::plugin::Plugin;
use super::{
    balanced_allocation, image_locality, inter_pod_affinity, node_affinity, node_declared_features,
    node_name, node_ports, node_resources_fit, node_unschedulable, pod_topology_spread,
    taint_toleration,
};
use crate::devices::DynamicResources;
use crate::features::Features;
use crate::gangs::{GANG_SCHEDULING, GangScheduling};
use crate::volumes::{NodeVolumeLimits, VolumeBinding, VolumeRestrictions, VolumeZone};

/// A plugin and its extension points.
pub(crate) struct EnabledPlugin {
    pub(crate) plugin: Box<dyn Plugin>,
    /// Whether it narrows the search beforehand (PreFilter).
    pub(crate) narrows: bool,
    /// Whether it rejects nodes (Filter).
    pub(crate) filters: bool,
    /// The weight of its scores; 0 if it does not score.
    pub(crate) weight: i64,
    /// Whether it keeps pods from being tried (PreEnqueue).
    pub(crate) gates: bool,
    /// Whether it holds pods that have a node (Permit).
    pub(crate) permits: bool,
}

/// The plugins for the pods of one `schedulerName`.
pub struct Profile {
    /// The name.
    pub scheduler_name: String,
    pub(crate) plugins: Vec<EnabledPlugin>,
    pub(crate) args: CycleArgs,
    /// The arguments of preemption; `None` if it is disabled.
    pub(crate) preemption: Option<PreemptionArgs>,
    /// Seconds that volumes have to be bound.
    pub(crate) bind_timeout_seconds: u64,
}

/// The plugins of the default profile of 1.36, in order, with weights. Those that take part
/// at other points than filters and scores are named alone.
const DEFAULTS: [(&str, i64); 20] = [
    ("SchedulingGates", 0),
    ("PrioritySort", 0),
    ("NodeUnschedulable", 0),
    ("NodeName", 0),
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodePorts", 0),
    ("NodeResourcesFit", 1),
    ("VolumeRestrictions", 0),
    ("NodeVolumeLimits", 0),
    ("VolumeBinding", 0),
    ("VolumeZone", 0),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    ("DynamicResources", 2),
    ("DefaultPreemption", 0),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
    ("DefaultBinder", 0),
    ("NodeDeclaredFeatures", 0),
];

/// A plugin that filters or scores, with its default arguments.
pub(crate) fn plugin(name: &str) -> Option<Box<dyn Plugin>> {
    Some(match name {
        "NodeUnschedulable" => Box::new(node_unschedulable::NodeUnschedulable),
        "NodeName" => Box::new(node_name::NodeName),
        "TaintToleration" => Box::new(taint_toleration::TaintToleration),
        "NodeAffinity" => Box::new(node_affinity::NodeAffinity::default()),
        "NodePorts" => Box::new(node_ports::NodePorts),
        "NodeResourcesFit" => Box::new(node_resources_fit::NodeResourcesFit::default()),
        "VolumeRestrictions" => Box::new(VolumeRestrictions),
        "NodeVolumeLimits" => Box::new(NodeVolumeLimits),
        "VolumeBinding" => Box::new(VolumeBinding),
        "VolumeZone" => Box::new(VolumeZone),
        "PodTopologySpread" => Box::new(pod_topology_spread::PodTopologySpread::default()),
        "InterPodAffinity" => Box::new(inter_pod_affinity::InterPodAffinity),
        "DynamicResources" => Box::new(DynamicResources),
        "NodeResourcesBalancedAllocation" => {
            Box::new(balanced_allocation::BalancedAllocation::default())
        }
        "ImageLocality" => Box::new(image_locality::ImageLocality),
        "NodeDeclaredFeatures" => Box::new(node_declared_features::NodeDeclaredFeatures),
        GANG_SCHEDULING => Box::new(GangScheduling),
        _ => return None,
    })
}

/// The plugins of the default profile under these feature gates.
pub(crate) fn defaults(features: Features) -> impl Iterator<Item = (&'static str, i64)> {
    let gangs = features.gang_scheduling.then_some((GANG_SCHEDULING, 0));
    DEFAULTS.into_iter().chain(gangs)
}

impl Default for Profile {
    /// The default profile of 1.36.
    fn default() -> Self {
        Self::with_features(Features::default())
    }
}

impl Profile {
    /// The default profile of 1.36 under these feature gates.
    #[must_use]
    pub fn with_features(features: Features) -> Self {
        let plugins = defaults(features).filter_map(|(name, weight)| {
            Some(EnabledPlugin {
                plugin: plugin(name)?,
                narrows: true,
                filters: true,
                weight,
                gates: true,
                permits: true,
            })
        });
        Self {
            scheduler_name: "default-scheduler".to_owned(),
            plugins: plugins.collect(),
            args: CycleArgs::default(),
            preemption: Some(PreemptionArgs::default()),
            bind_timeout_seconds: 600,
        }
    }
}
