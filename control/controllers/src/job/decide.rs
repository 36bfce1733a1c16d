//! Decides whether a Job has finished, and which pods to create or delete. Checks are in
//! upstream's order, since several conditions can hold at a time: earlier decisions,
//! failure, success.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use super::backoff::{self, BackoffRecord};
use super::indexes::Indexes;
use super::policy::{self, PodFailureVerdict};
use super::{FINALIZER, MANY};
use crate::views::{Condition, Job, JobStatus, Phase, Pod, Text, pod_deletion_order};

const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
const IGNORED: &str = "batch.kubernetes.io/job-index-ignored-failure-count";

/// The input of one decision.
#[derive(Debug, Clone, Copy)]
pub struct JobSnapshot<'a> {
    /// The Job.
    pub job: &'a Job,
    /// Its pods, those that it adopts among them.
    pub pods: &'a [Arc<Pod>],
    /// Whether the cache has seen all pods that were made and deleted.
    pub settled: bool,
    /// Pods, by uid, whose finalizer was taken away, which the cache does not show yet.
    pub released: &'a HashSet<Text>,
    /// Failures until now.
    pub record: BackoffRecord,
    /// The current time, in whole seconds.
    pub now: Timestamp,
}

/// Pods to create and to delete.
#[derive(Debug, Clone, Default)]
pub enum Work {
    /// Nothing.
    #[default]
    Nothing,
    /// The Job has finished: these are deleted, but not forgotten before they are
    /// counted.
    End(Vec<Arc<Pod>>),
    /// These are too many, and do not count.
    Delete(Vec<Arc<Pod>>),
    /// So many more, of no index.
    Create(usize),
    /// One for each of these indexes, with its annotations.
    CreateIndexed(Vec<NewIndex>),
}

/// A pod of an index that is to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewIndex {
    /// The index.
    pub index: i32,
    /// The failures of its pods, where they are counted: those that count, and those that
    /// are ignored.
    pub failures: Option<(i32, i32)>,
}

/// The result of a decision.
#[derive(Debug, Clone, Default)]
pub struct JobDecision {
    /// How the Job ends: `FailureTarget` or `SuccessCriteriaMet`, or `Failed` after that
    /// was reported.
    pub finished: Option<Condition>,
    /// The work on pods.
    pub work: Work,
    /// Pods that run or are to.
    pub active: i32,
    /// The ready ones among them.
    pub ready: i32,
    /// Pods being deleted.
    pub terminating: i32,
    /// Pods that succeeded, counted or not.
    pub succeeded: i32,
    /// Indexes that were known to have succeeded.
    pub known: Indexes,
    /// Indexes that have succeeded.
    pub done: Indexes,
    /// Indexes that have failed, where that is counted.
    pub failed: Option<Indexes>,
    /// Failed pods that stay until others replace them, by uid.
    pub held: HashSet<Text>,
    /// Failures until now.
    pub record: BackoffRecord,
    /// When its time began.
    pub start_time: Option<Timestamp>,
    /// Whether pods were looked at to be made or deleted.
    pub managed: bool,
    /// Whether it had finished when pods were looked at.
    pub ended: bool,
    /// Look again after this time.
    pub wake: Option<Duration>,
}

/// Returns a pod's index; `None` if it has no valid one.
#[must_use]
pub fn index_of(pod: &Pod) -> Option<i32> {
    let index: i32 = pod.metadata.annotations.get(INDEX)?.parse().ok()?;
    (index >= 0).then_some(index)
}

/// Whether a pod is not counted yet.
#[must_use]
pub fn is_tracked(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().any(|one| one == FINALIZER)
}

/// Whether a pod counts as failed: one that is being deleted does, unless the Job
/// waits for its end.
#[must_use]
pub fn is_failed(pod: &Pod, job: &Job) -> bool {
    match pod.status.phase {
        Phase::Failed => true,
        Phase::Succeeded => false,
        _ => !job.replaces_only_failed() && pod.metadata.is_terminating(),
    }
}

/// A condition of a Job that became so now.
#[must_use]
pub fn condition(kind: &str, reason: &str, message: &str, now: Timestamp) -> Condition {
    Condition {
        last_probe_time: Some(now),
        ..Condition::new(kind, "True", reason, message, now)
    }
}

