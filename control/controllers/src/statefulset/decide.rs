//! Decides on pods and claims of each ordinal of a StatefulSet, and on its status.

use std::sync::Arc;
use std::time::Duration;

use control_client::Meta;
use jiff::Timestamp;

use super::identity::{self, PodOwner};
use super::retention::{self, NewOwners};
use crate::history::POD_REVISION_LABEL;
use crate::ownership::{self, AdoptionDecision};
use crate::views::{Phase, Pod, StatefulSet, StatefulSetStatus, Text};

/// The input of one decision.
#[derive(Clone, Copy)]
pub(super) struct StatefulSetSnapshot<'a> {
    /// The set.
    pub(super) set: &'a StatefulSet,
    /// Its pods.
    pub(super) pods: &'a [Arc<Pod>],
    /// Finds a claim of the set's namespace by its name.
    pub(super) claim: &'a (dyn Fn(&str) -> Option<Meta> + Sync),
    /// The name of the revision that pods are updated from.
    pub(super) current: &'a str,
    /// The name of the revision that pods are updated to.
    pub(super) update: &'a str,
    /// Collisions of revisions' names so far.
    pub(super) collisions: i32,
    /// The current time.
    pub(super) now: Timestamp,
}

/// One write to a pod.
#[derive(Debug, Clone)]
pub(super) enum PodStep {
    /// Create the claim of this template.
    CreateClaim(usize),
    /// Stop: claims that the pod needs are being deleted. Whether it is the pod's
    /// creation that fails for that.
    AwaitClaims { names: Vec<Text>, creating: bool },
    /// Create the pod at this revision.
    CreatePod { revision: Text },
    /// Replace the owners of a claim.
    SetClaimOwners { claim: Box<Meta>, owners: NewOwners },
    /// Give the pod its labels and volumes.
    UpdatePod(Arc<Pod>),
    /// Tell users that the owners of the pod's claims were updated.
    ReportUpdate,
    /// Delete the pod.
    DeletePod(Arc<Pod>),
}

/// The steps for one pod, in order.
#[derive(Debug, Clone)]
pub(super) struct PodWork {
    pub(super) pod: Text,
    pub(super) ordinal: i32,
    pub(super) steps: Vec<PodStep>,
}

/// One write; actions run in order.
#[derive(Debug, Clone)]
pub(super) enum StatefulSetAction {
    /// Work on pods: one after the other, or all at once if the set is parallel. After a
    /// failure no further work is started.
    Work(Vec<PodWork>),
    /// Write this status.
    Status(StatefulSetStatus),
    /// Look again after this time, when a pod will have become available.
    Wake(Duration),
}

/// Returns the pods that the set adopts, those that it releases, and the resulting pods
/// of the set.
pub(super) fn claim_pods(
    set: &StatefulSet,
    pods: &[Arc<Pod>],
) -> (Vec<(AdoptionDecision, Arc<Pod>)>, Vec<Arc<Pod>>) {
    let mut changes = Vec::new();
    let mut own = Vec::new();
    for pod in pods {
        let matches = set
            .spec
            .selector
            .matches(|key| pod.metadata.labels.get(key))
            && identity::is_member(set, pod);
        let claim = ownership::claim(&set.metadata, &pod.metadata, matches);
        match claim {
            AdoptionDecision::Keep => own.push(Arc::clone(pod)),
            AdoptionDecision::Adopt => {
                changes.push((claim, Arc::clone(pod)));
                own.push(Arc::clone(pod));
            }
            AdoptionDecision::Release => changes.push((claim, Arc::clone(pod))),
            AdoptionDecision::Ignore => {}
        }
    }
    (changes, own)
}

/// Decides what to do now. The status assumes that all work succeeds; after a failure,
/// [`status`] returns what to write instead.
pub(super) fn decide(snapshot: &StatefulSetSnapshot<'_>) -> Vec<StatefulSetAction> {
    let mut plan = SetPlan::new(snapshot);
    let mut status = status(snapshot);
    if !snapshot.set.metadata.is_terminating() && plan.scale() {
        status.current_replicas -= plan.update();
    }
    complete_update(snapshot.set, &mut status);
    let mut actions: Vec<StatefulSetAction> = plan
        .phases
        .into_iter()
        .filter(|phase| !phase.is_empty())
        .map(StatefulSetAction::Work)
        .collect();
    actions.extend(changed_status(snapshot.set, status).map(StatefulSetAction::Status));
    actions.extend(wake(snapshot).map(StatefulSetAction::Wake));
    actions
}

