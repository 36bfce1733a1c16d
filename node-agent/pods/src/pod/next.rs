//! What to do next for a pod: a pure function of what is wanted, what the
//! runtime has, and the time.
//!
//! [`next`] is called after every change of any of the three and after every
//! finished action, with the whole state; it keeps nothing. So a lost event,
//! a failed action or a restart of the agent all heal the same way: by the
//! next call.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use node_agent_cri::api::ContainerState;
use node_agent_cri::observed;
use node_agent_cri::observed::ObservedPod;
use node_agent_objects::pod::{Container, Pod, PodSpec, ResourceRequirements, RestartPolicy};
use node_agent_objects::status::ContainerWaiting;
use node_agent_objects::times::{from_nanos, go_duration};
use node_agent_pod_resources::resize;
use node_agent_pod_resources::resize::ResizeAction;
use rustc_hash::{FxHashMap, FxHashSet};

use super::backoff::{Backoff, Wait};
use super::definition::definition_hash;
use super::restarts::{init_restarts, reset, restarts};

/// Something to be done, in the order given.
#[derive(Clone, Debug, PartialEq)]
pub enum PodAction {
    /// Ends all that runs of the pod, sandboxes last.
    KillPod {
        /// Seconds that containers get to end by themselves.
        grace: i64,
    },
    /// Makes the pod's volumes.
    MountVolumes,
    /// Makes a sandbox.
    CreateSandbox {
        /// Its number, from 0.
        attempt: u32,
    },
    /// Ends one container.
    Kill {
        /// The runtime's id of it.
        id: String,
        /// Its name.
        name: String,
        /// What the event says.
        message: String,
        /// Which probe asked for it, if one did.
        probe: Option<ProbeVerdict>,
        /// Whether another is started in its place whatever the restart
        /// policy says, and at once.
        again: bool,
    },
    /// Brings the limits of running containers, and of the pod, to what is
    /// granted.
    Resize,
    /// Ends and removes all containers, in this order, to begin from the first:
    /// by id, and whether it still runs.
    Reset {
        /// Those that asked for it come last: until then it is seen that it
        /// has to be done.
        containers: Vec<(String, bool)>,
    },
    /// Fetches the image, makes the container and starts it.
    Start {
        /// Its name.
        name: String,
    },
}

/// What a probe found against a running container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeVerdict {
    /// The liveness probe failed for good.
    Dead,
    /// The startup probe failed for good.
    NeverStarted,
}

/// A start that failed before there was a container.
#[derive(Clone, Debug, PartialEq)]
pub struct StartFailure {
    /// When it failed.
    pub at: Timestamp,
    /// How long to wait before it is tried again.
    pub retry: Wait,
    /// The waiting reason to show.
    pub reason: String,
    /// The waiting message to show.
    pub message: String,
    /// What to show instead from a second after the failure on.
    pub then: Option<ContainerWaiting>,
}

/// What the worker remembers of a pod that the runtime does not.
#[derive(Clone, Debug, Default)]
pub struct PodMemory {
    /// By container name and definition.
    pub restarts: FxHashMap<(String, String), Backoff>,
    /// By container name.
    pub failures: FxHashMap<String, StartFailure>,
    /// Sandboxes are not made before.
    pub sandbox_retry: Option<Wait>,
    /// By container id: whether the startup probe and hook are through.
    pub started: FxHashMap<String, bool>,
    /// By container id.
    pub verdicts: FxHashMap<String, ProbeVerdict>,
    /// By container id: the resources in force, with limits that are the pod's.
    pub in_force: FxHashMap<String, ResourceRequirements>,
    /// The same of the pod as a whole, where it is known.
    pub pod_in_force: Option<ResourceRequirements>,
    /// The generation whose resize is under way.
    pub resizing: Option<i64>,
    /// Ids of containers that were ended to be started anew.
    pub again: FxHashSet<String>,
    /// Why the last change of resources failed.
    pub resize_error: Option<String>,
    /// Resources are not changed before.
    pub resize_retry: Option<Wait>,
    /// Whether the pod's volumes are there.
    pub volumes_ready: bool,
    /// Volumes are not tried before.
    pub volumes_retry: Option<Wait>,
}

