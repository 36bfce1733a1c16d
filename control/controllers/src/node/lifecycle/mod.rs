//! Node lifecycle: leases and heartbeats in, conditions and taints out.

mod decide;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use control_client::events::{ObjectReference, Recorder};
use control_client::{Client, Discard, Error, Patch, Queue, View, resources};
use jiff::Timestamp;
use serde_json::{Value, json};

use self::decide::{Action, Health, Patience};
use crate::Controller;
use crate::context::{Key, Kind};
use crate::views::{Condition, Lease, Node, Pod, Taint, Text, seconds_now};
use crate::work::{self, Outcome};

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
            patience: Patience {
                grace: ctx.config.node_grace_period,
                startup: ctx.config.node_startup_grace_period,
            },
            health: Mutex::default(),
            queue: work::queue(),
        });
        let listener = Arc::clone(&this);
        this.nodes.on_change(move |change| {
            if let Some(node) = change.latest() {
                listener.queue.add(Key::of(&node.metadata));
            }
            let ready = |node: &Option<Arc<Node>>| node.as_deref().is_some_and(is_ready);
            if ready(&change.previous) != ready(&change.current) {
                // whether anyone is ready concerns all
                for node in listener.nodes.all() {
                    listener.queue.add(Key::of(&node.metadata));
                }
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
    nodes: Arc<Kind<Node>>,
    leases: Arc<Kind<Lease>>,
    pods: Arc<Kind<Pod>>,
    patience: Patience,
    health: Mutex<HashMap<Text, Health>>,
    queue: Queue<Key>,
}

fn is_ready(node: &Node) -> bool {
    decide::ready_status(&node.status.conditions) == Some("True")
}

impl Nodes {
    /// A renewal is noted at once, without a look at the node: most of what
    /// happens in an idle cluster is this.
    fn lease_renewed(&self, lease: &Lease) {
        let mut all = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        match all.get_mut(&lease.metadata.name) {
            Some(health) if health.renewed != lease.spec.renew_time => {
                health.renewed = lease.spec.renew_time;
                health.seen = Timestamp::now();
            }
            Some(_) => {}
            None => self.queue.add(Key::new("", lease.metadata.name.clone())),
        }
    }

    fn observe(&self, node: &Node, now: Timestamp) -> Health {
        let name = &node.metadata.name;
        let renewed = self
            .leases
            .get("kube-node-lease", name)
            .and_then(|lease| lease.spec.renew_time);
        let mut all = self.health.lock().unwrap_or_else(PoisonError::into_inner);
        let known = all.get(name);
        if known.is_none() {
            let about = ObjectReference::of(&Node::RESOURCE, &node.metadata);
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
        let health = self.observe(&node, Timestamp::now());
        let all = self.nodes.all();
        let evict = all.iter().any(|node| is_ready(node));
        let now = Timestamp::now();
        for action in decide::decide(&node, &health, self.patience, evict, seconds_now()) {
            match action {
                Action::Conditions(conditions) => self.write_conditions(&node, &conditions).await?,
                Action::PodsNotReady => {
                    let about = ObjectReference::of(&Node::RESOURCE, &node.metadata);
                    let message = format!("Node {} status is now: NodeNotReady", key.name);
                    self.recorder.normal(&about, "NodeNotReady", message);
                    self.pods_not_ready(&key.name).await?;
                }
                Action::Taints(taints) => self.write_taints(&node, &taints).await?,
            }
        }
        let left = decide::silent_in(&node, &health, self.patience, now);
        // a silent node is looked at again when its state changes
        Ok((!left.is_zero()).then_some(left + Duration::from_millis(100)))
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
        // the revision is that of the status just written, or older: compare
        // what the list is about instead
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

    /// Takes the readiness from all pods of a node, so that Services leave
    /// them out.
    async fn pods_not_ready(&self, node: &str) -> Result<(), Error> {
        let pods = self.pods.all();
        let ready = pods
            .iter()
            .filter(|pod| pod.spec.node_name == node && pod.is_ready());
        let (_, failure) = work::together(ready.map(|pod| self.pod_not_ready(pod))).await;
        failure.map_or(Ok(()), Err)
    }

    async fn pod_not_ready(&self, pod: &Pod) -> Result<(), Error> {
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
            {"op": "add", "path": path("lastTransitionTime"), "value": seconds_now()},
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
