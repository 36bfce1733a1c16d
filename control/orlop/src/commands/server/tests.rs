//! Tests the control plane in one process when its tasks panic: each task is restarted and catches
//! up, or the process ends.

use std::time::Duration;

use control_client::{Client, Selection, resources};
use control_supervise::{State, Supervisor};
use serde_json::{Value, json};

use crate::join::tests::Server;

/// Tasks that cannot be made again: the end of one ends the process.
const ESSENTIAL: [&str; 3] = ["controller-cache", "garbage-follower", "quota-follower"];

/// Waits until something holds.
async fn until<F: Future<Output = bool>>(what: &str, holds: impl Fn() -> F) {
    for _ in 0..1500 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("never came: {what}");
}

async fn add_node(admin: &Client) {
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}});
    admin
        .create::<Value>(&resources::NODES, "", &node)
        .await
        .expect("a node");
    let status = json!({"status": {
        "allocatable": {"cpu": "8", "memory": "8Gi", "pods": "110"},
        "capacity": {"cpu": "8", "memory": "8Gi", "pods": "110"},
        "conditions": [{"type": "Ready", "status": "True"}]
    }});
    admin
        .patch_status::<Value>(
            &resources::NODES,
            "",
            "n",
            control_client::Patch::Merge(&status),
        )
        .await
        .expect("a status");
}

/// Makes a ReplicaSet, and waits until its controller made its pod and the scheduler
/// placed it.
async fn places_a_pod(admin: &Client, name: &str) {
    let set = json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": name},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"set": name}},
            "template": {
                "metadata": {"labels": {"set": name}},
                "spec": {
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": "c", "image": "i"}]
                }
            }
        }
    });
    admin
        .create::<Value>(&resources::REPLICA_SETS, "default", &set)
        .await
        .expect("a set");
    let selection = Selection::all()
        .namespace("default")
        .labels(format!("set={name}"));
    until(name, || async {
        let pods = admin.list::<Value>(&resources::PODS, &selection).await;
        pods.is_ok_and(|pods| pods.items.iter().any(|pod| pod["spec"]["nodeName"] == "n"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_are_made_and_placed_after_each_task_of_the_control_plane_panicked() {
    let dir = tempfile::tempdir().expect("a folder");
    let supervisor = Supervisor::new();
    let server = supervisor.scope(Server::start(dir.path())).await;
    add_node(&server.admin).await;
    until("the default account", || async {
        let accounts = &resources::SERVICE_ACCOUNTS;
        let account = server.admin.get::<Value>(accounts, "default", "default");
        account.await.is_ok()
    })
    .await;
    places_a_pod(&server.admin, "before").await;
    let mut names = supervisor.names();
    for expected in ["queue-worker", "reflector", "scheduler"] {
        assert!(names.contains(&expected), "{expected} of {names:?}");
    }
    let is_controller = |name: &&str| {
        let mut all = control_controllers::CONTROLLERS.iter();
        all.any(|controller| controller.name == *name)
    };
    names.retain(|name| !is_controller(name) && !ESSENTIAL.contains(name));
    for (number, name) in names.into_iter().enumerate() {
        let before = supervisor.restarts(name);
        if supervisor.panic(name) == 0 {
            // It is a thread, or had nothing more to do.
            continue;
        }
        until(name, || async { supervisor.restarts(name) > before }).await;
        places_a_pod(&server.admin, &format!("after-{number}")).await;
        until(name, || async { supervisor.unhealthy().is_empty() }).await;
        assert_eq!(supervisor.failure(), None, "after {name}");
    }
    assert!(!server.running.is_finished());
    // A part that cannot be restarted ends the process, with its reason.
    let name = ESSENTIAL[0];
    assert!(supervisor.panic(name) > 0);
    let failure = tokio::time::timeout(Duration::from_secs(10), supervisor.failed()).await;
    assert_eq!(failure.expect("a failure").task, name);
    let failed = supervisor.unhealthy();
    assert!(
        failed
            .iter()
            .any(|task| task.name == name && task.state == State::Failed),
        "{failed:?}"
    );
    server.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_that_panics_ends_the_server_with_its_panic() {
    let dir = tempfile::tempdir().expect("a folder");
    let supervisor = Supervisor::new();
    let server = supervisor.scope(Server::start(dir.path())).await;
    until("the controller", || async {
        supervisor.names().contains(&"replicaset-controller")
    })
    .await;
    assert_eq!(supervisor.panic("replicaset-controller"), 1);
    let ended = tokio::time::timeout(Duration::from_secs(30), server.running).await;
    let ended = ended.expect("the server ends");
    assert!(ended.is_err_and(|error| error.is_panic()));
}
