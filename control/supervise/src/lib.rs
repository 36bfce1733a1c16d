//! A supervisor for long-lived tasks.
//!
//! A panic in a task that nobody awaits ends that task and nothing else: the process
//! stays up, its health checks stay green, and the work is no longer done. Every
//! long-lived task of the server and of the node agent therefore belongs to a
//! [`Supervisor`]. It has a name, and a policy for its end:
//!
//! - [`Task::spawn_restarting`] and [`Task::restarting`]: the task is made again after a
//!   back-off. It must take all its input anew, as after a start of the process.
//! - [`Task::spawn_essential`] and [`Task::essential`]: the process ends ([`Supervisor::failed`]).
//! - [`Task::owned`]: the owner of the future handles its end, such as by a `JoinSet`.
//!
//! The supervisor logs the end, counts restarts and knows each task's health
//! ([`Supervisor::unhealthy`], [`Supervisor::write_metrics`]).
//!
//! Tasks belong to the supervisor of the task that starts them, else to the
//! [process's](Supervisor::process). Tests that need a supervisor of their own run in its
//! [`scope`](Supervisor::scope).

mod hook;
mod metrics;
mod task;

use std::collections::BTreeMap;
use std::panic::Location;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;

pub use hook::install_panic_hook;
pub use task::{Task, TaskHandle};

use task::Entry;

/// The delay before the first restart.
const FIRST_DELAY: Duration = Duration::from_millis(100);
/// The longest delay before a restart.
const LONGEST_DELAY: Duration = Duration::from_secs(30);
/// A task that ran this long starts with the shortest delay again.
const HEALTHY_AFTER: Duration = Duration::from_secs(60);

tokio::task_local! {
    /// The supervised task that runs.
    static CURRENT: Scope;
}

static PROCESS: LazyLock<Supervisor> = LazyLock::new(Supervisor::default);

/// What tasks inherit from their parent.
#[derive(Clone, Debug)]
struct Scope {
    supervisor: Supervisor,
    /// The task itself; `None` in [`Supervisor::scope`].
    entry: Option<Arc<Entry>>,
}

/// Starts and tracks tasks.
#[derive(Clone, Debug, Default)]
pub struct Supervisor {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    tasks: Mutex<Tasks>,
    failure: watch::Sender<Option<Failure>>,
}

#[derive(Debug, Default)]
struct Tasks {
    next: u64,
    running: BTreeMap<u64, Arc<Entry>>,
    /// Restarts by name, also of tasks that have ended since.
    counts: BTreeMap<&'static str, Counts>,
}

#[derive(Debug, Default, Clone)]
struct Counts {
    restarts: u64,
    last_error: Option<String>,
}

/// The state of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It runs.
    Running,
    /// It failed, and waits to be started again.
    Restarting,
    /// It failed and is not started again.
    Failed,
}

/// The health of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskHealth {
    /// The task's name.
    pub name: &'static str,
    /// Distinguishes tasks with the same name.
    pub detail: Option<String>,
    /// Its state.
    pub state: State,
    /// How often it was restarted.
    pub restarts: u64,
    /// The last error.
    pub last_error: Option<String>,
}

/// The end of a task without which the process cannot continue.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("task `{task}` {reason}")]
pub struct Failure {
    /// The task's name.
    pub task: &'static str,
    /// How it ended.
    pub reason: String,
}

/// Names a task of the [current](Supervisor::current) supervisor.
pub fn task(name: &'static str) -> Task {
    Supervisor::current().task(name)
}

impl Supervisor {
    /// A supervisor without tasks.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The supervisor of the process.
    #[must_use]
    pub fn process() -> Self {
        PROCESS.clone()
    }

    /// The supervisor of the task that calls this, or else the process's.
    #[must_use]
    pub fn current() -> Self {
        CURRENT
            .try_with(|scope| scope.supervisor.clone())
            .unwrap_or_else(|_| Self::process())
    }

    /// Runs `future`, whose tasks belong to this supervisor.
    pub async fn scope<F: Future>(&self, future: F) -> F::Output {
        let scope = Scope {
            supervisor: self.clone(),
            entry: None,
        };
        CURRENT.scope(scope, future).await
    }

    /// Names a task, which does not run yet.
    pub fn task(&self, name: &'static str) -> Task {
        Task::new(self.clone(), name)
    }

    /// All tasks that run or failed, by name.
    #[must_use]
    pub fn health(&self) -> Vec<TaskHealth> {
        let entries: Vec<_> = self.tasks().running.values().cloned().collect();
        let mut all: Vec<_> = entries.iter().map(|entry| entry.health()).collect();
        all.sort_by(|a, b| (a.name, &a.detail).cmp(&(b.name, &b.detail)));
        all
    }

    /// The tasks that do not do their work.
    #[must_use]
    pub fn unhealthy(&self) -> Vec<TaskHealth> {
        let mut all = self.health();
        all.retain(|task| task.state != State::Running);
        all
    }

    /// The names of all tasks.
    #[must_use]
    pub fn names(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = self.health().iter().map(|task| task.name).collect();
        names.dedup();
        names
    }

    /// Waits until an essential task fails.
    pub async fn failed(&self) -> Failure {
        let mut failure = self.inner.failure.subscribe();
        // The sender lives as long as this supervisor.
        let failed = failure.wait_for(Option::is_some).await;
        let failed = failed.ok().and_then(|failed| failed.clone());
        match failed {
            Some(failure) => failure,
            None => std::future::pending().await,
        }
    }

    /// Returns why an essential task failed, if one did.
    #[must_use]
    pub fn failure(&self) -> Option<Failure> {
        self.inner.failure.borrow().clone()
    }

    /// Makes every task of a name panic and returns their number, for tests. Threads
    /// continue. No input of the process leads here.
    pub fn panic(&self, name: &str) -> usize {
        let entries: Vec<_> = self.tasks().running.values().cloned().collect();
        let mut found = 0;
        for entry in entries {
            if entry.name == name && entry.inject_panic() {
                found += 1;
            }
        }
        found
    }

    /// Appends `orlop_task_up` and `orlop_task_restarts_total` in OpenMetrics form.
    pub fn write_metrics(&self, out: &mut String) {
        metrics::write(&self.counts(), &self.health(), out);
    }

    /// How often tasks of a name were restarted.
    #[must_use]
    pub fn restarts(&self, name: &str) -> u64 {
        self.tasks().counts.get(name).map_or(0, |it| it.restarts)
    }

    fn counts(&self) -> BTreeMap<&'static str, Counts> {
        self.tasks().counts.clone()
    }

    fn tasks(&self) -> MutexGuard<'_, Tasks> {
        self.inner
            .tasks
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, task: &'static str, reason: String) {
        self.inner.failure.send_if_modified(|failure| {
            let first = failure.is_none();
            failure.get_or_insert(Failure { task, reason });
            first
        });
    }
}

/// The delay before the restart that follows `failures` failures in a row.
fn delay(failures: u32) -> Duration {
    FIRST_DELAY
        .saturating_mul(1 << failures.saturating_sub(1).min(16))
        .min(LONGEST_DELAY)
}

/// A position in the source, as panics name it.
fn position(location: Option<&Location<'_>>) -> String {
    location.map_or_else(|| "unknown".to_owned(), ToString::to_string)
}

#[cfg(test)]
mod tests;
