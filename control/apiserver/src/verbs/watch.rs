//! WATCH: events out of the ring, one task-less stream per watcher.
//!
//! A watcher holds its selection and the sequence number it wants next. Frames
//! are shared: whoever watches a resource as it is stored sends the very bytes
//! that the cache holds.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use control_store::Revision;
use control_types::status::Status;
use control_types::value;
use control_types::value::Value;
use futures::stream;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, Sleep};
use tokio_util::sync::CancellationToken;

use crate::api::{Api, Served};
use crate::body::{Body, BoxError};
use crate::cache::{Cached, Change, Event, Next, Past, Position, Read, State, Tree, frame};
use crate::chain::Context;
use crate::fairness::Opening;
use crate::features::Feature;
use crate::negotiate::{Format, Media, STREAM_MEDIA_TYPES, Shape};
use crate::options::{ListOptions, parse_revision};
use crate::protobuf;
use crate::reply::Answer;
use crate::request_counts::Sent;
use crate::selection::Selection;
use crate::table;

/// How often a client that takes them gets a bookmark.
const BOOKMARKS: Duration = Duration::from_secs(60);
/// How long before its end a watch sends a last bookmark.
const LAST_BOOKMARK: Duration = Duration::from_secs(2);
/// How much is gathered into one frame of the connection.
const GATHER: usize = 64 * 1024;

/// Answers a watch.
///
/// # Errors
/// When options are malformed. A resource version that is too old is no error
/// of the request: it is told in the stream.
pub async fn watch(context: &Context, served: &Arc<Served>) -> Answer {
    let mut options = ListOptions::parse(context.query())?;
    options.default_watch();
    options.validate(true)?;
    if !context.api.config.chain.gates.enabled(Feature::WatchList) {
        options.refuse_initial_events()?;
    }
    let format = Format::of(&context.parts.headers, context.query())?;
    let media = format
        .media
        .stream_type()
        .ok_or_else(|| Status::not_acceptable(STREAM_MEDIA_TYPES))?;
    let info = &context.info;
    let selection = Selection::new(
        &served.kind,
        served.scope(&info.namespace),
        if info.name_in_path { &info.name } else { "" },
        &options,
    )?;
    let revision = parse_revision(&options.resource_version)?;
    let api = &context.api;
    let cache = Arc::clone(served.cache()?);
    // A client may say that it wants no beginning with all objects.
    let initial = options
        .send_initial_events
        .unwrap_or(revision.is_none_or(|revision| revision == 0));
    match revision {
        None => api.catch_up().await?,
        Some(0) => {}
        Some(revision) if initial => api.reach(revision).await?,
        Some(_) => {}
    }
    let applied = api.caches.applied();
    let wake = cache.wake();
    let state = cache.state();
    let snapshot_revision = applied.max(state.revision);
    let (next, floor, past) = match revision {
        Some(revision) if !initial && revision > 0 => match cache.first_after(revision) {
            Ok(next) => (next, revision, None),
            Err(_) => (0, revision, Some(api.caches.past(&cache, revision))),
        },
        _ => (state.next, state.revision, None),
    };
    let shortest = api.config.chain.min_request_timeout.as_secs().max(1);
    let seconds = options
        .timeout_seconds
        .unwrap_or_else(|| shortest + rand::random_range(0..shortest));
    let deadline = Instant::now() + Duration::from_secs(seconds.min(86_400));
    let state = if initial {
        converted(api, served, state, &selection).await?
    } else {
        state
    };
    // In a box, since a stream hands its state on with every item.
    let watcher = Box::new(Watcher {
        api: Arc::clone(api),
        ending: context.ending().clone(),
        served: Arc::clone(served),
        opening: context.take_opening(),
        sent: api.metrics.requests.watch(
            served.resource.group,
            served.resource.version,
            served.resource.plural,
        ),
        initial: initial.then(|| (state, Position::default())),
        initial_bookmark: (options.send_initial_events == Some(true)
            && options.allow_watch_bookmarks)
            .then_some(snapshot_revision),
        bookmarks: options.allow_watch_bookmarks,
        next_bookmark: next_bookmark(Instant::now(), deadline),
        timer: Box::pin(tokio::time::sleep_until(deadline)),
        selection,
        format,
        next,
        floor,
        delivered: snapshot_revision.max(floor),
        wake,
        deadline,
        columns_sent: false,
        past,
        refused: None,
        ended: false,
        converted: None,
    });
    let frames = stream::unfold(watcher, |mut watcher| async move {
        let bytes = watcher.next().await?;
        Some((Ok::<_, BoxError>(Frame::data(bytes)), watcher))
    });
    let mut response = Response::new(Body::new(StreamBody::new(frames)));
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(media));
    response
        .headers_mut()
        .insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    Ok(response)
}

