//! The whole way over a socket: a driver that makes itself known, an API in
//! memory, volumes of two pods. What this cannot show is a mount.

use std::convert::Infallible;
use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use node_agent_informers::{Informers, NodeScope};
use node_agent_objects::claim::CsiVolume;
use node_agent_objects::fake::FakeObjects;
use node_agent_plugins::api::{PluginInfo, RegistrationStatus};
use node_agent_unix_grpc::server;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use super::*;

type Calls = Arc<Mutex<Vec<String>>>;

/// A driver at `socket` that stages, and refuses to publish what is staged
/// nowhere. It says that the node can hold `most` volumes.
fn driver(socket: &Path, calls: Calls, most: Arc<AtomicI64>) {
    let (socket, endpoint) = (socket.to_owned(), socket.display().to_string());
    tokio::spawn(async move {
        let answer = move |request| {
            let most = most.load(Ordering::SeqCst);
            serve(request, calls.clone(), endpoint.clone(), most)
        };
        server::listen(&socket, CancellationToken::new(), answer).await;
    });
}

async fn serve(
    request: Request<Incoming>,
    calls: Calls,
    endpoint: String,
    most: i64,
) -> server::GrpcResponse {
    let method = request.uri().path().rsplit('/').next().unwrap().to_owned();
    let note = move |text: String| calls.lock().unwrap().push(text);
    match method.as_str() {
        "GetInfo" => {
            let info = PluginInfo {
                r#type: "CSIPlugin".to_owned(),
                name: "d.io".to_owned(),
                endpoint,
                supported_versions: vec!["1.0.0".to_owned()],
            };
            server::unary(request, move |_: Empty| Ok(info.clone())).await
        }
        "NotifyRegistrationStatus" => {
            server::unary(request, move |status: RegistrationStatus| {
                note(format!(
                    "registered {} {}",
                    status.plugin_registered, status.error
                ));
                Ok(Empty {})
            })
            .await
        }
        "NodeGetInfo" => {
            let info = api::NodeGetInfoResponse {
                node_id: "node-id".to_owned(),
                max_volumes_per_node: most,
                accessible_topology: None,
            };
            server::unary(request, move |_: Empty| Ok(info.clone())).await
        }
        "NodeGetCapabilities" => {
            let can = [Capability::StageUnstageVolume, Capability::ExpandVolume].map(|can| {
                let rpc = api::Rpc { r#type: can.into() };
                api::NodeServiceCapability { rpc: Some(rpc) }
            });
            let can = api::NodeGetCapabilitiesResponse {
                capabilities: can.into(),
            };
            server::unary(request, move |_: Empty| Ok(can.clone())).await
        }
        "NodeStageVolume" => {
            server::unary(request, move |r: api::NodeStageVolumeRequest| {
                assert_eq!(r.secrets["key"], "value");
                note(format!(
                    "stage {} {}",
                    r.volume_id, r.publish_context["dev"]
                ));
                if most == 0 {
                    return Err(tonic::Status::resource_exhausted("full"));
                }
                Ok(Empty {})
            })
            .await
        }
        "NodePublishVolume" => {
            server::unary(request, move |r: api::NodePublishVolumeRequest| {
                let inline = r.volume_context.get("csi.storage.k8s.io/ephemeral");
                let inline = inline.is_some_and(|v| v == "true");
                if r.staging_target_path.is_empty() != inline {
                    return Err(tonic::Status::failed_precondition("not staged"));
                }
                // the driver makes the last part, and only that
                let block = r.volume_capability.unwrap().block.is_some();
                if block {
                    fs::write(&r.target_path, "device").unwrap();
                } else if !Path::new(&r.target_path).exists() {
                    fs::create_dir(&r.target_path).unwrap();
                }
                let pod = &r.volume_context["csi.storage.k8s.io/pod.name"];
                note(format!(
                    "publish {pod} {}{}",
                    if inline { "inline" } else { &r.volume_id },
                    if block { " as a device" } else { "" }
                ));
                Ok(Empty {})
            })
            .await
        }
        "NodeExpandVolume" => {
            server::unary(request, move |r: api::NodeExpandVolumeRequest| {
                assert!(Path::new(&r.volume_path).exists() && !r.staging_target_path.is_empty());
                let bytes = r.capacity_range.unwrap().required_bytes;
                note(format!("expand {} {bytes}", r.volume_id));
                Ok(Empty {})
            })
            .await
        }
        "NodeUnpublishVolume" => {
            server::unary(request, move |r: api::NodeUnpublishVolumeRequest| {
                let _ = fs::remove_dir(&r.target_path);
                let _ = fs::remove_file(&r.target_path);
                note(format!("unpublish {}", &r.volume_id[..4]));
                Ok(Empty {})
            })
            .await
        }
        "NodeUnstageVolume" => {
            server::unary(request, move |r: api::NodeUnstageVolumeRequest| {
                note(format!("unstage {}", r.volume_id));
                Ok(Empty {})
            })
            .await
        }
        other => panic!("{other}"),
    }
}

/// An API with a node, a driver's object, a secret and, once `attached`, an
/// attachment. What is written to CSINode comes back.
fn cluster(attached: Arc<Mutex<bool>>, csi_node: Arc<Mutex<Option<Value>>>) -> Api {
    cluster_that_asks(attached, csi_node, Arc::default())
}

/// The same with an object of the driver that wants to be asked as often as `period` says,
/// and an attachment that fails, until it is `attached`, because the node is full.
fn cluster_that_asks(
    attached: Arc<Mutex<bool>>,
    csi_node: Arc<Mutex<Option<Value>>>,
    period: Arc<Mutex<Option<u64>>>,
) -> Api {
    let service = tower::service_fn(move |request: Request<control_client::RequestBody>| {
        let (attached, csi_node) = (attached.clone(), csi_node.clone());
        let period = *period.lock().unwrap();
        async move {
            let (head, body) = request.into_parts();
            let bytes = body.collect().await.unwrap().to_bytes();
            let path = head.uri.path().to_owned();
            let found = if path.contains("/csinodes") {
                let mut held = csi_node.lock().unwrap();
                if head.method != Method::GET {
                    *held = serde_json::from_slice(&bytes).ok();
                }
                held.clone()
            } else if path.contains("/csidrivers") {
                let mut object = json!({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver",
                    "metadata": {"name": "d.io", "resourceVersion": "1"},
                    "spec": {"podInfoOnMount": true, "requiresRepublish": true,
                    "volumeLifecycleModes": ["Persistent", "Ephemeral"]}});
                object["spec"]["nodeAllocatableUpdatePeriodSeconds"] = json!(period);
                if path.ends_with("/csidrivers") {
                    return Ok(watched(object).await);
                }
                Some(object)
            } else if path.contains("/volumeattachments/") {
                let attached = *attached.lock().unwrap();
                if attached {
                    Some(
                        json!({"status": {"attached": true, "attachmentMetadata": {"dev": "sdb"}}}),
                    )
                } else {
                    period.map(|_| {
                        json!({"status": {"attached": false,
                            "attachError": {"message": "no slot", "errorCode": 8}}})
                    })
                }
            } else if path.contains("/secrets/") {
                Some(json!({"metadata": {}, "data": {"key": "dmFsdWU="}}))
            } else {
                Some(json!({"metadata": {"name": "n1", "uid": "node-uid"}}))
            };
            let (status, body) = match found {
                Some(object) => (StatusCode::OK, object),
                None => (
                    StatusCode::NOT_FOUND,
                    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                        "reason": "NotFound", "message": "not found", "code": 404}),
                ),
            };
            let mut answer = Response::new(Full::new(Bytes::from(body.to_string())));
            *answer.status_mut() = status;
            Ok::<_, Infallible>(answer)
        }
    });
    Api::in_process(service, ())
}

