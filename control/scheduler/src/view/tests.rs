use serde_json::json;

use super::*;

fn pod(spec: serde_json::Value) -> Pod {
    serde_json::from_value(json!({"metadata": {"name": "a"}, "spec": spec})).unwrap()
}

#[test]
fn requests_are_summed_with_sidecars_init_containers_and_overhead() {
    let pod = pod(json!({
        "containers": [
            {"resources": {"requests": {"cpu": "100m", "memory": "64Mi", "example.com/gpu": "2"}}},
            {},
        ],
        "initContainers": [
            {"restartPolicy": "Always", "resources": {"requests": {"cpu": "50m"}}},
            {"resources": {"requests": {"cpu": 1}}},
        ],
        "overhead": {"cpu": "10m"},
    }));
    let requests = &pod.shape.requests;
    // the init container beside the sidecar needs more than all containers
    assert_eq!(requests.cpu, 1050 + 10);
    assert_eq!(requests.memory, 64 << 20);
    assert_eq!(requests.cpu_nonzero, 1060);
    assert_eq!(requests.memory_nonzero, (64 << 20) + 2 * (200 << 20));
    assert_eq!(*requests.extended, [("example.com/gpu".into(), 2)]);
}

#[test]
fn requests_of_the_pod_replace_those_of_its_containers() {
    let pod = pod(json!({
        "containers": [{"resources": {"requests": {"cpu": "100m", "example.com/gpu": "1"}}}],
        "resources": {"requests": {"cpu": "2", "example.com/gpu": "9"}},
    }));
    assert_eq!(pod.shape.requests.cpu, 2000);
    assert_eq!(
        *pod.shape.requests.extended,
        [("example.com/gpu".into(), 1)]
    );
}

/// Returns a pod that requests one processor while two are in effect; as a pod-level
/// request if `whole`.
fn shrinking(whole: bool, reason: &str) -> Pod {
    let of = |cpu: &str| json!({"requests": {"cpu": cpu}});
    let pending = json!([{"type": "PodResizePending", "status": "True", "reason": reason}]);
    let (spec, status) = if whole {
        let spec = json!({"containers": [{"name": "a"}], "resources": of("1")});
        let granted = json!({"cpu": "1500m"});
        let status = json!({"resources": of("2"), "allocatedResources": granted});
        (spec, status)
    } else {
        let spec = json!({
            "containers": [{"name": "a"}, {"name": "b", "resources": of("100m")}],
            "initContainers": [{"name": "s", "restartPolicy": "Always", "resources": of("900m")}],
        });
        let sidecar =
            json!({"name": "s", "resources": of("1900m"), "allocatedResources": {"cpu": "900m"}});
        (spec, json!({"initContainerStatuses": [sidecar]}))
    };
    let mut pod = json!({"metadata": {"name": "a"}, "spec": spec, "status": status});
    if !reason.is_empty() {
        pod["status"]["conditions"] = pending;
    }
    serde_json::from_value(pod).unwrap()
}

#[test]
fn what_is_still_in_force_counts_until_a_pod_has_shrunk() {
    for whole in [false, true] {
        assert_eq!(shrinking(whole, "").shape.requests.cpu, 2000, "{whole}");
    }
}

#[test]
fn a_resize_that_waits_counts_and_one_that_can_never_be_does_not() {
    let growing = |reason: &str| -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "a"},
            "spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": "8"}}}]},
            "status": {
                "conditions": [{"type": "PodResizePending", "status": "True", "reason": reason}],
                "containerStatuses": [{
                    "name": "a",
                    "resources": {"requests": {"cpu": "1"}},
                    "allocatedResources": {"cpu": "1"},
                }],
            },
        }))
        .unwrap()
    };
    assert_eq!(growing("Deferred").shape.requests.cpu, 8000);
    assert_eq!(growing("Infeasible").shape.requests.cpu, 1000);
    assert_eq!(shrinking(true, "Infeasible").shape.requests.cpu, 2000);
}

