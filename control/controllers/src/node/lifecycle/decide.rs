//! Whether a node lives, and what follows: conditions and taints.

use std::time::Duration;

use jiff::Timestamp;

use crate::views::{Condition, Node, Taint, Text};

/// What is remembered of a node between two looks. Only our own clock counts:
/// the node's times are compared for change alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// The last renewal of its lease that was seen.
    pub renewed: Option<Timestamp>,
    /// The last heartbeat of its Ready condition that was seen.
    pub heartbeat: Option<Timestamp>,
    /// When, by our clock, one of them last changed.
    pub seen: Timestamp,
}

/// How long a node may be silent.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// Once it has reported.
    pub grace: Duration,
    /// Before that, from its creation on.
    pub startup: Duration,
}

/// One thing to do with a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Write these conditions: its kubelet is silent.
    Conditions(Vec<Condition>),
    /// Its pods are ready no more, as far as anyone can tell.
    PodsNotReady,
    /// Give it exactly these taints.
    Taints(Vec<Taint>),
}

/// Brings what is remembered up to date.
#[must_use]
pub fn observe(
    health: Option<&Health>,
    node: &Node,
    renewed: Option<Timestamp>,
    now: Timestamp,
) -> Health {
    let heartbeat = Condition::find(&node.status.conditions, "Ready")
        .and_then(|ready| ready.last_heartbeat_time);
    match health {
        Some(health) if health.heartbeat == heartbeat && health.renewed == renewed => {
            health.clone()
        }
        // a node that never reported is silent since it was created
        None if heartbeat.is_none() && renewed.is_none() => Health {
            renewed,
            heartbeat,
            seen: node.metadata.creation_timestamp.unwrap_or(now),
        },
        _ => Health {
            renewed,
            heartbeat,
            seen: now,
        },
    }
}

/// Decides what the node needs. `evict` is false while no node at all is
/// ready: then it is more likely that this side has lost the network, and pods
/// stay where they are.
#[must_use]
pub fn decide(
    node: &Node,
    health: &Health,
    patience: Patience,
    evict: bool,
    now: Timestamp,
) -> Vec<Action> {
    let mut actions = Vec::new();
    let mut conditions = node.status.conditions.clone();
    if is_silent(node, health, patience, now) {
        let was_ready = ready_status(&conditions) == Some("True");
        mark_unknown(&mut conditions, node, now);
        if conditions != node.status.conditions {
            actions.push(Action::Conditions(conditions.clone()));
        }
        if was_ready {
            actions.push(Action::PodsNotReady);
        }
    }
    let taints = taints(node, &conditions, evict, now);
    if taints != node.spec.taints {
        actions.push(Action::Taints(taints));
    }
    actions
}

/// How long until the node would count as silent; zero when it does.
#[must_use]
pub fn silent_in(node: &Node, health: &Health, patience: Patience, now: Timestamp) -> Duration {
    let grace = if ready_status(&node.status.conditions).is_some() {
        patience.grace
    } else {
        patience.startup
    };
    let silent = now.as_millisecond() - health.seen.as_millisecond();
    let silent = Duration::from_millis(u64::try_from(silent).unwrap_or(0));
    grace.saturating_sub(silent)
}

fn is_silent(node: &Node, health: &Health, patience: Patience, now: Timestamp) -> bool {
    silent_in(node, health, patience, now).is_zero()
}

/// The status of the Ready condition, if there is one.
#[must_use]
pub fn ready_status(conditions: &[Condition]) -> Option<&str> {
    Condition::find(conditions, "Ready").map(|c| c.status.as_str())
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

/// The taints that the node should have: those of others as they are, and ours
/// by its conditions. The order stays, so that equal taints are equal lists.
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

    const PATIENCE: Patience = Patience {
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

    fn run(node: &Node, silent_since: i64, now: i64, evict: bool) -> Vec<String> {
        let health = Health {
            renewed: None,
            heartbeat: None,
            seen: at(silent_since),
        };
        decide(node, &health, PATIENCE, evict, at(now))
            .into_iter()
            .map(|action| match action {
                Action::Conditions(c) => format!(
                    "conditions {}",
                    c.iter()
                        .map(|c| format!("{}={}", c.r#type, c.reason))
                        .collect::<Vec<_>>()
                        .join(" ")
                ),
                Action::PodsNotReady => "pods not ready".to_owned(),
                Action::Taints(t) => format!(
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
                "pods not ready",
                "taints unreachable:NoSchedule unreachable:NoExecute"
            ]
        );
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
        let first = observe(None, &n, Some(at(1)), at(10));
        assert_eq!(first.seen, at(10));
        // the same lease again says nothing
        assert_eq!(observe(Some(&first), &n, Some(at(1)), at(20)).seen, at(10));
        // a clock that went back is news, too
        assert_eq!(observe(Some(&first), &n, Some(at(0)), at(30)).seen, at(30));
    }
}
