//! Tests local volumes from the claim to the file, with the API server, its controllers and
//! scheduler, and an agent that manages volumes with the identity of its node. No pod runs:
//! scenarios of whole clusters cover containers and mounts.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use control_client::{Client, DeleteOptions, Patch, Resource, Selection, resources};
use node_agent::volumes;
use node_agent_csi_client::CsiDrivers;
use node_agent_informers::{Informers, NodeScope};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::join::{Folder, ensure, tests::Server};

const CSI_NODES: Resource = Resource::cluster("storage.k8s.io", "v1", "csinodes", "CSINode");
const CAPACITIES: Resource = Resource::namespaced(
    "storage.k8s.io",
    "v1",
    "csistoragecapacities",
    "CSIStorageCapacity",
);
const CLAIMS: Resource = resources::PERSISTENT_VOLUME_CLAIMS;
const VOLUMES: Resource = resources::PERSISTENT_VOLUMES;
const MANAGED_BY: &str = "snapshot.storage.kubernetes.io/managed-by";
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// A node that has local volumes and runs no pods.
struct Node {
    client: Client,
    folder: PathBuf,
    stop: CancellationToken,
    tasks: Vec<JoinHandle<()>>,
}

impl Node {
    async fn start(server: &Server, dir: &Path) -> Self {
        let token = "abcdef.0123456789abcdef";
        server.token(token, "2099-01-01T00:00:00Z").await;
        let agent = Folder::new(dir.join("agent"));
        ensure(&agent, "n", Some(&server.join(token)))
            .await
            .expect("joined");
        let client = Client::from_kubeconfig(agent.file("kubeconfig"))
            .await
            .expect("a client");
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
        client
            .create::<Value>(&resources::NODES, "", &node)
            .await
            .expect("a node");
        let amounts = json!({"cpu": "8", "memory": "8Gi", "pods": "110"});
        let status = json!({"status": {
            "allocatable": amounts, "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True"}]
        }});
        client
            .patch_status::<Value>(&resources::NODES, "", "n", Patch::Merge(&status))
            .await
            .expect("a status");
        let folder = dir.join("volumes");
        std::fs::create_dir(&folder).expect("a folder");
        let text = format!(
            "apiVersion: orlop.dev/v1alpha1\nkind: VolumeConfiguration\nclasses:\n- {{name: local, backend: file, path: {}}}\n",
            folder.display()
        );
        let config = volumes::Config::parse(&text).expect("a configuration");
        let (root, stop) = (dir.join("kubelet"), CancellationToken::new());
        let drivers: Arc<dyn node_agent_plugins::PluginHandlers> =
            Arc::new(CsiDrivers::new(client.clone(), "n", &root));
        let watching = node_agent_plugins::watch(root.clone(), vec![drivers], stop.clone());
        let options = volumes::VolumeOptions {
            node: "n".to_owned(),
            root,
            config,
            counts: volumes::Metrics::default(),
            grown: Default::default(),
        };
        let informers = Informers::new(client.clone(), "n", NodeScope::Own);
        let serving = volumes::run(client.clone(), informers, options, stop.clone());
        let tasks = vec![
            tokio::spawn(watching),
            tokio::spawn(async move { serving.await.expect("it ends with its token") }),
        ];
        Self {
            client,
            folder,
            stop,
            tasks,
        }
    }

    /// The image of a volume.
    fn image(&self, volume: &str) -> PathBuf {
        self.folder.join("volumes").join(format!("{volume}.img"))
    }

    async fn end(self) {
        self.stop.cancel();
        for task in self.tasks {
            task.await.expect("no panic");
        }
    }
}

