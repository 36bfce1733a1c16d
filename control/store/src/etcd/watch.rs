//! A watch that resumes after failures and tracks its progress.
//!
//! etcd's own watch ends with its connection, and learns of revisions that do not concern
//! it only on request. This one:
//!
//! * opens a new stream at its position whenever the old one fails;
//! * starts the stream *at* its position, not after it, and drops events that it has
//!   seen: etcd refuses a watch from before the compacted revision, but accepts one from
//!   the first revision after it, although a deletion there may be lost;
//! * requests progress when a caller wants it, and when this process knows of a revision
//!   whose events do not arrive because none concerns it.
//!
//! Old members report progress before the events that it covers (see `progress_is_true`
//! in the module above). With those, a watch covers all keys: every revision then has an
//! event, and the events are the progress.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use etcd_client::{Client, WatchOptions, WatchRequestSender, WatchResponse, WatchResponseStream};
use futures::stream::{self, BoxStream, StreamExt};
use tokio::sync::{Notify, watch as channel};
use tokio::time::{Instant, sleep_until};

use super::watch_pool::StreamPermit;
use super::{EtcdShared, convert, fault};
use crate::{Batch, Error, Event, Revision, prefix_end};

/// How long to wait for the events of a revision before asking, and before
/// asking again: members drop the question while a watch catches up.
const ASK_AFTER: Duration = Duration::from_millis(20);
const ASK_AGAIN: Duration = Duration::from_millis(100);

/// The shortest delay between attempts to open a stream.
const SHORTEST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

type Batches = BoxStream<'static, Result<Batch, Error>>;
type RequestProgress = Arc<dyn Fn() + Send + Sync>;

struct Driver {
    client: Client,
    shared: Arc<EtcdShared>,
    prefix: Bytes,
    /// Everything up to here was delivered.
    place: Revision,
    stream: Option<OpenedWatch>,
    /// The stream ended by itself.
    broke: bool,
    pause: Duration,
    /// Notified when a caller wants the progress.
    bell: Arc<Notify>,
    known: channel::Receiver<Revision>,
    alive: channel::Receiver<()>,
    /// A caller wants progress; the target revision is not known yet.
    wanted: bool,
    /// A caller waits for a batch that reaches the goal.
    owed: bool,
    goal: Revision,
    ask_at: Option<Instant>,
    over: bool,
}

struct OpenedWatch {
    requests: WatchRequestSender,
    responses: WatchResponseStream,
    _permit: StreamPermit,
}

/// The event that happened first.
enum Woken {
    Closed,
    Response(Result<Option<WatchResponse>, etcd_client::Error>),
    Wanted,
    HeardOf(Revision),
    Ask,
}

/// Starts nothing yet: the stream is opened when the first batch is wanted.
pub(super) fn start(
    client: &Client,
    shared: &Arc<EtcdShared>,
    alive: channel::Receiver<()>,
    prefix: Bytes,
    after: Revision,
) -> (Batches, RequestProgress) {
    let bell = Arc::new(Notify::new());
    let driver = Driver {
        client: client.clone(),
        shared: shared.clone(),
        prefix,
        place: after,
        stream: None,
        broke: false,
        pause: SHORTEST_PAUSE,
        bell: bell.clone(),
        known: shared.revision.subscribe(),
        alive,
        wanted: false,
        owed: false,
        goal: 0,
        ask_at: None,
        over: false,
    };
    let batches = stream::unfold(driver, |mut driver| async move {
        driver.next().await.map(|batch| (batch, driver))
    });
    (batches.boxed(), Arc::new(move || bell.notify_one()))
}

// === impl Driver ===

