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
//! 3. **Expired** (410): the revision was compacted away. Back to 1, and the
//!    difference to what was known is told as changes. The same holds for a revision
//!    that the server does not have ("Too large resource version"), and for a bookmark
//!    that is older than what is known: the server's store was restored.
//!
//! After failures it waits: exponentially longer, with jitter so that the
//! clients of a restarted server do not come all at once. A watch is limited
//! in time by the server (`timeoutSeconds`) and, if the server forgets, here.
//!
//! # What readers may rely on
//!
//! Changes come in the order of the revisions, after they are visible in the
//! cache. Several changes of one object may arrive as one after a relist, and
//! an object that was deleted and created again between two lists arrives as
//! one change whose uid differs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use bytes::Bytes;
use compact_str::CompactString;
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use tokio::sync::{mpsc, watch};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::cache::{Cache, Root, Store};
use crate::client::{Client, Query, path, read_status};
use crate::error::{Error, Status};
use crate::meta::Metadata;
use crate::resource::{Object, Resource};
use crate::transport::RequestBody;
use crate::wire::{Frame, Lines, Page};

/// Which objects of a resource to follow, and how much of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only this namespace.
    pub namespace: Option<String>,
    /// Only objects whose labels this selects.
    pub labels: Option<String>,
    /// Only objects whose fields this selects.
    pub fields: Option<String>,
    /// Ask the server for metadata alone (`PartialObjectMetadata`): fits views
    /// such as [`Metadata`] that read nothing else.
    pub metadata_only: bool,
}

/// Follows a resource while it, or a [`Cache`] of it, lives.
pub struct Reflector<V> {
    handle: Arc<Handle<V>>,
}

/// What happened to one object. `previous` and `current` are one object: one that
/// was deleted and created again under its name is told as two changes.
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

/// What a reflector did so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Objects added, modified or deleted by watch events.
    pub events: u64,
    /// Complete reads (initial events or list), the first included.
    pub relists: u64,
    /// Watches begun from a known revision.
    pub watches: u64,
    /// Objects that could not be read as the view and were skipped.
    pub unreadable: u64,
    /// Nanoseconds, summed over `batches`, from a chunk of bytes being received
    /// to its events being visible in the cache.
    pub latency_nanos: u64,
    /// Chunks that `latency_nanos` is about.
    pub batches: u64,
}

/// Follows the objects of `V`'s resource. Must be called within a tokio
/// runtime.
#[must_use]
pub fn reflect<V: Object>(client: &Client, selection: Selection) -> Reflector<V> {
    reflect_resource(client, V::RESOURCE, selection)
}

/// Follows the objects of any resource that `V` can read, such as custom
/// resources as [`Metadata`]. Must be called within a tokio runtime.
#[must_use]
pub fn reflect_resource<V: Object>(
    client: &Client,
    resource: Resource,
    selection: Selection,
) -> Reflector<V> {
    let shared = Arc::new(Shared::new(Store::of(Vec::new()), false));
    let stop = CancellationToken::new();
    let (client, stopped, written) = (client.clone(), stop.clone(), Arc::clone(&shared));
    control_supervise::task("reflector")
        .detail(resource.to_string())
        .until(&stop)
        .spawn_restarting(move || {
            // A run that follows a panic reads everything again.
            let follower = Follower {
                client: client.clone(),
                resource: resource.clone(),
                selection: selection.clone(),
                writer: Writer::new(Arc::clone(&written)),
                revision: None,
                streaming: true,
                backoff: Backoff::default(),
            };
            let stopped = stopped.clone();
            async move {
                tokio::select! {
                    () = stopped.cancelled() => {}
                    () = follower.run() => {}
                }
            }
        });
    Reflector {
        handle: Arc::new(Handle {
            shared,
            _stop: Some(stop.drop_guard()),
        }),
    }
}

// === impl Selection ===

impl Selection {
    /// Everything.
    #[must_use]
    pub fn all() -> Self {
        Self::default()
    }

