//! VolumeZone: a pod runs in the zone and region that its volumes are labelled with.

use compact_str::CompactString;

use crate::bits::Bits;
use crate::snapshot::Snapshot;
use crate::view::PersistentVolume;

const ZONE: &str = "topology.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";

const KEYS: [&str; 4] = [BETA_ZONE, BETA_REGION, ZONE, REGION];

/// A label of a volume, of which a node must have one of the values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct VolumeTopology {
    key: &'static str,
    values: Vec<CompactString>,
}

/// Returns the zone and region labels of a volume. A label that contains an empty zone is
/// ignored.
pub(super) fn topologies(volume: &PersistentVolume) -> Vec<VolumeTopology> {
    let labels = &volume.metadata.labels;
    let read = |key: &'static str| {
        let zones = labels.get(key)?.split("__").map(str::trim);
        let values: Vec<CompactString> = zones.map(CompactString::from).collect();
        let is_valid = values.iter().all(|zone| !zone.is_empty());
        is_valid.then_some(VolumeTopology { key, values })
    };
    KEYS.into_iter().filter_map(read).collect()
}

/// Nodes that lie elsewhere. Those without any zone or region label lie nowhere in
/// particular, which suits every volume.
pub(super) fn conflicting(snapshot: &Snapshot, topologies: &[VolumeTopology]) -> Bits {
    let mut allowed = snapshot.live().clone();
    for topology in topologies {
        allowed.intersect(&labelled(snapshot, topology));
    }
    let mut conflicting = Bits::new();
    for key in KEYS {
        if let Some(nodes) = snapshot.with_label_key(key) {
            conflicting.union(nodes);
        }
    }
    conflicting.subtract(&allowed);
    conflicting
}

/// Nodes with one of the values under the key, or, where they do not have it, under the key
/// that replaced it.
fn labelled(snapshot: &Snapshot, topology: &VolumeTopology) -> Bits {
    let with = |key: &str| {
        let mut nodes = Bits::new();
        for value in &topology.values {
            if let Some(labelled) = snapshot.labelled(key, value) {
                nodes.union(labelled);
            }
        }
        nodes
    };
    let mut nodes = with(topology.key);
    let current = match topology.key {
        BETA_ZONE => ZONE,
        BETA_REGION => REGION,
        _ => return nodes,
    };
    let mut by_current = with(current);
    if let Some(with_key) = snapshot.with_label_key(topology.key) {
        by_current.subtract(with_key);
    }
    nodes.union(&by_current);
    nodes
}
