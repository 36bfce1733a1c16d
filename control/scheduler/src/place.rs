//! Placement: a pure function of the snapshot and the pod.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::bits::Bits;
use crate::cluster::Cluster;
use crate::devices::Deallocation;
use crate::event::Event;
use crate::plugins::{Cycle, Permission, Plugin, Profile, RejectedNodes};
use crate::queue::Rejecters;
use crate::relations::Relations;
use crate::reserve::Reservation;
use crate::snapshot::{Snapshot, Wake};
use crate::unmet::UnmetReason;
use crate::view::{Pod, Shape};

/// The decision about a pod.
#[derive(Clone, Debug, PartialEq)]
pub enum Decision {
    /// It goes to the node at this place of the snapshot.
    Place {
        /// The place.
        node: usize,
        /// The node's score.
        score: i64,
        /// All nodes with that score; any of them may be chosen.
        equals: Bits,
        /// Its reservations besides the node.
        reservation: Reservation,
    },
    /// It fits nowhere.
    Unschedulable(Diagnosis),
    /// It cannot be decided: an object that the pod refers to is invalid.
    Failed(String),
}

/// The reasons why a pod fits nowhere.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnosis {
    /// How many nodes there are.
    pub nodes: usize,
    /// The events that may change that.
    pub rejecters: Rejecters,
    pub(crate) rejected: RejectedNodes,
    /// The requirement that no node can satisfy, if nodes were not evaluated.
    pub(crate) unmet: Option<UnmetReason>,
    /// The final message of the plugin DynamicResources.
    pub(crate) devices: &'static str,
    /// The claim whose devices are given back, so that others can be tried for the pod.
    pub(crate) deallocation: Option<Deallocation>,
}

/// Places pods, and caches results for equal ones.
pub struct Placer {
    profile: Arc<Profile>,
    memos: FxHashMap<usize, Memo>,
    pub(crate) relations: Relations,
    totals: Vec<i64>,
    column: Vec<i64>,
    uses: u64,
}

/// Cached results for pods of one shape.
pub(crate) struct Memo {
    /// Keeps the address that is the key from being used for another shape.
    _shape: Arc<Shape>,
    clock: u64,
    used: u64,
    pub(crate) fitting: Bits,
    pub(crate) rejected: RejectedNodes,
    /// Raw scores, a column per plugin that scores.
    raw: Vec<Option<Vec<i64>>>,
}

/// The contribution of extenders to a decision.
#[derive(Debug, Default)]
pub(crate) struct Extension {
    /// The nodes that they leave.
    pub(crate) allowed: Bits,
    /// The reasons for the nodes that they reject.
    pub(crate) rejected: RejectedNodes,
    /// Their additions to scores.
    pub(crate) scores: Vec<(usize, i64)>,
}

/// Restrictions of a decision.
struct Limits<'a> {
    /// Whether the nominated node is preferred to all others.
    nomination: bool,
    /// Whether scores do not matter: all nodes that fit are `equals`.
    filters_only: bool,
    extension: Option<&'a Extension>,
}

impl Default for Limits<'_> {
    fn default() -> Self {
        Self {
            nomination: true,
            filters_only: false,
            extension: None,
        }
    }
}

/// Stands for extenders among [`Rejecters`].
const EXTENDERS: u64 = 1 << 63;

/// Shapes remembered. Each costs 8 bytes per node and scoring plugin.
const MEMOS: usize = 64;

/// Places `pod` with the default profile. `tie` breaks ties.
#[must_use]
pub fn place(cluster: &mut Cluster, pod: &Pod, tie: u64) -> Decision {
    Placer::default().place(cluster, pod, tie)
}

impl Default for Placer {
    fn default() -> Self {
        Self::new(Arc::new(Profile::default()))
    }
}

