//! `ValidatingWebhookConfiguration` and `MutatingWebhookConfiguration`: webhooks that are
//! called before an object is stored.

use control_types::value::Value;

use crate::Kind;
use crate::error::{Errors, Path};
use crate::generic::{self, PLAIN};
use crate::rules::{collect, expressions, labels, matching, meta, names, one_of};
use crate::table::{Timestamp, age, columns, name};
use crate::tree::{Read, Write, same};

const GROUP: &str = "admissionregistration.k8s.io";
const VERSIONS: &[&str] = &["v1", "v1beta1"];

pub(crate) static VALIDATING: Kind = Kind {
    group: GROUP,
    kind: "ValidatingWebhookConfiguration",
    namespaced: Some(false),
    default: |object| default(object, false),
    prepare_create: generic::generation_one,
    prepare_update,
    validate_create: |object| collect(|errors| check(object, None, errors)),
    validate_update: |new, old| collect(|errors| check(new, Some(old), errors)),
    columns: columns::VALIDATING_WEBHOOK_CONFIGURATION,
    row,
    ..PLAIN
};

pub(crate) static MUTATING: Kind = Kind {
    kind: "MutatingWebhookConfiguration",
    default: |object| default(object, true),
    columns: columns::MUTATING_WEBHOOK_CONFIGURATION,
    group: GROUP,
    namespaced: Some(false),
    prepare_create: generic::generation_one,
    prepare_update,
    validate_create: |object| collect(|errors| check(object, None, errors)),
    validate_update: |new, old| collect(|errors| check(new, Some(old), errors)),
    row,
    ..PLAIN
};

fn default(object: &mut Value, mutating: bool) {
    for hook in object.items_mut("webhooks") {
        hook.absent("failurePolicy", "Fail");
        hook.absent("matchPolicy", "Equivalent");
        hook.absent("namespaceSelector", Value::object());
        hook.absent("objectSelector", Value::object());
        hook.absent("timeoutSeconds", 10_i64);
        if mutating {
            hook.absent("reinvocationPolicy", "Never");
        }
        matching::default_rules(hook.items_mut("rules"));
        if let Some(config) = hook.there("clientConfig")
            && let Some(service) = config.there("service")
        {
            service.absent("port", 443_i64);
        }
    }
}

fn prepare_update(new: &mut Value, old: &Value) {
    generic::raise_generation_on(new, old, &["webhooks"]);
}

/// Invalid fields that stay accepted because the stored object has them.
struct LenientRules {
    no_side_effects: bool,
    known_versions: bool,
    unique_names: bool,
    conditions: bool,
}

impl LenientRules {
    fn of(new: &Value, old: Option<&Value>) -> Self {
        let Some(old) = old else {
            return Self {
                no_side_effects: true,
                known_versions: true,
                unique_names: true,
                conditions: true,
            };
        };
        let hooks = old.items("webhooks");
        let accepts = |hook: &Value| {
            let versions = hook.items("admissionReviewVersions");
            versions.is_empty() || versions.iter().any(|v| VERSIONS.contains(&v.as_text()))
        };
        let unique = |i: usize, hook: &Value| {
            let before = hooks.iter().take(i);
            before
                .filter(|other| other.text("name") == hook.text("name"))
                .count()
                == 0
        };
        let present = new.items("webhooks");
        Self {
            no_side_effects: hooks
                .iter()
                .all(|hook| matches!(hook.text("sideEffects"), "None" | "NoneOnDryRun")),
            known_versions: hooks.iter().all(accepts),
            unique_names: hooks.iter().enumerate().all(|(i, hook)| unique(i, hook)),
            conditions: present.len() != hooks.len()
                || present
                    .iter()
                    .zip(hooks)
                    .any(|(a, b)| !same(a.at("matchConditions"), b.at("matchConditions"))),
        }
    }
}

fn check(object: &Value, old: Option<&Value>, errors: &mut Errors) {
    meta::validate(object, Some(false), names::subdomain_name, errors);
    let rules = LenientRules::of(object, old);
    let all = Path::new("webhooks");
    let hooks = object.items("webhooks");
    for (i, hook) in hooks.iter().enumerate() {
        let at = all.index(i);
        check_hook(hook, &rules, &at, errors);
        check_versions(hook, &rules, &at.child("admissionReviewVersions"), errors);
        let name = hook.text("name");
        let again = hooks.iter().take(i).any(|other| other.text("name") == name);
        if rules.unique_names && !name.is_empty() && again {
            errors.duplicate(&at.child("name"), name);
        }
    }
}

