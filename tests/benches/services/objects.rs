//! Services and EndpointSlices like those of a cluster: with owners, field managers, references to
//! pods and the annotations of controllers.

use serde_json::{Value, json};

/// The node that the agent acts for.
pub const NODE: &str = "bench-node";
/// The Service whose endpoint moves: its address, its port, its endpoints' port.
pub const PROBE: (&str, u16, u16) = ("10.96.255.1", 53, 9_053);
/// Where its endpoint is, by turns.
pub const PROBED: [&str; 2] = ["10.244.0.1", "10.244.0.2"];

/// Every fifth Service has a node port.
const NODE_PORTS: usize = 5;
/// Of these there are so many; 30000 to 32767 are there.
const MOST_NODE_PORTS: usize = 2_000;

fn uid(kind: u32, number: usize) -> String {
    format!("{kind:08x}-1f2e-4d3c-8b4a-{number:012x}")
}

fn namespace(number: usize) -> String {
    format!("team-{:02}", number % 50)
}

fn name(number: usize) -> String {
    format!("backend-{number:05}")
}

fn managed(manager: &str, fields: Value) -> Value {
    json!([{
        "manager": manager, "operation": "Update", "apiVersion": "v1",
        "time": "2026-03-01T10:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": fields,
    }])
}

/// The number of an object's cluster IP, below 10.96.0.0/12.
fn cluster_ip(number: usize) -> String {
    format!(
        "10.{}.{}.{}",
        97 + number / 62_500,
        number / 250 % 250,
        number % 250 + 1
    )
}

/// A Service.
pub fn service(number: usize) -> Value {
    let exposed = number.is_multiple_of(NODE_PORTS) && number / NODE_PORTS < MOST_NODE_PORTS;
    let mut port = json!({"name": "http", "port": 80, "protocol": "TCP", "targetPort": 8080});
    if exposed {
        port["nodePort"] = json!(30_000 + number / NODE_PORTS);
    }
    let mut spec = json!({
        "clusterIP": cluster_ip(number), "clusterIPs": [cluster_ip(number)],
        "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack", "ports": [port],
        "selector": {"app.kubernetes.io/name": name(number)}, "sessionAffinity": "None",
        "type": if exposed { "NodePort" } else { "ClusterIP" },
    });
    if exposed {
        spec["externalTrafficPolicy"] = json!("Cluster");
    }
    json!({
        "kind": "Service", "apiVersion": "v1",
        "metadata": {
            "name": name(number), "namespace": namespace(number), "uid": uid(1, number),
            "resourceVersion": (1_000 + number).to_string(),
            "creationTimestamp": "2026-03-01T10:00:00Z",
            "labels": {"app.kubernetes.io/name": name(number), "app.kubernetes.io/part-of": "shop"},
            "annotations": {"meta.helm.sh/release-name": "shop"},
            "managedFields": managed("helm", json!({
                "f:metadata": {"f:labels": {".": {}, "f:app.kubernetes.io/name": {}, "f:app.kubernetes.io/part-of": {}}},
                "f:spec": {
                    "f:internalTrafficPolicy": {}, "f:selector": {}, "f:sessionAffinity": {}, "f:type": {},
                    "f:ports": {".": {}, "k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:name": {}, "f:port": {}, "f:protocol": {}, "f:targetPort": {}}},
                },
            })),
        },
        "spec": spec,
        "status": {"loadBalancer": {}},
    })
}

/// Its EndpointSlice, with so many endpoints.
pub fn slice(number: usize, endpoints: usize, revision: usize) -> Value {
    let endpoint = |n: usize| {
        let place = number * 16 + n;
        json!({
            "addresses": [format!("10.{}.{}.{}", 128 + place / 65_536, place / 256 % 256, place % 256)],
            "conditions": {"ready": true, "serving": true, "terminating": false},
            "nodeName": format!("worker-{:03}.example.internal", place % 200),
            "targetRef": {
                "kind": "Pod", "namespace": namespace(number),
                "name": format!("{}-7c9d8f6b5-{n:05x}", name(number)), "uid": uid(2, place),
            },
            "zone": format!("zone-{}", place % 3),
        })
    };
    let endpoints: Vec<_> = (0..endpoints).map(endpoint).collect();
    let meta = json!({
        "name": format!("{}-x7k2m", name(number)), "namespace": namespace(number),
        "uid": uid(3, number),
    });
    let service = (name(number), uid(1, number));
    let port = json!({"name": "http", "port": 8080, "protocol": "TCP"});
    written(meta, service, Value::Array(endpoints), port, revision)
}

