//! Arguments of plugins.

use compact_str::CompactString;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Error, wire};
use crate::plugins::node_resources_fit::default_resources;
use crate::selector::NodeTerm;

/// The arguments of a profile's plugins, with defaults for those that it does not name.
#[derive(Default)]
pub(super) struct Args {
    pub(super) preemption: DefaultPreemption,
    pub(super) affinity: InterPodAffinity,
    pub(super) fit: NodeResourcesFit,
    pub(super) balanced: BalancedAllocation,
    pub(super) spread: PodTopologySpread,
    pub(super) volumes: VolumeBinding,
    pub(super) node_affinity: NodeAffinity,
}

macro_rules! args {
    ($($(#[$attribute:meta])* struct $name:ident { $($(#[$field:meta])* $value:ident: $type:ty,)* })*) => {
        $(
            $(#[$attribute])*
            #[derive(Debug, Deserialize)]
            #[serde(rename_all = "camelCase", deny_unknown_fields, default)]
            pub(super) struct $name {
                kind: String,
                api_version: String,
                $($(#[$field])* pub(super) $value: $type,)*
            }
        )*
    };
}

args! {
    struct DefaultPreemption {
        min_candidate_nodes_percentage: i32,
        min_candidate_nodes_absolute: i32,
    }

    struct InterPodAffinity {
        hard_pod_affinity_weight: i32,
        ignore_preferred_terms_of_existing_pods: bool,
    }

    #[derive(Default)]
    struct NodeResourcesFit {
        ignored_resources: Vec<CompactString>,
        ignored_resource_groups: Vec<CompactString>,
        scoring_strategy: ScoringStrategy,
    }

    struct BalancedAllocation {
        resources: Vec<ResourceSpec>,
    }

    struct PodTopologySpread {
        default_constraints: Vec<Value>,
        defaulting_type: String,
    }

    struct VolumeBinding {
        bind_timeout_seconds: i64,
        shape: Option<Vec<ShapePoint>>,
    }

    #[derive(Default)]
    struct NodeAffinity {
        added_affinity: Option<AddedAffinity>,
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(super) struct ScoringStrategy {
    pub(super) r#type: String,
    pub(super) resources: Vec<ResourceSpec>,
    pub(super) requested_to_capacity_ratio: Option<RequestedToCapacityRatio>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct RequestedToCapacityRatio {
    pub(super) shape: Vec<ShapePoint>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ShapePoint {
    pub(super) utilization: i32,
    pub(super) score: i32,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct ResourceSpec {
    pub(super) name: CompactString,
    pub(super) weight: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct AddedAffinity {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub(super) required: Option<RequiredTerms>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    pub(super) preferred: Vec<PreferredTerm>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct RequiredTerms {
    pub(super) node_selector_terms: Vec<NodeTerm>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PreferredTerm {
    pub(super) weight: i32,
    pub(super) preference: NodeTerm,
}

impl Default for DefaultPreemption {
    fn default() -> Self {
        Self {
            kind: String::new(),
            api_version: String::new(),
            min_candidate_nodes_percentage: 10,
            min_candidate_nodes_absolute: 100,
        }
    }
}

impl Default for InterPodAffinity {
    fn default() -> Self {
        Self {
            kind: String::new(),
            api_version: String::new(),
            hard_pod_affinity_weight: 1,
            ignore_preferred_terms_of_existing_pods: false,
        }
    }
}

impl Default for BalancedAllocation {
    fn default() -> Self {
        Self {
            kind: String::new(),
            api_version: String::new(),
            resources: resources(),
        }
    }
}

impl Default for PodTopologySpread {
    fn default() -> Self {
        Self {
            kind: String::new(),
            api_version: String::new(),
            default_constraints: Vec::new(),
            defaulting_type: "System".to_owned(),
        }
    }
}

impl Default for VolumeBinding {
    fn default() -> Self {
        Self {
            kind: String::new(),
            api_version: String::new(),
            bind_timeout_seconds: 600,
            shape: None,
        }
    }
}

impl Default for ScoringStrategy {
    fn default() -> Self {
        Self {
            r#type: "LeastAllocated".to_owned(),
            resources: resources(),
            requested_to_capacity_ratio: None,
        }
    }
}

fn resources() -> Vec<ResourceSpec> {
    let resources = default_resources().into_iter();
    let resources = resources.map(|(name, weight)| ResourceSpec { name, weight });
    resources.collect()
}

/// No resources are the default ones, and no weight is 1.
fn set_defaults(specs: &mut Vec<ResourceSpec>) {
    if specs.is_empty() {
        *specs = resources();
    }
    for spec in specs {
        if spec.weight == 0 {
            spec.weight = 1;
        }
    }
}

fn read<T: DeserializeOwned + Default>(args: &Value) -> Result<T, serde_json::Error> {
    match args {
        Value::Null => Ok(T::default()),
        args => serde_json::from_value(args.clone()),
    }
}

/// The arguments of all profiles.
pub(super) fn read_all(raw: &wire::RawConfiguration) -> Result<Vec<Args>, Error> {
    let mut all = Vec::new();
    for (at, profile) in raw.profiles.iter().enumerate() {
        let mut args = Args::default();
        for (index, config) in profile.plugin_config.iter().enumerate() {
            read_one(&mut args, config).map_err(|source| Error::Args {
                profile: at,
                index,
                name: config.name.clone(),
                source,
            })?;
        }
        set_defaults(&mut args.fit.scoring_strategy.resources);
        set_defaults(&mut args.balanced.resources);
        all.push(args);
    }
    Ok(all)
}

fn read_one(args: &mut Args, config: &wire::PluginConfig) -> Result<(), serde_json::Error> {
    let value = &config.args;
    match config.name.as_str() {
        "DefaultPreemption" => args.preemption = read(value)?,
        "InterPodAffinity" => args.affinity = read(value)?,
        "NodeResourcesFit" => args.fit = read(value)?,
        "NodeResourcesBalancedAllocation" => args.balanced = read(value)?,
        "PodTopologySpread" => args.spread = read(value)?,
        "VolumeBinding" => args.volumes = read(value)?,
        "NodeAffinity" => args.node_affinity = read(value)?,
        // Those of other plugins are theirs.
        _ => {}
    }
    Ok(())
}
