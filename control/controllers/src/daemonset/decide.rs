//! Decides which pods a DaemonSet creates and deletes, and its status.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::placement::{Eligibility, Placement, is_updated};
use crate::ownership::{self, AdoptionDecision};
use crate::views::{DaemonSet, DaemonSetStatus, Node, Phase, Pod, RollingUpdate, Text};

/// Pods created or deleted in one go; a larger difference takes several.
pub(super) const BURST: usize = 250;

/// The input of one decision.
#[derive(Clone, Copy)]
pub(super) struct DaemonSetSnapshot<'a> {
    /// The set.
    pub(super) set: &'a DaemonSet,
    /// Its pods.
    pub(super) pods: &'a [Arc<Pod>],
    /// All nodes.
    pub(super) nodes: &'a [Arc<Node>],
    /// The nodes that its pods accept.
    pub(super) placement: &'a Placement,
    /// The hash of its template's revision.
    pub(super) hash: &'a str,
    /// The number of its template, where that is still known.
    pub(super) generation: Option<i64>,
    /// How long failed pods of a node are left there yet.
    pub(super) backoff: &'a (dyn Fn(&str) -> Option<Duration> + Sync),
    /// Whether the cache has seen all that this controller did to the set.
    pub(super) settled: bool,
    /// The current time, in whole seconds.
    pub(super) now: Timestamp,
}

/// The reason why a finished pod is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum DeletionReason {
    Failed,
    Succeeded,
}

/// One write; actions run in order.
#[derive(Debug, Clone)]
pub(super) enum DaemonSetAction {
    /// Tell users that a pod of a node ended and will be deleted. A failed one counts for
    /// the node's back-off.
    Report(DeletionReason, Arc<Pod>, Text),
    /// Delete these pods.
    Delete(Vec<Arc<Pod>>),
    /// Create a pod on each of these nodes.
    Create(Vec<Text>),
    /// Write this status.
    Status(DaemonSetStatus),
    /// Look again after this time.
    Wake(Duration),
}

/// Returns the pods that the set adopts, those that it releases, and the resulting pods
/// of the set.
pub(super) fn claim_pods(
    set: &DaemonSet,
    pods: &[Arc<Pod>],
) -> (Vec<(AdoptionDecision, Arc<Pod>)>, Vec<Arc<Pod>>) {
    let mut changes = Vec::new();
    let mut own = Vec::new();
    for pod in pods {
        let matches = set
            .spec
            .selector
            .matches(|key| pod.metadata.labels.get(key));
        let claim = ownership::claim(&set.metadata, &pod.metadata, matches);
        if matches!(claim, AdoptionDecision::Adopt | AdoptionDecision::Release) {
            changes.push((claim, Arc::clone(pod)));
        }
        if matches!(claim, AdoptionDecision::Adopt | AdoptionDecision::Keep) {
            own.push(Arc::clone(pod));
        }
    }
    (changes, own)
}

/// Decides what to do now. Pods are made and deleted until each node has the right ones;
/// only then are old ones replaced.
pub(super) fn decide(snapshot: &DaemonSetSnapshot<'_>) -> Vec<DaemonSetAction> {
    let view = View::new(snapshot);
    let mut actions = Vec::new();
    if snapshot.settled {
        let mut changes = view.manage();
        if changes.is_empty() && snapshot.set.spec.update_strategy.r#type == "RollingUpdate" {
            changes.take_pods_of(view.rolling_update());
        }
        actions.extend(changes.into_actions());
    }
    let (status, available_in) = view.status();
    if status != snapshot.set.status {
        actions.push(DaemonSetAction::Status(status));
    }
    actions.extend(available_in.map(DaemonSetAction::Wake));
    actions
}

/// Pods to delete and nodes that get one.
#[derive(Debug, Default)]
struct Changes {
    reports: Vec<(DeletionReason, Arc<Pod>, Text)>,
    delete: Vec<Arc<Pod>>,
    create: Vec<Text>,
    wake: Option<Duration>,
}

impl Changes {
    fn is_empty(&self) -> bool {
        self.delete.is_empty() && self.create.is_empty()
    }