fn next_bookmark(now: Instant, deadline: Instant) -> Instant {
    let regular = now + BOOKMARKS;
    match deadline.checked_sub(LAST_BOOKMARK) {
        Some(last) if now < last && last < regular => last,
        _ => regular,
    }
}

/// One watch.
struct Watcher {
    api: Arc<Api>,
    ending: CancellationToken,
    served: Arc<Served>,
    /// Its place among requests until it has begun, and among watches until it ends.
    opening: Option<Opening>,
    /// Counts what is sent.
    sent: Arc<Sent>,
    /// The objects to begin with, as far as not sent yet.
    initial: Option<(Arc<State>, Position)>,
    /// The revision of the bookmark that ends the beginning.
    initial_bookmark: Option<Revision>,
    bookmarks: bool,
    next_bookmark: Instant,
    selection: Selection,
    format: Format,
    /// The event wanted next.
    next: u64,
    /// Events up to this revision are not sent.
    floor: Revision,
    /// Everything up to this revision was sent.
    delivered: Revision,
    wake: Receiver<u64>,
    deadline: Instant,
    /// Goes off at the deadline or at the next bookmark. It is kept from event to
    /// event: to set a timer anew costs more than most events.
    timer: Pin<Box<Sleep>>,
    columns_sent: bool,
    /// Events that the ring has forgotten, before those that it has.
    past: Option<Past>,
    refused: Option<Status>,
    ended: bool,
    /// The last object that a webhook had to convert.
    converted: Option<Arc<Cached>>,
}

/// Whether two objects are one state of the same.
fn is_state(one: &Cached, other: &Cached) -> bool {
    use crate::cache::Keyed as _;
    one.revision() == other.revision() && one.key() == other.key()
}

/// All selected objects of a state in the version that is served, where that takes a
/// webhook.
async fn converted(
    api: &Api,
    served: &Served,
    state: Arc<State>,
    selection: &Selection,
) -> Result<Arc<State>, Status> {
    if served.converter().is_none() {
        return Ok(state);
    }
    let objects = state
        .objects
        .prefixed(selection.prefix())
        .filter(|object| selection.matches(object))
        .cloned()
        .collect();
    let objects = served.all_in_version(api, objects).await?;
    Ok(Arc::new(State {
        objects: Tree::from_sorted(objects),
        next: state.next,
        revision: state.revision,
    }))
}