/// Decides what to do now.
#[must_use]
pub fn decide(snapshot: &JobSnapshot<'_>) -> JobDecision {
    let JobSnapshot { job, pods, now, .. } = *snapshot;
    let active: Vec<&Arc<Pod>> = pods.iter().filter(|pod| pod.is_active()).collect();
    let count = |wanted: fn(&Pod) -> bool| sum(pods.iter().filter(|pod| wanted(pod)).count());
    let uncounted = job
        .status
        .uncounted_terminated_pods
        .clone()
        .unwrap_or_default();
    let succeeded = snapshot.fresh(&uncounted.succeeded, |pod| {
        pod.status.phase == Phase::Succeeded
    });
    let failed = snapshot.fresh(&uncounted.failed, |pod| is_failed(pod, job));
    let counting = failed
        .iter()
        .filter(|pod| job.verdict(pod).counts())
        .count();
    let mut decision = JobDecision {
        active: sum(active.len()),
        ready: count(|pod| pod.is_active() && pod.is_ready()),
        terminating: count(Pod::is_terminating),
        succeeded: job.status.succeeded + sum(succeeded.len()) + sum(uncounted.succeeded.len()),
        record: snapshot.record.after(&succeeded, &failed),
        start_time: job.status.start_time.or((!job.spec.suspend).then_some(now)),
        ..JobDecision::default()
    };
    let failures = job.status.failed + sum(counting) + sum(uncounted.failed.len());
    decision.finished = ended_before(snapshot);
    if decision.finished.is_none() {
        decision.finished = out_of_bounds(snapshot, failures, &mut decision);
    }
    if job.is_indexed() {
        indexed(snapshot, &active, &mut decision);
    }
    if decision.finished.is_some() {
        decision.ended = true;
        decision.work = Work::End(active.into_iter().cloned().collect());
    } else if snapshot.settled && !job.metadata.is_terminating() {
        decision.managed = true;
        manage(snapshot, &active, &mut decision);
    }
    decision
}

fn sum(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

impl JobSnapshot<'_> {
    /// Pods that finished since the status was written.
    fn fresh(&self, uncounted: &[Text], is_one: impl Fn(&Pod) -> bool) -> Vec<Arc<Pod>> {
        let is_fresh = |pod: &&Arc<Pod>| {
            let uid = &pod.metadata.uid;
            is_tracked(pod)
                && !uncounted.contains(uid)
                && !self.released.contains(uid)
                && (!self.job.is_indexed() || self.job.index(pod).is_some())
                && is_one(pod)
        };
        self.pods.iter().filter(is_fresh).cloned().collect()
    }
}

/// Returns an earlier decision, or the result of the failure policy.
fn ended_before(snapshot: &JobSnapshot<'_>) -> Option<Condition> {
    let JobSnapshot { job, pods, now, .. } = *snapshot;
    let said = |kind: &str| {
        Condition::find(&job.status.conditions, kind).filter(|one| one.status == "True")
    };
    if let Some(met) = said("SuccessCriteriaMet") {
        return Some(met.clone());
    }
    if let Some(target) = said("FailureTarget") {
        return Some(condition("Failed", &target.reason, &target.message, now));
    }
    let failed = pods.iter().filter(|pod| is_failed(pod, job));
    let why = failed
        .map(|pod| job.verdict(pod))
        .find_map(|verdict| match verdict {
            PodFailureVerdict::FailsJob(why) => Some(why),
            _ => None,
        })?;
    Some(condition("FailureTarget", "PodFailurePolicy", &why, now))
}

/// Too many failures, or too much time.
fn out_of_bounds(
    snapshot: &JobSnapshot<'_>,
    failures: i32,
    decision: &mut JobDecision,
) -> Option<Condition> {
    let JobSnapshot { job, pods, now, .. } = *snapshot;
    let limit = job.spec.backoff_limit.unwrap_or(6);
    if failures > limit || restarted_too_often(pods, limit) {
        let message = "Job has reached the specified backoff limit";
        return Some(condition(
            "FailureTarget",
            "BackoffLimitExceeded",
            message,
            now,
        ));
    }
    let (Some(seconds), Some(start), false) = (
        job.spec.active_deadline_seconds,
        decision.start_time,
        job.spec.suspend,
    ) else {
        return None;
    };
    let left = seconds - (now.as_second() - start.as_second());
    if left <= 0 {
        let message = "Job was active longer than specified deadline";
        return Some(condition("FailureTarget", "DeadlineExceeded", message, now));
    }
    decision.wake = Some(Duration::from_secs(u64::try_from(left).unwrap_or(0)));
    None
}

