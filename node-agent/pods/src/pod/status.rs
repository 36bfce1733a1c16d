//! A pod's status from what the runtime has of it: a pure function.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use node_agent_cri::api::ContainerState;
use node_agent_cri::observed;
use node_agent_cri::observed::ObservedPod;
use node_agent_objects::pod::{Container, Pod};
use node_agent_objects::status::{
    ContainerRunning, ContainerStateFields, ContainerStatus, ContainerTerminated,
    ContainerUserStatus, ContainerWaiting, LinuxUserStatus, MountStatus, PodIp, PodStatus,
    ResourceStatus,
};
use node_agent_objects::times::{from_nanos, rfc3339};
use node_agent_pod_registry::TerminationCause;
use node_agent_pod_resources::resize::PendingResize;
use node_agent_pod_resources::{pod_level_resources, qos};
use rustc_hash::FxHashMap;

use super::conditions::{conditions, is_resetting};
use super::next::{self, PodMemory};
use super::restarts::{init_restarts, restarts};

/// Why a container was removed though it need not have ended.
const RESET_REASON: &str = "RestartingAllContainers";

/// The input from which a pod's status is computed.
#[derive(Clone, Copy, Debug)]
pub struct StatusInput<'a> {
    /// The pod as the API has it.
    pub pod: &'a Pod,
    /// The status last made, or the API's at first.
    pub old: &'a PodStatus,
    /// What the runtime has of it.
    pub observed: &'a ObservedPod,
    /// What the worker remembers.
    pub memory: &'a PodMemory,
    /// What containers wait for, as the last step found.
    pub waiting: &'a BTreeMap<String, ContainerWaiting>,
    /// By container id: what its readiness probe says.
    pub ready: &'a FxHashMap<String, bool>,
    /// Whether nothing of the pod will run again.
    pub terminal: bool,
    /// Why the pod was ended, if it was.
    pub sentence: Option<&'a TerminationCause>,
    /// A resize that cannot be granted now.
    pub pending: Option<&'a PendingResize>,
    /// By container: how the devices are that it was given.
    pub health: &'a BTreeMap<String, Vec<ResourceStatus>>,
    /// Whether devices of the pod are still to be taken back: before that its
    /// end is not told, or they would be given to another.
    pub held: bool,
    /// The node's addresses, the primary first.
    pub host_ips: &'a [String],
    /// The runtime's name, for container ids.
    pub runtime: &'a str,
    /// Now.
    pub now: Timestamp,
}

