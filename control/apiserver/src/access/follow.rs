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

use crate::api::Api;
use control_registry::custom as definitions;
use control_watch_cache::{Cached, Change, Read, ResourceCache, Tree};

const RBAC: &str = "rbac.authorization.k8s.io";
/// How long after a failure definitions are read again.
const RETRY: Duration = Duration::from_secs(1);

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
struct Peers(Arc<NodeGraph>);
struct Claims(Arc<NodeGraph>, Pick);
struct Classes(Arc<NodeGraph>);

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

impl Follower for Peers {
    fn set(&self, object: &Value) {
        self.0.set_peer(object);
    }

    fn remove(&self, _namespace: &str, name: &str) {
        self.0.remove_peer(name);
    }
}

impl Follower for Claims {
    fn reads(&self) -> Option<&Pick> {
        Some(&self.1)
    }

    fn cares(&self, claim: &Cached) -> bool {
        claim
            .field("spec.nodeName")
            .is_some_and(|node| !node.is_empty())
    }

    fn set(&self, object: &Value) {
        self.0.set_claim(object);
    }

    fn remove(&self, namespace: &str, name: &str) {
        self.0.remove_claim(namespace, name);
    }
}

impl Follower for Classes {
    fn set(&self, object: &Value) {
        self.0.set_class(object);
    }

    fn remove(&self, _namespace: &str, name: &str) {
        self.0.remove_class(name);
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
    let paths = Pick::of([
        "metadata.name",
        "metadata.namespace",
        "metadata.uid",
        "metadata.annotations",
        "spec.storageClassName",
    ]);
    let claims = Claims(Arc::clone(nodes), paths);
    one(api, "", "persistentvolumeclaims", claims);
    let classes = Classes(Arc::clone(nodes));
    one(api, "storage.k8s.io", "storageclasses", classes);
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
    if let Some(cache) = built_in(api, "", "nodes") {
        nodes.look_labels_up_by(move |selector, node| {
            let object = cache.get(node);
            object.is_some_and(|object| selector.matches_with(|key| object.label(key)))
        });
    }
    let peers = (control_load_balancer::GROUP, control_load_balancer::VERSION);
    custom(api, peers, "bgppeers", Peers(Arc::clone(nodes)));
}

/// The cache of a resource of the registry.
fn built_in(api: &Api, group: &str, plural: &'static str) -> Option<Arc<ResourceCache>> {
    let served = api.resource(group, plural).ok();
    let cache = served.and_then(|served| served.cache.clone());
    if cache.is_none() {
        tracing::error!(plural, "the registry lacks a kind that access needs");
    }
    cache
}

fn one(api: &Arc<Api>, group: &str, plural: &'static str, follower: impl Follower) {
    let Some(cache) = built_in(api, group, plural) else {
        return;
    };
    let followed = Arc::new(Followed {
        cache,
        subject: Arc::new(Subject {
            follower,
            known: Mutex::default(),
        }),
    });
    let mut next = Some(followed.take_all());
    let shutdown = api.shutdown.clone();
    control_supervise::task("access-follower")
        .detail(plural)
        .until(&shutdown.clone())
        .spawn_restarting(move || Arc::clone(&followed).follow(next.take(), shutdown.clone()));
}

/// Follows the objects of a custom resource whenever it is defined.
fn custom(
    api: &Arc<Api>,
    (group, version): (&'static str, &'static str),
    plural: &'static str,
    follower: impl Follower,
) {
    let subject = Arc::new(Subject {
        follower,
        known: Mutex::default(),
    });
    let (api, shutdown) = (Arc::clone(api), api.shutdown.clone());
    control_supervise::task("access-follower")
        .detail(plural)
        .until(&shutdown.clone())
        .spawn_restarting(move || {
            let (api, subject, shutdown) =
                (Arc::clone(&api), Arc::clone(&subject), shutdown.clone());
            async move {
                tokio::select! {
                    () = shutdown.cancelled() => {}
                    () = follow_defined(&api, (group, version, plural), &subject) => {}
                }
            }
        });
}

/// Follows one definition of a custom resource after the other.
async fn follow_defined<F: Follower>(
    api: &Api,
    (group, version, plural): (&str, &str, &str),
    subject: &Arc<Subject<F>>,
) {
    let Some(definitions) = built_in(api, definitions::GROUP, definitions::PLURAL) else {
        return;
    };
    let mut wake = definitions.wake();
    loop {
        wake.mark_unchanged();
        if let Err(error) = api.definitions.refresh(api).await {
            tracing::warn!(plural, %error, "failed to read the definitions of custom resources");
            tokio::time::sleep(RETRY).await;
            continue;
        }
        let served = api.definitions.now().get(group, version, plural).cloned();
        if let Some(served) = served
            && let Some(cache) = served.cache.clone()
        {
            let followed = Arc::new(Followed {
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
struct Followed<F> {
    cache: Arc<ResourceCache>,
    subject: Arc<Subject<F>>,
}

/// The consumer of a kind's objects, and the objects that it knows of.
struct Subject<F> {
    follower: F,
    /// The objects that the follower may still hold. The set survives a panic of the task,
    /// so that the next run removes rules that were revoked in the meantime.
    known: Mutex<FxHashSet<Place>>,
}

/// Namespace and name of an object.
type Place = (String, String);

fn place(object: &Cached) -> Place {
    (object.namespace().to_owned(), object.name().to_owned())
}

impl<F: Follower> Subject<F> {
    /// Takes exactly these objects.
    fn replace(&self, objects: &Tree<Cached>) {
        let now: FxHashSet<Place> = objects.iter().map(|object| place(object)).collect();
        let gone: Vec<Place> = self.known().difference(&now).cloned().collect();
        for (namespace, name) in &gone {
            self.follower.remove(namespace, name);
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

    fn known(&self) -> MutexGuard<'_, FxHashSet<Place>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<F: Follower> Followed<F> {
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
                            subject.follower.remove(&place.0, &place.1);
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
