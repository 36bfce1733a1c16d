//! `HorizontalPodAutoscaler`: `v1` knows CPU alone; all else is in annotations.

use control_types::value;
use control_types::value::Value;

use crate::kinds::horizontal_pod_autoscaler::default_behavior;
use crate::tree::{Read, Write};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const CPU: &str = "targetCPUUtilizationPercentage";
const CURRENT_CPU: &str = "currentCPUUtilizationPercentage";
/// The default target utilization.
const DEFAULT_UTILIZATION: i64 = 80;

/// The metric for CPU utilization in percent of requests.
pub(crate) fn cpu_metric(percent: i64) -> Value {
    value!({"type": "Resource", "resource": {
        "name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}
    }})
}

/// The default metric.
pub(crate) fn default_metric() -> Value {
    cpu_metric(DEFAULT_UTILIZATION)
}

fn take_annotation(object: &mut Value, key: &str) -> Option<Value> {
    let annotations = object.there("metadata")?.there("annotations")?;
    let text = annotations.text(key).to_owned();
    annotations.drop_field(key);
    let empty = annotations
        .as_object()
        .is_some_and(control_types::Map::is_empty);
    if empty {
        object.make("metadata").drop_field("annotations");
    }
    Value::from_slice(text.as_bytes()).ok()
}

fn annotate(object: &mut Value, key: &str, value: &Value) {
    let text = String::from_utf8(value.to_vec()).unwrap_or_default();
    let annotations = object.make("metadata").make("annotations");
    annotations.put(key, text);
    if let Value::Object(map) = annotations {
        map.sort();
    }
}

fn is_cpu(metric: &Value) -> bool {
    let resource = metric.at("resource");
    metric.text("type") == "Resource"
        && resource.text("name") == "cpu"
        && resource.at("target").has("averageUtilization")
}

pub(super) fn to_v1(object: &mut Value) {
    for key in [METRICS, BEHAVIOR, CURRENT_METRICS, CONDITIONS] {
        take_annotation(object, key);
    }
    let mut others = Vec::new();
    let mut cpu = None;
    for metric in object.at("spec").items("metrics") {
        if is_cpu(metric) {
            cpu = metric
                .dig(&["resource", "target"])
                .int("averageUtilization");
        } else {
            others.push(source_to_v1(metric));
        }
    }
    let status = object.at("status");
    let current: Vec<Value> = status
        .items("currentMetrics")
        .iter()
        .map(status_to_v1)
        .collect();
    let current_cpu = status.items("currentMetrics").iter().find_map(|metric| {
        let resource = metric.at("resource");
        (metric.text("type") == "Resource" && resource.text("name") == "cpu")
            .then(|| resource.at("current").int("averageUtilization"))?
    });
    let conditions = status.at("conditions").clone();
    if !others.is_empty() {
        annotate(object, METRICS, &Value::Array(others));
    }
    if !current.is_empty() {
        annotate(object, CURRENT_METRICS, &Value::Array(current));
    }
    let behavior = object.at("spec").at("behavior").clone();
    if !behavior.is_null() {
        annotate(object, BEHAVIOR, &without_times(&behavior));
    }
    if matches!(&conditions, Value::Array(list) if !list.is_empty()) {
        annotate(object, CONDITIONS, &conditions);
    }
    if let Some(spec) = object.there("spec") {
        spec.drop_field("metrics");
        spec.drop_field("behavior");
        if let Some(percent) = cpu {
            spec.put(CPU, percent);
        }
    }
    if let Some(status) = object.there("status") {
        status.drop_field("currentMetrics");
        status.drop_field("conditions");
        if let Some(percent) = current_cpu {
            status.put(CURRENT_CPU, percent);
        }
    }
}

/// The members of an annotated behavior are those of the API's internal form.
fn without_times(behavior: &Value) -> Value {
    let mut out = Value::object();
    for (rules, name) in [("scaleUp", "ScaleUp"), ("scaleDown", "ScaleDown")] {
        let from = behavior.at(rules);
        let mut to = Value::Null;
        if !from.is_null() {
            to = Value::object();
            to.put(
                "StabilizationWindowSeconds",
                from.at("stabilizationWindowSeconds").clone(),
            );
            to.put("SelectPolicy", from.at("selectPolicy").clone());
            let policies: Vec<Value> = from
                .items("policies")
                .iter()
                .map(|policy| {
                    value!({
                        "Type": (policy.text("type")),
                        "Value": (policy.num("value")),
                        "PeriodSeconds": (policy.num("periodSeconds"))
                    })
                })
                .collect();
            to.put("Policies", Value::Array(policies));
            to.put("Tolerance", from.at("tolerance").clone());
        }
        out.put(name, to);
    }
    out
}

