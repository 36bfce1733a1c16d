//! Field names, interned where the API knows them.
//!
//! Nearly every key of an API object is one of a few thousand field names. A
//! known name costs two bytes and no allocation; any other (a label, a key of a
//! `ConfigMap`) owns its text. A name is always held in its interned form when it
//! has one, so that two interned keys compare by number.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use crate::generated::names::NAMES;

/// A key of an [`super::Map`]; dereferences to its text.
#[derive(Clone)]
pub struct Key(Repr);

#[derive(Clone)]
enum Repr {
    Known(u16),
    Owned(Box<str>),
}

static INDEX: LazyLock<FxHashMap<&'static str, u16>> = LazyLock::new(|| {
    NAMES
        .iter()
        .zip(0u16..)
        .map(|(name, number)| (*name, number))
        .collect()
});

impl Key {
    /// The key with this text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        match INDEX.get(text) {
            Some(number) => Self(Repr::Known(*number)),
            None => Self(Repr::Owned(text.into())),
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Repr::Known(number) => NAMES.get(usize::from(*number)).copied().unwrap_or_default(),
            Repr::Owned(text) => text,
        }
    }

    pub(super) fn from_cow(text: std::borrow::Cow<'_, str>) -> Self {
        match text {
            std::borrow::Cow::Borrowed(text) => Self::new(text),
            std::borrow::Cow::Owned(text) => Self::from(text),
        }
    }

    /// The number of an interned name.
    pub(crate) const fn number(&self) -> Option<u16> {
        match &self.0 {
            Repr::Known(number) => Some(*number),
            Repr::Owned(_) => None,
        }
    }

    /// Bytes that this key owns on the heap.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        match &self.0 {
            Repr::Known(_) => 0,
            Repr::Owned(text) => text.len(),
        }
    }
}

// === impl Key ===

impl Deref for Key {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Key {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for Key {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Repr::Known(a), Repr::Known(b)) => a == b,
            (Repr::Owned(a), Repr::Owned(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Key {}

impl PartialEq<str> for Key {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Key {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Key {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<&str> for Key {
    fn from(text: &str) -> Self {
        Self::new(text)
    }
}

impl From<&String> for Key {
    fn from(text: &String) -> Self {
        Self::new(text)
    }
}

impl From<String> for Key {
    fn from(text: String) -> Self {
        match INDEX.get(text.as_str()) {
            Some(number) => Self(Repr::Known(*number)),
            None => Self(Repr::Owned(text.into_boxed_str())),
        }
    }
}

impl From<&compact_str::CompactString> for Key {
    fn from(text: &compact_str::CompactString) -> Self {
        Self::new(text)
    }
}

impl From<compact_str::CompactString> for Key {
    fn from(text: compact_str::CompactString) -> Self {
        Self::new(&text)
    }
}

impl From<&Key> for Key {
    fn from(key: &Key) -> Self {
        key.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_known_name_owns_nothing_and_an_unknown_one_its_text() {
        assert_eq!(Key::new("metadata").heap_size(), 0);
        assert_eq!(Key::new("not-a-field.example").heap_size(), 19);
        assert_eq!(Key::new("metadata"), Key::from("metadata".to_owned()));
        assert_eq!(&*Key::new("not-a-field.example"), "not-a-field.example");
    }

    #[test]
    fn a_key_takes_two_words() {
        assert_eq!(size_of::<Key>(), 16);
    }
}
