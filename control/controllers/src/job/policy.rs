//! Pod failure policies and success policies of Jobs.

use serde::Deserialize;

use super::indexes::Indexes;
use crate::views::{ContainerStatus, Pod, Text, null_as_default};

/// Rules for failed pods; the first rule that matches decides.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct FailurePolicy {
    /// In order.
    #[serde(deserialize_with = "null_as_default")]
    pub rules: Vec<FailureRule>,
}

/// A rule about failed pods.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FailureRule {
    /// `FailJob`, `FailIndex`, `Ignore` or `Count`.
    pub action: Text,
    /// Exit codes that match.
    pub on_exit_codes: Option<ExitCodes>,
    /// Conditions that match.
    #[serde(deserialize_with = "null_as_default")]
    pub on_pod_conditions: Vec<PodConditionPattern>,
}

/// Exit codes of a container, or of any.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExitCodes {
    /// Only of this one.
    pub container_name: Option<Text>,
    /// `In` or `NotIn`.
    pub operator: Text,
    /// The codes.
    #[serde(deserialize_with = "null_as_default")]
    pub values: Vec<i32>,
}

/// A condition of a pod.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct PodConditionPattern {
    /// The condition, such as `DisruptionTarget`.
    pub r#type: Text,
    /// The condition's status, such as `True`.
    pub status: Text,
}

/// The consequence of a failed pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PodFailureVerdict {
    /// It counts as a failure.
    Counts,
    /// It does not.
    Ignored,
    /// Its index has failed.
    FailsIndex,
    /// The whole Job has failed, for this reason.
    FailsJob(String),
}

impl PodFailureVerdict {
    /// Whether it is a failure that counts.
    #[must_use]
    pub fn counts(&self) -> bool {
        *self != Self::Ignored
    }
}

/// Evaluates a failed pod by a policy; without a policy it counts.
#[must_use]
pub fn judge(policy: Option<&FailurePolicy>, pod: &Pod) -> PodFailureVerdict {
    let rules = policy.map_or(&[][..], |policy| &policy.rules);
    let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
    for (index, rule) in rules.iter().enumerate() {
        let why = if let Some(codes) = &rule.on_exit_codes {
            ended_with(pod, codes).map(|(container, code)| {
                format!("Container {container} for pod {namespace}/{name} failed with exit code {code} matching")
            })
        } else {
            let matching = |kind: &Text, status: &Text| {
                let mut patterns = rule.on_pod_conditions.iter();
                patterns.any(|pattern| pattern.r#type == *kind && pattern.status == *status)
            };
            let mut conditions = pod.status.conditions.iter();
            let found = conditions.find(|one| matching(&one.r#type, &one.status));
            found.map(|one| {
                format!(
                    "Pod {namespace}/{name} has condition {} matching",
                    one.r#type
                )
            })
        };
        let Some(why) = why else {
            continue;
        };
        match rule.action.as_str() {
            "Ignore" => return PodFailureVerdict::Ignored,
            "FailIndex" => return PodFailureVerdict::FailsIndex,
            "Count" => return PodFailureVerdict::Counts,
            "FailJob" => {
                return PodFailureVerdict::FailsJob(format!(
                    "{why} {} rule at index {index}",
                    rule.action
                ));
            }
            _ => {}
        }
    }
    PodFailureVerdict::Counts
}

/// The first container that ended with one of these codes.
fn ended_with<'a>(pod: &'a Pod, codes: &ExitCodes) -> Option<(&'a str, i32)> {
    let all = pod
        .status
        .container_statuses
        .iter()
        .chain(&pod.status.init_container_statuses);
    let ended = |status: &'a ContainerStatus| {
        let code = status.state.terminated.as_ref()?.exit_code;
        let named = codes
            .container_name
            .as_ref()
            .is_none_or(|name| *name == status.name);
        let listed = codes.values.contains(&code);
        let matches = match codes.operator.as_str() {
            "In" => listed,
            "NotIn" => !listed,
            _ => false,
        };
        (named && code != 0 && matches).then_some((status.name.as_str(), code))
    };
    all.filter_map(ended).next()
}

/// When an indexed Job has succeeded before all its indexes have.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct SuccessPolicy {
    /// The rules, one of which suffices.
    #[serde(deserialize_with = "null_as_default")]
    pub rules: Vec<SuccessRule>,
}

/// Indexes that have to succeed, or a number of them, or a number of all.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SuccessRule {
    /// As in the status.
    pub succeeded_indexes: Option<String>,
    /// How many.
    pub succeeded_count: Option<i32>,
}

impl SuccessPolicy {
    /// The first rule that is met, as the condition tells it.
    #[must_use]
    pub fn met(&self, completions: i32, succeeded: &Indexes) -> Option<String> {
        if succeeded.is_empty() {
            return None;
        }
        let is_met = |rule: &SuccessRule| {
            let enough = |count: i32| rule.succeeded_count.is_some_and(|wanted| count >= wanted);
            let Some(indexes) = &rule.succeeded_indexes else {
                return enough(succeeded.count());
            };
            let wanted = Indexes::parse(indexes, completions);
            let shared = wanted.shared(succeeded);
            !wanted.is_empty() && (shared == wanted.count() || enough(shared))
        };
        let index = self.rules.iter().position(is_met)?;
        Some(format!("Matched rules at index {index}"))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(code: i32) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "d"},
            "status": {"phase": "Failed",
                "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": code}}}],
                "conditions": [{"type": "DisruptionTarget", "status": "True"}]},
        }))
        .unwrap()
    }

    fn policy(rules: Value) -> FailurePolicy {
        serde_json::from_value(json!({"rules": rules})).unwrap()
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let policy = policy(json!([
            {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
            {"action": "FailIndex", "onExitCodes": {"containerName": "main", "operator": "In", "values": [43]}},
            {"action": "Count", "onExitCodes": {"containerName": "other", "operator": "NotIn", "values": [0]}},
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        ]));
        assert_eq!(
            judge(Some(&policy), &pod(42)),
            PodFailureVerdict::FailsJob("Container main for pod d/p failed with exit code 42 matching FailJob rule at index 0".into())
        );
        assert_eq!(
            judge(Some(&policy), &pod(43)),
            PodFailureVerdict::FailsIndex
        );
        assert_eq!(judge(Some(&policy), &pod(1)), PodFailureVerdict::Ignored);
        assert_eq!(judge(None, &pod(42)), PodFailureVerdict::Counts);
    }

    #[test]
    fn a_condition_can_fail_the_job() {
        let policy = policy(json!([
            {"action": "FailJob", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        ]));
        assert_eq!(
            judge(Some(&policy), &pod(1)),
            PodFailureVerdict::FailsJob(
                "Pod d/p has condition DisruptionTarget matching FailJob rule at index 0".into()
            )
        );
    }

    #[test]
    fn success_is_met_by_indexes_by_count_or_by_both() {
        let met = |rule: Value, done: &str| {
            let policy: SuccessPolicy = serde_json::from_value(json!({"rules": [rule]})).unwrap();
            policy.met(10, &Indexes::parse(done, 10)).is_some()
        };
        assert!(met(json!({"succeededIndexes": "0-2"}), "0-3"));
        assert!(!met(json!({"succeededIndexes": "0-2"}), "0,2"));
        assert!(met(
            json!({"succeededIndexes": "0-2", "succeededCount": 2}),
            "0,2"
        ));
        assert!(met(json!({"succeededCount": 2}), "5,7"));
        assert!(!met(json!({"succeededCount": 1}), ""));
    }
}
