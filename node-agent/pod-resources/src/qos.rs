//! Classes of service and what follows from them: a pure module.

use std::collections::BTreeMap;

use control_types::qos::Compute;
use node_agent_objects::pod::{PodSpec, QosClass, ResourceRequirements};
use node_agent_objects::quantity;

/// The class of a pod (`Pod.status.qosClass`).
#[must_use]
pub fn class(spec: &PodSpec) -> QosClass {
    let own = spec.resources.as_ref();
    match own.filter(|own| !own.limits.is_empty() || !own.requests.is_empty()) {
        Some(own) => QosClass::from_containers([compute(own)]),
        None => {
            let all = spec.init_containers.iter().chain(&spec.containers);
            QosClass::from_containers(all.map(|container| compute(&container.resources)))
        }
    }
}

/// What decides the class. Who says only a limit requests as much: the API server fills
/// that in, but not every manifest comes from there.
fn compute(resources: &ResourceRequirements) -> Compute {
    let limits = ["cpu", "memory"].map(|name| amount(&resources.limits, name));
    let requests = ["cpu", "memory"].map(|name| amount(&resources.requests, name));
    let requested = |at: usize| match requests[at] {
        0 => limits[at],
        request => request,
    };
    Compute {
        requests: [requested(0).into(), requested(1).into()],
        limits: limits.map(Into::into),
    }
}

/// CPU in thousandths, anything else in units; 0 when absent or malformed.
fn amount(list: &BTreeMap<String, String>, name: &str) -> i64 {
    list.get(name)
        .and_then(|text| quantity::milli(text))
        .unwrap_or(0)
}

/// Milli-CPUs of `cpu`, if set.
#[must_use]
pub fn cpu(list: &BTreeMap<String, String>) -> Option<i64> {
    quantity::milli(list.get("cpu")?)
}

/// Bytes of `memory`, if set.
#[must_use]
pub fn memory(list: &BTreeMap<String, String>) -> Option<i64> {
    quantity::whole(list.get("memory")?)
}

/// Relative weight of so many milli-CPUs, as cgroup v1 counts it.
#[must_use]
pub fn cpu_shares(milli: i64) -> i64 {
    (milli.saturating_mul(1024) / 1000).clamp(2, 262_144)
}

/// Microseconds in each 100 ms that so many milli-CPUs are.
#[must_use]
pub fn cpu_quota(milli: i64) -> i64 {
    milli.saturating_mul(100).max(1000)
}

/// Length in microseconds of the period that [`cpu_quota`] counts in.
pub const CPU_PERIOD: i64 = 100_000;

/// How readily the kernel ends the container's processes when memory runs out.
///
/// Guaranteed pods would get -997; lowering needs a privilege that a container
/// runtime may lack (`CAP_SYS_RESOURCE`), so `may_lower` says whether it may.
#[must_use]
pub fn oom_score_adj(
    class: QosClass,
    memory_request: Option<i64>,
    capacity: i64,
    may_lower: bool,
) -> i64 {
    match class {
        QosClass::Guaranteed => {
            if may_lower {
                -997
            } else {
                0
            }
        }
        QosClass::BestEffort => 1000,
        QosClass::Burstable => {
            let request = memory_request.unwrap_or(0);
            let share = i128::from(request) * 1000 / i128::from(capacity.max(1));
            (1000 - i64::try_from(share).unwrap_or(1000)).clamp(3, 999)
        }
    }
}

/// What a whole pod is limited to: the sum of its containers, or the largest
/// init container where that is more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PodLimits {
    /// Relative weight.
    pub cpu_shares: i64,
    /// Microseconds per [`CPU_PERIOD`]; `None` is no limit.
    pub cpu_quota: Option<i64>,
    /// Bytes; `None` is no limit.
    pub memory: Option<i64>,
}

/// The limits of a pod's own control group, with the overhead of its runtime.
#[must_use]
pub fn pod_limits(spec: &PodSpec) -> PodLimits {
    limits(spec, &spec.overhead)
}

/// The same without the overhead: what the runtime is told of the pod.
#[must_use]
pub fn sandbox_limits(spec: &PodSpec) -> PodLimits {
    limits(spec, &BTreeMap::new())
}

fn limits(spec: &PodSpec, overhead: &BTreeMap<String, String>) -> PodLimits {
    let own = spec.resources.as_ref();
    let limit = |name: &str, of: fn(&BTreeMap<String, String>) -> Option<i64>| {
        let set = |r: &ResourceRequirements| of(&r.limits).filter(|l| *l > 0);
        let limit = own.and_then(set).or_else(|| together(spec, set));
        let overhead = overhead.get(name).map_or(0, |text| read(name, text));
        limit.filter(|l| *l > 0).map(|l| l.saturating_add(overhead))
    };
    PodLimits {
        cpu_shares: cpu_shares(asked(spec, "cpu", overhead)),
        cpu_quota: limit("cpu", cpu).map(cpu_quota),
        memory: limit("memory", memory),
    }
}

/// What a pod asks for of one resource, with the overhead of its runtime:
/// CPU in thousandths, anything else in units. The sum of what runs at the
/// same time, or the largest init container where that is more.
#[must_use]
pub fn pod_request(spec: &PodSpec, name: &str) -> i64 {
    asked(spec, name, &spec.overhead)
}

fn asked(spec: &PodSpec, name: &str, overhead: &BTreeMap<String, String>) -> i64 {
    let of = |r: &ResourceRequirements| {
        let found = r.requests.get(name).or_else(|| r.limits.get(name))?;
        Some(read(name, found))
    };
    let overhead = overhead.get(name).map_or(0, |text| read(name, text));
    let own = spec.resources.as_ref().filter(|_| is_of_pods(name));
    own.and_then(of)
        .or_else(|| together(spec, |r| Some(of(r).unwrap_or(0))))
        .unwrap_or(0)
        .saturating_add(overhead)
}

