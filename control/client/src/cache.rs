//! What a reflector knows: cheap snapshots, one writer.
//!
//! # The data structure
//!
//! Objects, sorted by namespace and name, lie in chunks of at most
//! `CHUNK` pointers; a snapshot is a pointer to the list of chunks.
//!
//! ```text
//! published ─▶ Root ─▶ [chunk 0][chunk 1] … [chunk n]     n ≈ objects / 96
//!                         │        └─▶ [Arc<V>; ≤128]  sorted by (namespace, name)
//!                         └─▶ shared with older snapshots until written to
//! ```
//!
//! * A **snapshot** costs one atomic load, whatever the size, and never changes.
//! * A **write** copies what a published snapshot shares: the list of chunks
//!   and one chunk. For 50 000 objects these are 520 + 128 pointers, about two
//!   microseconds; further writes before the next publication copy nothing
//!   that was already copied. A map behind a lock would make readers wait for
//!   the writer and could not be held across an `await`; copying a whole map
//!   per event costs milliseconds; a hash trie has no order, and order gives
//!   all objects of a namespace as one range.
//! * A **lookup** is two binary searches.

use std::sync::Arc;

use arc_swap::ArcSwap;

use crate::reflector::Handle;
use crate::resource::Object;

/// Most objects in a chunk. Larger chunks make writes slower, smaller ones the
/// list of chunks longer; around the square root of the largest expected
/// number of objects both are equal.
const CHUNK: usize = 128;

/// A reflector's objects, for any number of readers. Cloning is cheap. The reflector runs
/// while a clone lives.
pub struct Cache<V> {
    pub(crate) handle: Arc<Handle<V>>,
}

/// All objects as they were at one moment. Cloning is cheap.
///
/// A snapshot keeps its objects in memory: hold it while deciding, not longer.
pub struct Snapshot<V> {
    root: Arc<Root<V>>,
}

pub(crate) struct Root<V> {
    /// No chunk is empty; keys ascend within and across chunks.
    chunks: Vec<Arc<Chunk<V>>>,
    len: usize,
}

struct Chunk<V>(Vec<Arc<V>>);

/// The writer's side.
pub(crate) struct Store<V> {
    root: Arc<Root<V>>,
}

/// Namespace and name, as objects are sorted.
type Key<'a> = (&'a str, &'a str);

fn key<V: Object>(object: &V) -> Key<'_> {
    (object.namespace(), object.name())
}

// === impl Cache ===

impl<V> Clone for Cache<V> {
    fn clone(&self) -> Self {
        Self {
            handle: Arc::clone(&self.handle),
        }
    }
}

impl<V: Object> Cache<V> {
    /// A cache of these objects that nothing changes: for tests.
    #[must_use]
    pub fn fixed(objects: impl IntoIterator<Item = V>) -> Self {
        Self {
            handle: Arc::new(Handle::detached(objects.into_iter().collect())),
        }
    }

    /// All objects, now.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot<V> {
        Snapshot {
            root: self.handle.published().load_full(),
        }
    }

    /// One object. `namespace` is empty for cluster-scoped kinds.
    #[must_use]
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<V>> {
        let root = self.handle.published().load();
        root.get((namespace, name)).cloned()
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.handle.published().load().len
    }

    /// Returns whether the cache is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the first list arrived.
    #[must_use]
    pub fn is_synced(&self) -> bool {
        self.handle.is_synced()
    }

    /// Waits until the first list arrived.
    pub async fn synced(&self) {
        self.handle.synced().await;
    }
}

// === impl Snapshot ===

impl<V> Clone for Snapshot<V> {
    fn clone(&self) -> Self {
        Self {
            root: Arc::clone(&self.root),
        }
    }
}

impl<V: Object> Snapshot<V> {
    /// One object. `namespace` is empty for cluster-scoped kinds.
    #[must_use]
    pub fn get(&self, namespace: &str, name: &str) -> Option<&Arc<V>> {
        self.root.get((namespace, name))
    }

    /// All objects, sorted by namespace and name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<V>> {
        self.root.objects()
    }

    /// All objects of a namespace, sorted by name.
    pub fn namespace<'a>(&'a self, namespace: &'a str) -> impl Iterator<Item = &'a Arc<V>> {
        self.root
            .starting_at((namespace, ""))
            .take_while(move |object| object.namespace() == namespace)
    }

    /// How many objects there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.root.len
    }

    /// Returns whether the snapshot is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.root.len == 0
    }
}

