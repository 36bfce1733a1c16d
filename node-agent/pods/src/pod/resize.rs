//! In-place resize (KEP-1287): what a pod is granted, and what becomes of its
//! running containers. Pure.
//!
//! ```text
//! wanted (the API's spec) ──admit──▶ granted ──difference──▶ in force (the runtime)
//! ```
//!
//! The pod that the rest of the agent sees has the *granted* resources, so
//! that nothing starts with more than the node has promised. CPU and memory
//! alone can change while a container runs. Nothing is written to disk: after
//! a restart of the agent the status of the pod tells what was granted
//! (`allocatedResources`, and limits in `resources`).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::qos;
use crate::objects::pod::{Container, Pod, PodSpec, Resources};
use crate::objects::status::PodStatus;

/// CPU in thousandths and memory in bytes, of one container; 0 when not set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    cpu_request: i64,
    cpu_limit: i64,
    memory_request: i64,
    memory_limit: i64,
}

impl Amounts {
    /// What `resources` say; a request that is not set is its limit.
    #[must_use]
    pub fn of(resources: &Resources) -> Self {
        let cpu_limit = qos::cpu(&resources.limits).unwrap_or(0);
        let memory_limit = qos::memory(&resources.limits).unwrap_or(0);
        Self {
            cpu_request: qos::cpu(&resources.requests).unwrap_or(cpu_limit),
            cpu_limit,
            memory_request: qos::memory(&resources.requests).unwrap_or(memory_limit),
            memory_limit,
        }
    }

    /// Bytes that the container may use; 0 is no limit.
    #[must_use]
    pub fn memory_limit(&self) -> i64 {
        self.memory_limit
    }
}

/// What has to happen to a running container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    None,
    /// Its limits are changed under it.
    Update,
    /// It is ended and started again (`resizePolicy`).
    Restart,
}

/// What brings a container from the resources in force to those granted.
#[must_use]
pub fn change(granted: &Container, in_force: &Resources) -> Change {
    let (new, old) = (Amounts::of(&granted.resources), Amounts::of(in_force));
    let cpu = (new.cpu_request, new.cpu_limit) != (old.cpu_request, old.cpu_limit);
    let memory = (new.memory_request, new.memory_limit) != (old.memory_request, old.memory_limit);
    let restarts = |name: &str| {
        granted
            .resize_policy
            .iter()
            .any(|p| p.resource_name == name && p.restart_policy == "RestartContainer")
    };
    match (cpu, memory) {
        (false, false) => Change::None,
        (true, _) if restarts("cpu") => Change::Restart,
        (_, true) if restarts("memory") => Change::Restart,
        _ => Change::Update,
    }
}

/// What a pod was granted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Grant {
    containers: BTreeMap<String, Resources>,
    pod: Option<Resources>,
}

impl Grant {
    /// All that the specification asks for.
    #[must_use]
    pub fn of(spec: &PodSpec) -> Self {
        Self {
            containers: resizable(spec)
                .map(|c| (c.name.clone(), c.resources.clone()))
                .collect(),
            pod: spec.resources.clone(),
        }
    }

    /// What the API's status says was granted before; for containers that it
    /// says nothing of, what the specification asks for.
    #[must_use]
    pub fn told(spec: &PodSpec, status: &PodStatus) -> Self {
        let mut grant = Self::of(spec);
        for (name, resources) in &mut grant.containers {
            let told = status.container(name);
            let Some(reported) = told.and_then(|t| t.resources.as_ref()) else {
                continue;
            };
            for key in ["cpu", "memory"] {
                keep(&mut resources.limits, key, reported.limits.get(key));
                let allocated = told
                    .and_then(|t| t.allocated_resources.as_ref())
                    .and_then(|a| a.get(key));
                keep(&mut resources.requests, key, allocated);
            }
        }
        grant
    }

    /// Whether `spec` asks for nothing but what was granted, however written.
    #[must_use]
    pub fn covers(&self, spec: &PodSpec) -> bool {
        let same_pod = match (&self.pod, &spec.resources) {
            (Some(a), Some(b)) => Amounts::of(a) == Amounts::of(b),
            (None, None) => true,
            _ => false,
        };
        same_pod
            && resizable(spec).all(|c| {
                self.containers
                    .get(&c.name)
                    .is_none_or(|held| Amounts::of(held) == Amounts::of(&c.resources))
            })
    }

