//! Keeps a cache equal to what the API server has.
//!
//! # How it follows
//!
//! 1. **Initial events.** A watch with `sendInitialEvents` (KEP-3157) brings
//!    every object and then a bookmark that says so; server and client need
//!    no list in memory. A server that refuses it, or does not say that the
//!    initial events ended, is asked for a list in pages instead.
//! 2. **Watch** from the revision of 1. Bookmarks move the revision on while
//!    nothing happens, so that after a loss of the connection the watch
//!    resumes where it was, without a list.
//! 3. **Expired** (410): the revision was compacted away. Back to 1; subscribers receive
//!    the difference as changes. The same happens after a restore of the server's store,
//!    which shows as a revision that the server does not have ("Too large resource
//!    version") or as a bookmark that is older than the last event.
//!
//! After failures it waits: exponentially longer, with jitter so that the
//! clients of a restarted server do not come all at once, and never long for a server that
//! cannot be reached ([`crate::backoff::Backoff`]). A watch is limited
//! in time by the server (`timeoutSeconds`) and, if the server forgets, here.
//!
//! # What readers may rely on
//!
//! Changes come in the order of the revisions, after they are visible in the
//! cache. Several changes of one object may arrive as one after a relist. An
//! object that was deleted and created again under its name arrives as two
//! changes, a deletion and an addition, however the reflector learned of it.

mod follower;
mod intake;
mod selection;
mod stats;
mod writer;

use std::sync::{Arc, Mutex, PoisonError, Weak};

use arc_swap::ArcSwap;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

pub use self::selection::Selection;
pub use self::stats::Stats;

use self::follower::Follower;
use self::intake::Intake;
use self::stats::Counters;
use self::writer::Writer;
use crate::cache::{Cache, Root, Store};
use crate::client::Client;
use crate::resource::{Object, Resource};

/// Follows a resource while it, or a [`Cache`] of it, lives.
pub struct Reflector<V> {
    handle: Arc<Handle<V>>,
}

/// A reflector that somebody else keeps going, if anybody does.
pub struct WeakReflector<V> {
    handle: Weak<Handle<V>>,
}

/// A change of one object. `previous` and `current` have the same uid: an object that was
/// deleted and created again under its name is reported as two changes.
#[derive(Debug)]
pub struct Change<V> {
    /// The object before; `None` when it was not known.
    pub previous: Option<Arc<V>>,
    /// The object now; `None` when it is gone.
    pub current: Option<Arc<V>>,
}

/// Receives changes, in order. What is not received piles up: receive
/// promptly and only note what is to be done.
pub struct Changes<V> {
    receiver: mpsc::UnboundedReceiver<Change<V>>,
}

/// Follows the objects of `V`'s resource. Must be called within a tokio
/// runtime.
#[must_use]
pub fn reflect<V: Object>(client: &Client, selection: Selection) -> Reflector<V> {
    reflect_resource(client, V::RESOURCE, selection)
}

/// Follows the objects of any resource that `V` can read, such as custom
/// resources as [`Metadata`](crate::Metadata). Must be called within a tokio runtime.
#[must_use]
pub fn reflect_resource<V: Object>(
    client: &Client,
    resource: Resource,
    selection: Selection,
) -> Reflector<V> {
    let shared = Arc::new(ReflectorShared::new(Store::from_objects(Vec::new()), false));
    let stop = CancellationToken::new();
    let written = Arc::clone(&shared);
    let intake = move || -> Box<dyn Intake> { Box::new(Writer::new(Arc::clone(&written))) };
    follow(client, resource, selection, &stop, Box::new(intake));
    Reflector {
        handle: Arc::new(Handle {
            shared,
            _stop: Some(stop.drop_guard()),
        }),
    }
}

/// Starts the task that follows a resource, until `stop`. A run that follows a panic reads
/// everything again, into a new intake. No type of object is named here, so that the task is
/// compiled once.
fn follow(
    client: &Client,
    resource: Resource,
    selection: Selection,
    stop: &CancellationToken,
    intake: Box<dyn Fn() -> Box<dyn Intake> + Send>,
) {
    let (client, stopped) = (client.clone(), stop.clone());
    control_supervise::task("reflector")
        .detail(resource.to_string())
        .until(stop)
        .spawn_restarting(move || {
            let follower = Follower::new(
                client.clone(),
                resource.clone(),
                selection.clone(),
                intake(),
            );
            let stopped = stopped.clone();
            async move {
                tokio::select! {
                    () = stopped.cancelled() => {}
                    () = follower.run() => {}
                }
            }
        });
}

// === impl Reflector ===

impl<V> Clone for Reflector<V> {
    fn clone(&self) -> Self {
        Self {
            handle: Arc::clone(&self.handle),
        }
    }
}

impl<V: Object> Reflector<V> {
    /// The cache that this reflector writes.
    #[must_use]
    pub fn cache(&self) -> Cache<V> {
        Cache {
            handle: Arc::clone(&self.handle),
        }
    }

    /// What is known now, as additions, and then every change.
    #[must_use]
    pub fn changes(&self) -> Changes<V> {
        self.handle.shared.subscribe(None)
    }

