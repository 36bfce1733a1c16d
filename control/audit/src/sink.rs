//! Where events go: to a file or to a server, at once or gathered, whole or
//! truncated.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use control_supervise::TaskHandle;
use control_types::error_chain;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::event::Event;
use super::log::{Format, Log, LogOptions};
use super::policy::Level;
use control_proxy::egress::Dialer;
use control_proxy::egress::kubeconfig::{self, Remote};

/// How often a server is asked that does not answer, and how much longer is waited
/// each time.
const ATTEMPTS: u32 = 5;
const LONGER: f64 = 1.5;
/// How long one attempt may take.
const ATTEMPT: Duration = Duration::from_secs(30);
/// What an event is annotated with that lost its objects.
const TRUNCATED: &str = "audit.k8s.io/truncated";

/// Whether requests wait for their events.
#[derive(Clone, Debug, PartialEq)]
pub enum Mode {
    /// No; events are gathered.
    Batch(Batch),
    /// They do.
    Blocking,
    /// They do, and are refused when their first event cannot be kept.
    BlockingStrict,
}

/// How events are gathered.
#[derive(Clone, Debug, PartialEq)]
pub struct Batch {
    /// How many wait at most; what comes then is lost.
    pub buffer: usize,
    /// How many are sent together.
    pub most: usize,
    /// How long is waited for more.
    pub wait: Duration,
    /// How many batches are sent a second, and how many at once after a pause;
    /// `None` for as many as there are.
    pub throttle: Option<(f64, u32)>,
}

/// How large events may be, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncate {
    /// One event; larger ones lose their objects, or are lost.
    pub event: usize,
    /// What is sent together.
    pub batch: usize,
}

/// A place for events.
#[derive(Clone, Debug)]
pub struct SinkOptions {
    /// Which.
    pub to: SinkTarget,
    /// Whether requests wait.
    pub mode: Mode,
    /// How large events may be; `None` for as they are.
    pub truncate: Option<Truncate>,
}

/// Which place.
#[derive(Clone, Debug)]
pub enum SinkTarget {
    /// A file.
    Log(LogOptions),
    /// The server that a kubeconfig names.
    Webhook {
        /// The kubeconfig.
        config: PathBuf,
        /// How long is waited after the first attempt that failed.
        backoff: Duration,
        /// By which way it is reached.
        dialer: Dialer,
    },
}

impl Batch {
    /// As kube-apiserver gathers what goes to a file.
    #[must_use]
    pub fn of_log() -> Self {
        Self {
            buffer: 10_000,
            most: 1,
            wait: Duration::ZERO,
            throttle: None,
        }
    }

    /// As kube-apiserver gathers what goes to a server.
    #[must_use]
    pub fn of_webhook() -> Self {
        Self {
            buffer: 10_000,
            most: 400,
            wait: Duration::from_secs(30),
            throttle: Some((10.0, 15)),
        }
    }
}

impl Default for Truncate {
    fn default() -> Self {
        Self {
            event: 100 * 1024,
            batch: 10 * 1024 * 1024,
        }
    }
}

/// A place, open.
#[derive(Debug)]
pub(super) struct Sink {
    out: Arc<SinkOutput>,
    mode: Mode,
    gathered: Option<mpsc::Sender<Arc<Event>>>,
    worker: Mutex<Option<TaskHandle>>,
}

#[derive(Debug)]
struct SinkOutput {
    place: Place,
    truncate: Option<Truncate>,
    lost: AtomicU64,
}

#[derive(Debug)]
enum Place {
    Log(Log),
    Webhook {
        remote: Box<Remote>,
        backoff: Duration,
    },
}

// === impl Sink ===

impl Sink {
    pub(super) fn open(options: SinkOptions) -> Result<Self, super::Error> {
        let place = match options.to {
            SinkTarget::Log(log) => {
                let path = log.path.clone();
                let log = Log::new(log).map_err(|source| super::Error::Log { path, source })?;
                Place::Log(log)
            }
            SinkTarget::Webhook {
                config,
                backoff,
                dialer,
            } => Place::Webhook {
                remote: Box::new(Remote::open(&config, dialer).map_err(super::Error::Webhook)?),
                backoff,
            },
        };
        let out = Arc::new(SinkOutput {
            place,
            truncate: options.truncate,
            lost: AtomicU64::new(0),
        });
        let (mut gathered, mut worker) = (None, None);
        if let Mode::Batch(batch) = &options.mode {
            let (sender, receiver) = mpsc::channel(batch.buffer.max(1));
            gathered = Some(sender);
            let (out, batch) = (Arc::clone(&out), batch.clone());
            // Kept between runs, with what waits in it.
            let receiver = Arc::new(tokio::sync::Mutex::new(receiver));
            worker = Some(
                control_supervise::task("audit-sink").spawn_restarting(move || {
                    let (out, batch) = (Arc::clone(&out), batch.clone());
                    let receiver = Arc::clone(&receiver);
                    async move { gather(out, batch, &mut *receiver.lock().await).await }
                }),
            );
        }
        Ok(Self {
            out,
            mode: options.mode,
            gathered,
            worker: Mutex::new(worker),
        })
    }

