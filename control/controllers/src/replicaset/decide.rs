//! Decides what a ReplicaSet needs: pods to claim, create and delete; its status.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::ownership::{self, AdoptionDecision};
use crate::views::{
    Condition, Pod, ReplicaSet, ReplicaSetStatus, Text, pod_deletion_order, upsert,
};

/// Pods created or deleted in one go; a larger difference takes several.
pub const BURST: usize = 500;

/// The input of one decision.
#[derive(Debug, Clone, Copy)]
pub struct ReplicaSetSnapshot<'a> {
    /// The set.
    pub set: &'a ReplicaSet,
    /// Pods that name it as their controller, and orphans of its namespace.
    pub pods: &'a [Arc<Pod>],
    /// The pods of every set with the same owner: on scale-down, nodes with many of them
    /// go first.
    pub related: &'a [Arc<Pod>],
    /// The uids of pods whose deletion was requested and is not in the cache yet.
    pub leaving: &'a HashSet<Text>,
    /// Whether the cache has seen all that this controller did to the set.
    pub settled: bool,
    /// Whether the kind reports `terminatingReplicas` (ReplicationControllers
    /// do not).
    pub reports_terminating: bool,
    /// The current time, in whole seconds.
    pub now: Timestamp,
}

/// One write; actions run in order.
#[derive(Debug, Clone)]
pub enum ReplicaSetAction {
    /// Become the pod's controller.
    Adopt(Arc<Pod>),
    /// Stop being the pod's controller.
    Release(Arc<Pod>),
    /// Create so many pods.
    Create(usize),
    /// Delete these pods.
    Delete(Vec<Arc<Pod>>),
    /// Write this status.
    Status(ReplicaSetStatus),
    /// Look again after this time, when a pod will have become available.
    Wake(Duration),
}

/// Decides what to do now. The status assumes that the preceding actions succeed; after a
/// failure, [`status`] returns what to write instead.
#[must_use]
pub fn decide(snapshot: &ReplicaSetSnapshot<'_>) -> Vec<ReplicaSetAction> {
    let set = snapshot.set;
    let mut actions = Vec::new();
    let mut active = Vec::new();
    let mut leaving = snapshot.leaving.clone();
    let stays = |pod: &Pod| pod.is_active() && !snapshot.leaving.contains(&pod.metadata.uid);
    for pod in snapshot.pods.iter().filter(|pod| stays(pod)) {
        let matches = set
            .spec
            .selector
            .matches(|key| pod.metadata.labels.get(key));
        match ownership::claim(&set.metadata, &pod.metadata, matches) {
            AdoptionDecision::Keep => active.push(pod),
            AdoptionDecision::Adopt => {
                actions.push(ReplicaSetAction::Adopt(Arc::clone(pod)));
                active.push(pod);
            }
            AdoptionDecision::Release => actions.push(ReplicaSetAction::Release(Arc::clone(pod))),
            AdoptionDecision::Ignore => {}
        }
    }
    if snapshot.settled && !set.metadata.is_terminating() {
        let wanted = usize::try_from(set.replicas()).unwrap_or(0);
        if active.len() < wanted {
            actions.push(ReplicaSetAction::Create((wanted - active.len()).min(BURST)));
        } else if active.len() > wanted {
            let surplus = (active.len() - wanted).min(BURST);
            let victims = victims(&active, snapshot, surplus);
            leaving.extend(victims.iter().map(|pod| pod.metadata.uid.clone()));
            actions.push(ReplicaSetAction::Delete(victims));
        }
    }
    // a Deployment takes the status for what there is: pods that go must not
    // be called available
    let after = ReplicaSetSnapshot {
        leaving: &leaving,
        ..*snapshot
    };
    let (wanted_status, wake) = status(&after, None);
    if wanted_status != set.status {
        actions.push(ReplicaSetAction::Status(wanted_status));
    }
    actions.extend(wake.map(ReplicaSetAction::Wake));
    actions
}

