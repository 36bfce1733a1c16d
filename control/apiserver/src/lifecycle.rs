//! How far the server is from its end.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// The stages of a server's end: it is told to stop and says that it is not ready;
/// after a while, in which clients go elsewhere, watches of clients over the network
/// end and nothing new is taken; callers in the process come last.
#[derive(Debug, Default)]
pub struct Lifecycle {
    stopping: CancellationToken,
    draining: CancellationToken,
    drained: CancellationToken,
    withdrawals: watch::Sender<Withdrawals>,
    refuses: AtomicBool,
    open: Arc<AtomicUsize>,
}

/// What became of the address that servers share.
#[derive(Clone, Copy, Debug, Default)]
struct Withdrawals {
    address: Option<IpAddr>,
    /// Another server has it.
    is_withdrawn: bool,
    /// How often it was withdrawn.
    times: u64,
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
    /// closed, since their packets no longer arrive here.
    pub fn withdraw(&self, address: IpAddr) {
        self.withdrawals.send_modify(|it| {
            it.address = Some(address);
            it.is_withdrawn = true;
            it.times += 1;
        });
    }

    /// This server has the address again, and takes connections to it.
    pub fn restore(&self, address: IpAddr) {
        self.withdrawals.send_modify(|it| {
            it.is_withdrawn &= it.address != Some(address);
        });
    }

    /// For a connection that begins, whose end at this server is `local`: completes when that
    /// address is withdrawn.
    pub(crate) fn withdrawn(&self, local: Option<IpAddr>) -> impl Future<Output = ()> + use<> {
        let mut withdrawals = self.withdrawals.subscribe();
        let before = withdrawals.borrow().times;
        let local = local.map(|it| it.to_canonical());
        async move {
            let concerns = |it: &Withdrawals| {
                local.is_some() && it.address == local && (it.is_withdrawn || it.times > before)
            };
            if withdrawals.wait_for(concerns).await.is_err() {
                std::future::pending::<()>().await;
            }
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

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn connections_end_each_time_their_address_is_withdrawn() {
        let shared: IpAddr = "192.0.2.10".parse().expect("an address");
        let mapped: IpAddr = "::ffff:192.0.2.10".parse().expect("an address");
        let own: IpAddr = "192.0.2.1".parse().expect("an address");
        let lifecycle = Lifecycle::default();
        let mut others = [lifecycle.withdrawn(Some(own)), lifecycle.withdrawn(None)].map(Box::pin);
        for _ in 0..2 {
            let mut open = [shared, mapped].map(|it| Box::pin(lifecycle.withdrawn(Some(it))));
            assert!(open.iter_mut().all(|it| it.now_or_never().is_none()));
            lifecycle.withdraw(shared);
            // One that nobody had accepted yet ends, too.
            let late = lifecycle.withdrawn(Some(shared));
            assert!(late.now_or_never().is_some());
            lifecycle.restore(shared);
            assert!(open.iter_mut().all(|it| it.now_or_never().is_some()));
        }
        assert!(others.iter_mut().all(|it| it.now_or_never().is_none()));
    }
}
