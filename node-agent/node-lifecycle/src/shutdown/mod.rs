//! Graceful node shutdown: when the machine goes down, pods get to end by
//! their priority, the most important last.
//!
//! ```text
//! logind ──PrepareForShutdown──▶ watch ──▶ groups (pure) ──▶ orders to workers
//!    ▲                             │
//!    └── delay inhibitor, held ◀───┘  let go when the last group is through
//! ```
//!
//! While it lasts the node is not ready and takes no pods. Source of the rules:
//! KEP-2000 and KEP-2712, and logind's description of inhibitors.

#[cfg(any(test, feature = "fake"))]
pub mod fake;
mod groups;
pub mod logind;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use jiff::Timestamp;
use node_agent_files::atomic_file;
use node_agent_kubelet_config::ShutdownPeriod;
use node_agent_objects::error_chain;
use node_agent_objects::events::NodeEvents;
use node_agent_objects::pod::Pod;
use node_agent_pod_registry::{EvictionRequest, PodRegistry, TerminationCause};
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use logind::Logind;

/// How long a bus that is lost, or not there, is left alone.
const RETRY: Duration = Duration::from_secs(1);
const ABSENT: Duration = Duration::from_secs(30);

/// How often it is looked whether a group is through.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What pods say of their end.
pub const MESSAGE: &str = "Pod was terminated in response to imminent node shutdown.";

/// Where a shutdown began and ended, below the agent's folder.
const STATE: &str = "graceful_node_shutdown_state";

/// Whether the node is shutting down, and when it last did.
#[derive(Debug, Default)]
pub struct NodeShutdown {
    now: AtomicBool,
    changed: Notify,
    file: PathBuf,
    last: Mutex<ShutdownRecord>,
}

/// The last shutdown, in the kubelet's file format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ShutdownRecord {
    /// When pods began to be ended.
    #[serde(with = "go_time")]
    pub start_time: Option<Timestamp>,
    /// When all were.
    #[serde(with = "go_time")]
    pub end_time: Option<Timestamp>,
}

/// Go writes no time as the first of the year one.
mod go_time {
    use jiff::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer};

    const ZERO: &str = "0001-01-01T00:00:00Z";

    pub fn serialize<S: Serializer>(
        time: &Option<Timestamp>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match time {
            None => serializer.serialize_str(ZERO),
            Some(time) => serializer.collect_str(time),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Timestamp>, D::Error> {
        let text = String::deserialize(deserializer)?;
        if text == ZERO {
            return Ok(None);
        }
        text.parse().map(Some).map_err(serde::de::Error::custom)
    }
}

impl NodeShutdown {
    /// With what is known of the last shutdown.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        let file = root.join(STATE);
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        Self {
            last: Mutex::new(serde_json::from_str(&text).unwrap_or_default()),
            file,
            ..Self::default()
        }
    }

    /// Whether the machine is going down.
    #[must_use]
    pub fn is_now(&self) -> bool {
        self.now.load(Ordering::Relaxed)
    }

    /// Ends when that has changed.
    pub async fn changed(&self) {
        self.changed.notified().await;
    }

    /// The last shutdown.
    #[must_use]
    pub fn last(&self) -> ShutdownRecord {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes whether the machine is going down.
    pub fn set(&self, now: bool) {
        self.now.store(now, Ordering::Relaxed);
        self.changed.notify_one();
    }

    fn note(&self, last: ShutdownRecord) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = last;
        let text = serde_json::to_string(&last).unwrap_or_default();
        if let Err(error) = atomic_file::write(&self.file, &text) {
            tracing::warn!(%error, "failed to record the node shutdown");
        }
    }
}

/// What ends pods when the machine shuts down.
#[derive(Clone)]
pub struct ShutdownManager {
    /// How long pods get, lowest priority first.
    pub periods: Vec<ShutdownPeriod>,
    /// Where it is noted that the machine is going down.
    pub leaving: Arc<NodeShutdown>,
    /// The pods of the node.
    pub pods: Arc<PodRegistry>,
    /// The agent's own folder.
    pub root: PathBuf,
    /// Where pods are ended.
    pub orders: mpsc::UnboundedSender<EvictionRequest>,
    /// Where events go.
    pub events: NodeEvents,
}

