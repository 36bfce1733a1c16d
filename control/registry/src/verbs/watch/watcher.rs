//! What one watch says next.
//!
//! A watcher holds its selection and the sequence number it wants next. Frames
//! are shared: whoever watches a resource as it is stored sends the very bytes
//! that the cache holds, and of several events the very bytes that another watcher
//! put together.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use control_store::Revision;
use control_types::status::Status;
use control_types::value;
use control_types::value::Value;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::context::WatchPlace;
use crate::counts::WatchEventSizes;
use crate::registry::Registry;
use crate::selection::Selection;
use crate::served_resource::ServedResource;
use control_request::negotiate::{Format, Media, Shape};
use control_strategy::{protobuf, table};
use control_watch_cache::{
    CacheEntry, Change, Counts, Event, FrameBatch, FrameBatchKey, FrameForm, HistoryReplay,
    Position, Read, ReplayStep, ResourceCache, State, Waiter, frame,
};

/// How often a client that takes them gets a bookmark.
const BOOKMARKS: Duration = Duration::from_secs(60);
/// How long before its end a watch sends a last bookmark.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// How much is put together at once where others are sent the very same.
const GATHER: usize = 64 * 1024;
/// How much is put together for one watcher alone, which keeps it in memory until its
/// client reads: a frame of the connection.
const ALONE: usize = 16 * 1024;

/// How long a store that did not answer is left alone.
const STORE_RETRY: Duration = Duration::from_secs(1);

/// What a watch begins with.
pub(super) struct Begin {
    pub registry: Arc<Registry>,
    /// The end of the server, or of what its network's clients are served.
    pub ending: CancellationToken,
    pub served: Arc<ServedResource>,
    pub cache: Arc<ResourceCache>,
    /// When the request came.
    pub began: std::time::Instant,
    /// What it is about, for metrics: a namespace, all, one.
    pub scope: &'static str,
    /// Its place among requests until it has begun, and among watches until it ends.
    pub place: Option<Box<dyn WatchPlace>>,
    /// The objects to begin with.
    pub initial: Option<Arc<State>>,
    /// The revision of the bookmark that ends the beginning.
    pub initial_bookmark: Option<Revision>,
    /// Whether the client takes bookmarks.
    pub bookmarks: bool,
    pub selection: Selection,
    pub format: Format,
    /// The event wanted next.
    pub next: u64,
    /// Events up to this revision are not sent.
    pub floor: Revision,
    /// Everything up to this revision was sent.
    pub delivered: Revision,
    pub deadline: Instant,
    /// Events that the ring has forgotten, before those that it has.
    pub past: Option<HistoryReplay>,
    /// A revision beyond what the caches have: events begin when they have reached it.
    pub ahead: Option<Revision>,
}

/// What a watcher does next.
pub(super) enum Step {
    /// It sends these bytes.
    Say(Bytes),
    /// It needs something that has to be waited for: [`Watcher::fetch`].
    Fetch,
    /// Nothing any more.
    End,
}

/// One watch.
pub(super) struct Watcher {
    begin: Begin,
    /// How far the objects to begin with are sent.
    position: Position,
    /// Counts what is sent.
    sent: Arc<WatchEventSizes>,
    /// Whether others that want everything of the namespace are sent the same.
    shares: bool,
    waiter: Waiter,
    /// Goes off at the deadline or at the next bookmark. It is kept from event to
    /// event: to set a timer anew costs more than most events.
    timer: Pin<Box<Sleep>>,
    next_bookmark: Instant,
    /// The end of a custom resource.
    gone: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    columns_sent: bool,
    refused: Option<Status>,
    ended: bool,
    /// What a webhook had to convert for the last event: the object, and what it was
    /// before where that decides.
    converted: Vec<Arc<CacheEntry>>,
}

fn next_bookmark(now: Instant, deadline: Instant) -> Instant {
    let regular = now + BOOKMARKS;
    match deadline.checked_sub(LAST_BOOKMARK) {
        Some(last) if now < last && last < regular => last,
        _ => regular,
    }
}

