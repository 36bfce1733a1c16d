//! Field selectors: `metadata.name=web,status.phase!=Failed`.

use compact_str::CompactString;

/// One term of a selector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    /// The field, as `spec.nodeName`.
    pub field: CompactString,
    /// The value it is compared with.
    pub value: CompactString,
    /// Whether it must be different.
    pub negated: bool,
}

/// Terms that must all hold. Empty, it selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSelector {
    /// The terms, ordered by text.
    pub terms: Vec<Term>,
}

/// Error for text that is not a field selector; the message is Kubernetes' own.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A term without operator.
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    Term {
        /// The whole text.
        selector: String,
        /// The invalid term.
        term: String,
    },
    /// A backslash before a character that needs none, or at the end.
    #[error("invalid field selector: invalid escape sequence: {0}")]
    Escape(String),
    /// A comma or equals sign within a value, not escaped. Go prints its number.
    #[error("invalid field selector: unescaped character in value: {}", *.0 as u32)]
    Unescaped(char),
}

impl FieldSelector {
    /// Reads a selector.
    ///
    /// # Errors
    /// When a term has no operator or a value is escaped wrongly.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut parts = split_terms(text);
        parts.sort_unstable();
        let mut terms = Vec::with_capacity(parts.len());
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let Some(at) = part.find('=') else {
                return Err(Error::Term {
                    selector: text.to_owned(),
                    term: part.to_owned(),
                });
            };
            let negated = part[..at].ends_with('!');
            let field = &part[..at - usize::from(negated)];
            let mut value = &part[at + 1..];
            if !negated && let Some(rest) = value.strip_prefix('=') {
                value = rest;
            }
            let value = unescape(value)?;
            // An empty term is not a condition.
            if !(field.is_empty() && value.is_empty()) {
                terms.push(Term {
                    field: field.into(),
                    value,
                    negated,
                });
            }
        }
        Ok(Self { terms })
    }

    /// Whether everything is selected.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Whether all terms hold for an object whose fields `lookup` gives; a field
    /// that it does not have reads as the empty text.
    #[must_use]
    pub fn matches<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.terms
            .iter()
            .all(|term| (lookup(&term.field).unwrap_or("") == term.value.as_str()) != term.negated)
    }

    /// The one value that a field must have.
    #[must_use]
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.terms
            .iter()
            .find(|term| term.field == field && !term.negated)
            .map(|term| term.value.as_str())
    }
}

// === impl Selector ===

impl std::fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (at, term) in self.terms.iter().enumerate() {
            if at > 0 {
                f.write_str(",")?;
            }
            let operator = if term.negated { "!=" } else { "=" };
            write!(f, "{}{operator}", term.field)?;
            for character in term.value.chars() {
                if matches!(character, '\\' | ',' | '=') {
                    f.write_str("\\")?;
                }
                write!(f, "{character}")?;
            }
        }
        Ok(())
    }
}

/// Splits at commas that no backslash precedes.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' => {
                terms.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !text.is_empty() {
        terms.push(&text[start..]);
    }
    terms
}

fn unescape(text: &str) -> Result<CompactString, Error> {
    let mut out = CompactString::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(next @ ('\\' | ',' | '=')) => out.push(next),
                Some(next) => return Err(Error::Escape(format!("\\{next}"))),
                None => return Err(Error::Escape("\\".to_owned())),
            },
            ',' | '=' => return Err(Error::Unescaped(character)),
            _ => out.push(character),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_read_matched_and_written() {
        let selector = FieldSelector::parse("spec.nodeName=n1,metadata.name!=a,x==y\\,z").unwrap();
        assert_eq!(
            selector.to_string(),
            "metadata.name!=a,spec.nodeName=n1,x=y\\,z"
        );
        assert_eq!(selector.exact("spec.nodeName"), Some("n1"));
        assert_eq!(selector.exact("metadata.name"), None);
        let lookup = |field: &str| match field {
            "spec.nodeName" => Some("n1"),
            "x" => Some("y,z"),
            _ => None,
        };
        assert!(selector.matches(lookup));
        assert!(!FieldSelector::parse("a=b").unwrap().matches(lookup));
        assert!(FieldSelector::parse("a=").unwrap().matches(lookup));
        assert!(FieldSelector::parse("").unwrap().is_empty());
    }

    #[test]
    fn nothing_that_is_nothing_is_no_condition() {
        for text in ["=", "==", "!=", "=,="] {
            assert!(FieldSelector::parse(text).unwrap().is_empty(), "{text}");
        }
        assert!(!FieldSelector::parse("=a").unwrap().is_empty());
    }

    #[test]
    fn errors_are_worded_as_kubernetes_words_them() {
        let error = |text: &str| FieldSelector::parse(text).unwrap_err().to_string();
        assert_eq!(
            error("a=b,c"),
            "invalid selector: 'a=b,c'; can't understand 'c'"
        );
        assert_eq!(
            error("a=\\b"),
            "invalid field selector: invalid escape sequence: \\b"
        );
        assert_eq!(
            error("a=b=c"),
            "invalid field selector: unescaped character in value: 61"
        );
    }
}
