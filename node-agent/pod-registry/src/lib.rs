//! The pods of this node as their workers last wrote them, for all who read them, and requests
//! to end them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use node_agent_cri::observed::ObservedPod;
use node_agent_objects::pod::Pod;
use node_agent_objects::status::PodStatus;
use node_agent_pod_resources::resize::Capacity;
use rustc_hash::{FxHashMap, FxHashSet};

/// The reason why the whole pod is terminated, whatever its containers do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminationCause {
    /// One word, such as `DeadlineExceeded`.
    pub reason: String,
    /// A sentence.
    pub message: String,
    /// Whether the node, not the pod, was the cause (`DisruptionTarget`).
    pub disruption: bool,
}

/// A request to a pod's worker to terminate the pod.
#[derive(Clone, Debug)]
pub struct EvictionRequest {
    /// Its uid.
    pub uid: String,
    /// Why.
    pub sentence: TerminationCause,
    /// Seconds that it gets.
    pub grace: i64,
}

/// A pod as the serving API sees it.
#[derive(Clone)]
pub struct PodEntry {
    /// The pod.
    pub pod: Arc<Pod>,
    /// What the runtime has of it.
    pub observed: Arc<ObservedPod>,
    /// Its status as last made.
    pub status: Arc<PodStatus>,
    /// By name: where volumes are that are not its own.
    pub places: Arc<BTreeMap<String, PathBuf>>,
}

/// The pods of this node by uid. Each worker writes its own entry.
#[derive(Default)]
pub struct PodRegistry(RwLock<PodTable>);

#[derive(Default)]
struct PodTable {
    entries: FxHashMap<String, PodEntry>,
    /// Those that the API has no more and whose containers still end: deleted by force, or
    /// with no grace period. They hold nothing against a pod that comes now, as in the
    /// kubelet: a refusal would be for good, and what they hold is free in a moment.
    disowned: FxHashSet<String>,
}

impl PodRegistry {
    /// The pod of that name.
    #[must_use]
    pub fn find(&self, namespace: &str, name: &str) -> Option<PodEntry> {
        self.read(|pods| {
            let all = pods.entries.values();
            all.filter(|e| e.pod.namespace() == namespace && e.pod.name() == name)
                .max_by_key(|e| e.pod.metadata.creation_timestamp)
                .cloned()
        })
    }

    /// The pod of that uid.
    #[must_use]
    pub fn get(&self, uid: &str) -> Option<PodEntry> {
        self.read(|pods| pods.entries.get(uid).cloned())
    }

    /// All pods.
    #[must_use]
    pub fn all(&self) -> Vec<PodEntry> {
        self.read(|pods| pods.entries.values().cloned().collect())
    }

    /// The pods beside which another must find room: all but itself, those that have ended and
    /// those that the API has no more.
    #[must_use]
    pub fn beside(&self, uid: &str) -> Vec<Arc<Pod>> {
        self.read(|pods| pods.beside(uid).map(|e| e.pod.clone()).collect())
    }

    /// What these pods hold of CPU and memory.
    #[must_use]
    pub fn room(&self, but: &str) -> Capacity {
        self.read(|pods| {
            pods.beside(but)
                .map(|e| Capacity::asked(&e.pod.spec))
                .fold(Capacity::default(), Capacity::plus)
        })
    }

    /// Writes a pod's entry.
    pub fn put(&self, entry: PodEntry) {
        self.write(|pods| {
            pods.entries.insert(entry.pod.uid().to_owned(), entry);
        });
    }

    /// Notes that the API has the pod no more.
    pub fn disown(&self, uid: &str) {
        self.write(|pods| {
            if pods.entries.contains_key(uid) {
                pods.disowned.insert(uid.to_owned());
            }
        });
    }

    /// Takes a pod's entry away.
    pub fn remove(&self, uid: &str) {
        self.write(|pods| {
            pods.entries.remove(uid);
            pods.disowned.remove(uid);
        });
    }

    fn read<T>(&self, with: impl FnOnce(&PodTable) -> T) -> T {
        // a writer that panicked left whole entries
        with(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write(&self, with: impl FnOnce(&mut PodTable)) {
        with(&mut self.0.write().unwrap_or_else(PoisonError::into_inner));
    }
}

impl PodTable {
    fn beside(&self, uid: &str) -> impl Iterator<Item = &PodEntry> {
        self.entries.values().filter(move |entry| {
            let other = entry.pod.uid();
            other != uid && !entry.status.is_terminal() && !self.disowned.contains(other)
        })
    }
}

/// Where the pod's logs are.
#[must_use]
pub fn log_directory(root: &Path, pod: &Pod) -> PathBuf {
    root.join(format!("{}_{}_{}", pod.namespace(), pod.name(), pod.uid()))
}

/// A container's log, below the pod's log directory.
#[must_use]
pub fn log_path(container: &str, restarts: u32) -> String {
    format!("{container}/{restarts}.log")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_that_the_api_has_no_more_hold_nothing_against_others() {
        let registry = PodRegistry::default();
        let spec = serde_json::json!({"containers": [
            {"name": "a", "resources": {"requests": {"cpu": "1"}}},
        ]});
        let pod = |name: &str| {
            let metadata = serde_json::json!({"name": name, "namespace": "default", "uid": name});
            let pod = serde_json::json!({"metadata": metadata, "spec": spec});
            serde_json::from_value(pod).unwrap()
        };
        let entry = |name: &str| PodEntry {
            pod: Arc::new(pod(name)),
            observed: Default::default(),
            status: Default::default(),
            places: Default::default(),
        };
        let (old, kept) = (entry("old"), entry("kept"));
        let uid = old.pod.uid().to_owned();
        registry.put(old.clone());
        registry.put(kept);
        assert_eq!(registry.beside("new").len(), 2);
        registry.disown(&uid);
        // Its worker goes on writing what it sees until the containers have ended.
        registry.put(old.clone());
        let names = |pods: Vec<Arc<Pod>>| pods.iter().map(|it| it.name().to_owned()).collect();
        let beside: Vec<String> = names(registry.beside("new"));
        assert_eq!(beside, ["kept"]);
        assert_eq!(registry.room("new"), Capacity::asked(&old.pod.spec));
        assert!(registry.get(&uid).is_some());
        registry.remove(&uid);
        registry.put(old);
        assert_eq!(registry.beside("new").len(), 2, "a static pod came back");
    }
}