    /// The pod with what was granted in place of what it asks for.
    #[must_use]
    pub fn applied(&self, pod: &Pod) -> Pod {
        let mut pod = pod.clone();
        let spec = &mut pod.spec;
        for container in spec.init_containers.iter_mut().chain(&mut spec.containers) {
            if let Some(held) = self.containers.get(&container.name) {
                container.resources = held.clone();
            }
        }
        spec.resources.clone_from(&self.pod);
        pod
    }
}

fn keep(list: &mut BTreeMap<String, String>, key: &str, value: Option<&String>) {
    match value {
        Some(value) => list.insert(key.to_owned(), value.clone()),
        None => list.remove(key),
    };
}

/// The containers whose resources can change while the pod lives: all but ephemeral
/// ones. Init containers that are no sidecars change while they run, too
/// (`InPlacePodVerticalScalingInitContainers`).
pub fn resizable(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.init_containers.iter().chain(&spec.containers)
}

/// CPU in thousandths and memory in bytes, of pods or of the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Thousandths of a CPU.
    pub cpu: i64,
    /// Bytes.
    pub memory: i64,
}

impl Room {
    /// What a pod asks for.
    #[must_use]
    pub fn asked(spec: &PodSpec) -> Self {
        Self {
            cpu: qos::pod_request(spec, "cpu"),
            memory: qos::pod_request(spec, "memory"),
        }
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            cpu: self.cpu.saturating_add(other.cpu),
            memory: self.memory.saturating_add(other.memory),
        }
    }
}

/// The condition `PodResizePending`: a resize that cannot be granted now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pending {
    /// `Deferred` or `Infeasible`.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

/// Whether `wanted` can be granted instead of `granted`, when all other pods
/// of the node hold `others` of what it has in all.
///
/// # Errors
/// Why not, and whether it may be possible later.
pub fn admit(wanted: &PodSpec, granted: &PodSpec, others: Room, node: Room) -> Result<(), Pending> {
    let (new, old) = (Room::asked(wanted), Room::asked(granted));
    let named = [
        ("cpu", new.cpu, old.cpu, others.cpu, node.cpu),
        ("memory", new.memory, old.memory, others.memory, node.memory),
    ];
    let short = |what: &str, new, used, most| {
        format!(
            "Node didn't have enough resource: {what}, requested: {new}, used: {used}, capacity: {most}"
        )
    };
    let grows = |new: i64, old: i64| new > old;
    if let Some((what, new, ..)) = named
        .iter()
        .find(|(_, new, old, _, most)| grows(*new, *old) && new > most)
    {
        let most = if *what == "cpu" {
            node.cpu
        } else {
            node.memory
        };
        return Err(Pending {
            reason: "Infeasible",
            message: format!(
                "Node didn't have enough capacity: {what}, requested: {new}, capacity: {most}"
            ),
        });
    }
    let mut message = String::new();
    for (what, new, old, used, most) in named {
        if grows(new, old) && used.saturating_add(new) > most {
            let separator = if message.is_empty() { "" } else { ", " };
            let _ = write!(message, "{separator}{}", short(what, new, used, most));
        }
    }
    if message.is_empty() {
        Ok(())
    } else {
        Err(Pending {
            reason: "Deferred",
            message,
        })
    }
}