    /// Takes an event; whether the request may go on.
    pub(super) async fn take(&self, event: &Arc<Event>) -> bool {
        if let Some(gathered) = &self.gathered {
            if gathered.try_send(Arc::clone(event)).is_err() {
                self.out.lose(1, "its buffer is full");
            }
            return true;
        }
        let kept = self.out.deliver(std::slice::from_ref(event)).await;
        kept || self.mode != Mode::BlockingStrict
    }

    /// Waits until what was gathered is sent. Nothing may be taken afterwards.
    pub(super) async fn close(&self) {
        let worker = self
            .worker
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let (Some(gathered), Some(worker)) = (&self.gathered, worker) {
            // The worker ends with its queue, of which requests hold an end as
            // long as the server lives: an event without a request ends it.
            let last = Arc::new(Event::end());
            if gathered.send(last).await.is_ok() {
                worker.await;
            }
        }
    }

    /// Of which plugin errors are counted, and how many events were lost.
    pub(super) fn lost(&self) -> (&'static str, u64) {
        let plugin = match self.out.place {
            Place::Log(_) => "log",
            Place::Webhook { .. } => "webhook",
        };
        (plugin, self.out.lost.load(Ordering::Relaxed))
    }
}

/// Gathers events and delivers them in batches.
async fn gather(out: Arc<SinkOutput>, batch: Batch, events: &mut mpsc::Receiver<Arc<Event>>) {
    let mut throttle = batch.throttle.map(|(rate, burst)| Bucket::new(rate, burst));
    let mut sending = tokio::task::JoinSet::new();
    let mut is_last = false;
    while !is_last {
        let Some(first) = events.recv().await else {
            break;
        };
        let until = Instant::now() + batch.wait;
        let mut together = vec![first];
        while together.len() < batch.most {
            match tokio::time::timeout_at(until, events.recv()).await {
                Ok(Some(event)) => together.push(event),
                Ok(None) | Err(_) => break,
            }
            if together.last().is_some_and(|event| event.is_end()) {
                break;
            }
        }
        if together.last().is_some_and(|event| event.is_end()) {
            together.pop();
            is_last = true;
        }
        if together.is_empty() {
            continue;
        }
        if let Some(throttle) = &mut throttle {
            throttle.wait().await;
        }
        match &out.place {
            // Lines stay in order.
            Place::Log(_) => {
                let out = Arc::clone(&out);
                let written = tokio::task::spawn_blocking(move || out.write(&together));
                let _ = written.await;
            }
            Place::Webhook { .. } => {
                let out = Arc::clone(&out);
                sending.spawn(async move {
                    out.deliver(&together).await;
                });
                while sending.try_join_next().is_some() {}
            }
        }
    }
    while sending.join_next().await.is_some() {}
}

/// Lets so many through a second.
struct Bucket {
    rate: f64,
    burst: f64,
    tokens: f64,
    since: Instant,
}

impl Bucket {
    fn new(rate: f64, burst: u32) -> Self {
        Self {
            rate: rate.max(0.001),
            burst: f64::from(burst.max(1)),
            tokens: f64::from(burst.max(1)),
            since: Instant::now(),
        }
    }

    async fn wait(&mut self) {
        let now = Instant::now();
        let passed = now.duration_since(self.since).as_secs_f64();
        self.tokens = (self.tokens + passed * self.rate).min(self.burst);
        self.since = now;
        if self.tokens < 1.0 {
            let missing = (1.0 - self.tokens) / self.rate;
            tokio::time::sleep(Duration::from_secs_f64(missing)).await;
            self.since = Instant::now();
            self.tokens = 1.0;
        }
        self.tokens -= 1.0;
    }
}

// === impl SinkOutput ===

impl SinkOutput {
    /// Writes or sends events; whether all were kept.
    async fn deliver(&self, events: &[Arc<Event>]) -> bool {
        match &self.place {
            Place::Log(_) => self.write(events),
            Place::Webhook { remote, backoff } => {
                let (batches, lost) = self.lists(events);
                let mut kept = lost == 0;
                for (list, count) in batches {
                    if let Err(error) = send(remote, list, *backoff).await {
                        tracing::warn!(error = %error_chain(&error), "audit events cannot be sent");
                        self.lost.fetch_add(count, Ordering::Relaxed);
                        kept = false;
                    }
                }
                kept
            }
        }
    }

    fn write(&self, events: &[Arc<Event>]) -> bool {
        let Place::Log(log) = &self.place else {
            return false;
        };
        let mut lines = Vec::new();
        let mut kept = true;
        for event in events {
            match (log.format(), self.encode(event)) {
                (Format::Legacy, _) => lines.extend_from_slice(event.to_legacy().as_bytes()),
                (Format::Json, Some(json)) => lines.extend_from_slice(&json),
                (Format::Json, None) => {
                    kept = false;
                    continue;
                }
            }
            lines.push(b'\n');
        }
        if let Err(error) = log.write(&lines) {
            let count = u64::try_from(events.len()).unwrap_or(u64::MAX);
            self.lose(count, &error.to_string());
            return false;
        }
        kept
    }

