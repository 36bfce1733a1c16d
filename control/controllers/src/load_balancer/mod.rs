//! Load balancer addresses: allocates addresses of `IPPool`s to Services of type
//! LoadBalancer, and releases them.
//!
//! One decision covers all Services, since an address can serve only one of them;
//! concurrent changes lead to one decision. The Service's status is the only record, and
//! a restart reads it again. Before an address is written the Service gets Kubernetes'
//! cleanup finalizer, so that it is not removed while its address is announced, and the
//! annotation `orlop.dev/load-balancer-assigned`, which marks it as ours to clean up.
//!
//! Without any pool nothing is allocated: clusters that use another implementation, or
//! none, are not affected.

mod allocate;
mod claim;
mod pools;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use control_client::events::{ObjectReference, Recorder};
use control_client::{
    Client, Discard, Error, Meta, Metadata, Patch, Queue, Reflector, Selection, reflect, resources,
};
use control_load_balancer::{ASSIGNED, FINALIZER, Pool, is_our_class};
use serde_json::{Value, json};

use self::allocate::{AddressClaim, Assignment, allocate};
use self::pools::IpPool;
use crate::Controller;
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::views::{Namespace, Node, Service};
use crate::work::{self, Outcome};

/// Changes that come within this time are decided on together.
const GATHER: Duration = Duration::from_millis(20);
/// The number of Services that are written concurrently.
const AT_ONCE: usize = 8;
/// For how long the cache may show less than we wrote. Then it is believed: the
/// object may be another of the same name.
const BELIEVED_AFTER: Duration = Duration::from_secs(5);

/// Gives load balancer addresses out.
pub const CONTROLLER: Controller = Controller {
    name: "load-balancer-controller",
    service_account: "load-balancer-controller",
    start: |ctx| {
        let this = Arc::new(LoadBalancer {
            client: ctx.client.clone(),
            recorder: ctx.recorder("load-balancer-controller"),
            default_class: ctx.config.default_load_balancer && !ctx.config.external_cloud,
            services: ctx.services(),
            namespaces: ctx.namespaces(),
            nodes: ctx.nodes(),
            queue: work::queue(),
            wrote: Mutex::default(),
            told: Mutex::default(),
        });
        let wake = |queue: &Queue<Key>| queue.add(everything());
        let listener = Arc::clone(&this);
        this.services.on_change(move |change| {
            let concerns = |service: &Arc<Service>| {
                service.spec.r#type == "LoadBalancer" || is_marked(&service.metadata)
            };
            if change.previous.iter().chain(&change.current).any(concerns) {
                wake(&listener.queue);
            }
        });
        let listener = Arc::clone(&this);
        this.namespaces.on_change(move |change| {
            let labels = |n: &Option<Arc<Namespace>>| n.as_ref().map(|n| n.metadata.labels.clone());
            if labels(&change.previous) != labels(&change.current) {
                wake(&listener.queue);
            }
        });
        let listener = Arc::clone(&this);
        this.nodes.on_change(move |change| {
            let addresses = |n: &Option<Arc<Node>>| n.as_ref().map(|n| n.status.addresses.clone());
            if addresses(&change.previous) != addresses(&change.current) {
                wake(&listener.queue);
            }
        });
        let shutdown = ctx.shutdown.clone();
        Box::pin(async move { this.run(shutdown).await })
    },
};

struct LoadBalancer {
    client: Client,
    recorder: Recorder,
    /// Whether Services without a class are ours.
    default_class: bool,
    services: Arc<KindCache<Service>>,
    namespaces: Arc<KindCache<Namespace>>,
    nodes: Arc<KindCache<Node>>,
    queue: Queue<Key>,
    /// Writes to Services that the cache does not show yet.
    wrote: Mutex<HashMap<Key, LastWrite>>,
    /// The last event about each Service without the addresses that it wants.
    told: Mutex<BTreeMap<Key, String>>,
}