/// Waits until an object is as wanted.
async fn until(
    admin: &Client,
    resource: &Resource,
    (namespace, name): (&str, &str),
    wanted: impl Fn(&Value) -> bool,
) -> Value {
    let mut last = Value::Null;
    for _ in 0..1200 {
        if let Ok(object) = admin.get::<Value>(resource, namespace, name).await {
            if wanted(&object) {
                return object;
            }
            last = object;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{name} never came to be as wanted: {last:#}");
}

async fn until_gone(admin: &Client, resource: &Resource, (namespace, name): (&str, &str)) {
    let mut last = Value::Null;
    for _ in 0..1200 {
        match admin.get::<Value>(resource, namespace, name).await {
            Ok(object) => last = object,
            Err(error) if error.is_not_found() => return,
            Err(error) => panic!("{}", error.chain()),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{name} is never gone: {last:#}");
}

/// Waits until an event about an object has this reason, and returns its message.
async fn event(admin: &Client, name: &str, reason: &str) -> String {
    let fields = format!("involvedObject.name={name},reason={reason}");
    let selection = Selection::all().namespace("default").fields(fields);
    for _ in 0..1200 {
        let events = admin.list::<Value>(&resources::EVENTS, &selection).await;
        if let Some(event) = events.expect("a list").items.first() {
            return event["message"].as_str().unwrap_or_default().to_owned();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("no event {reason} of {name}");
}

fn claim(name: &str, size: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": size}}
        }
    })
}

fn pod(name: &str, claim: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "automountServiceAccountToken": false,
            "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "c", "image": "i",
                "volumeMounts": [{"name": "data", "mountPath": "/data"}]}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
        }
    })
}

async fn create(admin: &Client, resource: &Resource, object: &Value) {
    admin
        .create::<Value>(resource, "default", object)
        .await
        .expect("created");
}

async fn delete(admin: &Client, resource: &Resource, name: &str) {
    let options = DeleteOptions::default().grace(0);
    admin
        .delete(resource, "default", name, &options)
        .await
        .expect("deleted");
}

/// Waits until the cluster knows the node's driver and its space.
async fn published(admin: &Client) -> i64 {
    until(admin, &resources::STORAGE_CLASSES, ("", "local"), |class| {
        class["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"] == "true"
    })
    .await;
    until(admin, &CSI_NODES, ("", "n"), |node| {
        node["spec"]["drivers"][0]["name"] == "csi.orlop.dev"
    })
    .await;
    for _ in 0..1200 {
        let all = Selection::all();
        let capacities = admin
            .list::<Value>(&CAPACITIES, &all)
            .await
            .expect("a list");
        if let Some(capacity) = capacities.items.first() {
            assert_eq!(capacity["storageClassName"], "local");
            assert_eq!(capacity["metadata"]["ownerReferences"][0]["name"], "n");
            let text = capacity["capacity"].as_str().expect("a quantity");
            let bytes = control_types::quantity::Quantity::parse(text).expect("a quantity");
            return bytes.value();
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("no capacity is published");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_gets_a_volume_on_the_node_of_its_pod_which_grows_and_goes_with_it() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Server::start(&dir.path().join("server")).await;
    let admin = &server.admin;
    let node = Node::start(&server, dir.path()).await;
    until(
        admin,
        &resources::SERVICE_ACCOUNTS,
        ("default", "default"),
        |_| true,
    )
    .await;
    assert!(published(admin).await > 64 << 20);

    // The claim waits for a pod.
    create(admin, &CLAIMS, &claim("data", "64Mi")).await;
    let waits = event(admin, "data", "WaitForFirstConsumer").await;
    assert_eq!(
        waits,
        "waiting for first consumer to be created before binding"
    );
    create(admin, &resources::PODS, &pod("writer", "data")).await;
    let bound = until(admin, &CLAIMS, ("default", "data"), |claim| {
        claim["status"]["phase"] == "Bound"
    })
    .await;
    assert_eq!(bound["spec"]["storageClassName"], "local");
    assert_eq!(bound["metadata"]["annotations"][SELECTED_NODE], "n");
    let name = bound["spec"]["volumeName"].as_str().expect("a volume");
    let uid = bound["metadata"]["uid"].as_str().expect("a uid");
    assert_eq!(name, format!("pvc-{uid}"));
    let volume: Value = admin.get(&VOLUMES, "", name).await.expect("a volume");
    let term = "/spec/nodeAffinity/required/nodeSelectorTerms/0/matchExpressions/0";
    assert_eq!(
        volume.pointer(term),
        Some(&json!({"key": "topology.csi.orlop.dev/node", "operator": "In", "values": ["n"]}))
    );
    until(admin, &resources::PODS, ("default", "writer"), |pod| {
        pod["spec"]["nodeName"] == "n"
    })
    .await;
    let message = event(admin, "data", "ProvisioningSucceeded").await;
    assert_eq!(message, format!("Successfully provisioned volume {name}"));
    let size = || std::fs::metadata(node.image(name)).expect("an image").len();
    assert_eq!(size(), 64 << 20);

    // It grows; the file system in it is up to a kubelet.
    let more = json!({"spec": {"resources": {"requests": {"storage": "96Mi"}}}});
    admin
        .patch::<Value>(&CLAIMS, "default", "data", "", Patch::Merge(&more))
        .await
        .expect("patched");
    let claim = until(admin, &CLAIMS, ("default", "data"), |claim| {
        claim["status"]["conditions"][0]["type"] == "FileSystemResizePending"
    })
    .await;
    assert_eq!(
        claim["status"]["allocatedResourceStatuses"]["storage"],
        "NodeResizePending"
    );
    assert_eq!(claim["status"]["capacity"]["storage"], "64Mi");
    assert_eq!(size(), 96 << 20);
    let volume: Value = admin.get(&VOLUMES, "", name).await.expect("a volume");
    assert_eq!(volume["spec"]["capacity"]["storage"], "96Mi");

    // It is deleted with its claim.
    delete(admin, &resources::PODS, "writer").await;
    delete(admin, &CLAIMS, "data").await;
    until_gone(admin, &VOLUMES, ("", name)).await;
    assert!(!node.image(name).exists());
    node.end().await;
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn claims_for_which_the_node_has_no_space_go_back_to_the_scheduler() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Server::start(&dir.path().join("server")).await;
    let admin = &server.admin;
    let node = Node::start(&server, dir.path()).await;
    until(
        admin,
        &resources::SERVICE_ACCOUNTS,
        ("default", "default"),
        |_| true,
    )
    .await;
    published(admin).await;

    // The scheduler sees from the published capacity that there is too little.
    create(admin, &CLAIMS, &claim("huge", "4Pi")).await;
    create(admin, &resources::PODS, &pod("waits", "huge")).await;
    let message = event(admin, "waits", "FailedScheduling").await;
    assert!(
        message.contains("node(s) did not have enough free storage"),
        "{message}"
    );

    // Selected regardless, as if the space had been used in the meantime.
    let mut selected = claim("late", "4Pi");
    selected["metadata"]["annotations"] = json!({SELECTED_NODE: "n"});
    create(admin, &CLAIMS, &selected).await;
    let message = event(admin, "late", "ProvisioningFailed").await;
    let expected = "failed to provision volume with StorageClass \"local\": rpc error: code = ResourceExhausted desc = ";
    assert!(message.starts_with(expected), "{message}");
    until(admin, &CLAIMS, ("default", "late"), |claim| {
        claim["metadata"]["annotations"]
            .get(SELECTED_NODE)
            .is_none()
    })
    .await;
    node.end().await;
    server.end().await;
}

const SNAPSHOTS: Resource = Resource::namespaced(
    "snapshot.storage.k8s.io",
    "v1",
    "volumesnapshots",
    "VolumeSnapshot",
);
const CONTENTS: Resource = Resource::cluster(
    "snapshot.storage.k8s.io",
    "v1",
    "volumesnapshotcontents",
    "VolumeSnapshotContent",
);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_snapshot_is_taken_restored_and_deleted() {
    let dir = tempfile::tempdir().expect("a folder");
    let server = Server::start(&dir.path().join("server")).await;
    let admin = &server.admin;
    let node = Node::start(&server, dir.path()).await;
    until(
        admin,
        &resources::SERVICE_ACCOUNTS,
        ("default", "default"),
        |_| true,
    )
    .await;
    published(admin).await;
    let is_bound = |claim: &Value| claim["status"]["phase"] == "Bound";
    create(admin, &CLAIMS, &claim("data", "64Mi")).await;
    create(admin, &resources::PODS, &pod("writer", "data")).await;
    let source = until(admin, &CLAIMS, ("default", "data"), is_bound).await;
    let source = source["spec"]["volumeName"].as_str().expect("a volume");
    std::fs::write(node.image(source), "data").expect("written");
    std::fs::File::options()
        .write(true)
        .open(node.image(source))
        .and_then(|image| image.set_len(64 << 20))
        .expect("as large as before");

    let snapshot = json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
        "metadata": {"name": "before"},
        "spec": {"source": {"persistentVolumeClaimName": "data"}}
    });
    create(admin, &SNAPSHOTS, &snapshot).await;
    let ready = until(admin, &SNAPSHOTS, ("default", "before"), |snapshot| {
        snapshot["status"]["readyToUse"] == true
    })
    .await;
    assert_eq!(ready["spec"]["volumeSnapshotClassName"], "local");
    assert_eq!(ready["status"]["restoreSize"], "64Mi");
    let content = ready["status"]["boundVolumeSnapshotContentName"].as_str();
    let content = content.expect("a content").to_owned();
    let uid = ready["metadata"]["uid"].as_str().expect("a uid");
    let copy = node.folder.join(format!("snapshots/snapshot-{uid}.img"));
    assert_eq!(std::fs::metadata(&copy).expect("a copy").len(), 64 << 20);
    let told = event(admin, "before", "SnapshotReady").await;
    assert_eq!(told, "Snapshot default/before is ready to use.");

    // A node must not change the node or the snapshot of a content.
    let snapshot = ("default", "before");
    for (resource, (namespace, name), patch, wanted) in [
        (
            &CONTENTS,
            ("", content.as_str()),
            json!({"metadata": {"labels": {MANAGED_BY: "other"}}}),
            "status and finalizers",
        ),
        (
            &CONTENTS,
            ("", content.as_str()),
            json!({"spec": {"deletionPolicy": "Retain"}}),
            "status and finalizers",
        ),
        (
            &SNAPSHOTS,
            snapshot,
            json!({"status": {"readyToUse": false}}),
            "cannot patch",
        ),
    ] {
        let patch = Patch::Merge(&patch);
        let written = node
            .client
            .patch::<Value>(resource, namespace, name, "", patch);
        let refused = written.await.expect_err("an error").chain();
        assert!(refused.contains(wanted), "{refused}");
    }
    let listed = node
        .client
        .list::<Value>(&SNAPSHOTS, &Selection::all())
        .await;
    assert!(listed.is_err(), "a node lists no VolumeSnapshots");

    std::fs::write(node.image(source), "lost").expect("overwritten");
    let mut restored = claim("restored", "64Mi");
    restored["spec"]["dataSource"] = json!({
        "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "before"
    });
    create(admin, &CLAIMS, &restored).await;
    create(admin, &resources::PODS, &pod("reader", "restored")).await;
    let restored = until(admin, &CLAIMS, ("default", "restored"), is_bound).await;
    let restored = restored["spec"]["volumeName"].as_str().expect("a volume");
    let bytes = std::fs::read(node.image(restored)).expect("an image");
    assert!(bytes.starts_with(b"data"), "{:?}", &bytes[..4]);

    // Kept beyond its objects, it comes back by its identifier, which names the node.
    let retain = json!({"spec": {"deletionPolicy": "Retain"}});
    let kept = admin
        .patch::<Value>(&CONTENTS, "", &content, "", Patch::Merge(&retain))
        .await
        .expect("patched");
    let handle = kept["status"]["snapshotHandle"].as_str();
    let handle = handle.expect("an identifier").to_owned();
    assert_eq!(handle, format!("snapshot-{uid}@n"));
    delete(admin, &SNAPSHOTS, "before").await;
    until_gone(admin, &SNAPSHOTS, ("default", "before")).await;
    let all = DeleteOptions::default();
    admin
        .delete(&CONTENTS, "", &content, &all)
        .await
        .expect("deleted");
    until_gone(admin, &CONTENTS, ("", &content)).await;
    assert!(copy.exists());
    let imported = json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent",
        "metadata": {"name": "imported"},
        "spec": {
            "deletionPolicy": "Delete", "driver": "csi.orlop.dev",
            "source": {"snapshotHandle": handle}, "sourceVolumeMode": "Filesystem",
            "volumeSnapshotRef": {"namespace": "default", "name": "again"},
        }
    });
    create(admin, &CONTENTS, &imported).await;
    let again = json!({
        "apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot",
        "metadata": {"name": "again"},
        "spec": {"source": {"volumeSnapshotContentName": "imported"}}
    });
    create(admin, &SNAPSHOTS, &again).await;
    let again = until(admin, &SNAPSHOTS, ("default", "again"), |snapshot| {
        snapshot["status"]["readyToUse"] == true
    })
    .await;
    assert_eq!(again["status"]["restoreSize"], "64Mi");
    let mut restored = claim("restored-again", "64Mi");
    restored["spec"]["dataSource"] = json!({
        "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "again"
    });
    create(admin, &CLAIMS, &restored).await;
    let restored = until(admin, &CLAIMS, ("default", "restored-again"), is_bound).await;
    let restored = restored["spec"]["volumeName"].as_str().expect("a volume");
    let bytes = std::fs::read(node.image(restored)).expect("an image");
    assert!(bytes.starts_with(b"data"), "{:?}", &bytes[..4]);

    // One whose identifier names no node waits for its label.
    let mut unknown = imported;
    unknown["metadata"]["name"] = json!("unknown");
    unknown["spec"]["source"]["snapshotHandle"] = json!("snapshot-x");
    unknown["spec"]["volumeSnapshotRef"]["name"] = json!("none");
    create(admin, &CONTENTS, &unknown).await;
    let told = event(admin, "unknown", "SnapshotNodeUnknown").await;
    assert!(told.contains("managed-by=NODE"), "{told}");

    delete(admin, &SNAPSHOTS, "again").await;
    until_gone(admin, &SNAPSHOTS, ("default", "again")).await;
    until_gone(admin, &CONTENTS, ("", "imported")).await;
    assert!(!copy.exists());
    node.end().await;
    server.end().await;
}
