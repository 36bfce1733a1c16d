//! Keeps containers on the CPUs that they may run on: those that share get what
//! is left whenever somebody gets CPUs of its own, or gives them back.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use node_agent_cri::{Runtime, api};
use node_agent_kubelet_config::Alignment;
use node_agent_pod_registry::{PodEntry, PodRegistry};
use node_agent_pod_resources::cpuset::CpuSet;
use tokio_util::sync::CancellationToken;

use super::ResourceManagers;

/// By container id: the cpuset that was last applied.
pub type AppliedCpus = BTreeMap<String, CpuSet>;

/// What has to be told to running containers, and what was to those that run
/// no more is forgotten. Pure.
#[must_use]
pub fn due(
    pods: &[PodEntry],
    told: &mut AppliedCpus,
    may: impl Fn(&str, &str) -> Option<CpuSet>,
) -> Vec<(String, CpuSet)> {
    let mut running: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    for entry in pods {
        for record in entry.observed.containers.iter().filter(|c| c.running()) {
            running.insert(&record.id, (entry.pod.uid(), &record.name));
        }
    }
    told.retain(|id, _| running.contains_key(id.as_str()));
    running
        .into_iter()
        .filter_map(|(id, (uid, name))| {
            let cpus = may(uid, name)?;
            (told.get(id) != Some(&cpus)).then(|| (id.to_owned(), cpus))
        })
        .collect()
}

/// Does so until `end`: when something changed, and every
/// `cpuManagerReconcilePeriod`.
pub async fn keep(
    managers: Arc<ResourceManagers>,
    alignment: Alignment,
    pods: Arc<PodRegistry>,
    runtime: Arc<dyn Runtime>,
    end: CancellationToken,
) {
    if !alignment.static_cpus {
        return;
    }
    let period = alignment.every.max(Duration::from_millis(100));
    let mut told = AppliedCpus::new();
    loop {
        tokio::select! {
            () = end.cancelled() => return,
            () = managers.changed.notified() => {}
            () = tokio::time::sleep(period) => {}
        }
        let all = pods.all();
        let may = |uid: &str, name: &str| managers.binding(uid, name).cpus;
        for (id, cpus) in due(&all, &mut told, may) {
            let request = api::UpdateContainerResourcesRequest {
                container_id: id.clone(),
                linux: Some(api::LinuxContainerResources {
                    cpuset_cpus: cpus.to_string(),
                    ..api::LinuxContainerResources::default()
                }),
            };
            match runtime.update_container_resources(request).await {
                Ok(_) => {
                    told.insert(id, cpus);
                }
                Err(error) => {
                    tracing::warn!(container = id, %cpus, %error, "failed to update the container's cpuset");
                }
            }
        }
    }
}
