//! A stolen node: requests with a node's own identity that try to reach beyond the node.
//! Each is refused with its code, and the victim is as it was before.

mod common;

use std::time::Duration;

use bytes::Bytes;
use common::{root, server};
use control_access::User;
use control_apiserver::ApiServer;
use control_request::body;
use control_request::peer::ClientAddr;
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
    tokio::time::sleep(Duration::from_millis(200)).await;
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

    // Both nodes can still report their own status and that of their pods.
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

const VOLUMES: &str = "/api/v1/persistentvolumes";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const CAPACITIES: &str = "/apis/storage.k8s.io/v1/namespaces/kube-system/csistoragecapacities";

/// A claim for which a node was selected; its uid.
async fn selected_claim(server: &ApiServer, name: &str, node: &str) -> String {
    let claim = value!({
        "metadata": {
            "name": name, "annotations": {"volume.kubernetes.io/selected-node": node}
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "local",
            "resources": {"requests": {"storage": "1Gi"}}
        }
    });
    make(server, CLAIMS, claim).await;
    let claim = get(server, &format!("{CLAIMS}/{name}")).await;
    let uid = claim.str_at(&["metadata", "uid"]);
    uid.expect("a uid").to_owned()
}

/// A local volume of a node for a claim.
fn volume_of(node: &str, claim: &str, uid: &str) -> Value {
    value!({
        "metadata": {"name": (format!("pvc-{uid}"))},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": "default", "name": claim, "uid": uid},
            "csi": {"driver": "csi.orlop.dev", "volumeHandle": (format!("pvc-{uid}"))},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
                {"key": "topology.csi.orlop.dev/node", "operator": "In", "values": [node]}
            ]}]}},
            "persistentVolumeReclaimPolicy": "Delete", "storageClassName": "local"
        }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_provisions_its_own_volumes_and_reaches_no_others() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = server(dir.path()).await;
    cluster(&server).await;
    let own = selected_claim(&server, "own", "thief").await;
    let other = selected_claim(&server, "other", "victim").await;
    selected_claim(&server, "free", "").await;
    let (thief, victim) = (node("thief"), node("victim"));
    let made = volume_of("victim", "other", &other);
    let (code, told) = ask(&server, (&victim, VICTIM), Method::POST, VOLUMES, made).await;
    assert_eq!(code, 201, "{told:?}");
    let named = format!("{VOLUMES}/pvc-{other}");
    let before = get(&server, &named).await;
    let host_path = value!({
        "metadata": {"name": (format!("pvc-{own}"))},
        "spec": {
            "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"},
            "claimRef": {"namespace": "default", "name": "own", "uid": (own.as_str())},
            "hostPath": {"path": "/"}
        }
    });
    let capacity = value!({
        "metadata": {"name": "c"}, "storageClassName": "local", "capacity": "1Pi",
        "nodeTopology": {"matchLabels": {"topology.csi.orlop.dev/node": "victim"}}
    });
    let free = value!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": null}}});
    let grab =
        value!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "thief"}}});
    let label = value!({"metadata": {"labels": {"app": "web"}}});
    let lie = value!({"status": {"phase": "Bound", "capacity": {"storage": "1Pi"}}});
    let retained = value!({"spec": {"persistentVolumeReclaimPolicy": "Retain"}});
    let keep = value!({"metadata": {"finalizers": null}});
    let claim_of_other = format!("{CLAIMS}/other");
    let claim_of_nobody = format!("{CLAIMS}/free");
    let claim_status = format!("{CLAIMS}/other/status");
    let own_claim = format!("{CLAIMS}/own");
    for (method, path, object) in [
        (Method::POST, VOLUMES, host_path),
        (Method::POST, VOLUMES, volume_of("victim", "own", &own)),
        (Method::POST, VOLUMES, volume_of("thief", "other", &other)),
        (Method::PATCH, named.as_str(), retained),
        (Method::PATCH, named.as_str(), keep),
        (Method::DELETE, named.as_str(), value!({})),
        (Method::POST, CAPACITIES, capacity),
        (Method::PATCH, claim_of_other.as_str(), free),
        (Method::PATCH, claim_of_other.as_str(), grab.clone()),
        (Method::PATCH, claim_of_nobody.as_str(), grab),
        (Method::PATCH, claim_status.as_str(), lie),
        (Method::PATCH, own_claim.as_str(), label),
        (Method::DELETE, own_claim.as_str(), value!({})),
    ] {
        let shown = format!("{method} {path} {object:?}");
        let (code, told) = ask(&server, (&thief, THIEF), method, path, object).await;
        assert_eq!(code, 403, "{shown}: {told:?}");
    }
    assert_eq!(get(&server, &named).await, before);

    // The node creates, changes and deletes its own volume.
    let from = (&thief, THIEF);
    let made = volume_of("thief", "own", &own);
    let (code, told) = ask(&server, from, Method::POST, VOLUMES, made).await;
    assert_eq!(code, 201, "{told:?}");
    let own_volume = format!("{VOLUMES}/pvc-{own}");
    let larger = value!({"spec": {"capacity": {"storage": "2Gi"}}});
    let (code, told) = ask(&server, from, Method::PATCH, &own_volume, larger).await;
    assert_eq!(code, 200, "{told:?}");
    let free = value!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": null}}});
    let (code, told) = ask(&server, from, Method::PATCH, own_claim.as_str(), free).await;
    assert_eq!(code, 200, "{told:?}");
    let (code, told) = ask(&server, from, Method::DELETE, &own_volume, value!({})).await;
    assert_eq!(code, 200, "{told:?}");
}

