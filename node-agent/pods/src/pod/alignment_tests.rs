//! From a pod's admission to what the runtime is told, over a machine of two NUMA nodes and the
//! fake runtime. What this cannot show is a kernel that binds.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use node_agent_cri::api::LinuxContainerResources;
use node_agent_cri::fake::Fake;
use node_agent_kubelet_config::Settings;
use node_agent_objects::pod::Pod;
use node_agent_resource_managers::devices::DeviceManager;
use node_agent_resource_managers::testing::machine;
use node_agent_resource_managers::{ResourceManagers, reconcile};
use tokio_util::sync::CancellationToken;

use super::context::PodContext;
use crate::testing::Run;

fn settings(text: &str) -> Settings {
    let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    Settings::parse(&format!("{head}{text}")).unwrap()
}

const STATIC: &str = "cpuManagerPolicy: static\nreservedSystemCPUs: '0'\n\
    memoryManagerPolicy: Static\nsystemReserved: {memory: 924Mi}\n\
    reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]\n";

/// Two sockets of a node each, of 2 cores of 2 threads and 16 GiB.
fn managers(root: &Path, text: &str) -> ResourceManagers {
    let topology = Ok(machine(2, 1, 2, 2));
    ResourceManagers::with_topology(root, &settings(text), topology, 32 << 30).unwrap()
}

/// The resources that the runtime was last told for a container.
fn told(shared: &PodContext, fake: &Fake, name: &str) -> LinuxContainerResources {
    let entry = shared.pods.find("default", "web").unwrap();
    let id = entry.observed.latest(name).unwrap().id.clone();
    fake.resources(&id).unwrap()
}

#[tokio::test]
async fn a_container_starts_on_its_cpus_and_others_leave_them() {
    let spec = serde_json::json!({"containers": [
        {"name": "own", "image": "i", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}},
        {"name": "part", "image": "i", "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}}}]});
    let run = Run::begin_with(spec, Fake::default(), |shared| {
        shared.managers = Arc::new(managers(&shared.node.root.join("node"), STATIC));
        shared.settings = Arc::new(settings(STATIC));
    });
    run.until("running", |r| {
        r.runtime.running().len() == 2 && r.phase() == "Running"
    })
    .await;
    let own = told(&run.shared, &run.runtime, "own");
    assert_eq!(
        (&*own.cpuset_cpus, &*own.cpuset_mems, own.cpu_quota),
        ("1,5", "0", -1)
    );
    let part = told(&run.shared, &run.runtime, "part");
    assert_eq!((&*part.cpuset_cpus, part.cpu_quota), ("0,2-4,6-7", 50_000));

    // another pod takes CPUs of its own: the one that shares moves away
    let end = CancellationToken::new();
    let keeper = tokio::spawn(reconcile::keep(
        run.shared.managers.clone(),
        run.shared.settings.alignment.clone(),
        run.shared.pods.clone(),
        run.shared.runtime.clone(),
        end.clone(),
    ));
    let other: Pod = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "other", "uid": "other"},
        "spec": {"containers": [{"name": "a", "resources": {
            "limits": {"cpu": "4", "memory": "1Gi"}}}]}}))
    .unwrap();
    let none = DeviceManager::new(&run.shared.node.root);
    run.shared.managers.admit(&other, &none).await.unwrap();
    run.until("moved", |r| {
        told(&r.shared, &r.runtime, "part").cpuset_cpus == "0,4"
    })
    .await;
    assert_eq!(told(&run.shared, &run.runtime, "own").cpuset_cpus, "1,5");
    run.shared.managers.keep(|uid| uid != "other");
    run.until("back", |r| {
        told(&r.shared, &r.runtime, "part").cpuset_cpus == "0,2-4,6-7"
    })
    .await;
    end.cancel();
    tokio::time::timeout(Duration::from_secs(60), keeper)
        .await
        .unwrap()
        .unwrap();

    let shared: Arc<PodContext> = run.shared.clone();
    run.delete().await;
    assert!(
        !shared.managers.is_exclusive("u"),
        "its CPUs are free again"
    );
    assert_eq!(
        shared.managers.binding("x", "a").cpus.unwrap().to_string(),
        "0-7"
    );
}

#[tokio::test]
async fn a_pod_that_cannot_be_aligned_fails_and_says_so() {
    let spec = serde_json::json!({"containers": [
        {"name": "a", "image": "i", "resources": {"limits": {"cpu": "5", "memory": "1Gi"}}}]});
    let text = format!("{STATIC}topologyManagerPolicy: single-numa-node\n");
    let run = Run::begin_with(spec, Fake::default(), |shared| {
        shared.managers = Arc::new(managers(&shared.node.root.join("node"), &text));
        shared.settings = Arc::new(settings(&text));
    });
    run.until("refused", |r| r.phase() == "Failed").await;
    let entry = run.shared.pods.find("default", "web").unwrap();
    assert_eq!(entry.status.reason, "TopologyAffinityError");
    assert_eq!(
        entry.status.message,
        "Pod was rejected: Resources cannot be allocated with Topology locality"
    );
    assert!(run.runtime.is_empty(), "{}", run.runtime);
}
