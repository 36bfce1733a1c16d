//! Pods that the runtime or the disk has and the API does not.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;

use node_agent_cri::observed::key;
use node_agent_cri::{api, observe, origin};
use node_agent_objects::error_chain;
use node_agent_pod_volumes::PodVolumes;
use rustc_hash::{FxHashMap, FxHashSet};

use super::runtime_watch;
use crate::pod::context::PodContext;
use crate::pod::kill;
use crate::pod::worker::WorkerHandle;

/// Seconds that a container gets whose pod is gone and says nothing.
const ORPHAN_GRACE: i64 = 30;

/// Ends and removes what belongs to no pod of the API.
pub fn sweep(shared: &Arc<PodContext>, workers: &FxHashMap<String, WorkerHandle>) {
    let known: FxHashSet<String> = workers.keys().cloned().collect();
    let shared = shared.clone();
    tokio::spawn(async move {
        let mut uids: BTreeSet<String> = BTreeSet::new();
        if let Ok(found) = runtime_watch::fingerprints(&*shared.runtime).await {
            uids.extend(found.into_keys());
        } else {
            return;
        }
        if let Ok(entries) = fs::read_dir(shared.node.root.join("pods")) {
            uids.extend(
                entries
                    .flatten()
                    .filter_map(|e| e.file_name().into_string().ok()),
            );
        }
        if let Some(cgroups) = &shared.cgroups {
            uids.extend(cgroups.pods());
        }
        uids.extend(shared.claims.pods());
        let is_known = |uid: &str| {
            known.contains(uid)
                || uids.contains(uid)
                || shared.pods.all().iter().any(|e| e.pod.uid() == uid)
        };
        shared.devices.keep(is_known);
        shared.managers.keep(is_known);
        for uid in uids {
            if !known.contains(&uid) && !shared.pods.all().iter().any(|e| e.pod.uid() == uid) {
                remove(&shared, &uid).await;
            }
        }
    });
}

async fn remove(shared: &PodContext, uid: &str) {
    if !is_own(shared, uid).await {
        tracing::debug!(uid, "ignoring a pod of another kubelet");
        return;
    }
    let Ok(observed) = observe::pod(&*shared.runtime, uid, &Default::default()).await else {
        return;
    };
    tracing::info!(uid, "cleaning up a pod that no longer exists");
    let ends = observed
        .containers
        .iter()
        .filter(|c| !c.exited())
        .map(|c| kill::stop(&*shared.runtime, &c.id, ORPHAN_GRACE));
    futures::future::join_all(ends).await;
    for sandbox in &observed.sandboxes {
        let id = || api::SandboxId {
            pod_sandbox_id: sandbox.id.clone(),
        };
        let _ = shared.runtime.stop_pod_sandbox(id()).await;
        if let Err(error) = shared.runtime.remove_pod_sandbox(id()).await {
            tracing::warn!(uid, %error, "failed to remove a sandbox");
            return;
        }
    }
    if let Err(error) = shared.claims.unprepare(uid).await {
        tracing::warn!(
            uid,
            error = error_chain(&error),
            "failed to unprepare resource claims"
        );
    }
    let volumes = PodVolumes::new(&shared.node.root, uid);
    if let Err(error) = shared.csi.release(volumes.pod_dir()).await {
        tracing::warn!(
            uid,
            error = error_chain(&error),
            "failed to unpublish volumes"
        );
        return;
    }
    if let Err(error) = volumes.remove() {
        tracing::warn!(uid, %error, "failed to remove volumes");
    }
    if let Some(cgroups) = &shared.cgroups {
        let _ = cgroups.remove_pod(uid).await;
    }
}

/// Whether this agent made what there is of a pod: all of its sandboxes, or its folder.
/// What is known to nobody else, as a control group without a sandbox, is.
async fn is_own(shared: &PodContext, uid: &str) -> bool {
    let folder = shared.node.root.join("pods").join(uid);
    if origin::is_marked(&folder) {
        return true;
    }
    let selector = [(key::POD_UID.to_owned(), uid.to_owned())].into();
    let request = api::ListPodSandboxRequest {
        filter: Some(api::PodSandboxFilter {
            label_selector: selector,
            ..api::PodSandboxFilter::default()
        }),
    };
    let Ok(found) = shared.runtime.list_pod_sandbox(request).await else {
        return false;
    };
    let mut sandboxes = found.items.iter();
    if sandboxes.len() == 0 {
        return !folder.exists();
    }
    sandboxes.all(|sandbox| origin::is_own(&sandbox.labels))
}
