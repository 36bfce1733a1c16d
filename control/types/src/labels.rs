//! Label selectors, in text form and as `LabelSelector` objects.

use std::fmt;

use compact_str::CompactString;
use smallvec::SmallVec;

use crate::label_selector::LabelSelector;
use crate::names;
use crate::status::quote;
use crate::value::Value;

/// The operator of a requirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `key in (a,b)`
    In,
    /// `key notin (a,b)`; an absent key matches.
    NotIn,
    /// `key=a`
    Equals,
    /// `key==a`
    DoubleEquals,
    /// `key!=a`; an absent key matches.
    NotEquals,
    /// `key`
    Exists,
    /// `!key`
    DoesNotExist,
    /// `key>1`, as whole numbers.
    GreaterThan,
    /// `key<1`, as whole numbers.
    LessThan,
}

impl Operator {
    /// Returns the operator with this name in `matchExpressions`, of label selectors and,
    /// with `Gt` and `Lt`, of node selectors.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "In" => Self::In,
            "NotIn" => Self::NotIn,
            "Exists" => Self::Exists,
            "DoesNotExist" => Self::DoesNotExist,
            "Gt" => Self::GreaterThan,
            "Lt" => Self::LessThan,
            _ => return None,
        })
    }

    /// Whether only node selectors have it.
    #[must_use]
    pub const fn is_numeric(self) -> bool {
        matches!(self, Self::GreaterThan | Self::LessThan)
    }

    /// Whether an object may have the operator with these values.
    #[must_use]
    pub fn takes<V: AsRef<str>>(self, values: &[V]) -> bool {
        match self {
            Self::In | Self::NotIn => !values.is_empty(),
            Self::Exists | Self::DoesNotExist => values.is_empty(),
            Self::Equals | Self::DoubleEquals | Self::NotEquals => values.len() == 1,
            Self::GreaterThan | Self::LessThan => {
                matches!(values, [one] if one.as_ref().parse::<i64>().is_ok())
            }
        }
    }

    /// Returns whether the operator with these values holds for a label's value, or for
    /// its absence. This is the one evaluation of requirements; selectors that are
    /// compiled for speed call it, too.
    #[must_use]
    pub fn holds<V: AsRef<str>>(self, values: &[V], value: Option<&str>) -> bool {
        let among = |value: &str| values.iter().any(|one| one.as_ref() == value);
        match self {
            Self::In | Self::Equals | Self::DoubleEquals => value.is_some_and(among),
            Self::NotIn | Self::NotEquals => !value.is_some_and(among),
            Self::Exists => value.is_some(),
            Self::DoesNotExist => value.is_none(),
            Self::GreaterThan | Self::LessThan => {
                let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
                match (number(value), number(values.first().map(AsRef::as_ref))) {
                    (Some(value), Some(bound)) if self == Self::GreaterThan => value > bound,
                    (Some(value), Some(bound)) => value < bound,
                    _ => false,
                }
            }
        }
    }
}

/// One requirement of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The label's key.
    pub key: CompactString,
    /// The operator.
    pub operator: Operator,
    /// The values, ordered and different.
    pub values: SmallVec<[CompactString; 1]>,
}

/// Requirements that must all hold. Empty, it selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<Requirement>,
    nothing: bool,
}

/// Error for text or an object that is not a label selector; the message is Kubernetes'
/// own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

impl Selector {
    /// Selects everything.
    #[must_use]
    pub const fn everything() -> Self {
        Self {
            requirements: Vec::new(),
            nothing: false,
        }
    }

    /// Returns a selector that selects nothing, which is what an absent `LabelSelector`
    /// means.
    #[must_use]
    pub const fn nothing() -> Self {
        Self {
            requirements: Vec::new(),
            nothing: true,
        }
    }

