//! The two classes of pods that the cluster cannot do without.

use std::time::Duration;

use control_types::status::Status;
use control_types::value;
use futures::FutureExt;

use super::PostStartHook;
use control_registry::{Registry, own};

pub(super) static HOOK: PostStartHook =
    PostStartHook::new("priority classes", Duration::from_secs(3600), |context| {
        run(context).boxed()
    });

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

async fn run(registry: &Registry) -> Result<(), Status> {
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
            registry,
            ("scheduling.k8s.io", "priorityclasses"),
            own::OWN,
            object,
            |_, _| false,
        )
        .await?;
    }
    Ok(())
}
