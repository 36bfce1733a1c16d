//! Decides what a Deployment needs: ReplicaSets to create, scale and remove; its status.
//!
//! The decision updates a working copy of the sizes, so that one decision holds all steps
//! that need no response of the cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::annotations::{self, DESIRED, MAX, REVISION};
use super::arithmetic::{RolloutBounds, new_set_size, proportion};
use crate::hash;
use crate::views::{
    Condition, Deployment, DeploymentStatus, LabelSelector, POD_TEMPLATE_HASH, Pod, ReplicaSet,
    Text, upsert,
};

/// The input of one decision.
#[derive(Debug, Clone, Copy)]
pub struct DeploymentSnapshot<'a> {
    /// The Deployment.
    pub deployment: &'a Deployment,
    /// The ReplicaSets that it controls.
    pub sets: &'a [Arc<ReplicaSet>],
    /// The pods that those control, whatever their phase; read for `Recreate`
    /// only.
    pub pods: &'a [Arc<Pod>],
    /// The current time, in whole seconds.
    pub now: Timestamp,
}

/// One write; actions run in order. When one fails, later ones wait for the next decision.
#[derive(Debug, Clone, PartialEq)]
pub enum DeploymentAction {
    /// Create the ReplicaSet of a new template.
    CreateSet(Box<NewSet>),
    /// Change a ReplicaSet.
    ChangeSet(SetChange),
    /// Delete an old, empty ReplicaSet.
    DeleteSet {
        /// Its name.
        name: Text,
        /// Its uid.
        uid: Text,
    },
    /// Write the status, and the revision annotation with it when it changed.
    Status {
        /// The whole status.
        status: DeploymentStatus,
        /// The new `deployment.kubernetes.io/revision`.
        revision: Option<Text>,
    },
    /// Look again after this time, when the progress deadline will be over.
    Wake(Duration),
}

/// A ReplicaSet to create.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSet {
    /// Deterministic, so that a second attempt finds the first.
    pub name: Text,
    /// The value of `pod-template-hash`.
    pub hash: Text,
    /// Its size.
    pub replicas: i32,
    /// Its annotations.
    pub annotations: BTreeMap<Text, Text>,
    /// The Deployment's selector with the hash.
    pub selector: LabelSelector,
    /// The Deployment's template with the hash.
    pub template: Value,
    /// The Deployment's `minReadySeconds`.
    pub min_ready_seconds: i32,
}

/// A change of a ReplicaSet, at the revision that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetChange {
    /// Its name.
    pub name: Text,
    /// Its uid.
    pub uid: Text,
    /// The revision that the decision rests on.
    pub resource_version: Text,
    /// Its size before and after, when that changes.
    pub scale: Option<(i32, i32)>,
    /// Annotations to set.
    pub annotations: BTreeMap<Text, Text>,
    /// A changed `minReadySeconds`.
    pub min_ready_seconds: Option<i32>,
}

/// The working copy of a ReplicaSet.
#[derive(Debug, Clone)]
struct WorkingReplicaSet<'a> {
    view: Option<&'a ReplicaSet>,
    name: Text,
    replicas: i32,
    available: i32,
    created: Option<Timestamp>,
    annotations: BTreeMap<Text, Text>,
    min_ready_seconds: Option<i32>,
}

impl<'a> WorkingReplicaSet<'a> {
    fn of(view: &'a ReplicaSet) -> Self {
        Self {
            view: Some(view),
            name: view.metadata.name.clone(),
            replicas: view.replicas(),
            // more cannot stay: the set may not have seen its new size yet
            available: view.status.available_replicas.min(view.replicas()),
            created: view.metadata.creation_timestamp,
            annotations: view
                .metadata
                .annotations
                .iter()
                .map(|(k, v)| (k.into(), v.into()))
                .collect(),
            min_ready_seconds: None,
        }
    }

    fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(Text::as_str)
    }

    fn number(&self, key: &str) -> Option<i32> {
        self.annotation(key)?.parse().ok().filter(|n: &i32| *n >= 0)
    }

    fn revision(&self) -> Option<i64> {
        self.annotation(REVISION)
            .map_or(Some(0), |r| r.parse().ok())
    }

    fn change(&self) -> Option<SetChange> {
        let view = self.view?;
        let annotations: BTreeMap<Text, Text> = self
            .annotations
            .iter()
            .filter(|(k, v)| view.metadata.annotations.get(k) != Some(v.as_str()))
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect();
        let scale = (view.replicas() != self.replicas).then(|| (view.replicas(), self.replicas));
        (scale.is_some() || !annotations.is_empty() || self.min_ready_seconds.is_some()).then(
            || SetChange {
                name: view.metadata.name.clone(),
                uid: view.metadata.uid.clone(),
                resource_version: view.metadata.resource_version.clone(),
                scale,
                annotations,
                min_ready_seconds: self.min_ready_seconds,
            },
        )
    }
}

/// Decides what to do now.
#[must_use]
pub fn decide(snapshot: &DeploymentSnapshot<'_>) -> Vec<DeploymentAction> {
    let mut plan = RolloutPlan::new(snapshot);
    if snapshot.deployment.metadata.is_terminating() {
        plan.sync_revision(false);
        plan.finish(false);
        return plan.actions;
    }
    plan.note_pause();
    if snapshot.deployment.spec.paused || plan.is_scaling() {
        plan.sync_revision(false);
        plan.scale();
        if snapshot.deployment.spec.paused {
            plan.clean_up();
        }
        plan.finish(false);
    } else if plan.bounds.rolling {
        plan.roll();
        plan.finish(true);
    } else {
        plan.recreate();
        plan.finish(true);
    }
    plan.actions
}

struct RolloutPlan<'a> {
    snapshot: DeploymentSnapshot<'a>,
    bounds: RolloutBounds,
    /// Old sets, oldest first.
    old: Vec<WorkingReplicaSet<'a>>,
    new: Option<WorkingReplicaSet<'a>>,
    status: DeploymentStatus,
    revision: Option<Text>,
    created: Option<NewSet>,
    deletions: Vec<DeploymentAction>,
    actions: Vec<DeploymentAction>,
}

impl<'a> RolloutPlan<'a> {
    fn new(snapshot: &DeploymentSnapshot<'a>) -> Self {
        let deployment = snapshot.deployment;
        let mut sets: Vec<&ReplicaSet> = snapshot.sets.iter().map(AsRef::as_ref).collect();
        sets.sort_by(|a, b| {
            (a.metadata.creation_timestamp, &a.metadata.name)
                .cmp(&(b.metadata.creation_timestamp, &b.metadata.name))
        });
        // of several with the same template the oldest counts
        let at = sets
            .iter()
            .position(|set| set.spec.template.digest == deployment.spec.template.digest);
        let new = at.map(|at| WorkingReplicaSet::of(sets.remove(at)));
        Self {
            snapshot: *snapshot,
            bounds: RolloutBounds::for_deployment(deployment),
            old: sets.into_iter().map(WorkingReplicaSet::of).collect(),
            new,
            status: deployment.status.clone(),
            revision: None,
            created: None,
            deletions: Vec::new(),
            actions: Vec::new(),
        }
    }