    /// Reads the text form, as in `labelSelector=` of a request.
    ///
    /// # Errors
    /// When the text does not follow the grammar or a key or value breaks its rule.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut parser = SelectorParser {
            tokens: lex(text),
            at: 0,
        };
        let mut requirements = parser.selector()?;
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self {
            requirements,
            nothing: false,
        })
    }

    /// Reads a `LabelSelector` object: `matchLabels` and `matchExpressions`. Absent
    /// (or `null`) it selects nothing, empty it selects everything.
    ///
    /// # Errors
    /// When an operator is unknown or a key or value breaks its rule.
    pub fn from_object<'a>(selector: Option<&'a Value>) -> Result<Self, Error> {
        let Some(selector) = selector.filter(|value| !value.is_null()) else {
            return Ok(Self::nothing());
        };
        let text = |value: &'a Value| value.as_str().unwrap_or("");
        let labels = selector.get("matchLabels").and_then(Value::as_object);
        let labels = labels.into_iter().flatten();
        let expressions = selector.items_at(&["matchExpressions"]).iter();
        let expressions = expressions.map(|expression| {
            let values = expression.items_at(&["values"]).iter().map(text);
            let field = |key: &str| expression.get(key).map_or("", text);
            let values = values.map(CompactString::new).collect();
            (field("key"), field("operator"), values)
        });
        Self::from_parts(
            labels.map(|(key, value)| (key.as_str(), text(value))),
            expressions,
        )
    }

    /// Makes a selector of `matchLabels` and `matchExpressions`.
    fn from_parts<'a>(
        labels: impl Iterator<Item = (&'a str, &'a str)>,
        expressions: impl Iterator<Item = (&'a str, &'a str, Vec<CompactString>)>,
    ) -> Result<Self, Error> {
        let mut requirements = Vec::new();
        for (key, value) in labels {
            requirements.push(requirement(key, Operator::Equals, vec![value.into()])?);
        }
        for (key, operator, values) in expressions {
            let operator = match operator {
                "In" => Operator::In,
                "NotIn" => Operator::NotIn,
                "Exists" => Operator::Exists,
                "DoesNotExist" => Operator::DoesNotExist,
                other => {
                    return Err(Error(format!(
                        "{} is not a valid label selector operator",
                        quote(other)
                    )));
                }
            };
            requirements.push(requirement(key, operator, values)?);
        }
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Ok(Self {
            requirements,
            nothing: false,
        })
    }

    /// Reads a plain map of labels, as `spec.selector` of a Service.
    #[must_use]
    pub fn from_map<'a>(labels: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let mut requirements: Vec<_> = labels
            .into_iter()
            .map(|(key, value)| Requirement {
                key: key.into(),
                operator: Operator::Equals,
                values: SmallVec::from_iter([CompactString::new(value)]),
            })
            .collect();
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self {
            requirements,
            nothing: false,
        }
    }

    /// Whether everything is selected.
    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty() && !self.nothing
    }

    /// The requirements, ordered by key.
    #[must_use]
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Whether all requirements hold for the labels that `lookup` gives.
    #[must_use]
    pub fn matches_with<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        !self.nothing
            && self
                .requirements
                .iter()
                .all(|one| one.matches(lookup(&one.key)))
    }

    /// Whether all requirements hold for an object's `metadata.labels`.
    #[must_use]
    pub fn matches(&self, object: &Value) -> bool {
        let labels = object.get("metadata").and_then(|meta| meta.get("labels"));
        self.matches_with(|key| {
            labels
                .and_then(|labels| labels.get(key))
                .and_then(Value::as_str)
        })
    }

    /// Whether all requirements hold for these labels.
    #[must_use]
    pub fn matches_labels<K: AsRef<str>, V: AsRef<str>>(&self, labels: &[(K, V)]) -> bool {
        self.matches_with(|key| {
            labels
                .iter()
                .find(|(name, _)| name.as_ref() == key)
                .map(|(_, value)| value.as_ref())
        })
    }
}

impl TryFrom<&LabelSelector> for Selector {
    type Error = Error;

    fn try_from(selector: &LabelSelector) -> Result<Self, Error> {
        let labels = selector.match_labels.iter();
        let expressions = selector.match_expressions.iter();
        Self::from_parts(
            labels.map(|(key, value)| (key.as_str(), value.as_str())),
            expressions.map(|it| (it.key.as_str(), it.operator.as_str(), it.values.clone())),
        )
    }
}

impl Requirement {
    /// Whether it holds for the value that the key has.
    #[must_use]
    pub fn matches(&self, value: Option<&str>) -> bool {
        self.operator.holds(&self.values, value)
    }
}

fn invalid(field: &str, value: &str, messages: &[String]) -> String {
    format!(
        "{field}: Invalid value: {}: {}",
        quote(value),
        messages.join("; ")
    )
}

