//! Disks that pods and volumes name directly, without a CSI driver.

use compact_str::CompactString;
use serde::Deserialize;

use super::null;
use crate::volumes::migration::InTreeVolume;

/// A volume in a pod's spec that names its storage directly.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PodDisk {
    /// A disk of an in-tree plugin whose work a CSI driver took over.
    InTree {
        /// The volume's name in the pod.
        name: CompactString,
        /// The disk.
        disk: InTreeVolume,
        /// Whether it is mounted read-only.
        read_only: bool,
    },
    /// An iSCSI disk.
    Iscsi {
        /// The target's name.
        iqn: CompactString,
        /// Whether it is mounted read-only.
        read_only: bool,
    },
    /// A Ceph RBD image.
    Rbd {
        /// The monitors of the Ceph cluster.
        monitors: Box<[CompactString]>,
        /// The pool.
        pool: CompactString,
        /// The image.
        image: CompactString,
        /// Whether it is mounted read-only.
        read_only: bool,
    },
}

// === What the API server sends ===

/// `awsElasticBlockStore`, `cinder` and `portworxVolume`.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct VolumeId {
    #[serde(rename = "volumeID")]
    volume_id: CompactString,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct GcePersistentDisk {
    pd_name: CompactString,
    read_only: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(super) struct AzureDisk {
    #[serde(rename = "diskURI")]
    disk_uri: CompactString,
    kind: Option<CompactString>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Iscsi {
    iqn: CompactString,
    read_only: bool,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Rbd {
    #[serde(deserialize_with = "null::or_default")]
    monitors: Vec<CompactString>,
    pool: CompactString,
    image: CompactString,
    read_only: bool,
}

/// The in-tree volume of a source, if it is one that a CSI driver took over.
pub(super) fn in_tree(
    aws_ebs: Option<VolumeId>,
    gce_pd: Option<GcePersistentDisk>,
    azure_disk: Option<AzureDisk>,
    cinder: Option<VolumeId>,
    portworx: Option<VolumeId>,
) -> Option<InTreeVolume> {
    let aws_ebs = aws_ebs.map(|source| InTreeVolume::AwsEbs {
        volume_id: source.volume_id,
    });
    let gce_pd = || {
        gce_pd.map(|source| InTreeVolume::GcePersistentDisk {
            name: source.pd_name,
        })
    };
    let azure_disk = || {
        azure_disk.map(|source| InTreeVolume::AzureDisk {
            uri: source.disk_uri,
            kind: source.kind,
        })
    };
    let cinder = || {
        cinder.map(|source| InTreeVolume::Cinder {
            volume_id: source.volume_id,
        })
    };
    let portworx = || {
        portworx.map(|source| InTreeVolume::Portworx {
            volume_id: source.volume_id,
        })
    };
    aws_ebs
        .or_else(gce_pd)
        .or_else(azure_disk)
        .or_else(cinder)
        .or_else(portworx)
}

impl GcePersistentDisk {
    pub(super) const fn is_read_only(&self) -> bool {
        self.read_only
    }
}

impl From<Iscsi> for PodDisk {
    fn from(source: Iscsi) -> Self {
        Self::Iscsi {
            iqn: source.iqn,
            read_only: source.read_only,
        }
    }
}

impl From<Rbd> for PodDisk {
    fn from(source: Rbd) -> Self {
        // The pool that the API server sets where none is given.
        let pool = if source.pool.is_empty() {
            CompactString::const_new("rbd")
        } else {
            source.pool
        };
        Self::Rbd {
            monitors: source.monitors.into(),
            pool,
            image: source.image,
            read_only: source.read_only,
        }
    }
}
