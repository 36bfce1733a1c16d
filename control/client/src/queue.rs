//! A work queue of keys, each processed at most once at a time.
//!
//! It is level-triggered: a key says *that* something may need work, never what. A key
//! that is added while it waits is still one key; a key that is added while it is being
//! processed is handed out again afterwards, never to two workers at a time. A key that
//! fails comes back with exponential back-off.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use futures::future::BoxFuture;
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::backoff::Backoff;
use crate::error::Error;
use crate::metrics::{self, QueueStats, Visible};

/// A work queue. Cloning is cheap; all clones are the same queue.
pub struct Queue<K> {
    inner: Arc<QueueInner<K>>,
}

struct QueueInner<K> {
    state: Mutex<QueueState<K>>,
    /// One permit per something to look at.
    wake: Notify,
    first_delay: Duration,
    longest_delay: Duration,
}

struct QueueState<K> {
    ready: VecDeque<K>,
    /// Keys to hand out: in `ready`, or added again while in `working`.
    dirty: FxHashSet<K>,
    /// Since when.
    working: FxHashMap<K, Instant>,
    /// Since when keys are ready.
    since: FxHashMap<K, Instant>,
    seen: QueueStats,
    failures: FxHashMap<K, u32>,
    /// Keys by the time they become ready; `waiting` has the time that counts.
    delayed: BinaryHeap<Reverse<(Instant, u64)>>,
    delayed_keys: FxHashMap<u64, K>,
    waiting: FxHashMap<K, (Instant, u64)>,
    sequence: u64,
    closed: bool,
}

type Failure = Box<dyn std::error::Error + Send>;

/// Works on a key. One type for all that use a queue of such keys, so that the loop around it is
/// compiled once for them.
type Work<K> =
    Arc<dyn Fn(K) -> BoxFuture<'static, Result<Option<Duration>, Failure>> + Send + Sync>;

impl<K> Clone for Queue<K> {
    fn clone(&self) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
        }
    }
}

impl<K: Clone + Eq + Hash + Debug + Send + 'static> Default for Queue<K> {
    fn default() -> Self {
        Self::new()
    }
}

