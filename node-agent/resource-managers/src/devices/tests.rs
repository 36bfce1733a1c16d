//! The whole way over sockets: a plugin that registers, a pod that gets its
//! devices, a monitor that reads of them.

use http::Request;
use hyper::body::Incoming;
use node_agent_kubelet_config::Settings;
use node_agent_pod_resources::cpuset::CpuSet;
use node_agent_unix_grpc::server;
use serde_json::json;

use super::*;
use crate::memory::MemoryBlock;
use crate::{AdmissionFailure, ResourceManagers};

const GPU: &str = "example.com/gpu";

struct Running(Vec<Arc<Pod>>);

impl PodLister for Running {
    fn all(&self) -> Vec<Arc<Pod>> {
        self.0.clone()
    }

    fn own(&self, _: &str, _: &str) -> (CpuSet, Vec<MemoryBlock>) {
        let block = MemoryBlock {
            nodes: vec![1],
            r#type: "memory".to_owned(),
            size: 4096,
        };
        ("2-3".parse().unwrap(), vec![block])
    }

    fn claims(&self, _: &Pod, _: &Container) -> Vec<api::DynamicResource> {
        Vec::new()
    }

    fn allocatable(&self) -> (CpuSet, Vec<MemoryBlock>) {
        ("1-3".parse().unwrap(), Vec::new())
    }
}

/// A plugin with two devices. It prefers the last, and gives a variable.
async fn plugin(socket: &Path) -> CancellationToken {
    let end = CancellationToken::new();
    let (at, stop) = (socket.to_owned(), end.clone());
    tokio::spawn(async move {
        server::listen(&at, stop, |request: Request<Incoming>| async move {
            let method = request.uri().path().rsplit('/').next().unwrap().to_owned();
            answer(&method, request).await
        })
        .await;
    });
    while !socket.exists() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    end
}

async fn answer(method: &str, request: Request<Incoming>) -> server::GrpcResponse {
    match method {
        "ListAndWatch" => {
            let device = |id: &str| api::Device {
                id: id.to_owned(),
                health: "Healthy".to_owned(),
                topology: None,
            };
            let first = api::ListAndWatchResponse {
                devices: vec![device("g0"), device("g1")],
            };
            // told once, and then nothing happens
            let told = futures::stream::once(std::future::ready(Ok(first)));
            let told = told.chain(futures::stream::pending()).boxed();
            server::streaming::<api::Empty, _>(request, told).await
        }
        "GetPreferredAllocation" => {
            server::unary(request, |r: api::PreferredAllocationRequest| {
                let all = &r.container_requests[0].available;
                Ok(api::PreferredAllocationResponse {
                    container_responses: vec![api::ContainerPreferredAllocationResponse {
                        device_ids: all.iter().rev().take(1).cloned().collect(),
                    }],
                })
            })
            .await
        }
        "Allocate" => {
            server::unary(request, |r: api::AllocateRequest| {
                Ok(api::AllocateResponse {
                    container_responses: vec![api::ContainerAllocateResponse {
                        envs: [(
                            "GPUS".to_owned(),
                            r.container_requests[0].devices_ids.join(","),
                        )]
                        .into(),
                        ..Default::default()
                    }],
                })
            })
            .await
        }
        other => panic!("{other}"),
    }
}

fn pod(uid: &str, count: u32) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": uid, "namespace": "a", "uid": uid},
        "spec": {"containers": [{"name": "c", "resources": {"limits": {GPU: count.to_string(), "cpu": "1"}}}]}}))
    .unwrap()
}

/// As a pod gets its devices when it is admitted.
async fn give(devices: &DeviceManager, pod: &Pod) -> Result<(), AdmissionFailure> {
    let root = tempfile::tempdir().unwrap();
    let managers = ResourceManagers::new(root.path(), &Settings::default(), 0).unwrap();
    managers.admit(pod, devices).await
}

