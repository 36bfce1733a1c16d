//! The cache of one resource: a snapshot of all objects and the recent events.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use compact_str::CompactString;
use control_store::Revision;
use control_types::value::Value;
use tokio::sync::watch;

use super::counts::Counts;
use super::frame_batch::{FrameBatches, FrameForm};
use super::object::{CacheEntry, Change, DecodeError, PreparedObject, Reading};
use super::ring::{Read, Ring};
use super::tree::{Tree, TreeEntry};
use super::watcher_wakers::{Waiter, WatcherWakers};
use control_strategy::ResourceStrategy;

/// Room for events that every resource begins with.
const CAPACITY: usize = 128;
/// The most events that a resource keeps.
const MAX_CAPACITY: usize = 16 * 1024;
/// Events younger than this are kept if at all possible: a client that lost
/// its connection comes back within a minute or so.
const KEEP: Duration = Duration::from_secs(75);

/// So many watchers are woken with every change at once.
const CROWD: usize = 200;
/// Twice what it takes to wake one watcher and to send it an event by itself: in a
/// storm of changes the other half of the time is for who makes them.
const TURN: Duration = Duration::from_micros(8);
/// No event waits longer for that.
const LATEST: Duration = Duration::from_millis(20);

/// How many frames in other forms than the cache's are kept for other watchers.
const FRAMES: usize = 32;

/// One change of one object.
#[derive(Debug)]
pub struct Event {
    /// What happened.
    pub change: Change,
    /// The object after the change; for a deletion its last state with the
    /// deletion's revision.
    pub object: Arc<CacheEntry>,
    /// The object before the change.
    pub previous: Option<Arc<CacheEntry>>,
    at: Instant,
}

impl Event {
    /// An event of this moment.
    pub(super) fn new(
        change: Change,
        object: Arc<CacheEntry>,
        previous: Option<Arc<CacheEntry>>,
    ) -> Self {
        Self {
            change,
            object,
            previous,
            at: Instant::now(),
        }
    }
}

/// All objects of a resource at one moment.
#[derive(Debug)]
pub struct State {
    /// The objects by `namespace/name`.
    pub objects: Tree<CacheEntry>,
    /// The sequence number of the first event that is not in `objects`.
    pub next: u64,
    /// The revision of the last change in `objects`.
    pub revision: Revision,
}

/// The cache. One task writes (the feed); anybody reads.
pub struct ResourceCache {
    reading: Reading,
    /// What keys begin with in the store, such as `/registry/pods/`.
    prefix: CompactString,
    state: ArcSwap<State>,
    ring: Ring<Event>,
    wake: watch::Sender<u64>,
    waiting: Arc<WatcherWakers>,
    /// Events put together for several watchers.
    frame_batches: FrameBatches,
    /// When watchers were woken last.
    woken: Mutex<Option<Instant>>,
    /// Events up to this revision are no longer (or were never) in the ring.
    forgotten: AtomicU64,
    counts: Counts,
    /// The frames of the latest events in other forms than the cache's, made for the
    /// first watcher that wants one and sent to all.
    frames: [ArcSwapOption<SharedFrame>; FRAMES],
}

/// A frame in another form than the cache's.
#[derive(Debug)]
struct SharedFrame {
    form: FrameForm,
    key: CompactString,
    revision: Revision,
    change: Change,
    bytes: Bytes,
}

impl std::fmt::Debug for ResourceCache {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ResourceCache")
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

impl ResourceCache {
    /// An empty cache of a kind whose keys begin with `prefix`.
    #[must_use]
    pub fn new(kind: ResourceStrategy, prefix: &str) -> Self {
        Self {
            reading: Reading::new(kind),
            prefix: prefix.into(),
            state: ArcSwap::from_pointee(State {
                objects: Tree::default(),
                next: 0,
                revision: 0,
            }),
            ring: Ring::new(CAPACITY),
            wake: watch::Sender::new(0),
            waiting: Arc::default(),
            counts: Counts::default(),
            frame_batches: FrameBatches::default(),
            woken: Mutex::new(None),
            forgotten: AtomicU64::new(0),
            frames: [const { ArcSwapOption::const_empty() }; FRAMES],
        }
    }

    /// What is particular to the kind as it is stored.
    #[must_use]
    #[inline]
    pub fn strategy(&self) -> &ResourceStrategy {
        self.reading.strategy()
    }

