//! Looks after what the node has: images that are of no use are removed, and
//! pods are evicted when it runs short, or when they use more disk than they
//! may. The decisions are in [`evict`] and [`images`]; this asks, and does.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use node_agent_cgroups::{Cgroups, ClassSums};
use node_agent_cri::{Runtime, api};
use node_agent_files::{TreeUsage, disk_usage};
use node_agent_images::ImagePuller;
use node_agent_kubelet_config::{MemoryQos, Settings, Signal};
use node_agent_kubelet_metrics::PodMetrics;
use node_agent_objects::error_chain;
use node_agent_objects::events::NodeEvents;
use node_agent_objects::pod::{Pod, QosClass};
use node_agent_objects::quantity;
use node_agent_objects::volume::VolumeSource;
use node_agent_pod_registry::{
    EvictionRequest, PodEntry, PodRegistry, TerminationCause, log_directory,
};
use node_agent_pod_resources::qos;
use node_agent_pod_volumes::PodVolumes;
use rustc_hash::{FxHashMap, FxHashSet};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::evict::{self, EvictionCandidate, EvictionCause, SignalReading, ThresholdWatcher};
use super::images::{self, ImageLedger};
use super::machine::CurrentPressure;

/// How often the node is looked at, and how often its images.
const LOOK_EVERY: Duration = Duration::from_secs(10);
const IMAGES_EVERY: Duration = Duration::from_secs(60);

/// What removes images and evicts pods when the node runs short.
#[derive(Clone)]
pub struct EvictionGuard {
    /// The container runtime.
    pub runtime: Arc<dyn Runtime>,
    /// The images, of which those that are removed are forgotten.
    pub images: Arc<ImagePuller>,
    /// The pods of the node.
    pub pods: Arc<PodRegistry>,
    /// Control groups; none where there are none to be made.
    pub cgroups: Option<Cgroups>,
    /// The agent's own folder.
    pub root: PathBuf,
    /// Pods' logs.
    pub log_root: PathBuf,
    /// When images are removed and pods are evicted.
    pub settings: Arc<Settings>,
    /// Where it is noted what the node is short of.
    pub pressure: CurrentPressure,
    /// Where pods are ended.
    pub orders: mpsc::UnboundedSender<EvictionRequest>,
    /// Where events go.
    pub events: NodeEvents,
    /// Where evictions are counted.
    pub metrics: Arc<PodMetrics>,
}

