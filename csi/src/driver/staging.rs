//! Staging: a volume's device is attached, formatted when it is blank, checked,
//! mounted and grown, once a node.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use rustix::mount::MountFlags;

use super::{Driver, Store, optional};
use crate::backend::Attachment;
use crate::catalog::record::{Content, VolumeRecord};
use crate::device::luks;
use crate::error::{Error, Result};
use crate::filesystem::{self, FsType, mounts, mounts::MountTable};
use crate::request::access::{Access, AccessKind};
use crate::request::mount_options::MountOptions;
use crate::steps::Step;

impl Driver {
    /// Stages a volume at an existing path.
    ///
    /// # Errors
    /// When there is no such volume, it is used otherwise, or cannot be mounted.
    pub fn stage(
        &self,
        id: &str,
        staging: &Path,
        access: &Access,
        secrets: &BTreeMap<String, String>,
    ) -> Result<()> {
        let _held = self.busy.change("volume", id)?;
        let (store, record) = self.volume(id)?;
        check_kind(&record, access)?;
        match &access.kind {
            AccessKind::Block => {
                let read_only = access.is_read_only();
                self.reach(&store, &record, read_only, secrets)?;
                if record.content == Content::Blank {
                    let content = Content::Block;
                    store
                        .catalog
                        .put_volume(VolumeRecord { content, ..record })?;
                    self.environment.steps.reached(Step::ContentRecorded, id);
                }
                Ok(())
            }
            AccessKind::Mount { fs_type, options } => {
                self.mount(&store, record, staging, *fs_type, options, secrets)?;
                self.environment.steps.reached(Step::Staged, id);
                Ok(())
            }
        }
    }

    /// Makes a volume's plain data reachable.
    pub(super) fn reach(
        &self,
        store: &Store,
        record: &VolumeRecord,
        read_only: bool,
        secrets: &BTreeMap<String, String>,
    ) -> Result<Attachment> {
        let key = store.key(secrets)?;
        let attachment = store.backend.attach(record, read_only)?;
        self.environment
            .steps
            .reached(Step::DeviceAttached, &record.id);
        match (&attachment, key) {
            (Attachment::Device(device), Some(key)) => {
                let may_format = record.content == Content::Blank && record.origin.is_none();
                let tools = &*self.environment.tools;
                luks::open(tools, &record.id, device, &key, may_format).map(Attachment::Device)
            }
            _ => Ok(attachment),
        }
    }

    /// Mounts a volume at a path; does nothing where it is mounted there.
    pub(super) fn mount(
        &self,
        store: &Store,
        record: VolumeRecord,
        target: &Path,
        fs_type: Option<FsType>,
        options: &MountOptions,
        secrets: &BTreeMap<String, String>,
    ) -> Result<()> {
        let device = match self.reach(store, &record, false, secrets)? {
            Attachment::Device(device) => device,
            Attachment::Folder(folder) => {
                return bind_folder(&record.id, &folder, target, options);
            }
        };
        let table = MountTable::read()?;
        if let Some(there) = table.at(target) {
            if there.source == device {
                return Ok(());
            }
            return Err(occupied(&record.id, target, &there.source));
        }
        let mounted_elsewhere = table.of_device(&device).next().is_some();
        let (mut record, fs_type) = self.formatted(store, record, &device, fs_type)?;
        let mut data = options.data(fs_type)?;
        if fs_type == FsType::Xfs {
            // A copy has the identity of its source, which may be mounted.
            data.push("nouuid".to_owned());
        }
        let tools = &*self.environment.tools;
        if !mounted_elsewhere {
            filesystem::check(tools, fs_type, &device, &record.id)?;
            if record.copied_identity {
                filesystem::renew_identity(tools, fs_type, &device, &record.id)?;
                record.copied_identity = false;
                store.catalog.put_volume(record.clone())?;
            }
            if record.filled < record.bytes
                && filesystem::grow_unmounted(tools, fs_type, &device, &record.id)?
            {
                record.filled = record.bytes;
                store.catalog.put_volume(record.clone())?;
            }
        }
        let flags = options.flags();
        mounts::mount(&device, target, fs_type.name(), flags, &data)?;
        if record.filled < record.bytes && !flags.contains(MountFlags::RDONLY) {
            self.fill(store, record, fs_type, &device, target)?;
        }
        Ok(())
    }