/// The status of the set as its pods are, and when to look again because a
/// ready pod is not yet available. `failure` is the message of a create or
/// delete that failed.
#[must_use]
pub fn status(
    snapshot: &ReplicaSetSnapshot<'_>,
    failure: Option<&str>,
) -> (ReplicaSetStatus, Option<Duration>) {
    let set = snapshot.set;
    let min_ready = set.spec.min_ready_seconds;
    let mut status = ReplicaSetStatus {
        observed_generation: set.metadata.generation,
        conditions: set.status.conditions.clone(),
        terminating_replicas: snapshot.reports_terminating.then_some(0),
        ..ReplicaSetStatus::default()
    };
    let leaving = |pod: &Pod| snapshot.leaving.contains(&pod.metadata.uid);
    let mut next_check: Option<i64> = None;
    for pod in snapshot.pods {
        let matches = set
            .spec
            .selector
            .matches(|key| pod.metadata.labels.get(key));
        match ownership::claim(&set.metadata, &pod.metadata, matches) {
            AdoptionDecision::Keep | AdoptionDecision::Adopt
                if pod.is_active() && !leaving(pod) => {}
            AdoptionDecision::Keep
                if pod.is_terminating() || (leaving(pod) && !pod.is_terminal()) =>
            {
                if let Some(count) = &mut status.terminating_replicas {
                    *count += 1;
                }
                continue;
            }
            _ => continue,
        }
        status.replicas += 1;
        let template_labels = &set.spec.template.labels;
        if template_labels
            .iter()
            .all(|(key, value)| pod.metadata.labels.get(key) == Some(value))
        {
            status.fully_labeled_replicas += 1;
        }
        if pod.is_ready() {
            status.ready_replicas += 1;
            if pod.is_available(min_ready, snapshot.now) {
                status.available_replicas += 1;
            } else if let Some(left) = pod.available_in(min_ready, snapshot.now) {
                next_check = Some(next_check.map_or(left, |next| next.min(left)));
            }
        }
    }
    let failing = Condition::find(&status.conditions, "ReplicaFailure").is_some();
    match failure {
        Some(message) if !failing => {
            let reason = if status.replicas < set.replicas() {
                "FailedCreate"
            } else {
                "FailedDelete"
            };
            upsert(
                &mut status.conditions,
                Condition::new("ReplicaFailure", "True", reason, message, snapshot.now),
            );
        }
        None if failing && snapshot.settled => {
            status.conditions.retain(|c| c.r#type != "ReplicaFailure");
        }
        _ => {}
    }
    let wake = next_check
        .and_then(|left| u64::try_from(left).ok())
        .map(Duration::from_millis);
    (status, wake)
}

/// The pods to delete first.
fn victims(active: &[&Arc<Pod>], snapshot: &ReplicaSetSnapshot<'_>, count: usize) -> Vec<Arc<Pod>> {
    if count >= active.len() {
        return active.iter().map(|pod| Arc::clone(pod)).collect();
    }
    let mut per_node: HashMap<&str, usize> = HashMap::new();
    for pod in snapshot.related.iter().filter(|pod| pod.is_active()) {
        *per_node.entry(pod.spec.node_name.as_str()).or_default() += 1;
    }
    let rank = |pod: &Pod| {
        per_node
            .get(pod.spec.node_name.as_str())
            .copied()
            .unwrap_or(0)
    };
    let mut ranked: Vec<(&Arc<Pod>, usize)> = active.iter().map(|p| (*p, rank(p))).collect();
    ranked.sort_by(|(a, rank_a), (b, rank_b)| {
        pod_deletion_order((a, *rank_a), (b, *rank_b), snapshot.now)
    });
    ranked
        .into_iter()
        .take(count)
        .map(|(pod, _)| Arc::clone(pod))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn none() -> &'static HashSet<Text> {
        static NONE: std::sync::OnceLock<HashSet<Text>> = std::sync::OnceLock::new();
        NONE.get_or_init(HashSet::new)
    }

    const NOW: &str = "2026-01-01T00:01:00Z";

    fn set(replicas: i32) -> ReplicaSet {
        serde_json::from_value(json!({
            "metadata": {"name":"web","namespace":"d","uid":"s","generation":1},
            "spec": {"replicas":replicas,"selector":{"matchLabels":{"app":"web"}},
                "template":{"metadata":{"labels":{"app":"web","extra":"x"}}}}
        }))
        .unwrap()
    }

    fn pod(name: &str, owner: Option<&str>, extra: serde_json::Value) -> Arc<Pod> {
        let owners: Vec<_> = owner
            .map(|uid| json!({"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":uid,"controller":true}))
            .into_iter()
            .collect();
        let mut value = json!({"metadata":{"name":name,"namespace":"d","uid":name,"labels":{"app":"web"},"ownerReferences":owners}});
        for (key, part) in extra.as_object().unwrap() {
            if key == "metadata" {
                for (k, v) in part.as_object().unwrap() {
                    value["metadata"][k] = v.clone();
                }
            } else {
                value[key] = part.clone();
            }
        }
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn run(set: &ReplicaSet, pods: &[Arc<Pod>], settled: bool) -> Vec<String> {
        let snapshot = ReplicaSetSnapshot {
            set,
            pods,
            related: pods,
            leaving: none(),
            settled,
            reports_terminating: true,
            now: NOW.parse().unwrap(),
        };
        decide(&snapshot)
            .into_iter()
            .map(|action| match action {
                ReplicaSetAction::Adopt(p) => format!("adopt {}", p.metadata.name),
                ReplicaSetAction::Release(p) => format!("release {}", p.metadata.name),
                ReplicaSetAction::Create(n) => format!("create {n}"),
                ReplicaSetAction::Delete(pods) => format!(
                    "delete {}",
                    pods.iter()
                        .map(|p| p.metadata.name.as_str())
                        .collect::<Vec<_>>()
                        .join(" ")
                ),
                ReplicaSetAction::Status(s) => format!(
                    "status {}/{}/{}/{} terminating {:?}",
                    s.replicas,
                    s.fully_labeled_replicas,
                    s.ready_replicas,
                    s.available_replicas,
                    s.terminating_replicas
                ),
                ReplicaSetAction::Wake(after) => format!("wake {after:?}"),
            })
            .collect()
    }

    #[test]
    fn set_without_pods_creates_all() {
        assert_eq!(
            run(&set(3), &[], true),
            ["create 3", "status 0/0/0/0 terminating Some(0)"]
        );
    }

    #[test]
    fn burst_bounds_one_round() {
        assert_eq!(run(&set(700), &[], true)[0], "create 500");
    }

    #[test]
    fn unsettled_set_neither_creates_nor_deletes() {
        assert_eq!(
            run(&set(3), &[], false),
            ["status 0/0/0/0 terminating Some(0)"]
        );
    }

    #[test]
    fn orphan_that_matches_is_adopted_and_counted() {
        let pods = [pod("a", None, json!({}))];
        assert_eq!(
            run(&set(1), &pods, true),
            ["adopt a", "status 1/0/0/0 terminating Some(0)"]
        );
    }

    #[test]
    fn pod_whose_labels_left_is_released_and_replaced() {
        let pods = [pod(
            "a",
            Some("s"),
            json!({"metadata":{"labels":{"app":"other"}}}),
        )];
        assert_eq!(
            run(&set(1), &pods, true),
            [
                "release a",
                "create 1",
                "status 0/0/0/0 terminating Some(0)"
            ]
        );
    }

    #[test]
    fn pods_of_others_do_not_count() {
        let pods = [pod("a", Some("other"), json!({}))];
        assert_eq!(run(&set(1), &pods, true)[0], "create 1");
    }

    #[test]
    fn terminating_and_ended_pods_are_replaced() {
        let pods = [
            pod(
                "t",
                Some("s"),
                json!({"metadata":{"deletionTimestamp":NOW}}),
            ),
            pod("f", Some("s"), json!({"status":{"phase":"Failed"}})),
        ];
        assert_eq!(
            run(&set(1), &pods, true),
            ["create 1", "status 0/0/0/0 terminating Some(1)"]
        );
    }

    #[test]
    fn surplus_deletes_the_unready_first() {
        let ready = json!({"spec":{"nodeName":"n"},"status":{"phase":"Running","conditions":[
            {"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]}});
        let pods = [
            pod("ready", Some("s"), ready),
            pod("pending", Some("s"), json!({})),
        ];
        assert_eq!(
            run(&set(1), &pods, true),
            ["delete pending", "status 1/0/1/1 terminating Some(1)"]
        );
    }

    #[test]
    fn ready_pod_is_looked_at_again_when_it_becomes_available() {
        let mut s = set(1);
        s.spec.min_ready_seconds = 90;
        let ready = json!({"status":{"phase":"Running","conditions":[
            {"type":"Ready","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}]}});
        assert_eq!(
            run(&s, &[pod("a", Some("s"), ready)], true),
            ["status 1/0/1/0 terminating Some(0)", "wake 30s"]
        );
    }

    #[test]
    fn failure_is_a_condition_until_it_is_over() {
        let mut s = set(2);
        let now: Timestamp = NOW.parse().unwrap();
        fn snapshot(set: &ReplicaSet, now: Timestamp) -> ReplicaSetSnapshot<'_> {
            ReplicaSetSnapshot {
                set,
                pods: &[],
                related: &[],
                leaving: none(),
                settled: true,
                reports_terminating: true,
                now,
            }
        }
        let (failed, _) = status(&snapshot(&s, now), Some("quota"));
        assert_eq!(failed.conditions[0].reason, "FailedCreate");
        assert_eq!(failed.conditions[0].message, "quota");
        s.status = failed;
        let (over, _) = status(&snapshot(&s, now), None);
        assert!(over.conditions.is_empty());
    }

    #[test]
    fn set_being_deleted_leaves_its_pods_alone() {
        let mut s = set(3);
        s.metadata.deletion_timestamp = NOW.parse().ok();
        assert_eq!(run(&s, &[], true), ["status 0/0/0/0 terminating Some(0)"]);
    }
}