/// The same of limits; containers without one count nothing.
#[must_use]
pub fn pod_limit(spec: &PodSpec, name: &str) -> i64 {
    let of = |r: &ResourceRequirements| r.limits.get(name).map(|text| read(name, text));
    let own = spec.resources.as_ref().filter(|_| is_of_pods(name));
    let limit = own
        .and_then(of)
        .or_else(|| together(spec, |r| Some(of(r).unwrap_or(0))))
        .unwrap_or(0);
    match spec.overhead.get(name) {
        Some(text) if limit > 0 => limit.saturating_add(read(name, text)),
        _ => limit,
    }
}

/// Whether a pod as a whole can ask for such a resource (KEP-2837).
#[must_use]
pub fn is_of_pods(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || name.starts_with("hugepages-")
}

/// CPU in thousandths, anything else in units.
#[must_use]
pub fn read(name: &str, text: &str) -> i64 {
    if name == "cpu" {
        quantity::milli(text)
    } else {
        quantity::whole(text)
    }
    .unwrap_or(0)
}

/// What all containers have that run at the same time, or the largest init
/// container where that is more; nothing when one of them has no such thing.
fn together(spec: &PodSpec, of: impl Fn(&ResourceRequirements) -> Option<i64>) -> Option<i64> {
    let mut running = Some(0_i64);
    let mut largest = Some(0_i64);
    for container in &spec.init_containers {
        let one = of(&container.resources);
        if container.is_sidecar() {
            running = add(running, one);
            largest = greater(largest, running);
        } else {
            largest = greater(largest, add(running, one));
        }
    }
    for container in &spec.containers {
        running = add(running, of(&container.resources));
    }
    greater(largest, running)
}

/// What holds both of two limits: for the time between them.
#[must_use]
pub fn widest(a: PodLimits, b: PodLimits) -> PodLimits {
    let wider = |a: Option<i64>, b: Option<i64>| Some(a?.max(b?));
    PodLimits {
        cpu_shares: a.cpu_shares.max(b.cpu_shares),
        cpu_quota: wider(a.cpu_quota, b.cpu_quota),
        memory: wider(a.memory, b.memory),
    }
}

fn add(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    Some(a?.saturating_add(b?))
}

fn greater(a: Option<i64>, b: Option<i64>) -> Option<i64> {
    Some(a?.max(b?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(json: &str) -> PodSpec {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn class_follows_from_requests_and_limits() {
        let cases = [
            (r#"{"containers":[{"name":"a"}]}"#, QosClass::BestEffort),
            (
                r#"{"containers":[{"name":"a","resources":{"requests":{"cpu":"1m"}}}]}"#,
                QosClass::Burstable,
            ),
            (
                r#"{"containers":[{"name":"a","resources":{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"1000m","memory":"1024Mi"}}}]}"#,
                QosClass::Guaranteed,
            ),
            (
                r#"{"containers":[{"name":"a","resources":{"limits":{"cpu":"1","memory":"1Gi"}}},{"name":"b"}]}"#,
                QosClass::Burstable,
            ),
        ];
        for (json, class_wanted) in cases {
            assert_eq!(class(&spec(json)), class_wanted, "{json}");
        }
    }

    #[test]
    fn pod_is_unlimited_when_one_container_is() {
        let spec = spec(
            r#"{"containers":[
                {"name":"a","resources":{"limits":{"cpu":"500m","memory":"64Mi"}}},
                {"name":"b","resources":{"limits":{"memory":"64Mi"}}}]}"#,
        );
        let limits = pod_limits(&spec);
        assert_eq!(limits.cpu_quota, None);
        assert_eq!(limits.memory, Some(128 << 20));
        assert_eq!(limits.cpu_shares, 512);
    }

    #[test]
    fn what_the_pod_says_goes_before_the_sum_and_overhead_comes_on_top() {
        let spec = spec(
            r#"{"overhead":{"cpu":"100m","memory":"16Mi"},
                "resources":{"requests":{"cpu":"1"},"limits":{"memory":"1Gi"}},
                "containers":[
                {"name":"a","resources":{"requests":{"cpu":"250m","x.io/y":"1"},"limits":{"cpu":"500m"}}},
                {"name":"b","resources":{"requests":{"cpu":"250m","x.io/y":"2"},"limits":{"cpu":"500m"}}}]}"#,
        );
        let limits = pod_limits(&spec);
        assert_eq!(limits.cpu_shares, cpu_shares(1100));
        assert_eq!(limits.cpu_quota, Some(cpu_quota(1100)));
        assert_eq!(limits.memory, Some((1 << 30) + (16 << 20)));
        let told = sandbox_limits(&spec);
        assert_eq!((told.cpu_shares, told.memory), (1024, Some(1 << 30)));
        assert_eq!(pod_request(&spec, "cpu"), 1100);
        assert_eq!(pod_request(&spec, "x.io/y"), 3);
        assert_eq!(pod_limit(&spec, "cpu"), 1100);
        assert_eq!(pod_limit(&spec, "x.io/y"), 0);
    }

    #[test]
    fn oom_scores_never_fall_below_zero_without_the_privilege() {
        for class in [
            QosClass::Guaranteed,
            QosClass::Burstable,
            QosClass::BestEffort,
        ] {
            assert!(oom_score_adj(class, Some(i64::MAX), 1, false) >= 0);
        }
        assert_eq!(oom_score_adj(QosClass::Guaranteed, None, 1, true), -997);
        assert_eq!(
            oom_score_adj(QosClass::Burstable, Some(1 << 29), 1 << 30, false),
            500
        );
    }
}
