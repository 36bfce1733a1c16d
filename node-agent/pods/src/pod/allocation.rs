//! What pods were granted and what of it is in force, written down as the kubelet does:
//! `allocated_pods_state` and `actuated_pods_state` in the agent's folder.
//!
//! The agent itself needs neither, the API tells it ([`super::resize::Grant`]). They are
//! for a kubelet that takes the node over: of a container that stands in neither it does
//! not know what is in force, and begins it anew where its `resizePolicy` says so.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustc_hash::FxHashMap;
use serde::Serialize;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::durable;
use super::observed::Observed;
use crate::managers::checkpoint;
use crate::objects::pod::{PodSpec, Resources};
use crate::shared::Shared;

const GRANTED: &str = "allocated_pods_state";
const IN_FORCE: &str = "actuated_pods_state";

/// How long changes are gathered before they are written.
const PAUSE: Duration = Duration::from_secs(1);

/// How long it takes until what could not be written is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// What a pod has, in the kubelet's form.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
struct PodResources {
    #[serde(rename = "ContainerResources")]
    containers: BTreeMap<String, Resources>,
    #[serde(rename = "PodLevelResources")]
    pod: Option<Resources>,
}

#[derive(Clone, Debug, PartialEq)]
struct Held {
    granted: PodResources,
    in_force: PodResources,
}

/// What the node's pods have, by uid. Each worker notes its own pod.
#[derive(Default)]
pub struct Allocations {
    all: Mutex<BTreeMap<String, Held>>,
    changed: Notify,
}

impl Allocations {
    /// Notes a pod: what it was granted, and what is in force by container id.
    pub fn note(
        &self,
        uid: &str,
        granted: &PodSpec,
        observed: &Observed,
        in_force: &FxHashMap<String, Resources>,
    ) {
        let containers = granted.init_containers.iter().chain(&granted.containers);
        let granted = PodResources {
            containers: containers
                .map(|container| (container.name.clone(), container.resources.clone()))
                .collect(),
            pod: granted.resources.clone(),
        };
        let mut now = granted.clone();
        for (name, resources) in &mut now.containers {
            let newest = observed.latest(name);
            if let Some(held) = newest.and_then(|record| in_force.get(&record.id)) {
                resources.clone_from(held);
            }
        }
        let held = Held {
            granted,
            in_force: now,
        };
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if all.get(uid) != Some(&held) {
            all.insert(uid.to_owned(), held);
            self.changed.notify_one();
        }
    }

    /// Forgets a pod that is gone.
    pub fn forget(&self, uid: &str) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        if all.remove(uid).is_some() {
            self.changed.notify_one();
        }
    }

    /// The text of either file.
    fn written(&self, which: impl Fn(&Held) -> &PodResources) -> String {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let entries: BTreeMap<&String, &PodResources> =
            all.iter().map(|(uid, held)| (uid, which(held))).collect();
        let data = serde_json::json!({ "entries": entries }).to_string();
        let sum = checkpoint::checksum(&checkpoint::typed("string", &data));
        serde_json::json!({"data": data, "checksum": sum}).to_string()
    }

    fn write(&self, root: &Path) -> std::io::Result<()> {
        durable::write(&root.join(GRANTED), &self.written(|held| &held.granted))?;
        durable::write(&root.join(IN_FORCE), &self.written(|held| &held.in_force))
    }
}

