//! Mirror pods: the API's objects of the node's static pods.

use std::sync::Arc;
use std::time::{Duration, Instant};

use control_client::{Change, DeleteOptions, View};
use node_agent_objects::pod::Pod;
use rustc_hash::FxHashMap;
use tokio::sync::watch;

use crate::pod::context::PodContext;
use crate::pod::worker::WorkerHandle;
use crate::static_pods::{MirrorStep, StaticPods};

/// How often mirror pods are compared with what they mirror.
pub const MIRRORS_EVERY: Duration = Duration::from_secs(1);

/// The mirror pods in the API, by uid.
pub struct MirrorPods {
    all: FxHashMap<String, Arc<Pod>>,
    /// When they are compared with what they mirror.
    pub due: Instant,
}

impl Default for MirrorPods {
    fn default() -> Self {
        Self {
            all: FxHashMap::default(),
            due: Instant::now(),
        }
    }
}

impl MirrorPods {
    pub fn note(&mut self, change: &Change<Pod>) {
        if let Some(previous) = &change.previous {
            self.all.remove(previous.uid());
        }
        if let Some(pod) = change.current.as_ref().filter(|pod| pod.is_mirror()) {
            self.all.insert(pod.uid().to_owned(), pod.clone());
        }
    }

    pub fn all(&self) -> Vec<Arc<Pod>> {
        self.all.values().cloned().collect()
    }

    /// Tells static pods of their mirrors.
    pub fn tell_workers(
        &self,
        statics: &watch::Receiver<StaticPods>,
        workers: &FxHashMap<String, WorkerHandle>,
    ) {
        for (uid, one) in statics.borrow().iter() {
            let mirror = self
                .all
                .values()
                .find(|m| m.name() == one.pod.name() && m.namespace() == one.pod.namespace());
            if let Some(worker) = workers.get(uid) {
                worker.mirror(mirror.cloned());
            }
        }
    }
}

/// Makes or deletes a mirror pod. What fails is tried again by the next look.
pub async fn sync(shared: Arc<PodContext>, statics: StaticPods, step: MirrorStep) {
    let failed = match step {
        MirrorStep::Create(uid) => {
            let Some(one) = statics.get(&uid) else { return };
            let Some(node) = shared.node_object.get("", &shared.node.name) else {
                return;
            };
            let mut body = one.mirror.clone();
            body["metadata"]["ownerReferences"] = serde_json::json!([{
                "apiVersion": "v1",
                "kind": "Node",
                "name": shared.node.name,
                "uid": node.meta().uid,
                "controller": true,
            }]);
            let namespace = one.pod.namespace();
            shared
                .client
                .create::<control_client::Discard>(&Pod::RESOURCE, namespace, &body)
                .await
                .err()
                .filter(|error| !error.is_already_exists())
        }
        MirrorStep::Delete(namespace, name, uid) => {
            let options = DeleteOptions::of_uid(uid).grace(0);
            shared
                .client
                .delete(&Pod::RESOURCE, &namespace, &name, &options)
                .await
                .err()
                .filter(|error| !error.is_not_found() && !error.is_conflict())
        }
    };
    if let Some(error) = failed {
        tracing::warn!(error = error.chain(), "failed to sync mirror pod");
    }
}
