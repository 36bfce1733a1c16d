//! Tests decisions about gangs in clusters built from objects.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::cluster::Cluster;
use crate::event::Event;
use crate::features::Features;
use crate::objects::{ObjectSet, view};
use crate::place::Placer;
use crate::plugins::{Permission, Plugin, Profile};
use crate::snapshot::PodKey;
use crate::view::{Pod, PodGroup};

const ON: Features = Features {
    generic_workload: true,
    gang_scheduling: true,
};

/// A cluster of nodes with so many CPUs, and PodGroups with their `minCount`.
fn cluster(nodes: &[(&str, u32)], groups: &[(&str, Option<u32>)]) -> Cluster {
    let mut objects = ObjectSet::default();
    for (name, cpu) in nodes {
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name},
            "status": {"allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "99"}}});
        objects.put(node).unwrap();
    }
    for (name, min_count) in groups {
        objects.put(group(name, *min_count)).unwrap();
    }
    objects.cluster().unwrap()
}

fn group(name: &str, min_count: Option<u32>) -> Value {
    let policy = match min_count {
        Some(min_count) => json!({"gang": {"minCount": min_count}}),
        None => json!({"basic": {}}),
    };
    json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup",
        "metadata": {"namespace": "n", "name": name, "uid": name},
        "spec": {"schedulingPolicy": policy}})
}

fn pod(name: &str, group: &str, cpu: u32, priority: i32) -> Arc<Pod> {
    let pod = json!({"metadata": {"namespace": "n", "name": name, "uid": name}, "spec": {
        "priority": priority, "schedulingGroup": {"podGroupName": group},
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}});
    Arc::new(view(&pod).unwrap())
}

fn key(name: &str) -> PodKey {
    ("n".into(), name.into())
}

/// Pods of one CPU wait.
fn wait(cluster: &mut Cluster, group: &str, names: &[&str]) {
    for name in names {
        cluster.gangs.observe(&pod(name, group, 1, 0));
    }
}

fn decide(cluster: &mut Cluster, group: &str) -> GangDecision {
    let pods = cluster.gangs.unscheduled(&key(group));
    let profile = Arc::new(Profile::with_features(ON));
    Placer::new(profile).place_gang(cluster, &pods, 0)
}

/// Assumes the pods that are bound.
fn commit(cluster: &mut Cluster, decision: &GangDecision) -> usize {
    for (pod, node) in decision.bound() {
        cluster.snapshot.put_pod(pod, node);
        cluster.gangs.assume(&pod.key());
    }
    decision.bound().count()
}

fn waits(decision: &GangDecision) -> Vec<String> {
    let members = decision.members.iter();
    members
        .map(|it| it.group_message(&decision.verdict))
        .collect()
}

/// The state that a decision must not change.
fn state(cluster: &Cluster) -> String {
    let snapshot = &cluster.snapshot;
    let places = 0..snapshot.places();
    let pods = places.map(|at| (snapshot.order_on(at).to_vec(), snapshot.requested.cpu[at]));
    let pods: Vec<_> = pods.collect();
    format!("{pods:?} {:?} {:?}", cluster.nominations, cluster.gangs)
}

#[test]
fn a_gang_is_placed_when_enough_of_its_pods_fit_and_not_at_all_otherwise() {
    let nodes = [("a", 1), ("b", 1)];
    let mut cluster = cluster(&nodes, &[("three", Some(3)), ("two", Some(2))]);
    wait(&mut cluster, "three", &["x", "y", "z"]);
    let before = state(&cluster);
    let decision = decide(&mut cluster, "three");
    assert_eq!(decision.verdict, Verdict::Unschedulable);
    assert_eq!(decision.bound().count(), 0);
    let waiting = "pod group is unschedulable, waiting for minCount pods from a gang to be \
                   scheduled, one or more plugins asked to wait and no plugin rejected pod";
    assert_eq!(waits(&decision)[..2], [waiting, waiting]);
    assert!(matches!(
        decision.members[2].attempt,
        Some(Attempt::Nowhere { .. })
    ));
    assert_eq!(state(&cluster), before);

    wait(&mut cluster, "two", &["p", "q", "r"]);
    let decision = decide(&mut cluster, "two");
    assert_eq!(decision.verdict, Verdict::Scheduled);
    assert_eq!(commit(&mut cluster, &decision), 2);
    let counts = cluster.gangs.counts(&key("two"));
    assert_eq!((counts.all, counts.scheduled), (3, 2));
}

