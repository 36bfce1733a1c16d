//! Counters of a resource's cache.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use control_metrics::Histogram;

/// Bucket bounds of waits in seconds, as in kube-apiserver.
const WAITS: &[f64] = &[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0,
];

/// Counters of a resource's cache.
#[derive(Debug)]
pub struct Counts {
    /// Lists answered.
    pub lists: AtomicU64,
    /// Objects examined for lists.
    pub fetched: AtomicU64,
    /// Objects returned in lists.
    pub returned: AtomicU64,
    /// Initial events of watches.
    pub initial: AtomicU64,
    /// Watches ended because their clients were too slow.
    pub terminated: AtomicU64,
    /// Times that the ring of events grew.
    pub grown: AtomicU64,
    /// Consistent reads that succeeded, and that failed.
    pub consistent: [AtomicU64; 2],
    /// Comparisons with the store that found no difference, found one, or failed.
    pub compared: [AtomicU64; 3],
    waits: Mutex<Histogram>,
}

/// Result of a comparison with the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ComparisonResult {
    /// Both hold the same.
    Same,
    /// They differ.
    Different,
    /// The store did not answer.
    Unknown,
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            lists: AtomicU64::default(),
            fetched: AtomicU64::default(),
            returned: AtomicU64::default(),
            initial: AtomicU64::default(),
            terminated: AtomicU64::default(),
            grown: AtomicU64::default(),
            consistent: Default::default(),
            compared: Default::default(),
            waits: Mutex::new(Histogram::new(WAITS)),
        }
    }
}

impl Counts {
    /// Adds to a counter.
    pub fn add(count: &AtomicU64, more: usize) {
        count.fetch_add(u64::try_from(more).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// Records how long a reader waited for the cache to be fresh enough.
    pub fn waited(&self, took: Duration) {
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        waits.observe(took.as_secs_f64());
    }

    /// Counts a consistent read.
    pub fn read_consistently(&self, got: bool) {
        Self::add(&self.consistent[usize::from(!got)], 1);
    }

    /// Counts a comparison with the store.
    pub fn compared(&self, result: ComparisonResult) {
        let at = match result {
            ComparisonResult::Same => 0,
            ComparisonResult::Different => 1,
            ComparisonResult::Unknown => 2,
        };
        Self::add(&self.compared[at], 1);
    }

    /// Returns how long readers waited.
    #[must_use]
    pub fn waits(&self) -> Histogram {
        let waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        waits.clone()
    }
}