impl<K: Clone + Eq + Hash + Debug + Send + 'static> Queue<K> {
    /// An empty queue; failures come back after 5 ms, then twice as long each
    /// time, at most after 5 minutes.
    #[must_use]
    pub fn new() -> Self {
        Self::with_delays(Duration::from_millis(5), Duration::from_secs(300))
    }

    /// An empty queue with the delay after the first failure and the longest.
    #[must_use]
    pub fn with_delays(first: Duration, longest: Duration) -> Self {
        Self {
            inner: Arc::new(QueueInner {
                state: Mutex::new(QueueState {
                    ready: VecDeque::new(),
                    dirty: FxHashSet::default(),
                    working: FxHashMap::default(),
                    since: FxHashMap::default(),
                    seen: QueueStats::default(),
                    failures: FxHashMap::default(),
                    delayed: BinaryHeap::new(),
                    delayed_keys: FxHashMap::default(),
                    waiting: FxHashMap::default(),
                    sequence: 0,
                    closed: false,
                }),
                wake: Notify::new(),
                first_delay: first,
                longest_delay: longest,
            }),
        }
    }

    /// Enqueues `key`.
    pub fn add(&self, key: K) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        if state.make_ready(key) {
            drop(state);
            self.inner.wake.notify_one();
        }
    }

    /// Enqueues `key` after `delay`, or earlier if it already waits for an earlier time.
    pub fn add_after(&self, key: K, delay: Duration) {
        if delay.is_zero() {
            return self.add(key);
        }
        let at = Instant::now() + delay;
        let mut state = self.lock();
        if state.closed
            || state
                .waiting
                .get(&key)
                .is_some_and(|(known, _)| *known <= at)
        {
            return;
        }
        state.sequence += 1;
        let sequence = state.sequence;
        if let Some((_, old)) = state.waiting.insert(key.clone(), (at, sequence)) {
            state.delayed_keys.remove(&old);
        }
        state.delayed_keys.insert(sequence, key);
        state.delayed.push(Reverse((at, sequence)));
        drop(state);
        // someone who waits must know of the earlier time
        self.inner.wake.notify_one();
    }

    /// Enqueues `key` after its next back-off, for a failure. Returns the delay, for
    /// logs.
    pub fn add_rate_limited(&self, key: K) -> Duration {
        self.add_again(key, false)
    }

    /// Enqueues `key` after its next back-off. While the server is `unreachable` the
    /// delay is short and later delays do not grow, since the failure says nothing about
    /// the key.
    fn add_again(&self, key: K, unreachable: bool) -> Duration {
        let longest = match unreachable {
            true => self.inner.longest_delay.min(Backoff::UNREACHABLE),
            false => self.inner.longest_delay,
        };
        let delay = {
            let mut state = self.lock();
            state.seen.retries += 1;
            let failures = state.failures.entry(key.clone()).or_insert(0);
            let delay = self
                .inner
                .first_delay
                .saturating_mul(1u32 << (*failures).min(30));
            if !unreachable || delay < longest {
                *failures = failures.saturating_add(1);
            }
            delay.min(longest)
        };
        self.add_after(key, delay);
        delay
    }

    /// `key` succeeded: its next failure is its first.
    pub fn forget(&self, key: &K) {
        self.lock().failures.remove(key);
    }

    /// How often `key` failed since it was forgotten.
    #[must_use]
    pub fn failures(&self, key: &K) -> u32 {
        self.lock().failures.get(key).copied().unwrap_or(0)
    }

    /// The next key, to be given back with [`Queue::done`]; `None` when the
    /// queue is shut down and empty.
    pub async fn get(&self) -> Option<K> {
        loop {
            // created before looking, so that no concurrent addition is lost
            let notified = self.inner.wake.notified();
            let next = {
                let mut state = self.lock();
                state.ripen(Instant::now());
                if let Some(key) = state.ready.pop_front() {
                    state.dirty.remove(&key);
                    let now = Instant::now();
                    if let Some(since) = state.since.remove(&key) {
                        state.seen.queued.observe((now - since).as_secs_f64());
                    }
                    state.working.insert(key.clone(), now);
                    if !state.ready.is_empty() {
                        self.inner.wake.notify_one();
                    }
                    return Some(key);
                }
                if state.closed {
                    self.inner.wake.notify_one();
                    return None;
                }
                state.delayed.peek().map(|Reverse((at, _))| *at)
            };
            match next {
                Some(at) => {
                    tokio::select! {
                        () = notified => {}
                        () = tokio::time::sleep_until(at) => {}
                    }
                }
                None => notified.await,
            }
        }
    }

    /// Marks `key` as processed. If it was added again during processing, it becomes
    /// ready.
    pub fn done(&self, key: &K) {
        let mut state = self.lock();
        let Some(began) = state.working.remove(key) else {
            return;
        };
        let now = Instant::now();
        state.seen.worked.observe((now - began).as_secs_f64());
        if state.dirty.contains(key) {
            state.since.insert(key.clone(), now);
            state.ready.push_back(key.clone());
            drop(state);
            self.inner.wake.notify_one();
        }
    }

    /// How many keys are ready.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().ready.len()
    }

    /// Whether no key is ready.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Takes nothing more, and lets [`Queue::get`] end when all that is ready
    /// has been handed out.
    pub fn shut_down(&self) {
        self.lock().closed = true;
        self.inner.wake.notify_one();
    }

    /// Works on keys with `workers` at a time until `shutdown`, or until the
    /// queue is shut down.
    ///
    /// `Ok(None)`: done. `Ok(Some(delay))`: done, look again after `delay`.
    /// `Err`: logged, and again after the key's next delay.
    pub async fn run<F, Fut, E>(
        &self,
        name: &'static str,
        workers: usize,
        shutdown: &tokio_util::sync::CancellationToken,
        work: F,
    ) where
        F: Fn(K) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Option<Duration>, E>> + Send + 'static,
        E: std::error::Error + Send + 'static,
    {
        let work: Work<K> = Arc::new(move |key| {
            let worked = work(key);
            Box::pin(async { worked.await.map_err(|error| Box::new(error) as Failure) })
        });
        self.run_workers(name, workers, shutdown, &work).await;
    }

    async fn run_workers(
        &self,
        name: &'static str,
        workers: usize,
        shutdown: &tokio_util::sync::CancellationToken,
        work: &Work<K>,
    ) {
        let visible: Weak<dyn Visible> =
            Arc::downgrade(&(Arc::clone(&self.inner) as Arc<dyn Visible>));
        metrics::register(name, visible);
        let mut set = tokio::task::JoinSet::new();
        for _ in 0..workers.max(1) {
            let (queue, shutdown, work) = (self.clone(), shutdown.clone(), Arc::clone(work));
            let worker = move || {
                let (queue, shutdown, work) = (queue.clone(), shutdown.clone(), Arc::clone(&work));
                async move { queue.work(name, &shutdown, &work).await }
            };
            let task = control_supervise::task("queue-worker").detail(name);
            set.spawn(task.restarting(worker));
        }
        while set.join_next().await.is_some() {}
    }

    /// Works on one key after the other until `shutdown`, or until the queue is shut down.
    async fn work(
        &self,
        name: &'static str,
        shutdown: &tokio_util::sync::CancellationToken,
        work: &Work<K>,
    ) {
        loop {
            let key = tokio::select! {
                () = shutdown.cancelled() => return,
                key = self.get() => key,
            };
            let Some(key) = key else { return };
            let taken = KeyGuard {
                queue: self.clone(),
                key: key.clone(),
                is_finished: false,
            };
            // what began is finished: nothing half done at shutdown
            match work(key.clone()).await {
                Ok(again) => {
                    self.forget(&key);
                    if let Some(delay) = again {
                        self.add_after(key, delay);
                    }
                }
                Err(error) => {
                    let delay = self.add_again(key.clone(), is_unreachable(&*error));
                    let failures = self.failures(&key);
                    let error = &*error as &dyn std::error::Error;
                    if is_worth_a_warning(failures) {
                        tracing::warn!(
                            worker = name,
                            ?key,
                            failures,
                            ?delay,
                            error,
                            "still failing, retrying"
                        );
                    } else {
                        tracing::debug!(worker = name, ?key, ?delay, error, "trying again");
                    }
                }
            }
            taken.finish();
        }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState<K>> {
        self.inner
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Conflicts and stale caches resolve within a few attempts. A failure that persists is logged
/// at the 8th attempt, and each time the number of attempts doubles.
const fn is_worth_a_warning(failures: u32) -> bool {
    failures >= 8 && failures.is_power_of_two()
}

/// Whether an error is, or comes from, a server that cannot be reached.
fn is_unreachable(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<Error>() {
            return error.is_unreachable();
        }
        next = error.source();
    }
    false
}

/// A key that a worker holds. Dropped unfinished, as by a panic, it is tried again as
/// after an error.
struct KeyGuard<K: Clone + Eq + Hash + Debug + Send + 'static> {
    queue: Queue<K>,
    key: K,
    is_finished: bool,
}

