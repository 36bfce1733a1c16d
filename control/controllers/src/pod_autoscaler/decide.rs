//! Derives a number of replicas, a status and events from an autoscaler's metrics.

use control_types::quantity::{Format, Quantity};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::behavior::{ReplicaBounds, ScalingHistory};
use super::error::MetricError;
use super::replicas::{Goal, Proposal, Round, Samples, Tolerances, requests, total};
use super::view::{
    AutoscalerStatus, CustomMetric, HorizontalPodAutoscaler, MetricName, MetricSpec,
    ResourceMetric, milli,
};
use crate::views::{Condition, LabelSelector};

/// Within how much of the target nothing changes, unless the spec says it.
const TOLERANCE: f64 = 0.1;

/// A response of the metrics APIs.
#[derive(Debug, Clone)]
pub(super) enum MetricsAnswer {
    /// A metric of each pod.
    Samples(Samples),
    /// Values in thousandths, of one object or of something outside.
    Values(Vec<i64>),
}

/// An event for users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AutoscalerEvent {
    pub(super) is_warning: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// How the number of replicas is chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Course {
    /// The number is zero: a user switched the autoscaler off.
    Disabled,
    /// The number is out of bounds: this many, for this reason.
    Bound(i32, &'static str),
    /// The number follows the metrics.
    Measure,
}

/// A change of the number of replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rescale {
    pub(super) from: i32,
    pub(super) to: i32,
    pub(super) reason: String,
}

/// The measurements from which a number of replicas follows.
pub(super) struct Measurements<'a> {
    /// The pods of the target and their readiness.
    pub(super) round: Round<'a>,
    /// Replicas that the target has.
    pub(super) actual: i32,
    /// An answer for each metric of the spec.
    pub(super) answers: &'a [Result<MetricsAnswer, MetricError>],
}

/// One evaluation of an autoscaler: its next status and events.
pub(super) struct Evaluation<'a> {
    hpa: &'a HorizontalPodAutoscaler,
    pub(super) status: AutoscalerStatus,
    pub(super) notices: Vec<AutoscalerEvent>,
    now: Timestamp,
}

/// The reason why a metric is unusable.
struct Failure {
    reason: &'static str,
    /// For the condition and the event.
    problem: String,
    /// For the summary.
    error: String,
}

impl<'a> Evaluation<'a> {
    pub(super) fn new(hpa: &'a HorizontalPodAutoscaler, now: Timestamp) -> Self {
        Self {
            hpa,
            status: hpa.status.clone(),
            notices: Vec::new(),
            now,
        }
    }

    fn min(&self) -> i32 {
        self.hpa.spec.min_replicas.unwrap_or(1)
    }

    /// Records that the target has no readable scale.
    pub(super) fn no_scale(&mut self, problem: &str) {
        self.warn("FailedGetScale", problem.to_owned());
        let message =
            format!("the HPA controller was unable to get the target's current scale: {problem}");
        self.set("AbleToScale", false, "FailedGetScale", message);
    }

    /// The target has a scale. Decides whether metrics are needed.
    pub(super) fn course(&mut self, current: i32) -> Course {
        let message = "the HPA controller was able to get the target's current scale";
        self.set("AbleToScale", true, "SucceededGetScale", message.into());
        if current == 0 {
            let message = "scaling is disabled since the replica count of the target is zero";
            self.set("ScalingActive", false, "ScalingDisabled", message.into());
            return Course::Disabled;
        }
        let max = self.hpa.spec.max_replicas;
        if current > max {
            Course::Bound(max, "Current number of replicas above Spec.MaxReplicas")
        } else if current < self.min() {
            Course::Bound(
                self.min(),
                "Current number of replicas below Spec.MinReplicas",
            )
        } else {
            Course::Measure
        }
    }

    /// Records that the target's pods cannot be selected.
    pub(super) fn bad_selector(
        &mut self,
        current: i32,
        (event, condition): (&'static str, &'static str),
        problem: &str,
    ) {
        self.warn(event, problem.to_owned());
        let message = if problem == "selector is required" {
            "the HPA target's scale is missing a selector"
        } else {
            problem
        };
        self.set("ScalingActive", false, condition, message.into());
        self.failed(current, problem.to_owned(), Vec::new());
    }

