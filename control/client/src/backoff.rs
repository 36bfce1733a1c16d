//! How long to wait before a request that failed is sent again.

use std::time::Duration;

use crate::error::Error;

/// Exponential back-off with jitter that stays short while the server cannot be reached.
///
/// A server that answers with errors gets more and more time. A server that cannot be
/// reached has no load to spare, so attempts to connect continue about once a second:
/// callers resume soon after it is back, however long the outage was.
#[derive(Clone, Debug)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    /// The next delay, before the jitter.
    next: Duration,
}

impl Backoff {
    /// The longest delay between two attempts to reach a server.
    pub const UNREACHABLE: Duration = Duration::from_secs(1);

    /// Returns a back-off whose delays double from `first` to `longest`.
    #[must_use]
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self {
            first,
            longest,
            next: first,
        }
    }

    /// Returns the delay after one more failure.
    pub fn after_failure(&mut self) -> Duration {
        self.advance(self.longest)
    }

    /// Returns the delay after one more failure, which is this error.
    pub fn after(&mut self, error: &Error) -> Duration {
        if error.is_unreachable() {
            self.advance(self.longest.min(Self::UNREACHABLE))
        } else {
            self.after_failure()
        }
    }

    /// Makes the next failure the first.
    pub const fn reset(&mut self) {
        self.next = self.first;
    }

    fn advance(&mut self, limit: Duration) -> Duration {
        let full = self.next.min(limit);
        self.next = full.saturating_mul(2).min(self.longest);
        // Clients that failed together do not all come back together.
        full.mul_f64(rand::random_range(0.5..=1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Status;
    use crate::transport::ConnectionError;

    fn unreachable() -> Error {
        Error::Connection(ConnectionError {
            server: "https://10.0.0.1:6443".to_owned(),
            reason: "tcp connect error: Connection refused".to_owned(),
            is_tls: false,
        })
    }

    fn backoff() -> Backoff {
        Backoff::new(Duration::from_millis(50), Duration::from_secs(15))
    }

    #[test]
    fn delays_double_up_to_the_longest() {
        let mut backoff = backoff();
        let delays: Vec<_> = (0..20).map(|_| backoff.after_failure()).collect();
        assert!(delays[0] <= Duration::from_millis(50), "{delays:?}");
        assert!(delays[1] <= Duration::from_millis(100), "{delays:?}");
        let longest = Duration::from_secs(15);
        let last = delays[19];
        assert!(last >= longest / 2 && last <= longest, "{delays:?}");
        backoff.reset();
        assert!(backoff.after_failure() <= Duration::from_millis(50));
    }

    #[test]
    fn a_server_that_cannot_be_reached_is_tried_every_second() {
        let mut backoff = backoff();
        // Whatever the server answered before it went.
        for _ in 0..20 {
            backoff.after_failure();
        }
        for _ in 0..1000 {
            let delay = backoff.after(&unreachable());
            assert!(delay <= Duration::from_secs(1), "{delay:?}");
            assert!(delay >= Duration::from_millis(500), "{delay:?}");
        }
    }

    #[test]
    fn answers_and_refused_certificates_are_no_reason_to_hurry() {
        let refused_certificate = Error::Connection(ConnectionError {
            server: String::new(),
            reason: String::new(),
            is_tls: true,
        });
        let busy = Error::from_status(Status {
            code: 429,
            ..Status::default()
        });
        for error in [refused_certificate, busy] {
            let mut backoff = backoff();
            for _ in 0..20 {
                backoff.after(&error);
            }
            let delay = backoff.after(&error);
            assert!(delay > Duration::from_secs(7), "{error}: {delay:?}");
        }
    }
}