/// The reverse of [`without_times`]; Go reads members in any case.
fn behavior_from(annotated: &Value) -> Value {
    let any = |owner: &Value, name: &str| -> Value {
        owner
            .as_object()
            .and_then(|map| map.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)))
            .map(|(_, value)| value.clone())
            .unwrap_or_default()
    };
    let mut out = Value::object();
    for rules in ["scaleUp", "scaleDown"] {
        let from = any(annotated, rules);
        if from.is_null() {
            continue;
        }
        let mut to = Value::object();
        for field in ["stabilizationWindowSeconds", "selectPolicy", "tolerance"] {
            let value = any(&from, field);
            if !value.is_null() {
                to.put(field, value);
            }
        }
        if let Value::Array(policies) = any(&from, "policies") {
            let policies: Vec<Value> = policies
                .iter()
                .map(|policy| {
                    let mut to = Value::object();
                    for field in ["type", "value", "periodSeconds"] {
                        to.put(field, any(policy, field));
                    }
                    to
                })
                .collect();
            to.put("policies", Value::Array(policies));
        }
        out.put(rules, to);
    }
    out
}

pub(super) fn from_v1(object: &mut Value) {
    let mut metrics = Vec::new();
    if let Some(Value::Array(others)) = take_annotation(object, METRICS) {
        metrics.extend(others.iter().map(source_from_v1));
    }
    let behavior = take_annotation(object, BEHAVIOR).map(|annotated| behavior_from(&annotated));
    let current = take_annotation(object, CURRENT_METRICS);
    let conditions = take_annotation(object, CONDITIONS);
    let spec = object.make("spec");
    if let Some(percent) = spec.int(CPU) {
        metrics.push(cpu_metric(percent));
    }
    spec.drop_field(CPU);
    if metrics.is_empty() {
        metrics.push(default_metric());
    }
    spec.put("metrics", Value::Array(metrics));
    if let Some(mut behavior) =
        behavior.filter(|b| b.as_object().is_some_and(|map| !map.is_empty()))
    {
        default_behavior(&mut behavior);
        spec.put("behavior", behavior);
    }
    let Some(status) = object.there("status") else {
        return;
    };
    if let Some(Value::Array(list)) = current {
        let list = list.iter().map(status_from_v1).collect();
        status.put("currentMetrics", Value::Array(list));
    } else if let Some(percent) = status.int(CURRENT_CPU) {
        status.put(
            "currentMetrics",
            value!([{"type": "Resource", "resource": {
                "name": "cpu", "current": {"averageUtilization": percent}
            }}]),
        );
    }
    status.drop_field(CURRENT_CPU);
    if let Some(conditions @ Value::Array(_)) = conditions {
        status.put("conditions", conditions);
    }
}

/// The member of a metric that holds its source: (type, member).
const SOURCES: &[(&str, &str)] = &[
    ("Object", "object"),
    ("Pods", "pods"),
    ("Resource", "resource"),
    ("ContainerResource", "containerResource"),
    ("External", "external"),
];

/// Copies existing members under other names.
fn rename(from: &Value, names: &[(&str, &str)]) -> Value {
    let mut out = Value::object();
    for (old, new) in names.iter().filter(|(old, _)| from.has(old)) {
        out.put(new, from.at(old).clone());
    }
    out
}

/// Writes a source's metric, for sources other than pod resources.
fn put_metric(to: &mut Value, member: &str, source: &Value) {
    if matches!(member, "object" | "pods" | "external") {
        let names = [
            ("metricName", "name"),
            ("selector", "selector"),
            ("metricSelector", "selector"),
        ];
        to.put("metric", rename(source, &names));
    }
}

fn source_to_v1(metric: &Value) -> Value {
    let mut out = rename(metric, &[("type", "type")]);
    for (_, member) in SOURCES.iter().filter(|(_, member)| metric.has(member)) {
        let source = metric.at(member);
        let (target, id) = (source.at("target"), source.at("metric"));
        let (value, average) = (
            target.at("value").clone(),
            target.at("averageValue").clone(),
        );
        let percent = target.at("averageUtilization").clone();
        let selector = id.at("selector").clone();
        let name: Value = id.text("name").into();
        let described = source.at("describedObject").clone();
        let all = match *member {
            "object" => value!({
                "target": (described), "metricName": (name), "targetValue": (or_zero(value)),
                "selector": (selector), "averageValue": (average)
            }),
            "pods" => value!({
                "metricName": (name), "targetAverageValue": (or_zero(average)), "selector": (selector)
            }),
            "external" => value!({
                "metricName": (name), "metricSelector": (selector), "targetValue": (value),
                "targetAverageValue": (average)
            }),
            "containerResource" => value!({
                "name": (source.text("name")), "targetAverageUtilization": (percent),
                "targetAverageValue": (average), "container": (source.text("container"))
            }),
            _ => value!({
                "name": (source.text("name")), "targetAverageUtilization": (percent),
                "targetAverageValue": (average)
            }),
        };
        out.put(member, without_nulls(all));
    }
    out
}

