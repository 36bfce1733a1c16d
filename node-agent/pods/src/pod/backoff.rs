//! Waiting longer and longer before something is tried again.

use std::time::Duration;

use jiff::Timestamp;

/// Exponential back-off of one operation: nothing at first, then `initial`, doubling up to
/// `longest`. It resets after a long pause.
///
/// These are the kubelet's figures for restarts of containers (10 s, 5 min)
/// and for image pulls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backoff {
    initial: Duration,
    longest: Duration,
    current: Duration,
    updated: Option<Timestamp>,
}

impl Backoff {
    /// The back-off of restarts and of image pulls.
    #[must_use]
    pub const fn restarts() -> Self {
        Self::new(Duration::from_secs(10), Duration::from_secs(300))
    }

    /// A back-off that begins with `initial` and ends with `longest`.
    #[must_use]
    pub const fn new(initial: Duration, longest: Duration) -> Self {
        Self {
            initial,
            longest,
            current: Duration::ZERO,
            updated: None,
        }
    }

    /// How long a wait is in force now.
    #[must_use]
    pub const fn current(&self) -> Duration {
        self.current
    }

    /// When the next try is due after a failure at `failed`: `None` when now.
    #[must_use]
    pub fn due(&self, failed: Timestamp, now: Timestamp) -> Option<Timestamp> {
        if self.expired(now) {
            return None;
        }
        Wait::new(failed, self.current).due(now)
    }

    /// Notes a try: the wait before the next one is the longer.
    pub fn note(&mut self, now: Timestamp) {
        self.current = if self.expired(now) {
            self.initial
        } else {
            (self.current * 2).min(self.longest)
        };
        self.updated = Some(now);
    }

    fn expired(&self, now: Timestamp) -> bool {
        self.updated
            .is_none_or(|updated| later(updated, self.longest * 2) < now)
    }
}

/// A pending retry. A clock that was set back ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wait {
    since: Timestamp,
    until: Timestamp,
}

impl Wait {
    /// So long from a time on.
    #[must_use]
    pub fn new(since: Timestamp, long: Duration) -> Self {
        Self {
            since,
            until: later(since, long),
        }
    }

    /// When it ends; none when it has.
    #[must_use]
    pub fn due(&self, now: Timestamp) -> Option<Timestamp> {
        (self.since <= now && now < self.until).then_some(self.until)
    }
}

/// `from` and `by` after it; saturating.
#[must_use]
pub fn later(from: Timestamp, by: Duration) -> Timestamp {
    let by = jiff::SignedDuration::try_from(by).unwrap_or(jiff::SignedDuration::MAX);
    from.checked_add(by).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_second(1_700_000_000 + seconds).unwrap()
    }

    #[test]
    fn first_restart_is_at_once_then_ten_seconds_doubling_to_five_minutes() {
        let mut backoff = Backoff::restarts();
        let mut now = at(0);
        let mut waits = Vec::new();
        for _ in 0..8 {
            let due = backoff.due(now, now).unwrap_or(now);
            waits.push(due.duration_since(now).as_secs());
            now = due;
            backoff.note(now);
        }
        assert_eq!(waits, [0, 10, 20, 40, 80, 160, 300, 300]);
    }

    #[test]
    fn ten_quiet_minutes_forget_the_past() {
        let mut backoff = Backoff::restarts();
        for _ in 0..6 {
            backoff.note(at(0));
        }
        assert_eq!(backoff.due(at(599), at(599)), Some(at(899)));
        assert_eq!(backoff.due(at(601), at(601)), None);
        backoff.note(at(601));
        assert_eq!(backoff.current(), Duration::from_secs(10));
    }

    #[test]
    fn a_clock_that_is_set_back_ends_waits_and_one_set_forward_too() {
        let wait = Wait::new(at(0), Duration::from_secs(10));
        assert_eq!(wait.due(at(0)), Some(at(10)));
        assert_eq!(wait.due(at(9)), Some(at(10)));
        for jumped in [-1, -3600, 10, 3600] {
            assert_eq!(wait.due(at(jumped)), None, "{jumped}");
        }
        let mut backoff = Backoff::restarts();
        backoff.note(at(0));
        assert_eq!(backoff.due(at(0), at(5)), Some(at(10)));
        assert_eq!(backoff.due(at(0), at(-3600)), None);
    }

    proptest! {
        #[test]
        fn wait_never_passes_the_longest_and_never_shrinks_while_in_use(
            steps in proptest::collection::vec(0_i64..600, 1..60)
        ) {
            let mut backoff = Backoff::restarts();
            let mut now = 0;
            let mut last = Duration::ZERO;
            for step in steps {
                now += step;
                backoff.note(at(now));
                prop_assert!(backoff.current() <= Duration::from_secs(300));
                prop_assert!(backoff.current() >= last);
                last = backoff.current();
            }
        }
    }
}
