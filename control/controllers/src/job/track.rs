//! Counts finished pods exactly once (KEP-2307): a pod keeps a finalizer until the status
//! contains its uid; then the finalizer is removed, and the uid becomes part of a count.
//! An interruption at any step is recovered.

use std::collections::HashSet;
use std::sync::Arc;

use control_client::Meta;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::MANY;
use super::decide::{JobDecision, JobSnapshot, condition, index_of, is_failed, is_tracked, put};
use crate::views::{Condition, JobStatus, Phase, Pod, Text};
use crate::work;

/// The result of counting.
#[derive(Debug, Clone, Default)]
pub struct Count {
    /// The status to be written first.
    pub status: JobStatus,
    /// Pods whose finalizer is to be taken away then.
    pub release: Vec<Arc<Pod>>,
    /// The uids of pods that have the finalizer.
    pub tracked: HashSet<Text>,
    /// Whether there are more, for the next time.
    pub full: bool,
    /// The condition in which the Job ends when all is counted.
    pub end: Option<Condition>,
}

/// Returns what to count now; `status` is the status without it.
#[must_use]
pub fn count(snapshot: &JobSnapshot<'_>, decision: &JobDecision, status: JobStatus) -> Count {
    let JobSnapshot { job, now, .. } = *snapshot;
    let is_open =
        |pod: &&Arc<Pod>| is_tracked(pod) && !snapshot.released.contains(&pod.metadata.uid);
    let mut open: Vec<&Arc<Pod>> = snapshot.pods.iter().filter(is_open).collect();
    if job.is_indexed() {
        open.sort_by_key(|pod| index_of(pod).unwrap_or(-1));
    }
    let mut count = Count {
        status,
        tracked: open.iter().map(|pod| pod.metadata.uid.clone()).collect(),
        ..Count::default()
    };
    let before = job
        .status
        .uncounted_terminated_pods
        .clone()
        .unwrap_or_default();
    count_finished_uids(&mut count.status, &count.tracked);
    let ends = decision.finished.is_some();
    // When it has finished, what runs yet has failed; not so if it has succeeded.
    let fails = decision
        .finished
        .as_ref()
        .is_some_and(|end| end.r#type != "SuccessCriteriaMet");
    let mut indexes = 0;
    for pod in open {
        let uid = &pod.metadata.uid;
        let succeeded = pod.status.phase == Phase::Succeeded;
        let failed = is_failed(pod, job);
        let replaced_first = decision.held.contains(uid);
        let goes =
            job.metadata.is_terminating() || ends || succeeded || (failed && !replaced_first);
        if !goes {
            continue;
        }
        count.release.push(Arc::clone(pod));
        let uncounted = count
            .status
            .uncounted_terminated_pods
            .get_or_insert_default();
        let valid = !job.is_indexed() || job.index(pod).is_some();
        if succeeded && !before.failed.contains(uid) {
            if !job.is_indexed() {
                if !before.succeeded.contains(uid) {
                    uncounted.succeeded.push(uid.clone());
                }
            } else if job
                .index(pod)
                .is_some_and(|index| !decision.known.has(index))
            {
                indexes += 1;
            }
        } else if (failed || fails)
            && valid
            && !before.failed.contains(uid)
            && job.verdict(pod).counts()
        {
            uncounted.failed.push(uid.clone());
        }
        if indexes + uncounted.succeeded.len() + uncounted.failed.len() >= MANY {
            count.full = true;
            break;
        }
    }
    if job.is_indexed() {
        count.status.succeeded = decision.done.count();
        count.status.completed_indexes = decision.done.to_string();
        count.status.failed_indexes = decision.failed.as_ref().map(ToString::to_string);
    }
    count.end = decision.finished.as_ref().map(|end| {
        let last = match end.r#type.as_str() {
            "SuccessCriteriaMet" => "Complete",
            _ => "Failed",
        };
        // Completion is announced before it holds: until then pods are counted.
        if end.r#type != last && Condition::find(&count.status.conditions, &end.r#type).is_none() {
            count.status.conditions.push(end.clone());
        }
        condition(last, &end.reason, &end.message, now)
    });
    count
}

/// Makes numbers of the uids whose pods have lost the finalizer. Tells whether there
/// were any.
pub fn count_finished_uids(status: &mut JobStatus, tracked: &HashSet<Text>) -> bool {
    let uncounted = status.uncounted_terminated_pods.get_or_insert_default();
    let take = |uids: &mut Vec<Text>, number: &mut i32| {
        let before = uids.len();
        uids.retain(|uid| tracked.contains(uid));
        let gone = before - uids.len();
        *number += i32::try_from(gone).unwrap_or(i32::MAX);
        gone > 0
    };
    let succeeded = take(&mut uncounted.succeeded, &mut status.succeeded);
    take(&mut uncounted.failed, &mut status.failed) || succeeded
}

impl Count {
    /// Ends the Job, if all is counted and no pod is being deleted. Tells whether it
    /// did.
    pub fn end(&mut self, now: Timestamp) -> bool {
        let uncounted = self.status.uncounted_terminated_pods.as_ref();
        let counted =
            uncounted.is_none_or(|pods| pods.succeeded.is_empty() && pods.failed.is_empty());
        let quiet = self.status.terminating.unwrap_or(0) == 0;
        let Some(end) = self.end.as_ref().filter(|_| counted && quiet && !self.full) else {
            return false;
        };
        put(&mut self.status.conditions, end.clone());
        if end.r#type == "Complete" {
            self.status.completion_time = Some(now);
        }
        true
    }
}

/// The status as a merge patch for the revision in `meta`. Absent fields are removed.
#[must_use]
pub fn patch(meta: &Meta, status: &JobStatus) -> Value {
    let conditions: Vec<Value> = status
        .conditions
        .iter()
        .map(|one| serde_json::to_value(one).unwrap_or_default())
        .collect();
    let number = |number: i32| Some(number).filter(|number| *number != 0);
    let text = |text: &str| {
        Some(text)
            .filter(|text| !text.is_empty())
            .map(str::to_owned)
    };
    let uids = |uids: &[Text]| Some(json!(uids)).filter(|_| !uids.is_empty());
    let uncounted = status
        .uncounted_terminated_pods
        .as_ref()
        .map(|pods| json!({"succeeded": uids(&pods.succeeded), "failed": uids(&pods.failed)}));
    json!({
        "metadata": work::precondition(meta),
        "status": {
            "conditions": Some(conditions).filter(|all| !all.is_empty()),
            "startTime": status.start_time,
            "completionTime": status.completion_time,
            "active": number(status.active),
            "succeeded": number(status.succeeded),
            "failed": number(status.failed),
            "terminating": status.terminating,
            "ready": status.ready,
            "completedIndexes": text(&status.completed_indexes),
            "failedIndexes": status.failed_indexes,
            "uncountedTerminatedPods": uncounted,
        },
    })
}