    /// Takes what another decision deletes and creates.
    fn take_pods_of(&mut self, other: Self) {
        self.delete = other.delete;
        self.create = other.create;
    }

    fn into_actions(mut self) -> Vec<DaemonSetAction> {
        self.delete.truncate(BURST);
        self.create.truncate(BURST);
        let mut actions: Vec<DaemonSetAction> = self
            .reports
            .into_iter()
            .map(|(ended, pod, node)| DaemonSetAction::Report(ended, pod, node))
            .collect();
        if !self.create.is_empty() {
            actions.push(DaemonSetAction::Create(self.create));
        }
        if !self.delete.is_empty() {
            actions.push(DaemonSetAction::Delete(self.delete));
        }
        actions.extend(self.wake.map(DaemonSetAction::Wake));
        actions
    }
}

/// Nodes and the pods on each.
struct View<'a> {
    snapshot: &'a DaemonSetSnapshot<'a>,
    nodes: Vec<(&'a Node, Eligibility)>,
    /// Pods by the node that they run on or were made for.
    pods: BTreeMap<&'a str, Vec<&'a Arc<Pod>>>,
}

impl<'a> View<'a> {
    fn new(snapshot: &'a DaemonSetSnapshot<'a>) -> Self {
        let mut pods: BTreeMap<&str, Vec<&Arc<Pod>>> = BTreeMap::new();
        for pod in snapshot.pods {
            // terminating pods that have ended are removed by another controller
            if pod.is_terminal() && pod.metadata.is_terminating() {
                continue;
            }
            if let Some(node) = pod.node() {
                pods.entry(node).or_default().push(pod);
            }
        }
        let nodes = snapshot.nodes.iter();
        Self {
            snapshot,
            nodes: nodes
                .map(|node| (&**node, snapshot.placement.eligibility(node)))
                .collect(),
            pods,
        }
    }

    fn is_available(&self, pod: &Pod) -> bool {
        let min_ready = self.snapshot.set.spec.min_ready_seconds;
        pod.is_available(min_ready, self.snapshot.now)
    }

    fn is_updated(&self, pod: &Pod) -> bool {
        is_updated(pod, self.snapshot.hash, self.snapshot.generation)
    }

    fn bounds(&self) -> Option<&'a RollingUpdate> {
        let strategy = &self.snapshot.set.spec.update_strategy;
        let bounds = strategy.rolling_update.as_ref();
        bounds.filter(|_| strategy.r#type == "RollingUpdate")
    }

    fn surge(&self, nodes: i32) -> usize {
        let bound = self.bounds().and_then(|bounds| bounds.max_surge.as_ref());
        let most = bound.and_then(|bound| bound.scaled(nodes, true));
        most.and_then(|most| usize::try_from(most).ok())
            .unwrap_or(0)
    }

    fn unavailable(&self, nodes: i32) -> usize {
        let bound = self
            .bounds()
            .and_then(|bounds| bounds.max_unavailable.as_ref());
        let most = bound.and_then(|bound| bound.scaled(nodes, true));
        most.and_then(|most| usize::try_from(most).ok())
            .unwrap_or(0)
    }

    /// Makes pods where there should be one and is none, and deletes those that ended,
    /// that are too many and that should not run where they do.
    fn manage(&self) -> Changes {
        let mut changes = Changes::default();
        for (node, eligibility) in &self.nodes {
            let name = node.metadata.name.as_str();
            match self.pods.get(name) {
                None if eligibility.should_run => changes.create.push(name.into()),
                None => {}
                Some(pods) if eligibility.should_continue => {
                    self.manage_node(name, pods, eligibility.should_run, &mut changes);
                }
                Some(pods) => changes.delete.extend(
                    pods.iter()
                        .filter(|pod| !pod.metadata.is_terminating())
                        .map(|pod| Arc::clone(pod)),
                ),
            }
        }
        // No other controller deletes a pod that waits for a node which no longer exists.
        let known: BTreeSet<&str> = self
            .nodes
            .iter()
            .map(|(node, _)| node.metadata.name.as_str())
            .collect();
        for (node, pods) in &self.pods {
            if !known.contains(node) {
                let waiting = pods.iter().filter(|pod| pod.spec.node_name.is_empty());
                changes.delete.extend(waiting.map(|pod| Arc::clone(pod)));
            }
        }
        changes
    }

