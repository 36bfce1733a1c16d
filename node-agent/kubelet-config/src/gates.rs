//! `featureGates`: those that change what the agent does.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The feature gates that the file sets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct FeatureGates(BTreeMap<String, bool>);

/// Gates that the agent asks for, or whose features it has whatever they say.
const KNOWN: &[(&str, Option<bool>)] = &[
    ("CPUManagerPolicyAlphaOptions", None),
    ("CPUManagerPolicyBetaOptions", None),
    ("DisableCPUQuotaWithExclusiveCPUs", None),
    ("MemoryQoS", None),
    ("CPUManagerPolicyOptions", Some(true)),
    ("ClusterTrustBundleProjection", Some(true)),
    ("ExtendWebSocketsToKubelet", Some(true)),
    ("GracefulNodeShutdown", Some(true)),
    ("GracefulNodeShutdownBasedOnPodPriority", Some(true)),
    ("InPlacePodLevelResourcesVerticalScaling", Some(true)),
    ("InPlacePodVerticalScaling", Some(true)),
    ("InPlacePodVerticalScalingInitContainers", Some(true)),
    ("MutableCSINodeAllocatableCount", Some(true)),
    ("NodeLogQuery", Some(true)),
    ("NodeSwap", Some(true)),
    ("PodLevelResources", Some(true)),
    ("RestartAllContainersOnContainerExits", Some(true)),
    ("TopologyManagerPolicyOptions", Some(true)),
];

impl FeatureGates {
    /// Whether the gate is open.
    #[must_use]
    pub fn is_on(&self, name: &str, default: bool) -> bool {
        self.0.get(name).copied().unwrap_or(default)
    }

    /// Gates that are set to what the agent does not follow.
    pub(super) fn unsupported(&self) -> impl Iterator<Item = String> {
        let followed = |name: &str, value: bool| {
            let known = KNOWN.iter().find(|(known, _)| *known == name);
            known.is_some_and(|(_, fixed)| fixed.is_none_or(|fixed| fixed == value))
        };
        self.0
            .iter()
            .filter(move |(name, value)| !followed(name, **value))
            .map(|(name, _)| format!("featureGates.{name}"))
    }
}
