//! `PodTolerationRestriction`: pods get the tolerations that their namespace (or the
//! cluster) gives, and may have no others than it allows.

use control_types::value;
use control_types::value::Value;

use super::refusal::Refusal;
use crate::quota::qos_class;
use crate::tree::{Read, Write};

/// The annotation of a namespace with the tolerations that its pods get.
pub const DEFAULT_TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/defaultTolerations";
/// The annotation with those that its pods may have.
pub const ALLOWED_TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerationsWhitelist";

/// Error for an annotation that lists no tolerations.
#[derive(Debug, thiserror::Error)]
pub enum TolerationsError {
    /// It is no JSON.
    #[error(transparent)]
    Json(#[from] value::Error),
    /// It is no list.
    #[error("the tolerations are no list")]
    NoList,
}

/// Reads the value of one of the annotations; an empty one says: none.
///
/// # Errors
/// When it is no list.
pub fn read_tolerations(text: &str) -> Result<Vec<Value>, TolerationsError> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    match Value::from_slice(text.as_bytes())? {
        Value::Array(items) => Ok(items),
        _ => Err(TolerationsError::NoList),
    }
}

/// Adds the namespace's default tolerations, and the memory-pressure toleration to pods
/// that are not BestEffort.
pub fn add_tolerations(pod: &mut Value, given: &[Value]) {
    let mut more = given.to_vec();
    if qos_class(pod) != "BestEffort" {
        more.push(value!({
            "key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule"
        }));
    }
    if more.is_empty() {
        return;
    }
    let spec = pod.make("spec");
    let mut all = spec.items("tolerations").to_vec();
    all.append(&mut more);
    let mut merged: Vec<Value> = Vec::new();
    for (at, one) in all.iter().enumerate() {
        let covered = merged.iter().any(|other| covers(other, one))
            || all[at + 1..]
                .iter()
                .any(|other| other != one && covers(other, one));
        if !covered {
            merged.push(one.clone());
        }
    }
    spec.put("tolerations", Value::Array(merged));
}

/// Refuses tolerations beyond those that `scope` (`namespace` or `cluster`) allows.
///
/// # Errors
/// When there is one.
pub fn check_tolerations(pod: &Value, allowed: &[Value], scope: &str) -> Result<(), Refusal> {
    let all = pod.at("spec").items("tolerations");
    let is_allowed = |one: &Value| allowed.iter().any(|wider| covers(wider, one));
    if allowed.is_empty() || all.iter().all(is_allowed) {
        return Ok(());
    }
    Err(format!(
        "pod tolerations (possibly merged with namespace default tolerations) conflict with its {scope} whitelist"
    )
    .into())
}

/// Whether `wide` tolerates all that `narrow` does.
fn covers(wide: &Value, narrow: &Value) -> bool {
    if wide == narrow {
        return true;
    }
    let exists = wide.text("operator") == "Exists";
    if narrow.text("key") != wide.text("key") && !(wide.text("key").is_empty() && exists) {
        return false;
    }
    let effect = wide.text("effect");
    if narrow.text("effect") != effect && !effect.is_empty() {
        return false;
    }
    if effect == "NoExecute"
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
        _ => exists,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn given_ones_are_merged_and_others_refused() {
        let given = read_tolerations(r#"[{"key":"team","operator":"Exists"}]"#).expect("a list");
        let mut pod = value!({"spec": {"containers": [{"name": "c"}], "tolerations": [
            {"key": "team", "operator": "Equal", "value": "red", "effect": "NoSchedule"}
        ]}});
        add_tolerations(&mut pod, &given);
        assert_eq!(
            pod.at("spec").items("tolerations"),
            &given,
            "the wider one is kept"
        );
        check_tolerations(&pod, &given, "namespace").expect("allowed");
        let narrow = read_tolerations(r#"[{"key":"team","operator":"Equal","value":"red"}]"#)
            .expect("a list");
        let why = check_tolerations(&pod, &narrow, "cluster").expect_err("wider than allowed");
        assert!(
            why.as_ref()
                .ends_with("conflict with its cluster whitelist"),
            "{why}"
        );
        check_tolerations(&pod, &[], "cluster").expect("nothing is said");
        assert!(read_tolerations("").expect("none").is_empty());
        assert!(read_tolerations("{}").is_err());
    }

    #[test]
    fn who_asks_for_resources_outlives_a_node_short_of_memory() {
        let mut pod = value!({"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]}});
        add_tolerations(&mut pod, &[]);
        assert_eq!(
            pod.at("spec").items("tolerations")[0].text("key"),
            "node.kubernetes.io/memory-pressure"
        );
    }

    #[test]
    fn a_limited_stay_covers_shorter_ones_only() {
        let stay = |seconds: i64| value!({"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds});
        assert!(covers(&stay(60), &stay(30)));
        assert!(!covers(&stay(60), &stay(90)));
        assert!(!covers(
            &stay(60),
            &value!({"key": "a", "operator": "Exists", "effect": "NoExecute"})
        ));
        assert!(covers(&value!({"operator": "Exists"}), &stay(1)));
        assert!(!covers(
            &value!({"key": "b", "operator": "Exists"}),
            &stay(1)
        ));
    }
}
