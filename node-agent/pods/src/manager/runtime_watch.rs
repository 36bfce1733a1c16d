//! Tells workers of pods whose containers changed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::StreamExt;
use node_agent_cri::observed::key;
use node_agent_cri::{Runtime, api};
use rustc_hash::FxHashMap;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::pod::context::PodContext;

/// The interval between lists of the runtime's containers.
const RELIST: Duration = Duration::from_secs(1);
/// The interval while containers are starting.
const RELIST_WHILE_STARTING: Duration = Duration::from_millis(150);
/// The interval where the runtime reports changes by events.
const RELIST_WITH_EVENTS: Duration = Duration::from_secs(10);

/// Tells of pods whose containers changed: by the runtime's own events where
/// it has them, and by looking.
pub async fn run(
    shared: Arc<PodContext>,
    nudges: mpsc::UnboundedSender<String>,
    shutdown: CancellationToken,
) {
    let mut before: FxHashMap<String, u64> = FxHashMap::default();
    let mut events = shared.runtime.events().await.ok();
    loop {
        let begun = Instant::now();
        if let Ok(now) = fingerprints(&*shared.runtime).await {
            shared.metrics.relisted(begun.elapsed());
            for (uid, fingerprint) in &now {
                if before.get(uid) != Some(fingerprint) && nudges.send(uid.clone()).is_err() {
                    return;
                }
            }
            for uid in before.keys().filter(|uid| !now.contains_key(*uid)) {
                let _ = nudges.send(uid.clone());
            }
            before = now;
        }
        let looked = Instant::now();
        let Some(stream) = &mut events else {
            // short steps, so that a raise of attention is seen soon
            loop {
                tokio::select! {
                    () = shutdown.cancelled() => return,
                    () = tokio::time::sleep(RELIST_WHILE_STARTING) => {}
                }
                if shared.attention.is_raised() || looked.elapsed() >= RELIST {
                    break;
                }
            }
            continue;
        };
        let wake = tokio::time::sleep(RELIST_WITH_EVENTS);
        tokio::pin!(wake);
        let lost = loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = &mut wake => break false,
                event = stream.next() => match event {
                    Some(Ok(event)) => {
                        let of = event.pod_sandbox_status.and_then(|s| s.metadata);
                        let Some(metadata) = of else { break false };
                        if nudges.send(metadata.uid).is_err() {
                            return;
                        }
                    }
                    Some(Err(error)) if error.is_unimplemented() => {
                        events = None;
                        break false;
                    }
                    Some(Err(_)) | None => break true,
                },
            }
        };
        if lost {
            // the runtime ended; it is asked again when it is back
            tokio::time::sleep(RELIST).await;
            events = shared.runtime.events().await.ok();
        }
    }
}

/// By pod uid: a fingerprint of its sandboxes and containers.
pub async fn fingerprints(runtime: &dyn Runtime) -> node_agent_cri::Result<FxHashMap<String, u64>> {
    use std::hash::{Hash, Hasher};
    let sandboxes = runtime.list_pod_sandbox(api::ListPodSandboxRequest { filter: None });
    let containers = runtime.list_containers(api::ListContainersRequest { filter: None });
    let (sandboxes, containers) = futures::future::try_join(sandboxes, containers).await?;
    let mut all: FxHashMap<String, u64> = FxHashMap::default();
    let mut add = |uid: &str, id: &str, state: i32| {
        let mut hasher = rustc_hash::FxHasher::default();
        (id, state).hash(&mut hasher);
        // order does not matter
        let fingerprint = all.entry(uid.to_owned()).or_default();
        *fingerprint = fingerprint.wrapping_add(hasher.finish());
    };
    for sandbox in &sandboxes.items {
        if let Some(metadata) = sandbox
            .metadata
            .as_ref()
            .filter(|_| sandbox.labels.contains_key(key::POD_UID))
        {
            add(&metadata.uid, &sandbox.id, sandbox.state);
        }
    }
    for container in &containers.containers {
        if let Some(uid) = container.labels.get(key::POD_UID) {
            add(uid, &container.id, container.state + 16);
        }
    }
    Ok(all)
}