/// Restarts of containers count as failures where a pod's own node restarts them.
fn restarted_too_often(pods: &[Arc<Pod>], limit: i32) -> bool {
    let alive = pods.iter().filter(|pod| {
        pod.spec.restart_policy == "OnFailure"
            && matches!(pod.status.phase, Phase::Running | Phase::Pending)
    });
    let restarts: i32 = alive
        .flat_map(|pod| {
            pod.status
                .container_statuses
                .iter()
                .chain(&pod.status.init_container_statuses)
        })
        .map(|status| status.restart_count)
        .sum();
    restarts > 0 && restarts >= limit
}

/// Computes the status of an indexed Job.
fn indexed(snapshot: &JobSnapshot<'_>, active: &[&Arc<Pod>], decision: &mut JobDecision) {
    let JobSnapshot { job, pods, now, .. } = *snapshot;
    let completions = job.completions();
    let tracked = |is_one: &dyn Fn(&Pod) -> bool| -> Indexes {
        let found = pods.iter().filter(|pod| is_tracked(pod) && is_one(pod));
        found.filter_map(|pod| job.index(pod)).collect()
    };
    decision.known = Indexes::parse(&job.status.completed_indexes, completions);
    let done = tracked(&|pod| pod.status.phase == Phase::Succeeded);
    decision.done = decision.known.with(&done);
    decision.succeeded = decision.done.count();
    let fails =
        |reason: &str, message: &str| Some(condition("FailureTarget", reason, message, now));
    if let Some(limit) = job.spec.backoff_limit_per_index {
        let is_failed_index = |pod: &Pod| {
            is_failed(pod, job)
                && match job.verdict(pod) {
                    PodFailureVerdict::FailsIndex => true,
                    verdict => verdict.counts() && failures_of(pod).0 >= limit,
                }
        };
        let before = job.status.failed_indexes.as_deref().unwrap_or_default();
        let failed = Indexes::parse(before, completions).with(&tracked(&is_failed_index));
        let (failures, done) = (failed.count(), decision.done.count());
        if decision.finished.is_none() {
            if job
                .spec
                .max_failed_indexes
                .is_some_and(|most| failures > most)
            {
                decision.finished = fails(
                    "MaxFailedIndexesExceeded",
                    "Job has exceeded the specified maximal number of failed indexes",
                );
            } else if failures > 0 && failures + done >= completions {
                decision.finished = fails("FailedIndexes", "Job has failed indexes");
            }
        }
        let replaced = replaced(snapshot, active, &decision.done, &failed);
        decision.held = replaced
            .values()
            .map(|pod| pod.metadata.uid.clone())
            .collect();
        decision.failed = Some(failed);
    }
    if decision.finished.is_none()
        && let Some(policy) = &job.spec.success_policy
        && let Some(message) = policy.met(completions, &decision.done)
    {
        decision.finished = Some(condition(
            "SuccessCriteriaMet",
            "SuccessPolicy",
            &message,
            now,
        ));
    }
}

/// The failed pods, by index, that are to be replaced: they tell those that come how
/// often the index failed.
fn replaced<'a>(
    snapshot: &JobSnapshot<'a>,
    active: &[&Arc<Pod>],
    done: &Indexes,
    failed: &Indexes,
) -> HashMap<i32, &'a Arc<Pod>> {
    let JobSnapshot { job, pods, .. } = *snapshot;
    let running: HashSet<i32> = active.iter().filter_map(|pod| index_of(pod)).collect();
    let mut out: HashMap<i32, &Arc<Pod>> = HashMap::new();
    for pod in pods {
        let gone = snapshot.released.contains(&pod.metadata.uid);
        if !is_tracked(pod) || gone || !is_failed(pod, job) {
            continue;
        }
        let Some(index) = job.index(pod) else {
            continue;
        };
        if done.has(index) || failed.has(index) || running.contains(&index) {
            continue;
        }
        let age = |pod: &Pod| {
            let (counted, ignored) = failures_of(pod);
            (counted + ignored, backoff::finished_at(pod))
        };
        let newer = out.get(&index).is_none_or(|other| {
            let ((count, end), (other_count, other_end)) = (age(pod), age(other));
            other_count <= count && end >= other_end
        });
        if newer {
            out.insert(index, pod);
        }
    }
    out
}

