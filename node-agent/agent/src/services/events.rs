//! Tells people, by events, what objects ask for and do not get.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
};

use control_client::{
    Client,
    events::{Format, ObjectReference, Recorder},
};
use node_agent_plan::{Fullness, Planner, Problem};

use super::health::NodePortHealth;

/// From this part on a map is called full, so that there is time to act.
const FULL: f64 = 0.9;

/// Emits events about problems of objects, each once.
pub struct EventReporter {
    recorder: Recorder,
    node: ObjectReference,
    version: u64,
    problems: BTreeSet<Problem>,
    /// There are some that the recorder had no room for.
    behind: bool,
    full: BTreeMap<&'static str, usize>,
}

// === impl Told ===

impl EventReporter {
    pub fn new(client: &Client, node_name: &str) -> Self {
        Self {
            recorder: Recorder::new(client, "kube-proxy", node_name, Format::Core),
            node: ObjectReference {
                api_version: "v1".to_owned(),
                kind: "Node".to_owned(),
                name: node_name.to_owned(),
                // As kubelets do: the node's own events carry its name.
                uid: node_name.to_owned(),
                ..ObjectReference::default()
            },
            version: 0,
            problems: BTreeSet::new(),
            behind: false,
            full: BTreeMap::new(),
        }
    }

    /// Are there problems yet to be told, once the recorder has sent others?
    pub const fn is_behind(&self) -> bool {
        self.behind
    }

    /// Tells problems that are new, as many as the recorder takes. `uid` knows
    /// Services by their names.
    pub fn problems(&mut self, planner: &Planner, uid: impl Fn(&str, &str) -> Option<String>) {
        if self.version == planner.problems_version() && !self.behind {
            return;
        }
        self.version = planner.problems_version();
        let mut present: BTreeSet<Problem> = planner.problems().collect();
        let new: Vec<Problem> = present.difference(&self.problems).cloned().collect();
        let (now, later) = new.split_at(new.len().min(self.recorder.room()));
        self.behind = !later.is_empty();
        for problem in later {
            present.remove(problem);
        }
        for problem in now {
            let object = &problem.object;
            let regarding = ObjectReference {
                api_version: "v1".to_owned(),
                kind: object.kind.to_owned(),
                namespace: object.namespace.to_string(),
                name: object.name.to_string(),
                // Of Pods only names are known.
                uid: (object.kind == "Service")
                    .then(|| uid(&object.namespace, &object.name))
                    .flatten()
                    .unwrap_or_default(),
                ..ObjectReference::default()
            };
            let message = problem.reason.to_string();
            if problem.reason.is_notice() {
                self.recorder
                    .normal(&regarding, problem.reason.word(), message);
            } else {
                self.recorder
                    .warning(&regarding, problem.reason.word(), message);
            }
        }
        self.problems = present;
    }

    /// Tells maps that are about to be full, on the Node.
    pub fn fullness(&mut self, maps: &[Fullness]) {
        for map in maps {
            if !is_full(map) {
                self.full.remove(map.map);
            } else if self.full.insert(map.map, map.used).is_none() {
                let message = format!(
                    "map {} holds {} of {} entries; when it is full, further endpoints are left out: \
                     give the node agent larger maps",
                    map.map, map.used, map.capacity
                );
                tracing::warn!(
                    map = map.map,
                    used = map.used,
                    capacity = map.capacity,
                    "a map is nearly full"
                );
                self.recorder
                    .warning(&self.node, "DatapathMapFull", message);
            }
        }
    }

    /// Tells that a Service's health check cannot be served here.
    pub fn health_check(&self, check: &NodePortHealth, error: &io::Error) {
        let regarding = ObjectReference {
            api_version: "v1".to_owned(),
            kind: "Service".to_owned(),
            namespace: check.namespace.clone(),
            name: check.name.clone(),
            ..ObjectReference::default()
        };
        let message = format!(
            "node port {} of the health check cannot be listened at: {error}",
            check.port
        );
        self.recorder
            .warning(&regarding, "FailedToStartServiceHealthcheck", message);
    }
}

#[expect(clippy::cast_precision_loss, reason = "a part of a whole")]
fn is_full(map: &Fullness) -> bool {
    map.used as f64 >= map.capacity as f64 * FULL
}

#[cfg(test)]
mod tests;