impl Placer {
    /// Places pods as `profile` says.
    #[must_use]
    pub fn new(profile: Arc<Profile>) -> Self {
        Self {
            profile,
            memos: FxHashMap::default(),
            relations: Relations::default(),
            totals: Vec::new(),
            column: Vec::new(),
            uses: 0,
        }
    }

    /// Places `pod` like [`place`], faster for pods like earlier ones. Must always be
    /// called with the same, evolving cluster.
    pub fn place(&mut self, cluster: &mut Cluster, pod: &Pod, tie: u64) -> Decision {
        self.place_within(cluster, pod, tie, &Limits::default())
    }

    /// Returns the nodes that pass all filters; with `nomination`, only the nominated
    /// node if it is one of them.
    pub(crate) fn feasible(
        &mut self,
        cluster: &mut Cluster,
        pod: &Pod,
        nomination: bool,
    ) -> Result<Bits, Decision> {
        let limits = Limits {
            nomination,
            filters_only: true,
            extension: None,
        };
        match self.place_within(cluster, pod, 0, &limits) {
            Decision::Place { equals, .. } => Ok(equals),
            decision => Err(decision),
        }
    }

    /// Places `pod` by filters, scores and the contribution of extenders.
    pub(crate) fn place_extended(
        &mut self,
        cluster: &mut Cluster,
        pod: &Pod,
        tie: u64,
        extension: &Extension,
    ) -> Decision {
        let limits = Limits {
            nomination: false,
            filters_only: false,
            extension: Some(extension),
        };
        self.place_within(cluster, pod, tie, &limits)
    }