impl Driver {
    async fn next(&mut self) -> Option<Result<Batch, Error>> {
        while !self.over {
            let Some(stream) = &mut self.stream else {
                if std::mem::take(&mut self.broke) {
                    self.rest().await;
                }
                if let Err(error) = self.open().await {
                    self.over = true;
                    return Some(Err(error));
                }
                continue;
            };
            let woken = tokio::select! {
                biased;
                _ = self.alive.changed() => Woken::Closed,
                response = stream.responses.message() => Woken::Response(response),
                () = self.bell.notified() => Woken::Wanted,
                Ok(()) = self.known.changed() => {
                    Woken::HeardOf(*self.known.borrow_and_update())
                }
                () = until(self.ask_at) => Woken::Ask,
            };
            match woken {
                Woken::Closed => self.over = true,
                Woken::Response(response) => match self.respond(response) {
                    Ok(Some(batch)) => return Some(Ok(batch)),
                    Ok(None) => {}
                    Err(error) => {
                        self.over = true;
                        return Some(Err(error));
                    }
                },
                Woken::Wanted => {
                    self.wanted = true;
                    self.ask_at = Some(Instant::now());
                }
                Woken::HeardOf(revision) if revision > self.place => {
                    self.goal = self.goal.max(revision);
                    let soon = Instant::now() + ASK_AFTER;
                    self.ask_at = Some(self.ask_at.map_or(soon, |at| at.min(soon)));
                }
                Woken::HeardOf(_) => {}
                Woken::Ask => {
                    self.ask().await;
                    if self.owed && self.place >= self.goal {
                        self.owed = false;
                        return Some(Ok(Batch {
                            events: Vec::new(),
                            revision: self.place,
                        }));
                    }
                }
            }
        }
        None
    }

    /// Opens a stream, as often as it takes; an error is final.
    async fn open(&mut self) -> Result<(), Error> {
        let compacted = *self.shared.compacted.borrow();
        if self.place < compacted {
            return Err(self.compacted(compacted));
        }
        let options = WatchOptions::new()
            .with_start_revision(convert::signed(self.place.max(1)))
            .with_prev_key();
        let end = prefix_end(&self.prefix);
        let narrow = self.shared.progress && !end.is_empty();
        let (key, options) = if narrow {
            (self.prefix.clone(), options.with_range(end))
        } else {
            (Bytes::new(), options.with_all_keys())
        };
        let call = async {
            let (mut watches, permit) = self.shared.watches.acquire().await?;
            Ok((watches.watch(key, Some(options)).await?, permit))
        };
        let opened = tokio::select! {
            biased;
            _ = self.alive.changed() => {
                self.over = true;
                return Ok(());
            }
            opened = self.shared.timed(call) => opened,
        };
        match opened {
            Ok((stream, permit)) => {
                let (requests, responses) = stream.split();
                self.stream = Some(OpenedWatch {
                    requests,
                    responses,
                    _permit: permit,
                });
                if self.goal > self.place || self.wanted || self.owed {
                    self.ask_at = Some(Instant::now() + ASK_AFTER);
                }
                Ok(())
            }
            Err(error) => self.broken(error).await,
        }
    }

    /// Waits a little after a fault that may pass.
    async fn broken(&mut self, error: etcd_client::Error) -> Result<(), Error> {
        self.stream = None;
        if !fault::may_pass(&error) {
            return Err(self.shared.faults.operation(error));
        }
        tracing::warn!(
            %error,
            revision = self.place,
            prefix = %String::from_utf8_lossy(&self.prefix),
            "etcd watch failed, reopening it"
        );
        self.rest().await;
        Ok(())
    }

    /// Waits a little, each time longer until the watch says something, but not when there is a
    /// leader again.
    async fn rest(&mut self) {
        let mut lost = self.shared.lost.clone();
        let is_lost = lost.borrow().is_some();
        tokio::select! {
            _ = self.alive.changed() => self.over = true,
            () = tokio::time::sleep(self.pause) => {
                self.pause = (self.pause * 2).min(LONGEST_PAUSE);
            }
            Ok(_) = lost.wait_for(Option::is_none), if is_lost => self.pause = SHORTEST_PAUSE,
        }
    }

