//! What pods are given when they are admitted, over a machine of two NUMA nodes.

use super::*;
use crate::testing::machine;

fn settings(text: &str) -> Settings {
    let head = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";
    Settings::parse(&format!("{head}{text}")).unwrap()
}

const STATIC: &str = "cpuManagerPolicy: static\nreservedSystemCPUs: '0'\n\
    memoryManagerPolicy: Static\nsystemReserved: {memory: 924Mi}\n\
    reservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]\n";

/// Two sockets of a node each, of 2 cores of 2 threads and 16 GiB.
fn managers(root: &Path, text: &str) -> Result<ResourceManagers, Error> {
    ResourceManagers::with_topology(root, &settings(text), Ok(machine(2, 1, 2, 2)), 32 << 30)
}

fn pod(uid: &str, cpu: &str, memory: &str) -> Pod {
    serde_json::from_value(serde_json::json!({"metadata": {"name": uid, "uid": uid},
        "spec": {"containers": [{"name": "a", "resources": {
            "limits": {"cpu": cpu, "memory": memory}}}]}}))
    .unwrap()
}

fn bound(managers: &ResourceManagers, uid: &str) -> (String, Vec<u32>) {
    let found = managers.binding(uid, "a");
    let cpus = found.cpus.map_or(String::new(), |cpus| cpus.to_string());
    (cpus, found.nodes)
}

#[tokio::test]
async fn cpus_and_memory_come_from_the_same_node() {
    let root = tempfile::tempdir().unwrap();
    let text = format!("{STATIC}topologyManagerPolicy: single-numa-node\n");
    let all = managers(root.path(), &text).unwrap();
    let none = DeviceManager::new(root.path());
    // 3 CPUs are free on node 0: this pod needs node 1, and takes its memory there
    all.admit(&pod("p", "4", "1Gi"), &none).await.unwrap();
    assert_eq!(bound(&all, "p"), ("2-3,6-7".to_owned(), vec![1]));
    // memory for it is on node 1 alone, and CPUs on node 0
    let why = all
        .admit(&pod("q", "1", "15500Mi"), &none)
        .await
        .unwrap_err();
    assert_eq!(why, AdmissionFailure::not_aligned());
    all.admit(&pod("q", "2", "15Gi"), &none).await.unwrap();
    assert_eq!(bound(&all, "q"), ("1,5".to_owned(), vec![0]));
    // a pod that is refused leaves nothing taken
    assert!(all.admit(&pod("r", "2", "1Mi"), &none).await.is_err());
    assert_eq!(bound(&all, "r"), ("0,4".to_owned(), vec![]));

    // another agent goes on with it
    let again = managers(root.path(), &text).unwrap();
    assert_eq!(bound(&again, "q"), ("1,5".to_owned(), vec![0]));
    again.keep(|uid| uid != "p");
    assert_eq!(bound(&again, "r").0, "0,2-4,6-7");
    let third = managers(root.path(), &text).unwrap();
    assert_eq!(bound(&third, "p"), ("0,2-4,6-7".to_owned(), vec![]));
    // with another policy it does not
    let other = managers(root.path(), "").unwrap_err().to_string();
    assert!(
        other.contains("please drain this node and delete the file"),
        "{other}"
    );
}

#[tokio::test]
async fn a_pods_containers_are_aligned_apart_or_together() {
    let two = |cpu: &str| -> Pod {
        let one = |name: &str| serde_json::json!({"name": name, "resources": {"limits": {"cpu": cpu, "memory": "1Gi"}}});
        serde_json::from_value(serde_json::json!({"metadata": {"uid": "p"},
            "spec": {"containers": [one("a"), one("b")]}}))
        .unwrap()
    };
    let restricted = format!("{STATIC}topologyManagerPolicy: restricted\n");
    for (scope, cpu, wanted) in [
        // 6 of 7 that are free, on no node
        ("container", "3", true),
        // the CPUs need both nodes, the memory prefers one
        ("pod", "3", false),
        ("container", "2", true),
        // 4 fit on node 1
        ("pod", "2", true),
        ("pod", "4", false),
    ] {
        let root = tempfile::tempdir().unwrap();
        let text = format!("{restricted}topologyManagerScope: {scope}\n");
        let all = managers(root.path(), &text).unwrap();
        let found = all.admit(&two(cpu), &DeviceManager::new(root.path())).await;
        assert_eq!(found.is_ok(), wanted, "{scope} {cpu}: {found:?}");
        if (scope, cpu) == ("pod", "2") {
            let nodes = [all.binding("p", "a").nodes, all.binding("p", "b").nodes];
            assert_eq!(nodes, [[1], [1]]);
        }
    }
}

#[test]
fn what_containers_have_of_their_own_does_not_change_and_what_the_pod_has_may() {
    let root = tempfile::tempdir().unwrap();
    let all = managers(root.path(), STATIC).unwrap();
    let of = |cpu, memory, whole: &str| {
        let mut spec = pod("p", cpu, memory).spec;
        let whole = serde_json::json!({"limits": {"cpu": whole, "memory": "4Gi"}});
        spec.resources = serde_json::from_value(whole).unwrap();
        spec
    };
    let granted = of("2", "1Gi", "4");
    let refused = |wanted: &PodSpec| all.forbids_resize(&granted, wanted);
    assert_eq!(refused(&of("2000m", "1024Mi", "6")), None);
    let why = refused(&of("3", "1Gi", "4")).unwrap();
    assert!(why.contains("CPU Manager policy"), "{why}");
    let why = refused(&of("2", "2Gi", "4")).unwrap();
    assert!(why.contains("Memory Manager policy"), "{why}");
    let elsewhere = tempfile::tempdir().unwrap();
    let plain = managers(elsewhere.path(), "").unwrap();
    assert_eq!(plain.forbids_resize(&granted, &of("3", "2Gi", "4")), None);
}

#[test]
fn policies_that_cannot_be_are_named_at_the_start() {
    let root = tempfile::tempdir().unwrap();
    let cases = [
        ("cpuManagerPolicy: static\n", "reservation"),
        ("memoryManagerPolicy: Static\n", "reservedMemory"),
        (
            "memoryManagerPolicy: Static\nreservedMemory: [{numaNode: 0, limits: {memory: 1Gi}}]\n",
            "not equal",
        ),
        (
            "cpuManagerPolicy: static\nreservedSystemCPUs: '0'\ntopologyManagerPolicy: single-numa-node\n\
             featureGates: {CPUManagerPolicyAlphaOptions: true}\ncpuManagerPolicyOptions: {align-by-socket: 'true'}\n",
            "align-by-socket",
        ),
    ];
    for (text, why) in cases {
        let error = managers(root.path(), text).unwrap_err().to_string();
        assert!(error.contains(why), "{text}: {error}");
    }
    let plain = managers(root.path(), "").unwrap();
    assert_eq!(plain.binding("p", "a"), ContainerBinding::default());
    let text = std::fs::read_to_string(root.path().join(CPU_STATE)).unwrap();
    assert_eq!(text, cpu::save_none());
}
