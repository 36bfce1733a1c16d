//! Tests decisions about Jobs, and how their pods are counted.

use std::collections::HashSet;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::backoff::BackoffRecord;
use super::decide::{JobSnapshot, Work, WorkResult, decide, status};
use super::track;
use super::{FINALIZER, MANY};
use crate::views::{Job, JobStatus, Pod, Text};

const NOW: &str = "2026-01-01T01:00:00Z";

fn job(spec: Value, status: Value) -> Job {
    let mut whole = json!({"parallelism": 2, "completions": 3, "backoffLimit": 6,
        "selector": {"matchLabels": {"job": "j"}}});
    for (key, value) in spec.as_object().unwrap() {
        whole[key] = value.clone();
    }
    serde_json::from_value(json!({
        "metadata": {"name": "j", "uid": "j", "namespace": "d"}, "spec": whole, "status": status,
    }))
    .unwrap()
}

/// `what`: a phase, `ready`, `deleted`, or `fails 42` for an exit code.
fn pod(name: &str, what: &str) -> Arc<Pod> {
    let mut pod = json!({
        "metadata": {"name": name, "uid": name, "namespace": "d", "finalizers": [FINALIZER],
            "annotations": {}, "creationTimestamp": "2026-01-01T00:00:00Z"},
        "status": {"phase": what},
    });
    match what.split_once(' ') {
        _ if what == "ready" => {
            pod["status"] =
                json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
        }
        _ if what == "deleted" => {
            pod["metadata"]["deletionTimestamp"] = NOW.into();
            pod["status"]["phase"] = "Running".into();
        }
        Some((_, code)) => {
            let code: i32 = code.parse().unwrap();
            pod["status"] = json!({"phase": "Failed", "containerStatuses": [
                {"name": "c", "state": {"terminated": {"exitCode": code, "finishedAt": "2026-01-01T00:00:00Z"}}}]});
        }
        None => {}
    }
    if let Some((index, _)) = name.split_once('-') {
        pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] = index.into();
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

struct Seen {
    work: Vec<String>,
    status: JobStatus,
    released: Vec<String>,
}

impl Seen {
    fn conditions(&self) -> Vec<String> {
        let all = self.status.conditions.iter();
        all.map(|one| format!("{}={} {}", one.r#type, one.status, one.reason))
            .collect()
    }
}

/// One round in which all work succeeds.
fn round(job: &Job, pods: &[Arc<Pod>]) -> Seen {
    let released = HashSet::new();
    let now: Timestamp = NOW.parse().unwrap();
    let snapshot = JobSnapshot {
        job,
        pods,
        settled: true,
        released: &released,
        record: BackoffRecord::default(),
        now,
    };
    let mut decision = decide(&snapshot);
    let names = |pods: &[Arc<Pod>]| {
        pods.iter()
            .map(|pod| pod.metadata.name.to_string())
            .collect::<Vec<_>>()
    };
    let (work, worked) = match &decision.work {
        Work::Nothing => (vec![], WorkResult::default()),
        Work::End(pods) | Work::Delete(pods) => {
            let ready = pods.iter().filter(|pod| pod.is_ready()).count();
            let worked = WorkResult {
                deleted: pods.len() as i32,
                deleted_ready: ready as i32,
                created: 0,
            };
            (
                names(pods)
                    .into_iter()
                    .map(|name| format!("delete {name}"))
                    .collect(),
                worked,
            )
        }
        Work::Create(count) => {
            let worked = WorkResult {
                created: *count as i32,
                ..WorkResult::default()
            };
            (vec![format!("create {count}")], worked)
        }
        Work::CreateIndexed(all) => {
            let worked = WorkResult {
                created: all.len() as i32,
                ..WorkResult::default()
            };
            let one = |new: &super::decide::NewIndex| match new.failures {
                Some((failed, ignored)) => format!("create {} after {failed}+{ignored}", new.index),
                None => format!("create {}", new.index),
            };
            (all.iter().map(one).collect(), worked)
        }
    };
    decision.worked(&snapshot, worked);
    let mut count = track::count(&snapshot, &decision, status(&decision, job, now));
    let released = names(&count.release);
    for pod in &count.release {
        count.tracked.remove(&pod.metadata.uid);
    }
    track::count_finished_uids(&mut count.status, &count.tracked);
    count.end(now);
    Seen {
        work,
        status: count.status,
        released,
    }
}

#[test]
fn as_many_pods_run_as_may_and_are_missing() {
    let seen = round(&job(json!({}), json!({})), &[]);
    assert_eq!(seen.work, ["create 2"]);
    assert_eq!(
        (
            seen.status.active,
            seen.status.ready,
            seen.status.terminating
        ),
        (2, Some(0), Some(0))
    );
    assert_eq!(seen.status.start_time, NOW.parse().ok());
    let seen = round(
        &job(json!({}), json!({"succeeded": 2})),
        &[pod("a", "ready")],
    );
    assert!(seen.work.is_empty());
    assert_eq!((seen.status.active, seen.status.ready), (1, Some(1)));
    let seen = round(
        &job(json!({"parallelism": 1}), json!({})),
        &[pod("a", "ready"), pod("b", "Pending")],
    );
    assert_eq!(seen.work, ["delete b"]);
}

#[test]
fn finished_pods_are_counted_once_and_released() {
    let seen = round(
        &job(json!({}), json!({})),
        &[pod("a", "Succeeded"), pod("b", "Running")],
    );
    assert_eq!((seen.status.succeeded, seen.status.active), (1, 2));
    assert_eq!(seen.released, ["a"]);
    // Written, but not released yet.
    let half = json!({"succeeded": 1, "uncountedTerminatedPods": {"succeeded": ["a"]}});
    let seen = round(
        &job(json!({}), half),
        &[pod("a", "Succeeded"), pod("b", "Running")],
    );
    assert_eq!(
        (seen.status.succeeded, seen.released),
        (2, vec!["a".to_owned()])
    );
}

#[test]
fn a_job_is_complete_when_all_is_counted_and_nothing_runs() {
    let seen = round(
        &job(json!({}), json!({"succeeded": 2})),
        &[pod("a", "Succeeded")],
    );
    assert_eq!(
        seen.conditions(),
        [
            "SuccessCriteriaMet=True CompletionsReached",
            "Complete=True CompletionsReached"
        ]
    );
    assert_eq!(seen.status.completion_time, NOW.parse().ok());
    let ending = [pod("a", "Succeeded"), pod("b", "deleted")];
    let seen = round(&job(json!({}), json!({"succeeded": 2})), &ending);
    assert_eq!(
        seen.conditions(),
        ["SuccessCriteriaMet=True CompletionsReached"],
        "a pod ends yet"
    );
    let queue = job(json!({"completions": null}), json!({}));
    assert!(
        round(&queue, &[pod("a", "Succeeded"), pod("b", "Running")])
            .conditions()
            .is_empty()
    );
    assert_eq!(
        round(&queue, &[pod("a", "Succeeded")]).conditions().len(),
        2
    );
}

#[test]
fn too_many_failures_end_a_job() {
    let limited = job(json!({"backoffLimit": 1}), json!({"failed": 1}));
    let seen = round(&limited, &[pod("a", "fails 1"), pod("b", "ready")]);
    assert_eq!(seen.work, ["delete b"]);
    assert_eq!(
        seen.conditions(),
        ["FailureTarget=True BackoffLimitExceeded"],
        "a pod ends yet"
    );
    assert_eq!(
        (
            seen.status.failed,
            seen.status.ready,
            seen.status.terminating
        ),
        (3, Some(0), Some(1))
    );
    let told = json!({"failed": 3, "conditions": [{"type": "FailureTarget", "status": "True", "reason": "BackoffLimitExceeded", "message": "m"}]});
    let seen = round(&job(json!({}), told), &[]);
    assert_eq!(
        seen.conditions(),
        [
            "FailureTarget=True BackoffLimitExceeded",
            "Failed=True BackoffLimitExceeded"
        ]
    );
    assert!(seen.status.completion_time.is_none());
}

#[test]
fn failures_are_waited_for() {
    let failed = pod("a", "fails 1");
    let mut later = Pod::clone(&failed);
    later.status.container_statuses[0]
        .state
        .terminated
        .as_mut()
        .unwrap()
        .finished_at = NOW.parse().ok();
    assert!(
        round(&job(json!({}), json!({})), &[Arc::new(later)])
            .work
            .is_empty()
    );
    assert_eq!(
        round(&job(json!({}), json!({})), &[failed]).work,
        ["create 2"]
    );
}

#[test]
fn a_deadline_ends_a_job() {
    let spec = json!({"activeDeadlineSeconds": 60});
    let begun = |at: &str| job(spec.clone(), json!({"startTime": at}));
    let seen = round(&begun("2026-01-01T00:59:00Z"), &[pod("a", "Running")]);
    assert_eq!(seen.work, ["delete a"]);
    assert_eq!(seen.conditions(), ["FailureTarget=True DeadlineExceeded"]);
    assert!(
        round(&begun("2026-01-01T00:59:01Z"), &[])
            .conditions()
            .is_empty()
    );
}

#[test]
fn a_suspended_job_has_no_pods_and_no_start() {
    let suspended = job(
        json!({"suspend": true}),
        json!({"startTime": "2026-01-01T00:00:00Z"}),
    );
    let seen = round(&suspended, &[pod("a", "Running")]);
    assert_eq!(seen.work, ["delete a"]);
    assert_eq!(seen.conditions(), ["Suspended=True JobSuspended"]);
    assert_eq!(seen.status.start_time, None);
    let status = json!({"conditions": [{"type": "Suspended", "status": "True", "reason": "JobSuspended", "message": "Job suspended"}]});
    let seen = round(&job(json!({}), status), &[]);
    assert_eq!(seen.conditions(), ["Suspended=False JobResumed"]);
    assert_eq!(seen.work, ["create 2"]);
    assert!(seen.status.start_time.is_some());
}

#[test]
fn policies_ignore_failures_or_fail_at_once() {
    let policy = json!({"podFailurePolicy": {"rules": [
        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [7]}},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}}]}});
    let seen = round(&job(policy.clone(), json!({})), &[pod("a", "fails 7")]);
    assert_eq!((seen.status.failed, seen.released.len()), (0, 1));
    let seen = round(
        &job(policy.clone(), json!({})),
        &[pod("a", "fails 42"), pod("b", "Running")],
    );
    assert_eq!(seen.work, ["delete b"]);
    assert_eq!(seen.conditions(), ["FailureTarget=True PodFailurePolicy"]);
    // Pods that are being deleted are replaced when they have ended.
    let seen = round(&job(policy, json!({})), &[pod("a", "deleted")]);
    assert_eq!(
        (seen.work, seen.status.terminating),
        (vec!["create 1".to_owned()], Some(1))
    );
    assert_eq!(
        round(&job(json!({}), json!({})), &[pod("a", "deleted")])
            .status
            .failed,
        1
    );
}

