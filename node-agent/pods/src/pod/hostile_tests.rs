//! Pods that passed validation and cannot run: they say so, can be deleted, and
//! leave nothing behind.

use std::sync::atomic::Ordering;

use node_agent_cri::fake::{Fake, Fault};
use node_agent_objects::fake::FakeObjects;
use node_agent_objects::source::DataKind;

use super::*;
use crate::testing::Run;

/// A node with these objects.
fn with(objects: &Arc<FakeObjects>) -> impl FnOnce(&mut PodContext) {
    let objects = objects.clone();
    move |shared: &mut PodContext| shared.objects = objects
}

/// Deletes it; whether nothing of it is left on disk.
async fn leaves_nothing(run: Run) {
    let shared = run.shared.clone();
    let root = run.delete_and_keep().await;
    for folder in ["pods", "logs"] {
        let left = std::fs::read_dir(shared.node.root.join(folder));
        let left: Vec<_> = left.into_iter().flatten().flatten().collect();
        assert!(left.is_empty(), "{left:?}");
    }
    drop(root);
}

#[tokio::test]
async fn names_as_long_as_they_may_be_are_run_or_said_to_be_too_long() {
    let container = "c".repeat(63);
    let volume = "v".repeat(63);
    let spec = serde_json::json!({
        "hostname": "h".repeat(63), "subdomain": "s".repeat(63),
        "volumes": [{"name": volume, "emptyDir": {}}],
        "containers": [{"name": container, "image": "i",
            "volumeMounts": [{"name": volume, "mountPath": "/v", "subPath": "p".repeat(255)}]}]});
    let (long, longest) = ("n".repeat(200), "n".repeat(253));
    let run = Run::begin_named(&long, spec.clone(), Fake::default(), |_| {});
    run.until("running", |r| r.runtime.running() == [container.clone()])
        .await;
    leaves_nothing(run).await;
    // the folder of its logs would be namespace_name_uid, longer than a name can be
    let run = Run::begin_named(&longest, spec, Fake::default(), |_| {});
    run.until("told", |r| {
        r.received("FailedCreatePodSandBox") && r.received("File name too long")
    })
    .await;
    assert_eq!(run.phase(), "Pending");
    leaves_nothing(run).await;
}

#[tokio::test]
async fn a_volume_that_never_comes_keeps_the_pod_waiting_and_not_from_its_end() {
    let spec = serde_json::json!({
        "volumes": [{"name": "v", "configMap": {"name": "m"}}],
        "containers": [{"name": "a", "image": "i", "volumeMounts": [{"name": "v", "mountPath": "/v"}]}]});
    let objects = Arc::new(FakeObjects::default());
    let run = Run::begin_with(spec.clone(), Fake::default(), with(&objects));
    run.until("told", |r| {
        r.received("FailedMount") && r.received(r#"configmap \"m\" not found"#)
    })
    .await;
    assert!(run.runtime.calls().is_empty() && run.phase() == "Pending");
    leaves_nothing(run).await;

    // nobody answers at all
    objects.silent.store(true, Ordering::Relaxed);
    let run = Run::begin_with(spec.clone(), Fake::default(), with(&objects));
    run.until("seen", |r| r.phase() == "Pending").await;
    leaves_nothing(run).await;

    // nobody answers any more, when it is looked after while it runs
    objects.silent.store(false, Ordering::Relaxed);
    objects.put(DataKind::ConfigMap, "m", &[("k", "v")]);
    let run = Run::begin_with(spec, Fake::default(), with(&objects));
    objects.silent.store(false, Ordering::Relaxed);
    run.until("running", |r| r.runtime.running() == ["a"]).await;
    objects.silent.store(true, Ordering::Relaxed);
    objects.changed();
    tokio::time::sleep(Duration::from_millis(50)).await;
    leaves_nothing(run).await;
}

#[tokio::test]
async fn an_image_that_nobody_has_keeps_its_container_waiting_and_no_other() {
    let spec = serde_json::json!({"containers": [
        {"name": "a", "image": "none/such:1"},
        {"name": "b", "image": "no image!"},
        {"name": "c", "image": "i"}]});
    let runtime = Fake::default();
    runtime.lacks_image("none/such:1");
    let run = Run::begin(spec, runtime);
    let reason = |r: &Run, name: &str| {
        let entry = r.shared.pods.find("default", "web");
        let told = entry.and_then(|e| e.status.container(name)?.state.waiting.clone());
        told.map_or(String::new(), |waiting| waiting.reason)
    };
    run.until("told", |r| {
        reason(r, "a") == "ImagePullBackOff" && reason(r, "b") == "InvalidImageName"
    })
    .await;
    run.until("running", |r| r.runtime.running() == ["c"]).await;
    run.until("events", |r| {
        r.received("Failed to pull image") && r.received("InspectFailed")
    })
    .await;
    leaves_nothing(run).await;
}

#[tokio::test]
async fn a_runtime_that_hangs_does_not_keep_a_pod_from_its_end() {
    let spec = || serde_json::json!({"containers": [{"name": "a", "image": "i"}]});
    for method in [
        "RunPodSandbox",
        "CreateContainer",
        "StartContainer",
        "ImageStatus",
    ] {
        let runtime = Fake::default();
        runtime.fail(method, Fault::Hang);
        let run = Run::begin(spec(), runtime);
        run.until("at it", |r| r.phase() == "Pending").await;
        // as far as it gets
        tokio::time::sleep(Duration::from_millis(100)).await;
        leaves_nothing(run).await;
    }
}
