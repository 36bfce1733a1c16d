//! The history of a cluster, step by step, as proptest generates it.

use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::api::{ObjectKey, WriteFault};
use crate::cluster::Cluster;

/// One step.
#[derive(Debug, Clone)]
pub enum Step {
    Wait(Duration),
    User(Action),
    Fault(Fault),
}

/// What a user or an operator does.
#[derive(Debug, Clone)]
pub enum Action {
    /// Deletes an object, with a propagation policy.
    Delete(ObjectKey, &'static str),
    /// Sets a field of an object to a value.
    Set(ObjectKey, &'static str, Value),
    /// Creates an object, unless it exists.
    Create(&'static str, Value),
    /// Powers a node off.
    PowerOff(&'static str),
    /// Powers a node on.
    PowerOn(&'static str),
}

/// A fault.
#[derive(Debug, Clone)]
pub enum Fault {
    /// The server is unreachable for a time.
    Outage(Duration),
    /// The next writes of controllers fail.
    Writes(Vec<WriteFault>),
    /// Watches of a resource are late until [`Fault::Heal`].
    Hold(&'static str),
    /// A resource cannot be read until [`Fault::Heal`].
    Unreadable(&'static str),
    /// All watches break; they can resume.
    CutWatches,
    /// All watches break, and cannot resume.
    Expire,
    /// The controllers die and are started again.
    Crash,
    /// All faults end.
    Heal,
}

impl Action {
    /// Applies the action.
    pub fn apply(&self, cluster: &Cluster) {
        match self {
            Self::Delete(key, policy) => {
                cluster
                    .api
                    .delete(key, &json!({"propagationPolicy": policy}));
            }
            Self::Set(key, pointer, value) => cluster.api.change(key, |object| {
                if let Some(field) = object.pointer_mut(pointer) {
                    *field = value.clone();
                }
            }),
            Self::Create(resource, object) => {
                let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
                if cluster
                    .api
                    .get(resource, text("namespace"), text("name"))
                    .is_none()
                {
                    cluster.api.put(resource, object.clone());
                }
            }
            Self::PowerOff(node) => {
                cluster.dead.lock().unwrap().insert((*node).to_owned());
            }
            Self::PowerOn(node) => {
                cluster.dead.lock().unwrap().remove(*node);
            }
        }
    }
}

/// Up to `most` steps: actions of users, faults of the given resources, and time between.
pub fn history(
    actions: Vec<Action>,
    resources: &'static [&'static str],
    most: usize,
) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        4 => (0_u64..4_000).prop_map(|millis| Step::Wait(Duration::from_millis(millis))),
        1 => (5_u64..90).prop_map(|seconds| Step::Wait(Duration::from_secs(seconds))),
        5 => proptest::sample::select(actions).prop_map(Step::User),
        5 => fault(resources).prop_map(Step::Fault),
    ];
    proptest::collection::vec(step, 0..=most)
}

fn fault(resources: &'static [&'static str]) -> impl Strategy<Value = Fault> {
    use WriteFault::{Conflict, Crash, LoseAnswer, Refuse};
    let write = proptest::sample::select(vec![Conflict, Crash, LoseAnswer, Refuse]);
    prop_oneof![
        1 => (100_u64..40_000).prop_map(|millis| Fault::Outage(Duration::from_millis(millis))),
        4 => proptest::collection::vec(write, 1..4).prop_map(Fault::Writes),
        3 => proptest::sample::select(resources).prop_map(Fault::Hold),
        1 => proptest::sample::select(resources).prop_map(Fault::Unreadable),
        1 => Just(Fault::CutWatches),
        2 => Just(Fault::Expire),
        2 => Just(Fault::Crash),
        3 => Just(Fault::Heal),
    ]
}

/// The key of an object.
pub fn key(resource: &str, namespace: &str, name: &str) -> ObjectKey {
    ObjectKey {
        resource: resource.into(),
        namespace: namespace.into(),
        name: name.into(),
    }
}
