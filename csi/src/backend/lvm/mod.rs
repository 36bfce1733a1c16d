//! Logical volumes of LVM that are allocated in full.
//!
//! A volume is `orlop-v-<id>`, a snapshot `orlop-s-<id>`; tags say which
//! logical volumes are the driver's, and which are not complete. A new volume
//! is zeroed before it is complete. A snapshot has as much space as its volume,
//! so that it cannot become invalid; a copy is a copy of the bytes.

pub mod report;

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::backend::{
    Attachment, Backend, CopySource, Environment, Features, Inventory, Space, Usage, unsupported,
};
use crate::catalog::record::{SnapshotRecord, VolumeRecord};
use crate::config::{BackendKind, ClassConfig, Wipe};
use crate::device::block;
use crate::error::{Error, Result};
use crate::request::size::Bounds;
use crate::steps::Step;
use crate::tool::Invocation;
use report::{LogicalVolume, PARTIAL_TAG, SNAPSHOT_TAG, VOLUME_TAG};

/// How long a copy of all bytes may take.
const COPY_PATIENCE: Duration = Duration::from_secs(6 * 3600);

/// Logical volumes of one group.
pub struct LvmBackend {
    pub(super) class: String,
    pub(super) group: String,
    pub(super) extent: u64,
    pub(super) wipe: Wipe,
    pub(super) environment: Environment,
    /// The folder of device nodes: `/dev`, except in tests.
    pub(super) devices: PathBuf,
}

/// Returns the name of a volume's logical volume.
#[must_use]
pub fn volume_name(id: &str) -> String {
    format!("orlop-v-{id}")
}

/// Returns the name of a snapshot's logical volume.
#[must_use]
pub fn snapshot_name(id: &str) -> String {
    format!("orlop-s-{id}")
}

impl LvmBackend {
    /// Opens the volume group of a class.
    ///
    /// # Errors
    /// When lvm2 is not installed or there is no such group.
    pub fn open(class: &ClassConfig, environment: Environment) -> Result<Self> {
        let group = class.volume_group.clone().unwrap_or_default();
        let described = report::group(&*environment.tools, &group)?;
        Ok(Self {
            class: class.name.clone(),
            group,
            extent: described.extent(),
            wipe: class.wipe.unwrap_or(Wipe::Zero),
            environment,
            devices: PathBuf::from("/dev"),
        })
    }

    pub(super) fn device(&self, name: &str) -> PathBuf {
        self.devices.join(&self.group).join(name)
    }

