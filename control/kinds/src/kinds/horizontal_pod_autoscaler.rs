//! `HorizontalPodAutoscaler`: as many pods as there is work. `v1` and `v2` have
//! the rules of `v2`, into which `v1` is brought first.

use control_types::value;
use control_types::value::Value;

use crate::convert;
use crate::error::{Errors, Path};
use crate::generic::{self, PLAIN};
use crate::rules::{collect, meta, names, non_negative, one_of, quantity, resources};
use crate::table::{Timestamp, age, columns, name};
use crate::tree::{Read, Write};
use crate::{FieldError, Kind};

const TYPES: &[&str] = &[
    "ContainerResource",
    "External",
    "Object",
    "Pods",
    "Resource",
];
const SEGMENT: fn(&str, bool) -> names::Messages = names::segment_name;

pub(crate) static KIND: Kind = Kind {
    group: "autoscaling",
    kind: "HorizontalPodAutoscaler",
    namespaced: Some(true),
    default,
    prepare_create: generic::no_status,
    prepare_update: generic::keep_status,
    prepare_status_update: generic::update_status,
    validate_create: |object| {
        collect(|errors| {
            meta::validate(object, Some(true), names::subdomain_name, errors);
            check(&newest(object), None, errors);
        })
    },
    validate_update: |new, old| {
        collect(|errors| {
            meta::update(new, old, errors);
            check(&newest(new), Some(&newest(old)), errors);
        })
    },
    validate_status_update,
    field_annotations: &["autoscaling.alpha.kubernetes.io/*"],
    columns: columns::HORIZONTAL_POD_AUTOSCALER,
    row,
    allow_unconditional_update: true,
    ..PLAIN
};

fn is_v1(object: &Value) -> bool {
    object.text("apiVersion") == "autoscaling/v1"
}

/// The object in `v2`.
fn newest(object: &Value) -> Value {
    let mut object = object.clone();
    if is_v1(&object) {
        convert::autoscaler_from_v1(&mut object);
    }
    object
}

fn default(object: &mut Value) {
    object.make("spec").absent("minReplicas", 1_i64);
    if is_v1(object) {
        // defaults of v2 are visible in v1
        convert::autoscaler_from_v1(object);
        convert::autoscaler_to_v1(object);
        return;
    }
    let spec = object.make("spec");
    if spec.items("metrics").is_empty() {
        spec.put("metrics", Value::Array(vec![convert::default_metric()]));
    }
    if let Some(behavior) = spec.there("behavior") {
        default_behavior(behavior);
    }
}

/// Sets the defaults of a scaling direction that is configured in part.
pub(crate) fn default_behavior(behavior: &mut Value) {
    let percent = value!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = value!({"type": "Pods", "value": 4, "periodSeconds": 15});
    let up = behavior.make("scaleUp");
    up.absent("stabilizationWindowSeconds", 0_i64);
    up.absent("selectPolicy", "Max");
    up.absent("policies", Value::Array(vec![pods, percent.clone()]));
    let down = behavior.make("scaleDown");
    down.absent("selectPolicy", "Max");
    down.absent("policies", Value::Array(vec![percent]));
}

fn check(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    let (spec, at) = (object.at("spec"), Path::new("spec"));
    let before = old.map(|old| old.at("spec"));
    let least = i64::from(before.and_then(|spec| spec.int("minReplicas")) != Some(0));
    let min = spec.int("minReplicas");
    if let Some(min) = min.filter(|min| *min < least) {
        let why = format!("must be greater than or equal to {least}");
        errors.invalid(&at.child("minReplicas"), min, why);
    }
    let (max, max_at) = (spec.num("maxReplicas"), at.child("maxReplicas"));
    if max == 0 {
        errors.required(&max_at, "must be set and greater than 0");
    } else if max < 0 {
        errors.invalid(&max_at, max, "must be greater than or equal to 1");
    }
    if min.is_some_and(|min| max < min) {
        errors.invalid(
            &max_at,
            max,
            "must be greater than or equal to `minReplicas`",
        );
    }
    let target = spec.at("scaleTargetRef");
    let same_target = before.is_some_and(|spec| {
        let before = spec.at("scaleTargetRef");
        ["apiVersion", "kind"]
            .iter()
            .all(|field| before.text(field) == target.text(field))
    });
    let group = if same_target {
        Group::Any
    } else if target.text("kind") == "ReplicationController" {
        Group::MayBeEmpty
    } else {
        Group::Required
    };
    check_reference(target, group, &at.child("scaleTargetRef"), errors);
    let all = at.child("metrics");
    let metrics = spec.items("metrics");
    for (i, metric) in metrics.iter().enumerate() {
        check_metric(metric, &all.index(i), errors);
    }
    let from_outside = |metric: &Value| matches!(metric.text("type"), "Object" | "External");
    if min == Some(0) && !metrics.iter().any(from_outside) {
        errors.forbidden(
            &all,
            "must specify at least one Object or External metric to support scaling to zero replicas",
        );
    }
    let behavior_at = at.child("behavior");
    for rules in ["scaleUp", "scaleDown"] {
        if spec.at("behavior").has(rules) {
            check_rules(
                spec.at("behavior").at(rules),
                &behavior_at.child(rules),
                errors,
            );
        }
    }
}