/// What is meant to become of the pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodGoal {
    /// It shall run, as far as its restart policy goes.
    Run,
    /// It shall end, within so many seconds.
    End {
        /// Seconds that its containers get.
        grace: i64,
    },
}

/// All that [`next`] looks at.
#[derive(Clone, Copy, Debug)]
pub struct PlanInput<'a> {
    /// The pod as the API has it.
    pub pod: &'a Pod,
    /// What is meant to become of it.
    pub aim: PodGoal,
    /// What the runtime has of it.
    pub observed: &'a ObservedPod,
    /// What the worker remembers.
    pub memory: &'a PodMemory,
    /// Now.
    pub now: Timestamp,
}

/// What [`next`] found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanStep {
    /// To be done now, in order.
    pub actions: Vec<PodAction>,
    /// By container name: what it waits for.
    pub waiting: BTreeMap<String, ContainerWaiting>,
    /// When to ask again though nothing happened.
    pub wake: Option<Timestamp>,
    /// Whether nothing runs and nothing will.
    pub finished: bool,
}

/// Decides what is to be done for the pod.
#[must_use]
pub fn next(input: &PlanInput<'_>) -> PlanStep {
    match input.aim {
        PodGoal::End { grace } => end(input, grace),
        PodGoal::Run => run(input),
    }
}

/// Whether the pod needs a new sandbox, and which number that has.
#[must_use]
pub fn sandbox_needed(pod: &Pod, observed: &ObservedPod) -> Option<u32> {
    match observed.sandboxes.first() {
        None => Some(0),
        Some(newest) if !newest.ready => Some(newest.attempt + 1),
        Some(newest) if !pod.spec.host_network && newest.ips.is_empty() => Some(newest.attempt + 1),
        Some(_) => None,
    }
}

/// Whether a regular container was ever made: initialisation is over then.
fn initialised(spec: &PodSpec, observed: &ObservedPod, sandbox: Option<&str>) -> bool {
    spec.containers.iter().any(|c| match sandbox {
        Some(id) => observed.latest_in(id, &c.name).is_some(),
        None => observed.latest(&c.name).is_some(),
    })
}

fn end(input: &PlanInput<'_>, grace: i64) -> PlanStep {
    if input.observed.is_still() {
        return PlanStep {
            finished: true,
            ..PlanStep::default()
        };
    }
    PlanStep {
        actions: vec![PodAction::KillPod { grace }],
        ..PlanStep::default()
    }
}

fn run(input: &PlanInput<'_>) -> PlanStep {
    let (spec, observed) = (&input.pod.spec, input.observed);
    let mut step = PlanStep::default();
    if let Some(attempt) = sandbox_needed(input.pod, observed) {
        return create(input, attempt);
    }
    let Some(sandbox) = observed.live_sandbox() else {
        return step;
    };
    if !prepare_volumes(input, &mut step) {
        return step;
    }
    if let Some(containers) = reset(spec, observed) {
        step.actions.push(PodAction::Reset { containers });
        return step;
    }
    for container in &spec.ephemeral_containers {
        if observed.latest(&container.name).is_none() {
            start(input, container, None, &mut step);
        }
    }
    match init(input, &sandbox.id, &mut step) {
        InitProgress::Failed => {
            kill_rest(input, &mut step);
            return step;
        }
        InitProgress::Waiting => {
            resize(input, &mut step);
            return step;
        }
        InitProgress::Done => {}
    }

    let mut alive = false;
    for container in &spec.containers {
        let latest = observed.latest(&container.name);
        match latest {
            None => {
                alive = true;
                start(input, container, None, &mut step);
            }
            Some(record) if record.running() => {
                alive |= keep_or_kill(input, container, record, &mut step);
            }
            Some(record) if record.state == ContainerState::Unknown => {
                step.actions.push(PodAction::Kill {
                    id: record.id.clone(),
                    name: container.name.clone(),
                    message: "Container is in \"Unknown\" state, try killing it before restart"
                        .to_owned(),
                    probe: None,
                    again: false,
                });
                alive = true;
            }
            Some(record) if record.state == ContainerState::Created => {
                alive = true;
                start(input, container, Some(record), &mut step);
            }
            Some(record) => {
                if input.memory.again.contains(&record.id)
                    || restarts(container, spec, record.exit_code)
                {
                    alive = true;
                    start(input, container, Some(record), &mut step);
                }
            }
        }
    }
    if alive {
        resize(input, &mut step);
    } else {
        kill_rest(input, &mut step);
    }
    step
}