impl<K: Clone + Eq + Hash + Debug + Send + 'static> KeyGuard<K> {
    fn finish(mut self) {
        self.is_finished = true;
    }
}

impl<K: Clone + Eq + Hash + Debug + Send + 'static> Drop for KeyGuard<K> {
    fn drop(&mut self) {
        if !self.is_finished {
            self.queue.add_rate_limited(self.key.clone());
        }
        self.queue.done(&self.key);
    }
}

impl<K: Send> Visible for QueueInner<K> {
    fn look(&self) -> QueueStats {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        let mut seen = state.seen.clone();
        seen.depth = state.ready.len();
        for began in state.working.values() {
            let took = now.saturating_duration_since(*began);
            seen.unfinished += took;
            seen.longest = seen.longest.max(took);
        }
        seen
    }
}

impl<K: Clone + Eq + Hash> QueueState<K> {
    /// Whether there is one more key to hand out.
    fn make_ready(&mut self, key: K) -> bool {
        if !self.dirty.insert(key.clone()) {
            return false;
        }
        self.seen.adds += 1;
        if self.working.contains_key(&key) {
            return false;
        }
        self.since.insert(key.clone(), Instant::now());
        self.ready.push_back(key);
        true
    }

    /// Moves the keys whose time has come.
    fn ripen(&mut self, now: Instant) {
        while let Some(Reverse((at, sequence))) = self.delayed.peek().copied() {
            let overruled = !self.delayed_keys.contains_key(&sequence);
            if at > now && !overruled {
                return;
            }
            self.delayed.pop();
            if let Some(key) = self.delayed_keys.remove(&sequence) {
                self.waiting.remove(&key);
                self.make_ready(key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use control_supervise::Supervisor;
    use tokio::time::{Duration, timeout};
    use tokio_util::sync::CancellationToken;

    use super::*;

    async fn nothing_ready(queue: &Queue<u32>) -> bool {
        timeout(Duration::from_millis(1), queue.get())
            .await
            .is_err()
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_added_often_is_handed_out_once() {
        let queue = Queue::new();
        for _ in 0..3 {
            queue.add(7);
        }
        assert_eq!(queue.get().await, Some(7));
        queue.done(&7);
        assert!(nothing_ready(&queue).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_added_while_worked_on_is_handed_out_after_done() {
        let queue = Queue::new();
        queue.add(7);
        assert_eq!(queue.get().await, Some(7));
        queue.add(7);
        queue.add(7);
        assert!(nothing_ready(&queue).await, "never to two workers at once");
        queue.done(&7);
        assert_eq!(queue.get().await, Some(7));
        queue.done(&7);
        assert!(nothing_ready(&queue).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_whose_worker_panics_is_tried_again_and_no_other_waits_for_it() {
        #[derive(Debug, thiserror::Error)]
        #[error("never")]
        struct Never;

        let supervisor = Supervisor::new();
        let (queue, stop) = (Queue::new(), CancellationToken::new());
        let (sender, mut done) = tokio::sync::mpsc::unbounded_channel();
        let first = Arc::new(AtomicBool::new(true));
        let work = move |key: u32| {
            let (sender, first) = (sender.clone(), Arc::clone(&first));
            async move {
                assert!(
                    key != 7 || !first.swap(false, Ordering::Relaxed),
                    "the first"
                );
                // Meanwhile a fault may be injected.
                tokio::time::sleep(Duration::from_secs(1)).await;
                let _ = sender.send(key);
                Ok::<_, Never>(None)
            }
        };
        let running = queue.clone();
        let until = stop.clone();
        let own = supervisor.clone();
        let workers = tokio::spawn(async move {
            own.scope(running.run("test", 2, &until, work)).await;
        });
        for key in [7, 8] {
            queue.add(key);
        }
        assert_eq!(done.recv().await, Some(8));
        assert_eq!(done.recv().await, Some(7));
        assert_eq!(supervisor.restarts("queue-worker"), 1);
        // Both workers are lost in the middle of their work.
        for key in [1, 2] {
            queue.add(key);
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(supervisor.panic("queue-worker"), 2);
        let mut found = [done.recv().await, done.recv().await];
        found.sort();
        assert_eq!(found, [Some(1), Some(2)]);
        assert_eq!(supervisor.restarts("queue-worker"), 3);
        assert_eq!(supervisor.failure(), None);
        stop.cancel();
        workers.await.expect("no panic");
    }

    #[tokio::test(start_paused = true)]
    async fn a_failing_key_comes_back_ever_later_until_forgotten() {
        let queue = Queue::with_delays(Duration::from_millis(10), Duration::from_millis(35));
        let mut delays = Vec::new();
        for _ in 0..4 {
            let began = Instant::now();
            queue.add_rate_limited(1);
            assert_eq!(queue.get().await, Some(1));
            delays.push(began.elapsed().as_millis());
            queue.done(&1);
        }
        assert_eq!(delays, [10, 20, 35, 35]);
        assert_eq!(queue.failures(&1), 4);
        queue.forget(&1);
        assert_eq!(queue.add_rate_limited(1), Duration::from_millis(10));
    }

    #[tokio::test(start_paused = true)]
    async fn keys_that_failed_while_the_server_was_gone_are_done_within_a_second() {
        let queue = Queue::with_delays(Duration::from_millis(5), Duration::from_secs(30));
        let shutdown = CancellationToken::new();
        let began = Instant::now();
        let back = began + Duration::from_secs(300);
        queue.add(7);
        let work = {
            let shutdown = shutdown.clone();
            move |_key: u32| {
                let shutdown = shutdown.clone();
                async move {
                    if Instant::now() < back {
                        return Err(Error::Connection(crate::transport::ConnectionError {
                            server: "https://10.0.0.1:6443".to_owned(),
                            reason: "tcp connect error: Connection refused".to_owned(),
                            is_tls: false,
                        }));
                    }
                    shutdown.cancel();
                    Ok(None)
                }
            }
        };
        queue.run("test", 1, &shutdown, work).await;
        let late = Instant::now() - back;
        assert!(late <= Duration::from_secs(1), "{late:?} after the return");
    }

    #[tokio::test(start_paused = true)]
    async fn the_earlier_of_two_delays_counts() {
        let queue = Queue::new();
        let began = Instant::now();
        queue.add_after(1, Duration::from_secs(9));
        queue.add_after(1, Duration::from_secs(3));
        queue.add_after(1, Duration::from_secs(5));
        assert_eq!(queue.get().await, Some(1));
        assert_eq!(began.elapsed().as_secs(), 3);
        queue.done(&1);
        assert!(timeout(Duration::from_secs(20), queue.get()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiting_worker_notices_an_earlier_time() {
        let queue = Queue::new();
        queue.add_after(1, Duration::from_secs(60));
        let waiting = tokio::spawn({
            let queue = queue.clone();
            async move { queue.get().await }
        });
        tokio::task::yield_now().await;
        queue.add_after(2, Duration::from_secs(1));
        let began = Instant::now();
        assert_eq!(waiting.await.unwrap(), Some(2));
        assert_eq!(began.elapsed().as_secs(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn shut_down_hands_out_what_is_ready_and_ends_every_worker() {
        let queue = Queue::new();
        queue.add(1);
        queue.shut_down();
        queue.add(2);
        assert_eq!(queue.get().await, Some(1));
        queue.done(&1);
        let workers: Vec<_> = (0..4)
            .map(|_| {
                let queue = queue.clone();
                tokio::spawn(async move { queue.get().await })
            })
            .collect();
        for worker in workers {
            assert_eq!(worker.await.unwrap(), None);
        }
    }

    #[tokio::test]
    async fn many_workers_work_off_everything_and_none_twice_at_once() {
        use std::sync::atomic::{AtomicU32, Ordering};

        #[derive(Debug, thiserror::Error)]
        #[error("not yet")]
        struct NotYet;

        let queue = Queue::with_delays(Duration::from_micros(100), Duration::from_millis(2));
        let shutdown = CancellationToken::new();
        let runs: Arc<Vec<AtomicU32>> = Arc::new((0..100).map(|_| AtomicU32::new(0)).collect());
        let busy: Arc<Vec<AtomicU32>> = Arc::new((0..100).map(|_| AtomicU32::new(0)).collect());
        let finished = Arc::new(AtomicU32::new(0));
        for key in 0..100usize {
            queue.add(key);
        }
        let work = {
            let (runs, busy, finished, shutdown) = (
                Arc::clone(&runs),
                Arc::clone(&busy),
                Arc::clone(&finished),
                shutdown.clone(),
            );
            move |key: usize| {
                let (runs, busy, finished, shutdown) = (
                    Arc::clone(&runs),
                    Arc::clone(&busy),
                    Arc::clone(&finished),
                    shutdown.clone(),
                );
                async move {
                    assert_eq!(busy[key].fetch_add(1, Ordering::SeqCst), 0);
                    tokio::task::yield_now().await;
                    busy[key].fetch_sub(1, Ordering::SeqCst);
                    // each key fails twice
                    if runs[key].fetch_add(1, Ordering::SeqCst) < 2 {
                        return Err(NotYet);
                    }
                    if finished.fetch_add(1, Ordering::SeqCst) == 99 {
                        shutdown.cancel();
                    }
                    Ok(None)
                }
            }
        };
        timeout(
            Duration::from_secs(30),
            queue.run("test", 8, &shutdown, work),
        )
        .await
        .unwrap();
        assert!(runs.iter().all(|runs| runs.load(Ordering::SeqCst) == 3));
    }
}