/// The pod's status.
#[must_use]
pub fn compute(input: &StatusInput<'_>) -> PodStatus {
    let spec = &input.pod.spec;
    let by_name = input.observed.by_name();
    let none = Vec::new();
    let statuses = |containers: &[Container], init: bool| -> Vec<ContainerStatus> {
        containers
            .iter()
            .map(|c| {
                let records = by_name.get(c.name.as_str()).unwrap_or(&none);
                container_status(input, c, records, init)
            })
            .collect()
    };
    let init_container_statuses = statuses(&spec.init_containers, true);
    let mut container_statuses = statuses(&spec.containers, false);
    for status in &mut container_statuses {
        let health = input.health.get(&status.name).cloned();
        status.allocated_resources_status = health.unwrap_or_default();
    }
    let ephemeral_container_statuses = statuses(&spec.ephemeral_containers, false);

    // a pod that was refused has no containers to speak of
    let refused = input.sentence.is_some()
        && input.observed.sandboxes.is_empty()
        && input.observed.containers.is_empty()
        && input.pod.status.container_statuses.is_empty();
    let (init_container_statuses, container_statuses, ephemeral_container_statuses) = if refused {
        Default::default()
    } else {
        (
            init_container_statuses,
            container_statuses,
            ephemeral_container_statuses,
        )
    };

    let mut status = PodStatus {
        observed_generation: (input.pod.metadata.generation != 0)
            .then_some(input.pod.metadata.generation),
        init_container_statuses,
        container_statuses,
        ephemeral_container_statuses,
        start_time: input
            .old
            .start_time
            .clone()
            .or_else(|| input.pod.status.start_time.clone())
            .or_else(|| Some(rfc3339(input.now))),
        qos_class: if input.pod.status.qos_class.is_empty() {
            qos::class(spec).as_str().to_owned()
        } else {
            input.pod.status.qos_class.clone()
        },
        ..PodStatus::default()
    };
    if let Some(host) = input.host_ips.first() {
        status.host_ip.clone_from(host);
        status.host_ips = ips(input.host_ips);
    }
    let addresses = if spec.host_network {
        if input.observed.sandboxes.is_empty() && input.old.pod_ips.is_empty() {
            Vec::new()
        } else {
            ips(input.host_ips)
        }
    } else {
        let found = input
            .observed
            .sandboxes
            .first()
            .map(|s| ips(&s.ips))
            .unwrap_or_default();
        if found.is_empty() {
            input.old.pod_ips.clone()
        } else {
            found
        }
    };
    if let Some(first) = addresses.first() {
        status.pod_ip.clone_from(&first.ip);
    }
    status.pod_ips = addresses;

    let started = regular_started(input);
    let computed = phase(input, &status, started);
    let old_phase = if input.old.is_terminal() {
        &input.old.phase
    } else {
        &input.pod.status.phase
    };
    status.phase = if old_phase == "Succeeded" || old_phase == "Failed" {
        old_phase.clone()
    } else if input.sentence.is_some() {
        "Failed".to_owned()
    } else if input.terminal && (computed == "Pending" || computed == "Running") {
        // nothing will run, and it did not get to its end (KEP-3329)
        "Failed".to_owned()
    } else {
        computed.to_owned()
    };
    if input.held && status.is_terminal() && !input.old.is_terminal() {
        let told = &input.old.phase;
        status.phase = if told.is_empty() { "Pending" } else { told }.to_owned();
    }
    if let Some(sentence) = input.sentence {
        status.reason.clone_from(&sentence.reason);
        status.message.clone_from(&sentence.message);
    } else if status.phase == input.old.phase {
        status.reason.clone_from(&input.old.reason);
        status.message.clone_from(&input.old.message);
    }
    status.conditions = conditions(input, &status, started);
    if !refused {
        status.allocated_resources = pod_level_resources::requests(spec);
        status.resources = Some(if status.phase == "Running" {
            let in_force = next::in_force(input.pod, input.observed, input.memory);
            pod_level_resources::of_running(spec, &in_force)
        } else {
            pod_level_resources::of_waiting(spec)
        });
    }
    status
}

fn ips(addresses: &[String]) -> Vec<PodIp> {
    addresses
        .iter()
        .map(|ip| PodIp { ip: ip.clone() })
        .collect()
}

fn regular_started(input: &StatusInput<'_>) -> bool {
    input.pod.spec.containers.iter().any(|c| {
        input
            .observed
            .latest(&c.name)
            .is_some_and(|r| r.started_at > 0)
    })
}

