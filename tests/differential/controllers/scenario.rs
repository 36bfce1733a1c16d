//! What a case does to a cluster, step by step.

use std::time::Duration;

use control_client::{Propagation, Resource};
use serde_json::Value;

/// A case: objects that are created, changed and deleted in a namespace of its own.
#[derive(Debug, Clone)]
pub struct Case {
    /// The seed that it was made from.
    pub seed: u64,
    /// What kind of case it is, such as `deployment`.
    pub family: &'static str,
    /// What is done, one after the other. The cluster comes to rest after each.
    pub steps: Vec<Step>,
}

/// What is done in a step, and how long nothing may happen until it is over.
#[derive(Debug, Clone)]
pub struct Step {
    /// What is done, in order and without a pause.
    pub actions: Vec<Action>,
    /// The cluster is at rest when nothing happened in the case's namespaces for this long.
    pub calm: Duration,
}

/// One request of a user.
#[derive(Debug, Clone)]
pub enum Action {
    /// Creates an object. `metadata.namespace` defaults to the case's.
    Create(Resource, Value),
    /// Merges a patch (RFC 7386) into an object of the case's namespace.
    Patch(Resource, String, Value),
    /// Deletes an object of the case's namespace.
    Delete(Resource, String, Propagation),
    /// Merges a patch into one of the pods with this label `app`; any, since they are alike.
    PatchPod(String, Value),
    /// Deletes one of the pods with this label `app`.
    DeletePod(String),
    /// Waits until this many seconds of the next minute are over.
    NextMinute(u64),
}

/// How long controllers that work at once are given.
pub const CALM: Duration = Duration::from_millis(2500);
/// Longer than the first back-off of failed pods of a Job.
pub const AFTER_BACKOFF: Duration = Duration::from_secs(12);
/// Longer than the period of the autoscaler.
pub const AFTER_PERIOD: Duration = Duration::from_secs(17);

impl Step {
    /// A step that is over soon.
    pub fn new(actions: impl IntoIterator<Item = Action>) -> Self {
        Self {
            actions: actions.into_iter().collect(),
            calm: CALM,
        }
    }

    /// The same with another time of rest.
    pub const fn calm(mut self, calm: Duration) -> Self {
        self.calm = calm;
        self
    }
}

impl Case {
    /// The namespace of the case. Cluster-scoped objects and other namespaces begin with it.
    pub fn namespace(&self) -> String {
        namespace_of(self.seed)
    }

    /// The steps in lines, for people.
    pub fn describe(&self) -> String {
        let mut text = String::new();
        for (number, step) in self.steps.iter().enumerate() {
            for action in &step.actions {
                text.push_str(&format!("  {}. {}\n", number + 1, action.describe()));
            }
        }
        text
    }
}

/// The namespace of the case with this seed.
pub fn namespace_of(seed: u64) -> String {
    format!("case-{seed}")
}

impl Action {
    fn describe(&self) -> String {
        let short = |value: &Value| {
            let text = value.to_string();
            match text.char_indices().nth(400) {
                Some((end, _)) => format!("{}…", &text[..end]),
                None => text,
            }
        };
        match self {
            Self::Create(resource, object) => {
                let name = object["metadata"]["name"].as_str().unwrap_or_default();
                let mut rest = object.clone();
                if let Some(rest) = rest.as_object_mut() {
                    rest.remove("metadata");
                }
                format!("create {resource}/{name} {}", short(&rest))
            }
            Self::Patch(resource, name, patch) => {
                format!("patch {resource}/{name} {}", short(patch))
            }
            Self::Delete(resource, name, policy) => {
                format!("delete {resource}/{name} {policy:?}")
            }
            Self::PatchPod(app, patch) => format!("patch a pod of {app} {}", short(patch)),
            Self::DeletePod(app) => format!("delete a pod of {app}"),
            Self::NextMinute(seconds) => format!("wait until {seconds} s past the minute"),
        }
    }
}
