//! A stolen node: requests with a node's own identity that try to reach beyond the node.
//! Each is refused with its code, and the victim is as it was before.

mod common;

use bytes::Bytes;
use common::{root, server};
use control_access::User;
use control_apiserver::listen::ClientAddr;
use control_apiserver::{ApiServer, body};
use control_types::value;
use control_types::value::Value;
use http::{Method, Request};
use http_body_util::BodyExt;
use tower::ServiceExt;

const THIEF: &str = "192.0.2.11:40000";
const VICTIM: &str = "192.0.2.12:40000";
const NODES: &str = "/api/v1/nodes";

fn node(name: &str) -> User {
    User::named(format!("system:node:{name}"), ["system:nodes"])
}

/// Sends a request as the listener hands it on: with the client's address.
async fn ask(
    server: &ApiServer,
    (user, from): (&User, &str),
    method: Method,
    path: &str,
    object: Value,
) -> (u16, Value) {
    let media = match method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let mut request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media)
        .body(body::full(Bytes::from(object.to_vec())))
        .expect("a request");
    request.extensions_mut().insert(user.clone());
    let address = ClientAddr(from.parse().expect("an address"));
    request.extensions_mut().insert(address);
    let answer = server.service().oneshot(request).await.expect("infallible");
    let code = answer.status().as_u16();
    let bytes = answer.into_body().collect().await.expect("a body");
    (
        code,
        Value::from_slice(&bytes.to_bytes()).unwrap_or_default(),
    )
}

async fn get(server: &ApiServer, path: &str) -> Value {
    let (code, object) = common::ask(server, &root(), Method::GET, path, None).await;
    assert_eq!(code, 200, "{object:?}");
    object
}

async fn make(server: &ApiServer, path: &str, object: Value) {
    let (code, told) = common::ask(server, &root(), Method::POST, path, Some(object)).await;
    assert_eq!(code, 201, "{told:?}");
}

