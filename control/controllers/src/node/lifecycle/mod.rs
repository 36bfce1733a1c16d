//! Node lifecycle: leases and heartbeats in, conditions and taints out.

mod decide;

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use control_client::events::{ObjectReference, Recorder};
use control_client::{Client, Discard, Error, Patch, Queue, View, resources};
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::Instant;

use self::decide::{GracePeriods, Health, NodeAction, NodeDecision, PassTime};
use crate::Controller;
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::views::{Condition, Lease, Node, Pod, Taint, Text};
use crate::work::{self, Outcome};

/// How long pods of a silent node that turn ready are gathered. It also bounds
/// the writes when a kubelet reports its pods but never itself.
const GATHER: Duration = Duration::from_secs(1);

/// Follows the life of nodes.
pub const CONTROLLER: Controller = Controller {
    name: "node-lifecycle-controller",
    service_account: "node-controller",
    start: |ctx| {
        let this = Arc::new(Nodes {
            client: ctx.client.clone(),
            recorder: ctx.recorder("node-controller"),
            nodes: ctx.nodes(),
            leases: ctx.node_leases(),
            pods: ctx.pods(),
            patience: GracePeriods {
                grace: ctx.config.node_grace_period,
                startup: ctx.config.node_startup_grace_period,
            },
            health: Mutex::default(),
            ready_nodes: AtomicUsize::new(0),
            queue: work::queue(),
        });
        let listener = Arc::clone(&this);
        this.nodes.on_change(move |change| {
            if let Some(node) = change.latest() {
                listener.queue.add(Key::from_meta(&node.metadata));
            }
            let ready = |node: &Option<Arc<Node>>| node.as_deref().is_some_and(is_ready);
            listener.count_ready(ready(&change.previous), ready(&change.current));
        });
        let listener = Arc::clone(&this);
        this.pods.on_change(move |change| {
            let ready = |pod: &Option<Arc<Pod>>| pod.as_deref().is_some_and(Pod::is_ready);
            if let Some(pod) = &change.current
                && ready(&change.current)
                && !ready(&change.previous)
            {
                listener.pod_turned_ready(pod);
            }
        });
        let listener = Arc::clone(&this);
        this.leases.on_change(move |change| {
            if let Some(lease) = &change.current {
                listener.lease_renewed(lease);
            }
        });
        let shutdown = ctx.shutdown.clone();
        Box::pin(async move {
            this.nodes.ready().await;
            this.leases.ready().await;
            this.pods.ready().await;
            let work = work::call(&this, |this, key| async move { this.sync(key).await });
            this.queue.run("node-lifecycle", 4, &shutdown, work).await;
        })
    },
};

struct Nodes {
    client: Client,
    recorder: Recorder,
    nodes: Arc<KindCache<Node>>,
    leases: Arc<KindCache<Lease>>,
    pods: Arc<KindCache<Pod>>,
    patience: GracePeriods,
    health: Mutex<HashMap<Text, Health>>,
    /// How many nodes are ready, counted from the changes.
    ready_nodes: AtomicUsize,
    queue: Queue<Key>,
}

fn is_ready(node: &Node) -> bool {
    decide::ready_status(&node.status.conditions) == Some("True")
}

impl Nodes {
    /// Counts the ready nodes. When the first one becomes ready, or the last one stops
    /// being ready, every node's taints are decided again.
    fn count_ready(&self, before: bool, after: bool) {
        let concerns_all = match (before, after) {
            (false, true) => self.ready_nodes.fetch_add(1, Ordering::SeqCst) == 0,
            (true, false) => self.ready_nodes.fetch_sub(1, Ordering::SeqCst) == 1,
            _ => false,
        };
        if concerns_all {
            for node in self.nodes.all() {
                self.queue.add(Key::from_meta(&node.metadata));
            }
        }
    }

    /// Queues a silent node on which a pod becomes ready: the kubelet reported the pod
    /// before it fell silent.
    fn pod_turned_ready(&self, pod: &Pod) {
        let node = self.nodes.get("", &pod.spec.node_name);
        if node.is_some_and(|node| decide::is_unknown(&node)) {
            self.queue
                .add_after(Key::new("", pod.spec.node_name.clone()), GATHER);
        }
    }

    /// Records a renewal without processing the node: in an idle cluster this is most of
    /// the work.
    fn lease_renewed(&self, lease: &Lease) {
        let mut all = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get_mut(&lease.metadata.name) {
            Some(health) if health.renewed != lease.spec.renew_time => {
                health.renewed = lease.spec.renew_time;
                health.seen = Instant::now();
            }
            Some(_) => {}
            None => self.queue.add(Key::new("", lease.metadata.name.clone())),
        }
    }