/// Guards the node until `shutdown`.
pub async fn watch(guard: EvictionGuard, shutdown: CancellationToken) {
    let settings = &guard.settings;
    let mut watcher = ThresholdWatcher::default();
    let mut ledger = ImageLedger::default();
    let mut collected: Option<Instant> = None;
    loop {
        let disk = image_disk(&*guard.runtime).await;
        let readings = read(&guard.root, disk.as_deref());
        let judged = watcher.judge(&settings.eviction, &readings, Timestamp::now());
        guard.pressure.set(judged.pressure);
        let of_disk = judged.evict.filter(|cause| {
            matches!(
                evict::resource(cause.threshold.signal),
                "ephemeral-storage" | "inodes"
            )
        });
        if of_disk.is_some() || collected.is_none_or(|at| at.elapsed() >= IMAGES_EVERY) {
            collected = Some(Instant::now());
            let excess = match (of_disk, &disk) {
                (Some(_), _) => u64::MAX,
                (None, Some(at)) => statvfs(at).map_or(0, |(disk, _)| {
                    images::excess(&settings.images, disk.capacity, disk.available)
                }),
                (None, None) => 0,
            };
            let removed = collect(&guard, &mut ledger, excess).await;
            if of_disk.is_some() && removed > 0 {
                // perhaps that was enough: looked at again before a pod has to go
                continue;
            }
        }
        if let Some(cause) = judged.evict {
            evict_one(&guard, &cause, settings.eviction.most_grace).await;
        }
        limits(&guard).await;
        set_classes(&guard.pods, guard.cgroups.as_ref(), settings.memory.qos).await;
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

// --- what there is

fn read(root: &Path, images: Option<&Path>) -> FxHashMap<Signal, SignalReading> {
    let mut all = FxHashMap::default();
    let info = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = |name| super::machine::meminfo(&info, name);
    if let Some((available, capacity)) = line("MemAvailable").zip(line("MemTotal")) {
        let reading = SignalReading {
            available,
            capacity,
        };
        all.insert(Signal::Memory, reading);
    }
    let mut disk = |path: &Path, bytes, inodes| {
        if let Some((space, nodes)) = statvfs(path) {
            all.insert(bytes, space);
            // some file systems have as many as fit
            if nodes.capacity > 0 {
                all.insert(inodes, nodes);
            }
        }
    };
    disk(root, Signal::Disk, Signal::Inodes);
    disk(
        images.unwrap_or(root),
        Signal::ImageDisk,
        Signal::ImageInodes,
    );
    let tasks = fs::read_to_string("/proc/loadavg")
        .ok()
        .and_then(|text| text.split(['/', ' ']).nth(4)?.parse::<u64>().ok());
    if let Some((tasks, most)) = tasks.zip(super::machine::most_tasks()) {
        let reading = SignalReading {
            available: most.saturating_sub(tasks),
            capacity: most,
        };
        all.insert(Signal::Pids, reading);
    }
    all
}

/// Bytes and inodes of the file system at `path`.
fn statvfs(path: &Path) -> Option<(SignalReading, SignalReading)> {
    let stat = rustix::fs::statvfs(path).ok()?;
    let space = SignalReading {
        available: stat.f_bavail.saturating_mul(stat.f_frsize),
        capacity: stat.f_blocks.saturating_mul(stat.f_frsize),
    };
    let nodes = SignalReading {
        available: stat.f_favail,
        capacity: stat.f_files,
    };
    Some((space, nodes))
}

async fn image_disk(runtime: &dyn Runtime) -> Option<PathBuf> {
    let info = runtime.image_fs_info(api::ImageFsInfoRequest {}).await;
    let first = info.ok()?.image_filesystems.into_iter().next()?;
    let path = PathBuf::from(first.fs_id?.mountpoint);
    path.exists().then_some(path)
}

// --- images

/// Removes images; how many.
async fn collect(guard: &EvictionGuard, ledger: &mut ImageLedger, excess: u64) -> usize {
    let since = Timestamp::now();
    let asked = guard
        .runtime
        .list_images(api::ListImagesRequest { filter: None });
    let containers = guard
        .runtime
        .list_containers(api::ListContainersRequest { filter: None });
    let Ok((found, containers)) = futures::future::try_join(asked, containers).await else {
        return 0;
    };
    let ids: Vec<String> = found.images.iter().map(|i| i.id.clone()).collect();
    guard.images.forget_all_but(&ids, since);
    let all: Vec<images::NodeImage> = found
        .images
        .iter()
        .map(|image| images::NodeImage {
            id: image.id.clone(),
            size: image.size,
            pinned: image.pinned,
        })
        .collect();
    let mut used: FxHashSet<String> = FxHashSet::default();
    let mut uses = |name: &str| {
        for image in &found.images {
            let named = image.id == name
                || image.repo_tags.iter().any(|t| t == name)
                || image.repo_digests.iter().any(|d| d == name);
            if named {
                used.insert(image.id.clone());
            }
        }
    };
    for container in &containers.containers {
        uses(&container.image_ref);
        if let Some(image) = &container.image {
            uses(&image.image);
        }
    }
    for entry in guard.pods.all() {
        for volume in &entry.pod.spec.volumes {
            if let VolumeSource::Image(image) = &volume.source {
                uses(&image.reference);
            }
        }
    }
    let now = Timestamp::now();
    ledger.note(&all, &used, now);
    let mut removed = 0;
    for id in ledger.unwanted(&all, &used, &guard.settings.images, excess, now) {
        let request = api::ImageRequest {
            image: Some(api::ImageSpec {
                image: id.clone(),
                ..api::ImageSpec::default()
            }),
        };
        match guard.runtime.remove_image(request).await {
            Ok(_) => {
                tracing::info!(image = id, "removed an unused image");
                removed += 1;
            }
            Err(error) => tracing::warn!(image = id, %error, "failed to remove an image"),
        }
    }
    removed
}

// --- pods

fn living(pods: &PodRegistry) -> Vec<PodEntry> {
    pods.all()
        .into_iter()
        .filter(|e| !e.status.is_terminal() && !e.pod.is_deleting())
        .collect()
}

/// Has the control groups of the classes follow what their pods ask for.
pub async fn set_classes(pods: &PodRegistry, cgroups: Option<&Cgroups>, qos: Option<MemoryQos>) {
    let Some(cgroups) = cgroups else {
        return;
    };
    let all = living(pods);
    let asked = ClassSums::for_pods(all.iter().map(|entry| &entry.pod.spec), qos);
    if let Err(error) = cgroups.set_classes(asked).await {
        tracing::warn!(
            error = error_chain(&error),
            "failed to set CPU weights of QoS classes"
        );
    }
}

fn units(n: i64) -> u64 {
    u64::try_from(n).unwrap_or(0)
}

async fn evict_one(guard: &EvictionGuard, cause: &EvictionCause, most_grace: i64) {
    let what = evict::resource(cause.threshold.signal);
    let all = living(&guard.pods);
    let mut disk = FxHashMap::default();
    if matches!(what, "ephemeral-storage" | "inodes") {
        disk = usages(guard, &all).await;
    }
    let mut candidates: Vec<EvictionCandidate> = all
        .iter()
        .filter(|e| !e.pod.is_static())
        .map(|entry| {
            let pod = &entry.pod;
            let on_disk = disk.get(pod.uid()).cloned().unwrap_or_default();
            let usage = match what {
                "memory" => working_set(guard, pod),
                "inodes" => on_disk.inodes,
                "pids" => pids(guard, pod),
                _ => on_disk.total(),
            };
            EvictionCandidate {
                uid: pod.uid().to_owned(),
                priority: pod.spec.priority.unwrap_or(0),
                request: units(qos::pod_request(&pod.spec, what)),
                usage,
            }
        })
        .collect();
    evict::rank(&mut candidates);
    let Some(first) = candidates.first() else {
        tracing::warn!(
            resource = what,
            "node is under pressure, and no pod can be evicted"
        );
        return;
    };
    let Some(entry) = all.iter().find(|e| e.pod.uid() == first.uid) else {
        return;
    };
    let containers: Vec<(String, u64, u64)> = if entry.pod.spec.containers.len() == 1 {
        entry
            .pod
            .spec
            .containers
            .iter()
            .map(|c| (c.name.clone(), first.usage, first.request))
            .collect()
    } else {
        Vec::new()
    };
    let grace = match cause.threshold.grace {
        // at once, but for a moment to see the signal
        None => 1,
        Some(_) => entry.pod.spec.grace_period().min(most_grace).max(1),
    };
    guard.metrics.evicted(cause.threshold.signal.name());
    order(guard, &entry.pod, evict::message(cause, &containers), grace);
}

fn order(guard: &EvictionGuard, pod: &Pod, message: String, grace: i64) {
    tracing::warn!(
        pod = pod.name(),
        namespace = pod.namespace(),
        message,
        "evicting pod"
    );
    guard.events.warning(pod, None, "Evicted", message.clone());
    // nobody runs pods any more when the agent ends
    let _ = guard.orders.send(EvictionRequest {
        uid: pod.uid().to_owned(),
        sentence: TerminationCause {
            reason: "Evicted".to_owned(),
            message,
            disruption: true,
        },
        grace,
    });
}

fn working_set(guard: &EvictionGuard, pod: &Pod) -> u64 {
    let usage = guard.cgroups.as_ref().map(|cgroups| {
        let group = cgroups.layout().pod(qos::class(&pod.spec), pod.uid());
        cgroups.usage(&group)
    });
    usage.and_then(|u| u.working_set).unwrap_or(0)
}

fn pids(guard: &EvictionGuard, pod: &Pod) -> u64 {
    let tasks = guard.cgroups.as_ref().and_then(|cgroups| {
        let group = cgroups.layout().pod(qos::class(&pod.spec), pod.uid());
        cgroups.tasks(&group)
    });
    tasks.unwrap_or(0)
}

// --- disk that pods use

/// What one pod has on disk.
#[derive(Clone, Debug, Default)]
struct OnDisk {
    /// By volume, bytes: those of kind emptyDir.
    empty: Vec<(String, u64)>,
    /// Bytes of emptyDirs that are on disk, and of the `hosts` file.
    shared: u64,
    /// By container, bytes of its writable layer, logs and termination messages.
    containers: FxHashMap<String, u64>,
    inodes: u64,
}

impl OnDisk {
    fn total(&self) -> u64 {
        self.containers
            .values()
            .fold(self.shared, |sum, n| sum.saturating_add(*n))
    }
}

async fn usages(guard: &EvictionGuard, pods: &[PodEntry]) -> FxHashMap<String, OnDisk> {
    let stats = guard
        .runtime
        .list_container_stats(api::ListContainerStatsRequest::default())
        .await
        .map(|answer| answer.stats)
        .unwrap_or_default();
    let layers: FxHashMap<String, u64> = stats
        .into_iter()
        .filter_map(|s| Some((s.attributes?.id, s.writable_layer?.used_bytes?.value)))
        .collect();
    let (root, log_root) = (guard.root.clone(), guard.log_root.clone());
    let pods = pods.to_vec();
    // walking many files takes a while
    tokio::task::spawn_blocking(move || {
        pods.iter()
            .map(|entry| {
                let usage = usage(&root, &log_root, entry, &layers);
                (entry.pod.uid().to_owned(), usage)
            })
            .collect()
    })
    .await
    .unwrap_or_default()
}

fn usage(
    root: &Path,
    log_root: &Path,
    entry: &PodEntry,
    layers: &FxHashMap<String, u64>,
) -> OnDisk {
    let pod = &entry.pod;
    let volumes = PodVolumes::new(root, pod.uid());
    let mut found = OnDisk::default();
    for volume in &pod.spec.volumes {
        if let (VolumeSource::EmptyDir(empty), Some(path)) = (&volume.source, volumes.path(volume))
        {
            let TreeUsage { bytes, inodes } = disk_usage(&path);
            found.empty.push((volume.name.clone(), bytes));
            if empty.medium.is_empty() {
                found.shared = found.shared.saturating_add(bytes);
                found.inodes = found.inodes.saturating_add(inodes);
            }
        }
    }
    let logs = log_directory(log_root, pod);
    for record in &entry.observed.containers {
        let sum = found.containers.entry(record.name.clone()).or_default();
        *sum = sum.saturating_add(layers.get(&record.id).copied().unwrap_or(0));
    }
    for container in pod.spec.all_containers() {
        let TreeUsage { bytes, .. } = disk_usage(&logs.join(&container.name));
        let messages = disk_usage(&volumes.termination_dir(&container.name));
        let sum = found.containers.entry(container.name.clone()).or_default();
        *sum = sum.saturating_add(bytes).saturating_add(messages.bytes);
        found.inodes = found.inodes.saturating_add(messages.inodes);
    }
    // any of the containers may have written it
    let hosts = disk_usage(&volumes.hosts_path());
    found.shared = found.shared.saturating_add(hosts.bytes);
    found.inodes = found.inodes.saturating_add(hosts.inodes);
    found
}

/// Evicts pods that use more disk than they may.
async fn limits(guard: &EvictionGuard) {
    let limited: Vec<PodEntry> = living(&guard.pods)
        .into_iter()
        .filter(|e| is_limited(&e.pod))
        .collect();
    if limited.is_empty() {
        return;
    }
    let found = usages(guard, &limited).await;
    for entry in &limited {
        let Some(usage) = found.get(entry.pod.uid()) else {
            continue;
        };
        if let Some(DiskExcess { signal, message }) = excess(&entry.pod, usage) {
            guard.metrics.evicted(signal);
            order(guard, &entry.pod, message, 1);
        }
    }
}

fn storage(list: &std::collections::BTreeMap<String, String>) -> Option<u64> {
    quantity::whole(list.get("ephemeral-storage")?).map(units)
}

fn is_limited(pod: &Pod) -> bool {
    let empty = pod
        .spec
        .volumes
        .iter()
        .any(|v| matches!(&v.source, VolumeSource::EmptyDir(e) if e.size_limit.is_some()));
    empty
        || pod
            .spec
            .all_containers()
            .any(|c| storage(&c.resources.limits).is_some())
}

/// A local storage limit that a pod exceeds.
#[derive(Clone, Debug, PartialEq, Eq)]
struct DiskExcess {
    /// As the kubelet's metrics name it.
    signal: &'static str,
    /// In the kubelet's words.
    message: String,
}

/// Which limit of disk a pod exceeds.
fn excess(pod: &Pod, usage: &OnDisk) -> Option<DiskExcess> {
    let found = |signal, message| Some(DiskExcess { signal, message });
    for volume in &pod.spec.volumes {
        let VolumeSource::EmptyDir(empty) = &volume.source else {
            continue;
        };
        let Some(text) = empty.size_limit.as_deref() else {
            continue;
        };
        let limit = quantity::whole(text).map_or(0, units);
        let used = usage.empty.iter().find(|(name, _)| *name == volume.name);
        if limit > 0 && used.is_some_and(|(_, bytes)| *bytes > limit) {
            let message = format!(
                "Usage of EmptyDir volume \"{}\" exceeds the limit \"{text}\". ",
                volume.name
            );
            return found("emptydirfs.limit", message);
        }
    }
    let mut all = Some(0_u64);
    for container in &pod.spec.containers {
        let limit = storage(&container.resources.limits);
        all = all.zip(limit).map(|(sum, limit)| sum.saturating_add(limit));
        let used = usage.containers.get(&container.name).copied().unwrap_or(0);
        if let Some(limit) = limit.filter(|limit| used > *limit) {
            let message = format!(
                "Container {} exceeded its local ephemeral storage limit \"{}\". ",
                container.name,
                evict::binary(limit)
            );
            return found("ephemeralcontainerfs.limit", message);
        }
    }
    all.filter(|limit| *limit > 0 && usage.total() > *limit)
        .and_then(|limit| {
            let message = format!(
                "Pod ephemeral local storage usage exceeds the total limit of containers {}. ",
                evict::binary(limit)
            );
            found("ephemeralpodfs.limit", message)
        })
}

/// Whether the node takes no such pod while it is short of something.
#[must_use]
pub fn refuses(pressure: super::machine::Pressure, pod: &Pod) -> Option<String> {
    if pod.is_critical() {
        return None;
    }
    let best_effort = qos::class(&pod.spec) == QosClass::BestEffort;
    let mut named = Vec::new();
    if pressure.memory && best_effort {
        named.push("MemoryPressure");
    }
    if pressure.disk {
        named.push("DiskPressure");
    }
    if pressure.pids {
        named.push("PIDPressure");
    }
    (!named.is_empty()).then(|| format!("The node had condition: [{}]. ", named.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(spec: serde_json::Value) -> Pod {
        serde_json::from_value(serde_json::json!({"metadata": {"name": "web"}, "spec": spec}))
            .unwrap()
    }

    #[test]
    fn what_containers_write_through_mounts_of_the_agent_is_counted() {
        let root = tempfile::tempdir().unwrap();
        let logs = root.path().join("logs");
        let pod: Pod = serde_json::from_value(serde_json::json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "u"},
            "spec": {"containers": [{"name": "a"}]}}))
        .unwrap();
        let entry = PodEntry {
            pod: Arc::new(pod),
            observed: Default::default(),
            status: Default::default(),
            places: Default::default(),
        };
        let volumes = PodVolumes::new(root.path(), "u");
        let before = usage(root.path(), &logs, &entry, &FxHashMap::default());
        volumes.hosts("").unwrap();
        volumes.termination_log("a", 0, "/m").unwrap();
        fs::write(volumes.hosts_path(), vec![1; 1 << 20]).unwrap();
        fs::write(volumes.termination_path("a", 0), vec![1; 2 << 20]).unwrap();
        let after = usage(root.path(), &logs, &entry, &FxHashMap::default());
        assert!(after.shared >= before.shared + (1 << 20), "{after:?}");
        assert!(
            after.containers["a"] >= before.containers["a"] + (2 << 20),
            "{after:?}"
        );
        assert!(after.inodes >= before.inodes + 2);
    }

    #[test]
    fn limits_of_volumes_containers_and_pods_are_told_apart() {
        let spec = serde_json::json!({
            "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1Mi"}}],
            "containers": [{"name": "a", "resources": {"limits": {"ephemeral-storage": "2Mi"}}}]});
        let pod = pod(spec);
        assert!(is_limited(&pod));
        let usage = |empty: u64, container: u64| OnDisk {
            empty: vec![("v".into(), empty)],
            shared: empty,
            containers: [("a".to_owned(), container)].into_iter().collect(),
            inodes: 0,
        };
        assert_eq!(excess(&pod, &usage(1 << 20, 1 << 20)), None);
        assert_eq!(
            excess(&pod, &usage((1 << 20) + 1, 0)).unwrap().message,
            "Usage of EmptyDir volume \"v\" exceeds the limit \"1Mi\". "
        );
        assert_eq!(
            excess(&pod, &usage(0, (2 << 20) + 1)).unwrap().message,
            "Container a exceeded its local ephemeral storage limit \"2Mi\". "
        );
        assert_eq!(
            excess(&pod, &usage(1 << 20, (1 << 20) + 1))
                .unwrap()
                .message,
            "Pod ephemeral local storage usage exceeds the total limit of containers 2Mi. "
        );
    }

    #[test]
    fn a_node_that_is_short_of_memory_takes_only_pods_that_ask_for_some() {
        let pressure = super::super::machine::Pressure {
            memory: true,
            ..Default::default()
        };
        let asks = serde_json::json!({"containers": [{"name": "a", "resources": {"requests": {"memory": "1Mi"}}}]});
        assert_eq!(refuses(pressure, &pod(asks)), None);
        let system = serde_json::json!({"priority": node_agent_objects::pod::CRITICAL_PRIORITY, "containers": [{"name": "a"}]});
        assert_eq!(refuses(pressure, &pod(system)), None);
        let none = serde_json::json!({"containers": [{"name": "a"}]});
        assert_eq!(
            refuses(pressure, &pod(none)).unwrap(),
            "The node had condition: [MemoryPressure]. "
        );
    }
}
