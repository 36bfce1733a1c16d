//! The garbage collector: deletes objects whose owners no longer exist.
//!
//! It follows the metadata of every kind, including custom ones. The graph may lag behind
//! the server, so it never suffices for a deletion: the server is asked for unknown
//! owners, and a deletion applies only to the revision of the object that was judged.
//!
//! The graph never proves that an object has no dependents. Work starts when the graph
//! holds the first lists of all kinds, and while the list of a kind that was added later
//! is outstanding, foreground deletion waits. The `orphan` finalizer is removed only
//! after the dependents of every kind were listed from the server: without the finalizer,
//! dependents that still name the owner would be deleted although a user asked to keep
//! them.

mod graph;
mod kinds;

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use control_client::{
    Change, Client, DeleteOptions, Discard, Error, Meta, Metadata, OwnerReference, Patch,
    Preconditions, Propagation, Queue, Resource, Selection, reflect_resource,
};
use control_types::registry;
use futures::TryStreamExt as _;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::graph::{
    CollectionVerdict, FOREGROUND, Graph, GraphNode, ORPHAN, ObjectFate, OwnedObject,
};
use self::kinds::FollowedKinds;
use crate::views::Text;
use crate::work::{self, Outcome};
use crate::{Controller, discovery};

/// How long to wait for the first list of a kind. A kind that cannot be read must not
/// stop the collection of all others.
const FIRST_LISTS: Duration = Duration::from_secs(30);

/// Interval of discovery while no definition changes.
const DISCOVERY: Duration = Duration::from_secs(30);
/// How long until discovery is tried again after it failed.
const DISCOVERY_RETRY: Duration = Duration::from_secs(1);
/// How long changes of definitions are gathered: one comes to be in several writes.
const SETTLING: Duration = Duration::from_millis(100);
/// The resource that defines others.
const DEFINITIONS: &str = "customresourcedefinitions";

/// Interval at which foreground deletion that waits for a first list is retried.
const LIST_POLL: Duration = Duration::from_millis(100);
/// Interval at which an object is judged again whose owner exists on the server, but not
/// in the graph: the graph may never learn of such an owner's deletion.
const UNKNOWN_OWNER: Duration = Duration::from_secs(30);
/// The number of kinds that are listed concurrently in search of dependents.
const LISTS_AT_ONCE: usize = 8;

/// The number of objects that are processed concurrently.
const WORKERS: usize = 20;

/// Deletes objects without remaining owners.
pub const CONTROLLER: Controller = Controller {
    name: "garbage-collector-controller",
    service_account: "generic-garbage-collector",
    start: |ctx| {
        let this = Arc::new(GarbageCollector {
            client: ctx.client.clone(),
            graph: Mutex::default(),
            kinds: Mutex::default(),
            defined: Notify::new(),
            queue: Queue::with_delays(Duration::from_millis(5), work::LONGEST_DELAY),
        });
        let shutdown = ctx.shutdown.clone();
        Box::pin(async move { this.run(shutdown).await })
    },
};

struct GarbageCollector {
    client: Client,
    graph: Mutex<Graph>,
    kinds: Mutex<FollowedKinds>,
    /// A definition of a custom resource changed.
    defined: Notify,
    queue: Queue<Text>,
}

/// A custom or aggregated resource that is followed.
struct FollowedExtension {
    resource: Resource,
    /// The number that its objects carry.
    number: usize,
    /// Stops following it.
    stop: CancellationToken,
}

