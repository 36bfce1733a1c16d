//! Resizes of a pod as a whole, over the fake runtime and control groups in a
//! folder. What these cannot show: a kernel that refuses a limit.

use std::fs;
use std::path::Path;

use node_agent_cgroups::{CgroupLayout, Cgroups};
use node_agent_cri::fake::{Fake, Fault};
use node_agent_objects::status::PodStatus;

use super::*;
use crate::pod::allocation::Allocations;
use crate::testing::Run;

/// `a` has what its pod has, `b` limits of its own.
fn spec(cpu: &str, memory: &str) -> serde_json::Value {
    serde_json::json!({
        "resources": {
            "requests": {"cpu": cpu, "memory": memory},
            "limits": {"cpu": cpu, "memory": memory}},
        "containers": [
            {"name": "a", "image": "i", "resizePolicy": [
                {"resourceName": "memory", "restartPolicy": "RestartContainer"}]},
            {"name": "b", "image": "i", "resources": {
                "requests": {"cpu": "100m", "memory": "8Mi"},
                "limits": {"cpu": "100m", "memory": "8Mi"}}}]})
}

/// A folder that looks like control groups of version 2.
fn groups() -> tempfile::TempDir {
    let mount = tempfile::tempdir().unwrap();
    fs::write(mount.path().join("cgroup.controllers"), "cpu memory").unwrap();
    mount
}

fn begin(runtime: &Fake, mount: &Path, change: impl FnOnce(&mut PodContext)) -> Run {
    Run::begin_with(spec("1", "64Mi"), runtime.clone(), |shared| {
        shared.cgroups = Cgroups::find(mount, CgroupLayout::below("/")).ok();
        shared.node.room.cpu = 4000;
        shared.node.room.memory = 1 << 30;
        change(shared);
    })
}

fn status(run: &Run) -> Arc<PodStatus> {
    run.shared.pods.find("default", "web").unwrap().status
}

fn limit(status: &PodStatus, name: &str) -> String {
    let shown = status.resources.as_ref();
    let shown = shown.and_then(|r| r.limits.get(name));
    shown.cloned().unwrap_or_default()
}

/// What the runtime was told of the newest container of that name: quota and
/// bytes.
fn told(run: &Run, name: &str) -> (i64, i64) {
    let entry = run.shared.pods.find("default", "web").unwrap();
    let id = entry.observed.latest(name).unwrap().id.clone();
    let told = run.runtime.resources(&id).unwrap();
    (told.cpu_quota, told.memory_limit_in_bytes)
}

fn set(run: &Run, spec: serde_json::Value) {
    run.handle.set(crate::testing::pod("web", spec, false));
}

fn count(run: &Run, prefix: &str) -> usize {
    let calls = run.runtime.calls();
    calls.iter().filter(|c| c.starts_with(prefix)).count()
}

