//! The service `etcdserverpb.Watch`: many watches on one stream of requests.
//!
//! A session is a state machine that the call's response drives: it handles requests,
//! batches of its watches, and the progress timer, whichever comes first. A batch of the
//! store ends with a whole revision, so that no response splits one.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use control_store::txn::Keys;
use control_store::{Batch, Error, Event, EventKind, Progress, Revision, Store as _};
use futures::future::{AbortHandle, ready};
use futures::stream::{self, BoxStream, SelectAll, Stream, StreamExt as _};
use tokio::time::{Interval, MissedTickBehavior};
use tonic::{Status, Streaming};

use crate::kv::{key_value, keys};
use crate::messages as pb;
use crate::service::{Service, signed, unsigned};

/// The interval of progress notifications for idle watches that request them.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);

/// In answers that belong to no watch.
const NO_WATCH: i64 = -1;

const FILTER_PUT: i32 = 0;
const FILTER_DELETE: i32 = 1;

/// A batch of the watch with this number; `None` at its end.
type Delivery = (i64, Option<Result<Batch, Error>>);

/// The watches of one stream of requests.
struct Session {
    service: Service,
    requests: Streaming<pb::WatchRequest>,
    answers: VecDeque<pb::WatchResponse>,
    open: BTreeMap<i64, OpenWatch>,
    deliveries: SelectAll<BoxStream<'static, Delivery>>,
    /// Revisions that every watch has to reach before the client is notified.
    awaited: VecDeque<Revision>,
    next_id: i64,
    timer: Interval,
}

struct OpenWatch {
    keys: Keys,
    with_previous: bool,
    without_puts: bool,
    without_deletions: bool,
    notifies_progress: bool,
    /// Nothing was delivered since the timer last ticked.
    is_idle: bool,
    /// Everything up to here is delivered.
    place: Revision,
    progress: Progress,
    abort: AbortHandle,
}

/// Answers a stream of requests until it ends.
pub(crate) fn session(
    service: Service,
    requests: Streaming<pb::WatchRequest>,
) -> impl Stream<Item = Result<pb::WatchResponse, Status>> + Send + 'static {
    let mut timer = tokio::time::interval(PROGRESS_INTERVAL);
    timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let session = Session {
        service,
        requests,
        answers: VecDeque::new(),
        open: BTreeMap::new(),
        deliveries: SelectAll::new(),
        awaited: VecDeque::new(),
        next_id: 0,
        timer,
    };
    stream::try_unfold(session, |mut session| async move {
        let next = session.next().await?;
        Ok(next.map(|answer| (answer, session)))
    })
}

// === impl Session ===

impl Session {
    async fn next(&mut self) -> Result<Option<pb::WatchResponse>, Status> {
        loop {
            self.answer_progress();
            if let Some(answer) = self.answers.pop_front() {
                return Ok(Some(answer));
            }
            tokio::select! {
                request = self.requests.message() => match request? {
                    Some(request) => self.request(request).await,
                    None => return Ok(None),
                },
                Some((id, batch)) = self.deliveries.next(), if !self.deliveries.is_empty() => {
                    match batch {
                        Some(Ok(batch)) => self.deliver(id, batch),
                        Some(Err(error)) => self.fail(id, &error),
                        // The store closes.
                        None if self.open.contains_key(&id) => return Ok(None),
                        None => {}
                    }
                },
                _ = self.timer.tick() => self.request_progress_of_idle(),
            }
        }
    }

    async fn request(&mut self, request: pb::WatchRequest) {
        if let Some(create) = request.create_request {
            self.create(create).await;
        } else if let Some(cancel) = request.cancel_request {
            if let Some(watch) = self.open.remove(&cancel.watch_id) {
                watch.abort.abort();
                let answer = pb::WatchResponse {
                    canceled: true,
                    ..self.answer_now(cancel.watch_id)
                };
                self.answers.push_back(answer);
            }
        } else if request.progress_request.is_some() {
            self.awaited.push_back(self.service.store.revision());
            self.open
                .values()
                .for_each(|watch| watch.progress.request());
        }
    }