    fn manage_node(&self, node: &str, pods: &[&Arc<Pod>], should_run: bool, changes: &mut Changes) {
        let mut running = Vec::new();
        for pod in pods.iter().filter(|pod| !pod.metadata.is_terminating()) {
            match pod.status.phase {
                Phase::Failed => {
                    if let Some(left) = (self.snapshot.backoff)(node) {
                        changes.wake = Some(changes.wake.map_or(left, |wake| wake.min(left)));
                        continue;
                    }
                    changes
                        .reports
                        .push((DeletionReason::Failed, Arc::clone(pod), node.into()));
                    changes.delete.push(Arc::clone(pod));
                }
                Phase::Succeeded => {
                    changes
                        .reports
                        .push((DeletionReason::Succeeded, Arc::clone(pod), node.into()));
                    changes.delete.push(Arc::clone(pod));
                }
                _ => running.push(*pod),
            }
        }
        sort(&mut running);
        if self.surge(1) == 0 {
            changes
                .delete
                .extend(running.into_iter().skip(1).map(Arc::clone));
            return;
        }
        if running.is_empty() && should_run {
            changes.create.push(node.into());
        }
        if running.len() <= 1 {
            return;
        }
        // The oldest pods of the new and of an old revision stay, until the old one is not
        // ready or the new one is available.
        let mut newest = None;
        let mut oldest = None;
        for pod in running {
            let has_hash = pod.metadata.labels.get(crate::history::POD_REVISION_LABEL)
                == Some(self.snapshot.hash);
            let kept = if has_hash { &mut newest } else { &mut oldest };
            if kept.is_none() {
                *kept = Some(pod);
            } else {
                changes.delete.push(Arc::clone(pod));
            }
        }
        if let (Some(new), Some(old)) = (newest, oldest)
            && (!old.is_ready() || self.is_available(new))
        {
            changes.delete.push(Arc::clone(old));
        }
    }

    /// Replaces pods of old revisions, within the bounds of the strategy.
    fn rolling_update(&self) -> Changes {
        let wanted = self.nodes.iter().filter(|(_, e)| e.should_run);
        let desired = wanted.clone().count();
        let count = i32::try_from(desired).unwrap_or(i32::MAX);
        let mut pods = self.pods.clone();
        for (node, _) in wanted {
            pods.entry(node.metadata.name.as_str()).or_default();
        }
        let surge = self.surge(count);
        let mut unavailable = self.unavailable(count);
        if desired > 0 && surge == 0 && unavailable == 0 {
            unavailable = 1;
        }
        if surge == 0 {
            self.replace(&pods, unavailable)
        } else {
            self.surge_over(&pods, surge, desired)
        }
    }

