//! VolumeRestrictions: storage that pods cannot share.
//!
//! A claim with `ReadWriteOncePod` serves one pod in the cluster; some disks that pods name
//! directly serve one pod, or one that writes, on a node.

use crate::bits::Bits;
use crate::snapshot::Snapshot;
use crate::view::{Pod, PodDisk};

use super::migration::InTreeVolume;

/// Whether two pods on one node cannot use these disks.
fn disks_conflict(disk: &PodDisk, other: &PodDisk) -> bool {
    match (disk, other) {
        (
            PodDisk::InTree {
                disk, read_only, ..
            },
            PodDisk::InTree {
                disk: other,
                read_only: other_read_only,
                ..
            },
        ) => match disk {
            InTreeVolume::AwsEbs { .. } => disk == other,
            InTreeVolume::GcePersistentDisk { .. } => {
                disk == other && !(*read_only && *other_read_only)
            }
            InTreeVolume::AzureDisk { .. }
            | InTreeVolume::Cinder { .. }
            | InTreeVolume::Portworx { .. } => false,
        },
        (
            PodDisk::Iscsi { iqn, read_only },
            PodDisk::Iscsi {
                iqn: other,
                read_only: other_read_only,
            },
        ) => iqn == other && !(*read_only && *other_read_only),
        (
            PodDisk::Rbd {
                monitors,
                pool,
                image,
                read_only,
            },
            PodDisk::Rbd {
                monitors: other_monitors,
                pool: other_pool,
                image: other_image,
                read_only: other_read_only,
            },
        ) => {
            pool == other_pool
                && image == other_image
                && !(*read_only && *other_read_only)
                && monitors.iter().any(|one| other_monitors.contains(one))
        }
        _ => false,
    }
}

/// Whether two pods cannot run on one node because of disks that they name directly.
pub(super) fn pods_conflict(pod: &Pod, other: &Pod) -> bool {
    let disks = pod.disks.iter();
    disks
        .flat_map(|disk| other.disks.iter().map(move |other| (disk, other)))
        .any(|(disk, other)| disks_conflict(disk, other))
}

/// Nodes with pods that use the disks that a pod names directly.
pub(super) fn disk_conflicts(snapshot: &Snapshot, pod: &Pod) -> Bits {
    if pod.disks.is_empty() {
        return Bits::new();
    }
    snapshot
        .volume_usage()
        .with_disks()
        .filter(|place| snapshot.live().contains(*place))
        .filter(|place| {
            let mut pods = snapshot.pods_on(*place);
            pods.any(|other| pods_conflict(pod, other))
        })
        .collect()
}