    pub(super) fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.group)
    }

    pub(super) fn run(&self, what: &'static str, invocation: &Invocation, id: &str) -> Result<()> {
        let done = self.environment.tools.run(invocation);
        done.map(drop).map_err(Error::tool(what, id))
    }

    pub(super) fn find(&self, name: &str) -> Result<Option<LogicalVolume>> {
        let all = report::volumes(&*self.environment.tools, &self.group)?;
        Ok(all.into_iter().find(|it| it.name == name))
    }

    /// Marks a logical volume as complete.
    pub(super) fn complete(&self, name: &str, id: &str) -> Result<()> {
        let untag = Invocation::new("lvchange")
            .args(["--yes", "--deltag", PARTIAL_TAG])
            .arg(self.path(name));
        self.run("completing", &untag, id)?;
        self.environment.steps.reached(Step::ArtifactMade, id);
        Ok(())
    }

    /// Removes a logical volume; does nothing if there is none.
    pub(super) fn remove(&self, name: &str, id: &str, wipe: Wipe) -> Result<()> {
        if self.find(name)?.is_some() {
            erase(&self.device(name), wipe)?;
            let remove = Invocation::new("lvremove")
                .arg("--yes")
                .arg(self.path(name));
            self.run("removing", &remove, id)?;
        }
        self.environment.steps.reached(Step::ArtifactRemoved, id);
        Ok(())
    }

    /// Returns whether a logical volume is complete; removes leftovers of an interrupted
    /// attempt.
    pub(super) fn is_complete(&self, name: &str, id: &str) -> Result<bool> {
        match self.find(name)? {
            None => Ok(false),
            Some(found) if found.has_tag(PARTIAL_TAG) => {
                let remove = Invocation::new("lvremove")
                    .arg("--yes")
                    .arg(self.path(name));
                self.run("removing", &remove, id)?;
                Ok(false)
            }
            Some(_) => Ok(true),
        }
    }

    pub(super) fn inventory(&self) -> Result<Inventory> {
        let all = report::volumes(&*self.environment.tools, &self.group)?;
        let ids = |tag: &str, prefix: &str| {
            let tagged = all
                .iter()
                .filter(|it| it.has_tag(tag) && !it.has_tag(PARTIAL_TAG));
            tagged
                .filter_map(|it| it.name.strip_prefix(prefix).map(str::to_owned))
                .collect()
        };
        Ok(Inventory {
            volumes: ids(VOLUME_TAG, "orlop-v-"),
            snapshots: ids(SNAPSHOT_TAG, "orlop-s-"),
        })
    }

    pub(super) fn extend(&self, id: &str, bytes: u64) -> Result<()> {
        let name = volume_name(id);
        let found = self.find(&name)?;
        if found.is_none_or(|it| it.bytes() < bytes) {
            let extend = Invocation::new("lvextend")
                .args(["--yes", "--size", &format!("{bytes}b")])
                .arg(self.path(&name));
            self.run("growing", &extend, id)?;
        }
        self.environment.steps.reached(Step::ArtifactGrown, id);
        Ok(())
    }

    pub(super) fn activate(&self, volume: &VolumeRecord) -> Result<Attachment> {
        let name = volume_name(&volume.id);
        let activate = Invocation::new("lvchange")
            .args(["--yes", "--activate", "y", "--ignoreactivationskip"])
            .arg(self.path(&name));
        self.run("activating", &activate, &volume.id)?;
        Ok(Attachment::Device(self.device(&name)))
    }

    /// Copies all bytes of one logical volume to another.
    fn copy(&self, from: &str, to: &str, id: &str) -> Result<()> {
        let path = |key: &str, name: &str| format!("{key}={}", self.device(name).display());
        let copy = Invocation::new("dd")
            .args([path("if", from), path("of", to)])
            .args([
                "bs=4M",
                "oflag=direct",
                "iflag=direct",
                "conv=fsync,sparse",
                "status=none",
            ])
            .timeout(COPY_PATIENCE);
        self.run("copying", &copy, id)
    }

    /// Takes a snapshot with space for all of the volume.
    fn take_snapshot(&self, from: &str, name: &str, tag: &str, bytes: u64, id: &str) -> Result<()> {
        // The table of exceptions needs space beyond the data.
        let extents = bytes.div_ceil(self.extent) + bytes.div_ceil(self.extent).div_ceil(64) + 1;
        let create = Invocation::new("lvcreate")
            .args(["--yes", "--snapshot", "--permission", "rw", "--addtag", tag])
            .args(["--extents", &extents.to_string(), "--name", name])
            .arg(self.path(from));
        self.run("taking a snapshot of", &create, id)
    }
}

/// Makes the data of a device unreadable, as its class says.
///
/// # Errors
/// When the device refuses.
pub fn erase(device: &Path, wipe: Wipe) -> Result<()> {
    if wipe == Wipe::None {
        return Ok(());
    }
    let file = OpenOptions::new()
        .write(true)
        .open(device)
        .map_err(Error::io("open", device))?;
    let size = block::size(&file).map_err(Error::sys("measure", device))?;
    let done = match wipe {
        Wipe::Discard => block::discard(&file, 0, size),
        Wipe::Zero | Wipe::None => block::zero_out(&file, 0, size),
    };
    done.map_err(Error::sys("erase", device))?;
    file.sync_all().map_err(Error::io("sync", device))
}

impl Backend for LvmBackend {
    fn features(&self) -> Features {
        Features {
            devices: true,
            snapshots: true,
            clones: true,
            live_copies: true,
            groups: false,
            expansion: true,
            changed_blocks: false,
            enforced_size: true,
        }
    }

    fn bounds(&self) -> Bounds {
        Bounds {
            minimum: self.extent,
            granule: self.extent,
        }
    }