fn requirement(
    key: &str,
    operator: Operator,
    values: Vec<CompactString>,
) -> Result<Requirement, Error> {
    let mut errors = Vec::new();
    let messages = names::qualified_name(key);
    if !messages.is_empty() {
        errors.push(invalid("key", key, &messages));
    }
    let list = || {
        let quoted: Vec<_> = values.iter().map(|value| quote(value)).collect();
        format!("[{}]", quoted.join(","))
    };
    match operator {
        Operator::In | Operator::NotIn if values.is_empty() => errors.push(format!(
            "values: Invalid value: {}: for 'in', 'notin' operators, values set can't be empty",
            list()
        )),
        Operator::Exists | Operator::DoesNotExist if !values.is_empty() => errors.push(format!(
            "values: Invalid value: {}: values set must be empty for exists and does not exist",
            list()
        )),
        Operator::GreaterThan | Operator::LessThan => {
            for (at, value) in values.iter().enumerate() {
                if value.parse::<i64>().is_err() {
                    errors.push(format!(
                        "values[{at}]: Invalid value: {}: for 'Gt', 'Lt' operators, the value must be an integer",
                        quote(value)
                    ));
                }
            }
        }
        _ => {}
    }
    for (at, value) in values.iter().enumerate() {
        let messages = names::label_value(value);
        if !messages.is_empty() {
            errors.push(invalid(&format!("values[{at}][{key}]"), value, &messages));
        }
    }
    match errors.as_slice() {
        [] => {
            let mut values: SmallVec<[CompactString; 1]> = values.into();
            values.sort_unstable();
            values.dedup();
            Ok(Requirement {
                key: key.into(),
                operator,
                values,
            })
        }
        [one] => Err(Error(one.clone())),
        many => Err(Error(format!("[{}]", many.join(", ")))),
    }
}

// === impl Display ===

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.operator == Operator::DoesNotExist {
            f.write_str("!")?;
        }
        f.write_str(&self.key)?;
        let (before, after) = match self.operator {
            Operator::Exists | Operator::DoesNotExist => return Ok(()),
            Operator::Equals => ("=", ""),
            Operator::DoubleEquals => ("==", ""),
            Operator::NotEquals => ("!=", ""),
            Operator::In => (" in (", ")"),
            Operator::NotIn => (" notin (", ")"),
            Operator::GreaterThan => (">", ""),
            Operator::LessThan => ("<", ""),
        };
        f.write_str(before)?;
        for (at, value) in self.values.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            f.write_str(value)?;
        }
        f.write_str(after)
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, requirement) in self.requirements.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            fmt::Display::fmt(requirement, f)?;
        }
        Ok(())
    }
}

// === the text form ===

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bad,
    End,
    Close,
    Comma,
    Not,
    Operator(Operator),
    Word,
    Open,
}

struct Token {
    kind: Kind,
    text: String,
}

fn keyword(text: &str) -> Option<Kind> {
    Some(match text {
        ")" => Kind::Close,
        "," => Kind::Comma,
        "!" => Kind::Not,
        "(" => Kind::Open,
        "==" => Kind::Operator(Operator::DoubleEquals),
        "=" => Kind::Operator(Operator::Equals),
        "!=" => Kind::Operator(Operator::NotEquals),
        ">" => Kind::Operator(Operator::GreaterThan),
        "<" => Kind::Operator(Operator::LessThan),
        "in" => Kind::Operator(Operator::In),
        "notin" => Kind::Operator(Operator::NotIn),
        _ => return None,
    })
}

fn lex(text: &str) -> Vec<Token> {
    let symbol = |c: char| matches!(c, '=' | '!' | '(' | ')' | ',' | '>' | '<');
    let blank = |c: char| matches!(c, ' ' | '\t' | '\r' | '\n');
    let mut tokens = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(blank);
        // A zero byte ends the text in the original, too.
        let Some(first) = rest.chars().next().filter(|c| *c != '\0') else {
            tokens.push(Token {
                kind: Kind::End,
                text: String::new(),
            });
            return tokens;
        };
        let length = if symbol(first) {
            // The longest operator at this point; two characters at most.
            match rest.get(..2) {
                Some(two) if keyword(two).is_some() && two.chars().all(symbol) => 2,
                _ => 1,
            }
        } else {
            rest.find(|c| symbol(c) || blank(c) || c == '\0')
                .unwrap_or(rest.len())
        };
        let (word, after) = rest.split_at(length);
        rest = after;
        tokens.push(Token {
            kind: keyword(word).unwrap_or(if symbol(first) { Kind::Bad } else { Kind::Word }),
            text: word.to_owned(),
        });
    }
}

