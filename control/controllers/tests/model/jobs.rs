//! Checks Jobs and CronJobs: every run is done, and none is done twice.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::cluster::{Cluster, simulate};
use crate::history::{Action, Step, history, key};
use crate::{cases, objects};

/// How often objects with each name were created by controllers.
fn created(cluster: &Cluster, resource: &str) -> BTreeMap<String, usize> {
    let mut count = BTreeMap::new();
    for event in cluster.written(0) {
        if event.kind == "ADDED" && event.key.resource == resource {
            *count.entry(event.key.name).or_default() += 1;
        }
    }
    count
}

fn is_complete(job: &Value) -> bool {
    let conditions = job.pointer("/status/conditions").and_then(Value::as_array);
    conditions
        .into_iter()
        .flatten()
        .any(|one| one["type"] == "Complete" && one["status"] == "True")
}

#[test]
fn finished_job_does_not_run_again_while_its_cache_is_behind() {
    simulate(1, || async {
        let mut cluster = Cluster::new(&["job-controller"]);
        objects::base(&cluster.api);
        cluster
            .api
            .put("jobs.batch", objects::job("once", json!({})));
        cluster.restart();
        // Its pod runs.
        cluster.pass(Duration::from_secs(2)).await;
        cluster.api.hold_watches("jobs.batch");
        cluster.pass(Duration::from_secs(8)).await;
        assert!(is_complete(
            &cluster.api.get("jobs.batch", "a", "once").unwrap()
        ));
        for pod in cluster.api.list("pods") {
            let name = pod["metadata"]["name"].as_str().unwrap();
            cluster.api.delete(&key("pods", "a", name), &json!({}));
        }
        cluster.pass(Duration::from_secs(30)).await;
        assert_eq!(created(&cluster, "pods").len(), 1);
        cluster.settle().await;
        assert_eq!(created(&cluster, "pods").len(), 1);
    });
}

#[test]
fn status_is_not_written_onto_a_job_that_changed_meanwhile() {
    simulate(1, || async {
        let mut cluster = Cluster::new(&["job-controller"]);
        objects::base(&cluster.api);
        cluster
            .api
            .put("jobs.batch", objects::job("once", json!({})));
        cluster.restart();
        // Its pod runs.
        cluster.pass(Duration::from_secs(2)).await;
        cluster.api.hold_watches("jobs.batch");
        cluster.api.change(&key("jobs.batch", "a", "once"), |job| {
            job["metadata"]["annotations"]["example.com/changed"] = "yes".into();
        });
        let changed = cluster.api.revision();
        // Its pod succeeds.
        cluster.pass(Duration::from_secs(8)).await;
        let mut written = cluster.written(changed);
        written.retain(|event| event.key.resource == "jobs.batch");
        assert!(written.is_empty(), "{written:?}");
        cluster.settle().await;
        assert!(is_complete(
            &cluster.api.get("jobs.batch", "a", "once").unwrap()
        ));
    });
}

#[test]
fn time_of_a_schedule_has_one_job_while_the_cache_is_behind() {
    simulate(1, || async {
        let mut cluster = Cluster::new(&["cronjob-controller"]);
        objects::base(&cluster.api);
        cluster.api.put(
            "cronjobs.batch",
            objects::cron_job("tick", "*/2 * * * *", "Allow"),
        );
        cluster.restart();
        cluster.pass(Duration::from_secs(110)).await;
        cluster.api.hold_watches("cronjobs.batch");
        cluster.pass(Duration::from_secs(15)).await;
        assert_eq!(created(&cluster, "jobs.batch").len(), 1);
        for job in cluster.api.list("jobs.batch") {
            let name = job["metadata"]["name"].as_str().unwrap();
            cluster
                .api
                .delete(&key("jobs.batch", "a", name), &json!({}));
        }
        cluster.pass(Duration::from_secs(30)).await;
        assert_eq!(
            created(&cluster, "jobs.batch")
                .into_values()
                .collect::<Vec<_>>(),
            [1]
        );
    });
}

