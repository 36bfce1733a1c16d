//! Publishing volumes to pods, and their view of them.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, OpenOptionsExt};
use std::path::Path;

use csi_api::Mode;
use rustix::mount::MountFlags;

use super::staging::check_kind;
use super::{Driver, Store, optional};
use crate::backend::Attachment;
use crate::catalog::record::{Content, VolumeRecord};
use crate::device::{block, luks};
use crate::error::{Error, Result};
use crate::filesystem::mounts::{self, Mount, MountTable};
use crate::request::access::{self, Access, AccessKind};
use crate::request::io_limits::IoLimits;
use crate::request::mount_options::MountOptions;
use crate::request::size::Range;
use crate::steps::Step;

/// Use of a published volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes: available, total, used.
    pub bytes: (u64, u64, u64),
    /// Inodes, where the volume is a file system with a fixed number.
    pub inodes: Option<(u64, u64, u64)>,
}

impl Driver {
    /// Publishes a staged volume at a path, whose last part is made here.
    ///
    /// # Errors
    /// When the volume is not staged, or its access mode allows no other pod.
    pub fn publish(
        &self,
        id: &str,
        staging: &Path,
        target: &Path,
        access: &Access,
        read_only: bool,
    ) -> Result<()> {
        let _held = self.busy.change("volume", id)?;
        let (store, record) = self.volume(id)?;
        check_kind(&record, access)?;
        match &access.kind {
            AccessKind::Block => self.publish_block(&store, &record, target, access, read_only)?,
            AccessKind::Mount { options, .. } => {
                let read_only = read_only || access.is_read_only();
                let flags = publication_flags(options, read_only);
                self.publish_mount(&store, &record, staging, target, access.mode, flags)?;
            }
        }
        self.environment.steps.reached(Step::Published, id);
        let limits = IoLimits::parse(&record.mutable)?;
        if !limits.is_unlimited() {
            self.limit_target(&store, &record, limits, target)?;
        }
        Ok(())
    }

    fn publish_mount(
        &self,
        store: &Store,
        record: &VolumeRecord,
        staging: &Path,
        target: &Path,
        mode: Mode,
        flags: MountFlags,
    ) -> Result<()> {
        let mounts = store.mounts(record, &MountTable::read()?)?;
        let Some(staged) = mounts.iter().find(|it| it.target == staging) else {
            return Err(Error::Precondition {
                id: record.id.clone(),
                reason: format!(
                    "it is not staged at `{}`: stage it first",
                    staging.display()
                ),
            });
        };
        let published = mounts
            .iter()
            .filter(|it| it.target != staging && is_visible(it));
        let published: Vec<&Mount> = published.collect();
        if let Some(there) = published.iter().find(|it| it.target == target) {
            let read_only = flags.contains(MountFlags::RDONLY) || staged.is_read_only();
            if there.is_read_only() == read_only {
                return Ok(());
            }
            return Err(Error::Incompatible {
                kind: "publication",
                name: record.id.clone(),
                difference: "another `readonly`".to_owned(),
            });
        }
        access::check_targets(&record.id, mode, published.len())?;
        make_folder(target)?;
        self.environment.steps.reached(Step::TargetMade, &record.id);
        mounts::bind(staging, target, flags)
    }

    fn publish_block(
        &self,
        store: &Store,
        record: &VolumeRecord,
        target: &Path,
        access: &Access,
        read_only: bool,
    ) -> Result<()> {
        if read_only && !access.is_read_only() {
            let expected = "a device is writable for all pods of its volume: remove `readOnly`";
            return Err(Error::invalid("readonly", "true", expected));
        }
        let Some(Attachment::Device(device)) = store.reachable(record)? else {
            return Err(Error::Precondition {
                id: record.id.clone(),
                reason: "it is not staged: stage it first".to_owned(),
            });
        };
        let table = MountTable::read()?;
        let published: Vec<&Mount> = table.of_node(&device).collect();
        if published.iter().any(|it| it.target == target) {
            return Ok(());
        }
        access::check_targets(&record.id, access.mode, published.len())?;
        let made = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(target);
        made.map_err(Error::io("create", target))?;
        self.environment.steps.reached(Step::TargetMade, &record.id);
        mounts::bind(&device, target, MountFlags::empty())
    }

    /// Takes a volume away from a path, and the path with it; does nothing
    /// where it is not there. An inline volume ends with it.
    ///
    /// # Errors
    /// When files are in use, or the path holds files of others.
    pub fn unpublish(&self, id: &str, target: &Path) -> Result<()> {
        let ephemeral = {
            let _held = self.busy.change("volume", id)?;
            let found = optional(self.volume(id))?;
            let table = MountTable::read()?;
            if found.is_none() && table.at(target).is_some() {
                return self.volume(id).map(drop);
            }
            mounts::unmount_all(target)?;
            self.environment.steps.reached(Step::TargetUnmounted, id);
            remove_target(target)?;
            self.environment.steps.reached(Step::TargetRemoved, id);
            match found {
                Some((store, record)) if record.ephemeral.as_deref() == Some(target) => {
                    self.release(&store, &record)?;
                    true
                }
                _ => false,
            }
        };
        if ephemeral {
            self.delete_volume(id)?;
        }
        Ok(())
    }

