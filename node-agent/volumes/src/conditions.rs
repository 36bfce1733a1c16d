//! Conditions of claims, of which each duty writes its own.

use control_client::time;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::views::Claim;

/// The conditions of resizing.
pub const RESIZING: &[&str] = &[
    "Resizing",
    "FileSystemResizePending",
    "ControllerResizeError",
    "NodeResizeError",
];

/// The conditions of a change of attributes.
pub const MODIFYING: &[&str] = &["ModifyingVolume", "ModifyVolumeError"];

/// A condition of a claim that is true.
pub struct Condition {
    /// Its type.
    pub kind: &'static str,
    /// A sentence for people; may be empty.
    pub message: String,
}

/// Returns the conditions of a claim with `condition` as the only one of its `duty`.
pub fn with(claim: &Claim, duty: &[&str], condition: Option<&Condition>) -> Vec<Value> {
    let is_ours = |it: &Value| duty.iter().any(|kind| it["type"] == *kind);
    let mut all = claim.status.conditions.clone();
    let previous = condition.and_then(|condition| {
        let mut all = all.iter();
        all.find(|it| it["type"] == condition.kind && it["status"] == "True")
            .cloned()
    });
    all.retain(|it| !is_ours(it));
    if let Some(condition) = condition {
        let since = previous.map(|it| it["lastTransitionTime"].clone());
        let since = since.filter(Value::is_string);
        let mut new = json!({
            "type": condition.kind,
            "status": "True",
            "lastProbeTime": null,
            "lastTransitionTime": since.unwrap_or_else(|| json!(time::seconds(Timestamp::now()))),
        });
        if !condition.message.is_empty() {
            new["message"] = json!(condition.message);
        }
        all.push(new);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_condition_of_a_duty_replaces_its_others_and_keeps_its_time() {
        let mut claim: Claim = serde_json::from_value(crate::testing::claim()).expect("a claim");
        let old = "2026-01-01T00:00:00Z";
        claim.status.conditions = vec![
            json!({"type": "Resizing", "status": "True", "lastTransitionTime": old}),
            json!({"type": "Unrelated", "status": "True"}),
        ];
        let condition = |kind| Condition {
            kind,
            message: "m".to_owned(),
        };
        let kinds = |all: &[Value]| {
            let kinds = all
                .iter()
                .map(|it| it["type"].as_str().unwrap_or_default().to_owned());
            kinds.collect::<Vec<_>>()
        };
        let same = with(&claim, RESIZING, Some(&condition("Resizing")));
        assert_eq!(kinds(&same), ["Unrelated", "Resizing"]);
        assert_eq!(same[1]["lastTransitionTime"], old);
        let next = with(
            &claim,
            RESIZING,
            Some(&condition("FileSystemResizePending")),
        );
        assert_eq!(kinds(&next), ["Unrelated", "FileSystemResizePending"]);
        assert_ne!(next[1]["lastTransitionTime"], old);
        assert_eq!(kinds(&with(&claim, RESIZING, None)), ["Unrelated"]);
    }
}
