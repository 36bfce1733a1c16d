//! Small types that many kinds share.

use compact_str::CompactString;
pub(crate) use control_client::nulls::{list, null_as_default};
pub use control_types::label_selector::{LabelRequirement as Requirement, LabelSelector};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A short string; most are stored without an allocation.
pub type Text = CompactString;

/// The current time cut to whole seconds, as `metav1.Time` stores it.
#[must_use]
pub fn seconds_now() -> Timestamp {
    Timestamp::from_second(Timestamp::now().as_second()).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Whether a field is there, whatever its value.
pub(crate) fn is_present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    Ok(Option::<serde::de::IgnoredAny>::deserialize(deserializer)?.is_some())
}

/// A condition as workloads, nodes and namespaces carry it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Condition {
    /// The condition's type, unique in its list.
    pub r#type: Text,
    /// `True`, `False` or `Unknown`.
    pub status: Text,
    /// When a kubelet last reported (nodes only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<Timestamp>,
    /// When it was last probed (jobs only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Timestamp>,
    /// When it was last written (deployments only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Timestamp>,
    /// When `status` last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Timestamp>,
    /// One word for machines.
    #[serde(skip_serializing_if = "Text::is_empty")]
    pub reason: Text,
    /// A sentence for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The generation that was looked at, where the kind has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

impl Condition {
    /// A condition that changed just now.
    #[must_use]
    pub fn new(
        r#type: &str,
        status: &str,
        reason: &str,
        message: impl Into<String>,
        now: Timestamp,
    ) -> Self {
        Self {
            r#type: r#type.into(),
            status: status.into(),
            reason: reason.into(),
            message: message.into(),
            last_transition_time: Some(now),
            ..Self::default()
        }
    }

    /// Finds a condition by type.
    #[must_use]
    pub fn find<'a>(list: &'a [Self], r#type: &str) -> Option<&'a Self> {
        list.iter().find(|c| c.r#type == r#type)
    }
}

/// Puts a condition into its list as the workload controllers do: nothing
/// changes when status and reason are as before, and the transition time is
/// kept when the status is as before. The changed condition moves to the end.
pub fn upsert(list: &mut Vec<Condition>, mut condition: Condition) {
    if let Some(current) = Condition::find(list, &condition.r#type) {
        if current.status == condition.status && current.reason == condition.reason {
            return;
        }
        if current.status == condition.status {
            condition.last_transition_time = current.last_transition_time;
        }
    }
    list.retain(|c| c.r#type != condition.r#type);
    list.push(condition);
}

/// A number or a string (`intstr.IntOrString`): percentages and named ports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum IntOrString {
    /// A plain number.
    Int(i32),
    /// A percentage such as `25%`, or a port's name.
    Text(Text),
}

impl IntOrString {
    /// The number itself, or the percentage of `total`, rounded up or down.
    /// `None` when the string is no percentage.
    #[must_use]
    pub fn scaled(&self, total: i32, round_up: bool) -> Option<i32> {
        match self {
            Self::Int(number) => Some(*number),
            Self::Text(text) => {
                let percent: i64 = text.strip_suffix('%')?.parse().ok()?;
                let product = percent.checked_mul(i64::from(total))?;
                let quotient = if round_up {
                    product.div_euclid(100) + i64::from(product.rem_euclid(100) != 0)
                } else {
                    product.div_euclid(100)
                };
                i32::try_from(quotient).ok()
            }
        }
    }
}

impl<'de> Deserialize<'de> for IntOrString {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = IntOrString;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an integer or a string")
            }
            fn visit_i64<E: serde::de::Error>(self, v: i64) -> Result<IntOrString, E> {
                i32::try_from(v).map(IntOrString::Int).map_err(E::custom)
            }
            fn visit_u64<E: serde::de::Error>(self, v: u64) -> Result<IntOrString, E> {
                i32::try_from(v).map(IntOrString::Int).map_err(E::custom)
            }
            fn visit_str<E: serde::de::Error>(self, v: &str) -> Result<IntOrString, E> {
                Ok(IntOrString::Text(v.into()))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl Serialize for IntOrString {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Int(number) => serializer.serialize_i32(*number),
            Self::Text(text) => serializer.serialize_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selector(json: &str) -> LabelSelector {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn selector_needs_every_requirement() {
        let s = selector(
            r#"{"matchLabels":{"app":"web"},"matchExpressions":[{"key":"tier","operator":"NotIn","values":["db"]}]}"#,
        );
        let get = |pairs: &'static [(&str, &str)]| {
            s.matches(move |k| pairs.iter().find(|(a, _)| *a == k).map(|(_, b)| *b))
        };
        assert!(get(&[("app", "web")]));
        assert!(get(&[("app", "web"), ("tier", "front")]));
        assert!(!get(&[("app", "web"), ("tier", "db")]));
        assert!(!get(&[("tier", "front")]));
    }

    #[test]
    fn unknown_operator_matches_nothing() {
        let s = selector(r#"{"matchExpressions":[{"key":"a","operator":"Near"}]}"#);
        assert!(!s.matches(|_| Some("x")));
    }

    #[test]
    fn percentages_round_as_asked() {
        let quarter = IntOrString::Text("25%".into());
        assert_eq!(quarter.scaled(10, true), Some(3));
        assert_eq!(quarter.scaled(10, false), Some(2));
        assert_eq!(IntOrString::Text("x".into()).scaled(10, true), None);
        assert_eq!(IntOrString::Int(7).scaled(10, true), Some(7));
    }

    #[test]
    fn upsert_keeps_transition_time_while_status_stays() {
        let old = Timestamp::from_second(10).unwrap();
        let new = Timestamp::from_second(20).unwrap();
        let mut list = vec![Condition::new("A", "True", "x", "", old)];
        upsert(&mut list, Condition::new("A", "True", "y", "", new));
        assert_eq!(list[0].last_transition_time, Some(old));
        upsert(&mut list, Condition::new("A", "False", "y", "", new));
        assert_eq!(list[0].last_transition_time, Some(new));
        assert_eq!(list.len(), 1);
    }
}
