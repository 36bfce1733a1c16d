//! Calico's selector language: `app == 'web' && !(tier in {'a', 'b'} || has(old))`.
//!
//! A parsed selector can be evaluated on labels, and converted to a disjunction of label
//! selectors if that can express it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::labels::{
    Conjunction, Disjunction, MAX_CONJUNCTIONS, NAMESPACE_NAME, Requirements, Test, all_pairs,
};

/// A selector.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selector {
    /// `all()`.
    All,
    /// `global()`: objects without a namespace.
    Global,
    /// A test of a label's presence and value.
    Label(String, Test),
    /// A test of a label's text.
    Text(String, TextTest, String),
    /// `!`.
    Not(Box<Self>),
    /// `&&`.
    And(Vec<Self>),
    /// `||`.
    Or(Vec<Self>),
}

/// How a label's value is compared with a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextTest {
    /// `contains`.
    Contains,
    /// `starts with`.
    StartsWith,
    /// `ends with`.
    EndsWith,
}

impl fmt::Display for TextTest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Contains => "contains",
            Self::StartsWith => "starts with",
            Self::EndsWith => "ends with",
        })
    }
}

/// Error for a text that is no selector.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no selector: expected {expected} at character {at}")]
pub struct SyntaxError {
    /// The text.
    pub text: String,
    /// The expected token.
    pub expected: &'static str,
    /// The position, from 1.
    pub at: usize,
}

/// Reason why no label selectors can express it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Inexpressible {
    /// A label selector compares whole values.
    #[error("`{0} {1}` has no counterpart in label selectors: list the values with `in`")]
    Text(String, TextTest),
    /// The label is one that only Calico has.
    #[error(
        "label `{0}` is one of service accounts, which label selectors cannot match: give the pods a label"
    )]
    ServiceAccount(String),
    /// `global()` selects no pods.
    #[error("`global()` within a larger expression has no counterpart: use it alone")]
    Global,
    /// The disjunctive normal form is too large.
    #[error("it needs more than {MAX_CONJUNCTIONS} label selectors: simplify it")]
    TooLarge,
}

/// The nesting that a selector may have.
const MAX_DEPTH: usize = 64;

impl Selector {
    /// Reads a selector; an empty one selects all.
    ///
    /// # Errors
    /// [`SyntaxError`].
    pub fn parse(text: &str) -> Result<Self, SyntaxError> {
        let mut parser = Parser {
            text,
            at: 0,
            depth: 0,
        };
        parser.space();
        if parser.rest().is_empty() {
            return Ok(Self::All);
        }
        let read = parser.or()?;
        if !parser.rest().is_empty() {
            return Err(parser.error("`&&`, `||` or the end"));
        }
        Ok(read)
    }

    /// Whether an object with these labels matches; `namespaced` says whether it has a
    /// namespace.
    #[must_use]
    pub fn matches(&self, labels: &BTreeMap<String, String>, namespaced: bool) -> bool {
        match self {
            Self::All => true,
            Self::Global => !namespaced,
            Self::Label(key, test) => test.matches(labels.get(key).map(String::as_str)),
            Self::Text(key, test, text) => labels.get(key).is_some_and(|value| match test {
                TextTest::Contains => value.contains(text.as_str()),
                TextTest::StartsWith => value.starts_with(text.as_str()),
                TextTest::EndsWith => value.ends_with(text.as_str()),
            }),
            Self::Not(inner) => !inner.matches(labels, namespaced),
            Self::And(all) => all.iter().all(|it| it.matches(labels, namespaced)),
            Self::Or(all) => all.iter().any(|it| it.matches(labels, namespaced)),
        }
    }

    /// The pods that it selects.
    ///
    /// # Errors
    /// [`Inexpressible`].
    pub fn pods(&self) -> Result<Disjunction, Inexpressible> {
        self.normal_form(false, &pod_label)
    }

    /// The pods of the namespaces that it selects.
    ///
    /// # Errors
    /// [`Inexpressible`].
    pub fn namespaces(&self) -> Result<Disjunction, Inexpressible> {
        self.normal_form(false, &namespace_label)
    }

