//! Selects the plugins of the default profile that a profile keeps, replaces and
//! disables.

use super::args::{Args, NodeResourcesFit, ResourceSpec, ShapePoint};
use super::wire::{PluginSet, Plugins, RawPlugin};
use super::{args, wire};
use crate::features::Features;
use crate::gangs::GANG_SCHEDULING;
use crate::plugins::profile::{EnabledPlugin, Profile, defaults, plugin};
use crate::plugins::{
    CycleArgs, Plugin as Decider, balanced_allocation, node_affinity, node_resources_fit,
    pod_topology_spread,
};
use crate::preempt::PreemptionArgs;
use crate::view::Spread;

/// Extension points, and the plugins that take part in each.
const POINTS: [(&str, &str, &[&str]); 12] = [
    (
        "preEnqueue",
        "PreEnqueuePlugin",
        &[
            "SchedulingGates",
            "DynamicResources",
            "DefaultPreemption",
            GANG_SCHEDULING,
        ],
    ),
    ("queueSort", "QueueSortPlugin", &["PrioritySort"]),
    (
        "preFilter",
        "PreFilterPlugin",
        &[
            "NodeAffinity",
            "NodePorts",
            "NodeResourcesFit",
            "VolumeRestrictions",
            "NodeVolumeLimits",
            "VolumeBinding",
            "VolumeZone",
            "PodTopologySpread",
            "InterPodAffinity",
            "DynamicResources",
            "NodeDeclaredFeatures",
        ],
    ),
    (
        "filter",
        "FilterPlugin",
        &[
            "NodeUnschedulable",
            "NodeName",
            "TaintToleration",
            "NodeAffinity",
            "NodePorts",
            "NodeResourcesFit",
            "VolumeRestrictions",
            "NodeVolumeLimits",
            "VolumeBinding",
            "VolumeZone",
            "PodTopologySpread",
            "InterPodAffinity",
            "DynamicResources",
            "NodeDeclaredFeatures",
        ],
    ),
    (
        "postFilter",
        "PostFilterPlugin",
        &["DynamicResources", "DefaultPreemption"],
    ),
    (
        "preScore",
        "PreScorePlugin",
        &[
            "TaintToleration",
            "NodeAffinity",
            "NodeResourcesFit",
            "VolumeBinding",
            "PodTopologySpread",
            "InterPodAffinity",
            "NodeResourcesBalancedAllocation",
        ],
    ),
    (
        "score",
        "ScorePlugin",
        &[
            "TaintToleration",
            "NodeAffinity",
            "NodeResourcesFit",
            "VolumeBinding",
            "PodTopologySpread",
            "InterPodAffinity",
            "DynamicResources",
            "NodeResourcesBalancedAllocation",
            "ImageLocality",
        ],
    ),
    (
        "reserve",
        "ReservePlugin",
        &["VolumeBinding", "DynamicResources"],
    ),
    ("permit", "PermitPlugin", &[GANG_SCHEDULING]),
    (
        "preBind",
        "PreBindPlugin",
        &["VolumeBinding", "DynamicResources"],
    ),
    ("bind", "BindPlugin", &["DefaultBinder"]),
    ("postBind", "PostBindPlugin", &[]),
];

impl Plugins {
    /// The sets of all extension points but `multiPoint`.
    pub(super) fn points(&self) -> [(&'static str, &PluginSet); 12] {
        [
            ("preEnqueue", &self.pre_enqueue),
            ("queueSort", &self.queue_sort),
            ("preFilter", &self.pre_filter),
            ("filter", &self.filter),
            ("postFilter", &self.post_filter),
            ("preScore", &self.pre_score),
            ("score", &self.score),
            ("reserve", &self.reserve),
            ("permit", &self.permit),
            ("preBind", &self.pre_bind),
            ("bind", &self.bind),
            ("postBind", &self.post_bind),
        ]
    }
}

/// The default plugins as a profile's `multiPoint` changes them.
fn multi_point(custom: &PluginSet, features: Features) -> Vec<RawPlugin> {
    let is_disabled = |name: &str| custom.disabled.iter().any(|it| it.name == name);
    let mut merged = Vec::new();
    let mut replaced = Vec::new();
    if !is_disabled("*") {
        for (name, weight) in defaults(features) {
            if is_disabled(name) {
                continue;
            }
            let index = custom.enabled.iter().rposition(|it| it.name == name);
            let own = index.and_then(|index| custom.enabled.get(index));
            replaced.extend(index);
            merged.push(own.cloned().unwrap_or_else(|| RawPlugin {
                name: name.to_owned(),
                weight: i32::try_from(weight).ok(),
            }));
        }
    }
    let own = custom.enabled.iter().enumerate();
    let own = own.filter(|(at, _)| !replaced.contains(at));
    merged.extend(own.map(|(_, plugin)| plugin.clone()));
    merged
}

/// Error of a profile; the message is kube-scheduler's.
#[derive(Debug, thiserror::Error)]
pub(super) enum ProfileError {
    #[error("{interface} {plugin:?} does not exist")]
    Unknown { interface: String, plugin: String },
    #[error("plugin {plugin:?} does not extend {interface} plugin")]
    NotExtending { plugin: String, interface: String },
    #[error("plugin {plugin:?} already registered as {interface:?}")]
    Twice { plugin: String, interface: String },
    #[error("no queue sort plugin is enabled for profile with scheduler name {0:?}")]
    NoQueueSort(String),
    #[error(
        "only one queue sort plugin required for profile with scheduler name {name:?}, but got {count}"
    )]
    QueueSorts { name: String, count: usize },
    #[error("at least one bind plugin is needed for profile with scheduler name {0:?}")]
    NoBind(String),
}