    fn observe(&self, node: &Node, now: PassTime) -> Health {
        let name = &node.metadata.name;
        let renewed = self
            .leases
            .get("kube-node-lease", name)
            .and_then(|lease| lease.spec.renew_time);
        let mut all = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.get(name);
        if known.is_none() {
            let about = ObjectReference::to_object(&Node::RESOURCE, &node.metadata);
            let message = format!("Node {name} event: Registered Node {name} in Controller");
            self.recorder.normal(&about, "RegisteredNode", message);
        }
        let health = decide::observe(known, node, renewed, now);
        all.insert(name.clone(), health.clone());
        health
    }

    async fn sync(&self, key: Key) -> Outcome {
        let Some(node) = self.nodes.by_key(&key) else {
            self.health
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(&key.name);
            return Ok(None);
        };
        let now = PassTime::now();
        let health = self.observe(&node, now);
        let evict = self.ready_nodes.load(Ordering::SeqCst) > 0;
        let ready_pods = || self.ready_pods(&key.name);
        let NodeDecision {
            actions,
            look_again,
        } = decide::decide(&node, &health, self.patience, evict, ready_pods, now);
        let mut failure = None;
        for action in actions {
            match action {
                // the rest holds only if the node is still as it was judged
                NodeAction::Conditions(conditions) => {
                    self.write_conditions(&node, &conditions).await?;
                }
                NodeAction::NotReadyEvent => {
                    let about = ObjectReference::to_object(&Node::RESOURCE, &node.metadata);
                    let message = format!("Node {} status is now: NodeNotReady", key.name);
                    self.recorder.normal(&about, "NodeNotReady", message);
                }
                NodeAction::PodsNotReady(pods) => {
                    let marked = pods.iter().map(|pod| self.pod_not_ready(pod, now.wall));
                    failure = work::together(marked).await.1;
                }
                // a pod that cannot be marked does not keep the others from leaving
                NodeAction::Taints(taints) => {
                    if let Err(error) = self.write_taints(&node, &taints).await {
                        failure.get_or_insert(error);
                    }
                }
            }
        }
        match failure {
            Some(error) => Err(error),
            None => Ok(look_again),
        }
    }

    async fn write_conditions(&self, node: &Node, conditions: &[Condition]) -> Result<(), Error> {
        let meta = &node.metadata;
        let patch = json!({
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": {"conditions": conditions},
        });
        work::merge(&self.client, &Node::RESOURCE, meta, "status", &patch).await
    }

    async fn write_taints(&self, node: &Node, taints: &[Taint]) -> Result<(), Error> {
        let meta = &node.metadata;
        let taints = Some(taints).filter(|taints| !taints.is_empty());
        let patch = json!({
            "metadata": {"uid": meta.uid},
            "spec": {"taints": taints},
        });
        // the revision is that of the status just written, or older: compare the contents
        // of the list instead
        let fresh: Node = match self.client.get(&Node::RESOURCE, "", &meta.name).await {
            Ok(fresh) => fresh,
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error),
        };
        if fresh.spec.taints != node.spec.taints {
            // its event is on the way
            return Ok(());
        }
        let mut patch = patch;
        patch["metadata"]["resourceVersion"] = fresh.metadata.resource_version.as_str().into();
        work::merge(&self.client, &Node::RESOURCE, meta, "", &patch).await
    }

    fn ready_pods(&self, node: &str) -> Vec<Arc<Pod>> {
        let mut pods = self.pods.all();
        pods.retain(|pod| pod.spec.node_name == node && pod.is_ready());
        pods
    }

    /// Takes a pod's readiness away, so that Services leave it out.
    async fn pod_not_ready(&self, pod: &Pod, now: Timestamp) -> Result<(), Error> {
        let meta = &pod.metadata;
        let Some(at) = pod
            .status
            .conditions
            .iter()
            .position(|c| c.r#type == "Ready")
        else {
            return Ok(());
        };
        let path = |field: &str| format!("/status/conditions/{at}/{field}");
        let patch: Value = json!([
            {"op": "test", "path": "/metadata/uid", "value": meta.uid},
            {"op": "test", "path": path("type"), "value": "Ready"},
            {"op": "replace", "path": path("status"), "value": "False"},
            {"op": "add", "path": path("lastTransitionTime"), "value": now},
        ]);
        let result = self
            .client
            .patch_status::<Discard>(
                &resources::PODS,
                &meta.namespace,
                &meta.name,
                Patch::Json(&patch),
            )
            .await;
        work::unless_gone(result)
    }
}

#[cfg(test)]
mod tests;
