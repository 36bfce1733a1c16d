//! Whether a node lives, and what follows: conditions and taints.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use crate::views::{Condition, Node, Pod, Taint, Text, seconds_now};

/// The remembered state of a node. Only our own clock counts: the node's times are only
/// compared for change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// The last renewal of its lease that was seen.
    pub renewed: Option<Timestamp>,
    /// The last heartbeat of its Ready condition that was seen.
    pub heartbeat: Option<Timestamp>,
    /// The time of the last change by our monotonic clock.
    pub seen: Instant,
}

/// The time of one pass, read once. Everything that the pass decides, its next
/// wake-up included, follows from this reading.
#[derive(Debug, Clone, Copy)]
pub struct PassTime {
    /// For durations; steps of the machine's clock do not move it.
    pub monotonic: Instant,
    /// The time that is written to objects, in whole seconds as the API stores it.
    pub wall: Timestamp,
}

impl PassTime {
    /// Reads both clocks.
    #[must_use]
    pub fn now() -> Self {
        Self {
            monotonic: Instant::now(),
            wall: seconds_now(),
        }
    }
}

/// The result of [`decide`].
#[derive(Debug)]
pub struct NodeDecision {
    /// The writes, in order.
    pub actions: Vec<NodeAction>,
    /// How long until the node's silence may be too long; `None` once it is.
    pub look_again: Option<Duration>,
}

/// How long a node may be silent.
#[derive(Debug, Clone, Copy)]
pub struct GracePeriods {
    /// Once it has reported.
    pub grace: Duration,
    /// Before that, from its creation on.
    pub startup: Duration,
}

/// One write to a node.
#[derive(Debug, Clone)]
pub enum NodeAction {
    /// Write these conditions: its kubelet is silent.
    Conditions(Vec<Condition>),
    /// Record the event that the node is no longer ready.
    NotReadyEvent,
    /// Mark these pods as not ready: their kubelet is silent.
    PodsNotReady(Vec<Arc<Pod>>),
    /// Give it exactly these taints.
    Taints(Vec<Taint>),
}

/// Updates the remembered state.
#[must_use]
pub fn observe(
    health: Option<&Health>,
    node: &Node,
    renewed: Option<Timestamp>,
    now: PassTime,
) -> Health {
    let heartbeat = Condition::find(&node.status.conditions, "Ready")
        .and_then(|ready| ready.last_heartbeat_time);
    match health {
        Some(health) if health.heartbeat == heartbeat && health.renewed == renewed => {
            health.clone()
        }
        // a node that never reported is silent since it was created
        None if heartbeat.is_none() && renewed.is_none() => {
            let created = node.metadata.creation_timestamp.unwrap_or(now.wall);
            let age = Duration::try_from(now.wall.duration_since(created)).unwrap_or_default();
            Health {
                renewed,
                heartbeat,
                seen: now.monotonic.checked_sub(age).unwrap_or(now.monotonic),
            }
        }
        _ => Health {
            renewed,
            heartbeat,
            seen: now.monotonic,
        },
    }
}

/// Decides what the node needs, and when to check again. `evict` is false while no node
/// is ready: then this side has probably lost the network, and pods stay where they are.
/// `ready_pods` returns the node's ready pods; it is only called for a silent node.
#[must_use]
pub fn decide(
    node: &Node,
    health: &Health,
    patience: GracePeriods,
    evict: bool,
    ready_pods: impl FnOnce() -> Vec<Arc<Pod>>,
    now: PassTime,
) -> NodeDecision {
    let mut actions = Vec::new();
    let mut conditions = node.status.conditions.clone();
    let left = silent_in(node, health, patience, now.monotonic);
    if left.is_zero() {
        let was_ready = ready_status(&conditions) == Some("True");
        mark_unknown(&mut conditions, node, now.wall);
        if conditions != node.status.conditions {
            actions.push(NodeAction::Conditions(conditions.clone()));
        }
        if was_ready {
            actions.push(NodeAction::NotReadyEvent);
        }
        // In every pass, not only in the one that saw the node turn: a write may
        // have failed, and the kubelet may have reported "not ready" before it died.
        let pods = ready_pods();
        if !pods.is_empty() {
            actions.push(NodeAction::PodsNotReady(pods));
        }
    }
    let taints = taints(node, &conditions, evict, now.wall);
    if taints != node.spec.taints {
        actions.push(NodeAction::Taints(taints));
    }
    NodeDecision {
        actions,
        look_again: (!left.is_zero()).then_some(left),
    }
}

