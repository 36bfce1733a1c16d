//! What pods use: from their control groups and from the runtime.

use std::path::Path;

use control_metrics::{Format, Kind, LabelSet, Page};
use http::{Response, StatusCode};
use jiff::Timestamp;
use node_agent_cgroups::CgroupVersion;
use node_agent_cri::api;
use node_agent_cri::observed::key;
use node_agent_files::{TreeUsage, disk_usage};
use node_agent_kubelet_config::{Settings, SystemLogs};
use node_agent_objects::times::{from_nanos, rfc3339};
use node_agent_objects::volume::{Volume, VolumeSource};
use node_agent_pod_registry::{PodEntry, log_directory};
use node_agent_pod_resources::cgroup_names::CgroupManager;
use node_agent_pod_resources::qos;
use node_agent_pod_volumes::PodVolumes;
use node_agent_probes::probe::ProbeSubject;
use rustc_hash::FxHashMap;
use serde_json::{Value, json};

use super::{Body, reply};
use crate::KubeletServer;

/// What the runtime says of all containers, by id.
pub(super) async fn by_id(server: &KubeletServer) -> FxHashMap<String, api::ContainerStats> {
    let all = server
        .runtime
        .list_container_stats(api::ListContainerStatsRequest::default())
        .await
        .map(|answer| answer.stats)
        .unwrap_or_default();
    all.into_iter()
        .filter_map(|one| Some((one.attributes.as_ref()?.id.clone(), one)))
        .collect()
}

/// A file system as the summary tells it.
fn file_system(path: &Path, now: &str) -> Value {
    let Ok(stat) = rustix::fs::statvfs(path) else {
        return json!({"time": now});
    };
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    json!({
        "time": now,
        "availableBytes": bytes(stat.f_bavail),
        "capacityBytes": bytes(stat.f_blocks),
        "usedBytes": bytes(stat.f_blocks.saturating_sub(stat.f_bfree)),
        "inodesFree": stat.f_favail,
        "inodes": stat.f_files,
        "inodesUsed": stat.f_files.saturating_sub(stat.f_ffree),
    })
}

