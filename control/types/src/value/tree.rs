//! Any JSON value, and the ways into it.

use compact_str::CompactString;

use super::key::Key;
use super::map::Map;

/// Any JSON value. A number without fraction that fits is an `Int`.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// `null`
    #[default]
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A number without fraction or exponent within 64 bits.
    Int(i64),
    /// Any other number; finite.
    Float(f64),
    /// A text.
    String(CompactString),
    /// An array.
    Array(Vec<Value>),
    /// An object.
    Object(Map),
}

impl Value {
    /// An empty object.
    #[must_use]
    pub const fn object() -> Self {
        Self::Object(Map::new())
    }

    /// The member called `key`; nothing when this is no object.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        match self {
            Self::Object(map) => map.get(key),
            _ => None,
        }
    }

    /// The member called `key`, to change.
    #[must_use]
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        match self {
            Self::Object(map) => map.get_mut(key),
            _ => None,
        }
    }

    /// The value reached by these keys; a number in text form also steps into an array.
    #[must_use]
    pub fn path(&self, keys: &[&str]) -> Option<&Value> {
        keys.iter().try_fold(self, |value, key| match value {
            Self::Object(map) => map.get(key),
            Self::Array(items) => items.get(key.parse::<usize>().ok()?),
            _ => None,
        })
    }

    /// The value reached by these keys, to change; nothing is made on the way.
    #[must_use]
    pub fn path_mut(&mut self, keys: &[&str]) -> Option<&mut Value> {
        keys.iter().try_fold(self, |value, key| match value {
            Self::Object(map) => map.get_mut(key),
            Self::Array(items) => items.get_mut(key.parse::<usize>().ok()?),
            _ => None,
        })
    }

    /// Sets the value at these keys and creates missing objects on the path. Other values
    /// on the path are replaced by objects.
    pub fn set_path(&mut self, keys: &[&str], value: impl Into<Value>) {
        let mut at = self;
        for key in keys {
            at = at.make_object().get_or_insert_with(*key, || Self::Null);
        }
        *at = value.into();
    }

    /// Removes the member at the end of these keys.
    pub fn remove_path(&mut self, keys: &[&str]) -> Option<Value> {
        let (last, before) = keys.split_last()?;
        self.path_mut(before)?.as_object_mut()?.remove(last)
    }

    /// The text at these keys.
    #[must_use]
    pub fn str_at(&self, keys: &[&str]) -> Option<&str> {
        self.path(keys)?.as_str()
    }

    /// The whole number at these keys.
    #[must_use]
    pub fn i64_at(&self, keys: &[&str]) -> Option<i64> {
        self.path(keys)?.as_i64()
    }

    /// The truth at these keys.
    #[must_use]
    pub fn bool_at(&self, keys: &[&str]) -> Option<bool> {
        self.path(keys)?.as_bool()
    }

    /// Returns the items of the array at these keys, or no items if it is absent.
    #[must_use]
    pub fn items_at(&self, keys: &[&str]) -> &[Value] {
        self.path(keys)
            .and_then(Self::as_array)
            .map_or(&[], Vec::as_slice)
    }

    /// Sets a member; a value that is no object becomes one.
    pub fn insert(&mut self, key: impl Into<Key>, value: impl Into<Value>) -> Option<Value> {
        self.make_object().insert(key, value)
    }

    /// Removes a member.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.as_object_mut()?.remove(key)
    }

    /// The map of this object; a value that is no object becomes an empty one.
    pub fn make_object(&mut self) -> &mut Map {
        if !matches!(self, Self::Object(_)) {
            *self = Self::object();
        }
        match self {
            Self::Object(map) => map,
            _ => unreachable!("the value was just made an object"),
        }
    }

    /// The items of this array; a value that is no array becomes an empty one.
    pub fn make_array(&mut self) -> &mut Vec<Value> {
        if !matches!(self, Self::Array(_)) {
            *self = Self::Array(Vec::new());
        }
        match self {
            Self::Array(items) => items,
            _ => unreachable!("the value was just made an array"),
        }
    }

    /// Whether this is `null`.
    #[must_use]
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The text, when this is one.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The whole number, when this is one.
    #[must_use]
    pub const fn as_i64(&self) -> Option<i64> {
        match self {
            Self::Int(number) => Some(*number),
            _ => None,
        }
    }

    /// The number, whole or not.
    #[must_use]
    pub const fn as_f64(&self) -> Option<f64> {
        match self {
            Self::Int(number) => Some(*number as f64),
            Self::Float(number) => Some(*number),
            _ => None,
        }
    }

    /// The truth value, when this is one.
    #[must_use]
    pub const fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(truth) => Some(*truth),
            _ => None,
        }
    }

    /// The items, when this is an array.
    #[must_use]
    pub const fn as_array(&self) -> Option<&Vec<Value>> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The items to change, when this is an array.
    #[must_use]
    pub const fn as_array_mut(&mut self) -> Option<&mut Vec<Value>> {
        match self {
            Self::Array(items) => Some(items),
            _ => None,
        }
    }

    /// The members, when this is an object.
    #[must_use]
    pub const fn as_object(&self) -> Option<&Map> {
        match self {
            Self::Object(map) => Some(map),
            _ => None,
        }
    }

    /// The members to change, when this is an object.
    #[must_use]
    pub const fn as_object_mut(&mut self) -> Option<&mut Map> {
        match self {
            Self::Object(map) => Some(map),
            _ => None,
        }
    }

    /// Takes the value and leaves `null`.
    #[must_use]
    pub fn take(&mut self) -> Value {
        std::mem::take(self)
    }

    /// Returns Go's name of this type in messages of its decoder.
    #[must_use]
    pub const fn type_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "bool",
            Self::Int(_) | Self::Float(_) => "number",
            Self::String(_) => "string",
            Self::Array(_) => "array",
            Self::Object(_) => "object",
        }
    }

    /// Bytes on the heap below this value, without the allocator's own.
    #[must_use]
    pub fn heap_size(&self) -> usize {
        match self {
            Self::String(text) if text.is_heap_allocated() => text.capacity(),
            Self::Array(items) => {
                items.capacity() * size_of::<Value>()
                    + items.iter().map(Self::heap_size).sum::<usize>()
            }
            Self::Object(map) => {
                map.capacity() * size_of::<(Key, Value)>()
                    + map
                        .iter()
                        .map(|(key, value)| key.heap_size() + value.heap_size())
                        .sum::<usize>()
            }
            _ => 0,
        }
    }
}

