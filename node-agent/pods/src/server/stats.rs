//! What pods use: from their control groups and from the runtime.

use std::fmt::Write as _;

use http::{Response, StatusCode};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{Body, reply};
use crate::cri::api;
use crate::pod::observed::key;
use crate::pod::qos;
use crate::pod::status::rfc3339;
use crate::shared::Shared;

/// `/stats/summary`: CPU and memory of node and pods.
pub(super) fn summary(shared: &Shared) -> Response<Body> {
    let now = rfc3339(Timestamp::now());
    let usage = |group: &str| -> (Value, Value) {
        let usage = shared
            .cgroups
            .as_ref()
            .map(|c| c.usage(group))
            .unwrap_or_default();
        (
            json!({"time": now, "usageCoreNanoSeconds": usage.cpu_nanoseconds}),
            json!({"time": now, "usageBytes": usage.memory,
                "workingSetBytes": usage.working_set, "rssBytes": usage.rss}),
        )
    };
    let pods: Vec<Value> = shared
        .pods
        .all()
        .iter()
        .map(|entry| {
            let pod = &entry.pod;
            let group = shared.node.cgroups.pod(qos::class(&pod.spec), pod.uid());
            let (cpu, memory) = usage(&group);
            json!({
                "podRef": {"name": pod.name(), "namespace": pod.namespace(), "uid": pod.uid()},
                "startTime": entry.status.start_time,
                "cpu": cpu,
                "memory": memory,
            })
        })
        .collect();
    let (cpu, memory) = usage("/");
    let all = json!({
        "node": {"nodeName": shared.node_name, "cpu": cpu, "memory": memory},
        "pods": pods,
    });
    reply(StatusCode::OK, "application/json", all.to_string())
}

pub(super) const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// `/metrics`: the agent itself.
pub(super) fn metrics(shared: &Shared) -> Response<Body> {
    let all = shared.pods.all();
    let running = all
        .iter()
        .flat_map(|e| &e.observed.containers)
        .filter(|c| c.running())
        .count();
    let pods = all
        .iter()
        .filter(|e| e.observed.live_sandbox().is_some())
        .count();
    let text = format!(
        "# HELP kubelet_running_pods Number of pods that have a running pod sandbox\n\
         # TYPE kubelet_running_pods gauge\nkubelet_running_pods {pods}\n\
         # HELP kubelet_running_containers Number of containers currently running\n\
         # TYPE kubelet_running_containers gauge\n\
         kubelet_running_containers{{container_state=\"running\"}} {running}\n"
    );
    reply(StatusCode::OK, METRICS, text)
}

/// `/metrics/resource`: CPU and memory of the node and of containers.
pub(super) async fn resource(shared: &Shared) -> Response<Body> {
    let usage = shared
        .cgroups
        .as_ref()
        .map(|cgroups| cgroups.usage("/"))
        .unwrap_or_default();
    let mut text = String::new();
    if let Some(used) = usage.cpu_nanoseconds {
        let seconds = used as f64 / 1e9;
        let _ = write!(
            text,
            "# TYPE node_cpu_usage_seconds_total counter\n\
             node_cpu_usage_seconds_total {seconds}\n"
        );
    }
    // The root of cgroup v2 counts no memory.
    if let Some(used) = usage.working_set.or_else(used_memory) {
        let _ = write!(
            text,
            "# TYPE node_memory_working_set_bytes gauge\n\
             node_memory_working_set_bytes {used}\n"
        );
    }
    text.push_str(&containers(shared).await);
    reply(StatusCode::OK, METRICS, text)
}

/// What the kernel could not give away at once, of the machine's memory.
fn used_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let kibi = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.split_whitespace().next()?.parse().ok()
    };
    Some(kibi("MemTotal:")?.saturating_sub(kibi("MemAvailable:")?) * 1024)
}

/// `/metrics/cadvisor`: CPU and memory of containers.
pub(super) async fn cadvisor(shared: &Shared) -> Response<Body> {
    reply(StatusCode::OK, METRICS, containers(shared).await)
}

async fn containers(shared: &Shared) -> String {
    let stats = shared
        .runtime
        .list_container_stats(api::ListContainerStatsRequest::default())
        .await
        .map(|answer| answer.stats)
        .unwrap_or_default();
    let mut cpu = String::from("# TYPE container_cpu_usage_seconds_total counter\n");
    let mut memory = String::from("# TYPE container_memory_working_set_bytes gauge\n");
    for one in stats {
        let Some(attributes) = &one.attributes else {
            continue;
        };
        let label = |name: &str| attributes.labels.get(name).map_or("", String::as_str);
        let labels = format!(
            "container=\"{}\",namespace=\"{}\",pod=\"{}\"",
            label(key::CONTAINER_NAME),
            label(key::POD_NAMESPACE),
            label(key::POD_NAME)
        );
        if let Some(used) = one.cpu.and_then(|c| c.usage_core_nano_seconds) {
            let seconds = used.value as f64 / 1e9;
            let _ = writeln!(
                cpu,
                "container_cpu_usage_seconds_total{{{labels}}} {seconds}"
            );
        }
        if let Some(used) = one.memory.and_then(|m| m.working_set_bytes) {
            let _ = writeln!(
                memory,
                "container_memory_working_set_bytes{{{labels}}} {}",
                used.value
            );
        }
    }
    cpu + &memory
}
