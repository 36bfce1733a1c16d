//! Names of properties in expressions, where non-identifiers are escaped.

use std::borrow::Cow;

use crate::parser::RESERVED;

/// The name by which expressions reach the property `name`; `None`: by none.
///
/// Words of the language get two underscores before and behind; `__`, `.`, `-`
/// and `/` become `__underscores__`, `__dot__`, `__dash__` and `__slash__`.
#[must_use]
pub fn escape(name: &str) -> Option<Cow<'_, str>> {
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    if RESERVED.contains(&name) || matches!(name, "true" | "false" | "null" | "in") {
        return Some(format!("__{name}__").into());
    }
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.chars().all(word) && !name.contains("__") {
        return Some(name.into());
    }
    let mut out = String::with_capacity(name.len() + 16);
    let mut chars = name.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '_' if chars.next_if_eq(&'_').is_some() => out.push_str("__underscores__"),
            '.' => out.push_str("__dot__"),
            '-' => out.push_str("__dash__"),
            '/' => out.push_str("__slash__"),
            c if word(c) => out.push(c),
            _ => return None,
        }
    }
    Some(out.into())
}

#[cfg(test)]
mod tests {
    use super::escape;

    #[test]
    fn names_are_escaped_where_they_are_no_identifiers() {
        for (name, escaped) in [
            ("namespace", Some("__namespace__")),
            ("a-b.c/d", Some("a__dash__b__dot__c__slash__d")),
            ("a__b", Some("a__underscores__b")),
            ("a_b", Some("a_b")),
            ("$ref", None),
            ("1a", None),
            ("", None),
        ] {
            assert_eq!(escape(name).as_deref(), escaped, "{name}");
        }
    }
}
