//! Selectors of labels and nodes, in the form in which the snapshot looks them up.
//!
//! They are built from the parsed form ([`control_types::label_selector`]) once per
//! object: numbers are parsed, a selector is one list of requirements, and it can be
//! hashed, so that pods with equal selectors share results. [`labels::Operator`]
//! evaluates them.

use compact_str::CompactString;
use control_client::StringMap;
use control_devices::api::NodeSelectorTerm;
use control_types::label_selector::{self, LabelRequirement};
use control_types::labels;
use serde::{Deserialize, Deserializer};

/// `metav1.LabelSelector`, as a list of requirements that must all hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    requirements: Box<[Requirement]>,
    /// Selects nothing: an absent selector, or one that makes no sense.
    nothing: bool,
}

/// One requirement on a label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    /// The label's key.
    pub key: CompactString,
    /// The requirement on its value.
    pub operator: Operator,
}

/// A requirement on a label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    /// One of these.
    In(Box<[CompactString]>),
    /// None of these values, or absent.
    NotIn(Box<[CompactString]>),
    /// There.
    Exists,
    /// Absent.
    DoesNotExist,
    /// An integer greater than this (node selectors only).
    Gt(i64),
    /// An integer less than this (node selectors only).
    Lt(i64),
}

/// `core/v1` NodeSelectorTerm: requirements on labels and on the name that
/// must all hold. An empty term, and one that makes no sense, matches nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct NodeTerm {
    /// Requirements on labels.
    pub labels: Box<[Requirement]>,
    /// Names that match; the boolean says whether they are the only ones
    /// (`In`) or the excluded ones (`NotIn`).
    pub names: Box<[(bool, CompactString)]>,
    /// Whether anything can match.
    pub valid: bool,
}

// === impl LabelSelector ===

impl LabelSelector {
    /// Selects nothing.
    #[must_use]
    pub fn nothing() -> Self {
        Self {
            requirements: Box::default(),
            nothing: true,
        }
    }

    /// Returns a selector of objects with all of these labels.
    #[must_use]
    pub fn of_labels<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        Self {
            requirements: labels
                .into_iter()
                .map(|(key, value)| Requirement {
                    key: key.into(),
                    operator: Operator::In([value.into()].into()),
                })
                .collect(),
            nothing: false,
        }
    }

    /// Selects what both select.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        let mut requirements = self.requirements.to_vec();
        for requirement in &other.requirements {
            if !requirements.contains(requirement) {
                requirements.push(requirement.clone());
            }
        }
        Self {
            requirements: requirements.into(),
            nothing: self.nothing || other.nothing,
        }
    }

    /// With one more requirement.
    #[must_use]
    pub fn with(mut self, requirement: Requirement) -> Self {
        let mut requirements = std::mem::take(&mut self.requirements).into_vec();
        requirements.push(requirement);
        self.requirements = requirements.into();
        self
    }

    /// Whether it selects everything.
    #[must_use]
    pub const fn is_everything(&self) -> bool {
        !self.nothing && self.requirements.is_empty()
    }

    /// The requirements, all of which must hold; `None`: it selects nothing.
    #[must_use]
    pub fn requirements(&self) -> Option<&[Requirement]> {
        (!self.nothing).then_some(&*self.requirements)
    }

    /// Whether `labels` are selected.
    #[must_use]
    pub fn matches(&self, labels: &StringMap) -> bool {
        self.matches_with(|key| labels.get(key))
    }

    /// Whether labels, read through `get`, are selected.
    pub fn matches_with<'a>(&self, get: impl Fn(&str) -> Option<&'a str>) -> bool {
        !self.nothing
            && self
                .requirements
                .iter()
                .all(|requirement| requirement.operator.matches(get(&requirement.key)))
    }
}

// === impl Operator ===

impl Operator {
    /// Whether a label with this value (or none) is as it must be.
    #[must_use]
    pub fn matches(&self, value: Option<&str>) -> bool {
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match self {
            Self::In(values) => labels::Operator::In.holds(values, value),
            Self::NotIn(values) => labels::Operator::NotIn.holds(values, value),
            Self::Exists => value.is_some(),
            Self::DoesNotExist => value.is_none(),
            Self::Gt(bound) => number().is_some_and(|number| number > *bound),
            Self::Lt(bound) => number().is_some_and(|number| number < *bound),
        }
    }
}

// === impl NodeTerm ===

impl NodeTerm {
    /// Whether a node of that name with these labels matches.
    #[must_use]
    pub fn matches(&self, name: &str, labels: &StringMap) -> bool {
        self.valid
            && self
                .labels
                .iter()
                .all(|it| it.operator.matches(labels.get(&it.key)))
            && self.names.iter().all(|(only, it)| *only == (it == name))
    }
}

// === What the API server sends ===

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawNodeTerm {
    match_expressions: Option<Vec<LabelRequirement>>,
    match_fields: Option<Vec<LabelRequirement>>,
}

