//! `/version` and the health checks.

use std::time::Duration;

use control_supervise::{State, Supervisor, TaskHealth};
use control_types::status::quote;
use control_types::value::Value;
use control_types::{error_chain, value};
use http::Response;

use crate::health_counts::HealthCounts;
use crate::lifecycle::Lifecycle;
use control_registry::{Context, Storage, reply};
use control_request::body::Body;

/// The version of Kubernetes that is spoken, with ours behind the plus.
const GIT_VERSION: &str = concat!("v1.36.3+orlop.", env!("CARGO_PKG_VERSION"));

/// How long the store may take to show that it is there.
const STORE: Duration = Duration::from_secs(2);
/// A key that is read for that; nothing is stored there.
const PROBE: &str = "/registry/health";
/// How many changes the caches may be behind the store.
const BEHIND: u64 = 10_000;

/// What `/version` answers.
#[must_use]
pub fn version() -> Value {
    value!({
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": GIT_VERSION,
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "go1.26",
        "compiler": "rustc",
        "platform": platform(std::env::consts::ARCH)
    })
}

/// Returns the platform of a processor as Go names it (`runtime.GOOS/runtime.GOARCH`).
fn platform(architecture: &str) -> String {
    let name = match architecture {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    format!("linux/{name}")
}

/// The health checks of a server.
#[derive(Clone, Copy)]
pub struct HealthChecks<'a> {
    pub(crate) storage: &'a Storage,
    pub(crate) supervisor: &'a Supervisor,
    pub(crate) lifecycle: &'a Lifecycle,
    pub(crate) counts: &'a HealthCounts,
}

impl HealthChecks<'_> {
    /// Answers a health check: `/livez`, `/readyz`, `/healthz`, each with
    /// `?verbose`, `?exclude=` and one path per check.
    pub(crate) async fn answer(&self, context: &Context, path: &str) -> Response<Body> {
        let mut parts = path.trim_start_matches('/').splitn(2, '/');
        let root = match parts.next() {
            Some("readyz") => "readyz",
            Some("livez") => "livez",
            _ => "healthz",
        };
        if let Some(one) = parts.next() {
            return match names(root).find(|name| *name == one) {
                Some(name) => {
                    let checked = self.check(name).await;
                    self.counts.count(root, name, checked.is_ok());
                    match checked {
                        Ok(()) => reply::text(200, "ok"),
                        Err(error) => {
                            let why = error_chain(&error);
                            reply::text(500, format!("internal server error: {why}\n"))
                        }
                    }
                }
                None => reply::text(404, "404 page not found\n"),
            };
        }
        let query: Vec<_> = control_request::pairs(context.query().unwrap_or_default()).collect();
        let mut excluded: Vec<&str> = query
            .iter()
            .filter(|(key, _)| key == "exclude")
            .map(|(_, value)| value.as_str())
            .collect();
        excluded.sort_unstable();
        excluded.dedup();
        let mut found = Vec::new();
        for name in names(root) {
            let outcome = if excluded.contains(&name) {
                Outcome::Excluded
            } else {
                let checked = self.check(name).await;
                self.counts.count(root, name, checked.is_ok());
                match checked {
                    Ok(()) => Outcome::Well,
                    Err(error) => {
                        let why = error_chain(&error);
                        tracing::info!(root, check = name, why, "a health check failed");
                        Outcome::Failed
                    }
                }
            };
            found.push((name, outcome));
        }
        let verbose = query.iter().any(|(key, _)| key == "verbose");
        let tasks = self.supervisor.health();
        let (code, page) = page(root, &found, &tasks, &excluded, verbose);
        reply::text(code, page)
    }

    /// Returns whether this server answers requests: its store does, and it is not about to end.
    pub async fn is_ready(&self) -> bool {
        !self.lifecycle.is_stopping() && check_store(self.storage).await.is_ok()
    }

    /// Does a check.
    ///
    /// # Errors
    /// Why it failed.
    async fn check(&self, name: &str) -> Result<(), CheckError> {
        match name {
            "etcd" | "etcd-readiness" => check_store(self.storage).await.map_err(CheckError::Store),
            // The server answers nothing before its caches are filled; they are not
            // allowed to fall far behind afterwards.
            "informer-sync"
                if self.storage.caches.applied() + BEHIND < self.storage.store().revision() =>
            {
                Err(CheckError::CachesBehind)
            }
            TASKS => self.tasks(),
            "shutdown" if self.lifecycle.is_stopping() => Err(CheckError::ShuttingDown),
            _ => Ok(()),
        }
    }

    /// Whether all tasks run.
    fn tasks(&self) -> Result<(), CheckError> {
        let down = self.supervisor.unhealthy();
        if down.is_empty() {
            return Ok(());
        }
        let down: Vec<String> = down
            .iter()
            .map(|task| {
                let why = task.last_error.as_deref().unwrap_or_default();
                format!("`{}` {why}", task.name)
            })
            .collect();
        Err(CheckError::Tasks(down))
    }
}

/// Why a check fails.
#[derive(Debug, thiserror::Error)]
enum CheckError {
    #[error("error getting data from etcd")]
    Store(#[source] StoreError),
    #[error("the caches are far behind the store")]
    CachesBehind,
    #[error("tasks do not run: {}", .0.join(", "))]
    Tasks(Vec<String>),
    #[error("process is shutting down")]
    ShuttingDown,
}

/// Error for a store that does not answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// It answers with an error.
    #[error(transparent)]
    Read(#[from] control_store::Error),
    /// It does not answer in time.
    #[error("context deadline exceeded")]
    Deadline,
}

/// What became of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Well,
    Failed,
    Excluded,
}