/// Whether two objects are one state of the same.
fn is_state(one: &CacheEntry, other: &CacheEntry) -> bool {
    use control_watch_cache::TreeEntry as _;
    one.revision() == other.revision() && one.key() == other.key()
}

impl Watcher {
    /// A watch that begins. In a box, since it goes from hand to hand.
    pub fn new(begin: Begin) -> Box<Self> {
        let resource = &begin.served.resource;
        let sent = begin
            .registry
            .counts
            .watch(resource.group, resource.version, resource.plural);
        let in_protobuf = begin.format.media == Media::Protobuf;
        let shares = begin.format.shape == Shape::Plain
            && begin.selection.is_everything()
            && if begin.served.projection.is_some() {
                !in_protobuf
            } else {
                begin.served.is_stored_form() && begin.served.converter().is_none()
            };
        let next_bookmark = next_bookmark(Instant::now(), begin.deadline);
        let until = if begin.bookmarks {
            next_bookmark.min(begin.deadline)
        } else {
            begin.deadline
        };
        let gone = begin.served.kind.crd_versions();
        Box::new(Self {
            position: Position::default(),
            sent,
            shares,
            waiter: begin.cache.waiter(),
            timer: Box::pin(tokio::time::sleep_until(until)),
            next_bookmark,
            gone: gone.map(|family| Box::pin(family.gone.clone().cancelled_owned())),
            columns_sent: false,
            refused: None,
            ended: false,
            converted: Vec::new(),
            begin,
        })
    }

    /// What comes next.
    pub fn poll_step(&mut self, context: &mut Context<'_>) -> Poll<Step> {
        loop {
            if self.ended {
                return Poll::Ready(Step::End);
            }
            if let Some(status) = self.refused.take() {
                self.ended = true;
                return Poll::Ready(Step::Say(self.line("ERROR", &status.to_value())));
            }
            if self.begin.initial.is_some() {
                if let Some(bytes) = self.initial_chunk() {
                    return Poll::Ready(Step::Say(bytes));
                }
                continue;
            }
            if let Some(place) = &mut self.begin.place {
                place.begun();
            }
            if let Some(revision) = self.begin.initial_bookmark.take() {
                let counts = &self.begin.registry.counts;
                let took = self.begin.began.elapsed();
                counts.begun(self.begin.served.resource, self.begin.scope, took);
                return Poll::Ready(Step::Say(self.bookmark(revision, true)));
            }
            if self.begin.past.is_some() || self.begin.ahead.is_some() {
                return Poll::Ready(Step::Fetch);
            }
            if let Some(step) = self.follow() {
                return Poll::Ready(step);
            }
            if self.ended || self.refused.is_some() {
                continue;
            }
            // What comes between the look above and this wait is seen below.
            self.waiter.wait(context.waker());
            if self.begin.cache.head() > self.begin.next {
                continue;
            }
            if self.is_over(context) {
                return Poll::Ready(Step::End);
            }
            if self.timer.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
            if let Some(step) = self.timed() {
                return Poll::Ready(step);
            }
        }
    }

    /// What has happened.
    fn follow(&mut self) -> Option<Step> {
        if let Some(bytes) = self.events() {
            return Some(Step::Say(bytes));
        }
        self.lacks_next().then_some(Step::Fetch)
    }

    /// Whether the server or the resource ends.
    fn is_over(&mut self, context: &mut Context<'_>) -> bool {
        let gone = self.gone.as_mut();
        self.begin.ending.is_cancelled()
            || gone.is_some_and(|gone| gone.as_mut().poll(context).is_ready())
    }