/// How long until the node counts as silent; zero when it does.
fn silent_in(node: &Node, health: &Health, patience: GracePeriods, now: Instant) -> Duration {
    let grace = if ready_status(&node.status.conditions).is_some() {
        patience.grace
    } else {
        patience.startup
    };
    grace.saturating_sub(now.saturating_duration_since(health.seen))
}

/// The status of the Ready condition, if there is one.
#[must_use]
pub fn ready_status(conditions: &[Condition]) -> Option<&str> {
    Condition::find(conditions, "Ready").map(|c| c.status.as_str())
}

/// Whether the node was marked as silent.
#[must_use]
pub fn is_unknown(node: &Node) -> bool {
    ready_status(&node.status.conditions) == Some("Unknown")
}

fn mark_unknown(conditions: &mut Vec<Condition>, node: &Node, now: Timestamp) {
    for r#type in ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"] {
        match conditions.iter_mut().find(|c| c.r#type == r#type) {
            None => {
                let mut condition = Condition::new(
                    r#type,
                    "Unknown",
                    "NodeStatusNeverUpdated",
                    "Kubelet never posted node status.",
                    now,
                );
                condition.last_heartbeat_time = node.metadata.creation_timestamp;
                conditions.push(condition);
            }
            Some(condition) if condition.status != "Unknown" => {
                condition.status = "Unknown".into();
                condition.reason = "NodeStatusUnknown".into();
                condition.message = "Kubelet stopped posting node status.".into();
                condition.last_transition_time = Some(now);
            }
            Some(_) => {}
        }
    }
}

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// Taint keys by condition and its status.
const BY_CONDITION: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    (
        "MemoryPressure",
        "True",
        "node.kubernetes.io/memory-pressure",
    ),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    (
        "NetworkUnavailable",
        "True",
        "node.kubernetes.io/network-unavailable",
    ),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// Returns the taints that the node should have: those of others unchanged, and ours by
