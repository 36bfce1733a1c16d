//! What pods were granted and what of it is in force, written down as the kubelet does:
//! `allocated_pods_state` and `actuated_pods_state` in the agent's folder.
//!
//! The agent that comes next reads in them what pods as a whole were granted; of
//! containers the API tells it ([`node_agent_pod_resources::resize::ResizeGrant`]). A kubelet that takes the node
//! over reads all: of a container that stands in neither it does not know what is in
//! force, and begins it anew where its `resizePolicy` says so. What cannot be read is
//! as if it had never been written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use node_agent_cri::observed::ObservedPod;
use node_agent_files::atomic_file;
use node_agent_objects::error_chain;
use node_agent_objects::pod::{PodSpec, ResourceRequirements};
use node_agent_pod_resources::pod_level_resources;
use node_agent_resource_managers::checkpoint;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::next::PodMemory;

const GRANTED: &str = "allocated_pods_state";
const IN_FORCE: &str = "actuated_pods_state";

/// How long changes are gathered before they are written.
const PAUSE: Duration = Duration::from_secs(1);

/// How long it takes until what could not be written is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// What a pod has, in the kubelet's form.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PodLevelAllocation {
    /// By container; in what is in force with limits that are the pod's.
    #[serde(rename = "ContainerResources", deserialize_with = "or_empty")]
    pub containers: BTreeMap<String, ResourceRequirements>,
    /// Of the pod as a whole, if it has any.
    #[serde(rename = "PodLevelResources")]
    pub pod: Option<ResourceRequirements>,
}

/// The allocated resources of one pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodAllocation {
    /// What it was granted.
    pub granted: PodLevelAllocation,
    /// What of that is in force.
    pub in_force: PodLevelAllocation,
}

/// The content of either file: data with a checksum.
#[derive(Deserialize)]
struct ChecksummedFile {
    data: String,
    checksum: u64,
}

#[derive(Deserialize)]
struct AllocationFileData {
    #[serde(default, deserialize_with = "or_empty")]
    entries: BTreeMap<String, PodLevelAllocation>,
}

/// Go writes a map that was never made as null.
fn or_empty<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// Allocated resources by pod uid. Each worker records its own pod.
#[derive(Default)]
pub struct Allocations {
    all: Mutex<BTreeMap<String, PodAllocation>>,
    changed: Notify,
}

impl Allocations {
    /// What was written down below `root`.
    #[must_use]
    pub fn read(root: &Path) -> Self {
        let mut all: BTreeMap<String, PodAllocation> = BTreeMap::new();
        for (uid, granted) in entries(&root.join(GRANTED)) {
            all.entry(uid).or_default().granted = granted;
        }
        // of a pod that was granted nothing, nothing is known
        for (uid, in_force) in entries(&root.join(IN_FORCE)) {
            if let Some(held) = all.get_mut(&uid) {
                held.in_force = in_force;
            }
        }
        Self {
            all: Mutex::new(all),
            changed: Notify::default(),
        }
    }

