//! Follows a resource by watches, and by lists where a watch is not enough.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use bytes::Bytes;
use compact_str::CompactString;
use http::{Method, StatusCode};
use http_body_util::BodyExt;

use super::Selection;
use super::intake::{Event, Intake};
use super::stats::Counters;
use crate::backoff::Backoff;
use crate::client::{Client, Query, path, read_status};
use crate::error::{Error, Status};
use crate::meta::Metadata;
use crate::resource::Resource;
use crate::transport::RequestBody;
use crate::wire::{Frame, Lines};

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

/// How long to wait after the first failure, and after many that the server answered.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// How often a failure is a warning while every attempt fails.
const WARN_EVERY: Duration = Duration::from_secs(30);

/// A watch that lives this long proves that the server works.
const HEALTHY_AFTER: Duration = Duration::from_secs(5);

/// Follows a resource and hands what it reads to the writer of a cache. It does not know the
/// type of the objects, so that it is compiled once and not for each.
pub(super) struct Follower {
    client: Client,
    resource: Resource,
    selection: Selection,
    intake: Box<dyn Intake>,
    /// Where to watch from; none: everything must be read.
    revision: Option<CompactString>,
    /// Whether the server may know `sendInitialEvents`.
    streaming: bool,
    /// Whether everything is to be listed next, since the server answered the last watch with
    /// initial events by an error.
    lists_next: bool,
    backoff: Backoff,
    /// When a failure was last logged as a warning.
    warned: Option<Instant>,
    /// When following began.
    began: Instant,
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

// === impl End ===

impl End {
    /// Classifies an error that the server answered.
    fn of(error: Error) -> Self {
        match error {
            Error::Expired(_) => Self::Expired,
            // A restore of the server's store lost the revision.
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

// === impl Follower ===

impl Follower {
    pub(super) fn new(
        client: Client,
        resource: Resource,
        selection: Selection,
        intake: Box<dyn Intake>,
    ) -> Self {
        Self {
            client,
            resource,
            selection,
            intake,
            revision: None,
            streaming: true,
            lists_next: false,
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
            warned: None,
            began: Instant::now(),
        }
    }

    /// Follows the resource without end.
    pub(super) async fn run(mut self) {
        loop {
            let began = Instant::now();
            let is_initial = self.revision.is_none();
            let lists = is_initial && (!self.streaming || std::mem::take(&mut self.lists_next));
            let end = if lists {
                self.list().await
            } else {
                self.watch().await
            };
            // What failed must not hold its objects through the pause that follows.
            self.intake.drop_gathered();
            let healthy = began.elapsed() >= HEALTHY_AFTER;
            if healthy {
                self.backoff.reset();
            }
            let Some(end) = end else { continue };
            let resource = &self.resource;
            let pause = match end {
                End::Closed if healthy => continue,
                End::Closed => {
                    // a server that closes at once is not normal
                    tracing::debug!(%resource, "watch was closed early");
                    self.backoff.after_failure()
                }
                End::Expired => {
                    tracing::info!(%resource, revision = ?self.revision, "revision is gone, reading everything");
                    self.revision = None;
                    self.backoff.after_failure()
                }
                End::NoStreaming => {
                    tracing::debug!(%resource, "no initial events from this server, listing");
                    self.streaming = false;
                    continue;
                }
                // A server may know initial events and not be able to send them, as one on an
                // etcd without progress notifications. client-go lists as well.
                End::Failed(error) if is_initial && !lists && error.status().is_some() => {
                    let error = error.chain();
                    tracing::debug!(%resource, error, "no initial events, listing");
                    self.lists_next = true;
                    self.backoff.after_failure()
                }
                End::Failed(error) => {
                    let chain = error.chain();
                    // The server of a new cluster creates custom resources after it listens.
                    let is_unserved = is_initial && error.is_not_found();
                    if is_unserved && self.began.elapsed() < WARN_EVERY {
                        tracing::debug!(%resource, "not served yet, trying again");
                    } else if self.warned.is_none_or(|at| at.elapsed() >= WARN_EVERY) {
                        self.warned = Some(Instant::now());
                        tracing::warn!(%resource, error = chain, "cannot follow, trying again");
                    } else {
                        tracing::debug!(%resource, error = chain, "cannot follow, trying again");
                    }
                    self.backoff.after(&error)
                }
                End::Broken(why) => {
                    tracing::warn!(%resource, why, "watch broke, resuming");
                    self.backoff.after_failure()
                }
            };
            tokio::time::sleep(pause).await;
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
            let page = match self.intake.gather_page(&self.resource, &bytes) {
                Ok(page) => page,
                Err(source) => {
                    let request = format!("GET {path}");
                    return Some(End::Failed(Error::Decode { request, source }));
                }
            };
            token = page.continue_token;
            if token.is_empty() {
                self.replace(page.resource_version);
                return None;
            }
        }
    }

    /// Replaces the cache by the objects read, which are all that exist at this revision.
    fn replace(&mut self, revision: CompactString) {
        let objects = self.intake.replace_by_gathered();
        tracing::debug!(resource = %self.resource, objects, %revision, "read everything");
        self.count().relists.fetch_add(1, Ordering::Relaxed);
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
        // whether events tell what existed when the watch began
        let mut is_initial = self.revision.is_none();
        if let Some(revision) = &self.revision {
            query.pair("resourceVersion", revision);
        } else {
            query
                .pair("sendInitialEvents", "true")
                .pair("resourceVersionMatch", "NotOlderThan");
        }
        let deadline = tokio::time::Instant::now() + Duration::from_secs(seconds) + WATCH_SLACK;
        let mut body = match self.open(&query.onto(&self.base()), false).await {
            Ok(body) => body,
            Err(End::Failed(Error::BadRequest(_) | Error::Invalid(_))) if is_initial => {
                return Some(End::NoStreaming);
            }
            Err(end) => return Some(end),
        };
        if !is_initial {
            self.count().watches.fetch_add(1, Ordering::Relaxed);
        }
        let mut lines = Lines::default();
        // One timer for all events, which each would have to enter and leave otherwise.
        let mut patience = std::pin::pin!(tokio::time::sleep_until(deadline));
        loop {
            let until = if is_initial {
                deadline.min(tokio::time::Instant::now() + INITIAL_PAUSE)
            } else {
                deadline
            };
            if patience.deadline() != until {
                patience.as_mut().reset(until);
            }
            let frame = tokio::select! {
                biased;
                frame = body.frame() => frame,
                () = &mut patience => {
                    return Some(if is_initial {
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
                    end = self.line(line, &mut is_initial);
                }
            });
            if self.intake.publish() {
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
    fn line(&mut self, line: &[u8], is_initial: &mut bool) -> Option<End> {
        match self.intake.read_event(line, *is_initial) {
            Ok(Event::Object { revision }) => {
                if !*is_initial {
                    self.count().events.fetch_add(1, Ordering::Relaxed);
                    self.seen(&revision);
                }
            }
            Ok(Event::Bookmark(bookmark)) => {
                if *is_initial {
                    if bookmark.ends_initial_events() {
                        *is_initial = false;
                        self.replace(bookmark.resource_version().clone());
                    }
                } else if self.is_before_known(bookmark.resource_version()) {
                    return Some(End::Expired);
                } else {
                    self.seen(bookmark.resource_version());
                }
            }
            Ok(Event::Error(status)) => return Some(End::of(Error::from_status(status))),
            Ok(Event::Unknown) => {}
            Err(error) => return self.unreadable(line, &error),
        }
        None
    }

    /// An object of another shape: reading it again would not help, so it is left out, and the
    /// revision moves on.
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

    /// Whether a revision is older than the last known one, as after a restore of the
    /// server's store from an older backup.
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
        self.intake.counters()
    }
}
