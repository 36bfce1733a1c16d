//! Scenarios of autoscalers: pods and metrics in, numbers of replicas, conditions and
//! messages out.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::behavior::{ReplicaBounds, ScalingHistory};
use super::decide::{Course, Evaluation, Measurements, MetricsAnswer, Rescale, tolerances};
use super::error::MetricError;
use super::replicas::{Goal, Round, Sample, Samples, Tolerances, requests};
use super::view::{Behavior, HorizontalPodAutoscaler, ScaledPod};
use crate::views::Text;

const TOLERANCES: Tolerances = Tolerances { down: 0.1, up: 0.1 };

fn now() -> Timestamp {
    "2026-01-01T01:00:00Z".parse().unwrap()
}

/// A pod: `ready`, `unready`, `new` (started ten seconds ago), `pending`, `failed` or
/// `going`. Each container requests a whole CPU and 1 Gi.
fn pod(at: usize, state: &str) -> ScaledPod {
    let requests = json!({"cpu": "1", "memory": "1Gi"});
    let (phase, ready) = match state {
        "pending" => ("Pending", "False"),
        "failed" => ("Failed", "False"),
        "unready" | "new" => ("Running", "False"),
        _ => ("Running", "True"),
    };
    let started = if state == "new" {
        "2026-01-01T00:59:50Z"
    } else {
        "2026-01-01T00:00:00Z"
    };
    let mut pod = json!({"metadata": {"name": format!("p{at}")},
        "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]},
        "status": {"phase": phase, "startTime": started, "conditions": [
            {"type": "Ready", "status": ready, "lastTransitionTime": started}]}});
    if state == "going" {
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T01:00:00Z".into();
    }
    serde_json::from_value(pod).unwrap()
}

fn pods(states: &[&str]) -> Vec<ScaledPod> {
    states
        .iter()
        .enumerate()
        .map(|(at, state)| pod(at, state))
        .collect()
}

/// Metrics of the first pods; none where the value is negative.
fn samples(values: &[i64]) -> Samples {
    let sample = |(at, value): (usize, &i64)| {
        let sample = Sample {
            value: *value,
            timestamp: now(),
            window: SignedDuration::from_secs(60),
        };
        (Text::from(format!("p{at}")), sample)
    };
    let known = values.iter().enumerate().filter(|(_, value)| **value >= 0);
    known.map(sample).collect()
}

fn utilization(
    current: i32,
    target: i32,
    states: &[&str],
    values: &[i64],
) -> Result<(i32, i32), String> {
    let pods = pods(states);
    let requests: BTreeMap<Text, i64> = requests(&pods, "", "cpu").unwrap();
    let round = Round {
        current,
        pods: &pods,
        tolerances: TOLERANCES,
        now: now(),
    };
    let goal = Goal::Utilization(target, &requests);
    let proposal = round
        .by_pods(samples(values), goal, true)
        .map_err(|error| error.to_string())?;
    Ok((proposal.replicas, proposal.utilization.unwrap()))
}

