//! The watch cache: all objects of all resources in memory, and what happened
//! to them lately.
//!
//! One task reads one watch over the whole store and is the only writer of
//! every [`ResourceCache`]. That makes the caches consistent with each other
//! for nothing: a single number, [`Caches::applied`], says up to which revision
//! of the store *everything* is known here, and a consistent read of any
//! resource waits for that number alone. Reads never touch the store.

mod compare;
mod counts;
mod facts;
mod frame_batch;
mod history_replay;
mod object;
mod object_cache;
mod pending_writes;
mod resource;
mod ring;
pub mod storage;
mod tree;
mod watcher_wakers;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use bytes::Bytes;
use compact_str::CompactString;
use control_store::{EventKind, KeyValue, Range, Revision, Store};
use futures::future::try_join_all;
use rustc_hash::FxHashMap;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

pub use counts::{ComparisonResult, Counts};
pub use frame_batch::{FrameBatch, FrameBatchKey, FrameBatches, FrameForm};
pub use history_replay::{HistoryReplay, ReplayStep};
pub use object::{CacheEntry, Change, DecodeError, PreparedObject, Reading, encode, frame};
pub use resource::{Event, ResourceCache, State};
pub use ring::Read;
pub use tree::{Position, Tree, TreeEntry};
pub use watcher_wakers::Waiter;

use crate::storage::Transform;
use pending_writes::PendingWrites;

/// How far back the rings are filled from the store's history at start, so
/// that watches resume after a restart instead of listing anew.
const HISTORY: Revision = 2000;
/// How many objects are read from the store at a time when everything is read.
const PAGE: usize = 4000;
/// How long the feeder waits before it loads everything again.
const RELOAD: Duration = Duration::from_millis(200);
/// How long a read waits for the cache to catch up with the store.
const CATCH_UP: Duration = Duration::from_secs(3);

/// All caches.
pub struct Caches {
    reader: Arc<Reader>,
    applied: watch::Sender<Revision>,
    store: Arc<dyn Store>,
    handoff: PendingWrites,
    requests: mpsc::Sender<Request>,
    /// Held by the task that feeds the caches.
    asked: tokio::sync::Mutex<mpsc::Receiver<Request>>,
}

/// Which caches are to be fed from now on, and which no more.
#[derive(Debug, Default)]
pub struct Replacement {
    /// To be filled and fed, each in the place of one for the same keys.
    pub added: Vec<Arc<ResourceCache>>,
    /// To be fed no more.
    pub removed: Vec<Arc<ResourceCache>>,
}

/// What the task that feeds the caches is asked for: it alone knows a moment at
/// which nothing is missed.
type Request = (
    Replacement,
    oneshot::Sender<Result<(), control_store::Error>>,
);

/// The caches by what their keys begin with.
type Prefixes = FxHashMap<CompactString, Arc<ResourceCache>>;

/// What makes cached objects of stored ones.
struct Reader {
    by_prefix: ArcSwap<Prefixes>,
    transform: Transform,
}

/// The cache did not catch up in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CatchUpTimeout {
    /// What was waited for.
    pub wanted: Revision,
    /// How far the cache has come.
    pub applied: Revision,
}

impl Replacement {
    /// Whether nothing changes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }
}

impl std::fmt::Debug for Caches {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Caches")
            .field("resources", &self.reader.by_prefix.load().len())
            .field("applied", &*self.applied.borrow())
            .finish_non_exhaustive()
    }
}

impl Caches {
    /// Caches for these resources, not yet filled.
    #[must_use]
    pub fn new(
        resources: impl IntoIterator<Item = Arc<ResourceCache>>,
        store: Arc<dyn Store>,
        transform: Transform,
    ) -> Self {
        let by_prefix: Prefixes = resources
            .into_iter()
            .map(|cache| (cache.prefix().into(), cache))
            .collect();
        let (sender, receiver) = mpsc::channel(64);
        Self {
            reader: Arc::new(Reader {
                by_prefix: ArcSwap::from_pointee(by_prefix),
                transform,
            }),
            applied: watch::Sender::new(0),
            store,
            handoff: PendingWrites::default(),
            requests: sender,
            asked: tokio::sync::Mutex::new(receiver),
        }
    }

    /// The revision up to which everything is in the caches.
    #[must_use]
    #[inline]
    pub fn applied(&self) -> Revision {
        *self.applied.borrow()
    }

    /// Waits until everything up to `revision` is in the caches.
    ///
    /// # Errors
    /// After three seconds.
    pub async fn reach(&self, revision: Revision) -> Result<(), CatchUpTimeout> {
        if self.applied() >= revision {
            return Ok(());
        }
        let mut applied = self.applied.subscribe();
        let waited =
            tokio::time::timeout(CATCH_UP, applied.wait_for(|applied| *applied >= revision)).await;
        match waited {
            Ok(Ok(_)) => Ok(()),
            _ => Err(CatchUpTimeout {
                wanted: revision,
                applied: self.applied(),
            }),
        }
    }

