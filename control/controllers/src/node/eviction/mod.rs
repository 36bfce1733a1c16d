//! Eviction of pods from nodes with `NoExecute` taints.

mod decide;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use control_client::events::{ObjectReference, Recorder};
use control_client::{Client, DeleteOptions, Discard, Patch, Queue, resources};
use jiff::Timestamp;
use serde_json::json;

use self::decide::PodFate;
pub(crate) use self::decide::tolerates;
use crate::Controller;
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::views::{Node, Pod, Taint, Text, seconds_now};
use crate::work::{self, Outcome};

/// Evicts pods from tainted nodes.
pub const CONTROLLER: Controller = Controller {
    name: "taint-eviction-controller",
    service_account: "node-controller",
    start: |ctx| {
        let this = Arc::new(NodeEvictions {
            client: ctx.client.clone(),
            recorder: ctx.recorder("taint-eviction-controller"),
            nodes: ctx.nodes(),
            pods: ctx.pods(),
            tainted: Mutex::default(),
            queue: work::queue(),
        });
        let listener = Arc::clone(&this);
        this.nodes.on_change(move |change| {
            let taints = |node: &Option<Arc<Node>>| node.as_ref().map(|n| n.spec.taints.clone());
            if taints(&change.previous) == taints(&change.current) {
                return;
            }
            match (&change.current, &change.previous) {
                (Some(node), _) => listener.taints_changed(node),
                (None, Some(gone)) => {
                    listener.tainted().remove(&gone.metadata.name);
                }
                (None, None) => {}
            }
        });
        let listener = Arc::clone(&this);
        this.pods.on_change(move |change| {
            let Some(pod) = &change.current else { return };
            let before = change
                .previous
                .as_ref()
                .map(|p| (&p.spec.node_name, &p.spec.tolerations));
            let moved = before != Some((&pod.spec.node_name, &pod.spec.tolerations));
            if moved && !pod.spec.node_name.is_empty() {
                listener.queue.add(Key::from_meta(&pod.metadata));
            }
        });
        let shutdown = ctx.shutdown.clone();
        Box::pin(async move {
            this.nodes.ready().await;
            this.pods.ready().await;
            let work = work::call(&this, |this, key| async move { this.sync(key).await });
            this.queue.run("taint-eviction", 8, &shutdown, work).await;
        })
    },
};

struct NodeEvictions {
    client: Client,
    recorder: Recorder,
    nodes: Arc<KindCache<Node>>,
    pods: Arc<KindCache<Pod>>,
    /// The `NoExecute` taints of the nodes that have any, with their times.
    tainted: Mutex<HashMap<Text, Vec<Taint>>>,
    queue: Queue<Key>,
}

impl NodeEvictions {
    fn tainted(&self) -> MutexGuard<'_, HashMap<Text, Vec<Taint>>> {
        self.tainted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn taints_changed(&self, node: &Node) {
        let name = &node.metadata.name;
        {
            let mut tainted = self.tainted();
            let known = tainted.remove(name).unwrap_or_default();
            let timed = decide::timed(&node.spec.taints, &known, Timestamp::now());
            if timed.is_empty() {
                return;
            }
            tainted.insert(name.clone(), timed);
        }
        for pod in self.pods.all() {
            if pod.spec.node_name == *name {
                self.queue.add(Key::from_meta(&pod.metadata));
            }
        }
    }

    async fn sync(&self, key: Key) -> Outcome {
        let Some(pod) = self.pods.by_key(&key).filter(|pod| pod.is_active()) else {
            return Ok(None);
        };
        let taints = self.tainted().get(&pod.spec.node_name).cloned();
        let Some(taints) = taints else {
            return Ok(None);
        };
        let now = Timestamp::now();
        let at = match decide::fate(&taints, &pod, now) {
            PodFate::Stay => return Ok(None),
            PodFate::LeaveAt(at) => at,
        };
        if at > now {
            let left = at.as_millisecond() - now.as_millisecond();
            let left = u64::try_from(left).unwrap_or(0);
            return Ok(Some(Duration::from_millis(left + 10)));
        }
        let meta = &pod.metadata;
        let about = ObjectReference::to_object(&resources::PODS, meta);
        let message = format!("Marking for deletion Pod {key}");
        self.recorder
            .normal(&about, "TaintManagerEviction", message);
        // why it went; that it goes matters more
        let condition = json!([
            {"op": "test", "path": "/metadata/uid", "value": meta.uid},
            {"op": "add", "path": "/status/conditions/-", "value": {
                "type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager",
                "message": "Taint manager: deleting due to NoExecute taint",
                "lastTransitionTime": seconds_now(),
            }},
        ]);
        if pod.condition("DisruptionTarget").is_none() && !pod.status.conditions.is_empty() {
            let noted = self
                .client
                .patch_status::<Discard>(
                    &resources::PODS,
                    &meta.namespace,
                    &meta.name,
                    Patch::Json(&condition),
                )
                .await;
            if let Err(error) = noted {
                tracing::debug!(pod = %key, error = %error.chain(), "failed to record the disruption");
            }
        }
        let options = DeleteOptions::of_uid(meta.uid.as_str());
        let deleted = self
            .client
            .delete(&resources::PODS, &meta.namespace, &meta.name, &options)
            .await;
        work::unless_gone(deleted).map(|()| None)
    }
}