    /// The disjunctive normal form of the selector, or of its negation.
    fn normal_form(
        &self,
        negated: bool,
        translate: &LabelTranslation,
    ) -> Result<Disjunction, Inexpressible> {
        let everything = || vec![Conjunction::default()];
        match self {
            Self::All => Ok(if negated { Vec::new() } else { everything() }),
            Self::Global => Err(Inexpressible::Global),
            Self::Label(key, test) => {
                let test = if negated {
                    test.negated()
                } else {
                    test.clone()
                };
                translate(key, test)
            }
            Self::Text(key, test, _) => Err(Inexpressible::Text(key.clone(), *test)),
            Self::Not(inner) => inner.normal_form(!negated, translate),
            Self::And(all) | Self::Or(all) => {
                let is_and = matches!(self, Self::And(_)) != negated;
                let mut so_far = if is_and { everything() } else { Vec::new() };
                for one in all {
                    let one = one.normal_form(negated, translate)?;
                    if is_and {
                        so_far = all_pairs(&so_far, &one).ok_or(Inexpressible::TooLarge)?;
                    } else {
                        so_far.extend(one);
                        so_far.sort();
                        so_far.dedup();
                        if so_far.len() > MAX_CONJUNCTIONS {
                            return Err(Inexpressible::TooLarge);
                        }
                    }
                }
                Ok(so_far)
            }
        }
    }
}

/// The pods for which a label passes a test.
type LabelTranslation = dyn Fn(&str, Test) -> Result<Disjunction, Inexpressible>;

/// Returns the test of a pod label, including those that Calico adds itself, and those of
/// its namespace.
fn pod_label(key: &str, test: Test) -> Result<Disjunction, Inexpressible> {
    if key == "projectcalico.org/serviceaccount" || key.starts_with("pcsa.") {
        return Err(Inexpressible::ServiceAccount(key.to_owned()));
    }
    if key == "projectcalico.org/orchestrator" {
        let holds = test.matches(Some("k8s"));
        return Ok(if holds {
            vec![Conjunction::default()]
        } else {
            Vec::new()
        });
    }
    if key == "projectcalico.org/namespace" {
        return namespace_label("projectcalico.org/name", test);
    }
    if let Some(key) = key.strip_prefix("pcns.") {
        return namespace_label(key, test);
    }
    let pod = Requirements::one(key, test).simplified();
    Ok(pod
        .map(|pod| Conjunction {
            pod,
            ..Conjunction::default()
        })
        .into_iter()
        .collect())
}