    /// How stored objects are read.
    #[must_use]
    pub fn reading(&self) -> &Reading {
        &self.reading
    }

    /// What keys begin with in the store.
    #[must_use]
    #[inline]
    pub fn prefix(&self) -> &str {
        &self.prefix
    }

    /// The newest snapshot.
    #[must_use]
    #[inline]
    pub fn state(&self) -> Arc<State> {
        self.state.load_full()
    }

    /// Whether there is no object in the newest snapshot.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.state.load().objects.is_empty()
    }

    /// One object of the newest snapshot, by `namespace/name`.
    #[must_use]
    #[inline]
    pub fn get(&self, key: &str) -> Option<Arc<CacheEntry>> {
        self.state.load().objects.get(key).cloned()
    }

    /// The event with this sequence number.
    #[must_use]
    #[inline]
    pub fn read(&self, sequence: u64) -> Read<Event> {
        self.ring.read(sequence)
    }

    /// The sequence number that the next event will get.
    #[must_use]
    #[inline]
    pub fn head(&self) -> u64 {
        self.ring.head()
    }

    /// How many events there is room for.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.ring.capacity()
    }

    /// What is counted of it.
    #[must_use]
    #[inline]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Events put together for several watchers.
    #[must_use]
    #[inline]
    pub fn frame_batches(&self) -> &FrameBatches {
        &self.frame_batches
    }

    /// A place among those who are woken by events: for a watcher, of which there
    /// may be thousands.
    #[must_use]
    pub fn waiter(&self) -> Waiter {
        self.waiting.join()
    }

    /// Wakes up with every event: for a part of the server.
    #[must_use]
    pub fn wake(&self) -> watch::Receiver<u64> {
        self.wake.subscribe()
    }

    /// Wakes all who wait for events, though there is none.
    pub(super) fn rouse(&self) {
        self.wake.send_modify(|_| {});
        self.waiting.wake();
    }

    /// The sequence number of the first event after `revision`.
    ///
    /// # Errors
    /// The oldest revision from which one can still watch, when `revision`
    /// lies before it.
    pub fn first_after(&self, revision: Revision) -> Result<u64, Revision> {
        let head = self.ring.head();
        let mut low = self.ring.tail();
        let mut high = head;
        while low < high {
            let middle = low + (high - low) / 2;
            match self.ring.read(middle) {
                Read::Ready(event) if event.object.revision() > revision => high = middle,
                // What was overwritten meanwhile is older than what is sought,
                // or `forgotten` tells below that the search came too late.
                Read::Ready(_) | Read::Lost => low = middle + 1,
                Read::Pending => high = middle,
            }
        }
        let forgotten = self.forgotten.load(Ordering::Acquire);
        if revision < forgotten {
            Err(forgotten)
        } else {
            Ok(low)
        }
    }

    /// The frame of an event in a form: the one that another watcher had made, or
    /// what `make` makes. Only the latest are kept, since watchers follow closely;
    /// who lags pays for itself.
    pub fn shared_frame(
        &self,
        object: &CacheEntry,
        change: Change,
        form: FrameForm,
        make: impl FnOnce() -> Bytes,
    ) -> Bytes {
        let revision = object.revision();
        // Watchers of two forms do not take each other's places.
        let turn = revision.wrapping_mul(2) + u64::from(form == FrameForm::Projection);
        let slot = usize::try_from(turn).unwrap_or_default() % FRAMES;
        let known = self.frames[slot].load();
        if let Some(known) = known.as_ref()
            && known.revision == revision
            && known.change == change
            && known.form == form
            && known.key == object.key()
        {
            return known.bytes.clone();
        }
        drop(known);
        let bytes = make();
        self.frames[slot].store(Some(Arc::new(SharedFrame {
            form,
            key: object.key().into(),
            revision,
            change,
            bytes: bytes.clone(),
        })));
        bytes
    }

    // --- the writer's side

    /// Replaces everything by `objects` (sorted by key) as of `revision`; no
    /// event tells of it, and none from before can be watched.
    pub(super) fn fill(&self, objects: Vec<Arc<CacheEntry>>, revision: Revision) {
        let last = objects
            .iter()
            .map(|object| object.revision())
            .max()
            .unwrap_or_default();
        self.forgotten.store(revision, Ordering::Release);
        self.state.store(Arc::new(State {
            objects: Tree::from_sorted(objects),
            next: self.ring.head(),
            revision: last,
        }));
    }

    /// The changes that turn the present state into `objects` (sorted by key).
    pub(super) fn difference(
        &self,
        objects: &[Arc<CacheEntry>],
        revision: Revision,
    ) -> Vec<(CompactString, Option<Arc<CacheEntry>>, Revision)> {
        let state = self.state();
        let mut changes = Vec::new();
        for object in objects {
            if state
                .objects
                .get(object.key())
                .is_none_or(|present| present.revision() != object.revision())
            {
                changes.push((
                    object.key().into(),
                    Some(Arc::clone(object)),
                    object.revision(),
                ));
            }
        }
        for present in state.objects.iter() {
            if objects
                .binary_search_by(|object| object.key().cmp(present.key()))
                .is_err()
            {
                changes.push((present.key().into(), None, revision));
            }
        }
        changes.sort_by_key(|(_, _, revision)| *revision);
        changes
    }

    /// Makes the cached form of a stored object's JSON; `printed` tells that it was
    /// made of protobuf.
    pub(super) fn decode(
        &self,
        key: &str,
        json: &[u8],
        revision: Revision,
        created: bool,
        printed: bool,
    ) -> Result<Arc<CacheEntry>, DecodeError> {
        let make = if printed {
            CacheEntry::printed
        } else {
            CacheEntry::new
        };
        make(key, json, revision, change(created), &self.reading).map(Arc::new)
    }

    /// Makes the cached form of what a writer prepared.
    pub(super) fn accept(
        &self,
        key: &str,
        prepared: PreparedObject,
        revision: Revision,
        created: bool,
    ) -> Result<Arc<CacheEntry>, DecodeError> {
        CacheEntry::from_prepared(key, prepared, revision, change(created)).map(Arc::new)
    }

    /// Prepares an object of this resource for its way through the store.
    #[must_use]
    pub fn prepare(&self, value: &Value, json: Vec<u8>) -> PreparedObject {
        PreparedObject::new(value, json, self.strategy())
    }

    /// Applies changes in order and publishes them at once. `None` deletes. Answers
    /// as [`ResourceCache::announce`].
    pub(super) fn apply(
        &self,
        changes: impl IntoIterator<Item = (CompactString, Option<Arc<CacheEntry>>, Revision)>,
    ) -> Option<Instant> {
        let present = self.state.load();
        let mut objects = present.objects.clone();
        let mut last = present.revision;
        drop(present);
        let now = Instant::now();
        let mut changed = false;
        for (key, object, revision) in changes {
            let event = if let Some(object) = object {
                let previous = objects.insert(Arc::clone(&object));
                let change = if previous.is_some() {
                    Change::Modified
                } else {
                    Change::Added
                };
                Event {
                    change,
                    object,
                    previous,
                    at: now,
                }
            } else {
                let Some(previous) = objects.remove(&key) else {
                    continue;
                };
                let object = Arc::new(previous.at_revision(revision, Change::Deleted));
                Event {
                    change: Change::Deleted,
                    object,
                    previous: Some(previous),
                    at: now,
                }
            };
            changed = true;
            last = revision;
            self.push(event, now);
        }
        if changed {
            let next = self.ring.head();
            self.state.store(Arc::new(State {
                objects,
                next,
                revision: last,
            }));
            return self.announce(now);
        }
        None
    }

    /// Wakes the watchers, unless there are so many that those of the last time
    /// cannot all have had their turn: they would get each event by itself, at many
    /// times the price of some together. Answers when it is to be called again then.
    pub(super) fn announce(&self, now: Instant) -> Option<Instant> {
        let mut woken = self.woken.lock().unwrap_or_else(PoisonError::into_inner);
        let watchers = self.waiting.len();
        if watchers > CROWD
            && let Some(last) = *woken
        {
            let turns = u32::try_from(watchers).unwrap_or(u32::MAX);
            let due = last + TURN.saturating_mul(turns).min(LATEST);
            if now < due {
                return Some(due);
            }
        }
        *woken = Some(now);
        drop(woken);
        self.wake.send_replace(self.ring.head());
        self.waiting.wake();
        None
    }

    fn push(&self, event: Event, now: Instant) {
        let capacity = self.ring.capacity();
        if capacity < MAX_CAPACITY
            && self
                .ring
                .next_evicted()
                .is_some_and(|old| now.duration_since(old.at) < KEEP)
        {
            self.ring.grow((capacity * 2).min(MAX_CAPACITY));
            Counts::add(&self.counts.grown, 1);
        }
        if let Some(old) = self.ring.next_evicted() {
            // Before the event goes: a search that misses it must also see
            // that it may have come too late.
            self.forgotten
                .fetch_max(old.object.revision(), Ordering::AcqRel);
        }
        self.ring.push(Arc::new(event));
    }
}