    /// The pods of a node that are not being deleted: the new one and the old one. `None`
    /// when there are several of a kind.
    fn new_and_old(
        &self,
        pods: &[&'a Arc<Pod>],
    ) -> Option<(Option<&'a Arc<Pod>>, Option<&'a Arc<Pod>>)> {
        let (mut new, mut old) = (None, None);
        for pod in pods.iter().filter(|pod| !pod.metadata.is_terminating()) {
            let slot = if self.is_updated(pod) {
                &mut new
            } else {
                &mut old
            };
            if slot.replace(*pod).is_some() {
                return None;
            }
        }
        Some((new, old))
    }

    /// Deletes old pods, so that no more than `most` nodes are without an available one.
    fn replace(&self, pods: &BTreeMap<&str, Vec<&'a Arc<Pod>>>, most: usize) -> Changes {
        let mut down = 0;
        let mut delete: Vec<Arc<Pod>> = Vec::new();
        let mut candidates: Vec<&Arc<Pod>> = Vec::new();
        for pods in pods.values() {
            match self.new_and_old(pods) {
                None | Some((None, None) | (Some(_), Some(_))) => down += 1,
                Some((Some(new), None)) => down += usize::from(!self.is_available(new)),
                Some((None, Some(old))) => {
                    if !self.is_available(old) {
                        delete.push(Arc::clone(old));
                        down += 1;
                    } else if down < most {
                        candidates.push(old);
                    }
                }
            }
        }
        let left = most.saturating_sub(down);
        delete.extend(candidates.into_iter().take(left).map(Arc::clone));
        Changes {
            delete,
            ..Changes::default()
        }
    }

    /// Creates new pods beside old ones, at most `most` beside available ones, and deletes
    /// old ones that an available new one replaces.
    fn surge_over(
        &self,
        pods: &BTreeMap<&str, Vec<&'a Arc<Pod>>>,
        most: usize,
        desired: usize,
    ) -> Changes {
        let eligible: HashMap<&str, bool> = self
            .nodes
            .iter()
            .map(|(node, e)| (node.metadata.name.as_str(), e.should_run))
            .collect();
        let (mut surging, mut available) = (0, 0);
        let (mut create, mut candidates) = (Vec::new(), Vec::new());
        let (mut delete, mut misplaced) = (Vec::new(), Vec::new());
        for (node, pods) in pods {
            let Some((new, old)) = self.new_and_old(pods) else {
                surging += 1;
                continue;
            };
            if let Some(pod) = old.or(new) {
                available += usize::from(self.is_available(pod));
            }
            let Some(old) = old else { continue };
            if let Some(new) = new {
                if self.is_available(new) {
                    delete.push(Arc::clone(old));
                } else {
                    surging += 1;
                }
                continue;
            }
            // pods of a deleted node are removed with it
            let Some(should_run) = eligible.get(node) else {
                continue;
            };
            match (self.is_available(old), *should_run) {
                (false, true) => create.push(Text::from(*node)),
                (false, false) => delete.push(Arc::clone(old)),
                (true, false) => misplaced.push(Arc::clone(old)),
                (true, true) if surging < most => candidates.push(Text::from(*node)),
                (true, true) => {}
            }
        }
        // A pod where none should run any more goes when another is available instead.
        let spare = usize::saturating_sub(available, desired);
        delete.extend(misplaced.into_iter().take(spare));
        create.extend(candidates.into_iter().take(most.saturating_sub(surging)));
        Changes {
            delete,
            create,
            ..Changes::default()
        }
    }

    /// The status, and when a ready pod will have become available.
    fn status(&self) -> (DaemonSetStatus, Option<Duration>) {
        let set = self.snapshot.set;
        let mut status = DaemonSetStatus {
            observed_generation: set.status.observed_generation,
            collision_count: set.status.collision_count,
            ..DaemonSetStatus::default()
        };
        if self.snapshot.settled {
            status.observed_generation = set.metadata.generation;
        }
        let mut wake: Option<i64> = None;
        for (node, eligibility) in &self.nodes {
            let pods = self.pods.get(node.metadata.name.as_str());
            if !eligibility.should_run {
                status.number_misscheduled += i32::from(pods.is_some());
                continue;
            }
            status.desired_number_scheduled += 1;
            let Some(pod) = pods.and_then(|pods| pods.iter().min_by(|a, b| order(a, b))) else {
                continue;
            };
            status.current_number_scheduled += 1;
            if pod.is_ready() {
                status.number_ready += 1;
                status.number_available += i32::from(self.is_available(pod));
            }
            status.updated_number_scheduled += i32::from(self.is_updated(pod));
        }
        for pod in self.pods.values().flatten() {
            if let Some(left) = pod.available_in(set.spec.min_ready_seconds, self.snapshot.now) {
                wake = Some(wake.map_or(left, |next| next.min(left)));
            }
        }
        status.number_unavailable = status.desired_number_scheduled - status.number_available;
        let wake = wake.and_then(|left| u64::try_from(left).ok());
        (status, wake.map(Duration::from_millis))
    }
}

/// Bound pods first, then the oldest.
fn order(a: &Pod, b: &Pod) -> std::cmp::Ordering {
    let key = |pod: &Pod| {
        (
            pod.spec.node_name.is_empty(),
            pod.metadata.creation_timestamp,
        )
    };
    key(a)
        .cmp(&key(b))
        .then_with(|| a.metadata.name.cmp(&b.metadata.name))
}

fn sort(pods: &mut [&Arc<Pod>]) {
    pods.sort_by(|a, b| order(a, b));
}
