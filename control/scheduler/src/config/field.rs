//! Errors about fields, in the words of the API machinery.

use std::fmt::Display;

/// `path: Invalid value: value: detail`.
pub(super) fn invalid(path: &str, value: impl Display, detail: &str) -> String {
    format!("{path}: Invalid value: {value}: {detail}")
}

/// `path: Required value: detail`.
pub(super) fn required(path: &str, detail: &str) -> String {
    if detail.is_empty() {
        format!("{path}: Required value")
    } else {
        format!("{path}: Required value: {detail}")
    }
}

/// `path: Duplicate value: value`.
pub(super) fn duplicate(path: &str, value: impl Display) -> String {
    format!("{path}: Duplicate value: {value}")
}

/// `path: Forbidden: detail`.
pub(super) fn forbidden(path: &str, detail: &str) -> String {
    format!("{path}: Forbidden: {detail}")
}

/// `path: Unsupported value: value: supported values: ...`.
pub(super) fn unsupported(path: &str, value: &str, supported: &[&str]) -> String {
    let supported: Vec<String> = supported.iter().map(|it| format!("{it:?}")).collect();
    format!(
        "{path}: Unsupported value: {value:?}: supported values: {}",
        supported.join(", ")
    )
}

/// A text as such errors show it.
pub(super) fn quoted(text: &str) -> String {
    format!("{text:?}")
}