/// `/stats/summary`: what node, pods and containers use (`stats/v1alpha1`).
pub(super) async fn summary(server: &KubeletServer) -> Response<Body> {
    let now = rfc3339(Timestamp::now());
    let stats = by_id(server).await;
    let images = server
        .runtime
        .image_fs_info(api::ImageFsInfoRequest {})
        .await
        .ok()
        .and_then(|info| info.image_filesystems.into_iter().next());
    let server = server.clone();
    // sizes of volumes are walked
    let made = tokio::task::spawn_blocking(move || summarize(&server, &stats, images, &now)).await;
    match made {
        Ok(all) => reply(StatusCode::OK, "application/json", all.to_string()),
        Err(error) => super::text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

fn summarize(
    server: &KubeletServer,
    stats: &FxHashMap<String, api::ContainerStats>,
    images: Option<api::FilesystemUsage>,
    now: &str,
) -> Value {
    let usage = |group: &str| {
        let found = server.cgroups.as_ref().map(|c| c.usage(group));
        found.unwrap_or_default()
    };
    let pods: Vec<Value> = server
        .pods
        .all()
        .iter()
        .map(|entry| pod(server, entry, stats, now))
        .collect();
    let of_node = usage("/");
    let working_set = of_node.working_set.or_else(used_memory);
    let capacity = node_agent_node_lifecycle::machine::Machine::read(&server.root).memory;
    let image_fs = images.map_or(Value::Null, |found| {
        let path = found.fs_id.map(|id| id.mountpoint).unwrap_or_default();
        let mut shown = file_system(Path::new(&path), now);
        shown["usedBytes"] = json!(found.used_bytes.map(|n| n.value));
        shown["inodesUsed"] = json!(found.inodes_used.map(|n| n.value));
        shown
    });
    let mut all = json!({
        "node": {
            "nodeName": server.node_name,
            "startTime": now,
            "cpu": {"time": now, "usageCoreNanoSeconds": of_node.cpu_nanoseconds},
            "memory": {
                "time": now,
                "availableBytes": working_set.map(|used| capacity.saturating_sub(used)),
                "usageBytes": of_node.memory,
                "workingSetBytes": working_set,
                "rssBytes": of_node.rss,
            },
            "fs": file_system(&server.root, now),
            "runtime": {"imageFs": image_fs},
        },
        "pods": pods,
    });
    add_pressure(server, "/", now, &mut all["node"]);
    all
}

/// Adds how long tasks of a group waited for CPU, memory and disks (KEP-4205).
/// Control groups of version 1 do not tell.
fn add_pressure(server: &KubeletServer, group: &str, now: &str, shown: &mut Value) {
    let Some(cgroups) = &server.cgroups else {
        return;
    };
    if cgroups.version() == CgroupVersion::One {
        return;
    }
    for what in ["cpu", "memory", "io"] {
        let own = cgroups.read("", group, &format!("{what}.pressure"));
        // the first group has no such files
        let all = || std::fs::read_to_string(format!("/proc/pressure/{what}")).ok();
        let text = own.or_else(|| (group == "/").then(all).flatten());
        if let Some(found) = text.as_deref().and_then(pressure) {
            if what == "io" {
                shown[what]["time"] = now.into();
            }
            shown[what]["psi"] = found;
        }
    }
}

/// What a pressure file says. Times are in microseconds, as the kubelet shows
/// them whatever its API says of the unit.
fn pressure(text: &str) -> Option<Value> {
    let of = |which: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(which))?;
        let field = |name: &str| {
            let mut words = line.split_whitespace();
            words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
        };
        let average = |name: &str| field(name)?.parse::<f64>().ok();
        Some(json!({
            "total": field("total")?.parse::<u64>().ok()?,
            "avg10": average("avg10")?,
            "avg60": average("avg60")?,
            "avg300": average("avg300")?,
        }))
    };
    let none = || json!({"total": 0, "avg10": 0.0, "avg60": 0.0, "avg300": 0.0});
    // old kernels have no `full` for CPU
    Some(json!({"full": of("full").unwrap_or_else(none), "some": of("some")?}))
}