    /// Decides by metrics. `None`: the number of replicas stays.
    pub(super) fn measure(
        &mut self,
        measured: &Measurements<'_>,
        past: &mut ScalingHistory,
    ) -> Option<Rescale> {
        let current = measured.round.current;
        let (mut best, mut statuses) = (None::<(i32, String)>, Vec::new());
        let mut failures = Vec::new();
        for (spec, answer) in self.hpa.spec.metrics.iter().zip(measured.answers) {
            match propose(spec, measured, &self.hpa.metadata.namespace, answer) {
                Ok((proposal, name, status)) => {
                    statuses.push(status);
                    let is_better = best
                        .as_ref()
                        .is_none_or(|(most, _)| *most == 0 || proposal.replicas > *most);
                    if is_better {
                        best = Some((proposal.replicas, name));
                    }
                }
                Err(failure) => {
                    statuses.push(json!({"type": ""}));
                    self.warn(failure.reason, failure.problem.clone());
                    failures.push(failure);
                }
            }
        }
        let specs = self.hpa.spec.metrics.len();
        let proposed = best.as_ref().map_or(0, |(replicas, _)| *replicas);
        if let Some(first) = failures.first()
            && (failures.len() >= specs || proposed < current)
        {
            let problem = &first.problem;
            let message = format!("the HPA was unable to compute the replica count: {problem}");
            self.set("ScalingActive", false, first.reason, message);
            let count = failures.len();
            let error = &first.error;
            let summary = format!(
                "invalid metrics ({count} invalid out of {specs}), first error is: {error}"
            );
            self.failed(current, summary, statuses);
            return None;
        }
        let (proposed, name) = best.unwrap_or_default();
        let message =
            format!("the HPA was able to successfully calculate a replica count from {name}");
        self.set("ScalingActive", true, "ValidMetricFound", message);
        let reason = match proposed.cmp(&current) {
            std::cmp::Ordering::Greater => format!("{name} above target"),
            std::cmp::Ordering::Less => "All metrics below target".to_owned(),
            std::cmp::Ordering::Equal => String::new(),
        };
        let normalized = past.normalize(
            proposed.max(0),
            &ReplicaBounds {
                current,
                min: self.min(),
                max: self.hpa.spec.max_replicas,
                behavior: self.hpa.spec.behavior.as_ref(),
                now: self.now,
            },
        );
        let (able, why) = normalized.able;
        self.set("AbleToScale", true, able, why.into());
        let (is_limited, (limit, why)) = normalized.limited;
        self.set("ScalingLimited", is_limited, limit, why.into());
        self.status.current_metrics = statuses;
        let to = normalized.replicas;
        (to != current).then_some(Rescale {
            from: current,
            to,
            reason,
        })
    }

    /// Whether the metrics did not lead to a number of replicas.
    pub(super) fn has_failed(&self) -> bool {
        let mut notices = self.notices.iter();
        notices.any(|notice| notice.reason == "FailedComputeMetricsReplicas")
    }

    /// The number of replicas stays as it is.
    pub(super) fn stays(&mut self, current: i32) {
        self.status.current_replicas = current;
        self.status.desired_replicas = current;
    }