/// Returns the plugins of one extension point, in order: those of `multiPoint` that the
/// point's own set configures, the others of `multiPoint`, the others of the set.
fn expand(
    point: &str,
    interface: &str,
    implementing: &[&str],
    own: &PluginSet,
    multi: &[RawPlugin],
    features: Features,
) -> Result<Vec<RawPlugin>, ProfileError> {
    let known = |name: &str| defaults(features).any(|(known, _)| known == name);
    let unknown = |plugin: &str| ProfileError::Unknown {
        interface: interface.to_owned(),
        plugin: plugin.to_owned(),
    };
    let twice = |plugin: &str| ProfileError::Twice {
        plugin: plugin.to_owned(),
        interface: interface.to_owned(),
    };
    let mut names: Vec<&str> = Vec::new();
    for plugin in &own.enabled {
        if !known(&plugin.name) {
            return Err(unknown(&plugin.name));
        }
        if !implementing.contains(&plugin.name.as_str()) {
            return Err(ProfileError::NotExtending {
                plugin: plugin.name.clone(),
                interface: interface.to_owned(),
            });
        }
        if names.contains(&plugin.name.as_str()) {
            return Err(twice(&plugin.name));
        }
        names.push(&plugin.name);
    }
    let is_disabled = |name: &str| own.disabled.iter().any(|it| it.name == name);
    let has = |set: &[RawPlugin], name: &str| set.iter().any(|it| it.name == name);
    let mut inherited: Vec<RawPlugin> = Vec::new();
    let mut overridden = Vec::new();
    if !is_disabled("*") {
        for plugin in multi {
            if !known(&plugin.name) {
                return Err(unknown(&plugin.name));
            }
            if !implementing.contains(&plugin.name.as_str()) || is_disabled(&plugin.name) {
                continue;
            }
            if has(&own.enabled, &plugin.name) {
                overridden.push(plugin.name.clone());
            } else if has(&inherited, &plugin.name) {
                return Err(twice(&plugin.name));
            } else {
                inherited.push(plugin.clone());
            }
        }
    }
    let (first, last): (Vec<RawPlugin>, Vec<RawPlugin>) = own
        .enabled
        .iter()
        .cloned()
        .partition(|it| overridden.contains(&it.name));
    tracing::trace!(point, "plugins are merged");
    Ok(first.into_iter().chain(inherited).chain(last).collect())
}

