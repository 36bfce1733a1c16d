//! Label selectors (`metav1.LabelSelector`), as the specs here carry them.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

use crate::Text;

/// A label selector. An empty one selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Selector {
    /// Labels that must be there with these values.
    #[serde(deserialize_with = "nullable")]
    pub match_labels: BTreeMap<Text, Text>,
    /// Further requirements; all must hold.
    #[serde(deserialize_with = "nullable")]
    pub match_expressions: Vec<Requirement>,
}

/// One set-based requirement.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Requirement {
    /// The label's key.
    pub key: Text,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
    pub operator: Text,
    /// The values for `In` and `NotIn`.
    #[serde(deserialize_with = "nullable")]
    pub values: Vec<Text>,
}

impl Selector {
    /// Whether labels, read through `get`, satisfy every requirement. An
    /// operator that is not known selects nothing.
    pub fn selects<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        let labels = self
            .match_labels
            .iter()
            .all(|(key, value)| get(key) == Some(value.as_str()));
        labels
            && self.match_expressions.iter().all(|requirement| {
                let value = get(&requirement.key);
                let listed = || value.is_some_and(|v| requirement.values.iter().any(|w| w == v));
                match requirement.operator.as_str() {
                    "In" => listed(),
                    "NotIn" => !listed(),
                    "Exists" => value.is_some(),
                    "DoesNotExist" => value.is_none(),
                    _ => false,
                }
            })
    }
}

/// `null` means the same as absence.
pub fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selects(selector: &str, labels: &[(&str, &str)]) -> bool {
        let selector: Selector = serde_json::from_str(selector).unwrap();
        selector.selects(|key| labels.iter().find(|(k, _)| *k == key).map(|(_, v)| *v))
    }

    #[test]
    fn every_requirement_must_hold() {
        assert!(selects("{}", &[]));
        assert!(selects(r#"{"matchLabels":{"a":"b"}}"#, &[("a", "b")]));
        assert!(!selects(r#"{"matchLabels":{"a":"b"}}"#, &[("a", "c")]));
        let both = r#"{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"c","operator":"DoesNotExist"}]}"#;
        assert!(selects(both, &[("a", "b")]));
        assert!(!selects(both, &[("a", "b"), ("c", "")]));
        let unknown = r#"{"matchExpressions":[{"key":"c","operator":"Gt","values":["1"]}]}"#;
        assert!(!selects(unknown, &[("c", "2")]));
        let not_in = r#"{"matchExpressions":[{"key":"c","operator":"NotIn","values":["1"]}]}"#;
        assert!(selects(not_in, &[]) && !selects(not_in, &[("c", "1")]));
    }
}