// === impl Value ===

macro_rules! from_int {
    ($($int:ty),*) => {$(
        impl From<$int> for Value {
            fn from(number: $int) -> Self {
                Self::Int(i64::from(number))
            }
        }
    )*};
}
from_int!(i8, i16, i32, i64, u8, u16, u32);

impl From<u64> for Value {
    /// A number beyond `i64` loses precision, as JSON numbers do in Go's `interface{}`.
    fn from(number: u64) -> Self {
        i64::try_from(number).map_or(Self::Float(number as f64), Self::Int)
    }
}

impl From<usize> for Value {
    fn from(number: usize) -> Self {
        Self::from(number as u64)
    }
}

impl From<f64> for Value {
    /// JSON knows no infinity and no NaN: these become `null`.
    fn from(number: f64) -> Self {
        if number.is_finite() {
            Self::Float(number)
        } else {
            Self::Null
        }
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.into())
    }
}

impl From<&&str> for Value {
    fn from(text: &&str) -> Self {
        Self::String((*text).into())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text.into())
    }
}

impl From<&String> for Value {
    fn from(text: &String) -> Self {
        Self::String(text.as_str().into())
    }
}

impl From<CompactString> for Value {
    fn from(text: CompactString) -> Self {
        Self::String(text)
    }
}

impl From<&CompactString> for Value {
    fn from(text: &CompactString) -> Self {
        Self::String(text.clone())
    }
}

impl From<&Key> for Value {
    fn from(key: &Key) -> Self {
        Self::String(key.as_str().into())
    }
}

impl From<std::borrow::Cow<'_, str>> for Value {
    fn from(text: std::borrow::Cow<'_, str>) -> Self {
        Self::String(text.into())
    }
}

impl From<Map> for Value {
    fn from(map: Map) -> Self {
        Self::Object(map)
    }
}

impl From<&Value> for Value {
    fn from(value: &Value) -> Self {
        value.clone()
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

impl<T: Into<Value>> From<Vec<T>> for Value {
    fn from(items: Vec<T>) -> Self {
        items.into_iter().collect()
    }
}

impl<T: Clone + Into<Value>> From<&[T]> for Value {
    fn from(items: &[T]) -> Self {
        items.iter().cloned().collect()
    }
}

impl<T: Into<Value>, const N: usize> From<[T; N]> for Value {
    fn from(items: [T; N]) -> Self {
        items.into_iter().collect()
    }
}

impl<T: Into<Value>> FromIterator<T> for Value {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        Self::Array(items.into_iter().map(Into::into).collect())
    }
}

impl PartialEq<str> for Value {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == Some(other)
    }
}

impl PartialEq<&str> for Value {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == Some(*other)
    }
}

impl PartialEq<i64> for Value {
    fn eq(&self, other: &i64) -> bool {
        self.as_i64() == Some(*other)
    }
}

impl PartialEq<bool> for Value {
    fn eq(&self, other: &bool) -> bool {
        self.as_bool() == Some(*other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value;

    #[test]
    fn paths_read_write_and_remove() {
        let mut pod = value!({"spec": {"containers": [{"name": "a"}]}});
        assert_eq!(pod.str_at(&["spec", "containers", "0", "name"]), Some("a"));
        pod.set_path(&["status", "phase"], "Running");
        assert_eq!(pod.str_at(&["status", "phase"]), Some("Running"));
        assert_eq!(
            pod.remove_path(&["status", "phase"]),
            Some("Running".into())
        );
        assert_eq!(pod.path(&["status"]), Some(&Value::object()));
        assert_eq!(pod.path(&["status", "phase", "x"]), None);
    }

    #[test]
    fn a_value_takes_four_words() {
        assert_eq!(size_of::<Value>(), 32);
    }
}
