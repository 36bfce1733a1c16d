//! Decides what a CronJob needs: records finished jobs and eventually removes them,
//! starts the next job, and starts none twice.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use control_types::cron::{self, Schedule};
use jiff::Timestamp;
use serde_json::Value;

use super::times;
use crate::views::{CronJob, CronJobStatus, Job, Text};

/// The input of one decision.
#[derive(Debug, Clone, Copy)]
pub struct CronJobSnapshot<'a> {
    /// The CronJob.
    pub cron: &'a CronJob,
    /// The jobs that it controls.
    pub jobs: &'a [Arc<Job>],
    /// The uids among its active jobs that the server does not have.
    pub gone: &'a HashSet<Text>,
    /// The current time.
    pub now: Timestamp,
}

/// An event: its type, reason and message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// Whether the event is a warning.
    pub warning: bool,
    /// One word.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
}

/// The writes that follow from a decision.
#[derive(Debug, Clone, Default)]
pub struct CronJobDecision {
    /// Finished jobs that are too many, the oldest first.
    pub remove: Vec<Arc<Job>>,
    /// The events to record before a job is started.
    pub news: Vec<News>,
    /// The status before anything is started.
    pub status: CronJobStatus,
    /// The job to start.
    pub start: Option<Start>,
    /// Look again after this time.
    pub wake: Option<Duration>,
}

/// A job to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// Its name, which says the minute: no time has two jobs.
    pub name: String,
    /// When it was due.
    pub due: Timestamp,
    /// Whether all that are active are deleted before.
    pub replaces: bool,
}

/// Decides what to do now.
#[must_use]
pub fn decide(snapshot: &CronJobSnapshot<'_>) -> CronJobDecision {
    let mut decision = CronJobDecision {
        remove: too_old(snapshot),
        status: snapshot.cron.status.clone(),
        ..CronJobDecision::default()
    };
    note_jobs(snapshot, &mut decision);
    if !snapshot.cron.metadata.is_terminating() {
        start(snapshot, &mut decision);
    }
    decision
}

/// Returns the schedule with its zone, and whether the schedule contains a zone, which is
/// discouraged.
///
/// # Errors
/// The event for an unusable schedule or zone.
pub fn schedule(cron: &CronJob) -> Result<(Schedule, bool), News> {
    let spec = &cron.spec;
    let text = spec.schedule.as_str();
    if let Some(zone) = &spec.time_zone
        && let Err(error) = cron::zone(zone)
    {
        let message = format!("invalid timeZone: {:?}: {error}", zone.as_str());
        return Err(warning("UnknownTimeZone", message));
    }
    let own_zone = text.contains("TZ");
    let parsed = match &spec.time_zone {
        Some(zone) if !own_zone => Schedule::parse(&format!("TZ={zone} {text}")),
        _ => Schedule::parse(text),
    };
    parsed
        .map(|schedule| (schedule, own_zone))
        .map_err(|error| {
            warning(
                "UnparseableSchedule",
                format!("unparseable schedule: {text:?} : {error}"),
            )
        })
}

