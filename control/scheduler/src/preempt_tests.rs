//! Preemption by example, and against a search that builds every cluster from scratch.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::place::Decision;
use crate::view::Node;

fn node(name: &str, cpu: u32) -> Arc<Node> {
    let zone = if name.ends_with(['0', '2', '4']) {
        "even"
    } else {
        "odd"
    };
    let node = json!({
        "metadata": {"name": name, "labels": {
            "kubernetes.io/hostname": name, "topology.kubernetes.io/zone": zone}},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": 10}},
    });
    Arc::new(serde_json::from_value(node).unwrap())
}

/// A pod with labels, a priority, CPUs and the minute of its start.
fn pod(name: &str, priority: i32, cpu: u32, start: Option<u32>, more: &Value) -> Arc<Pod> {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "n", "uid": name, "labels": {"app": "none"}},
        "spec": {"priority": priority, "containers": [
            {"resources": {"requests": {"cpu": cpu}}}]},
        "status": {},
    });
    if let Some(minute) = start {
        pod["status"]["startTime"] = json!(format!("2026-01-01T00:{minute:02}:00Z"));
    }
    for (part, fields) in more.as_object().into_iter().flatten() {
        for (field, value) in fields.as_object().into_iter().flatten() {
            pod[part][field] = value.clone();
        }
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn cluster(nodes: &[Arc<Node>], pods: &[(Arc<Pod>, &str)]) -> Cluster {
    let mut cluster = Cluster::default();
    for node in nodes {
        cluster.snapshot.set_node(node);
    }
    for (pod, node) in pods {
        cluster.snapshot.put_pod(pod, node);
    }
    cluster
}

fn diagnosed(placer: &mut Placer, cluster: &mut Cluster, pod: &Pod) -> Diagnosis {
    match placer.place(cluster, pod, 0) {
        Decision::Unschedulable(diagnosis) => diagnosis,
        Decision::Place { .. } => panic!("the pod fits"),
        Decision::Failed(message) => panic!("{message}"),
    }
}

/// `node: victims`, or the message.
fn preempted(cluster: &mut Cluster, pod: &Arc<Pod>) -> String {
    let mut placer = Placer::default();
    let diagnosis = diagnosed(&mut placer, cluster, pod);
    match placer.preempt(cluster, pod, &diagnosis, 0) {
        Ok(found) => {
            let victims = found.victims.iter().map(|pod| pod.metadata.name.as_str());
            format!("{}: {}", found.node, victims.collect::<Vec<_>>().join(" "))
        }
        Err(none) => none.message,
    }
}

#[test]
fn as_few_and_as_unimportant_pods_as_possible_go() {
    let none = json!({});
    let nodes = [node("n1", 4), node("n2", 4)];
    let pods = [
        (pod("old", 1, 2, Some(1), &none), "n1"),
        (pod("young", 1, 1, Some(9), &none), "n1"),
        (pod("low", 0, 1, Some(5), &none), "n1"),
        (pod("high", 50, 4, Some(5), &none), "n2"),
    ];
    let new = |cpu| pod("new", 10, cpu, None, &none);
    let mut cluster = cluster(&nodes, &pods);
    assert_eq!(preempted(&mut cluster, &new(1)), "n1: low");
    assert_eq!(preempted(&mut cluster, &new(2)), "n1: young low");
    assert_eq!(preempted(&mut cluster, &new(3)), "n1: old low");
    assert_eq!(
        preempted(&mut cluster, &new(5)),
        "preemption: 0/2 nodes are available: 2 Preemption is not helpful for scheduling."
    );
    let equal = pod("new", 1, 3, None, &none);
    assert_eq!(
        preempted(&mut cluster, &equal),
        "preemption: 0/2 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod."
    );
    let humble = pod(
        "new",
        10,
        1,
        None,
        &json!({"spec": {"preemptionPolicy": "Never"}}),
    );
    assert_eq!(
        preempted(&mut cluster, &humble),
        "preemption: not eligible due to preemptionPolicy=Never."
    );
}

#[test]
fn budgets_are_kept_where_that_is_possible() {
    let of = |app: &str| json!({"metadata": {"labels": {"app": app}}});
    let nodes = [node("n1", 2)];
    let pods = [
        (pod("a", 5, 1, Some(1), &of("guarded")), "n1"),
        (pod("b", 1, 1, Some(2), &of("free")), "n1"),
    ];
    let budgets = |allowed: u32| -> Cluster {
        let budget = json!({"metadata": {"name": "b", "namespace": "n"},
            "spec": {"selector": {"matchLabels": {"app": "free"}}},
            "status": {"disruptionsAllowed": allowed}});
        let budget = serde_json::from_value(budget).unwrap();
        let mut cluster = cluster(&nodes, &pods);
        Arc::make_mut(&mut cluster.catalog).pod_disruption_budgets =
            control_client::Cache::fixed([budget]);
        cluster
    };
    let new = pod("new", 10, 1, None, &json!({}));
    assert_eq!(preempted(&mut budgets(1), &new), "n1: b");
    // The one that is protected stays, though it is less important.
    assert_eq!(preempted(&mut budgets(0), &new), "n1: a");
}

#[test]
fn a_pod_waits_for_victims_that_are_still_ending() {
    let ending = json!({
        "metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"},
        "status": {"conditions": [{"type": "DisruptionTarget", "status": "True",
            "reason": "PreemptionByScheduler"}]},
    });
    let nodes = [node("n1", 2), node("n2", 2)];
    let pods = [
        (pod("a", 1, 2, Some(1), &ending), "n1"),
        (pod("b", 1, 2, Some(1), &json!({})), "n2"),
    ];
    let mut cluster = cluster(&nodes, &pods);
    let new = pod(
        "new",
        10,
        2,
        None,
        &json!({"status": {"nominatedNodeName": "n1"}}),
    );
    assert_eq!(
        preempted(&mut cluster, &new),
        "preemption: not eligible due to a terminating pod on the nominated node."
    );
}

