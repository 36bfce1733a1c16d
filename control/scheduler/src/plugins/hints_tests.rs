//! Events that wake a pod which a plugin rejected: a case and a counter-case for each.

use std::sync::Arc;

use serde_json::{Value, json};

use super::profile::plugin;
use crate::cluster::Cluster;
use crate::event::Event;
use crate::snapshot::Wake;
use crate::view::{Node, Pod};

fn pod(labels: &Value, spec: Value) -> Pod {
    let pod = json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "p", "labels": labels}, "spec": spec
    });
    serde_json::from_value(pod).unwrap()
}

fn waiting(spec: Value) -> Pod {
    pod(&json!({}), spec)
}

fn node(labels: Value, more: Value) -> Node {
    let mut node = json!({
        "metadata": {"name": "node", "labels": labels}, "spec": {},
        "status": {"allocatable": {"cpu": 4, "memory": "8Gi", "pods": 10}},
    });
    for (part, fields) in more.as_object().into_iter().flatten() {
        for (field, value) in fields.as_object().into_iter().flatten() {
            node[part][field] = value.clone();
        }
    }
    serde_json::from_value(node).unwrap()
}

/// Whether the plugin says that the event may help.
fn wakes(name: &str, waiting: &Pod, event: &Event<'_>) -> bool {
    let plugin = plugin(name).expect("a plugin");
    plugin.hint(&Cluster::default(), waiting, event)
}

fn added(name: &str, waiting: &Pod, new: &Node) -> bool {
    wakes(
        name,
        waiting,
        &Event::node(Wake::NODE_ADDED, None, Some(new)),
    )
}

fn updated(name: &str, waiting: &Pod, old: &Node, new: &Node) -> bool {
    let event = Event::node(Wake::NODE_LABELS, Some(old), Some(new));
    wakes(name, waiting, &event)
}

fn itself(name: &str, old: &Pod, new: &Pod) -> bool {
    wakes(name, old, &Event::itself(old, new))
}

#[test]
fn node_unschedulable_wakes_for_nodes_that_take_pods_and_for_the_toleration() {
    let plugin = "NodeUnschedulable";
    let open = node(json!({}), json!({}));
    let cordoned = node(json!({}), json!({"spec": {"unschedulable": true}}));
    let pod = waiting(json!({}));
    assert!(added(plugin, &pod, &open));
    assert!(!added(plugin, &pod, &cordoned));
    assert!(updated(plugin, &pod, &cordoned, &open));
    assert!(!updated(plugin, &pod, &open, &open));
    let tolerating =
        |key: &str| waiting(json!({"tolerations": [{"key": key, "operator": "Exists"}]}));
    assert!(itself(
        plugin,
        &pod,
        &tolerating("node.kubernetes.io/unschedulable")
    ));
    assert!(!itself(plugin, &pod, &tolerating("other")));
}

#[test]
fn taint_toleration_wakes_when_a_node_becomes_tolerable_and_for_any_new_toleration() {
    let plugin = "TaintToleration";
    let taint = |effect: &str| {
        node(
            json!({}),
            json!({"spec": {"taints": [{"key": "k", "effect": effect}]}}),
        )
    };
    let (bare, soft, hard) = (
        node(json!({}), json!({})),
        taint("PreferNoSchedule"),
        taint("NoExecute"),
    );
    let pod = waiting(json!({}));
    assert!(added(plugin, &pod, &bare) && added(plugin, &pod, &soft));
    assert!(!added(plugin, &pod, &hard));
    assert!(updated(plugin, &pod, &hard, &soft));
    assert!(!updated(plugin, &pod, &soft, &bare));
    let tolerating = waiting(json!({"tolerations": [{"key": "other", "operator": "Exists"}]}));
    assert!(itself(plugin, &pod, &tolerating));
    assert!(!itself(plugin, &pod, &pod));
}

#[test]
fn node_affinity_wakes_when_a_node_begins_to_match() {
    let plugin = "NodeAffinity";
    let pod = waiting(json!({"nodeSelector": {"disk": "ssd"}}));
    let (ssd, hdd) = (json!({"disk": "ssd"}), json!({"disk": "hdd"}));
    let node = |labels: &Value| node(labels.clone(), json!({}));
    assert!(added(plugin, &pod, &node(&ssd)));
    assert!(!added(plugin, &pod, &node(&hdd)));
    assert!(updated(plugin, &pod, &node(&hdd), &node(&ssd)));
    assert!(!updated(plugin, &pod, &node(&ssd), &node(&ssd)));
    let named = waiting(json!({"affinity": {"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [
            {"key": "metadata.name", "operator": "In", "values": ["another"]}]}]}}}}));
    assert!(!added(plugin, &named, &node(&ssd)));
}