struct LastWrite {
    uid: String,
    revision: Option<u64>,
    addresses: Vec<IpAddr>,
    at: std::time::Instant,
}

/// The one key: all is decided together.
fn everything() -> Key {
    Key::new("", "all")
}

/// Whether its address is ours to take back.
fn is_marked(meta: &Meta) -> bool {
    meta.annotations.contains_key(ASSIGNED)
}

fn has_finalizer(meta: &Meta) -> bool {
    meta.finalizers.iter().any(|name| name == FINALIZER)
}

/// The next write to a Service.
#[derive(Debug, PartialEq, Eq)]
enum ServiceAction {
    /// Finalizer and mark, then these addresses into the status.
    Assign(Key, Vec<IpAddr>),
    /// No addresses, but still ours.
    Clear(Key),
    /// No addresses, then neither mark nor finalizer.
    Free(Key),
}

/// Returns the differences between the Services and the decision.
fn diff(
    services: &[Arc<Service>],
    wanted: &[Assignment],
    current: &HashMap<Key, Vec<IpAddr>>,
) -> Vec<ServiceAction> {
    let wanted: HashMap<&Key, &Assignment> = wanted.iter().map(|it| (&it.key, it)).collect();
    let mut actions = Vec::new();
    for service in services {
        let key = Key::from_meta(&service.metadata);
        let has = current.get(&key).map(Vec::as_slice).unwrap_or_default();
        let marked = is_marked(&service.metadata);
        match wanted.get(&key) {
            None if marked => actions.push(ServiceAction::Free(key)),
            None => {}
            Some(it) if !it.addresses.is_empty() => {
                let kept = marked && has_finalizer(&service.metadata);
                let exact = has == it.addresses;
                if !(kept && exact) {
                    actions.push(ServiceAction::Assign(key, it.addresses.clone()));
                }
            }
            Some(_) if marked && !has.is_empty() => actions.push(ServiceAction::Clear(key)),
            Some(_) => {}
        }
    }
    actions
}