#[test]
fn of_two_gangs_that_do_not_fit_together_one_is_placed_and_the_other_holds_nothing() {
    let nodes = [("a", 2), ("b", 2)];
    let mut cluster = cluster(&nodes, &[("one", Some(3)), ("other", Some(3))]);
    wait(&mut cluster, "one", &["o1", "o2", "o3"]);
    wait(&mut cluster, "other", &["p1", "p2", "p3"]);
    let decision = decide(&mut cluster, "one");
    assert_eq!(commit(&mut cluster, &decision), 3);
    let before = state(&cluster);
    let decision = decide(&mut cluster, "other");
    assert_eq!(commit(&mut cluster, &decision), 0);
    assert_eq!(state(&cluster), before);
    for name in ["o1", "o2", "o3"] {
        cluster.snapshot.remove_pod(&key(name));
        cluster.gangs.remove(&key(name));
    }
    let decision = decide(&mut cluster, "other");
    assert_eq!(commit(&mut cluster, &decision), 3);
}

#[test]
fn pods_are_not_tried_before_as_many_exist_as_their_gang_needs() {
    let mut cluster = cluster(&[("a", 9)], &[("g", Some(2)), ("basic", None)]);
    let tried = |cluster: &Cluster, pod: &Pod| {
        let tried = GangScheduling.pre_enqueue(cluster, pod);
        tried.map_err(|unmet| unmet.reason)
    };
    let first = pod("x", "g", 1, 0);
    assert!(cluster.gangs.observe(&first));
    assert_eq!(
        tried(&cluster, &first),
        Err("waiting for minCount pods from a gang to appear in scheduling queue".to_owned())
    );
    assert!(cluster.gangs.observe(&pod("y", "g", 1, 0)));
    assert!(
        !cluster.gangs.observe(&pod("y", "g", 1, 0)),
        "it is known already"
    );
    assert_eq!(tried(&cluster, &first), Ok(()));
    // It shrinks while it waits.
    cluster.gangs.remove(&key("y"));
    assert!(tried(&cluster, &first).is_err());
    assert_eq!(
        tried(&cluster, &pod("z", "later", 1, 0)),
        Err("waiting for pods's pod group \"later\" to appear in scheduling queue".to_owned())
    );
    assert_eq!(tried(&cluster, &pod("z", "basic", 1, 0)), Ok(()));
    // Where PodGroups are not served, pods that name one are ordinary pods.
    let without = Cluster::default();
    assert_eq!(tried(&without, &pod("z", "later", 1, 0)), Ok(()));
}

#[test]
fn pods_on_nodes_count_for_those_that_take_the_place_of_lost_ones() {
    let mut cluster = cluster(&[("a", 9)], &[("g", Some(3))]);
    wait(&mut cluster, "g", &["x", "y", "z"]);
    let decision = decide(&mut cluster, "g");
    assert_eq!(commit(&mut cluster, &decision), 3);
    cluster.snapshot.remove_pod(&key("z"));
    cluster.gangs.remove(&key("z"));
    assert_eq!(cluster.gangs.counts(&key("g")).scheduled, 2);
    wait(&mut cluster, "g", &["new"]);
    let decision = decide(&mut cluster, "g");
    assert_eq!(decision.members.len(), 1);
    assert_eq!(commit(&mut cluster, &decision), 1);
}

#[test]
fn a_pod_that_has_a_node_waits_until_enough_others_have_one() {
    let mut cluster = cluster(&[("a", 9)], &[("g", Some(2))]);
    wait(&mut cluster, "g", &["x", "y"]);
    let x = cluster.gangs.unscheduled(&key("g")).remove(0);
    cluster.gangs.assume(&key("x"));
    let permission = GangScheduling.permit(&cluster, &x);
    assert!(matches!(permission, Permission::Wait { .. }));
    cluster.gangs.assume(&key("y"));
    assert_eq!(GangScheduling.permit(&cluster, &x), Permission::Allowed);
    // One of them is deleted.
    cluster.gangs.remove(&key("y"));
    let permission = GangScheduling.permit(&cluster, &x);
    assert!(matches!(permission, Permission::Wait { .. }));
    cluster.gangs.remove_group(&key("g"));
    assert_eq!(
        GangScheduling.permit(&cluster, &x),
        Permission::Failed(
            "failed to get podGroup n/g: podgroup.scheduling.k8s.io \"g\" not found".to_owned()
        )
    );
    let decision = decide(&mut cluster, "g");
    assert_eq!(decision.members.len(), 0, "x is assumed");
}

#[test]
fn a_group_that_is_gone_fails_all_its_pods() {
    let mut cluster = cluster(&[("a", 9)], &[("other", None)]);
    wait(&mut cluster, "gone", &["x", "y"]);
    let before = state(&cluster);
    let decision = decide(&mut cluster, "gone");
    let own = "running Permit plugin \"GangScheduling\": failed to get podGroup n/gone: \
               podgroup.scheduling.k8s.io \"gone\" not found";
    let all = format!("failed to schedule other pod from a pod group: {own}");
    assert_eq!(decision.verdict, Verdict::Failed(all));
    match &decision.members[0].attempt {
        Some(Attempt::Failed(message)) => assert_eq!(message, own),
        other => panic!("{other:?}"),
    }
    assert!(decision.members[1].attempt.is_none());
    assert_eq!(state(&cluster), before);
}

