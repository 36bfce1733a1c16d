//! Jobs and CronJobs.

use control_client::{Propagation, resources};
use serde_json::{Value, json};

use super::template;
use crate::controllers::scenario::{AFTER_BACKOFF, Action, Step};
use tests::random::Random;

/// A template whose containers end with these codes.
fn ending(codes: &str) -> Value {
    let mut template = template("job", "one", &json!({"case/exit": codes}));
    template["spec"]["restartPolicy"] = "Never".into();
    template
}

pub fn job(random: &mut Random, _: &str) -> Vec<Step> {
    let jobs = || resources::JOBS;
    let completions = random.between(1, 4);
    let indexed = random.chance(50);
    let codes: Vec<String> = (0..completions)
        .map(|_| if random.chance(70) { "0" } else { "3" }.to_owned())
        .collect();
    let codes = if indexed {
        codes.join(",")
    } else {
        codes[0].clone()
    };
    let runs_forever = random.chance(20);
    let mut spec = json!({
        "parallelism": random.between(0, 3),
        "backoffLimit": random.between(0, 1),
        "template": ending(&codes),
    });
    if runs_forever {
        spec["template"]["metadata"]["annotations"] = json!({});
    }
    if indexed || random.chance(80) {
        spec["completions"] = completions.into();
    }
    if indexed {
        spec["completionMode"] = "Indexed".into();
        if random.chance(40) {
            spec["backoffLimitPerIndex"] = random.between(0, 1).into();
            spec["backoffLimit"] = 6.into();
            if random.chance(50) {
                spec["maxFailedIndexes"] = random.between(0, 2).into();
            }
        }
        if random.chance(30) {
            spec["successPolicy"] = match random.below(3) {
                0 => json!({"rules": [{"succeededIndexes": "0"}]}),
                1 => json!({"rules": [{"succeededCount": 1}]}),
                _ => json!({"rules": [{"succeededIndexes": format!("0-{}", completions - 1),
                    "succeededCount": 1}]}),
            };
        }
    }
    if random.chance(35) {
        let codes = json!({"operator": random.pick(&["In", "NotIn"]), "values": [3]});
        let mut actions = vec!["FailJob", "Ignore", "Count"];
        if spec.get("backoffLimitPerIndex").is_some() {
            actions.push("FailIndex");
        }
        let mut action = *random.pick(&actions);
        // Pods whose failures do not count are made again without an end.
        if action == "Ignore" {
            action = "Count";
        }
        spec["podFailurePolicy"] = json!({"rules": [{"action": action, "onExitCodes": codes}]});
    }
    if random.chance(20) {
        spec["suspend"] = true.into();
    }
    if random.chance(15) {
        spec["activeDeadlineSeconds"] = 4.into();
    }
    if random.chance(15) {
        spec["ttlSecondsAfterFinished"] = 1.into();
    }
    if random.chance(30) {
        spec["podReplacementPolicy"] = "Failed".into();
    }
    let object = json!({"apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "job", "labels": {"of": "case"}}, "spec": spec});
    let patch = |patch: Value| Action::Patch(jobs(), "job".to_owned(), patch);
    let mut all = vec![Step::new([Action::Create(jobs(), object)]).calm(AFTER_BACKOFF)];
    if spec_of(&all, "suspend") {
        all.push(Step::new([patch(json!({"spec": {"suspend": false}}))]).calm(AFTER_BACKOFF));
    } else if runs_forever && random.chance(60) {
        all.push(Step::new([patch(json!({"spec": {"suspend": true}}))]).calm(AFTER_BACKOFF));
        if random.chance(50) {
            all.push(Step::new([patch(json!({"spec": {"suspend": false}}))]).calm(AFTER_BACKOFF));
        }
    } else if random.chance(40) {
        let parallelism = random.between(0, 4);
        let change = json!({"spec": {"parallelism": parallelism}});
        all.push(Step::new([patch(change)]).calm(AFTER_BACKOFF));
    }
    if runs_forever && random.chance(30) {
        all.push(Step::new([Action::DeletePod("job".to_owned())]).calm(AFTER_BACKOFF));
    }
    if random.chance(30) {
        let policy = *random.pick(&[
            Propagation::Background,
            Propagation::Foreground,
            Propagation::Orphan,
        ]);
        all.push(Step::new([Action::Delete(
            jobs(),
            "job".to_owned(),
            policy,
        )]));
    }
    all
}

fn spec_of(steps: &[Step], field: &str) -> bool {
    let first = steps.first().and_then(|step| step.actions.first());
    matches!(first, Some(Action::Create(_, object)) if object["spec"][field] == true)
}

pub fn cron_job(random: &mut Random, _: &str) -> Vec<Step> {
    let crons = || resources::CRON_JOBS;
    let runs = random.chance(70);
    let code = if random.chance(70) { "0" } else { "3" };
    let mut job = json!({"backoffLimit": 0, "template": ending(code)});
    if random.chance(30) {
        job["template"]["metadata"]["annotations"] = json!({});
    }
    let mut spec = json!({
        "schedule": if runs { "* * * * *" } else { "0 0 1 1 *" },
        "concurrencyPolicy": random.pick(&["Allow", "Forbid", "Replace"]),
        "jobTemplate": {"metadata": {"labels": {"from": "cron"}}, "spec": job},
    });
    if random.chance(30) {
        spec["successfulJobsHistoryLimit"] = random.between(0, 1).into();
        spec["failedJobsHistoryLimit"] = random.between(0, 1).into();
    }
    if random.chance(20) {
        spec["startingDeadlineSeconds"] = 100.into();
    }
    let object = json!({"apiVersion": "batch/v1", "kind": "CronJob",
        "metadata": {"name": "cron"}, "spec": spec});
    let patch = |patch: Value| Action::Patch(crons(), "cron".to_owned(), patch);
    let suspend = patch(json!({"spec": {"suspend": true}}));
    // Between two minutes, so that the first Job is that of the next.
    let mut all = vec![Step::new([
        Action::NextMinute(5),
        Action::Create(crons(), object),
        Action::NextMinute(5),
        suspend,
    ])];
    if random.chance(50) {
        let policy = *random.pick(&[Propagation::Background, Propagation::Orphan]);
        all.push(Step::new([Action::Delete(
            crons(),
            "cron".to_owned(),
            policy,
        )]));
    }
    all
}
