//! In-place resize of containers (KEP-1287) and of pods as a whole (KEP-5419):
//! what a pod is granted, and what becomes of its running containers. Pure.
//!
//! ```text
//! wanted (the API's spec) ──admit──▶ granted ──difference──▶ in force (the runtime)
//! ```
//!
//! The pod that the rest of the agent sees has the *granted* resources, so
//! that nothing starts with more than the node has promised. CPU and memory
//! alone can change while a container runs. After a restart of the agent the
//! status of the pod tells what its containers were granted
//! (`allocatedResources`, and limits in `resources`); what the pod as a whole
//! was granted is written down (`node-agent/pods/src/pod/allocation.rs`), for its
//! status has sums.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use node_agent_objects::pod::{Container, Pod, PodSpec, ResourceRequirements};
use node_agent_objects::quantity;
use node_agent_objects::status::{PodCondition, PodStatus};

use super::pod_level_resources::{self, RESIZABLE};
use super::qos;

/// CPU in thousandths and memory in bytes of a container or pod; 0 when not set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceAmounts {
    cpu_request: i64,
    cpu_limit: i64,
    memory_request: i64,
    memory_limit: i64,
}

impl ResourceAmounts {
    /// What `resources` say; a request that is not set is its limit.
    #[must_use]
    pub fn from_resources(resources: &ResourceRequirements) -> Self {
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

/// How a running container has to be changed for a resize.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResizeAction {
    /// Nothing.
    None,
    /// Its limits are changed under it.
    Update,
    /// It is ended and started again (`resizePolicy`).
    Restart,
}

/// What brings a container of a pod with those resources from what is in force
/// to what is granted. Both with the limits that are the pod's.
#[must_use]
pub fn change(
    pod: Option<&ResourceRequirements>,
    granted: &Container,
    in_force: &ResourceRequirements,
) -> ResizeAction {
    let new =
        ResourceAmounts::from_resources(&pod_level_resources::effective(&granted.resources, pod));
    let old = ResourceAmounts::from_resources(in_force);
    let cpu = (new.cpu_request, new.cpu_limit) != (old.cpu_request, old.cpu_limit);
    let memory = (new.memory_request, new.memory_limit) != (old.memory_request, old.memory_limit);
    let restarts = |name: &str| {
        granted
            .resize_policy
            .iter()
            .any(|p| p.resource_name == name && p.restart_policy == "RestartContainer")
    };
    match (cpu, memory) {
        (false, false) => ResizeAction::None,
        (true, _) if restarts("cpu") => ResizeAction::Restart,
        (_, true) if restarts("memory") => ResizeAction::Restart,
        _ => ResizeAction::Update,
    }
}

/// Whether two resources, of which there may be none, are the same amounts.
#[must_use]
pub fn same(one: Option<&ResourceRequirements>, other: Option<&ResourceRequirements>) -> bool {
    let amounts = |r: Option<&ResourceRequirements>| {
        r.map(ResourceAmounts::from_resources).unwrap_or_default()
    };
    amounts(one) == amounts(other)
}

/// What is in force of a pod that was granted `spec`: of its containers what
/// `held` says, of the whole pod `pod`. Nothing else is taken over of it.
#[must_use]
pub fn in_force<'a>(
    spec: &PodSpec,
    held: impl Fn(&str) -> Option<&'a ResourceRequirements>,
    pod: Option<&ResourceRequirements>,
) -> PodSpec {
    let list = |containers: &[Container]| -> Vec<Container> {
        let of = |container: &Container| Container {
            name: container.name.clone(),
            restart_policy: container.restart_policy,
            resources: match held(&container.name) {
                Some(held) => held.clone(),
                None => container.resources.clone(),
            },
            ..Container::default()
        };
        containers.iter().map(of).collect()
    };
    PodSpec {
        init_containers: list(&spec.init_containers),
        containers: list(&spec.containers),
        overhead: spec.overhead.clone(),
        resources: pod.cloned().or_else(|| spec.resources.clone()),
        ..PodSpec::default()
    }
}

/// The resources granted to a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResizeGrant {
    containers: BTreeMap<String, ResourceRequirements>,
    pod: Option<ResourceRequirements>,
}

impl ResizeGrant {
    /// All that the specification asks for.
    #[must_use]
    pub fn from_spec(spec: &PodSpec) -> Self {
        Self {
            containers: resizable(spec)
                .map(|c| (c.name.clone(), c.resources.clone()))
                .collect(),
            pod: spec.resources.clone(),
        }
    }

