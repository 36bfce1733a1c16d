//! Field names, interned where the API knows them.
//!
//! Nearly every key of an API object is one of a few thousand field names. A
//! known name costs two bytes and no allocation; any other (a label, a key of a
//! `ConfigMap`) owns its text. A name is always held in its interned form when it
//! has one, so that two interned keys compare by number. The same goes for names
//! as `managedFields` have them, with `f:` in front: they are half of the keys of a
//! stored object.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::LazyLock;

use crate::generated::names::NAMES;

/// A key of an [`super::Map`]; dereferences to its text.
#[derive(Clone)]
pub struct Key(Repr);

#[derive(Clone)]
enum Repr {
    /// The number of a name; with [`AS_FIELD`], that of a name with `f:` in front.
    Known(u16),
    Owned(Box<str>),
}

const AS_FIELD: u16 = 1 << 15;

/// The prefix of a field's name within `fieldsV1`.
const FIELD: &str = "f:";

/// The known names as they appear in JSON, with quotes and colon.
static QUOTED: LazyLock<Box<[Box<str>]>> = LazyLock::new(|| quoted(""));

/// The same with `f:` in front.
static FIELDS: LazyLock<Box<[Box<str>]>> = LazyLock::new(|| quoted(FIELD));

fn quoted(front: &str) -> Box<[Box<str>]> {
    let quoted = NAMES.iter().map(|name| format!("\"{front}{name}\":"));
    quoted.map(String::into_boxed_str).collect()
}

/// Names by hash, with open addressing: a key is looked up for every member of
/// every object that is read, and most hit at their first place.
static INDEX: LazyLock<Box<[u16; SLOTS]>> = LazyLock::new(|| {
    let mut slots = Box::new([VACANT; SLOTS]);
    for (name, number) in NAMES.iter().zip(0u16..) {
        let mut at = place(name.as_bytes());
        while slots[at] != VACANT {
            at = (at + 1) % SLOTS;
        }
        slots[at] = number;
    }
    slots
});

/// A power of two, some four times the number of names.
const SLOTS: usize = 4096;
const VACANT: u16 = u16::MAX;
const _: () = assert!(NAMES.len() * 2 < SLOTS && NAMES.len() < AS_FIELD as usize);

/// Returns the slot at which the search for a name begins, from its length and its first
/// and last bytes.
fn place(name: &[u8]) -> usize {
    let eight = |at: usize| {
        let chunk = name.get(at..at + 8).and_then(|part| part.try_into().ok());
        chunk.map_or(0, u64::from_le_bytes)
    };
    let four = |at: usize| {
        let chunk = name.get(at..at + 4).and_then(|part| part.try_into().ok());
        u64::from(chunk.map_or(0, u32::from_le_bytes))
    };
    let length = name.len();
    let (first, last) = match length {
        8.. => (eight(0), eight(length - 8)),
        4.. => (four(0), four(length - 4)),
        _ => (
            name.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte)),
            0,
        ),
    };
    let mixed =
        (first ^ last.rotate_left(23) ^ (length as u64) << 56).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed >> 52) as usize % SLOTS
}

fn number_of(text: &str) -> Option<u16> {
    let index = &*INDEX;
    let mut at = place(text.as_bytes());
    loop {
        let number = index[at];
        if number == VACANT {
            return None;
        }
        if NAMES.get(usize::from(number)) == Some(&text) {
            return Some(number);
        }
        at = (at + 1) % SLOTS;
    }
}

/// The form of a name that has a number.
fn interned(text: &str) -> Option<Repr> {
    match text.strip_prefix(FIELD) {
        Some(name) => number_of(name).map(|number| number | AS_FIELD),
        None => number_of(text),
    }
    .map(Repr::Known)
}

impl Key {
    /// The key with this text.
    #[must_use]
    pub fn new(text: &str) -> Self {
        Self(interned(text).unwrap_or_else(|| Repr::Owned(text.into())))
    }

    /// The key that names this field within `fieldsV1`: its text with `f:` in front.
    #[must_use]
    pub fn to_field(&self) -> Self {
        match &self.0 {
            Repr::Known(number) if number & AS_FIELD == 0 => Self(Repr::Known(number | AS_FIELD)),
            _ => Self(Repr::Owned(format!("{FIELD}{self}").into_boxed_str())),
        }
    }

    /// The field that this key names within `fieldsV1`; nothing when it does not
    /// begin with `f:`.
    #[must_use]
    pub fn of_field(&self) -> Option<Self> {
        match &self.0 {
            Repr::Known(number) => {
                (number & AS_FIELD != 0).then(|| Self(Repr::Known(number & !AS_FIELD)))
            }
            Repr::Owned(text) => text.strip_prefix(FIELD).map(Self::new),
        }
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match &self.0 {
            Repr::Known(number) if number & AS_FIELD == 0 => {
                NAMES.get(usize::from(*number)).copied().unwrap_or_default()
            }
            Repr::Known(number) => FIELDS
                .get(usize::from(number & !AS_FIELD))
                .map_or("", |text| &text[1..text.len() - 2]),
            Repr::Owned(text) => text,
        }
    }

    /// Returns the name of a member as it appears in JSON, with quotes and colon, if it
    /// is a known name. Known names need no escapes.
    pub(super) fn quoted(&self) -> Option<&'static [u8]> {
        let Repr::Known(number) = self.0 else {
            return None;
        };
        let names = if number & AS_FIELD == 0 {
            &*QUOTED
        } else {
            &*FIELDS
        };
        let name = names.get(usize::from(number & !AS_FIELD))?;
        Some(name.as_bytes())
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
            Repr::Known(number) if *number & AS_FIELD == 0 => Some(*number),
            Repr::Known(_) | Repr::Owned(_) => None,
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
        match (&self.0, &other.0) {
            // The names are numbered in their order.
            (Repr::Known(a), Repr::Known(b)) if (a ^ b) & AS_FIELD == 0 => a.cmp(b),
            _ => self.as_str().cmp(other.as_str()),
        }
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
        Self(interned(&text).unwrap_or_else(|| Repr::Owned(text.into_boxed_str())))
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
    fn a_field_of_fields_v1_is_interned_as_its_name() {
        for text in ["f:metadata", "f:not-a-field.example", "f:"] {
            let key = Key::new(text);
            assert_eq!(key.as_str(), text);
            let name = key.of_field().unwrap();
            assert_eq!(name.as_str(), &text[2..]);
            assert_eq!(name.to_field(), key);
        }
        assert_eq!(Key::new("f:metadata").heap_size(), 0);
        assert_eq!(Key::new("metadata").of_field(), None);
        assert!(NAMES.iter().all(|name| !name.starts_with(FIELD)));
        assert!(Key::new("f:a") < Key::new("metadata"));
    }

    #[test]
    fn a_key_takes_two_words() {
        assert_eq!(size_of::<Key>(), 16);
    }
}