impl Watcher {
    /// The next bytes; `None` ends the stream.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.ended {
                return None;
            }
            if let Some(status) = self.refused.take() {
                self.ended = true;
                return Some(self.line("ERROR", &status.to_value()));
            }
            if self.initial.is_some() {
                if let Some(bytes) = self.initial_chunk() {
                    return Some(bytes);
                }
                continue;
            }
            if let Some(opening) = &mut self.opening {
                opening.begun();
            }
            if let Some(revision) = self.initial_bookmark.take() {
                return Some(self.bookmark(revision, true));
            }
            if self.past.is_some() {
                match self.past_event().await {
                    Some(bytes) => return Some(bytes),
                    None => continue,
                }
            }
            // Read before the ring: all events up to it are in the ring then.
            let applied = self.api.caches.applied();
            self.wake.mark_unchanged();
            self.convert_next().await;
            if let Some(bytes) = self.events() {
                return Some(bytes);
            }
            if self.ended || self.refused.is_some() {
                continue;
            }
            self.delivered = self.delivered.max(applied);
            if !self.woken().await {
                return None;
            }
            if self.bookmarks && Instant::now() >= self.next_bookmark {
                self.next_bookmark = next_bookmark(Instant::now(), self.deadline);
                let applied = self.api.caches.applied();
                self.convert_next().await;
                if let Some(bytes) = self.events() {
                    return Some(bytes);
                }
                self.delivered = self.delivered.max(applied);
                return Some(self.bookmark(self.delivered, false));
            }
        }
    }

    /// Waits until there may be something to say; `false` when the watch is over.
    async fn woken(&mut self) -> bool {
        if self.ending.is_cancelled() {
            return false;
        }
        let until = if self.bookmarks {
            self.next_bookmark.min(self.deadline)
        } else {
            self.deadline
        };
        if self.timer.deadline() != until {
            self.timer.as_mut().reset(until);
        }
        let served = &self.served;
        let woken = tokio::select! {
            biased;
            // The caches wake their watchers for the server's end as well.
            changed = self.wake.changed() => changed.is_ok(),
            () = served.gone(), if served.kind.family().is_some() => false,
            () = &mut self.timer => true,
        };
        woken && !self.ending.is_cancelled() && Instant::now() < self.deadline
    }

    /// The next event out of the store's history, if it concerns this watcher;
    /// takes leave of the history where the ring begins, or says why it ends.
    async fn past_event(&mut self) -> Option<Bytes> {
        let past = self.past.as_mut()?;
        let next = tokio::select! {
            next = past.next() => next,
            () = self.ending.cancelled() => Err(control_store::Error::Closed),
            () = tokio::time::sleep_until(self.deadline) => Err(control_store::Error::Closed),
        };
        match next {
            Ok(Next::Event(event)) => {
                self.delivered = self.delivered.max(event.object.revision());
                self.convert(&event).await;
                return self.event(&event);
            }
            Ok(Next::Ring(next)) => {
                // The store may be ahead of the ring, which then still gets
                // what was sent from here.
                self.floor = self.floor.max(past.revision());
                self.next = next;
            }
            Err(control_store::Error::Closed) => self.ended = true,
            Err(control_store::Error::Compacted {
                requested,
                compacted,
            }) => self.refused = Some(Status::too_old_resource_version(requested, compacted)),
            Err(error) => self.refused = Some(crate::write::store_error(&error)),
        }
        self.past = None;
        None
    }

    /// Some of the objects to begin with; `None` when there are no more.
    fn initial_chunk(&mut self) -> Option<Bytes> {
        let (state, mut position) = self.initial.take()?;
        if position == Position::default() {
            position = state.objects.seek(
                self.selection
                    .only()
                    .unwrap_or_else(|| self.selection.prefix()),
            );
        }
        let mut out = Vec::new();
        while out.len() < GATHER {
            let Some((object, next)) = state.objects.at(position) else {
                return (!out.is_empty()).then(|| out.into());
            };
            if !crate::cache::Keyed::key(&**object).starts_with(self.selection.prefix()) {
                return (!out.is_empty()).then(|| out.into());
            }
            position = next;
            if self.selection.matches(object) {
                out.extend_from_slice(&self.frame(object, Change::Added, false));
            }
        }
        self.initial = Some((state, position));
        Some(out.into())
    }

    /// What has happened and was not sent yet; `None` when there is nothing.
    fn events(&mut self) -> Option<Bytes> {
        let cache = Arc::clone(self.served.cache.as_ref()?);
        let mut first: Option<Bytes> = None;
        let mut gathered: Vec<u8> = Vec::new();
        loop {
            match cache.read(self.next) {
                Read::Ready(event) => {
                    if self.lacks(&event) {
                        break;
                    }
                    self.next += 1;
                    self.delivered = self.delivered.max(event.object.revision());
                    let Some(bytes) = self.event(&event) else {
                        continue;
                    };
                    // One event goes as it lies in the cache; several are
                    // copied together, which costs less than sending each.
                    match (&first, gathered.is_empty()) {
                        (None, true) => first = Some(bytes),
                        (Some(one), true) => {
                            gathered.extend_from_slice(one);
                            gathered.extend_from_slice(&bytes);
                        }
                        _ => gathered.extend_from_slice(&bytes),
                    }
                    if gathered.len() >= GATHER {
                        break;
                    }
                }
                Read::Pending => break,
                Read::Lost => {
                    let status =
                        Status::too_old_resource_version(self.delivered, cache.state().revision);
                    self.refused = Some(status);
                    break;
                }
            }
        }
        if gathered.is_empty() {
            first
        } else {
            Some(gathered.into())
        }
    }

    /// Has a webhook convert the next event, where that is needed.
    async fn convert_next(&mut self) {
        if self.served.converter().is_none() {
            return;
        }
        let Some(cache) = &self.served.cache else {
            return;
        };
        if let Read::Ready(event) = cache.read(self.next) {
            self.convert(&event).await;
        }
    }

    async fn convert(&mut self, event: &Event) {
        if !self.lacks(event) {
            return;
        }
        let Some(object) = self.shown(event).map(Arc::clone) else {
            return;
        };
        match self.served.in_version(&self.api, object).await {
            Ok(converted) => self.converted = Some(converted),
            Err(status) => self.refused = Some(status),
        }
    }

    /// Whether an event is to be converted before it can be sent.
    fn lacks(&self, event: &Event) -> bool {
        self.served.converter().is_some()
            && self.shown(event).is_some_and(|object| {
                self.served.needs_conversion(object)
                    && !self
                        .converted
                        .as_ref()
                        .is_some_and(|known| is_state(known, object))
            })
    }

    /// The object that an event shows to this watcher, if any.
    fn shown<'e>(&self, event: &'e Event) -> Option<&'e Arc<Cached>> {
        if event.object.revision() <= self.floor {
            return None;
        }
        let previous = event.previous.as_ref();
        let was = previous.filter(|previous| self.selection.matches(previous));
        match event.change {
            Change::Deleted => was.map(|_| &event.object),
            _ if self.selection.matches(&event.object) => Some(&event.object),
            _ => was,
        }
    }

    /// What an event is for this watcher, if anything.
    fn event(&mut self, event: &Event) -> Option<Bytes> {
        if event.object.revision() <= self.floor {
            return None;
        }
        let is = event.change != Change::Deleted && self.selection.matches(&event.object);
        let was = event
            .previous
            .as_ref()
            .is_some_and(|previous| self.selection.matches(previous));
        match (was, is) {
            (false, false) => None,
            (false, true) => Some(self.frame(&event.object, Change::Added, true)),
            (true, true) => Some(self.frame(&event.object, Change::Modified, true)),
            (true, false) if event.change == Change::Deleted => {
                Some(self.frame(&event.object, Change::Deleted, true))
            }
            (true, false) => {
                let last = event
                    .previous
                    .as_ref()?
                    .at_revision(event.object.revision(), Change::Deleted);
                Some(self.frame(&last, Change::Deleted, true))
            }
        }
    }

    /// The frame of an event in the shape that this watcher wants.
    /// `shared` tells that others watch the same event now.
    fn frame(&mut self, object: &Cached, change: Change, shared: bool) -> Bytes {
        let bytes = self.shaped(object, change, shared);
        self.sent.count(bytes.len());
        bytes
    }

    fn shaped(&mut self, object: &Cached, change: Change, shared: bool) -> Bytes {
        let in_protobuf = self.format.media == Media::Protobuf;
        let converted;
        let object = if self.served.needs_conversion(object) {
            let known = self.converted.as_ref().filter(|known| {
                crate::cache::Keyed::key(&***known) == crate::cache::Keyed::key(object)
            });
            let Some(known) = known else {
                return Bytes::new();
            };
            converted = known.at_revision(object.revision(), change);
            &converted
        } else {
            object
        };
        if self.format.shape == Shape::Plain && self.served.is_form_of(object) {
            if !in_protobuf {
                return object.frame(change);
            }
            let make = || protobuf_frame(change.name(), object.json());
            return match &self.served.cache {
                Some(cache) if shared => cache.shared_frame(object, change, make),
                _ => make(),
            };
        }
        let Ok(tree) = self.served.tree(object) else {
            return Bytes::new();
        };
        let shaped = match self.format.shape {
            Shape::Plain => tree,
            Shape::Metadata => table::partial(tree, &self.served.kind, self.format),
            Shape::Table => {
                let columns = !std::mem::replace(&mut self.columns_sent, true);
                let metadata = value!({"resourceVersion": (object.revision().to_string())});
                let row = table::row(&self.served.kind, tree, self.format);
                table::table(&self.served.kind, vec![row], metadata, columns, self.format)
            }
        };
        if in_protobuf {
            return protobuf_frame(change.name(), &shaped.to_vec());
        }
        frame(change, &shaped.to_vec())
    }

    /// A frame around a tree.
    fn line(&self, event: &str, object: &Value) -> Bytes {
        if self.format.media == Media::Protobuf {
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
        let object = value!({"kind": (self.served.resource.kind), "apiVersion": (self.served.api_version.as_str()), "metadata": (metadata)});
        let object = match self.format.shape {
            Shape::Plain => object,
            Shape::Metadata => table::partial(object, &self.served.kind, self.format),
            Shape::Table => {
                // A row like any other, of an object that has no name.
                let columns = !std::mem::replace(&mut self.columns_sent, true);
                let metadata = value!({"resourceVersion": (revision.to_string())});
                let row = table::row(&self.served.kind, object, self.format);
                table::table(&self.served.kind, vec![row], metadata, columns, self.format)
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
