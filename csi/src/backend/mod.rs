//! Backends: where volumes are kept. One trait, a folder for each kind.
//!
//! Every operation is idempotent and leaves nothing half-made under a final
//! name: it may be repeated after a crash at any point.

pub mod btrfs;
pub mod file;
pub mod lvm;
pub mod lvm_thin;
pub mod raw;
pub mod xfs_quota;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use crate::catalog::record::{SnapshotRecord, VolumeRecord};
use crate::config::{BackendKind, ClassConfig};
use crate::error::{Error, Result};
use crate::request::size::Bounds;
use crate::steps::StepObserver;
use crate::tool::ToolRunner;

/// The capabilities of a backend.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Volumes are block devices; otherwise they are folders.
    pub devices: bool,
    /// Volumes can be copied as snapshots.
    pub snapshots: bool,
    /// Volumes can be copied as new volumes.
    pub clones: bool,
    /// Volumes can be copied while they are in use.
    pub live_copies: bool,
    /// Several volumes can be copied at one moment.
    pub groups: bool,
    /// Volumes can grow.
    pub expansion: bool,
    /// Blocks that changed between two snapshots are known.
    pub changed_blocks: bool,
    /// The size of a volume is enforced.
    pub enforced_size: bool,
}

/// The location of a volume's data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// A block device.
    Device(PathBuf),
    /// A folder.
    Folder(PathBuf),
}

impl Attachment {
    /// Returns the path of the device or folder.
    #[must_use]
    pub fn path(&self) -> &PathBuf {
        match self {
            Self::Device(path) | Self::Folder(path) => path,
        }
    }
}

/// The source of a copied volume.
#[derive(Clone, Copy, Debug)]
pub enum CopySource<'a> {
    /// A snapshot.
    Snapshot(&'a SnapshotRecord),
    /// A volume; `live` while it is attached.
    Volume {
        /// The volume.
        record: &'a VolumeRecord,
        /// Whether it may be written meanwhile.
        live: bool,
    },
}

impl CopySource<'_> {
    /// Returns the size of the source in bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Snapshot(record) => record.bytes,
            Self::Volume { record, .. } => record.bytes,
        }
    }
}

/// Space of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Bytes that new volumes can have together.
    pub available: u64,
    /// Bytes that the largest new volume can have.
    pub largest: u64,
    /// Bytes that the storage has.
    pub total: u64,
    /// Bytes of the storage that are taken.
    pub used: u64,
}

/// Use of one volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Size in bytes.
    pub bytes: u64,
    /// Bytes that are taken.
    pub used: u64,
}

/// Identifiers of a backend's contents.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// Volumes.
    pub volumes: BTreeSet<String>,
    /// Snapshots.
    pub snapshots: BTreeSet<String>,
}

/// A range of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// The start.
    pub offset: u64,
    /// How long it is.
    pub length: u64,
}

/// A kind of storage.
pub trait Backend: Send + Sync {
    /// Returns the capabilities of the backend.
    fn features(&self) -> Features;

    /// Returns the sizes that volumes can have.
    fn bounds(&self) -> Bounds;

    /// Chooses what a new volume needs beyond space, given the other volumes, and notes
    /// it in the record.
    ///
    /// # Errors
    /// When there is nothing left to choose from.
    fn place(&self, _record: &mut VolumeRecord, _others: &[VolumeRecord]) -> Result<()> {
        Ok(())
    }