/// Has running containers get what is granted, after those that are ended for it.
fn resize(input: &PlanInput<'_>, step: &mut PlanStep) {
    let mut decided = step.actions.iter();
    let changed = pod_changes(input.pod, input.memory)
        || changes(input.pod, input.observed, input.memory)
            .any(|change| change == ResizeAction::Update);
    if !changed || decided.any(|action| matches!(action, PodAction::Kill { again: true, .. })) {
        return;
    }
    match input.memory.resize_retry.and_then(|w| w.due(input.now)) {
        Some(retry) => wake(step, retry),
        None => step.actions.push(PodAction::Resize),
    }
}

/// Nothing is left to run: ends sidecars and sandbox.
fn kill_rest(input: &PlanInput<'_>, step: &mut PlanStep) {
    if input.observed.is_still() {
        step.finished = true;
    } else {
        step.actions = vec![PodAction::KillPod {
            grace: input.pod.spec.grace_period(),
        }];
    }
}

fn create(input: &PlanInput<'_>, attempt: u32) -> PlanStep {
    let (spec, observed) = (&input.pod.spec, input.observed);
    let mut step = PlanStep::default();
    let over = if attempt != 0
        && spec.restart_policy == RestartPolicy::Never
        && !observed.containers.is_empty()
        && spec.containers.iter().all(|c| c.restart_policy.is_none())
    {
        true
    } else {
        let all_done = spec.containers.iter().all(|c| {
            observed
                .latest(&c.name)
                .is_some_and(|record| record.exited() && !restarts(c, spec, record.exit_code))
        });
        all_done && initialised(spec, observed, None)
    };
    if over {
        kill_rest(input, &mut step);
        return step;
    }
    if !observed.is_still() {
        step.actions.push(PodAction::KillPod {
            grace: spec.grace_period(),
        });
    }
    if !prepare_volumes(input, &mut step) {
        return step;
    }
    match input.memory.sandbox_retry.and_then(|w| w.due(input.now)) {
        Some(retry) => wake(&mut step, retry),
        None => step.actions.push(PodAction::CreateSandbox { attempt }),
    }
    step
}

/// Whether the volumes are there; if not, has them made.
fn prepare_volumes(input: &PlanInput<'_>, step: &mut PlanStep) -> bool {
    if input.memory.volumes_ready {
        return true;
    }
    match input.memory.volumes_retry.and_then(|w| w.due(input.now)) {
        Some(retry) => wake(step, retry),
        None => step.actions.push(PodAction::MountVolumes),
    }
    false
}

enum InitProgress {
    Done,
    Waiting,
    Failed,
}