fn check_hook(hook: &Value, rules: &LenientRules, at: &Path<'_>, errors: &mut Errors) {
    let (name, name_at) = (hook.text("name"), at.child("name"));
    if name.is_empty() {
        errors.required(&name_at, "");
    } else {
        let wrong = names::dns_subdomain(name);
        if !wrong.is_empty() {
            errors.invalid(&name_at, name, wrong.join(","));
        } else if name.split('.').count() < 3 {
            errors.invalid(
                &name_at,
                name,
                "should be a domain with at least three segments separated by dots",
            );
        }
    }
    let rules_at = at.child("rules");
    for (i, rule) in hook.items("rules").iter().enumerate() {
        matching::rule(rule, &rules_at.index(i), errors);
    }
    let chosen: [(&str, &[&str]); 3] = [
        ("failurePolicy", &["Fail", "Ignore"]),
        ("matchPolicy", &["Equivalent", "Exact"]),
        ("reinvocationPolicy", &["IfNeeded", "Never"]),
    ];
    for (field, of) in chosen.iter().filter(|(field, _)| hook.has(field)) {
        one_of(hook.text(field), of, &at.child(field), errors);
    }
    let effects: &[&str] = if rules.no_side_effects {
        &["None", "NoneOnDryRun"]
    } else {
        &["None", "NoneOnDryRun", "Some", "Unknown"]
    };
    if hook.has("sideEffects") {
        one_of(
            hook.text("sideEffects"),
            effects,
            &at.child("sideEffects"),
            errors,
        );
    } else {
        let why = format!("must specify one of {}", effects.join(", "));
        errors.required(&at.child("sideEffects"), why);
    }
    if let Some(seconds) = hook.int("timeoutSeconds").filter(|s| !(1..=30).contains(s)) {
        errors.invalid(
            &at.child("timeoutSeconds"),
            seconds,
            "the timeout value must be between 1 and 30 seconds",
        );
    }
    for field in ["namespaceSelector", "objectSelector"] {
        labels::selector(hook.at(field), &at.child(field), errors);
    }
    matching::client(hook.at("clientConfig"), &at.child("clientConfig"), errors);
    if rules.conditions {
        expressions::match_conditions(
            hook.items("matchConditions"),
            false,
            &at.child("matchConditions"),
            errors,
        );
    }
}

fn check_versions(hook: &Value, rules: &LenientRules, at: &Path<'_>, errors: &mut Errors) {
    let versions: Vec<&str> = hook
        .items("admissionReviewVersions")
        .iter()
        .map(Read::as_text)
        .collect();
    if versions.is_empty() {
        errors.required(at, format!("must specify one of {}", VERSIONS.join(", ")));
        return;
    }
    for (i, version) in versions.iter().enumerate() {
        if versions.iter().take(i).any(|other| other == version) {
            errors.invalid(&at.index(i), *version, "duplicate version");
            continue;
        }
        errors.invalid_each(&at.index(i), version, names::dns1035_label(version));
    }
    if rules.known_versions && !versions.iter().any(|version| VERSIONS.contains(version)) {
        errors.invalid(
            at,
            hook.at("admissionReviewVersions").clone(),
            format!("must include at least one of {}", VERSIONS.join(", ")),
        );
    }
}

fn row(object: &Value, now: Timestamp) -> Vec<Value> {
    let hooks = object.items("webhooks").len();
    vec![name(object), hooks.into(), age(object, now)]
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn a_condition_that_does_not_compile_is_refused() {
        let mut object = value!({
            "metadata": {"name": "x"},
            "webhooks": [{
                "name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                "clientConfig": {"url": "https://host/path"},
                "matchConditions": [{"name": "m", "expression": "... [] bad expression"}]
            }]
        });
        (VALIDATING.default)(&mut object);
        let found = (VALIDATING.validate_create)(&object);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].field, "webhooks[0].matchConditions[0].expression");
        assert!(
            found[0]
                .detail
                .starts_with("compilation failed: ERROR: <input>:1:2:")
        );
    }

    #[test]
    fn a_webhook_is_reached_over_https_or_through_a_service() {
        let errors = |config: Value| {
            collect(|errors| matching::client(&config, &Path::new("c"), errors)).len()
        };
        assert_eq!(errors(value!({"url": "https://host:8443/a/b"})), 0);
        assert_eq!(errors(value!({"url": "http://user@/x?y=z#f"})), 5);
        assert_eq!(errors(value!({})), 1);
        let service =
            value!({"service": {"name": "n", "namespace": "s", "port": 443, "path": "/a//b"}});
        assert_eq!(errors(service), 1);
    }
}
