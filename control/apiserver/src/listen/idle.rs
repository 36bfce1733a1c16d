//! When a connection was asked something last.
//!
//! Who asks nothing for long is sent away, as by kube-apiserver: a client that means
//! it comes back, and others would keep descriptors and memory for as long as they
//! like. Over HTTP/1.1 that is the library's matter from the first request on.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What is going on on a connection. Copies speak of the same.
#[derive(Debug, Clone)]
pub(super) struct Idle(Arc<Mutex<State>>);

#[derive(Debug)]
struct State {
    /// Requests that have not ended.
    open: usize,
    /// When the last of them ended; before there was one, when the connection began.
    since: Instant,
    /// Somebody else closes it.
    elsewhere: bool,
}

/// A request that is open until this is dropped.
#[derive(Debug)]
pub(super) struct Open(Idle);

impl Default for Idle {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(State {
            open: 0,
            since: Instant::now(),
            elsewhere: false,
        })))
    }
}

impl Idle {
    /// A request begins.
    pub fn open(&self) -> Open {
        self.change(|state| state.open += 1);
        Open(self.clone())
    }

    /// From now on somebody else closes the connection when nothing is asked.
    pub fn leave(&self) {
        self.change(|state| state.elsewhere = true);
    }

    /// Waits until nothing was asked for `limit`.
    pub async fn passed(&self, limit: Duration) {
        let mut rest = limit;
        loop {
            tokio::time::sleep(rest).await;
            match self.rest(limit, Instant::now()) {
                Some(Duration::ZERO) => return,
                // Looked at anew later; it is not told when the request ends.
                None => rest = limit,
                Some(more) => rest = more,
            }
        }
    }

    /// How long nothing may yet be asked; `None` while something is.
    fn rest(&self, limit: Duration, now: Instant) -> Option<Duration> {
        self.change(|state| {
            let idle = state.open == 0 && !state.elsewhere;
            idle.then(|| limit.saturating_sub(now.saturating_duration_since(state.since)))
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.change(|state| {
            state.open = state.open.saturating_sub(1);
            state.since = Instant::now();
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(90);

    #[test]
    fn it_is_idle_since_the_last_request_ended() {
        let idle = Idle::default();
        let start = Instant::now();
        assert!(idle.rest(LIMIT, start).is_some_and(|rest| rest <= LIMIT));
        assert_eq!(idle.rest(LIMIT, start + LIMIT), Some(Duration::ZERO));
        let (one, other) = (idle.open(), idle.open());
        drop(one);
        assert_eq!(idle.rest(LIMIT, start + LIMIT), None);
        drop(other);
        let ended = Instant::now();
        assert!(idle.rest(LIMIT, ended).is_some_and(|rest| rest <= LIMIT));
        assert_eq!(idle.rest(LIMIT, ended + LIMIT), Some(Duration::ZERO));
    }

    #[test]
    fn what_somebody_else_closes_is_not_closed_here() {
        let idle = Idle::default();
        idle.leave();
        assert_eq!(idle.rest(LIMIT, Instant::now() + LIMIT), None);
    }

    #[tokio::test]
    async fn it_has_passed_only_where_nothing_is_open() {
        let limit = Duration::from_millis(20);
        let idle = Idle::default();
        let open = idle.open();
        let waiting = tokio::time::timeout(10 * limit, idle.passed(limit));
        assert!(waiting.await.is_err());
        drop(open);
        idle.passed(limit).await;
    }
}
