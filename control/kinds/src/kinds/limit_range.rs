//! `LimitRange`: limits for each pod, container or claim of a namespace.

use control_types::value::Value;

use crate::Kind;
use crate::error::{Errors, Path};
use crate::generic::PLAIN;
use crate::rules::quantity::{self, Nanos};
use crate::rules::{collect, meta, names, resources};
use crate::tree::{Read, Write};

const LISTS: &[&str] = &[
    "max",
    "min",
    "default",
    "defaultRequest",
    "maxLimitRequestRatio",
];

pub(crate) static KIND: Kind = Kind {
    group: "",
    kind: "LimitRange",
    namespaced: Some(true),
    default,
    prepare_create,
    validate_create: |object| collect(|errors| check(object, errors)),
    validate_update: |new, _| collect(|errors| check(new, errors)),
    allow_create_on_update: true,
    allow_unconditional_update: true,
    ..PLAIN
};

/// A range without a name gets one that is as unique as its uid.
fn prepare_create(object: &mut Value) {
    let metadata = object.make("metadata");
    let uid = metadata.text("uid").to_owned();
    metadata.blank("name", &uid);
}

fn default(object: &mut Value) {
    let Some(spec) = object.there("spec") else {
        return;
    };
    for limit in spec.items_mut("limits") {
        for list in LISTS {
            quantity::round_list_to_milli(limit.there(list));
        }
        if limit.text("type") != "Container" {
            continue;
        }
        // a limit follows from the most allowed, a request from the limit, else from the least
        for (list, from) in [
            ("default", "max"),
            ("defaultRequest", "default"),
            ("defaultRequest", "min"),
        ] {
            let source = limit.at(from).clone();
            let Value::Object(source) = source else {
                continue;
            };
            if source.is_empty() {
                continue;
            }
            let target = limit.make(list);
            for (name, amount) in source.iter() {
                target.absent(name, amount.clone());
            }
            if let Value::Object(map) = target {
                map.sort();
            }
        }
    }
}

fn check(object: &Value, errors: &mut Errors) {
    meta::validate(object, Some(true), names::subdomain_name, errors);
    let all = Path::new("spec.limits");
    let limits = object.at("spec").items("limits");
    for (i, limit) in limits.iter().enumerate() {
        let at = all.index(i);
        let of = limit.text("type");
        check_type(of, &at.child("type"), errors);
        if limits.iter().take(i).any(|other| other.text("type") == of) {
            errors.duplicate(&at.child("type"), of);
        }
        for list in LISTS {
            let at = at.child(list);
            if of == "Pod" && list.starts_with("default") {
                if limit.size(list) > 0 {
                    errors.forbidden(&at, "may not be specified when `type` is 'Pod'");
                }
                continue;
            }
            for (name, _) in limit.entries(list) {
                if matches!(of, "Pod" | "Container") {
                    resources::container_name(name, &at.key(name), errors);
                } else {
                    resources::name(name, &at.key(name), errors);
                }
            }
        }
        let bounded = ["min", "max"]
            .iter()
            .any(|list| limit.at(list).has("storage"));
        if of == "PersistentVolumeClaim" && !bounded {
            errors.required(
                &at.child("limits"),
                "either minimum or maximum storage value is required, but neither was provided",
            );
        }
        check_amounts(limit, &at, errors);
    }
}

fn check_type(of: &str, at: &Path<'_>, errors: &mut Errors) {
    let messages = names::qualified(of);
    if !messages.is_empty() {
        errors.invalid_each(at, of, messages);
    } else if !of.contains('/') && !matches!(of, "Pod" | "Container" | "PersistentVolumeClaim") {
        errors.invalid(at, of, "must be a standard limit type or fully qualified");
    }
}

#[allow(
    clippy::cast_precision_loss,
    reason = "a ratio is compared and shown as a float, as the API defines it"
)]
fn check_amounts(limit: &Value, at: &Path<'_>, errors: &mut Errors) {
    let is_pod = limit.text("type") == "Pod";
    let mut known: Vec<&str> = LISTS
        .iter()
        .filter(|list| !(is_pod && list.starts_with("default")))
        .flat_map(|list| limit.entries(list).map(|(name, _)| name))
        .collect();
    known.sort_unstable();
    known.dedup();
    for name in known {
        let of = |list: &str| -> Option<(Nanos, &Value)> {
            if is_pod && list.starts_with("default") {
                return None;
            }
            let amount = limit.at(list).get(name)?;
            Some((quantity::to_nanos(amount), amount))
        };
        let shown = |(_, amount): (Nanos, &Value)| resources::shown(amount);
        let (min, max) = (of("min"), of("max"));
        let (default, request) = (of("default"), of("defaultRequest"));
        // (field, refused value, the lesser, its name, the greater, its name)
        let ordered = [
            ("min", min, min, "min value", max, "max value"),
            (
                "defaultRequest",
                request,
                min,
                "min value",
                request,
                "default request value",
            ),
            (
                "defaultRequest",
                request,
                request,
                "default request value",
                max,
                "max value",
            ),
            (
                "defaultRequest",
                request,
                request,
                "default request value",
                default,
                "default limit value",
            ),
            ("default", min, min, "min value", default, "default value"),
            ("default", max, default, "default value", max, "max value"),
        ];
        for (field, refused, less, less_name, more, more_name) in ordered {
            if let (Some(refused), Some(less), Some(more)) = (refused, less, more)
                && less.0 > more.0
            {
                errors.invalid(
                    &at.child(field).key(name),
                    refused.1.clone(),
                    format!(
                        "{less_name} {} is greater than {more_name} {}",
                        shown(less),
                        shown(more)
                    ),
                );
            }
        }
        if let Some(ratio) = of("maxLimitRequestRatio") {
            let field = at.child("maxLimitRequestRatio");
            let at = field.key(name);
            if ratio.0 < 1_000_000_000 {
                let detail = format!("ratio {} is less than 1", shown(ratio));
                errors.invalid(&at, ratio.1.clone(), detail);
            }
            if let (Some(min), Some(max)) = (min, max) {
                let most = max.0 as f64 / min.0 as f64;
                if ratio.0 as f64 / 1e9 > most {
                    let detail =
                        format!("ratio {} is greater than max/min = {most:.6}", shown(ratio));
                    errors.invalid(&at, ratio.1.clone(), detail);
                }
            }
        }
        if let (Some(default), Some(request)) = (default, request)
            && !resources::is_overcommit_allowed(name)
            && default.0 != request.0
        {
            errors.invalid(
                &at.child("defaultRequest").key(name),
                request.1.clone(),
                format!(
                    "default value {} must equal to defaultRequest value {} in {name}",
                    shown(default),
                    shown(request)
                ),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn requests_follow_from_limits_and_limits_from_the_most_allowed() {
        let mut range = value!({"spec": {"limits": [
            {"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1Mi"}}
        ]}});
        default(&mut range);
        let limit = &range.items_at(&["spec", "limits"])[0];
        assert_eq!(limit.at("default"), &value!({"cpu": "2"}));
        assert_eq!(
            limit.at("defaultRequest"),
            &value!({"cpu": "2", "memory": "1Mi"})
        );
    }

    #[test]
    fn the_least_may_not_exceed_the_most() {
        let range = value!({
            "metadata": {"name": "r", "namespace": "n"},
            "spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}, "min": {"cpu": "2"}}]}
        });
        let found = (KIND.validate_create)(&range);
        assert_eq!(
            found.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [
                "spec.limits[0].min[cpu]: Invalid value: \"2\": min value 2 is greater than max value 1"
            ]
        );
    }
}
