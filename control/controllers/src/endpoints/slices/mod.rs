//! EndpointSlices of Services that have a selector.

pub(crate) mod decide;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use control_client::{Error, Meta, Queue, resources};
use serde_json::{Value, json};

use self::decide::{ServiceSnapshot, SliceAction, SliceContent};
use super::pods;
use super::reconciler::SliceReconciler;
use super::trigger_time::{ANNOTATION, TriggerTimes};
use crate::Controller;
use crate::context::Context;
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::views::{Node, Pod, Service, Text};
use crate::work::{self, Outcome};

/// The value of the managed-by label, as upstream's: slices pass between us and a stock
/// controller without being recreated.
const MANAGER: &str = "endpointslice-controller.k8s.io";

/// Keeps the slices of Services.
pub const CONTROLLER: Controller = Controller {
    name: "endpointslice-controller",
    service_account: "endpointslice-controller",
    start: |ctx| {
        let this = Arc::new(Slices::new(ctx));
        this.listen();
        let (workers, shutdown) = (ctx.config.workers, ctx.shutdown.clone());
        Box::pin(async move {
            this.services.ready().await;
            this.pods.ready().await;
            this.keeper.slices.ready().await;
            this.nodes.ready().await;
            let work = work::call(&this, |this, key| async move { this.sync(key).await });
            this.queue
                .run("endpointslice", workers, &shutdown, work)
                .await;
        })
    },
};

struct Slices {
    services: Arc<KindCache<Service>>,
    pods: Arc<KindCache<Pod>>,
    nodes: Arc<KindCache<Node>>,
    keeper: SliceReconciler,
    triggers: TriggerTimes,
    queue: Queue<Key>,
}

impl Slices {
    fn new(ctx: &Context) -> Self {
        Self {
            services: ctx.services(),
            pods: ctx.pods(),
            nodes: ctx.nodes(),
            keeper: SliceReconciler::new(ctx, MANAGER),
            triggers: TriggerTimes::default(),
            queue: work::queue(),
        }
    }

    fn listen(self: &Arc<Self>) {
        self.services.queue_changes(&self.queue);
        let this = Arc::clone(self);
        self.pods.on_change(move |change| {
            for key in services_of(
                &this.services,
                change.previous.as_deref(),
                change.current.as_deref(),
            ) {
                this.queue.add(key);
            }
        });
        let this = Arc::clone(self);
        self.keeper.slices.on_change(move |change| {
            for (slice, now) in [(&change.previous, false), (&change.current, true)] {
                let slice = slice.as_deref();
                let Some(key) = slice.and_then(|slice| this.keeper.service_of(slice)) else {
                    continue;
                };
                if now && change.previous.is_none() {
                    this.keeper.expectations.created(&key);
                }
                this.queue.add(key);
            }
        });
        // zones are labels of nodes, and an unknown node may have come
        let this = Arc::clone(self);
        self.nodes.on_change(move |change| {
            let zone = |node: &Option<Arc<Node>>| node.as_ref().map(|node| zone(node));
            if zone(&change.previous) != zone(&change.current) {
                for service in this.services.all() {
                    this.queue.add(Key::from_meta(&service.metadata));
                }
            }
        });
    }