    /// Grows the contents of a published or staged volume to the volume's size, and
    /// before that the volume, if it is smaller than `range`.
    ///
    /// # Errors
    /// When the volume is not at the path, or there is no space.
    pub fn expand_on_node(
        &self,
        id: &str,
        path: &Path,
        range: Range,
        secrets: &BTreeMap<String, String>,
    ) -> Result<u64> {
        let (store, record) = self.volume(id)?;
        self.mounts_at(&store, &record, path)?;
        if !range.contains(record.bytes) {
            self.expand_volume(id, range)?;
        }
        let _held = self.busy.change("volume", id)?;
        let (store, record) = self.volume(id)?;
        let bytes = record.bytes;
        let mounts = self.mounts_at(&store, &record, path)?;
        if !store.backend.features().devices || (record.filled >= bytes && !record.block) {
            return Ok(bytes);
        }
        if let (Some(key), Some(Attachment::Device(device))) =
            (store.key(secrets)?, store.backend.attached(&record)?)
        {
            luks::resize(&*self.environment.tools, id, &device, &key)?;
        }
        if let (Content::Filesystem(fs_type), Some(Attachment::Device(device))) =
            (record.content, store.reachable(&record)?)
        {
            // Through a mount that may be written: XFS refuses others.
            let writable = mounts
                .iter()
                .find(|it| !it.is_read_only())
                .or(mounts.first());
            let mounted = writable.map_or(path, |it| &it.target).to_owned();
            self.fill(&store, record, fs_type, &device, &mounted)?;
        }
        Ok(bytes)
    }

    /// Returns all mounts of a volume, of which one must be at a path.
    fn mounts_at(&self, store: &Store, record: &VolumeRecord, path: &Path) -> Result<Vec<Mount>> {
        let mounts = store.mounts(record, &MountTable::read()?)?;
        if mounts.iter().any(|it| it.target == path) {
            return Ok(mounts);
        }
        // A staged device is mounted nowhere.
        if record.block && mounts.is_empty() && path.exists() && store.reachable(record)?.is_some()
        {
            return Ok(mounts);
        }
        Err(Error::NotMounted {
            id: record.id.clone(),
            path: path.to_owned(),
        })
    }

    /// Measures a published volume.
    ///
    /// # Errors
    /// When the volume is not at the path.
    pub fn stats(&self, id: &str, path: &Path) -> Result<Stats> {
        let (store, record) = self.volume(id)?;
        self.mounts_at(&store, &record, path)?;
        let kind = fs::metadata(path)
            .map_err(Error::io("look at", path))?
            .file_type();
        if kind.is_block_device() {
            let device = fs::File::open(path).map_err(Error::io("open", path))?;
            let total = block::size(&device).map_err(Error::sys("measure", path))?;
            let bytes = (0, total, total);
            return Ok(Stats {
                bytes,
                inodes: None,
            });
        }
        let found = rustix::fs::statvfs(path).map_err(Error::sys("measure", path))?;
        let inodes = (found.f_files != 0).then_some((
            found.f_favail,
            found.f_files,
            found.f_files.saturating_sub(found.f_ffree),
        ));
        let features = store.backend.features();
        if !features.devices && features.enforced_size {
            // The file system is shared: the volume's part is what its quota says.
            let usage = store.backend.usage(&record)?;
            let bytes = (
                usage.bytes.saturating_sub(usage.used),
                usage.bytes,
                usage.used,
            );
            return Ok(Stats { bytes, inodes });
        }
        let scale = found.f_frsize;
        let used = found.f_blocks.saturating_sub(found.f_bfree);
        let bytes = (found.f_bavail * scale, found.f_blocks * scale, used * scale);
        Ok(Stats { bytes, inodes })
    }
}

/// Returns the flags of a mount for one pod.
fn publication_flags(options: &MountOptions, read_only: bool) -> MountFlags {
    let mut flags = options.flags();
    flags.set(
        MountFlags::RDONLY,
        read_only || flags.contains(MountFlags::RDONLY),
    );
    flags
}

/// Returns whether a mount is visible at its path, not covered by another.
fn is_visible(mount: &Mount) -> bool {
    mount.target.exists()
}

fn make_folder(target: &Path) -> Result<()> {
    match DirBuilder::new().mode(0o750).create(target) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(Error::io("create", target)(error))
        }
        _ => Ok(()),
    }
}

/// Removes an empty folder or file.
fn remove_target(target: &Path) -> Result<()> {
    let removed = match fs::symlink_metadata(target) {
        Err(error) => Err(error),
        Ok(found) if found.is_dir() => fs::remove_dir(target),
        Ok(found) if found.len() == 0 => fs::remove_file(target),
        Ok(_) => Err(io::ErrorKind::DirectoryNotEmpty.into()),
    };
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("remove", target)(error))
        }
        _ => Ok(()),
    }
}
