//! Post-start hooks: what the server itself looks after, the objects that every cluster has
//! and the conditions that nobody else sets.
//!
//! Every hook is a file of one shape: it looks at caches, decides in a pure
//! function what ought to be, and writes the difference. It is done once before
//! the first request is answered, and again whenever a resource that it follows
//! changes, or its time has come; never because of what changed.

mod addresses;
mod api_service_registration;
mod authentication;
mod cluster_info;
mod comparison;
pub(crate) mod context;
mod definition_ends;
mod definitions;
mod events;
mod history;
mod identity;
mod kubernetes;
mod masters;
mod namespaces;
mod node_ports;
mod policy;
mod priority_and_fairness;
mod priority_classes;
mod service_cidr;
mod token_tracking;

use std::sync::Arc;
use std::time::Duration;

use control_supervise::TaskHandle;
use control_types::status::Status;
use futures::future::{BoxFuture, join_all, select_all};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use context::HookContext;

/// A change after a pause is looked at at once; those that follow it within this
/// time are mostly looked at together.
const SETTLE: Duration = Duration::from_millis(20);
/// How long after a failure a hook is tried again.
const RETRY: Duration = Duration::from_secs(1);

/// The work of a hook: makes the world as it should be.
type HookWork = for<'a> fn(&'a HookContext) -> BoxFuture<'a, Result<(), Status>>;

/// One thing that the server looks after, from its start on.
pub(crate) struct PostStartHook {
    /// For logs.
    name: &'static str,
    /// Group and plural of the resources whose changes concern it.
    follows: &'static [(&'static str, &'static str)],
    /// How often it is looked after when nothing changes.
    every: Duration,
    /// For how long changes are gathered that follow each other.
    settle: Duration,
    run: HookWork,
    /// What is done as soon as the server is told to stop, while clients go elsewhere.
    stop: Option<HookWork>,
}

impl PostStartHook {
    /// Runs `every` so often.
    const fn new(name: &'static str, every: Duration, run: HookWork) -> Self {
        Self {
            name,
            follows: &[],
            every,
            settle: SETTLE,
            run,
            stop: None,
        }
    }

    /// Runs when objects of these resources change, too.
    const fn following(mut self, resources: &'static [(&'static str, &'static str)]) -> Self {
        self.follows = resources;
        self
    }

    /// Gathers changes for this long.
    const fn settling(mut self, settle: Duration) -> Self {
        self.settle = settle;
        self
    }

    /// Sets the work that runs once when the server begins to shut down.
    const fn stopping(mut self, stop: HookWork) -> Self {
        self.stop = Some(stop);
        self
    }
}

/// All hooks.
static ALL: &[&PostStartHook] = &[
    &namespaces::HOOK,
    &service_cidr::HOOK,
    &kubernetes::HOOK,
    &authentication::HOOK,
    &cluster_info::HOOK,
    &policy::HOOK,
    &priority_classes::HOOK,
    &priority_and_fairness::HOOK,
    &api_service_registration::REGISTRATION,
    &api_service_registration::CUSTOM,
    &api_service_registration::CUSTOM_KEPT,
    &api_service_registration::AVAILABILITY,
    &definitions::HOOK,
    &definition_ends::HOOK,
    &identity::HOOK,
    &identity::COLLECTION,
    &token_tracking::HOOK,
    &history::HOOK,
    &comparison::HOOK,
];

/// Those that look at what the others made.
static LATER: &[&PostStartHook] = &[
    &priority_and_fairness::DANGLING,
    &addresses::HOOK,
    &node_ports::HOOK,
];

/// Does every hook once.
///
/// # Errors
/// When one cannot be done: the server must not start.
pub(crate) async fn first(context: &HookContext) -> Result<(), Error> {
    for hooks in [ALL, LATER] {
        // Those that are at the same time share the store's commits.
        let all = hooks.iter().map(|hook| async move {
            (hook.run)(context)
                .await
                .map_err(|source| Error::PostStartHook {
                    hook: hook.name,
                    source,
                })
        });
        join_all(all).await.into_iter().collect::<Result<(), _>>()?;
    }
    Ok(())
}

/// Starts the hooks, which end at `shutdown`; those that take something back end when the
/// server is `stopping`.
pub(crate) fn start(
    context: &Arc<HookContext>,
    stopping: &CancellationToken,
    shutdown: &CancellationToken,
) -> Vec<TaskHandle> {
    let all = ALL.iter().chain(LATER).map(|hook| {
        let end = match hook.stop {
            Some(_) => stopping.clone(),
            None => shutdown.clone(),
        };
        let context = Arc::clone(context);
        control_supervise::task("duty")
            .detail(hook.name)
            .until(&end.clone())
            .spawn_restarting(move || look_after(hook, Arc::clone(&context), end.clone()))
    });
    all.collect()
}

async fn look_after(
    hook: &'static PostStartHook,
    context: Arc<HookContext>,
    end: CancellationToken,
) {
    let mut wakes: Vec<watch::Receiver<u64>> = hook
        .follows
        .iter()
        .filter_map(|(group, plural)| {
            Some(context.resource(group, plural).ok()?.cache.as_ref()?.wake())
        })
        .collect();
    for wake in &mut wakes {
        // What the first round made may concern the others.
        wake.mark_changed();
    }
    let mut wait = hook.every;
    let mut looked = Instant::now();
    loop {
        let changed = async {
            if wakes.is_empty() {
                return std::future::pending().await;
            }
            let all = wakes.iter_mut().map(|wake| Box::pin(wake.changed()));
            let _ = select_all(all).await;
        };
        tokio::select! {
            () = end.cancelled() => break,
            () = changed => tokio::time::sleep_until(looked + hook.settle).await,
            () = tokio::time::sleep(wait) => {}
        }
        // Before the look: what comes during it is looked at again.
        for wake in &mut wakes {
            wake.mark_unchanged();
        }
        wait = hook.every;
        if let Err(error) = (hook.run)(&context).await {
            tracing::warn!(hook = hook.name, %error, "the server cannot look after its own");
            wait = RETRY.min(hook.every);
        }
        looked = Instant::now();
    }
    if let Some(stop) = hook.stop
        && let Err(error) = stop(&context).await
    {
        tracing::warn!(hook = hook.name, %error, "the server cannot take back its own");
    }
}
