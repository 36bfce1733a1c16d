//! A pod's conditions: pure.

use node_agent_objects::status::{PodCondition, PodStatus};
use node_agent_objects::times::rfc3339;

use super::next;
use super::restarts::{may_reset, reset};
use super::status::StatusInput;

/// The conditions that the agent owns; all others belong to someone else.
pub const OWN_CONDITIONS: [&str; 5] = [
    "PodReadyToStartContainers",
    "Initialized",
    "Ready",
    "ContainersReady",
    "PodScheduled",
];

/// Conditions of a resize: the agent's own, and only there while there is one.
pub const RESIZE_CONDITIONS: [&str; 2] = ["PodResizePending", "PodResizeInProgress"];

/// The condition of a pod whose containers are removed to begin anew. Only
/// pods have it that have a rule for it.
pub const RESETTING: &str = "AllContainersRestarting";

/// The condition of a pod that goes for the node's sake; others set it too.
pub const DISRUPTION: &str = "DisruptionTarget";

/// The conditions of a pod with that status: the agent's, and others' as they
/// are. `started` says whether a regular container ever was.
pub(super) fn conditions(
    input: &StatusInput<'_>,
    status: &PodStatus,
    started: bool,
) -> Vec<PodCondition> {
    let sandbox = next::sandbox_needed(input.pod, input.observed).is_none();
    let initialized = initialized(input, status, started);
    let containers = containers_ready(input, status);
    let ready = if containers.0 {
        gates(input)
    } else {
        containers.clone()
    };
    let plain = |truth: bool| (truth, String::new(), String::new());
    let mut conditions: Vec<PodCondition> = input
        .pod
        .status
        .conditions
        .iter()
        .filter(|c| {
            !OWN_CONDITIONS.contains(&c.r#type.as_str())
                && !RESIZE_CONDITIONS.contains(&c.r#type.as_str())
                && c.r#type != RESETTING
        })
        .cloned()
        .collect();
    let found = [plain(sandbox), initialized, ready, containers, plain(true)];
    let resizes = if input.terminal {
        [None, None]
    } else {
        let in_progress = next::is_resizing(input.pod, input.observed, input.memory);
        let error = input.memory.resize_error.clone();
        [
            input
                .pending
                .map(|p| finding(true, p.reason, p.message.clone())),
            in_progress.then(|| match error {
                Some(error) => finding(true, "Error", error),
                None => plain(true),
            }),
        ]
    };
    let disrupted = input.sentence.filter(|s| s.disruption);
    if disrupted.is_some() {
        conditions.retain(|c| c.r#type != DISRUPTION);
    }
    let disrupted = disrupted.map(|s| {
        (
            DISRUPTION,
            finding(true, "TerminationByKubelet", s.message.clone()),
        )
    });
    let resetting = resetting(input, status).map(|found| (RESETTING, found));
    let always = OWN_CONDITIONS
        .into_iter()
        .zip(found)
        .chain(resetting)
        .chain(disrupted);
    let resizing = RESIZE_CONDITIONS
        .into_iter()
        .zip(resizes)
        .filter_map(|(kind, found)| Some((kind, found?)));
    for (r#type, (truth, reason, message)) in always.chain(resizing) {
        let value = if truth { "True" } else { "False" };
        let old = input
            .old
            .condition(r#type)
            .or_else(|| input.pod.status.condition(r#type))
            .filter(|old| old.status == value);
        conditions.push(PodCondition {
            r#type: r#type.to_owned(),
            observed_generation: status.observed_generation,
            status: value.to_owned(),
            last_probe_time: None,
            last_transition_time: old
                .and_then(|old| old.last_transition_time.clone())
                .or_else(|| Some(rfc3339(input.now))),
            reason,
            message,
        });
    }
    conditions
}

type Finding = (bool, String, String);

fn finding(truth: bool, reason: &str, message: String) -> Finding {
    (truth, reason.to_owned(), message)
}

fn initialized(input: &StatusInput<'_>, status: &PodStatus, started: bool) -> Finding {
    let incomplete: Vec<&str> = input
        .pod
        .spec
        .init_containers
        .iter()
        .zip(&status.init_container_statuses)
        .filter(|(container, status)| {
            if container.is_sidecar() {
                status.started != Some(true)
            } else {
                !status.ready
            }
        })
        .map(|(container, _)| container.name.as_str())
        .collect();
    if status.phase == "Succeeded" {
        return finding(true, "PodCompleted", String::new());
    }
    // what was initialised once is so for good, though all may begin anew
    let was = input
        .old
        .condition("Initialized")
        .is_some_and(|c| c.status == "True");
    if started || incomplete.is_empty() || was {
        return finding(true, "", String::new());
    }
    finding(
        false,
        "ContainersNotInitialized",
        format!(
            "containers with incomplete status: [{}]",
            incomplete.join(" ")
        ),
    )
}

fn containers_ready(input: &StatusInput<'_>, status: &PodStatus) -> Finding {
    let spec = &input.pod.spec;
    let sidecars = spec
        .init_containers
        .iter()
        .zip(&status.init_container_statuses)
        .filter(|(container, _)| container.is_sidecar());
    let unready: Vec<&str> = sidecars
        .chain(spec.containers.iter().zip(&status.container_statuses))
        .filter(|(_, status)| !status.ready)
        .map(|(container, _)| container.name.as_str())
        .collect();
    match status.phase.as_str() {
        "Succeeded" => finding(false, "PodCompleted", String::new()),
        "Failed" => finding(false, "PodFailed", String::new()),
        _ if unready.is_empty() => finding(true, "", String::new()),
        _ => finding(
            false,
            "ContainersNotReady",
            format!("containers with unready status: [{}]", unready.join(" ")),
        ),
    }
}

fn gates(input: &StatusInput<'_>) -> Finding {
    let mut closed = Vec::new();
    for gate in &input.pod.spec.readiness_gates {
        let name = &gate.condition_type;
        match input.pod.status.condition(name) {
            None => closed.push(format!(
                "corresponding condition of pod readiness gate \"{name}\" does not exist."
            )),
            Some(condition) if condition.status != "True" => closed.push(format!(
                "the status of pod readiness gate \"{name}\" is not \"True\", but {}",
                condition.status
            )),
            Some(_) => {}
        }
    }
    if closed.is_empty() {
        finding(true, "", String::new())
    } else {
        finding(false, "ReadinessGatesNotReady", closed.join(", "))
    }
}

/// Whether containers are being removed to begin anew, or just were.
pub(super) fn is_resetting(input: &StatusInput<'_>) -> bool {
    may_reset(&input.pod.spec)
        && (reset(&input.pod.spec, input.observed).is_some()
            || input
                .old
                .condition(RESETTING)
                .is_some_and(|c| c.status == "True"))
}

/// Whether the pod's containers are still to be removed.
fn resetting(input: &StatusInput<'_>, status: &PodStatus) -> Option<Finding> {
    let spec = &input.pod.spec;
    if !may_reset(spec) {
        return None;
    }
    let none = |reason: &str| Some(finding(false, reason, String::new()));
    match status.phase.as_str() {
        "Succeeded" => none("PodCompleted"),
        "Failed" => none("PodFailed"),
        _ if reset(spec, input.observed).is_none() => none(""),
        _ => Some(finding(
            true,
            "RestartAllContainersStarted",
            "container exited with restart policy rule".to_owned(),
        )),
    }
}