    fn respond(
        &mut self,
        response: Result<Option<WatchResponse>, etcd_client::Error>,
    ) -> Result<Option<Batch>, Error> {
        let response = match response {
            Ok(Some(response)) => response,
            Ok(None) => {
                self.stream = None;
                self.broke = true;
                return Ok(None);
            }
            Err(error) if fault::may_pass(&error) => {
                tracing::warn!(%error, revision = self.place, "etcd watch failed");
                self.stream = None;
                self.broke = true;
                return Ok(None);
            }
            Err(error) => return Err(self.shared.faults.operation(error)),
        };
        if response.canceled() {
            return self.canceled(&response).map(|()| None);
        }
        if response.created() {
            // A member without a leader creates a watch and ends it immediately.
            return Ok(None);
        }
        self.pause = SHORTEST_PAUSE;
        let before = self.place;
        let events = self.take(&response)?;
        if response.events().is_empty() && self.shared.progress {
            let revision = response
                .header()
                .map_or(0, |header| convert::unsigned(header.revision()));
            self.place = self.place.max(revision);
        }
        self.shared.heard_of(self.place);
        if self.place >= self.goal && !self.wanted {
            self.ask_at = None;
        }
        let due = self.owed && self.place >= self.goal;
        if events.is_empty() && self.place == before && !due {
            return Ok(None);
        }
        self.owed &= !due;
        Ok(Some(Batch {
            events,
            revision: self.place,
        }))
    }

    /// The events that are new, and concern this watch.
    fn take(&mut self, response: &WatchResponse) -> Result<Vec<Event>, Error> {
        let before = self.place;
        let mut events = Vec::with_capacity(response.events().len());
        for event in response.events() {
            let Some(kv) = event.kv() else { continue };
            let revision = convert::unsigned(kv.mod_revision());
            if revision <= before {
                continue;
            }
            self.place = self.place.max(revision);
            if !kv.key().starts_with(&self.prefix) {
                continue;
            }
            match convert::event(event) {
                Ok(event) => events.extend(event),
                // The previous value of the key is already compacted.
                Err(revision) => {
                    return Err(Error::Compacted {
                        requested: before,
                        compacted: revision,
                    });
                }
            }
        }
        Ok(events)
    }

    /// A member ended the watch.
    fn canceled(&mut self, response: &WatchResponse) -> Result<(), Error> {
        let compacted = convert::unsigned(response.compact_revision());
        if compacted > 0 {
            self.shared.compacted_to(compacted);
            return Err(self.compacted(compacted));
        }
        let reason = response.cancel_reason();
        if reason.contains("permission denied") {
            return Err(Error::Refused {
                endpoints: self.shared.faults.endpoints().into(),
                reason: reason.to_owned(),
            });
        }
        tracing::warn!(
            reason,
            revision = self.place,
            "etcd member ended a watch, reopening it"
        );
        self.stream = None;
        Ok(())
    }

    fn compacted(&self, compacted: Revision) -> Error {
        Error::Compacted {
            requested: self.place,
            compacted,
        }
    }

    /// Determines the target revision, and requests the watch's progress.
    async fn ask(&mut self) {
        self.ask_at = None;
        if self.wanted {
            match self.shared.latest(&self.client).await {
                Ok(revision) => {
                    self.goal = self.goal.max(revision);
                    self.wanted = false;
                    self.owed = true;
                }
                Err(error) => tracing::debug!(%error, "failed to read the revision of etcd"),
            }
        }
        if self.goal > self.place
            && self.shared.progress
            && let Some(stream) = &mut self.stream
            && let Err(error) = stream.requests.request_progress().await
        {
            tracing::debug!(%error, "failed to request the progress of a watch");
        }
        if self.wanted || self.goal > self.place {
            self.ask_at = Some(Instant::now() + ASK_AGAIN);
        }
    }
}

/// Waits until a time; forever if there is none.
async fn until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