    /// The number of replicas was changed.
    pub(super) fn rescaled(&mut self, rescale: &Rescale) {
        let (to, reason) = (rescale.to, &rescale.reason);
        let message = format!("the HPA controller was able to update the target scale to {to}");
        self.set("AbleToScale", true, "SucceededRescale", message);
        self.notices.push(AutoscalerEvent {
            is_warning: false,
            reason: "SuccessfulRescale",
            message: format!("New size: {to}; reason: {reason}"),
        });
        self.status
            .conditions
            .retain(|c| c.r#type != "ScaledToZero");
        self.status.current_replicas = rescale.from;
        self.status.desired_replicas = to;
        self.status.last_scale_time = Some(self.now);
    }

    /// The number of replicas could not be changed.
    pub(super) fn rescale_failed(&mut self, rescale: &Rescale, error: &str) {
        let (to, reason) = (rescale.to, &rescale.reason);
        self.warn(
            "FailedRescale",
            format!("New size: {to}; reason: {reason}; error: {error}"),
        );
        let message = format!("the HPA controller was unable to update the target scale: {error}");
        self.set("AbleToScale", false, "FailedUpdateScale", message);
        self.status.current_replicas = rescale.from;
    }

    /// No metrics are shown where none were needed.
    pub(super) fn without_metrics(&mut self) {
        self.status.current_metrics = Vec::new();
    }

    fn failed(&mut self, current: i32, summary: String, statuses: Vec<Value>) {
        self.status.current_replicas = current;
        self.status.current_metrics = statuses;
        self.warn("FailedComputeMetricsReplicas", summary);
    }

    fn warn(&mut self, reason: &'static str, message: String) {
        self.notices.push(AutoscalerEvent {
            is_warning: true,
            reason,
            message,
        });
    }

    fn set(&mut self, r#type: &str, is_true: bool, reason: &str, message: String) {
        let status = if is_true { "True" } else { "False" };
        let new = Condition::new(r#type, status, reason, message, self.now);
        let conditions = &mut self.status.conditions;
        match conditions.iter_mut().find(|known| known.r#type == r#type) {
            Some(known) => {
                let since = known
                    .last_transition_time
                    .filter(|_| known.status == status);
                *known = Condition {
                    last_transition_time: since.or(new.last_transition_time),
                    ..new
                };
            }
            None => conditions.push(new),
        }
    }
}

/// Within how much of the target nothing changes.
pub(super) fn tolerances(hpa: &HorizontalPodAutoscaler) -> Tolerances {
    let behavior = hpa.spec.behavior.as_ref();
    let of = |text: Option<&crate::views::Text>| {
        let quantity = text.and_then(|text| Quantity::parse(text).ok());
        quantity.map_or(TOLERANCE, |quantity| quantity.as_f64())
    };
    Tolerances {
        down: of(behavior.and_then(|b| b.scale_down.tolerance.as_ref())),
        up: of(behavior.and_then(|b| b.scale_up.tolerance.as_ref())),
    }
}

/// Returns the replicas that one metric proposes, its name, and its status.
fn propose(
    spec: &MetricSpec,
    measured: &Measurements<'_>,
    namespace: &str,
    answer: &Result<MetricsAnswer, MetricError>,
) -> Result<(Proposal, String, Value), Failure> {
    let kind = spec.r#type.as_str();
    match (kind, &spec.resource, &spec.container_resource) {
        ("Resource", Some(metric), _) => by_resource(metric, false, measured, answer),
        ("ContainerResource", _, Some(metric)) => by_resource(metric, true, measured, answer),
        _ => match (kind, &spec.pods, &spec.object, &spec.external) {
            ("Pods", Some(metric), ..) => by_pods(metric, measured, answer),
            ("Object", _, Some(metric), _) => by_object(metric, measured, namespace, answer),
            ("External", .., Some(metric)) => by_external(metric, measured, namespace, answer),
            _ => {
                let error = format!("unknown metric source type {kind:?}");
                Err(Failure {
                    reason: "InvalidMetricSourceType",
                    problem: error.clone(),
                    error,
                })
            }
        },
    }
}

fn samples(answer: &Result<MetricsAnswer, MetricError>) -> Result<Samples, MetricError> {
    match answer {
        Ok(MetricsAnswer::Samples(samples)) => Ok(samples.clone()),
        Ok(MetricsAnswer::Values(_)) => Err(MetricError::NoMetrics),
        Err(error) => Err(error.clone()),
    }
}

fn sum(answer: &Result<MetricsAnswer, MetricError>) -> Result<i64, MetricError> {
    match answer {
        Ok(MetricsAnswer::Values(values)) => Ok(total(values.iter().copied())),
        Ok(MetricsAnswer::Samples(_)) => Err(MetricError::NoMetrics),
        Err(error) => Err(error.clone()),
    }
}

fn by_resource(
    metric: &ResourceMetric,
    of_container: bool,
    measured: &Measurements<'_>,
    answer: &Result<MetricsAnswer, MetricError>,
) -> Result<(Proposal, String, Value), Failure> {
    let name = metric.name.as_str();
    let container = if of_container {
        metric.container.as_str()
    } else {
        ""
    };
    let target = &metric.target;
    let average = target.average_value.as_deref().and_then(milli);
    let compute = || -> Result<Proposal, MetricError> {
        let is_cpu = name == "cpu";
        let fetch = || {
            samples(answer)
                .map_err(|error| error.within(format!("unable to get metrics for resource {name}")))
        };
        if let Some(average) = average {
            let proposal = fetch().and_then(|samples| {
                measured
                    .round
                    .by_pods(samples, Goal::Average(average), is_cpu)
            });
            return proposal.map_err(|error| error.within(format!("failed to get {name} usage")));
        }
        let Some(percent) = target.average_utilization else {
            return Err(MetricError::NoTarget(
                "invalid resource metric source: neither an average utilization target nor an average value (usage) target was set",
            ));
        };
        let proposal = fetch().and_then(|samples| {
            let requests = requests(measured.round.pods, container, name)?;
            let goal = Goal::Utilization(percent, &requests);
            measured.round.by_pods(samples, goal, is_cpu)
        });
        proposal.map_err(|error| error.within(format!("failed to get {name} utilization")))
    };
    let (reason, r#type, field) = if of_container {
        (
            "FailedGetContainerResourceMetric",
            "ContainerResource",
            "containerResource",
        )
    } else {
        ("FailedGetResourceMetric", "Resource", "resource")
    };
    let proposal = compute().map_err(|problem| Failure {
        reason,
        error: if of_container {
            format!("failed to get {container} container metric value: {problem}")
        } else {
            format!("failed to get {name} resource metric value: {problem}")
        },
        problem: problem.to_string(),
    })?;
    let mut current = json!({"averageValue": resource_quantity(name, proposal.usage)});
    if let Some(percent) = proposal.utilization {
        current["averageUtilization"] = percent.into();
    }
    let mut status = json!({"name": name, "current": current});
    if of_container {
        status["container"] = container.into();
    }
    let title = match (average, of_container) {
        (Some(_), _) => format!("{name} resource"),
        (None, false) => format!("{name} resource utilization (percentage of request)"),
        (None, true) => format!("{name} container resource utilization (percentage of request)"),
    };
    Ok((proposal, title, json!({"type": r#type, field: status})))
}

fn by_pods(
    metric: &CustomMetric,
    measured: &Measurements<'_>,
    answer: &Result<MetricsAnswer, MetricError>,
) -> Result<(Proposal, String, Value), Failure> {
    let name = &metric.metric.name;
    let target = metric.target.average_value.as_deref().and_then(milli);
    let proposal = samples(answer)
        .map_err(|error| error.within(format!("unable to get metric {name}")))
        .and_then(|samples| {
            let goal = Goal::Average(target.unwrap_or(0));
            measured.round.by_pods(samples, goal, false)
        })
        .map_err(|problem| Failure {
            reason: "FailedGetPodsMetric",
            error: format!("failed to get pods metric value: {problem}"),
            problem: problem.to_string(),
        })?;
    let status = json!({"type": "Pods", "pods": {"metric": metric.metric,
        "current": {"averageValue": quantity(proposal.usage)}}});
    Ok((proposal, format!("pods metric {name}"), status))
}

fn by_object(
    metric: &CustomMetric,
    measured: &Measurements<'_>,
    namespace: &str,
    answer: &Result<MetricsAnswer, MetricError>,
) -> Result<(Proposal, String, Value), Failure> {
    const REASON: &str = "FailedGetObjectMetric";
    let name = &metric.metric.name;
    let object = &metric.described_object;
    let usage = sum(answer).map_err(|error| {
        let (kind, of) = (&object.kind, &object.name);
        MetricError::OnObject {
            what: format!("unable to get metric {name}"),
            error: Box::new(error),
            object: format!("{kind} {namespace}/{of}"),
        }
    });
    let target = &metric.target;
    let value = target.value.as_deref().and_then(milli);
    let average = target.average_value.as_deref().and_then(milli);
    let (field, proposal, title) = match (target.r#type.as_str(), value, average) {
        ("Value", Some(value), _) => {
            let proposal = usage
                .and_then(|usage| measured.round.by_value(usage, value))
                .map_err(|problem| Failure {
                    reason: REASON,
                    error: format!("failed to get object metric value: {problem}"),
                    problem: problem.to_string(),
                })?;
            ("value", proposal, format!("{} metric {name}", object.kind))
        }
        ("AverageValue", _, Some(average)) => {
            let usage = usage.map_err(|problem| Failure {
                reason: REASON,
                error: format!(
                    "failed to get object metric value: failed to get {name} object metric: {problem}"
                ),
                problem: problem.to_string(),
            })?;
            let proposal = measured.round.by_average(usage, average, measured.actual);
            ("averageValue", proposal, external_title(&metric.metric))
        }
        _ => {
            let problem = "invalid object metric source: neither a value target nor an average value target was set".to_owned();
            return Err(Failure {
                reason: REASON,
                error: format!("failed to get object metric value: {problem}"),
                problem,
            });
        }
    };
    let status = json!({"type": "Object", "object": {"metric": metric.metric,
        "describedObject": object, "current": {field: quantity(proposal.usage)}}});
    Ok((proposal, title, status))
}

fn by_external(
    metric: &CustomMetric,
    measured: &Measurements<'_>,
    namespace: &str,
    answer: &Result<MetricsAnswer, MetricError>,
) -> Result<(Proposal, String, Value), Failure> {
    const REASON: &str = "FailedGetExternalMetric";
    let name = &metric.metric.name;
    let usage = sum(answer).map_err(|error| {
        let selector = selector_text(metric.metric.selector.as_ref());
        error.within(format!(
            "unable to get external metric {namespace}/{name}/{selector}"
        ))
    });
    let failure = |problem: String, what: &str| Failure {
        reason: REASON,
        error: format!("failed to get {name} external metric value: {what}{problem}"),
        problem,
    };
    let value = metric.target.value.as_deref().and_then(milli);
    let average = metric.target.average_value.as_deref().and_then(milli);
    let (field, proposal) = match (average, value) {
        (Some(average), _) => {
            let what = format!("failed to get {name} external metric: ");
            let usage = usage.map_err(|error| failure(error.to_string(), &what))?;
            let proposal = measured.round.by_average(usage, average, measured.actual);
            ("averageValue", proposal)
        }
        (None, Some(value)) => {
            let what = format!("failed to get external metric {name}: ");
            let proposal = usage
                .and_then(|usage| measured.round.by_value(usage, value))
                .map_err(|error| failure(error.to_string(), &what))?;
            ("value", proposal)
        }
        (None, None) => {
            let problem = "invalid external metric source: neither a value target nor an average value target was set";
            return Err(failure(problem.to_owned(), ""));
        }
    };
    let status = json!({"type": "External", "external": {"metric": metric.metric,
        "current": {field: quantity(proposal.usage)}}});
    Ok((proposal, external_title(&metric.metric), status))
}

fn external_title(metric: &MetricName) -> String {
    let selector = selector_text(metric.selector.as_ref());
    format!("external metric {}({selector})", metric.name)
}

/// A selector as Go prints it.
fn selector_text(selector: Option<&LabelSelector>) -> String {
    selector.map_or_else(|| "nil".to_owned(), ToString::to_string)
}

fn quantity(milli: i64) -> String {
    Quantity::from_milli(milli).canonical().to_string()
}

/// A quantity of a resource: memory is shown in powers of two.
fn resource_quantity(resource: &str, milli: i64) -> String {
    const KIBIBYTE: i64 = 1024 * 1000;
    if resource != "memory" || milli.abs() < KIBIBYTE {
        return quantity(milli);
    }
    let bytes = milli / 1000 + i64::from(milli % 1000 > 0);
    Quantity::new(bytes, Format::BinarySI)
        .canonical()
        .to_string()
}
