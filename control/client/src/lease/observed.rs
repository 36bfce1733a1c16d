//! Observes leases of other processes: whether another one does the work instead of this
//! one.

use std::time::Duration;

use tokio::time::Instant;

use super::Lease;

/// How long a lease without a duration counts after its last change.
const USUAL: Duration = Duration::from_secs(15);

/// A lease as it was read last, and since when it has been like this.
///
/// Times in a lease are of its holder's clock, so it counts as held while it changes by
/// our own.
#[derive(Clone, Debug)]
pub struct ObservedLease {
    lease: Option<Lease>,
    since: Instant,
}

impl ObservedLease {
    /// Takes a lease as it is read for the first time; none when it does not exist.
    #[must_use]
    pub const fn new(lease: Option<Lease>, now: Instant) -> Self {
        Self { lease, since: now }
    }

    /// Takes the lease as it is read again.
    pub fn observe(&mut self, lease: Option<Lease>, now: Instant) {
        let spec = |lease: &Option<Lease>| lease.as_ref().map(|lease| lease.spec.clone());
        if spec(&self.lease) != spec(&lease) {
            *self = Self::new(lease, now);
        }
    }

    /// Whether its holder renews it, where it is read every `period`: a renewal is seen
    /// with the next read at the latest.
    #[must_use]
    pub fn is_held(&self, now: Instant, period: Duration) -> bool {
        let Some(lease) = &self.lease else {
            return false;
        };
        let holder = lease.spec.holder_identity.as_deref().unwrap_or_default();
        let seconds = lease.spec.lease_duration_seconds;
        let seconds = seconds.and_then(|it| u64::try_from(it).ok());
        let valid = seconds.map_or(USUAL, Duration::from_secs);
        !holder.is_empty() && now.duration_since(self.since) < valid + period
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const PERIOD: Duration = Duration::from_secs(20);

    fn lease(holder: &str, renewed: u32) -> Option<Lease> {
        let lease = json!({"metadata": {"name": "l"}, "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": 15,
            "renewTime": format!("2026-01-01T00:00:{renewed:02}.000000Z")}});
        Some(serde_json::from_value(lease).expect("a lease"))
    }

    #[test]
    fn a_lease_is_held_while_it_is_renewed_and_for_its_duration_afterwards() {
        let mut now = Instant::now();
        let mut observed = ObservedLease::new(None, now);
        assert!(!observed.is_held(now, PERIOD), "there is none");
        for renewed in 0..5 {
            observed.observe(lease("other", renewed), now);
            assert!(observed.is_held(now, PERIOD));
            now += PERIOD;
        }
        // It is renewed no more.
        for _ in 0..2 {
            observed.observe(lease("other", 4), now);
            now += PERIOD;
        }
        assert!(!observed.is_held(now, PERIOD));
        observed.observe(lease("", 9), now);
        assert!(!observed.is_held(now, PERIOD), "it was released");
    }
}
