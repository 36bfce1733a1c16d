//! How long a claim waits that this node gave back and got again: whoever selects nodes
//! may not know yet that there is no space, and would select it at once, for ever.

use std::time::{Duration, Instant};

/// The wait after the second refusal; each further one doubles it.
const FIRST: Duration = Duration::from_secs(1);
/// The longest wait.
const LONGEST: Duration = Duration::from_secs(60);

/// How often a claim was given back, and when last.
#[derive(Debug)]
pub struct Refusals {
    count: u32,
    last: Option<Instant>,
}

impl Refusals {
    /// None yet.
    pub const fn new() -> Self {
        Self {
            count: 0,
            last: None,
        }
    }

    /// Counts one.
    pub const fn again(&mut self, now: Instant) {
        self.count = self.count.saturating_add(1);
        self.last = Some(now);
    }

    /// Returns how long the claim still waits; a claim that was given back once does not.
    pub fn rest(&self, now: Instant) -> Option<Duration> {
        let until = self.last? + self.wait();
        (until > now).then(|| until - now)
    }

    /// Whether the claim did not come back for so long that the count is of no use.
    pub fn is_old(&self, now: Instant) -> bool {
        self.last
            .is_none_or(|last| now.duration_since(last) > 2 * LONGEST)
    }

    fn wait(&self) -> Duration {
        match self.count {
            0 | 1 => Duration::ZERO,
            count => FIRST.saturating_mul(1 << (count - 2).min(16)).min(LONGEST),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_that_comes_again_and_again_waits_ever_longer_up_to_a_minute() {
        let mut refusals = Refusals::new();
        let now = Instant::now();
        assert_eq!(refusals.rest(now), None);
        let mut waits = Vec::new();
        for _ in 0..10 {
            refusals.again(now);
            waits.push(refusals.rest(now).map_or(0, |rest| rest.as_secs()));
        }
        assert_eq!(waits, [0, 1, 2, 4, 8, 16, 32, 60, 60, 60]);
        assert_eq!(refusals.rest(now + LONGEST), None);
        assert!(!refusals.is_old(now + LONGEST));
        assert!(refusals.is_old(now + 3 * LONGEST));
    }
}
