//! The garbage collector: objects whose owners are gone are deleted.
//!
//! It follows the metadata of every kind, custom ones too. The graph may lag
//! behind the server, so nothing is deleted on its word alone: owners that it
//! does not know are asked for, and a deletion holds only for the revision of
//! the object that was judged.

mod graph;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use control_client::{
    Client, DeleteOptions, Discard, Error, Metadata, OwnerReference, Patch, Preconditions,
    Propagation, Queue, Reflector, Resource, Selection, reflect_resource,
};
use control_types::registry;
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use self::graph::{FOREGROUND, Fate, Graph, Node, ORPHAN, Verdict};
use crate::views::Text;
use crate::work::{self, Outcome};
use crate::{Controller, LONGEST_DELAY, custom, ownership};

/// How long is waited for all kinds at the start. A kind that cannot be read
/// must not stop the collection of all others.
const FIRST_LISTS: Duration = Duration::from_secs(30);

/// How often custom resources are looked for though no definition changed.
const DISCOVERY: Duration = Duration::from_secs(30);
/// How long changes of definitions are gathered: one comes to be in several writes.
const SETTLING: Duration = Duration::from_millis(100);
/// The resource that defines others.
const DEFINITIONS: &str = "customresourcedefinitions";

/// How many objects are worked on at once.
const WORKERS: usize = 20;

/// Deletes what nobody owns any more.
pub const CONTROLLER: Controller = Controller {
    name: "garbage-collector-controller",
    service_account: "generic-garbage-collector",
    start: |ctx| {
        let this = Arc::new(Collector {
            client: ctx.client.clone(),
            graph: Mutex::default(),
            resources: RwLock::default(),
            defined: Notify::new(),
            puzzling: Mutex::default(),
            queue: Queue::with_delays(Duration::from_millis(5), LONGEST_DELAY),
        });
        let shutdown = ctx.shutdown.clone();
        Box::pin(async move { this.run(shutdown).await })
    },
};

struct Collector {
    client: Client,
    graph: Mutex<Graph>,
    /// By the number that nodes carry; none where one was followed that is gone.
    resources: RwLock<Vec<Option<Resource>>>,
    /// A definition of a custom resource changed.
    defined: Notify,
    /// Objects with owners of kinds that were not known when they were judged.
    puzzling: Mutex<HashSet<Text>>,
    queue: Queue<Text>,
}

/// A custom resource that is followed.
struct Custom {
    resource: Resource,
    /// The number that its objects carry.
    number: usize,
    /// Ends it.
    stop: CancellationToken,
}

impl Collector {
    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let mut tasks = JoinSet::new();
        let mut reflectors = Vec::new();
        for resource in built_in() {
            reflectors.push(self.follow(resource, &mut tasks, &shutdown).1);
        }
        let lists = async {
            for reflector in &reflectors {
                reflector.synced().await;
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => return,
            done = tokio::time::timeout(FIRST_LISTS, lists) => if done.is_err() {
                let missing = reflectors.iter().filter(|r| !r.is_synced()).count();
                tracing::warn!(missing, "some kinds cannot be read; collecting without them");
            },
        }
        drop(reflectors);
        let collector = Arc::clone(&self);
        let work = move |uid: Text| {
            let collector = Arc::clone(&collector);
            async move { collector.sync(&uid).await }
        };
        let mut followed = Vec::new();
        let discovery = async {
            loop {
                self.find_custom(&mut followed, &mut tasks, &shutdown).await;
                tokio::select! {
                    () = shutdown.cancelled() => return,
                    () = self.defined.notified() => tokio::time::sleep(SETTLING).await,
                    () = tokio::time::sleep(DISCOVERY) => {}
                }
            }
        };
        tokio::join!(
            self.queue.run("garbage", WORKERS, &shutdown, work),
            discovery
        );
        while tasks.join_next().await.is_some() {}
    }

    /// Follows the custom resources that there are, and only those: one that is not
    /// served any more would be asked for in vain for ever.
    async fn find_custom(
        self: &Arc<Self>,
        followed: &mut Vec<Custom>,
        tasks: &mut JoinSet<()>,
        shutdown: &CancellationToken,
    ) {
        let found = match custom::resources(&self.client).await {
            Ok(found) => found,
            Err(error) => {
                tracing::debug!(error = %error.chain(), "cannot look for custom resources");
                return;
            }
        };
        for gone in followed.extract_if(.., |known| !found.contains(&known.resource)) {
            self.forget(&gone);
        }
        while tasks.try_join_next().is_some() {}
        for resource in found {
            if followed.iter().any(|known| known.resource == resource) {
                continue;
            }
            let stop = shutdown.child_token();
            let (number, _) = self.follow(resource.clone(), tasks, &stop);
            followed.push(Custom {
                resource,
                number,
                stop,
            });
            for uid in std::mem::take(&mut *self.puzzling()) {
                self.queue.add(uid);
            }
        }
    }