/// How often pods of an index failed before this one: what counts, and what does not.
fn failures_of(pod: &Pod) -> (i32, i32) {
    let number = |name| {
        let text = pod.metadata.annotations.get(name)?;
        text.parse().ok().filter(|number| *number >= 0)
    };
    (number(FAILURES).unwrap_or(0), number(IGNORED).unwrap_or(0))
}

/// Decides which pods to create or delete.
fn manage(snapshot: &JobSnapshot<'_>, active: &[&Arc<Pod>], decision: &mut JobDecision) {
    let JobSnapshot { job, now, .. } = *snapshot;
    if job.spec.suspend {
        let all = surplus(snapshot, active, active.len());
        decision.work = Work::Delete(all);
        return;
    }
    let parallelism = job.spec.parallelism.unwrap_or(1);
    let wanted = match job.spec.completions {
        // One that succeeded ends it: no more are made, and none are stopped.
        None if decision.succeeded > 0 => decision.active,
        None => parallelism,
        Some(completions) => (completions - decision.succeeded).min(parallelism).max(0),
    };
    let least = usize::try_from(decision.active - wanted).unwrap_or(0);
    let mut surplus = surplus(snapshot, active, least);
    surplus.truncate(MANY);
    if !surplus.is_empty() {
        decision.work = Work::Delete(surplus);
        return;
    }
    let waited_for = if job.replaces_only_failed() {
        decision.terminating
    } else {
        0
    };
    let missing = usize::try_from(wanted - waited_for - decision.active).unwrap_or(0);
    if missing == 0 {
        return;
    }
    let per_index = job.spec.backoff_limit_per_index.is_some();
    if !per_index {
        let left = decision.record.left(now);
        if !left.is_zero() {
            decision.look_again(left);
            return;
        }
    }
    let missing = missing.min(MANY);
    if job.is_indexed() {
        let added = pending(snapshot, active, missing, decision);
        decision.work = Work::CreateIndexed(added);
    } else {
        decision.work = Work::Create(missing);
    }
}

impl JobDecision {
    fn look_again(&mut self, after: Duration) {
        self.wake = Some(self.wake.map_or(after, |wake| wake.min(after)));
    }
}

/// The lowest indexes for which pods are to be made, those left out whose wait is not
/// over.
fn pending(
    snapshot: &JobSnapshot<'_>,
    active: &[&Arc<Pod>],
    count: usize,
    decision: &mut JobDecision,
) -> Vec<NewIndex> {
    let JobSnapshot { job, pods, now, .. } = *snapshot;
    let running: Indexes = active.iter().filter_map(|pod| index_of(pod)).collect();
    let mut taken = decision.done.with(&running);
    if job.replaces_only_failed() {
        let ending = pods.iter().filter(|pod| pod.is_terminating());
        taken = taken.with(&ending.filter_map(|pod| index_of(pod)).collect());
    }
    if let Some(failed) = &decision.failed {
        taken = taken.with(failed);
    }
    let free = taken.missing(count, job.completions());
    let Some(failed) = decision
        .failed
        .as_ref()
        .filter(|_| job.spec.backoff_limit_per_index.is_some())
    else {
        let plain = |index| NewIndex {
            index,
            failures: None,
        };
        return free.into_iter().map(plain).collect();
    };
    let replaced = replaced(snapshot, active, &decision.done, failed);
    let mut least: Option<Duration> = None;
    let mut out = Vec::new();
    for index in free {
        let mut failures = (0, 0);
        if let Some(pod) = replaced.get(&index) {
            failures = failures_of(pod);
            let all = u32::try_from(failures.0 + failures.1 + 1).unwrap_or(1);
            let left = backoff::left(all, backoff::finished_at(pod), now);
            if !left.is_zero() {
                least = Some(least.map_or(left, |least| least.min(left)));
                continue;
            }
            if job.verdict(pod).counts() {
                failures.0 += 1;
            } else {
                failures.1 += 1;
            }
        }
        out.push(NewIndex {
            index,
            failures: Some(failures),
        });
    }
    if out.is_empty()
        && let Some(least) = least
    {
        decision.look_again(least);
    }
    out
}