/// Writes what changes, until `shutdown`.
pub async fn keep(shared: Arc<Shared>, shutdown: CancellationToken) {
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = shared.allocations.changed.notified() => {}
        }
        tokio::time::sleep(PAUSE).await;
        let with = shared.clone();
        let done = tokio::task::spawn_blocking(move || with.allocations.write(&with.root)).await;
        if let Ok(Err(error)) = done {
            // what is there stays, whole and old: perhaps nothing changes ever again
            tracing::warn!(%error, "cannot write down what pods were granted");
            shared.allocations.changed.notify_one();
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(RETRY) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As a kubelet of 1.36 wrote it.
    const KUBELETS: &str = r#"{"data":"{\"entries\":{\"a287dda8-bf91-464a-a54a-e40653480299\":{\"ContainerResources\":{\"coredns\":{}},\"PodLevelResources\":null},\"f36981cb-351d-4628-aec1-ea6ad4f4085a\":{\"ContainerResources\":{\"first\":{},\"main\":{\"limits\":{\"cpu\":\"300m\",\"memory\":\"60Mi\"},\"requests\":{\"cpu\":\"20m\",\"memory\":\"20Mi\"}}},\"PodLevelResources\":null}}}","checksum":180646357}"#;

    fn spec(json: serde_json::Value) -> PodSpec {
        serde_json::from_value(json).unwrap()
    }

    fn limited(memory: &str) -> serde_json::Value {
        serde_json::json!({
            "initContainers": [{"name": "first"}],
            "containers": [{"name": "main", "resources": {
                "requests": {"cpu": "20m", "memory": "20Mi"},
                "limits": {"cpu": "300m", "memory": memory},
            }}],
        })
    }

    #[test]
    fn what_pods_have_is_written_as_the_kubelet_writes_it() {
        let all = Allocations::default();
        let (none, nothing) = (Observed::default(), FxHashMap::default());
        let dns = spec(serde_json::json!({"containers": [{"name": "coredns"}]}));
        all.note(
            "a287dda8-bf91-464a-a54a-e40653480299",
            &dns,
            &none,
            &nothing,
        );
        let main = spec(limited("60Mi"));
        all.note(
            "f36981cb-351d-4628-aec1-ea6ad4f4085a",
            &main,
            &none,
            &nothing,
        );
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(read(&all.written(|held| &held.granted)), read(KUBELETS));
        assert_eq!(read(&all.written(|held| &held.in_force)), read(KUBELETS));
    }

    #[test]
    fn what_is_in_force_is_told_apart_from_what_was_granted() {
        let all = Allocations::default();
        let (before, after) = (spec(limited("60Mi")), spec(limited("90Mi")));
        let record = crate::pod::observed::Container::from_status(
            &crate::cri::api::ContainerStatus {
                id: "1".to_owned(),
                labels: [(
                    crate::pod::observed::key::CONTAINER_NAME.to_owned(),
                    "main".to_owned(),
                )]
                .into(),
                ..Default::default()
            },
            "s",
        );
        let observed = Observed {
            containers: record.map(Arc::new).into_iter().collect(),
            ..Observed::default()
        };
        let held = before.containers[0].resources.clone();
        let in_force = FxHashMap::from_iter([("1".to_owned(), held)]);
        all.note("u", &after, &observed, &in_force);
        assert!(all.written(|held| &held.granted).contains("90Mi"));
        assert!(all.written(|held| &held.in_force).contains("60Mi"));
        all.forget("u");
        assert!(!all.written(|held| &held.granted).contains("90Mi"));
    }

    #[tokio::test]
    async fn what_a_full_disk_does_not_take_is_written_when_there_is_room() {
        let Some(disk) = crate::testing::SmallDisk::new(256) else {
            return;
        };
        let (orders, _) = tokio::sync::mpsc::unbounded_channel();
        let runtime = crate::cri::fake::Fake::default();
        let shared = crate::testing::shared(&runtime, disk.path(), orders, Arc::default());
        let shared = Arc::new(shared);
        let (none, nothing) = (Observed::default(), FxHashMap::default());
        let note = |memory| {
            let main = spec(limited(memory));
            shared.allocations.note("u", &main, &none, &nothing);
        };
        let read = |name: &str| std::fs::read_to_string(disk.path().join(name)).unwrap_or_default();
        let holds = |memory: &str| [GRANTED, IN_FORCE].iter().all(|n| read(n).contains(memory));
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(keep(shared.clone(), shutdown.clone()));
        let until = async |memory: &str| {
            for _ in 0..400 {
                if holds(memory) {
                    return true;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            false
        };
        note("60Mi");
        assert!(until("60Mi").await);
        disk.fill();
        note("90Mi");
        tokio::time::sleep(PAUSE * 2).await;
        // old and whole; nothing changes from now on
        assert!(holds("60Mi") && !holds("90Mi"));
        let checked: serde_json::Value = serde_json::from_str(&read(GRANTED)).unwrap();
        let sum = checkpoint::checksum(&checkpoint::typed(
            "string",
            checked["data"].as_str().unwrap(),
        ));
        assert_eq!(checked["checksum"], sum);
        disk.free();
        assert!(until("90Mi").await, "{}", read(GRANTED));
        shutdown.cancel();
        task.await.unwrap();
    }

    #[tokio::test]
    async fn a_change_reaches_the_disk() {
        let root = tempfile::tempdir().unwrap();
        let (orders, _) = tokio::sync::mpsc::unbounded_channel();
        let runtime = crate::cri::fake::Fake::default();
        let shared = Arc::new(crate::testing::shared(
            &runtime,
            root.path(),
            orders,
            Arc::default(),
        ));
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(keep(shared.clone(), shutdown.clone()));
        let main = spec(limited("60Mi"));
        shared
            .allocations
            .note("u", &main, &Observed::default(), &FxHashMap::default());
        let file = root.path().join(IN_FORCE);
        while !std::fs::read_to_string(&file).is_ok_and(|text| text.contains("60Mi")) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        shutdown.cancel();
        task.await.unwrap();
    }
}
