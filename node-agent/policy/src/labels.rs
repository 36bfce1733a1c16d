//! Labels of many objects in little memory, and selectors over them.

use std::collections::BTreeMap;

use control_types::labels::Operator;

use crate::objects::LabelSelector;

/// Labels, packed: `key=value` lines in the order of the keys. A pod's take
/// their own length and one allocation.
#[derive(Clone, Default, Debug, PartialEq, Eq, Hash)]
pub struct Labels(Box<str>);

impl Labels {
    /// Packs labels. Invalid labels (a `=` in the key, a line break) are left out:
    /// nothing could select them.
    #[must_use]
    pub fn new(labels: &BTreeMap<String, String>) -> Self {
        let mut text = String::new();
        for (key, value) in labels {
            if key.contains(['=', '\n']) || value.contains('\n') {
                continue;
            }
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(key);
            text.push('=');
            text.push_str(value);
        }
        Self(text.into())
    }

    /// The value under a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        self.pairs()
            .find_map(|pair| pair.strip_prefix(key)?.strip_prefix('='))
    }

    /// All as `key=value`.
    pub fn pairs(&self) -> impl Iterator<Item = &str> {
        self.0.split('\n').filter(|pair| !pair.is_empty())
    }
}

/// A label selector whose requirements must all hold. It is normalised, so that equal
/// selectors are one key of the index, and holds strings of exact size, since a cluster
/// has many; [`Operator::holds`] evaluates it.
#[derive(Clone, Default, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Selector(Box<[Requirement]>);

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Requirement {
    key: Box<str>,
    test: Test,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Test {
    In(Box<[Box<str>]>),
    /// An absent key passes.
    NotIn(Box<[Box<str>]>),
    Exists,
    Absent,
}

impl Selector {
    /// Reads a selector of the API; none if it has an operator that is unknown
    /// or misused.
    #[must_use]
    pub fn new(selector: &LabelSelector) -> Option<Self> {
        let mut requirements: Vec<Requirement> = selector
            .match_labels
            .iter()
            .map(|(key, value)| Requirement {
                key: key.as_str().into(),
                test: Test::In([value.as_str().into()].into()),
            })
            .collect();
        for expression in &selector.match_expressions {
            let parsed = expression.parse(false)?;
            let values = parsed.values.iter().map(|it| it.as_str().into());
            let mut values: Vec<Box<str>> = values.collect();
            values.sort();
            values.dedup();
            let test = match parsed.operator {
                Operator::In => Test::In(values.into()),
                Operator::NotIn => Test::NotIn(values.into()),
                Operator::Exists => Test::Exists,
                Operator::DoesNotExist => Test::Absent,
                _ => return None,
            };
            requirements.push(Requirement {
                key: parsed.key.as_str().into(),
                test,
            });
        }
        requirements.sort();
        requirements.dedup();
        Some(Self(requirements.into()))
    }

    /// Returns whether it selects everything.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether it selects an object with these labels.
    #[must_use]
    pub fn matches(&self, labels: &Labels) -> bool {
        self.0.iter().all(|requirement| {
            let value = labels.get(&requirement.key);
            match &requirement.test {
                Test::In(values) => Operator::In.holds(values, value),
                Test::NotIn(values) => Operator::NotIn.holds(values, value),
                Test::Exists => value.is_some(),
                Test::Absent => value.is_none(),
            }
        })
    }

    /// Returns labels (`key=value`) one of which every selected object has; `None` if
    /// there is no such set. The index finds it by these.
    #[must_use]
    pub fn needs(&self) -> Option<Vec<Box<str>>> {
        self.0
            .iter()
            .filter_map(|requirement| match &requirement.test {
                Test::In(values) => Some((&requirement.key, values)),
                Test::NotIn(_) | Test::Exists | Test::Absent => None,
            })
            .min_by_key(|(_, values)| values.len())
            .map(|(key, values)| {
                values
                    .iter()
                    .map(|value| format!("{key}={value}").into())
                    .collect()
            })
    }
}

impl std::fmt::Display for Selector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            return f.write_str("all");
        }
        for (number, requirement) in self.0.iter().enumerate() {
            if number > 0 {
                f.write_str(",")?;
            }
            let key = &requirement.key;
            match &requirement.test {
                Test::In(values) if values.len() == 1 => write!(f, "{key}={}", values[0])?,
                Test::In(values) => write!(f, "{key} in ({})", values.join(","))?,
                Test::NotIn(values) => write!(f, "{key} notin ({})", values.join(","))?,
                Test::Exists => f.write_str(key)?,
                Test::Absent => write!(f, "!{key}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects::Expression;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        Labels::new(
            &pairs
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
        )
    }

    fn expression(operator: &str, values: &[&str]) -> Option<Selector> {
        Selector::new(&LabelSelector {
            match_expressions: vec![Expression {
                key: "app".into(),
                operator: operator.into(),
                values: values.iter().copied().map(Into::into).collect(),
            }],
            ..LabelSelector::default()
        })
    }

    #[test]
    fn operators_select_as_the_api_says() {
        let (web, db, none) = (
            labels(&[("app", "web"), ("apple", "x")]),
            labels(&[("app", "db")]),
            labels(&[("apple", "web")]),
        );
        for (operator, values, expected) in [
            ("In", &["web", "cache"][..], [true, false, false]),
            ("NotIn", &["web"], [false, true, true]),
            ("Exists", &[], [true, true, false]),
            ("DoesNotExist", &[], [false, false, true]),
        ] {
            let selector = expression(operator, values).unwrap();
            assert_eq!(
                [&web, &db, &none].map(|it| selector.matches(it)),
                expected,
                "{operator}"
            );
        }
    }

    #[test]
    fn an_empty_value_is_a_value() {
        let selector = expression("In", &[""]).unwrap();
        assert!(selector.matches(&labels(&[("app", "")])));
        assert!(!selector.matches(&labels(&[])));
    }

    #[test]
    fn misused_operators_are_no_selector() {
        assert_eq!(expression("In", &[]), None);
        assert_eq!(expression("Exists", &["a"]), None);
        assert_eq!(expression("Gt", &["1"]), None);
    }
}
