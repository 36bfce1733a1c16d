//! Back-off for failed pods of a DaemonSet: kubelets may reject a pod repeatedly, and
//! each would be replaced immediately.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::views::Text;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(15 * 60);
/// The delay is reset to the first one after this time without a failure.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(2 * 15 * 60);

/// A set's uid and the generation that its status is about.
type Owner = (Text, i64);

#[derive(Debug, Clone, Copy)]
struct Delay {
    delay: Duration,
    since: Instant,
}

/// Delays after failures, by set and node.
#[derive(Debug, Default)]
pub(super) struct FailedPods(Mutex<HashMap<(Owner, Text), Delay>>);

impl FailedPods {
    /// How long the failed pods of a node are left there yet.
    pub(super) fn left(&self, owner: &Owner, node: &str, now: Instant) -> Option<Duration> {
        let known = *self.lock().get(&(owner.clone(), node.into()))?;
        let left = (known.since + known.delay).saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }

    /// Notes that a failed pod of a node is replaced.
    pub(super) fn note(&self, owner: &Owner, node: &str, now: Instant) {
        let mut all = self.lock();
        all.retain(|_, known| now.saturating_duration_since(known.since) <= FORGOTTEN_AFTER);
        let key = (owner.clone(), node.into());
        let delay = all
            .get(&key)
            .map_or(FIRST, |known| (known.delay * 2).min(LONGEST));
        all.insert(key, Delay { delay, since: now });
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<(Owner, Text), Delay>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_doubles_until_it_is_forgotten() {
        let (failed, owner) = (FailedPods::default(), (Text::from("s"), 1));
        let mut now = Instant::now();
        assert_eq!(failed.left(&owner, "n", now), None);
        for seconds in [1, 2, 4] {
            failed.note(&owner, "n", now);
            assert_eq!(
                failed.left(&owner, "n", now),
                Some(Duration::from_secs(seconds))
            );
            now += Duration::from_secs(seconds);
            assert_eq!(failed.left(&owner, "n", now), None);
        }
        assert_eq!(failed.left(&owner, "m", now), None);
        now += FORGOTTEN_AFTER + Duration::from_secs(1);
        failed.note(&owner, "n", now);
        assert_eq!(failed.left(&owner, "n", now), Some(FIRST));
    }
}
