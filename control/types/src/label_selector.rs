//! `metav1.LabelSelector` as objects carry it, in the form in which components read it.

use std::collections::BTreeMap;
use std::fmt;

use compact_str::CompactString;
use serde::{Deserialize, Deserializer, Serialize};

use crate::labels::{Operator, Requirement};

/// A label selector. An empty one selects everything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LabelSelector {
    /// Labels that must be present with these values.
    #[serde(
        skip_serializing_if = "BTreeMap::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub match_labels: BTreeMap<CompactString, CompactString>,
    /// Further requirements; all must hold.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub match_expressions: Vec<LabelRequirement>,
}

/// One of `matchExpressions`, of a label selector or of a node selector.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct LabelRequirement {
    /// The label's key.
    pub key: CompactString,
    /// `In`, `NotIn`, `Exists` or `DoesNotExist`; of nodes also `Gt` and `Lt`.
    pub operator: CompactString,
    /// The operator's values.
    #[serde(
        skip_serializing_if = "Vec::is_empty",
        deserialize_with = "null_as_default"
    )]
    pub values: Vec<CompactString>,
}

// === impl LabelSelector ===

impl LabelSelector {
    /// Returns whether there are no requirements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.match_labels.is_empty() && self.match_expressions.is_empty()
    }

    /// Whether labels, read through `get`, satisfy every requirement. An operator that
    /// label selectors do not have matches nothing.
    pub fn matches<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.match_labels
            .iter()
            .all(|(key, value)| get(key) == Some(value.as_str()))
            && self.match_expressions.iter().all(|one| {
                Operator::from_name(&one.operator)
                    .is_some_and(|it| !it.is_numeric() && it.holds(&one.values, get(&one.key)))
            })
    }
}

/// The text by which Go shows a selector in messages.
impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("&LabelSelector{MatchLabels:map[string]string{")?;
        for (key, value) in &self.match_labels {
            write!(f, "{key}: {value},")?;
        }
        f.write_str("},MatchExpressions:[]LabelSelectorRequirement{")?;
        for requirement in &self.match_expressions {
            write!(
                f,
                "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
                requirement.key,
                requirement.operator,
                requirement.values.join(" ")
            )?;
        }
        f.write_str("},}")
    }
}

// === impl LabelRequirement ===

impl LabelRequirement {
    /// Returns the requirement as [`crate::labels::Selector`] has it; `None` when the
    /// operator is unknown or cannot have these values. `Gt` and `Lt` are for nodes only.
    #[must_use]
    pub fn parse(&self, of_nodes: bool) -> Option<Requirement> {
        let operator = Operator::from_name(&self.operator)?;
        let known = of_nodes || !operator.is_numeric();
        (known && operator.takes(&self.values)).then(|| Requirement {
            key: self.key.clone(),
            operator,
            values: self.values.iter().cloned().collect(),
        })
    }
}

/// Reads `null` as absence.
fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::labels::Selector;

    fn selector(text: &str) -> LabelSelector {
        serde_json::from_str(text).unwrap()
    }

    fn matches(text: &str, labels: &[(&str, &str)]) -> bool {
        selector(text).matches(|key| labels.iter().find(|(k, _)| *k == key).map(|(_, v)| *v))
    }

    #[test]
    fn every_requirement_must_hold() {
        assert!(matches("{}", &[]));
        assert!(matches(
            r#"{"matchLabels":null,"matchExpressions":null}"#,
            &[]
        ));
        assert!(matches(r#"{"matchLabels":{"a":"b"}}"#, &[("a", "b")]));
        assert!(!matches(r#"{"matchLabels":{"a":"b"}}"#, &[("a", "c")]));
        let both = r#"{"matchLabels":{"a":"b"},"matchExpressions":[{"key":"c","operator":"DoesNotExist"}]}"#;
        assert!(matches(both, &[("a", "b")]));
        assert!(!matches(both, &[("a", "b"), ("c", "")]));
        let not_in = r#"{"matchExpressions":[{"key":"c","operator":"NotIn","values":["1"]}]}"#;
        assert!(matches(not_in, &[]) && !matches(not_in, &[("c", "1")]));
    }

    #[test]
    fn an_operator_of_others_matches_nothing() {
        for operator in ["Gt", "Roughly", ""] {
            let text = format!(
                r#"{{"matchExpressions":[{{"key":"c","operator":"{operator}","values":["1"]}}]}}"#
            );
            assert!(!matches(&text, &[("c", "2")]), "{operator}");
        }
    }

    #[test]
    fn operators_come_with_the_values_that_they_take() {
        let parse = |operator: &str, values: &[&str], of_nodes| {
            let requirement = LabelRequirement {
                key: "k".into(),
                operator: operator.into(),
                values: values.iter().copied().map(Into::into).collect(),
            };
            requirement.parse(of_nodes).map(|it| it.operator)
        };
        assert_eq!(parse("In", &["a"], false), Some(Operator::In));
        assert_eq!(parse("In", &[], false), None);
        assert_eq!(parse("NotIn", &[], true), None);
        assert_eq!(parse("Exists", &[], false), Some(Operator::Exists));
        assert_eq!(parse("DoesNotExist", &["a"], false), None);
        assert_eq!(parse("Gt", &["1"], false), None);
        assert_eq!(parse("Gt", &["1"], true), Some(Operator::GreaterThan));
        assert_eq!(parse("Lt", &["1", "2"], true), None);
        assert_eq!(parse("Lt", &["one"], true), None);
    }

    /// The object form, the parsed form and the text form select alike.
    #[test]
    fn all_forms_of_a_selector_select_alike() {
        let mut compared = 0;
        for operator in ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"] {
            for values in [&[][..], &["5"], &["5", "a"], &["a"], &[""]] {
                let requirement = LabelRequirement {
                    key: "k".into(),
                    operator: operator.into(),
                    values: values.iter().copied().map(Into::into).collect(),
                };
                let Some(parsed) = requirement.parse(true) else {
                    continue;
                };
                let text = Selector::parse(&parsed.to_string()).unwrap();
                let object = LabelSelector {
                    match_expressions: vec![requirement],
                    ..LabelSelector::default()
                };
                for label in [None, Some(""), Some("a"), Some("4"), Some("5"), Some("6")] {
                    let expected = parsed.matches(label);
                    assert_eq!(text.matches_with(|_| label), expected, "{parsed} {label:?}");
                    if !parsed.operator.is_numeric() {
                        assert_eq!(object.matches(|_| label), expected, "{parsed} {label:?}");
                    }
                    compared += 1;
                }
            }
        }
        assert_eq!(compared, 6 * (4 + 4 + 1 + 1 + 1 + 1));
    }

    #[test]
    fn messages_show_selectors_as_go_does() {
        let text = r#"{"matchLabels":{"b":"2","a":"1"},"matchExpressions":[{"key":"c","operator":"In","values":["d","e"]}]}"#;
        assert_eq!(
            selector(text).to_string(),
            "&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:c,Operator:In,Values:[d e],},},}"
        );
    }
}