#[test]
fn node_ports_wakes_when_a_pod_with_one_of_the_ports_goes() {
    let plugin = "NodePorts";
    let with = |port: u16| {
        waiting(json!({"containers": [{"ports": [{"containerPort": 1, "hostPort": port}]}]}))
    };
    let pod = with(80);
    assert!(wakes(plugin, &pod, &Event::pod_removed(&with(80))));
    assert!(!wakes(plugin, &pod, &Event::pod_removed(&with(81))));
    assert!(!wakes(
        plugin,
        &pod,
        &Event::pod_removed(&waiting(json!({})))
    ));
    assert!(added(plugin, &pod, &node(json!({}), json!({}))));
}

#[test]
fn node_resources_fit_wakes_when_there_is_more_of_what_the_pod_asks_for() {
    let plugin = "NodeResourcesFit";
    let asking =
        |requests: Value| waiting(json!({"containers": [{"resources": {"requests": requests}}]}));
    let with = |cpu: u32, memory: &str| {
        node(
            json!({}),
            json!({"status": {"allocatable":
            {"cpu": cpu, "memory": memory, "pods": 10}}}),
        )
    };
    let pod = asking(json!({"cpu": 2}));
    assert!(added(plugin, &pod, &with(2, "1Gi")));
    assert!(!added(plugin, &pod, &with(1, "1Gi")));
    assert!(updated(plugin, &pod, &with(1, "1Gi"), &with(2, "1Gi")));
    assert!(!updated(plugin, &pod, &with(2, "1Gi"), &with(2, "2Gi")));
    assert!(wakes(
        plugin,
        &pod,
        &Event::pod_removed(&waiting(json!({})))
    ));
    let (large, small) = (
        asking(json!({"cpu": 2, "memory": "2Gi"})),
        asking(json!({"cpu": 1, "memory": "2Gi"})),
    );
    let lighter = asking(json!({"cpu": 2, "memory": "1Gi"}));
    assert!(wakes(plugin, &pod, &Event::pod_changed(&large, &small)));
    assert_eq!(
        Event::pod_changed(&large, &small).wake,
        Wake::POD_SCALED_DOWN
    );
    assert!(!wakes(plugin, &pod, &Event::pod_changed(&large, &lighter)));
    assert!(itself(plugin, &large, &small));
    assert!(!itself(plugin, &small, &large));
}

fn spread(taints: &str) -> Value {
    json!({"topologySpreadConstraints": [{
        "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
        "nodeTaintsPolicy": taints, "labelSelector": {"matchLabels": {"app": "web"}}}]})
}

#[test]
fn pod_topology_spread_wakes_for_pods_that_count_and_nodes_with_the_keys() {
    let plugin = "PodTopologySpread";
    let waiting = waiting(spread("Ignore"));
    let (web, db) = (
        pod(&json!({"app": "web"}), json!({"nodeName": "x"})),
        pod(&json!({"app": "db"}), json!({"nodeName": "x"})),
    );
    assert!(wakes(plugin, &waiting, &Event::pod_added(&web)));
    assert!(!wakes(plugin, &waiting, &Event::pod_added(&db)));
    assert!(wakes(plugin, &waiting, &Event::pod_removed(&web)));
    assert!(!wakes(plugin, &waiting, &Event::pod_removed(&db)));
    assert!(wakes(plugin, &waiting, &Event::pod_changed(&db, &web)));
    assert!(!wakes(plugin, &waiting, &Event::pod_changed(&web, &web)));
    let mut elsewhere = web.clone();
    elsewhere.metadata.namespace = "other".into();
    assert!(!wakes(plugin, &waiting, &Event::pod_removed(&elsewhere)));

    let in_zone = |zone: &str| node(json!({"zone": zone}), json!({}));
    let without = node(json!({}), json!({}));
    let tainted = node(
        json!({"zone": "a"}),
        json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}),
    );
    assert!(added(plugin, &waiting, &in_zone("a")));
    assert!(!added(plugin, &waiting, &without));
    assert!(updated(plugin, &waiting, &in_zone("a"), &in_zone("b")));
    assert!(updated(plugin, &waiting, &in_zone("a"), &without));
    assert!(updated(plugin, &waiting, &tainted, &in_zone("a")));
    assert!(!updated(plugin, &waiting, &in_zone("a"), &in_zone("a")));
    let gone = in_zone("a");
    let removal = Event::node(Wake::NODE_REMOVED, Some(&gone), None);
    assert!(wakes(plugin, &waiting, &removal));

    let tolerating = |taints: &str| {
        let mut spec = spread(taints);
        spec["tolerations"] = json!([{"operator": "Exists"}]);
        pod(&json!({}), spec)
    };
    let honouring = pod(&json!({}), spread("Honor"));
    assert!(itself(plugin, &honouring, &tolerating("Honor")));
    assert!(!itself(plugin, &waiting, &tolerating("Ignore")));
    assert!(itself(
        plugin,
        &waiting,
        &pod(&json!({"app": "web"}), spread("Ignore"))
    ));
    assert!(!itself(
        plugin,
        &waiting,
        &pod(&json!({"app": "x"}), spread("Ignore"))
    ));
}