    /// What a pod has, as far as it is known.
    #[must_use]
    pub fn get(&self, uid: &str) -> Option<PodAllocation> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.get(uid).cloned()
    }

    /// Forgets all pods but those that `lives` says are there.
    pub fn retain(&self, lives: impl Fn(&str) -> bool) {
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let before = all.len();
        all.retain(|uid, _| lives(uid));
        if all.len() != before {
            self.changed.notify_one();
        }
    }

    /// Notes a pod: what it was granted, and what is in force.
    pub fn note(&self, uid: &str, granted: &PodSpec, observed: &ObservedPod, memory: &PodMemory) {
        let containers = granted.init_containers.iter().chain(&granted.containers);
        let granted = PodLevelAllocation {
            containers: containers
                .map(|container| (container.name.clone(), container.resources.clone()))
                .collect(),
            pod: granted.resources.clone(),
        };
        let mut now = granted.clone();
        if let Some(pod) = &memory.pod_in_force {
            let is_any = pod.requests.len() + pod.limits.len() > 0;
            now.pod = is_any.then(|| pod.clone());
        }
        for (name, resources) in &mut now.containers {
            let newest = observed.latest(name);
            match newest.and_then(|record| memory.in_force.get(&record.id)) {
                Some(held) => resources.clone_from(held),
                None => *resources = pod_level_resources::effective(resources, now.pod.as_ref()),
            }
        }
        let held = PodAllocation {
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
    fn written(&self, which: impl Fn(&PodAllocation) -> &PodLevelAllocation) -> String {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let entries: BTreeMap<&String, &PodLevelAllocation> =
            all.iter().map(|(uid, held)| (uid, which(held))).collect();
        let data = serde_json::json!({ "entries": entries }).to_string();
        let sum = checkpoint::checksum(&checkpoint::typed("string", &data));
        serde_json::json!({"data": data, "checksum": sum}).to_string()
    }

    fn write(&self, root: &Path) -> std::io::Result<()> {
        atomic_file::write(&root.join(GRANTED), &self.written(|held| &held.granted))?;
        atomic_file::write(&root.join(IN_FORCE), &self.written(|held| &held.in_force))
    }
}

/// What one of the files has; nothing when it is not there or not whole.
fn entries(path: &Path) -> BTreeMap<String, PodLevelAllocation> {
    let text = match checkpoint::read(path) {
        Ok(Some(text)) => text,
        Ok(None) => return BTreeMap::new(),
        Err(error) => {
            let error = error_chain(&error);
            tracing::warn!(error, "failed to read the allocation checkpoint");
            return BTreeMap::new();
        }
    };
    let read = || {
        let sealed: ChecksummedFile = serde_json::from_str(&text).ok()?;
        let sum = checkpoint::checksum(&checkpoint::typed("string", &sealed.data));
        let data: AllocationFileData = serde_json::from_str(&sealed.data).ok()?;
        (sum == sealed.checksum).then_some(data.entries)
    };
    read().unwrap_or_else(|| {
        let path = path.display();
        tracing::warn!(%path, "allocation checkpoint is corrupt; using the API's pod statuses");
        BTreeMap::new()
    })
}

/// Writes what changes, until `shutdown`.
pub async fn keep(allocations: Arc<Allocations>, root: PathBuf, shutdown: CancellationToken) {
    loop {
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = allocations.changed.notified() => {}
        }
        tokio::time::sleep(PAUSE).await;
        let (with, root) = (allocations.clone(), root.clone());
        let done = tokio::task::spawn_blocking(move || with.write(&root)).await;
        if let Ok(Err(error)) = done {
            // what is there stays, whole and old: perhaps nothing changes ever again
            tracing::warn!(%error, "failed to write the allocation checkpoint");
            allocations.changed.notify_one();
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
        let (none, nothing) = (ObservedPod::default(), PodMemory::default());
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
        let record = node_agent_cri::observed::ObservedContainer::from_status(
            &node_agent_cri::api::ContainerStatus {
                id: "1".to_owned(),
                labels: [(
                    node_agent_cri::observed::key::CONTAINER_NAME.to_owned(),
                    "main".to_owned(),
                )]
                .into(),
                ..Default::default()
            },
            "s",
        );
        let observed = ObservedPod {
            containers: record.map(Arc::new).into_iter().collect(),
            ..ObservedPod::default()
        };
        let held = before.containers[0].resources.clone();
        let mut memory = PodMemory::default();
        memory.in_force.insert("1".to_owned(), held);
        all.note("u", &after, &observed, &memory);
        assert!(all.written(|held| &held.granted).contains("90Mi"));
        assert!(all.written(|held| &held.in_force).contains("60Mi"));
        all.forget("u");
        assert!(!all.written(|held| &held.granted).contains("90Mi"));
    }

    #[test]
    fn what_was_written_is_read_again_and_what_is_broken_is_not_there() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(Allocations::read(root.path()).get("u"), None);
        let of = |memory: &str| {
            spec(serde_json::json!({
                "resources": {"limits": {"memory": memory}},
                "containers": [{"name": "a"}]}))
        };
        let all = Allocations::default();
        let memory = PodMemory {
            pod_in_force: of("60Mi").resources,
            ..PodMemory::default()
        };
        all.note("u", &of("90Mi"), &ObservedPod::default(), &memory);
        all.note(
            "v",
            &of("10Mi"),
            &ObservedPod::default(),
            &PodMemory::default(),
        );
        all.write(root.path()).unwrap();
        let again = Allocations::read(root.path());
        assert_eq!(again.get("u"), all.get("u"));
        let held = again.get("u").unwrap();
        assert_eq!(held.granted.pod.unwrap().limits["memory"], "90Mi");
        assert_eq!(held.in_force.pod.unwrap().limits["memory"], "60Mi");
        // what the container has of its pod
        assert_eq!(held.in_force.containers["a"].limits["memory"], "60Mi");
        again.retain(|uid| uid == "u");
        assert_eq!((again.get("u").is_some(), again.get("v")), (true, None));
        // a kubelet's
        std::fs::write(root.path().join(GRANTED), KUBELETS).unwrap();
        let kubelets = Allocations::read(root.path());
        let held = kubelets
            .get("f36981cb-351d-4628-aec1-ea6ad4f4085a")
            .unwrap();
        assert_eq!(held.granted.containers["main"].limits["cpu"], "300m");
        let nothing = r#"{"data":"{\"entries\":null}","checksum":1}"#;
        for broken in ["", "{", nothing, &KUBELETS.replace("300m", "400m")] {
            std::fs::write(root.path().join(GRANTED), broken).unwrap();
            let read = Allocations::read(root.path());
            assert_eq!(read.get("f36981cb-351d-4628-aec1-ea6ad4f4085a"), None);
        }
    }

    #[tokio::test]
    async fn what_a_full_disk_does_not_take_is_written_when_there_is_room() {
        let mount_point = tempfile::tempdir().unwrap();
        let Some(disk) = node_agent_files::testing::SmallDisk::new(mount_point.path(), 256) else {
            return;
        };
        let allocations = Arc::new(Allocations::default());
        let (none, nothing) = (ObservedPod::default(), PodMemory::default());
        let note = |memory| {
            let main = spec(limited(memory));
            allocations.note("u", &main, &none, &nothing);
        };
        let read = |name: &str| std::fs::read_to_string(disk.path().join(name)).unwrap_or_default();
        let holds = |memory: &str| [GRANTED, IN_FORCE].iter().all(|n| read(n).contains(memory));
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(keep(
            allocations.clone(),
            disk.path().to_owned(),
            shutdown.clone(),
        ));
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
        let allocations = Arc::new(Allocations::default());
        let shutdown = CancellationToken::new();
        let task = tokio::spawn(keep(
            allocations.clone(),
            root.path().to_owned(),
            shutdown.clone(),
        ));
        let main = spec(limited("60Mi"));
        allocations.note("u", &main, &ObservedPod::default(), &PodMemory::default());
        let file = root.path().join(IN_FORCE);
        while !std::fs::read_to_string(&file).is_ok_and(|text| text.contains("60Mi")) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        shutdown.cancel();
        task.await.unwrap();
    }
}