/// A watch that has one object and ends after a while.
async fn watched(object: Value) -> Response<Full<Bytes>> {
    tokio::time::sleep(Duration::from_millis(100)).await;
    let end = json!({"type": "BOOKMARK", "object": {"apiVersion": "storage.k8s.io/v1",
        "kind": "CSIDriver", "metadata": {"resourceVersion": "1",
            "annotations": {"k8s.io/initial-events-end": "true"}}}});
    let added = json!({"type": "ADDED", "object": object});
    Response::new(Full::new(Bytes::from(format!("{added}\n{end}\n"))))
}

fn pod(name: &str) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": name, "namespace": "a", "uid": name}}))
        .unwrap()
}

fn wish(inline: bool) -> VolumeRequest {
    let reference = (!inline).then(|| SecretReference {
        namespace: "a".to_owned(),
        name: "s".to_owned(),
    });
    VolumeRequest {
        name: "pv1".to_owned(),
        source: CsiVolume {
            driver: "d.io".to_owned(),
            volume_handle: "vol-1".to_owned(),
            node_stage_secret_ref: reference,
            ..CsiVolume::default()
        },
        inline,
        access_modes: vec!["ReadWriteOnce".to_owned()],
        options: Vec::new(),
        read_only: false,
        block: false,
    }
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
async fn a_volume_is_staged_once_published_for_each_pod_and_taken_back_with_the_last() {
    let root = tempfile::tempdir().unwrap();
    let (calls, attached, csi_node) = (Calls::default(), Arc::default(), Arc::default());
    let api = cluster(Arc::clone(&attached), Arc::clone(&csi_node));
    let drivers = Arc::new(CsiDrivers::new(api, "n1", root.path()));
    let shutdown = CancellationToken::new();
    let kinds: Vec<Arc<dyn node_agent_plugins::PluginHandlers>> = vec![drivers.clone()];
    tokio::spawn(node_agent_plugins::watch(
        root.path().to_owned(),
        kinds,
        shutdown.clone(),
    ));
    let said = || std::mem::take(&mut *calls.lock().unwrap());

    let dir = |name: &str| root.path().join("pods").join(name);
    let publish = |name: &'static str, inline: bool| {
        let (drivers, dir) = (drivers.clone(), dir(name));
        async move {
            let objects = FakeObjects::default();
            drivers
                .publish(&pod(name), &dir, &wish(inline), None, &objects, false)
                .await
                .map_err(|e| e.to_string())
        }
    };
    let none = publish("p1", false).await.unwrap_err();
    assert!(
        none.contains("not found in the list of registered"),
        "{none}"
    );

    let folder = root.path().join("plugins_registry");
    until("watched", || folder.exists()).await;
    let socket = folder.join("d.sock");
    driver(&socket, calls.clone(), Arc::new(5.into()));
    until("registered", || !calls.lock().unwrap().is_empty()).await;
    assert_eq!(said(), ["registered true "]);
    let told = csi_node.lock().unwrap().clone().unwrap();
    assert_eq!(told["spec"]["drivers"][0]["nodeID"], "node-id");
    assert_eq!(told["metadata"]["ownerReferences"][0]["uid"], "node-uid");

    let none = publish("p1", false).await.unwrap_err();
    assert!(none.contains("not attached yet"), "{none}");
    assert!(said().is_empty(), "nothing before it is attached");
    *attached.lock().unwrap() = true;
    for name in ["p1", "p2"] {
        let made = publish(name, false).await.unwrap();
        assert!(made.path.starts_with(dir(name)) && !made.gives_files);
    }
    publish("p3", true).await.unwrap();
    assert_eq!(
        said(),
        [
            "stage vol-1 sdb",
            "publish p1 vol-1",
            "stage vol-1 sdb",
            "publish p2 vol-1",
            "publish p3 inline"
        ]
    );
    let objects = FakeObjects::default();
    let again = drivers
        .publish(&pod("p1"), &dir("p1"), &wish(false), None, &objects, true)
        .await;
    assert!(again.unwrap().again);
    assert_eq!(said(), ["publish p1 vol-1"], "without being staged");
    let once = |block| VolumeRequest {
        access_modes: vec!["ReadWriteOncePod".to_owned()],
        block,
        ..wish(false)
    };
    let refused = drivers
        .publish(&pod("p6"), &dir("p6"), &once(false), None, &objects, false)
        .await;
    assert_eq!(refused.unwrap_err().to_string(), IN_USE);
    assert!(said().is_empty(), "the driver was asked");
    let grown = drivers.expand(&dir("p1"), &wish(false), 7 << 30).await;
    assert!(grown.unwrap());
    assert_eq!(said(), [format!("expand vol-1 {}", 7_i64 << 30)]);
    assert_eq!(drivers.in_use(), ["kubernetes.io/csi/d.io^vol-1"]);
    // the disk is not read for that as long as nothing is published or taken back
    let (pods, aside) = (root.path().join("pods"), root.path().join("aside"));
    fs::rename(&pods, &aside).unwrap();
    assert_eq!(drivers.in_use(), ["kubernetes.io/csi/d.io^vol-1"]);
    fs::rename(&aside, &pods).unwrap();

    for name in ["p1", "p3"] {
        drivers.release(&dir(name)).await.unwrap();
        drivers.release(&dir(name)).await.unwrap();
    }
    assert_eq!(said(), ["unpublish vol-", "unpublish csi-"]);
    // as another agent would, which knows only what is on disk
    drivers.release(&dir("p2")).await.unwrap();
    assert_eq!(said(), ["unpublish vol-", "unstage vol-1"]);
    assert!(drivers.in_use().is_empty());
    assert!(!plan::staging(root.path(), "d.io", "vol-1").exists());

    // the same as devices
    for name in ["p4", "p5"] {
        let device = VolumeRequest {
            block: true,
            ..wish(false)
        };
        let made = drivers
            .publish(&pod(name), &dir(name), &device, None, &objects, false)
            .await
            .unwrap();
        let link = plan::devices(&dir(name)).join("pv1");
        assert_eq!(fs::read_link(link).unwrap(), made.path);
        assert_eq!(fs::read_to_string(&made.path).unwrap(), "device");
    }
    assert_eq!(drivers.in_use(), ["kubernetes.io/csi/d.io^vol-1"]);
    drivers.release(&dir("p4")).await.unwrap();
    drivers.release(&dir("p4")).await.unwrap();
    // One pod has it, which may have it published again, and no other may.
    for (name, is_refused) in [("p5", false), ("p6", true)] {
        let made = drivers
            .publish(&pod(name), &dir(name), &once(true), None, &objects, true)
            .await;
        assert_eq!(made.is_err(), is_refused, "{name}");
    }
    drivers.release(&dir("p5")).await.unwrap();
    assert_eq!(
        said(),
        [
            "stage vol-1 sdb",
            "publish p4 vol-1 as a device",
            "stage vol-1 sdb",
            "publish p5 vol-1 as a device",
            "unpublish vol-",
            "publish p5 vol-1 as a device",
            "unpublish vol-",
            "unstage vol-1"
        ]
    );
    assert!(drivers.in_use().is_empty());
    let left = fs::read_dir(plan::device_root(root.path())).unwrap();
    let left: Vec<_> = left.flatten().map(|e| e.file_name()).collect();
    assert!(!left.contains(&"pv1".into()), "{left:?}");

    fs::remove_file(&socket).unwrap();
    until("forgotten", || {
        let told = csi_node.lock().unwrap().clone().unwrap();
        told["spec"]["drivers"]
            .as_array()
            .is_some_and(Vec::is_empty)
    })
    .await;
    assert!(publish("p1", false).await.is_err());
    shutdown.cancel();
}

