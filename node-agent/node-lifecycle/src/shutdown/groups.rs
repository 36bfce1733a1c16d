//! Which pods end together, and how long they get. Pure.

use std::sync::Arc;
use std::time::Duration;

use node_agent_kubelet_config::ShutdownPeriod;
use node_agent_objects::pod::Pod;

/// Pods that are terminated together during shutdown.
#[derive(Clone, Debug)]
pub struct ShutdownGroup {
    /// How long they get.
    pub period: ShutdownPeriod,
    /// The pods.
    pub pods: Vec<Arc<Pod>>,
}

/// How long all periods are together.
pub fn total(periods: &[ShutdownPeriod]) -> Duration {
    let seconds = periods.iter().map(|period| u64::from(period.seconds)).sum();
    Duration::from_secs(seconds)
}

/// The pods by their periods, which are sorted; groups without pods are left
/// out. A pod is in the last period that begins at its priority or below, one
/// below all of them in the first.
pub fn groups(periods: &[ShutdownPeriod], pods: &[Arc<Pod>]) -> Vec<ShutdownGroup> {
    let mut all: Vec<ShutdownGroup> = periods
        .iter()
        .map(|period| ShutdownGroup {
            period: *period,
            pods: Vec::new(),
        })
        .collect();
    for pod in pods {
        let priority = pod.spec.priority.unwrap_or(0);
        let reached = periods.partition_point(|period| period.priority <= priority);
        if let Some(group) = all.get_mut(reached.saturating_sub(1)) {
            group.pods.push(pod.clone());
        }
    }
    all.retain(|group| !group.pods.is_empty());
    all
}

/// Seconds that a pod gets: its own grace, or its group's where that is less.
pub fn grace(pod: &Pod, period: ShutdownPeriod) -> i64 {
    let own = pod.spec.termination_grace_period_seconds;
    own.unwrap_or(i64::MAX).min(period.seconds.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pod(priority: Option<i32>, grace: Option<i64>) -> Arc<Pod> {
        let spec =
            serde_json::json!({"priority": priority, "terminationGracePeriodSeconds": grace});
        Arc::new(serde_json::from_value(serde_json::json!({"spec": spec})).unwrap())
    }

    fn periods(all: &[(i32, u32)]) -> Vec<ShutdownPeriod> {
        all.iter()
            .map(|(priority, seconds)| ShutdownPeriod {
                priority: *priority,
                seconds: *seconds,
            })
            .collect()
    }

    #[test]
    fn a_pod_is_in_the_period_that_begins_at_or_below_its_priority() {
        let periods = periods(&[(0, 3), (100, 2), (10_000, 1)]);
        let cases = [
            (None, 0),
            (Some(-5), 0),
            (Some(0), 0),
            (Some(99), 0),
            (Some(100), 100),
            (Some(9999), 100),
            (Some(10_000), 10_000),
            (Some(2_000_001_000), 10_000),
        ];
        for (priority, wanted) in cases {
            let found = groups(&periods, &[pod(priority, None)]);
            assert_eq!(found.len(), 1, "{priority:?}");
            assert_eq!(found[0].period.priority, wanted, "{priority:?}");
        }
        assert_eq!(total(&periods), Duration::from_secs(6));
    }

    #[test]
    fn a_pod_gets_no_more_than_it_asks_for_nor_than_its_group_has() {
        let period = periods(&[(0, 30)])[0];
        assert_eq!(grace(&pod(None, None), period), 30);
        assert_eq!(grace(&pod(None, Some(5)), period), 5);
        assert_eq!(grace(&pod(None, Some(300)), period), 30);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn every_pod_is_in_one_group_and_the_more_important_never_before(
            starts in prop::collection::btree_set(-100..100_i32, 1..6),
            priorities in prop::collection::vec(-150..150_i32, 0..20),
        ) {
            let all: Vec<(i32, u32)> = starts.into_iter().map(|start| (start, 1)).collect();
            let pods: Vec<Arc<Pod>> = priorities.iter().map(|p| pod(Some(*p), None)).collect();
            let found = groups(&periods(&all), &pods);
            let count: usize = found.iter().map(|g| g.pods.len()).sum();
            prop_assert_eq!(count, pods.len());
            for pair in found.windows(2) {
                let of = |g: &ShutdownGroup| g.pods.iter().map(|p| p.spec.priority.unwrap()).collect::<Vec<_>>();
                prop_assert!(of(&pair[0]).iter().max() < of(&pair[1]).iter().min());
            }
        }
    }
}