#[test]
fn utilization_leads_to_upstreams_number_of_replicas() {
    let ready = ["ready"; 10];
    for (current, target, states, values, want) in [
        (3, 30, &ready[..3], &[300, 500, 700][..], (5, 50)),
        (3, 50, &ready[..3], &[100, 300, 200], (2, 20)),
        // within the tolerance
        (3, 100, &ready[..3], &[1010, 1030, 1020], (3, 102)),
        (3, 100, &ready[..3], &[1100, 1100, 1100], (3, 110)),
        (3, 100, &ready[..3], &[1110, 1110, 1110], (4, 111)),
        // pods that start count as idle when scaling up, and not at all when down
        (3, 30, &["ready", "ready", "new"], &[500, 700, 0], (4, 60)),
        (3, 30, &["ready", "new", "new"], &[400, 500, 700], (3, 40)),
        (3, 30, &["ready", "ready", "pending"], &[500, 700], (4, 60)),
        // ready an hour ago, not ready now: the metric counts
        (
            3,
            30,
            &["ready", "ready", "going"],
            &[500, 700, 9000],
            (4, 60),
        ),
        (
            3,
            30,
            &["ready", "ready", "failed"],
            &[500, 700, 9000],
            (4, 60),
        ),
        // without metrics: busy when scaling down, idle when up
        (4, 50, &ready[..4], &[100, 300, 200, -1], (4, 20)),
        (4, 50, &ready[..4], &[100, 100, 100, 0], (1, 7)),
        (3, 30, &ready[..3], &[1000, 1000, -1], (7, 100)),
        (3, 80, &ready[..3], &[1000, 1000, -1], (3, 100)),
    ] {
        let got = utilization(current, target, states, values);
        assert_eq!(
            got,
            Ok(want),
            "{current} at {target}: {states:?} {values:?}"
        );
    }
}

#[test]
fn nothing_to_go_by_is_an_error() {
    let error = |states: &[&str], values: &[i64]| utilization(3, 30, states, values).unwrap_err();
    assert_eq!(
        error(&[], &[]),
        "no pods returned by selector while calculating replica count"
    );
    assert_eq!(
        error(&["new", "pending"], &[100]),
        "did not receive metrics for targeted pods (pods might be unready)"
    );
    let mut all = pods(&["ready"]);
    all[0].spec.containers[0].resources.requests.clear();
    assert_eq!(
        requests(&all, "", "cpu").unwrap_err().to_string(),
        "missing request for cpu in container c of Pod p0"
    );
    assert_eq!(
        requests(&all, "other", "cpu").unwrap_err().to_string(),
        "container other not found in Pod p0"
    );
}

#[test]
fn requests_are_those_of_the_pod_or_of_its_containers() {
    let pod: ScaledPod = serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {
        "initContainers": [
            {"name": "i", "resources": {"requests": {"cpu": "4"}}},
            {"name": "s", "restartPolicy": "Always", "resources": {"requests": {"cpu": "100m"}}}],
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}}))
    .unwrap();
    let of = |pod: &ScaledPod, container| {
        requests(std::slice::from_ref(pod), container, "cpu").unwrap()["p"]
    };
    assert_eq!(of(&pod, ""), 1100);
    assert_eq!(of(&pod, "s"), 100);
    let mut whole = pod;
    whole.spec.resources.requests = [("cpu".into(), "3".into())].into();
    assert_eq!(of(&whole, ""), 3000);
    assert_eq!(of(&whole, "c"), 1000);
}

#[test]
fn values_are_divided_by_ready_pods_or_by_all() {
    let by_value = |current: i32, states: &[&str], usage: i64, target: i64| {
        let pods = pods(states);
        let round = Round {
            current,
            pods: &pods,
            tolerances: TOLERANCES,
            now: now(),
        };
        round.by_value(usage, target).unwrap().replicas
    };
    assert_eq!(by_value(3, &["ready"; 3], 20_000, 15_000), 4);
    assert_eq!(by_value(3, &["ready"; 3], 14_000, 15_000), 3);
    assert_eq!(
        by_value(3, &["ready", "unready", "unready"], 30_000, 15_000),
        2
    );
    assert_eq!(by_value(0, &[], 30_000, 15_000), 2);
    assert_eq!(by_value(3, &["ready"; 3], i64::MAX, 1), i32::MAX);
    let round = Round {
        current: 3,
        pods: &[],
        tolerances: TOLERANCES,
        now: now(),
    };
    let average = |usage, target| round.by_average(usage, target, 3);
    assert_eq!(average(8_600, 2_000).replicas, 5);
    assert_eq!(average(8_600, 2_000).usage, 2_867);
    assert_eq!(average(8_600, 2_867).replicas, 3);
}

// === Bounds ===

