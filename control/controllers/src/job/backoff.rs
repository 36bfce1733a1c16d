//! How long a Job waits before it replaces failed pods: ten seconds, doubled by every
//! failure since the last success, at most ten minutes.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use crate::views::{ContainerStatus, Pod};

const FIRST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_secs(600);

/// Failures since the last success.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BackoffRecord {
    /// How many.
    pub failures: u32,
    /// When the last was.
    pub last: Option<Timestamp>,
}

impl BackoffRecord {
    /// The record after pods that finished since.
    #[must_use]
    pub fn after(self, succeeded: &[Arc<Pod>], failed: &[Arc<Pod>]) -> Self {
        let success = succeeded.iter().map(|pod| finished_at(pod)).max();
        let times = failed.iter().map(|pod| finished_at(pod));
        let later: Vec<Timestamp> = times
            .filter(|time| success.is_none_or(|success| *time > success))
            .collect();
        let before = if success.is_some() {
            Self::default()
        } else {
            self
        };
        Self {
            failures: before.failures + u32::try_from(later.len()).unwrap_or(u32::MAX),
            last: later.into_iter().max().or(before.last),
        }
    }

    /// How long to wait yet.
    #[must_use]
    pub fn left(self, now: Timestamp) -> Duration {
        self.last
            .map_or(Duration::ZERO, |last| left(self.failures, last, now))
    }
}

/// Returns the remaining back-off after some failures, the last of them at a time.
#[must_use]
pub fn left(failures: u32, last: Timestamp, now: Timestamp) -> Duration {
    if failures == 0 {
        return Duration::ZERO;
    }
    let doubled = FIRST
        .saturating_mul(1 << (failures - 1).min(10))
        .min(LONGEST);
    let passed = Duration::try_from(now.duration_since(last)).unwrap_or_default();
    doubled.saturating_sub(passed)
}

/// Returns when a pod finished, from the best source: its containers, when it ceased to
/// be ready, when it was deleted, or else when it was created.
#[must_use]
pub fn finished_at(pod: &Pod) -> Timestamp {
    let ended = |status: &ContainerStatus| status.state.terminated.as_ref()?.finished_at;
    let is_sidecar = |status: &&ContainerStatus| {
        let mut containers = pod.spec.init_containers.iter();
        containers.any(|one| one.name == status.name && one.restart_policy == "Always")
    };
    let sidecars = pod.status.init_container_statuses.iter().filter(is_sidecar);
    let all = pod.status.container_statuses.iter().chain(sidecars);
    let ends: Option<Vec<Timestamp>> = all.map(ended).collect();
    let by_containers = ends.and_then(|ends| ends.into_iter().max());
    let not_ready = || {
        let ready = pod
            .condition("Ready")
            .filter(|ready| ready.status == "False");
        ready.and_then(|ready| ready.last_transition_time)
    };
    let deleted = || {
        let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
        let at = pod.metadata.deletion_timestamp?;
        at.checked_sub(SignedDuration::from_secs(grace)).ok()
    };
    by_containers
        .or_else(not_ready)
        .or_else(deleted)
        .or(pod.metadata.creation_timestamp)
        .unwrap_or(Timestamp::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(value: Value) -> Arc<Pod> {
        Arc::new(serde_json::from_value(value).unwrap())
    }

    fn ended(at: &str) -> Arc<Pod> {
        pod(
            json!({"status": {"containerStatuses": [{"name": "a", "state": {"terminated": {"finishedAt": at}}}]}}),
        )
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn failures_double_the_wait_and_a_success_ends_it() {
        let (first, second) = ("2026-01-01T00:00:10Z", "2026-01-01T00:00:20Z");
        let record = BackoffRecord::default().after(&[], &[ended(first)]);
        assert_eq!(record.left(at(first)), Duration::from_secs(10));
        let record = record.after(&[], &[ended(second), ended(first)]);
        assert_eq!(record.failures, 3);
        assert_eq!(record.left(at(second)), Duration::from_secs(40));
        assert_eq!(record.left(at("2026-01-01T00:02:00Z")), Duration::ZERO);
        assert_eq!(
            record.after(&[ended(second)], &[]),
            BackoffRecord::default()
        );
        let after = record.after(&[ended(first)], &[ended(first), ended(second)]);
        assert_eq!(
            after,
            BackoffRecord {
                failures: 1,
                last: Some(at(second))
            }
        );
        assert_eq!(left(30, at(first), at(first)), LONGEST);
    }

    #[test]
    fn the_end_of_a_pod_is_told_by_what_it_says() {
        let time = "2026-01-01T00:00:10Z";
        assert_eq!(finished_at(&ended(time)), at(time));
        let not_ready = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": time}]}});
        assert_eq!(finished_at(&pod(not_ready)), at(time));
        let deleted = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:40Z", "deletionGracePeriodSeconds": 30}});
        assert_eq!(finished_at(&pod(deleted)), at(time));
        let created = json!({"metadata": {"creationTimestamp": time}});
        assert_eq!(finished_at(&pod(created)), at(time));
    }
}
