//! Delivers commits from the writer to the watches.
//!
//! The writer hands each commit to [`Hub::publish`], which appends the events to the
//! queue of every watch with a matching prefix, and wakes it. It never waits: a queue
//! that would grow too long is left as it is and marked as lagging. A lagging watch
//! delivers its queue and then joins again: under the hub's lock it starts a new queue at
//! the newest revision J, reads the events between its position and J from the file, and
//! continues from the queue. A watch that starts in the past is lagging from the
//! beginning.
//!
//! So a reader of any speed sees every event once and in order, or [`Error::Compacted`].

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::Stream;

use super::read::History;
use crate::{Batch, Error, Event, Revision};

/// The bounds of one queue. Bytes of values are shared with the other watches
/// and counted in each.
const QUEUE_EVENTS: usize = 4096;
const QUEUE_BYTES: usize = 8 << 20;

/// The events of a batch at most.
const BATCH_EVENTS: usize = 1024;

/// Reads a part of the past: `(prefix, after, to)`.
pub(super) type ReadHistory = Arc<
    dyn Fn(Bytes, Revision, Revision) -> BoxFuture<'static, Result<History, Error>> + Send + Sync,
>;

/// The watches of one store.
pub(super) struct Hub(Mutex<HubState>);

struct HubState {
    revision: Revision,
    closed: bool,
    watches: Vec<Weak<Slot>>,
}

/// State shared by the writer and one watch.
struct Slot {
    prefix: Bytes,
    queue: Mutex<Queue>,
}

struct Queue {
    events: VecDeque<Event>,
    bytes: usize,
    /// Everything that concerns the watch up to here is or was in the queue
    /// (or is older than the queue).
    revision: Revision,
    /// Events after `revision` were left out.
    lagging: bool,
    progress_wanted: bool,
    closed: bool,
    waker: Option<Waker>,
}

/// The stream inside a [`crate::Watch`].
pub(super) struct Reader {
    hub: Arc<Hub>,
    slot: Arc<Slot>,
    read_history: ReadHistory,
    /// Delivered up to here.
    place: Revision,
    /// The revision at which the queue begins: events between `place` and this are read
    /// from the file.
    joined: Revision,
    reading: Option<BoxFuture<'static, Result<History, Error>>>,
    over: bool,
}

// === impl Hub ===

impl Hub {
    pub fn new(revision: Revision) -> Self {
        Self(Mutex::new(HubState {
            revision,
            closed: false,
            watches: Vec::new(),
        }))
    }

    /// Delivers one commit: `events` in order, ending at `revision`.
    pub fn publish(&self, events: &[Event], revision: Revision) {
        let mut state = lock(&self.0);
        state.revision = revision;
        let mut wake = Vec::new();
        state.watches.retain(|slot| {
            let Some(slot) = slot.upgrade() else {
                return false;
            };
            wake.extend(slot.offer(events, revision));
            true
        });
        drop(state);
        wake.into_iter().for_each(Waker::wake);
    }

    /// Ends all watches after they have delivered their queues.
    pub fn close(&self) {
        let mut state = lock(&self.0);
        state.closed = true;
        let slots: Vec<_> = state
            .watches
            .drain(..)
            .filter_map(|slot| slot.upgrade())
            .collect();
        drop(state);
        for slot in slots {
            let mut queue = lock(&slot.queue);
            queue.closed = true;
            let waker = queue.waker.take();
            drop(queue);
            waker.into_iter().for_each(Waker::wake);
        }
    }

    /// A new watch and the way to ask it for progress.
    pub fn watch(
        self: &Arc<Self>,
        prefix: Bytes,
        after: Revision,
        read_history: ReadHistory,
    ) -> (Reader, Arc<dyn Fn() + Send + Sync>) {
        let mut state = lock(&self.0);
        // In the future: nothing is queued until then, see `offer`.
        let revision = state.revision.max(after);
        let slot = Arc::new(Slot {
            prefix,
            queue: Mutex::new(Queue {
                events: VecDeque::new(),
                bytes: 0,
                revision,
                lagging: false,
                progress_wanted: false,
                closed: state.closed,
                waker: None,
            }),
        });
        state.watches.push(Arc::downgrade(&slot));
        drop(state);
        let weak = Arc::downgrade(&slot);
        let reader = Reader {
            hub: self.clone(),
            slot,
            read_history,
            place: after,
            joined: revision,
            reading: None,
            over: false,
        };
        let request_progress = move || {
            let Some(slot) = weak.upgrade() else { return };
            let mut queue = lock(&slot.queue);
            queue.progress_wanted = true;
            let waker = queue.waker.take();
            drop(queue);
            waker.into_iter().for_each(Waker::wake);
        };
        (reader, Arc::new(request_progress))
    }
}

