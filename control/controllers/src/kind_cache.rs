//! Caches that controllers share, one per kind.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use control_client::{Change, Client, Meta, Queue, Reflector, Selection, View, reflect};
use rustc_hash::FxHashMap;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::key::Key;
use crate::views::Text;

/// Called for every change, in order, after index and cache show it. It must not block:
/// it only queues work.
type Handler<V> = Box<dyn Fn(&Change<V>) + Send + Sync>;

/// Objects by namespace and uid of their controller.
type ByOwner<V> = FxHashMap<(Text, Text), Vec<Arc<V>>>;

/// The cache of one kind, shared by all controllers that read it, with an index by
/// controlling owner.
///
/// One task writes the index and calls the handlers. So a controller that tracks its own
/// writes by these calls may rely on this: the index contains every change that the
/// controller was notified of.
pub struct KindCache<V: View> {
    reflector: Reflector<V>,
    owned: RwLock<ByOwner<V>>,
    indexed: bool,
    handlers: Mutex<Vec<Handler<V>>>,
    ready: watch::Sender<bool>,
}

impl<V: View> KindCache<V> {
    pub(crate) fn new(client: &Client, selection: Selection, indexed: bool) -> Arc<Self> {
        Arc::new(Self {
            reflector: reflect(client, selection),
            owned: RwLock::default(),
            indexed,
            handlers: Mutex::default(),
            ready: watch::Sender::new(false),
        })
    }

    /// Registers `handler` for every change, from the first list on. Must be called
    /// before the controllers are launched.
    pub fn on_change(&self, handler: impl Fn(&Change<V>) + Send + Sync + 'static) {
        self.handlers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(Box::new(handler));
    }

    /// Queues the key of each object that changes or is deleted. Must be called before
    /// the controllers are launched.
    pub fn queue_changes(&self, queue: &Queue<Key>) {
        let queue = queue.clone();
        self.on_change(move |change| {
            if let Some(object) = change.latest() {
                queue.add(Key::from_meta(object.meta()));
            }
        });
    }

    /// Queues the key of each object that is added or changes, but not of deleted ones.
    /// Must be called before the controllers are launched.
    pub fn queue_present(&self, queue: &Queue<Key>) {
        let queue = queue.clone();
        self.on_change(move |change| {
            if let Some(object) = &change.current {
                queue.add(Key::from_meta(object.meta()));
            }
        });
    }

    /// Waits until the first list was indexed and all handlers were called.
    pub async fn ready(&self) {
        let mut ready = self.ready.subscribe();
        // an error means that the sender was dropped; it lives as long as `self`
        let _ = ready.wait_for(|ready| *ready).await;
    }

    /// One object from the cache.
    #[must_use]
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<V>> {
        self.reflector.cache().get(namespace, name)
    }

    /// One object from the cache, by key.
    #[must_use]
    pub fn by_key(&self, key: &Key) -> Option<Arc<V>> {
        self.get(&key.namespace, &key.name)
    }

    /// All objects of a namespace.
    #[must_use]
    pub fn namespace(&self, namespace: &str) -> Vec<Arc<V>> {
        let snapshot = self.reflector.cache().snapshot();
        snapshot.namespace(namespace).cloned().collect()
    }

    /// All objects.
    #[must_use]
    pub fn all(&self) -> Vec<Arc<V>> {
        self.reflector.cache().snapshot().iter().cloned().collect()
    }

    /// The objects of a namespace whose controller has this uid; with an empty
    /// uid, those that have none.
    #[must_use]
    pub fn owned_by(&self, namespace: &str, uid: &str) -> Vec<Arc<V>> {
        self.owned_by_any(namespace, [uid])
    }

    /// Returns the objects that a controller may claim: its own and those without a
    /// controller.
    #[must_use]
    pub fn claimable(&self, owner: &Meta) -> Vec<Arc<V>> {
        self.owned_by_any(&owner.namespace, [owner.uid.as_str(), ""])
    }

