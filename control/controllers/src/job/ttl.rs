//! Deletes finished Jobs with a TTL, and their pods (KEP-592).

use std::sync::Arc;
use std::time::Duration;

use control_client::{Client, DeleteOptions, Propagation, Queue, resources};
use jiff::{SignedDuration, Timestamp};

use crate::Controller;
use crate::key::Key;
use crate::kind_cache::KindCache;
use crate::views::Job;
use crate::work::{self, Outcome};

/// Deletes finished Jobs.
pub const CONTROLLER: Controller = Controller {
    name: "ttl-after-finished-controller",
    service_account: "ttl-after-finished-controller",
    start: |ctx| {
        let this = Arc::new(FinishedJob {
            client: ctx.client.clone(),
            jobs: ctx.jobs(),
            queue: work::queue(),
        });
        let listener = Arc::clone(&this);
        this.jobs.on_change(move |change| {
            if let Some(job) = change
                .current
                .as_deref()
                .filter(|job| expiry(job).is_some())
            {
                listener.queue.add(Key::from_meta(&job.metadata));
            }
        });
        let (workers, shutdown) = (ctx.config.workers, ctx.shutdown.clone());
        Box::pin(async move {
            this.jobs.ready().await;
            let work = work::call(&this, |this, key| async move { this.sync(key).await });
            this.queue
                .run("ttl-after-finished", workers, &shutdown, work)
                .await;
        })
    },
};

struct FinishedJob {
    client: Client,
    jobs: Arc<KindCache<Job>>,
    queue: Queue<Key>,
}

/// When a Job is to be deleted; none that has not finished, or stays.
fn expiry(job: &Job) -> Option<Timestamp> {
    let seconds = job.spec.ttl_seconds_after_finished?;
    if job.metadata.is_terminating() {
        return None;
    }
    let how = job.finished()?;
    let ended = job.status.conditions.iter().find(|one| one.r#type == how)?;
    let at = ended.last_transition_time?;
    at.checked_add(SignedDuration::from_secs(seconds.into()))
        .ok()
}

/// How long until then; none when it is time.
fn left(at: Timestamp, now: Timestamp) -> Option<Duration> {
    Duration::try_from(at.duration_since(now))
        .ok()
        .filter(|left| !left.is_zero())
}

impl FinishedJob {
    async fn sync(&self, key: Key) -> Outcome {
        let Some(at) = self.jobs.by_key(&key).and_then(|job| expiry(&job)) else {
            return Ok(None);
        };
        if let Some(left) = left(at, Timestamp::now()) {
            return Ok(Some(left));
        }
        // The TTL may have changed.
        let fresh: Job = match self
            .client
            .get(&resources::JOBS, &key.namespace, &key.name)
            .await
        {
            Ok(job) => job,
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(at) = expiry(&fresh) else {
            return Ok(None);
        };
        if let Some(left) = left(at, Timestamp::now()) {
            return Ok(Some(left));
        }
        let options =
            DeleteOptions::of_uid(fresh.metadata.uid.as_str()).propagation(Propagation::Foreground);
        let deleted = self
            .client
            .delete(&resources::JOBS, &key.namespace, &key.name, &options)
            .await;
        match deleted {
            Err(error) if !error.is_not_found() && !error.is_conflict() => Err(error),
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn job(ttl: Value, condition: &str) -> Job {
        serde_json::from_value(json!({
            "metadata": {"name": "j"},
            "spec": {"ttlSecondsAfterFinished": ttl},
            "status": {"conditions": [{"type": condition, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]},
        }))
        .unwrap()
    }

    #[test]
    fn only_what_has_finished_and_says_when_is_deleted() {
        let at: Timestamp = "2026-01-01T00:01:00Z".parse().unwrap();
        assert_eq!(expiry(&job(json!(60), "Complete")), Some(at));
        assert_eq!(expiry(&job(json!(60), "Failed")), Some(at));
        assert_eq!(expiry(&job(json!(60), "SuccessCriteriaMet")), None);
        assert_eq!(expiry(&job(Value::Null, "Complete")), None);
        assert_eq!(left(at, at), None);
        assert_eq!(
            left(at, "2026-01-01T00:00:30Z".parse().unwrap()),
            Some(Duration::from_secs(30))
        );
    }
}