impl Requirement {
    /// Returns the requirement that the API server sends; `None` when it makes no sense.
    fn of(sent: &LabelRequirement, of_nodes: bool) -> Option<Self> {
        let parsed = sent.parse(of_nodes)?;
        let number = || parsed.values.first()?.parse().ok();
        let values = || sent.values.as_slice().into();
        let operator = match parsed.operator {
            labels::Operator::In => Operator::In(values()),
            labels::Operator::NotIn => Operator::NotIn(values()),
            labels::Operator::Exists => Operator::Exists,
            labels::Operator::DoesNotExist => Operator::DoesNotExist,
            labels::Operator::GreaterThan => Operator::Gt(number()?),
            labels::Operator::LessThan => Operator::Lt(number()?),
            // of selectors in text form only
            labels::Operator::Equals
            | labels::Operator::DoubleEquals
            | labels::Operator::NotEquals => return None,
        };
        Some(Self {
            key: parsed.key,
            operator,
        })
    }
}

impl<'de> Deserialize<'de> for LabelSelector {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let sent = label_selector::LabelSelector::deserialize(deserializer)?;
        let equal = sent.match_labels.iter();
        let mut selector = Self::of_labels(equal.map(|(key, value)| (&**key, &**value)));
        let mut requirements = std::mem::take(&mut selector.requirements).into_vec();
        for requirement in &sent.match_expressions {
            match Requirement::of(requirement, false) {
                Some(requirement) => requirements.push(requirement),
                None => selector.nothing = true,
            }
        }
        selector.requirements = requirements.into();
        Ok(selector)
    }
}

impl<'de> Deserialize<'de> for NodeTerm {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        RawNodeTerm::deserialize(deserializer).map(Self::from)
    }
}

impl From<&NodeSelectorTerm> for NodeTerm {
    fn from(term: &NodeSelectorTerm) -> Self {
        Self::from(RawNodeTerm {
            match_expressions: Some(term.match_expressions.clone()),
            match_fields: Some(term.match_fields.clone()),
        })
    }
}

impl From<RawNodeTerm> for NodeTerm {
    fn from(raw: RawNodeTerm) -> Self {
        let labels = raw.match_expressions.unwrap_or_default();
        let fields = raw.match_fields.unwrap_or_default();
        let mut valid = !labels.is_empty() || !fields.is_empty();
        let mut read = Vec::with_capacity(labels.len());
        for requirement in labels {
            match Requirement::of(&requirement, true) {
                Some(requirement) => read.push(requirement),
                None => valid = false,
            }
        }
        let mut names = Vec::with_capacity(fields.len());
        for field in fields {
            // the API knows one field and one value
            match (
                field.key.as_str(),
                field.operator.as_str(),
                field.values.as_slice(),
            ) {
                ("metadata.name", "In", [name]) => names.push((true, name.clone())),
                ("metadata.name", "NotIn", [name]) => names.push((false, name.clone())),
                _ => valid = false,
            }
        }
        Self {
            labels: read.into(),
            names: names.into(),
            valid,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> StringMap {
        pairs.iter().copied().collect()
    }

    #[test]
    fn a_label_selector_needs_all_its_requirements() {
        let selector: LabelSelector = serde_json::from_value(json!({
            "matchLabels": {"app": "web"},
            "matchExpressions": [
                {"key": "tier", "operator": "NotIn", "values": ["db"]},
                {"key": "old", "operator": "DoesNotExist"},
            ],
        }))
        .unwrap();
        assert!(selector.matches(&labels(&[("app", "web")])));
        assert!(selector.matches(&labels(&[("app", "web"), ("tier", "front")])));
        assert!(!selector.matches(&labels(&[("app", "web"), ("tier", "db")])));
        assert!(!selector.matches(&labels(&[("app", "web"), ("old", "")])));
        assert!(!selector.matches(&labels(&[])));
    }

    #[test]
    fn what_makes_no_sense_selects_nothing() {
        let selector: LabelSelector = serde_json::from_value(json!({
            "matchExpressions": [{"key": "a", "operator": "Roughly"}],
        }))
        .unwrap();
        assert!(!selector.matches(&labels(&[("a", "1")])));
        assert!(!selector.is_everything());
        assert!(!LabelSelector::nothing().matches(&labels(&[])));
        assert!(LabelSelector::default().matches(&labels(&[])));
        let term: NodeTerm = serde_json::from_value(json!({})).unwrap();
        assert!(!term.valid);
    }

    #[test]
    fn numbers_are_compared_as_numbers() {
        assert!(Operator::Gt(9).matches(Some("10")));
        assert!(!Operator::Gt(9).matches(Some("9")));
        assert!(Operator::Lt(9).matches(Some("-1")));
        assert!(!Operator::Lt(9).matches(Some("many")));
        assert!(!Operator::Lt(9).matches(None));
    }
}
