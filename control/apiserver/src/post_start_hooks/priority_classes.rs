//! The two classes of pods that the cluster cannot do without.

use std::time::Duration;

use control_types::status::Status;
use control_types::value;
use futures::FutureExt;

use super::{PostStartHook, SETTLE};
use crate::api::Api;
use control_registry::own;

pub(super) static HOOK: PostStartHook = PostStartHook {
    name: "priority classes",
    follows: &[],
    every: Duration::from_secs(3600),
    settle: SETTLE,
    run: |api| run(api).boxed(),
    stop: None,
};

const CLASSES: &[(&str, i64, &str)] = &[
    (
        "system-node-critical",
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    (
        "system-cluster-critical",
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
];

async fn run(api: &Api) -> Result<(), Status> {
    for &(name, level, description) in CLASSES {
        let object = value!({
            "kind": "PriorityClass",
            "apiVersion": "scheduling.k8s.io/v1",
            "metadata": {"name": name, "generation": 1},
            "value": level,
            "description": description,
            "preemptionPolicy": "PreemptLowerPriority"
        });
        own::ensure(
            api,
            ("scheduling.k8s.io", "priorityclasses"),
            own::OWN,
            object,
            |_, _| false,
        )
        .await?;
    }
    Ok(())
}
