//! A sorted map whose snapshots cost next to nothing.
//!
//! Readers of the watch cache take a whole snapshot and walk it without locks
//! while the one writer goes on. The map is a vector of chunks of at most
//! [`CHUNK`] entries; a snapshot clones the vector of `Arc`s, a write clones
//! the one chunk it touches, and only if a snapshot still holds that chunk.
//! With 50 000 objects that is a copy of some 500 pointers per published
//! batch, and at most 128 per write; a tree of nodes would copy less and be
//! walked more slowly, and walking (LIST) is what this map is read for.

use std::sync::Arc;

/// Most entries of a chunk.
const CHUNK: usize = 128;

/// What has a place in the order.
pub trait TreeEntry {
    /// The key by whose bytes entries are sorted.
    fn key(&self) -> &str;
}

/// The map. Cloning it makes a snapshot.
#[derive(Debug)]
pub struct Tree<T> {
    chunks: Vec<Arc<Vec<Arc<T>>>>,
    len: usize,
}

impl<T> Clone for Tree<T> {
    fn clone(&self) -> Self {
        Self {
            chunks: self.chunks.clone(),
            len: self.len,
        }
    }
}

impl<T> Default for Tree<T> {
    fn default() -> Self {
        Self {
            chunks: Vec::new(),
            len: 0,
        }
    }
}

/// A place in a snapshot: chunk and index within it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Position {
    chunk: usize,
    index: usize,
}

impl<T: TreeEntry> Tree<T> {
    /// Builds the map of entries already sorted by key.
    #[must_use]
    pub fn from_sorted(entries: Vec<Arc<T>>) -> Self {
        let len = entries.len();
        let mut chunks = Vec::with_capacity(len / (CHUNK / 2) + 1);
        let mut entries = entries.into_iter().peekable();
        // Three quarters full: the next writes do not split at once.
        while entries.peek().is_some() {
            chunks.push(Arc::new(entries.by_ref().take(CHUNK * 3 / 4).collect()));
        }
        Self { chunks, len }
    }

    /// How many entries there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The entry of `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Arc<T>> {
        let chunk = self.chunks.get(self.chunk_of(key)?)?;
        let index = chunk.binary_search_by(|entry| entry.key().cmp(key)).ok()?;
        chunk.get(index)
    }

    /// Puts an entry in its place and returns the one it replaces.
    pub fn insert(&mut self, entry: Arc<T>) -> Option<Arc<T>> {
        let Some(at) = self.chunk_of(entry.key()).or(if self.chunks.is_empty() {
            None
        } else {
            Some(0)
        }) else {
            self.chunks.push(Arc::new(vec![entry]));
            self.len = 1;
            return None;
        };
        let chunk = owned(&mut self.chunks[at]);
        match chunk.binary_search_by(|present| present.key().cmp(entry.key())) {
            Ok(index) => Some(std::mem::replace(&mut chunk[index], entry)),
            Err(index) => {
                chunk.insert(index, entry);
                self.len += 1;
                if chunk.len() > CHUNK {
                    // Keys that only grow (timestamps, counters) fill chunks
                    // to the brim instead of leaving them half empty.
                    let split = if index + 1 == chunk.len() {
                        CHUNK
                    } else {
                        CHUNK / 2
                    };
                    let tail = chunk.split_off(split);
                    self.chunks.insert(at + 1, Arc::new(tail));
                }
                None
            }
        }
    }

    /// Takes an entry out.
    pub fn remove(&mut self, key: &str) -> Option<Arc<T>> {
        let at = self.chunk_of(key)?;
        let index = self.chunks[at]
            .binary_search_by(|entry| entry.key().cmp(key))
            .ok()?;
        let chunk = owned(&mut self.chunks[at]);
        let removed = chunk.remove(index);
        if chunk.is_empty() {
            self.chunks.remove(at);
        }
        self.len -= 1;
        Some(removed)
    }

    /// The first place whose key is not before `key`.
    #[must_use]
    pub fn seek(&self, key: &str) -> Position {
        let Some(chunk) = self.chunk_of(key) else {
            return Position::default();
        };
        let index = self.chunks[chunk]
            .binary_search_by(|entry| entry.key().cmp(key))
            .unwrap_or_else(|index| index);
        self.normal(Position { chunk, index })
    }

    /// The entry at a place, and the place after it.
    #[must_use]
    pub fn at(&self, position: Position) -> Option<(&Arc<T>, Position)> {
        let entry = self.chunks.get(position.chunk)?.get(position.index)?;
        Some((
            entry,
            self.normal(Position {
                index: position.index + 1,
                ..position
            }),
        ))
    }

    /// All entries from a place on.
    pub fn iter_from(&self, position: Position) -> impl Iterator<Item = &Arc<T>> {
        let first = self.chunks.get(position.chunk).map_or(&[][..], |chunk| {
            chunk.get(position.index..).unwrap_or_default()
        });
        let rest = self.chunks.get(position.chunk + 1..).unwrap_or_default();
        first
            .iter()
            .chain(rest.iter().flat_map(|chunk| chunk.iter()))
    }

    /// All entries.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.iter_from(Position::default())
    }

    /// All entries whose key begins with `prefix`.
    pub fn prefixed<'a>(&'a self, prefix: &'a str) -> impl Iterator<Item = &'a Arc<T>> {
        self.iter_from(self.seek(prefix))
            .take_while(move |entry| entry.key().starts_with(prefix))
    }

    /// The last chunk whose first key is not after `key`.
    fn chunk_of(&self, key: &str) -> Option<usize> {
        let after = self
            .chunks
            .partition_point(|chunk| chunk.first().is_some_and(|first| first.key() <= key));
        after.checked_sub(1)
    }

    fn normal(&self, position: Position) -> Position {
        match self.chunks.get(position.chunk) {
            Some(chunk) if position.index >= chunk.len() => Position {
                chunk: position.chunk + 1,
                index: 0,
            },
            _ => position,
        }
    }
}

