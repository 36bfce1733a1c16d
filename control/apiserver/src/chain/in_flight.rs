//! How many requests are answered at the same time, where priority and fairness is
//! turned off.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Two limits: of requests that read and of those that write. 0 is none.
#[derive(Debug, Clone)]
pub(super) struct InFlight {
    reads: Arc<Semaphore>,
    writes: Arc<Semaphore>,
}

// === impl InFlight ===

impl InFlight {
    pub(super) fn new(reads: usize, writes: usize) -> Self {
        let of = |limit: usize| match limit {
            0 => Semaphore::MAX_PERMITS,
            limit => limit.min(Semaphore::MAX_PERMITS),
        };
        Self {
            reads: Arc::new(Semaphore::new(of(reads))),
            writes: Arc::new(Semaphore::new(of(writes))),
        }
    }

    /// Takes a place, if there is one.
    pub(super) fn enter(&self, reads: bool) -> Option<OwnedSemaphorePermit> {
        let limit = if reads { &self.reads } else { &self.writes };
        Arc::clone(limit).try_acquire_owned().ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_and_writes_have_limits_of_their_own() {
        let limits = InFlight::new(1, 0);
        let held = limits.enter(true);
        assert!(held.is_some());
        assert!(limits.enter(true).is_none());
        assert!(limits.enter(false).is_some());
        drop(held);
        assert!(limits.enter(true).is_some());
    }
}
