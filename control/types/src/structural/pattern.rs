//! `pattern`: a regular expression in the syntax of RE2, compiled when it is
//! first asked, since most objects of most definitions are never written.

use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};

/// The most memory that one compiled expression may take.
const SIZE_LIMIT: usize = 1 << 20;

/// A regular expression.
#[derive(Debug)]
pub struct Pattern {
    text: Box<str>,
    compiled: OnceLock<Option<Regex>>,
}

impl Pattern {
    /// An expression, not yet looked at.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self {
            text: text.into(),
            compiled: OnceLock::new(),
        }
    }

    /// As it is written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns whether text contains a match; `None` if the expression is invalid or too
    /// large.
    #[must_use]
    pub fn matches(&self, text: &str) -> Option<bool> {
        let compiled = self.compiled.get_or_init(|| {
            RegexBuilder::new(&translated(&self.text))
                .size_limit(SIZE_LIMIT)
                .build()
                .ok()
        });
        compiled.as_ref().map(|regex| regex.is_match(text))
    }
}

/// Character classes that Perl knows are of ASCII in RE2.
fn translated(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars();
    // Whether the place is within brackets.
    let mut class = false;
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some('d') => out.push_str("[0-9]"),
                Some('w') => out.push_str("[0-9A-Za-z_]"),
                Some('s') => out.push_str("[\\t\\n\\f\\r ]"),
                Some('D') => out.push_str("[^0-9]"),
                Some('W') => out.push_str("[^0-9A-Za-z_]"),
                Some('S') => out.push_str("[^\\t\\n\\f\\r ]"),
                Some('b') if !class => out.push_str("(?-u:\\b)"),
                Some(other) => {
                    out.push('\\');
                    out.push(other);
                }
                None => out.push('\\'),
            },
            '[' if class => {
                // In RE2 a class contains no other class, except named ones.
                if letters.clone().next() == Some(':') {
                    out.push('[');
                } else {
                    out.push_str("\\[");
                }
            }
            '[' => {
                class = true;
                out.push('[');
                let mut ahead = letters.clone();
                if ahead.next() == Some('^') {
                    out.push('^');
                    letters.next();
                }
                let mut ahead = letters.clone();
                if ahead.next() == Some(']') {
                    out.push_str("\\]");
                    letters.next();
                }
            }
            ']' if class => {
                // The end of a named class is not that of the whole.
                out.push(']');
                class = out.ends_with(":]");
            }
            '&' | '~' if class => {
                // Operators on sets, which RE2 does not have.
                out.push('\\');
                out.push(letter);
            }
            '{' if !class && !is_repetition(letters.as_str()) => out.push_str("\\{"),
            '-' if class && letters.clone().next() == Some('-') => out.push_str("\\-"),
            other => out.push(other),
        }
    }
    out
}

/// Returns whether the text after a brace makes it a repetition: `2}`, `2,}`, `2,3}`. In
/// RE2 other braces are literals.
fn is_repetition(rest: &str) -> bool {
    let Some((inner, _)) = rest.split_once('}') else {
        return false;
    };
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (least, most) = inner.split_once(',').unwrap_or((inner, ""));
    !least.is_empty() && is_number(least) && is_number(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_mean_what_they_mean_in_re2() {
        for (pattern, text, wanted) in [
            ("^[a-z]+$", "abc", Some(true)),
            ("^[a-z]+$", "aBc", Some(false)),
            ("b", "abc", Some(true)),
            (r"^\d+$", "12", Some(true)),
            (r"^\d+$", "١٢", Some(false)),
            (r"^[\w.-]+$", "a.b-c_1", Some(true)),
            (r"^\w+$", "ä", Some(false)),
            ("^[[:alpha:]]+$", "abc", Some(true)),
            ("^[[:alpha:]]+$", "a1", Some(false)),
            ("^[^]]$", "]", Some(false)),
            ("^[a&&b]+$", "&", Some(true)),
            ("^[[]+$", "[", Some(true)),
            ("^.$", "ä", Some(true)),
            ("^a{x}$", "a{x}", Some(true)),
            ("^a{2}{,3$", "aa{,3", Some(true)),
            ("(", "x", None),
        ] {
            assert_eq!(
                Pattern::new(pattern).matches(text),
                wanted,
                "{pattern} {text}"
            );
        }
    }
}