    /// Only this namespace.
    #[must_use]
    pub fn namespace(mut self, namespace: impl Into<String>) -> Self {
        self.namespace = Some(namespace.into());
        self
    }

    /// Only objects that this label selector selects.
    #[must_use]
    pub fn labels(mut self, selector: impl Into<String>) -> Self {
        self.labels = Some(selector.into());
        self
    }

    /// Only objects that this field selector selects.
    #[must_use]
    pub fn fields(mut self, selector: impl Into<String>) -> Self {
        self.fields = Some(selector.into());
        self
    }

    /// Metadata alone.
    #[must_use]
    pub const fn metadata_only(mut self) -> Self {
        self.metadata_only = true;
        self
    }

    /// The `Accept` header of a list.
    pub(crate) const fn accept_list(&self) -> &'static str {
        if self.metadata_only {
            "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
        } else {
            "application/json"
        }
    }

    /// The `Accept` header of a watch.
    const fn accept_watch(&self) -> &'static str {
        if self.metadata_only {
            "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json"
        } else {
            "application/json"
        }
    }
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
        self.handle.shared.subscribe()
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
    shared: Arc<Shared<V>>,
    _stop: Option<DropGuard>,
}

struct Shared<V> {
    published: ArcSwap<Root<V>>,
    /// Taken by the writer while it publishes and tells, so that a new
    /// subscriber gets each object exactly once.
    subscribers: Mutex<Vec<mpsc::UnboundedSender<Change<V>>>>,
    synced: watch::Sender<bool>,
    counters: Counters,
}

impl<V: Object> Handle<V> {
    pub(crate) fn detached(objects: Vec<V>) -> Self {
        let store = Store::of(objects.into_iter().map(Arc::new).collect());
        Self {
            shared: Arc::new(Shared::new(store, true)),
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
        // the sender lives in `shared`, so waiting cannot fail
        let _ = self
            .shared
            .synced
            .subscribe()
            .wait_for(|synced| *synced)
            .await;
    }
}

impl<V: Object> Shared<V> {
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

    fn subscribe(&self) -> Changes<V> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut subscribers = self
            .subscribers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for object in self.published.load().objects() {
            // the receiver is in our hands: it takes everything
            let _ = sender.send(Change {
                previous: None,
                current: Some(Arc::clone(object)),
            });
        }
        subscribers.push(sender);
        Changes { receiver }
    }
}

// === impl Writer ===

/// The one that writes the cache: collects changes, then publishes and tells.
struct Writer<V> {
    store: Store<V>,
    pending: Vec<Change<V>>,
    shared: Arc<Shared<V>>,
}

impl<V: Object> Writer<V> {
    fn new(shared: Arc<Shared<V>>) -> Self {
        // What an earlier run published: subscribers learn the difference.
        let published = shared.published.load().objects().cloned().collect();
        Self {
            store: Store::of(published),
            pending: Vec::new(),
            shared,
        }
    }

    fn apply(&mut self, object: V) {
        if let Some(known) = self.store.get(&object)
            && !is_newer(&object, known)
        {
            return;
        }
        let current = Arc::new(object);
        let previous = self.store.insert(Arc::clone(&current));
        self.note(previous, current);
    }

    /// Notes that an object was added or changed. One with another uid under the
    /// same name was deleted and created, of which the deletion was missed.
    fn note(&mut self, mut previous: Option<Arc<V>>, current: Arc<V>) {
        if let Some(gone) = previous.take_if(|known| !current.has_uid_of(known)) {
            self.pending.push(Change {
                previous: Some(gone),
                current: None,
            });
        }
        self.pending.push(Change {
            previous,
            current: Some(current),
        });
    }

    fn delete(&mut self, object: &V) {
        if let Some(known) = self.store.get(object)
            && known.has_uid_of(object)
            && let (Some(deleted), Some(known)) = (object.revision(), known.revision())
            && deleted < known
        {
            return;
        }
        if let Some(previous) = self.store.remove(object) {
            self.pending.push(Change {
                previous: Some(previous),
                current: None,
            });
        }
    }