    fn place_within(
        &mut self,
        cluster: &mut Cluster,
        pod: &Pod,
        tie: u64,
        limits: &Limits<'_>,
    ) -> Decision {
        self.uses += 1;
        let key = Arc::as_ptr(&pod.shape).addr();
        // a pod that names its node is like no other
        let named = !pod.node_name.is_empty();
        let mut memo = match self.memos.remove(&key) {
            Some(memo) if !named => memo,
            _ => self.memo(pod),
        };
        self.refresh(&cluster.snapshot, pod, &mut memo);
        let crowded = self.crowded(cluster, pod, &memo.fitting);
        let decision = self.decide(cluster, pod, &memo, crowded, tie, limits);
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

    /// Returns an empty memo.
    pub(crate) fn memo(&self, pod: &Pod) -> Memo {
        let raw = self.profile.plugins.iter();
        let raw = raw.map(|it| (it.weight != 0 && it.plugin.scores(pod)).then(Vec::new));
        Memo {
            _shape: Arc::clone(&pod.shape),
            clock: 0,
            used: 0,
            fitting: Bits::new(),
            rejected: RejectedNodes::default(),
            raw: raw.collect(),
        }
    }

    /// Recomputes the memo for changed nodes.
    pub(crate) fn refresh(&self, snapshot: &Snapshot, pod: &Pod, memo: &mut Memo) {
        let changed = snapshot.changed_since(memo.clock);
        memo.clock = snapshot.clock();
        if changed.is_empty() {
            return;
        }
        memo.fitting.subtract(&changed);
        memo.rejected.forget(&changed);
        let mut nodes = changed;
        nodes.intersect(snapshot.live());
        let rejected = self.filter_single(snapshot, pod, &mut nodes);
        memo.rejected.absorb_all(rejected);
        memo.fitting.union(&nodes);
        for (enabled, raw) in self.profile.plugins.iter().zip(&mut memo.raw) {
            if let Some(raw) = raw {
                raw.resize(snapshot.places(), 0);
                if !enabled.plugin.global() {
                    enabled.plugin.score(snapshot, pod, &nodes, raw);
                }
            }
        }
    }

    /// Takes the nodes out of `nodes` that fail a filter that looks at single nodes.
    pub(crate) fn filter_single(
        &self,
        snapshot: &Snapshot,
        pod: &Pod,
        nodes: &mut Bits,
    ) -> RejectedNodes {
        let mut all = RejectedNodes::default();
        for (index, enabled) in self.profile.plugins.iter().enumerate() {
            if !enabled.narrows {
                continue;
            }
            let mut rejected = RejectedNodes::default();
            enabled.plugin.narrow(snapshot, pod, nodes, &mut rejected);
            all.absorb(index, rejected);
        }
        for (index, enabled) in self.profile.plugins.iter().enumerate() {
            if nodes.is_empty() {
                break;
            }
            if !enabled.filters {
                continue;
            }
            let mut rejected = RejectedNodes::default();
            enabled.plugin.filter(snapshot, pod, nodes, &mut rejected);
            all.absorb(index, rejected);
        }
        all
    }

    /// The nodes of `fitting` on which the pod does not fit beside those that they are
    /// nominated for.
    pub(crate) fn crowded(
        &mut self,
        cluster: &mut Cluster,
        pod: &Pod,
        fitting: &Bits,
    ) -> RejectedNodes {
        let mut all = RejectedNodes::default();
        if cluster.nominations.is_empty() {
            return all;
        }
        let nominations = &cluster.nominations;
        let nodes = nominations
            .nodes()
            .filter(|node| nominations.relevant(node, pod).next().is_some());
        let places: Bits = nodes
            .filter_map(|node| cluster.snapshot.place_of(node))
            .filter(|place| fitting.contains(*place))
            .collect();
        for place in places.iter() {
            if let Err(rejected) = self.fits_with_nominated(cluster, pod, place) {
                all.absorb_all(rejected);
            }
        }
        all
    }

    fn decide(
        &mut self,
        cluster: &Cluster,
        pod: &Pod,
        memo: &Memo,
        crowded: RejectedNodes,
        tie: u64,
        limits: &Limits<'_>,
    ) -> Decision {
        let snapshot = &cluster.snapshot;
        let mut relations = std::mem::take(&mut self.relations);
        let prepared = Cycle::prepare(cluster, pod, &mut relations, &self.profile.args, true);
        let decision = match prepared {
            Err(unmet) => Decision::Unschedulable(self.diagnose_unmet(snapshot, unmet)),
            Ok(cycle) => {
                let mut fitting = memo.fitting.clone();
                for rejection in &crowded.rejections {
                    fitting.subtract(&rejection.nodes);
                }
                let rejected = self.filter_cycle(&cycle, &mut fitting);
                if let Some(error) = cycle.devices.error() {
                    drop(cycle);
                    self.relations = relations;
                    return Decision::Failed(format!(
                        "running \"DynamicResources\" filter plugin: {error}"
                    ));
                }
                let nominated = match cluster.nominations.node_of(&pod.key()) {
                    Some(node) => node,
                    None => pod.nominated_node.as_str(),
                };
                let nominated = snapshot.place_of(nominated);
                let nominated = nominated.filter(|_| limits.nomination);
                if let Some(extension) = limits.extension {
                    fitting.intersect(&extension.allowed);
                }
                if let Some(nominated) = nominated.filter(|it| fitting.contains(*it)) {
                    // It was emptied for the pod.
                    fitting = [nominated].into_iter().collect();
                }
                if fitting.is_empty() {
                    let mut all = memo.rejected.clone();
                    all.absorb_all(crowded);
                    all.absorb_all(rejected);
                    if let Some(extension) = limits.extension {
                        all.absorb_all(extension.rejected.clone());
                    }
                    let mut diagnosis = self.diagnose(snapshot, all, &cycle);
                    if limits.extension.is_some() {
                        diagnosis.rejecters.plugins |= EXTENDERS;
                        diagnosis.rejecters.wake = Wake::ALL;
                    }
                    Decision::Unschedulable(diagnosis)
                } else if limits.filters_only {
                    Decision::Place {
                        node: 0,
                        score: 0,
                        equals: fitting,
                        reservation: Reservation::default(),
                    }
                } else {
                    let extra = limits.extension.map_or(&[][..], |it| &it.scores);
                    self.choose(&cycle, memo, &fitting, extra, tie)
                }
            }
        };
        self.relations = relations;
        decision
    }

    /// Takes the nodes out of `fitting` that fail a filter of the cycle.
    pub(crate) fn filter_cycle(&self, cycle: &Cycle<'_>, fitting: &mut Bits) -> RejectedNodes {
        let mut rejected = RejectedNodes::default();
        for (index, enabled) in self.profile.plugins.iter().enumerate() {
            if fitting.is_empty() {
                break;
            }
            if !enabled.filters {
                continue;
            }
            let mut by_plugin = RejectedNodes::default();
            enabled.plugin.filter_cycle(cycle, fitting, &mut by_plugin);
            rejected.absorb(index, by_plugin);
        }
        rejected
    }

    /// Writes one plugin's raw scores of `fitting`; whether it has an opinion.
    fn score(
        plugin: &dyn Plugin,
        raw: Option<&Vec<i64>>,
        cycle: &Cycle<'_>,
        fitting: &Bits,
        column: &mut Vec<i64>,
    ) -> bool {
        column.clear();
        match raw {
            Some(raw) => {
                column.extend_from_slice(raw);
                if plugin.global() {
                    plugin.score(cycle.snapshot, cycle.pod, fitting, column);
                }
                true
            }
            None => {
                column.resize(cycle.snapshot.places(), 0);
                plugin.score_cycle(cycle, fitting, column)
            }
        }
    }

    /// Brings one plugin's raw scores to a scale that all plugins have.
    fn normalize(plugin: &dyn Plugin, raw: Option<&Vec<i64>>, fitting: &Bits, column: &mut [i64]) {
        match raw {
            Some(_) => plugin.normalize(fitting, column),
            None => plugin.normalize_cycle(fitting, column),
        }
    }

    /// Calls `found` with the index, the raw and the normalised scores of each plugin that has
    /// an opinion on `fitting`.
    pub(crate) fn score_each(
        &self,
        cycle: &Cycle<'_>,
        memo: &Memo,
        fitting: &Bits,
        mut found: impl FnMut(usize, &[i64], &[i64]),
    ) {
        let mut column = Vec::new();
        let plugins = self.profile.plugins.iter();
        for (index, (enabled, raw)) in plugins.zip(&memo.raw).enumerate() {
            let plugin = &enabled.plugin;
            if enabled.weight == 0
                || !Self::score(&**plugin, raw.as_ref(), cycle, fitting, &mut column)
            {
                continue;
            }
            let unscaled = column.clone();
            Self::normalize(&**plugin, raw.as_ref(), fitting, &mut column);
            found(index, &unscaled, &column);
        }
    }

    /// Returns why a pod must not be tried at all, and the events that it waits for.
    pub(crate) fn pre_enqueue(
        &self,
        cluster: &Cluster,
        pod: &Pod,
    ) -> Option<(UnmetReason, Rejecters)> {
        let plugins = self.profile.plugins.iter().enumerate();
        let mut gates = plugins.filter(|(_, it)| it.gates);
        gates.find_map(|(index, it)| {
            let unmet = it.plugin.pre_enqueue(cluster, pod).err()?;
            let rejecters = Rejecters {
                plugins: 1 << index,
                wake: unmet.wake,
            };
            Some((unmet, rejecters))
        })
    }

    /// Whether a pod that is assumed on its node may be bound.
    pub(crate) fn permit(&self, cluster: &Cluster, pod: &Pod) -> Permission {
        let mut permission = Permission::Allowed;
        for enabled in self.profile.plugins.iter().filter(|it| it.permits) {
            match enabled.plugin.permit(cluster, pod) {
                Permission::Allowed => {}
                Permission::Failed(message) => {
                    let name = enabled.plugin.name();
                    let message = format!("running Permit plugin {name:?}: {message}");
                    return Permission::Failed(message);
                }
                wait @ Permission::Wait { .. } => permission = wait,
            }
        }
        permission
    }

    /// Returns the profile.
    #[must_use]
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// Whether an event may make a pod fit that these plugins rejected.
    #[must_use]
    pub fn is_worth(
        &self,
        cluster: &Cluster,
        pod: &Pod,
        rejecters: Rejecters,
        event: &Event<'_>,
    ) -> bool {
        let plugins = self.profile.plugins.iter().enumerate();
        let mut rejecting = plugins.filter(|(index, _)| rejecters.plugins >> index & 1 == 1);
        rejecters.plugins == 0
            || rejecters.plugins & EXTENDERS != 0
            || rejecting.any(|(_, it)| {
                it.plugin.wakes().meets(event.wake) && it.plugin.hint(cluster, pod, event)
            })
    }

    /// The node with the best score among those that fit.
    fn choose(
        &mut self,
        cycle: &Cycle<'_>,
        memo: &Memo,
        fitting: &Bits,
        extra: &[(usize, i64)],
        tie: u64,
    ) -> Decision {
        self.totals.clear();
        self.totals.resize(cycle.snapshot.places(), 0);
        for (enabled, raw) in self.profile.plugins.iter().zip(&memo.raw) {
            let plugin = &enabled.plugin;
            if enabled.weight == 0
                || !Self::score(&**plugin, raw.as_ref(), cycle, fitting, &mut self.column)
            {
                continue;
            }
            Self::normalize(&**plugin, raw.as_ref(), fitting, &mut self.column);
            for (total, score) in self.totals.iter_mut().zip(&self.column) {
                *total += enabled.weight * score;
            }
        }
        for (at, score) in extra {
            if let Some(total) = self.totals.get_mut(*at) {
                *total += score;
            }
        }
        let total = |at: usize| self.totals.get(at).copied().unwrap_or(0);
        let score = fitting.iter().map(total).max().unwrap_or(0);
        let equals: Bits = fitting.iter().filter(|at| total(*at) == score).collect();
        let count = u64::try_from(equals.count()).unwrap_or(1).max(1);
        let nth = usize::try_from(tie % count).unwrap_or(0);
        let node = equals.iter().nth(nth).unwrap_or(0);
        Decision::Place {
            node,
            score,
            equals,
            reservation: cycle.reserve(node),
        }
    }

    fn diagnose(
        &self,
        snapshot: &Snapshot,
        rejected: RejectedNodes,
        cycle: &Cycle<'_>,
    ) -> Diagnosis {
        let mut rejecters = Rejecters::default();
        for rejection in &rejected.rejections {
            if let Some(enabled) = self.profile.plugins.get(rejection.plugin) {
                rejecters.plugins |= 1 << rejection.plugin;
                rejecters.wake = rejecters.wake.and(enabled.plugin.wakes());
            }
        }
        if rejecters.plugins == 0 {
            // There are no nodes.
            rejecters.wake = Wake::NODE_ADDED;
        }
        Diagnosis {
            nodes: snapshot.live().count(),
            rejecters,
            rejected,
            unmet: None,
            devices: cycle.devices.post_filter(),
            deallocation: cycle.devices.deallocation(),
        }
    }

    /// Returns the events that a pod with this unmet requirement waits for; `None` if its
    /// plugin is not enabled.
    pub(crate) fn rejecters(&self, unmet: &UnmetReason) -> Option<Rejecters> {
        let mut plugins = self.profile.plugins.iter();
        let index = plugins.position(|it| it.plugin.name() == unmet.plugin)?;
        Some(Rejecters {
            plugins: 1 << index,
            wake: unmet.wake,
        })
    }

    fn diagnose_unmet(&self, snapshot: &Snapshot, unmet: UnmetReason) -> Diagnosis {
        Diagnosis {
            nodes: snapshot.live().count(),
            rejecters: self.rejecters(&unmet).unwrap_or(Rejecters {
                plugins: 0,
                wake: unmet.wake,
            }),
            rejected: RejectedNodes::default(),
            unmet: Some(unmet),
            devices: "no new claims to deallocate",
            deallocation: None,
        }
    }
}

impl Diagnosis {
    /// The sentence that kube-scheduler writes into events and conditions, without what
    /// preemption adds.
    #[must_use]
    pub fn message(&self) -> String {
        if self.nodes == 0 {
            return "no nodes available to schedule pods".to_owned();
        }
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for rejection in &self.rejected.rejections {
            *counts.entry(&rejection.reason).or_default() += rejection.nodes.count();
        }
        let counts = counts.iter().map(|(reason, count)| (*count, *reason));
        match &self.unmet {
            Some(unmet) if unmet.on_each_node => {
                none_available(self.nodes, std::iter::once((self.nodes, &*unmet.reason)))
            }
            Some(unmet) => format!("0/{} nodes are available: {}.", self.nodes, unmet.reason),
            None => none_available(self.nodes, counts),
        }
    }