    /// Waits until the caches are as new as the store is now, and answers the
    /// revision that a snapshot taken afterwards has at least.
    ///
    /// # Errors
    /// After three seconds, and when the store does not answer.
    pub async fn catch_up(&self) -> Result<(), CatchUpTimeout> {
        // Another API server may have written what this one has not heard of.
        match self.store.latest().await {
            Ok(revision) => self.reach(revision).await,
            Err(error) => {
                tracing::warn!(%error, "the store does not say its revision");
                let applied = self.applied();
                Err(CatchUpTimeout {
                    wanted: applied.max(self.store.revision()),
                    applied,
                })
            }
        }
    }

    /// Fills the caches and returns the task that keeps them filled. The caches
    /// can be read as soon as this returns.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn start(
        self: Arc<Self>,
        shutdown: CancellationToken,
    ) -> Result<control_supervise::TaskHandle, control_store::Error> {
        let now = self.store.revision();
        let from = now
            .saturating_sub(HISTORY)
            .max(self.store.compacted())
            .max(1)
            .min(now);
        let (loaded, from) = match self.load(Some(from)).await {
            Ok(loaded) => (loaded, from),
            // Compaction may overtake us; the present is always there.
            Err(control_store::Error::Compacted { .. }) => {
                let loaded = self.load(None).await?;
                let revision = loaded.revision;
                (loaded, revision)
            }
            Err(error) => return Err(error),
        };
        for (cache, objects) in loaded.objects {
            cache.fill(objects, from);
        }
        self.applied.send_replace(from);
        let caches = Arc::clone(&self);
        let mut first = Some(from);
        let task = control_supervise::task("cache-feeder")
            .until(&shutdown.clone())
            .spawn_restarting(move || {
                let (caches, first) = (Arc::clone(&caches), first.take());
                let shutdown = shutdown.clone();
                async move {
                    caches.feed(first, shutdown).await;
                    // Nothing comes any more.
                    caches.rouse();
                }
            });
        if self.reach(now).await.is_err() {
            tracing::warn!(revision = now, "the caches are slow to fill");
        }
        Ok(task)
    }

    /// Lets all watchers look up, and see that they are to end.
    pub fn rouse(&self) {
        for cache in self.reader.by_prefix.load().values() {
            cache.rouse();
        }
    }

    /// Everything as of a revision, or as of now. The store is read page by
    /// page, and pages are decoded beside each other on all cores: a start with
    /// many objects is as fast as the machine, and never holds them all twice.
    async fn load(&self, at: Option<Revision>) -> Result<InitialObjects, control_store::Error> {
        let prefixes = self.reader.by_prefix.load_full();
        let mut objects: FxHashMap<&str, (Arc<ResourceCache>, Vec<Arc<CacheEntry>>)> = prefixes
            .iter()
            .map(|(prefix, cache)| (prefix.as_str(), (Arc::clone(cache), Vec::new())))
            .collect();
        let mut take = |page: Vec<(Arc<ResourceCache>, Arc<CacheEntry>)>| {
            for (cache, object) in page {
                if let Some((_, list)) = objects.get_mut(cache.prefix()) {
                    list.push(object);
                }
            }
        };
        let ahead = std::thread::available_parallelism().map_or(2, usize::from) + 1;
        let mut decoding = VecDeque::with_capacity(ahead);
        let mut range = Range {
            at,
            limit: PAGE,
            ..Range::prefix(storage::ROOT)
        };
        let revision = loop {
            let page = self.store.range(range.clone()).await?;
            let (revision, more) = (page.revision, page.more);
            if let Some(last) = page.kvs.last() {
                range.start = [&*last.key, &[0]].concat().into();
                range.at = Some(revision);
            }
            let reader = Arc::clone(&self.reader);
            decoding.push_back(tokio::task::spawn_blocking(move || reader.page(&page.kvs)));
            if decoding.len() >= ahead
                && let Some(page) = decoding.pop_front()
            {
                take(page.await.map_err(|_| control_store::Error::Closed)?);
            }
            if !more {
                break revision;
            }
        };
        for page in decoding {
            take(page.await.map_err(|_| control_store::Error::Closed)?);
        }
        Ok(InitialObjects {
            objects: objects.into_values().collect(),
            revision,
        })
    }

    /// Applies the store's changes after `from` until shutdown. After a failure of
    /// the watch, or without `from`, it loads everything and goes on from the
    /// difference.
    async fn feed(&self, from: Option<Revision>, shutdown: CancellationToken) {
        let mut requests = self.asked.lock().await;
        let mut late = Late::default();
        let mut after = match from {
            Some(from) => from,
            None => match self.load_again(&mut late, &shutdown).await {
                Some(after) => {
                    // An earlier run may have applied events that it did not announce.
                    self.rouse();
                    after
                }
                None => return,
            },
        };
        loop {
            let mut watch = self.store.watch(Bytes::from_static(storage::ROOT), after);
            loop {
                let batch = tokio::select! {
                    biased;
                    () = shutdown.cancelled() => return,
                    Some(request) = requests.recv() => {
                        self.serve(request, after).await;
                        continue;
                    }
                    () = late.due(), if !late.0.is_empty() => {
                        late.announce(Instant::now());
                        continue;
                    }
                    batch = watch.next() => batch,
                };
                match batch {
                    Some(Ok(batch)) => {
                        self.apply(batch.events, &mut late);
                        after = after.max(batch.revision);
                        self.applied.send_replace(after);
                    }
                    Some(Err(control_store::Error::Closed)) => return,
                    Some(Err(error)) => {
                        tracing::warn!(%error, revision = after, "the watch over the store broke off");
                        break;
                    }
                    None => break,
                }
            }
            match self.load_again(&mut late, &shutdown).await {
                Some(revision) => after = revision,
                None => return,
            }
        }
    }

    /// Loads everything and applies the difference; the revision up to which
    /// everything is there then. `None` at shutdown, and when the store is closed.
    async fn load_again(&self, late: &mut Late, shutdown: &CancellationToken) -> Option<Revision> {
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return None,
                () = tokio::time::sleep(RELOAD) => {}
            }
            match self.load(None).await {
                Ok(loaded) => {
                    for (cache, objects) in loaded.objects {
                        let changes = cache.difference(&objects, loaded.revision);
                        late.add(&cache, cache.apply(changes));
                    }
                    self.applied.send_replace(loaded.revision);
                    return Some(loaded.revision);
                }
                Err(control_store::Error::Closed) => return None,
                Err(error) => tracing::warn!(%error, "cannot read the store"),
            }
        }
    }

    /// Changes which caches are fed: all of it or nothing. It is done even if nobody
    /// waits any more for the answer.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn replace(&self, change: Replacement) -> Result<(), control_store::Error> {
        if change.is_empty() {
            return Ok(());
        }
        let (answer, answered) = oneshot::channel();
        let sent = self.requests.send((change, answer)).await;
        sent.map_err(|_| control_store::Error::Closed)?;
        answered.await.map_err(|_| control_store::Error::Closed)?
    }

    /// Does what was asked for; `after`: what all caches have.
    async fn serve(&self, (change, answer): Request, after: Revision) {
        let Replacement { added, removed } = change;
        // Together: nothing is fed meanwhile.
        let filled = try_join_all(added.iter().map(|cache| self.fill(cache, after))).await;
        if filled.is_ok() {
            self.reader.by_prefix.rcu(|prefixes| {
                let mut prefixes = Prefixes::clone(prefixes);
                for cache in &removed {
                    let present = prefixes.get(cache.prefix());
                    if present.is_some_and(|present| Arc::ptr_eq(present, cache)) {
                        prefixes.remove(cache.prefix());
                    }
                }
                for cache in &added {
                    prefixes.insert(cache.prefix().into(), Arc::clone(cache));
                }
                prefixes
            });
        }
        // Who asked may have gone.
        let _ = answer.send(filled.map(drop));
    }

    /// Fills one cache with what is in the store at a revision.
    async fn fill(
        &self,
        cache: &Arc<ResourceCache>,
        at: Revision,
    ) -> Result<(), control_store::Error> {
        let mut objects = Vec::new();
        let mut range = Range {
            at: Some(at),
            limit: PAGE,
            ..Range::prefix(cache.prefix().to_owned())
        };
        loop {
            let page = self.store.range(range.clone()).await?;
            if let Some(last) = page.kvs.last() {
                range.start = [&*last.key, &[0]].concat().into();
            }
            for kv in &page.kvs {
                let key = std::str::from_utf8(&kv.key).ok();
                if let Some(key) = key.and_then(|key| key.strip_prefix(cache.prefix())) {
                    objects.extend(self.reader.decode(cache, key, kv));
                }
            }
            if !page.more {
                break;
            }
        }
        cache.fill(objects, at);
        Ok(())
    }

    /// Leaves what is about to be written under a key, so that it need not be decoded
    /// when it comes back.
    pub fn offer(&self, key: Bytes, stored: Bytes, prepared: PreparedObject) {
        self.handoff.offer(key, stored, prepared);
    }

    /// Takes back what was offered and then not written.
    pub fn withdraw(&self, key: &Bytes, stored: &Bytes) {
        self.handoff.withdraw(key, stored);
    }

    /// Applies the events of a batch, each run of the same resource at once.
    fn apply(&self, events: Vec<control_store::Event>, late: &mut Late) {
        let prefixes = self.reader.by_prefix.load();
        let mut events = events.into_iter().peekable();
        while let Some(event) = events.next() {
            let Some((cache, key)) = locate(&prefixes, &event.kv.key) else {
                continue;
            };
            let mut changes: Vec<_> = self.change(cache, key, &event).into_iter().collect();
            while let Some(event) = events.next_if(|event| {
                locate(&prefixes, &event.kv.key).is_some_and(|(next, _)| Arc::ptr_eq(next, cache))
            }) {
                if let Some((_, key)) = locate(&prefixes, &event.kv.key) {
                    changes.extend(self.change(cache, key, &event));
                }
            }
            late.add(cache, cache.apply(changes));
        }
    }

    fn change(
        &self,
        cache: &ResourceCache,
        key: &str,
        event: &control_store::Event,
    ) -> Option<(CompactString, Option<Arc<CacheEntry>>, Revision)> {
        let revision = event.kv.mod_revision;
        match event.kind {
            EventKind::Delete => Some((key.into(), None, revision)),
            EventKind::Put => {
                let kv = &event.kv;
                let own = self
                    .handoff
                    .take(&kv.key, &kv.value)
                    .and_then(|own| cache.accept(key, own, revision, kv.version <= 1).ok());
                let object = match own {
                    Some(object) => object,
                    None => self.reader.decode(cache, key, kv)?,
                };
                Some((key.into(), Some(object), revision))
            }
        }
    }
}