fn container_status(
    input: &StatusInput<'_>,
    container: &Container,
    records: &[&Arc<observed::ObservedContainer>],
    init: bool,
) -> ContainerStatus {
    let old = input.old.container(&container.name);
    let default = if input.pod.spec.init_containers.is_empty() {
        ContainerStateFields::waiting("ContainerCreating", "")
    } else {
        ContainerStateFields::waiting("PodInitializing", "")
    };
    let mut status = ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone(),
        started: Some(false),
        ..ContainerStatus::default()
    };
    let mut running = None;
    match records.first() {
        Some(record) => {
            status.container_id = format!("{}://{}", input.runtime, record.id);
            status.image_id.clone_from(&record.image_ref);
            if !record.image.is_empty() {
                status.image.clone_from(&record.image);
            }
            status.restart_count = i32::try_from(record.restarts).unwrap_or(i32::MAX);
            status.state = match record.state {
                ContainerState::Running => {
                    running = Some(*record);
                    ContainerStateFields {
                        running: Some(ContainerRunning {
                            started_at: Some(rfc3339(from_nanos(record.started_at))),
                        }),
                        ..ContainerStateFields::default()
                    }
                }
                ContainerState::Exited | ContainerState::Unknown => terminated(input, record),
                ContainerState::Created => default,
            };
            if let Some(previous) = records.get(1).filter(|r| r.exited()) {
                status.last_state = terminated(input, previous);
            } else if let Some(old) = old.filter(|o| o.restart_count == status.restart_count) {
                status.last_state = old.last_state.clone();
            }
            status.user = record.user.as_ref().map(|user| ContainerUserStatus {
                linux: Some(LinuxUserStatus {
                    uid: user.uid,
                    gid: user.gid,
                    supplemental_groups: user.supplemental_groups.clone(),
                }),
            });
        }
        None => match old {
            Some(old) if is_resetting(input) && old.state.waiting.is_none() => {
                let message = "The container is removed because RestartAllContainers in place";
                status.state = ContainerStateFields::waiting(RESET_REASON, message);
                status.last_state = ContainerStateFields {
                    terminated: Some(ContainerTerminated {
                        exit_code: 137,
                        reason: RESET_REASON.to_owned(),
                        message: message.to_owned(),
                        ..ContainerTerminated::default()
                    }),
                    ..ContainerStateFields::default()
                };
                status.restart_count = old.restart_count.saturating_add(1);
            }
            // What ran and is gone from the runtime keeps its end.
            Some(old) if old.state.terminated.is_some() => {
                status = old.clone();
                status.ready = false;
            }
            Some(old) if old.state.running.is_some() => {
                status.restart_count = old.restart_count + i32::from(!input.terminal);
                status.image_id.clone_from(&old.image_id);
                let lost = ContainerStateFields {
                    terminated: Some(ContainerTerminated {
                        exit_code: 137,
                        reason: "ContainerStatusUnknown".to_owned(),
                        message: "The container could not be located when the pod was terminated"
                            .to_owned(),
                        container_id: old.container_id.clone(),
                        ..ContainerTerminated::default()
                    }),
                    ..ContainerStateFields::default()
                };
                if input.terminal {
                    status.state = lost;
                    status.container_id.clone_from(&old.container_id);
                } else {
                    status.state = default;
                    status.last_state = lost;
                }
            }
            Some(old) => {
                status.restart_count = old.restart_count;
                status.last_state = old.last_state.clone();
                status.state = default;
            }
            None => status.state = default,
        },
    }
    if let Some(waiting) = input.waiting.get(&container.name)
        && status.state.running.is_none()
    {
        if status.state.terminated.is_some() {
            status.last_state = std::mem::take(&mut status.state);
        }
        status.state = ContainerStateFields {
            waiting: Some(waiting.clone()),
            ..ContainerStateFields::default()
        };
    }
    if init && !container.is_sidecar() {
        status.ready = status
            .state
            .terminated
            .as_ref()
            .is_some_and(|t| t.exit_code == 0);
    } else if let Some(record) = running {
        let started = input
            .memory
            .started
            .get(&record.id)
            .copied()
            .unwrap_or(container.startup_probe.is_none());
        status.started = Some(started);
        status.ready = started
            && (container.readiness_probe.is_none()
                || input.ready.get(&record.id).copied().unwrap_or(false));
    }
    if records.first().is_some_and(|record| !is_lost(record)) {
        let resources = &container.resources;
        status.allocated_resources =
            (!resources.requests.is_empty()).then(|| resources.requests.clone());
        // what is in force, which for what does not run is what is granted
        let in_force = running.and_then(|record| input.memory.in_force.get(&record.id));
        let mut shown = resources.clone();
        if let Some(held) = in_force {
            for key in pod_level_resources::RESIZABLE {
                // limits that are the pod's are not shown as its own
                if shown.limits.contains_key(key) {
                    pod_level_resources::put(&mut shown.limits, key, held.limits.get(key));
                }
                pod_level_resources::put(&mut shown.requests, key, held.requests.get(key));
            }
        }
        status.resources = Some(shown);
    }
    if running.is_some() {
        status.volume_mounts = container
            .volume_mounts
            .iter()
            .map(|m| MountStatus {
                name: m.name.clone(),
                mount_path: m.mount_path.clone(),
                read_only: m.read_only,
                recursive_read_only: m.read_only.then(|| match m.recursive_read_only.as_deref() {
                    Some("Enabled") => "Enabled".to_owned(),
                    _ => "Disabled".to_owned(),
                }),
            })
            .collect();
    }
    status
}