/// Active pods to delete: of an index only one stays, none without a valid one, and at
/// least so many go, those first that have come least far.
fn surplus(snapshot: &JobSnapshot<'_>, active: &[&Arc<Pod>], least: usize) -> Vec<Arc<Pod>> {
    let JobSnapshot { job, now, .. } = *snapshot;
    let mut ordered: Vec<&Arc<Pod>> = active.to_vec();
    ordered.sort_by(|a, b| pod_deletion_order((a, 0), (b, 0), now));
    let (mut go, mut stay) = (Vec::new(), Vec::new());
    let mut seen = HashSet::new();
    // Keep the pods that are furthest along.
    for pod in ordered.into_iter().rev() {
        let stays = !job.is_indexed() || job.index(pod).is_some_and(|index| seen.insert(index));
        if stays { &mut stay } else { &mut go }.push(Arc::clone(pod));
    }
    while go.len() < least
        && let Some(pod) = stay.pop()
    {
        go.push(pod);
    }
    go
}

impl Job {
    pub(super) fn is_indexed(&self) -> bool {
        self.spec.completion_mode == "Indexed"
    }

    pub(super) fn completions(&self) -> i32 {
        self.spec.completions.unwrap_or(0)
    }

    /// A pod's index, if the Job has that.
    pub(super) fn index(&self, pod: &Pod) -> Option<i32> {
        index_of(pod).filter(|index| *index < self.completions())
    }

    /// Whether pods are replaced only when they have ended.
    pub(super) fn replaces_only_failed(&self) -> bool {
        self.spec.pod_replacement_policy == "Failed" || self.spec.pod_failure_policy.is_some()
    }

    pub(super) fn verdict(&self, pod: &Pod) -> PodFailureVerdict {
        policy::judge(self.spec.pod_failure_policy.as_ref(), pod)
    }
}

/// The result of creating and deleting pods.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkResult {
    /// Pods that were deleted.
    pub deleted: i32,
    /// The ready ones among them.
    pub deleted_ready: i32,
    /// Pods that were made.
    pub created: i32,
}

impl JobDecision {
    /// Records the result of the work: failures delay the end, and the last pods to end
    /// may complete the Job.
    pub fn worked(&mut self, snapshot: &JobSnapshot<'_>, worked: WorkResult) {
        let JobSnapshot {
            job, settled, now, ..
        } = *snapshot;
        let all_deleted = worked.deleted == self.active;
        self.active += worked.created - worked.deleted;
        self.ready -= worked.deleted_ready;
        self.terminating += worked.deleted;
        if self.ended {
            // There may be pods that the cache does not show yet.
            self.finished = self.finished.take().filter(|_| all_deleted && settled);
            return;
        }
        // Without a number any success is enough.
        let enough = job.spec.completions.unwrap_or(1);
        if self.succeeded >= enough && self.active == 0 {
            let message = "Reached expected number of succeeded pods";
            self.finished = Some(condition(
                "SuccessCriteriaMet",
                "CompletionsReached",
                message,
                now,
            ));
        }
    }
}

/// Returns the status after the work, before pods are counted.
#[must_use]
pub fn status(decision: &JobDecision, job: &Job, now: Timestamp) -> JobStatus {
    let mut status = job.status.clone();
    status.uncounted_terminated_pods.get_or_insert_default();
    status.active = decision.active;
    status.ready = Some(decision.ready);
    status.terminating = Some(decision.terminating);
    status.start_time = decision.start_time;
    if decision.managed && decision.finished.is_none() {
        let (wanted, reason, message) = if job.spec.suspend {
            ("True", "JobSuspended", "Job suspended")
        } else {
            ("False", "JobResumed", "Job resumed")
        };
        let changed = put(
            &mut status.conditions,
            Condition {
                status: wanted.into(),
                ..condition("Suspended", reason, message, now)
            },
        );
        // The time of a Job is that in which it may run.
        if changed {
            status.start_time = (!job.spec.suspend).then_some(now);
        }
    }
    status
}

/// Puts a condition into the list, unless the list already has it, or the condition is
/// false and absent. Returns whether the list changed.
pub fn put(list: &mut Vec<Condition>, new: Condition) -> bool {
    match list.iter_mut().find(|one| one.r#type == new.r#type) {
        Some(old) => {
            let same =
                old.status == new.status && old.reason == new.reason && old.message == new.message;
            if !same {
                *old = new;
            }
            !same
        }
        None if new.status == "False" => false,
        None => {
            list.push(new);
            true
        }
    }
}
