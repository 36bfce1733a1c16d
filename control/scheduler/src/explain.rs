//! Explains placement: which plugins reject each node, and how plugins score it.
//!
//! Nothing here runs unless an explanation is requested.

use serde::Serialize;

use crate::cluster::Cluster;
use crate::place::{Decision, Placer};
use crate::plugins::Cycle;
use crate::view::Pod;

/// The results of all plugins for a pod on all nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// The requirement that no node can satisfy. In that case no node was evaluated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unmet: Option<Rejecter>,
    /// All nodes, by name.
    pub nodes: Vec<NodeExplanation>,
    /// Names of the nodes with the best score; the pod goes to one of them.
    pub best: Vec<String>,
    /// The message of the condition `PodScheduled`, for a pod that fits nowhere, without what
    /// preemption adds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A plugin that rejects a pod, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rejecter {
    /// The plugin's name.
    pub plugin: String,
    /// Its reasons, as they appear in events.
    pub reasons: Vec<String>,
    /// Whether evicting pods could help.
    pub resolvable: bool,
}

/// The results of all plugins for a pod on one node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeExplanation {
    /// The node's name.
    pub name: String,
    /// The first plugin that rejects the pod on it; nothing: the pod fits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejected: Option<Rejecter>,
    /// Scores, in the profile's order, of the plugins that have an opinion.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub scores: Vec<PluginScore>,
    /// The sum of the weighted scores.
    pub score: i64,
}

/// A plugin's score of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PluginScore {
    /// The plugin's name.
    pub plugin: String,
    /// Before it is normalised.
    pub raw: i64,
    /// 0 to 100.
    pub normalized: i64,
    /// The normalised score times the plugin's weight.
    pub weighted: i64,
}

/// Explains, with the default profile, where a pod goes.
#[must_use]
pub fn explain(cluster: &mut Cluster, pod: &Pod) -> Explanation {
    Placer::default().explain(cluster, pod)
}

impl Placer {
    /// Explains where a pod goes: the same as [`Placer::place`] decides.
    pub fn explain(&mut self, cluster: &mut Cluster, pod: &Pod) -> Explanation {
        let mut explanation = Explanation::default();
        if let Decision::Unschedulable(diagnosis) = self.place(cluster, pod, 0) {
            explanation.message = Some(diagnosis.message());
        }
        let mut memo = self.memo(pod);
        self.refresh(&cluster.snapshot, pod, &mut memo);
        let crowded = self.crowded(cluster, pod, &memo.fitting);
        let cluster = &*cluster;
        let snapshot = &cluster.snapshot;
        let mut relations = std::mem::take(&mut self.relations);
        let mut nodes: Vec<NodeExplanation> = Vec::new();
        nodes.resize_with(snapshot.places(), NodeExplanation::default);
        for at in snapshot.live().iter() {
            if let Some(node) = nodes.get_mut(at) {
                snapshot.name(at).clone_into(&mut node.name);
            }
        }
        match Cycle::prepare(cluster, pod, &mut relations, &self.profile().args, true) {
            Err(unmet) => {
                explanation.unmet = Some(Rejecter {
                    plugin: unmet.plugin.to_owned(),
                    reasons: vec![unmet.reason],
                    resolvable: unmet.resolvable,
                });
            }
            Ok(cycle) => {
                let mut fitting = memo.fitting.clone();
                let mut rejected = memo.rejected.clone();
                for rejection in &crowded.rejections {
                    fitting.subtract(&rejection.nodes);
                }
                rejected.absorb_all(crowded);
                rejected.absorb_all(self.filter_cycle(&cycle, &mut fitting));
                for rejection in &rejected.rejections {
                    let plugin = self.profile().plugins.get(rejection.plugin);
                    let plugin = plugin.map_or("", |it| it.plugin.name());
                    for at in rejection.nodes.iter() {
                        let Some(node) = nodes.get_mut(at) else {
                            continue;
                        };
                        let rejecter = node.rejected.get_or_insert_with(|| Rejecter {
                            plugin: plugin.to_owned(),
                            reasons: Vec::new(),
                            resolvable: true,
                        });
                        rejecter.resolvable &= rejection.resolvable;
                        rejecter.reasons.push(rejection.reason.clone().into_owned());
                    }
                }
                self.score_each(&cycle, &memo, &fitting, |index, raw, normalized| {
                    let Some(enabled) = self.profile().plugins.get(index) else {
                        return;
                    };
                    for at in fitting.iter() {
                        let (Some(node), Some(raw), Some(normalized)) =
                            (nodes.get_mut(at), raw.get(at), normalized.get(at))
                        else {
                            continue;
                        };
                        let weighted = enabled.weight * normalized;
                        node.score += weighted;
                        node.scores.push(PluginScore {
                            plugin: enabled.plugin.name().to_owned(),
                            raw: *raw,
                            normalized: *normalized,
                            weighted,
                        });
                    }
                });
                let score = |at: usize| nodes.get(at).map_or(0, |node| node.score);
                let best = fitting.iter().map(score).max().unwrap_or(0);
                let best = fitting.iter().filter(|at| score(*at) == best);
                explanation.best = best.map(|at| snapshot.name(at).to_owned()).collect();
            }
        }
        self.relations = relations;
        nodes.retain(|node| !node.name.is_empty());
        nodes.sort_by(|one, other| one.name.cmp(&other.name));
        explanation.nodes = nodes;
        explanation.best.sort();
        explanation
    }
}
