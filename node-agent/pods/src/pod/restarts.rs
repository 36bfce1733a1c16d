//! Which containers are started again after they ended, which begin anew with
//! all others, and how often each was started: pure.

use node_agent_cri::observed;
use node_agent_cri::observed::ObservedPod;
use node_agent_objects::pod::{Container, PodSpec, RestartPolicy, RestartRule};
use node_agent_objects::status::ContainerStatus;

/// Whether a container that ended with `exit_code` is started again
/// (`restartPolicy` of the container and its rules, else of the pod).
#[must_use]
pub fn restarts(container: &Container, spec: &PodSpec, exit_code: i32) -> bool {
    if rule(container, exit_code).is_some_and(|r| r.action == "Restart" || r.action == ALL) {
        return true;
    }
    match container.restart_policy.unwrap_or(spec.restart_policy) {
        RestartPolicy::Always => true,
        RestartPolicy::OnFailure => exit_code != 0,
        RestartPolicy::Never => false,
    }
}

/// The action of a rule that has all containers of the pod begin anew (KEP-5532).
const ALL: &str = "RestartAllContainers";

/// The first rule of the container that is for this exit code; the others are
/// not looked at. Rules only count beside a policy of the container's own.
fn rule(container: &Container, exit_code: i32) -> Option<&RestartRule> {
    container.restart_policy?;
    container.restart_policy_rules.iter().find(|rule| {
        let Some(codes) = &rule.exit_codes else {
            return false;
        };
        match codes.operator.as_str() {
            "In" => codes.values.contains(&exit_code),
            "NotIn" => !codes.values.contains(&exit_code),
            _ => false,
        }
    })
}

/// Init containers and regular ones: those that a reset is about.
fn resettable(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.init_containers.iter().chain(&spec.containers)
}

/// Whether any rule of the pod could have all its containers begin anew.
#[must_use]
pub fn may_reset(spec: &PodSpec) -> bool {
    resettable(spec).any(|c| c.restart_policy_rules.iter().any(|r| r.action == ALL))
}

/// Whether this end has all containers of the pod begin anew.
fn asks_for_reset(container: &Container, record: &observed::ObservedContainer) -> bool {
    record.exited() && rule(container, record.exit_code).is_some_and(|r| r.action == ALL)
}

/// The containers to end and remove, in order, when one of them ended in a way
/// that has all of them begin anew. Those that asked for it come last, so that
/// an agent that dies meanwhile finds what to go on with.
#[must_use]
pub fn reset(spec: &PodSpec, observed: &ObservedPod) -> Option<Vec<(String, bool)>> {
    if !may_reset(spec) {
        return None;
    }
    let (mut others, mut askers) = (Vec::new(), Vec::new());
    for container in spec.containers.iter().chain(&spec.init_containers) {
        let newest = observed.latest(&container.name);
        // the newest goes last: it says how often there was one
        for record in observed.containers.iter().rev() {
            if record.name != container.name {
                continue;
            }
            let one = (record.id.clone(), !record.exited());
            let is_newest = newest.is_some_and(|n| n.id == record.id);
            if is_newest && asks_for_reset(container, record) {
                askers.push(one);
            } else {
                others.push(one);
            }
        }
    }
    if askers.is_empty() {
        return None;
    }
    others.extend(askers);
    Some(others)
}

/// How often a container was started before, by the newest that there is of
/// it, or else by what was told of it last.
#[must_use]
pub fn restarts_before(
    newest: Option<&observed::ObservedContainer>,
    told: Option<&ContainerStatus>,
) -> u32 {
    if let Some(record) = newest {
        return record.restarts.saturating_add(1);
    }
    let Some(told) = told else { return 0 };
    let count = u32::try_from(told.restart_count).unwrap_or(0);
    // what is told as waiting was counted when it was lost
    if told.state.running.is_some() || told.state.terminated.is_some() {
        count.saturating_add(1)
    } else {
        count
    }
}

/// As [`restarts`], for init containers: those that succeeded are done, and
/// `Always` of the pod means that failures are retried.
#[must_use]
pub fn init_restarts(container: &Container, spec: &PodSpec, exit_code: i32) -> bool {
    container.is_sidecar() || (exit_code != 0 && restarts(container, spec, exit_code))
}
