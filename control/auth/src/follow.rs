//! Keeps the policy and the nodes' graph as new as the caches.
//!
//! One task for each kind: it takes all objects of a snapshot, then every event
//! after it; when it was too slow for the events, it takes a new snapshot.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use control_access::{NodeGraph, OfNode, POD_PATHS, PolicyKind, Rbac};
use control_types::value::{Pick, Value};
use rustc_hash::FxHashSet;
use tokio_util::sync::CancellationToken;

use control_registry::{Storage, custom as definitions};
use control_watch_cache::{CacheEntry, Change, Read, ResourceCache, Tree};

const RBAC: &str = "rbac.authorization.k8s.io";
/// How long after a failure definitions are read again.
const RETRY: Duration = Duration::from_secs(1);

/// What learns of a kind's objects.
struct Follower {
    set: Box<dyn Fn(&Value) + Send + Sync>,
    /// Takes namespace and name.
    remove: Box<dyn Fn(&str, &str) + Send + Sync>,
    /// What it reads of an object; nothing: all.
    reads: Option<Pick>,
    /// Whether objects without a node say nothing to it, as if they were not there.
    needs_node: bool,
}

impl Follower {
    /// Gives all objects to `subject`.
    fn new<S: Send + Sync + 'static>(
        subject: &Arc<S>,
        set: impl Fn(&S, &Value) + Send + Sync + 'static,
        remove: impl Fn(&S, &str, &str) + Send + Sync + 'static,
    ) -> Self {
        let (one, other) = (Arc::clone(subject), Arc::clone(subject));
        Self {
            set: Box::new(move |object| set(&one, object)),
            remove: Box::new(move |namespace, name| remove(&other, namespace, name)),
            reads: None,
            needs_node: false,
        }
    }

    /// Whether the object says anything to it: else it is as if it were not there.
    fn cares(&self, object: &CacheEntry) -> bool {
        let node = || object.field("spec.nodeName");
        !self.needs_node || node().is_some_and(|node| !node.is_empty())
    }
}

/// Takes what there is before it returns, and follows from there.
pub(super) fn start(
    storage: &Arc<Storage>,
    rbac: &Arc<Rbac>,
    nodes: &Arc<NodeGraph>,
    shutdown: &CancellationToken,
) {
    let server = (storage, shutdown);
    for (plural, kind) in [
        ("roles", PolicyKind::Role),
        ("clusterroles", PolicyKind::ClusterRole),
        ("rolebindings", PolicyKind::RoleBinding),
        ("clusterrolebindings", PolicyKind::ClusterRoleBinding),
    ] {
        let follower = Follower::new(
            rbac,
            move |rbac, object| rbac.set(kind, object),
            move |rbac, namespace, name| rbac.remove(kind, namespace, name),
        );
        one(server, RBAC, plural, follower);
    }
    let pods = Follower {
        // Pods are many and large, and little of them matters here.
        reads: Some(Pick::from_paths(POD_PATHS.iter().copied())),
        needs_node: true,
        ..Follower::new(nodes, NodeGraph::set_pod, NodeGraph::remove_pod)
    };
    one(server, "", "pods", pods);
    let volumes = Follower::new(nodes, NodeGraph::set_volume, |nodes, _, name| {
        nodes.remove_volume(name);
    });
    one(server, "", "persistentvolumes", volumes);
    let claims = Follower {
        reads: Some(Pick::from_paths([
            "metadata.name",
            "metadata.namespace",
            "metadata.uid",
            "metadata.annotations",
            "spec.storageClassName",
        ])),
        needs_node: true,
        ..Follower::new(nodes, NodeGraph::set_claim, NodeGraph::remove_claim)
    };
    one(server, "", "persistentvolumeclaims", claims);
    let classes = Follower::new(nodes, NodeGraph::set_class, |nodes, _, name| {
        nodes.remove_class(name);
    });
    one(server, "storage.k8s.io", "storageclasses", classes);
    for (group, plural, kind) in [
        ("storage.k8s.io", "volumeattachments", OfNode::Attachment),
        ("resource.k8s.io", "resourceslices", OfNode::Slice),
    ] {
        let follower = Follower::new(
            nodes,
            move |nodes, object| nodes.set(kind, object),
            move |nodes, namespace, name| nodes.remove(kind, namespace, name),
        );
        one(server, group, plural, follower);
    }
    if let Some(cache) = built_in(storage, "", "nodes") {
        nodes.look_labels_up_by(move |selector, node| {
            let object = cache.get(node);
            object.is_some_and(|object| selector.matches_with(|key| object.label(key)))
        });
    }
    let peers = (control_load_balancer::GROUP, control_load_balancer::VERSION);
    let follower = Follower::new(nodes, NodeGraph::set_peer, |nodes, _, name| {
        nodes.remove_peer(name);
    });
    custom(server, peers, "bgppeers", follower);
}

/// The cache of a resource of the registry.
fn built_in(storage: &Storage, group: &str, plural: &'static str) -> Option<Arc<ResourceCache>> {
    let served = storage.resource(group, plural).ok();
    let cache = served.and_then(|served| served.cache.clone());
    if cache.is_none() {
        tracing::error!(plural, "the registry lacks a kind that access needs");
    }
    cache
}

/// Where objects are, and when following ends.
type Server<'a> = (&'a Arc<Storage>, &'a CancellationToken);

