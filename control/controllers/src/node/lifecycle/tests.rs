//! Tests the whole controller against a fake API server in paused time.

use http::Method;
use proptest::prelude::*;
use tokio::time::sleep;

use super::*;
use crate::Config;
use crate::fake_api::FakeApi;

const NODE: &str = "/api/v1/nodes/a";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";

fn pod(name: &str) -> String {
    format!("/api/v1/namespaces/d/pods/{name}")
}

/// A server with the node `a`, which has one lease and says `ready` of itself,
/// and the node `b`, which is ready.
fn server(ready: &str) -> FakeApi {
    let api = FakeApi::new();
    let node = |status: &str| {
        json!({"status": {"conditions": [{"type": "Ready", "status": status,
            "lastHeartbeatTime": "2026-01-01T00:00:00Z"}]}})
    };
    api.put(NODE, node(ready));
    api.put("/api/v1/nodes/b", node("True"));
    renew(&api, "a", 0);
    api
}

fn renew(api: &FakeApi, node: &str, count: u64) {
    let time = format!("2026-01-01T{:02}:{:02}:00.000000Z", count / 60, count % 60);
    api.put(
        &format!("{LEASES}/{node}"),
        json!({"spec": {"renewTime": time}}),
    );
}

/// Runs the controller while the node `b` stays alive.
fn run(api: &FakeApi) -> tokio::task::JoinSet<()> {
    let mut running = api.run(&CONTROLLER, Config::default());
    let api = api.clone();
    running.spawn(async move {
        for count in 0.. {
            renew(&api, "b", count);
            sleep(Duration::from_secs(10)).await;
        }
    });
    running
}

fn put_ready_pod(api: &FakeApi, name: &str) {
    let conditions = json!([{"type": "PodScheduled", "status": "True"},
        {"type": "Ready", "status": "True"}]);
    api.put(
        &pod(name),
        json!({"spec": {"nodeName": "a"}, "status": {"conditions": conditions}}),
    );
}

fn readiness(api: &FakeApi, path: &str) -> String {
    let object = api.object(path).expect("stored");
    let conditions = object["status"]["conditions"].as_array().expect("a list");
    let ready = conditions.iter().find(|c| c["type"] == "Ready");
    ready.map_or_else(String::new, |c| {
        c["status"].as_str().unwrap_or("").to_owned()
    })
}

fn in_paused_time<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .expect("a runtime")
        .block_on(work)
}

/// How long after its last lease the node is marked; `phase` is when that lease
/// comes, counted from the controller's start.
fn marked_after(phase: Duration) -> Option<Duration> {
    in_paused_time(async {
        let api = server("True");
        let _running = run(&api);
        sleep(phase).await;
        renew(&api, "a", 1);
        let last = Instant::now();
        sleep(Duration::from_secs(70)).await;
        let requests = api.requests();
        let marked = requests
            .iter()
            .find(|it| it.method == Method::PATCH && it.path == format!("{NODE}/status"));
        marked.map(|it| it.at - last)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn silent_node_is_marked_at_the_end_of_the_grace_period_whatever_the_phase(
        micros in 1_000u64..25_000_000
    ) {
        let after = marked_after(Duration::from_micros(micros)).expect("marked at all");
        // timers have a granularity of a millisecond
        prop_assert!(after >= Duration::from_millis(49_999), "{after:?}");
        prop_assert!(after <= Duration::from_millis(50_002), "{after:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn renewed_lease_keeps_the_node_ready_and_its_end_is_still_noticed() {
    let api = server("True");
    let _running = run(&api);
    for second in 1..30 {
        sleep(Duration::from_millis(10_037)).await;
        renew(&api, "a", second);
    }
    assert_eq!(readiness(&api, NODE), "True");
    sleep(Duration::from_millis(49_990)).await;
    assert_eq!(readiness(&api, NODE), "True");
    sleep(Duration::from_millis(20)).await;
    assert_eq!(readiness(&api, NODE), "Unknown");
}

#[tokio::test(start_paused = true)]
async fn pods_of_a_dead_node_are_marked_though_a_write_failed() {
    let api = server("True");
    put_ready_pod(&api, "p");
    put_ready_pod(&api, "q");
    let failures = AtomicUsize::new(0);
    let broken = format!("{}/status", pod("p"));
    api.answer_with(move |request| {
        let fails = request.method == Method::PATCH
            && request.path == broken
            && failures.fetch_add(1, Ordering::SeqCst) < 3;
        fails.then(|| {
            (
                500,
                json!({"kind": "Status", "code": 500, "reason": "InternalError"}),
            )
        })
    });
    let _running = run(&api);
    sleep(Duration::from_secs(52)).await;
    assert_eq!(readiness(&api, NODE), "Unknown");
    assert_eq!(readiness(&api, &pod("q")), "False");
    assert_eq!(readiness(&api, &pod("p")), "False");
}

#[tokio::test(start_paused = true)]
async fn pod_that_cannot_be_marked_does_not_keep_the_taints_from_its_node() {
    let api = server("True");
    put_ready_pod(&api, "p");
    let broken = format!("{}/status", pod("p"));
    api.answer_with(move |request| {
        (request.path == broken).then(|| (500, json!({"kind": "Status", "code": 500})))
    });
    let _running = run(&api);
    sleep(Duration::from_secs(52)).await;
    let taints = &api.object(NODE).expect("stored")["spec"]["taints"];
    assert_eq!(taints.as_array().map(Vec::len), Some(2), "{taints}");
}

#[tokio::test(start_paused = true)]
async fn pods_are_marked_though_the_kubelet_said_not_ready_before_it_died() {
    let api = server("False");
    put_ready_pod(&api, "p");
    let _running = run(&api);
    sleep(Duration::from_secs(45)).await;
    assert_eq!(
        readiness(&api, &pod("p")),
        "True",
        "its kubelet may be alive"
    );
    sleep(Duration::from_secs(7)).await;
    assert_eq!(readiness(&api, &pod("p")), "False");
}

#[tokio::test(start_paused = true)]
async fn pod_that_turns_ready_on_a_silent_node_is_marked() {
    let api = server("True");
    let _running = run(&api);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(readiness(&api, NODE), "Unknown");
    put_ready_pod(&api, "late");
    sleep(Duration::from_secs(2)).await;
    assert_eq!(readiness(&api, &pod("late")), "False");
}

#[tokio::test(start_paused = true)]
async fn when_the_last_node_falls_silent_nobody_is_evicted() {
    let api = server("True");
    api.remove("/api/v1/nodes/b");
    let _running = api.run(&CONTROLLER, Config::default());
    sleep(Duration::from_secs(60)).await;
    let effects = |api: &FakeApi| -> Vec<String> {
        let node = api.object(NODE).expect("stored");
        let taints = node["spec"]["taints"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let effects = taints.iter().map(|taint| taint["effect"].as_str());
        effects
            .map(|effect| effect.unwrap_or("").to_owned())
            .collect()
    };
    assert_eq!(effects(&api), ["NoSchedule"]);
    // one that is ready shows that the network works: now the silent one is at fault
    let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
    api.put("/api/v1/nodes/b", ready);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(effects(&api), ["NoSchedule", "NoExecute"]);
}
