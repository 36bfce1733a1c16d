//! Post-start hooks: what the server itself looks after, the objects that every cluster has
//! and the conditions that nobody else sets.
//!
//! Every hook is a file of one shape: it looks at caches, decides in a pure
//! function what ought to be, and writes the difference. It is done once before
//! the first request is answered, and again whenever a resource that it follows
//! changes, or its time has come; never because of what changed.

mod addresses;
mod api_services;
mod authentication;
mod cluster_info;
pub(crate) mod comparison;
mod definition_ends;
mod definitions;
mod events;
pub(crate) mod flow_control;
mod flow_schemas;
pub(crate) mod history;
mod identity;
mod kubernetes;
mod masters;
mod namespaces;
mod node_ports;
mod policy;
mod priority_classes;
mod service_cidr;
mod token_tracking;

use std::sync::Arc;
use std::time::Duration;

use control_supervise::Running;
use control_types::status::Status;
use futures::future::{BoxFuture, join_all, select_all};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::api::Api;
use crate::server::Error;

pub(crate) use api_services::local_priority;

/// A change after a pause is looked at at once; those that follow it within this
/// time are mostly looked at together.
const SETTLE: Duration = Duration::from_millis(20);
/// How long after a failure a hook is tried again.
const RETRY: Duration = Duration::from_secs(1);

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
    /// Makes the world as it should be.
    run: for<'a> fn(&'a Api) -> BoxFuture<'a, Result<(), Status>>,
    /// What is done as soon as the server is told to stop, while clients go elsewhere.
    stop: Option<for<'a> fn(&'a Api) -> BoxFuture<'a, Result<(), Status>>>,
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
    &flow_control::HOOK,
    &api_services::REGISTRATION,
    &api_services::CUSTOM,
    &api_services::CUSTOM_KEPT,
    &api_services::AVAILABILITY,
    &definitions::HOOK,
    &definition_ends::HOOK,
    &identity::HOOK,
    &identity::COLLECTION,
    &token_tracking::HOOK,
    &history::HOOK,
    &comparison::HOOK,
];

/// Those that look at what the others made.
static LATER: &[&PostStartHook] = &[&flow_schemas::HOOK, &addresses::HOOK, &node_ports::HOOK];

/// Does every hook once.
///
/// # Errors
/// When one cannot be done: the server must not start.
pub(crate) async fn first(api: &Api) -> Result<(), Error> {
    for hooks in [ALL, LATER] {
        // Those that are at the same time share the store's commits.
        let all = hooks.iter().map(|hook| async move {
            (hook.run)(api)
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

/// Starts the hooks, which end at shutdown.
pub(crate) fn start(api: &Arc<Api>, shutdown: &CancellationToken) -> Vec<Running> {
    let all = ALL.iter().chain(LATER).map(|hook| {
        let end = match hook.stop {
            Some(_) => api.lifecycle.stopping().clone(),
            None => shutdown.clone(),
        };
        let api = Arc::clone(api);
        control_supervise::task("duty")
            .detail(hook.name)
            .until(&end.clone())
            .spawn_restarting(move || look_after(hook, Arc::clone(&api), end.clone()))
    });
    all.collect()
}

async fn look_after(hook: &'static PostStartHook, api: Arc<Api>, end: CancellationToken) {
    let mut wakes: Vec<watch::Receiver<u64>> = hook
        .follows
        .iter()
        .filter_map(|(group, plural)| {
            Some(api.resource(group, plural).ok()?.cache.as_ref()?.wake())
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
        if let Err(error) = (hook.run)(&api).await {
            tracing::warn!(hook = hook.name, %error, "the server cannot look after its own");
            wait = RETRY.min(hook.every);
        }
        looked = Instant::now();
    }
    if let Some(stop) = hook.stop
        && let Err(error) = stop(&api).await
    {
        tracing::warn!(hook = hook.name, %error, "the server cannot take back its own");
    }
}