    fn deployment(&self) -> &'a Deployment {
        self.snapshot.deployment
    }

    fn has_deadline(&self) -> bool {
        self.deployment()
            .spec
            .progress_deadline_seconds
            .is_some_and(|seconds| seconds != i32::MAX)
    }

    fn progress(&mut self, status: &str, reason: &str, message: String) {
        let condition = progressing(status, reason, message, self.snapshot.now);
        upsert(&mut self.status.conditions, condition);
    }

    /// Records that a paused rollout is not expected to make progress.
    fn note_pause(&mut self) {
        if !self.has_deadline() {
            return;
        }
        let reason = Condition::find(&self.status.conditions, "Progressing")
            .map(|c| c.reason.clone())
            .unwrap_or_default();
        if reason == "ProgressDeadlineExceeded" {
            return;
        }
        let paused = self.deployment().spec.paused;
        if paused && reason != "DeploymentPaused" {
            self.progress("Unknown", "DeploymentPaused", "Deployment is paused".into());
        } else if !paused && reason == "DeploymentPaused" {
            self.progress(
                "Unknown",
                "DeploymentResumed",
                "Deployment is resumed".into(),
            );
        }
    }

    /// Returns whether the desired size changed since it was recorded on some active set.
    /// A `Recreate` with several active sets has to end the old ones instead.
    fn is_scaling(&self) -> bool {
        let active = self
            .old
            .iter()
            .chain(&self.new)
            .filter(|set| set.replicas > 0)
            .count();
        if !self.bounds.rolling && active > 1 {
            return false;
        }
        self.old
            .iter()
            .chain(&self.new)
            .filter(|set| set.replicas > 0)
            .filter_map(|set| set.number(DESIRED))
            .any(|desired| desired != self.bounds.replicas)
    }

    /// Gives the newest set the highest revision, and creates it if `create` is set.
    fn sync_revision(&mut self, create: bool) {
        let max_old = self
            .old
            .iter()
            .filter_map(WorkingReplicaSet::revision)
            .max()
            .unwrap_or(0);
        let revision = max_old.max(0) + 1;
        let deployment = self.deployment();
        if let Some(new) = &mut self.new {
            annotations::inherit(&mut new.annotations, &deployment.metadata, revision);
            if let Some(view) = new.view
                && view.spec.min_ready_seconds != deployment.spec.min_ready_seconds
            {
                new.min_ready_seconds = Some(deployment.spec.min_ready_seconds);
            }
            let name = new.name.clone();
            self.revision = new.annotations.get(REVISION).cloned();
            if self.has_deadline()
                && Condition::find(&self.status.conditions, "Progressing").is_none()
            {
                let message = format!("Found new replica set \"{name}\"");
                self.progress("True", "FoundNewReplicaSet", message);
            }
        } else if create {
            self.create_set(revision);
        }
    }

    fn create_set(&mut self, revision: i64) {
        let deployment = self.deployment();
        let mut template = deployment.spec.template.to_value();
        let hash = hash::template_hash(&template, deployment.status.collision_count);
        set_label(&mut template, POD_TEMPLATE_HASH, &hash);
        let mut selector = deployment.spec.selector.clone();
        selector
            .match_labels
            .insert(POD_TEMPLATE_HASH.into(), hash.as_str().into());
        let replicas = new_set_size(&self.bounds, self.total_replicas(), 0);
        let mut annotations = BTreeMap::new();
        annotations::inherit(&mut annotations, &deployment.metadata, revision);
        annotations::set_sizes(&mut annotations, &self.bounds);
        let name = set_name(&deployment.metadata.name, &hash);
        self.new = Some(WorkingReplicaSet {
            view: None,
            name: name.clone(),
            replicas,
            available: 0,
            created: Some(self.snapshot.now),
            annotations: annotations.clone(),
            min_ready_seconds: None,
        });
        self.revision = annotations.get(REVISION).cloned();
        if self.has_deadline() {
            let message = format!("Created new replica set \"{name}\"");
            self.progress("True", "NewReplicaSetCreated", message);
        }
        self.created = Some(NewSet {
            name,
            hash: hash.into(),
            replicas,
            annotations,
            selector,
            template,
            min_ready_seconds: deployment.spec.min_ready_seconds,
        });
    }

    fn total_replicas(&self) -> i32 {
        self.old
            .iter()
            .chain(&self.new)
            .map(|set| set.replicas)
            .sum()
    }

    fn total_available(&self) -> i32 {
        self.old
            .iter()
            .chain(&self.new)
            .map(|set| set.available)
            .sum()
    }

    /// A change of the wanted size, outside of a rollout or in the middle.
    fn scale(&mut self) {
        let bounds = self.bounds;
        let active = self
            .old
            .iter()
            .chain(&self.new)
            .filter(|set| set.replicas > 0)
            .count();
        if active <= 1 {
            let only = if active == 1 {
                self.old
                    .iter_mut()
                    .chain(&mut self.new)
                    .find(|set| set.replicas > 0)
            } else if self.new.is_some() {
                self.new.as_mut()
            } else {
                self.old.last_mut()
            };
            // also when only the noted size is old: it would call for scaling for ever
            if let Some(set) = only {
                resize(set, bounds.replicas, &bounds);
            }
            return;
        }
        let saturated = self.new.as_ref().is_some_and(|new| {
            new.replicas == bounds.replicas
                && new.number(DESIRED) == Some(bounds.replicas)
                && new.available == bounds.replicas
        });
        if saturated {
            for set in self.old.iter_mut().filter(|set| set.replicas > 0) {
                resize(set, 0, &bounds);
            }
            return;
        }
        if bounds.rolling {
            self.scale_in_proportion();
        }
    }

    fn scale_in_proportion(&mut self) {
        let bounds = self.bounds;
        let allowed = if bounds.replicas > 0 {
            bounds.replicas + bounds.max_surge
        } else {
            0
        };
        let to_add = allowed - self.total_replicas();
        let known_replicas = self.deployment().status.replicas;
        let mut sets: Vec<&mut WorkingReplicaSet<'_>> = self
            .old
            .iter_mut()
            .chain(&mut self.new)
            .filter(|set| set.replicas > 0)
            .collect();
        // largest first; among equals, grow the newer and shrink the older
        sets.sort_by(|a, b| {
            let by_age = a.created.cmp(&b.created).then_with(|| a.name.cmp(&b.name));
            b.replicas
                .cmp(&a.replicas)
                .then(if to_add > 0 { by_age.reverse() } else { by_age })
        });
        let mut added = 0;
        let mut sizes: Vec<i32> = sets
            .iter()
            .map(|set| {
                let before = set
                    .number(MAX)
                    .filter(|max| *max > 0)
                    .unwrap_or(known_replicas);
                let share = proportion(set.replicas, &bounds, before, to_add, added);
                added += share;
                set.replicas + share
            })
            .collect();
        if to_add != 0
            && let Some(first) = sizes.first_mut()
        {
            *first = (*first + to_add - added).max(0);
        }
        for (set, size) in sets.into_iter().zip(sizes) {
            resize(set, size, &bounds);
        }
    }

    fn roll(&mut self) {
        self.sync_revision(true);
        let bounds = self.bounds;
        let total = self.total_replicas();
        if let Some(new) = &mut self.new
            && new.replicas != bounds.replicas
        {
            let size = if new.replicas > bounds.replicas {
                bounds.replicas
            } else {
                new_set_size(&bounds, total, new.replicas)
            };
            if size != new.replicas {
                resize(new, size, &bounds);
                return;
            }
        }
        if self.shrink_old() {
            return;
        }
        if complete(self.deployment(), &self.deployment().status) {
            self.clean_up();
        }
    }

    /// Scales old sets down as far as availability allows.
    fn shrink_old(&mut self) -> bool {
        let bounds = self.bounds;
        let Some(new) = &self.new else { return false };
        if self.old.iter().all(|set| set.replicas == 0) {
            return false;
        }
        // A set that has not seen its size may be about to delete pods that it
        // still calls available. Its next status wakes us.
        let unobserved = |set: &ReplicaSet| {
            set.metadata.generation > set.status.observed_generation
                && !set.metadata.is_terminating()
        };
        if self.views().any(unobserved) {
            return false;
        }
        let min_available = bounds.replicas - bounds.max_unavailable;
        let new_unavailable = new.replicas - new.available;
        let room = self.total_replicas() - min_available - new_unavailable;
        if room <= 0 {
            return false;
        }
        // unhealthy pods can be removed without loss, and would block the rest
        let mut cleaned = 0;
        for set in self.old.iter_mut().filter(|set| set.replicas > 0) {
            if cleaned >= room {
                break;
            }
            let broken = (set.replicas - set.available).clamp(0, room - cleaned);
            if broken > 0 {
                resize(set, set.replicas - broken, &bounds);
                cleaned += broken;
            }
        }
        let surplus = self.total_available() - min_available;
        let mut shrunk = 0;
        for set in self.old.iter_mut().filter(|set| set.replicas > 0) {
            if shrunk >= surplus {
                break;
            }
            let step = set.replicas.min(surplus - shrunk);
            resize(set, set.replicas - step, &bounds);
            shrunk += step;
        }
        cleaned + shrunk > 0
    }

    fn recreate(&mut self) {
        self.sync_revision(false);
        let bounds = self.bounds;
        let mut shrunk = false;
        for set in self.old.iter_mut().filter(|set| set.replicas > 0) {
            resize(set, 0, &bounds);
            shrunk = true;
        }
        if shrunk || self.old_pods_live() {
            return;
        }
        if self.new.is_none() {
            self.sync_revision(true);
        }
        if let Some(new) = &mut self.new
            && new.replicas != bounds.replicas
        {
            resize(new, bounds.replicas, &bounds);
        }
        if complete(self.deployment(), &self.deployment().status) {
            self.clean_up();
        }
    }

    fn old_pods_live(&self) -> bool {
        let reported = self
            .old
            .iter()
            .filter_map(|set| set.view)
            .any(|set| set.status.replicas > 0);
        let new_uid = self
            .new
            .as_ref()
            .and_then(|set| set.view)
            .map(|set| &set.metadata.uid);
        reported
            || self.snapshot.pods.iter().any(|pod| {
                !pod.is_terminal() && pod.metadata.controller().map(|owner| &owner.uid) != new_uid
            })
    }

    /// Deletes old, empty sets beyond the history limit, lowest revision first.
    fn clean_up(&mut self) {
        let Some(limit) = self
            .deployment()
            .spec
            .revision_history_limit
            .filter(|limit| *limit != i32::MAX)
        else {
            return;
        };
        let mut sets: Vec<(&WorkingReplicaSet<'_>, &ReplicaSet)> = self
            .old
            .iter()
            .filter_map(|set| Some((set, set.view?)))
            .filter(|(_, view)| !view.metadata.is_terminating())
            .collect();
        let surplus = sets
            .len()
            .saturating_sub(usize::try_from(limit).unwrap_or(0));
        sets.sort_by_key(|(set, _)| set.revision().unwrap_or(0));
        let deletions = sets
            .into_iter()
            .take(surplus)
            .filter(|(set, view)| {
                view.status.replicas == 0
                    && set.replicas == 0
                    && view.replicas() == 0
                    && view.metadata.generation <= view.status.observed_generation
            })
            .map(|(_, view)| DeploymentAction::DeleteSet {
                name: view.metadata.name.clone(),
                uid: view.metadata.uid.clone(),
            })
            .collect();
        self.deletions = deletions;
    }

    /// Puts the actions in order and ends with the status. Growth comes before
    /// shrinking, so that a failure in between leaves more pods, not fewer.
    fn finish(&mut self, rollout: bool) {
        if let Some(new) = self.created.take() {
            let replicas = self.new.as_ref().map_or(new.replicas, |set| set.replicas);
            self.actions
                .push(DeploymentAction::CreateSet(Box::new(NewSet {
                    replicas,
                    ..new
                })));
        }
        let changes = self
            .new
            .iter()
            .chain(&self.old)
            .filter_map(WorkingReplicaSet::change);
        self.actions
            .extend(changes.map(DeploymentAction::ChangeSet));
        self.actions.append(&mut self.deletions);

        let mut status = self.calculate();
        if rollout {
            self.judge_progress(&mut status);
        }
        let known = self.deployment().metadata.annotations.get(REVISION);
        let revision = self.revision.take().filter(|r| known != Some(r.as_str()));
        let unchanged = status == self.deployment().status;
        if unchanged && rollout {
            self.actions
                .extend(self.deadline_check(&status).map(DeploymentAction::Wake));
        }
        if !unchanged || revision.is_some() {
            self.actions
                .push(DeploymentAction::Status { status, revision });
        }
    }

    fn views(&self) -> impl Iterator<Item = &'a ReplicaSet> {
        self.old.iter().chain(&self.new).filter_map(|set| set.view)
    }

    fn calculate(&self) -> DeploymentStatus {
        let deployment = self.deployment();
        let sum = |field: fn(&ReplicaSet) -> i32| self.views().map(field).sum::<i32>();
        let available = sum(|set| set.status.available_replicas);
        let mut terminating = Some(0);
        for set in self.views() {
            match set.status.terminating_replicas {
                Some(count) => terminating = terminating.map(|sum: i32| sum + count),
                None if set.status.observed_generation == 0 => {}
                // a set that does not tell makes the sum unknown
                None => terminating = None,
            }
        }
        let mut status = DeploymentStatus {
            observed_generation: deployment.metadata.generation,
            replicas: sum(|set| set.status.replicas),
            updated_replicas: self
                .new
                .as_ref()
                .and_then(|set| set.view)
                .map_or(0, |set| set.status.replicas),
            ready_replicas: sum(|set| set.status.ready_replicas),
            available_replicas: available,
            unavailable_replicas: (self.total_replicas() - available).max(0),
            terminating_replicas: terminating,
            collision_count: self.status.collision_count,
            conditions: self.status.conditions.clone(),
        };
        let (value, reason, message) =
            if available >= self.bounds.replicas - self.bounds.max_unavailable {
                (
                    "True",
                    "MinimumReplicasAvailable",
                    "Deployment has minimum availability.",
                )
            } else {
                (
                    "False",
                    "MinimumReplicasUnavailable",
                    "Deployment does not have minimum availability.",
                )
            };
        let mut condition = Condition::new("Available", value, reason, message, self.snapshot.now);
        condition.last_update_time = Some(self.snapshot.now);
        upsert(&mut status.conditions, condition);
        status
    }

    fn judge_progress(&self, status: &mut DeploymentStatus) {
        let deployment = self.deployment();
        let now = self.snapshot.now;
        let current = Condition::find(&self.status.conditions, "Progressing");
        if !self.has_deadline() {
            status.conditions.retain(|c| c.r#type != "Progressing");
        }
        let settled = status.replicas == status.updated_replicas
            && current.is_some_and(|c| c.reason == "NewReplicaSetAvailable");
        if self.has_deadline() && !settled {
            let subject = self.new.as_ref().map_or_else(
                || format!("Deployment \"{}\"", deployment.metadata.name),
                |set| format!("ReplicaSet \"{}\"", set.name),
            );
            if complete(deployment, status) {
                let message = format!("{subject} has successfully progressed.");
                let done = progressing("True", "NewReplicaSetAvailable", message, now);
                upsert(&mut status.conditions, done);
            } else if progressed(&deployment.status, status) {
                let message = format!("{subject} is progressing.");
                let mut step = progressing("True", "ReplicaSetUpdated", message, now);
                // the time of the last progress must move even if all else stays
                if let Some(current) = current.filter(|c| c.status == "True") {
                    step.last_transition_time = current.last_transition_time;
                }
                status.conditions.retain(|c| c.r#type != "Progressing");
                status.conditions.push(step);
            } else if self.timed_out(status) {
                let message = format!("{subject} has timed out progressing.");
                let late = progressing("False", "ProgressDeadlineExceeded", message, now);
                upsert(&mut status.conditions, late);
            }
        }
        let failure_of =
            |set: &ReplicaSet| Condition::find(&set.status.conditions, "ReplicaFailure").cloned();
        let newest = self
            .new
            .as_ref()
            .and_then(|set| set.view)
            .and_then(failure_of);
        match newest.or_else(|| self.views().find_map(failure_of)) {
            Some(mut failure) => {
                failure.last_update_time = failure.last_transition_time;
                upsert(&mut status.conditions, failure);
            }
            None => status.conditions.retain(|c| c.r#type != "ReplicaFailure"),
        }
    }

    fn timed_out(&self, status: &DeploymentStatus) -> bool {
        let Some(condition) = Condition::find(&status.conditions, "Progressing") else {
            return false;
        };
        match condition.reason.as_str() {
            "NewReplicaSetAvailable" => false,
            "ProgressDeadlineExceeded" => true,
            _ => self.deadline_left(condition).is_some_and(|left| left < 0),
        }
    }

    /// Seconds until the deadline, negative when it is over.
    fn deadline_left(&self, condition: &Condition) -> Option<i64> {
        let deadline = i64::from(self.deployment().spec.progress_deadline_seconds?);
        let from = condition.last_update_time?.as_second();
        Some(from + deadline - self.snapshot.now.as_second())
    }

    fn deadline_check(&self, status: &DeploymentStatus) -> Option<Duration> {
        let condition = Condition::find(&self.deployment().status.conditions, "Progressing")?;
        if !self.has_deadline()
            || complete(self.deployment(), status)
            || condition.reason == "ProgressDeadlineExceeded"
        {
            return None;
        }
        let left = self.deadline_left(condition)?.max(0);
        // one more second: the deadline must be over, not just reached
        u64::try_from(left)
            .ok()
            .map(|left| Duration::from_secs(left + 1))
    }
}

fn progressing(status: &str, reason: &str, message: String, now: Timestamp) -> Condition {
    let mut condition = Condition::new("Progressing", status, reason, message, now);
    condition.last_update_time = Some(now);
    condition
}

/// Sets the size in the working copy, and the corresponding annotations.
fn resize(set: &mut WorkingReplicaSet<'_>, replicas: i32, bounds: &RolloutBounds) {
    set.replicas = replicas;
    set.available = set.available.min(replicas);
    annotations::set_sizes(&mut set.annotations, bounds);
}

fn complete(deployment: &Deployment, status: &DeploymentStatus) -> bool {
    let replicas = deployment.spec.replicas.unwrap_or(1);
    status.updated_replicas == replicas
        && status.replicas == replicas
        && status.available_replicas == replicas
        && status.observed_generation >= deployment.metadata.generation
}

fn progressed(old: &DeploymentStatus, new: &DeploymentStatus) -> bool {
    new.updated_replicas > old.updated_replicas
        || new.replicas - new.updated_replicas < old.replicas - old.updated_replicas
        || new.ready_replicas > old.ready_replicas
        || new.available_replicas > old.available_replicas
}

/// Returns `<deployment>-<hash>`, truncated to the length limit of names.
fn set_name(deployment: &str, hash: &str) -> Text {
    const LIMIT: usize = 253;
    let room = LIMIT.saturating_sub(hash.len() + 1);
    let prefix = deployment.get(..room).unwrap_or(deployment);
    format!("{prefix}-{hash}").into()
}

fn set_label(template: &mut Value, key: &str, value: &str) {
    if !template["metadata"]["labels"].is_object() {
        template["metadata"]["labels"] = Value::Object(serde_json::Map::new());
    }
    template["metadata"]["labels"][key] = Value::String(value.to_owned());
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