#[test]
fn a_nominated_node_is_kept_free_for_its_pod_and_taken_by_it() {
    let nodes = [node("n1", 2), node("n2", 2)];
    let none = json!({});
    let mut cluster = cluster(&nodes, &[(pod("big", 50, 2, None, &none), "n2")]);
    let waiting = pod("waiting", 10, 2, None, &none);
    cluster.nominations.set(&waiting, "n1");
    let mut placer = Placer::default();
    let same = pod("same", 10, 1, None, &none);
    let diagnosis = diagnosed(&mut placer, &mut cluster, &same);
    assert_eq!(
        diagnosis.message(),
        "0/2 nodes are available: 2 Insufficient cpu."
    );
    let place = cluster.snapshot.place_of("n1").unwrap();
    for pod in [&pod("higher", 11, 1, None, &none), &waiting] {
        match placer.place(&mut cluster, pod, 0) {
            Decision::Place { node, .. } => assert_eq!(node, place),
            Decision::Unschedulable(diagnosis) => panic!("{}", diagnosis.message()),
            Decision::Failed(message) => panic!("{message}"),
        }
    }
}

fn labelled(app: &str) -> control_client::StringMap {
    [("app", app)].into_iter().collect()
}

/// The same search, on clusters that are built from nothing for each question.
struct Naive<'a> {
    nodes: &'a [Arc<Node>],
    pods: Vec<(Arc<Pod>, &'a str)>,
    new: &'a Arc<Pod>,
}

impl Naive<'_> {
    fn fits(&self, on: &str, gone: &[&Arc<Pod>]) -> bool {
        let pods = self.pods.iter();
        let pods: Vec<_> = pods
            .filter(|(pod, _)| !gone.iter().any(|gone| Arc::ptr_eq(gone, pod)))
            .cloned()
            .collect();
        let explained = crate::explain(&mut cluster(self.nodes, &pods), self.new);
        let mut nodes = explained.nodes.iter();
        nodes.any(|node| node.name == on && node.rejected.is_none())
    }

    fn victims(&self, on: &str) -> Option<Vec<Arc<Pod>>> {
        let here = self.pods.iter().filter(|(_, node)| *node == on);
        let mut less: Vec<&Arc<Pod>> = here
            .map(|(pod, _)| pod)
            .filter(|pod| pod.priority < self.new.priority)
            .collect();
        if less.is_empty() || !self.fits(on, &less) {
            return None;
        }
        // The starts of all pods differ.
        less.sort_by_key(|pod| (std::cmp::Reverse(pod.priority), pod.started));
        let mut gone = less.clone();
        for pod in less {
            let without: Vec<_> = gone
                .iter()
                .filter(|it| !Arc::ptr_eq(it, pod))
                .copied()
                .collect();
            if self.fits(on, &without) {
                gone = without;
            }
        }
        Some(gone.into_iter().cloned().collect())
    }
}