    /// Everything that there is: what is not in it is gone.
    fn replace(&mut self, objects: Vec<V>) {
        let mut next: Vec<Arc<V>> = Vec::with_capacity(objects.len());
        for object in objects {
            // what did not change stays the same allocation
            match self.store.get(&object) {
                Some(known) if is_same(&object, known) => next.push(Arc::clone(known)),
                _ => next.push(Arc::new(object)),
            }
        }
        let next = Store::of(next);
        for current in next.iter() {
            let previous = self.store.get(current);
            if !previous.is_some_and(|previous| Arc::ptr_eq(previous, current)) {
                let previous = previous.cloned();
                self.note(previous, Arc::clone(current));
            }
        }
        for previous in self.store.iter() {
            if next.get(previous).is_none() {
                self.pending.push(Change {
                    previous: Some(Arc::clone(previous)),
                    current: None,
                });
            }
        }
        self.store = next;
        self.publish();
        self.shared.synced.send_replace(true);
    }

    /// Makes what was written visible, then tells of it.
    fn publish(&mut self) {
        if self.pending.is_empty() {
            return;
        }
        let mut subscribers = self
            .shared
            .subscribers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.store.publish(&self.shared.published);
        let Some((last, others)) = subscribers.split_last() else {
            self.pending.clear();
            return;
        };
        let mut closed = false;
        for change in self.pending.drain(..) {
            for subscriber in others {
                closed |= subscriber.send(change.clone()).is_err();
            }
            closed |= last.send(change).is_err();
        }
        if closed {
            subscribers.retain(|subscriber| !subscriber.is_closed());
        }
    }
}

fn is_same<V: Object>(new: &V, known: &V) -> bool {
    new.has_uid_of(known)
        && new.resource_version() == known.resource_version()
        && !new.resource_version().is_empty()
}

/// Whether an event is not one of the past. Revisions are comparable within
/// the life of an object (KEP-5504); where they are no numbers, the order of
/// arrival counts.
fn is_newer<V: Object>(new: &V, known: &V) -> bool {
    if !new.has_uid_of(known) {
        return true;
    }
    match (new.revision(), known.revision()) {
        (Some(new), Some(known)) => new > known,
        _ => !is_same(new, known),
    }
}

// === impl Follower ===

/// How long a watch may live: the server is asked to end it after this long,
/// plus up to as much again, so that the watches of a cluster do not all end
/// together.
const WATCH_SECONDS: u64 = 240;

/// How much longer than the server was asked to a watch is waited on.
const WATCH_SLACK: Duration = Duration::from_secs(20);

/// How long to wait for the head of an answer.
const HEAD_WITHIN: Duration = Duration::from_secs(30);

/// How long the initial events may pause before a list is tried instead.
const INITIAL_PAUSE: Duration = Duration::from_secs(20);

/// A watch that lives this long proves that the server works.
const HEALTHY_AFTER: Duration = Duration::from_secs(5);

struct Follower<V> {
    client: Client,
    resource: Resource,
    selection: Selection,
    writer: Writer<V>,
    /// Where to watch from; none: everything must be read.
    revision: Option<CompactString>,
    /// Whether the server may know `sendInitialEvents`.
    streaming: bool,
    backoff: Backoff,
}

