//! Ends containers and pods, gently first.

use std::sync::Arc;
use std::time::{Duration, Instant};

use node_agent_cri::Runtime;
use node_agent_cri::api::{ContainerState, SandboxId, StopContainerRequest};
use node_agent_cri::observed::{ObservedContainer as Record, ObservedPod};
use node_agent_objects::pod::Pod;
use node_agent_probes::hooks;
use node_agent_probes::hooks::{HookOutcome, HookTarget};

use super::next::ProbeVerdict;
use crate::pod::context::PodContext;

/// Seconds that a container gets at least after its hook took all the time.
const LEAST: i64 = 2;

/// Ends all that runs of a pod: its containers at the same time, then its
/// sidecars in reverse order, then its sandboxes. `grace` is for all of it.
///
/// # Errors
/// When the runtime refuses.
pub async fn pod(
    shared: &PodContext,
    pod: &Pod,
    observed: &ObservedPod,
    grace: i64,
) -> node_agent_cri::Result<()> {
    let deadline = Instant::now() + Duration::from_secs(u64::try_from(grace).unwrap_or(0));
    let running: Vec<&Arc<Record>> = observed
        .containers
        .iter()
        .filter(|c| matches!(c.state, ContainerState::Running | ContainerState::Unknown))
        .collect();
    let sidecar = |name: &str| {
        pod.spec
            .init_containers
            .iter()
            .position(|c| c.name == name && c.is_sidecar())
    };
    let (mut sidecars, others): (Vec<_>, Vec<_>) = running
        .into_iter()
        .partition(|record| sidecar(&record.name).is_some());
    let ends = others.iter().map(|record| {
        let message = format!("Stopping container {}", record.name);
        container(shared, pod, observed, record, grace, message)
    });
    for result in futures::future::join_all(ends).await {
        result?;
    }
    sidecars.sort_by_key(|record| std::cmp::Reverse(sidecar(&record.name)));
    for record in sidecars {
        let left = deadline.saturating_duration_since(Instant::now()).as_secs();
        let left = i64::try_from(left)
            .unwrap_or(i64::MAX)
            .max(LEAST.min(grace.max(1)));
        let message = format!("Stopping container {}", record.name);
        container(shared, pod, observed, record, left, message).await?;
    }
    sandboxes(&*shared.runtime, observed).await
}

/// Stops all sandboxes of a pod, also those that died: their network stays until
/// then.
///
/// # Errors
/// When the runtime refuses.
pub async fn sandboxes(
    runtime: &dyn Runtime,
    observed: &ObservedPod,
) -> node_agent_cri::Result<()> {
    for sandbox in &observed.sandboxes {
        let stopped = runtime
            .stop_pod_sandbox(SandboxId {
                pod_sandbox_id: sandbox.id.clone(),
            })
            .await;
        match stopped {
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Ends one container: its `preStop` hook first, then its stop signal, then,
/// when `grace` seconds are over, its end.
///
/// # Errors
/// When the runtime refuses.
pub async fn container(
    shared: &PodContext,
    pod: &Pod,
    observed: &ObservedPod,
    record: &Record,
    grace: i64,
    message: String,
) -> node_agent_cri::Result<()> {
    shared
        .events
        .normal(pod, Some(&record.name), "Killing", message);
    let mut left = grace.max(1);
    let definition = pod.spec.container(&record.name);
    let hook = definition
        .and_then(|c| c.lifecycle.as_ref())
        .and_then(|l| l.pre_stop.as_ref());
    if let (Some(container), Some(hook)) = (definition, hook)
        && grace > 0
        && record.running()
    {
        let begun = Instant::now();
        let place = HookTarget {
            runtime: &*shared.runtime,
            container,
            id: &record.id,
            ip: shared.address_of(pod, observed),
        };
        let limit = Duration::from_secs(u64::try_from(grace).unwrap_or(0));
        if let HookOutcome::Failure(why) | HookOutcome::Unknown(why) =
            hooks::hook(hook, place, limit).await
        {
            tracing::warn!(
                pod = pod.name(),
                container = record.name,
                why,
                "preStop hook failed"
            );
            shared.events.warning(
                pod,
                Some(&record.name),
                "FailedPreStopHook",
                "PreStopHook failed",
            );
        }
        let took = i64::try_from(begun.elapsed().as_secs()).unwrap_or(i64::MAX);
        left = (grace - took).max(LEAST);
    }
    stop(&*shared.runtime, &record.id, left).await
}

/// Signals a container, and kills it `grace` seconds later.
///
/// # Errors
/// When the runtime refuses; a container that is gone is no error.
pub async fn stop(runtime: &dyn Runtime, id: &str, grace: i64) -> node_agent_cri::Result<()> {
    let stopped = runtime
        .stop_container(StopContainerRequest {
            container_id: id.to_owned(),
            timeout: grace,
        })
        .await;
    match stopped {
        Err(error) if !error.is_not_found() => Err(error),
        _ => Ok(()),
    }
}

/// Seconds that a container gets whose probe failed: the probe's own, or the
/// pod's.
#[must_use]
pub fn grace_of(pod: &Pod, container: &str, probe: Option<ProbeVerdict>) -> i64 {
    let definition = pod.spec.container(container);
    let own = definition.and_then(|c| match probe {
        Some(ProbeVerdict::Dead) => c.liveness_probe.as_ref(),
        Some(ProbeVerdict::NeverStarted) => c.startup_probe.as_ref(),
        None => None,
    });
    own.and_then(|p| p.termination_grace_period_seconds)
        .unwrap_or_else(|| pod.spec.grace_period())
}
