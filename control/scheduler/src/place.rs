//! Where a pod goes: a pure function of the snapshot and the pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::bits::Bits;
use crate::plugins::{Plugin, Rejected, default_profile};
use crate::prefilter::Unmet;
use crate::snapshot::{Snapshot, Wake};
use crate::view::{Pod, Shape};

/// What is to become of a pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// It goes to the node at this place of the snapshot.
    Place {
        /// The place.
        node: usize,
        /// The node's score.
        score: i64,
        /// All nodes with that score; which of them is taken does not matter.
        equals: Bits,
    },
    /// It fits nowhere.
    Unschedulable(Diagnosis),
}

/// Why a pod fits nowhere.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnosis {
    /// How many nodes there are.
    pub nodes: usize,
    /// What may change that.
    pub wake: Wake,
    rejected: Rejected,
    /// What it lacks on all nodes, if none was looked at.
    unmet: Option<Unmet>,
}

/// Places pods, remembering what it found for equal ones.
pub struct Placer {
    profile: Vec<(Box<dyn Plugin>, i64)>,
    memos: FxHashMap<usize, Memo>,
    totals: Vec<i64>,
    column: Vec<i64>,
    uses: u64,
}

/// What was found for pods of one shape.
struct Memo {
    /// Keeps the address that is the key from being used for another shape.
    _shape: Arc<Shape>,
    clock: u64,
    used: u64,
    fitting: Bits,
    rejected: Rejected,
    /// Raw scores, a column per plugin that scores.
    raw: Vec<Option<Vec<i64>>>,
}

/// Shapes remembered. Each costs 8 bytes per node and scoring plugin.
const MEMOS: usize = 64;

/// Where `pod` goes, with the default profile. `tie` chooses among equals.
#[must_use]
pub fn place(snapshot: &Snapshot, pod: &Pod, tie: u64) -> Decision {
    Placer::default().place(snapshot, pod, tie)
}

impl Default for Placer {
    fn default() -> Self {
        Self {
            profile: default_profile(),
            memos: FxHashMap::default(),
            totals: Vec::new(),
            column: Vec::new(),
            uses: 0,
        }
    }
}

impl Placer {
    /// Where `pod` goes: what [`place`] says, faster for pods like earlier
    /// ones. Must always be called with the same snapshot as it moves on.
    pub fn place(&mut self, snapshot: &Snapshot, pod: &Pod, tie: u64) -> Decision {
        self.uses += 1;
        let key = Arc::as_ptr(&pod.shape).addr();
        // a pod that names its node is like no other
        let named = !pod.node_name.is_empty();
        let mut memo = match self.memos.remove(&key) {
            Some(memo) if !named => memo,
            _ => Memo {
                _shape: Arc::clone(&pod.shape),
                clock: 0,
                used: 0,
                fitting: Bits::new(),
                rejected: Rejected::default(),
                raw: self
                    .profile
                    .iter()
                    .map(|(plugin, _)| plugin.scores(pod).then(Vec::new))
                    .collect(),
            },
        };
        self.refresh(snapshot, pod, &mut memo);
        let decision = self.decide(snapshot, pod, &memo, tie);
        if !named {
            if self.memos.len() >= MEMOS
                && let Some(oldest) = self.memos.iter().min_by_key(|(_, memo)| memo.used)
            {
                let oldest = *oldest.0;
                self.memos.remove(&oldest);
            }
            memo.used = self.uses;
            self.memos.insert(key, memo);
        }
        decision
    }

    /// Computes anew what is known of nodes that changed.
    fn refresh(&self, snapshot: &Snapshot, pod: &Pod, memo: &mut Memo) {
        let changed = snapshot.changed_since(memo.clock);
        memo.clock = snapshot.clock();
        if changed.is_empty() {
            return;
        }
        memo.fitting.subtract(&changed);
        memo.rejected.forget(&changed);
        let mut nodes = changed;
        nodes.intersect(snapshot.live());
        for (index, (plugin, _)) in self.profile.iter().enumerate() {
            let mut told = Rejected::default();
            plugin.narrow(snapshot, pod, &mut nodes, &mut told);
            memo.rejected.absorb(index, told);
        }
        for (index, (plugin, _)) in self.profile.iter().enumerate() {
            if nodes.is_empty() {
                break;
            }
            let mut told = Rejected::default();
            plugin.filter(snapshot, pod, &mut nodes, &mut told);
            memo.rejected.absorb(index, told);
        }
        memo.fitting.union(&nodes);
        for ((plugin, _), raw) in self.profile.iter().zip(&mut memo.raw) {
            if let Some(raw) = raw {
                raw.resize(snapshot.places(), 0);
                if !plugin.global() {
                    plugin.score(snapshot, pod, &nodes, raw);
                }
            }
        }
    }

