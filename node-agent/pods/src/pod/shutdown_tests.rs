//! A shutdown from logind's word to the release of its inhibitor, over a
//! logind of the test's own, a pod's worker and the fake runtime. What this
//! cannot show is a machine that goes down.

use std::sync::Arc;
use std::time::Duration;

use node_agent_cri::fake::Fake;
use node_agent_kubelet_config::Settings;
use node_agent_node_lifecycle::shutdown::fake::{Login, machine};
use node_agent_node_lifecycle::shutdown::{self, NodeShutdown, ShutdownManager};
use zbus::object_server::SignalEmitter;

use crate::testing::Run;

async fn until(what: &str, is: impl Fn() -> bool) {
    for _ in 0..900 {
        if is() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("not {what}");
}

#[tokio::test]
async fn a_shutdown_waits_for_pods_and_then_goes_on() {
    let drop_ins = tempfile::tempdir().unwrap();
    let login = Login::reading(drop_ins.path().join("logind.conf.d"));
    let (logind, server) = machine(&login).await;
    let spec = serde_json::json!({"terminationGracePeriodSeconds": 7,
        "containers": [{"name": "a", "image": "i"}]});
    let run = Run::begin_with(spec, Fake::default(), |shared| {
        let text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
                    shutdownGracePeriod: 180s\nshutdownGracePeriodCriticalPods: 60s\n";
        shared.settings = Arc::new(Settings::parse(text).unwrap());
        shared.leaving = Arc::new(NodeShutdown::new(&shared.node.root));
    });
    run.until("running", |r| r.phase() == "Running").await;

    let manager = ShutdownManager {
        periods: run.shared.settings.shutdown.clone(),
        leaving: run.shared.leaving.clone(),
        pods: run.shared.pods.clone(),
        root: run.shared.node.root.clone(),
        orders: run.orders.clone(),
        events: run.shared.events.clone(),
    };
    let folder = drop_ins.path().join("logind.conf.d");
    let follows = tokio::spawn(async move { shutdown::follow(&manager, &logind, &folder).await });
    until("inhibited", || login.is_inhibited()).await;
    assert_eq!(login.delay(), 180_000_000);
    let emitter = SignalEmitter::new(&server, "/org/freedesktop/login1").unwrap();
    Login::announce(&emitter, true).await.unwrap();
    run.until("let go", |_| !login.is_inhibited()).await;
    // not before the pod was through
    let entry = run.shared.pods.find("default", "web").unwrap();
    assert_eq!(entry.status.phase, "Failed");
    assert_eq!(entry.status.reason, "Terminated");
    assert_eq!(entry.status.message, shutdown::MESSAGE);
    let disrupted = entry.status.condition("DisruptionTarget").unwrap();
    assert_eq!(disrupted.reason, "TerminationByKubelet");
    assert!(run.runtime.running().is_empty());
    let calls = run.runtime.calls();
    let is_stop = |call: &String| call.starts_with("stop a-") && call.ends_with(" within 7");
    assert!(calls.iter().any(is_stop), "{calls:?}");
    assert!(!run.shared.node.root.join("pods/u").exists());
    assert!(run.shared.leaving.is_now());
    let last = NodeShutdown::new(&run.shared.node.root).last();
    assert!(last.start_time.is_some() && last.end_time >= last.start_time);

    // called off: the next one is delayed again
    Login::announce(&emitter, false).await.unwrap();
    until("inhibited again", || login.is_inhibited()).await;
    assert_eq!(login.taken(), 2);
    assert!(!run.shared.leaving.is_now());
    server.close().await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(60), follows).await;
    ended.expect("ends with the bus").unwrap().unwrap();
}

#[tokio::test]
async fn a_node_that_goes_down_takes_no_pods() {
    let spec = serde_json::json!({"containers": [{"name": "a", "image": "i"}]});
    let run = Run::begin_with(spec, Fake::default(), |shared| {
        shared.leaving = Arc::new(NodeShutdown::new(&shared.node.root));
        shared.leaving.set(true);
    });
    run.until("refused", |r| r.phase() == "Failed").await;
    let entry = run.shared.pods.find("default", "web").unwrap();
    assert_eq!(entry.status.reason, "NodeShutdown");
    assert!(run.runtime.is_empty(), "{}", run.runtime);
}