/// The status, if it differs from the one that the set has.
pub(super) fn changed_status(
    set: &StatefulSet,
    status: StatefulSetStatus,
) -> Option<StatefulSetStatus> {
    // A count of collisions alone is written with whatever they lead to.
    let known = StatefulSetStatus {
        collision_count: status.collision_count,
        observed_generation: set
            .status
            .observed_generation
            .max(status.observed_generation),
        ..set.status.clone()
    };
    let is_newer = status.observed_generation > set.status.observed_generation;
    (is_newer || known != status).then_some(status)
}

/// The status as the pods are now.
pub(super) fn status(snapshot: &StatefulSetSnapshot<'_>) -> StatefulSetStatus {
    let set = snapshot.set;
    let mut status = StatefulSetStatus {
        observed_generation: set.metadata.generation,
        current_revision: snapshot.current.into(),
        update_revision: snapshot.update.into(),
        collision_count: Some(snapshot.collisions),
        ..StatefulSetStatus::default()
    };
    // of a name that no ordinal has, upstream counts a pod only while the set goes
    let counted =
        |pod: &&Arc<Pod>| set.metadata.is_terminating() || identity::ordinal(pod).is_some();
    for pod in snapshot.pods.iter().filter(counted) {
        status.replicas += 1;
        if is_running_and_ready(pod) {
            status.ready_replicas += 1;
            if pod.is_available(set.spec.min_ready_seconds, snapshot.now) {
                status.available_replicas += 1;
            }
        }
        if !pod.metadata.is_terminating() {
            let revision = revision(pod);
            status.current_replicas += i32::from(revision == snapshot.current);
            status.updated_replicas += i32::from(revision == snapshot.update);
        }
    }
    status
}

/// When all pods have the update revision, it becomes the current one.
pub(super) fn complete_update(set: &StatefulSet, status: &mut StatefulSetStatus) {
    let replicas = identity::replicas(set);
    if set.spec.update_strategy.r#type == "RollingUpdate"
        && status.updated_replicas == replicas
        && status.ready_replicas == replicas
        && status.replicas == replicas
    {
        status.current_replicas = status.updated_replicas;
        status.current_revision = status.update_revision.clone();
    }
}

fn wake(snapshot: &StatefulSetSnapshot<'_>) -> Option<Duration> {
    let min_ready = snapshot.set.spec.min_ready_seconds;
    let left = |pod: &Arc<Pod>| pod.available_in(min_ready, snapshot.now);
    let next = snapshot.pods.iter().filter_map(left).min()?;
    Some(Duration::from_millis(u64::try_from(next).ok()?))
}

fn revision(pod: &Pod) -> &str {
    pod.metadata.labels.get(POD_REVISION_LABEL).unwrap_or("")
}

fn is_running_and_ready(pod: &Pod) -> bool {
    pod.status.phase == Phase::Running && pod.is_ready()
}

/// Pods by their role in the set, and the work on them.
struct SetPlan<'a> {
    snapshot: &'a StatefulSetSnapshot<'a>,
    /// One for each ordinal in range; `None` where the pod is missing.
    replicas: Vec<Option<&'a Arc<Pod>>>,
    /// Those out of range, the highest ordinal first.
    condemned: Vec<(i32, &'a Arc<Pod>)>,
    /// One pod after the other, each when the ones before are available.
    is_ordered: bool,
    /// Whether a pod of this index in `replicas` is deleted because it ended.
    ended: Vec<usize>,
    phases: Vec<Vec<PodWork>>,
}

impl<'a> SetPlan<'a> {
    fn new(snapshot: &'a StatefulSetSnapshot<'a>) -> Self {
        let set = snapshot.set;
        let start = set.spec.ordinals.start;
        let count = usize::try_from(identity::replicas(set)).unwrap_or(0);
        let mut replicas = vec![None; count];
        let mut condemned = Vec::new();
        for pod in snapshot.pods {
            let Some(ordinal) = identity::ordinal(pod) else {
                continue;
            };
            let index = i64::from(ordinal) - i64::from(start);
            let slot = usize::try_from(index)
                .ok()
                .and_then(|index| replicas.get_mut(index));
            match slot {
                Some(slot) => *slot = Some(pod),
                None => condemned.push((ordinal, pod)),
            }
        }
        condemned.sort_by_key(|(ordinal, _)| std::cmp::Reverse(*ordinal));
        Self {
            snapshot,
            replicas,
            condemned,
            is_ordered: set.spec.pod_management_policy != "Parallel",
            ended: Vec::new(),
            phases: Vec::new(),
        }
    }

    fn is_available(&self, pod: &Pod) -> bool {
        let min_ready = self.snapshot.set.spec.min_ready_seconds;
        pod.is_available(min_ready, self.snapshot.now)
    }

    fn is_unavailable(&self, replica: Option<&Arc<Pod>>) -> bool {
        replica.is_none_or(|pod| !self.is_available(pod) || pod.metadata.is_terminating())
    }