    fn decide(&mut self, snapshot: &Snapshot, pod: &Pod, memo: &Memo, tie: u64) -> Decision {
        if memo.fitting.is_empty() {
            return Decision::Unschedulable(self.diagnose(snapshot, memo));
        }
        self.totals.clear();
        self.totals.resize(snapshot.places(), 0);
        for ((plugin, weight), raw) in self.profile.iter().zip(&memo.raw) {
            let Some(raw) = raw else { continue };
            self.column.clear();
            self.column.extend_from_slice(raw);
            if plugin.global() {
                plugin.score(snapshot, pod, &memo.fitting, &mut self.column);
            }
            plugin.normalize(&memo.fitting, &mut self.column);
            for (total, score) in self.totals.iter_mut().zip(&self.column) {
                *total += weight * score;
            }
        }
        let total = |at: usize| self.totals.get(at).copied().unwrap_or(0);
        let score = memo.fitting.iter().map(total).max().unwrap_or(0);
        let equals: Bits = memo
            .fitting
            .iter()
            .filter(|at| total(*at) == score)
            .collect();
        let count = u64::try_from(equals.count()).unwrap_or(1).max(1);
        let nth = usize::try_from(tie % count).unwrap_or(0);
        let node = equals.iter().nth(nth).unwrap_or(0);
        Decision::Place {
            node,
            score,
            equals,
        }
    }

    fn diagnose(&self, snapshot: &Snapshot, memo: &Memo) -> Diagnosis {
        let mut wake = Wake::NODE_ADDED;
        for rejection in &memo.rejected.rejections {
            if let Some((plugin, _)) = self.profile.get(rejection.plugin) {
                wake = wake.and(plugin.wakes());
            }
        }
        Diagnosis {
            nodes: snapshot.live().count(),
            wake,
            rejected: memo.rejected.clone(),
            unmet: None,
        }
    }
}

impl Diagnosis {
    /// The pod lacks something that no node has.
    #[must_use]
    pub fn unmet(snapshot: &Snapshot, unmet: Unmet) -> Self {
        Self {
            nodes: snapshot.live().count(),
            // The message counts nodes.
            wake: unmet.wake.and(Wake::NODE_ADDED),
            rejected: Rejected::default(),
            unmet: Some(unmet),
        }
    }

    /// The sentence that kube-scheduler writes into events and conditions.
    #[must_use]
    pub fn message(&self, pod: &Pod) -> String {
        if self.nodes == 0 {
            return "no nodes available to schedule pods".to_owned();
        }
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for rejection in &self.rejected.rejections {
            *counts.entry(&rejection.reason).or_default() += rejection.nodes.count();
        }
        let counts = counts.iter().map(|(reason, count)| (*count, *reason));
        let mut message = match &self.unmet {
            Some(unmet) if unmet.on_each_node => {
                none_available(self.nodes, std::iter::once((self.nodes, &*unmet.reason)))
            }
            Some(unmet) => format!("0/{} nodes are available: {}.", self.nodes, unmet.reason),
            None => none_available(self.nodes, counts),
        };
        message.push_str(" preemption: ");
        if pod.preempts {
            message.push_str(&self.preemption());
        } else {
            message.push_str("not eligible due to preemptionPolicy=Never.");
        }
        message
    }

    /// Why evicting pods does not help. This scheduler does not evict: no node
    /// has victims.
    fn preemption(&self) -> String {
        let mut hopeless = Bits::new();
        let mut hopeful = Bits::new();
        for rejection in &self.rejected.rejections {
            let bits = if rejection.resolvable {
                &mut hopeful
            } else {
                &mut hopeless
            };
            bits.union(&rejection.nodes);
        }
        hopeful.subtract(&hopeless);
        let hopeless = match self.unmet {
            Some(_) => self.nodes,
            None => hopeless.count(),
        };
        let counts = [
            (
                hopeful.count(),
                "No preemption victims found for incoming pod",
            ),
            (hopeless, "Preemption is not helpful for scheduling"),
        ];
        none_available(
            self.nodes,
            counts.into_iter().filter(|(count, _)| *count > 0),
        )
    }
}

/// `0/3 nodes are available: 1 Too many pods, 2 Insufficient cpu.`
fn none_available<'a>(nodes: usize, counts: impl Iterator<Item = (usize, &'a str)>) -> String {
    let mut reasons: Vec<String> = counts
        .map(|(count, reason)| format!("{count} {reason}"))
        .collect();
    // by text, numbers included, as upstream does
    reasons.sort();
    if reasons.is_empty() {
        return format!("0/{nodes} nodes are available:");
    }
    format!("0/{nodes} nodes are available: {}.", reasons.join(", "))
}

#[cfg(test)]
#[path = "place_tests.rs"]
mod tests;