impl LoadBalancer {
    async fn run(self: Arc<Self>, shutdown: tokio_util::sync::CancellationToken) {
        // Where the kinds are not defined there is nothing to follow.
        if !pools::wait_until_served(&self.client, &shutdown).await {
            return;
        }
        let pools = reflect::<IpPool>(&self.client, Selection::all());
        let mut changes = pools.changes();
        self.services.ready().await;
        self.namespaces.ready().await;
        self.nodes.ready().await;
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = pools.synced() => {}
        }
        self.queue.add(everything());
        let this = Arc::clone(&self);
        let of_pools = pools.clone();
        let work = move |_key| {
            let (this, pools) = (Arc::clone(&this), of_pools.clone());
            async move { this.sync(&pools).await }
        };
        let follow = async {
            loop {
                tokio::select! {
                    () = shutdown.cancelled() => return,
                    change = changes.recv() => match change {
                        // Our own writes to a pool's status cause no work.
                        Some(change) if pools::is_news(&change) => self.queue.add(everything()),
                        Some(_) => {}
                        None => return,
                    },
                }
            }
        };
        tokio::join!(self.queue.run("load-balancer", 1, &shutdown, work), follow);
    }

    async fn sync(&self, pools: &Reflector<IpPool>) -> Outcome {
        tokio::time::sleep(GATHER).await;
        let mut objects: Vec<Arc<IpPool>> = pools.cache().snapshot().iter().cloned().collect();
        objects.sort_by(|a, b| a.metadata.name.cmp(&b.metadata.name));
        let (understood, wrong): (Vec<Pool>, Vec<_>) = objects
            .iter()
            .map(|object| Pool::from_spec(&object.metadata.name, &object.spec))
            .unzip();
        let services = self.services.all();
        let current = self.current(&services);
        let claims = self.claims(&services, &current);
        let assigned = if understood.is_empty() {
            // Pools may come back: nothing is given, and nothing taken from whom
            // still wants it.
            claims
                .iter()
                .map(|claim| Assignment {
                    key: Key::new(claim.namespace.clone(), claim.name.clone()),
                    addresses: claim.current.clone(),
                    problem: None,
                })
                .filter(|it| !it.addresses.is_empty())
                .collect()
        } else {
            allocate(&understood, &self.node_addresses(), &claims)
        };
        let mut actions = diff(&services, &assigned, &current);
        if understood.is_empty() {
            actions.retain(|action| matches!(action, ServiceAction::Free(_)));
        }
        self.tell(&services, &assigned);
        let mut result = Ok(None);
        // Addresses are taken back before they are given to others.
        actions.sort_by_key(|action| matches!(action, ServiceAction::Assign(..)));
        for batch in actions.chunks(AT_ONCE) {
            let (_, failure) = work::together(batch.iter().map(|action| self.apply(action))).await;
            if let Some(error) = failure {
                result = Err(error);
                break;
            }
        }
        let statuses = pools::statuses(&objects, &understood, &wrong, &assigned);
        for (pool, status) in statuses {
            let done = self
                .client
                .patch_status::<Discard>(&pools::IP_POOLS, "", &pool, Patch::Merge(&status))
                .await;
            match done {
                Err(error) if !error.is_not_found() && result.is_ok() => result = Err(error),
                _ => {}
            }
        }
        result
    }

    /// Returns the current addresses of each Service: from its status, or from a newer
    /// write of ours.
    fn current(&self, services: &[Arc<Service>]) -> HashMap<Key, Vec<IpAddr>> {
        let mut wrote = self.wrote.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = HashMap::with_capacity(services.len());
        for service in services {
            let key = Key::from_meta(&service.metadata);
            let shown = match wrote.get(&key) {
                Some(it)
                    if it.uid == service.metadata.uid.as_str()
                        && it.at.elapsed() < BELIEVED_AFTER
                        && service.metadata.revision() < it.revision =>
                {
                    it.addresses.clone()
                }
                _ => {
                    wrote.remove(&key);
                    service.status.addresses()
                }
            };
            known.insert(key, shown);
        }
        known
    }

    fn claims(
        &self,
        services: &[Arc<Service>],
        current: &HashMap<Key, Vec<IpAddr>>,
    ) -> Vec<AddressClaim> {
        let ours = services.iter().filter(|service| {
            service.spec.r#type == "LoadBalancer"
                && !service.metadata.is_terminating()
                && is_our_class(
                    service.spec.load_balancer_class.as_deref(),
                    self.default_class,
                )
        });
        ours.map(|service| {
            let namespace = self.namespaces.get("", &service.metadata.namespace);
            let labels = namespace
                .map(|n| n.metadata.labels.clone())
                .unwrap_or_default();
            let has = current
                .get(&Key::from_meta(&service.metadata))
                .cloned()
                .unwrap_or_default();
            AddressClaim::from_service(service, labels, has)
        })
        .collect()
    }

    fn node_addresses(&self) -> BTreeSet<IpAddr> {
        let nodes = self.nodes.all();
        let all = nodes.iter().flat_map(|node| &node.status.addresses);
        all.filter_map(|address| address.address.parse().ok())
            .collect()
    }

    /// Tells of what changed for the worse, once.
    fn tell(&self, services: &[Arc<Service>], assigned: &[Assignment]) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let by_key: HashMap<Key, &Arc<Service>> = services
            .iter()
            .map(|s| (Key::from_meta(&s.metadata), s))
            .collect();
        told.retain(|key, _| by_key.contains_key(key));
        for it in assigned {
            let Some(problem) = &it.problem else {
                told.remove(&it.key);
                continue;
            };
            let text = problem.to_string();
            if told.get(&it.key) == Some(&text) {
                continue;
            }
            if let Some(service) = by_key.get(&it.key) {
                let about = ObjectReference::to_object(&resources::SERVICES, &service.metadata);
                self.recorder
                    .warning(&about, "AllocationFailed", text.clone());
            }
            told.insert(it.key.clone(), text);
        }
    }

    async fn apply(&self, action: &ServiceAction) -> Result<(), Error> {
        let (ServiceAction::Assign(key, _) | ServiceAction::Clear(key) | ServiceAction::Free(key)) =
            action;
        let Some(service) = self.services.by_key(key) else {
            return Ok(());
        };
        let done = match action {
            ServiceAction::Assign(_, addresses) => self.assign(&service, addresses).await,
            ServiceAction::Clear(_) => self.status(&service.metadata, &[]).await.map(drop),
            ServiceAction::Free(_) => self.free(&service).await,
        };
        match done {
            // Deleted, or the cache is stale: its event leads to a new decision.
            Err(error) if error.is_not_found() => Ok(()),
            other => other,
        }
    }

    async fn assign(&self, service: &Service, addresses: &[IpAddr]) -> Result<(), Error> {
        let meta = &service.metadata;
        let mut fresh = meta.clone();
        if !(is_marked(meta) && has_finalizer(meta)) {
            let mut finalizers: Vec<&str> = meta.finalizers.iter().map(AsRef::as_ref).collect();
            if !has_finalizer(meta) {
                finalizers.push(FINALIZER);
            }
            // The list is replaced whole: only the one that was seen.
            let patch = json!({"metadata": {
                "resourceVersion": meta.resource_version.as_str(),
                "finalizers": finalizers,
                "annotations": {ASSIGNED: "true"},
            }});
            fresh = self.patch_meta(meta, &patch).await?;
        }
        self.status(&fresh, addresses).await?;
        if service.status.addresses() != addresses {
            let about = ObjectReference::to_object(&resources::SERVICES, meta);
            let all: Vec<String> = addresses.iter().map(ToString::to_string).collect();
            let text = format!("Assigned IP {}", all.join(", "));
            self.recorder.normal(&about, "IPAllocated", text);
        }
        Ok(())
    }

    async fn free(&self, service: &Service) -> Result<(), Error> {
        let meta = &service.metadata;
        let fresh = if service.status.addresses().is_empty() {
            meta.clone()
        } else {
            self.status(meta, &[]).await?
        };
        let left: Vec<&str> = fresh
            .finalizers
            .iter()
            .map(AsRef::as_ref)
            .filter(|name| *name != FINALIZER)
            .collect();
        let patch = json!({"metadata": {
            "resourceVersion": fresh.resource_version.as_str(),
            "finalizers": left,
            "annotations": {ASSIGNED: Value::Null},
        }});
        self.patch_meta(meta, &patch).await?;
        Ok(())
    }

    async fn patch_meta(&self, meta: &Meta, patch: &Value) -> Result<Meta, Error> {
        let fresh: Metadata = self
            .client
            .patch(
                &resources::SERVICES,
                &meta.namespace,
                &meta.name,
                "",
                Patch::Merge(patch),
            )
            .await?;
        Ok(fresh.metadata)
    }

    async fn status(&self, meta: &Meta, addresses: &[IpAddr]) -> Result<Meta, Error> {
        let ingress: Vec<Value> = addresses
            .iter()
            .map(|address| json!({"ip": address.to_string(), "ipMode": "VIP"}))
            .collect();
        // With the uid: another Service of the same name is decided separately.
        let patch = json!({
            "metadata": {"uid": meta.uid.as_str()},
            "status": {"loadBalancer": {"ingress": ingress}},
        });
        let written: Metadata = self
            .client
            .patch_status(
                &resources::SERVICES,
                &meta.namespace,
                &meta.name,
                Patch::Merge(&patch),
            )
            .await?;
        self.wrote
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(
                Key::from_meta(meta),
                LastWrite {
                    uid: meta.uid.to_string(),
                    revision: written.metadata.revision(),
                    addresses: addresses.to_vec(),
                    at: std::time::Instant::now(),
                },
            );
        Ok(written.metadata)
    }
}

#[cfg(test)]
mod tests;
