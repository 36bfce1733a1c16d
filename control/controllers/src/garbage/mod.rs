//! The garbage collector: objects whose owners are gone are deleted.
//!
//! It follows the metadata of every kind, custom ones too. The graph may lag
//! behind the server, so nothing is deleted on its word alone: owners that it
//! does not know are asked for, and a deletion holds only for the revision of
//! the object that was judged.
//!
//! The graph is never a proof that an object has no dependents. Work starts when
//! it holds the first lists of all kinds, and while the list of a kind that is
//! followed later is outstanding, foreground deletion waits. The `orphan` finalizer
//! is removed only after the server was asked for dependents of every kind: without
//! the finalizer, dependents that still name the owner are deleted, although somebody
//! asked to keep them.

mod graph;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use control_client::{
    Change, Client, DeleteOptions, Discard, Error, Meta, Metadata, OwnerReference, Patch,
    Preconditions, Propagation, Queue, Resource, Selection, reflect_resource,
};
use control_types::registry;
use futures::TryStreamExt as _;
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use self::graph::{FOREGROUND, Fate, Graph, Node, ORPHAN, Verdict};
use crate::views::Text;
use crate::work::{self, Outcome};
use crate::{Controller, LONGEST_DELAY, discovery, ownership};

/// How long the first list of a kind is waited for. A kind that cannot be read
/// must not stop the collection of all others.
const FIRST_LISTS: Duration = Duration::from_secs(30);

/// How often custom and aggregated resources are looked for though no definition changed.
const DISCOVERY: Duration = Duration::from_secs(30);
/// How soon they are looked for again after the API server could not be asked.
const DISCOVERY_RETRY: Duration = Duration::from_secs(1);
/// How long changes of definitions are gathered: one comes to be in several writes.
const SETTLING: Duration = Duration::from_millis(100);
/// The resource that defines others.
const DEFINITIONS: &str = "customresourcedefinitions";

/// How long until foreground deletion that waits for a first list is tried again.
const LIST_POLL: Duration = Duration::from_millis(100);
/// How long until an object is judged again whose owner exists, but is not in the graph.
/// The owner may be deleted without the graph ever having known it.
const UNKNOWN_OWNER: Duration = Duration::from_secs(30);
/// How many kinds are asked for dependents at once.
const LISTS_AT_ONCE: usize = 8;

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
            unknown_kind: Mutex::default(),
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
    resources: RwLock<Vec<Option<Followed>>>,
    /// A definition of a custom resource changed.
    defined: Notify,
    /// Objects with an owner of a kind that is not known, to be judged when one more
    /// kind is. Added to only while `resources` is locked, so that none is added for a
    /// kind that has just become known.
    unknown_kind: Mutex<HashSet<Text>>,
    queue: Queue<Text>,
}

