//! Statistics of a reflector.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Counts of a reflector's work so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Objects added, modified or deleted by watch events.
    pub events: u64,
    /// Complete reads (initial events or list), the first included.
    pub relists: u64,
    /// Watches begun from a known revision.
    pub watches: u64,
    /// Objects that could not be read as the view and were skipped.
    pub unreadable: u64,
    /// Nanoseconds, summed over `batches`, from a chunk of bytes being received
    /// to its events being visible in the cache.
    pub latency_nanos: u64,
    /// Chunks that `latency_nanos` is about.
    pub batches: u64,
}

// === impl Counters ===

#[derive(Debug, Default)]
pub(super) struct Counters {
    pub(super) events: AtomicU64,
    pub(super) relists: AtomicU64,
    pub(super) watches: AtomicU64,
    pub(super) unreadable: AtomicU64,
    latency_nanos: AtomicU64,
    batches: AtomicU64,
}

impl Counters {
    pub(super) fn batch(&self, received: Instant) {
        let nanos = u64::try_from(received.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.latency_nanos.fetch_add(nanos, Ordering::Relaxed);
        self.batches.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn stats(&self) -> Stats {
        Stats {
            events: self.events.load(Ordering::Relaxed),
            relists: self.relists.load(Ordering::Relaxed),
            watches: self.watches.load(Ordering::Relaxed),
            unreadable: self.unreadable.load(Ordering::Relaxed),
            latency_nanos: self.latency_nanos.load(Ordering::Relaxed),
            batches: self.batches.load(Ordering::Relaxed),
        }
    }
}