    fn create(&self, volume: &VolumeRecord, source: Option<CopySource<'_>>) -> Result<()> {
        let (id, name) = (&volume.id, volume_name(&volume.id));
        if self.is_complete(&name, id)? {
            return Ok(());
        }
        let create = Invocation::new("lvcreate")
            .args(["--yes", "--wipesignatures", "y", "--zero", "y"])
            .args(["--addtag", VOLUME_TAG, "--addtag", PARTIAL_TAG])
            .args(["--size", &format!("{}b", volume.bytes), "--name", &name])
            .arg(&self.group);
        self.run("creating", &create, id)?;
        self.environment.steps.reached(Step::PartialMade, id);
        // `--zero` zeroes the beginning alone, and a sparse copy skips zeros.
        erase(&self.device(&name), Wipe::Zero)?;
        match source {
            None => {}
            Some(CopySource::Snapshot(record)) => {
                self.copy(&snapshot_name(&record.id), &name, id)?;
            }
            Some(CopySource::Volume { record, .. }) => {
                let passing = format!("orlop-c-{id}");
                self.remove(&passing, id, Wipe::None)?;
                let from = volume_name(&record.id);
                self.take_snapshot(&from, &passing, PARTIAL_TAG, record.bytes, id)?;
                self.copy(&passing, &name, id)?;
                self.remove(&passing, id, Wipe::None)?;
            }
        }
        self.complete(&name, id)
    }

    fn delete(&self, volume: &VolumeRecord) -> Result<()> {
        self.remove(&format!("orlop-c-{}", volume.id), &volume.id, Wipe::None)?;
        self.remove(&volume_name(&volume.id), &volume.id, self.wipe)
    }

    fn expand(&self, volume: &VolumeRecord, bytes: u64) -> Result<()> {
        let name = volume_name(&volume.id);
        let before = self.find(&name)?.map_or(0, |it| it.bytes());
        self.extend(&volume.id, bytes)?;
        // The new part may hold bytes of a former owner.
        if before < bytes {
            let device = self.device(&name);
            let file = OpenOptions::new().write(true).open(&device);
            let file = file.map_err(Error::io("open", &device))?;
            let zeroed = block::zero_out(&file, before, bytes - before);
            zeroed.map_err(Error::sys("erase", &device))?;
        }
        Ok(())
    }

    fn snapshot(
        &self,
        volume: &VolumeRecord,
        snapshot: &SnapshotRecord,
        _live: bool,
    ) -> Result<()> {
        let name = snapshot_name(&snapshot.id);
        if !self.is_complete(&name, &snapshot.id)? {
            let from = volume_name(&volume.id);
            // Complete immediately: lvm2 creates it in one transaction.
            self.take_snapshot(&from, &name, SNAPSHOT_TAG, volume.bytes, &snapshot.id)?;
            self.environment
                .steps
                .reached(Step::ArtifactMade, &snapshot.id);
        }
        Ok(())
    }

    fn delete_snapshot(&self, id: &str) -> Result<()> {
        self.remove(&snapshot_name(id), id, Wipe::None)
    }

    fn list(&self) -> Result<Inventory> {
        self.inventory()
    }

    fn usage(&self, volume: &VolumeRecord) -> Result<Usage> {
        let found = self.find(&volume_name(&volume.id))?.ok_or_else(|| {
            let what = "find it in its volume group";
            unsupported(
                &self.class,
                BackendKind::Lvm,
                what,
                "run `lvs` and restore it",
            )
        })?;
        Ok(Usage {
            bytes: found.bytes(),
            used: found.bytes(),
        })
    }

    fn location(&self, volume: &VolumeRecord) -> PathBuf {
        self.device(&volume_name(&volume.id))
    }

    fn space(&self, _volumes: &[VolumeRecord]) -> Result<Space> {
        let group = report::group(&*self.environment.tools, &self.group)?;
        Ok(Space {
            available: group.free(),
            largest: group.free(),
            total: group.bytes(),
            used: group.bytes().saturating_sub(group.free()),
        })
    }

    fn attach(&self, volume: &VolumeRecord, _read_only: bool) -> Result<Attachment> {
        self.activate(volume)
    }

    fn attached(&self, volume: &VolumeRecord) -> Result<Option<Attachment>> {
        let device = self.device(&volume_name(&volume.id));
        Ok(device.exists().then_some(Attachment::Device(device)))
    }

    fn detach(&self, _volume: &VolumeRecord) -> Result<()> {
        // Snapshots need their origin active, and an active volume costs nothing.
        Ok(())
    }
}

#[cfg(test)]
#[path = "lvm_tests.rs"]
mod tests;