/// The profile that the fields make.
pub(super) fn profile(
    raw: &wire::RawProfile,
    args: Args,
    features: Features,
) -> Result<Profile, ProfileError> {
    let name = raw.scheduler_name.clone().unwrap_or_default();
    let multi = multi_point(&raw.plugins.multi_point, features);
    let mut points = Vec::new();
    for ((point, interface, implementing), (_, own)) in POINTS.iter().zip(raw.plugins.points()) {
        let plugins = expand(point, interface, implementing, own, &multi, features)?;
        points.push((*point, plugins));
    }
    let at = |wanted: &str| {
        let mut points = points.iter();
        let found = points.find(|(point, _)| *point == wanted);
        found.map_or(&[][..], |(_, plugins)| plugins.as_slice())
    };
    let has = |point: &str, name: &str| at(point).iter().any(|it| it.name == name);
    if at("queueSort").len() != 1 {
        return Err(match at("queueSort").len() {
            0 => ProfileError::NoQueueSort(name),
            count => ProfileError::QueueSorts { name, count },
        });
    }
    if at("bind").is_empty() {
        return Err(ProfileError::NoBind(name));
    }
    let is_gated = has("preEnqueue", "SchedulingGates");
    if !is_gated {
        tracing::warn!(
            scheduler_name = name,
            "SchedulingGates is disabled; the API server refuses to bind gated pods, so they wait all the same"
        );
    }
    let mut order: Vec<&str> = at("filter").iter().map(|it| it.name.as_str()).collect();
    let others = ["score", "preFilter", "preEnqueue", "permit"];
    for plugin in others.into_iter().flat_map(at) {
        if !order.contains(&plugin.name.as_str()) {
            order.push(&plugin.name);
        }
    }
    let cycle = cycle_args(&args);
    let preemption = PreemptionArgs {
        min_candidate_nodes_percentage: args
            .preemption
            .min_candidate_nodes_percentage
            .unsigned_abs(),
        min_candidate_nodes_absolute: args.preemption.min_candidate_nodes_absolute.unsigned_abs(),
    };
    let bind_timeout_seconds = args.volumes.bind_timeout_seconds.unsigned_abs();
    let plugins = order.into_iter().filter_map(|name| {
        let score = at("score").iter().find(|it| it.name == name);
        let weight = score.map_or(0, |it| match it.weight.unwrap_or(0) {
            0 => 1,
            weight => i64::from(weight),
        });
        Some(EnabledPlugin {
            plugin: with_args(name, &args, &cycle)?,
            narrows: has("preFilter", name),
            filters: has("filter", name),
            weight,
            gates: has("preEnqueue", name),
            permits: has("permit", name),
        })
    });
    Ok(Profile {
        plugins: plugins.collect(),
        args: cycle.clone(),
        preemption: has("postFilter", "DefaultPreemption").then_some(preemption),
        bind_timeout_seconds,
        scheduler_name: name,
    })
}

fn cycle_args(args: &Args) -> CycleArgs {
    let constraints = args.spread.default_constraints.iter();
    let constraints = constraints.filter_map(|it| Spread::read(it.clone()).ok());
    CycleArgs {
        hard_pod_affinity_weight: args.affinity.hard_pod_affinity_weight,
        ignore_preferred_terms_of_existing_pods: args
            .affinity
            .ignore_preferred_terms_of_existing_pods,
        default_constraints: (args.spread.defaulting_type == "List").then(|| constraints.collect()),
    }
}

/// A plugin with the profile's arguments.
fn with_args(name: &str, args: &Args, cycle: &CycleArgs) -> Option<Box<dyn Decider>> {
    Some(match name {
        "NodeResourcesFit" => Box::new(fit(&args.fit)),
        "NodeResourcesBalancedAllocation" => {
            let resources = args.balanced.resources.iter();
            Box::new(balanced_allocation::BalancedAllocation {
                resources: resources.map(|it| it.name.clone()).collect(),
            })
        }
        "PodTopologySpread" => Box::new(pod_topology_spread::PodTopologySpread {
            args: cycle.clone(),
        }),
        "NodeAffinity" => Box::new(node_affinity(&args.node_affinity)),
        _ => plugin(name)?,
    })
}

fn fit(args: &NodeResourcesFit) -> node_resources_fit::NodeResourcesFit {
    use node_resources_fit::Strategy;
    let strategy = &args.scoring_strategy;
    let point = |it: &ShapePoint| (i64::from(it.utilization), i64::from(it.score) * 10);
    let ratio = strategy.requested_to_capacity_ratio.iter();
    let shape = ratio.flat_map(|it| &it.shape).map(point);
    let resource = |it: &ResourceSpec| (it.name.clone(), it.weight);
    node_resources_fit::NodeResourcesFit {
        strategy: match strategy.r#type.as_str() {
            "MostAllocated" => Strategy::MostAllocated,
            "RequestedToCapacityRatio" => Strategy::RequestedToCapacityRatio(shape.collect()),
            _ => Strategy::LeastAllocated,
        },
        resources: strategy.resources.iter().map(resource).collect(),
        ignored: args.ignored_resources.clone(),
        ignored_groups: args.ignored_resource_groups.clone(),
    }
}

fn node_affinity(args: &args::NodeAffinity) -> node_affinity::NodeAffinity {
    let added = args.added_affinity.as_ref();
    let required = added.and_then(|it| it.required.as_ref());
    let preferred = added.into_iter().flat_map(|it| &it.preferred);
    node_affinity::NodeAffinity {
        added_required: required.map(|it| it.node_selector_terms.clone().into()),
        added_preferred: preferred
            .filter(|it| it.weight != 0)
            .map(|it| (it.weight, it.preference.clone()))
            .collect(),
    }
}
