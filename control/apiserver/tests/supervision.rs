//! Tasks of the server that panic are restarted, and catch up with what they missed.

mod common;

use std::time::Duration;

use common::{ask, root, send, server};
use control_access::User;
use control_apiserver::ApiServer;
use control_supervise::Supervisor;
use control_types::value;
use control_types::value::Value;
use http::Method;
use http_body_util::BodyExt;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn supervised(dir: &std::path::Path) -> (Supervisor, ApiServer) {
    let supervisor = Supervisor::new();
    let server = supervisor.scope(server(dir)).await;
    (supervisor, server)
}

/// Waits until something holds, for ten seconds.
async fn until<F: Future<Output = bool>>(what: &str, holds: impl Fn() -> F) {
    for _ in 0..500 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("never came: {what}");
}

async fn text(server: &ApiServer, path: &str) -> (u16, String) {
    let answer = send(server, &root(), Method::GET, path, &[], None).await;
    let code = answer.status().as_u16();
    let bytes = answer.into_body().collect().await.expect("read").to_bytes();
    (code, String::from_utf8_lossy(&bytes).into_owned())
}

fn map(name: &str) -> Value {
    value!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_task_recovers_from_a_panic_and_health_says_so() {
    let dir = tempfile::tempdir().expect("a folder");
    let (supervisor, server) = supervised(dir.path()).await;
    let names = supervisor.names();
    for expected in [
        "access-follower",
        "api-service-follower",
        "cache-feeder",
        "definition-follower",
        "duty",
        "flow-control-follower",
    ] {
        assert!(names.contains(&expected), "{expected} of {names:?}");
    }
    let tasks = names.into_iter().filter(|name| *name != "store-writer");
    let mut number = 0;
    for name in tasks {
        if supervisor.panic(name) == 0 {
            // The task finished its work and ended.
            assert!(!supervisor.names().contains(&name), "{name}");
            continue;
        }
        until(name, || async { supervisor.restarts(name) > 0 }).await;
        let (code, page) = text(&server, "/livez").await;
        // The task may already run again.
        if code != 200 {
            assert!(page.contains(&format!("[-]task/{name} failed")), "{page}");
        }
        until(name, || async { supervisor.unhealthy().is_empty() }).await;
        // Writes succeed after each restart.
        let made = ask(
            &server,
            &root(),
            Method::POST,
            MAPS,
            Some(map(&format!("m{number}"))),
        )
        .await;
        assert_eq!(made.0, 201, "after {name}");
        let (code, all) = ask(&server, &root(), Method::GET, MAPS, None).await;
        assert_eq!(code, 200, "after {name}");
        let count = all.path(&["items"]).and_then(Value::as_array).map(Vec::len);
        number += 1;
        assert_eq!(count, Some(number), "after {name}");
    }
    let (code, page) = text(&server, "/healthz?verbose").await;
    assert_eq!(code, 200, "{page}");
    assert!(
        page.contains("[+]task/cache-feeder ok: 1 running, 1 restarts"),
        "{page}"
    );
    let (_, page) = text(&server, "/metrics").await;
    for sample in [
        "orlop_task_up{task=\"cache-feeder\"} 1",
        "orlop_task_restarts_total{task=\"cache-feeder\"} 1",
    ] {
        assert!(page.contains(sample), "{sample}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_that_is_revoked_while_its_follower_is_down_is_gone() {
    let dir = tempfile::tempdir().expect("a folder");
    let (supervisor, server) = supervised(dir.path()).await;
    let eve = User::named("eve", []);
    let bindings = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    let binding = value!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "eve"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"
        },
        "subjects": [
            {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "eve"}
        ]
    });
    let (code, _) = ask(&server, &root(), Method::POST, bindings, Some(binding)).await;
    assert_eq!(code, 201);
    until("the right", || async {
        ask(&server, &eve, Method::GET, MAPS, None).await.0 == 200
    })
    .await;
    assert!(supervisor.panic("access-follower") > 0);
    until("the panic", || async {
        supervisor.restarts("access-follower") > 0
    })
    .await;
    let path = format!("{bindings}/eve");
    let (code, _) = ask(&server, &root(), Method::DELETE, &path, None).await;
    assert_eq!(code, 200);
    until("the refusal", || async {
        ask(&server, &eve, Method::GET, MAPS, None).await.0 == 403
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_open_watch_goes_on_after_the_feeder_of_the_caches_panicked() {
    let dir = tempfile::tempdir().expect("a folder");
    let (supervisor, server) = supervised(dir.path()).await;
    let path = format!("{MAPS}?watch=true");
    let answer = send(&server, &root(), Method::GET, &path, &[], None).await;
    assert_eq!(answer.status(), 200);
    let mut body = answer.into_body();
    assert_eq!(supervisor.panic("cache-feeder"), 1);
    until("the panic", || async {
        supervisor.restarts("cache-feeder") > 0
    })
    .await;
    let made = ask(&server, &root(), Method::POST, MAPS, Some(map("late"))).await;
    assert_eq!(made.0, 201);
    let came = tokio::time::timeout(Duration::from_secs(10), async {
        let mut bytes = Vec::new();
        loop {
            let frame = body.frame().await.expect("more").expect("a frame");
            bytes.extend_from_slice(frame.data_ref().expect("data"));
            if String::from_utf8_lossy(&bytes).contains("\"late\"") {
                return;
            }
        }
    });
    came.await.expect("the event");
}