#[test]
fn images_of_containers_and_of_volumes_count() {
    let pod = pod(json!({
        "containers": [{"image": "a"}],
        "volumes": [{"name": "v", "image": {"reference": "b:1"}}],
    }));
    assert_eq!(pod.shape.images.len(), 2);
}

#[test]
fn equal_shapes_are_one_allocation() {
    let spec = json!({"containers": [{"image": "web"}], "tolerations": [{"operator": "Exists"}]});
    let (a, b) = (pod(spec.clone()), pod(spec));
    assert!(Arc::ptr_eq(&a.shape, &b.shape));
    assert_eq!(*a.shape.images, ["web:latest"]);
    let other = pod(json!({"containers": [{"image": "registry:5000/web:2"}]}));
    assert!(!Arc::ptr_eq(&a.shape, &other.shape));
    assert_eq!(*other.shape.images, ["registry:5000/web:2"]);
}

#[test]
fn a_node_is_read_with_numbers_as_quantities() {
    let node: Node = serde_json::from_value(json!({
        "metadata": {"name": "n"},
        "status": {"allocatable": {"cpu": 2, "memory": "1Gi", "pods": "110", "example.com/gpu": "3"}},
    }))
    .unwrap();
    assert_eq!(node.allocatable.cpu, 2000);
    assert_eq!(node.allocatable.memory, 1 << 30);
    assert_eq!(node.allocatable.pods, 110);
    assert_eq!(*node.allocatable.extended, [("example.com/gpu".into(), 3)]);
}

#[test]
fn tolerations_and_host_ports_match_as_the_api_says() {
    let taint = Taint {
        key: "a".into(),
        value: "1".into(),
        effect: "NoSchedule".into(),
    };
    let tolerates = |json| {
        serde_json::from_value::<Toleration>(json)
            .unwrap()
            .tolerates(&taint)
    };
    assert!(tolerates(json!({"operator": "Exists"})));
    assert!(tolerates(json!({"key": "a", "value": "1"})));
    assert!(tolerates(
        json!({"key": "a", "operator": "Exists", "effect": "NoSchedule"})
    ));
    assert!(!tolerates(json!({"key": "a", "value": "2"})));
    assert!(!tolerates(
        json!({"key": "a", "operator": "Exists", "effect": "NoExecute"})
    ));
    assert!(!tolerates(json!({"key": "b", "operator": "Exists"})));

    let port = |address: &str, protocol: &str, port| HostPort {
        address: address.into(),
        protocol: protocol.into(),
        port,
    };
    assert!(port("0.0.0.0", "TCP", 80).conflicts(&port("127.0.0.1", "TCP", 80)));
    assert!(!port("10.0.0.1", "TCP", 80).conflicts(&port("127.0.0.1", "TCP", 80)));
    assert!(!port("0.0.0.0", "TCP", 80).conflicts(&port("0.0.0.0", "UDP", 80)));
}

#[test]
fn tolerations_compare_canonical_integers() {
    let tolerates = |operator: &str, value: &str, taint: &str| {
        let toleration = Toleration {
            key: "k".into(),
            operator: operator.into(),
            value: value.into(),
            effect: "".into(),
        };
        toleration.tolerates(&Taint {
            key: "k".into(),
            value: taint.into(),
            effect: "NoSchedule".into(),
        })
    };
    assert!(tolerates("Lt", "10", "9") && !tolerates("Lt", "10", "10"));
    assert!(tolerates("Gt", "-1", "0") && !tolerates("Gt", "-1", "-1"));
    for odd in ["", "x", "010", "+1", "-0", "9223372036854775808"] {
        assert!(
            !tolerates("Lt", "10", odd) && !tolerates("Gt", "-10", odd),
            "{odd}"
        );
        assert!(
            !tolerates("Lt", odd, "0") && !tolerates("Gt", odd, "0"),
            "{odd}"
        );
    }
}
