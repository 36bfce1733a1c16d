//! `RuntimeClass`: a pod gets the overhead and the placement of its class.

use control_types::value::Value;

use super::refusal::Refusal;
use crate::rules::quantity;
use crate::tree::{Read, Write, same};

/// Sets overhead, node selector and tolerations that the pod's class states.
///
/// # Errors
/// When the pod states others.
pub fn apply_runtime_class(pod: &mut Value, class: &Value) -> Result<(), Refusal> {
    let spec = pod.make("spec");
    if class.has("overhead") {
        let fixed = class.at("overhead").at("podFixed");
        if spec.size("overhead") > 0 && !same_amounts(fixed, spec.at("overhead")) {
            return Err(
                "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".into(),
            );
        }
        if fixed.is_null() {
            spec.drop_field("overhead");
        } else {
            spec.put("overhead", fixed.clone());
        }
    }
    if class.has("scheduling") {
        let scheduling = class.at("scheduling");
        if scheduling.size("nodeSelector") > 0 {
            let selector = spec.make("nodeSelector");
            for (key, wanted) in scheduling.entries("nodeSelector") {
                if selector.has(key) && selector.text(key) != wanted.as_text() {
                    return Err(format!(
                        "conflict: runtimeClass.scheduling.nodeSelector[{key}] = {}; pod.spec.nodeSelector[{key}] = {}",
                        wanted.as_text(),
                        selector.text(key)
                    )
                    .into());
                }
                selector.put(key, wanted.clone());
            }
            if let Value::Object(map) = selector {
                map.sort();
            }
        }
        let mut all = spec.items("tolerations").to_vec();
        all.extend_from_slice(scheduling.items("tolerations"));
        let merged = merge(&all);
        if !merged.is_empty() {
            spec.put("tolerations", Value::Array(merged));
        }
    }
    Ok(())
}

/// Checks that a pod's overhead is that of its class (`None` if it names no class).
///
/// # Errors
/// When they differ.
pub fn check_runtime_class(pod: &Value, class: Option<&Value>) -> Result<(), Refusal> {
    let own = pod.at("spec").at("overhead");
    match class.filter(|class| class.has("overhead")) {
        Some(class) if !same_amounts(class.at("overhead").at("podFixed"), own) => {
            Err("pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead".into())
        }
        None if !own.is_null() => Err(
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
                .into(),
        ),
        _ => Ok(()),
    }
}

/// Whether two lists of resources hold the same amounts, however written.
fn same_amounts(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Object(x), Value::Object(y)) => {
            x.len() == y.len()
                && x.iter().all(|(k, v)| {
                    y.get(k)
                        .is_some_and(|w| quantity::to_nanos(v) == quantity::to_nanos(w))
                })
        }
        _ => same(a, b),
    }
}

/// Tolerations without those that another one includes.
fn merge(all: &[Value]) -> Vec<Value> {
    let mut merged: Vec<Value> = Vec::new();
    for (i, one) in all.iter().enumerate() {
        let known = merged.iter().any(|other| includes(other, one));
        let later = all
            .iter()
            .skip(i + 1)
            .any(|other| !same(one, other) && includes(other, one));
        if !known && !later {
            merged.push(one.clone());
        }
    }
    merged
}

/// Whether `wide` tolerates all that `narrow` tolerates.
fn includes(wide: &Value, narrow: &Value) -> bool {
    if same(wide, narrow) {
        return true;
    }
    let every_key = wide.text("key").is_empty() && wide.text("operator") == "Exists";
    if wide.text("key") != narrow.text("key") && !every_key {
        return false;
    }
    if wide.text("effect") != narrow.text("effect") && !wide.text("effect").is_empty() {
        return false;
    }
    if wide.text("effect") == "NoExecute"
        && let Some(most) = wide.int("tolerationSeconds")
        && narrow
            .int("tolerationSeconds")
            .is_none_or(|seconds| seconds > most)
    {
        return false;
    }
    match wide.text("operator") {
        "Equal" | "" => {
            narrow.text("operator") == "Equal" && narrow.text("value") == wide.text("value")
        }
        "Exists" => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    #[test]
    fn a_pod_gets_the_overhead_and_the_place_of_its_class() {
        let class = value!({
            "overhead": {"podFixed": {"cpu": "250m"}},
            "scheduling": {"nodeSelector": {"a": "b"}, "tolerations": [{"key": "k", "operator": "Exists"}]}
        });
        let mut pod = value!({"spec": {
            "runtimeClassName": "c",
            "tolerations": [{"key": "k", "operator": "Equal", "value": "v"}]
        }});
        assert_eq!(apply_runtime_class(&mut pod, &class), Ok(()));
        assert_eq!(check_runtime_class(&pod, Some(&class)), Ok(()));
        assert_eq!(pod.str_at(&["spec", "nodeSelector", "a"]), Some("b"));
        assert_eq!(pod.items_at(&["spec", "tolerations"]).len(), 1);
    }

    #[test]
    fn an_overhead_needs_a_class() {
        let pod = value!({"spec": {"overhead": {"cpu": "1"}}});
        assert!(check_runtime_class(&pod, None).is_err());
        let mut pod = pod;
        let class = value!({"overhead": {"podFixed": {"cpu": "1000m"}}});
        assert_eq!(apply_runtime_class(&mut pod, &class), Ok(()));
        let other = value!({"overhead": {"podFixed": {"cpu": "2"}}});
        assert!(apply_runtime_class(&mut pod, &other).is_err());
    }
}
