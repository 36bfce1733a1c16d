//! The view of a PodGroup (`scheduling.k8s.io/v1alpha2`).

use compact_str::CompactString;
use control_client::Meta;
use serde::Deserialize;

use super::null;

/// The view of a group of pods that are scheduled together.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(from = "RawPodGroup")]
pub struct PodGroup {
    /// The object's metadata.
    pub metadata: Meta,
    /// How many pods have to fit at the same time; `None`: the group is no gang, its pods are
    /// scheduled one by one (policy `basic`).
    pub min_count: Option<usize>,
    /// The condition `PodGroupScheduled`, if it has one.
    pub scheduled: Option<GroupCondition>,
}

/// A condition of a [`PodGroup`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GroupCondition {
    /// The condition type.
    pub r#type: CompactString,
    /// `True` or `False`.
    pub status: CompactString,
    /// One word.
    pub reason: CompactString,
    /// A sentence.
    pub message: String,
    /// The generation of the group that it is about.
    pub observed_generation: i64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawPodGroup {
    metadata: Meta,
    spec: RawSpec,
    #[serde(deserialize_with = "null::or_default")]
    status: RawStatus,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawSpec {
    scheduling_policy: RawPolicy,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawPolicy {
    gang: Option<RawGang>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawGang {
    min_count: i32,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct RawStatus {
    #[serde(deserialize_with = "null::or_default")]
    conditions: Vec<GroupCondition>,
}

impl From<RawPodGroup> for PodGroup {
    fn from(raw: RawPodGroup) -> Self {
        let gang = raw.spec.scheduling_policy.gang;
        let mut conditions = raw.status.conditions.into_iter();
        Self {
            metadata: raw.metadata,
            min_count: gang.map(|it| usize::try_from(it.min_count).unwrap_or(0)),
            scheduled: conditions.find(|it| it.r#type == "PodGroupScheduled"),
        }
    }
}