fn one((storage, shutdown): Server<'_>, group: &str, plural: &'static str, follower: Follower) {
    let Some(cache) = built_in(storage, group, plural) else {
        return;
    };
    let followed = Arc::new(FollowedKind {
        cache,
        subject: Arc::new(Subject {
            follower,
            known: Mutex::default(),
        }),
    });
    let mut next = Some(followed.take_all());
    let shutdown = shutdown.clone();
    control_supervise::task("access-follower")
        .detail(plural)
        .until(&shutdown.clone())
        .spawn_restarting(move || Arc::clone(&followed).follow(next.take(), shutdown.clone()));
}

/// Follows the objects of a custom resource whenever it is defined.
fn custom(
    (storage, shutdown): Server<'_>,
    (group, version): (&'static str, &'static str),
    plural: &'static str,
    follower: Follower,
) {
    let subject = Arc::new(Subject {
        follower,
        known: Mutex::default(),
    });
    let (storage, shutdown) = (Arc::clone(storage), shutdown.clone());
    control_supervise::task("access-follower")
        .detail(plural)
        .until(&shutdown.clone())
        .spawn_restarting(move || {
            let (storage, subject, shutdown) =
                (Arc::clone(&storage), Arc::clone(&subject), shutdown.clone());
            async move {
                tokio::select! {
                    () = shutdown.cancelled() => {}
                    () = follow_defined(&storage, (group, version, plural), &subject) => {}
                }
            }
        });
}

/// Follows one definition of a custom resource after the other.
async fn follow_defined(
    storage: &Storage,
    (group, version, plural): (&str, &str, &str),
    subject: &Arc<Subject>,
) {
    let Some(definitions) = built_in(storage, definitions::GROUP, definitions::PLURAL) else {
        return;
    };
    let mut wake = definitions.wake();
    loop {
        wake.mark_unchanged();
        if let Err(error) = storage.definitions.refresh(storage).await {
            tracing::warn!(plural, %error, "failed to read the definitions of custom resources");
            tokio::time::sleep(RETRY).await;
            continue;
        }
        let served = storage
            .definitions
            .now()
            .get(group, version, plural)
            .cloned();
        if let Some(served) = served
            && let Some(cache) = served.cache.clone()
        {
            let followed = Arc::new(FollowedKind {
                cache,
                subject: Arc::clone(subject),
            });
            let next = followed.take_all();
            tokio::select! {
                () = followed.follow(Some(next), CancellationToken::new()) => {}
                () = served.gone() => {}
            }
            continue;
        }
        subject.clear();
        if wake.changed().await.is_err() {
            return;
        }
    }
}

/// A watched kind and its consumer.
struct FollowedKind {
    cache: Arc<ResourceCache>,
    subject: Arc<Subject>,
}

/// The consumer of a kind's objects, and the objects that it knows of.
struct Subject {
    follower: Follower,
    /// The objects that the follower may still hold. The set survives a panic of the task,
    /// so that the next run removes rules that were revoked in the meantime.
    known: Mutex<FxHashSet<Place>>,
}

/// Namespace and name of an object.
type Place = (String, String);

fn place(object: &CacheEntry) -> Place {
    (object.namespace().to_owned(), object.name().to_owned())
}

impl Subject {
    /// Takes exactly these objects.
    fn replace(&self, objects: &Tree<CacheEntry>) {
        let now: FxHashSet<Place> = objects.iter().map(|object| place(object)).collect();
        let gone: Vec<Place> = self.known().difference(&now).cloned().collect();
        for (namespace, name) in &gone {
            (self.follower.remove)(namespace, name);
        }
        // Known before it is set: what was half set is removed when it goes.
        *self.known() = now;
        for object in objects.iter() {
            self.set(object);
        }
    }

    fn clear(&self) {
        self.replace(&Tree::default());
    }

    fn set(&self, object: &CacheEntry) {
        let follower = &self.follower;
        if !follower.cares(object) {
            return (follower.remove)(object.namespace(), object.name());
        }
        let tree = match &follower.reads {
            Some(part) => object.pick(part),
            None => object.value(),
        };
        match tree {
            Ok(value) => (follower.set)(&value),
            // It grants nothing then, and other objects are not affected.
            Err(error) => {
                tracing::error!(namespace = object.namespace(), name = object.name(), %error, "object cannot be read");
                (follower.remove)(object.namespace(), object.name());
            }
        }
    }

    fn known(&self) -> MutexGuard<'_, FxHashSet<Place>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FollowedKind {
    /// Takes a snapshot; returns the event to go on with.
    fn take_all(&self) -> u64 {
        let state = self.cache.state();
        self.subject.replace(&state.objects);
        state.next
    }

    /// Follows events from `next`, or, after a panic, from a new snapshot.
    async fn follow(self: Arc<Self>, next: Option<u64>, shutdown: CancellationToken) {
        let mut wake = self.cache.wake();
        let mut next = next.unwrap_or_else(|| self.take_all());
        loop {
            // Seen before reading: an event that comes in between wakes again.
            wake.mark_unchanged();
            loop {
                match self.cache.read(next) {
                    Read::Ready(event) => {
                        let place = place(&event.object);
                        let subject = &self.subject;
                        if matches!(event.change, Change::Deleted) {
                            (subject.follower.remove)(&place.0, &place.1);
                            subject.known().remove(&place);
                        } else {
                            subject.known().insert(place);
                            subject.set(&event.object);
                        }
                        next += 1;
                    }
                    Read::Lost => next = self.take_all(),
                    Read::Pending => break,
                }
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                woken = wake.changed() => if woken.is_err() { return },
            }
        }
    }
}
