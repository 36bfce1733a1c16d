//! Conjunctions of label requirements, and their disjunctions.
//!
//! A label selector of Kubernetes is a conjunction over the labels of one object.
//! Selectors of other projects are arbitrary expressions, also over pod and namespace
//! labels at once: they become a disjunction of [`Conjunction`]s, each of which is a pair
//! of label selectors.

use std::collections::{BTreeMap, BTreeSet};

use control_types::label_selector::LabelSelector;
use serde_json::{Map, Value, json};

use crate::InvalidValue;

/// The label that every namespace has, with its name as value.
pub const NAMESPACE_NAME: &str = "kubernetes.io/metadata.name";

/// The most conjunctions that one selector may need.
pub const MAX_CONJUNCTIONS: usize = 64;

/// A test of one label.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Test {
    /// Present, with one of these values.
    In(BTreeSet<String>),
    /// Absent, or with none of these values.
    NotIn(BTreeSet<String>),
    /// Present.
    Exists,
    /// Absent.
    Absent,
}

impl Test {
    /// The opposite test.
    #[must_use]
    pub fn negated(&self) -> Self {
        match self {
            Self::In(values) => Self::NotIn(values.clone()),
            Self::NotIn(values) => Self::In(values.clone()),
            Self::Exists => Self::Absent,
            Self::Absent => Self::Exists,
        }
    }

    /// Whether a label with this value, or no label, passes.
    #[must_use]
    pub fn matches(&self, value: Option<&str>) -> bool {
        match self {
            Self::In(values) => value.is_some_and(|it| values.contains(it)),
            Self::NotIn(values) => value.is_none_or(|it| !values.contains(it)),
            Self::Exists => value.is_some(),
            Self::Absent => value.is_none(),
        }
    }
}

/// Requirements for the labels of one object; all must hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Requirements(BTreeMap<String, BTreeSet<Test>>);

impl Requirements {
    /// A single requirement.
    #[must_use]
    pub fn one(key: &str, test: Test) -> Self {
        Self(BTreeMap::from([(key.to_owned(), BTreeSet::from([test]))]))
    }

    /// A namespace by its name.
    #[must_use]
    pub fn namespace(name: &str) -> Self {
        Self::one(NAMESPACE_NAME, Test::In(BTreeSet::from([name.to_owned()])))
    }

    /// Returns whether there are none, so that everything matches.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether labels satisfy all.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        let mut all = self.0.iter();
        all.all(|(key, tests)| {
            let value = labels.get(key).map(String::as_str);
            tests.iter().all(|test| test.matches(value))
        })
    }

    /// Both, simplified; `None` if no object can satisfy both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Option<Self> {
        let mut all = self.0.clone();
        for (key, tests) in &other.0 {
            all.entry(key.clone())
                .or_default()
                .extend(tests.iter().cloned());
        }
        Self(all).simplified()
    }

    /// Simplifies it to at most one test of each sort for each key, without tests that
    /// the API server rejects; returns `None` if nothing can match.
    #[must_use]
    pub fn simplified(self) -> Option<Self> {
        let mut all = BTreeMap::new();
        for (key, tests) in self.0 {
            let mut within: Option<BTreeSet<String>> = None;
            let mut without = BTreeSet::new();
            let (mut exists, mut absent) = (false, false);
            for test in tests {
                match test {
                    Test::In(values) => {
                        within = Some(match within {
                            None => values,
                            Some(known) => known.intersection(&values).cloned().collect(),
                        });
                    }
                    Test::NotIn(values) => without.extend(values),
                    Test::Exists => exists = true,
                    Test::Absent => absent = true,
                }
            }
            // Labels that cannot exist.
            without.retain(|value| is_label_value(value));
            let is_key = is_label_key(&key);
            if (exists || within.is_some()) && (absent || !is_key) {
                return None;
            }
            if !is_key {
                continue;
            }
            let tests = if let Some(mut within) = within {
                within.retain(|value| is_label_value(value) && !without.contains(value));
                if within.is_empty() {
                    return None;
                }
                BTreeSet::from([Test::In(within)])
            } else if absent {
                BTreeSet::from([Test::Absent])
            } else {
                let mut tests = BTreeSet::new();
                if exists {
                    tests.insert(Test::Exists);
                }
                if !without.is_empty() {
                    tests.insert(Test::NotIn(without));
                }
                tests
            };
            if !tests.is_empty() {
                all.insert(key, tests);
            }
        }
        Some(Self(all))
    }

    /// The values that a label must have one of.
    #[must_use]
    pub fn values(&self, key: &str) -> Option<&BTreeSet<String>> {
        self.0.get(key)?.iter().find_map(|test| match test {
            Test::In(values) => Some(values),
            Test::NotIn(_) | Test::Exists | Test::Absent => None,
        })
    }

    /// All keys.
    pub fn keys(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    /// As a label selector.
    #[must_use]
    pub fn selector(&self) -> Value {
        let mut labels = Map::new();
        let mut expressions = Vec::new();
        for (key, tests) in &self.0 {
            for test in tests {
                match test {
                    Test::In(values) if values.len() == 1 => {
                        let value = values.first().cloned().unwrap_or_default();
                        labels.insert(key.clone(), value.into());
                    }
                    Test::In(values) => {
                        expressions.push(json!({"key": key, "operator": "In", "values": values}));
                    }
                    Test::NotIn(values) => {
                        expressions
                            .push(json!({"key": key, "operator": "NotIn", "values": values}));
                    }
                    Test::Exists => expressions.push(json!({"key": key, "operator": "Exists"})),
                    Test::Absent => {
                        expressions.push(json!({"key": key, "operator": "DoesNotExist"}));
                    }
                }
            }
        }
        let mut selector = Map::new();
        if !labels.is_empty() {
            selector.insert("matchLabels".to_owned(), labels.into());
        }
        if !expressions.is_empty() {
            selector.insert("matchExpressions".to_owned(), expressions.into());
        }
        selector.into()
    }

    /// Reads a label selector.
    ///
    /// # Errors
    /// The operator that label selectors do not have.
    pub fn of_selector(selector: &LabelSelector) -> Result<Vec<(String, Test)>, InvalidValue> {
        let labels = selector.match_labels.iter().map(|(key, value)| {
            let values = BTreeSet::from([value.to_string()]);
            Ok((key.to_string(), Test::In(values)))
        });
        let expressions = selector.match_expressions.iter().map(|it| {
            let values: BTreeSet<String> = it.values.iter().map(ToString::to_string).collect();
            let test = match (it.operator.as_str(), values.is_empty()) {
                ("In", false) => Test::In(values),
                ("NotIn", false) => Test::NotIn(values),
                ("Exists", true) => Test::Exists,
                ("DoesNotExist", true) => Test::Absent,
                (operator, _) => {
                    return Err(InvalidValue(format!(
                        "operator `{operator}` with {} values is none of In, NotIn, Exists and \
                         DoesNotExist with the values that they take",
                        values.len()
                    )));
                }
            };
            Ok((it.key.to_string(), test))
        });
        labels.chain(expressions).collect()
    }
}

