//! When a pod must leave a node that does not want it.

use control_types::taints::{TaintRef, TolerationRef};
use jiff::{SignedDuration, Timestamp};

use crate::views::{Pod, Taint, Toleration};

/// The action to take on a pod of a tainted node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodFate {
    /// It may stay.
    Stay,
    /// It must go at this time, which may have passed.
    LeaveAt(Timestamp),
}

/// Returns the node's `NoExecute` taints with `timeAdded` filled in: a taint without a time
/// counts from when it was first seen. `known` is the last result for this node.
#[must_use]
pub fn timed(taints: &[Taint], known: &[Taint], now: Timestamp) -> Vec<Taint> {
    let no_execute = taints.iter().filter(|taint| taint.effect == "NoExecute");
    no_execute
        .map(|taint| {
            let first_seen = || {
                known
                    .iter()
                    .find(|known| known.key == taint.key && known.value == taint.value)
                    .and_then(|known| known.time_added)
            };
            let since = taint.time_added.or_else(first_seen).unwrap_or(now);
            Taint {
                time_added: Some(since),
                ..taint.clone()
            }
        })
        .collect()
}

/// Decides by the node's `NoExecute` taints: a taint that is not tolerated evicts
/// immediately; one that is tolerated for a time evicts that long after both the taint
/// and the pod exist.
#[must_use]
pub fn fate(taints: &[Taint], pod: &Pod, now: Timestamp) -> PodFate {
    let tolerations = &pod.spec.tolerations;
    let mut leave: Option<Timestamp> = None;
    for taint in taints.iter().filter(|taint| taint.effect == "NoExecute") {
        let fitting: Vec<&Toleration> =
            tolerations.iter().filter(|t| tolerates(t, taint)).collect();
        let at = if fitting.is_empty() {
            now
        } else {
            // of several the shortest counts
            let Some(seconds) = fitting.iter().filter_map(|t| t.toleration_seconds).min() else {
                continue;
            };
            let since = taint.time_added.unwrap_or(now).max(bound_at(pod));
            since
                .checked_add(SignedDuration::from_secs(seconds.max(0)))
                .unwrap_or(Timestamp::MAX)
        };
        leave = Some(leave.map_or(at, |earlier| earlier.min(at)));
    }
    leave.map_or(PodFate::Stay, PodFate::LeaveAt)
}

/// When the pod was bound to its node.
fn bound_at(pod: &Pod) -> Timestamp {
    pod.condition("PodScheduled")
        .filter(|condition| condition.status == "True")
        .and_then(|condition| condition.last_transition_time)
        .or(pod.metadata.creation_timestamp)
        .unwrap_or(Timestamp::MIN)
}

/// Whether a toleration covers a taint, whatever the time.
#[must_use]
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let toleration = TolerationRef {
        key: &toleration.key,
        operator: &toleration.operator,
        value: &toleration.value,
        effect: &toleration.effect,
    };
    toleration.tolerates(TaintRef {
        key: &taint.key,
        value: &taint.value,
        effect: &taint.effect,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    fn fate(tolerations: serde_json::Value) -> PodFate {
        let taints: Vec<Taint> = serde_json::from_value(json!([
            {"key":"node.kubernetes.io/unreachable","effect":"NoSchedule","timeAdded":at(0)},
            {"key":"node.kubernetes.io/unreachable","effect":"NoExecute","timeAdded":at(0)}]))
        .unwrap();
        super::fate(&taints, &pod(&tolerations, None), at(10))
    }

    fn pod(tolerations: &serde_json::Value, bound: Option<Timestamp>) -> Pod {
        let conditions = bound
            .map(|at| json!([{"type":"PodScheduled","status":"True","lastTransitionTime":at}]));
        serde_json::from_value(json!({"metadata":{"name":"p"},
            "spec":{"tolerations":tolerations},"status":{"conditions":conditions}}))
        .unwrap()
    }

    fn taint_without_time(value: &str) -> Vec<Taint> {
        serde_json::from_value(json!([{"key":"k","value":value,"effect":"NoExecute"}])).unwrap()
    }

    fn for_seconds(seconds: i64) -> serde_json::Value {
        json!([{"key":"k","operator":"Exists","tolerationSeconds":seconds}])
    }

    proptest::proptest! {
        /// However often the pod is looked at, its eviction time stays the same.
        #[test]
        fn taint_without_a_time_counts_since_it_was_first_seen(
            seconds in 0i64..600, looks in proptest::collection::vec(1i64..100, 1..40)
        ) {
            let taints = taint_without_time("v");
            let pod = pod(&for_seconds(seconds), None);
            let mut known = Vec::new();
            let mut now = 0;
            for passed in looks {
                known = timed(&taints, &known, at(now));
                proptest::prop_assert_eq!(super::fate(&known, &pod, at(now)), PodFate::LeaveAt(at(seconds)));
                now += passed;
            }
        }
    }

    #[test]
    fn taint_that_went_or_changed_is_first_seen_again() {
        let first = timed(&taint_without_time("v"), &[], at(0));
        assert_eq!(first[0].time_added, Some(at(0)));
        let changed = timed(&taint_without_time("w"), &first, at(5));
        assert_eq!(changed[0].time_added, Some(at(5)));
        let gone = timed(&[], &first, at(5));
        let back = timed(&taint_without_time("v"), &gone, at(7));
        assert_eq!(back[0].time_added, Some(at(7)));
        // what the taint says itself counts more
        let mut said = taint_without_time("v");
        said[0].time_added = Some(at(3));
        assert_eq!(timed(&said, &first, at(9))[0].time_added, Some(at(3)));
    }

    #[test]
    fn pod_that_came_to_an_old_taint_has_its_whole_time() {
        let taints = timed(&taint_without_time("v"), &[], at(0));
        let late = pod(&for_seconds(60), Some(at(1000)));
        assert_eq!(
            super::fate(&taints, &late, at(1001)),
            PodFate::LeaveAt(at(1060))
        );
        let early = pod(&for_seconds(60), Some(at(-1000)));
        assert_eq!(
            super::fate(&taints, &early, at(1)),
            PodFate::LeaveAt(at(60))
        );
    }

    #[test]
    fn pod_without_toleration_leaves_now() {
        assert_eq!(fate(json!([])), PodFate::LeaveAt(at(10)));
        assert_eq!(
            fate(json!([{"key":"other","operator":"Exists"}])),
            PodFate::LeaveAt(at(10))
        );
    }

    #[test]
    fn pod_leaves_when_its_toleration_is_over() {
        assert_eq!(
            fate(
                json!([{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}])
            ),
            PodFate::LeaveAt(at(300))
        );
    }

    #[test]
    fn pod_that_tolerates_everything_stays() {
        assert_eq!(fate(json!([{"operator":"Exists"}])), PodFate::Stay);
    }
}
