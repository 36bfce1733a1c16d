//! How far the server is from its end.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use tokio_util::sync::CancellationToken;

/// The stages of a server's end: it is told to stop and says that it is not ready;
/// after a while, in which clients go elsewhere, watches of clients over the network
/// end and nothing new is taken; callers in the process come last.
#[derive(Debug, Default)]
pub struct Lifecycle {
    stopping: CancellationToken,
    draining: CancellationToken,
    drained: CancellationToken,
    withdrawn: CancellationToken,
    withdrawn_address: OnceLock<IpAddr>,
    refuses: AtomicBool,
    open: Arc<AtomicUsize>,
}

/// Counts a request as open until dropped.
#[derive(Debug)]
pub(crate) struct OpenRequest(Arc<AtomicUsize>);

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

// === impl Lifecycle ===

impl Lifecycle {
    /// The server was told to stop: from now on it is not ready.
    pub fn stop(&self) {
        self.stopping.cancel();
    }

    /// Whether it was.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.stopping.is_cancelled()
    }

    /// Cancelled once it was.
    #[must_use]
    pub fn stopping(&self) -> &CancellationToken {
        &self.stopping
    }

    /// Watches and other streams of clients over the network end. Watchers look up
    /// when they are woken next.
    pub(crate) fn drain(&self) {
        self.draining.cancel();
    }

    /// Cancelled once they do.
    #[must_use]
    pub fn draining(&self) -> &CancellationToken {
        &self.draining
    }

    /// Connections of clients over the network have ended.
    pub(crate) fn finish_drain(&self) {
        self.drained.cancel();
    }

    /// Cancelled once they have.
    #[must_use]
    pub fn drained(&self) -> &CancellationToken {
        &self.drained
    }

    /// Another server takes over one of this server's addresses. Connections to that address are
    /// closed, since their packets no longer arrive here. The first call counts.
    pub fn withdraw(&self, address: IpAddr) {
        if self.withdrawn_address.set(address).is_ok() {
            self.withdrawn.cancel();
        }
    }

    /// Completes when `local`, the server's end of a connection, is the withdrawn address.
    pub(crate) async fn withdrawn(&self, local: Option<IpAddr>) {
        self.withdrawn.cancelled().await;
        let withdrawn = self.withdrawn_address.get().copied();
        if local.map(|it| it.to_canonical()) != withdrawn {
            std::future::pending::<()>().await;
        }
    }

    /// A request begins.
    pub(crate) fn begin(&self) -> OpenRequest {
        self.open.fetch_add(1, Ordering::AcqRel);
        OpenRequest(Arc::clone(&self.open))
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
