//! What the runtime is told to limit a container to. Pure.
//!
//! Sources: the documented resources of containers; KEP-2570 (memory QoS),
//! KEP-2400 (swap), KEP-3570 (no CPU quota with CPUs of one's own).

use std::collections::BTreeMap;

use node_agent_cri::api::LinuxContainerResources;
use node_agent_kubelet_config::{MemoryLimits, MemoryQos};
use node_agent_objects::pod::{Container, Pod, PodSpec, QosClass, ResourceRequirements};
use node_agent_pod_resources::qos::{
    CPU_PERIOD, PodLimits, cpu, cpu_quota, cpu_shares, memory, oom_score_adj,
};
use node_agent_pod_resources::resize::resizable;
use node_agent_pod_resources::{hugepages, qos};
use node_agent_resource_managers::ContainerBinding;

/// Settings of resource limits that are the same for all containers of the node.
#[derive(Clone, Debug)]
pub struct LimitRules {
    /// Bytes of memory that the node has.
    pub memory: i64,
    /// Bytes of it that pods may ask for.
    pub allocatable: i64,
    /// Bytes of a page of it.
    pub page: i64,
    /// Bytes of swap; none where control groups cannot limit it.
    pub swap: Option<i64>,
    /// Bytes of a page, of each size of huge pages.
    pub huge: Vec<u64>,
    /// Whether OOM scores may be lowered.
    pub may_lower_oom_score: bool,
    /// Whether control groups are of version 2.
    pub unified: bool,
    /// How memory is limited beyond limits.
    pub limits: MemoryLimits,
}

impl LimitRules {
    /// Of a node of so much memory, with nothing configured.
    #[cfg(test)]
    pub(crate) fn plain(memory: i64) -> Self {
        Self {
            memory,
            allocatable: memory,
            page: 4096,
            swap: None,
            huge: Vec::new(),
            may_lower_oom_score: false,
            unified: false,
            limits: node_agent_kubelet_config::Settings::default().memory,
        }
    }
}

/// What the runtime shall limit a container to.
#[must_use]
pub fn container(
    pod: &Pod,
    container: &Container,
    rules: &LimitRules,
    binding: &ContainerBinding,
) -> LinuxContainerResources {
    let class = qos::class(&pod.spec);
    let ResourceRequirements {
        limits, requests, ..
    } = &container.resources;
    // what a container does not say is what its pod may have
    let of_pod = pod.spec.resources.as_ref().map(|r| &r.limits);
    let limit = |of: fn(&BTreeMap<String, String>) -> Option<i64>| {
        let own = of(limits).filter(|l| *l > 0);
        own.or_else(|| of_pod.and_then(of).filter(|l| *l > 0))
    };
    let quota = match limit(cpu) {
        Some(_) if binding.exclusive => -1,
        Some(milli) => cpu_quota(milli),
        None => 0,
    };
    let request = cpu(requests).or_else(|| cpu(limits)).unwrap_or(0);
    let asked = memory(requests).or_else(|| memory(limits));
    let mut resources = LinuxContainerResources {
        cpu_shares: cpu_shares(request),
        cpu_quota: quota,
        cpu_period: if quota == 0 { 0 } else { CPU_PERIOD },
        memory_limit_in_bytes: limit(memory).unwrap_or(0),
        oom_score_adj: oom_score_adj(class, asked, rules.memory, rules.may_lower_oom_score),
        cpuset_cpus: binding
            .cpus
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default(),
        cpuset_mems: list(&binding.nodes),
        hugepage_limits: hugepages::of_container(&rules.huge, &pod.spec, container),
        ..LinuxContainerResources::default()
    };
    if rules.unified {
        let together = !rules.limits.single_process_oom_kill.unwrap_or(false);
        let unified = &mut resources.unified;
        if together {
            unified.insert("memory.oom.group".to_owned(), "1".to_owned());
        }
        if rules.swap.is_some() {
            let most = swap(pod, class, asked, memory(limits), rules);
            unified.insert("memory.swap.max".to_owned(), most.to_string());
        }
        if let Some(wish) = rules.limits.qos {
            let told = protection(class, asked.unwrap_or(0), memory(limits), wish, rules);
            unified.extend(told.map(|(file, bytes)| (file.to_owned(), bytes.to_string())));
        }
    } else if rules.swap.is_some() {
        // memory and swap together
        resources.memory_swap_limit_in_bytes = resources.memory_limit_in_bytes;
    }
    resources
}