    /// The same, without the changes that `filter` refuses, which cost their receiver
    /// nothing. It is called by the reflector's task.
    #[must_use]
    pub fn changes_where(
        &self,
        filter: impl Fn(&Change<V>) -> bool + Send + Sync + 'static,
    ) -> Changes<V> {
        self.handle.shared.subscribe(Some(Box::new(filter)))
    }

    /// Returns a reference that does not keep this reflector going.
    #[must_use]
    pub fn downgrade(&self) -> WeakReflector<V> {
        WeakReflector {
            handle: Arc::downgrade(&self.handle),
        }
    }

    /// Waits until the first list arrived.
    pub async fn synced(&self) {
        self.handle.synced().await;
    }

    /// Whether the first list arrived.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.handle.is_synced()
    }

    /// What happened so far, for metrics and tests.
    #[must_use]
    pub fn stats(&self) -> Stats {
        self.handle.shared.counters.stats()
    }
}

// === impl WeakReflector ===

impl<V> WeakReflector<V> {
    /// Returns the reflector while it, or a [`Cache`] of it, lives.
    #[must_use]
    pub fn upgrade(&self) -> Option<Reflector<V>> {
        let handle = self.handle.upgrade()?;
        Some(Reflector { handle })
    }
}

// === impl Changes ===

impl<V> Changes<V> {
    /// The next change; `None` when the reflector is gone.
    pub async fn recv(&mut self) -> Option<Change<V>> {
        self.receiver.recv().await
    }

    /// A change that is there already.
    pub fn try_recv(&mut self) -> Option<Change<V>> {
        self.receiver.try_recv().ok()
    }

    /// Waits for a change and takes up to `most` that are there, appending
    /// them to `into`; their number, 0 when the reflector is gone.
    pub async fn recv_many(&mut self, into: &mut Vec<Change<V>>, most: usize) -> usize {
        self.receiver.recv_many(into, most).await
    }
}

impl<V> Change<V> {
    /// The object now, or what it was before it went.
    #[must_use]
    pub fn latest(&self) -> Option<&Arc<V>> {
        self.current.as_ref().or(self.previous.as_ref())
    }
}

impl<V> Clone for Change<V> {
    fn clone(&self) -> Self {
        Self {
            previous: self.previous.clone(),
            current: self.current.clone(),
        }
    }
}

// === impl Handle ===

/// Keeps the follower going while it lives.
pub(crate) struct Handle<V> {
    shared: Arc<ReflectorShared<V>>,
    _stop: Option<DropGuard>,
}

struct ReflectorShared<V> {
    published: ArcSwap<Root<V>>,
    /// Taken by the writer while it publishes and tells, so that a new
    /// subscriber gets each object exactly once.
    subscribers: Mutex<Vec<Subscriber<V>>>,
    synced: watch::Sender<bool>,
    counters: Counters,
}

type ChangeFilter<V> = Box<dyn Fn(&Change<V>) -> bool + Send + Sync>;

struct Subscriber<V> {
    sender: mpsc::UnboundedSender<Change<V>>,
    filter: Option<ChangeFilter<V>>,
}

impl<V> Subscriber<V> {
    fn send(&self, change: Change<V>) {
        if self.filter.as_ref().is_none_or(|wants| wants(&change)) {
            // Who left is removed after the last change.
            let _ = self.sender.send(change);
        }
    }
}

impl<V: Object> Handle<V> {
    pub(crate) fn detached(objects: Vec<V>) -> Self {
        let store = Store::from_objects(objects.into_iter().map(Arc::new).collect());
        Self {
            shared: Arc::new(ReflectorShared::new(store, true)),
            _stop: None,
        }
    }
}

impl<V> Handle<V> {
    pub(crate) fn published(&self) -> &ArcSwap<Root<V>> {
        &self.shared.published
    }

    pub(crate) fn is_synced(&self) -> bool {
        *self.shared.synced.borrow()
    }

    pub(crate) async fn synced(&self) {
        wait_until_true(&self.shared.synced).await;
    }
}

/// Waits until the value is true. The caller keeps the sender, so that waiting cannot fail.
async fn wait_until_true(sender: &watch::Sender<bool>) {
    let _ = sender.subscribe().wait_for(|value| *value).await;
}

impl<V: Object> ReflectorShared<V> {
    #[expect(
        clippy::needless_pass_by_value,
        reason = "the store is published and done"
    )]
    fn new(store: Store<V>, synced: bool) -> Self {
        Self {
            published: ArcSwap::new(Arc::clone(store.root())),
            subscribers: Mutex::default(),
            synced: watch::Sender::new(synced),
            counters: Counters::default(),
        }
    }

    fn subscribe(&self, filter: Option<ChangeFilter<V>>) -> Changes<V> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let subscriber = Subscriber { sender, filter };
        let mut subscribers = self
            .subscribers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for object in self.published.load().objects() {
            subscriber.send(Change {
                previous: None,
                current: Some(Arc::clone(object)),
            });
        }
        subscribers.push(subscriber);
        Changes { receiver }
    }
}

#[cfg(test)]
mod tests;
