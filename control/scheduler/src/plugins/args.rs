//! Arguments of plugins that the configuration of a profile sets.

use crate::view::Spread;

/// Arguments of plugins that [`Cycle::prepare`](super::Cycle::prepare) needs.
#[derive(Clone, Debug, PartialEq)]
pub struct CycleArgs {
    /// The weight of a required affinity term of a placed pod.
    pub hard_pod_affinity_weight: i32,
    /// Whether preferences of placed pods do not count for a pod without affinity terms.
    pub ignore_preferred_terms_of_existing_pods: bool,
    /// Topology spread constraints for pods without any; `None`: the built-in ones.
    pub default_constraints: Option<Vec<Spread>>,
}

impl Default for CycleArgs {
    fn default() -> Self {
        Self {
            hard_pod_affinity_weight: 1,
            ignore_preferred_terms_of_existing_pods: false,
            default_constraints: None,
        }
    }
}

/// How many nodes are tried (`DefaultPreemptionArgs`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreemptionArgs {
    /// At least this share of the nodes, in percent.
    pub min_candidate_nodes_percentage: u32,
    /// At least so many nodes.
    pub min_candidate_nodes_absolute: u32,
}

impl Default for PreemptionArgs {
    fn default() -> Self {
        Self {
            min_candidate_nodes_percentage: 10,
            min_candidate_nodes_absolute: 100,
        }
    }
}

impl PreemptionArgs {
    /// How many candidates are looked for among `nodes` nodes.
    pub(crate) fn candidates(self, nodes: usize) -> usize {
        let share = nodes.saturating_mul(self.min_candidate_nodes_percentage as usize) / 100;
        share
            .max(self.min_candidate_nodes_absolute as usize)
            .min(nodes)
    }
}
