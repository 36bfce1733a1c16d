//! DefaultPreemption: chooses pods to evict so that a more important one fits.
//!
//! A dry run on each node that eviction may help removes all less important pods, and
//! adds back, the most important first, those beside which the pod still fits. All
//! filters judge each step. Of the successful nodes, the one whose victims matter least
//! is chosen. Nothing is written here.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::bits::Bits;
use crate::cluster::Cluster;
use crate::hypothesis::Hypothesis;
use crate::place::{Diagnosis, Placer, none_available};
pub use crate::plugins::PreemptionArgs;
use crate::plugins::{Cycle, RejectedNodes};
use crate::view::{Pod, PodDisruptionBudget};

/// Pods to evict from a node so that a pod fits there.
#[derive(Clone, Debug)]
pub struct Preemption {
    /// The node's place in the snapshot.
    pub place: usize,
    /// The node's name.
    pub node: String,
    /// The pods, the most important first.
    pub victims: Vec<Arc<Pod>>,
    /// The number of victims that a disruption budget protects.
    pub violations: usize,
    /// The places of all equally good nodes; any of them may be chosen.
    pub equals: Bits,
}

/// The reason why no pods are evicted for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoPreemption {
    /// The message for events and conditions.
    pub message: String,
    /// Whether the pod's nominated node is of no use to it any more.
    pub clears_nomination: bool,
}

/// The result of preemption for a pod (PostFilter).
#[derive(Clone, Debug, Default)]
pub struct Search {
    /// The pods to evict.
    pub preemption: Option<Preemption>,
    /// The message for events and conditions, if no pods are evicted.
    pub message: String,
    /// The pod's nominated node from now on, empty for none; `None`: as it was.
    pub nomination: Option<String>,
}

impl From<Result<Preemption, NoPreemption>> for Search {
    fn from(found: Result<Preemption, NoPreemption>) -> Self {
        match found {
            Ok(preemption) => Self {
                nomination: Some(preemption.node.clone()),
                preemption: Some(preemption),
                message: String::new(),
            },
            Err(none) => Self {
                preemption: None,
                message: none.message,
                nomination: none.clears_nomination.then(String::new),
            },
        }
    }
}

impl Search {
    /// Returns the result without a search: it cannot help, or is disabled.
    pub(crate) fn none(diagnosis: &Diagnosis) -> Self {
        Self {
            nomination: (diagnosis.nodes == 0).then(String::new),
            ..Self::default()
        }
    }
}

/// A node, and the pods to evict from it.
pub(crate) struct Candidate {
    pub(crate) place: usize,
    pub(crate) victims: Vec<Arc<Pod>>,
    pub(crate) violations: usize,
}

/// The input of a dry run besides the node.
pub(crate) struct DryRun<'a> {
    pub(crate) pod: &'a Arc<Pod>,
    pub(crate) budgets: &'a [Arc<PodDisruptionBudget>],
}

impl Placer {
    /// Chooses pods to evict so that `pod`, which fits nowhere according to `diagnosis`,
    /// fits somewhere. `random` chooses where the search begins, and breaks ties.
    ///
    /// # Errors
    /// The reason why no pods are evicted.
    pub fn preempt(
        &mut self,
        cluster: &mut Cluster,
        pod: &Arc<Pod>,
        diagnosis: &Diagnosis,
        random: u64,
    ) -> Result<Preemption, NoPreemption> {
        let candidates = self.candidates(cluster, pod, diagnosis, random)?;
        best(cluster, candidates, random).ok_or_else(|| NoPreemption {
            message: "preemption: no candidate node for preemption".to_owned(),
            clears_nomination: false,
        })
    }

    /// [`Placer::preempt`], if a search is due.
    pub fn search(
        &mut self,
        cluster: &mut Cluster,
        pod: &Arc<Pod>,
        diagnosis: &Diagnosis,
        random: u64,
    ) -> Search {
        if self.must_search(diagnosis) {
            self.preempt(cluster, pod, diagnosis, random).into()
        } else {
            Search::none(diagnosis)
        }
    }

    /// Whether a search for pods to evict is due.
    pub(crate) fn must_search(&self, diagnosis: &Diagnosis) -> bool {
        diagnosis.nodes > 0
            && self.profile().preemption.is_some()
            && diagnosis.may_preempt().is_ok()
    }