const LOCAL_CLAIMS: &str = "/apis/storage.orlop.dev/v1alpha1/localclaims";
const LOCAL_VOLUMES: &str = "/apis/storage.orlop.dev/v1alpha1/localvolumes";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_reads_no_claims_and_volumes_but_those_that_are_on_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = server(dir.path()).await;
    cluster(&server).await;
    let own = selected_claim(&server, "own", "thief").await;
    let other = selected_claim(&server, "other", "victim").await;
    selected_claim(&server, "free", "").await;
    for (name, claim, uid) in [("thief", "own", &own), ("victim", "other", &other)] {
        make(&server, VOLUMES, volume_of(name, claim, uid)).await;
    }
    let shared = value!({
        "metadata": {"name": "shared"},
        "spec": {
            "accessModes": ["ReadWriteMany"], "capacity": {"storage": "1Gi"},
            "nfs": {"server": "192.0.2.1", "path": "/"}
        }
    });
    make(&server, VOLUMES, shared).await;
    let (thief, of_thief) = (node("thief"), "fieldSelector=spec.nodeName%3Dthief");
    let refused = [
        "/api/v1/persistentvolumeclaims".to_owned(),
        "/api/v1/persistentvolumeclaims?watch=true".to_owned(),
        CLAIMS.to_owned(),
        format!("{CLAIMS}/other"),
        format!("{CLAIMS}?fieldSelector=metadata.name%3Dother"),
        VOLUMES.to_owned(),
        format!("{VOLUMES}?watch=true"),
        format!("{VOLUMES}/pvc-{other}"),
        format!("{VOLUMES}/shared"),
        LOCAL_CLAIMS.to_owned(),
        LOCAL_VOLUMES.to_owned(),
        format!("{LOCAL_CLAIMS}?watch=true"),
        format!("{LOCAL_CLAIMS}?fieldSelector=spec.nodeName%3Dvictim"),
        format!("{LOCAL_CLAIMS}?fieldSelector=spec.nodeName%21%3Dthief"),
        format!("{LOCAL_CLAIMS}?fieldSelector=spec.nodeName%3D"),
        format!("{LOCAL_VOLUMES}?watch=true&fieldSelector=spec.nodeName%3Dvictim"),
        format!("{LOCAL_VOLUMES}/pvc-{other}"),
        "/apis/storage.orlop.dev/v1alpha1/namespaces/default/localclaims/other".to_owned(),
    ];
    for path in &refused {
        let (code, told) = ask(&server, (&thief, THIEF), Method::GET, path, value!({})).await;
        assert_eq!(code, 403, "{path}: {told:?}");
    }
    // Neither kind offers the field, as upstream.
    for path in [VOLUMES, CLAIMS] {
        let (code, _) = common::ask(
            &server,
            &root(),
            Method::GET,
            &format!("{path}?{of_thief}"),
            None,
        )
        .await;
        assert_eq!(code, 400, "{path}");
    }
    for (path, kind, name) in [
        (LOCAL_CLAIMS, "LocalClaimList", "own".to_owned()),
        (LOCAL_VOLUMES, "LocalVolumeList", format!("pvc-{own}")),
    ] {
        let path = format!("{path}?{of_thief}");
        let (code, list) = ask(&server, (&thief, THIEF), Method::GET, &path, value!({})).await;
        assert_eq!(code, 200, "{list:?}");
        assert_eq!(list.str_at(&["kind"]), Some(kind));
        let names: Vec<_> = list
            .items_at(&["items"])
            .iter()
            .map(control_types::meta::name)
            .collect();
        assert_eq!(names, [name.as_str()]);
        for method in [Method::POST, Method::DELETE] {
            let (code, _) = common::ask(&server, &root(), method, &path, None).await;
            assert_eq!(code, 405);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_of_local_claims_follows_what_is_given_to_the_node_and_taken_from_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = server(dir.path()).await;
    cluster(&server).await;
    selected_claim(&server, "data", "").await;
    let list = get(&server, LOCAL_CLAIMS).await;
    let revision = list.str_at(&["metadata", "resourceVersion"]).expect("one");
    let path = format!(
        "{LOCAL_CLAIMS}?watch=true&timeoutSeconds=2&resourceVersion={revision}&fieldSelector=spec.nodeName%3Dthief"
    );
    let request = Request::builder().uri(&path).body(body::full(Bytes::new()));
    let mut request = request.expect("a request");
    request.extensions_mut().insert(node("thief"));
    let watch = server.service().oneshot(request).await.expect("infallible");
    let of_claim = format!("{CLAIMS}/data");
    for selected in ["victim", "thief", "victim"] {
        let select = value!({"metadata": {"annotations": {
            "volume.kubernetes.io/selected-node": selected
        }}});
        let (code, told) =
            common::ask(&server, &root(), Method::PATCH, &of_claim, Some(select)).await;
        assert_eq!(code, 200, "{told:?}");
    }
    let events = common::events(watch).await;
    let told: Vec<_> = events
        .iter()
        .map(|event| {
            let object = event.get("object").expect("an object");
            assert_eq!(object.str_at(&["kind"]), Some("LocalClaim"));
            event.str_at(&["type"]).unwrap_or_default()
        })
        .collect();
    assert_eq!(told, ["ADDED", "DELETED"]);
}

const ENDPOINTS: &str = "/apis/network.orlop.dev/v1alpha1/podendpoints";
/// The text in each place where a pod may hold a credential.
const CREDENTIAL: &str = "swordfish";

/// A pod of the victim with credentials in its environment, arguments and annotations.
async fn pod_with_credentials(server: &ApiServer) {
    let env = value!([{"name": "PASSWORD", "value": CREDENTIAL}]);
    let pod = value!({
        "metadata": {
            "name": "guarded", "labels": {"app": "guarded"},
            "annotations": {"note": CREDENTIAL}
        },
        "spec": {
            "nodeName": "victim",
            "containers": [{
                "name": "c", "image": "i", "env": (env.clone()), "args": [CREDENTIAL],
                "ports": [{"name": "http", "containerPort": 8080}]
            }],
            "initContainers": [{
                "name": "s", "image": "i", "restartPolicy": "Always", "env": env,
                "ports": [{"name": "side", "containerPort": 9090}]
            }]
        }
    });
    make(server, "/api/v1/namespaces/default/pods", pod).await;
    let status = value!({"status": {
        "phase": "Running", "message": CREDENTIAL,
        "podIP": "10.0.2.9", "podIPs": [{"ip": "10.0.2.9"}]
    }});
    let path = "/api/v1/namespaces/default/pods/guarded/status";
    let (code, told) = common::ask(server, &root(), Method::PATCH, path, Some(status)).await;
    assert_eq!(code, 200, "{told:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_reads_no_other_nodes_pods_whatever_it_asks_for() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = server(dir.path()).await;
    cluster(&server).await;
    pod_with_credentials(&server).await;
    let accounts = "/api/v1/namespaces/kube-system/serviceaccounts";
    let account = value!({"metadata": {"name": "orlop-network"}});
    make(&server, accounts, account).await;
    let thief = node("thief");
    for path in [
        "/api/v1/pods",
        "/api/v1/pods?watch=true",
        "/api/v1/pods?fieldSelector=spec.nodeName%3Dvictim",
        "/api/v1/namespaces/default/pods",
        "/api/v1/namespaces/default/pods/guarded",
        "/api/v1/namespaces/default/pods/guarded/log",
        "/apis/network.orlop.dev/v1alpha1/namespaces/default/podendpoints/guarded",
    ] {
        let (code, told) = ask(&server, (&thief, THIEF), Method::GET, path, value!({})).await;
        assert_eq!(code, 403, "{path}: {told:?}");
    }
    for bound in [
        value!({"kind": "Node", "apiVersion": "v1", "name": "thief"}),
        value!({"kind": "Pod", "apiVersion": "v1", "name": "thief"}),
        Value::Null,
    ] {
        let request = value!({"spec": {"boundObjectRef": (bound.clone())}});
        let path = format!("{accounts}/orlop-network/token");
        let (code, told) = ask(&server, (&thief, THIEF), Method::POST, &path, request).await;
        assert_eq!(code, 403, "bound to {bound:?}: {told:?}");
    }
}

/// The whole body of an answer to a node.
async fn body_of(server: &ApiServer, path: &str, accept: &str) -> (u16, String) {
    let headers = [("accept", accept)];
    let answer = common::send(server, &node("thief"), Method::GET, path, &headers, None).await;
    let code = answer.status().as_u16();
    let bytes = answer.into_body().collect().await.expect("a body");
    let bytes = bytes.to_bytes();
    (code, String::from_utf8_lossy(&bytes).into_owned())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pod_endpoints_show_labels_addresses_and_ports_in_every_form_and_no_credential() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = server(dir.path()).await;
    cluster(&server).await;
    pod_with_credentials(&server).await;
    let (code, list) = body_of(&server, ENDPOINTS, "application/json").await;
    assert_eq!(code, 200, "{list}");
    let list = Value::from_slice(list.as_bytes()).expect("JSON");
    assert_eq!(list.str_at(&["kind"]), Some("PodEndpointList"));
    let items = list.items_at(&["items"]);
    assert_eq!(items.len(), 3, "{list:?}");
    let guarded = items
        .iter()
        .find(|item| item.str_at(&["metadata", "name"]) == Some("guarded"));
    let mut guarded = guarded.expect("the pod").clone();
    for unlike in ["uid", "resourceVersion", "creationTimestamp"] {
        let removed = guarded.remove_path(&["metadata", unlike]);
        assert!(removed.is_some(), "{unlike}");
    }
    let expected = value!({
        "metadata": {"name": "guarded", "namespace": "default", "labels": {"app": "guarded"}},
        "spec": {
            "nodeName": "victim",
            "containers": [
                {"ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}]}
            ],
            "initContainers": [{
                "restartPolicy": "Always",
                "ports": [{"name": "side", "containerPort": 9090, "protocol": "TCP"}]
            }]
        },
        "status": {
            "phase": "Running", "podIP": "10.0.2.9", "podIPs": [{"ip": "10.0.2.9"}]
        }
    });
    assert_eq!(guarded, expected);
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let partial = "as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
    for (path, accept) in [
        (ENDPOINTS.to_owned(), "application/yaml".to_owned()),
        (ENDPOINTS.to_owned(), "*/*".to_owned()),
        (
            format!("{ENDPOINTS}?includeObject=Object"),
            table.to_owned(),
        ),
        (ENDPOINTS.to_owned(), format!("application/json;{partial}")),
        (
            ENDPOINTS.to_owned(),
            format!("application/vnd.kubernetes.protobuf;{partial}"),
        ),
        (
            format!("{ENDPOINTS}?watch=true&timeoutSeconds=1&resourceVersion=0"),
            "application/json".to_owned(),
        ),
        (
            format!("{ENDPOINTS}?watch=true&timeoutSeconds=1&resourceVersion=1"),
            "application/json".to_owned(),
        ),
        (
            format!("{ENDPOINTS}?watch=true&timeoutSeconds=1&includeObject=Object"),
            table.to_owned(),
        ),
    ] {
        let (code, body) = body_of(&server, &path, &accept).await;
        assert_eq!(code, 200, "{path} as {accept}: {body}");
        assert!(body.contains("guarded"), "{path} as {accept}: {body}");
        assert!(!body.contains(CREDENTIAL), "{path} as {accept}: {body}");
    }
    let protobuf = "application/vnd.kubernetes.protobuf";
    assert_eq!(body_of(&server, ENDPOINTS, protobuf).await.0, 406);
    // Nobody writes them, and who is no node needs a right to read them.
    for method in [Method::POST, Method::DELETE] {
        let (code, _) = common::ask(&server, &root(), method, ENDPOINTS, None).await;
        assert_eq!(code, 405);
    }
    let stranger = User::named("eve", []);
    let (code, _) = common::ask(&server, &stranger, Method::GET, ENDPOINTS, None).await;
    assert_eq!(code, 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_of_pod_endpoints_follows_the_pods_by_their_revisions() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = server(dir.path()).await;
    cluster(&server).await;
    let list = get(&server, ENDPOINTS).await;
    let revision = list.str_at(&["metadata", "resourceVersion"]).expect("one");
    let path = format!("{ENDPOINTS}?watch=true&timeoutSeconds=2&resourceVersion={revision}");
    let watch = |server: &ApiServer| {
        let service = server.service();
        let request = Request::builder().uri(&path).body(body::full(Bytes::new()));
        let mut request = request.expect("a request");
        request.extensions_mut().insert(node("thief"));
        async move { service.oneshot(request).await.expect("infallible") }
    };
    // Two watchers share frames.
    let (one, two) = (watch(&server).await, watch(&server).await);
    pod_with_credentials(&server).await;
    let guarded = "/api/v1/namespaces/default/pods/guarded?gracePeriodSeconds=0";
    let (code, _) = common::ask(&server, &root(), Method::DELETE, guarded, None).await;
    assert_eq!(code, 200);
    let (one, two) = (common::events(one).await, common::events(two).await);
    assert_eq!(one, two);
    let told: Vec<_> = one
        .iter()
        .map(|event| {
            let object = |path: &[&str]| {
                let object = event.get("object").expect("an object");
                object.str_at(path).unwrap_or_default().to_owned()
            };
            assert_eq!(object(&["kind"]), "PodEndpoint");
            assert_eq!(object(&["metadata", "name"]), "guarded");
            let kind = event.str_at(&["type"]).unwrap_or_default().to_owned();
            (kind, object(&["status", "podIP"]))
        })
        .collect();
    let first = ("ADDED".to_owned(), String::new());
    let address = "10.0.2.9".to_owned();
    assert_eq!(told.first(), Some(&first), "{told:?}");
    assert!(
        told.contains(&("MODIFIED".to_owned(), address.clone())),
        "{told:?}"
    );
    assert_eq!(told.last(), Some(&("DELETED".to_owned(), address)));
    assert!(!format!("{one:?}").contains(CREDENTIAL));
}

const SECRETS: &str = "/api/v1/namespaces/kube-system/secrets";
const PEERS: &str = "/apis/orlop.dev/v1alpha1/bgppeers";
/// A label that NodeRestriction keeps nodes from setting.
const RACK: &str = "node-restriction.kubernetes.io/rack";

/// Creates the object of the load balancer's manifests that contains `mark`.
async fn install(server: &ApiServer, mark: &str, path: &str) {
    let mut documents = control_load_balancer::DEFINITIONS.split("\n---\n");
    let document = documents.find(|text| text.contains(mark));
    let mut request = Request::builder()
        .method(Method::POST)
        .uri(path)
        .header("content-type", "application/yaml")
        .body(body::full(Bytes::from(document.expect("an object"))))
        .expect("a request");
    request.extensions_mut().insert(root());
    let answer = server.service().oneshot(request).await.expect("infallible");
    assert_eq!(answer.status(), 201, "{mark}");
}

/// Installs the definition of a kind and waits until it is served at `path`.
async fn define(server: &ApiServer, mark: &str, path: &str) {
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    install(server, mark, definitions).await;
    for _ in 0..200 {
        let (code, _) = common::ask(server, &root(), Method::GET, path, None).await;
        if code == 200 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{path} is not served");
}

/// A peer of the nodes of a rack, whose password is in a Secret.
fn peer(name: &str, secret: &str, rack: &str) -> Value {
    value!({
        "apiVersion": "orlop.dev/v1alpha1", "kind": "BGPPeer", "metadata": {"name": name},
        "spec": {
            "myASN": 65001, "peerASN": 65100, "peerAddress": "192.0.2.254",
            "passwordSecret": {"name": secret, "key": "password"},
            "nodeSelector": {"matchLabels": {RACK: rack}}
        }
    })
}

/// Waits until a node's request is answered with a code.
async fn until_answered(server: &ApiServer, path: &str, expected: u16) {
    let mut last = 0;
    for _ in 0..200 {
        let thief = node("thief");
        (last, _) = ask(server, (&thief, THIEF), Method::GET, path, value!({})).await;
        if last == expected {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{path} is answered with {last}, not {expected}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_reads_the_passwords_of_its_own_bgp_peers_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let server = server(dir.path()).await;
    cluster(&server).await;
    for (name, rack) in [("thief", "1"), ("victim", "2")] {
        let labels = value!({"metadata": {"labels": {RACK: rack}}});
        let path = format!("{NODES}/{name}");
        let (code, told) = common::ask(&server, &root(), Method::PATCH, &path, Some(labels)).await;
        assert_eq!(code, 200, "{told:?}");
    }
    for name in ["rack-1", "rack-2", "orlop-bgp"] {
        let secret = value!({"metadata": {"name": name}, "stringData": {"password": CREDENTIAL}});
        make(&server, SECRETS, secret).await;
    }
    let own = format!("{SECRETS}/rack-1");
    until_answered(&server, &own, 403).await;
    define(&server, "  name: bgppeers.orlop.dev", PEERS).await;
    make(&server, PEERS, peer("one", "rack-1", "1")).await;
    make(&server, PEERS, peer("two", "rack-2", "2")).await;
    until_answered(&server, &own, 200).await;
    let thief = node("thief");
    for path in [
        format!("{SECRETS}/rack-2"),
        format!("{SECRETS}/orlop-bgp"),
        SECRETS.to_owned(),
        "/api/v1/secrets".to_owned(),
        format!("{SECRETS}?watch=true"),
        format!("{SECRETS}?fieldSelector=metadata.name%3Drack-2"),
        format!("{SECRETS}?watch=true&fieldSelector=metadata.name%3Drack-2"),
        "/api/v1/secrets?fieldSelector=metadata.name%3Drack-1".to_owned(),
    ] {
        let (code, told) = ask(&server, (&thief, THIEF), Method::GET, &path, value!({})).await;
        assert_eq!(code, 403, "{path}: {told:?}");
    }
    for (method, path, object) in [
        (
            Method::PATCH,
            own.clone(),
            value!({"stringData": {"password": "x"}}),
        ),
        (Method::DELETE, own.clone(), value!({})),
        (
            Method::PATCH,
            format!("{PEERS}/two"),
            value!({"spec": {"nodeSelector": null}}),
        ),
        (
            Method::PATCH,
            format!("{NODES}/thief"),
            value!({"metadata": {"labels": {RACK: "2"}}}),
        ),
    ] {
        let shown = format!("{method} {path}");
        let (code, told) = ask(&server, (&thief, THIEF), method, &path, object).await;
        assert_eq!(code, 403, "{shown}: {told:?}");
    }
    // It ends with the peer, and with the definition of peers.
    make(&server, PEERS, peer("again", "orlop-bgp", "1")).await;
    until_answered(&server, &format!("{SECRETS}/orlop-bgp"), 200).await;
    let path = format!("{PEERS}/one");
    common::ask(&server, &root(), Method::DELETE, &path, None).await;
    until_answered(&server, &own, 403).await;
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/bgppeers.orlop.dev";
    common::ask(&server, &root(), Method::DELETE, path, None).await;
    until_answered(&server, &format!("{SECRETS}/orlop-bgp"), 403).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_writes_its_own_announcer_alone() {
    const ANNOUNCERS: &str = "/apis/orlop.dev/v1alpha1/announcers";
    const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
    let dir = tempfile::tempdir().expect("a directory");
    let server = server(dir.path()).await;
    cluster(&server).await;
    define(&server, "  kind: Announcer", ANNOUNCERS).await;
    for (mark, resource) in [
        (
            "kind: ValidatingAdmissionPolicy\n",
            "validatingadmissionpolicies",
        ),
        (
            "kind: ValidatingAdmissionPolicyBinding\n",
            "validatingadmissionpolicybindings",
        ),
    ] {
        install(&server, mark, &format!("{ADMISSION}/{resource}")).await;
    }
    let announcer = |name: &str| {
        value!({
            "apiVersion": "orlop.dev/v1alpha1", "kind": "Announcer",
            "metadata": {"name": name}, "status": {"addresses": ["192.0.2.80"]}
        })
    };
    let (thief, victim) = (node("thief"), node("victim"));
    let before = announcer("victim");
    let (code, made) = ask(&server, (&victim, VICTIM), Method::POST, ANNOUNCERS, before).await;
    assert_eq!(code, 201, "{made:?}");
    // The policy holds a moment after it was created.
    let mut last = (0, Value::default());
    for _ in 0..200 {
        let other = announcer("nobody");
        last = ask(&server, (&thief, THIEF), Method::POST, ANNOUNCERS, other).await;
        if last.0 == 422 {
            break;
        }
        let made = format!("{ANNOUNCERS}/nobody");
        common::ask(&server, &root(), Method::DELETE, &made, None).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(last.0, 422, "{:?}", last.1);
    let path = format!("{ANNOUNCERS}/victim");
    let taken = value!({"status": {"addresses": []}});
    let (code, told) = ask(&server, (&thief, THIEF), Method::PATCH, &path, taken).await;
    assert_eq!(code, 422, "{told:?}");
    let (code, told) = ask(&server, (&thief, THIEF), Method::DELETE, &path, value!({})).await;
    assert_eq!(code, 403, "{told:?}");
    let kept = get(&server, &path).await;
    assert_eq!(
        kept.str_at(&["metadata", "resourceVersion"]),
        made.str_at(&["metadata", "resourceVersion"])
    );
    let own = announcer("thief");
    let (code, told) = ask(&server, (&thief, THIEF), Method::POST, ANNOUNCERS, own).await;
    assert_eq!(code, 201, "{told:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_that_an_earlier_version_gave_nodes_is_taken_away_at_start() {
    let dir = tempfile::tempdir().expect("a directory");
    let first = server(dir.path()).await;
    cluster(&first).await;
    let secret = value!({"metadata": {"name": "orlop-bgp"}, "stringData": {"k": CREDENTIAL}});
    make(&first, SECRETS, secret).await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/kube-system";
    let role = value!({
        "metadata": {"name": "orlop:bgp-passwords"},
        "rules": [{
            "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["orlop-bgp"],
            "verbs": ["get"]
        }]
    });
    make(&first, &format!("{rbac}/roles"), role).await;
    let binding = value!({
        "metadata": {"name": "orlop:bgp-passwords"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "Role",
            "name": "orlop:bgp-passwords"
        },
        "subjects": [{
            "apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"
        }]
    });
    make(&first, &format!("{rbac}/rolebindings"), binding).await;
    let path = format!("{SECRETS}/orlop-bgp");
    until_answered(&first, &path, 200).await;
    let second = common::beside(&first).await;
    until_answered(&second, &path, 403).await;
}