/// What is answered: details on request, and always when something failed.
fn page(
    root: &str,
    found: &[(&str, Outcome)],
    tasks: &[TaskHealth],
    excluded: &[&str],
    verbose: bool,
) -> (u16, String) {
    let failed = found.iter().any(|(_, outcome)| *outcome == Outcome::Failed);
    if !failed && !verbose {
        return (200, "ok".to_owned());
    }
    let mut page = String::new();
    for (name, outcome) in found {
        page.push_str(&match outcome {
            Outcome::Well => format!("[+]{name} ok\n"),
            Outcome::Excluded => format!("[+]{name} excluded: ok\n"),
            Outcome::Failed => format!("[-]{name} failed: reason withheld\n"),
        });
        if *name == TASKS {
            page.push_str(&task_lines(tasks));
        }
    }
    let unknown: Vec<String> = excluded
        .iter()
        .filter(|name| !found.iter().any(|(known, _)| known == *name))
        .map(|name| quote(name))
        .collect();
    if !unknown.is_empty() {
        page.push_str(&format!(
            "warn: some health checks cannot be excluded: no matches for {}\n",
            unknown.join(", ")
        ));
    }
    let (code, end) = if failed {
        (500, "failed")
    } else {
        (200, "passed")
    };
    page.push_str(&format!("{root} check {end}\n"));
    (code, page)
}

/// The check of the server's long-lived tasks.
const TASKS: &str = "tasks";

/// Returns a line for each name of a task. The error is in the log: it may quote objects,
/// and this page is public.
fn task_lines(tasks: &[TaskHealth]) -> String {
    let lines = tasks.chunk_by(|a, b| a.name == b.name).map(|tasks| {
        let (name, count) = (tasks[0].name, tasks.len());
        let restarts: u64 = tasks.iter().map(|task| task.restarts).sum();
        let failed = tasks.iter().filter(|task| task.state == State::Failed);
        let waiting = tasks.iter().filter(|task| task.state == State::Restarting);
        let (failed, waiting) = (failed.count(), waiting.count());
        if failed + waiting == 0 {
            return format!("[+]task/{name} ok: {count} running, {restarts} restarts\n");
        }
        format!(
            "[-]task/{name} failed: {waiting} of {count} restarting, {failed} ended, {restarts} restarts\n"
        )
    });
    lines.collect()
}

/// What the server has done once it answers anything at all, by the names that
/// kube-apiserver's hooks for the same have.
const STARTED: &[&str] = &[
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/storage-readiness",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
];

/// The checks of a path, in their order.
fn names(root: &str) -> impl Iterator<Item = &'static str> + use<> {
    let ready = root == "readyz";
    let first: &[&str] = if ready {
        &["ping", "log", "etcd", "etcd-readiness", "informer-sync"]
    } else {
        &["ping", "log", "etcd"]
    };
    let last: &[&str] = if ready {
        &[TASKS, "shutdown"]
    } else {
        &[TASKS]
    };
    first.iter().chain(STARTED).chain(last).copied()
}

/// Whether the store answers.
///
/// # Errors
/// Why it does not.
pub(crate) async fn check_store(storage: &Storage) -> Result<(), StoreError> {
    let read = storage.store().get(PROBE.into(), None);
    match tokio::time::timeout(STORE, read).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(StoreError::Deadline),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_platform_is_named_as_go_names_it() {
        assert_eq!(platform("x86_64"), "linux/amd64");
        assert_eq!(platform("aarch64"), "linux/arm64");
        assert_eq!(platform("riscv64"), "linux/riscv64");
    }

    #[test]
    fn pages_are_kube_apiservers() {
        let well = [("ping", Outcome::Well), ("etcd", Outcome::Excluded)];
        assert_eq!(
            page("livez", &well, &[], &["etcd"], false),
            (200, "ok".into())
        );
        assert_eq!(
            page("livez", &well, &[], &["etcd", "nope"], true),
            (
                200,
                "[+]ping ok\n[+]etcd excluded: ok\nwarn: some health checks cannot be excluded: no matches for \"nope\"\nlivez check passed\n".into()
            )
        );
        let ill = [("ping", Outcome::Well), ("etcd", Outcome::Failed)];
        assert_eq!(
            page("readyz", &ill, &[], &[], false),
            (
                500,
                "[+]ping ok\n[-]etcd failed: reason withheld\nreadyz check failed\n".into()
            )
        );
    }

    #[test]
    fn a_task_that_waits_for_its_restart_is_named() {
        let task = |name, state| TaskHealth {
            name,
            detail: None,
            state,
            restarts: 2,
            last_error: Some("panicked: secret".into()),
        };
        let tasks = [
            task("duty", State::Running),
            task("follower", State::Restarting),
            task("follower", State::Running),
        ];
        let (code, text) = page("livez", &[(TASKS, Outcome::Failed)], &tasks, &[], false);
        assert_eq!(code, 500);
        assert_eq!(
            text,
            "[-]tasks failed: reason withheld\n\
             [+]task/duty ok: 1 running, 2 restarts\n\
             [-]task/follower failed: 1 of 2 restarting, 0 ended, 4 restarts\n\
             livez check failed\n"
        );
    }

    #[test]
    fn a_server_that_is_alive_need_not_be_ready() {
        let live: Vec<_> = names("livez").collect();
        assert!(!live.contains(&"shutdown") && !live.contains(&"informer-sync"));
        let ready: Vec<_> = names("readyz").collect();
        assert_eq!(ready.last(), Some(&"shutdown"));
    }
}