struct SelectorParser {
    tokens: Vec<Token>,
    at: usize,
}

impl SelectorParser {
    /// The next token; `in` and `notin` are words where a value may stand.
    fn peek(&self) -> (Kind, &str) {
        match self.tokens.get(self.at) {
            None => (Kind::End, ""),
            Some(Token {
                kind: Kind::Operator(Operator::In | Operator::NotIn),
                text,
            }) => (Kind::Word, text),
            Some(token) => (token.kind, &token.text),
        }
    }

    fn next(&mut self) -> (Kind, String) {
        let (kind, text) = self.peek();
        let token = (kind, text.to_owned());
        self.at += 1;
        token
    }

    fn selector(&mut self) -> Result<Vec<Requirement>, Error> {
        let mut requirements = Vec::new();
        loop {
            match self.peek() {
                (Kind::Word | Kind::Not, _) => {
                    let one = self.requirement().map_err(|Error(message)| {
                        Error(format!("unable to parse requirement: {message}"))
                    })?;
                    requirements.push(one);
                    match self.next() {
                        (Kind::End, _) => return Ok(requirements),
                        (Kind::Comma, _) => {
                            let (kind, text) = self.peek();
                            if !matches!(kind, Kind::Word | Kind::Not) {
                                return Err(Error(format!(
                                    "found '{text}', expected: identifier after ','"
                                )));
                            }
                        }
                        (_, text) => {
                            return Err(Error(format!(
                                "found '{text}', expected: ',' or 'end of string'"
                            )));
                        }
                    }
                }
                (Kind::End, _) => return Ok(requirements),
                (_, text) => {
                    return Err(Error(format!(
                        "found '{text}', expected: !, identifier, or 'end of string'"
                    )));
                }
            }
        }
    }

    fn requirement(&mut self) -> Result<Requirement, Error> {
        let (mut kind, mut key) = self.next();
        let negated = kind == Kind::Not;
        if negated {
            (kind, key) = self.next();
        }
        if kind != Kind::Word {
            return Err(Error(format!("found '{key}', expected: identifier")));
        }
        let messages = names::qualified_name(&key);
        if !messages.is_empty() {
            return Err(Error(invalid("<nil>", &key, &messages)));
        }
        if negated {
            return requirement(&key, Operator::DoesNotExist, Vec::new());
        }
        if matches!(self.peek().0, Kind::End | Kind::Comma) {
            return requirement(&key, Operator::Exists, Vec::new());
        }
        let token = self.tokens.get(self.at);
        self.at += 1;
        let operator = match token {
            Some(Token {
                kind: Kind::Operator(operator),
                ..
            }) => *operator,
            other => {
                let text = other.map_or("", |token| token.text.as_str());
                return Err(Error(format!(
                    "found '{text}', expected: in, notin, =, ==, !=, gt, lt"
                )));
            }
        };
        let values = match operator {
            Operator::In | Operator::NotIn => self.set()?,
            _ => vec![self.exact()?],
        };
        requirement(&key, operator, values)
    }

    fn exact(&mut self) -> Result<CompactString, Error> {
        if matches!(self.peek().0, Kind::End | Kind::Comma) {
            return Ok(CompactString::const_new(""));
        }
        match self.next() {
            (Kind::Word, text) => Ok(text.into()),
            (_, text) => Err(Error(format!("found '{text}', expected: identifier"))),
        }
    }

    fn set(&mut self) -> Result<Vec<CompactString>, Error> {
        let (kind, text) = self.next();
        if kind != Kind::Open {
            return Err(Error(format!("found '{text}' expected: '('")));
        }
        let first = match self.peek() {
            (Kind::Word | Kind::Comma, text) => text.to_owned(),
            (Kind::Close, _) => {
                self.at += 1;
                return Ok(vec![CompactString::const_new("")]);
            }
            (_, text) => {
                return Err(Error(format!(
                    "found '{text}', expected: ',', ')' or identifier"
                )));
            }
        };
        let values = self.words()?;
        match self.next() {
            (Kind::Close, _) => Ok(values),
            // The original names the first token of the list here.
            _ => Err(Error(format!("found '{first}', expected: ')'"))),
        }
    }