fn behavior(up: Value, down: Value) -> Behavior {
    serde_json::from_value(json!({"scaleUp": up, "scaleDown": down})).unwrap()
}

fn bounds(current: i32, behavior: Option<&Behavior>, second: i64) -> ReplicaBounds<'_> {
    ReplicaBounds {
        current,
        min: 1,
        max: 100,
        behavior,
        now: now() + SignedDuration::from_secs(second),
    }
}

#[test]
fn without_behavior_it_doubles_at_most_and_falls_after_five_minutes() {
    let mut past = ScalingHistory::default();
    past.begin(3, now());
    let up = past.normalize(50, &bounds(3, None, 0));
    assert_eq!(
        (up.replicas, up.limited.0, up.limited.1.0),
        (6, true, "ScaleUpLimit")
    );
    let kept = past.normalize(2, &bounds(6, None, 60));
    assert_eq!((kept.replicas, kept.able.0), (12, "ScaleDownStabilized"));
    let later = past.normalize(2, &bounds(6, None, 301));
    assert_eq!((later.replicas, later.able.0), (2, "ReadyForNewScale"));
    let mut past = ScalingHistory::default();
    let few = past.normalize(0, &bounds(6, None, 0));
    assert_eq!((few.replicas, few.limited.1.0), (1, "TooFewReplicas"));
    let many = past.normalize(500, &bounds(90, None, 0));
    assert_eq!((many.replicas, many.limited.1.0), (100, "TooManyReplicas"));
}

#[test]
fn policies_bound_what_changes_within_their_period() {
    let policy = |kind: &str, value: i32, seconds: i32| json!({"type": kind, "value": value, "periodSeconds": seconds});
    let rules = |select: &str, policies: Value| json!({"stabilizationWindowSeconds": 0, "selectPolicy": select, "policies": policies});
    let two = || json!([policy("Pods", 4, 60), policy("Percent", 100, 60)]);
    for (select, current, desired, want) in [
        ("Max", 10, 50, 20),
        ("Min", 10, 50, 14),
        ("Max", 2, 50, 6),
        ("Disabled", 10, 50, 10),
        ("Max", 10, 1, 1),
    ] {
        let behavior = behavior(
            rules(select, two()),
            rules("Max", json!([policy("Percent", 100, 15)])),
        );
        let got =
            ScalingHistory::default().normalize(desired, &bounds(current, Some(&behavior), 0));
        assert_eq!(got.replicas, want, "{select} {current} {desired}");
    }
    // changes within the period count
    let behavior = behavior(
        rules("Max", json!([policy("Pods", 4, 60)])),
        rules(
            "Min",
            json!([policy("Pods", 3, 60), policy("Percent", 10, 60)]),
        ),
    );
    let mut past = ScalingHistory::default();
    past.scaled(10, 13, Some(&behavior), now());
    assert_eq!(
        past.normalize(50, &bounds(13, Some(&behavior), 30))
            .replicas,
        14
    );
    assert_eq!(
        past.normalize(50, &bounds(13, Some(&behavior), 61))
            .replicas,
        17
    );
    assert_eq!(
        past.normalize(1, &bounds(50, Some(&behavior), 120))
            .replicas,
        47
    );
}

#[test]
fn windows_stabilize_in_both_directions() {
    let window = |seconds: i32| {
        json!({"stabilizationWindowSeconds": seconds, "selectPolicy": "Max",
            "policies": [{"type": "Percent", "value": 1000, "periodSeconds": 15}]})
    };
    let behavior = behavior(window(60), window(60));
    let mut past = ScalingHistory::default();
    past.begin(5, now());
    let up = past.normalize(9, &bounds(5, Some(&behavior), 10));
    assert_eq!((up.replicas, up.able.0), (5, "ScaleUpStabilized"));
    let down = past.normalize(3, &bounds(5, Some(&behavior), 20));
    assert_eq!((down.replicas, down.able.0), (5, "ScaleDownStabilized"));
    let later = past.normalize(9, &bounds(5, Some(&behavior), 81));
    assert_eq!((later.replicas, later.able.0), (9, "ReadyForNewScale"));
}