fn constraint() -> impl Strategy<Value = Value> {
    let key = prop_oneof![
        Just("kubernetes.io/hostname"),
        Just("topology.kubernetes.io/zone")
    ];
    (0u8..5, key).prop_map(|(kind, key)| {
        let selector = json!({"matchLabels": {"app": "a"}});
        let terms = json!({"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": key, "labelSelector": selector}]});
        match kind {
            0 => json!({"affinity": {"podAffinity": terms}}),
            1 => json!({"affinity": {"podAntiAffinity": terms}}),
            2 => json!({"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": key,
                "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]}),
            _ => json!({}),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn kept_counts_lead_to_the_victims_of_a_search_from_nothing(
        placed in prop::collection::vec((0usize..4, 0i32..4, 1u32..3, 0u8..3, constraint()), 1..10),
        (priority, cpu, app, spec) in (1i32..5, 1u32..5, 0u8..3, constraint()),
    ) {
        let names = ["n0", "n1", "n2", "n3"];
        let nodes: Vec<_> = names.iter().map(|name| node(name, 4)).collect();
        let labels = |app: u8, spec: &Value| json!({
            "metadata": {"labels": {"app": if app == 0 { "b" } else { "a" }}}, "spec": spec});
        let pods: Vec<(Arc<Pod>, &str)> = placed
            .iter()
            .enumerate()
            .map(|(at, (on, priority, cpu, app, spec))| {
                let start = u32::try_from(at * 7 % 11).unwrap();
                (pod(&format!("p{at}"), *priority, *cpu, Some(start), &labels(*app, spec)), names[*on])
            })
            .collect();
        let new = pod("new", priority, cpu, None, &labels(app, &spec));
        let mut cluster = cluster(&nodes, &pods);
        let mut placer = Placer::default();
        let first = placer.place(&mut cluster, &new, 0);
        let Decision::Unschedulable(diagnosis) = &first else { return Ok(()) };
        let naive = Naive { nodes: &nodes, pods, new: &new };
        let shortcut = placer.shortcut(&cluster, &new, diagnosis);
        prop_assert_eq!(
            shortcut.is_some(),
            new.shape.affinity.is_empty() && new.shape.anti_affinity.is_empty()
                && new.shape.spread.is_empty()
                && !naive.pods.iter().any(|(pod, _)| {
                    !pod.shape.anti_affinity.is_empty() && new.metadata.labels == labelled("a")
                })
        );
        for place in diagnosis.resolvable(&cluster.snapshot).iter() {
            let on = cluster.snapshot.name(place).to_owned();
            let run = DryRun { pod: &new, budgets: &[] };
            let found = placer.select_victims(&mut cluster, &run, place);
            let short = shortcut.as_ref().and_then(|it| it.select_victims(&cluster, &run, place));
            if let Some(short) = short {
                let names = |it: &Candidate| it.victims.iter().map(|it| it.key()).collect::<Vec<_>>();
                prop_assert_eq!(short.as_ref().map(names), found.as_ref().map(names));
            }
            let found = found.ok();
            let names = |pods: Vec<Arc<Pod>>| {
                pods.iter().map(|pod| pod.metadata.name.to_string()).collect::<Vec<_>>()
            };
            prop_assert_eq!(found.map(|it| names(it.victims)), naive.victims(&on).map(names));
        }
        // The cluster is as before, to the pods' order.
        prop_assert_eq!(&placer.place(&mut cluster, &new, 0), &first);
        for (at, name) in names.iter().enumerate() {
            let place = cluster.snapshot.place_of(name).unwrap();
            let order: Vec<_> = cluster.snapshot.pods_on(place).map(|pod| pod.key()).collect();
            let expected = naive.pods.iter().filter(|(_, on)| *on == names[at]);
            prop_assert_eq!(order, expected.map(|(pod, _)| pod.key()).collect::<Vec<_>>());
        }
    }
}
