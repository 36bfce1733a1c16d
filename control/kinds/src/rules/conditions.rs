//! `metav1.Condition`s, as the newer kinds carry them in their status.

use control_types::value::Value;

use super::{labels, names};
use crate::error::{Errors, Path};
use crate::tree::Read;

const REASON_LIMIT: usize = 1024;
const MESSAGE_LIMIT: usize = 32 * 1024;

/// A list of conditions, unique by type.
pub(crate) fn all(list: &[Value], all: &Path<'_>, errors: &mut Errors) {
    for (i, condition) in list.iter().enumerate() {
        let at = all.index(i);
        let kind = condition.text("type");
        if list.iter().take(i).any(|other| other.text("type") == kind) {
            errors.duplicate(&at.child("type"), kind);
        }
        labels::label_key(kind, &at.child("type"), errors);
        if !matches!(condition.text("status"), "True" | "False" | "Unknown") {
            errors.not_supported(
                &at.child("status"),
                condition.text("status"),
                &["False", "True", "Unknown"],
            );
        }
        if condition.num("observedGeneration") < 0 {
            errors.invalid(
                &at.child("observedGeneration"),
                condition.num("observedGeneration"),
                "must be greater than or equal to zero",
            );
        }
        if !condition.has("lastTransitionTime") {
            errors.required(&at.child("lastTransitionTime"), "");
        }
        check_reason(condition.text("reason"), &at.child("reason"), errors);
        if condition.text("message").len() > MESSAGE_LIMIT {
            errors.too_long(&at.child("message"), MESSAGE_LIMIT);
        }
    }
}

fn check_reason(reason: &str, at: &Path<'_>, errors: &mut Errors) {
    if reason.is_empty() {
        errors.required(at, "");
        return;
    }
    let bytes = reason.as_bytes();
    let word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    let right = bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(word)
        && bytes.iter().all(|b| word(b) || matches!(b, b',' | b':'));
    if !right {
        errors.invalid(
            at,
            reason,
            names::regex_message(
                "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'",
                "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?",
                &["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"],
            ),
        );
    }
    if reason.len() > REASON_LIMIT {
        errors.too_long(at, REASON_LIMIT);
    }
}