#[test]
fn indexes_have_a_pod_each_and_are_written_down() {
    let indexed = |spec: Value, status: Value| {
        let mut all = json!({"completionMode": "Indexed", "completions": 4, "parallelism": 4});
        for (key, value) in spec.as_object().unwrap() {
            all[key] = value.clone();
        }
        job(all, status)
    };
    let seen = round(
        &indexed(json!({}), json!({"completedIndexes": "1"})),
        &[pod("0-a", "Running")],
    );
    assert_eq!(seen.work, ["create 2", "create 3"]);
    let twice = [
        pod("0-a", "ready"),
        pod("0-b", "Pending"),
        pod("9-c", "Running"),
    ];
    assert_eq!(
        round(&indexed(json!({}), json!({})), &twice).work,
        ["delete 9-c", "delete 0-b"]
    );
    let seen = round(
        &indexed(
            json!({}),
            json!({"completedIndexes": "0,1", "succeeded": 2}),
        ),
        &[pod("3-a", "Succeeded")],
    );
    assert_eq!(
        (
            seen.status.completed_indexes.as_str(),
            seen.status.succeeded
        ),
        ("0,1,3", 3)
    );
    let policy = json!({"successPolicy": {"rules": [{"succeededIndexes": "0"}]}});
    let seen = round(
        &indexed(policy, json!({})),
        &[pod("0-a", "Succeeded"), pod("1-a", "Running")],
    );
    assert_eq!(seen.work, ["delete 1-a"]);
    assert_eq!(seen.conditions(), ["SuccessCriteriaMet=True SuccessPolicy"]);
    assert_eq!(seen.status.failed, 0, "what is not needed has not failed");
}