    /// What the timer went off for.
    fn timed(&mut self) -> Option<Step> {
        let now = Instant::now();
        if now >= self.begin.deadline {
            return Some(Step::End);
        }
        let due = self.begin.bookmarks && now >= self.next_bookmark;
        if due {
            // Read before the ring: all events up to it are in the ring then.
            let applied = self.begin.registry.caches.applied();
            if let Some(step) = self.follow() {
                return Some(step);
            }
            self.begin.delivered = self.begin.delivered.max(applied);
            self.next_bookmark = next_bookmark(now, self.begin.deadline);
        }
        let until = if self.begin.bookmarks {
            self.next_bookmark.min(self.begin.deadline)
        } else {
            self.begin.deadline
        };
        self.timer.as_mut().reset(until);
        due.then(|| Step::Say(self.bookmark(self.begin.delivered, false)))
    }

    /// Fetches what the next step needs: an event of the store's history, or the next
    /// event's object as a webhook converts it. Answers what is to be sent, if it is
    /// known by that.
    pub async fn fetch(&mut self) -> Option<Bytes> {
        if let Some(revision) = self.begin.ahead.take() {
            self.wait_for(revision).await;
            return None;
        }
        if self.begin.past.is_some() {
            return self.past_event().await;
        }
        if let Read::Ready(event) = self.begin.cache.read(self.begin.next) {
            self.convert(&event).await;
        }
        None
    }

    /// Waits until the caches have reached the revision that the client named. A revision
    /// that the store does not have, such as one from before a restore, ends the watch as
    /// one that is too old does: clients list again.
    async fn wait_for(&mut self, revision: Revision) {
        let registry = &self.begin.registry;
        let reached = async {
            loop {
                let Err(behind) = registry.caches.reach(revision).await else {
                    return Ok(());
                };
                // The caches lag if the store has the revision.
                match registry.store().latest().await {
                    Ok(latest) if latest >= revision => {}
                    Ok(_) => return Err(behind),
                    Err(error) => {
                        tracing::warn!(%error, "cannot read the revision of the store");
                        tokio::time::sleep(STORE_RETRY).await;
                    }
                }
            }
        };
        let reached = tokio::select! {
            reached = reached => reached,
            () = self.begin.ending.cancelled() => {
                self.ended = true;
                return;
            }
            () = tokio::time::sleep_until(self.begin.deadline) => {
                self.ended = true;
                return;
            }
        };
        if let Err(behind) = reached {
            self.refused = Some(Status::future_resource_version(
                behind.wanted,
                behind.applied,
            ));
        }
    }

    /// The next event out of the store's history, if it concerns this watcher;
    /// takes leave of the history where the ring begins, or says why it ends.
    async fn past_event(&mut self) -> Option<Bytes> {
        let past = self.begin.past.as_mut()?;
        let next = tokio::select! {
            next = past.next() => next,
            () = self.begin.ending.cancelled() => Err(control_store::Error::Closed),
            () = tokio::time::sleep_until(self.begin.deadline) => Err(control_store::Error::Closed),
        };
        match next {
            Ok(ReplayStep::Event(event)) => {
                self.begin.delivered = self.begin.delivered.max(event.object.revision());
                self.convert(&event).await;
                let bytes = self.event(&event)?;
                self.sent.count(&[bytes.len()]);
                return Some(bytes);
            }
            Ok(ReplayStep::Ring(next)) => {
                // The store may be ahead of the ring, which then still gets
                // what was sent from here.
                self.begin.floor = self.begin.floor.max(past.revision());
                self.begin.next = next;
            }
            Err(control_store::Error::Closed) => self.ended = true,
            Err(control_store::Error::Compacted {
                requested,
                compacted,
            }) => self.refused = Some(Status::too_old_resource_version(requested, compacted)),
            Err(error) => self.refused = Some(crate::store_error::store_error(&error)),
        }
        self.begin.past = None;
        None
    }