// === Whole looks ===

fn autoscaler(metrics: Value) -> HorizontalPodAutoscaler {
    serde_json::from_value(json!({"metadata": {"name": "web", "namespace": "a"},
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
            "minReplicas": 2, "maxReplicas": 5, "metrics": metrics}}))
    .unwrap()
}

fn cpu() -> Value {
    json!([{"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": 50}}}])
}

fn conditions(look: &Evaluation<'_>) -> Vec<String> {
    let conditions = look.status.conditions.iter();
    conditions
        .map(|c| format!("{} {} {}", c.r#type, c.status, c.reason))
        .collect()
}

fn measure<'a>(
    hpa: &'a HorizontalPodAutoscaler,
    current: i32,
    answers: &[Result<MetricsAnswer, MetricError>],
) -> (Evaluation<'a>, Option<Rescale>) {
    let pods = pods(&vec!["ready"; usize::try_from(current).unwrap()]);
    let mut look = Evaluation::new(hpa, now());
    assert_eq!(look.course(current), Course::Measure);
    let measured = Measurements {
        round: Round {
            current,
            pods: &pods,
            tolerances: tolerances(hpa),
            now: now(),
        },
        actual: current,
        answers,
    };
    let rescale = look.measure(&measured, &mut ScalingHistory::default());
    (look, rescale)
}

#[test]
fn metrics_lead_to_a_status_and_a_number() {
    let hpa = autoscaler(cpu());
    let answers = [Ok(MetricsAnswer::Samples(samples(&[900, 700, 800])))];
    let (mut look, rescale) = measure(&hpa, 3, &answers);
    let rescale = rescale.unwrap();
    assert_eq!((rescale.from, rescale.to), (3, 5));
    assert_eq!(
        rescale.reason,
        "cpu resource utilization (percentage of request) above target"
    );
    look.rescaled(&rescale);
    assert_eq!(
        look.notices[0].message,
        "New size: 5; reason: cpu resource utilization (percentage of request) above target"
    );
    assert_eq!(
        conditions(&look),
        [
            "AbleToScale True SucceededRescale",
            "ScalingActive True ValidMetricFound",
            "ScalingLimited False DesiredWithinRange"
        ]
    );
    assert_eq!(
        look.status.current_metrics,
        [json!({"type": "Resource", "resource": {"name": "cpu",
            "current": {"averageUtilization": 80, "averageValue": "800m"}}})]
    );
    assert_eq!(
        (look.status.current_replicas, look.status.desired_replicas),
        (3, 5)
    );
}

#[test]
fn replicas_out_of_bounds_need_no_metrics() {
    let hpa = autoscaler(cpu());
    let course = |current| Evaluation::new(&hpa, now()).course(current);
    assert_eq!(course(0), Course::Disabled);
    assert!(matches!(course(9), Course::Bound(5, _)));
    assert!(matches!(course(1), Course::Bound(2, _)));
    assert_eq!(course(2), Course::Measure);
}

#[test]
fn metric_that_fails_stops_scaling_down_but_not_up() {
    let mut metrics = cpu().as_array().unwrap().clone();
    metrics.push(json!({"type": "Pods", "pods": {"metric": {"name": "qps"},
        "target": {"type": "AverageValue", "averageValue": "10"}}}));
    let hpa = autoscaler(metrics.into());
    let failed = || {
        Err(MetricError::Unavailable {
            api: "custom metrics API",
            why: "no".to_owned(),
        })
    };
    let low = [
        Ok(MetricsAnswer::Samples(samples(&[100, 100, 100]))),
        failed(),
    ];
    let (look, rescale) = measure(&hpa, 3, &low);
    assert_eq!(rescale, None);
    assert!(look.has_failed());
    assert!(conditions(&look).contains(&"ScalingActive False FailedGetPodsMetric".to_owned()));
    let notices: Vec<_> = look
        .notices
        .iter()
        .map(|notice| notice.message.as_str())
        .collect();
    assert_eq!(
        notices,
        [
            "unable to get metric qps: unable to fetch metrics from custom metrics API: no",
            "invalid metrics (1 invalid out of 2), first error is: failed to get pods metric value: unable to get metric qps: unable to fetch metrics from custom metrics API: no"
        ]
    );
    let high = [
        Ok(MetricsAnswer::Samples(samples(&[900, 900, 900]))),
        failed(),
    ];
    let (look, rescale) = measure(&hpa, 3, &high);
    assert_eq!(rescale.map(|rescale| rescale.to), Some(5));
    assert!(!look.has_failed());
}

#[test]
fn other_sources_have_upstreams_titles_and_statuses() {
    let metrics = json!([
        {"type": "Object", "object": {"metric": {"name": "rate"},
            "describedObject": {"apiVersion": "v1", "kind": "Service", "name": "s"},
            "target": {"type": "Value", "value": "10"}}},
        {"type": "External", "external": {"metric": {"name": "queue",
                "selector": {"matchLabels": {"q": "a"}}},
            "target": {"type": "AverageValue", "averageValue": "30"}}},
        {"type": "ContainerResource", "containerResource": {"name": "memory", "container": "c",
            "target": {"type": "AverageValue", "averageValue": "1Gi"}}}]);
    let hpa = autoscaler(metrics);
    let answers = [
        Ok(MetricsAnswer::Values(vec![9_000])),
        Ok(MetricsAnswer::Values(vec![60_000, 60_000])),
        Ok(MetricsAnswer::Samples(samples(&[1_073_741_824_000; 3]))),
    ];
    let (look, rescale) = measure(&hpa, 3, &answers);
    assert_eq!(
        rescale.unwrap().reason,
        "external metric queue(&LabelSelector{MatchLabels:map[string]string{q: a,},MatchExpressions:[]LabelSelectorRequirement{},}) above target"
    );
    let shown: Vec<_> = look
        .status
        .current_metrics
        .iter()
        .map(Value::to_string)
        .collect();
    assert_eq!(
        shown,
        [
            r#"{"object":{"current":{"value":"9"},"describedObject":{"apiVersion":"v1","kind":"Service","name":"s"},"metric":{"name":"rate"}},"type":"Object"}"#,
            r#"{"external":{"current":{"averageValue":"40"},"metric":{"name":"queue","selector":{"matchLabels":{"q":"a"}}}},"type":"External"}"#,
            r#"{"containerResource":{"container":"c","current":{"averageValue":"1Gi"},"name":"memory"},"type":"ContainerResource"}"#
        ]
    );
}

#[test]
fn tolerances_come_from_the_spec() {
    let mut hpa = autoscaler(cpu());
    assert_eq!(tolerances(&hpa), TOLERANCES);
    hpa.spec.behavior = Some(behavior(json!({"tolerance": "0"}), json!({})));
    assert_eq!(tolerances(&hpa), Tolerances { down: 0.1, up: 0.0 });
}

#[test]
fn condition_keeps_its_time_while_its_status_stays() {
    let hpa = autoscaler(cpu());
    let mut look = Evaluation::new(&hpa, now());
    look.no_scale("gone");
    let first = look.status.conditions[0].last_transition_time;
    let mut hpa = autoscaler(cpu());
    hpa.status = look.status;
    let later = now() + SignedDuration::from_secs(60);
    let mut look = Evaluation::new(&hpa, later);
    look.no_scale("still gone");
    assert_eq!(look.status.conditions[0].last_transition_time, first);
    assert_eq!(
        look.status.conditions[0].message,
        "the HPA controller was unable to get the target's current scale: still gone"
    );
    look.course(3);
    assert_eq!(look.status.conditions[0].last_transition_time, Some(later));
}
