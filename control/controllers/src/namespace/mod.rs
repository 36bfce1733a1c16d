//! Deletes namespaces with all their contents.
//!
//! The API server marks a namespace; this controller deletes the contents and then
//! removes `kubernetes` from the finalizers, which deletes the namespace. The resources
//! are those of the registry's table and of discovery (custom and aggregated resources).
//!
//! The first sweep covers all resources. While objects remain, most further sweeps cover
//! only their resources. A sweep starts when the last object of a resource is deleted, as
//! reported by the pods' cache and, in a long wait, by a watch per resource; in case an
//! event was missed, also after a delay that doubles each time. A last sweep of all
//! resources precedes the removal of the finalizer.

mod decide;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use control_client::{
    Change, Client, DeleteOptions, Discard, Error, Metadata, Propagation, Queue, Reflector,
    Resource, Selection, View, reflect_resource, resources,
};
use control_types::registry;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use self::decide::{Progress, Sweep};
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::views::{Namespace, Pod, Text, seconds_now};
use crate::work::{self, Outcome};
use crate::{Controller, discovery};

/// The finalizer that is ours to take away.
const FINALIZER: &str = "kubernetes";

/// The number of sweeps without progress after which the remaining resources are watched.
const WATCH_AFTER: u32 = 2;
/// The number of resources of one namespace that are watched concurrently.
const WATCHED: usize = 16;

/// Deletes the contents of terminating namespaces.
pub const CONTROLLER: Controller = Controller {
    name: "namespace-controller",
    service_account: "namespace-controller",
    start: |ctx| {
        let this = Arc::new(Namespaces {
            client: ctx.client.clone(),
            reader: ctx.reader().clone(),
            namespaces: ctx.namespaces(),
            pods: ctx.pods(),
            terminating: Mutex::default(),
            queue: work::queue(),
        });
        let listener = Arc::clone(&this);
        this.namespaces.on_change(move |change| {
            if let Some(namespace) = &change.current
                && concerns_deletion(change)
            {
                listener.queue.add(Key::from_meta(&namespace.metadata));
            }
        });
        let listener = Arc::clone(&this);
        this.pods.on_change(move |change| {
            if change.current.is_none()
                && let Some(pod) = &change.previous
            {
                listener.pod_gone(&pod.metadata.namespace);
            }
        });
        let shutdown = ctx.shutdown.clone();
        Box::pin(async move {
            this.namespaces.ready().await;
            let work = work::call(&this, |this, key| async move { this.sync(key).await });
            this.queue.run("namespace", 4, &shutdown, work).await;
        })
    },
};

struct Namespaces {
    client: Client,
    /// For watches, which the controller's own account may not open.
    reader: Client,
    namespaces: Arc<KindCache<Namespace>>,
    pods: Arc<KindCache<Pod>>,
    /// The namespaces that are being emptied, by name.
    terminating: Mutex<HashMap<Text, TerminatingNamespace>>,
    queue: Queue<Key>,
}

/// A namespace whose contents are being deleted.
#[derive(Default)]
struct TerminatingNamespace {
    progress: Progress,
    /// The watched resources, and the task that waits until one is empty.
    watch: Option<(Vec<Resource>, AbortOnDropHandle<()>)>,
}

/// Whether a change of a namespace requires a sweep. A change of the conditions, which
/// each sweep writes, does not.
fn concerns_deletion(change: &Change<Namespace>) -> bool {
    let Some(now) = &change.current else {
        return false;
    };
    let before = change.previous.as_ref().filter(|before| {
        before.metadata.is_terminating() && before.metadata.uid == now.metadata.uid
    });
    now.metadata.is_terminating()
        && before.is_none_or(|before| before.spec.finalizers != now.spec.finalizers)
}

impl Namespaces {
    fn terminating(&self) -> MutexGuard<'_, HashMap<Text, TerminatingNamespace>> {
        self.terminating
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a terminating namespace when its last pod is deleted.
    fn pod_gone(&self, namespace: &Text) {
        let waits = self.terminating().contains_key(namespace);
        if waits && self.pods.namespace(namespace).is_empty() {
            self.queue.add(Key::new("", namespace.clone()));
        }
    }