fn source_from_v1(metric: &Value) -> Value {
    let mut out = rename(metric, &[("type", "type")]);
    for (_, member) in SOURCES.iter().filter(|(_, member)| metric.has(member)) {
        let source = metric.at(member);
        let value = source.at("targetValue").clone();
        let target = match *member {
            "object" if source.has("averageValue") => value!({
                "type": "AverageValue", "averageValue": (source.at("averageValue").clone())
            }),
            "object" => value!({"type": "Value", "value": (value)}),
            "pods" => value!({
                "type": "AverageValue", "averageValue": (source.at("targetAverageValue").clone())
            }),
            "external" => value!({
                "type": (if value.is_null() { "AverageValue" } else { "Value" }),
                "value": (value), "averageValue": (source.at("targetAverageValue").clone())
            }),
            _ => value!({
                "type": (if source.has("targetAverageUtilization") { "Utilization" } else { "AverageValue" }),
                "averageValue": (source.at("targetAverageValue").clone()),
                "averageUtilization": (source.at("targetAverageUtilization").clone())
            }),
        };
        let mut to = rename(source, &[("name", "name"), ("container", "container")]);
        if *member == "object" {
            to.put("describedObject", source.at("target").clone());
        }
        to.put("target", without_nulls(target));
        put_metric(&mut to, member, source);
        out.put(member, to);
    }
    out
}

fn status_to_v1(metric: &Value) -> Value {
    let mut out = rename(metric, &[("type", "type")]);
    for (_, member) in SOURCES.iter().filter(|(_, member)| metric.has(member)) {
        let source = metric.at(member);
        let (current, id) = (source.at("current"), source.at("metric"));
        let (value, average) = (
            current.at("value").clone(),
            current.at("averageValue").clone(),
        );
        let percent = current.at("averageUtilization").clone();
        let selector = id.at("selector").clone();
        let name: Value = id.text("name").into();
        let all = match *member {
            "object" => value!({
                "target": (source.at("describedObject").clone()), "metricName": (name),
                "currentValue": (or_zero(value)), "selector": (selector), "averageValue": (average)
            }),
            "pods" => value!({
                "metricName": (name), "currentAverageValue": (or_zero(average)), "selector": (selector)
            }),
            "external" => value!({
                "metricName": (name), "metricSelector": (selector),
                "currentValue": (or_zero(value)), "currentAverageValue": (average)
            }),
            "containerResource" => value!({
                "name": (source.text("name")), "currentAverageUtilization": (percent),
                "currentAverageValue": (or_zero(average)), "container": (source.text("container"))
            }),
            _ => value!({
                "name": (source.text("name")), "currentAverageUtilization": (percent),
                "currentAverageValue": (or_zero(average))
            }),
        };
        out.put(member, without_nulls(all));
    }
    out
}

fn status_from_v1(metric: &Value) -> Value {
    let mut out = rename(metric, &[("type", "type")]);
    for (_, member) in SOURCES.iter().filter(|(_, member)| metric.has(member)) {
        let source = metric.at(member);
        let mut to = rename(source, &[("name", "name"), ("container", "container")]);
        let current = rename(
            source,
            &[
                ("currentValue", "value"),
                ("averageValue", "averageValue"),
                ("currentAverageValue", "averageValue"),
                ("currentAverageUtilization", "averageUtilization"),
            ],
        );
        to.put("current", current);
        if *member == "object" {
            to.put("describedObject", source.at("target").clone());
        }
        put_metric(&mut to, member, source);
        out.put(member, to);
    }
    out
}

fn or_zero(amount: Value) -> Value {
    if amount.is_null() { "0".into() } else { amount }
}

fn without_nulls(mut value: Value) -> Value {
    if let Value::Object(map) = &mut value {
        map.retain(|_, value| !value.is_null());
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_v1_lacks_survives_in_annotations() {
        let new = value!({
            "metadata": {"name": "h"},
            "spec": {
                "maxReplicas": 3,
                "metrics": [
                    {"type": "Pods", "pods": {
                        "metric": {"name": "qps", "selector": {"matchLabels": {"a": "b"}}},
                        "target": {"type": "AverageValue", "averageValue": "1k"}
                    }},
                    {"type": "Resource", "resource": {
                        "name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}
                    }}
                ],
                "behavior": {"scaleUp": {
                    "stabilizationWindowSeconds": 3, "selectPolicy": "Max",
                    "policies": [{"type": "Pods", "value": 1, "periodSeconds": 15}]
                }, "scaleDown": {
                    "selectPolicy": "Max",
                    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}]
                }}
            },
            "status": {"conditions": [{"type": "AbleToScale", "status": "True"}]}
        });
        let mut object = new.clone();
        to_v1(&mut object);
        assert_eq!(object.i64_at(&["spec", CPU]), Some(50));
        assert!(object.path(&["spec", "metrics"]).is_none());
        from_v1(&mut object);
        assert_eq!(object, new);
    }

    #[test]
    fn without_a_wish_it_is_eighty_percent() {
        let mut object = value!({"spec": {"maxReplicas": 3}});
        from_v1(&mut object);
        to_v1(&mut object);
        assert_eq!(object, value!({"spec": {"maxReplicas": 3, CPU: 80}}));
    }
}
