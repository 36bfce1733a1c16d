//! Recounts the usage of ResourceQuotas.
//!
//! The API server charges a quota for every object that it stores. Recounting releases
//! what deleted objects used, corrects charges without an object, and initialises a new
//! quota. It lists from the server, not from a cache: the count must not be older than
//! the quota that it is written to, and the write succeeds only if nothing was charged in
//! between.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use control_client::{
    Change, Client, Discard, Error, Meta, Metadata, Queue, Reflector, Resource, Selection, View,
    reflect, reflect_resource,
};
use control_kinds::quota::{self as rules, CountedObjects};
use control_types::value::Value;
use control_types::{meta, registry};
use serde::Deserialize;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::key::Key;

use crate::kind_cache::KindCache;
use crate::views::{Phase, Pod, Service};
use crate::work::{self, Outcome};
use crate::{Controller, custom};

/// How long an object may take from its charge until it is stored. Only then is it
/// counted; an object that takes longer is free until the next count.
const SETTLE: Duration = Duration::from_millis(250);
/// How long after the end of a pod's grace period its quota is counted: the pod still counts
/// at the end itself.
const PAST_END: Duration = Duration::from_millis(10);
/// The interval at which all quotas are recounted.
const AGAIN: Duration = Duration::from_secs(300);
/// The number of quotas that are recounted concurrently.
const WORKERS: usize = 5;
const QUOTAS: Resource = Resource::namespaced("", "v1", "resourcequotas", "ResourceQuota");
const CLASSES: Resource =
    Resource::cluster("resource.k8s.io", "v1", "deviceclasses", "DeviceClass");

/// Keeps the status of quotas.
pub const CONTROLLER: Controller = Controller {
    name: "resourcequota-controller",
    service_account: "resourcequota-controller",
    start: |ctx| {
        let this = Arc::new(Quotas {
            client: ctx.client.clone(),
            queue: work::queue(),
            tracked: Mutex::default(),
            followed: Mutex::default(),
        });
        let (pods, services) = (ctx.pods(), ctx.services());
        this.listen(&pods, "pods", pod_gave_back);
        this.listen(&services, "services", service_changed);
        let shutdown = ctx.shutdown.clone();
        Box::pin(async move { this.run(shutdown).await })
    },
};

/// A quota, as its changes are followed.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Quota {
    metadata: Meta,
    spec: Value,
}

impl View for Quota {
    const RESOURCE: Resource = QUOTAS;
    fn meta(&self) -> &Meta {
        &self.metadata
    }
}

/// A quota and the resources that it counts.
struct TrackedQuota {
    key: Key,
    counted: Vec<(String, String)>,
}

struct Quotas {
    client: Client,
    queue: Queue<Key>,
    tracked: Mutex<Vec<TrackedQuota>>,
    /// Resources whose deletions are followed, by group and plural.
    followed: Mutex<BTreeSet<(String, String)>>,
}

impl Quotas {
    /// Triggers a recount when a change of a cached kind may have released usage.
    fn listen<V: View>(
        self: &Arc<Self>,
        kind: &Arc<KindCache<V>>,
        plural: &'static str,
        gave_back: fn(&Change<V>) -> bool,
    ) {
        self.followed().insert((String::new(), plural.to_owned()));
        let this = Arc::clone(self);
        kind.on_change(move |change| {
            if let Some(object) = change.current.as_ref().or(change.previous.as_ref())
                && gave_back(change)
            {
                this.replenish("", plural, &object.meta().namespace);
            }
        });
    }