/// What events about a resize say: each container's resources and the
/// generation that asked for them, as JSON.
#[must_use]
pub fn summary(pod: &Pod, error: &str) -> String {
    let list = |containers: &[Container]| -> Vec<serde_json::Value> {
        containers
            .iter()
            .map(|c| serde_json::json!({"name": c.name, "resources": c.resources}))
            .collect()
    };
    let mut all = serde_json::Map::new();
    let init = list(&pod.spec.init_containers);
    if !init.is_empty() {
        all.insert("initContainers".to_owned(), init.into());
    }
    all.insert("containers".to_owned(), list(&pod.spec.containers).into());
    all.insert("generation".to_owned(), pod.metadata.generation.into());
    if !error.is_empty() {
        all.insert("error".to_owned(), error.into());
    }
    serde_json::Value::Object(all).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spec(cpu: i64, memory: i64) -> PodSpec {
        serde_json::from_value(
            serde_json::json!({"containers": [{"name": "a", "resources": {
            "requests": {"cpu": format!("{cpu}m"), "memory": memory.to_string()}}}]}),
        )
        .unwrap()
    }

    fn container(json: serde_json::Value) -> Container {
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn only_the_policy_of_what_changes_restarts() {
        let resources = |cpu: &str, memory: &str| -> Resources {
            serde_json::from_value(serde_json::json!({"limits": {"cpu": cpu, "memory": memory}}))
                .unwrap()
        };
        let with = |policy: serde_json::Value| {
            let mut made = container(serde_json::json!({"name": "a", "resizePolicy": policy}));
            made.resources = resources("1", "1Gi");
            made
        };
        let policy = |what: &str| serde_json::json!([{"resourceName": what, "restartPolicy": "RestartContainer"}]);
        let cases = [
            (serde_json::json!([]), "1000m", "1024Mi", Change::None),
            (serde_json::json!([]), "2", "1Gi", Change::Update),
            (policy("cpu"), "2", "1Gi", Change::Restart),
            (policy("cpu"), "1", "2Gi", Change::Update),
            (policy("memory"), "1", "2Gi", Change::Restart),
            (policy("memory"), "2", "1Gi", Change::Update),
        ];
        for (policy, cpu, memory, wanted) in cases {
            let found = change(&with(policy.clone()), &resources(cpu, memory));
            assert_eq!(found, wanted, "{policy} {cpu} {memory}");
        }
    }

    #[test]
    fn what_the_node_never_has_is_infeasible_and_what_it_lacks_now_deferred() {
        let node = Room {
            cpu: 2000,
            memory: 1000,
        };
        let others = Room {
            cpu: 1000,
            memory: 0,
        };
        let reason = |wanted: PodSpec| {
            admit(&wanted, &spec(500, 100), others, node)
                .err()
                .map(|p| p.reason)
        };
        assert_eq!(reason(spec(900, 100)), None);
        assert_eq!(reason(spec(1500, 100)), Some("Deferred"));
        assert_eq!(reason(spec(2500, 100)), Some("Infeasible"));
        assert_eq!(reason(spec(500, 1001)), Some("Infeasible"));
    }

    #[test]
    fn a_grant_survives_the_agent_through_the_status() {
        let wanted: PodSpec = serde_json::from_value(serde_json::json!({"containers": [{"name": "a",
            "resources": {"requests": {"cpu": "2", "memory": "64Mi"}, "limits": {"cpu": "4", "memory": "64Mi"}}}]}))
        .unwrap();
        let status: PodStatus = serde_json::from_value(serde_json::json!({"containerStatuses": [{"name": "a",
            "allocatedResources": {"cpu": "1", "memory": "64Mi"},
            "resources": {"requests": {"cpu": "1", "memory": "64Mi"}, "limits": {"cpu": "2", "memory": "64Mi"}}}]}))
        .unwrap();
        let grant = Grant::told(&wanted, &status);
        assert!(!grant.covers(&wanted));
        let pod = Pod {
            spec: wanted.clone(),
            ..Pod::default()
        };
        let held = grant.applied(&pod);
        assert_eq!(held.spec.containers[0].resources.limits["cpu"], "2");
        assert_eq!(held.spec.containers[0].resources.requests["cpu"], "1");
        assert!(grant.covers(&held.spec));
        assert!(Grant::told(&wanted, &PodStatus::default()).covers(&wanted));
    }

    proptest! {
        #[test]
        fn what_shrinks_is_always_granted_and_what_is_granted_fits(
            (old_cpu, new_cpu) in (1..4000_i64, 1..4000_i64),
            (old_memory, new_memory) in (1..4000_i64, 1..4000_i64),
            (used_cpu, used_memory) in (0..4000_i64, 0..4000_i64),
        ) {
            let node = Room { cpu: 4000, memory: 4000 };
            let others = Room { cpu: used_cpu, memory: used_memory };
            let (new, old) = (spec(new_cpu, new_memory), spec(old_cpu, old_memory));
            let found = admit(&new, &old, others, node);
            if new_cpu <= old_cpu && new_memory <= old_memory {
                prop_assert!(found.is_ok());
            }
            if found.is_ok() {
                prop_assert!(new_cpu <= old_cpu || used_cpu + new_cpu <= node.cpu);
                prop_assert!(new_memory <= old_memory || used_memory + new_memory <= node.memory);
            }
        }
    }
}