impl<V: Object> FromIterator<V> for Snapshot<V> {
    fn from_iter<I: IntoIterator<Item = V>>(objects: I) -> Self {
        Self {
            root: Store::from_objects(objects.into_iter().map(Arc::new).collect()).root,
        }
    }
}

// === impl Root ===

impl<V> Clone for Root<V> {
    fn clone(&self) -> Self {
        Self {
            chunks: self.chunks.clone(),
            len: self.len,
        }
    }
}

impl<V> Clone for Chunk<V> {
    fn clone(&self) -> Self {
        // the copy is made for one more object
        let mut objects = Vec::with_capacity(self.0.len() + 1);
        objects.extend_from_slice(&self.0);
        Self(objects)
    }
}

impl<V: Object> Chunk<V> {
    /// Returns the position of the key, or the position where it would be inserted.
    fn find(&self, wanted: Key<'_>) -> Result<usize, usize> {
        self.0
            .binary_search_by(|object| key(&**object).cmp(&wanted))
    }

    fn starts_after(&self, wanted: Key<'_>) -> bool {
        self.0.first().is_some_and(|object| key(&**object) > wanted)
    }
}

impl<V: Object> Root<V> {
    /// The chunk that has the key, if any has.
    fn chunk_of(&self, wanted: Key<'_>) -> usize {
        self.chunks
            .partition_point(|chunk| !chunk.starts_after(wanted))
            .saturating_sub(1)
    }

    pub(crate) fn objects(&self) -> impl Iterator<Item = &Arc<V>> {
        self.chunks.iter().flat_map(|chunk| &chunk.0)
    }

    fn get(&self, wanted: Key<'_>) -> Option<&Arc<V>> {
        let chunk = self.chunks.get(self.chunk_of(wanted))?;
        chunk.0.get(chunk.find(wanted).ok()?)
    }

    fn starting_at(&self, wanted: Key<'_>) -> impl Iterator<Item = &Arc<V>> {
        let at = self.chunk_of(wanted);
        let skip = self
            .chunks
            .get(at)
            .map_or(0, |chunk| chunk.find(wanted).unwrap_or_else(|at| at));
        self.chunks
            .iter()
            .skip(at)
            .flat_map(|chunk| &chunk.0)
            .skip(skip)
    }
}

// === impl Store ===

impl<V: Object> Store<V> {
    /// A store of these objects; of objects with one key, the last counts.
    pub(crate) fn from_objects(mut objects: Vec<Arc<V>>) -> Self {
        objects.sort_by(|a, b| key(&**a).cmp(&key(&**b)));
        objects.dedup_by(|later, kept| {
            let same = key(&**later) == key(&**kept);
            if same {
                std::mem::swap(later, kept);
            }
            same
        });
        let len = objects.len();
        // three quarters full: room for insertions before the first splits
        let chunks = objects
            .chunks(CHUNK * 3 / 4)
            .map(|chunk| Arc::new(Chunk(chunk.to_vec())))
            .collect();
        Self {
            root: Arc::new(Root { chunks, len }),
        }
    }

    pub(crate) fn root(&self) -> &Arc<Root<V>> {
        &self.root
    }

    pub(crate) fn publish(&self, to: &ArcSwap<Root<V>>) {
        to.store(Arc::clone(&self.root));
    }