#[test]
fn an_index_fails_by_itself_when_it_failed_too_often() {
    let spec = json!({"completionMode": "Indexed", "completions": 2, "parallelism": 2, "backoffLimitPerIndex": 1, "backoffLimit": i32::MAX});
    let first = pod("0-a", "fails 1");
    let running = pod("1-a", "Running");
    let seen = round(
        &job(spec.clone(), json!({})),
        &[Arc::clone(&first), Arc::clone(&running)],
    );
    assert_eq!(seen.work, ["create 0 after 1+0"]);
    assert!(
        seen.released.is_empty(),
        "it is held until its replacement is there"
    );
    let mut second = Pod::clone(&pod("0-b", "fails 1"));
    let annotations = [
        ("batch.kubernetes.io/job-completion-index", "0"),
        ("batch.kubernetes.io/job-index-failure-count", "1"),
    ];
    second.metadata.annotations = annotations.into_iter().collect();
    let seen = round(
        &job(spec, json!({"failed": 1})),
        &[Arc::new(second), running],
    );
    assert_eq!(seen.status.failed_indexes.as_deref(), Some("0"));
    assert!(seen.work.is_empty());
    assert_eq!(seen.status.failed, 2);
}

#[test]
fn a_round_counts_only_so_many() {
    let pods: Vec<_> = (0..MANY + 5)
        .map(|n| pod(&format!("p{n}"), "Succeeded"))
        .collect();
    let seen = round(&job(json!({"completions": 5}), json!({})), &pods);
    assert_eq!(seen.released.len(), MANY);
    assert_eq!(
        seen.conditions(),
        ["SuccessCriteriaMet=True CompletionsReached"]
    );
}

#[test]
fn the_patch_removes_what_is_absent() {
    let uids: Vec<Text> = vec!["a".into()];
    let mut status = round(&job(json!({}), json!({})), &[]).status;
    status.uncounted_terminated_pods.as_mut().unwrap().failed = uids;
    let patch = track::patch(&job(json!({}), json!({})).metadata, &status);
    assert_eq!(
        patch["status"]["uncountedTerminatedPods"],
        json!({"succeeded": null, "failed": ["a"]})
    );
    assert_eq!(patch["status"]["succeeded"], Value::Null);
    assert_eq!(
        (&patch["status"]["ready"], &patch["status"]["active"]),
        (&json!(0), &json!(2))
    );
}