    /// Leaves a resource that is served no more, with the objects that it had.
    fn forget(&self, gone: &Custom) {
        tracing::debug!(resource = %gone.resource, "following it no more");
        gone.stop.cancel();
        let concerned = self.graph().remove_all(gone.number);
        let mut all = self
            .resources
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        all[gone.number] = None;
        drop(all);
        for uid in concerned {
            self.queue.add(uid);
        }
    }

    fn known(&self) -> std::sync::RwLockReadGuard<'_, Vec<Option<Resource>>> {
        self.resources
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn puzzling(&self) -> MutexGuard<'_, HashSet<Text>> {
        self.puzzling.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn graph(&self) -> MutexGuard<'_, Graph> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the objects of a resource into the graph, from now on.
    fn follow(
        self: &Arc<Self>,
        resource: Resource,
        tasks: &mut JoinSet<()>,
        shutdown: &CancellationToken,
    ) -> (usize, Reflector<Metadata>) {
        let number = {
            let mut all = self
                .resources
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            let free = all.iter().position(Option::is_none).unwrap_or(all.len());
            let length = all.len().max(free + 1);
            all.resize_with(length, || None);
            all[free] = Some(resource.clone());
            free
        };
        let defines = resource.plural == DEFINITIONS;
        let selection = Selection::all().metadata_only();
        let reflector = reflect_resource::<Metadata>(&self.client, resource, selection);
        let mut changes = reflector.changes();
        let (this, shutdown, kept) = (Arc::clone(self), shutdown.clone(), reflector.clone());
        tasks.spawn(async move {
            loop {
                let change = tokio::select! {
                    () = shutdown.cancelled() => break,
                    change = changes.recv() => change,
                };
                let Some(change) = change else { break };
                if defines {
                    this.defined.notify_one();
                }
                let mut concerned = Vec::new();
                {
                    let mut graph = this.graph();
                    if shutdown.is_cancelled() {
                        // What was left must not come back.
                        break;
                    }
                    let uid = |object: &Option<Arc<Metadata>>| {
                        object.as_ref().map(|object| object.metadata.uid.clone())
                    };
                    let (before, after) = (uid(&change.previous), uid(&change.current));
                    if let Some(gone) = before.filter(|before| after.as_ref() != Some(before)) {
                        concerned.append(&mut graph.remove(&gone));
                        this.puzzling().remove(&gone);
                    }
                    if let Some(object) = &change.current {
                        concerned.append(&mut graph.put(number, &object.metadata));
                    }
                }
                for uid in concerned {
                    this.queue.add(uid);
                }
            }
            drop(kept);
        });
        (number, reflector)
    }

    async fn sync(&self, uid: &Text) -> Outcome {
        let (fate, node) = {
            let graph = self.graph();
            let Some(node) = graph.get(uid).cloned() else {
                return Ok(None);
            };
            (graph.fate(uid), node)
        };
        match fate {
            Fate::Stay => Ok(None),
            Fate::Wait(blocking) => {
                for dependent in blocking {
                    self.queue.add(dependent);
                }
                Ok(None)
            }
            Fate::Unblock => self.remove_finalizer(&node, uid, FOREGROUND).await,
            Fate::Orphan(dependents) => {
                let (_, failure) = work::together(dependents.iter().map(|dependent| async {
                    let found = self.graph().get(dependent).cloned();
                    match found {
                        Some(node) => {
                            self.drop_owners(&node, dependent, std::slice::from_ref(uid))
                                .await
                        }
                        None => Ok(()),
                    }
                }))
                .await;
                match failure {
                    Some(error) => Err(error),
                    None => self.remove_finalizer(&node, uid, ORPHAN).await,
                }
            }
            Fate::Judge => self.judge(&node, uid).await,
        }
    }

    fn resource(&self, node: &Node) -> Option<Resource> {
        self.known().get(node.resource).cloned().flatten()
    }