    /// The object in the place of this one.
    pub(crate) fn get(&self, object: &V) -> Option<&Arc<V>> {
        self.root.get(key(object))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<V>> {
        self.root.objects()
    }

    /// Puts an object in; the one that it replaces, if any.
    pub(crate) fn insert(&mut self, object: Arc<V>) -> Option<Arc<V>> {
        let root = Arc::make_mut(&mut self.root);
        let wanted = key(&*object);
        let at = root.chunk_of(wanted);
        let Some(chunk) = root.chunks.get_mut(at) else {
            root.chunks.push(Arc::new(Chunk(vec![object])));
            root.len = 1;
            return None;
        };
        let place = chunk.find(wanted);
        let chunk = &mut Arc::make_mut(chunk).0;
        match place {
            Ok(place) => chunk
                .get_mut(place)
                .map(|slot| std::mem::replace(slot, object)),
            Err(place) => {
                chunk.insert(place, object);
                root.len += 1;
                if chunk.len() > CHUNK {
                    let right = chunk.split_off(chunk.len() / 2);
                    chunk.shrink_to_fit();
                    root.chunks.insert(at + 1, Arc::new(Chunk(right)));
                }
                None
            }
        }
    }

    /// Takes an object out.
    pub(crate) fn remove(&mut self, object: &V) -> Option<Arc<V>> {
        let wanted = key(object);
        let at = self.root.chunk_of(wanted);
        let place = self.root.chunks.get(at)?.find(wanted).ok()?;
        let root = Arc::make_mut(&mut self.root);
        let chunk = root.chunks.get_mut(at)?;
        let removed = if chunk.0.len() == 1 {
            root.chunks.remove(at).0.first().cloned()
        } else {
            Some(Arc::make_mut(chunk).0.remove(place))
        };
        root.len -= 1;
        // neighbours that fit in one chunk become one, so that deleting much
        // does not leave a long list of tiny chunks
        let fits = |left: Option<&Arc<Chunk<V>>>, right: Option<&Arc<Chunk<V>>>| matches!((left, right), (Some(left), Some(right)) if left.0.len() + right.0.len() <= CHUNK / 2);
        if fits(root.chunks.get(at), root.chunks.get(at + 1)) {
            let right = root.chunks.remove(at + 1);
            if let Some(left) = root.chunks.get_mut(at) {
                Arc::make_mut(left).0.extend_from_slice(&right.0);
            }
        }
        removed
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::meta::{Meta, Metadata};

    fn object(namespace: &str, name: &str, version: u32) -> Metadata {
        Metadata {
            metadata: Meta {
                namespace: namespace.into(),
                name: name.into(),
                resource_version: version.to_string().into(),
                ..Meta::default()
            },
        }
    }

    fn assert_sound(store: &Store<Metadata>) {
        let keys: Vec<_> = store.iter().map(|object| key(&**object)).collect();
        assert!(keys.is_sorted_by(|a, b| a < b));
        assert_eq!(keys.len(), store.root.len);
        for chunk in &store.root.chunks {
            assert!(!chunk.0.is_empty() && chunk.0.len() <= CHUNK);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn the_store_equals_a_map(
            first in prop::collection::vec((0u8..4, 0u16..600), 0..700),
            steps in prop::collection::vec((any::<bool>(), 0u8..4, 0u16..600), 0..1500),
        ) {
            let mut model = BTreeMap::new();
            let mut objects = Vec::new();
            for (namespace, name) in first {
                let (namespace, name) = (namespace.to_string(), name.to_string());
                objects.push(Arc::new(object(&namespace, &name, 0)));
                model.insert((namespace, name), 0);
            }
            let mut store = Store::from_objects(objects);
            assert_sound(&store);
            let early = (Snapshot { root: Arc::clone(store.root()) }, model.clone());
            for (step, (put, namespace, name)) in (1u32..).zip(steps) {
                let (namespace, name) = (namespace.to_string(), name.to_string());
                let object = object(&namespace, &name, step);
                let before = if put {
                    let before = store.insert(Arc::new(object));
                    prop_assert_eq!(before.is_some(), model.insert((namespace, name), step).is_some());
                    before
                } else {
                    let before = store.remove(&object);
                    prop_assert_eq!(before.is_some(), model.remove(&(namespace, name)).is_some());
                    before
                };
                drop(before);
            }
            assert_sound(&store);
            let late = (Snapshot { root: Arc::clone(store.root()) }, model);
            // a snapshot never changes, whatever is written later
            for (snapshot, model) in [early, late] {
                prop_assert_eq!(snapshot.len(), model.len());
                let all: Vec<_> = snapshot.iter().map(|object| (
                    (object.metadata.namespace.to_string(), object.metadata.name.to_string()),
                    object.metadata.revision().unwrap() as u32,
                )).collect();
                prop_assert_eq!(&all, &model.clone().into_iter().collect::<Vec<_>>());
                for ((namespace, name), version) in &model {
                    let found = snapshot.get(namespace, name).unwrap();
                    prop_assert_eq!(found.metadata.revision(), Some(u64::from(*version)));
                }
                prop_assert!(snapshot.get("0", "none").is_none());
                for namespace in ["", "0", "2", "9"] {
                    let count = snapshot.namespace(namespace).count();
                    prop_assert_eq!(count, model.keys().filter(|key| key.0 == namespace).count());
                }
            }
        }
    }

    #[test]
    fn of_two_objects_with_one_key_the_last_counts() {
        let store = Store::from_objects(vec![
            Arc::new(object("a", "x", 1)),
            Arc::new(object("a", "x", 2)),
        ]);
        assert_eq!(store.iter().count(), 1);
        assert_eq!(store.iter().next().unwrap().metadata.resource_version, "2");
    }
}