    /// Grows a mounted file system to the size of its device.
    pub(super) fn fill(
        &self,
        store: &Store,
        mut record: VolumeRecord,
        fs_type: FsType,
        device: &Path,
        mounted: &Path,
    ) -> Result<()> {
        let tools = &*self.environment.tools;
        filesystem::grow(tools, fs_type, device, mounted, &record.id)?;
        self.environment
            .steps
            .reached(Step::FilesystemGrown, &record.id);
        record.filled = record.bytes;
        store.catalog.put_volume(record)
    }

    /// Creates a file system on a blank volume, and returns its type.
    ///
    /// The record is written afterwards. Until then the volume was never mounted, so that
    /// an interrupted attempt can be repeated.
    fn formatted(
        &self,
        store: &Store,
        mut record: VolumeRecord,
        device: &Path,
        wanted: Option<FsType>,
    ) -> Result<(VolumeRecord, FsType)> {
        match record.content {
            Content::Filesystem(has) => {
                if let Some(wanted) = wanted.filter(|it| *it != has) {
                    let expected = format!("volume `{}` holds {}", record.id, has.name());
                    return Err(Error::invalid("fs_type", wanted.name(), expected));
                }
                Ok((record, has))
            }
            Content::Block => Err(Error::Precondition {
                id: record.id,
                reason:
                    "it was used as a block device and is not formatted: use `volumeMode: Block`"
                        .to_owned(),
            }),
            Content::Blank => {
                let class = store.class.filesystem;
                let fs_type = wanted
                    .or(record.requested)
                    .or(class)
                    .unwrap_or(FsType::Ext4);
                filesystem::make(&*self.environment.tools, fs_type, device, &record.id)?;
                self.environment
                    .steps
                    .reached(Step::FilesystemMade, &record.id);
                record.content = Content::Filesystem(fs_type);
                record.filled = record.bytes;
                store.catalog.put_volume(record.clone())?;
                self.environment
                    .steps
                    .reached(Step::ContentRecorded, &record.id);
                tracing::info!(
                    volume = record.id,
                    fs_type = fs_type.name(),
                    "volume formatted"
                );
                Ok((record, fs_type))
            }
        }
    }

    /// Unstages a volume; does nothing where it is not staged.
    ///
    /// # Errors
    /// When the volume is unknown and something is mounted at the path, or
    /// files are in use.
    pub fn unstage(&self, id: &str, staging: &Path) -> Result<()> {
        let _held = self.busy.change("volume", id)?;
        let Some((store, record)) = optional(self.volume(id))? else {
            return match MountTable::read()?.at(staging) {
                None => Ok(()),
                Some(_) => self.volume(id).map(drop),
            };
        };
        mounts::unmount_all(staging)?;
        self.environment.steps.reached(Step::StagingUnmounted, id);
        self.release(&store, &record)
    }

    /// Makes a volume unreachable when nothing is mounted any more.
    pub(super) fn release(&self, store: &Store, record: &VolumeRecord) -> Result<()> {
        if !store.mounts(record, &MountTable::read()?)?.is_empty() {
            return Ok(());
        }
        if store.is_encrypted() {
            luks::close(&*self.environment.tools, &record.id)?;
        }
        store.backend.detach(record)?;
        self.environment
            .steps
            .reached(Step::DeviceDetached, &record.id);
        Ok(())
    }
}

/// Checks that a volume is used as it was created.
pub(super) fn check_kind(record: &VolumeRecord, access: &Access) -> Result<()> {
    let block = access.kind == AccessKind::Block;
    if block == record.block {
        return Ok(());
    }
    let (wanted, has) = if block {
        ("block", "a file system")
    } else {
        ("mount", "a block device")
    };
    let expected = format!("volume `{}` was created as {has}", record.id);
    Err(Error::invalid(
        "volume_capability.access_type",
        wanted,
        expected,
    ))
}

/// Makes a folder visible at a path; does nothing where it is.
fn bind_folder(id: &str, folder: &Path, target: &Path, options: &MountOptions) -> Result<()> {
    if options.has_data() {
        let expected = "folders take generic mount flags only";
        return Err(Error::invalid(
            "mount_flags",
            "file system options",
            expected,
        ));
    }
    let table = MountTable::read()?;
    let there: Vec<&PathBuf> = table.of_folder(folder).map(|it| &it.target).collect();
    if there.iter().any(|it| *it == target) {
        return Ok(());
    }
    if let Some(other) = table.at(target) {
        return Err(occupied(id, target, &other.source));
    }
    mounts::bind(folder, target, options.flags())
}

fn occupied(id: &str, target: &Path, source: &Path) -> Error {
    Error::Precondition {
        id: id.to_owned(),
        reason: format!(
            "`{}` is mounted at `{}` already: unmount it",
            source.display(),
            target.display()
        ),
    }
}