/// Caches whose watchers are to be woken later.
#[derive(Default)]
struct Late(Vec<(Instant, Arc<ResourceCache>)>);

impl Late {
    fn add(&mut self, cache: &Arc<ResourceCache>, due: Option<Instant>) {
        let known = self.0.iter().any(|(_, late)| Arc::ptr_eq(late, cache));
        if let Some(due) = due
            && !known
        {
            self.0.push((due, Arc::clone(cache)));
        }
    }

    /// Waits until the first is to be woken.
    async fn due(&self) {
        if let Some(first) = self.0.iter().map(|(due, _)| *due).min() {
            tokio::time::sleep_until(first.into()).await;
        }
    }

    fn announce(&mut self, now: Instant) {
        self.0.retain(|(_, cache)| cache.announce(now).is_some());
    }
}

// === impl Reader ===

impl Reader {
    /// The objects of a page, each with its cache.
    fn page(&self, kvs: &[KeyValue]) -> Vec<(Arc<ResourceCache>, Arc<CacheEntry>)> {
        let prefixes = self.by_prefix.load();
        kvs.iter()
            .filter_map(|kv| {
                let (cache, key) = locate(&prefixes, &kv.key)?;
                Some((Arc::clone(cache), self.decode(cache, key, kv)?))
            })
            .collect()
    }

