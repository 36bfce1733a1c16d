//! Taints of nodes and tolerations of pods.

use control_types::value;
use control_types::value::Value;

use super::{labels, names};
use crate::error::{Errors, Path};
use crate::tree::Read;

const EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

fn effect(effect: &str, may_be_empty: bool, at: &Path<'_>, errors: &mut Errors) {
    if EFFECTS.contains(&effect) || (may_be_empty && effect.is_empty()) {
        return;
    }
    if effect.is_empty() {
        errors.required(at, "");
        return;
    }
    // the order of the message is that of the API, not of the alphabet
    errors.not_supported(at, effect, &["NoSchedule", "PreferNoSchedule", "NoExecute"]);
}

/// The taints of a node.
pub(crate) fn taints(taints: &[Value], at: &Path<'_>, errors: &mut Errors) {
    for (i, taint) in taints.iter().enumerate() {
        let at = at.index(i);
        labels::label_key(taint.text("key"), &at.child("key"), errors);
        let value = taint.text("value");
        let messages = names::label_value(value);
        if !messages.is_empty() {
            errors.invalid(&at.child("value"), value, messages.join(";"));
        }
        effect(taint.text("effect"), false, &at.child("effect"), errors);
        let again = |t: &Value| {
            t.text("key") == taint.text("key") && t.text("effect") == taint.text("effect")
        };
        if taints.iter().take(i).any(again) {
            errors.add(
                crate::ErrorKind::Duplicate,
                &at,
                // shown as the structure in Go
                Some(value!({
                    "Key": (taint.text("key")),
                    "Value": (taint.text("value")),
                    "Effect": (taint.text("effect")),
                    "TimeAdded": (taint.at("timeAdded").clone()),
                })),
                "taints must be unique by key and effect pair",
            );
        }
    }
}

/// The tolerations of a pod.
pub(crate) fn tolerations(list: &[Value], at: &Path<'_>, errors: &mut Errors) {
    for (i, toleration) in list.iter().enumerate() {
        let at = at.index(i);
        let (key, operator, value) = (
            toleration.text("key"),
            toleration.text("operator"),
            toleration.text("value"),
        );
        if !key.is_empty() {
            labels::label_key(key, &at.child("key"), errors);
        }
        if key.is_empty() && operator != "Exists" {
            errors.invalid(
                &at.child("operator"),
                operator,
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
            );
        }
        if toleration.has("tolerationSeconds") && toleration.text("effect") != "NoExecute" {
            errors.invalid(
                &at.child("effect"),
                toleration.text("effect"),
                "effect must be 'NoExecute' when `tolerationSeconds` is set",
            );
        }
        match operator {
            "Equal" | "" => {
                let messages = names::label_value(value);
                if !messages.is_empty() {
                    errors.invalid(&at.child("operator"), value, messages.join(";"));
                }
            }
            "Exists" if !value.is_empty() => {
                errors.invalid(
                    &at.child("operator"),
                    value,
                    "value must be empty when `operator` is 'Exists'",
                );
            }
            "Exists" => {}
            // Numeric operators are known, but disabled (KEP-5471); only a toleration
            // that uses one is told about them.
            other @ ("Lt" | "Gt") => errors.not_supported(
                &at.child("operator"),
                other,
                &["Equal", "Exists", "Lt", "Gt"],
            ),
            other => errors.not_supported(&at.child("operator"), other, &["Equal", "Exists"]),
        }
        if !toleration.text("effect").is_empty() {
            effect(toleration.text("effect"), true, &at.child("effect"), errors);
        }
    }
}
