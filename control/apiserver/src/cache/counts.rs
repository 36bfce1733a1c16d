//! What is counted of one resource's cache, for metrics.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use control_metrics::Histogram;

/// Upper bounds of how long readers wait, in seconds: kube-apiserver's.
const WAITS: &[f64] = &[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0,
];

/// The counts.
#[derive(Debug)]
pub struct Counts {
    /// Lists that were answered.
    pub lists: AtomicU64,
    /// Objects that were looked at for them.
    pub fetched: AtomicU64,
    /// Objects that were sent for them.
    pub returned: AtomicU64,
    /// Objects that watches began with.
    pub initial: AtomicU64,
    /// Watches that ended since their clients were too slow.
    pub terminated: AtomicU64,
    /// How often more room was made for events.
    pub grown: AtomicU64,
    /// Reads that wanted all that the store has: that got it, and that did not.
    pub consistent: [AtomicU64; 2],
    /// Comparisons with the store: without a difference, with one, and without a
    /// result.
    pub compared: [AtomicU64; 3],
    waits: Mutex<Histogram>,
}

/// What a comparison with the store showed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compared {
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
    /// More of something.
    pub fn add(count: &AtomicU64, more: usize) {
        count.fetch_add(u64::try_from(more).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// A reader waited for what it wants to be here.
    pub fn waited(&self, took: Duration) {
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        waits.observe(took.as_secs_f64());
    }

    /// A reader wanted all that the store has, and got it or not.
    pub fn read_consistently(&self, got: bool) {
        Self::add(&self.consistent[usize::from(!got)], 1);
    }

    /// It was compared with the store.
    pub fn compared(&self, result: Compared) {
        let at = match result {
            Compared::Same => 0,
            Compared::Different => 1,
            Compared::Unknown => 2,
        };
        Self::add(&self.compared[at], 1);
    }

    /// How long readers waited.
    #[must_use]
    pub fn waits(&self) -> Histogram {
        let waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        waits.clone()
    }
}