fn init(input: &PlanInput<'_>, sandbox: &str, step: &mut PlanStep) -> InitProgress {
    let (spec, observed) = (&input.pod.spec, input.observed);
    let initialised = initialised(spec, observed, Some(sandbox));
    let last_made = spec
        .init_containers
        .iter()
        .rposition(|c| observed.latest_in(sandbox, &c.name).is_some());
    for (index, container) in spec.init_containers.iter().enumerate() {
        let record = observed.latest_in(sandbox, &container.name);
        // a later one was made: this one was through once
        let passed = initialised || last_made.is_some_and(|last| last > index);
        if container.is_sidecar() {
            match record {
                Some(record) if record.running() => {
                    keep_or_kill(input, container, record, step);
                    if !passed
                        && !input
                            .memory
                            .started
                            .get(&record.id)
                            .copied()
                            .unwrap_or(false)
                    {
                        return InitProgress::Waiting;
                    }
                }
                Some(record) if record.state == ContainerState::Unknown => {
                    step.actions.push(unknown(record));
                    if !passed {
                        return InitProgress::Waiting;
                    }
                }
                other => {
                    start(input, container, other, step);
                    if !passed {
                        return InitProgress::Waiting;
                    }
                }
            }
            continue;
        }
        if passed && record.is_none_or(|r| r.exited()) {
            continue;
        }
        match record {
            None => {
                start(input, container, observed.latest(&container.name), step);
                return InitProgress::Waiting;
            }
            Some(record) if record.running() => {
                restart_for_size(input, container, record, step);
                return InitProgress::Waiting;
            }
            Some(record) if record.state == ContainerState::Unknown => {
                step.actions.push(unknown(record));
                return InitProgress::Waiting;
            }
            Some(record) if record.exited() && input.memory.again.contains(&record.id) => {
                start(input, container, Some(record), step);
                return InitProgress::Waiting;
            }
            Some(record) if record.exited() && record.exit_code == 0 => {}
            Some(record) if record.exited() => {
                if !init_restarts(container, spec, record.exit_code) {
                    return InitProgress::Failed;
                }
                start(input, container, Some(record), step);
                return InitProgress::Waiting;
            }
            Some(record) => {
                start(input, container, Some(record), step);
                return InitProgress::Waiting;
            }
        }
    }
    InitProgress::Done
}

fn unknown(record: &observed::ObservedContainer) -> PodAction {
    PodAction::Kill {
        id: record.id.clone(),
        name: record.name.clone(),
        message: "Init container is in \"Unknown\" state, try killing it before restart".to_owned(),
        probe: None,
        again: false,
    }
}

/// Ends a running container that must not go on; says whether the pod still
/// has use for a container of this name.
fn keep_or_kill(
    input: &PlanInput<'_>,
    container: &Container,
    record: &Arc<observed::ObservedContainer>,
    step: &mut PlanStep,
) -> bool {
    let verdict = input.memory.verdicts.get(&record.id).copied();
    let kill = |message: String, probe, again| PodAction::Kill {
        id: record.id.clone(),
        name: container.name.clone(),
        message,
        probe,
        again,
    };
    let why = if !record.hash.is_empty() && record.hash != definition_hash(container) {
        let kind = kind_of(input.pod, &container.name);
        let name = &container.name;
        Some(format!(
            "{kind} {name} definition changed, will be restarted"
        ))
    } else {
        verdict.and_then(|verdict| probe_kill_message(input.pod, &container.name, verdict))
    };
    let Some(message) = why else {
        restart_for_size(input, container, record, step);
        return true;
    };
    step.actions.push(kill(message, verdict, verdict.is_none()));
    true
}

fn kind_of(pod: &Pod, container: &str) -> &'static str {
    let mut init = pod.spec.init_containers.iter();
    if init.any(|c| c.name == container) {
        "Init container"
    } else {
        "Container"
    }
}

/// What the event says when a container is ended for what a probe found; none when the
/// pod has no such container.
#[must_use]
pub fn probe_kill_message(pod: &Pod, container: &str, verdict: ProbeVerdict) -> Option<String> {
    let kind = kind_of(pod, container);
    let probe = match verdict {
        ProbeVerdict::Dead => "liveness",
        ProbeVerdict::NeverStarted => "startup",
    };
    // What a kill ends with is no success: exit code 137 or so.
    let again = restarts(pod.spec.container(container)?, &pod.spec, 137);
    let then = if again { ", will be restarted" } else { "" };
    Some(format!("{kind} {container} failed {probe} probe{then}"))
}

/// Ends a running container that gets what it was granted only when it is started anew.
fn restart_for_size(
    input: &PlanInput<'_>,
    container: &Container,
    record: &observed::ObservedContainer,
    step: &mut PlanStep,
) {
    if change_of(input.pod, container, record, input.memory) == ResizeAction::Restart {
        step.actions.push(PodAction::Kill {
            id: record.id.clone(),
            name: container.name.clone(),
            message: format!("Container {} resize requires restart", container.name),
            probe: None,
            again: true,
        });
    }
}