    fn decode(&self, cache: &ResourceCache, key: &str, kv: &KeyValue) -> Option<Arc<CacheEntry>> {
        opened(&self.transform, cache, key, kv)
    }
}

/// The cache that a key of the store belongs to, and the rest of the key.
fn locate<'m, 'a>(
    prefixes: &'m Prefixes,
    key: &'a [u8],
) -> Option<(&'m Arc<ResourceCache>, &'a str)> {
    let key = std::str::from_utf8(key).ok()?;
    let rest = key.strip_prefix("/registry/")?;
    // `/registry/pods/…` or `/registry/services/specs/…`.
    let first = "/registry/".len() + rest.find('/')? + 1;
    if let Some(cache) = prefixes.get(&key[..first]) {
        return Some((cache, &key[first..]));
    }
    let second = first + key[first..].find('/')? + 1;
    prefixes
        .get(&key[..second])
        .map(|cache| (cache, &key[second..]))
}

/// The cached form of what the store holds under a key; `None`, with a word in
/// the log, when that cannot be read.
fn opened(
    transform: &Transform,
    cache: &ResourceCache,
    key: &str,
    kv: &KeyValue,
) -> Option<Arc<CacheEntry>> {
    let stored = match transform.open(&kv.key, &kv.value) {
        Ok(stored) => stored,
        Err(error) => {
            tracing::error!(key = %String::from_utf8_lossy(&kv.key), %error, "object in the store cannot be decrypted");
            return None;
        }
    };
    let printed = storage::is_in_protobuf(&kv.value);
    match cache.decode(key, &stored, kv.mod_revision, kv.version <= 1, printed) {
        Ok(object) => Some(object),
        Err(error) => {
            tracing::error!(key = %String::from_utf8_lossy(&kv.key), %error, "unreadable object in the store");
            None
        }
    }
}

struct InitialObjects {
    objects: Vec<(Arc<ResourceCache>, Vec<Arc<CacheEntry>>)>,
    revision: Revision,
}