fn pod(
    server: &KubeletServer,
    entry: &PodEntry,
    stats: &FxHashMap<String, api::ContainerStats>,
    now: &str,
) -> Value {
    let pod = &entry.pod;
    let group = server.layout.pod(qos::class(&pod.spec), pod.uid());
    let found = server.cgroups.as_ref().map(|c| c.usage(&group));
    let usage = found.unwrap_or_default();
    let tasks = server.cgroups.as_ref().and_then(|c| c.tasks(&group));
    let logs = log_directory(&server.log_root, pod);
    let mut on_disk = 0_u64;
    let containers: Vec<Value> = entry
        .observed
        .containers
        .iter()
        .filter(|record| record.running())
        .map(|record| {
            let one = stats.get(&record.id);
            let cpu = one.and_then(|s| s.cpu.as_ref());
            let memory = one.and_then(|s| s.memory.as_ref());
            let layer = one.and_then(|s| s.writable_layer.as_ref());
            let log = disk_usage(&logs.join(&record.name)).bytes;
            let rootfs = layer.and_then(|l| l.used_bytes).map(|n| n.value);
            on_disk = on_disk
                .saturating_add(log)
                .saturating_add(rootfs.unwrap_or(0));
            let value = |n: Option<api::UInt64Value>| n.map(|n| n.value);
            let mut shown = json!({
                "name": record.name,
                "startTime": rfc3339(from_nanos(record.started_at)),
                "cpu": {
                    "time": now,
                    "usageCoreNanoSeconds": cpu.and_then(|c| value(c.usage_core_nano_seconds)),
                    "usageNanoCores": cpu.and_then(|c| value(c.usage_nano_cores)),
                },
                "memory": {
                    "time": now,
                    "usageBytes": memory.and_then(|m| value(m.usage_bytes)),
                    "workingSetBytes": memory.and_then(|m| value(m.working_set_bytes)),
                    "rssBytes": memory.and_then(|m| value(m.rss_bytes)),
                },
                "rootfs": {"time": now, "usedBytes": rootfs,
                    "inodesUsed": layer.and_then(|l| value(l.inodes_used))},
                "logs": {"time": now, "usedBytes": log},
            });
            let own = format!("{group}/{}", record.id);
            add_pressure(server, &own, now, &mut shown);
            shown
        })
        .collect();
    let folder = PodVolumes::new(&server.root, pod.uid());
    let volumes: Vec<Value> = pod
        .spec
        .used_volumes()
        .filter(|v| !matches!(v.source, VolumeSource::HostPath(_)))
        .filter_map(|volume| {
            let claim = node_agent_pod_volumes::claim::name(pod, volume);
            if claim.is_some() || matches!(volume.source, VolumeSource::Csi(_)) {
                return on_its_own(entry, volume, claim, now);
            }
            let path = folder.path(volume)?;
            let TreeUsage { bytes, inodes } = disk_usage(&path);
            if matches!(&volume.source, VolumeSource::EmptyDir(e) if e.medium.is_empty()) {
                on_disk = on_disk.saturating_add(bytes);
            }
            let mut shown = file_system(&path, now);
            shown["name"] = json!(volume.name);
            shown["usedBytes"] = json!(bytes);
            shown["inodesUsed"] = json!(inodes);
            Some(shown)
        })
        .collect();
    on_disk = on_disk.saturating_add(disk_usage(&folder.hosts_path()).bytes);
    for container in pod.spec.all_containers() {
        let messages = disk_usage(&folder.termination_dir(&container.name));
        on_disk = on_disk.saturating_add(messages.bytes);
    }
    let mut shown = json!({
        "podRef": {"name": pod.name(), "namespace": pod.namespace(), "uid": pod.uid()},
        "startTime": entry.status.start_time,
        "containers": containers,
        "cpu": {"time": now, "usageCoreNanoSeconds": usage.cpu_nanoseconds},
        "memory": {"time": now, "usageBytes": usage.memory,
            "workingSetBytes": usage.working_set, "rssBytes": usage.rss},
        "volume": volumes,
        "ephemeral-storage": {"time": now, "usedBytes": on_disk},
        "process_stats": {"process_count": tasks},
    });
    add_pressure(server, &group, now, &mut shown);
    shown
}

/// A volume that is a file system of its own, or a part of another's: it is
/// asked, not walked, as it may have any number of files.
fn on_its_own(
    entry: &PodEntry,
    volume: &Volume,
    claim: Option<String>,
    now: &str,
) -> Option<Value> {
    let mut shown = file_system(entry.places.get(&volume.name)?, now);
    shown["name"] = json!(volume.name);
    if let Some(claim) = claim {
        shown["pvcRef"] = json!({"name": claim, "namespace": entry.pod.namespace()});
    }
    Some(shown)
}

/// `/configz`: the configuration as the file has it, with what the agent made
/// of it where it acts on it.
pub(super) fn configuration(server: &KubeletServer) -> Response<Body> {
    let shown = in_force(&server.settings, server.layout.driver());
    let body = json!({"kubeletconfig": shown});
    reply(StatusCode::OK, "application/json", body.to_string())
}