    async fn sync(&self, key: Key) -> Outcome {
        let Some(service) = self.services.by_key(&key) else {
            // the garbage collector deletes the slices: the Service owns them
            self.keeper.expectations.forget(&key);
            self.triggers.forget(&key);
            return Ok(None);
        };
        if service.spec.r#type == "ExternalName" || service.spec.selector.is_none() {
            return Ok(None);
        }
        let slices = match self.keeper.current(&key) {
            Ok(slices) => slices,
            Err(wait) => return Ok(Some(wait)),
        };
        let pods: Vec<_> = self
            .pods
            .namespace(&key.namespace)
            .into_iter()
            .filter(|pod| service.selects(&pod.metadata))
            .collect();
        let zone_of = |name: &str| self.nodes.get("", name).map(|node| zone(&node));
        let (actions, unknown_node) = decide::decide(&ServiceSnapshot {
            service: &service,
            pods: &pods,
            slices: &slices,
            zone_of: &zone_of,
            manager: MANAGER,
        });
        let trigger = self.triggers.next(&key, &service, &pods);
        for action in actions {
            self.apply(&key, &service, action, &trigger).await?;
        }
        // the node's arrival wakes every Service; this is for a lost event
        Ok(unknown_node.then_some(Duration::from_secs(10)))
    }

    async fn apply(
        &self,
        key: &Key,
        service: &Service,
        action: SliceAction,
        trigger: &Value,
    ) -> Result<(), Error> {
        match action {
            SliceAction::Create(content) => {
                let mut body = body(service, &content);
                if !trigger.is_null() {
                    body["metadata"]["annotations"] = json!({ANNOTATION: trigger});
                }
                self.keeper.create(key, &body).await
            }
            SliceAction::Update {
                name,
                uid,
                resource_version,
                content,
                stale_labels,
            } => {
                let mut labels: serde_json::Map<String, Value> = content
                    .labels
                    .iter()
                    .map(|(k, v)| (k.to_string(), v.as_str().into()))
                    .collect();
                for label in stale_labels {
                    labels.insert(label.to_string(), Value::Null);
                }
                let patch = json!({
                    "metadata": {
                        "uid": uid,
                        "resourceVersion": resource_version,
                        "labels": labels,
                        "annotations": {ANNOTATION: trigger},
                    },
                    "endpoints": content.endpoints,
                    "ports": content.ports,
                });
                self.keeper.patch(key, &name, &patch).await
            }
            SliceAction::Delete { name, uid } => self.keeper.delete(key, &name, &uid).await,
        }
    }
}

/// A new slice.
fn body(service: &Service, content: &SliceContent) -> Value {
    json!({
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": work::name_prefix(&service.metadata.name),
            "namespace": service.metadata.namespace,
            "labels": content.labels,
            "ownerReferences": [work::reference_to(&resources::SERVICES, &service.metadata)],
        },
        "addressType": content.address_type,
        "endpoints": content.endpoints,
        "ports": content.ports,
    })
}

fn zone(node: &Node) -> Text {
    node.metadata
        .labels
        .get("topology.kubernetes.io/zone")
        .unwrap_or_default()
        .into()
}

/// The Services whose endpoints a change of a pod may change.
pub(in crate::endpoints) fn services_of(
    services: &KindCache<Service>,
    previous: Option<&Pod>,
    current: Option<&Pod>,
) -> HashSet<Key> {
    if let (Some(old), Some(new)) = (previous, current)
        && !pods::endpoint_changed(old, new)
    {
        return HashSet::new();
    }
    let Some(latest) = current.or(previous) else {
        return HashSet::new();
    };
    let metas: Vec<&Meta> = previous
        .iter()
        .chain(current.iter())
        .map(|pod| &pod.metadata)
        .collect();
    services
        .namespace(&latest.metadata.namespace)
        .iter()
        .filter(|service| metas.iter().any(|meta| service.selects(meta)))
        .map(|service| Key::from_meta(&service.metadata))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::fake_api::FakeApi;

    /// The watch shows the deletion and the creation of a pod as one change when
    /// it was broken in between.
    #[tokio::test(start_paused = true)]
    async fn slice_names_the_pod_that_was_made_again_under_its_name() {
        const POD: &str = "/api/v1/namespaces/d/pods/db-0";
        let api = FakeApi::new();
        let pod = |uid: &str| {
            json!({"metadata": {"uid": uid, "labels": {"app": "db"}}, "spec": {"nodeName": "n"},
                "status": {"phase": "Running", "podIP": "10.0.0.1",
                    "conditions": [{"type": "Ready", "status": "True"}]}})
        };
        api.put("/api/v1/nodes/n", json!({}));
        api.put(
            "/api/v1/namespaces/d/services/db",
            json!({"spec": {"clusterIP": "10.96.0.1", "ipFamilies": ["IPv4"],
                "selector": {"app": "db"}, "ports": [{"port": 80, "protocol": "TCP"}]}}),
        );
        api.put(POD, pod("first"));
        let _running = api.run(&CONTROLLER, Config::default());
        let targets = || -> Vec<String> {
            let created = api.requests().into_iter().filter(|it| {
                matches!(it.method.as_str(), "POST" | "PATCH")
                    && it.path.contains("/endpointslices")
            });
            created
                .map(|it| it.body["endpoints"][0]["targetRef"]["uid"].to_string())
                .collect()
        };
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(targets(), ["\"first\""]);
        api.put(POD, pod("second"));
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(targets(), ["\"first\"", "\"second\""]);
    }
}