    /// Events as lists that are not too large, with how many are in each; and how
    /// many events are too large by themselves.
    fn lists(&self, events: &[Arc<Event>]) -> (Vec<(Bytes, u64)>, usize) {
        const HEAD: &[u8] =
            br#"{"kind":"EventList","apiVersion":"audit.k8s.io/v1","metadata":{},"items":["#;
        let most = self.truncate.map_or(usize::MAX, |truncate| truncate.batch);
        let mut lists = Vec::new();
        let (mut list, mut count, mut lost) = (HEAD.to_vec(), 0, 0);
        for event in events {
            let Some(json) = self.encode(event) else {
                lost += 1;
                continue;
            };
            if count > 0 && list.len() + json.len() > most {
                list.extend_from_slice(b"]}");
                lists.push((std::mem::replace(&mut list, HEAD.to_vec()).into(), count));
                count = 0;
            }
            if count > 0 {
                list.push(b',');
            }
            list.extend_from_slice(&json);
            count += 1;
        }
        if count > 0 {
            list.extend_from_slice(b"]}");
            lists.push((list.into(), count));
        }
        (lists, lost)
    }

    /// An event as JSON, without its objects if it would be too large with them;
    /// `None` if it is too large even so.
    fn encode(&self, event: &Event) -> Option<Vec<u8>> {
        let json = event.to_json();
        let Some(truncate) = self.truncate.filter(|truncate| json.len() > truncate.event) else {
            return Some(json);
        };
        let mut json = json;
        if event.level >= Level::Request {
            let mut small = event.clone();
            small.request = None;
            small.response = None;
            small.annotations.insert(TRUNCATED.into(), "true".into());
            json = small.to_json();
        }
        if json.len() > truncate.event {
            self.lose(1, "an event is too large even after truncating");
            return None;
        }
        Some(json)
    }

    fn lose(&self, count: u64, why: &str) {
        // Once for many: a full buffer would else fill the log, too.
        let before = self.lost.fetch_add(count, Ordering::Relaxed);
        if before == 0 || before.is_multiple_of(1000) {
            tracing::error!(lost = before + count, why, "audit events are lost");
        }
    }
}

/// Sends a list, again and again for a while.
async fn send(remote: &Remote, list: Bytes, backoff: Duration) -> Result<(), kubeconfig::Error> {
    let mut wait = backoff;
    let mut attempt = 1;
    loop {
        let Err(failed) = remote.post(list.clone(), ATTEMPT).await else {
            return Ok(());
        };
        if attempt == ATTEMPTS {
            return Err(failed);
        }
        attempt += 1;
        tokio::time::sleep(wait.mul_f64(1.0 + rand::random_range(0.0..0.2))).await;
        wait = wait.mul_f64(LONGER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn out(truncate: Option<Truncate>) -> SinkOutput {
        SinkOutput {
            place: Place::Log(Log::new(LogOptions::default()).expect("standard output")),
            truncate,
            lost: AtomicU64::new(0),
        }
    }

    fn event(size: usize) -> Arc<Event> {
        let mut event = Event::end();
        event.level = Level::Request;
        event.request = Some(format!("\"{}\"", "x".repeat(size)).into());
        Arc::new(event)
    }

    #[test]
    fn large_events_lose_their_objects_and_huge_ones_are_lost() {
        let small = Truncate {
            event: 1000,
            batch: 10_000,
        };
        let out = out(Some(small));
        let text =
            |event: &Event| String::from_utf8(out.encode(event).expect("kept")).expect("text");
        assert!(text(&event(10)).contains("requestObject"));
        let truncated = text(&event(2000));
        assert!(!truncated.contains("requestObject"));
        assert!(truncated.contains("\"audit.k8s.io/truncated\":\"true\""));
        let mut huge = Event::clone(&event(0));
        huge.uri = "x".repeat(2000);
        assert!(out.encode(&huge).is_none());
        assert_eq!(out.lost.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn lists_are_split_where_they_get_too_large() {
        let out = out(Some(Truncate {
            event: 5000,
            batch: 5000,
        }));
        let events: Vec<_> = (0..5).map(|_| event(2000)).collect();
        let (lists, lost) = out.lists(&events);
        assert_eq!(lost, 0);
        let counts: Vec<u64> = lists.iter().map(|(_, count)| *count).collect();
        assert_eq!(counts, [2, 2, 1]);
        for (list, count) in lists {
            let list = control_types::value::Value::from_slice(&list).expect("JSON");
            assert_eq!(list.items_at(&["items"]).len() as u64, count);
        }
    }

    #[tokio::test]
    async fn a_bucket_lets_a_burst_through_and_then_its_rate() {
        let mut bucket = Bucket::new(100.0, 3);
        let began = Instant::now();
        for _ in 0..13 {
            bucket.wait().await;
        }
        // Ten had to wait for ten milliseconds each.
        assert!(began.elapsed() >= Duration::from_millis(95));
    }
}