/// A label of a namespace.
fn namespace_label(key: &str, test: Test) -> Result<Disjunction, Inexpressible> {
    let key = match key {
        "projectcalico.org/name" => NAMESPACE_NAME,
        other => other,
    };
    let namespace = Requirements::one(key, test).simplified();
    Ok(namespace
        .map(|namespace| Conjunction {
            namespace,
            ..Conjunction::default()
        })
        .into_iter()
        .collect())
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn space(&mut self) {
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
    }

    fn error(&self, expected: &'static str) -> SyntaxError {
        SyntaxError {
            text: self.text.to_owned(),
            expected,
            at: self.text.get(..self.at).unwrap_or_default().chars().count() + 1,
        }
    }

    /// Takes a sign, and the space after it.
    fn take(&mut self, sign: &str) -> bool {
        let found = self.rest().starts_with(sign);
        if found {
            self.at += sign.len();
            self.space();
        }
        found
    }

    /// Takes words that are not part of a longer one.
    fn word(&mut self, word: &str) -> bool {
        let rest = self.rest();
        let ends = |rest: &str| !rest.chars().next().is_some_and(is_of_key);
        let found = rest.strip_prefix(word).is_some_and(ends);
        found && self.take(word)
    }

    fn or(&mut self) -> Result<Selector, SyntaxError> {
        let mut all = vec![self.and()?];
        while self.take("||") {
            all.push(self.and()?);
        }
        Ok(one_or(all, Selector::Or))
    }

    fn and(&mut self) -> Result<Selector, SyntaxError> {
        let mut all = vec![self.operand()?];
        while self.take("&&") {
            all.push(self.operand()?);
        }
        Ok(one_or(all, Selector::And))
    }

    fn operand(&mut self) -> Result<Selector, SyntaxError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.error("fewer nested parentheses and negations"));
        }
        let read = self.unary();
        self.depth -= 1;
        read
    }

    fn unary(&mut self) -> Result<Selector, SyntaxError> {
        if self.take("!") {
            return Ok(Selector::Not(Box::new(self.operand()?)));
        }
        if self.take("(") {
            let inner = self.or()?;
            return self.closed(inner);
        }
        let key = self.key()?;
        if self.take("(") {
            return match key {
                "all" => self.closed(Selector::All),
                "global" => self.closed(Selector::Global),
                "has" => {
                    let key = self.key()?.to_owned();
                    self.closed(Selector::Label(key, Test::Exists))
                }
                _ => Err(self.error("has(), all() or global()")),
            };
        }
        self.comparison(key.to_owned())
    }

    fn closed(&mut self, inner: Selector) -> Result<Selector, SyntaxError> {
        if self.take(")") {
            Ok(inner)
        } else {
            Err(self.error("`)`"))
        }
    }

    fn comparison(&mut self, key: String) -> Result<Selector, SyntaxError> {
        let one = |value: String| BTreeSet::from([value]);
        if self.take("==") {
            return Ok(Selector::Label(key, Test::In(one(self.value()?))));
        }
        if self.take("!=") {
            return Ok(Selector::Label(key, Test::NotIn(one(self.value()?))));
        }
        if self.word("in") {
            return Ok(Selector::Label(key, Test::In(self.values()?)));
        }
        if self.word("not") {
            if !self.word("in") {
                return Err(self.error("`in`"));
            }
            return Ok(Selector::Label(key, Test::NotIn(self.values()?)));
        }
        let test = if self.word("contains") {
            TextTest::Contains
        } else if self.word("starts") && self.word("with") {
            TextTest::StartsWith
        } else if self.word("ends") && self.word("with") {
            TextTest::EndsWith
        } else {
            return Err(self.error("==, !=, in, not in, contains, starts with or ends with"));
        };
        Ok(Selector::Text(key, test, self.value()?))
    }

    fn key(&mut self) -> Result<&'a str, SyntaxError> {
        let rest = self.rest();
        let end = rest.find(|it| !is_of_key(it)).unwrap_or(rest.len());
        if end == 0 {
            return Err(self.error("a label, `!` or `(`"));
        }
        self.at += end;
        self.space();
        Ok(&rest[..end])
    }

    fn value(&mut self) -> Result<String, SyntaxError> {
        let rest = self.rest();
        let quote = rest.chars().next().filter(|it| matches!(it, '\'' | '"'));
        let Some(quote) = quote else {
            return Err(self.error("a value in quotes"));
        };
        let inner = &rest[1..];
        let Some(end) = inner.find(quote) else {
            return Err(self.error("a value in quotes"));
        };
        self.at += end + 2;
        self.space();
        Ok(inner[..end].to_owned())
    }

    fn values(&mut self) -> Result<BTreeSet<String>, SyntaxError> {
        if !self.take("{") {
            return Err(self.error("`{`"));
        }
        let mut all = BTreeSet::new();
        loop {
            if self.take("}") {
                return Ok(all);
            }
            all.insert(self.value()?);
            if !self.take(",") && !self.rest().starts_with('}') {
                return Err(self.error("`,` or `}`"));
            }
        }
    }
}

const fn is_of_key(it: char) -> bool {
    it.is_ascii_alphanumeric() || matches!(it, '_' | '.' | '/' | '-')
}