    /// Returns the objects of a namespace that one of these uids controls; an empty uid
    /// stands for no controller.
    ///
    /// All are read under one lock, so an object that moves from one owner to another is
    /// in the result exactly once.
    #[must_use]
    pub fn owned_by_any<'a>(
        &self,
        namespace: &str,
        uids: impl IntoIterator<Item = &'a str>,
    ) -> Vec<Arc<V>> {
        debug_assert!(self.indexed, "{} has no index by owner", V::RESOURCE);
        let owned = self.owned.read().unwrap_or_else(PoisonError::into_inner);
        uids.into_iter()
            .filter_map(|uid| owned.get(&(namespace.into(), uid.into())))
            .flatten()
            .cloned()
            .collect()
    }

    /// Follows the changes until `shutdown`.
    pub(crate) async fn pump(self: Arc<Self>, shutdown: CancellationToken) {
        let handlers =
            std::mem::take(&mut *self.handlers.lock().unwrap_or_else(PoisonError::into_inner));
        let mut changes = self.reflector.changes();
        let tell = |change: &Change<V>| {
            if self.indexed {
                self.index(change);
            }
            for handler in &handlers {
                handler(change);
            }
        };
        loop {
            let listed = self.reflector.is_synced();
            // listed objects are in the channel before the cache counts as listed
            while let Some(change) = changes.try_recv() {
                tell(&change);
            }
            if listed {
                self.ready
                    .send_if_modified(|ready| !std::mem::replace(ready, true));
            }
            tokio::select! {
                () = shutdown.cancelled() => return,
                change = changes.recv() => match change {
                    Some(change) => tell(&change),
                    None => return,
                },
                () = self.reflector.synced(), if !listed => {}
            }
        }
    }

    fn index(&self, change: &Change<V>) {
        let place = |object: &Arc<V>| {
            let meta = object.meta();
            let uid = meta
                .controller()
                .map(|owner| owner.uid.clone())
                .unwrap_or_default();
            (meta.namespace.clone(), uid)
        };
        let mut owned = self.owned.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(previous) = &change.previous {
            let at = place(previous);
            if let Some(list) = owned.get_mut(&at) {
                if let Some(found) = list
                    .iter()
                    .position(|object| object.meta().name == previous.meta().name)
                {
                    list.swap_remove(found);
                }
                if list.is_empty() {
                    owned.remove(&at);
                }
            }
        }
        if let Some(current) = &change.current {
            owned
                .entry(place(current))
                .or_default()
                .push(Arc::clone(current));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use http::{Request, Response};
    use serde_json::{Value, json};

    use super::*;
    use crate::views::Pod;

    /// Pods whose cache is filled by the test, from a server that never answers.
    fn pods() -> Arc<KindCache<Pod>> {
        let silent = tower::service_fn(|_: Request<control_client::RequestBody>| {
            std::future::pending::<Result<Response<control_client::RequestBody>, std::io::Error>>()
        });
        KindCache::new(&Client::in_process(silent, ()), Selection::all(), true)
    }

    fn pod(owner: Option<&str>) -> Arc<Pod> {
        let mut value: Value = json!({"metadata": {"name": "p", "namespace": "d", "uid": "p"}});
        if let Some(uid) = owner {
            value["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1",
                "kind": "ReplicaSet", "name": "o", "uid": uid, "controller": true}]);
        }
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn change(previous: Option<&Arc<Pod>>, current: &Arc<Pod>) -> Change<Pod> {
        Change {
            previous: previous.cloned(),
            current: Some(Arc::clone(current)),
        }
    }

    #[tokio::test]
    async fn pod_that_is_adopted_between_two_lookups_is_found_exactly_once() {
        // In one order it would be missed, in the other found twice.
        for order in [["o", ""], ["", "o"]] {
            let kind = pods();
            let (free, owned) = (pod(None), pod(Some("o")));
            kind.index(&change(None, &free));
            let adopt = || kind.index(&change(Some(&free), &owned));
            let found = std::thread::scope(|scope| {
                let uids = order.into_iter().enumerate().map(|(at, uid)| {
                    if at == 1 {
                        let (done, adopted) = mpsc::channel();
                        scope.spawn(move || {
                            adopt();
                            let _ = done.send(());
                        });
                        // The adoption has to wait for the lookup to end.
                        let _ = adopted.recv_timeout(Duration::from_millis(100));
                    }
                    uid
                });
                kind.owned_by_any("d", uids).len()
            });
            assert_eq!(found, 1, "{order:?}");
        }
    }
}