async fn until(what: &str, is: impl Fn() -> bool) {
    for _ in 0..600 {
        if is() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("not {what}");
}

#[tokio::test]
async fn a_plugins_devices_are_given_to_pods_told_to_monitors_and_kept_over_a_restart() {
    let root = tempfile::tempdir().unwrap();
    let (changes, mut changed) = mpsc::unbounded_channel();
    let devices = Arc::new(DeviceManager::new(root.path()).telling(changes));
    let running = Arc::new(Running(vec![Arc::new(pod("p1", 1))]));
    let shutdown = CancellationToken::new();
    let path = root.path().to_owned();
    let (own, until_shutdown) = (devices.clone(), shutdown.clone());
    tokio::spawn(async move { serve(own, running, &path, until_shutdown).await });
    let folder = root.path().join("device-plugins");
    until("listening", || folder.join("kubelet.sock").exists()).await;
    // no plugin has it: somebody else looks after it
    give(&devices, &pod("p0", 9)).await.unwrap();

    let end = plugin(&folder.join("gpu.sock")).await;
    let request = api::RegisterRequest {
        version: "v1beta1".to_owned(),
        endpoint: "gpu.sock".to_owned(),
        resource_name: GPU.to_owned(),
        options: Some(api::DevicePluginOptions {
            pre_start_required: false,
            get_preferred_allocation_available: true,
        }),
    };
    let agent = Socket::new(&folder.join("kubelet.sock").display().to_string());
    let registered: node_agent_cri::Result<api::Empty> = agent
        .unary("v1beta1.Registration/Register", request, PATIENCE)
        .await;
    registered.unwrap();
    until("told of devices", || {
        devices.counts().get(GPU) == Some(&(2, 2))
    })
    .await;

    give(&devices, &pod("p1", 1)).await.unwrap();
    let given = devices
        .allocate_responses(&pod("p1", 1), "c")
        .await
        .unwrap();
    assert_eq!(given[0].envs["GPUS"], "g1", "as the plugin prefers");
    let refused = give(&devices, &pod("p2", 2)).await.unwrap_err();
    let refused = refused.message;
    assert!(refused.contains("Requested: 2, Available: 1"), "{refused}");

    let monitor = Socket::new(
        &root
            .path()
            .join("pod-resources/kubelet.sock")
            .display()
            .to_string(),
    );
    let list: api::ListPodResourcesResponse = monitor
        .unary("v1.PodResourcesLister/List", api::Empty {}, PATIENCE)
        .await
        .unwrap();
    let told = &list.pod_resources[0].containers[0].devices[0];
    assert_eq!(
        (told.resource_name.as_str(), &*told.device_ids),
        (GPU, &["g1".to_owned()][..])
    );
    let all: api::AllocatableResourcesResponse = monitor
        .unary(
            "v1.PodResourcesLister/GetAllocatableResources",
            api::Empty {},
            PATIENCE,
        )
        .await
        .unwrap();
    assert_eq!(all.devices[0].device_ids, ["g0", "g1"]);
    assert_eq!(all.cpu_ids, [1, 2, 3]);
    let own = &list.pod_resources[0].containers[0];
    assert_eq!((&*own.cpu_ids, own.memory[0].size), (&[2, 3][..], 4096));

    let health = || devices.health("p1")["c"][0].resources[0].clone();
    assert_eq!(
        (&*health().resource_id, &*health().health),
        ("g1", "Healthy")
    );
    end.cancel();
    assert_eq!(changed.recv().await.as_deref(), Some("p1"));
    assert_eq!(health().health, "Unhealthy");
    until("of no use", || devices.counts().get(GPU) == Some(&(2, 0))).await;
    // another agent: what was given is known, and free when the pod is gone
    let again = DeviceManager::new(root.path());
    let given = again.allocate_responses(&pod("p1", 1), "c").await.unwrap();
    assert_eq!(given[0].envs["GPUS"], "g1");
    again.keep(|uid| uid != "p1");
    assert!(DeviceManager::new(root.path()).pool().grants().is_empty());
    shutdown.cancel();
}

#[test]
fn a_container_can_have_what_init_containers_before_it_had() {
    let limits = |n: &str| json!({"limits": {GPU: n}});
    let pod: Pod = serde_json::from_value(json!({"spec": {
        "initContainers": [
            {"name": "i", "resources": limits("1")},
            {"name": "s", "restartPolicy": "Always", "resources": limits("1")}],
        "containers": [{"name": "x"}, {"name": "a", "resources": limits("1")}, {"name": "b", "resources": limits("1")}]}}))
    .unwrap();
    let found: Vec<(String, Vec<String>)> = wishes(&pod, |_| true)
        .iter()
        .map(|w| {
            (
                w.container.to_owned(),
                w.before.iter().map(|b| (*b).to_owned()).collect(),
            )
        })
        .collect();
    let of = |name: &str, before: &[&str]| {
        (
            name.to_owned(),
            before.iter().map(|b| (*b).to_owned()).collect::<Vec<_>>(),
        )
    };
    // a sidecar goes on: what it has is nobody else's
    assert_eq!(
        found,
        [
            of("i", &[]),
            of("s", &["i"]),
            of("a", &["i"]),
            of("b", &["i"])
        ]
    );
    assert!(wishes(&pod, |_| false).is_empty());
}
