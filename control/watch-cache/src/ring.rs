//! The recent events of one resource, read by any number of watchers without
//! locks.
//!
//! One writer pushes; each event takes the next sequence number and the slot
//! `sequence % capacity`. A watcher keeps nothing but the sequence number it
//! wants next: it loads the slot and sees by the number written there whether
//! its event is there, still to come, or overwritten. So a watcher that does
//! not read costs no memory and delays nobody; when it wakes up too late it is
//! gets [`Read::Lost`] and its client lists again.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};

/// Result of reading a sequence number.
#[derive(Debug)]
pub enum Read<T> {
    /// The event is there.
    Ready(Arc<T>),
    /// It has not happened yet.
    Pending,
    /// It was overwritten.
    Lost,
}

/// A ring of events. All methods but [`Ring::push`] and [`Ring::grow`] may be called from any
/// thread.
#[derive(Debug)]
pub struct Ring<T> {
    slots: ArcSwap<Slots<T>>,
    /// The sequence number of the next event.
    head: AtomicU64,
}

#[derive(Debug)]
struct Slots<T>(Box<[ArcSwapOption<Slot<T>>]>);

#[derive(Debug)]
struct Slot<T> {
    sequence: u64,
    value: Arc<T>,
}

impl<T> Ring<T> {
    /// Creates an empty ring with room for `capacity` events, at least one.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        Self {
            slots: ArcSwap::from_pointee(Slots::new(capacity.max(1))),
            head: AtomicU64::new(0),
        }
    }

    /// Returns the sequence number of the next event.
    #[must_use]
    pub fn head(&self) -> u64 {
        self.head.load(Ordering::Acquire)
    }

    /// Returns the smallest sequence number that may still be there.
    #[must_use]
    pub fn tail(&self) -> u64 {
        let capacity = self.slots.load().0.len();
        self.head()
            .saturating_sub(u64::try_from(capacity).unwrap_or(u64::MAX))
    }

    /// Returns the number of events that fit.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.slots.load().0.len()
    }

    /// Adds an event and returns the one that it evicts; only the writer may call this.
    pub fn push(&self, value: Arc<T>) -> Option<Arc<T>> {
        let sequence = self.head.load(Ordering::Relaxed);
        let evicted = self
            .slots
            .load()
            .slot(sequence)
            .swap(Some(Arc::new(Slot { sequence, value })));
        self.head.store(sequence + 1, Ordering::Release);
        evicted.map(|slot| Arc::clone(&slot.value))
    }

    /// Returns the event that the next [`Ring::push`] evicts.
    #[must_use]
    pub fn next_evicted(&self) -> Option<Arc<T>> {
        let slots = self.slots.load();
        let slot = slots.slot(self.head.load(Ordering::Relaxed)).load();
        slot.as_ref().map(|slot| Arc::clone(&slot.value))
    }

    /// Makes room for more events; only the writer may call this.
    pub fn grow(&self, capacity: usize) {
        let old = self.slots.load_full();
        if capacity <= old.0.len() {
            return;
        }
        let grown = Slots::new(capacity);
        for sequence in self.tail()..self.head() {
            grown.slot(sequence).store(old.slot(sequence).load_full());
        }
        self.slots.store(Arc::new(grown));
    }

    /// Reads a sequence number.
    #[must_use]
    pub fn read(&self, sequence: u64) -> Read<T> {
        // The head first: a slot read after it is at least as new.
        if sequence >= self.head() {
            return Read::Pending;
        }
        let slots = self.slots.load();
        let slot = slots.slot(sequence).load();
        match &*slot {
            Some(slot) if slot.sequence == sequence => Read::Ready(Arc::clone(&slot.value)),
            _ => Read::Lost,
        }
    }
}

impl<T> Slots<T> {
    fn new(capacity: usize) -> Self {
        Self((0..capacity).map(|_| ArcSwapOption::empty()).collect())
    }

    fn slot(&self, sequence: u64) -> &ArcSwapOption<Slot<T>> {
        let capacity = u64::try_from(self.0.len()).unwrap_or(u64::MAX);
        &self.0[usize::try_from(sequence % capacity).unwrap_or_default()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(ring: &Ring<u64>, sequence: u64) -> Option<u64> {
        match ring.read(sequence) {
            Read::Ready(value) => Some(*value),
            Read::Pending | Read::Lost => None,
        }
    }

    #[test]
    fn ring_keeps_the_newest_events() {
        let ring = Ring::new(4);
        for number in 0_u64..10 {
            let evicted = ring.push(Arc::new(number * 10));
            assert_eq!(
                evicted.as_deref().copied(),
                number.checked_sub(4).map(|old| old * 10)
            );
        }
        assert_eq!(ring.tail(), 6);
        assert!(matches!(ring.read(5), Read::Lost));
        assert_eq!(
            (6..10).map(|n| value(&ring, n)).collect::<Vec<_>>(),
            [Some(60), Some(70), Some(80), Some(90)]
        );
        assert!(matches!(ring.read(10), Read::Pending));
    }

    #[test]
    fn growing_loses_nothing() {
        let ring = Ring::new(3);
        for number in 0..8 {
            ring.push(Arc::new(number));
        }
        ring.grow(8);
        for number in 8..12 {
            ring.push(Arc::new(number));
        }
        assert!(matches!(ring.read(4), Read::Lost));
        assert_eq!(
            (5..12).map(|n| value(&ring, n)).collect::<Vec<_>>(),
            (5..12).map(Some).collect::<Vec<_>>()
        );
    }

    #[test]
    fn readers_beside_a_writer_see_each_event_or_its_loss() {
        let ring = Arc::new(Ring::new(64));
        let readers: Vec<_> = (0..2)
            .map(|_| {
                let ring = Arc::clone(&ring);
                std::thread::spawn(move || {
                    let (mut next, mut seen) = (0, 0_u64);
                    while next < 20_000 {
                        match ring.read(next) {
                            Read::Ready(value) => {
                                assert_eq!(*value, next);
                                seen += 1;
                                next += 1;
                            }
                            Read::Pending => std::thread::yield_now(),
                            Read::Lost => next = ring.tail().max(next + 1),
                        }
                    }
                    seen
                })
            })
            .collect();
        for number in 0..20_000 {
            ring.push(Arc::new(number));
            if number == 5_000 {
                ring.grow(128);
            }
        }
        for reader in readers {
            assert!(reader.join().expect("reader thread") > 0);
        }
    }
}