#[test]
fn job_that_cannot_be_replaced_is_tried_again_with_back_off() {
    simulate(1, || async {
        let mut cluster = Cluster::new(&["cronjob-controller"]);
        objects::base(&cluster.api);
        cluster.api.put(
            "cronjobs.batch",
            objects::cron_job("tick", "*/2 * * * *", "Replace"),
        );
        cluster.api.deny_deletes("jobs.batch");
        cluster.restart();
        cluster.pass(Duration::from_secs(250)).await;
        assert_eq!(created(&cluster, "jobs.batch").len(), 1);
        let before = cluster.api.requests();
        cluster.pass(Duration::from_secs(60)).await;
        let asked = cluster.api.requests() - before;
        assert!((1..60).contains(&asked), "{asked} requests in a minute");
    });
}

#[test]
fn active_job_of_another_uid_is_gone() {
    simulate(1, || async {
        let mut cluster = Cluster::new(&["cronjob-controller"]);
        objects::base(&cluster.api);
        cluster.api.put(
            "cronjobs.batch",
            objects::cron_job("tick", "*/2 * * * *", "Forbid"),
        );
        cluster.restart();
        cluster.pass(Duration::from_secs(130)).await;
        let job = cluster.api.list("jobs.batch").remove(0);
        let name = job["metadata"]["name"].as_str().unwrap();
        cluster
            .api
            .delete(&key("jobs.batch", "a", name), &json!({}));
        cluster.api.put("jobs.batch", objects::job(name, json!({})));
        cluster.pass(Duration::from_secs(130)).await;
        assert_eq!(created(&cluster, "jobs.batch").len(), 2);
    });
}

fn actions() -> Vec<Action> {
    let once = || key("jobs.batch", "a", "once");
    vec![
        Action::Set(once(), "/spec/suspend", json!(true)),
        Action::Set(once(), "/spec/suspend", json!(false)),
        Action::Set(once(), "/spec/parallelism", json!(3)),
        Action::Delete(once(), "Background"),
        Action::Create("jobs.batch", objects::job("once", json!({}))),
    ]
}

/// Runs a history, and checks that no Job has pods that were made after it was complete,
/// and that no time of a schedule has two jobs.
async fn run(steps: &[Step]) {
    let mut cluster = Cluster::new(&[
        "job-controller",
        "cronjob-controller",
        "garbage-collector-controller",
    ]);
    objects::base(&cluster.api);
    let twice = json!({"completions": 2, "parallelism": 2});
    cluster.api.put("jobs.batch", objects::job("once", twice));
    cluster.api.put(
        "cronjobs.batch",
        objects::cron_job("tick", "* * * * *", "Allow"),
    );
    cluster.restart();
    for step in steps {
        cluster.step(step).await;
    }
    cluster.settle().await;
    let mut complete = Vec::new();
    for event in cluster.api.events_since(0) {
        match event.key.resource.as_str() {
            "jobs.batch" if is_complete(&event.object) => {
                complete.push(event.object["metadata"]["uid"].clone());
            }
            "pods" if event.kind == "ADDED" => {
                let owner = &event.object["metadata"]["ownerReferences"][0]["uid"];
                assert!(
                    !complete.contains(owner),
                    "work runs again: {:?}",
                    event.key
                );
            }
            _ => {}
        }
    }
    for (name, count) in created(&cluster, "jobs.batch") {
        assert_eq!(count, 1, "{name} was started more than once");
    }
    for job in cluster.api.list("jobs.batch") {
        let suspended = job.pointer("/spec/suspend") == Some(&json!(true));
        assert!(suspended || is_complete(&job), "not finished: {job}");
    }
}

proptest! {
    #![proptest_config(cases(20))]

    #[test]
    fn jobs_finish_and_no_work_runs_again(
        seed in any::<u64>(),
        steps in history(actions(), &["jobs.batch", "pods", "cronjobs.batch"], 12),
    ) {
        simulate(seed, || run(&steps));
    }
}