/// What the runtime is told of a pod's own group.
#[must_use]
pub fn sandbox(limits: PodLimits) -> LinuxContainerResources {
    let quota = limits.cpu_quota.unwrap_or(0);
    LinuxContainerResources {
        cpu_shares: limits.cpu_shares,
        cpu_quota: quota,
        cpu_period: if quota == 0 { 0 } else { CPU_PERIOD },
        memory_limit_in_bytes: limits.memory.unwrap_or(0),
        ..LinuxContainerResources::default()
    }
}

/// What the pod's runtime takes beside its containers, if it takes anything.
#[must_use]
pub fn overhead(spec: &PodSpec) -> Option<LinuxContainerResources> {
    let of = &spec.overhead;
    (!of.is_empty()).then(|| {
        let milli = cpu(of).filter(|milli| *milli > 0);
        sandbox(PodLimits {
            cpu_shares: cpu_shares(milli.unwrap_or(0)),
            cpu_quota: milli.map(cpu_quota),
            memory: memory(of),
        })
    })
}

/// Bytes of swap that a container may use: of a Burstable pod that is not the
/// system's the share that it asks for of the memory, of others none.
fn swap(
    pod: &Pod,
    class: QosClass,
    asked: Option<i64>,
    limit: Option<i64>,
    rules: &LimitRules,
) -> i64 {
    let asked = asked.unwrap_or(0);
    if !may_swap(pod, class, asked, limit, rules) || asked > rules.memory {
        return 0;
    }
    let share = i128::from(asked) * i128::from(rules.swap.unwrap_or(0));
    i64::try_from(share / i128::from(rules.memory.max(1))).unwrap_or(0)
}

fn may_swap(
    pod: &Pod,
    class: QosClass,
    asked: i64,
    limit: Option<i64>,
    rules: &LimitRules,
) -> bool {
    rules.limits.swap
        && class == QosClass::Burstable
        && !pod.is_critical()
        && asked > 0
        && limit != Some(asked)
}

/// Why a pod that was granted one cannot get the other while it runs, if it
/// cannot: what containers may swap follows from the memory that they ask for, and
/// does not change under them.
#[must_use]
pub fn forbids_resize(granted: &Pod, wanted: &Pod, rules: &LimitRules) -> Option<String> {
    if !rules.unified || rules.swap.is_none() {
        return None;
    }
    let swaps = |pod: &Pod, container: &Container| {
        let ResourceRequirements {
            limits, requests, ..
        } = &container.resources;
        let asked = memory(requests).or_else(|| memory(limits)).unwrap_or(0);
        let class = qos::class(&pod.spec);
        may_swap(pod, class, asked, memory(limits), rules)
    };
    let anew = |container: &Container| {
        let policy = container.resize_policy.iter();
        let mut of_memory = policy.filter(|p| p.resource_name == "memory");
        of_memory.any(|p| p.restart_policy == "RestartContainer")
    };
    let mut both = resizable(&granted.spec).zip(resizable(&wanted.spec));
    both.any(|(old, new)| {
        memory(&old.resources.requests) != memory(&new.resources.requests)
            && !anew(old)
            && (swaps(granted, old) || swaps(wanted, new))
    })
    .then(|| "In-place resize of containers with swap is not supported.".to_owned())
}

/// By file: what the kernel does not take of a container, and from where on it
/// slows it down.
fn protection(
    class: QosClass,
    asked: i64,
    limit: Option<i64>,
    wish: MemoryQos,
    rules: &LimitRules,
) -> impl Iterator<Item = (&'static str, i64)> {
    let kept = match kept(class, asked, wish) {
        Some(kept) => vec![kept],
        None => vec![("memory.min", 0), ("memory.low", 0)],
    };
    let most = limit.filter(|l| *l > 0);
    let top = most.unwrap_or(rules.allocatable);
    let between = (top as f64 - asked as f64) * wish.throttling;
    let page = rules.page.max(1);
    let high = ((asked as f64 + between) as i64)
        .div_euclid(page)
        .saturating_mul(page);
    let high = (most != Some(asked) && high > asked).then_some(("memory.high", high));
    kept.into_iter().chain(high)
}