    /// Nodes on which evicting pods makes `pod` fit, with these pods.
    pub(crate) fn candidates(
        &mut self,
        cluster: &mut Cluster,
        pod: &Arc<Pod>,
        diagnosis: &Diagnosis,
        random: u64,
    ) -> Result<Vec<Candidate>, NoPreemption> {
        if let Some(reason) = ineligible(cluster, pod, diagnosis) {
            return Err(NoPreemption {
                message: format!("preemption: {reason}"),
                clears_nomination: false,
            });
        }
        let potential: Vec<usize> = diagnosis.resolvable(&cluster.snapshot).iter().collect();
        let budgets = cluster.catalog.pod_disruption_budgets.snapshot();
        let budgets: Vec<_> = budgets.iter().cloned().collect();
        let run = DryRun {
            pod,
            budgets: &budgets,
        };
        let shortcut = self.shortcut(cluster, pod, diagnosis);
        let args = self.profile().preemption.unwrap_or_default();
        let wanted = args.candidates(potential.len());
        let offset = usize::try_from(random % potential.len().max(1) as u64).unwrap_or(0);
        let (before, after) = potential.split_at(offset.min(potential.len()));
        let mut candidates: Vec<Candidate> = Vec::new();
        let mut without_violation = 0;
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for place in after.iter().chain(before) {
            let found = shortcut.as_ref();
            let found = found.and_then(|it| it.select_victims(cluster, &run, *place));
            match found.unwrap_or_else(|| self.select_victims(cluster, &run, *place)) {
                Ok(candidate) => {
                    without_violation += usize::from(candidate.violations == 0);
                    candidates.push(candidate);
                    if without_violation > 0 && candidates.len() >= wanted {
                        break;
                    }
                }
                Err(reasons) => {
                    for reason in reasons {
                        *counts.entry(reason).or_default() += 1;
                    }
                }
            }
        }
        if candidates.is_empty() {
            let others = diagnosis.nodes.saturating_sub(potential.len());
            if others > 0 {
                let reason = "Preemption is not helpful for scheduling".to_owned();
                *counts.entry(reason).or_default() += others;
            }
            let counts = counts.iter().map(|(reason, count)| (*count, &**reason));
            return Err(NoPreemption {
                message: format!("preemption: {}", none_available(diagnosis.nodes, counts)),
                clears_nomination: true,
            });
        }
        Ok(candidates)
    }

    /// The fewest, least important pods to evict from a node; or why that does not help.
    fn select_victims(
        &mut self,
        cluster: &mut Cluster,
        run: &DryRun<'_>,
        place: usize,
    ) -> Result<Candidate, Vec<String>> {
        let on_node = cluster.snapshot.pods_on(place);
        let mut potential: Vec<Arc<Pod>> = on_node
            .filter(|other| other.priority < run.pod.priority)
            .cloned()
            .collect();
        if potential.is_empty() {
            return Err(vec![
                "No preemption victims found for incoming pod".to_owned(),
            ]);
        }
        let mut hypothesis = Hypothesis::new(cluster, place);
        for victim in &potential {
            hypothesis.remove(victim);
        }
        self.fits_with_nominated(hypothesis.cluster(), run.pod, place)
            .map_err(|rejected| {
                let reasons = rejected.rejections.into_iter();
                reasons.map(|it| it.reason.into_owned()).collect::<Vec<_>>()
            })?;
        sort_by_importance(&mut potential);
        let (violating, others) = split_by_budgets(potential, run.budgets);
        let is_mixed = !violating.is_empty() && !others.is_empty();
        let first_other = violating.len();
        let (mut victims, mut violations) = (Vec::new(), 0);
        for (at, pod) in violating.into_iter().chain(others).enumerate() {
            hypothesis.add(&pod);
            let fits = self.fits_with_nominated(hypothesis.cluster(), run.pod, place);
            if fits.is_err() {
                hypothesis.remove(&pod);
                violations += usize::from(at < first_other);
                victims.push(pod);
            }
        }
        if is_mixed {
            sort_by_importance(&mut victims);
        }
        if victims.is_empty() {
            let node = hypothesis.snapshot.name(place);
            return Err(vec![format!(
                "expected at least one victim pod on node {node:?}"
            )]);
        }
        Ok(Candidate {
            place,
            victims,
            violations,
        })
    }

    /// Whether a pod fits on a node: together with the pods that the node is nominated for,
    /// and without them, since they may go elsewhere.
    pub(crate) fn fits_with_nominated(
        &mut self,
        cluster: &mut Cluster,
        pod: &Pod,
        place: usize,
    ) -> Result<(), RejectedNodes> {
        let node = cluster.snapshot.name(place);
        let nominated: Vec<Arc<Pod>> = cluster.nominations.relevant(node, pod).cloned().collect();
        if !nominated.is_empty() {
            let mut hypothesis = Hypothesis::new(cluster, place);
            for other in &nominated {
                hypothesis.add(other);
            }
            self.fits(&hypothesis, pod, place)?;
        }
        self.fits(cluster, pod, place)
    }

    /// Whether a pod fits on a node as it is.
    fn fits(&mut self, cluster: &Cluster, pod: &Pod, place: usize) -> Result<(), RejectedNodes> {
        let mut nodes: Bits = [place].into_iter().collect();
        let rejected = self.filter_single(&cluster.snapshot, pod, &mut nodes);
        if nodes.is_empty() {
            return Err(rejected);
        }
        let mut relations = std::mem::take(&mut self.relations);
        let args = &self.profile().args;
        let fits = match Cycle::prepare(cluster, pod, &mut relations, args, false) {
            Err(unmet) => {
                let mut rejected = RejectedNodes::default();
                rejected.add(&nodes, unmet.reason, unmet.resolvable);
                Err(rejected)
            }
            Ok(cycle) => {
                let rejected = self.filter_cycle(&cycle, &mut nodes);
                if nodes.is_empty() {
                    Err(rejected)
                } else {
                    Ok(())
                }
            }
        };
        self.relations = relations;
        fits
    }
}

