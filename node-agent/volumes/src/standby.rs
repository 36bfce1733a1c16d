//! Which stock sidecars work for the driver: those that renew their lease.
//!
//! A lease counts as held while it changes ([`ObservedLease`]).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use control_client::lease::{Lease, ObservedLease};
use control_client::resources;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::driver::NAMESPACE;
use crate::shared::LoopContext;

/// How often leases are read.
const LOOK_EVERY: Duration = Duration::from_secs(20);

/// Work that a stock sidecar may do instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Duty {
    /// external-provisioner: provisioning, deletion and capacity.
    Provision,
    /// external-resizer: expansion and modification.
    Resize,
    /// external-snapshotter: VolumeSnapshotContents.
    SnapshotContent,
}

impl Duty {
    const ALL: [Self; 3] = [Self::Provision, Self::Resize, Self::SnapshotContent];

    /// Names of the leases under which sidecars of several versions do it.
    const fn leases(self) -> &'static [&'static str] {
        match self {
            Self::Provision => &["csi-orlop-dev", "external-provisioner-csi-orlop-dev"],
            Self::Resize => &["external-resizer-csi-orlop-dev"],
            Self::SnapshotContent => &["external-snapshotter-leader-csi-orlop-dev"],
        }
    }
}

#[derive(Default)]
struct State {
    seen: BTreeMap<&'static str, ObservedLease>,
    /// Whether the leases were read at all.
    is_known: bool,
}

/// Which sidecars work.
#[derive(Default)]
pub struct Standby {
    state: Mutex<State>,
}

impl Standby {
    /// Whether our own loop has to do the work: no until the leases were read once.
    pub fn is_ours(&self, duty: Duty) -> bool {
        self.is_ours_at(duty, Instant::now())
    }

    fn is_ours_at(&self, duty: Duty, now: Instant) -> bool {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let is_held = |name: &&str| {
            let lease = state.seen.get(*name);
            lease.is_some_and(|lease| lease.is_held(now, LOOK_EVERY))
        };
        state.is_known && !duty.leases().iter().any(is_held)
    }

    /// Makes all work ours, for tests.
    #[cfg(test)]
    pub fn assume_no_sidecars(&self) {
        self.note(Vec::new(), Instant::now());
    }

    /// Takes leases as they are now.
    fn note(&self, found: Vec<(&'static str, Option<Lease>)>, now: Instant) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, lease) in found {
            match state.seen.get_mut(name) {
                Some(seen) => seen.observe(lease, now),
                None => {
                    state.seen.insert(name, ObservedLease::new(lease, now));
                }
            }
        }
        state.is_known = true;
    }
}

/// Reads the leases until `shutdown`.
pub async fn watch(shared: Arc<LoopContext>, shutdown: CancellationToken) {
    let mut was_ours: BTreeMap<Duty, bool> = BTreeMap::new();
    loop {
        match read(&shared).await {
            Ok(found) => shared.standby.note(found, Instant::now()),
            Err(error) => {
                tracing::debug!(error = %error.chain(), "failed to read leases of sidecars");
            }
        }
        for duty in Duty::ALL {
            let is_ours = shared.standby.is_ours(duty);
            if was_ours.insert(duty, is_ours) == Some(!is_ours) {
                tracing::info!(
                    ?duty,
                    is_ours,
                    "responsibility for a sidecar's work changed"
                );
            }
        }
        let pause = if was_ours.values().any(|is_ours| *is_ours) {
            LOOK_EVERY
        } else {
            Duration::from_secs(5)
        };
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(pause) => {}
        }
    }
}

async fn read(
    shared: &LoopContext,
) -> Result<Vec<(&'static str, Option<Lease>)>, control_client::Error> {
    let mut found = Vec::new();
    for name in Duty::ALL.iter().flat_map(|duty| duty.leases()) {
        let lease = shared
            .client
            .get::<Lease>(&resources::LEASES, NAMESPACE, name)
            .await;
        match lease {
            Ok(lease) => found.push((*name, Some(lease))),
            Err(error) if error.is_not_found() => found.push((*name, None)),
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lease(holder: &str, renewed: u32) -> Option<Lease> {
        let lease = json!({"metadata": {"name": "l"}, "spec": {
            "holderIdentity": holder, "leaseDurationSeconds": 15,
            "renewTime": format!("2026-01-01T00:00:{renewed:02}.000000Z")}});
        Some(serde_json::from_value(lease).expect("a lease"))
    }

    #[test]
    fn a_loop_rests_while_the_lease_of_its_sidecar_is_renewed() {
        let standby = Standby::default();
        let name = "external-resizer-csi-orlop-dev";
        let mut now = Instant::now();
        assert!(
            !standby.is_ours_at(Duty::Resize, now),
            "nothing was read yet"
        );
        standby.note(vec![(name, None)], now);
        assert!(standby.is_ours_at(Duty::Resize, now));
        for renewed in 0..5 {
            standby.note(vec![(name, lease("sidecar", renewed))], now);
            assert!(!standby.is_ours_at(Duty::Resize, now));
            assert!(standby.is_ours_at(Duty::Provision, now));
            now += LOOK_EVERY;
        }
        // It renews no more.
        for _ in 0..2 {
            standby.note(vec![(name, lease("sidecar", 4))], now);
            now += LOOK_EVERY;
        }
        assert!(standby.is_ours_at(Duty::Resize, now));
        standby.note(vec![(name, lease("", 9))], now);
        assert!(standby.is_ours_at(Duty::Resize, now), "it was released");
    }
}
