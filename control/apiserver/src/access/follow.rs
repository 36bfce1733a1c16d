//! Keeps the policy and the nodes' graph as new as the caches.
//!
//! One task for each kind: it takes all objects of a snapshot, then every event
//! after it; when it was too slow for the events, it takes a new snapshot.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use control_access::{NodeGraph, OfNode, POD_PATHS, PolicyKind, Rbac};
use control_types::value::{Pick, Value};
use rustc_hash::FxHashSet;
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use crate::cache::{Cached, Change, Read, ResourceCache};

const RBAC: &str = "rbac.authorization.k8s.io";

/// What learns of a kind's objects.
trait Follower: Send + Sync + 'static {
    /// What it reads of an object; nothing: all.
    fn reads(&self) -> Option<&Pick> {
        None
    }

    /// Whether the object says anything to it: else it is as if it were not there.
    fn cares(&self, object: &Cached) -> bool {
        let _ = object;
        true
    }

    fn set(&self, object: &Value);
    fn remove(&self, namespace: &str, name: &str);
}

struct Policy(Arc<Rbac>, PolicyKind);
struct Pods(Arc<NodeGraph>, Pick);
struct Volumes(Arc<NodeGraph>);
struct Owned(Arc<NodeGraph>, OfNode);

impl Follower for Policy {
    fn set(&self, object: &Value) {
        self.0.set(self.1, object);
    }

    fn remove(&self, namespace: &str, name: &str) {
        self.0.remove(self.1, namespace, name);
    }
}

impl Follower for Pods {
    fn reads(&self) -> Option<&Pick> {
        Some(&self.1)
    }

    fn cares(&self, pod: &Cached) -> bool {
        pod.field("spec.nodeName")
            .is_some_and(|node| !node.is_empty())
    }

    fn set(&self, object: &Value) {
        self.0.set_pod(object);
    }

    fn remove(&self, namespace: &str, name: &str) {
        self.0.remove_pod(namespace, name);
    }
}

impl Follower for Volumes {
    fn set(&self, object: &Value) {
        self.0.set_volume(object);
    }

    fn remove(&self, _namespace: &str, name: &str) {
        self.0.remove_volume(name);
    }
}

impl Follower for Owned {
    fn set(&self, object: &Value) {
        self.0.set(self.1, object);
    }

    fn remove(&self, namespace: &str, name: &str) {
        self.0.remove(self.1, namespace, name);
    }
}

/// Takes what there is before it returns, and follows from there.
pub(super) fn start(api: &Arc<Api>, rbac: &Arc<Rbac>, nodes: &Arc<NodeGraph>) {
    let policy = |kind| Policy(Arc::clone(rbac), kind);
    one(api, RBAC, "roles", policy(PolicyKind::Role));
    one(api, RBAC, "clusterroles", policy(PolicyKind::ClusterRole));
    one(api, RBAC, "rolebindings", policy(PolicyKind::RoleBinding));
    one(
        api,
        RBAC,
        "clusterrolebindings",
        policy(PolicyKind::ClusterRoleBinding),
    );
    // Pods are many and large, and little of them matters here.
    let paths = Pick::of(POD_PATHS.iter().copied());
    one(api, "", "pods", Pods(Arc::clone(nodes), paths));
    one(api, "", "persistentvolumes", Volumes(Arc::clone(nodes)));
    let owned = |kind| Owned(Arc::clone(nodes), kind);
    one(
        api,
        "storage.k8s.io",
        "volumeattachments",
        owned(OfNode::Attachment),
    );
    one(
        api,
        "resource.k8s.io",
        "resourceslices",
        owned(OfNode::Slice),
    );
}

fn one(api: &Arc<Api>, group: &str, plural: &'static str, follower: impl Follower) {
    let Some(cache) = api
        .resource(group, plural)
        .ok()
        .and_then(|served| served.cache.clone())
    else {
        tracing::error!(plural, "the registry lacks a kind that access needs");
        return;
    };
    let followed = Arc::new(Followed {
        cache,
        follower,
        known: Mutex::default(),
    });
    let mut next = Some(followed.take_all());
    let shutdown = api.shutdown.clone();
    control_supervise::task("access-follower")
        .detail(plural)
        .until(&shutdown.clone())
        .spawn_restarting(move || Arc::clone(&followed).follow(next.take(), shutdown.clone()));
}

/// A kind, and what learns of it.
struct Followed<F> {
    cache: Arc<ResourceCache>,
    follower: F,
    /// What the follower may hold. It outlives a run of the task that panics: a rule
    /// that was revoked meanwhile is removed by the next.
    known: Mutex<FxHashSet<Place>>,
}

/// Namespace and name.
type Place = (String, String);

fn place(object: &Cached) -> Place {
    (object.namespace().to_owned(), object.name().to_owned())
}

impl<F: Follower> Followed<F> {
    /// Takes a snapshot; returns the event to go on with.
    fn take_all(&self) -> u64 {
        let state = self.cache.state();
        let now: FxHashSet<Place> = state.objects.iter().map(|object| place(object)).collect();
        let gone: Vec<Place> = self.known().difference(&now).cloned().collect();
        for (namespace, name) in &gone {
            self.follower.remove(namespace, name);
        }
        // Known before it is set: what was half set is removed when it goes.
        self.known().clone_from(&now);
        for object in state.objects.iter() {
            self.set(object);
        }
        state.next
    }

    fn set(&self, object: &Cached) {
        let follower = &self.follower;
        if !follower.cares(object) {
            return follower.remove(object.namespace(), object.name());
        }
        let tree = match follower.reads() {
            Some(part) => object.pick(part),
            None => object.value(),
        };
        match tree {
            Ok(value) => follower.set(&value),
            // It grants nothing then, and other objects are not affected.
            Err(error) => {
                tracing::error!(namespace = object.namespace(), name = object.name(), %error, "object cannot be read");
                follower.remove(object.namespace(), object.name());
            }
        }
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
                        if matches!(event.change, Change::Deleted) {
                            self.follower.remove(&place.0, &place.1);
                            self.known().remove(&place);
                        } else {
                            self.known().insert(place);
                            self.set(&event.object);
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

    fn known(&self) -> MutexGuard<'_, FxHashSet<Place>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