/// The uid of a reference to an active job.
#[must_use]
pub fn uid_of(active: &Value) -> &str {
    active
        .get("uid")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

/// A word or name of a reference to an active job.
#[must_use]
pub fn name_of(active: &Value) -> &str {
    active
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default()
}

fn warning(reason: &'static str, message: String) -> News {
    News {
        warning: true,
        reason,
        message,
    }
}

fn normal(reason: &'static str, message: String) -> News {
    News {
        warning: false,
        reason,
        message,
    }
}

/// Finished jobs beyond the limits of the history.
fn too_old(snapshot: &CronJobSnapshot<'_>) -> Vec<Arc<Job>> {
    let spec = &snapshot.cron.spec;
    let beyond = |kind: &str, limit: Option<i32>| {
        let Some(limit) = limit else {
            return Vec::new();
        };
        let finished = snapshot
            .jobs
            .iter()
            .filter(|job| job.finished() == Some(kind));
        let mut finished: Vec<_> = finished.cloned().collect();
        finished.sort_by(|a, b| {
            let key = |job: &Job| (job.status.start_time.is_none(), job.status.start_time);
            key(a)
                .cmp(&key(b))
                .then_with(|| a.metadata.name.cmp(&b.metadata.name))
        });
        let keep = usize::try_from(limit).unwrap_or(0);
        finished.truncate(finished.len().saturating_sub(keep));
        finished
    };
    let mut all = beyond("Complete", spec.successful_jobs_history_limit);
    all.extend(beyond("Failed", spec.failed_jobs_history_limit));
    all
}

/// Records what has happened to the jobs since the last status.
fn note_jobs(snapshot: &CronJobSnapshot<'_>, decision: &mut CronJobDecision) {
    let status = &mut decision.status;
    for job in snapshot.jobs {
        let (name, uid) = (&job.metadata.name, job.metadata.uid.as_str());
        let active = status.active.iter().any(|one| uid_of(one) == uid);
        let Some(how) = job.finished() else {
            if !active {
                let message =
                    format!("Saw a job that the controller did not create or forgot: {name}");
                decision.news.push(warning("UnexpectedJob", message));
            }
            continue;
        };
        if active {
            status.active.retain(|one| uid_of(one) != uid);
            let message = format!("Saw completed job: {name}, condition: {how}");
            decision.news.push(normal("SawCompletedJob", message));
        }
        if how == "Complete" {
            // `None` sorts first.
            status.last_successful_time =
                status.last_successful_time.max(job.status.completion_time);
        }
    }
    for one in std::mem::take(&mut status.active) {
        if snapshot.gone.contains(uid_of(&one)) {
            let message = format!("Active job went missing: {}", name_of(&one));
            decision.news.push(normal("MissingJob", message));
        } else {
            status.active.push(one);
        }
    }
}

fn start(snapshot: &CronJobSnapshot<'_>, decision: &mut CronJobDecision) {
    let CronJobSnapshot { cron, now, .. } = *snapshot;
    let spec = &cron.spec;
    let (schedule, own_zone) = match schedule(cron) {
        // An invalid zone is reported even while nothing is started.
        Err(news) if !spec.suspend || news.reason == "UnknownTimeZone" => {
            decision.news.push(news);
            return;
        }
        Ok(found) if !spec.suspend => found,
        _ => return,
    };
    if own_zone {
        decision.news.push(warning("UnsupportedSchedule", format!("CRON_TZ or TZ used in schedule {:?} is not officially supported, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details", spec.schedule.as_str())));
    }
    let due = match times::due(cron, &schedule, now, true) {
        Ok(due) => due,
        Err(error) => {
            let message = format!("invalid schedule: {} : {error}", spec.schedule);
            decision.news.push(warning("InvalidSchedule", message));
            return;
        }
    };
    decision.wake = times::wait(cron, &schedule, now);
    let Some(time) = due.last else {
        return;
    };
    if due.many {
        decision.news.push(warning("TooManyMissedTimes", "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew".into()));
    }
    if let Some(seconds) = spec.starting_deadline_seconds
        && time < times::earlier(now, seconds)
    {
        let time = time.strftime("%a, %d %b %Y %H:%M:%S +0000");
        let message = format!("Missed scheduled time to start a job: {time}");
        decision.news.push(warning("MissSchedule", message));
        return;
    }
    let name = format!("{}-{}", cron.metadata.name, time.as_second() / 60);
    let active = &decision.status.active;
    if active.iter().any(|one| name_of(one) == name) || cron.status.last_schedule_time == Some(time)
    {
        return;
    }
    if spec.concurrency_policy == "Forbid" && !active.is_empty() {
        decision.news.push(normal(
            "JobAlreadyActive",
            "Not starting job because prior execution is running and concurrency policy is Forbid"
                .into(),
        ));
        return;
    }
    // The job that is started now determines the wait.
    let mut after = cron.clone();
    after.status.last_schedule_time = Some(time);
    decision.wake = times::wait(&after, &schedule, now);
    decision.start = Some(Start {
        name,
        due: time,
        replaces: spec.concurrency_policy == "Replace",
    });
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NOW: &str = "2026-01-01T12:00:30Z";

    fn cron(spec: Value, status: Value) -> CronJob {
        let mut spec = spec;
        spec["schedule"] = spec.get("schedule").cloned().unwrap_or("0 * * * *".into());
        spec["timeZone"] = spec.get("timeZone").cloned().unwrap_or("UTC".into());
        serde_json::from_value(json!({
            "metadata": {"name": "c", "uid": "u", "namespace": "d", "creationTimestamp": "2026-01-01T11:30:00Z"},
            "spec": spec, "status": status,
        }))
        .unwrap()
    }

    fn job(name: &str, start: &str, condition: &str) -> Arc<Job> {
        let conditions = if condition.is_empty() {
            json!([])
        } else {
            json!([{"type": condition, "status": "True"}])
        };
        Arc::new(serde_json::from_value(json!({
            "metadata": {"name": name, "uid": name, "namespace": "d"},
            "status": {"startTime": start, "completionTime": (condition == "Complete").then_some(start), "conditions": conditions},
        })).unwrap())
    }

    fn run(cron: &CronJob, jobs: &[Arc<Job>], gone: &[&str]) -> (CronJobDecision, Vec<String>) {
        let gone = gone.iter().map(|uid| Text::from(*uid)).collect();
        let decision = decide(&CronJobSnapshot {
            cron,
            jobs,
            gone: &gone,
            now: NOW.parse().unwrap(),
        });
        let news = decision
            .news
            .iter()
            .map(|one| one.reason.to_owned())
            .collect();
        (decision, news)
    }

    #[test]
    fn the_job_that_is_due_is_started_once() {
        let mut one = cron(json!({}), json!({}));
        let (decision, _) = run(&one, &[], &[]);
        let start = decision.start.unwrap();
        assert_eq!((start.name.as_str(), start.replaces), ("c-29454480", false));
        assert_eq!(
            decision.wake,
            Some(Duration::from_millis(59 * 60_000 + 30_100))
        );
        one.status.last_schedule_time = Some(start.due);
        let (decision, news) = run(&one, &[], &[]);
        assert!(decision.start.is_none() && news.is_empty());
        assert!(decision.wake.is_some());
    }

    #[test]
    fn nothing_is_started_while_suspended_deleted_or_too_late() {
        assert!(
            run(&cron(json!({"suspend": true}), json!({})), &[], &[])
                .0
                .start
                .is_none()
        );
        let mut dying = cron(json!({}), json!({}));
        dying.metadata.deletion_timestamp = NOW.parse().ok();
        assert!(run(&dying, &[], &[]).0.start.is_none());
        // The last time is thirty seconds ago.
        let late = |seconds: i64| cron(json!({"startingDeadlineSeconds": seconds}), json!({}));
        assert!(run(&late(20), &[], &[]).0.start.is_none());
        assert!(run(&late(40), &[], &[]).0.start.is_some());
    }

    #[test]
    fn policies_decide_about_jobs_that_run() {
        let active = json!({"active": [{"name": "c-1", "uid": "c-1"}]});
        let jobs = [job("c-1", NOW, "")];
        let of = |policy: &str| {
            run(
                &cron(json!({"concurrencyPolicy": policy}), active.clone()),
                &jobs,
                &[],
            )
        };
        assert_eq!(of("Allow").0.start.map(|start| start.replaces), Some(false));
        assert_eq!(
            of("Replace").0.start.map(|start| start.replaces),
            Some(true)
        );
        let (decision, news) = of("Forbid");
        assert!(decision.start.is_none() && decision.wake.is_some());
        assert_eq!(news, ["JobAlreadyActive"]);
    }

    #[test]
    fn finished_jobs_leave_the_list_and_then_the_history() {
        let active = json!({"active": [{"name": "b", "uid": "b"}, {"name": "x", "uid": "x"}]});
        let one = cron(
            json!({"suspend": true, "successfulJobsHistoryLimit": 1, "failedJobsHistoryLimit": 0}),
            active,
        );
        let jobs = [
            job("b", "2026-01-01T11:00:00Z", "Complete"),
            job("a", "2026-01-01T10:00:00Z", "Complete"),
            job("f", "2026-01-01T09:00:00Z", "Failed"),
            job("strange", "2026-01-01T09:00:00Z", ""),
        ];
        let (decision, news) = run(&one, &jobs, &["x"]);
        let removed: Vec<_> = decision
            .remove
            .iter()
            .map(|job| job.metadata.name.as_str())
            .collect();
        assert_eq!(removed, ["a", "f"]);
        assert_eq!(news, ["SawCompletedJob", "UnexpectedJob", "MissingJob"]);
        assert!(decision.status.active.is_empty());
        assert_eq!(
            decision.status.last_successful_time,
            "2026-01-01T11:00:00Z".parse().ok()
        );
    }

    #[test]
    fn what_cannot_be_used_is_told() {
        let of = |spec: Value| run(&cron(spec, json!({})), &[], &[]).1;
        assert_eq!(of(json!({"schedule": "* *"})), ["UnparseableSchedule"]);
        assert_eq!(of(json!({"timeZone": "No/Where"})), ["UnknownTimeZone"]);
        assert_eq!(of(json!({"schedule": "59 23 31 2 *"})), ["InvalidSchedule"]);
        assert_eq!(
            of(json!({"schedule": "CRON_TZ=UTC 0 * * * *"})),
            ["UnsupportedSchedule"]
        );
        assert_eq!(of(json!({"schedule": "* * * * *"})), Vec::<String>::new());
    }
}