/// Two nodes that registered themselves, each with a range and a pod.
async fn cluster(server: &ApiServer) {
    for (name, from, range) in [
        ("thief", THIEF, "10.0.1.0/24"),
        ("victim", VICTIM, "10.0.2.0/24"),
    ] {
        let object = value!({
            "metadata": {"name": name},
            "status": {"addresses": [{"type": "InternalIP", "address": (from.split(':').next())}]}
        });
        let (code, made) = ask(server, (&node(name), from), Method::POST, NODES, object).await;
        assert_eq!(code, 201, "{made:?}");
        let recorded = made.str_at(&["metadata", "annotations", "orlop.dev/joined-from"]);
        assert_eq!(recorded, from.split(':').next(), "{made:?}");
        let ranges = value!({"spec": {"podCIDR": range, "podCIDRs": [range]}});
        let path = format!("{NODES}/{name}");
        let (code, told) = common::ask(server, &root(), Method::PATCH, &path, Some(ranges)).await;
        assert_eq!(code, 200, "{told:?}");
    }
    let account = value!({
        "metadata": {"name": "default"}, "automountServiceAccountToken": false
    });
    make(
        server,
        "/api/v1/namespaces/default/serviceaccounts",
        account,
    )
    .await;
    for name in ["thief", "victim"] {
        let pod = value!({
            "metadata": {"name": name, "labels": {"app": "web"}},
            "spec": {"nodeName": name, "containers": [{"name": "c", "image": "i"}]}
        });
        make(server, "/api/v1/namespaces/default/pods", pod).await;
    }
    // Authorization learns of pods and nodes a moment later.
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nodes_own_objects_do_not_reach_beyond_the_node() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = server(dir.path()).await;
    cluster(&server).await;
    let thief = node("thief");
    let before = [
        get(&server, &format!("{NODES}/thief")).await,
        get(&server, &format!("{NODES}/victim")).await,
        get(&server, "/api/v1/namespaces/default/pods/thief").await,
        get(&server, "/api/v1/namespaces/default/pods/victim").await,
    ];
    let annotate = |key: &str, text: &str| value!({"metadata": {"annotations": {key: text}}});
    let report = |kind: &str, address: &str| value!({"status": {"addresses": [{"type": kind, "address": address}]}});
    let own = format!("{NODES}/thief");
    let own_status = format!("{NODES}/thief/status");
    let pod_status = "/api/v1/namespaces/default/pods/thief/status".to_owned();
    let pod = |ip: &str| value!({"status": {"podIP": ip, "podIPs": [{"ip": ip}]}});
    let mut attempts: Vec<(&str, Value)> = Vec::new();
    for path in [&own, &own_status] {
        for (key, text) in [
            ("orlop.dev/ip-pools", r#"{"default":["0.0.0.0/1"]}"#),
            ("orlop.dev/ip-pools", r#"{"default":["192.0.2.12/32"]}"#),
            ("orlop.dev/joined-from", "192.0.2.12"),
            ("orlop.dev/serving-names", "kubernetes.default.svc"),
        ] {
            attempts.push((path, annotate(key, text)));
        }
    }
    attempts.push((&own, value!({"metadata": {"annotations": null}})));
    let range = value!({"spec": {"podCIDR": "0.0.0.0/1", "podCIDRs": ["0.0.0.0/1"]}});
    attempts.push((&own, range));
    for (kind, address) in [
        // The victim's, one of its pods', a Service's, the API server's, the victim's name.
        ("InternalIP", "192.0.2.12"),
        ("ExternalIP", "192.0.2.12"),
        ("InternalIP", "10.0.2.7"),
        ("InternalIP", "10.96.0.1"),
        ("Hostname", "victim"),
    ] {
        attempts.push((&own_status, report(kind, address)));
    }
    for ip in [
        "192.0.2.12",
        "10.0.2.7",
        "10.96.0.1",
        "8.8.8.8",
        "127.0.0.1",
    ] {
        attempts.push((&pod_status, pod(ip)));
    }
    for (path, object) in attempts {
        let from = (&thief, THIEF);
        let (code, told) = ask(&server, from, Method::PATCH, path, object.clone()).await;
        assert_eq!(code, 403, "{path} {object:?}: {told:?}");
    }
    let after = [
        get(&server, &format!("{NODES}/thief")).await,
        get(&server, &format!("{NODES}/victim")).await,
        get(&server, "/api/v1/namespaces/default/pods/thief").await,
        get(&server, "/api/v1/namespaces/default/pods/victim").await,
    ];
    assert_eq!(after, before);

    // What is its own it still reports, and so does the victim.
    for (name, from, ip) in [("thief", THIEF, "10.0.1.7"), ("victim", VICTIM, "10.0.2.7")] {
        let path = format!("/api/v1/namespaces/default/pods/{name}/status");
        let own = (&node(name), from);
        let (code, told) = ask(&server, own, Method::PATCH, &path, pod(ip)).await;
        assert_eq!(code, 200, "{told:?}");
        let addresses = value!({"status": {"addresses": [
            {"type": "InternalIP", "address": (from.split(':').next())},
            {"type": "InternalIP", "address": (format!("fd00::{name}").replace("thief", "1").replace("victim", "2"))},
            {"type": "Hostname", "address": name}
        ]}});
        let path = format!("{NODES}/{name}/status");
        let own = (&node(name), from);
        let (code, told) = ask(&server, own, Method::PATCH, &path, addresses).await;
        assert_eq!(code, 200, "{told:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_node_brings_no_ranges_pools_or_record_of_its_own() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = server(dir.path()).await;
    cluster(&server).await;
    let pools = r#"{"default":["0.0.0.0/1"]}"#;
    for object in [
        value!({"metadata": {"name": "new"}, "spec": {"podCIDR": "0.0.0.0/1", "podCIDRs": ["0.0.0.0/1"]}}),
        value!({"metadata": {"name": "new", "annotations": {"orlop.dev/ip-pools": pools}}}),
        value!({"metadata": {"name": "new", "annotations": {"orlop.dev/joined-from": "192.0.2.12"}}}),
        value!({"metadata": {"name": "new"}, "status": {"addresses": [{"type": "InternalIP", "address": "192.0.2.12"}]}}),
    ] {
        let new = (&node("new"), "192.0.2.13:40000");
        let (code, told) = ask(&server, new, Method::POST, NODES, object.clone()).await;
        assert_eq!(code, 403, "{object:?}: {told:?}");
    }
    let path = format!("{NODES}/new");
    let (code, _) = common::ask(&server, &root(), Method::GET, &path, None).await;
    assert_eq!(code, 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_does_not_replace_the_devices_of_another() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = server(dir.path()).await;
    cluster(&server).await;
    let path = "/apis/resource.k8s.io/v1/resourceslices";
    let slice = |name: &str, node: &str, pool: &str, generation: i64| {
        value!({
            "metadata": {"name": name},
            "spec": {
                "driver": "gpu.example.com", "nodeName": node,
                "pool": {"name": pool, "generation": generation, "resourceSliceCount": 1},
                "devices": [{"name": "gpu-0"}]
            }
        })
    };
    let victim = (&node("victim"), VICTIM);
    let own = slice("victim-1", "victim", "victim", 1);
    let (code, told) = ask(&server, victim, Method::POST, path, own).await;
    assert_eq!(code, 201, "{told:?}");
    // A consistent read: the rule looks at the cache, which this waits for.
    let (code, _) = common::ask(&server, &root(), Method::GET, path, None).await;
    assert_eq!(code, 200);
    let thief = node("thief");
    let from = (&thief, THIEF);
    let stolen = slice("thief-1", "thief", "victim", 99);
    let (code, told) = ask(&server, from, Method::POST, path, stolen).await;
    assert_eq!(code, 403, "{told:?}");
    let own = slice("thief-1", "thief", "thief", 1);
    let (code, told) = ask(&server, from, Method::POST, path, own).await;
    assert_eq!(code, 201, "{told:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_writes_no_other_nodes_lease_csi_node_status_or_pod() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = server(dir.path()).await;
    cluster(&server).await;
    let namespace = value!({"metadata": {"name": "kube-node-lease"}});
    let (code, _) = common::ask(
        &server,
        &root(),
        Method::POST,
        "/api/v1/namespaces",
        Some(namespace),
    )
    .await;
    assert!(matches!(code, 201 | 409), "{code}");
    let thief = node("thief");
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let csi_nodes = "/apis/storage.k8s.io/v1/csinodes";
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let named = value!({"metadata": {"name": "victim"}, "spec": {}});
    let csi = value!({"metadata": {"name": "victim"}, "spec": {"drivers": []}});
    let slice = value!({
        "metadata": {"name": "s", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4", "endpoints": [{"addresses": ["192.0.2.11"]}]
    });
    let silent = value!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    let dead = value!({"status": {"phase": "Failed"}});
    for (method, path, object) in [
        (Method::POST, leases, named),
        (Method::POST, csi_nodes, csi),
        (Method::POST, slices, slice),
        (Method::PATCH, "/api/v1/nodes/victim/status", silent),
        (
            Method::PATCH,
            "/api/v1/namespaces/default/pods/victim/status",
            dead,
        ),
        (
            Method::DELETE,
            "/api/v1/namespaces/default/pods/victim",
            value!({}),
        ),
    ] {
        let shown = format!("{method} {path}");
        let (code, told) = ask(&server, (&thief, THIEF), method, path, object).await;
        assert_eq!(code, 403, "{shown}: {told:?}");
    }
    let pod = get(&server, "/api/v1/namespaces/default/pods/victim").await;
    assert_eq!(pod.str_at(&["status", "phase"]), Some("Pending"));
}