fn affinity(kind: &str) -> Value {
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [{
        "topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}]}}})
}

#[test]
fn inter_pod_affinity_wakes_for_pods_that_it_wants_or_shuns_and_nodes_with_the_keys() {
    let plugin = "InterPodAffinity";
    let (near, away) = (
        waiting(affinity("podAffinity")),
        waiting(affinity("podAntiAffinity")),
    );
    let placed = |app: &str, mut spec: Value| {
        spec["nodeName"] = json!("x");
        pod(&json!({"app": app}), spec)
    };
    let (db, web) = (placed("db", json!({})), placed("web", json!({})));
    assert!(wakes(plugin, &near, &Event::pod_added(&db)));
    assert!(!wakes(plugin, &near, &Event::pod_added(&web)));
    assert!(!wakes(plugin, &away, &Event::pod_added(&db)));
    assert!(wakes(plugin, &away, &Event::pod_removed(&db)));
    assert!(!wakes(plugin, &away, &Event::pod_removed(&web)));
    assert!(!wakes(plugin, &near, &Event::pod_removed(&db)));
    assert!(wakes(plugin, &near, &Event::pod_changed(&web, &db)));
    assert!(wakes(plugin, &away, &Event::pod_changed(&db, &web)));
    assert!(!wakes(plugin, &away, &Event::pod_changed(&web, &db)));
    let shunned = pod(&json!({"app": "db"}), json!({}));
    assert!(wakes(
        plugin,
        &shunned,
        &Event::pod_removed(&placed("web", affinity("podAntiAffinity")))
    ));
    assert!(!wakes(plugin, &shunned, &Event::pod_removed(&web)));

    let in_zone = |zone: &str| node(json!({"zone": zone}), json!({}));
    let without = node(json!({}), json!({}));
    assert!(added(plugin, &near, &in_zone("a")) && !added(plugin, &near, &without));
    assert!(added(plugin, &away, &without));
    assert!(updated(plugin, &near, &without, &in_zone("a")));
    assert!(updated(plugin, &near, &in_zone("a"), &in_zone("b")));
    assert!(!updated(plugin, &near, &in_zone("a"), &without));
    assert!(updated(plugin, &away, &in_zone("a"), &without));
    assert!(updated(plugin, &away, &in_zone("a"), &in_zone("b")));
    assert!(!updated(plugin, &away, &without, &in_zone("a")));
    assert!(itself(
        plugin,
        &near,
        &pod(&json!({"app": "x"}), affinity("podAffinity"))
    ));
    assert!(!itself(plugin, &near, &near));
}

#[test]
fn node_declared_features_wakes_when_features_change() {
    let plugin = "NodeDeclaredFeatures";
    let with = |features: Value| node(json!({}), json!({"status": {"declaredFeatures": features}}));
    let pod = waiting(json!({"hostNetwork": true, "hostUsers": false}));
    assert_eq!(
        *pod.shape.required_features,
        ["UserNamespacesHostNetworkSupport"]
    );
    let declaring = with(json!(["UserNamespacesHostNetworkSupport"]));
    assert!(added(plugin, &pod, &declaring));
    assert!(updated(plugin, &pod, &with(json!([])), &declaring));
    assert!(!updated(plugin, &pod, &declaring, &declaring));
    assert!(itself(plugin, &pod, &waiting(json!({}))));
    assert!(!itself(plugin, &pod, &pod));
}

#[test]
fn a_pod_goes_only_where_its_features_are_declared() {
    let mut cluster = Cluster::default();
    let features = json!({"status": {"declaredFeatures": ["RestartAllContainersOnContainerExits"],
        "allocatable": {"cpu": 4, "memory": "8Gi", "pods": 10}}});
    let mut with = node(json!({}), features);
    with.metadata.name = "with".into();
    cluster.snapshot.set_node(&Arc::new(with));
    cluster
        .snapshot
        .set_node(&Arc::new(node(json!({}), json!({}))));
    let pod = waiting(json!({"containers": [{"restartPolicyRules": [
        {"action": "RestartAllContainers"}]}]}));
    let explained = crate::explain(&mut cluster, &pod);
    assert_eq!(explained.best, ["with"]);
    let rejected = explained.nodes[0].rejected.as_ref().unwrap();
    assert_eq!(
        rejected.reasons,
        ["node(s) didn't match Pod's required features"]
    );
}
