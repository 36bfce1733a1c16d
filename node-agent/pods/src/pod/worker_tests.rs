//! One pod's task over the fake runtime.

use node_agent_cri::fake::{Fake, Fault};
use node_agent_objects::fake::FakeObjects;
use node_agent_resource_managers::dra::fake::Driver;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::testing::Run;

fn two() -> serde_json::Value {
    serde_json::json!({"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]})
}

#[tokio::test]
async fn a_pod_runs_is_restarted_and_leaves_nothing() {
    let run = Run::begin(two(), Fake::default());
    run.until("running", |r| {
        r.runtime.running() == ["a", "b"] && r.phase() == "Running"
    })
    .await;
    assert!(run.runtime.exit("a", 1));
    run.until("restarted", |r| r.runtime.running() == ["a", "b"])
        .await;
    run.delete().await;
}

#[tokio::test]
async fn every_fault_of_every_call_is_survived() {
    let methods = [
        "RunPodSandbox",
        "CreateContainer",
        "StartContainer",
        "ListContainers",
        "ListPodSandbox",
        "PodSandboxStatus",
        "ContainerStatus",
        "ImageStatus",
        "StopContainer",
        "StopPodSandbox",
        "RemovePodSandbox",
    ];
    let slow = Fault::Slow(Duration::from_millis(300));
    let mut runs = Vec::new();
    for method in methods {
        for fault in [Fault::Before, Fault::After, slow] {
            let runtime = Fake::default();
            runtime.fail(method, fault);
            runtime.fail(method, fault);
            runs.push(async move {
                let run = Run::begin(two(), runtime);
                run.until(&format!("running after {method} {fault:?}"), |r| {
                    r.runtime.running() == ["a", "b"]
                })
                .await;
                run.delete().await;
            });
        }
    }
    // the waits between tries are real ones
    futures::future::join_all(runs).await;
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_worker_panics_goes_on_with_its_containers_and_can_be_deleted() {
    let supervisor = control_supervise::Supervisor::new();
    let test = async {
        let run = Run::begin(two(), Fake::default());
        run.until("running", |r| {
            r.runtime.running() == ["a", "b"] && r.phase() == "Running"
        })
        .await;
        let starts = |run: &Run| {
            let calls = run.runtime.calls();
            let starts = calls.iter().filter(|call| call.starts_with("start "));
            starts.cloned().collect::<Vec<_>>()
        };
        let before = starts(&run);
        assert_eq!(supervisor.panic("pod-worker"), 1);
        // A container that ends while nobody looks is restarted, the other goes on.
        assert!(run.runtime.exit("a", 1));
        run.until("the panic", |_| supervisor.restarts("pod-worker") == 1)
            .await;
        run.until("restarted", |r| r.runtime.running() == ["a", "b"])
            .await;
        assert!(run.received("The node agent failed while it worked on the pod"));
        let after = starts(&run);
        let again: Vec<_> = after.iter().skip(before.len()).collect();
        assert_eq!(again.len(), 1, "{before:?} {after:?}");
        assert!(again[0].contains('a'), "{again:?}");
        // The next one panics while the pod is being deleted.
        run.handle.set(crate::testing::pod("web", two(), true));
        assert_eq!(supervisor.panic("pod-worker"), 1);
        run.delete().await;
        assert!(supervisor.names().iter().all(|name| *name != "pod-worker"));
    };
    supervisor.scope(test).await;
}

fn probed() -> serde_json::Value {
    let probe = |command: &str| {
        serde_json::json!({"exec": {"command": [command]}, "periodSeconds": 1,
            "timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 2})
    };
    serde_json::json!({"containers": [{"name": "a", "image": "i",
        "readinessProbe": probe("ready"), "livenessProbe": probe("live")}]})
}

fn is_ready(run: &Run) -> bool {
    let found = run.shared.pods.find("default", "web");
    found.is_some_and(|entry| {
        let ready = entry.status.condition("Ready");
        ready.is_some_and(|condition| condition.status == "True")
    })
}

#[tokio::test(start_paused = true)]
async fn a_draining_pod_is_not_ready_as_soon_as_its_probe_says_so() {
    let run = Run::begin(probed(), Fake::default());
    run.until("ready", is_ready).await;
    let drains = Duration::from_secs(60);
    run.runtime.fail("StopContainer", Fault::Slow(drains));
    let begun = tokio::time::Instant::now();
    run.handle.set(crate::testing::pod("web", probed(), true));
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(is_ready(&run), "it serves while it drains");
    run.runtime.fails_command("ready");
    run.until("not ready", |r| !is_ready(r)).await;
    assert!(begun.elapsed() < drains / 2, "{:?}", begun.elapsed());
    assert_eq!(run.runtime.running(), ["a"]);
    run.delete().await;
}

#[tokio::test(start_paused = true)]
async fn the_pull_of_a_debug_image_delays_neither_notready_nor_the_liveness_kill() {
    let run = Run::begin(probed(), Fake::default());
    run.until("ready", is_ready).await;
    let pull = Duration::from_secs(600);
    run.runtime.fail("PullImage", Fault::Slow(pull));
    run.runtime.lacks_image("debug:1");
    let begun = tokio::time::Instant::now();
    let mut spec = probed();
    spec["ephemeralContainers"] = serde_json::json!([{"name": "d", "image": "debug:1"}]);
    run.handle.set(crate::testing::pod("web", spec, false));
    run.until("pulling", |r| r.received("Pulling image")).await;
    run.runtime.fails_command("ready");
    run.until("not ready", |r| !is_ready(r)).await;
    run.runtime.fails_command("live");
    run.until("killed", |r| {
        r.runtime
            .calls()
            .iter()
            .any(|call| call.starts_with("stop a"))
    })
    .await;
    assert!(begun.elapsed() < pull / 10, "{:?}", begun.elapsed());
    run.until("told", |r| r.received("failed liveness probe"))
        .await;
    run.delete().await;
}

#[tokio::test]
async fn a_dead_sandbox_is_replaced_and_nothing_runs_twice() {
    let run = Run::begin(two(), Fake::default());
    run.until("running", |r| r.runtime.running() == ["a", "b"])
        .await;
    run.runtime.kill_sandboxes();
    run.until("running again", |r| r.runtime.running() == ["a", "b"])
        .await;
    let made = run.runtime.calls();
    let at = |call: &str| made.iter().position(|c| c.starts_with(call));
    let sandboxes: Vec<_> = made.iter().filter_map(|c| c.strip_prefix("run ")).collect();
    let [first, second] = sandboxes[..] else {
        panic!("{made:?}");
    };
    // What died has its network until it is stopped.
    let stopped = at(&format!("stop {first}")).expect("stopped");
    assert!(Some(stopped) < at(&format!("run {second}")), "{made:?}");
    run.delete().await;
}

#[tokio::test]
async fn sidecars_start_first_and_end_last() {
    let spec = serde_json::json!({
        "initContainers": [
            {"name": "s1", "image": "i", "restartPolicy": "Always"},
            {"name": "s2", "image": "i", "restartPolicy": "Always"}],
        "containers": [{"name": "a", "image": "i"}]});
    let run = Run::begin(spec, Fake::default());
    run.until("running", |r| r.runtime.running().len() == 3)
        .await;
    let runtime = run.runtime.clone();
    run.delete().await;
    let order = |prefix: &str| -> Vec<String> {
        runtime
            .calls()
            .iter()
            .filter_map(|c| c.strip_prefix(prefix)?.split('-').next().map(str::to_owned))
            .filter(|name| name != "sandbox")
            .collect()
    };
    assert_eq!(order("start "), ["s1", "s2", "a"]);
    assert_eq!(order("stop "), ["a", "s2", "s1"]);
}

#[tokio::test]
async fn an_init_container_grows_while_it_runs_and_goes_on() {
    let spec = |cpu: &str| {
        let sized = |name: &str, cpu: &str| {
            serde_json::json!({"name": name, "image": "i",
                "resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}})
        };
        serde_json::json!({"restartPolicy": "Never",
            "initContainers": [sized("i", cpu)], "containers": [sized("a", "1")]})
    };
    let run = Run::begin_with(spec("1"), Fake::default(), |shared| {
        shared.node.room.cpu = 4000;
    });
    run.until("initialising", |r| r.runtime.running() == ["i"])
        .await;
    let in_force = |run: &Run| {
        let entry = run.shared.pods.find("default", "web").unwrap();
        let told = entry.status.container("i").cloned().unwrap();
        told.resources.unwrap().limits["cpu"].clone()
    };
    run.handle.set(crate::testing::pod("web", spec("2"), false));
    run.until("grown", |r| in_force(r) == "2").await;
    run.until("told", |r| r.received("ResizeCompleted")).await;
    // more than the node has
    run.handle.set(crate::testing::pod("web", spec("5"), false));
    run.until("refused", |r| r.received("ResizeInfeasible"))
        .await;
    assert_eq!(in_force(&run), "2");
    let calls = run.runtime.calls();
    let of = |what: &str| calls.iter().filter(|c| c.starts_with(what)).count();
    assert_eq!((of("start i-"), of("update i-"), of("stop ")), (1, 1, 0));
    run.runtime.exit("i", 0);
    run.until("running", |r| r.runtime.running() == ["a"]).await;
    run.delete().await;
}

#[tokio::test]
async fn an_end_that_asks_for_it_has_all_containers_begin_anew_and_keeps_their_counts() {
    let spec = serde_json::json!({
        "restartPolicy": "Never",
        "initContainers": [{"name": "i", "image": "i"}],
        "containers": [
            {"name": "a", "image": "i"},
            {"name": "b", "image": "i", "restartPolicy": "Never", "restartPolicyRules": [
                {"action": "RestartAllContainers",
                 "exitCodes": {"operator": "In", "values": [42]}}]}]});
    let run = Run::begin(spec, Fake::default());
    run.until("initialising", |r| r.runtime.running() == ["i"])
        .await;
    run.runtime.exit("i", 0);
    run.until("running", |r| r.runtime.running() == ["a", "b"])
        .await;
    run.runtime.exit("b", 42);
    run.until("initialising anew", |r| r.runtime.running() == ["i"])
        .await;
    let told = |run: &Run, name: &str| {
        let entry = run.shared.pods.find("default", "web").unwrap();
        let told = entry.status.container(name).cloned();
        let initialized = entry.status.condition("Initialized").unwrap().clone();
        assert_eq!(initialized.status, "True", "it was, and stays so");
        told.unwrap()
    };
    run.until("told", |r| told(r, "i").state.running.is_some())
        .await;
    let waiting = told(&run, "a");
    assert_eq!(waiting.state.waiting.unwrap().reason, "PodInitializing");
    assert_eq!(waiting.restart_count, 1);
    run.runtime.exit("i", 0);
    run.until("running anew", |r| r.runtime.running() == ["a", "b"])
        .await;
    run.until("told as running", |r| r.phase() == "Running")
        .await;
    for name in ["i", "a", "b"] {
        let told = told(&run, name);
        assert_eq!(told.restart_count, 1, "{name}");
        assert_eq!(
            told.last_state.terminated.unwrap().reason,
            "RestartingAllContainers"
        );
    }
    run.delete().await;
}

#[tokio::test]
async fn a_pod_that_wants_ids_of_its_own_is_not_run_with_the_nodes() {
    // the fake runtime has no user namespaces
    let spec = serde_json::json!({"hostUsers": false, "containers": [{"name": "a", "image": "i"}]});
    let run = Run::begin(spec, Fake::default());
    run.until("told", |r| r.phase() == "Pending").await;
    for _ in 0..5 {
        run.handle.nudge();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(run.runtime.is_empty(), "{}", run.runtime);
    assert!(!run.shared.node.root.join("pods/u/userns").exists());
    run.delete().await;
}

#[tokio::test]
async fn a_pod_waits_for_its_devices_and_is_not_over_before_they_are_taken_back() {
    let spec = serde_json::json!({
        "restartPolicy": "Never",
        "resourceClaims": [{"name": "g", "resourceClaimName": "gpu"}],
        "containers": [{"name": "a", "image": "i", "resources": {"claims": [{"name": "g"}]}}]});
    let end = CancellationToken::new();
    let run = Run::begin_with(spec, Fake::default(), |shared| {
        let objects = FakeObjects::default();
        let claim = serde_json::json!({
            "metadata": {"name": "gpu", "namespace": "default", "uid": "c"},
            "status": {"allocation": {"devices": {"results": [{"driver": "d.io"}]}},
                "reservedFor": [{"uid": "u"}]}});
        let claim = serde_json::from_value(claim).unwrap();
        objects.resource_claims.lock().unwrap().push(claim);
        shared.objects = Arc::new(objects);
        let kinds: Vec<Arc<dyn node_agent_plugins::PluginHandlers>> = vec![shared.claims.plugins()];
        tokio::spawn(node_agent_plugins::watch(
            shared.node.root.clone(),
            kinds,
            end.clone(),
        ));
    });
    run.until("told why", |r| {
        r.received("FailedPrepareDynamicResources")
            && r.received("DRA driver d.io is not registered")
    })
    .await;
    assert!(run.runtime.calls().is_empty(), "no sandbox before that");

    let driver = Driver::start(&run.shared.node.root, "d.io", &["v1.DRAPlugin"]);
    run.until("running", |r| r.runtime.running() == ["a"]).await;
    assert_eq!(run.runtime.cdi_devices("a"), ["d.io/x=gpu"]);
    run.until("told how it is", |r| r.received(r#""name":"claim:g""#))
        .await;

    driver.refuse("Unprepare", "busy");
    driver.calls();
    assert!(run.runtime.exit("a", 0));
    run.until("asked again", |_| driver.asked() > 1).await;
    assert_eq!(run.phase(), "Running", "its devices are still in use");
    assert!(!run.received(r#""phase":"Succeeded""#));
    driver.refuse("Unprepare", "");
    run.until("over", |r| r.phase() == "Succeeded").await;
    assert!(!run.shared.claims.holds("u"));
    run.delete().await;
    end.cancel();
}
