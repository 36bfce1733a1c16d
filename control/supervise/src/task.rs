//! A supervised task: its name, its end, its health.

use std::any::Any;
use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::task::AtomicWaker;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::{CURRENT, HEALTHY_AFTER, Scope, State, Supervisor, TaskHealth, delay};

/// A task that is named and not started yet.
#[derive(Debug)]
#[must_use = "a task does nothing until it is started"]
pub struct Task {
    supervisor: Supervisor,
    name: &'static str,
    detail: Option<String>,
    shutdown: Option<CancellationToken>,
}

/// A started task. It continues when this is dropped.
#[derive(Debug)]
pub struct TaskHandle {
    handle: JoinHandle<()>,
}

/// The record of a task in its supervisor.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) name: &'static str,
    detail: Option<String>,
    status: Mutex<Status>,
    /// Whether the task is to panic when it is polled next.
    fault: AtomicBool,
    /// Whether it is a thread, which is not polled.
    is_thread: AtomicBool,
    waker: AtomicWaker,
}

#[derive(Debug)]
struct Status {
    state: State,
    restarts: u64,
    last_error: Option<String>,
}

/// Forgets a task when its future is dropped, unless it failed.
struct Registration {
    supervisor: Supervisor,
    entry: Arc<Entry>,
    number: u64,
}

// === impl Task ===

impl Task {
    pub(crate) fn new(supervisor: Supervisor, name: &'static str) -> Self {
        Self {
            supervisor,
            name,
            detail: None,
            shutdown: None,
        }
    }

    /// Says which of several tasks with the same name this is, such as a pod's name.
    pub fn detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    /// Expects the task to run until `shutdown`: a return before that is a failure.
    /// Without it a task ends well by returning.
    pub fn until(mut self, shutdown: &CancellationToken) -> Self {
        self.shutdown = Some(shutdown.clone());
        self
    }

    /// Starts what `make` makes, and again after each failure. See [`Task::restarting`].
    pub fn spawn_restarting<M, F>(self, make: M) -> TaskHandle
    where
        M: FnMut() -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        spawn(self.restarting(make).boxed())
    }

    /// Runs what `make` makes, and again, after a back-off, when it panics, or returns
    /// before the shutdown that [`Task::until`] names.
    pub fn restarting<M, F>(self, mut make: M) -> impl Future<Output = ()> + Send + 'static
    where
        M: FnMut() -> F + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let shutdown = self.shutdown.clone();
        restart(self.register(), shutdown, Box::new(move || make().boxed()))
    }

    /// Starts `future`, without which the process cannot continue: when it panics, or
    /// returns before the shutdown that [`Task::until`] names, [`Supervisor::failed`]
    /// returns.
    pub fn spawn_essential<F>(self, future: F) -> TaskHandle
    where
        F: Future<Output = ()> + Send + 'static,
    {
        spawn(self.essential(future).boxed())
    }

    /// As [`Task::spawn_essential`], for a caller that spawns it.
    pub fn essential<F>(self, future: F) -> impl Future<Output = ()> + Send + 'static
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let shutdown = self.shutdown.clone();
        run_essential(self.register(), shutdown, future.boxed())
    }

    /// Runs the work of a thread without which the process cannot continue.
    pub fn essential_thread(self, work: impl FnOnce()) {
        let registration = self.register();
        registration.entry.is_thread.store(true, Ordering::Relaxed);
        let ended = std::panic::catch_unwind(AssertUnwindSafe(work));
        if let Some(reason) = failure(ended, None) {
            registration.end_process(reason);
        }
    }

    /// Runs `future`, whose owner handles its end and its panics.
    pub fn owned<F>(self, future: F) -> impl Future<Output = F::Output> + Send + 'static
    where
        F: Future + Send + 'static,
        F::Output: Send,
    {
        let shutdown = self.shutdown.clone();
        run_owned(self.register(), shutdown, future.boxed())
    }

    fn register(self) -> Registration {
        let entry = Arc::new(Entry {
            name: self.name,
            detail: self.detail,
            status: Mutex::new(Status {
                state: State::Running,
                restarts: 0,
                last_error: None,
            }),
            fault: AtomicBool::new(false),
            is_thread: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        });
        let mut tasks = self.supervisor.tasks();
        let number = tasks.next;
        tasks.next += 1;
        tasks.running.insert(number, Arc::clone(&entry));
        tasks.counts.entry(self.name).or_default();
        drop(tasks);
        Registration {
            supervisor: self.supervisor,
            entry,
            number,
        }
    }
}

/// Makes the future of a task, once per start.
type Make = Box<dyn FnMut() -> BoxFuture<'static, ()> + Send>;

// What follows is compiled once, not for each task: tasks are some hundreds, and each type of a
// future that tokio runs is two thousand lines for the compiler.

fn spawn(task: BoxFuture<'static, ()>) -> TaskHandle {
    TaskHandle {
        handle: tokio::spawn(task),
    }
}

