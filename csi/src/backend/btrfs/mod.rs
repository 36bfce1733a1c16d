//! btrfs subvolumes, whose size a quota group enforces.
//!
//! ```text
//! <path>/volumes/<id>      a subvolume
//! <path>/snapshots/<id>    a read-only snapshot
//! <path>/…/<id>.partial    one that is being made
//! ```
//!
//! A volume is a folder. Snapshots and clones are instantaneous and share all blocks.
//! Everything that a volume refers to counts against its size, including shared blocks.

mod subvolume;

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::backend::{
    Attachment, Backend, CopySource, Environment, Features, Inventory, Space, Usage, class_folder,
};
use crate::catalog::atomic_file;
use crate::catalog::record::{SnapshotRecord, VolumeRecord};
use crate::config::ClassConfig;
use crate::error::{Error, Result};
use crate::filesystem::mounts::MountTable;
use crate::request::size::{self, Bounds};
use crate::steps::Step;
use subvolume::SubvolumeContents;

/// Ending of subvolumes that are being made.
const PARTIAL: &str = "partial";

const BOUNDS: Bounds = Bounds {
    minimum: 1 << 20,
    granule: 4096,
};

/// Subvolumes of one file system.
pub struct BtrfsBackend {
    folder: PathBuf,
    overcommit: f64,
    /// Whether quota groups enforce sizes.
    enforced: bool,
    environment: Environment,
}

impl BtrfsBackend {
    /// Opens the folder of a class, and turns quotas on.
    ///
    /// # Errors
    /// When it is no btrfs, or quotas cannot be had and the class insists.
    pub fn open(class: &ClassConfig, environment: Environment) -> Result<Self> {
        let folder = class_folder(class)?;
        if !subvolume::is_btrfs(&folder)? {
            let path = folder.display().to_string();
            return Err(Error::invalid(
                "path",
                path,
                "must be on a btrfs file system",
            ));
        }
        for part in ["volumes", "snapshots"] {
            let folder = folder.join(part);
            let made = DirBuilder::new()
                .recursive(true)
                .mode(0o711)
                .create(&folder);
            made.map_err(Error::io("create", &folder))?;
        }
        let enforced = match subvolume::enable_quota(&folder) {
            Ok(()) => true,
            Err(error) if class.allow_unenforced_size == Some(true) => {
                tracing::warn!(
                    class = class.name,
                    error = error.chain(),
                    "sizes are not enforced"
                );
                false
            }
            Err(error) => {
                return Err(Error::Unenforced {
                    path: folder,
                    reason: format!("quotas cannot be turned on: {}", error.chain()),
                });
            }
        };
        Ok(Self {
            folder,
            overcommit: class.overcommit.unwrap_or(1.0),
            enforced,
            environment,
        })
    }

    fn volume(&self, id: &str) -> PathBuf {
        self.folder.join("volumes").join(id)
    }

    fn snapshot_folder(&self, id: &str) -> PathBuf {
        self.folder.join("snapshots").join(id)
    }

    /// Makes a subvolume under a temporary name, limits it, and then gives it
    /// its name.
    fn make(
        &self,
        id: &str,
        path: &Path,
        kind: SubvolumeContents<'_>,
        limit: Option<u64>,
    ) -> Result<()> {
        if path.exists() {
            return Ok(());
        }
        let partial = path.with_extension(PARTIAL);
        subvolume::delete(&partial)?;
        subvolume::create(&partial, kind)?;
        self.environment.steps.reached(Step::PartialMade, id);
        if let Some(bytes) = limit.filter(|_| self.enforced) {
            subvolume::limit(&partial, bytes)?;
        }
        subvolume::sync(&partial)?;
        fs::rename(&partial, path).map_err(Error::io("rename", &partial))?;
        atomic_file::sync_parent(path).map_err(Error::io("sync the folder of", path))?;
        self.environment.steps.reached(Step::ArtifactMade, id);
        Ok(())
    }

    fn remove(&self, id: &str, path: &Path) -> Result<()> {
        subvolume::delete(&path.with_extension(PARTIAL))?;
        subvolume::delete(path)?;
        self.environment.steps.reached(Step::ArtifactRemoved, id);
        Ok(())
    }
}

impl Backend for BtrfsBackend {
    fn features(&self) -> Features {
        Features {
            devices: false,
            snapshots: true,
            clones: true,
            live_copies: true,
            // Snapshots of two subvolumes are two moments.
            groups: false,
            expansion: true,
            changed_blocks: false,
            enforced_size: self.enforced,
        }
    }

