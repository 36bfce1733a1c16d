//! What is counted of flows. docs/reference/metrics.md explains each.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex, PoisonError},
};

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};

use super::flow::Flow;

/// Policies that are told apart; the rest are counted together, so that a
/// cluster with many costs Prometheus no more.
const MOST_POLICIES: usize = 200;
/// What those have in the place of a name.
const OTHERS: &str = "(others)";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FlowLabels {
    verdict: &'static str,
    direction: &'static str,
    reason: String,
    policy: String,
}

/// Counters of flows. Cloning shares them.
#[derive(Clone, Debug, Default)]
pub struct FlowMetrics {
    flows: Family<FlowLabels, Counter>,
    policies: Arc<Mutex<HashSet<String>>>,
    kept: Gauge,
    lost: Counter,
    missed: Counter,
    followers: Gauge,
}

// === impl Metrics ===

impl FlowMetrics {
    /// Shows them in a registry.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "orlop_flows",
            "Flows that began and packets that were dropped or refused, as programs told of them",
            self.flows.clone(),
        );
        registry.register(
            "orlop_flows_kept",
            "Flows that are kept for those who ask",
            self.kept.clone(),
        );
        registry.register(
            "orlop_flows_lost",
            "Records of flows that found no room between programs and agent",
            self.lost.clone(),
        );
        registry.register(
            "orlop_flows_missed",
            "Flows that followers were too slow for",
            self.missed.clone(),
        );
        registry.register(
            "orlop_flows_followers",
            "Requests that follow flows",
            self.followers.clone(),
        );
    }

    /// A flow.
    pub(super) fn count(&self, flow: &Flow) {
        let labels = FlowLabels {
            verdict: flow.verdict.word(),
            direction: flow.direction.map_or("", |it| it.word()),
            reason: flow.reason.clone(),
            policy: flow
                .policy
                .as_deref()
                .map_or_else(String::new, |it| self.policy(it)),
        };
        self.flows
            .get_or_create(&labels)
            .inc_by(u64::from(flow.weight));
    }

    fn policy(&self, name: &str) -> String {
        let mut known = self.policies.lock().unwrap_or_else(PoisonError::into_inner);
        if !known.contains(name) {
            if known.len() >= MOST_POLICIES {
                return OTHERS.to_owned();
            }
            known.insert(name.to_owned());
        }
        name.to_owned()
    }

    pub(super) fn keeps(&self, kept: usize) {
        self.kept.set(i64::try_from(kept).unwrap_or(i64::MAX));
    }

    pub(super) fn lost(&self, more: u64) {
        self.lost.inc_by(more);
    }

    pub(super) fn missed(&self, more: u64) {
        self.missed.inc_by(more);
    }

    pub(super) fn follower(&self, more: i64) -> i64 {
        self.followers.inc_by(more) + more
    }
}

#[cfg(test)]
mod tests {
    use prometheus_client::encoding::text::encode;

    use super::{
        super::flow::{FlowVerdict, tests::flow},
        *,
    };

    fn text(metrics: &FlowMetrics) -> String {
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).expect("encoded");
        text
    }

    #[test]
    fn flows_are_counted_for_as_many_as_they_stand() {
        let metrics = FlowMetrics::default();
        let sampled = Flow {
            weight: 16,
            reason: "policy_flow_allowed".to_owned(),
            policy: Some("NetworkPolicy x/p".to_owned()),
            ..flow(0, FlowVerdict::Forwarded)
        };
        metrics.count(&sampled);
        metrics.count(&sampled);
        metrics.count(&Flow {
            direction: None,
            ..flow(0, FlowVerdict::Dropped)
        });
        let text = text(&metrics);
        for line in [
            "orlop_flows_total{verdict=\"forwarded\",direction=\"ingress\",\
             reason=\"policy_flow_allowed\",policy=\"NetworkPolicy x/p\"} 32",
            "orlop_flows_total{verdict=\"dropped\",direction=\"\",\
             reason=\"dropped_policy_ingress\",policy=\"\"} 1",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        }
    }

    #[test]
    fn many_policies_are_counted_together() {
        let metrics = FlowMetrics::default();
        for number in 0..2 * MOST_POLICIES {
            metrics.count(&Flow {
                policy: Some(format!("NetworkPolicy x/p{number}")),
                ..flow(0, FlowVerdict::Dropped)
            });
        }
        let text = text(&metrics);
        let rows = text
            .lines()
            .filter(|it| it.starts_with("orlop_flows_total"));
        assert_eq!(rows.count(), MOST_POLICIES + 1);
        assert!(
            text.contains(&format!("policy=\"{OTHERS}\"}} {MOST_POLICIES}")),
            "{text}"
        );
    }

    /// A metric that nobody can read about is none.
    #[test]
    fn every_metric_is_explained() {
        let page = include_str!("../../../../docs/reference/metrics.md");
        let metrics = FlowMetrics::default();
        metrics.count(&flow(0, FlowVerdict::Dropped));
        let text = text(&metrics);
        let names = text.lines().filter_map(|line| {
            let rest = line.strip_prefix("# TYPE ")?;
            let (name, kind) = rest.split_once(' ')?;
            Some(format!(
                "{name}{}",
                if kind == "counter" { "_total" } else { "" }
            ))
        });
        let mut shown = 0;
        for name in names {
            let row = format!("| `{name}` | ");
            assert!(page.lines().any(|it| it.starts_with(&row)), "{name}");
            shown += 1;
        }
        let rows = page.lines().filter(|it| it.starts_with("| `orlop_flows"));
        assert_eq!(rows.count(), shown);
    }
}