    /// Some of the objects to begin with; `None` when there are no more.
    fn initial_chunk(&mut self) -> Option<Bytes> {
        let state = self.begin.initial.take()?;
        if self.position == Position::default() {
            let selection = &self.begin.selection;
            self.position = state
                .objects
                .seek(selection.only().unwrap_or_else(|| selection.prefix()));
        }
        let mut out = Vec::new();
        let mut sizes = Vec::new();
        let mut more = false;
        while let Some((object, next)) = state.objects.at(self.position) {
            if !control_watch_cache::TreeEntry::key(&**object)
                .starts_with(self.begin.selection.prefix())
            {
                break;
            }
            if out.len() >= ALONE {
                more = true;
                break;
            }
            self.position = next;
            if self.begin.selection.matches(object) {
                let frame = self.frame(object, Change::Added, false);
                sizes.push(frame.len());
                out.extend_from_slice(&frame);
            }
        }
        self.sent.count(&sizes);
        Counts::add(&self.begin.cache.counts().initial, sizes.len());
        if more {
            self.begin.initial = Some(state);
        }
        (!out.is_empty()).then(|| out.into())
    }

    /// What has happened and was not sent yet; `None` when there is nothing.
    fn events(&mut self) -> Option<Bytes> {
        let head = self.begin.cache.head();
        if head <= self.begin.next {
            return None;
        }
        let wanted = (self.shares && head > self.begin.next + 1).then(|| FrameBatchKey {
            from: self.begin.next,
            prefix: self.begin.selection.prefix().into(),
            form: match (&self.begin.served.projection, self.begin.format.media) {
                (Some(_), _) => FrameForm::Projection,
                (None, Media::Protobuf) => FrameForm::Protobuf,
                (None, _) => FrameForm::Json,
            },
        });
        let Some(wanted) = wanted else {
            return self.gather(None);
        };
        let run = self
            .begin
            .cache
            .frame_batches()
            .find(&wanted)
            .filter(|run| {
                run.first > self.begin.floor && (run.to == head || run.bytes.len() >= GATHER)
            });
        let Some(run) = run else {
            return self.gather(Some(wanted));
        };
        self.begin.next = run.to;
        self.begin.delivered = self.begin.delivered.max(run.last);
        self.sent.count(&run.sizes);
        Some(run.bytes.clone())
    }

    /// Puts together what has happened; `wanted` tells that others want the same.
    fn gather(&mut self, mut wanted: Option<FrameBatchKey>) -> Option<Bytes> {
        let cache = Arc::clone(&self.begin.cache);
        let enough = if wanted.is_some() { GATHER } else { ALONE };
        let mut first: Option<(Bytes, Revision)> = None;
        let mut gathered: Vec<u8> = Vec::new();
        let mut sizes = Vec::new();
        loop {
            match cache.read(self.begin.next) {
                Read::Ready(event) => {
                    if self.lacks(&event) {
                        break;
                    }
                    self.begin.next += 1;
                    let revision = event.object.revision();
                    if revision <= self.begin.floor {
                        // Others may have begun before that.
                        wanted = None;
                    }
                    self.begin.delivered = self.begin.delivered.max(revision);
                    let Some(bytes) = self.event(&event) else {
                        continue;
                    };
                    // One event goes as it lies in the cache; several are
                    // copied together, which costs less than sending each.
                    let Some((one, _)) = &first else {
                        first = Some((bytes, revision));
                        continue;
                    };
                    if gathered.is_empty() {
                        sizes.push(one.len());
                        gathered.extend_from_slice(one);
                    }
                    sizes.push(bytes.len());
                    gathered.extend_from_slice(&bytes);
                    if gathered.len() >= enough {
                        break;
                    }
                }
                Read::Pending => break,
                Read::Lost => {
                    Counts::add(&cache.counts().terminated, 1);
                    let status = Status::too_old_resource_version(
                        self.begin.delivered,
                        cache.state().revision,
                    );
                    self.refused = Some(status);
                    break;
                }
            }
        }
        let (one, revision) = first?;
        if gathered.is_empty() {
            self.sent.count(&[one.len()]);
            return Some(one);
        }
        self.sent.count(&sizes);
        let bytes = Bytes::from(gathered);
        if let Some(wanted) = wanted {
            cache.frame_batches().keep(FrameBatch {
                wanted,
                to: self.begin.next,
                first: revision,
                last: self.begin.delivered,
                bytes: bytes.clone(),
                sizes,
            });
        }
        Some(bytes)
    }

