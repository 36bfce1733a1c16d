//! Admission as clients meet it: pod security, quotas, what nodes may touch.

mod common;

use std::sync::atomic::Ordering;

use common::{ask, beside, root, send, server, server_that_lags};
use control_types::value;
use control_types::value::Value;
use http::Method;

fn warnings<T>(answer: &http::Response<T>) -> Vec<String> {
    let texts = answer.headers().get_all("warning").iter();
    texts
        .map(|text| text.to_str().expect("a text").to_owned())
        .collect()
}

fn message(answer: &Value) -> &str {
    answer.str_at(&["message"]).unwrap_or_default()
}

async fn namespace(server: &control_apiserver::ApiServer, name: &str, labels: Value) {
    let object = value!({"metadata": {"name": name, "labels": (labels)}});
    let (code, _) = ask(
        server,
        &root(),
        Method::POST,
        "/api/v1/namespaces",
        Some(object),
    )
    .await;
    assert_eq!(code, 201);
    let account = value!({"metadata": {"name": "default"}});
    let path = format!("/api/v1/namespaces/{name}/serviceaccounts");
    let (code, _) = ask(server, &root(), Method::POST, &path, Some(account)).await;
    assert_eq!(code, 201);
}

fn pod(name: &str, host_network: bool) -> Value {
    value!({
        "metadata": {"name": name},
        "spec": {"automountServiceAccountToken": false, "hostNetwork": host_network, "containers": [{"name": "c", "image": "i"}]}
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_keep_to_the_level_of_their_namespace() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = server(dir.path()).await;
    let root = root();
    namespace(&server, "n", value!({})).await;
    let pods = "/api/v1/namespaces/n/pods";
    for name in ["b", "a"] {
        let (code, _) = ask(&server, &root, Method::POST, pods, Some(pod(name, true))).await;
        assert_eq!(code, 201, "nothing is enforced yet");
    }
    // Who has read the pods is told of all of them.
    let (code, _) = ask(&server, &root, Method::GET, pods, None).await;
    assert_eq!(code, 200);
    // Who makes the rule stricter hears of the pods that break it.
    let labels = value!({"metadata": {"labels": {
        "pod-security.kubernetes.io/enforce": "baseline",
        "pod-security.kubernetes.io/warn": "restricted"
    }}});
    let patch = [("content-type", "application/merge-patch+json")];
    let path = "/api/v1/namespaces/n";
    let answer = send(&server, &root, Method::PATCH, path, &patch, Some(labels)).await;
    assert_eq!(answer.status().as_u16(), 200);
    assert_eq!(
        warnings(&answer),
        [
            "299 - \"existing pods in namespace \\\"n\\\" violate the new PodSecurity enforce level \\\"baseline:latest\\\"\"",
            "299 - \"a (and 1 other pod): host namespaces\""
        ]
    );
    // Who has read the namespace knows that it holds.
    let (code, _) = ask(&server, &root, Method::GET, path, None).await;
    assert_eq!(code, 200);
    let (code, answer) = ask(&server, &root, Method::POST, pods, Some(pod("c", true))).await;
    assert_eq!(code, 403);
    assert_eq!(
        message(&answer),
        "pods \"c\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)"
    );
    let json = [("content-type", "application/json")];
    let made = send(
        &server,
        &root,
        Method::POST,
        pods,
        &json,
        Some(pod("d", false)),
    )
    .await;
    assert_eq!(made.status().as_u16(), 201);
    let told = warnings(&made);
    assert!(
        told.len() == 1 && told[0].starts_with("299 - \"would violate PodSecurity \\\"restricted:latest\\\": allowPrivilegeEscalation != false (container \\\"c\\\" must set"),
        "{told:?}"
    );
    // What makes pods is let through with a warning; its scale is not looked at.
    let template = pod("", true);
    let template = template.path(&["spec"]).cloned().expect("a spec");
    let deployment = value!({
        "metadata": {"name": "d"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": (template)}
        }
    });
    let path = "/apis/apps/v1/namespaces/n/deployments";
    let made = send(&server, &root, Method::POST, path, &json, Some(deployment)).await;
    assert_eq!(made.status().as_u16(), 201);
    assert!(warnings(&made)[0].contains("would violate PodSecurity"));
    // An image is judged anew, a label is not.
    let label = value!({"metadata": {"labels": {"x": "y"}}});
    let path = format!("{pods}/a");
    let (code, _) = ask(&server, &root, Method::PATCH, &path, Some(label)).await;
    assert_eq!(code, 200);
    let image = value!({"spec": {"containers": [{"name": "c", "image": "other"}]}});
    let (code, answer) = ask(&server, &root, Method::PATCH, &path, Some(image)).await;
    assert_eq!(code, 403, "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_level_holds_from_its_answer_on() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, late) = server_that_lags(dir.path()).await;
    namespace(&server, "n", value!({})).await;
    late.store(true, Ordering::SeqCst);
    for (level, code) in [("baseline", 403), ("privileged", 201)] {
        let labels = value!({"metadata": {"labels": {
            "pod-security.kubernetes.io/enforce": level
        }}});
        let path = "/api/v1/namespaces/n";
        let (changed, _) = ask(&server, &root(), Method::PATCH, path, Some(labels)).await;
        assert_eq!(changed, 200);
        let pods = "/api/v1/namespaces/n/pods";
        let (made, _) = ask(&server, &root(), Method::POST, pods, Some(pod("p", true))).await;
        assert_eq!(made, code, "{level}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn labels_that_name_no_level_are_refused_when_they_are_new() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = server(dir.path()).await;
    let object = value!({"metadata": {
        "name": "n", "labels": {"pod-security.kubernetes.io/enforce": "strict"}
    }});
    let (code, answer) = ask(
        &server,
        &root(),
        Method::POST,
        "/api/v1/namespaces",
        Some(object),
    )
    .await;
    assert_eq!(code, 422);
    assert_eq!(
        message(&answer),
        "Namespace \"n\" is invalid: metadata.labels[pod-security.kubernetes.io/enforce]: Invalid value: \"strict\": must be one of privileged, baseline, restricted"
    );
}

/// Makes a quota that was counted: the server alone has no controller to do so.
async fn quota(server: &control_apiserver::ApiServer, hard: Value, used: Value) {
    let path = "/api/v1/namespaces/n/resourcequotas";
    let object = value!({"metadata": {"name": "q"}, "spec": {"hard": (hard.clone())}});
    let (code, _) = ask(server, &root(), Method::POST, path, Some(object)).await;
    assert_eq!(code, 201);
    let status = value!({"status": {"hard": (hard), "used": (used)}});
    let path = format!("{path}/q/status");
    let (code, answer) = ask(server, &root(), Method::PATCH, &path, Some(status)).await;
    assert_eq!(code, 200, "{answer:?}");
    let (code, _) = ask(server, &root(), Method::GET, &path, None).await;
    assert_eq!(code, 200);
}

async fn used(server: &control_apiserver::ApiServer, name: &str) -> String {
    let path = "/api/v1/namespaces/n/resourcequotas/q";
    let (code, quota) = ask(server, &root(), Method::GET, path, None).await;
    assert_eq!(code, 200);
    let used = quota.str_at(&["status", "used", name]);
    used.unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_holds_before_its_usage_was_counted() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, late) = server_that_lags(dir.path()).await;
    let root = root();
    namespace(&server, "n", value!({})).await;
    let pods = "/api/v1/namespaces/n/pods";
    let create = async |name: &str| {
        let (code, answer) = ask(&server, &root, Method::POST, pods, Some(pod(name, false))).await;
        (code, message(&answer).to_owned())
    };
    assert_eq!(create("before").await.0, 201);
    late.store(true, Ordering::SeqCst);
    assert_eq!(create("unseen").await.0, 201);
    let quotas = "/api/v1/namespaces/n/resourcequotas";
    let quota = value!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "3"}}});
    let (code, _) = ask(&server, &root, Method::POST, quotas, Some(quota)).await;
    assert_eq!(code, 201);
    assert_eq!(create("last").await.0, 201);
    let refused = |used: &str| {
        let why = format!(
            "pods \"more\" is forbidden: exceeded quota: q, requested: pods=1, used: pods={used}, limited: pods={used}"
        );
        (403, why)
    };
    assert_eq!(create("more").await, refused("3"));
    assert_eq!(used(&server, "pods").await, "3");
    // One that limits more than when it was counted.
    let more = value!({"spec": {"hard": {"count/configmaps": "0"}}});
    let path = format!("{quotas}/q");
    let (code, _) = ask(&server, &root, Method::PATCH, &path, Some(more)).await;
    assert_eq!(code, 200);
    let map = value!({"metadata": {"name": "m"}});
    let maps = "/api/v1/namespaces/n/configmaps";
    let (code, _) = ask(&server, &root, Method::POST, maps, Some(map)).await;
    assert_eq!(code, 403);
    assert_eq!(create("more").await, refused("3"), "what was counted stays");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_that_another_server_made_holds() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, late) = server_that_lags(dir.path()).await;
    let other = beside(&server).await;
    let root = root();
    namespace(&other, "n", value!({})).await;
    let pods = "/api/v1/namespaces/n/pods";
    let (code, _) = ask(&server, &root, Method::GET, pods, None).await;
    assert_eq!(code, 200);
    late.store(true, Ordering::SeqCst);
    let quota = value!({"metadata": {"name": "q"}, "spec": {"hard": {"pods": "0"}}});
    let quotas = "/api/v1/namespaces/n/resourcequotas";
    let (code, _) = ask(&other, &root, Method::POST, quotas, Some(quota)).await;
    assert_eq!(code, 201);
    let (code, answer) = ask(&server, &root, Method::POST, pods, Some(pod("p", false))).await;
    assert_eq!(code, 403, "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_clients_together_get_no_more_than_there_is() {
    const CLIENTS: usize = 64;
    const EACH: usize = 4;
    let dir = tempfile::tempdir().expect("a directory");
    let server = server(dir.path()).await;
    namespace(&server, "n", value!({})).await;
    quota(
        &server,
        value!({"configmaps": "100"}),
        value!({"configmaps": "0"}),
    )
    .await;
    let server = &server;
    let clients = (0..CLIENTS).map(|client| async move {
        let mut made = 0;
        for one in 0..EACH {
            let object = value!({"metadata": {"name": (format!("m-{client}-{one}"))}});
            let path = "/api/v1/namespaces/n/configmaps";
            let (code, answer) = ask(server, &root(), Method::POST, path, Some(object)).await;
            match code {
                201 => made += 1,
                403 => assert!(message(&answer).contains("exceeded quota: q"), "{answer:?}"),
                _ => panic!("{answer:?}"),
            }
        }
        made
    });
    let made: usize = futures::future::join_all(clients).await.into_iter().sum();
    assert_eq!(made, 100, "neither more nor less than the quota");
    let path = "/api/v1/namespaces/n/configmaps";
    let (_, list) = ask(server, &root(), Method::GET, path, None).await;
    assert_eq!(list.items_at(&["items"]).len(), 100);
    assert_eq!(used(server, "configmaps").await, "100");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_quota_is_charged_for_what_is_stored_and_only_for_that() {
    let dir = tempfile::tempdir().expect("a directory");
    let (server, late) = server_that_lags(dir.path()).await;
    let root = root();
    namespace(&server, "n", value!({})).await;
    let hard =
        value!({"services": "2", "services.nodeports": "1", "pods": "1", "requests.cpu": "1"});
    let none =
        value!({"services": "0", "services.nodeports": "0", "pods": "0", "requests.cpu": "0"});
    quota(&server, hard, none).await;
    let services = "/api/v1/namespaces/n/services";
    let service = |name: &str, kind: &str| value!({"metadata": {"name": name}, "spec": {"type": kind, "ports": [{"port": 80}]}});
    let dry = format!("{services}?dryRun=All");
    let (code, _) = ask(
        &server,
        &root,
        Method::POST,
        &dry,
        Some(service("a", "NodePort")),
    )
    .await;
    assert_eq!((code, used(&server, "services").await), (201, "0".into()));
    let post = async |object| ask(&server, &root, Method::POST, services, Some(object)).await;
    late.store(true, Ordering::SeqCst);
    assert_eq!(post(service("a", "ClusterIP")).await.0, 201);
    assert_eq!(post(service("a", "ClusterIP")).await.0, 409);
    late.store(false, Ordering::SeqCst);
    assert_eq!(
        used(&server, "services").await,
        "1",
        "a name that is taken takes nothing"
    );
    // An update owes what it takes more.
    let patch = async |name: &str| {
        let kind = value!({"spec": {"type": "NodePort"}});
        let path = format!("{services}/{name}");
        ask(&server, &root, Method::PATCH, &path, Some(kind)).await
    };
    assert_eq!(patch("a").await.0, 200);
    assert_eq!(used(&server, "services.nodeports").await, "1");
    assert_eq!(used(&server, "services").await, "1");
    assert_eq!(post(service("b", "ClusterIP")).await.0, 201);
    let (code, answer) = patch("b").await;
    assert_eq!(code, 403);
    assert_eq!(
        message(&answer),
        "services \"b\" is forbidden: exceeded quota: q, requested: services.nodeports=1, used: services.nodeports=1, limited: services.nodeports=1"
    );
    // Pods must say what they need of what is limited.
    let pods = "/api/v1/namespaces/n/pods";
    let (code, answer) = ask(&server, &root, Method::POST, pods, Some(pod("p", false))).await;
    assert_eq!(code, 403);
    assert_eq!(
        message(&answer),
        "pods \"p\" is forbidden: failed quota: q: must specify requests.cpu for: c"
    );
}