    async fn sync(&self, key: Key) -> Outcome {
        let waiting = self.namespaces.by_key(&key).filter(|namespace| {
            namespace.metadata.is_terminating()
                && namespace.spec.finalizers.iter().any(|f| f == FINALIZER)
        });
        let Some(namespace) = waiting else {
            self.terminating().remove(&key.name);
            return Ok(None);
        };
        let scope = self.scope(&namespace);
        let mut sweep = match &scope {
            Some(resources) => self.sweep(&key.name, resources.clone(), None).await,
            None => self.sweep_all(&key.name).await,
        };
        if scope.is_some() && sweep.is_clean() {
            sweep = self.sweep_all(&key.name).await;
        }
        self.report(&namespace, &sweep).await?;
        if sweep.is_clean() {
            self.finalize(&namespace).await?;
            self.terminating().remove(&key.name);
            return Ok(None);
        }
        let mut all = self.terminating();
        let terminating = all.entry(key.name.clone()).or_default();
        let delay = terminating.progress.note(sweep);
        self.watch_remaining(&key, terminating);
        Ok(Some(delay))
    }

    /// The resources of the next sweep; `None` for all.
    fn scope(&self, namespace: &Namespace) -> Option<Vec<Resource>> {
        let uid = &namespace.metadata.uid;
        let mut all = self.terminating();
        let known = all.entry(namespace.metadata.name.clone()).or_default();
        if known.progress.uid != *uid {
            *known = TerminatingNamespace::default();
            known.progress.uid = uid.clone();
        }
        known.progress.scope().map(<[Resource]>::to_vec)
    }

    /// Watches the resources that have objects left, once the namespace makes no progress.
    /// Pods need no watch: their cache reports deletions.
    fn watch_remaining(&self, key: &Key, terminating: &mut TerminatingNamespace) {
        let TerminatingNamespace { progress, watch } = terminating;
        let mut remaining = progress.scope().unwrap_or_default().to_vec();
        remaining.retain(|resource| *resource != resources::PODS);
        remaining.truncate(WATCHED);
        if remaining.is_empty() || progress.repetitions < WATCH_AFTER {
            *watch = None;
            return;
        }
        // a finished watch has queued the namespace already
        if let Some((watched, task)) = watch
            && *watched == remaining
            && !task.is_finished()
        {
            return;
        }
        let followed = remaining.iter().map(|resource| {
            let here = Selection::all()
                .namespace(key.name.as_str())
                .metadata_only();
            Box::pin(emptied(reflect_resource::<Metadata>(
                &self.reader,
                resource.clone(),
                here,
            )))
        });
        let any = futures::future::select_all(followed);
        let (queue, key) = (self.queue.clone(), key.clone());
        let task = tokio::spawn(async move {
            any.await;
            queue.add(key);
        });
        *watch = Some((remaining, AbortOnDropHandle::new(task)));
    }

    /// Deletes everything once and counts what remains.
    async fn sweep_all(&self, namespace: &str) -> Sweep {
        let (all, discovery) = self.resources().await;
        self.sweep(namespace, all, discovery).await
    }

    /// Deletes the objects of these resources once and counts what remains. Pods are
    /// deleted before everything else, so that none runs without the objects that protect
    /// and configure it (KEP-5080). `discovery` says why there may be more resources.
    async fn sweep(&self, namespace: &str, all: Vec<Resource>, discovery: Option<String>) -> Sweep {
        let mut sweep = Sweep {
            discovery,
            ..Sweep::default()
        };
        let (pods, others): (Vec<_>, Vec<_>) = all
            .into_iter()
            .partition(|resource| *resource == resources::PODS);
        for some in [pods, others] {
            let cleared = some.iter().map(|resource| self.clear(resource, namespace));
            let results = futures::future::join_all(cleared).await;
            for (resource, result) in some.iter().zip(results) {
                match result {
                    Ok(left) => sweep.left(resource, &left),
                    // a resource that is served no more holds nothing
                    Err(error) if error.is_not_found() => {}
                    Err(error) => sweep.failures.push(error.chain()),
                }
            }
            if !sweep.remaining.is_empty() {
                break;
            }
        }
        sweep
    }