/// The configuration with what is in force; the `driver` of control groups is whatever
/// the file says. Pure.
fn in_force(settings: &Settings, driver: CgroupManager) -> Value {
    let mut shown = settings.raw.clone();
    let seconds = |d: std::time::Duration| format!("{}s", d.as_secs());
    let mut set = |key: &str, value: Value| {
        if shown.get(key).is_none() {
            shown[key] = value;
        }
    };
    set("containerLogMaxSize", settings.log_most.to_string().into());
    set("containerLogMaxFiles", settings.log_files.into());
    set("imageGCHighThresholdPercent", settings.images.high.into());
    set("imageGCLowThresholdPercent", settings.images.low.into());
    set(
        "imageMinimumGCAge",
        seconds(settings.images.least_age).into(),
    );
    set("maxParallelImagePulls", settings.pulls.into());
    set("serializeImagePulls", (settings.pulls == 1).into());
    set("podPidsLimit", settings.pod_pids.unwrap_or(-1).into());
    set("seccompDefault", settings.seccomp_default.into());
    set(
        "evictionPressureTransitionPeriod",
        seconds(settings.eviction.transition).into(),
    );
    let logs = settings.system_logs;
    set("enableSystemLogHandler", (logs != SystemLogs::Off).into());
    set("enableSystemLogQuery", (logs == SystemLogs::Query).into());
    shown["cgroupDriver"] = driver.to_string().into();
    shown
}

/// `/metrics/probes`: how probes went so far.
pub(super) fn probes(server: &KubeletServer) -> Response<Body> {
    reply(StatusCode::OK, METRICS, probes_text(server.probes.all()))
}

