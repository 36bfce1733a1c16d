//! Interned strings that live as long as the program.
//!
//! The tables of built-in resources refer to strings in the binary. The strings of a
//! CustomResourceDefinition (names of resources, members that are keys) are interned
//! beside them: each distinct string is kept once, so that memory grows with distinct
//! names, not with writes.

use std::collections::HashSet;
use std::sync::{LazyLock, Mutex, PoisonError};

static TEXTS: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Mutex::default);

/// The text that lives as long as the program.
#[must_use]
pub fn text(text: &str) -> &'static str {
    let mut known = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.get(text) {
        return known;
    }
    let kept: &'static str = Box::leak(text.into());
    known.insert(kept);
    kept
}

/// The list of texts that lives as long as the program.
#[must_use]
pub fn texts<'a>(texts: impl IntoIterator<Item = &'a str>) -> &'static [&'static str] {
    static LISTS: LazyLock<Mutex<HashSet<&'static [&'static str]>>> = LazyLock::new(Mutex::default);
    let list: Vec<&'static str> = texts.into_iter().map(text).collect();
    let mut known = LISTS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.get(list.as_slice()) {
        return known;
    }
    let kept: &'static [&'static str] = Box::leak(list.into());
    known.insert(kept);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_once() {
        let first = text(&["gears", "example", "com"].join("."));
        assert!(std::ptr::eq(first, text("gears.example.com")));
        assert_ne!(first, text("cogs.example.com"));
    }
}