/// The requirement on the group of a reference.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    Any,
    MayBeEmpty,
    Required,
}

fn check_reference(reference: &Value, group: Group, at: &Path<'_>, errors: &mut Errors) {
    for field in ["kind", "name"] {
        let text = reference.text(field);
        if text.is_empty() {
            errors.required(&at.child(field), "");
        } else {
            errors.invalid_each(&at.child(field), text, SEGMENT(text, false));
        }
    }
    let (text, at) = (reference.text("apiVersion"), at.child("apiVersion"));
    if group != Group::Any && text.matches('/').count() > 1 {
        let why = format!("unexpected GroupVersion string: {text}");
        errors.invalid(&at, text, why);
    } else if group == Group::Required && text.split_once('/').is_none_or(|(g, _)| g.is_empty()) {
        errors.invalid(&at, text, "apiVersion must specify API group");
    }
}

fn check_metric(metric: &Value, at: &Path<'_>, errors: &mut Errors) {
    let (of, type_at) = (metric.text("type"), at.child("type"));
    if of.is_empty() {
        errors.required(&type_at, "must specify a metric source type");
    }
    one_of(of, TYPES, &type_at, errors);
    let members = [
        "object",
        "external",
        "pods",
        "resource",
        "containerResource",
    ];
    let mut present: Vec<&str> = members
        .into_iter()
        .filter(|member| metric.has(member))
        .collect();
    if let Some(first) = present.first() {
        check_source(first, metric.at(first), &at.child(first), errors);
    }
    let expected = match of {
        "Object" => "object",
        "Pods" => "pods",
        "Resource" => "resource",
        "External" => "external",
        "ContainerResource" => "containerResource",
        _ => {
            errors.not_supported(&type_at, of, TYPES);
            ""
        }
    };
    if !expected.is_empty() && !metric.has(expected) {
        errors.required(
            &at.child(expected),
            "must populate information for the given metric source",
        );
    }
    if present.len() != 1 {
        present.retain(|member| *member != expected);
        for member in present {
            errors.forbidden(
                &at.child(member),
                "must populate the given metric source only",
            );
        }
    }
}

fn check_source(member: &str, source: &Value, at: &Path<'_>, errors: &mut Errors) {
    let target = source.at("target");
    let target_at = at.child("target");
    let (value, average) = (target.has("value"), target.has("averageValue"));
    let percent = target.has("averageUtilization");
    if member == "object" {
        let described = source.at("describedObject");
        check_reference(
            described,
            Group::MayBeEmpty,
            &at.child("describedObject"),
            errors,
        );
    }
    if matches!(member, "object" | "external" | "pods") {
        let (name, name_at) = (source.at("metric").text("name"), at.child("metric"));
        if name.is_empty() {
            errors.required(&name_at.child("name"), "must specify a metric name");
        } else {
            errors.invalid_each(&name_at.child("name"), name, SEGMENT(name, false));
        }
    } else {
        let (name, name_at) = (source.text("name"), at.child("name"));
        if name.is_empty() {
            errors.required(&name_at, "must specify a resource name");
        } else if member == "containerResource" {
            resources::container_name(name, &name_at, errors);
        }
    }
    if member == "containerResource" {
        let (container, at) = (source.text("container"), at.child("container"));
        if container.is_empty() {
            errors.required(&at, "must specify a container");
        } else {
            errors.invalid_each(&at, container, names::dns_label(container));
        }
    }
    check_target(target, &target_at, errors);
    let average_at = target_at.child("averageValue");
    match member {
        "object" if !value && !average => {
            errors.required(
                &average_at,
                "must set either a target value or averageValue",
            );
        }
        "external" if !value && !average => errors.required(
            &average_at,
            "must set either a target value for metric or a per-pod target",
        ),
        "external" if value && average => errors.forbidden(
            &target_at.child("value"),
            "may not set both a target value for metric and a per-pod target",
        ),
        "pods" if !average => {
            errors.required(&average_at, "must specify a positive target averageValue");
        }
        "resource" | "containerResource" if !percent && !average => errors.required(
            &target_at.child("averageUtilization"),
            "must set either a target raw value or a target utilization",
        ),
        "resource" | "containerResource" if percent && average => errors.forbidden(
            &average_at,
            "may not set both a target raw value and a target utilization",
        ),
        _ => {}
    }
}

fn check_target(target: &Value, at: &Path<'_>, errors: &mut Errors) {
    let of = target.text("type");
    if of.is_empty() {
        errors.required(&at.child("type"), "must specify a metric target type");
    }
    if !matches!(of, "Utilization" | "Value" | "AverageValue") {
        errors.invalid(
            &at.child("type"),
            of,
            "must be either Utilization, Value, or AverageValue",
        );
    }
    for field in ["value", "averageValue"] {
        let amount = target.at(field);
        if !amount.is_null() && quantity::to_nanos(amount) <= 0 {
            errors.invalid(&at.child(field), amount.clone(), "must be positive");
        }
    }
    if let Some(percent) = target.int("averageUtilization").filter(|p| *p < 1) {
        errors.invalid(
            &at.child("averageUtilization"),
            percent,
            "must be greater than 0",
        );
    }
}