/// its conditions. The order is stable, so that equal taints are equal lists.
fn taints(node: &Node, conditions: &[Condition], evict: bool, now: Timestamp) -> Vec<Taint> {
    let ready = ready_status(conditions);
    let mut wanted: Vec<(&str, &str)> = BY_CONDITION
        .iter()
        .filter(|(r#type, status, _)| {
            Condition::find(conditions, r#type).is_some_and(|c| c.status == *status)
        })
        .map(|(_, _, key)| (*key, "NoSchedule"))
        .collect();
    if node.spec.unschedulable {
        wanted.push((UNSCHEDULABLE, "NoSchedule"));
    }
    match ready {
        Some("False") if evict => wanted.push((NOT_READY, "NoExecute")),
        Some("Unknown") if evict => wanted.push((UNREACHABLE, "NoExecute")),
        // admission closes a new node; it opens with its first report
        None => wanted.push((NOT_READY, "NoSchedule")),
        _ => {}
    }
    let ours = |taint: &Taint| {
        let known = BY_CONDITION.iter().any(|(_, _, key)| taint.key == *key);
        match taint.effect.as_str() {
            "NoSchedule" => known || taint.key == UNSCHEDULABLE,
            "NoExecute" => taint.key == NOT_READY || taint.key == UNREACHABLE,
            _ => false,
        }
    };
    let mut taints: Vec<Taint> = node
        .spec
        .taints
        .iter()
        .filter(|taint| !ours(taint) || wanted.contains(&(&taint.key, &taint.effect)))
        .cloned()
        .collect();
    for (key, effect) in wanted {
        if !taints.iter().any(|t| t.key == key && t.effect == effect) {
            taints.push(Taint {
                key: key.into(),
                value: Text::default(),
                effect: effect.into(),
                time_added: Some(now),
            });
        }
    }
    taints
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const PATIENCE: GracePeriods = GracePeriods {
        grace: Duration::from_secs(50),
        startup: Duration::from_secs(60),
    };

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    fn node(ready: Option<&str>, taints: &[(&str, &str)]) -> Node {
        let conditions: Vec<_> = ready
            .map(|status| json!({"type":"Ready","status":status,"lastHeartbeatTime":at(0),"lastTransitionTime":at(0)}))
            .into_iter()
            .collect();
        let taints: Vec<_> = taints
            .iter()
            .map(|(k, e)| json!({"key":k,"effect":e}))
            .collect();
        serde_json::from_value(json!({"metadata":{"name":"n","creationTimestamp":at(0)},
            "spec":{"taints":taints},"status":{"conditions":conditions}}))
        .unwrap()
    }

    /// One epoch for all of a test's monotonic times.
    fn moment(start: Instant, second: i64) -> PassTime {
        PassTime {
            monotonic: start + Duration::from_secs(u64::try_from(second).unwrap()),
            wall: at(second),
        }
    }

    fn run(node: &Node, silent_since: i64, now: i64, evict: bool) -> Vec<String> {
        run_with_pods(node, &[], silent_since, now, evict)
    }

    fn run_with_pods(
        node: &Node,
        ready: &[Arc<Pod>],
        silent_since: i64,
        now: i64,
        evict: bool,
    ) -> Vec<String> {
        let start = Instant::now();
        let health = Health {
            renewed: None,
            heartbeat: None,
            seen: moment(start, silent_since).monotonic,
        };
        let now = moment(start, now);
        decide(node, &health, PATIENCE, evict, || ready.to_vec(), now)
            .actions
            .into_iter()
            .map(|action| match action {
                NodeAction::Conditions(c) => format!(
                    "conditions {}",
                    c.iter()
                        .map(|c| format!("{}={}", c.r#type, c.reason))
                        .collect::<Vec<_>>()
                        .join(" ")
                ),
                NodeAction::NotReadyEvent => "event".to_owned(),
                NodeAction::PodsNotReady(pods) => format!("pods not ready: {}", pods.len()),
                NodeAction::Taints(t) => format!(
                    "taints {}",
                    t.iter()
                        .map(|t| format!(
                            "{}:{}",
                            t.key.trim_start_matches("node.kubernetes.io/"),
                            t.effect
                        ))
                        .collect::<Vec<_>>()
                        .join(" ")
                ),
            })
            .collect()
    }

    fn ready_pod() -> Arc<Pod> {
        Arc::new(
            serde_json::from_value(json!({"metadata":{"name":"p"},
                "status":{"conditions":[{"type":"Ready","status":"True"}]}}))
            .unwrap(),
        )
    }

    #[test]
    fn live_node_needs_nothing() {
        assert!(run(&node(Some("True"), &[]), 0, 49, true).is_empty());
    }

    #[test]
    fn silent_node_becomes_unknown_and_unreachable() {
        assert_eq!(
            run(&node(Some("True"), &[]), 0, 50, true),
            [
                "conditions Ready=NodeStatusUnknown MemoryPressure=NodeStatusNeverUpdated \
                 DiskPressure=NodeStatusNeverUpdated PIDPressure=NodeStatusNeverUpdated",
                "event",
                "taints unreachable:NoSchedule unreachable:NoExecute"
            ]
        );
    }

    #[test]
    fn ready_pods_of_a_silent_node_are_marked_in_every_pass() {
        let taints = [(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")];
        let mut marked = node(Some("Unknown"), &taints);
        mark_unknown(&mut marked.status.conditions, &node(None, &[]), at(50));
        // the pass that saw the node turn is over, and one pod's write failed in it
        assert_eq!(
            run_with_pods(&marked, &[ready_pod()], 0, 60, true),
            ["pods not ready: 1"]
        );
        assert!(run_with_pods(&marked, &[], 0, 60, true).is_empty());
        // a node that reports itself not ready keeps its pods' readiness until it is silent
        let reported = node(
            Some("False"),
            &[(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")],
        );
        assert!(run_with_pods(&reported, &[ready_pod()], 0, 49, true).is_empty());
        let silent = run_with_pods(&reported, &[ready_pod()], 0, 50, true);
        assert!(
            silent.contains(&"pods not ready: 1".to_owned()),
            "{silent:?}"
        );
        assert!(!silent.contains(&"event".to_owned()), "{silent:?}");
    }

    #[test]
    fn node_created_in_the_past_is_silent_since_then() {
        let start = Instant::now();
        let now = moment(start, 45);
        let first = observe(None, &node(None, &[]), None, now);
        assert_eq!(now.monotonic - first.seen, Duration::from_secs(45));
    }

    proptest::proptest! {
        /// At the returned wake-up time the node counts as silent: wake-up and decision
        /// follow from one reading of one clock.
        #[test]
        fn look_again_is_exactly_when_the_decision_falls(
            seen in 0u64..3_000_000_000, passed in 0u64..50_000_000_000
        ) {
            let start = Instant::now();
            let health = Health {
                renewed: None,
                heartbeat: None,
                seen: start + Duration::from_nanos(seen),
            };
            let live = node(Some("True"), &[]);
            let pass = |monotonic| {
                let now = PassTime { monotonic, wall: at(0) };
                decide(&live, &health, PATIENCE, true, Vec::new, now)
            };
            let early = health.seen + Duration::from_nanos(passed);
            let first = pass(early);
            proptest::prop_assert!(first.actions.is_empty());
            let again = first.look_again.expect("a live node is looked at again");
            let second = pass(early + again);
            proptest::prop_assert!(!second.actions.is_empty());
            let sooner = pass(early + again - Duration::from_nanos(1));
            proptest::prop_assert!(sooner.look_again.is_some(), "re-armed");
        }
    }

    #[test]
    fn when_no_node_is_ready_pods_stay() {
        let n = node(
            Some("Unknown"),
            &[(UNREACHABLE, "NoSchedule"), (UNREACHABLE, "NoExecute")],
        );
        assert_eq!(run(&n, 40, 50, false), ["taints unreachable:NoSchedule"]);
    }

    #[test]
    fn node_that_is_ready_again_loses_our_taints_and_keeps_others() {
        let n = node(
            Some("True"),
            &[
                (UNREACHABLE, "NoExecute"),
                ("mine", "NoExecute"),
                (NOT_READY, "NoSchedule"),
            ],
        );
        assert_eq!(run(&n, 0, 1, true), ["taints mine:NoExecute"]);
    }

    #[test]
    fn not_ready_replaces_unreachable() {
        let n = node(
            Some("False"),
            &[(UNREACHABLE, "NoExecute"), (UNREACHABLE, "NoSchedule")],
        );
        assert_eq!(
            run(&n, 0, 1, true),
            ["taints not-ready:NoSchedule not-ready:NoExecute"]
        );
    }

    #[test]
    fn cordoned_node_is_closed() {
        let mut n = node(Some("True"), &[]);
        n.spec.unschedulable = true;
        assert_eq!(run(&n, 0, 1, true), ["taints unschedulable:NoSchedule"]);
    }

    #[test]
    fn new_node_has_time_to_report() {
        let n = node(None, &[(NOT_READY, "NoSchedule")]);
        assert!(run(&n, 0, 59, true).is_empty());
        assert!(run(&n, 0, 60, true)[0].starts_with("conditions Ready=NodeStatusNeverUpdated"));
    }

    #[test]
    fn lease_or_heartbeat_renews() {
        let n = node(Some("True"), &[]);
        let start = Instant::now();
        let now = |second| moment(start, second);
        let first = observe(None, &n, Some(at(1)), now(10));
        assert_eq!(first.seen, now(10).monotonic);
        // the same lease again says nothing
        let same = observe(Some(&first), &n, Some(at(1)), now(20));
        assert_eq!(same.seen, now(10).monotonic);
        // a clock that went back is news, too
        let back = observe(Some(&first), &n, Some(at(0)), now(30));
        assert_eq!(back.seen, now(30).monotonic);
    }
}
