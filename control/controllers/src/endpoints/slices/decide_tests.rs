use super::*;
use proptest::prelude::*;
use serde_json::json;

fn service(extra: serde_json::Value) -> Service {
    let mut value = json!({"metadata":{"name":"web","namespace":"d","uid":"svc","labels":{"a":"b"}},
        "spec":{"clusterIP":"10.96.0.9","ipFamilies":["IPv4"],"selector":{"app":"web"},
            "ports":[{"name":"http","port":80,"targetPort":8080,"protocol":"TCP"}]}});
    for (key, part) in extra.as_object().unwrap() {
        value["spec"][key] = part.clone();
    }
    serde_json::from_value(value).unwrap()
}

fn pod(number: usize, ready: bool) -> Arc<Pod> {
    let ip = format!("10.0.{}.{}", number / 256, number % 256);
    Arc::new(
        serde_json::from_value(json!({
            "metadata":{"name":format!("p{number:03}"),"namespace":"d","uid":format!("u{number}")},
            "spec":{"nodeName":"n1"},
            "status":{"phase":"Running","podIP":ip,"podIPs":[{"ip":ip},{"ip":format!("fd00::{number:x}")}],
                "conditions":[{"type":"Ready","status":if ready {"True"} else {"False"}}]}}))
        .unwrap(),
    )
}

fn zone(node: &str) -> Option<Text> {
    (node == "n1").then(|| "z1".into())
}

fn run(service: &Service, pods: &[Arc<Pod>], slices: &[Arc<EndpointSlice>]) -> Vec<SliceAction> {
    decide(&ServiceSnapshot {
        service,
        pods,
        slices,
        zone_of: &zone,
        manager: "endpointslice-controller.k8s.io",
    })
    .0
}

/// Applies actions as the API server would.
fn apply(slices: &mut Vec<Arc<EndpointSlice>>, actions: Vec<SliceAction>, next: &mut usize) {
    let build = |name: Text, content: SliceContent| {
        let mut slice: EndpointSlice = serde_json::from_value(json!({
            "metadata":{"name":name,"namespace":"d","uid":name,"labels":content.labels,
                "ownerReferences":[{"apiVersion":"v1","kind":"Service","name":"web","uid":"svc","controller":true}]},
            "addressType":content.address_type}))
        .unwrap();
        slice.endpoints = content.endpoints;
        slice.ports = content.ports;
        Arc::new(slice)
    };
    for action in actions {
        match action {
            SliceAction::Create(content) => {
                *next += 1;
                slices.push(build(format!("web-{next:03}").into(), content));
            }
            SliceAction::Update { name, content, .. } => {
                let at = slices.iter().position(|s| s.metadata.name == name).unwrap();
                slices[at] = build(name, content);
            }
            SliceAction::Delete { name, .. } => slices.retain(|s| s.metadata.name != name),
        }
    }
}

fn print(slices: &[Arc<EndpointSlice>]) -> String {
    slices
        .iter()
        .map(|s| {
            let endpoints: Vec<String> = s
                .endpoints
                .iter()
                .map(|e| {
                    let c = e.conditions;
                    format!(
                        "{}{}",
                        e.addresses[0],
                        if c.ready == Some(true) { "" } else { "!" }
                    )
                })
                .collect();
            let ports: Vec<i32> = s.ports.iter().filter_map(|p| p.port).collect();
            format!(
                "{} {} {ports:?} {}\n",
                s.metadata.name,
                s.address_type,
                endpoints.join(",")
            )
        })
        .collect()
}

#[test]
fn service_without_pods_has_one_empty_slice_and_keeps_it() {
    let s = service(json!({}));
    let mut slices = Vec::new();
    apply(&mut slices, run(&s, &[], &[]), &mut 0);
    assert_eq!(print(&slices), "web-001 IPv4 [] \n");
    assert!(run(&s, &[], &slices).is_empty());
}

#[test]
fn first_pod_reuses_the_empty_slice() {
    let s = service(json!({}));
    let (mut slices, mut next) = (Vec::new(), 0);
    apply(&mut slices, run(&s, &[], &[]), &mut next);
    let actions = run(&s, &[pod(1, true)], &slices);
    assert_eq!(actions.len(), 1);
    apply(&mut slices, actions, &mut next);
    assert_eq!(print(&slices), "web-001 IPv4 [8080] 10.0.0.1\n");
}

#[test]
fn endpoint_says_where_it_is_and_what_it_is() {
    let s = service(json!({}));
    let SliceAction::Create(content) = &run(&s, &[pod(1, true)], &[])[0] else {
        panic!("no slice created")
    };
    assert_eq!(
        serde_json::to_value(&content.endpoints[0]).unwrap(),
        json!({"addresses":["10.0.0.1"],"conditions":{"ready":true,"serving":true,"terminating":false},
            "nodeName":"n1","zone":"z1","targetRef":{"kind":"Pod","namespace":"d","name":"p001","uid":"u1"}})
    );
    assert_eq!(
        serde_json::to_value(&content.labels).unwrap(),
        json!({"a":"b","kubernetes.io/service-name":"web",
            "endpointslice.kubernetes.io/managed-by":"endpointslice-controller.k8s.io"})
    );
}

