//! Priority and fairness as clients meet it.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{ask, root, send};
use control_access::{NODES, User};
use control_apiserver::{ApiServer, body};
use control_types::value;
use http::{Method, Request};
use http_body_util::BodyExt;
use tower::Service;

const LEVELS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";
const SCHEMAS: &str = "/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas";
const SCHEMA_HEADER: &str = "x-kubernetes-pf-flowschema-uid";
const LEVEL_HEADER: &str = "x-kubernetes-pf-prioritylevel-uid";

async fn uid(server: &ApiServer, path: &str) -> String {
    let (code, object) = ask(server, &root(), Method::GET, path, None).await;
    assert_eq!(code, 200, "{path}");
    object
        .str_at(&["metadata", "uid"])
        .expect("a uid")
        .to_owned()
}

/// The names by which a request of this user goes, as uids.
async fn classified(server: &ApiServer, user: &User, path: &str) -> (String, String) {
    let answer = send(server, user, Method::GET, path, &[], None).await;
    let text = |name: &str| {
        let value = answer.headers().get(name).expect("the header");
        value.to_str().expect("text").to_owned()
    };
    (text(SCHEMA_HEADER), text(LEVEL_HEADER))
}

async fn page(server: &ApiServer, path: &str, accept: &str) -> (String, String) {
    let headers = [("accept", accept)];
    let answer = send(server, &root(), Method::GET, path, &headers, None).await;
    assert_eq!(answer.status(), 200, "{path}");
    let media = answer.headers()["content-type"].to_str().expect("text");
    let media = media.to_owned();
    let bytes = answer
        .into_body()
        .collect()
        .await
        .expect("a body")
        .to_bytes();
    (media, String::from_utf8(bytes.to_vec()).expect("text"))
}

fn node(name: &str) -> User {
    User::named(format!("system:node:{name}"), [NODES])
}

#[tokio::test]
async fn answers_say_by_which_schema_and_level_a_request_went() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = common::server(dir.path()).await;
    let lease = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1";
    for (user, path, schema, level) in [
        (root(), "/api/v1/pods", "exempt", "exempt"),
        (node("n1"), lease, "system-node-high", "node-high"),
        (node("n1"), "/api/v1/services", "system-nodes", "system"),
        (
            User::named("ann", []),
            "/api/v1/pods",
            "global-default",
            "global-default",
        ),
        (User::named("ann", []), "/readyz", "probes", "exempt"),
        (
            User::service_account("a", "robot", ""),
            "/api/v1/pods",
            "service-accounts",
            "workload-low",
        ),
        (
            User::named("system:kube-scheduler", []),
            "/api/v1/pods",
            "kube-scheduler",
            "workload-high",
        ),
    ] {
        let expected = (
            uid(&server, &format!("{SCHEMAS}/{schema}")).await,
            uid(&server, &format!("{LEVELS}/{level}")).await,
        );
        assert_eq!(
            classified(&server, &user, path).await,
            expected,
            "{} {path}",
            user.name
        );
    }
}

/// A level without queues and with one seat, for one user.
async fn narrow(server: &ApiServer, who: &str) {
    let level = value!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "PriorityLevelConfiguration",
        "metadata": {"name": "narrow"},
        "spec": {"type": "Limited", "limited": {
            "nominalConcurrencyShares": 0,
            "limitResponse": {"type": "Reject"}
        }}
    });
    let schema = value!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "FlowSchema",
        "metadata": {"name": "narrow"},
        "spec": {
            "matchingPrecedence": 50,
            "priorityLevelConfiguration": {"name": "narrow"},
            "rules": [{
                "subjects": [{"kind": "User", "user": {"name": who}}],
                "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"]}]
            }]
        }
    });
    for (path, object) in [(LEVELS, level), (SCHEMAS, schema)] {
        let (code, answer) = ask(server, &root(), Method::POST, path, Some(object)).await;
        assert_eq!(code, 201, "{answer:?}");
    }
}