/// Why a watch or a list ended.
#[derive(Debug)]
enum End {
    /// The server closed it in good order.
    Closed,
    /// The revision is gone.
    Expired,
    /// The server cannot stream initial events.
    NoStreaming,
    /// Anything else.
    Failed(Error),
    /// The bytes make no sense, or none came in time.
    Broken(&'static str),
}

impl End {
    /// The end by an answer of the server.
    fn of(error: Error) -> Self {
        match error {
            Error::Expired(_) => Self::Expired,
            // The revision was lost in a restore of the server's store.
            error
                if error
                    .status()
                    .is_some_and(Status::is_too_large_resource_version) =>
            {
                Self::Expired
            }
            error => Self::Failed(error),
        }
    }
}

impl<V: Object> Follower<V> {
    async fn run(mut self) {
        loop {
            let began = Instant::now();
            let end = match (&self.revision, self.streaming) {
                (None, false) => self.list().await,
                _ => self.watch().await,
            };
            if began.elapsed() >= HEALTHY_AFTER {
                self.backoff.reset();
            }
            let Some(end) = end else { continue };
            let resource = &self.resource;
            match end {
                End::Closed => {
                    // the normal end; a server that closes at once is not normal
                    if began.elapsed() >= HEALTHY_AFTER {
                        continue;
                    }
                    tracing::debug!(%resource, "watch was closed early");
                }
                End::Expired => {
                    tracing::info!(%resource, revision = ?self.revision, "revision is gone, reading everything");
                    self.revision = None;
                }
                End::NoStreaming => {
                    tracing::debug!(%resource, "no initial events from this server, listing");
                    self.streaming = false;
                    continue;
                }
                End::Failed(error) => {
                    tracing::warn!(%resource, error = error.chain(), "cannot follow, trying again");
                }
                End::Broken(why) => {
                    tracing::warn!(%resource, why, "watch broke, resuming");
                }
            }
            tokio::time::sleep(self.backoff.next()).await;
        }
    }

    fn base(&self) -> String {
        let namespace = self.selection.namespace.as_deref().unwrap_or("");
        path(&self.resource, namespace, "", "")
    }

    /// Opens a stream; the body of a success.
    async fn open(&self, path: &str, list: bool) -> Result<RequestBody, End> {
        let accept = if list {
            self.selection.accept_list()
        } else {
            self.selection.accept_watch()
        };
        let response = self
            .client
            .send(&Method::GET, path, "", accept, Bytes::new());
        let response = tokio::time::timeout(HEAD_WITHIN, response)
            .await
            .map_err(|_| {
                End::Failed(Error::NoAnswer {
                    request: format!("GET {path}"),
                    after: HEAD_WITHIN,
                })
            })?
            .map_err(End::Failed)?;
        let (head, body) = response.into_parts();
        if head.status == StatusCode::OK {
            return Ok(body);
        }
        let body = tokio::time::timeout(HEAD_WITHIN, body.collect()).await;
        let text = match body {
            Ok(Ok(text)) => text.to_bytes(),
            Ok(Err(_)) | Err(_) => Bytes::new(),
        };
        Err(End::of(Error::from_status(read_status(head.status, &text))))
    }

    /// Reads everything in pages.
    async fn list(&mut self) -> Option<End> {
        let base = self.base();
        let mut objects = Vec::new();
        let mut token = String::new();
        loop {
            let mut query = Query::new();
            query.selection(&self.selection).pair("limit", "500");
            if !token.is_empty() {
                query.pair("continue", &token);
            }
            let path = query.onto(&base);
            let body = match self.open(&path, true).await {
                Ok(body) => body,
                Err(end) => return Some(end),
            };
            let bytes = match tokio::time::timeout(HEAD_WITHIN, body.collect()).await {
                Ok(Ok(bytes)) => bytes.to_bytes(),
                Ok(Err(error)) => return Some(End::Failed(Error::Body(error))),
                Err(_) => return Some(End::Broken("the list stopped coming")),
            };
            let page = match self.read_page(&bytes) {
                Ok(page) => page,
                Err(source) => {
                    let request = format!("GET {path}");
                    return Some(End::Failed(Error::Decode { request, source }));
                }
            };
            objects.extend(page.items);
            token = page.metadata.continue_token;
            if token.is_empty() {
                self.everything(objects, page.metadata.resource_version);
                return None;
            }
        }
    }

    /// A page of a list; when one object is not readable, without it.
    fn read_page(&self, bytes: &[u8]) -> Result<Page<V>, serde_json::Error> {
        let error = match serde_json::from_slice::<Page<V>>(bytes) {
            Ok(page) => return Ok(page),
            Err(error) => error,
        };
        let raw: Page<Box<serde_json::value::RawValue>> = serde_json::from_slice(bytes)?;
        tracing::error!(resource = %self.resource, %error, "an object of the list is not readable, leaving it out");
        let items = raw
            .items
            .iter()
            .filter_map(|item| {
                let object = serde_json::from_str(item.get()).ok();
                if object.is_none() {
                    self.count().unreadable.fetch_add(1, Ordering::Relaxed);
                }
                object
            })
            .collect();
        Ok(Page {
            metadata: raw.metadata,
            items,
        })
    }

