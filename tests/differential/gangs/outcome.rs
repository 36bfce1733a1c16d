//! What became of pods and PodGroups, without what is chance.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use crate::case::text;
use crate::stage::scheduled;

/// What became of all pods and PodGroups of a scenario.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What became of each group, in an order of its own.
    groups: Vec<GroupOutcome>,
}

/// What became of one group, or of the pods without one.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct GroupOutcome {
    /// Status, reason and message of its condition.
    condition: Option<[String; 3]>,
    /// What became of its pods, in an order of its own.
    pods: Vec<PodOutcome>,
}

/// What became of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct PodOutcome {
    is_bound: bool,
    is_nominated: bool,
    /// Status, reason and message of `PodScheduled`.
    condition: Option<[String; 3]>,
    /// Reasons of events about it.
    events: BTreeSet<String>,
}

fn three(condition: &Value) -> [String; 3] {
    ["/status", "/reason", "/message"].map(|field| text(condition, field).to_owned())
}

fn reasons(pod: &Value, events: &[Value]) -> BTreeSet<String> {
    let uid = text(pod, "/metadata/uid");
    let about = events.iter();
    let about = about.filter(|it| text(it, "/regarding/uid") == uid);
    about.map(|it| text(it, "/reason").to_owned()).collect()
}

impl Outcome {
    /// What these objects show.
    pub fn of(pods: &[Value], groups: &[Value], events: &[Value]) -> Self {
        let mut of_groups: BTreeMap<&str, GroupOutcome> = BTreeMap::new();
        for group in groups {
            let conditions = group["status"]["conditions"].as_array();
            let mut conditions = conditions.into_iter().flatten();
            let condition = conditions.find(|it| it["type"] == "PodGroupScheduled");
            let name = text(group, "/metadata/name");
            of_groups.entry(name).or_default().condition = condition.map(three);
        }
        for pod in pods {
            let group = text(pod, "/spec/schedulingGroup/podGroupName");
            let is_bound = !text(pod, "/spec/nodeName").is_empty();
            of_groups.entry(group).or_default().pods.push(PodOutcome {
                is_bound,
                // What is left of a nomination after the binding is a race.
                is_nominated: !is_bound && !text(pod, "/status/nominatedNodeName").is_empty(),
                condition: scheduled(pod).map(three),
                events: reasons(pod, events),
            });
        }
        let mut groups: Vec<GroupOutcome> = of_groups.into_values().collect();
        for group in &mut groups {
            group.pods.sort();
        }
        groups.sort();
        Self { groups }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for group in &self.groups {
            writeln!(f, "  group {:?}", group.condition)?;
            for pod in &group.pods {
                writeln!(
                    f,
                    "    bound {} nominated {} {:?} {:?}",
                    pod.is_bound, pod.is_nominated, pod.condition, pod.events
                )?;
            }
        }
        Ok(())
    }
}