    fn words(&mut self) -> Result<Vec<CompactString>, Error> {
        let mut values: Vec<CompactString> = Vec::new();
        let mut add = |value: &str| {
            if !values.iter().any(|one| one == value) {
                values.push(value.into());
            }
        };
        let mut none = true;
        loop {
            match self.next() {
                (Kind::Word, text) => {
                    add(&text);
                    none = false;
                    match self.peek() {
                        (Kind::Comma, _) => {}
                        (Kind::Close, _) => break,
                        (_, text) => {
                            return Err(Error(format!("found '{text}', expected: ',' or ')'")));
                        }
                    }
                }
                (Kind::Comma, _) => {
                    if none {
                        add("");
                        none = false;
                    }
                    match self.peek().0 {
                        Kind::Close => {
                            add("");
                            break;
                        }
                        Kind::Comma => add(""),
                        _ => {}
                    }
                }
                (_, text) => {
                    return Err(Error(format!(
                        "found '{text}', expected: ',', or identifier"
                    )));
                }
            }
        }
        values.sort_unstable();
        Ok(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value;

    fn matches(selector: &str, labels: &[(&str, &str)]) -> bool {
        Selector::parse(selector).unwrap().matches_labels(labels)
    }

    fn error(text: &str) -> String {
        Selector::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn every_operator_matches_as_it_should() {
        let labels = [("app", "web"), ("tier", ""), ("n", "5")];
        for yes in [
            "",
            "app=web",
            "app==web",
            "app!=db",
            "app in (web,db)",
            "app notin (db)",
            "app",
            "!none",
            "none!=x",
            "none notin (x)",
            "tier=",
            "tier in ()",
            "n>4",
            "n<6",
            "app=web,tier",
            " app = web , n > 1 ",
            "app in (,web)",
        ] {
            assert!(matches(yes, &labels), "{yes}");
        }
        for no in [
            "app=db",
            "none",
            "!app",
            "none=",
            "app notin (web)",
            "n>5",
            "app>1",
            "tier in (a)",
        ] {
            assert!(!matches(no, &labels), "{no}");
        }
    }

    #[test]
    fn the_text_form_is_ordered() {
        let text = |text: &str| Selector::parse(text).unwrap().to_string();
        assert_eq!(text("z,!b,a in (y,x,y),c!=1"), "a in (x,y),!b,c!=1,z");
        assert_eq!(text("in in (in)"), "in in (in)");
    }

    #[test]
    fn errors_are_worded_as_kubernetes_words_them() {
        assert_eq!(error("a,"), "found '', expected: identifier after ','");
        assert_eq!(
            error("a b"),
            "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"
        );
        assert_eq!(
            error("=a"),
            "found '=', expected: !, identifier, or 'end of string'"
        );
        assert_eq!(
            error("a in b"),
            "unable to parse requirement: found 'b' expected: '('"
        );
        assert_eq!(
            error("a in (b"),
            "unable to parse requirement: found '', expected: ',' or ')'"
        );
        assert_eq!(
            error("!=a"),
            "found '!=', expected: !, identifier, or 'end of string'"
        );
        assert_eq!(
            error("a=b=c"),
            "found '=', expected: ',' or 'end of string'"
        );
        assert_eq!(
            error("a=b c!"),
            "found 'c', expected: ',' or 'end of string'"
        );
        assert!(error("-a=b").starts_with(
            "unable to parse requirement: <nil>: Invalid value: \"-a\": name part must consist of"
        ));
        assert!(error("a=-b").starts_with(
            "unable to parse requirement: values[0][a]: Invalid value: \"-b\": a valid label must be"
        ));
    }

    #[test]
    fn objects_select_everything_when_empty_and_nothing_when_absent() {
        let pod = value!({"metadata": {"labels": {"app": "web"}}});
        let select = |selector: Value| {
            Selector::from_object(Some(&selector))
                .unwrap()
                .matches(&pod)
        };
        assert!(select(value!({})));
        assert!(!select(Value::Null));
        assert!(select(
            value!({"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "x", "operator": "DoesNotExist"}]})
        ));
        assert!(!select(
            value!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["web"]}]})
        ));
        let bad = value!({"matchExpressions": [{"key": "app", "operator": "Foo"}]});
        assert_eq!(
            Selector::from_object(Some(&bad)).unwrap_err().to_string(),
            "\"Foo\" is not a valid label selector operator"
        );
    }
}