#[tokio::test]
async fn what_a_driver_left_in_a_folder_is_not_removed() {
    let root = tempfile::tempdir().unwrap();
    let drivers = CsiDrivers::new(cluster(Arc::default(), Arc::default()), "n1", root.path());
    let dir = root.path().join("pods/p1");
    let target = plan::target(&dir, "pv1");
    fs::create_dir_all(&target).unwrap();
    fs::write(target.join("data"), "").unwrap();
    assert!(drivers.release(&dir).await.is_err());
    let data = VolumeData {
        driver_name: "d.io".to_owned(),
        volume_handle: "vol-1".to_owned(),
        ..VolumeData::default()
    };
    save(target.parent().unwrap(), &data).unwrap();
    // the driver is not there: nobody else takes the volume back
    assert!(drivers.release(&dir).await.is_err());
    assert!(target.join("data").exists());
}

/// A driver that is registered, and what the API has of it.
struct Registered {
    drivers: Arc<CsiDrivers>,
    most: Arc<AtomicI64>,
    attached: Arc<Mutex<bool>>,
    csi_node: Arc<Mutex<Option<Value>>>,
    shutdown: CancellationToken,
    root: tempfile::TempDir,
}

impl Registered {
    /// One that wants to be asked every so many seconds.
    async fn asked_every(seconds: Option<u64>) -> Self {
        let root = tempfile::tempdir().unwrap();
        let (attached, csi_node) = (Arc::default(), Arc::default());
        let most = Arc::new(AtomicI64::new(5));
        let period = Arc::new(Mutex::new(seconds));
        let api = cluster_that_asks(Arc::clone(&attached), Arc::clone(&csi_node), period);
        let drivers = Arc::new(CsiDrivers::new(api.clone(), "n1", root.path()));
        let shutdown = CancellationToken::new();
        let informers = Informers::new(api, "n1", NodeScope::Own);
        tokio::spawn(drivers.clone().keep_counts(informers, shutdown.clone()));
        let kinds: Vec<Arc<dyn node_agent_plugins::PluginHandlers>> = vec![drivers.clone()];
        let folder = root.path().join("plugins_registry");
        fs::create_dir_all(&folder).unwrap();
        let calls = Calls::default();
        driver(&folder.join("d.sock"), calls.clone(), most.clone());
        tokio::spawn(node_agent_plugins::watch(
            root.path().to_owned(),
            kinds,
            shutdown.clone(),
        ));
        until("registered", || !calls.lock().unwrap().is_empty()).await;
        let it = Self {
            drivers,
            most,
            attached,
            csi_node,
            shutdown,
            root,
        };
        assert_eq!(it.count(), 5);
        it
    }

