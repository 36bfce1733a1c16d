//! When a pod must leave a node that does not want it.

use jiff::{SignedDuration, Timestamp};

use crate::views::{Taint, Toleration};

/// What becomes of a pod on a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It may stay.
    Stay,
    /// It must go at this time, which may have passed.
    LeaveAt(Timestamp),
}

/// Decides by the node's `NoExecute` taints: a taint that is not tolerated
/// evicts at once, one that is tolerated for a time evicts that long after it
/// was put there.
#[must_use]
pub fn fate(taints: &[Taint], tolerations: &[Toleration], now: Timestamp) -> Fate {
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
            let since = taint.time_added.unwrap_or(now);
            since
                .checked_add(SignedDuration::from_secs(seconds.max(0)))
                .unwrap_or(Timestamp::MAX)
        };
        leave = Some(leave.map_or(at, |earlier| earlier.min(at)));
    }
    leave.map_or(Fate::Stay, Fate::LeaveAt)
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    if !toleration.effect.is_empty() && toleration.effect != taint.effect {
        return false;
    }
    if !toleration.key.is_empty() && toleration.key != taint.key {
        return false;
    }
    match toleration.operator.as_str() {
        "" | "Equal" => !toleration.key.is_empty() && toleration.value == taint.value,
        "Exists" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_767_225_600 + second).unwrap()
    }

    fn fate(tolerations: serde_json::Value) -> Fate {
        let taints: Vec<Taint> = serde_json::from_value(json!([
            {"key":"node.kubernetes.io/unreachable","effect":"NoSchedule","timeAdded":at(0)},
            {"key":"node.kubernetes.io/unreachable","effect":"NoExecute","timeAdded":at(0)}]))
        .unwrap();
        let tolerations: Vec<Toleration> = serde_json::from_value(tolerations).unwrap();
        super::fate(&taints, &tolerations, at(10))
    }

    #[test]
    fn pod_without_toleration_leaves_now() {
        assert_eq!(fate(json!([])), Fate::LeaveAt(at(10)));
        assert_eq!(
            fate(json!([{"key":"other","operator":"Exists"}])),
            Fate::LeaveAt(at(10))
        );
    }

    #[test]
    fn pod_leaves_when_its_toleration_is_over() {
        assert_eq!(
            fate(
                json!([{"key":"node.kubernetes.io/unreachable","operator":"Exists","effect":"NoExecute","tolerationSeconds":300}])
            ),
            Fate::LeaveAt(at(300))
        );
    }

    #[test]
    fn pod_that_tolerates_everything_stays() {
        assert_eq!(fate(json!([{"operator":"Exists"}])), Fate::Stay);
    }

    #[test]
    fn empty_key_needs_exists() {
        assert_eq!(fate(json!([{"operator":"Equal"}])), Fate::LeaveAt(at(10)));
    }
}
