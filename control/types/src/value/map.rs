//! An object's members, in the order in which they were written.

use std::fmt;

use super::key::Key;
use super::tree::Value;

/// The members of a JSON object. A vector and not a hash table: objects of the
/// API have few members, and a linear look over interned keys costs less memory
/// and time than hashing. Equality disregards order.
#[derive(Clone, Default)]
pub struct Map(Vec<(Key, Value)>);

impl Map {
    /// An empty map; allocates nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// An empty map with room for `capacity` members.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self(Vec::with_capacity(capacity))
    }

    /// Number of members.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the map has no members.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The member called `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0
            .iter()
            .find(|(name, _)| name.as_str() == key)
            .map(|(_, value)| value)
    }

    /// The member called `key`, to change.
    #[must_use]
    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.0
            .iter_mut()
            .find(|(name, _)| name.as_str() == key)
            .map(|(_, value)| value)
    }

    /// Whether there is a member called `key`.
    #[must_use]
    pub fn contains_key(&self, key: &str) -> bool {
        self.position(key).is_some()
    }

    /// Returns the position of the member `key`.
    #[must_use]
    pub fn position(&self, key: &str) -> Option<usize> {
        self.0.iter().position(|(name, _)| name.as_str() == key)
    }

    /// Sets a member and returns its former value. A new member is appended.
    pub fn insert(&mut self, key: impl Into<Key>, value: impl Into<Value>) -> Option<Value> {
        let (key, value) = (key.into(), value.into());
        match self.0.iter_mut().find(|(name, _)| *name == key) {
            Some((_, slot)) => Some(std::mem::replace(slot, value)),
            None => {
                self.0.push((key, value));
                None
            }
        }
    }

    /// Appends a member without looking whether one of that name is there: for a
    /// caller that knows it is not.
    pub fn push_unchecked(&mut self, key: Key, value: Value) {
        self.0.push((key, value));
    }

    /// Removes a member; the order of the others stays.
    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.position(key).map(|at| self.0.remove(at).1)
    }

    /// The member called `key`; made by `make` when it is absent.
    pub fn get_or_insert_with(
        &mut self,
        key: impl Into<Key>,
        make: impl FnOnce() -> Value,
    ) -> &mut Value {
        let key = key.into();
        let at = match self.0.iter().position(|(name, _)| *name == key) {
            Some(at) => at,
            None => {
                self.0.push((key, make()));
                self.0.len() - 1
            }
        };
        &mut self.0[at].1
    }

    /// The member called `key` as a map; absent, `null` or of another type, it
    /// becomes an empty one.
    pub fn object_mut(&mut self, key: impl Into<Key>) -> &mut Map {
        let value = self.get_or_insert_with(key, || Value::Object(Map::new()));
        if !matches!(value, Value::Object(_)) {
            *value = Value::Object(Map::new());
        }
        match value {
            Value::Object(map) => map,
            _ => unreachable!("the value was just made an object"),
        }
    }

    /// The members in their order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Key, &Value)> + ExactSizeIterator {
        self.0.iter().map(|(key, value)| (key, value))
    }

    /// The members in their order, values to change.
    pub fn iter_mut(&mut self) -> impl DoubleEndedIterator<Item = (&Key, &mut Value)> {
        self.0.iter_mut().map(|(key, value)| (&*key, value))
    }

    /// The names in their order.
    pub fn keys(&self) -> impl DoubleEndedIterator<Item = &Key> + ExactSizeIterator {
        self.0.iter().map(|(key, _)| key)
    }

    /// The values in their order.
    pub fn values(&self) -> impl DoubleEndedIterator<Item = &Value> + ExactSizeIterator {
        self.0.iter().map(|(_, value)| value)
    }

    /// The values in their order, to change.
    pub fn values_mut(&mut self) -> impl DoubleEndedIterator<Item = &mut Value> {
        self.0.iter_mut().map(|(_, value)| value)
    }

    /// Keeps the members for which `keep` answers true.
    pub fn retain(&mut self, mut keep: impl FnMut(&Key, &mut Value) -> bool) {
        self.0.retain_mut(|(key, value)| keep(key, value));
    }

    /// Removes all members.
    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Orders the members by name, as Go prints a map.
    pub fn sort(&mut self) {
        if !self.0.is_sorted_by(|a, b| a.0 <= b.0) {
            self.0.sort_by(|a, b| a.0.cmp(&b.0));
        }
    }

    /// The members as a slice.
    #[must_use]
    pub fn as_slice(&self) -> &[(Key, Value)] {
        &self.0
    }

    /// Returns the underlying vector. Callers that change names must keep them distinct.
    pub fn entries_mut(&mut self) -> &mut Vec<(Key, Value)> {
        &mut self.0
    }

    /// Gives back memory that was set aside for more members.
    pub fn shrink_to_fit(&mut self) {
        self.0.shrink_to_fit();
    }

    pub(super) fn capacity(&self) -> usize {
        self.0.capacity()
    }
}

// === impl Map ===

impl PartialEq for Map {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self.0.iter().zip(&other.0).all(|((a, left), (b, right))| {
                if a == b {
                    left == right
                } else {
                    other.get(a) == Some(left)
                }
            })
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<K: Into<Key>, V: Into<Value>> FromIterator<(K, V)> for Map {
    fn from_iter<I: IntoIterator<Item = (K, V)>>(items: I) -> Self {
        let mut map = Self::new();
        map.extend(items);
        map
    }
}

impl<K: Into<Key>, V: Into<Value>> Extend<(K, V)> for Map {
    fn extend<I: IntoIterator<Item = (K, V)>>(&mut self, items: I) {
        for (key, value) in items {
            self.insert(key, value);
        }
    }
}

impl IntoIterator for Map {
    type Item = (Key, Value);
    type IntoIter = std::vec::IntoIter<(Key, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Map {
    type Item = &'a (Key, Value);
    type IntoIter = std::slice::Iter<'a, (Key, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equality_disregards_order() {
        let a: Map = [("a", 1), ("b", 2)].into_iter().collect();
        let b: Map = [("b", 2), ("a", 1)].into_iter().collect();
        let c: Map = [("b", 2), ("a", 3)].into_iter().collect();
        assert_eq!(a, b);
        assert_ne!(a, c);
    }

    #[test]
    fn insert_replaces_in_place() {
        let mut map: Map = [("a", 1), ("b", 2)].into_iter().collect();
        assert_eq!(map.insert("a", 5), Some(Value::Int(1)));
        assert_eq!(map.keys().map(Key::as_str).collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(map.remove("a"), Some(Value::Int(5)));
        assert!(!map.contains_key("a"));
    }
}