    /// What the API has.
    fn count(&self) -> i64 {
        let object = self.csi_node.lock().unwrap().clone().unwrap();
        assert_eq!(object["spec"]["drivers"][0]["nodeID"], "node-id");
        let count = &object["spec"]["drivers"][0]["allocatable"]["count"];
        count.as_i64().unwrap_or(0)
    }

    async fn publish(&self) -> Error {
        let (dir, objects) = (self.root.path().join("pods/p1"), FakeObjects::default());
        let made = self
            .drivers
            .publish(&pod("p1"), &dir, &wish(false), None, &objects, false)
            .await;
        made.expect_err("no room")
    }
}

#[tokio::test]
async fn a_driver_is_asked_how_many_volumes_the_node_holds_as_often_as_it_wants() {
    let it = Registered::asked_every(Some(1)).await;
    for most in [3, 7] {
        it.most.store(most, Ordering::SeqCst);
        until("told", || it.count() == most).await;
    }
    it.shutdown.cancel();
}

#[tokio::test]
async fn a_volume_that_finds_no_room_has_the_driver_asked_at_once() {
    let it = Registered::asked_every(Some(3600)).await;
    it.most.store(2, Ordering::SeqCst);
    let error = it.publish().await;
    assert!(matches!(error, Error::Full(_)), "{error}");
    assert_eq!(it.count(), 2);
    it.most.store(1, Ordering::SeqCst);
    let error = it.publish().await;
    assert!(matches!(error, Error::Full(_)), "{error}");
    assert_eq!(it.count(), 2, "not for each of many");
    it.shutdown.cancel();

    // the driver itself says so while it stages
    let it = Registered::asked_every(Some(3600)).await;
    *it.attached.lock().unwrap() = true;
    it.most.store(0, Ordering::SeqCst);
    let error = it.publish().await;
    assert!(matches!(error, Error::Call(_)), "{error}");
    assert_eq!(it.count(), 0);
    it.shutdown.cancel();
}

#[tokio::test]
async fn a_driver_that_does_not_want_to_be_asked_is_not() {
    let it = Registered::asked_every(None).await;
    *it.attached.lock().unwrap() = true;
    it.most.store(0, Ordering::SeqCst);
    let error = it.publish().await;
    assert!(matches!(error, Error::Call(_)), "{error}");
    assert_eq!(it.count(), 5);
    it.shutdown.cancel();
}