fn events(run: &Run, reason: &str) -> usize {
    let reason = format!(r#""reason":"{reason}""#);
    let written = run.written.lock().unwrap();
    let events = written.iter().filter(|w| w.contains("/events"));
    events.filter(|w| w.contains(&reason)).count()
}

const MI: i64 = 1 << 20;

async fn running(run: &Run) {
    run.until("running", |r| {
        r.runtime.running() == ["a", "b"] && r.phase() == "Running"
    })
    .await;
}

#[tokio::test]
async fn a_pod_grows_as_a_whole_with_containers_that_say_nothing_themselves() {
    let (mount, runtime) = (groups(), Fake::default());
    let run = begin(&runtime, mount.path(), |_| {});
    running(&run).await;
    let group = mount.path().join("kubepods/podu");
    let read = |file: &str| fs::read_to_string(group.join(file)).unwrap();
    assert_eq!(read("cpu.max"), "100000 100000");
    assert_eq!(told(&run, "a"), (100_000, 64 * MI));
    let first = status(&run);
    assert_eq!(
        (&*limit(&first, "cpu"), &*limit(&first, "memory")),
        ("1", "64Mi")
    );
    assert_eq!(first.allocated_resources["memory"], "64Mi");
    // a container is not said to have limits that are its pod's
    let shown = first.container("a").unwrap().resources.clone().unwrap();
    assert!(shown.limits.is_empty(), "{shown:?}");

    set(&run, spec("2", "64Mi"));
    run.until("told", |r| events(r, "ResizeCompleted") == 1)
        .await;
    assert_eq!(events(&run, "ResizeStarted"), 1);
    assert_eq!(limit(&status(&run), "cpu"), "2");
    assert_eq!(status(&run).allocated_resources["cpu"], "2");
    assert_eq!(read("cpu.max"), "200000 100000");
    assert_eq!(told(&run, "a"), (200_000, 64 * MI));
    assert_eq!((count(&run, "update a-"), count(&run, "update b-")), (1, 0));
    assert_eq!(count(&run, "start "), 2, "nothing began anew");

    // more than the node has
    set(&run, spec("5", "64Mi"));
    run.until("refused", |r| events(r, "ResizeInfeasible") == 1)
        .await;
    let pending = |r: &Run| {
        let status = status(r);
        let found = status.condition("PodResizePending");
        found.map_or(String::new(), |c| c.reason.clone())
    };
    assert_eq!(pending(&run), "Infeasible");
    assert_eq!(limit(&status(&run), "cpu"), "2");
    set(&run, spec("2", "64Mi"));
    run.until("taken back", |r| pending(r).is_empty()).await;
    assert_eq!(count(&run, "update "), 1);
    run.delete().await;
}

#[tokio::test]
async fn a_container_begins_anew_for_its_pods_memory_and_then_the_resize_is_through() {
    let (mount, runtime) = (groups(), Fake::default());
    let run = begin(&runtime, mount.path(), |_| {});
    running(&run).await;
    // a runtime that refuses is asked again
    runtime.fail("UpdatePodSandboxResources", Fault::Before);
    runtime.fail("StartContainer", Fault::Slow(Duration::from_secs(1)));
    set(&run, spec("1", "128Mi"));
    run.until("told", |r| events(r, "ResizeCompleted") == 1)
        .await;
    assert_eq!(runtime.running(), ["a", "b"], "not before it runs");
    assert_eq!((count(&run, "start a-"), count(&run, "start b-")), (2, 1));
    assert_eq!(told(&run, "a"), (100_000, 128 * MI));
    assert_eq!(limit(&status(&run), "memory"), "128Mi");
    assert_eq!(count(&run, "update "), 0);
    let group = mount.path().join("kubepods/podu");
    let memory = fs::read_to_string(group.join("memory.max")).unwrap();
    assert_eq!(memory, (128 * MI).to_string());
    assert_eq!(events(&run, "ResizeStarted"), 1);
    assert_eq!((events(&run, "ResizeError"), count(&run, "size ")), (1, 1));
    run.delete().await;
}

#[tokio::test]
async fn memory_of_a_pod_is_not_limited_below_what_it_uses() {
    let (mount, runtime) = (groups(), Fake::default());
    let mut without = spec("1", "64Mi");
    let containers = without["containers"].as_array_mut().unwrap();
    containers[0]
        .as_object_mut()
        .unwrap()
        .remove("resizePolicy");
    let with = |memory: &str| {
        let mut spec = without.clone();
        for list in ["requests", "limits"] {
            spec["resources"][list]["memory"] = memory.into();
        }
        spec
    };
    let run = Run::begin_with(with("64Mi"), runtime.clone(), |shared| {
        shared.cgroups = Cgroups::find(mount.path(), CgroupLayout::below("/")).ok();
        shared.node.room.cpu = 4000;
        shared.node.room.memory = 1 << 30;
    });
    running(&run).await;
    let group = mount.path().join("kubepods/podu");
    fs::write(group.join("memory.current"), (40 * MI).to_string()).unwrap();
    set(&run, with("48Mi"));
    run.until("shrunk", |r| events(r, "ResizeCompleted") == 1)
        .await;
    set(&run, with("32Mi"));
    run.until("refused", |r| events(r, "ResizeError") == 1)
        .await;
    let of = |run: &Run| status(run).condition("PodResizeInProgress").cloned();
    run.until("shown", |r| of(r).is_some_and(|c| c.reason == "Error"))
        .await;
    let message = of(&run).unwrap().message;
    assert!(
        message.contains("memory limit (33554432) below current usage (41943040)"),
        "{message}"
    );
    assert_eq!(limit(&status(&run), "memory"), "48Mi");
    let memory = fs::read_to_string(group.join("memory.max")).unwrap();
    assert_eq!(memory, (48 * MI).to_string());
    // nobody waits for what is wanted no more
    set(&run, with("64Mi"));
    run.until("grown", |r| {
        limit(&status(r), "memory") == "64Mi" && of(r).is_none()
    })
    .await;
    run.delete().await;
}

#[tokio::test]
async fn what_a_pod_was_granted_outlives_the_agent_though_more_is_wanted() {
    let (mount, runtime, root) = (groups(), Fake::default(), tempfile::tempdir().unwrap());
    // another pod has what there is
    let full = |shared: &mut PodContext| shared.node.room.cpu = 1000;
    let first = begin(&runtime, mount.path(), full);
    running(&first).await;
    set(&first, spec("1", "128Mi"));
    first
        .until("begun anew", |r| events(r, "ResizeCompleted") == 1)
        .await;
    let kept = tokio_util::sync::CancellationToken::new();
    let keeps = tokio::spawn(crate::pod::allocation::keep(
        first.shared.allocations.clone(),
        first.shared.node.root.clone(),
        kept.clone(),
    ));
    let files = ["allocated_pods_state", "actuated_pods_state"];
    let written = |name: &&str| {
        let text = fs::read_to_string(first.shared.node.root.join(name));
        text.is_ok_and(|text| text.contains("128Mi"))
    };
    first.until("written", |_| files.iter().all(&written)).await;
    for file in files {
        fs::copy(first.shared.node.root.join(file), root.path().join(file)).unwrap();
    }
    kept.cancel();
    keeps.await.unwrap();
    let before = status(&first);

    // the first does nothing any more; the API has another wish meanwhile
    let wanted = serde_json::json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "u"},
        "spec": spec("2", "128Mi"),
        "status": *before,
    });
    let wanted: Pod = serde_json::from_value(wanted).unwrap();
    let calls = runtime.calls();
    let second = first
        .again(wanted, |shared| {
            full(shared);
            shared.cgroups = Cgroups::find(mount.path(), CgroupLayout::below("/")).ok();
            shared.node.room.memory = 1 << 30;
            shared.allocations = Arc::new(Allocations::read(root.path()));
        })
        .await;
    second
        .until("refused", |r| events(r, "ResizeInfeasible") == 1)
        .await;
    assert_eq!(limit(&status(&second), "cpu"), "1");
    assert_eq!(limit(&status(&second), "memory"), "128Mi");
    assert_eq!(runtime.calls(), calls, "nothing was touched");
    let held = second.shared.allocations.get("u").unwrap();
    assert_eq!(held.granted.pod.unwrap().limits["cpu"], "1");
    assert_eq!(held.in_force.containers["a"].limits["memory"], "128Mi");
    assert_eq!(events(&second, "ResizeCompleted"), 0);
    // what is taken back costs nothing either
    set(&second, spec("1", "128Mi"));
    second
        .until("taken back", |r| {
            status(r).condition("PodResizePending").is_none()
        })
        .await;
    assert_eq!(runtime.calls(), calls);
    second.delete().await;
}