    async fn create(&mut self, request: pb::WatchCreateRequest) {
        // The smallest key.
        let key = if request.key.is_empty() {
            Bytes::from_static(b"\0")
        } else {
            request.key
        };
        let keys = keys(key, request.range_end);
        if matches!(&keys, Keys::Interval { start, end } if !end.is_empty() && start >= end) {
            return self.refuse("mvcc: watcher range is empty");
        }
        let id = match request.watch_id {
            0 => self.free_id(),
            id if self.open.contains_key(&id) => {
                return self.refuse("mvcc: duplicate watch ID provided on the WatchStream");
            }
            id => id,
        };
        let store = Arc::clone(&self.service.store);
        let first = unsigned(request.start_revision);
        let prefix = keys.common_prefix();
        let mut oldest = None;
        let after = match first {
            0 => store.revision(),
            // A watch of etcd may begin at the compacted revision, with what is left of
            // it; one of the store begins after it. If that is no longer readable, the
            // watch reports that it begins too early.
            first if first == store.compacted() => {
                let batch = store.oldest_writes(prefix.clone()).await.ok();
                oldest = batch.filter(|batch| batch.revision == first);
                oldest.as_ref().map_or(first - 1, |batch| batch.revision)
            }
            first => first - 1,
        };
        let watch = store.watch(prefix, after);
        let progress = watch.progress();
        let deliveries = watch
            .map(move |batch| (id, Some(batch)))
            .chain(stream::once(ready((id, None))));
        let (deliveries, abort) = stream::abortable(deliveries);
        self.deliveries.push(deliveries.boxed());
        let watch = OpenWatch {
            keys,
            with_previous: request.prev_kv,
            without_puts: request.filters.contains(&FILTER_PUT),
            without_deletions: request.filters.contains(&FILTER_DELETE),
            notifies_progress: request.progress_notify,
            is_idle: false,
            place: after,
            progress,
            abort,
        };
        self.open.insert(id, watch);
        let created = pb::WatchResponse {
            created: true,
            ..self.answer_now(id)
        };
        self.answers.push_back(created);
        if let Some(batch) = oldest {
            self.deliver(id, batch);
        }
    }

    fn free_id(&mut self) -> i64 {
        while self.open.contains_key(&self.next_id) {
            self.next_id += 1;
        }
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    fn refuse(&mut self, reason: &str) {
        let answer = pb::WatchResponse {
            created: true,
            canceled: true,
            cancel_reason: reason.to_owned(),
            ..self.answer_now(NO_WATCH)
        };
        self.answers.push_back(answer);
    }

    fn deliver(&mut self, id: i64, batch: Batch) {
        // It may have been cancelled.
        let Some(watch) = self.open.get_mut(&id) else {
            return;
        };
        watch.place = watch.place.max(batch.revision);
        let events: Vec<_> = batch
            .events
            .into_iter()
            .filter_map(|event| watch.event(event))
            .collect();
        let reports_progress = watch.notifies_progress && watch.is_idle;
        if events.is_empty() && !reports_progress {
            return;
        }
        watch.is_idle = false;
        self.answers.push_back(pb::WatchResponse {
            header: Some(self.service.header(batch.revision)),
            watch_id: id,
            events,
            ..pb::WatchResponse::default()
        });
    }

    fn fail(&mut self, id: i64, error: &Error) {
        if self.open.remove(&id).is_none() {
            return;
        }
        let answer = self.answer_now(id);
        let answer = match error {
            Error::Compacted { compacted, .. } => pb::WatchResponse {
                canceled: true,
                compact_revision: signed(*compacted),
                ..answer
            },
            error => {
                tracing::warn!(%error, "watch failed");
                pb::WatchResponse {
                    canceled: true,
                    cancel_reason: error.to_string(),
                    ..answer
                }
            }
        };
        self.answers.push_back(answer);
    }

    /// Answers progress requests that all watches have reached. Responses with events
    /// come before, so that later ones are newer than the reported revision.
    fn answer_progress(&mut self) {
        while let Some(&revision) = self.awaited.front() {
            if self.open.values().any(|watch| watch.place < revision) {
                return;
            }
            self.awaited.pop_front();
            self.answers.push_back(pb::WatchResponse {
                header: Some(self.service.header(revision)),
                watch_id: NO_WATCH,
                ..pb::WatchResponse::default()
            });
        }
    }

    /// Asks watches that were idle since the last tick for their progress.
    fn request_progress_of_idle(&mut self) {
        for watch in self.open.values_mut() {
            if watch.is_idle && watch.notifies_progress {
                watch.progress.request();
            }
            watch.is_idle = true;
        }
    }

    fn answer_now(&self, id: i64) -> pb::WatchResponse {
        pb::WatchResponse {
            header: Some(self.service.header(self.service.store.revision())),
            watch_id: id,
            ..pb::WatchResponse::default()
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.open.values().for_each(|watch| watch.abort.abort());
    }
}

// === impl OpenWatch ===

impl OpenWatch {
    /// Returns the event in the client's requested form, if it wants it.
    fn event(&self, event: Event) -> Option<pb::Event> {
        let is_wanted = match event.kind {
            EventKind::Put => !self.without_puts,
            EventKind::Delete => !self.without_deletions,
        };
        if !is_wanted || !self.keys.contains(&event.kv.key) {
            return None;
        }
        Some(pb::Event {
            r#type: i32::from(event.kind == EventKind::Delete),
            kv: Some(key_value(event.kv)),
            prev_kv: event.previous.filter(|_| self.with_previous).map(key_value),
        })
    }
}