/// What the EndpointSlice controller writes.
fn written(
    mut meta: Value,
    (service, owner): (String, String),
    endpoints: Value,
    port: Value,
    revision: usize,
) -> Value {
    meta["generateName"] = json!(format!("{service}-"));
    meta["resourceVersion"] = json!(revision.to_string());
    meta["generation"] = json!(7);
    meta["creationTimestamp"] = json!("2026-03-01T10:00:01Z");
    meta["labels"] = json!({
        "app.kubernetes.io/name": service, "app.kubernetes.io/part-of": "shop",
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
        "kubernetes.io/service-name": service,
    });
    meta["annotations"] =
        json!({"endpoints.kubernetes.io/last-change-trigger-time": "2026-03-01T10:00:01Z"});
    meta["ownerReferences"] = json!([{
        "apiVersion": "v1", "kind": "Service", "name": service, "uid": owner,
        "controller": true, "blockOwnerDeletion": true,
    }]);
    meta["managedFields"] = managed(
        "kube-controller-manager",
        json!({
            "f:addressType": {}, "f:endpoints": {}, "f:ports": {},
            "f:metadata": {
                "f:annotations": {".": {}, "f:endpoints.kubernetes.io/last-change-trigger-time": {}},
                "f:generateName": {}, "f:ownerReferences": {".": {}, "k:{\"uid\":\"1\"}": {}},
                "f:labels": {".": {}, "f:endpointslice.kubernetes.io/managed-by": {}, "f:kubernetes.io/service-name": {}},
            },
        }),
    );
    json!({
        "kind": "EndpointSlice", "apiVersion": "discovery.k8s.io/v1", "metadata": meta,
        "addressType": "IPv4", "endpoints": endpoints, "ports": [port],
    })
}

/// The Service whose endpoint moves.
pub fn probe() -> Value {
    let (address, port, target) = PROBE;
    let mut service = service(0);
    service["metadata"]["name"] = json!("probe");
    service["metadata"]["uid"] = json!(uid(1, 1 << 20));
    service["spec"]["type"] = json!("ClusterIP");
    service["spec"]["clusterIP"] = json!(address);
    service["spec"]["clusterIPs"] = json!([address]);
    service["spec"]["ports"] =
        json!([{"name": "dns", "port": port, "protocol": "UDP", "targetPort": target}]);
    service
}

/// Its slice, with its endpoint at one of its places.
pub fn probe_slice(place: usize, revision: usize) -> Value {
    let (_, _, target) = PROBE;
    let meta = json!({"name": "probe-1", "namespace": namespace(0), "uid": uid(3, 1 << 20)});
    let endpoints = json!([{
        "addresses": [PROBED[place % 2]],
        "conditions": {"ready": true, "serving": true, "terminating": false},
        "nodeName": NODE,
    }]);
    let port = json!({"name": "dns", "port": target, "protocol": "UDP"});
    let service = ("probe".to_owned(), uid(1, 1 << 20));
    written(meta, service, endpoints, port, revision)
}

/// The node.
pub fn node() -> Value {
    json!({
        "kind": "Node", "apiVersion": "v1",
        "metadata": {"name": NODE, "uid": uid(4, 1), "resourceVersion": "2",
            "labels": {"kubernetes.io/hostname": NODE, "topology.kubernetes.io/zone": "a"}},
        "spec": {"podCIDR": "10.244.0.0/24", "podCIDRs": ["10.244.0.0/24"]},
        "status": {
            "addresses": [{"type": "InternalIP", "address": "192.0.2.10"}, {"type": "Hostname", "address": NODE}],
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    })
}
