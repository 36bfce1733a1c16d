//! Image files, attached as loop devices with direct I/O.
//!
//! ```text
//! <path>/volumes/<id>.img      the volume
//! <path>/snapshots/<id>.img    a snapshot
//! <path>/…/<id>.partial        one that is being made
//! ```
//!
//! On XFS and btrfs a copy shares its blocks with the original (reflink), is
//! taken in a moment and while the volume is written. Elsewhere it is a copy of
//! the bytes, of volumes that are not in use.

mod extents;
mod image;

use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use crate::backend::{
    Attachment, Backend, CopySource, Environment, Extent, Features, Inventory, Space, Usage,
    class_folder, unsupported,
};
use crate::catalog::atomic_file;
use crate::catalog::record::{SnapshotRecord, VolumeRecord};
use crate::config::{BackendKind, ClassConfig, ProvisioningMode, Wipe};
use crate::device::loop_device;
use crate::error::{Error, Result};
use crate::request::size::{self, Bounds};
use crate::steps::Step;

/// Ending of complete images.
const COMPLETE: &str = "img";

/// Ending of images that are being made.
const PARTIAL: &str = "partial";

/// Sizes are multiples of pages.
const BOUNDS: Bounds = Bounds {
    minimum: 1 << 20,
    granule: 4096,
};

/// Whether copies of files in a folder share their blocks.
///
/// # Errors
/// When no file can be written there.
pub fn shares_blocks(folder: &Path) -> Result<bool> {
    image::has_reflink(folder)
}

/// Images in a folder.
pub struct FileBackend {
    class: String,
    folder: PathBuf,
    provisioning: ProvisioningMode,
    wipe: Wipe,
    overcommit: f64,
    reflink: bool,
    environment: Environment,
}

impl FileBackend {
    /// Opens the folder of a class.
    ///
    /// # Errors
    /// When it is not there or cannot be written.
    pub fn open(class: &ClassConfig, environment: Environment) -> Result<Self> {
        let folder = class_folder(class)?;
        for part in ["volumes", "snapshots"] {
            let folder = folder.join(part);
            let made = DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&folder);
            made.map_err(Error::io("create", &folder))?;
        }
        let reflink = image::has_reflink(&folder.join("volumes"))?;
        if !reflink {
            tracing::info!(
                class = class.name,
                path = %folder.display(),
                "the file system has no reflinks: snapshots and clones copy bytes"
            );
        }
        Ok(Self {
            class: class.name.clone(),
            folder,
            provisioning: class.provisioning.unwrap_or_default(),
            wipe: class.wipe.unwrap_or(Wipe::None),
            overcommit: class.overcommit.unwrap_or(1.0),
            reflink,
            environment,
        })
    }

    fn volume(&self, id: &str) -> PathBuf {
        self.folder.join("volumes").join(format!("{id}.{COMPLETE}"))
    }

    fn snapshot_image(&self, id: &str) -> PathBuf {
        self.folder
            .join("snapshots")
            .join(format!("{id}.{COMPLETE}"))
    }

    /// Makes an image under a temporary name, and then gives it its name.
    fn make(
        &self,
        id: &str,
        path: &Path,
        fill: impl FnOnce(&Path, &fs::File) -> Result<()>,
    ) -> Result<()> {
        if path.exists() {
            return Ok(());
        }
        let partial = path.with_extension(PARTIAL);
        remove(&partial)?;
        let file = image::create(&partial)?;
        self.environment.steps.reached(Step::PartialMade, id);
        let filled = fill(&partial, &file).and_then(|()| {
            file.sync_all().map_err(Error::io("sync", &partial))?;
            fs::rename(&partial, path).map_err(Error::io("rename", &partial))
        });
        if filled.is_err() {
            // Space of a failed attempt is freed immediately.
            let _ = fs::remove_file(&partial);
        }
        filled?;
        atomic_file::sync_parent(path).map_err(Error::io("sync the folder of", path))?;
        self.environment.steps.reached(Step::ArtifactMade, id);
        Ok(())
    }

    fn copy(&self, source: &Path, live: bool, target: &Path, file: &fs::File) -> Result<()> {
        if self.reflink {
            return image::reflink(source, file, target);
        }
        if live {
            return Err(unsupported(
                &self.class,
                BackendKind::File,
                "copy a volume in use",
                "its file system has no reflinks; stop the pods that use the volume, or keep the class on XFS or btrfs",
            ));
        }
        image::copy_sparse(source, file, target)
    }

    /// Removes an image and leftovers of an interrupted creation.
    fn remove(&self, path: &Path) -> Result<()> {
        for path in [&path.with_extension(PARTIAL), path] {
            image::free(path)?;
            remove(path)?;
        }
        Ok(())
    }

    fn allocated(&self, volume: &VolumeRecord) -> u64 {
        fs::metadata(self.volume(&volume.id)).map_or(0, |it| it.blocks() * 512)
    }
}