/// Pods by the labels of their namespace and their own.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Conjunction {
    /// The requirements on the namespace.
    pub namespace: Requirements,
    /// The requirements on the pod.
    pub pod: Requirements,
}

impl Conjunction {
    /// Both; `None` if no pod can satisfy both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Option<Self> {
        Some(Self {
            namespace: self.namespace.and(&other.namespace)?,
            pod: self.pod.and(&other.pod)?,
        })
    }

    /// Whether some pod may satisfy both.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.and(other).is_some()
    }

    /// The names of the namespaces, if names alone select them: then no change of labels and no
    /// new namespace changes the selection.
    #[must_use]
    pub fn names(&self) -> Option<&BTreeSet<String>> {
        let mut keys = self.namespace.keys();
        if keys.any(|key| key != NAMESPACE_NAME) {
            return None;
        }
        self.namespace.values(NAMESPACE_NAME)
    }
}

/// Some conjunctions, of which one must hold.
pub type Disjunction = Vec<Conjunction>;

/// All pairs of two disjunctions; `None` if there are too many.
#[must_use]
pub fn all_pairs(left: &[Conjunction], right: &[Conjunction]) -> Option<Disjunction> {
    let mut all = BTreeSet::new();
    for a in left {
        for b in right {
            if let Some(both) = a.and(b) {
                all.insert(both);
            }
        }
    }
    (all.len() <= MAX_CONJUNCTIONS).then(|| all.into_iter().collect())
}

/// Whether a text can be a label's value.
fn is_label_value(text: &str) -> bool {
    text.is_empty() || (text.len() <= 63 && is_name(text))
}

/// Whether a text can be a label's key.
fn is_label_key(text: &str) -> bool {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    let is_prefix = |it: &str| {
        let parts = |part: &str| {
            let ends = |it: Option<u8>| {
                it.is_some_and(|it| it.is_ascii_lowercase() || it.is_ascii_digit())
            };
            let bytes = part.as_bytes();
            ends(bytes.first().copied())
                && ends(bytes.last().copied())
                && (bytes.iter())
                    .all(|it| it.is_ascii_lowercase() || it.is_ascii_digit() || *it == b'-')
        };
        it.len() <= 253 && it.split('.').all(parts)
    };
    name.len() <= 63 && is_name(name) && prefix.is_none_or(is_prefix)
}

fn is_name(text: &str) -> bool {
    let bytes = text.as_bytes();
    let ends = |it: Option<&u8>| it.is_some_and(u8::is_ascii_alphanumeric);
    ends(bytes.first())
        && ends(bytes.last())
        && (bytes.iter()).all(|it| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(all: &[&str]) -> BTreeSet<String> {
        all.iter().map(|it| (*it).to_owned()).collect()
    }

    #[test]
    fn contradictions_match_nothing() {
        let a = Requirements::one("app", Test::In(values(&["web", "db"])));
        let both = a.and(&Requirements::one("app", Test::NotIn(values(&["db"]))));
        assert_eq!(
            both,
            Some(Requirements::one("app", Test::In(values(&["web"]))))
        );
        assert_eq!(a.and(&Requirements::one("app", Test::Absent)), None);
        let other = Requirements::one("app", Test::In(values(&["x"])));
        assert_eq!(a.and(&other), None);
    }

    #[test]
    fn labels_that_cannot_exist_are_absent() {
        let impossible = Requirements::one("a", Test::In(values(&["not a value"])));
        assert_eq!(impossible.simplified(), None);
        let always = Requirements::one("not a key", Test::Absent);
        assert_eq!(always.simplified(), Some(Requirements::default()));
        let always = Requirements::one("a", Test::NotIn(values(&["not a value"])));
        assert_eq!(always.simplified(), Some(Requirements::default()));
    }

    #[test]
    fn a_selector_reads_as_it_is_written() {
        let all = Requirements::one("a", Test::In(values(&["1"])))
            .and(&Requirements::one("b", Test::NotIn(values(&["2"]))))
            .and_then(|it| it.and(&Requirements::one("b", Test::Exists)))
            .unwrap();
        let read: LabelSelector = serde_json::from_value(all.selector()).unwrap();
        let read = Requirements::of_selector(&read).unwrap();
        let again = read
            .into_iter()
            .fold(Requirements::default(), |so_far, (key, test)| {
                so_far.and(&Requirements::one(&key, test)).unwrap()
            });
        assert_eq!(again, all);
    }
}
