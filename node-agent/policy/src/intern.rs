//! Interned values with numbers and reference counts.

use std::hash::Hash;
use std::sync::Arc;

use rustc_hash::FxHashMap;

/// A table of interned values. Numbers are never reused.
#[derive(Debug)]
pub struct Interner<T> {
    numbers: FxHashMap<Arc<T>, u32>,
    items: FxHashMap<u32, Item<T>>,
    next: u32,
}

#[derive(Debug)]
struct Item<T> {
    value: Arc<T>,
    holders: u32,
}

impl<T: Hash + Eq> Interner<T> {
    /// An empty table whose numbers start here.
    pub fn starting_at(next: u32) -> Self {
        Self {
            numbers: FxHashMap::default(),
            items: FxHashMap::default(),
            next,
        }
    }

    /// Holds a thing once more. Is it new?
    pub fn acquire(&mut self, value: T) -> (u32, bool) {
        if let Some(&number) = self.numbers.get(&value) {
            if let Some(item) = self.items.get_mut(&number) {
                item.holders += 1;
            }
            return (number, false);
        }
        let number = self.next;
        self.next += 1;
        let value = Arc::new(value);
        self.numbers.insert(Arc::clone(&value), number);
        self.items.insert(number, Item { value, holders: 1 });
        (number, true)
    }

    /// Releases it once; returns the value if it is unused now.
    pub fn release(&mut self, number: u32) -> Option<Arc<T>> {
        let item = self.items.get_mut(&number)?;
        item.holders -= 1;
        if item.holders > 0 {
            return None;
        }
        let item = self.items.remove(&number)?;
        self.numbers.remove(&item.value);
        Some(item.value)
    }

    /// The thing of a number.
    pub fn get(&self, number: u32) -> Option<&Arc<T>> {
        self.items.get(&number).map(|item| &item.value)
    }

    /// The number of a thing.
    pub fn number(&self, value: &T) -> Option<u32> {
        self.numbers.get(value).copied()
    }

    /// All things.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Arc<T>)> {
        self.items
            .iter()
            .map(|(number, item)| (*number, &item.value))
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.items.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thing_lives_as_long_as_it_is_held() {
        let mut table = Interner::starting_at(4);
        assert_eq!(table.acquire("a"), (4, true));
        assert_eq!(table.acquire("a"), (4, false));
        assert_eq!(table.acquire("b"), (5, true));
        assert!(table.release(4).is_none());
        assert_eq!(table.release(4).as_deref(), Some(&"a"));
        assert_eq!(table.number(&"a"), None);
        assert_eq!(table.acquire("a"), (6, true));
        assert_eq!(table.len(), 2);
    }
}
