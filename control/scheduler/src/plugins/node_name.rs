//! NodeName: a pod that names its node runs nowhere else.

use super::{Cycle, Influence, Plugin, RejectedNodes};
use crate::bits::Bits;
use crate::snapshot::{Snapshot, Wake};
use crate::view::Pod;

pub(super) struct NodeName;

impl Plugin for NodeName {
    fn name(&self) -> &'static str {
        "NodeName"
    }

    fn filter(
        &self,
        snapshot: &Snapshot,
        pod: &Pod,
        nodes: &mut Bits,
        rejected: &mut RejectedNodes,
    ) {
        if !pod.node_name.is_empty() {
            let named: Bits = snapshot.place_of(&pod.node_name).into_iter().collect();
            let others = nodes.retain(&named);
            rejected.add(
                &others,
                "node(s) didn't match the requested node name",
                false,
            );
        }
    }

    fn influence(&self, _: &Cycle<'_>) -> Influence {
        Influence::None
    }

    fn wakes(&self) -> Wake {
        Wake::NODE_ADDED
    }
}