fn one_or(mut all: Vec<Selector>, more: fn(Vec<Selector>) -> Selector) -> Selector {
    match all.pop() {
        Some(only) if all.is_empty() => only,
        Some(last) => {
            all.push(last);
            more(all)
        }
        None => Selector::All,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Selector {
        Selector::parse(text).unwrap()
    }

    #[test]
    fn all_operators_are_read() {
        let labels: BTreeMap<String, String> = [("app", "web"), ("example.com/tier", "front-end")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        for (text, expected) in [
            ("", true),
            ("all()", true),
            ("app=='web'", true),
            ("app == \"web\"", true),
            ("app != 'web'", false),
            ("old != 'x'", true),
            ("app in {'db', 'web'}", true),
            ("app in {}", false),
            ("app not in { 'db' }", true),
            ("has(app) && !has( old )", true),
            ("has(old) || app == 'db' || app == 'web'", true),
            ("!(app == 'web' && has(example.com/tier))", false),
            ("example.com/tier contains 'nt-e'", true),
            ("example.com/tier starts with 'front'", true),
            ("example.com/tier ends with \"front\"", false),
            ("!!has(app)", true),
            ("has(old) && has(old) || has(app)", true),
            ("global()", false),
        ] {
            assert_eq!(read(text).matches(&labels, true), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_selector_is_named_with_its_place() {
        for (text, at) in [
            ("app", 4),
            ("app == web", 8),
            ("app == 'web", 8),
            ("(app == 'web'", 14),
            ("app == 'web' app", 14),
            ("app in 'web'", 8),
            ("app in {'a' 'b'}", 13),
            ("app not 'a'", 9),
            ("some(app)", 6),
            ("&& has(a)", 1),
            ("has(ä)", 5),
        ] {
            assert_eq!(Selector::parse(text).unwrap_err().at, at, "{text}");
        }
        let deep = "(".repeat(100_000);
        assert!(Selector::parse(&deep).is_err());
        let deep = "!".repeat(100_000);
        assert!(Selector::parse(&deep).is_err());
    }

    #[test]
    fn labels_of_namespaces_and_service_accounts_are_known() {
        let pods = read("projectcalico.org/namespace == 'shop' && pcns.team == 'a'").pods();
        let pods = pods.unwrap();
        assert_eq!(pods.len(), 1);
        assert!(pods[0].pod.is_empty());
        let labels = BTreeMap::from([
            (NAMESPACE_NAME.to_owned(), "shop".to_owned()),
            ("team".to_owned(), "a".to_owned()),
        ]);
        assert!(pods[0].namespace.matches(&labels));
        let error = read("projectcalico.org/serviceaccount == 'x'").pods();
        assert!(matches!(error, Err(Inexpressible::ServiceAccount(_))));
        let error = read("a contains 'x'").pods();
        assert!(error.unwrap_err().to_string().contains("`a contains`"));
    }

    fn selector() -> impl Strategy<Value = String> {
        let key = || prop::sample::select(vec!["a", "b", "c"]);
        let value = || prop::sample::select(vec!["1", "2", "no value"]);
        let leaf = prop_oneof![
            (key(), value()).prop_map(|(key, value)| format!("{key} == '{value}'")),
            (key(), value()).prop_map(|(key, value)| format!("{key} != \"{value}\"")),
            (key(), value(), value()).prop_map(|(key, a, b)| format!("{key} in {{'{a}', '{b}'}}")),
            (key(), value()).prop_map(|(key, value)| format!("{key} not in {{'{value}'}}")),
            key().prop_map(|key| format!("has({key})")),
            Just("all()".to_owned()),
        ];
        leaf.prop_recursive(4, 12, 3, |inner| {
            prop_oneof![
                inner.clone().prop_map(|it| format!("!({it})")),
                (inner.clone(), inner.clone()).prop_map(|(a, b)| format!("({a}) && {b}")),
                (inner.clone(), inner).prop_map(|(a, b)| format!("{a} || ({b})")),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_normal_form_selects_the_same(
            text in selector(),
            labels in prop::collection::btree_map("[abc]", "[12]", 0..4),
        ) {
            let selector = read(&text);
            let Ok(pods) = selector.pods() else { return Ok(()) };
            let selected = pods.iter().any(|it| it.pod.matches(&labels));
            prop_assert_eq!(selected, selector.matches(&labels, true), "{}", text);
        }

        #[test]
        fn no_text_panics(text in "[a-z()!&|{}'\", =]{0,40}|\\PC{0,20}") {
            let _ = Selector::parse(&text);
        }
    }
}