/// What a container's resources need.
fn change_of(
    pod: &Pod,
    container: &Container,
    record: &observed::ObservedContainer,
    memory: &PodMemory,
) -> ResizeAction {
    let in_force = memory.in_force.get(&record.id);
    in_force.map_or(ResizeAction::None, |held| {
        resize::change(pod.spec.resources.as_ref(), container, held)
    })
}

/// What the resources of all that runs need.
fn changes<'a>(
    pod: &'a Pod,
    observed: &'a ObservedPod,
    memory: &'a PodMemory,
) -> impl Iterator<Item = ResizeAction> + 'a {
    resize::resizable(&pod.spec).filter_map(|container| {
        let record = observed.latest(&container.name)?;
        record
            .running()
            .then(|| change_of(pod, container, record, memory))
    })
}

/// Whether the pod as a whole has other resources than it was granted.
#[must_use]
pub fn pod_changes(pod: &Pod, memory: &PodMemory) -> bool {
    let held = memory.pod_in_force.as_ref();
    held.is_some_and(|held| !resize::same(pod.spec.resources.as_ref(), Some(held)))
}

/// Whether a resize is under way: the pod or a running container has other
/// resources than it was granted, or one was ended to get them.
#[must_use]
pub fn is_resizing(pod: &Pod, observed: &ObservedPod, memory: &PodMemory) -> bool {
    let is_begun_anew = |container: &Container| {
        let record = observed.latest(&container.name);
        record.is_some_and(|record| {
            record.exited()
                && memory.again.contains(&record.id)
                && change_of(pod, container, record, memory) != ResizeAction::None
        })
    };
    pod_changes(pod, memory)
        || changes(pod, observed, memory).any(|change| change != ResizeAction::None)
        || resize::resizable(&pod.spec).any(is_begun_anew)
}

/// What limits of the pod are made of, as it is in force.
#[must_use]
pub fn in_force(pod: &Pod, observed: &ObservedPod, memory: &PodMemory) -> PodSpec {
    let held = |name: &str| {
        let record = observed.latest(name).filter(|record| record.running())?;
        memory.in_force.get(&record.id)
    };
    resize::in_force(&pod.spec, held, memory.pod_in_force.as_ref())
}

/// Has the container started, unless it must wait.
fn start(
    input: &PlanInput<'_>,
    container: &Container,
    before: Option<&Arc<observed::ObservedContainer>>,
    step: &mut PlanStep,
) {
    let name = &container.name;
    if let Some(failure) = input.memory.failures.get(name)
        && let Some(retry) = failure.retry.due(input.now)
    {
        let change = super::backoff::later(failure.at, Duration::from_secs(1));
        let waiting = match &failure.then {
            Some(then) if input.now >= change => then.clone(),
            then => {
                if then.is_some() {
                    wake(step, change);
                }
                ContainerWaiting {
                    reason: failure.reason.clone(),
                    message: failure.message.clone(),
                }
            }
        };
        step.waiting.insert(name.clone(), waiting);
        wake(step, retry);
        return;
    }
    if let Some(before) = before.filter(|b| b.exited() && !input.memory.again.contains(&b.id)) {
        let key = (name.clone(), definition_hash(container));
        let ended = from_nanos(before.finished_at);
        if let Some(backoff) = input.memory.restarts.get(&key)
            && let Some(due) = backoff.due(ended, input.now)
        {
            step.waiting.insert(
                name.clone(),
                ContainerWaiting {
                    reason: "CrashLoopBackOff".to_owned(),
                    message: format!(
                        "back-off {} restarting failed container={name} pod={}",
                        go_duration(backoff.current()),
                        describe(input.pod),
                    ),
                },
            );
            wake(step, due);
            return;
        }
    }
    step.actions.push(PodAction::Start { name: name.clone() });
}

fn wake(step: &mut PlanStep, at: Timestamp) {
    step.wake = Some(step.wake.map_or(at, |now| now.min(at)));
}

/// `name_namespace(uid)`: how messages name a pod.
#[must_use]
pub fn describe(pod: &Pod) -> String {
    format!("{}_{}({})", pod.name(), pod.namespace(), pod.uid())
}

#[cfg(test)]
#[path = "next_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "history_tests.rs"]
mod histories;
