//! Validation of configurations, in kube-scheduler's words.

use std::collections::BTreeSet;

use control_types::names;
use serde_json::Value;

use super::args::{Args, NodeResourcesFit, PodTopologySpread, ResourceSpec, ShapePoint};
use super::field::{duplicate, forbidden, invalid, quoted, required, unsupported};
use super::{API_VERSION, wire};
use crate::extender::ExtenderConfig;

/// Plugins that no longer exist.
const REMOVED: [&str; 4] = [
    "AzureDiskLimits",
    "CinderLimits",
    "EBSLimits",
    "GCEPDLimits",
];

/// Several messages as one.
pub(super) fn aggregate(messages: &[String]) -> String {
    match messages {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

pub(super) fn validate(raw: &wire::RawConfiguration, args: &[Args]) -> Vec<String> {
    let mut wrong = Vec::new();
    let election = &raw.leader_election;
    if election.leader_elect && election.resource_lock != "leases" {
        let detail = "resourceLock value must be \"leases\"";
        let lock = quoted(&election.resource_lock);
        wrong.push(invalid("leaderElection.resourceLock", lock, detail));
    }
    let parallelism = raw.parallelism.unwrap_or(16);
    if parallelism <= 0 {
        let detail = "should be an integer value greater than zero";
        wrong.push(invalid("parallelism", parallelism, detail));
    }
    let mut names: Vec<&str> = Vec::new();
    for (at, (profile, args)) in raw.profiles.iter().zip(args).enumerate() {
        let path = format!("profiles[{at}]");
        validate_profile(&mut wrong, &path, profile, args);
        let name = profile.scheduler_name.as_deref().unwrap_or_default();
        if let Some(other) = names.iter().rposition(|it| *it == name) {
            let other = format!("profiles[{other}].schedulerName");
            wrong.push(duplicate(&format!("{path}.schedulerName"), other));
        }
        names.push(name);
    }
    let mut profiles = raw.profiles.iter();
    let first = profiles.next().map(|it| &it.plugins.queue_sort);
    for (at, profile) in profiles.enumerate() {
        if Some(&profile.plugins.queue_sort) != first {
            let path = format!("profiles[{}].plugins.queueSort", at + 1);
            let set = format!("{:?}", profile.plugins.queue_sort);
            wrong.push(invalid(&path, set, "must be the same for all profiles"));
        }
    }
    let percentage = raw.percentage_of_nodes_to_score;
    validate_percentage(&mut wrong, "percentageOfNodesToScore", percentage);
    let initial = raw.pod_initial_backoff_seconds.unwrap_or(1);
    let longest = raw.pod_max_backoff_seconds.unwrap_or(10);
    if initial <= 0 {
        let path = "podInitialBackoffSeconds";
        wrong.push(invalid(path, initial, "must be greater than 0"));
    }
    if longest < initial {
        let detail = "must be greater than or equal to PodInitialBackoffSeconds";
        wrong.push(invalid("podMaxBackoffSeconds", longest, detail));
    }
    validate_extenders(&mut wrong, &raw.extenders);
    wrong
}

fn validate_percentage(wrong: &mut Vec<String>, path: &str, percentage: Option<i32>) {
    if let Some(percentage) = percentage.filter(|it| !(0..=100).contains(it)) {
        wrong.push(invalid(path, percentage, "not in valid range [0-100]"));
    }
}

fn validate_profile(wrong: &mut Vec<String>, path: &str, profile: &wire::RawProfile, args: &Args) {
    if profile
        .scheduler_name
        .as_deref()
        .unwrap_or_default()
        .is_empty()
    {
        wrong.push(required(&format!("{path}.schedulerName"), ""));
    }
    let percentage = profile.percentage_of_nodes_to_score;
    validate_percentage(
        wrong,
        &format!("{path}.percentageOfNodesToScore"),
        percentage,
    );
    let is_removed = |name: &str| {
        REMOVED.contains(&name).then(|| {
            format!(
                "was invalid in version {API_VERSION:?} (KubeSchedulerConfiguration is version {API_VERSION:?})"
            )
        })
    };
    for (point, set) in profile.plugins.points() {
        for (at, plugin) in set.enabled.iter().enumerate() {
            if let Some(detail) = is_removed(&plugin.name) {
                let path = format!("{path}.plugins.{point}.enabled[{at}]");
                wrong.push(invalid(&path, quoted(&plugin.name), &detail));
            }
        }
    }
    let mut seen = BTreeSet::new();
    for (at, config) in profile.plugin_config.iter().enumerate() {
        let path = format!("{path}.pluginConfig[{at}]");
        if !seen.insert(&config.name) {
            wrong.push(duplicate(&path, quoted(&config.name)));
        }
        if let Some(detail) = is_removed(&config.name) {
            wrong.push(invalid(&path, quoted(&config.name), &detail));
        }
        validate_args(wrong, &format!("{path}.args"), &config.name, args);
    }
}

fn validate_args(wrong: &mut Vec<String>, path: &str, name: &str, args: &Args) {
    match name {
        "DefaultPreemption" => {
            let percentage = args.preemption.min_candidate_nodes_percentage;
            let absolute = args.preemption.min_candidate_nodes_absolute;
            let percentage_path = format!("{path}.minCandidateNodesPercentage");
            let absolute_path = format!("{path}.minCandidateNodesAbsolute");
            if !(0..=100).contains(&percentage) {
                let detail = "not in valid range [0, 100]";
                wrong.push(invalid(&percentage_path, percentage, detail));
            }
            if absolute < 0 {
                wrong.push(invalid(
                    &absolute_path,
                    absolute,
                    "not in valid range [0, inf)",
                ));
            }
            if percentage == 0 && absolute == 0 {
                let detail = "cannot be zero at the same time as minCandidateNodesAbsolute";
                wrong.push(invalid(&percentage_path, percentage, detail));
                let detail = "cannot be zero at the same time as minCandidateNodesPercentage";
                wrong.push(invalid(&absolute_path, absolute, detail));
            }
        }
        "InterPodAffinity" => {
            let weight = args.affinity.hard_pod_affinity_weight;
            if !(0..=100).contains(&weight) {
                let path = format!("{path}.hardPodAffinityWeight");
                wrong.push(invalid(&path, weight, "not in valid range [0, 100]"));
            }
        }
        "NodeResourcesFit" => validate_fit(wrong, path, &args.fit),
        "NodeResourcesBalancedAllocation" => {
            let mut seen = BTreeSet::new();
            for (at, resource) in args.balanced.resources.iter().enumerate() {
                let path = format!("{path}.resources[{at}]");
                if !seen.insert(&resource.name) {
                    let name = quoted(&resource.name);
                    wrong.push(duplicate(&format!("{path}.name"), name));
                }
                if resource.weight != 1 {
                    let path = format!("{path}.weight");
                    wrong.push(invalid(&path, resource.weight, "must be 1"));
                }
            }
        }
        "PodTopologySpread" => validate_spread(wrong, path, &args.spread),
        "VolumeBinding" => {
            let timeout = args.volumes.bind_timeout_seconds;
            if timeout < 0 {
                let path = format!("{path}.bindTimeoutSeconds");
                let detail = "invalid BindTimeoutSeconds, should not be a negative value";
                wrong.push(invalid(&path, timeout, detail));
            }
            if let Some(shape) = &args.volumes.shape {
                let detail = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring";
                let shape = format!("{shape:?}");
                wrong.push(invalid(&format!("{path}.shape"), shape, detail));
            }
        }
        _ => {}
    }
}

fn validate_fit(wrong: &mut Vec<String>, path: &str, args: &NodeResourcesFit) {
    for (at, name) in args.ignored_resources.iter().enumerate() {
        for detail in names::qualified_name(name) {
            let path = format!("{path}.ignoredResources[{at}]");
            wrong.push(invalid(&path, quoted(name), &detail));
        }
    }
    for (at, group) in args.ignored_resource_groups.iter().enumerate() {
        let path = format!("{path}.ignoredResourceGroups[{at}]");
        if group.contains('/') {
            let detail = "resource group name can't contain '/'";
            wrong.push(invalid(&path, quoted(group), detail));
        }
        for detail in names::qualified_name(group) {
            wrong.push(invalid(&path, quoted(group), &detail));
        }
    }
    let path = format!("{path}.scoringStrategy");
    let strategy = &args.scoring_strategy;
    let supported = [
        "LeastAllocated",
        "MostAllocated",
        "RequestedToCapacityRatio",
    ];
    if !supported.contains(&strategy.r#type.as_str()) {
        let path = format!("{path}.type");
        wrong.push(unsupported(&path, &strategy.r#type, &supported));
    }
    validate_resources(wrong, &format!("{path}.resources"), &strategy.resources);
    let path = format!("{path}.requestedToCapacityRatio");
    match (
        &strategy.requested_to_capacity_ratio,
        strategy.r#type.as_str(),
    ) {
        (Some(ratio), "RequestedToCapacityRatio") => {
            validate_shape(wrong, &format!("{path}.shape"), &ratio.shape);
        }
        (None, "RequestedToCapacityRatio") => {
            let detail = "must be specified when type is RequestedToCapacityRatio";
            wrong.push(required(&path, detail));
        }
        (Some(_), _) => {
            let detail = "must be nil when type is not RequestedToCapacityRatio";
            wrong.push(forbidden(&path, detail));
        }
        (None, _) => {}
    }
}

fn validate_resources(wrong: &mut Vec<String>, path: &str, resources: &[ResourceSpec]) {
    for (at, resource) in resources.iter().enumerate() {
        if !(1..=100).contains(&resource.weight) {
            let detail = format!(
                "resource weight of {} not in valid range (0, 100]",
                resource.name
            );
            let path = format!("{path}[{at}].weight");
            wrong.push(invalid(&path, resource.weight, &detail));
        }
    }
}

fn validate_shape(wrong: &mut Vec<String>, path: &str, shape: &[ShapePoint]) {
    if shape.is_empty() {
        wrong.push(required(path, "at least one point must be specified"));
        return;
    }
    let pairs = shape.iter().zip(shape.iter().skip(1));
    let mut pairs = pairs.enumerate();
    if let Some((at, (_, point))) =
        pairs.find(|(_, (before, point))| before.utilization >= point.utilization)
    {
        let path = format!("{path}[{}].utilization", at + 1);
        let detail = "values must be sorted in increasing order";
        wrong.push(invalid(&path, point.utilization, detail));
    }
    for (at, point) in shape.iter().enumerate() {
        if !(0..=100).contains(&point.utilization) {
            let path = format!("{path}[{at}].utilization");
            let detail = "not in valid range [0, 100]";
            wrong.push(invalid(&path, point.utilization, detail));
        }
        if !(0..=10).contains(&point.score) {
            let path = format!("{path}[{at}].score");
            wrong.push(invalid(&path, point.score, "not in valid range [0, 10]"));
        }
    }
}

fn validate_spread(wrong: &mut Vec<String>, path: &str, args: &PodTopologySpread) {
    let types = ["System", "List"];
    let type_path = format!("{path}.defaultingType");
    if !types.contains(&args.defaulting_type.as_str()) {
        wrong.push(unsupported(&type_path, &args.defaulting_type, &types));
    } else if args.defaulting_type == "System" && !args.default_constraints.is_empty() {
        let detail = "when .defaultConstraints are not empty";
        wrong.push(invalid(&type_path, quoted("System"), detail));
    }
    let list = format!("{path}.defaultConstraints");
    let mut seen: Vec<(&str, &str)> = Vec::new();
    for (at, constraint) in args.default_constraints.iter().enumerate() {
        let path = format!("{list}[{at}]");
        let text = |field: &str| {
            let text = constraint.get(field).and_then(Value::as_str);
            text.unwrap_or_default()
        };
        let skew = constraint
            .get("maxSkew")
            .and_then(Value::as_i64)
            .unwrap_or(0);
        if skew <= 0 {
            let path = format!("{path}.maxSkew");
            wrong.push(invalid(&path, skew, "not in valid range (0, inf)"));
        }
        let (key, action) = (text("topologyKey"), text("whenUnsatisfiable"));
        let key_path = format!("{path}.topologyKey");
        if key.is_empty() {
            wrong.push(required(&key_path, "can not be empty"));
        } else {
            for detail in names::qualified_name(key) {
                wrong.push(invalid(&key_path, quoted(key), &detail));
            }
        }
        let action_path = format!("{path}.whenUnsatisfiable");
        let actions = ["DoNotSchedule", "ScheduleAnyway"];
        if action.is_empty() {
            wrong.push(required(&action_path, "can not be empty"));
        } else if !actions.contains(&action) {
            wrong.push(unsupported(&action_path, action, &actions));
        }
        if constraint
            .get("labelSelector")
            .is_some_and(|it| !it.is_null())
        {
            let detail = "constraint must not define a selector, as they deduced for each pod";
            wrong.push(forbidden(&format!("{path}.labelSelector"), detail));
        }
        if seen.contains(&(key, action)) {
            let value = quoted(&format!("{{{key}, {action}}}"));
            wrong.push(duplicate(&path, value));
        }
        seen.push((key, action));
    }
}

fn validate_extenders(wrong: &mut Vec<String>, extenders: &[ExtenderConfig]) {
    let mut managed = BTreeSet::new();
    for (at, extender) in extenders.iter().enumerate() {
        let path = format!("extenders[{at}]");
        if !extender.prioritize_verb.is_empty() && extender.weight <= 0 {
            let detail = "must have a positive weight applied to it";
            wrong.push(invalid(&format!("{path}.weight"), extender.weight, detail));
        }
        for (at, resource) in extender.managed_resources.iter().enumerate() {
            let path = format!("{path}.managedResources[{at}].name");
            let details = names::qualified_name(&resource.name);
            if details.is_empty() && !resource.name.contains('/') {
                let detail = "is an invalid extended resource name";
                wrong.push(invalid(&path, quoted(&resource.name), detail));
            }
            for detail in details {
                wrong.push(invalid(&path, quoted(&resource.name), &detail));
            }
            if !managed.insert(&resource.name) {
                let detail = "duplicate extender managed resource name";
                wrong.push(invalid(&path, quoted(&resource.name), detail));
            }
        }
    }
    let binders = extenders.iter().filter(|it| !it.bind_verb.is_empty());
    let binders = binders.count();
    if binders > 1 {
        let value = quoted(&format!("found {binders} extenders implementing bind"));
        let detail = "only one extender can implement bind";
        wrong.push(invalid("extenders", value, detail));
    }
}
