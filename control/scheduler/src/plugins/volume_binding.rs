//! VolumeBinding: a pod runs where the volumes and devices of its claims are.

use super::{Plugin, Rejected};
use crate::bits::Bits;
use crate::snapshot::{Snapshot, Wake};
use crate::view::Pod;

pub(super) struct VolumeBinding;

impl Plugin for VolumeBinding {
    fn name(&self) -> &'static str {
        "VolumeBinding"
    }

    fn filter(&self, snapshot: &Snapshot, pod: &Pod, nodes: &mut Bits, rejected: &mut Rejected) {
        for terms in &pod.shape.volume_nodes {
            let mut any = Bits::new();
            for term in terms {
                any.union(&snapshot.matching_term(term));
            }
            let failing = nodes.retain(&any);
            rejected.add(
                &failing,
                "node(s) didn't match PersistentVolume's node affinity",
                false,
            );
        }
    }

    fn wakes(&self) -> Wake {
        Wake::NODE_ADDED.and(Wake::NODE_LABELS).and(Wake::CLAIMS)
    }
}