    fn ordinal_of(&self, index: usize) -> i32 {
        let start = self.snapshot.set.spec.ordinals.start;
        start.saturating_add(i32::try_from(index).unwrap_or(i32::MAX))
    }

    /// Creates missing pods and deletes surplus ones. Returns `false` if the update has
    /// to wait.
    fn scale(&mut self) -> bool {
        let mut phase = Vec::new();
        for index in 0..self.replicas.len() {
            let (steps, goes_on) = self.replica(index);
            let ordinal = self.ordinal_of(index);
            push(&mut phase, self.snapshot.set, ordinal, steps);
            if !goes_on && self.is_ordered {
                self.phases.push(phase);
                return false;
            }
        }
        self.phases.push(phase);
        self.fix_condemned_claims();
        self.delete_condemned()
    }

    /// Returns the steps for the pod of an index, and whether later pods may proceed.
    fn replica(&mut self, index: usize) -> (Vec<PodStep>, bool) {
        let ordinal = self.ordinal_of(index);
        let Some(pod) = self.replicas.get(index).copied().flatten() else {
            return (self.create(ordinal), false);
        };
        if pod.is_terminal() {
            if pod.metadata.is_terminating() {
                return (Vec::new(), false);
            }
            self.ended.push(index);
            return (vec![PodStep::DeletePod(Arc::clone(pod))], false);
        }
        let owner = PodOwner::from_meta(&pod.metadata, ordinal);
        let mut steps = Vec::new();
        if pod.status.phase == Phase::Pending {
            if !self.create_claims(ordinal, false, &mut steps) {
                return (steps, false);
            }
            self.set_claim_owners(&owner, &mut steps);
        }
        let is_settled =
            !pod.metadata.is_terminating() && is_running_and_ready(pod) && self.is_available(pod);
        if self.is_ordered && !is_settled {
            return (steps, false);
        }
        let set = self.snapshot.set;
        let is_pending = pod.status.phase == Phase::Pending;
        let has_storage = identity::storage_matches(set, pod);
        let is_conformant = has_storage && identity::identity_matches(set, pod);
        if !is_pending {
            if !has_storage && !self.create_claims(ordinal, false, &mut steps) {
                return (steps, false);
            }
            if self.set_claim_owners(&owner, &mut steps) && is_conformant {
                steps.push(PodStep::ReportUpdate);
            }
        }
        if !is_conformant {
            steps.push(PodStep::UpdatePod(Arc::clone(pod)));
        }
        (steps, true)
    }

    fn create(&self, ordinal: i32) -> Vec<PodStep> {
        let set = self.snapshot.set;
        let owner = PodOwner::absent(set, ordinal);
        let is_stale = |claim: Meta| retention::is_stale(set, &owner, &claim);
        if self.claims(ordinal).any(is_stale) {
            return Vec::new();
        }
        let mut steps = Vec::new();
        if self.create_claims(ordinal, true, &mut steps) {
            let revision = self.revision_of(ordinal).into();
            steps.push(PodStep::CreatePod { revision });
            self.set_claim_owners(&owner, &mut steps);
        }
        steps
    }