fn probes_text(all: Vec<(ProbeSubject, &'static str, u64)>) -> String {
    let mut page = Page::new(Format::Text);
    page.family(
        "prober_probe",
        Kind::Counter,
        "Cumulative number of a liveness, readiness or startup probe for a container by result.",
    );
    for (probe, result, count) in all {
        let labels = [
            ("container", probe.container.as_str()),
            ("namespace", &probe.namespace),
            ("pod", &probe.pod),
            ("pod_uid", &probe.uid),
            ("probe_type", probe.kind.title()),
            ("result", result),
        ];
        page.sample("prober_probe_total", &labels, count);
    }
    page.finish()
}

pub(super) const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";

/// `/metrics`: the agent itself.
pub(super) async fn metrics(server: &KubeletServer) -> Response<Body> {
    let all = server.pods.all();
    let running = all
        .iter()
        .flat_map(|e| &e.observed.containers)
        .filter(|c| c.running())
        .count();
    let pods = all
        .iter()
        .filter(|e| e.observed.live_sandbox().is_some())
        .count();
    let last = server.leaving.last();
    let shutdown = [last.start_time, last.end_time].map(|at| at.map_or(0, Timestamp::as_second));
    let mut text = node_text(&server.node_name, pods, running, shutdown);
    text.push_str(&server.metrics.text());
    // asking a file system may take long
    let volumes = tokio::task::spawn_blocking(move || volume_stats(&all));
    text.push_str(&volumes.await.unwrap_or_default());
    for further in &server.further_metrics {
        text.push_str(&further.families());
    }
    let mut clients = String::new();
    control_client::metrics::write(&mut clients);
    text.push_str(&node_agent_kubelet_metrics::prometheus_text(&clients));
    reply(StatusCode::OK, METRICS, text)
}

/// The node's name, how many pods and containers run on it, and when its last shutdown
/// began and ended.
fn node_text(node: &str, pods: usize, containers: usize, shutdown: [i64; 2]) -> String {
    let mut page = Page::new(Format::Text);
    let name = "kubelet_node_name";
    page.family(name, Kind::Gauge, "The node's name. The count is always 1.");
    page.sample(name, &[("node", node)], 1);
    let name = "kubelet_running_pods";
    let help = "Number of pods that have a running pod sandbox";
    page.family(name, Kind::Gauge, help);
    page.sample(name, &[], pods);
    let name = "kubelet_running_containers";
    let help = "Number of containers currently running";
    page.family(name, Kind::Gauge, help);
    page.sample(name, &[("container_state", "running")], containers);
    for (what, seconds) in ["start", "end"].into_iter().zip(shutdown) {
        let name = format!("kubelet_graceful_shutdown_{what}_time_seconds");
        let help = format!("Last graceful shutdown {what} time since unix epoch in seconds");
        page.family(&name, Kind::Gauge, &help);
        page.sample(&name, &[], seconds);
    }
    page.finish()
}

/// What the volumes of claims have and use, each claim once.
fn volume_stats(pods: &[PodEntry]) -> String {
    let mut found = std::collections::BTreeMap::new();
    for entry in pods {
        for volume in &entry.pod.spec.volumes {
            if let Some(claim) = node_agent_pod_volumes::claim::name(&entry.pod, volume)
                && let Some(path) = entry.places.get(&volume.name)
            {
                found.insert((entry.pod.namespace().to_owned(), claim), path);
            }
        }
    }
    let all: Vec<_> = found
        .iter()
        .filter_map(|(claim, path)| Some((claim, rustix::fs::statvfs(path.as_path()).ok()?)))
        .collect();
    let mut page = Page::new(Format::Text);
    let mut write = |name: &str, help: &str, value: &dyn Fn(&rustix::fs::StatVfs) -> u64| {
        let name = format!("kubelet_volume_stats_{name}");
        page.family(&name, Kind::Gauge, help);
        for ((namespace, claim), stat) in &all {
            let labels = [
                ("namespace", namespace.as_str()),
                ("persistentvolumeclaim", claim),
            ];
            page.sample(&name, &labels, value(stat));
        }
    };
    let bytes = |blocks: u64, size: u64| blocks.saturating_mul(size);
    write("capacity_bytes", "Capacity in bytes of the volume", &|s| {
        bytes(s.f_blocks, s.f_frsize)
    });
    write(
        "available_bytes",
        "Number of available bytes in the volume",
        &|s| bytes(s.f_bavail, s.f_frsize),
    );
    write("used_bytes", "Number of used bytes in the volume", &|s| {
        bytes(s.f_blocks.saturating_sub(s.f_bfree), s.f_frsize)
    });
    write("inodes", "Maximum number of inodes in the volume", &|s| {
        s.f_files
    });
    write("inodes_free", "Number of free inodes in the volume", &|s| {
        s.f_ffree
    });
    write("inodes_used", "Number of used inodes in the volume", &|s| {
        s.f_files.saturating_sub(s.f_ffree)
    });
    page.finish()
}

/// `/metrics/resource`: CPU and memory of the node and of containers.
pub(super) async fn resource(server: &KubeletServer) -> Response<Body> {
    let usage = server
        .cgroups
        .as_ref()
        .map(|cgroups| cgroups.usage("/"))
        .unwrap_or_default();
    let mut page = Page::new(Format::Text);
    if let Some(used) = usage.cpu_nanoseconds {
        page.family("node_cpu_usage_seconds", Kind::Counter, "");
        page.sample("node_cpu_usage_seconds_total", &[], used as f64 / 1e9);
    }
    // The root of cgroup v2 counts no memory.
    if let Some(used) = usage.working_set.or_else(used_memory) {
        page.family("node_memory_working_set_bytes", Kind::Gauge, "");
        page.sample("node_memory_working_set_bytes", &[], used);
    }
    containers(server, &mut page).await;
    let (mut cpu, mut memory, mut starts) = (Vec::new(), Vec::new(), Vec::new());
    for entry in server.pods.all() {
        let pod = &entry.pod;
        let group = server.layout.pod(qos::class(&pod.spec), pod.uid());
        let found = server.cgroups.as_ref().map(|c| c.usage(&group));
        let usage = found.unwrap_or_default();
        let owner = [("namespace", pod.namespace()), ("pod", pod.name())];
        let labels = LabelSet::new(&owner);
        if let Some(used) = usage.cpu_nanoseconds {
            cpu.push((labels.clone(), used as f64 / 1e9));
        }
        for record in entry.observed.containers.iter().filter(|c| c.running()) {
            let labels = LabelSet::new(&[("container", &record.name), owner[0], owner[1]]);
            starts.push((labels, record.started_at as f64 / 1e9));
        }
        if let Some(used) = usage.working_set {
            memory.push((labels, used as f64));
        }
    }
    for (name, kind, samples) in [
        ("pod_cpu_usage_seconds", Kind::Counter, cpu),
        ("pod_memory_working_set_bytes", Kind::Gauge, memory),
        ("container_start_time_seconds", Kind::Gauge, starts),
    ] {
        write_samples(name, kind, &samples, &mut page);
    }
    page.family("resource_scrape_error", Kind::Gauge, "");
    page.sample("resource_scrape_error", &[], 0);
    reply(StatusCode::OK, METRICS, page.finish())
}

/// Writes a family whose samples were collected before.
fn write_samples(name: &str, kind: Kind, samples: &[(LabelSet, f64)], page: &mut Page) {
    page.family(name, kind, "");
    let total = if kind == Kind::Counter { "_total" } else { "" };
    let name = format!("{name}{total}");
    for (labels, value) in samples {
        page.sample_with(&name, labels, value);
    }
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

async fn containers(server: &KubeletServer, page: &mut Page) {
    let stats = server
        .runtime
        .list_container_stats(api::ListContainerStatsRequest::default())
        .await
        .map(|answer| answer.stats)
        .unwrap_or_default();
    let (mut cpu, mut memory) = (Vec::new(), Vec::new());
    for one in stats {
        let Some(attributes) = &one.attributes else {
            continue;
        };
        let label = |name: &str| attributes.labels.get(name).map_or("", String::as_str);
        let labels = LabelSet::new(&[
            ("container", label(key::CONTAINER_NAME)),
            ("namespace", label(key::POD_NAMESPACE)),
            ("pod", label(key::POD_NAME)),
        ]);
        if let Some(used) = one.cpu.and_then(|c| c.usage_core_nano_seconds) {
            cpu.push((labels.clone(), used.value as f64 / 1e9));
        }
        if let Some(used) = one.memory.and_then(|m| m.working_set_bytes) {
            memory.push((labels, used.value as f64));
        }
    }
    write_samples("container_cpu_usage_seconds", Kind::Counter, &cpu, page);
    let name = "container_memory_working_set_bytes";
    write_samples(name, Kind::Gauge, &memory, page);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http_body_util::BodyExt as _;

    use super::*;
    use node_agent_cgroups::{CgroupLayout, Cgroups};
    use node_agent_cri::fake::Fake;
    use node_agent_cri::observed::{ObservedContainer, ObservedPod};
    use node_agent_pod_registry::PodRegistry;
    use node_agent_probes::probe::ProbeKind as Kinds;

    const WAITED: &str = "some avg10=1.50 avg60=0.25 avg300=0.00 total=300\n\
        full avg10=0.50 avg60=0.00 avg300=0.00 total=100\n";

    #[test]
    fn what_a_pressure_file_says_is_shown() {
        assert_eq!(
            pressure(WAITED),
            Some(json!({
                "some": {"total": 300, "avg10": 1.5, "avg60": 0.25, "avg300": 0.0},
                "full": {"total": 100, "avg10": 0.5, "avg60": 0.0, "avg300": 0.0}}))
        );
        let (some, _) = WAITED.split_once('\n').unwrap();
        assert_eq!(pressure(some).unwrap()["full"]["total"], 0);
        for broken in ["", "some\n", "some avg10=x avg60=0 avg300=0 total=1"] {
            assert_eq!(pressure(broken), None, "{broken}");
        }
    }

    #[test]
    fn the_configuration_is_shown_as_it_is_in_force() {
        let parse = |text: &str| {
            let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
            Settings::parse(&format!("{head}{text}")).unwrap()
        };
        // the runtime decides, whatever the file says
        let said = in_force(
            &parse("cgroupDriver: cgroupfs\nmaxPods: 7\n"),
            CgroupManager::Systemd,
        );
        assert_eq!(said["cgroupDriver"], "systemd");
        assert_eq!(
            (&said["maxPods"], &said["enableSystemLogQuery"]),
            (&json!(7), &json!(false))
        );
        let silent = in_force(
            &parse("enableSystemLogQuery: true\n"),
            CgroupManager::Cgroupfs,
        );
        assert_eq!(silent["cgroupDriver"], "cgroupfs");
        assert_eq!(silent["enableSystemLogQuery"], true);
        assert_eq!(silent["kind"], "KubeletConfiguration");
    }

    #[test]
    fn families_of_the_kubelet_are_written_byte_by_byte() {
        assert_eq!(
            node_text("a", 2, 3, [5, 0]),
            r#"# HELP kubelet_node_name The node's name. The count is always 1.
# TYPE kubelet_node_name gauge
kubelet_node_name{node="a"} 1
# HELP kubelet_running_pods Number of pods that have a running pod sandbox
# TYPE kubelet_running_pods gauge
kubelet_running_pods 2
# HELP kubelet_running_containers Number of containers currently running
# TYPE kubelet_running_containers gauge
kubelet_running_containers{container_state="running"} 3
# HELP kubelet_graceful_shutdown_start_time_seconds Last graceful shutdown start time since unix epoch in seconds
# TYPE kubelet_graceful_shutdown_start_time_seconds gauge
kubelet_graceful_shutdown_start_time_seconds 5
# HELP kubelet_graceful_shutdown_end_time_seconds Last graceful shutdown end time since unix epoch in seconds
# TYPE kubelet_graceful_shutdown_end_time_seconds gauge
kubelet_graceful_shutdown_end_time_seconds 0
"#
        );
        let probe = ProbeSubject {
            namespace: "n".to_owned(),
            pod: "p".to_owned(),
            uid: "u".to_owned(),
            container: "c".to_owned(),
            kind: Kinds::Readiness,
        };
        assert_eq!(
            probes_text(vec![(probe, "successful", 4)]),
            r#"# HELP prober_probe_total Cumulative number of a liveness, readiness or startup probe for a container by result.
# TYPE prober_probe_total counter
prober_probe_total{container="c",namespace="n",pod="p",pod_uid="u",probe_type="Readiness",result="successful"} 4
"#
        );
    }

    /// A server whose control groups are in a folder, with one pod that runs.
    fn server(mount: &Path) -> (KubeletServer, PodEntry) {
        let pod = json!({"metadata": {"name": "web", "namespace": "default", "uid": "u"},
            "spec": {"containers": [{"name": "a", "image": "i"}]}});
        let container = api::ContainerStatus {
            id: "a-1".to_owned(),
            state: api::ContainerState::Running.into(),
            started_at: 1_500_000_000,
            labels: [(key::CONTAINER_NAME.to_owned(), "a".to_owned())].into(),
            ..Default::default()
        };
        let observed = ObservedPod {
            sandboxes: Vec::new(),
            containers: vec![Arc::new(
                ObservedContainer::from_status(&container, "s").unwrap(),
            )],
        };
        let entry = PodEntry {
            pod: Arc::new(serde_json::from_value(pod).unwrap()),
            observed: Arc::new(observed),
            status: Arc::default(),
            places: Arc::default(),
        };
        let pods = PodRegistry::default();
        pods.put(entry.clone());
        let unasked = tower::service_fn(|_: http::Request<control_client::RequestBody>| {
            std::future::pending::<Result<Response<Body>, std::convert::Infallible>>()
        });
        let layout = CgroupLayout::below("/");
        let server = KubeletServer {
            client: control_client::Client::in_process(unasked, ()),
            node_name: "n".to_owned(),
            settings: Arc::default(),
            runtime: Arc::new(Fake::default()),
            runtime_name: "fake".to_owned(),
            pods: Arc::new(pods),
            root: mount.to_owned(),
            log_root: mount.join("logs"),
            cgroups: Cgroups::find(mount, layout.clone()).ok(),
            layout,
            leaving: Arc::default(),
            probes: Arc::default(),
            metrics: Arc::default(),
            further_metrics: Vec::new(),
            further: None,
            pulse: Arc::default(),
        };
        (server, entry)
    }

    /// The kernel's files have no size, so the figures are known.
    #[tokio::test]
    async fn resources_and_volumes_are_written_byte_by_byte() {
        let mount = tempfile::tempdir().unwrap();
        std::fs::write(mount.path().join("cgroup.controllers"), "cpu").unwrap();
        std::fs::write(mount.path().join("memory.current"), "8192\n").unwrap();
        let (server, mut entry) = server(mount.path());
        let group = mount.path().join("kubepods/besteffort/podu");
        let _ = std::fs::create_dir_all(&group);
        std::fs::write(group.join("cpu.stat"), "usage_usec 2500000\n").unwrap();
        std::fs::write(group.join("memory.current"), "4096\n").unwrap();
        let started = entry.observed.latest("a").unwrap().started_at as f64 / 1e9;
        let bytes = resource(&server).await.into_body().collect().await;
        assert_eq!(
            String::from_utf8(bytes.unwrap().to_bytes().to_vec()).unwrap(),
            format!(
                r#"# TYPE node_memory_working_set_bytes gauge
node_memory_working_set_bytes 8192
# TYPE container_cpu_usage_seconds_total counter
# TYPE container_memory_working_set_bytes gauge
# TYPE pod_cpu_usage_seconds_total counter
pod_cpu_usage_seconds_total{{namespace="default",pod="web"}} 2.5
# TYPE pod_memory_working_set_bytes gauge
pod_memory_working_set_bytes{{namespace="default",pod="web"}} 4096
# TYPE container_start_time_seconds gauge
container_start_time_seconds{{container="a",namespace="default",pod="web"}} {started}
# TYPE resource_scrape_error gauge
resource_scrape_error 0
"#
            )
        );
        let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}});
        let volume: Volume = serde_json::from_value(volume).unwrap();
        Arc::make_mut(&mut entry.pod).spec.volumes.push(volume);
        Arc::make_mut(&mut entry.places).insert("v".to_owned(), "/proc".into());
        let text = volume_stats(&[entry]);
        let start = r#"# HELP kubelet_volume_stats_capacity_bytes Capacity in bytes of the volume
# TYPE kubelet_volume_stats_capacity_bytes gauge
kubelet_volume_stats_capacity_bytes{namespace="default",persistentvolumeclaim="c"} 0
# HELP kubelet_volume_stats_available_bytes Number of available bytes in the volume
"#;
        assert!(text.starts_with(start), "{text}");
        assert_eq!(text.lines().count(), 18);
    }

    #[tokio::test]
    async fn pods_and_containers_tell_what_they_waited_for() {
        let mount = tempfile::tempdir().unwrap();
        std::fs::write(mount.path().join("cgroup.controllers"), "cpu").unwrap();
        let (server, entry) = server(mount.path());
        let id = &entry.observed.latest("a").unwrap().id;
        let group = mount.path().join("kubepods/besteffort/podu");
        std::fs::create_dir_all(group.join(id)).unwrap();
        std::fs::write(group.join("memory.pressure"), WAITED).unwrap();
        std::fs::write(group.join(id).join("io.pressure"), WAITED).unwrap();
        let all = summarize(&server, &FxHashMap::default(), None, "now");
        let pod = &all["pods"][0];
        assert_eq!(pod["memory"]["psi"]["some"]["total"], 300);
        assert_eq!(pod["cpu"]["psi"], Value::Null);
        assert_eq!(pod["io"], Value::Null);
        let container = &pod["containers"][0];
        assert_eq!(container["io"]["time"], "now");
        assert_eq!(container["io"]["psi"]["full"]["total"], 100);
    }
}
