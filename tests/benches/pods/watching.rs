//! The pod events of a watch, and their times.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt as _,
    runtime::{WatchStreamExt as _, watcher},
};
use tests::Failure;
use tokio::{sync::Notify, task::AbortHandle};

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(600);

/// What was seen of one pod.
#[derive(Clone, Default)]
pub struct Seen {
    /// When it was first seen bound.
    pub bound: Option<Instant>,
    /// When it was first seen ready.
    pub ready: Option<Instant>,
    /// Whether it is ready.
    pub is_ready: bool,
    /// How often it was no longer ready.
    pub flips: usize,
    /// All containers that it ever had.
    pub containers: BTreeSet<String>,
    /// How often they were restarted.
    pub restarts: i32,
    /// Its uid.
    pub uid: String,
}

impl Seen {
    fn note(&mut self, pod: &Pod, now: Instant) {
        self.uid = pod.uid().unwrap_or_default();
        let bound = pod
            .spec
            .as_ref()
            .is_some_and(|spec| spec.node_name.is_some());
        if bound {
            self.bound.get_or_insert(now);
        }
        let Some(status) = &pod.status else { return };
        let conditions = status.conditions.iter().flatten();
        let is_ready = conditions
            .into_iter()
            .any(|condition| condition.type_ == "Ready" && condition.status == "True");
        if is_ready {
            self.ready.get_or_insert(now);
        }
        if self.is_ready && !is_ready && pod.metadata.deletion_timestamp.is_none() {
            self.flips += 1;
        }
        self.is_ready = is_ready;
        for container in status.container_statuses.iter().flatten() {
            self.containers.extend(container.container_id.clone());
            self.restarts = self.restarts.max(container.restart_count);
        }
    }

    /// From bound to ready.
    pub fn took(&self) -> Option<Duration> {
        Some(self.ready?.duration_since(self.bound?))
    }
}

/// A watch that goes on until it is dropped.
pub struct Watching {
    seen: Arc<Mutex<BTreeMap<String, Seen>>>,
    changed: Arc<Notify>,
    task: AbortHandle,
}

impl Watching {
    /// Begins to watch the pods with a label.
    pub fn start(pods: Api<Pod>, label: &str) -> Self {
        let seen: Arc<Mutex<BTreeMap<String, Seen>>> = Arc::default();
        let changed = Arc::new(Notify::new());
        let (notes, notify) = (seen.clone(), changed.clone());
        let config = watcher::Config::default().labels(label);
        let task = tokio::spawn(async move {
            let stream = watcher(pods, config).default_backoff().applied_objects();
            let mut stream = std::pin::pin!(stream);
            while let Some(event) = stream.next().await {
                let now = Instant::now();
                let Ok(pod) = event else { continue };
                let mut all = notes.lock().unwrap_or_else(PoisonError::into_inner);
                all.entry(pod.name_any()).or_default().note(&pod, now);
                drop(all);
                notify.notify_waiters();
            }
        });
        Self {
            seen,
            changed,
            task: task.abort_handle(),
        }
    }

    /// What was seen of each pod, by name.
    pub fn seen(&self) -> BTreeMap<String, Seen> {
        self.seen
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Waits until all of these are ready, and gives what was seen of them.
    pub async fn ready(&self, names: &[String]) -> Result<Vec<Seen>, Failure> {
        let started = Instant::now();
        loop {
            let told = self.changed.notified();
            let all = self.seen();
            let these: Vec<Seen> = names
                .iter()
                .filter_map(|name| all.get(name).cloned())
                .collect();
            let ready = these.iter().filter(|seen| seen.ready.is_some()).count();
            if ready == names.len() {
                return Ok(these);
            }
            if started.elapsed() > PATIENCE {
                return Err(format!("{ready} of {} pods became ready", names.len()).into());
            }
            let _ = tokio::time::timeout(Duration::from_secs(1), told).await;
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Names with a prefix.
pub fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("{prefix}-{number}"))
        .collect()
}