#[test]
fn a_basic_group_places_what_fits() {
    let mut cluster = cluster(&[("a", 1)], &[("g", None)]);
    wait(&mut cluster, "g", &["x", "y"]);
    let decision = decide(&mut cluster, "g");
    assert_eq!(decision.verdict, Verdict::Scheduled);
    assert_eq!(commit(&mut cluster, &decision), 1);
}

#[test]
fn a_gang_for_which_others_make_room_waits_as_a_whole() {
    let nodes = [("a", 1), ("b", 1)];
    let mut cluster = cluster(&nodes, &[("g", Some(2))]);
    let mut low = json!({"metadata": {"namespace": "n", "name": "low", "uid": "low"},
        "spec": {"priority": -1, "containers": [
            {"name": "c", "image": "i", "resources": {"requests": {"cpu": 1}}}]}});
    low["spec"]["nodeName"] = json!("a");
    let low: Arc<Pod> = Arc::new(view(&low).unwrap());
    cluster.snapshot.put_pod(&low, "a");
    wait(&mut cluster, "g", &["x", "y"]);
    let before = state(&cluster);
    let decision = decide(&mut cluster, "g");
    assert_eq!(decision.verdict, Verdict::WaitsForPreemption);
    assert_eq!(decision.bound().count(), 0);
    let preempting = decision.members.iter().filter(|it| it.preempts());
    assert_eq!(preempting.count(), 1);
    let waiting = "pod group is unschedulable, pod group is waiting for preemption to complete";
    assert_eq!(waits(&decision)[0], waiting);
    assert_eq!(decision.verdict.condition().2, waiting);
    assert_eq!(state(&cluster), before);
    cluster.snapshot.remove_pod(&key("low"));
    let decision = decide(&mut cluster, "g");
    assert_eq!(commit(&mut cluster, &decision), 2);
}

#[test]
fn an_event_of_a_group_concerns_its_pods_only() {
    let cluster = Cluster::default();
    let hint = |group: &str| {
        let event = key(group);
        GangScheduling.hint(&cluster, &pod("x", "g", 1, 0), &Event::gang(&event, true))
    };
    assert!(hint("g"));
    assert!(!hint("other"));
}

#[test]
fn a_group_is_read_with_its_condition() {
    let mut raw = group("g", Some(4));
    raw["status"] = json!({"conditions": [
        {"type": "DisruptionTarget", "status": "True"},
        {"type": "PodGroupScheduled", "status": "False", "reason": "Unschedulable",
            "message": "m", "observedGeneration": 2}]});
    let read: PodGroup = view(&raw).unwrap();
    assert_eq!(read.min_count, Some(4));
    let scheduled = read.scheduled.unwrap();
    assert_eq!(
        (scheduled.status.as_str(), scheduled.observed_generation),
        ("False", 2)
    );
    let basic: PodGroup = view(&group("g", None)).unwrap();
    assert_eq!((basic.min_count, basic.scheduled), (None, None));
}

proptest! {
    #[test]
    fn a_gang_gets_all_that_it_needs_or_nothing(
        sizes in prop::collection::vec(0u32..4, 1..5),
        pods in prop::collection::vec((1u32..4, 0i32..3), 1..8),
        min_count in 1u32..8,
        random in any::<u64>(),
    ) {
        let names: Vec<String> = (0..sizes.len()).map(|at| format!("n{at}")).collect();
        let nodes: Vec<_> = names.iter().map(String::as_str).zip(sizes).collect();
        let mut cluster = cluster(&nodes, &[("g", Some(min_count))]);
        for (at, (cpu, priority)) in pods.iter().enumerate() {
            cluster.gangs.observe(&pod(&format!("p{at}"), "g", *cpu, *priority));
        }
        let before = state(&cluster);
        let pods = cluster.gangs.unscheduled(&key("g"));
        let profile = Arc::new(Profile::with_features(ON));
        let mut placer = Placer::new(profile);
        let decision = placer.place_gang(&mut cluster, &pods, random);
        prop_assert_eq!(state(&cluster), before);
        let fitting = decision.members.iter();
        let fitting = fitting.filter(|it| matches!(it.attempt, Some(Attempt::Placed { .. })));
        let fitting = fitting.count();
        let expected = if fitting >= min_count as usize { fitting } else { 0 };
        prop_assert_eq!(commit(&mut cluster, &decision), expected);
        for (at, (_, cpu)) in nodes.iter().enumerate() {
            let place = cluster.snapshot.place_of(&names[at]).unwrap();
            prop_assert!(cluster.snapshot.requested.cpu[place] <= i64::from(*cpu) * 1000);
        }
    }
}