/// Whether it ended because all were to begin anew: that is no failure of its own.
fn is_reset(end: &ContainerTerminated) -> bool {
    end.reason == RESET_REASON
}

fn is_lost(record: &observed::ObservedContainer) -> bool {
    record.state == ContainerState::Unknown
}

fn terminated(
    input: &StatusInput<'_>,
    record: &observed::ObservedContainer,
) -> ContainerStateFields {
    let reason = if !record.reason.is_empty() {
        record.reason.clone()
    } else if record.exit_code == 0 {
        "Completed".to_owned()
    } else {
        "Error".to_owned()
    };
    ContainerStateFields {
        terminated: Some(ContainerTerminated {
            exit_code: record.exit_code,
            signal: 0,
            reason,
            message: record.message.clone(),
            started_at: Some(rfc3339(from_nanos(record.started_at))),
            finished_at: Some(rfc3339(from_nanos(record.finished_at))),
            container_id: format!("{}://{}", input.runtime, record.id),
        }),
        ..ContainerStateFields::default()
    }
}

fn ended(status: &ContainerStatus) -> Option<&ContainerTerminated> {
    status.state.terminated.as_ref().or_else(|| {
        status
            .state
            .waiting
            .as_ref()
            .and(status.last_state.terminated.as_ref())
    })
}

fn phase(input: &StatusInput<'_>, status: &PodStatus, initialised: bool) -> &'static str {
    let spec = &input.pod.spec;
    let mut pending = 0;
    let mut pending_sidecars = 0;
    let (mut running, mut waiting, mut unknown) = (0, 0, 0);
    let (mut stopped, mut stopped_for_good, mut succeeded) = (0, 0, 0);
    for (container, status) in spec
        .init_containers
        .iter()
        .zip(&status.init_container_statuses)
    {
        if container.is_sidecar() {
            if status.state.running.is_some() {
                if status.started != Some(true) {
                    pending_sidecars += 1;
                }
                running += 1;
            } else if status.state.waiting.is_some() && status.last_state.terminated.is_none() {
                pending_sidecars += 1;
                waiting += 1;
            } else if status.state.is_empty() {
                pending_sidecars += 1;
                unknown += 1;
            }
        } else if let Some(end) = ended(status) {
            if end.exit_code != 0
                && !is_reset(end)
                && !init_restarts(container, spec, end.exit_code)
            {
                return "Failed";
            }
        } else {
            pending += 1;
        }
    }
    for (container, status) in spec.containers.iter().zip(&status.container_statuses) {
        if status.state.running.is_some() {
            running += 1;
        } else if let Some(end) = ended(status) {
            stopped += 1;
            if !is_reset(end) && !restarts(container, spec, end.exit_code) {
                stopped_for_good += 1;
            }
            if status.state.terminated.is_some() && end.exit_code == 0 {
                succeeded += 1;
            }
        } else if status.state.waiting.is_some() {
            waiting += 1;
        } else {
            unknown += 1;
        }
    }
    if pending > 0 || (pending_sidecars > 0 && !initialised) || waiting > 0 {
        return "Pending";
    }
    if running > 0 && unknown == 0 {
        return "Running";
    }
    if running == 0 && stopped > 0 && unknown == 0 {
        if !input.terminal && stopped != stopped_for_good {
            return "Running";
        }
        return if stopped == succeeded {
            "Succeeded"
        } else {
            "Failed"
        };
    }
    "Pending"
}
