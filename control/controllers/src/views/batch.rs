//! Jobs and cron jobs.

use control_client::Meta;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::common::{Condition, LabelSelector, Text, list};
use super::workload::Template;
use crate::job::policy::{FailurePolicy, SuccessPolicy};

/// A condition of a Job: the common shape.
pub type JobCondition = Condition;

/// A Job.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Job {
    /// Name, owner.
    pub metadata: Meta,
    /// The desired state.
    pub spec: JobSpec,
    /// The last reported status.
    pub status: JobStatus,
}

impl Job {
    /// How it finished: `Complete` or `Failed`.
    #[must_use]
    pub fn finished(&self) -> Option<&str> {
        let ends = |c: &&JobCondition| {
            (c.r#type == "Complete" || c.r#type == "Failed") && c.status == "True"
        };
        self.status
            .conditions
            .iter()
            .find(ends)
            .map(|c| c.r#type.as_str())
    }
}

/// A Job's spec.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobSpec {
    /// Pods at a time.
    pub parallelism: Option<i32>,
    /// Pods that must succeed; none: any one ends a work queue.
    pub completions: Option<i32>,
    /// `NonIndexed` (also when empty) or `Indexed`.
    pub completion_mode: Text,
    /// Failures that are borne.
    pub backoff_limit: Option<i32>,
    /// Seconds after which it has failed.
    pub active_deadline_seconds: Option<i64>,
    /// Seconds after which a finished one is deleted.
    pub ttl_seconds_after_finished: Option<i32>,
    /// No pods while set.
    pub suspend: bool,
    /// Selects its pods.
    pub selector: LabelSelector,
    /// The pod template.
    pub template: Template,
    /// Another controller's business, unless this is empty or ours.
    pub managed_by: Text,
    /// `TerminatingOrFailed` (also when empty) or `Failed`.
    pub pod_replacement_policy: Text,
    /// Failures that are borne for each index.
    pub backoff_limit_per_index: Option<i32>,
    /// Indexes that may fail.
    pub max_failed_indexes: Option<i32>,
    /// The rules for failed pods.
    pub pod_failure_policy: Option<FailurePolicy>,
    /// When it has succeeded early.
    pub success_policy: Option<SuccessPolicy>,
}

/// A Job's status.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub struct JobStatus {
    /// Complete, Failed, Suspended.
    #[serde(deserialize_with = "list")]
    pub conditions: Vec<JobCondition>,
    /// When its pods were first allowed to run.
    pub start_time: Option<Timestamp>,
    /// When it completed.
    pub completion_time: Option<Timestamp>,
    /// Pods that run or are to run.
    pub active: i32,
    /// Pods that succeeded.
    pub succeeded: i32,
    /// Pods that failed.
    pub failed: i32,
    /// Pods being deleted.
    pub terminating: Option<i32>,
    /// Active pods that are ready.
    pub ready: Option<i32>,
    /// Indexes done, such as `0,2-4`.
    pub completed_indexes: String,
    /// Indexes that failed, where that is counted.
    pub failed_indexes: Option<String>,
    /// Pods that ended and are not counted yet.
    pub uncounted_terminated_pods: Option<UncountedPods>,
}

/// Pods that ended, by uid, between counting and releasing them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct UncountedPods {
    /// Pods that succeeded.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub succeeded: Vec<Text>,
    /// Pods that failed.
    #[serde(deserialize_with = "list", skip_serializing_if = "Vec::is_empty")]
    pub failed: Vec<Text>,
}

/// A CronJob.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct CronJob {
    /// Name.
    pub metadata: Meta,
    /// The desired state.
    pub spec: CronJobSpec,
    /// The last reported status.
    pub status: CronJobStatus,
}

/// A CronJob's spec.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CronJobSpec {
    /// When, in five fields or as `@every 1h`.
    pub schedule: Text,
    /// The time zone of the schedule; UTC when absent.
    pub time_zone: Option<Text>,
    /// How many seconds late a start may be.
    pub starting_deadline_seconds: Option<i64>,
    /// `Allow` (also when empty), `Forbid` or `Replace`.
    pub concurrency_policy: Text,
    /// No jobs while set.
    pub suspend: bool,
    /// The job template as a JSON tree.
    pub job_template: Value,
    /// Finished jobs to keep.
    pub successful_jobs_history_limit: Option<i32>,
    /// Failed jobs to keep.
    pub failed_jobs_history_limit: Option<i32>,
}

/// A CronJob's status.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CronJobStatus {
    /// References to jobs that run.
    #[serde(deserialize_with = "list")]
    pub active: Vec<Value>,
    /// The last time that a job was due and started.
    pub last_schedule_time: Option<Timestamp>,
    /// When a job last succeeded.
    pub last_successful_time: Option<Timestamp>,
}