    /// Creates a volume, or a copy of another; a volume that exists is kept.
    ///
    /// # Errors
    /// When there is no space or the source cannot be copied.
    fn create(&self, volume: &VolumeRecord, source: Option<CopySource<'_>>) -> Result<()>;

    /// Deletes a volume and leftovers of an interrupted creation; does nothing if there
    /// is none.
    ///
    /// # Errors
    /// When the volume is in use.
    fn delete(&self, volume: &VolumeRecord) -> Result<()>;

    /// Grows a volume to a size; a larger one is left alone.
    ///
    /// # Errors
    /// When there is no space.
    fn expand(&self, volume: &VolumeRecord, bytes: u64) -> Result<()>;

    /// Creates a snapshot; one that exists is kept.
    ///
    /// # Errors
    /// When the backend has no snapshots, or none of volumes in use.
    fn snapshot(&self, volume: &VolumeRecord, snapshot: &SnapshotRecord, live: bool) -> Result<()>;

    /// Deletes a snapshot and leftovers of an interrupted creation; does nothing if there
    /// is none.
    ///
    /// # Errors
    /// When it is in use.
    fn delete_snapshot(&self, id: &str) -> Result<()>;

    /// Lists the contents, whether recorded or not.
    ///
    /// # Errors
    /// When the storage cannot be read.
    fn list(&self) -> Result<Inventory>;

    /// Returns size and use of a volume.
    ///
    /// # Errors
    /// When the volume is not there.
    fn usage(&self, volume: &VolumeRecord) -> Result<Usage>;

    /// Returns where a volume's data is: an image, a folder or a device.
    fn location(&self, volume: &VolumeRecord) -> PathBuf;

    /// Returns the space that can be promised beyond existing volumes.
    ///
    /// # Errors
    /// When the storage cannot be read.
    fn space(&self, volumes: &[VolumeRecord]) -> Result<Space>;

    /// Makes a volume's data reachable; does nothing where it is.
    ///
    /// # Errors
    /// When the volume is not there.
    fn attach(&self, volume: &VolumeRecord, read_only: bool) -> Result<Attachment>;

    /// Returns where a volume's data is reachable, if it is.
    ///
    /// # Errors
    /// When the storage cannot be read.
    fn attached(&self, volume: &VolumeRecord) -> Result<Option<Attachment>>;

    /// Makes a volume's data unreachable; does nothing where it is.
    ///
    /// # Errors
    /// When the volume is in use.
    fn detach(&self, volume: &VolumeRecord) -> Result<()>;

    /// Returns the ranges of a snapshot that hold data, and with `base` those
    /// that may differ from that older snapshot; `None` where it is not known.
    ///
    /// # Errors
    /// When a snapshot is not there.
    fn blocks(&self, _snapshot: &str, _base: Option<&str>) -> Result<Option<Vec<Extent>>> {
        Ok(None)
    }
}

/// The environment of backends.
#[derive(Clone)]
pub struct Environment {
    /// Runs external programs.
    pub tools: Arc<dyn ToolRunner>,
    /// Called between steps.
    pub steps: Arc<dyn StepObserver>,
}

/// Opens the backend of a class.
///
/// # Errors
/// When the storage is missing, or does not match the class.
pub fn open(class: &ClassConfig, environment: &Environment) -> Result<Arc<dyn Backend>> {
    let environment = environment.clone();
    Ok(match class.backend {
        BackendKind::File => Arc::new(file::FileBackend::open(class, environment)?),
        BackendKind::Btrfs => Arc::new(btrfs::BtrfsBackend::open(class, environment)?),
        BackendKind::Lvm => Arc::new(lvm::LvmBackend::open(class, environment)?),
        BackendKind::LvmThin => Arc::new(lvm_thin::LvmThinBackend::open(class, environment)?),
        BackendKind::XfsQuota => Arc::new(xfs_quota::XfsQuotaBackend::open(class, environment)?),
        BackendKind::Raw => Arc::new(raw::RawBackend::open(class, environment)?),
    })
}

/// Makes an error for something that a backend cannot do.
pub(crate) fn unsupported(
    class: &str,
    kind: BackendKind,
    what: &'static str,
    instead: &str,
) -> Error {
    Error::Unsupported {
        class: class.to_owned(),
        backend: kind.name(),
        what,
        instead: instead.to_owned(),
    }
}

/// Returns the folder of a class, which must be there: a disk that is not
/// mounted must not make volumes on the disk below.
pub(crate) fn class_folder(class: &ClassConfig) -> Result<PathBuf> {
    let path = class.path.clone().unwrap_or_default();
    match std::fs::metadata(&path) {
        Ok(found) if found.is_dir() => Ok(path),
        Ok(_) => Err(Error::invalid(
            "path",
            path.display().to_string(),
            "must be a folder",
        )),
        Err(error) => Err(Error::io(
            "open (mount its disk, or create the folder)",
            &path,
        )(error)),
    }
}