    fn bounds(&self) -> Bounds {
        BOUNDS
    }

    fn create(&self, volume: &VolumeRecord, source: Option<CopySource<'_>>) -> Result<()> {
        let path = self.volume(&volume.id);
        let source = source.map(|source| match source {
            CopySource::Snapshot(record) => self.snapshot_folder(&record.id),
            CopySource::Volume { record, .. } => self.volume(&record.id),
        });
        let kind = match &source {
            None => SubvolumeContents::Empty,
            Some(source) => SubvolumeContents::Copy(source),
        };
        self.make(&volume.id, &path, kind, Some(volume.bytes))
    }

    fn delete(&self, volume: &VolumeRecord) -> Result<()> {
        let path = self.volume(&volume.id);
        if let Some(mount) = MountTable::read()?.of_folder(&path).next() {
            return Err(Error::InUse {
                kind: "volume",
                id: volume.id.clone(),
                usage: format!("at `{}`: unmount it first", mount.target.display()),
            });
        }
        self.remove(&volume.id, &path)
    }

    fn expand(&self, volume: &VolumeRecord, bytes: u64) -> Result<()> {
        let path = self.volume(&volume.id);
        if self.enforced && subvolume::usage(&path)?.bytes < bytes {
            subvolume::limit(&path, bytes)?;
        }
        self.environment
            .steps
            .reached(Step::ArtifactGrown, &volume.id);
        Ok(())
    }

    fn snapshot(
        &self,
        volume: &VolumeRecord,
        snapshot: &SnapshotRecord,
        _live: bool,
    ) -> Result<()> {
        let source = self.volume(&volume.id);
        let path = self.snapshot_folder(&snapshot.id);
        self.make(
            &snapshot.id,
            &path,
            SubvolumeContents::ReadOnlyCopy(&source),
            None,
        )
    }

    fn delete_snapshot(&self, id: &str) -> Result<()> {
        self.remove(id, &self.snapshot_folder(id))
    }

    fn list(&self) -> Result<Inventory> {
        let list = |part: &str| {
            let folder = self.folder.join(part);
            let entries = fs::read_dir(&folder).map_err(Error::io("list", &folder))?;
            let names = entries
                .flatten()
                .filter_map(|it| it.file_name().into_string().ok());
            Ok(names.filter(|name| !name.ends_with(PARTIAL)).collect())
        };
        Ok(Inventory {
            volumes: list("volumes")?,
            snapshots: list("snapshots")?,
        })
    }

    fn usage(&self, volume: &VolumeRecord) -> Result<Usage> {
        let path = self.volume(&volume.id);
        if self.enforced {
            return subvolume::usage(&path);
        }
        if !path.exists() {
            return Err(Error::io("look at", &path)(io::ErrorKind::NotFound.into()));
        }
        Ok(Usage {
            bytes: volume.bytes,
            used: 0,
        })
    }

    fn location(&self, volume: &VolumeRecord) -> PathBuf {
        self.volume(&volume.id)
    }

    fn space(&self, volumes: &[VolumeRecord]) -> Result<Space> {
        let found =
            rustix::fs::statvfs(&self.folder).map_err(Error::sys("measure", &self.folder))?;
        let total = found.f_blocks * found.f_frsize;
        let free = found.f_bavail * found.f_frsize;
        let (promised, used) = volumes.iter().fold((0_u64, 0_u64), |(all, taken), it| {
            let used = self.usage(it).map_or(0, |it| it.used);
            (all + it.bytes, taken + used.min(it.bytes))
        });
        let available = size::available(free, total, promised, used, self.overcommit);
        let available = available / BOUNDS.granule * BOUNDS.granule;
        Ok(Space {
            available,
            largest: available,
            total,
            used: total.saturating_sub(found.f_bfree * found.f_frsize),
        })
    }

    fn attach(&self, volume: &VolumeRecord, _read_only: bool) -> Result<Attachment> {
        let path = self.volume(&volume.id);
        if path.is_dir() {
            return Ok(Attachment::Folder(path));
        }
        Err(Error::io("open", &path)(io::ErrorKind::NotFound.into()))
    }

    fn attached(&self, volume: &VolumeRecord) -> Result<Option<Attachment>> {
        let path = self.volume(&volume.id);
        Ok(path.is_dir().then_some(Attachment::Folder(path)))
    }

    fn detach(&self, _volume: &VolumeRecord) -> Result<()> {
        Ok(())
    }
}