    fn everything(&mut self, objects: Vec<V>, revision: CompactString) {
        tracing::debug!(resource = %self.resource, objects = objects.len(), %revision, "read everything");
        self.count().relists.fetch_add(1, Ordering::Relaxed);
        self.writer.replace(objects);
        // without a revision there is nothing to resume from
        self.revision = (!revision.is_empty()).then_some(revision);
    }

    /// Watches from the known revision, or from the beginning with initial
    /// events. Ends when the watch does.
    async fn watch(&mut self) -> Option<End> {
        let seconds = rand::random_range(WATCH_SECONDS..=2 * WATCH_SECONDS);
        let mut query = Query::new();
        query
            .selection(&self.selection)
            .pair("watch", "true")
            .pair("allowWatchBookmarks", "true")
            .pair("timeoutSeconds", &seconds.to_string());
        // all that existed when the watch began, until it is complete
        let mut initial = match &self.revision {
            Some(revision) => {
                query.pair("resourceVersion", revision);
                None
            }
            None => {
                query
                    .pair("sendInitialEvents", "true")
                    .pair("resourceVersionMatch", "NotOlderThan");
                Some(Vec::new())
            }
        };
        let deadline = tokio::time::Instant::now() + Duration::from_secs(seconds) + WATCH_SLACK;
        let mut body = match self.open(&query.onto(&self.base()), false).await {
            Ok(body) => body,
            Err(End::Failed(Error::BadRequest(_) | Error::Invalid(_))) if initial.is_some() => {
                return Some(End::NoStreaming);
            }
            Err(end) => return Some(end),
        };
        if initial.is_none() {
            self.count().watches.fetch_add(1, Ordering::Relaxed);
        }
        let mut lines = Lines::default();
        // One timer for all events, which each would have to enter and leave otherwise.
        let mut patience = std::pin::pin!(tokio::time::sleep_until(deadline));
        loop {
            let until = match initial {
                Some(_) => deadline.min(tokio::time::Instant::now() + INITIAL_PAUSE),
                None => deadline,
            };
            if patience.deadline() != until {
                patience.as_mut().reset(until);
            }
            let frame = tokio::select! {
                biased;
                frame = body.frame() => frame,
                () = &mut patience => {
                    return Some(if initial.is_some() {
                        End::NoStreaming
                    } else {
                        End::Broken("the server did not end it in time")
                    });
                }
            };
            let frame = match frame {
                Some(Ok(frame)) => frame,
                Some(Err(error)) => return Some(End::Failed(Error::Body(error))),
                None => return Some(End::Closed),
            };
            let Ok(chunk) = frame.into_data() else {
                continue;
            };
            let received = Instant::now();
            let mut end = None;
            let fed = lines.feed(&chunk, |line| {
                if end.is_none() {
                    end = self.line(line, &mut initial);
                }
            });
            if !self.writer.pending.is_empty() {
                self.writer.publish();
                self.count().batch(received);
            }
            if end.is_some() {
                return end;
            }
            if fed.is_err() {
                return Some(End::Broken("a line without end"));
            }
        }
    }