fn check_rules(rules: &Value, at: &Path<'_>, errors: &mut Errors) {
    const WINDOW: i64 = 3600;
    const PERIOD: i64 = 1800;
    let window_at = at.child("stabilizationWindowSeconds");
    match rules.int("stabilizationWindowSeconds") {
        Some(seconds) if seconds < 0 => {
            errors.invalid(&window_at, seconds, "must be greater than or equal to zero");
        }
        Some(seconds) if seconds > WINDOW => {
            let why = format!("must be less than or equal to {WINDOW}");
            errors.invalid(&window_at, seconds, why);
        }
        _ => {}
    }
    if rules.has("selectPolicy") {
        let known = &["Disabled", "Max", "Min"];
        one_of(
            rules.text("selectPolicy"),
            known,
            &at.child("selectPolicy"),
            errors,
        );
    }
    let all = at.child("policies");
    if rules.items("policies").is_empty() {
        errors.required(&all, "must specify at least one Policy");
    }
    for (i, policy) in rules.items("policies").iter().enumerate() {
        let at = all.index(i);
        one_of(
            policy.text("type"),
            &["Percent", "Pods"],
            &at.child("type"),
            errors,
        );
        for field in ["value", "periodSeconds"] {
            if policy.num(field) <= 0 {
                let why = "must be greater than zero";
                errors.invalid(&at.child(field), policy.num(field), why);
            }
        }
        if policy.num("periodSeconds") > PERIOD {
            let why = format!("must be less than or equal to {PERIOD}");
            errors.invalid(&at.child("periodSeconds"), policy.num("periodSeconds"), why);
        }
    }
    let tolerance = rules.at("tolerance");
    if quantity::to_nanos(tolerance) < 0 {
        errors.invalid(
            &at.child("tolerance"),
            tolerance.clone(),
            "must be greater than or equal to 0",
        );
    }
}

fn validate_status_update(new: &Value, old: &Value) -> Vec<FieldError> {
    collect(|errors| {
        meta::update(new, old, errors);
        for field in ["currentReplicas", "desiredReplicas"] {
            let at = Path::new("status");
            non_negative(new.at("status").num(field), &at.child(field), errors);
        }
    })
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let object = &newest(object);
    let (spec, status) = (object.at("spec"), object.at("status"));
    let target = spec.at("scaleTargetRef");
    let min = spec
        .int("minReplicas")
        .map_or("<unset>".to_owned(), |min| min.to_string());
    vec![
        name(object),
        format!("{}/{}", target.text("kind"), target.text("name")).into(),
        metrics_cell(spec.items("metrics"), status.items("currentMetrics")).into(),
        min.into(),
        spec.num("maxReplicas").into(),
        status.num("currentReplicas").into(),
        age(object, now),
    ]
}

/// Shows current and target values of the first two metrics.
fn metrics_cell(metrics: &[Value], observed: &[Value]) -> String {
    if metrics.is_empty() {
        return "<none>".to_owned();
    }
    let all: Vec<String> = metrics
        .iter()
        .enumerate()
        .map(|(i, metric)| {
            let member = match metric.text("type") {
                "External" => "external",
                "Pods" => "pods",
                "Object" => "object",
                "Resource" => "resource",
                "ContainerResource" => "containerResource",
                _ => return "<unknown type>".to_owned(),
            };
            let source = metric.at(member);
            let target = source.at("target");
            let current = observed
                .get(i)
                .map_or(&Value::Null, |one| one.at(member).at("current"));
            let amount = |value: &Value, other: &str| {
                if value.is_null() {
                    other.to_owned()
                } else {
                    resources::shown(value)
                }
            };
            let average = amount(current.at("averageValue"), "<unknown>");
            let goal = amount(target.at("averageValue"), "");
            let by_resource = matches!(member, "resource" | "containerResource");
            let name = source.text("name");
            match (by_resource, target.has("averageValue")) {
                (true, true) => format!("{name}: {average}/{goal}"),
                (true, false) => {
                    let percent = |of: &Value, other: &str| {
                        of.int("averageUtilization")
                            .map_or(other.to_owned(), |p| format!("{p}%"))
                    };
                    let now = percent(current, "<unknown>");
                    format!("{name}: {now}/{}", percent(target, "<auto>"))
                }
                (false, _) if member == "pods" => format!("{average}/{goal}"),
                (false, true) => format!("{average}/{goal} (avg)"),
                (false, false) => format!(
                    "{}/{}",
                    amount(current.at("value"), "<unknown>"),
                    amount(target.at("value"), "")
                ),
            }
        })
        .collect();
    let shown = all
        .iter()
        .take(2)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    if all.len() > 2 {
        format!("{shown} + {} more...", all.len() - 2)
    } else {
        shown
    }
}