async fn restart(registration: Registration, shutdown: Option<CancellationToken>, mut make: Make) {
    let mut failures = 0u32;
    loop {
        let begun = Instant::now();
        // Creating the future may panic, too.
        let made = std::panic::catch_unwind(AssertUnwindSafe(&mut make));
        let ended = match made {
            Ok(future) => registration.run(future).await,
            Err(payload) => Err(payload),
        };
        let Some(reason) = failure(ended, shutdown.as_ref()) else {
            return;
        };
        if begun.elapsed() >= HEALTHY_AFTER {
            failures = 0;
        }
        failures = failures.saturating_add(1);
        let pause = delay(failures);
        let entry = &registration.entry;
        tracing::error!(
            task = entry.name,
            detail = entry.detail,
            reason,
            restart_in = ?pause,
            "task failed, restarting it"
        );
        registration.note_restart(reason);
        let ended = async {
            match &shutdown {
                Some(shutdown) => shutdown.cancelled().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = ended => return,
            () = tokio::time::sleep(pause) => {}
        }
        registration.entry.status().state = State::Running;
    }
}

async fn run_essential(
    registration: Registration,
    shutdown: Option<CancellationToken>,
    future: BoxFuture<'static, ()>,
) {
    let ended = registration.run(future).await;
    if let Some(reason) = failure(ended, shutdown.as_ref()) {
        registration.end_process(reason);
    }
}

async fn run_owned<T>(
    registration: Registration,
    shutdown: Option<CancellationToken>,
    future: BoxFuture<'static, T>,
) -> T {
    let ended = registration.run(future).await;
    if let Some(reason) = failure(ended.as_ref().map(drop), shutdown.as_ref()) {
        let entry = &registration.entry;
        tracing::error!(
            task = entry.name,
            detail = entry.detail,
            reason,
            "task failed"
        );
        registration.note_failure(reason);
    }
    match ended {
        Ok(output) => output,
        Err(payload) => std::panic::resume_unwind(payload),
    }
}

/// Returns why the end of a task is a failure, if it is one.
fn failure<P: Payload>(
    ended: Result<(), P>,
    shutdown: Option<&CancellationToken>,
) -> Option<String> {
    match ended {
        Err(payload) => Some(format!("panicked: {}", payload.message())),
        Ok(()) => shutdown
            .is_some_and(|shutdown| !shutdown.is_cancelled())
            .then(|| "ended unexpectedly".to_owned()),
    }
}

/// The payload of a panic.
trait Payload {
    fn message(&self) -> String;
}

impl Payload for Box<dyn Any + Send> {
    fn message(&self) -> String {
        message(&**self)
    }
}

impl Payload for &Box<dyn Any + Send> {
    fn message(&self) -> String {
        message(&***self)
    }
}

/// The message of a panic.
pub(crate) fn message(payload: &(dyn Any + Send)) -> String {
    payload
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| payload.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "no message".to_owned())
}

// === impl TaskHandle ===

impl TaskHandle {
    /// Ends the task at its next await.
    pub fn abort(&self) {
        self.handle.abort();
    }

    /// Ends the task later.
    #[must_use]
    pub fn abort_handle(&self) -> AbortHandle {
        self.handle.abort_handle()
    }

    /// Whether the task has ended.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.handle.is_finished()
    }
}

impl Future for TaskHandle {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        // A supervised task does not panic, and one that was aborted has ended.
        self.handle.poll_unpin(context).map(drop)
    }
}

// === impl Entry ===

impl Entry {
    pub(crate) fn health(&self) -> TaskHealth {
        let status = self.status();
        TaskHealth {
            name: self.name,
            detail: self.detail.clone(),
            state: status.state,
            restarts: status.restarts,
            last_error: status.last_error.clone(),
        }
    }

    pub(crate) fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    pub(crate) fn inject_panic(&self) -> bool {
        if self.is_thread.load(Ordering::Relaxed) || self.status().state != State::Running {
            return false;
        }
        self.fault.store(true, Ordering::Release);
        self.waker.wake();
        true
    }

    fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Registration ===

impl Registration {
    /// Runs a future to its end or its panic.
    #[allow(clippy::panic, reason = "it is the fault that a test asked for")]
    async fn run<T>(&self, mut future: BoxFuture<'static, T>) -> Result<T, Box<dyn Any + Send>> {
        let scope = Scope {
            supervisor: self.supervisor.clone(),
            entry: Some(Arc::clone(&self.entry)),
        };
        let entry = &self.entry;
        let polled = poll_fn(|context| {
            entry.waker.register(context.waker());
            if entry.fault.swap(false, Ordering::AcqRel) {
                panic!("fault injected into task `{}`", entry.name);
            }
            future.as_mut().poll(context)
        });
        let scoped = pin!(CURRENT.scope(scope, polled));
        AssertUnwindSafe(scoped).catch_unwind().await
    }

    fn note_restart(&self, reason: String) {
        let mut status = self.entry.status();
        status.state = State::Restarting;
        status.restarts += 1;
        status.last_error = Some(reason.clone());
        drop(status);
        let mut tasks = self.supervisor.tasks();
        let counts = tasks.counts.entry(self.entry.name).or_default();
        counts.restarts += 1;
        counts.last_error = Some(reason);
    }

    /// Reports the failure of an essential task.
    fn end_process(&self, reason: String) {
        let entry = &self.entry;
        tracing::error!(
            task = entry.name,
            detail = entry.detail,
            reason,
            "essential task failed, ending the process"
        );
        self.note_failure(reason.clone());
        self.supervisor.fail(entry.name, reason);
    }

    fn note_failure(&self, reason: String) {
        let mut status = self.entry.status();
        status.state = State::Failed;
        status.last_error = Some(reason.clone());
        drop(status);
        let mut tasks = self.supervisor.tasks();
        let counts = tasks.counts.entry(self.entry.name).or_default();
        counts.last_error = Some(reason);
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // Permanent failures stay visible.
        if self.entry.status().state != State::Failed {
            self.supervisor.tasks().running.remove(&self.number);
        }
    }
}