    async fn clear(&self, resource: &Resource, namespace: &str) -> Result<Vec<Metadata>, Error> {
        let here = Selection::all().namespace(namespace).metadata_only();
        let found = self.client.list::<Metadata>(resource, &here).await?.items;
        if found.iter().all(|object| object.metadata.is_terminating()) {
            return Ok(found);
        }
        let options = DeleteOptions::default().propagation(Propagation::Background);
        let all = Selection::all().namespace(namespace);
        match self
            .client
            .delete_collection(resource, &all, &options)
            .await
        {
            Err(error) if error.status().is_some_and(|s| s.code == 405) => {
                for object in &found {
                    let name = &object.metadata.name;
                    match self
                        .client
                        .delete(resource, namespace, name, &options)
                        .await
                    {
                        Err(error) if !error.is_not_found() => return Err(error),
                        _ => {}
                    }
                }
            }
            other => other?,
        }
        Ok(self.client.list::<Metadata>(resource, &here).await?.items)
    }

    /// Returns all namespaced resources that can be listed and deleted, one version of
    /// each, and the error of discovery if it failed.
    async fn resources(&self) -> (Vec<Resource>, Option<String>) {
        let mut seen = BTreeSet::new();
        let mut all = Vec::new();
        for row in registry::resources() {
            let usable = row.namespaced
                && row.has_verb("list")
                && (row.has_verb("delete") || row.has_verb("deletecollection"));
            // events are served by two groups from one store
            let twin = row.group == "events.k8s.io";
            if usable && !twin && seen.insert((row.group.to_owned(), row.plural.to_owned())) {
                all.push(Resource::namespaced(
                    row.group,
                    row.version,
                    row.plural,
                    row.kind,
                ));
            }
        }
        let discovery = match discovery::extensions(&self.client).await {
            Ok(found) => {
                let failure = found.failure();
                let usable = found.resources.into_iter().filter(|one| {
                    one.resource.namespaced
                        && one.allows(&["list"])
                        && (one.allows(&["delete"]) || one.allows(&["deletecollection"]))
                });
                all.extend(usable.map(|one| one.resource));
                failure
            }
            Err(error) => Some(error.chain()),
        };
        (all, discovery)
    }

    async fn report(&self, namespace: &Namespace, sweep: &Sweep) -> Result<(), Error> {
        let conditions = decide::conditions(&namespace.status.conditions, sweep, seconds_now());
        if conditions == namespace.status.conditions || sweep.is_clean() {
            return Ok(());
        }
        let meta = &namespace.metadata;
        let patch = json!({"metadata": {"uid": meta.uid}, "status": {"conditions": conditions}});
        work::merge(&self.client, &Namespace::RESOURCE, meta, "status", &patch).await
    }

    /// Takes our finalizer away.
    async fn finalize(&self, namespace: &Namespace) -> Result<(), Error> {
        let name = namespace.metadata.name.as_str();
        let mut object: Value = match self.client.get(&resources::NAMESPACES, "", name).await {
            Ok(object) => object,
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error),
        };
        if object["metadata"]["uid"] != namespace.metadata.uid.as_str() {
            return Ok(());
        }
        if let Some(list) = object["spec"]["finalizers"].as_array_mut() {
            list.retain(|finalizer| finalizer != FINALIZER);
        }
        let done = self
            .client
            .update_subresource::<Discard>(&resources::NAMESPACES, "", name, "finalize", &object)
            .await;
        work::unless_gone(done)
    }
}

/// Waits until a followed resource has no objects.
async fn emptied(followed: Reflector<Metadata>) {
    let mut changes = followed.changes();
    followed.synced().await;
    while !followed.cache().is_empty() {
        if changes.recv().await.is_none() {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
