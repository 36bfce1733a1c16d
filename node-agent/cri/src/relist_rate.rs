//! How closely the runtime is watched.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

/// How often the runtime is listed: more often for a while after a start, when changes are
/// likely.
#[derive(Debug)]
pub struct RelistRate {
    begun: Instant,
    /// Milliseconds from then on: clocks are set, this is not.
    until: AtomicU64,
    network_ready: AtomicBool,
}

impl Default for RelistRate {
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            until: AtomicU64::new(0),
            network_ready: AtomicBool::new(false),
        }
    }
}

impl RelistRate {
    /// Asks for close attention for the next seconds.
    pub fn raise(&self) {
        let until = self.elapsed() + 3000;
        self.until.fetch_max(until, Ordering::Relaxed);
    }

    /// Whether close attention is asked for.
    #[must_use]
    pub fn is_raised(&self) -> bool {
        self.until.load(Ordering::Relaxed) > self.elapsed()
    }

    fn elapsed(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Notes whether the runtime's network is ready.
    pub fn set_network_ready(&self, ready: bool) {
        self.network_ready.store(ready, Ordering::Relaxed);
    }

    /// Whether the runtime's network is ready.
    #[must_use]
    pub fn network_ready(&self) -> bool {
        self.network_ready.load(Ordering::Relaxed)
    }
}
