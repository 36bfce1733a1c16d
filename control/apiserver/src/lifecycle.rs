//! How far the server is from its end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The stages of a server's end: it is told to stop and says that it is not ready;
/// after a while, in which clients go elsewhere, it takes nothing new.
#[derive(Debug, Default)]
pub struct Lifecycle {
    stopping: AtomicBool,
    refuses: AtomicBool,
    open: Arc<AtomicUsize>,
}

/// Counts a request as open until dropped.
#[derive(Debug)]
pub(crate) struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

// === impl Lifecycle ===

impl Lifecycle {
    /// The server was told to stop: from now on it is not ready.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Whether it was.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// A request begins.
    pub(crate) fn begin(&self) -> Open {
        self.open.fetch_add(1, Ordering::AcqRel);
        Open(Arc::clone(&self.open))
    }

    /// How many requests are open.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    /// From now on what comes is refused.
    pub(crate) fn refuse(&self) {
        self.refuses.store(true, Ordering::Release);
    }

    /// Whether it is.
    pub(crate) fn refuses(&self) -> bool {
        self.refuses.load(Ordering::Acquire)
    }
}
