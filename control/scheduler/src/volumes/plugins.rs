//! The volume plugins, over what [`VolumeState`](super::State) found out.

use super::claims::{BINDING_WAKE, LIMITS_WAKE, RESTRICTIONS_WAKE, ZONE_WAKE};
use super::hints;
use crate::bits::Bits;
use crate::cluster::Cluster;
use crate::event::Event;
use crate::plugins::{Cycle, Influence, Plugin, RejectedNodes};
use crate::snapshot::Wake;
use crate::view::Pod;

macro_rules! plugin {
    ($($(#[$doc:meta])* $plugin:ident: $name:ident, $wakes:expr;)*) => {
        $(
            $(#[$doc])*
            pub(crate) struct $plugin;

            impl Plugin for $plugin {
                fn name(&self) -> &'static str {
                    stringify!($plugin)
                }

                fn filter_cycle(
                    &self,
                    cycle: &Cycle<'_>,
                    nodes: &mut Bits,
                    rejected: &mut RejectedNodes,
                ) {
                    cycle.volumes.$name.apply(nodes, rejected);
                }

                fn influence(&self, cycle: &Cycle<'_>) -> Influence {
                    if cycle.volumes.$name.by_pods {
                        Influence::Any
                    } else {
                        Influence::None
                    }
                }

                fn wakes(&self) -> Wake {
                    $wakes
                }

                fn hint(&self, _: &Cluster, pod: &Pod, event: &Event<'_>) -> bool {
                    hints::$name(pod, event)
                }
            }
        )*
    };
}

plugin! {
    /// VolumeRestrictions: storage that pods cannot share.
    VolumeRestrictions: restrictions, RESTRICTIONS_WAKE;
    /// NodeVolumeLimits: how many volumes may be attached to a node.
    NodeVolumeLimits: limits, LIMITS_WAKE;
    /// VolumeBinding: nodes from which volumes can be reached or for which they can be made.
    VolumeBinding: binding, BINDING_WAKE;
    /// VolumeZone: zone and region labels of volumes.
    VolumeZone: zone, ZONE_WAKE;
}