/// The chunk, copied if a snapshot shares it; a copy leaves room to grow.
fn owned<T>(chunk: &mut Arc<Vec<Arc<T>>>) -> &mut Vec<Arc<T>> {
    if Arc::get_mut(chunk).is_none() {
        let mut copy = Vec::with_capacity(chunk.len() + 1);
        copy.extend(chunk.iter().cloned());
        *chunk = Arc::new(copy);
    }
    Arc::make_mut(chunk)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[derive(Debug, PartialEq)]
    struct Entry(String, u32);

    impl TreeEntry for Entry {
        fn key(&self) -> &str {
            &self.0
        }
    }

    /// A small generator: the sequence is the same in every run.
    fn numbers(seed: u32) -> impl Iterator<Item = u32> {
        std::iter::successors(Some(seed), |last| {
            Some(last.wrapping_mul(1_664_525).wrapping_add(1_013_904_223))
        })
    }

    #[test]
    fn tree_holds_what_a_btreemap_holds() {
        let mut tree = Tree::default();
        let mut model = BTreeMap::new();
        for (round, number) in numbers(7).take(20_000).enumerate() {
            let key = format!("ns/{}", (number >> 8) % 1500);
            if number % 3 == 0 {
                assert_eq!(
                    tree.remove(&key).map(|entry: Arc<Entry>| entry.1),
                    model.remove(&key)
                );
            } else {
                assert_eq!(
                    tree.insert(Arc::new(Entry(key.clone(), number)))
                        .map(|entry| entry.1),
                    model.insert(key, number)
                );
            }
            if round % 500 == 0 {
                let held: Vec<_> = tree
                    .iter()
                    .map(|entry| (entry.0.clone(), entry.1))
                    .collect();
                assert_eq!(held, model.clone().into_iter().collect::<Vec<_>>());
                assert_eq!(tree.len(), model.len());
                let seek = format!("ns/{}", number % 1500);
                let found = tree.at(tree.seek(&seek)).map(|(entry, _)| entry.0.clone());
                assert_eq!(
                    found,
                    model.range(seek..).next().map(|(key, _)| key.clone())
                );
            }
        }
    }

    #[test]
    fn snapshot_does_not_see_later_writes() {
        let mut tree = Tree::from_sorted(
            (0..1000)
                .map(|n| Arc::new(Entry(format!("{n:04}"), n)))
                .collect(),
        );
        let snapshot = tree.clone();
        for n in 0..1000 {
            tree.insert(Arc::new(Entry(format!("{n:04}x"), 5000 + n)));
            tree.remove(&format!("{n:04}"));
        }
        assert_eq!(
            snapshot.iter().map(|entry| entry.1).collect::<Vec<_>>(),
            (0..1000).collect::<Vec<_>>()
        );
        assert_eq!(tree.len(), 1000);
        assert!(tree.get("0003").is_none());
        assert_eq!(tree.get("0003x").map(|entry| entry.1), Some(5003));
    }

    #[test]
    fn prefix_walk_stays_in_its_prefix() {
        let tree = Tree::from_sorted(
            ["a-b/1", "a/1", "a/2", "b/1"]
                .iter()
                .map(|key| Arc::new(Entry((*key).to_owned(), 0)))
                .collect(),
        );
        let keys: Vec<_> = tree.prefixed("a/").map(|entry| entry.key()).collect();
        assert_eq!(keys, ["a/1", "a/2"]);
    }

    #[test]
    fn positions_walk_the_whole_tree() {
        let tree = Tree::from_sorted(
            (0..777)
                .map(|n| Arc::new(Entry(format!("{n:04}"), n)))
                .collect(),
        );
        let mut position = tree.seek("");
        let mut seen = 0;
        while let Some((entry, next)) = tree.at(position) {
            assert_eq!(entry.1, seen);
            seen += 1;
            position = next;
        }
        assert_eq!(seen, 777);
    }
}