/// A resource whose objects are in the graph.
struct Followed {
    resource: Resource,
    since: Instant,
    /// Whether the graph holds everything of the first list.
    listed: bool,
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
        for resource in built_in() {
            self.follow(resource, &mut tasks, &shutdown);
        }
        let mut followed = Vec::new();
        let first_lists = async {
            // A definition that is not read has objects that are not followed.
            while !self.find_custom(&mut followed, &mut tasks, &shutdown).await {
                tokio::time::sleep(LIST_POLL).await;
            }
            while self.first_lists_outstanding() {
                tokio::time::sleep(LIST_POLL).await;
            }
        };
        tokio::select! {
            () = shutdown.cancelled() => return,
            done = tokio::time::timeout(FIRST_LISTS, first_lists) => {
                let missing = self.unlisted();
                if done.is_err() || missing > 0 {
                    tracing::warn!(missing, "some kinds cannot be read; collecting without them");
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
                let found = self.find_custom(&mut followed, &mut tasks, &shutdown).await;
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

    /// Follows the custom and aggregated resources that there are, and only those: one that is not
    /// served any more would be asked for in vain for ever.
    async fn find_custom(
        self: &Arc<Self>,
        followed: &mut Vec<Custom>,
        tasks: &mut JoinSet<()>,
        shutdown: &CancellationToken,
    ) -> bool {
        let known: Vec<Resource> = followed.iter().map(|one| one.resource.clone()).collect();
        let found = match discovery::collectable(&self.client, &known).await {
            Ok(found) => found,
            Err(error) => {
                tracing::debug!(error = %error.chain(), "cannot discover custom and aggregated resources");
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
            followed.push(Custom {
                resource,
                number,
                stop,
            });
            for uid in std::mem::take(&mut *self.unknown_kind()) {
                self.queue.add(uid);
            }
        }
        true
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

    fn followed(&self) -> RwLockReadGuard<'_, Vec<Option<Followed>>> {
        self.resources
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// How many kinds are followed whose first list the graph does not hold.
    fn unlisted(&self) -> usize {
        let followed = self.followed();
        let unlisted = followed.iter().flatten().filter(|one| !one.listed);
        unlisted.count()
    }

    /// Whether the graph may soon hold the first list of one more kind.
    fn first_lists_outstanding(&self) -> bool {
        let outstanding = |one: &Followed| !one.listed && one.since.elapsed() < FIRST_LISTS;
        self.followed().iter().flatten().any(outstanding)
    }

    fn mark_listed(&self, number: usize) {
        let mut all = self
            .resources
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(Some(one)) = all.get_mut(number) {
            one.listed = true;
        }
    }

    fn unknown_kind(&self) -> MutexGuard<'_, HashSet<Text>> {
        self.unknown_kind
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn graph(&self) -> MutexGuard<'_, Graph> {
        self.graph.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the objects of a resource into the graph, from now on. Returns the number
    /// that they carry.
    fn follow(
        self: &Arc<Self>,
        resource: Resource,
        tasks: &mut JoinSet<()>,
        shutdown: &CancellationToken,
    ) -> usize {
        let number = {
            let mut all = self
                .resources
                .write()
                .unwrap_or_else(PoisonError::into_inner);
            let free = all.iter().position(Option::is_none).unwrap_or(all.len());
            let length = all.len().max(free + 1);
            all.resize_with(length, || None);
            all[free] = Some(Followed {
                resource: resource.clone(),
                since: Instant::now(),
                listed: false,
            });
            free
        };
        let defines = resource.plural == DEFINITIONS;
        let detail = resource.to_string();
        let selection = Selection::all().metadata_only();
        let reflector = reflect_resource::<Metadata>(&self.client, resource, selection);
        let mut changes = reflector.changes();
        let (this, shutdown) = (Arc::clone(self), shutdown.clone());
        let task = control_supervise::task("garbage-follower").detail(detail);
        tasks.spawn(task.essential(async move {
            let take = |change: Change<Metadata>| {
                if defines {
                    this.defined.notify_one();
                }
                this.take(number, &change, &shutdown);
            };
            let mut listed = false;
            loop {
                // What was listed is in the channel before the reflector is synced.
                let newly_listed = !listed && reflector.is_synced();
                while let Some(change) = changes.try_recv() {
                    take(change);
                }
                if newly_listed {
                    listed = true;
                    this.mark_listed(number);
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

    /// Takes one change into the graph, unless the resource was left.
    fn take(&self, number: usize, change: &Change<Metadata>, left: &CancellationToken) {
        let mut concerned = Vec::new();
        {
            let mut graph = self.graph();
            if left.is_cancelled() {
                // What was left must not come back.
                return;
            }
            let uid = |object: &Option<Arc<Metadata>>| {
                object.as_ref().map(|object| object.metadata.uid.clone())
            };
            let (before, after) = (uid(&change.previous), uid(&change.current));
            if let Some(gone) = before.filter(|before| after.as_ref() != Some(before)) {
                concerned.append(&mut graph.remove(&gone));
                self.unknown_kind().remove(&gone);
            }
            if let Some(object) = &change.current {
                concerned.append(&mut graph.put(number, &object.metadata));
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
            Fate::Stay => Ok(None),
            Fate::Wait(blocking) => {
                for dependent in blocking {
                    self.queue.add(dependent);
                }
                Ok(None)
            }
            // It may have dependents of a kind that is not in the graph yet.
            Fate::Unblock if self.first_lists_outstanding() => Ok(Some(LIST_POLL)),
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
                if let Some(error) = failure {
                    return Err(error);
                }
                self.release_dependents(&node, uid).await?;
                self.remove_finalizer(&node, uid, ORPHAN).await
            }
            Fate::Judge => self.judge(&node, uid).await,
        }
    }

    fn resource(&self, node: &Node) -> Option<Resource> {
        let followed = self.followed();
        let one = followed.get(node.resource)?.as_ref()?;
        Some(one.resource.clone())
    }

    /// Takes an owner from all dependents that the server has, of every kind that is
    /// served now.
    async fn release_dependents(&self, owner: &Node, uid: &Text) -> Result<(), Error> {
        let namespaced = !owner.namespace.is_empty();
        let mut kinds = built_in();
        let followed: Vec<Resource> = {
            let all = self.followed();
            let extensions = all.iter().flatten().map(|one| &one.resource);
            extensions
                .filter(|resource| !kinds.contains(resource))
                .cloned()
                .collect()
        };
        kinds.extend(discovery::collectable(&self.client, &followed).await?);
        // Nothing outside its namespace can be a dependent of a namespaced object.
        kinds.retain(|kind| kind.namespaced || !namespaced);
        let mut selection = Selection::all().metadata_only();
        if namespaced {
            selection = selection.namespace(owner.namespace.as_str());
        }
        let (selection, owner_uids) = (&selection, std::slice::from_ref(uid));
        futures::stream::iter(kinds.iter().map(Ok))
            .try_for_each_concurrent(LISTS_AT_ONCE, |kind| async move {
                let listed = self.client.list::<Metadata>(kind, selection).await;
                let objects = match listed {
                    Ok(list) => list.items,
                    // not served (any more)
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

    async fn judge(&self, node: &Node, uid: &Text) -> Outcome {
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
            // An owner of a kind that nobody knows counts as there: better to keep too
            // much.
            let Some(resource) = self.resource_of(uid, owner) else {
                continue;
            };
            let is_gone = self.is_gone(&resource, owner, &node.namespace).await?;
            if !is_gone {
                again = Some(UNKNOWN_OWNER);
            }
            gone.insert(&owner.uid, is_gone);
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
            Verdict::Stay => return Ok(again),
            Verdict::Drop(owners) => {
                self.drop_owners(node, uid, &owners).await?;
                return Ok(again);
            }
            Verdict::DeleteForeground => Propagation::Foreground,
            Verdict::Delete if waits_for(ORPHAN) => Propagation::Orphan,
            Verdict::Delete if waits_for(FOREGROUND) => Propagation::Foreground,
            Verdict::Delete => Propagation::Background,
        };
        tracing::debug!(%resource, namespace = %node.namespace, name = %node.name, ?propagation, "collecting");
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

    /// The resource of an owner of `uid`, which is judged again when it is known.
    fn resource_of(&self, uid: &Text, owner: &OwnerReference) -> Option<Resource> {
        let (group, version) = owner
            .api_version
            .split_once('/')
            .unwrap_or(("", owner.api_version.as_str()));
        if let Some(row) = registry::lookup_kind(group, version, &owner.kind) {
            return Some(of_row(row));
        }
        let followed = self.followed();
        let is_of_it = |one: &&Followed| {
            one.resource.group == group && one.resource.kind == owner.kind.as_str()
        };
        match followed.iter().flatten().find(is_of_it) {
            Some(one) => Some(one.resource.clone()),
            None => {
                self.unknown_kind().insert(uid.clone());
                None
            }
        }
    }

    /// Takes owners from an object.
    async fn drop_owners(&self, node: &Node, uid: &str, owners: &[Text]) -> Result<(), Error> {
        match self.live(node, uid).await? {
            Some((resource, object)) => {
                let meta = object.metadata;
                self.drop_owners_from(&resource, meta, owners).await
            }
            None => Ok(()),
        }
    }

    /// Takes owners from an object as it was just read.
    async fn drop_owners_from(
        &self,
        resource: &Resource,
        mut meta: Meta,
        owners: &[Text],
    ) -> Result<(), Error> {
        let before = meta.owner_references.len();
        meta.owner_references
            .retain(|owner| !owners.contains(&owner.uid));
        if meta.owner_references.len() == before {
            return Ok(());
        }
        // nothing is left to release: the patch writes the list as it is now
        let patch = ownership::release_patch(&meta, "", None);
        work::merge(&self.client, resource, &meta, "", &patch).await
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