fn change(created: bool) -> Change {
    if created {
        Change::Added
    } else {
        Change::Modified
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::super::object::encode;
    use super::*;

    fn cache() -> ResourceCache {
        ResourceCache::new(
            control_kinds::find_kind("", "ConfigMap").into(),
            "/registry/configmaps/",
        )
    }

    fn put(cache: &ResourceCache, name: &str, revision: Revision) {
        let stored = encode(
            &value!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": (name)}}),
        );
        let created = cache.get(name).is_none();
        let object = cache
            .decode(name, &stored, revision, created, false)
            .expect("a valid object");
        cache.apply([(name.into(), Some(object), revision)]);
    }

    fn seen(cache: &ResourceCache, mut sequence: u64) -> Vec<(Change, String, Revision)> {
        let mut all = Vec::new();
        while let Read::Ready(event) = cache.read(sequence) {
            all.push((
                event.change,
                event.object.name().to_owned(),
                event.object.revision(),
            ));
            sequence += 1;
        }
        all
    }

    #[test]
    fn a_crowd_of_watchers_is_not_woken_before_the_last_time_is_over() {
        let cache = cache();
        let watchers: Vec<_> = (0..=CROWD).map(|_| cache.waiter()).collect();
        let now = Instant::now();
        assert_eq!(cache.announce(now), None);
        let due = cache.announce(now + TURN).expect("too early");
        assert_eq!(
            due,
            now + TURN * u32::try_from(watchers.len()).expect("few")
        );
        assert_eq!(cache.announce(due), None);
        drop(watchers);
        assert_eq!(cache.announce(due), None);
    }

    #[test]
    fn watch_from_a_revision_sees_what_came_after_it() {
        let cache = cache();
        cache.fill(Vec::new(), 10);
        put(&cache, "a", 11);
        put(&cache, "b", 13);
        put(&cache, "a", 15);
        cache.apply([("b".into(), None, 16)]);
        let from = cache.first_after(12).expect("still kept");
        assert_eq!(
            seen(&cache, from),
            [
                (Change::Added, "b".into(), 13),
                (Change::Modified, "a".into(), 15),
                (Change::Deleted, "b".into(), 16)
            ]
        );
        assert_eq!(cache.first_after(16), Ok(cache.state().next));
        assert_eq!(cache.first_after(99), Ok(cache.state().next));
        assert_eq!(cache.first_after(9), Err(10));
    }

    #[test]
    fn snapshot_and_events_join_without_gap() {
        let cache = cache();
        put(&cache, "a", 2);
        let state = cache.state();
        put(&cache, "b", 3);
        assert_eq!(state.objects.len(), 1);
        assert_eq!(seen(&cache, state.next), [(Change::Added, "b".into(), 3)]);
    }

    #[test]
    fn ring_grows_while_events_are_young() {
        let cache = cache();
        for revision in 0..1000 {
            put(&cache, "a", revision + 2);
        }
        assert_eq!(
            seen(&cache, cache.first_after(1).expect("still kept")).len(),
            1000
        );
    }

    #[test]
    fn difference_turns_one_state_into_another() {
        let cache = cache();
        put(&cache, "a", 2);
        put(&cache, "b", 3);
        let other = self::cache();
        put(&other, "b", 5);
        put(&other, "c", 4);
        let wanted: Vec<_> = other.state().objects.iter().cloned().collect();
        cache.apply(cache.difference(&wanted, 9));
        let names: Vec<_> = cache
            .state()
            .objects
            .iter()
            .map(|object| (object.name().to_owned(), object.revision()))
            .collect();
        assert_eq!(names, [("b".to_owned(), 5), ("c".to_owned(), 4)]);
        assert_eq!(
            seen(&cache, 2),
            [
                (Change::Added, "c".into(), 4),
                (Change::Modified, "b".into(), 5),
                (Change::Deleted, "a".into(), 9)
            ]
        );
    }
}
