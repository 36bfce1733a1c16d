//! Nodes with pods that use a claim, or that name a disk directly.

use rustc_hash::FxHashMap;

use crate::view::{ClaimKey, Pod, PodClaim};

/// Uses of claims and disks by the pods on all nodes.
#[derive(Clone, Debug, Default)]
pub struct VolumeUsage {
    /// By claim: places of the pods that use it, once for each use.
    claims: FxHashMap<ClaimKey, Vec<usize>>,
    /// By place: the number of pods that name disks directly.
    disks: FxHashMap<usize, usize>,
}

impl VolumeUsage {
    /// Places of the pods that use a claim, once for each use.
    #[must_use]
    pub fn of_claim(&self, claim: &ClaimKey) -> &[usize] {
        self.claims.get(claim).map_or(&[], Vec::as_slice)
    }

    /// Places of pods that name disks directly.
    pub fn with_disks(&self) -> impl Iterator<Item = usize> {
        self.disks.keys().copied()
    }

    pub(crate) fn add(&mut self, place: usize, pod: &Pod) {
        for claim in claims(pod) {
            self.claims.entry(claim).or_default().push(place);
        }
        if !pod.disks.is_empty() {
            *self.disks.entry(place).or_default() += 1;
        }
    }

    pub(crate) fn remove(&mut self, place: usize, pod: &Pod) {
        for claim in claims(pod) {
            if let Some(places) = self.claims.get_mut(&claim) {
                if let Some(at) = places.iter().position(|used_at| *used_at == place) {
                    places.swap_remove(at);
                }
                if places.is_empty() {
                    self.claims.remove(&claim);
                }
            }
        }
        if !pod.disks.is_empty()
            && let Some(count) = self.disks.get_mut(&place)
        {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.disks.remove(&place);
            }
        }
    }
}

/// The claims to volumes that a pod uses.
fn claims(pod: &Pod) -> impl Iterator<Item = ClaimKey> + '_ {
    pod.claims.iter().filter_map(|claim| match claim {
        PodClaim::Volume { name, .. } => Some((pod.metadata.namespace.clone(), name.clone())),
        PodClaim::Device { .. } | PodClaim::DeviceToBeMade => None,
    })
}