/// Follows logind until `end`; nothing to do where no periods are set.
pub async fn watch(manager: ShutdownManager, end: CancellationToken) {
    if manager.periods.is_empty() {
        return;
    }
    let mut told = false;
    loop {
        let session = async {
            let logind = Logind::connect().await?;
            told = false;
            follow(&manager, &logind, Path::new(logind::DROP_INS)).await
        };
        let pause = tokio::select! {
            () = end.cancelled() => return,
            ended = session => match ended {
                Ok(()) => RETRY,
                Err(error) => {
                    if !told {
                        let error = error_chain(&error);
                        tracing::warn!(error, "graceful node shutdown is not available");
                    }
                    ABSENT
                }
            },
        };
        told = pause == ABSENT;
        tokio::select! {
            () = end.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

/// Holds the inhibitor and acts on shutdowns until the bus is lost.
///
/// # Errors
/// When logind does not let shutdowns be delayed.
pub async fn follow(
    manager: &ShutdownManager,
    logind: &Logind,
    drop_ins: &Path,
) -> Result<(), logind::Error> {
    let period = groups::total(&manager.periods);
    logind.allow(period, drop_ins).await?;
    // heard from before the inhibitor is there, or one might be missed between
    let mut shutdowns = logind.shutdowns().await?;
    let mut inhibitor = Some(logind.inhibit().await?);
    tracing::info!(
        seconds = period.as_secs(),
        "holding a shutdown inhibitor lock for pods"
    );
    while let Some(begins) = shutdowns.next().await {
        let what = if begins { "event" } else { "cancellation" };
        let message = format!("Shutdown manager detected shutdown {what}");
        manager.events.node_normal("NodeShutdown", message);
        manager.leaving.set(begins);
        if begins {
            end_pods(manager).await;
            // logind goes on when nobody holds one any more
            inhibitor = None;
        } else {
            inhibitor = Some(logind.inhibit().await?);
        }
    }
    drop(inhibitor);
    Ok(())
}

/// Ends all pods, one group after the other, none for longer than it has.
async fn end_pods(manager: &ShutdownManager) {
    let start_time = Some(Timestamp::now());
    manager.leaving.note(ShutdownRecord {
        start_time,
        end_time: None,
    });
    let living: Vec<Arc<Pod>> = manager
        .pods
        .all()
        .into_iter()
        .filter(|entry| !entry.status.is_terminal())
        .map(|entry| entry.pod)
        .collect();
    for group in groups::groups(&manager.periods, &living) {
        tracing::info!(
            priority = group.period.priority,
            pods = group.pods.len(),
            seconds = group.period.seconds,
            "terminating pods for node shutdown"
        );
        for pod in &group.pods {
            // nobody runs pods any more when the agent ends
            let _ = manager.orders.send(EvictionRequest {
                uid: pod.uid().to_owned(),
                sentence: TerminationCause {
                    reason: "Terminated".to_owned(),
                    message: MESSAGE.to_owned(),
                    disruption: true,
                },
                grace: groups::grace(pod, group.period),
            });
        }
        let all_through = async {
            while !group.pods.iter().all(|pod| is_through(manager, pod)) {
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        let limit = Duration::from_secs(group.period.seconds.into());
        if tokio::time::timeout(limit, all_through).await.is_err() {
            tracing::warn!(
                priority = group.period.priority,
                "pods did not terminate within the grace period; shutdown continues"
            );
        }
    }
    manager.leaving.note(ShutdownRecord {
        start_time,
        end_time: Some(Timestamp::now()),
    });
}

/// Whether nothing of a pod runs, and its volumes are given back: a driver of
/// volumes may be in the next group.
fn is_through(manager: &ShutdownManager, pod: &Pod) -> bool {
    let entry = manager.pods.find(pod.namespace(), pod.name());
    let ended = entry.is_none_or(|e| e.pod.uid() != pod.uid() || e.status.is_terminal());
    ended && !manager.root.join("pods").join(pod.uid()).exists()
}

#[cfg(test)]
mod tests;