    /// The revision that a new pod gets.
    fn revision_of(&self, ordinal: i32) -> &'a str {
        let set = self.snapshot.set;
        let strategy = &set.spec.update_strategy;
        let kept = match &strategy.rolling_update {
            Some(rolling) => rolling.partition.unwrap_or(0),
            None if strategy.r#type == "RollingUpdate" => set.status.current_replicas,
            None => 0,
        };
        if i64::from(ordinal) < i64::from(set.spec.ordinals.start) + i64::from(kept) {
            self.snapshot.current
        } else {
            self.snapshot.update
        }
    }

    /// The claims of an ordinal that exist.
    fn claims(&self, ordinal: i32) -> impl Iterator<Item = Meta> {
        let (set, find) = (self.snapshot.set, self.snapshot.claim);
        let templates = set.spec.volume_claim_templates.iter();
        templates.filter_map(move |t| find(&identity::claim_name(t, set, ordinal)))
    }

    /// Creates the missing claims of an ordinal. Returns `false` if one of them is being
    /// deleted.
    fn create_claims(&self, ordinal: i32, creating: bool, steps: &mut Vec<PodStep>) -> bool {
        let set = self.snapshot.set;
        let mut leaving = Vec::new();
        for (at, template) in set.spec.volume_claim_templates.iter().enumerate() {
            let name = identity::claim_name(template, set, ordinal);
            match (self.snapshot.claim)(&name) {
                None => steps.push(PodStep::CreateClaim(at)),
                Some(claim) if claim.is_terminating() => leaving.push(name),
                Some(_) => {}
            }
        }
        if leaving.is_empty() {
            return true;
        }
        steps.push(PodStep::AwaitClaims {
            names: leaving,
            creating,
        });
        false
    }

    /// Sets the owners of a pod's claims by the retention policy. Whether any changes.
    fn set_claim_owners(&self, owner: &PodOwner, steps: &mut Vec<PodStep>) -> bool {
        let before = steps.len();
        for claim in self.claims(owner.ordinal) {
            if let Some(owners) = retention::new_owners(self.snapshot.set, owner, &claim) {
                steps.push(PodStep::SetClaimOwners {
                    claim: Box::new(claim),
                    owners,
                });
            }
        }
        steps.len() > before
    }

    fn fix_condemned_claims(&mut self) {
        let mut phase = Vec::new();
        for (ordinal, pod) in &self.condemned {
            let mut steps = Vec::new();
            self.set_claim_owners(&PodOwner::from_meta(&pod.metadata, *ordinal), &mut steps);
            push(&mut phase, self.snapshot.set, *ordinal, steps);
        }
        self.phases.push(phase);
    }

    /// Deletes pods out of range. In ordered mode that is one pod, and only if those of
    /// lower ordinals are available, unless it is itself the lowest unavailable one.
    fn delete_condemned(&mut self) -> bool {
        let unavailable = |(_, pod): &&(i32, &Arc<Pod>)| self.is_unavailable(Some(pod));
        let replicas_fail = self.replicas.iter().any(|r| self.is_unavailable(*r));
        let lowest = self.condemned.iter().rev().find(unavailable);
        let first_unavailable = lowest
            .map(|(ordinal, _)| *ordinal)
            .filter(|_| !replicas_fail);
        let mut phase = Vec::new();
        for (ordinal, pod) in &self.condemned {
            if pod.metadata.is_terminating() {
                if self.is_ordered {
                    self.phases.push(phase);
                    return false;
                }
                continue;
            }
            let is_settled = is_running_and_ready(pod) && self.is_available(pod);
            if self.is_ordered && !is_settled && first_unavailable != Some(*ordinal) {
                self.phases.push(phase);
                return false;
            }
            let steps = vec![PodStep::DeletePod(Arc::clone(pod))];
            push(&mut phase, self.snapshot.set, *ordinal, steps);
            if self.is_ordered {
                self.phases.push(phase);
                return false;
            }
        }
        self.phases.push(phase);
        true
    }

    /// Deletes pods of another revision than the update's, from the highest ordinal
    /// down. Returns how many.
    fn update(&mut self) -> i32 {
        let set = self.snapshot.set;
        let strategy = &set.spec.update_strategy;
        if strategy.r#type == "OnDelete" {
            return 0;
        }
        let rolling = strategy.rolling_update.as_ref();
        let partition = rolling.and_then(|rolling| rolling.partition).unwrap_or(0);
        let partition = usize::try_from(partition).unwrap_or(0);
        let budget = rolling
            .and_then(|rolling| rolling.max_unavailable.as_ref())
            .map(|most| {
                most.scaled(identity::replicas(set), false)
                    .unwrap_or(1)
                    .max(1)
            });
        let mut victims = Vec::new();
        let is_old = |index: &usize| {
            self.replicas
                .get(*index)
                .copied()
                .flatten()
                .is_some_and(|pod| {
                    revision(pod) != self.snapshot.update && !pod.metadata.is_terminating()
                })
        };
        let from_the_top = (partition..self.replicas.len()).rev();
        match budget {
            Some(most) => {
                let down = self
                    .replicas
                    .iter()
                    .filter(|r| self.is_unavailable(**r))
                    .count();
                let allowed = usize::try_from(most).unwrap_or(0).saturating_sub(down);
                victims.extend(from_the_top.filter(is_old).take(allowed));
            }
            None => {
                for index in from_the_top {
                    if is_old(&index) {
                        victims.push(index);
                        break;
                    }
                    if self.is_unavailable(self.replicas.get(index).copied().flatten()) {
                        break;
                    }
                }
            }
        }
        let mut phase = Vec::new();
        let mut deleted = 0;
        for index in victims {
            let Some(pod) = self.replicas.get(index).copied().flatten() else {
                continue;
            };
            deleted += 1;
            if !self.ended.contains(&index) {
                let steps = vec![PodStep::DeletePod(Arc::clone(pod))];
                push(&mut phase, set, self.ordinal_of(index), steps);
            }
        }
        self.phases.push(phase);
        deleted
    }
}

fn push(phase: &mut Vec<PodWork>, set: &StatefulSet, ordinal: i32, steps: Vec<PodStep>) {
    if !steps.is_empty() {
        phase.push(PodWork {
            pod: identity::pod_name(set, ordinal),
            ordinal,
            steps,
        });
    }
}