async fn until_classified(server: &ApiServer, user: &User, schema: &str) {
    let wanted = uid(server, &format!("{SCHEMAS}/{schema}")).await;
    for _ in 0..100 {
        if classified(server, user, "/api/v1/pods").await.0 == wanted {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("`{schema}` was not followed within five seconds");
}

#[tokio::test]
async fn levels_and_schemas_are_followed_as_they_change() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = common::server(dir.path()).await;
    let ann = User::named("ann", []);
    narrow(&server, "ann").await;
    until_classified(&server, &ann, "narrow").await;
    let path = format!("{SCHEMAS}/narrow");
    let (code, _) = ask(&server, &root(), Method::DELETE, &path, None).await;
    assert_eq!(code, 200);
    until_classified(&server, &ann, "global-default").await;
}

#[tokio::test]
async fn who_finds_no_seat_is_told_when_to_come_again_and_shown_in_dumps_and_metrics() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = common::server(dir.path()).await;
    let ann = User::named("system:apiserver-test", []);
    narrow(&server, &ann.name).await;
    until_classified(&server, &ann, "narrow").await;
    // Lists that are all there at the same time find one seat: a request takes
    // some time, since its user must be known to have no rights first.
    let all = (0..64).map(|_| send(&server, &ann, Method::GET, "/api/v1/pods", &[], None));
    let all = futures::future::join_all(all).await;
    // In-process requests that wait for nothing are answered one after the other.
    assert!(all.iter().all(|answer| answer.status() == 403));

    // A watch keeps its seat until it has begun, which takes a reader.
    let watcher = root();
    let held = send(
        &server,
        &watcher,
        Method::GET,
        "/api/v1/pods?watch=true",
        &[],
        None,
    )
    .await;
    assert_eq!(held.status(), 200);
    let (_, requests) = page(
        &server,
        "/debug/api_priority_and_fairness/dump_requests?includeRequestDetails=1",
        "",
    )
    .await;
    let line = requests
        .lines()
        .find(|line| line.contains("watch"))
        .expect("the watch");
    assert!(line.starts_with("exempt, "), "{line}");
    assert!(line.contains("/api/v1/pods"), "{line}");
    drop(held);
    let (_, levels) = page(
        &server,
        "/debug/api_priority_and_fairness/dump_priority_levels",
        "",
    )
    .await;
    assert!(levels.starts_with("PriorityLevelName, "), "{levels}");
    assert_eq!(
        levels
            .lines()
            .filter(|line| line.starts_with("narrow"))
            .count(),
        1
    );
    let (_, queues) = page(&server, "/debug/api_priority_and_fairness/dump_queues", "").await;
    assert_eq!(
        queues
            .lines()
            .filter(|line| line.starts_with("leader-election,"))
            .count(),
        16
    );

    let (media, metrics) = page(&server, "/metrics", "text/plain").await;
    assert!(media.starts_with("text/plain; version=0.0.4"), "{media}");
    for expected in [
        "# TYPE apiserver_flowcontrol_dispatched_requests_total counter",
        "apiserver_flowcontrol_nominal_limit_seats{priority_level=\"workload-low\"} 245",
        "apiserver_flowcontrol_nominal_limit_seats{priority_level=\"catch-all\"} 13",
        "apiserver_flowcontrol_dispatched_requests_total{priority_level=\"narrow\",flow_schema=\"narrow\"}",
        "apiserver_flowcontrol_request_execution_seconds_count{priority_level=\"exempt\",flow_schema=\"exempt\",type=\"watch\"} 1",
    ] {
        assert!(metrics.contains(expected), "no `{expected}`");
    }
    let (media, metrics) = page(&server, "/metrics", "application/openmetrics-text").await;
    assert!(media.starts_with("application/openmetrics-text"), "{media}");
    assert!(metrics.ends_with("# EOF\n"));
}

/// Two thousand clients of four service accounts that list all the time, and
/// a node that renews its lease meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_thousand_greedy_clients_do_not_slow_a_lease() {
    const CLIENTS: usize = 2000;
    const OBJECTS: usize = 200;
    let dir = tempfile::tempdir().expect("a directory");
    let server = common::server(dir.path()).await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let namespace =
        value!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-node-lease"}});
    ask(
        &server,
        &root(),
        Method::POST,
        "/api/v1/namespaces",
        Some(namespace),
    )
    .await;
    let lease = value!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "n1", "namespace": "kube-node-lease"},
        "spec": {"holderIdentity": "n1", "leaseDurationSeconds": 40}
    });
    let (code, mut lease) = ask(&server, &node("n1"), Method::POST, leases, Some(lease)).await;
    assert_eq!(code, 201, "{lease:?}");
    let may = value!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": "greedy"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:serviceaccounts:greedy"}]
    });
    let path = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";
    ask(&server, &root(), Method::POST, path, Some(may)).await;
    let made = (0..OBJECTS).map(|at| {
        let object = value!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": (format!("c{at}"))}, "data": {"text": ("x".repeat(1000))}
        });
        let path = "/api/v1/namespaces/default/configmaps";
        let server = &server;
        async move {
            ask(server, &root(), Method::POST, path, Some(object))
                .await
                .0
        }
    });
    let made = futures::future::join_all(made).await;
    assert!(made.iter().all(|code| *code == 201));

    let stop = Arc::new(AtomicBool::new(false));
    let (served, refused) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..CLIENTS)
        .map(|at| {
            let (mut service, stop) = (server.service(), Arc::clone(&stop));
            let (served, refused) = (Arc::clone(&served), Arc::clone(&refused));
            let user = User::service_account("greedy", &format!("g{}", at % 4), "");
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let mut request = Request::get("/api/v1/configmaps")
                        .body(body::full(""))
                        .expect("a request");
                    request.extensions_mut().insert(user.clone());
                    let answer = service.call(request).await.expect("infallible");
                    if answer.status() == 429 {
                        refused.fetch_add(1, Ordering::Relaxed);
                        tokio::time::sleep(Duration::from_millis(250)).await;
                    } else {
                        assert_eq!(answer.status(), 200);
                        let body = answer.into_body();
                        let bytes = body.collect().await.expect("a body").to_bytes();
                        assert!(bytes.len() > OBJECTS * 1000);
                        served.fetch_add(1, Ordering::Relaxed);
                    }
                    tokio::task::yield_now().await;
                }
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut took = Vec::new();
    for renewed in 1..=20_i64 {
        lease.set_path(&["spec", "leaseTransitions"], renewed);
        let began = Instant::now();
        let path = format!("{leases}/n1");
        let (code, answer) = ask(&server, &node("n1"), Method::PUT, &path, Some(lease)).await;
        assert_eq!(code, 200, "{answer:?}");
        lease = answer;
        took.push(began.elapsed());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    stop.store(true, Ordering::Relaxed);
    futures::future::join_all(clients).await;
    took.sort();
    println!(
        "{} served, {} refused; a lease took {:?} in the middle, {:?} at most",
        served.load(Ordering::Relaxed),
        refused.load(Ordering::Relaxed),
        took[took.len() / 2],
        took[took.len() - 1]
    );
    assert!(served.load(Ordering::Relaxed) > CLIENTS);
    // What the disk does now and then is not the clients' doing: of twenty, one
    // may be late.
    let late = took[took.len() - 2];
    assert!(late <= Duration::from_millis(100), "{took:?}");
}