    /// What was granted before: to containers what the API's status says, to
    /// the whole pod what was written down, or else what the status says. For
    /// what neither says anything of, what the specification asks for.
    #[must_use]
    pub fn from_status(
        spec: &PodSpec,
        status: &PodStatus,
        written: Option<Option<&ResourceRequirements>>,
    ) -> Self {
        let mut grant = Self::from_spec(spec);
        grant.pod = match written {
            Some(pod) => pod.cloned(),
            None => pod_told(spec, status, &status.allocated_resources),
        };
        for (name, resources) in &mut grant.containers {
            let told = status.container(name);
            let Some(reported) = told.and_then(|t| t.resources.as_ref()) else {
                continue;
            };
            for key in RESIZABLE {
                pod_level_resources::put(&mut resources.limits, key, reported.limits.get(key));
                let allocated = told
                    .and_then(|t| t.allocated_resources.as_ref())
                    .and_then(|a| a.get(key));
                pod_level_resources::put(&mut resources.requests, key, allocated);
            }
        }
        grant
    }

    /// Whether `spec` asks for nothing but what was granted, however written.
    #[must_use]
    pub fn covers(&self, spec: &PodSpec) -> bool {
        same(self.pod.as_ref(), spec.resources.as_ref())
            && resizable(spec).all(|c| {
                self.containers.get(&c.name).is_none_or(|held| {
                    ResourceAmounts::from_resources(held)
                        == ResourceAmounts::from_resources(&c.resources)
                })
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

/// What the API's status says of the whole pod's resources, in place of what the
/// specification has: limits as they are in force, and these requests. The same
/// amounts however written stay as they are.
fn pod_told(
    spec: &PodSpec,
    status: &PodStatus,
    requests: &BTreeMap<String, String>,
) -> Option<ResourceRequirements> {
    let mut pod = spec.resources.clone()?;
    let Some(shown) = &status.resources else {
        return Some(pod);
    };
    // a status counts the overhead of the runtime in
    let told = |list: &BTreeMap<String, String>, name: &str| {
        let overhead = spec.overhead.get(name).map_or(0, |o| qos::read(name, o));
        Some(qos::read(name, list.get(name)?) - overhead)
    };
    for name in RESIZABLE {
        for (own, shown) in [
            (&mut pod.limits, &shown.limits),
            (&mut pod.requests, requests),
        ] {
            let Some(asked) = own.get(name) else { continue };
            match told(shown, name) {
                Some(told) if told == qos::read(name, asked) => {}
                told => {
                    pod_level_resources::put(own, name, told.map(|t| written(name, t)).as_ref());
                }
            }
        }
    }
    Some(pod)
}

/// What the API's status says is in force of the whole pod.
#[must_use]
pub fn pod_in_force(granted: &PodSpec, status: &PodStatus) -> ResourceRequirements {
    let none = BTreeMap::new();
    let requests = status.resources.as_ref().map_or(&none, |r| &r.requests);
    pod_told(granted, status, requests).unwrap_or_default()
}

fn written(name: &str, amount: i64) -> String {
    match name {
        "cpu" => quantity::of_milli(amount),
        _ => amount.to_string(),
    }
}

/// The containers whose resources can change while the pod lives: all but ephemeral
/// ones. Init containers that are no sidecars change while they run, too
/// (`InPlacePodVerticalScalingInitContainers`).
pub fn resizable(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.init_containers.iter().chain(&spec.containers)
}

/// CPU in thousandths and memory in bytes of pods or of the node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Capacity {
    /// Thousandths of a CPU.
    pub cpu: i64,
    /// Bytes.
    pub memory: i64,
}

impl Capacity {
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
pub struct PendingResize {
    /// `Deferred` or `Infeasible`.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

impl PendingResize {
    /// What the status of a pod says of it.
    #[must_use]
    pub fn from_condition(condition: &PodCondition) -> Option<Self> {
        let known = ["Deferred", "Infeasible"];
        Some(Self {
            reason: known.into_iter().find(|r| *r == condition.reason)?,
            message: condition.message.clone(),
        })
    }
}

/// Whether `wanted` can be granted instead of `granted`, when all other pods
/// of the node hold `others` of what it has in all.
///
/// # Errors
/// Why not, and whether it may be possible later.
pub fn admit(
    wanted: &PodSpec,
    granted: &PodSpec,
    others: Capacity,
    node: Capacity,
) -> Result<(), PendingResize> {
    let (new, old) = (Capacity::asked(wanted), Capacity::asked(granted));
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
        return Err(PendingResize {
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
        Err(PendingResize {
            reason: "Deferred",
            message,
        })
    }
}

/// What events about a resize say: each container's resources and the
/// generation that asked for them, as JSON. The kubelet names no resources of the
/// whole pod there.
#[must_use]
pub fn summary(pod: &Pod, generation: i64, error: &str) -> String {
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
    all.insert("generation".to_owned(), generation.into());
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
        let resources = |cpu: &str, memory: &str| -> ResourceRequirements {
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
            (serde_json::json!([]), "1000m", "1024Mi", ResizeAction::None),
            (serde_json::json!([]), "2", "1Gi", ResizeAction::Update),
            (policy("cpu"), "2", "1Gi", ResizeAction::Restart),
            (policy("cpu"), "1", "2Gi", ResizeAction::Update),
            (policy("memory"), "1", "2Gi", ResizeAction::Restart),
            (policy("memory"), "2", "1Gi", ResizeAction::Update),
        ];
        for (policy, cpu, memory, wanted) in cases {
            let found = change(None, &with(policy.clone()), &resources(cpu, memory));
            assert_eq!(found, wanted, "{policy} {cpu} {memory}");
        }
    }

    #[test]
    fn what_the_node_never_has_is_infeasible_and_what_it_lacks_now_deferred() {
        let node = Capacity {
            cpu: 2000,
            memory: 1000,
        };
        let others = Capacity {
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
        let grant = ResizeGrant::from_status(&wanted, &status, None);
        assert!(!grant.covers(&wanted));
        let pod = Pod {
            spec: wanted.clone(),
            ..Pod::default()
        };
        let held = grant.applied(&pod);
        assert_eq!(held.spec.containers[0].resources.limits["cpu"], "2");
        assert_eq!(held.spec.containers[0].resources.requests["cpu"], "1");
        assert!(grant.covers(&held.spec));
        assert!(ResizeGrant::from_status(&wanted, &PodStatus::default(), None).covers(&wanted));
    }

    fn of_pod(cpu: &str, memory: &str) -> serde_json::Value {
        serde_json::json!({
            "overhead": {"cpu": "100m"},
            "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu, "memory": memory}},
            "containers": [{"name": "a"}, {"name": "b", "resources": {"limits": {"memory": "8Mi"}}}]})
    }

    #[test]
    fn what_a_pod_was_granted_as_a_whole_is_known_from_what_was_written_or_its_status() {
        let wanted: PodSpec = serde_json::from_value(of_pod("4", "1Gi")).unwrap();
        let granted: PodSpec = serde_json::from_value(of_pod("2", "512Mi")).unwrap();
        let status: PodStatus = serde_json::from_value(serde_json::json!({
            "allocatedResources": {"cpu": "2100m", "memory": "8Mi"},
            "resources": {"requests": {"cpu": "1100m"}, "limits": {"cpu": "2100m", "memory": "512Mi"}},
        }))
        .unwrap();
        let told = ResizeGrant::from_status(&wanted, &status, None);
        assert!(told.covers(&granted) && !told.covers(&wanted));
        let in_force = pod_in_force(&granted, &status);
        assert_eq!(in_force.requests["cpu"], "1");
        assert_eq!(in_force.limits["memory"], "512Mi");
        // what is written goes before
        let held = granted.resources.as_ref();
        let told = ResizeGrant::from_status(&wanted, &PodStatus::default(), Some(held));
        assert!(told.covers(&granted) && !told.covers(&wanted));
        assert!(!ResizeGrant::from_status(&wanted, &status, Some(None)).covers(&granted));
        // one that says nothing of it
        assert!(ResizeGrant::from_status(&wanted, &PodStatus::default(), None).covers(&wanted));
        let added = serde_json::json!({"resources": {"requests": {"cpu": "1100m"}}});
        let added: PodStatus = serde_json::from_value(added).unwrap();
        let in_force = pod_in_force(&granted, &added);
        assert!(in_force.limits.is_empty());
    }

    #[test]
    fn what_changes_of_the_pod_changes_containers_that_have_no_limits_of_their_own() {
        let of = |cpu, memory| serde_json::from_value::<PodSpec>(of_pod(cpu, memory)).unwrap();
        let (old, new) = (of("1", "64Mi"), of("1", "128Mi"));
        assert!(same(
            old.resources.as_ref(),
            of("1000m", "64Mi").resources.as_ref()
        ));
        assert!(!same(old.resources.as_ref(), new.resources.as_ref()));
        assert!(same(None, Some(&ResourceRequirements::default())));
        let found = |index: usize| {
            let held = pod_level_resources::effective(
                &old.containers[index].resources,
                old.resources.as_ref(),
            );
            change(new.resources.as_ref(), &new.containers[index], &held)
        };
        assert_eq!(
            (found(0), found(1)),
            (ResizeAction::Update, ResizeAction::None)
        );
    }

    proptest! {
        #[test]
        fn what_shrinks_is_always_granted_and_what_is_granted_fits(
            (old_cpu, new_cpu) in (1..4000_i64, 1..4000_i64),
            (old_memory, new_memory) in (1..4000_i64, 1..4000_i64),
            (used_cpu, used_memory) in (0..4000_i64, 0..4000_i64),
        ) {
            let node = Capacity { cpu: 4000, memory: 4000 };
            let others = Capacity { cpu: used_cpu, memory: used_memory };
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