impl Backend for FileBackend {
    fn features(&self) -> Features {
        Features {
            devices: true,
            snapshots: true,
            clones: true,
            live_copies: self.reflink,
            groups: self.reflink,
            expansion: true,
            changed_blocks: self.reflink,
            enforced_size: true,
        }
    }

    fn bounds(&self) -> Bounds {
        BOUNDS
    }

    fn create(&self, volume: &VolumeRecord, source: Option<CopySource<'_>>) -> Result<()> {
        let path = self.volume(&volume.id);
        self.make(&volume.id, &path, |partial, file| {
            match source {
                Some(CopySource::Snapshot(record)) => {
                    self.copy(&self.snapshot_image(&record.id), false, partial, file)?;
                }
                Some(CopySource::Volume { record, live }) => {
                    self.copy(&self.volume(&record.id), live, partial, file)?;
                }
                None => {}
            }
            image::grow(file, partial, volume.bytes, self.provisioning)
        })
    }

    fn delete(&self, volume: &VolumeRecord) -> Result<()> {
        let path = self.volume(&volume.id);
        self.detach(volume)?;
        self.remove(&path)?;
        if self.wipe == Wipe::Discard {
            image::trim(&self.folder)?;
        }
        self.environment
            .steps
            .reached(Step::ArtifactRemoved, &volume.id);
        Ok(())
    }

    fn expand(&self, volume: &VolumeRecord, bytes: u64) -> Result<()> {
        let path = self.volume(&volume.id);
        let file = image::open(&path)?;
        image::grow(&file, &path, bytes, self.provisioning)?;
        file.sync_all().map_err(Error::io("sync", &path))?;
        self.environment
            .steps
            .reached(Step::ArtifactGrown, &volume.id);
        for device in loop_device::find(&path)? {
            loop_device::refresh_size(&device)?;
        }
        Ok(())
    }

    fn snapshot(&self, volume: &VolumeRecord, snapshot: &SnapshotRecord, live: bool) -> Result<()> {
        let source = self.volume(&volume.id);
        let path = self.snapshot_image(&snapshot.id);
        self.make(&snapshot.id, &path, |partial, file| {
            self.copy(&source, live, partial, file)
        })
    }

    fn delete_snapshot(&self, id: &str) -> Result<()> {
        self.remove(&self.snapshot_image(id))?;
        self.environment.steps.reached(Step::ArtifactRemoved, id);
        Ok(())
    }

    fn list(&self) -> Result<Inventory> {
        let list = |part: &str| {
            let folder = self.folder.join(part);
            let entries = fs::read_dir(&folder).map_err(Error::io("list", &folder))?;
            let complete = entries
                .flatten()
                .map(|entry| entry.path())
                .filter(|path| path.extension().and_then(OsStr::to_str) == Some(COMPLETE));
            Ok(complete
                .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
                .collect())
        };
        Ok(Inventory {
            volumes: list("volumes")?,
            snapshots: list("snapshots")?,
        })
    }

    fn usage(&self, volume: &VolumeRecord) -> Result<Usage> {
        let path = self.volume(&volume.id);
        let found = fs::metadata(&path).map_err(Error::io("look at", &path))?;
        Ok(Usage {
            bytes: found.len(),
            used: found.blocks() * 512,
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
        // A volume may have more blocks than it was promised (metadata of the
        // file system below), which must not count for another.
        let (promised, allocated) = volumes.iter().fold((0_u64, 0_u64), |(all, taken), it| {
            (all + it.bytes, taken + self.allocated(it).min(it.bytes))
        });
        let available = size::available(free, total, promised, allocated, self.overcommit);
        let available = available / BOUNDS.granule * BOUNDS.granule;
        Ok(Space {
            available,
            largest: available,
            total,
            used: total.saturating_sub(found.f_bfree * found.f_frsize),
        })
    }

    fn attach(&self, volume: &VolumeRecord, read_only: bool) -> Result<Attachment> {
        loop_device::attach(&self.volume(&volume.id), read_only).map(Attachment::Device)
    }

    fn attached(&self, volume: &VolumeRecord) -> Result<Option<Attachment>> {
        let devices = loop_device::find(&self.volume(&volume.id))?;
        Ok(devices.into_iter().next().map(Attachment::Device))
    }

    fn detach(&self, volume: &VolumeRecord) -> Result<()> {
        loop_device::detach(&self.volume(&volume.id))
    }

    fn blocks(&self, snapshot: &str, base: Option<&str>) -> Result<Option<Vec<Extent>>> {
        if !self.reflink {
            return Ok(None);
        }
        let target = extents::of_file(&self.snapshot_image(snapshot))?;
        Ok(Some(match base {
            None => extents::written(&target),
            Some(base) => {
                let base = extents::of_file(&self.snapshot_image(base))?;
                extents::changed(&base, &target)
            }
        }))
    }
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("remove", path)(error))
        }
        _ => Ok(()),
    }
}