    fn followed(&self) -> std::sync::MutexGuard<'_, BTreeSet<(String, String)>> {
        self.followed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tracked(&self) -> std::sync::MutexGuard<'_, Vec<TrackedQuota>> {
        self.tracked.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Recounts the quotas of a namespace that count a resource.
    fn replenish(&self, group: &str, plural: &str, namespace: &str) {
        for tracked in self.tracked().iter() {
            let mut counted = tracked.counted.iter();
            let counts = |(g, p): &(String, String)| g == group && p == plural;
            if tracked.key.namespace == namespace && counted.any(counts) {
                self.queue.add(tracked.key.clone());
            }
        }
    }

    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let mut tasks = JoinSet::new();
        let quotas = reflect::<Quota>(&self.client, Selection::all());
        let mut changes = quotas.changes();
        let this = Arc::clone(&self);
        let work = work::call(&this, |this, key| async move { this.sync(key).await });
        let follow = async {
            let mut again = tokio::time::interval(AGAIN);
            again.tick().await;
            loop {
                tokio::select! {
                    () = shutdown.cancelled() => return,
                    change = changes.recv() => match change {
                        Some(change) => self.quota_changed(&change),
                        None => return,
                    },
                    _ = again.tick() => {
                        let keys: Vec<Key> =
                            self.tracked().iter().map(|tracked| tracked.key.clone()).collect();
                        for key in keys {
                            self.queue.add(key);
                        }
                    }
                    () = tokio::time::sleep(Duration::from_secs(1)) => {}
                }
                self.follow_counted(&mut tasks, &shutdown).await;
            }
        };
        tokio::join!(
            self.queue.run("resourcequota", WORKERS, &shutdown, work),
            follow
        );
        drop(quotas);
        tasks.shutdown().await;
    }

    /// Counts a quota that is new or whose spec changed. Its status is written by
    /// charges all the time, which is no reason to count.
    fn quota_changed(&self, change: &Change<Quota>) {
        match (&change.previous, &change.current) {
            (_, None) => {
                if let Some(gone) = &change.previous {
                    let gone = Key::from_meta(&gone.metadata);
                    self.tracked().retain(|tracked| tracked.key != gone);
                }
            }
            (previous, Some(current)) => {
                let known = previous.as_ref().is_some_and(|previous| {
                    previous.metadata.uid == current.metadata.uid && previous.spec == current.spec
                });
                if !known {
                    self.queue.add(Key::from_meta(&current.metadata));
                }
            }
        }
    }

    /// Follows the deletions of all resources that quotas count by now.
    async fn follow_counted(
        self: &Arc<Self>,
        tasks: &mut JoinSet<()>,
        shutdown: &CancellationToken,
    ) {
        let wanted: BTreeSet<(String, String)> = {
            let followed = self.followed();
            let tracked = self.tracked();
            let all = tracked.iter().flat_map(|tracked| &tracked.counted);
            all.filter(|one| !followed.contains(*one))
                .cloned()
                .collect()
        };
        for (group, plural) in wanted {
            let Ok(Some(resource)) = self.resource(&group, &plural).await else {
                continue;
            };
            self.followed().insert((group.clone(), plural.clone()));
            let selection = Selection::all().metadata_only();
            let reflector: Reflector<Metadata> =
                reflect_resource(&self.client, resource, selection);
            let mut changes = reflector.changes();
            let (this, shutdown) = (Arc::clone(self), shutdown.clone());
            // Claims may shrink while they live; all others only end.
            let any = plural == "persistentvolumeclaims" || plural == "resourceclaims";
            let task = control_supervise::task("quota-follower").detail(&*plural);
            tasks.spawn(task.essential(async move {
                loop {
                    let change = tokio::select! {
                        () = shutdown.cancelled() => break,
                        change = changes.recv() => change,
                    };
                    let Some(change) = change else { break };
                    let Some(previous) = &change.previous else {
                        continue;
                    };
                    if any || change.current.is_none() {
                        this.replenish(&group, &plural, &previous.metadata.namespace);
                    }
                }
                drop(reflector);
            }));
        }
    }

    /// A resource by the names that quotas use, in the version that is served.
    async fn resource(&self, group: &str, plural: &str) -> Result<Option<Resource>, Error> {
        let row = registry::resources()
            .iter()
            .find(|row| row.group == group && row.plural == plural && row.has_verb("list"));
        if let Some(row) = row {
            return Ok(row
                .namespaced
                .then(|| Resource::namespaced(row.group, row.version, row.plural, row.kind)));
        }
        let all = custom::resources(&self.client).await?;
        Ok(all.into_iter().find(|resource| {
            resource.namespaced && resource.group == group && resource.plural == plural
        }))
    }

    async fn sync(&self, key: Key) -> Outcome {
        // It may list quotas, not get one.
        let selection = Selection::all()
            .namespace(key.namespace.as_str())
            .fields(format!("metadata.name={}", key.name));
        let found = self.client.list::<Value>(&QUOTAS, &selection).await?.items;
        let Some(mut quota) = found.into_iter().next() else {
            return Ok(None);
        };
        meta::set_type(&mut quota, "v1", "ResourceQuota");
        let counts_devices = |(group, _): &(String, String)| group == "resource.k8s.io";
        let mut classes = Vec::new();
        let mut counted = rules::counted(&quota, &classes);
        let mentions_requests = || {
            let hard = quota.path(&["spec", "hard"]).and_then(Value::as_object);
            hard.is_some_and(|hard| hard.keys().any(|name| name.starts_with("requests.")))
        };
        if counted.iter().any(counts_devices) || mentions_requests() {
            classes = self.classes().await?;
            counted = rules::counted(&quota, &classes);
        }
        {
            let mut tracked = self.tracked();
            tracked.retain(|tracked| tracked.key != key);
            tracked.push(TrackedQuota {
                key: key.clone(),
                counted: counted.clone(),
            });
        }
        // Every charge in the quota that was just read has its object stored by then. The
        // loop is bounded, since some quotas are charged all the time.
        let failures = self.queue.failures(&key);
        tokio::time::sleep(SETTLE / 2_u32.saturating_pow(failures)).await;
        let mut all = Vec::with_capacity(counted.len());
        for (group, plural) in counted {
            // A resource that is not served keeps its known usage.
            if let Some(resource) = self.resource(&group, &plural).await? {
                let selection = Selection::all().namespace(key.namespace.as_str());
                let objects = self
                    .client
                    .list::<Value>(&resource, &selection)
                    .await?
                    .items;
                all.push(CountedObjects {
                    group,
                    plural,
                    objects,
                });
            }
        }
        let now = jiff::Timestamp::now();
        let status = rules::recount(&quota, &all, &classes, now);
        // The end of a grace period releases usage without an event.
        let wake = rules::next_change(&all, now)
            .and_then(|at| Duration::try_from(at.duration_since(now)).ok())
            .map(|left| left + PAST_END);
        if quota.get("status") == Some(&status) {
            return Ok(wake);
        }
        // With the revision that was read: a charge since then is a conflict.
        let mut wanted = quota;
        wanted.insert("status", status);
        let written = self
            .client
            .update_status::<Discard>(&QUOTAS, &key.namespace, &key.name, &wanted)
            .await;
        work::unless_gone(written).map(|()| wake)
    }

    /// Returns all device classes with the extended resource that each stands for.
    async fn classes(&self) -> Result<Vec<(String, String)>, Error> {
        let all = self
            .client
            .list::<Value>(&CLASSES, &Selection::all())
            .await?;
        let text = |class: &Value, path: &[&str]| class.str_at(path).unwrap_or_default().to_owned();
        let pair = |class: &Value| {
            (
                text(class, &["metadata", "name"]),
                text(class, &["spec", "extendedResourceName"]),
            )
        };
        Ok(all.items.iter().map(pair).collect())
    }
}

/// Returns whether a pod ended, was deleted, or requests something else.
fn pod_gave_back(change: &Change<Pod>) -> bool {
    let (Some(previous), Some(current)) = (&change.previous, &change.current) else {
        return change.current.is_none();
    };
    let over = |pod: &Pod| matches!(pod.status.phase, Phase::Succeeded | Phase::Failed);
    over(previous) != over(current)
        || previous.metadata.generation != current.metadata.generation
        || previous.metadata.is_terminating() != current.metadata.is_terminating()
}

/// Returns whether a Service was deleted or changed its type.
fn service_changed(change: &Change<Service>) -> bool {
    match (&change.previous, &change.current) {
        (Some(previous), Some(current)) => previous.spec.r#type != current.spec.r#type,
        (_, None) => true,
        (None, Some(_)) => false,
    }
}