    /// Takes in one line of a watch.
    fn line(&mut self, line: &[u8], initial: &mut Option<Vec<V>>) -> Option<End> {
        let frame = match Frame::<V>::parse(line) {
            Ok(frame) => frame,
            Err(error) => return self.unreadable(line, &error),
        };
        match (frame, initial.as_mut()) {
            (Frame::Applied(object), Some(initial)) => initial.push(object),
            (Frame::Applied(object), None) => {
                self.count().events.fetch_add(1, Ordering::Relaxed);
                self.seen(object.resource_version());
                self.writer.apply(object);
            }
            (Frame::Deleted(object), None) => {
                self.count().events.fetch_add(1, Ordering::Relaxed);
                self.seen(object.resource_version());
                self.writer.delete(&object);
            }
            // changes may be mixed in with the initial events
            (Frame::Deleted(object), Some(initial)) => {
                initial.retain(|known| {
                    known.name() != object.name() || known.namespace() != object.namespace()
                });
            }
            (Frame::Bookmark(bookmark), _) => {
                if let Some(objects) = initial.take_if(|_| bookmark.ends_initial_events()) {
                    self.everything(objects, bookmark.resource_version().clone());
                } else if initial.is_none() {
                    if self.is_before_known(bookmark.resource_version()) {
                        return Some(End::Expired);
                    }
                    self.seen(bookmark.resource_version());
                }
            }
            (Frame::Error(status), _) => {
                return Some(End::of(Error::from_status(status)));
            }
            (Frame::Unknown, _) => {}
        }
        None
    }

    /// An object that is no `V`: reading it again would not help, so it is
    /// left out, and the revision moves on.
    fn unreadable(&mut self, line: &[u8], error: &serde_json::Error) -> Option<End> {
        let Ok(frame) = Frame::<Metadata>::parse(line) else {
            return Some(End::Broken("a line that is no watch event"));
        };
        self.count().unreadable.fetch_add(1, Ordering::Relaxed);
        if let Frame::Applied(object) | Frame::Deleted(object) = frame {
            let meta = &object.metadata;
            tracing::error!(
                resource = %self.resource, namespace = %meta.namespace, name = %meta.name, %error,
                "object is not readable, leaving it out"
            );
            self.seen(&meta.resource_version);
        }
        None
    }

    /// Whether a revision precedes the one up to which everything is known: the server's
    /// store was restored from an older copy.
    fn is_before_known(&self, revision: &str) -> bool {
        let number = |revision: &str| revision.parse::<u64>().ok();
        let known = self.revision.as_deref().and_then(number);
        match (number(revision), known) {
            (Some(revision), Some(known)) => revision < known,
            _ => false,
        }
    }

    /// The watch may resume after this revision.
    fn seen(&mut self, revision: &str) {
        if !revision.is_empty() && self.revision.is_some() {
            self.revision = Some(revision.into());
        }
    }

    fn count(&self) -> &Counters {
        &self.writer.shared.counters
    }
}

// === impl Counters ===

#[derive(Debug, Default)]
struct Counters {
    events: AtomicU64,
    relists: AtomicU64,
    watches: AtomicU64,
    unreadable: AtomicU64,
    latency_nanos: AtomicU64,
    batches: AtomicU64,
}

impl Counters {
    fn batch(&self, received: Instant) {
        let nanos = u64::try_from(received.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.latency_nanos.fetch_add(nanos, Ordering::Relaxed);
        self.batches.fetch_add(1, Ordering::Relaxed);
    }

    fn stats(&self) -> Stats {
        Stats {
            events: self.events.load(Ordering::Relaxed),
            relists: self.relists.load(Ordering::Relaxed),
            watches: self.watches.load(Ordering::Relaxed),
            unreadable: self.unreadable.load(Ordering::Relaxed),
            latency_nanos: self.latency_nanos.load(Ordering::Relaxed),
            batches: self.batches.load(Ordering::Relaxed),
        }
    }
}

// === impl Backoff ===

/// Waits twice as long each time, with jitter.
#[derive(Debug, Default)]
struct Backoff {
    failures: u32,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(50);
    const LONGEST: Duration = Duration::from_secs(15);

    fn next(&mut self) -> Duration {
        let full = Self::FIRST
            .saturating_mul(1 << self.failures.min(16))
            .min(Self::LONGEST);
        self.failures = self.failures.saturating_add(1);
        // between half and all of it
        full.mul_f64(rand::random_range(0.5..=1.0))
    }

    const fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
#[path = "reflector_tests.rs"]
mod tests;