    /// The object as it is on the server, unless it is gone.
    async fn live(&self, node: &Node, uid: &str) -> Result<Option<(Resource, Metadata)>, Error> {
        let Some(resource) = self.resource(node) else {
            return Ok(None);
        };
        match self
            .client
            .get::<Metadata>(&resource, &node.namespace, &node.name)
            .await
        {
            Ok(object) if object.metadata.uid == uid => Ok(Some((resource, object))),
            Ok(_) => Ok(None),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn judge(&self, node: &Node, uid: &str) -> Outcome {
        let Some((resource, object)) = self.live(node, uid).await? else {
            return Ok(None);
        };
        let meta = &object.metadata;
        let mut gone: HashMap<&str, bool> = HashMap::new();
        for owner in &meta.owner_references {
            if self.graph().get(&owner.uid).is_none() {
                let Some(resource) = self.resource_of(owner) else {
                    // An owner of a kind that nobody knows counts as there: better
                    // to keep too much. It is judged again when the kind is known.
                    self.puzzling().insert(uid.into());
                    continue;
                };
                let is_gone = self.is_gone(&resource, owner, &node.namespace).await?;
                gone.insert(&owner.uid, is_gone);
            }
        }
        let verdict = {
            let graph = self.graph();
            // one that the graph forgot since is asked for next time
            let owners = graph.classify(&meta.owner_references, |uid| {
                gone.get(uid).copied().unwrap_or(false)
            });
            graph.verdict(uid, owners)
        };
        let waits_for = |finalizer: &str| meta.finalizers.iter().any(|f| f == finalizer);
        let propagation = match verdict {
            Verdict::Stay => return Ok(None),
            Verdict::Drop(owners) => {
                self.drop_owners(node, uid, &owners).await?;
                return Ok(None);
            }
            Verdict::DeleteForeground => Propagation::Foreground,
            Verdict::Delete if waits_for(ORPHAN) => Propagation::Orphan,
            Verdict::Delete if waits_for(FOREGROUND) => Propagation::Foreground,
            Verdict::Delete => Propagation::Background,
        };
        tracing::debug!(%resource, namespace = %node.namespace, name = %node.name, ?propagation, "collecting");
        let options = DeleteOptions {
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: Some(meta.resource_version.to_string()),
            }),
            propagation_policy: Some(propagation),
            ..DeleteOptions::default()
        };
        let deleted = self
            .client
            .delete(&resource, &node.namespace, &node.name, &options)
            .await;
        work::unless_gone(deleted).map(|()| None)
    }

    /// Whether an owner that the graph does not know is really gone.
    async fn is_gone(
        &self,
        resource: &Resource,
        owner: &OwnerReference,
        namespace: &str,
    ) -> Result<bool, Error> {
        if resource.namespaced && namespace.is_empty() {
            // such an owner cannot be named; upstream only warns, too
            return Ok(false);
        }
        match self
            .client
            .get::<Metadata>(resource, namespace, &owner.name)
            .await
        {
            Ok(found) => Ok(found.metadata.uid != owner.uid),
            Err(error) if error.is_not_found() => Ok(true),
            Err(error) => Err(error),
        }
    }

    fn resource_of(&self, owner: &OwnerReference) -> Option<Resource> {
        let (group, version) = owner
            .api_version
            .split_once('/')
            .unwrap_or(("", owner.api_version.as_str()));
        if let Some(row) = registry::lookup_kind(group, version, &owner.kind) {
            return Some(of_row(row));
        }
        self.known()
            .iter()
            .flatten()
            .find(|known| known.group == group && known.kind == owner.kind.as_str())
            .cloned()
    }

    /// Takes owners from an object.
    async fn drop_owners(&self, node: &Node, uid: &str, owners: &[Text]) -> Result<(), Error> {
        let Some((resource, object)) = self.live(node, uid).await? else {
            return Ok(());
        };
        let mut meta = object.metadata;
        let before = meta.owner_references.len();
        meta.owner_references
            .retain(|owner| !owners.contains(&owner.uid));
        if meta.owner_references.len() == before {
            return Ok(());
        }
        // nothing is left to release: the patch writes the list as it is now
        let patch = ownership::release_patch(&meta, "", None);
        work::merge(&self.client, &resource, &meta, "", &patch).await
    }

    async fn remove_finalizer(&self, node: &Node, uid: &str, finalizer: &str) -> Outcome {
        let Some((resource, object)) = self.live(node, uid).await? else {
            return Ok(None);
        };
        let meta = &object.metadata;
        let left: Vec<_> = meta.finalizers.iter().filter(|f| *f != finalizer).collect();
        if left.len() == meta.finalizers.len() {
            return Ok(None);
        }
        let patch = json!({"metadata": {
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
            "finalizers": left,
        }});
        let patched = self
            .client
            .patch::<Discard>(
                &resource,
                &node.namespace,
                &node.name,
                "",
                Patch::Merge(&patch),
            )
            .await;
        work::unless_gone(patched).map(|()| None)
    }
}

fn of_row(row: &registry::Resource) -> Resource {
    Resource {
        group: row.group.into(),
        version: row.version.into(),
        plural: row.plural.into(),
        kind: row.kind.into(),
        namespaced: row.namespaced,
    }
}

/// All built-in resources that can be followed and deleted, one version of
/// each. Events own nothing and are owned by nothing, and are many.
fn built_in() -> Vec<Resource> {
    let mut seen = BTreeSet::new();
    registry::resources()
        .iter()
        .filter(|row| {
            ["list", "watch", "delete"]
                .iter()
                .all(|verb| row.has_verb(verb))
        })
        .filter(|row| row.plural != "events")
        .filter(|row| seen.insert((row.group, row.plural)))
        .map(of_row)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resource_is_followed_once() {
        let all = built_in();
        let names: BTreeSet<String> = all.iter().map(ToString::to_string).collect();
        assert_eq!(names.len(), all.len());
        for name in [
            "pods",
            "replicasets.apps",
            "nodes",
            "endpointslices.discovery.k8s.io",
        ] {
            assert!(names.contains(name), "{name} is missing");
        }
        assert!(!names.contains("events"));
        assert!(!names.contains("events.events.k8s.io"));
    }
}