// === impl Slot ===

impl Slot {
    /// Takes a commit's events into the queue; returns whom to wake.
    fn offer(&self, events: &[Event], revision: Revision) -> Option<Waker> {
        let mut queue = lock(&self.queue);
        if queue.lagging || revision <= queue.revision {
            return None;
        }
        let from = queue.revision;
        let concerns =
            |event: &&Event| event.kv.mod_revision > from && event.kv.key.starts_with(&self.prefix);
        let (count, bytes) = events
            .iter()
            .filter(concerns)
            .fold((0, 0), |(count, bytes), event| {
                (count + 1, bytes + weight(event))
            });
        let full = queue.events.len() + count > QUEUE_EVENTS || queue.bytes + bytes > QUEUE_BYTES;
        if full && !queue.events.is_empty() {
            queue.lagging = true;
            return queue.waker.take();
        }
        queue.events.extend(events.iter().filter(concerns).cloned());
        queue.bytes += bytes;
        queue.revision = revision;
        if count == 0 && !queue.progress_wanted {
            return None;
        }
        queue.waker.take()
    }
}

/// How many events make the next batch: about [`BATCH_EVENTS`], and never a part of a
/// revision, since a batch says that all of its revision is in it.
fn whole_revisions(events: &VecDeque<Event>) -> usize {
    let Some(last) = events.get(BATCH_EVENTS - 1) else {
        return events.len();
    };
    let revision = last.kv.mod_revision;
    let rest = events.iter().skip(BATCH_EVENTS);
    BATCH_EVENTS
        + rest
            .take_while(|event| event.kv.mod_revision == revision)
            .count()
}

/// The bytes that an event keeps in memory.
fn weight(event: &Event) -> usize {
    let previous = event.previous.as_ref().map_or(0, |kv| kv.value.len());
    event.kv.key.len() + event.kv.value.len() + previous
}

// === impl Reader ===

impl Reader {
    /// Returns the next batch of queued events, if there are any or progress is wanted.
    /// Must only be called when `place` has reached `joined`.
    fn take(&mut self, queue: &mut Queue) -> Option<Batch> {
        let count = whole_revisions(&queue.events);
        let complete = queue.events.len() == count && !queue.lagging;
        let wanted = complete && std::mem::take(&mut queue.progress_wanted);
        if count == 0 && !wanted {
            return None;
        }
        let events: Vec<_> = queue.events.drain(..count).collect();
        queue.bytes -= events.iter().map(weight).sum::<usize>();
        let revision = if queue.events.is_empty() {
            queue.revision
        } else {
            events
                .last()
                .map_or(self.place, |event| event.kv.mod_revision)
        };
        if queue.events.is_empty() && queue.events.capacity() > BATCH_EVENTS {
            queue.events = VecDeque::new();
        }
        self.place = self.place.max(revision);
        Some(Batch {
            events,
            revision: self.place,
        })
    }

    /// A queue that lags and is empty starts again at the newest revision.
    fn join_again(&mut self) {
        let state = lock(&self.hub.0);
        let mut queue = lock(&self.slot.queue);
        self.place = self.place.max(queue.revision);
        queue.lagging = false;
        queue.revision = state.revision;
        self.joined = state.revision;
    }
}

impl Stream for Reader {
    type Item = Result<Batch, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        loop {
            if this.over {
                return Poll::Ready(None);
            }
            if this.place < this.joined {
                let reading = this.reading.get_or_insert_with(|| {
                    (this.read_history)(this.slot.prefix.clone(), this.place, this.joined)
                });
                let Poll::Ready(result) = reading.poll_unpin(context) else {
                    return Poll::Pending;
                };
                this.reading = None;
                match result {
                    Ok(history) => {
                        this.place = this.place.max(history.through);
                        if !history.events.is_empty() {
                            return Poll::Ready(Some(Ok(Batch {
                                events: history.events,
                                revision: this.place,
                            })));
                        }
                    }
                    Err(error) => {
                        this.over = true;
                        return Poll::Ready(Some(Err(error)));
                    }
                }
                continue;
            }
            let slot = this.slot.clone();
            let mut queue = lock(&slot.queue);
            if let Some(batch) = this.take(&mut queue) {
                return Poll::Ready(Some(Ok(batch)));
            }
            if queue.lagging {
                drop(queue);
                this.join_again();
                continue;
            }
            if queue.closed {
                this.over = true;
                continue;
            }
            queue.waker = Some(context.waker().clone());
            return Poll::Pending;
        }
    }
}

/// A panic while the lock was held left nothing half-done that a later holder
/// could not live with: all updates are single assignments and pushes.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
