//! Values for tests.

use std::collections::BTreeMap;

use crate::catalog::record::{Content, SnapshotRecord, VolumeRecord};
use crate::config::{BackendKind, ClassConfig};

/// A class without any field but its name.
pub fn class(backend: BackendKind) -> ClassConfig {
    ClassConfig {
        name: "test".to_owned(),
        backend,
        path: None,
        volume_group: None,
        thin_pool: None,
        devices: None,
        provisioning: None,
        overcommit: None,
        filesystem: None,
        wipe: None,
        encryption: None,
        kms_endpoint: None,
        allow_unenforced_size: None,
        state_dir: None,
    }
}

/// A blank volume.
pub fn volume(id: &str, bytes: u64) -> VolumeRecord {
    VolumeRecord {
        id: id.to_owned(),
        name: id.to_owned(),
        bytes,
        origin: None,
        block: false,
        requested: None,
        content: Content::Blank,
        copied_identity: false,
        filled: 0,
        mutable: BTreeMap::new(),
        ephemeral: None,
        device: None,
        created: 1,
    }
}

/// A snapshot of a volume of one gibibyte.
pub fn snapshot(id: &str, source: &str) -> SnapshotRecord {
    SnapshotRecord {
        id: id.to_owned(),
        name: id.to_owned(),
        source: source.to_owned(),
        bytes: 1 << 30,
        content: Content::Blank,
        group: None,
        created: 1,
    }
}