    /// The plugins that rejected the pod.
    pub fn plugins(&self, profile: &Profile) -> impl Iterator<Item = &'static str> {
        let plugins = profile.plugins.iter().enumerate();
        let rejecters = self.rejecters.plugins;
        plugins
            .filter(move |(index, _)| rejecters >> index & 1 == 1)
            .map(|(_, enabled)| enabled.plugin.name())
    }

    /// Checks whether to search for pods to evict.
    ///
    /// # Errors
    /// The addition to the message if not.
    pub fn may_preempt(&self) -> Result<(), &'static str> {
        match &self.unmet {
            // DynamicResources, which runs before DefaultPreemption, misses its prepared
            // state when an earlier plugin ends the cycle, and reports that.
            Some(unmet) if !unmet.resolvable && unmet.plugin != "DynamicResources" => {
                Err("not found")
            }
            _ => Ok(()),
        }
    }

    /// Returns [`Diagnosis::message`] with the result of preemption; `preemption` is
    /// empty if pods are evicted.
    #[must_use]
    pub fn full_message(&self, preemption: &str) -> String {
        let mut message = self.message();
        if self.nodes == 0 {
            return message;
        }
        if let Err(instead) = self.may_preempt() {
            message.push(' ');
            message.push_str(instead);
        } else if !preemption.is_empty() {
            message.push(' ');
            message.push_str(self.devices);
            message.push_str(", ");
            message.push_str(preemption);
        }
        message
    }

    /// The nodes that evicting pods may help.
    #[must_use]
    pub fn resolvable(&self, snapshot: &Snapshot) -> Bits {
        if let Some(unmet) = &self.unmet {
            return if unmet.resolvable {
                snapshot.live().clone()
            } else {
                Bits::new()
            };
        }
        let (mut hopeless, mut hopeful) = (Bits::new(), Bits::new());
        for rejection in &self.rejected.rejections {
            let bits = if rejection.resolvable {
                &mut hopeful
            } else {
                &mut hopeless
            };
            bits.union(&rejection.nodes);
        }
        hopeful.subtract(&hopeless);
        hopeful
    }

    /// Whether evicting pods cannot help on the node at `place`.
    #[must_use]
    pub fn is_unresolvable(&self, place: usize) -> bool {
        if let Some(unmet) = &self.unmet {
            return !unmet.resolvable;
        }
        let mut here = self.rejected.rejections.iter();
        let mut here = here
            .by_ref()
            .filter(|it| it.nodes.contains(place))
            .peekable();
        here.peek().is_none() || here.any(|it| !it.resolvable)
    }
}

/// `0/3 nodes are available: 1 Too many pods, 2 Insufficient cpu.`
pub(crate) fn none_available<'a>(
    nodes: usize,
    counts: impl Iterator<Item = (usize, &'a str)>,
) -> String {
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