#[test]
fn readiness_is_one_update() {
    let s = service(json!({}));
    let (mut slices, mut next) = (Vec::new(), 0);
    apply(
        &mut slices,
        run(&s, &[pod(1, false), pod(2, true)], &[]),
        &mut next,
    );
    assert_eq!(print(&slices), "web-001 IPv4 [8080] 10.0.0.1!,10.0.0.2\n");
    let actions = run(&s, &[pod(1, true), pod(2, true)], &slices);
    assert!(matches!(actions.as_slice(), [SliceAction::Update { .. }]));
}

#[test]
fn both_families_get_their_slices() {
    let s = service(json!({"ipFamilies":["IPv4","IPv6"]}));
    let mut slices = Vec::new();
    apply(&mut slices, run(&s, &[pod(1, true)], &[]), &mut 0);
    assert_eq!(
        print(&slices),
        "web-001 IPv4 [8080] 10.0.0.1\nweb-002 IPv6 [8080] fd00::1\n"
    );
    let s = service(json!({"ipFamilies":["IPv4"]}));
    assert!(matches!(
        run(&s, &[pod(1, true)], &slices).as_slice(),
        [SliceAction::Delete { .. }]
    ));
}

#[test]
fn pods_with_other_numbers_for_a_named_port_get_their_own_slice() {
    let s =
        service(json!({"ports":[{"name":"http","port":80,"targetPort":"web","protocol":"TCP"}]}));
    let with_port = |number: usize, port: i32| {
        let mut p = (*pod(number, true)).clone();
        p.spec.containers = vec![
            serde_json::from_value(json!({"ports":[{"name":"web","containerPort":port}]})).unwrap(),
        ];
        Arc::new(p)
    };
    let mut slices = Vec::new();
    apply(
        &mut slices,
        run(&s, &[with_port(1, 80), with_port(2, 81)], &[]),
        &mut 0,
    );
    assert_eq!(
        print(&slices),
        "web-001 IPv4 [80] 10.0.0.1\nweb-002 IPv4 [81] 10.0.0.2\n"
    );
}

#[test]
fn slice_of_a_service_that_is_gone_is_replaced_not_taken_over() {
    let s = service(json!({}));
    let stale: EndpointSlice = serde_json::from_value(json!({
        "metadata":{"name":"old","uid":"o","ownerReferences":[{"kind":"Service","name":"web","uid":"before"}]},
        "addressType":"IPv4"}))
    .unwrap();
    let actions = run(&s, &[], &[Arc::new(stale)]);
    assert!(matches!(
        actions.as_slice(),
        [SliceAction::Create(_), SliceAction::Delete { .. }]
    ));
}

#[test]
fn pod_of_an_unknown_node_waits() {
    let s = service(json!({}));
    let mut p = (*pod(1, true)).clone();
    p.spec.node_name = "n9".into();
    let pods = [Arc::new(p)];
    let (_, again) = decide(&ServiceSnapshot {
        service: &s,
        pods: &pods,
        slices: &[],
        zone_of: &zone,
        manager: "m",
    });
    assert!(again);
}

#[test]
fn same_zone_hints_only_for_ready_endpoints() {
    let s = service(json!({"trafficDistribution":"PreferSameNode"}));
    let SliceAction::Create(content) = &run(&s, &[pod(1, true), pod(2, false)], &[])[0] else {
        panic!("no slice created")
    };
    assert_eq!(
        serde_json::to_value(&content.endpoints[0].hints).unwrap(),
        json!({"forZones":[{"name":"z1"}],"forNodes":[{"name":"n1"}]})
    );
    assert_eq!(content.endpoints[1].hints, None);
}

#[test]
fn label_that_the_service_lost_is_taken_from_the_slice() {
    let mut s = service(json!({}));
    let mut slices = Vec::new();
    apply(&mut slices, run(&s, &[pod(1, true)], &[]), &mut 0);
    s.metadata.labels = [("c", "d")].into_iter().collect();
    let actions = run(&s, &[pod(1, true)], &slices);
    let [SliceAction::Update { stale_labels, .. }] = actions.as_slice() else {
        panic!("{actions:?}")
    };
    assert_eq!(stale_labels, &["a"]);
}

proptest! {
    /// Whatever changes, the slices hold exactly the pods, none has more than
    /// 100, a second look writes nothing, and one changed pod is one write.
    #[test]
    fn slices_converge_in_one_step(steps in prop::collection::vec(prop::collection::btree_set(0usize..400, 0..260), 1..6)) {
        let s = service(json!({}));
        let (mut slices, mut next) = (Vec::new(), 0);
        for step in steps {
            let pods: Vec<Arc<Pod>> = step.iter().map(|n| pod(*n, true)).collect();
            let actions = run(&s, &pods, &slices);
            apply(&mut slices, actions, &mut next);
            let mut held: Vec<&str> = slices.iter().flat_map(|s| &s.endpoints)
                .map(|e| e.target_ref.as_ref().unwrap().name.as_str()).collect();
            held.sort_unstable();
            let want: Vec<&str> = pods.iter().map(|p| p.metadata.name.as_str()).collect();
            prop_assert_eq!(held, want);
            prop_assert!(slices.iter().all(|s| s.endpoints.len() <= MAX_ENDPOINTS));
            prop_assert!(run(&s, &pods, &slices).is_empty());
            if let Some((_, rest)) = pods.split_first() {
                prop_assert_eq!(run(&s, rest, &slices).len(), 1);
            }
        }
    }
}