impl GarbageCollector {
    async fn run(self: Arc<Self>, shutdown: CancellationToken) {
        let mut tasks = JoinSet::new();
        for resource in built_in() {
            self.follow(resource, &mut tasks, &shutdown);
        }
        let mut followed = Vec::new();
        let first_lists = async {
            // Objects of a definition that was not read are not followed.
            while !self
                .follow_extensions(&mut followed, &mut tasks, &shutdown)
                .await
            {
                tokio::time::sleep(LIST_POLL).await;
            }
            while self.is_list_outstanding() {
                tokio::time::sleep(LIST_POLL).await;
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => return,
            done = tokio::time::timeout(FIRST_LISTS, first_lists) => {
                let missing = self.kinds().unlisted();
                if done.is_err() || missing > 0 {
                    tracing::warn!(missing, "failed to read some kinds, collecting garbage without them");
                }
            }
        }
        let collector = Arc::clone(&self);
        let work = move |uid: Text| {
            let collector = Arc::clone(&collector);
            async move { collector.sync(&uid).await }
        };
        let discovery = async {
            loop {
                let found = self
                    .follow_extensions(&mut followed, &mut tasks, &shutdown)
                    .await;
                let again = if found { DISCOVERY } else { DISCOVERY_RETRY };
                tokio::select! {
                    () = shutdown.cancelled() => return,
                    () = self.defined.notified() => tokio::time::sleep(SETTLING).await,
                    () = tokio::time::sleep(again) => {}
                }
            }
        };
        tokio::join!(
            self.queue.run("garbage", WORKERS, &shutdown, work),
            discovery
        );
        while tasks.join_next().await.is_some() {}
    }

    /// Follows the custom and aggregated resources that are served now, and stops following
    /// the others. Returns false when discovery failed.
    async fn follow_extensions(
        self: &Arc<Self>,
        followed: &mut Vec<FollowedExtension>,
        tasks: &mut JoinSet<()>,
        shutdown: &CancellationToken,
    ) -> bool {
        let known: Vec<Resource> = followed.iter().map(|one| one.resource.clone()).collect();
        let found = match discovery::collectable(&self.client, &known).await {
            Ok(found) => found,
            Err(error) => {
                tracing::debug!(error = %error.chain(), "failed to discover custom and aggregated resources");
                return false;
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
            let number = self.follow(resource.clone(), tasks, &stop);
            followed.push(FollowedExtension {
                resource,
                number,
                stop,
            });
        }
        true
    }

    /// Stops following a resource that is no longer served and forgets its objects.
    fn forget(&self, gone: &FollowedExtension) {
        tracing::debug!(resource = %gone.resource, "stopped following a resource");
        gone.stop.cancel();
        let concerned = self.graph().remove_all(gone.number);
        self.kinds().remove(gone.number);
        for uid in concerned {
            self.queue.add(uid);
        }
    }

    fn kinds(&self) -> MutexGuard<'_, FollowedKinds> {
        self.kinds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the graph may soon hold the first list of one more kind.
    fn is_list_outstanding(&self) -> bool {
        self.kinds()
            .is_list_outstanding(FIRST_LISTS, Instant::now())
    }

    fn graph(&self) -> MutexGuard<'_, Graph> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to follow a resource. Returns the number that its nodes carry in the graph.
    fn follow(
        self: &Arc<Self>,
        resource: Resource,
        tasks: &mut JoinSet<()>,
        shutdown: &CancellationToken,
    ) -> usize {
        let (number, waiting) = self.kinds().add(resource.clone(), Instant::now());
        for uid in waiting {
            self.queue.add(uid);
        }
        let defines = resource.plural == DEFINITIONS;
        let detail = resource.to_string();
        let selection = Selection::all().metadata_only();
        let reflector = reflect_resource::<OwnedObject>(&self.client, resource, selection);
        let mut changes = reflector.changes();
        let (this, shutdown) = (Arc::clone(self), shutdown.clone());
        let task = control_supervise::task("garbage-follower").detail(detail);
        tasks.spawn(task.essential(async move {
            let take = |change: Change<OwnedObject>| {
                if defines {
                    this.defined.notify_one();
                }
                this.take(number, &change, &shutdown);
            };
            let mut listed = false;
            loop {
                // Listed objects are in the channel before the reflector is synced.
                let newly_listed = !listed && reflector.is_synced();
                while let Some(change) = changes.try_recv() {
                    take(change);
                }
                if newly_listed {
                    listed = true;
                    this.kinds().mark_listed(number);
                }
                tokio::select! {
                    () = shutdown.cancelled() => break,
                    change = changes.recv() => match change {
                        Some(change) => take(change),
                        None => break,
                    },
                    () = reflector.synced(), if !listed => {}
                }
            }
        }));
        number
    }

    /// Applies one change to the graph, unless the kind is no longer followed.
    fn take(&self, number: usize, change: &Change<OwnedObject>, stop: &CancellationToken) {
        let mut concerned = Vec::new();
        {
            let mut graph = self.graph();
            if stop.is_cancelled() {
                // Objects of a removed kind must not return to the graph.
                return;
            }
            let uid =
                |object: &Option<Arc<OwnedObject>>| object.as_ref().map(|object| object.uid());
            let (before, after) = (uid(&change.previous), uid(&change.current));
            if let Some(gone) = before.filter(|before| after.as_ref() != Some(before)) {
                concerned.append(&mut graph.remove(&gone));
                self.kinds().stop_waiting(&gone);
            }
            if let Some(object) = &change.current {
                concerned.append(&mut graph.put(number, Arc::clone(object)));
            }
        }
        for uid in concerned {
            self.queue.add(uid);
        }
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
            ObjectFate::Stay => Ok(None),
            ObjectFate::Wait(blocking) => {
                for dependent in blocking {
                    self.queue.add(dependent);
                }
                Ok(None)
            }
            // Dependents of a kind that is not listed yet may exist.
            ObjectFate::Unblock if self.is_list_outstanding() => Ok(Some(LIST_POLL)),
            ObjectFate::Unblock => self.remove_finalizer(&node, uid, FOREGROUND).await,
            ObjectFate::Orphan(dependents) => {
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
                if let Some(error) = failure {
                    return Err(error);
                }
                self.release_dependents(&node, uid).await?;
                self.remove_finalizer(&node, uid, ORPHAN).await
            }
            ObjectFate::Judge => self.judge(&node, uid).await,
        }
    }

    fn resource(&self, node: &GraphNode) -> Option<Resource> {
        self.kinds().get(node.resource).cloned()
    }

    /// Removes an owner from all its dependents on the server, of every served kind.
    async fn release_dependents(&self, owner: &GraphNode, uid: &Text) -> Result<(), Error> {
        let namespaced = !owner.identity.namespace.is_empty();
        let mut kinds = built_in();
        let mut followed: Vec<Resource> = self.kinds().resources().cloned().collect();
        followed.retain(|resource| !kinds.contains(resource));
        kinds.extend(discovery::collectable(&self.client, &followed).await?);
        // Dependents of a namespaced object are in its namespace.
        kinds.retain(|kind| kind.namespaced || !namespaced);
        let mut selection = Selection::all().metadata_only();
        if namespaced {
            selection = selection.namespace(owner.identity.namespace.as_str());
        }
        let (selection, owner_uids) = (&selection, std::slice::from_ref(uid));
        futures::stream::iter(kinds.iter().map(Ok))
            .try_for_each_concurrent(LISTS_AT_ONCE, |kind| async move {
                let listed = self.client.list::<Metadata>(kind, selection).await;
                let objects = match listed {
                    Ok(list) => list.items,
                    // no longer served
                    Err(error) if error.is_not_found() => return Ok(()),
                    Err(error) => return Err(error),
                };
                for object in objects {
                    let meta = object.metadata;
                    self.drop_owners_from(kind, meta, owner_uids).await?;
                }
                Ok(())
            })
            .await
    }

    /// Returns the object from the server, or `None` if it was deleted.
    async fn live(
        &self,
        node: &GraphNode,
        uid: &str,
    ) -> Result<Option<(Resource, Metadata)>, Error> {
        let Some(resource) = self.resource(node) else {
            return Ok(None);
        };
        match self
            .client
            .get::<Metadata>(&resource, &node.identity.namespace, &node.identity.name)
            .await
        {
            Ok(object) if object.metadata.uid == uid => Ok(Some((resource, object))),
            Ok(_) => Ok(None),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn judge(&self, node: &GraphNode, uid: &Text) -> Outcome {
        let Some((resource, object)) = self.live(node, uid).await? else {
            return Ok(None);
        };
        let meta = &object.metadata;
        let mut gone: HashMap<&str, bool> = HashMap::new();
        let mut again = None;
        for owner in &meta.owner_references {
            if self.graph().get(&owner.uid).is_some() {
                continue;
            }
            // An owner of an unknown kind counts as existing: a dependent is kept rather
            // than deleted by mistake.
            let Some(resource) = self.resource_of(uid, owner) else {
                continue;
            };
            let is_gone = self
                .is_gone(&resource, owner, &node.identity.namespace)
                .await?;
            if !is_gone {
                again = Some(UNKNOWN_OWNER);
            }
            gone.insert(&owner.uid, is_gone);
        }
        let verdict = {
            let graph = self.graph();
            // if the graph has forgotten it since, the next attempt asks again
            let owners = graph.classify(&meta.owner_references, |uid| {
                gone.get(uid).copied().unwrap_or(false)
            });
            graph.verdict(uid, owners)
        };
        let waits_for = |finalizer: &str| meta.finalizers.iter().any(|f| f == finalizer);
        let propagation = match verdict {
            CollectionVerdict::Stay => return Ok(again),
            CollectionVerdict::Drop(owners) => {
                self.drop_owners(node, uid, &owners).await?;
                return Ok(again);
            }
            CollectionVerdict::DeleteForeground => Propagation::Foreground,
            CollectionVerdict::Delete if waits_for(ORPHAN) => Propagation::Orphan,
            CollectionVerdict::Delete if waits_for(FOREGROUND) => Propagation::Foreground,
            CollectionVerdict::Delete => Propagation::Background,
        };
        tracing::debug!(%resource, namespace = %node.identity.namespace, name = %node.identity.name, ?propagation, "collecting");
        let options = DeleteOptions {
            preconditions: Some(Preconditions {
                uid: Some(uid.to_string()),
                resource_version: Some(meta.resource_version.to_string()),
            }),
            propagation_policy: Some(propagation),
            ..DeleteOptions::default()
        };
        let deleted = self
            .client
            .delete(
                &resource,
                &node.identity.namespace,
                &node.identity.name,
                &options,
            )
            .await;
        work::unless_gone(deleted).map(|()| None)
    }

    /// Returns whether an owner that the graph does not know is really deleted.
    async fn is_gone(
        &self,
        resource: &Resource,
        owner: &OwnerReference,
        namespace: &str,
    ) -> Result<bool, Error> {
        if resource.namespaced && namespace.is_empty() {
            // such an owner cannot be looked up; upstream only warns, too
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

    /// The resource of an owner of the object `uid`. An object whose owner is of an unknown
    /// kind is judged again when one more kind is followed.
    fn resource_of(&self, uid: &Text, owner: &OwnerReference) -> Option<Resource> {
        let (group, version) = owner
            .api_version
            .split_once('/')
            .unwrap_or(("", owner.api_version.as_str()));
        if let Some(row) = registry::lookup_kind(group, version, &owner.kind) {
            return Some(of_row(row));
        }
        self.kinds().resource_of(uid, owner)
    }

    /// Takes owners from an object.
    async fn drop_owners(&self, node: &GraphNode, uid: &str, owners: &[Text]) -> Result<(), Error> {
        match self.live(node, uid).await? {
            Some((resource, object)) => {
                let meta = object.metadata;
                self.drop_owners_from(&resource, meta, owners).await
            }
            None => Ok(()),
        }
    }

    /// Removes owners from an object that was just read.
    async fn drop_owners_from(
        &self,
        resource: &Resource,
        meta: Meta,
        owners: &[Text],
    ) -> Result<(), Error> {
        let is_dropped = |uid: &str| owners.iter().any(|owner| owner == uid);
        if !meta.owner_references.iter().any(|it| is_dropped(&it.uid)) {
            return Ok(());
        }
        // The whole list of references: the remaining ones are written unchanged,
        // including fields that the view leaves out.
        let fresh = self
            .client
            .get::<Value>(resource, &meta.namespace, &meta.name)
            .await;
        let object = match fresh {
            Err(error) if error.is_not_found() => return Ok(()),
            other => other?,
        };
        let references = object.pointer("/metadata/ownerReferences");
        let references = references.and_then(Value::as_array).into_iter().flatten();
        let left: Vec<&Value> = references
            .filter(|owner| !owner["uid"].as_str().is_some_and(is_dropped))
            .collect();
        let patch = json!({"metadata": {
            "uid": meta.uid,
            "resourceVersion": object["metadata"]["resourceVersion"],
            "ownerReferences": left,
        }});
        work::merge(&self.client, resource, &meta, "", &patch).await
    }

    async fn remove_finalizer(&self, node: &GraphNode, uid: &str, finalizer: &str) -> Outcome {
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
                &node.identity.namespace,
                &node.identity.name,
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
mod tests;