/// Returns why a pod may not preempt others.
fn ineligible(cluster: &Cluster, pod: &Pod, diagnosis: &Diagnosis) -> Option<&'static str> {
    if !pod.preempts {
        return Some("not eligible due to preemptionPolicy=Never.");
    }
    let nominated = match cluster.nominations.node_of(&pod.key()) {
        Some(node) => node,
        None => pod.nominated_node.as_str(),
    };
    let place = cluster.snapshot.place_of(nominated)?;
    if diagnosis.is_unresolvable(place) {
        return None;
    }
    let mut others = cluster.snapshot.pods_on(place);
    let is_leaving = |other: &Arc<Pod>| {
        other.priority < pod.priority && other.preempted && other.metadata.is_terminating()
    };
    others
        .any(is_leaving)
        .then_some("not eligible due to a terminating pod on the nominated node.")
}

/// Returns whether `one` is more important than `other`. Pods that have not started count
/// as starting now, `one` a moment earlier.
fn is_more_important(one: &Pod, other: &Pod) -> bool {
    if one.priority != other.priority {
        return one.priority > other.priority;
    }
    match (one.started, other.started) {
        (Some(one), Some(other)) => one < other,
        (_, None) => true,
        (None, Some(_)) => false,
    }
}

/// Sorts as upstream sorts a dozen pods, by insertion: the order of pods that are equal is
/// visible in who is evicted.
pub(crate) fn sort_by_importance(pods: &mut [Arc<Pod>]) {
    for end in 1..pods.len() {
        let mut at = end;
        while let Some([one, other]) = at
            .checked_sub(1)
            .and_then(|before| pods.get_mut(before..=at))
            && is_more_important(other, one)
        {
            std::mem::swap(one, other);
            at -= 1;
        }
    }
}

pub(crate) type Pods = Vec<Arc<Pod>>;

/// Splits pods into those whose eviction violates a disruption budget, and the others.
/// Each uses up what the budgets allow.
pub(crate) fn split_by_budgets(pods: Pods, budgets: &[Arc<PodDisruptionBudget>]) -> (Pods, Pods) {
    let allowed = budgets.iter();
    let mut allowed: Vec<i64> = allowed.map(|it| it.status.disruptions_allowed).collect();
    pods.into_iter().partition(|pod| {
        let meta = &pod.metadata;
        let mut is_violated = false;
        for (budget, allowed) in budgets.iter().zip(&mut allowed) {
            let selects = || {
                let selector = budget.spec.selector.as_ref();
                selector.is_some_and(|it| !it.is_everything() && it.matches(&meta.labels))
            };
            let is_counted = || budget.status.disrupted_pods.contains_key(&meta.name);
            if meta.labels.iter().len() > 0
                && budget.metadata.namespace == meta.namespace
                && selects()
                && !is_counted()
            {
                *allowed -= 1;
                is_violated |= *allowed < 0;
            }
        }
        is_violated
    })
}

/// The candidate whose victims matter least: fewest violated budgets, lowest highest
/// priority, lowest sum of priorities, fewest pods, latest start of the most important.
pub(crate) fn best(
    cluster: &Cluster,
    mut candidates: Vec<Candidate>,
    random: u64,
) -> Option<Preemption> {
    let key = |candidate: &Candidate| {
        let victims = &candidate.victims;
        let highest = victims.first().map_or(0, |pod| pod.priority);
        // as if all were positive, so that fewer pods of a negative priority are better
        let priorities = victims
            .iter()
            .map(|pod| i64::from(pod.priority) + (1 << 31));
        let most = victims.iter().map(|pod| pod.priority).max().unwrap_or(0);
        let important = victims.iter().filter(|pod| pod.priority == most);
        let starts = important.map(|pod| pod.started.unwrap_or(Timestamp::MAX));
        (
            candidate.violations,
            highest,
            priorities.sum::<i64>(),
            victims.len(),
            std::cmp::Reverse(starts.min()),
        )
    };
    let least = candidates.iter().map(key).min()?;
    candidates.retain(|candidate| key(candidate) == least);
    let equals: Bits = candidates.iter().map(|candidate| candidate.place).collect();
    let nth = usize::try_from(random % candidates.len().max(1) as u64).unwrap_or(0);
    let chosen = candidates.into_iter().nth(nth)?;
    Some(Preemption {
        node: cluster.snapshot.name(chosen.place).to_owned(),
        place: chosen.place,
        victims: chosen.victims,
        violations: chosen.violations,
        equals,
    })
}

#[cfg(test)]
#[path = "preempt_tests.rs"]
mod tests;