/// The file and bytes of what the kernel does not take.
fn kept(class: QosClass, asked: i64, wish: MemoryQos) -> Option<(&'static str, i64)> {
    let file = match class {
        QosClass::Guaranteed => "memory.min",
        _ => "memory.low",
    };
    (wish.protects && asked > 0).then_some((file, asked))
}

/// The same of a whole pod.
#[must_use]
pub fn protected(pod: &Pod, rules: &LimitRules) -> Option<(&'static str, i64)> {
    let wish = rules.limits.qos.filter(|_| rules.unified)?;
    let asked = qos::pod_request(&pod.spec, "memory");
    kept(qos::class(&pod.spec), asked, wish)
}

fn list(nodes: &[u32]) -> String {
    let set: node_agent_pod_resources::cpuset::CpuSet = nodes.iter().copied().collect();
    set.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MI: i64 = 1 << 20;

    fn pod(request: Option<&str>, limit: Option<&str>) -> Pod {
        let mut resources = serde_json::json!({"requests": {}, "limits": {}});
        for (key, value) in [("requests", request), ("limits", limit)] {
            if let Some(value) = value {
                resources[key]["memory"] = value.into();
            }
        }
        if request == limit {
            // Guaranteed
            resources["limits"]["cpu"] = "1".into();
        }
        serde_json::from_value(serde_json::json!({"spec": {
            "containers": [{"name": "a", "resources": resources}]}}))
        .unwrap()
    }

    fn told(pod: &Pod, rules: &LimitRules) -> BTreeMap<String, String> {
        container(
            pod,
            &pod.spec.containers[0],
            rules,
            &ContainerBinding::default(),
        )
        .unified
    }

    fn rules(swap: bool, qos: Option<MemoryQos>) -> LimitRules {
        LimitRules {
            swap: Some(500 * MI),
            unified: true,
            limits: MemoryLimits {
                swap,
                qos,
                single_process_oom_kill: Some(true),
            },
            ..LimitRules::plain(1000 * MI)
        }
    }

    #[test]
    fn burstable_containers_swap_by_their_share_and_others_not_at_all() {
        let share = (50 * MI).to_string();
        let cases = [
            (Some("100Mi"), Some("200Mi"), true, &*share),
            (Some("100Mi"), None, true, &*share),
            (Some("100Mi"), Some("200Mi"), false, "0"),
            (Some("100Mi"), Some("100Mi"), true, "0"),
            (None, None, true, "0"),
            (Some("2000Mi"), None, true, "0"),
        ];
        for (request, limit, on, wanted) in cases {
            let found = told(&pod(request, limit), &rules(on, None));
            assert_eq!(
                found["memory.swap.max"], wanted,
                "{request:?} {limit:?} {on}"
            );
        }
        let mut system = pod(Some("100Mi"), None);
        system.spec.priority = Some(2_000_000_000);
        assert_eq!(told(&system, &rules(true, None))["memory.swap.max"], "0");
        let old = LimitRules {
            unified: false,
            ..rules(true, None)
        };
        let pod = pod(Some("100Mi"), Some("200Mi"));
        let found = container(
            &pod,
            &pod.spec.containers[0],
            &old,
            &ContainerBinding::default(),
        );
        assert_eq!(found.memory_swap_limit_in_bytes, 200 * MI);
        assert!(found.unified.is_empty());
    }

    #[test]
    fn what_swaps_asks_for_no_other_memory_unless_it_begins_anew() {
        let forbids = |old: &Pod, new: &Pod, on| forbids_resize(old, new, &rules(on, None));
        let (old, new) = (pod(Some("1Mi"), Some("9Mi")), pod(Some("2Mi"), Some("9Mi")));
        assert!(forbids(&old, &new, true).is_some());
        assert_eq!(forbids(&old, &new, false), None);
        // limits alone, and what does not swap
        assert_eq!(forbids(&old, &pod(Some("1Mi"), Some("8Mi")), true), None);
        let (full, more) = (pod(Some("1Mi"), Some("1Mi")), pod(Some("2Mi"), Some("2Mi")));
        assert_eq!(forbids(&full, &more, true), None);
        let mut anew = old.clone();
        let policy = serde_json::json!([
            {"resourceName": "memory", "restartPolicy": "RestartContainer"}]);
        anew.spec.containers[0].resize_policy = serde_json::from_value(policy).unwrap();
        assert_eq!(forbids(&anew, &new, true), None);
    }

    #[test]
    fn memory_is_protected_by_class_and_slowed_between_request_and_limit() {
        let wish = |protects| {
            Some(MemoryQos {
                throttling: 0.9,
                protects,
            })
        };
        let bytes = |mi: i64| (mi * MI).to_string();
        let of = |request, limit, protects| {
            let mut found = told(&pod(request, limit), &rules(false, wish(protects)));
            found.remove("memory.swap.max");
            found
        };
        let map = |all: &[(&str, String)]| -> BTreeMap<String, String> {
            all.iter()
                .map(|(k, v)| ((*k).to_owned(), v.clone()))
                .collect()
        };
        let burstable = of(Some("100Mi"), Some("200Mi"), true);
        let wanted = map(&[("memory.low", bytes(100)), ("memory.high", bytes(190))]);
        assert_eq!(burstable, wanted);
        let guaranteed = of(Some("100Mi"), Some("100Mi"), true);
        assert_eq!(guaranteed, map(&[("memory.min", bytes(100))]));
        // up to what the node has
        let open = of(Some("100Mi"), None, false);
        let none = [
            ("memory.min", "0".to_owned()),
            ("memory.low", "0".to_owned()),
        ];
        let mut wanted = map(&none);
        wanted.insert("memory.high".to_owned(), bytes(910));
        assert_eq!(open, wanted);
        let rules = rules(false, wish(true));
        let kept = protected(&pod(Some("100Mi"), Some("200Mi")), &rules);
        assert_eq!(kept, Some(("memory.low", 100 * MI)));
        assert_eq!(protected(&pod(None, None), &rules), None);
    }

    #[test]
    fn cpus_of_ones_own_are_not_limited_in_time() {
        let pod = pod(Some("100Mi"), Some("100Mi"));
        let of = |binding: &ContainerBinding| {
            container(
                &pod,
                &pod.spec.containers[0],
                &LimitRules::plain(MI),
                binding,
            )
        };
        assert_eq!(of(&ContainerBinding::default()).cpu_quota, 100_000);
        let own = of(&ContainerBinding {
            cpus: "2-3".parse().ok(),
            exclusive: true,
            nodes: vec![1],
        });
        assert_eq!((own.cpu_quota, own.cpu_period), (-1, CPU_PERIOD));
        assert_eq!((&*own.cpuset_cpus, &*own.cpuset_mems), ("2-3", "1"));
    }

    #[test]
    fn a_runtime_is_told_of_the_pod_and_of_its_own_share_apart() {
        let spec: PodSpec = serde_json::from_value(serde_json::json!({
            "overhead": {"cpu": "250m", "memory": "16Mi"},
            "containers": [{"name": "a", "resources": {
                "requests": {"cpu": "1"}, "limits": {"memory": "64Mi"}}}]}))
        .unwrap();
        let of = |r: LinuxContainerResources| (r.cpu_shares, r.cpu_quota, r.memory_limit_in_bytes);
        let told = sandbox(qos::sandbox_limits(&spec));
        assert_eq!((of(told.clone()), told.cpu_period), ((1024, 0, 64 * MI), 0));
        assert_eq!(overhead(&spec).map(of), Some((256, 25_000, 16 * MI)));
        assert_eq!(overhead(&PodSpec::default()), None);
    }

    #[test]
    fn a_container_without_limits_has_its_pods() {
        let pod: Pod = serde_json::from_value(serde_json::json!({"spec": {
            "resources": {"limits": {"cpu": "2", "memory": "64Mi"}},
            "containers": [{"name": "a"}]}}))
        .unwrap();
        let found = container(
            &pod,
            &pod.spec.containers[0],
            &LimitRules::plain(MI),
            &ContainerBinding::default(),
        );
        assert_eq!(found.cpu_quota, 200_000);
        assert_eq!(found.memory_limit_in_bytes, 64 * MI);
    }
}