    /// Whether the next event is to be converted before it can be sent.
    fn lacks_next(&self) -> bool {
        self.begin.served.converter().is_some()
            && matches!(self.begin.cache.read(self.begin.next), Read::Ready(event) if self.lacks(&event))
    }

    async fn convert(&mut self, event: &Event) {
        if !self.lacks(event) {
            return;
        }
        let needed: Vec<_> = self.needed(event).cloned().collect();
        self.converted.clear();
        for object in needed {
            match self
                .begin
                .served
                .in_version(&self.begin.registry, object)
                .await
            {
                Ok(converted) => self.converted.push(converted),
                Err(status) => self.refused = Some(status),
            }
        }
    }

    /// Whether an event is to be converted before it can be sent.
    fn lacks(&self, event: &Event) -> bool {
        self.begin.served.converter().is_some()
            && self.needed(event).any(|object| {
                self.begin.served.needs_conversion(object)
                    && !self.converted.iter().any(|known| is_state(known, object))
            })
    }

    /// The objects that must be in the version that is served before an event can be
    /// judged and sent.
    fn needed<'e>(&self, event: &'e Event) -> impl Iterator<Item = &'e Arc<CacheEntry>> {
        let selection = &self.begin.selection;
        let (object, previous) = if !selection.by_served_fields() {
            (self.shown(event), None)
        } else if event.object.revision() <= self.begin.floor {
            (None, None)
        } else {
            let stored = |object: &&Arc<CacheEntry>| selection.matches(object);
            let previous = event.previous.as_ref();
            (Some(&event.object).filter(stored), previous.filter(stored))
        };
        object.into_iter().chain(previous)
    }

    /// What a webhook made of an object, or the object where none has to.
    fn in_version<'o>(&'o self, object: &'o CacheEntry) -> Option<&'o CacheEntry> {
        if !self.begin.served.needs_conversion(object) {
            return Some(object);
        }
        let known = self.converted.iter().find(|known| is_state(known, object));
        known.map(|known| &**known)
    }

    /// Whether this watcher sees an object.
    fn selects(&self, object: &CacheEntry) -> bool {
        let selection = &self.begin.selection;
        selection.matches(object)
            && (!selection.by_served_fields()
                || self
                    .in_version(object)
                    .is_some_and(|object| selection.matches_served(&self.begin.served, object)))
    }

    /// The object that an event shows to this watcher, if any.
    fn shown<'e>(&self, event: &'e Event) -> Option<&'e Arc<CacheEntry>> {
        if event.object.revision() <= self.begin.floor {
            return None;
        }
        let previous = event.previous.as_ref();
        let was = previous.filter(|previous| self.begin.selection.matches(previous));
        match event.change {
            Change::Deleted => was.map(|_| &event.object),
            _ if self.begin.selection.matches(&event.object) => Some(&event.object),
            _ => was,
        }
    }

    /// What an event is for this watcher, if anything.
    fn event(&mut self, event: &Event) -> Option<Bytes> {
        if event.object.revision() <= self.begin.floor {
            return None;
        }
        let is = event.change != Change::Deleted && self.selects(&event.object);
        let was = event
            .previous
            .as_ref()
            .is_some_and(|previous| self.selects(previous));
        match (was, is) {
            (false, false) => None,
            (false, true) => Some(self.frame(&event.object, Change::Added, true)),
            (true, true) => Some(self.frame(&event.object, Change::Modified, true)),
            (true, false) if event.change == Change::Deleted => {
                Some(self.frame(&event.object, Change::Deleted, true))
            }
            (true, false) => {
                let previous = event.previous.as_ref()?;
                let previous = self.in_version(previous).unwrap_or(previous);
                let last = previous.at_revision(event.object.revision(), Change::Deleted);
                Some(self.frame(&last, Change::Deleted, true))
            }
        }
    }

    /// The frame of an event in the shape that this watcher wants.
    /// `shared` tells that others watch the same event now.
    fn frame(&mut self, object: &CacheEntry, change: Change, shared: bool) -> Bytes {
        let in_protobuf = self.begin.format.media == Media::Protobuf;
        let converted;
        let object = if self.begin.served.needs_conversion(object) {
            let known = self.converted.iter().find(|known| {
                control_watch_cache::TreeEntry::key(&***known)
                    == control_watch_cache::TreeEntry::key(object)
            });
            let known = self.in_version(object).or(known.map(|known| &**known));
            let Some(known) = known else {
                return Bytes::new();
            };
            converted = known.at_revision(object.revision(), change);
            &converted
        } else {
            object
        };
        if self.begin.format.shape == Shape::Plain && self.begin.served.is_form_of(object) {
            if !in_protobuf {
                return object.frame(change);
            }
            let make = || protobuf_frame(change.name(), object.json());
            return match &self.begin.served.cache {
                Some(cache) if shared => {
                    cache.shared_frame(object, change, FrameForm::Protobuf, make)
                }
                _ => make(),
            };
        }
        if let (Some(project), Shape::Plain, false) = (
            self.begin.served.projection,
            self.begin.format.shape,
            in_protobuf,
        ) {
            // An object that cannot be read is left out.
            let make = || {
                project(object).map_or_else(|_| Bytes::new(), |tree| frame(change, &tree.to_vec()))
            };
            return match &self.begin.served.cache {
                Some(cache) if shared => {
                    cache.shared_frame(object, change, FrameForm::Projection, make)
                }
                _ => make(),
            };
        }
        let Ok(tree) = self.begin.served.tree(object) else {
            return Bytes::new();
        };
        let shaped = match self.begin.format.shape {
            Shape::Plain => tree,
            Shape::Metadata => table::partial(tree, &self.begin.served.kind, self.begin.format),
            Shape::Table => {
                let columns = !std::mem::replace(&mut self.columns_sent, true);
                let metadata = value!({"resourceVersion": (object.revision().to_string())});
                let row = table::row(&self.begin.served.kind, tree, self.begin.format);
                table::table(
                    &self.begin.served.kind,
                    vec![row],
                    metadata,
                    columns,
                    self.begin.format,
                )
            }
        };
        if in_protobuf {
            return protobuf_frame(change.name(), &shaped.to_vec());
        }
        frame(change, &shaped.to_vec())
    }

    /// A frame around a tree.
    fn line(&self, event: &str, object: &Value) -> Bytes {
        if self.begin.format.media == Media::Protobuf {
            return protobuf_frame(event, &object.to_vec());
        }
        let mut out = value!({"type": (event), "object": (object)}).to_vec();
        out.push(b'\n');
        out.into()
    }

    /// A bookmark: an object with nothing but a resource version.
    fn bookmark(&mut self, revision: Revision, ends_beginning: bool) -> Bytes {
        let mut metadata = value!({"resourceVersion": (revision.to_string())});
        if ends_beginning {
            metadata.insert("annotations", value!({"k8s.io/initial-events-end": "true"}));
        }
        let object = value!({"kind": (self.begin.served.resource.kind), "apiVersion": (self.begin.served.api_version.as_str()), "metadata": (metadata)});
        let object = match self.begin.format.shape {
            Shape::Plain => object,
            Shape::Metadata => table::partial(object, &self.begin.served.kind, self.begin.format),
            Shape::Table => {
                // A row like any other, of an object that has no name.
                let columns = !std::mem::replace(&mut self.columns_sent, true);
                let metadata = value!({"resourceVersion": (revision.to_string())});
                let row = table::row(&self.begin.served.kind, object, self.begin.format);
                table::table(
                    &self.begin.served.kind,
                    vec![row],
                    metadata,
                    columns,
                    self.begin.format,
                )
            }
        };
        self.line("BOOKMARK", &object)
    }
}

/// A frame in protobuf. An object that has no form in it, which none of a served
/// kind is, is left out.
fn protobuf_frame(event: &str, json: &[u8]) -> Bytes {
    protobuf::frame(event, json).unwrap_or_else(|error| {
        tracing::error!(%error, "an event has no form in protobuf");
        Bytes::new()
    })
}
