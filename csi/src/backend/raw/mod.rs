//! Whole disks or partitions: each volume has its own device.
//!
//! A new volume gets the smallest free device that is large enough. It is zeroed before
//! it is assigned to a new owner, even if the class wiped it at the deletion: the disk
//! may have been used otherwise in between.

use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use crate::backend::lvm::erase;
use crate::backend::{
    Attachment, Backend, CopySource, Environment, Features, Inventory, Space, Usage, unsupported,
};
use crate::catalog::record::{SnapshotRecord, VolumeRecord};
use crate::config::{BackendKind, ClassConfig, Wipe};
use crate::device::block;
use crate::error::{Error, Result};
use crate::filesystem::mounts::MountTable;
use crate::request::size::Bounds;
use crate::steps::Step;

/// A device with its size.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Disk {
    path: PathBuf,
    bytes: u64,
}

/// The devices of a class.
pub struct RawBackend {
    class: String,
    devices: Vec<PathBuf>,
    wipe: Wipe,
    environment: Environment,
}

impl RawBackend {
    /// Opens the devices of a class.
    ///
    /// # Errors
    /// When none of them exists, or one is already mounted.
    pub fn open(class: &ClassConfig, environment: Environment) -> Result<Self> {
        let backend = Self {
            class: class.name.clone(),
            devices: class.devices.clone().unwrap_or_default(),
            wipe: class.wipe.unwrap_or(Wipe::Zero),
            environment,
        };
        if let (true, Some(first)) = (backend.disks().is_empty(), backend.devices.first()) {
            measure(first)?;
        }
        Ok(backend)
    }

    /// Returns the devices that are there.
    fn disks(&self) -> Vec<Disk> {
        let disk = |path: &PathBuf| {
            let bytes = measure(path).ok()?;
            let path = path.clone();
            Some(Disk { path, bytes })
        };
        self.devices.iter().filter_map(disk).collect()
    }

    fn free(&self, volumes: &[VolumeRecord]) -> Vec<Disk> {
        let taken: BTreeSet<&PathBuf> =
            volumes.iter().filter_map(|it| it.device.as_ref()).collect();
        let mut disks = self.disks();
        disks.retain(|it| !taken.contains(&it.path));
        disks
    }

    fn device<'a>(&self, volume: &'a VolumeRecord) -> Result<&'a PathBuf> {
        volume.device.as_ref().ok_or_else(|| Error::Precondition {
            id: volume.id.clone(),
            reason: "its record names no device: restore the record from a backup".to_owned(),
        })
    }
}

/// Returns the size of a device.
fn measure(path: &Path) -> Result<u64> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    block::size(&file).map_err(Error::sys("measure", path))
}

/// Chooses the smallest disk with at least so many bytes.
fn choose(disks: &[Disk], bytes: u64) -> Option<&Disk> {
    disks
        .iter()
        .filter(|it| it.bytes >= bytes)
        .min_by_key(|it| it.bytes)
}

impl Backend for RawBackend {
    fn features(&self) -> Features {
        Features {
            devices: true,
            enforced_size: true,
            ..Features::default()
        }
    }

    fn bounds(&self) -> Bounds {
        Bounds {
            minimum: 4096,
            granule: 1,
        }
    }

    fn place(&self, record: &mut VolumeRecord, others: &[VolumeRecord]) -> Result<()> {
        let free = self.free(others);
        let Some(disk) = choose(&free, record.bytes) else {
            return Err(Error::NoSpace {
                class: self.class.clone(),
                id: record.id.clone(),
                wanted: record.bytes,
                available: free.iter().map(|it| it.bytes).max().unwrap_or(0),
            });
        };
        if MountTable::read()?.of_device(&disk.path).next().is_some() {
            return Err(Error::InUse {
                kind: "device",
                id: disk.path.display().to_string(),
                usage: "by a mount that is not the driver's: remove it from `devices`".to_owned(),
            });
        }
        record.device = Some(disk.path.clone());
        record.bytes = disk.bytes;
        Ok(())
    }

    fn create(&self, volume: &VolumeRecord, source: Option<CopySource<'_>>) -> Result<()> {
        if source.is_some() {
            let instead = "use a class of another backend";
            return Err(unsupported(
                &self.class,
                BackendKind::Raw,
                "copy volumes",
                instead,
            ));
        }
        let device = self.device(volume)?;
        self.environment
            .steps
            .reached(Step::PartialMade, &volume.id);
        erase(device, Wipe::Zero)?;
        self.environment
            .steps
            .reached(Step::ArtifactMade, &volume.id);
        Ok(())
    }

    fn delete(&self, volume: &VolumeRecord) -> Result<()> {
        let device = self.device(volume)?;
        if device.exists() {
            let open = OpenOptions::new().write(true).open(device);
            let file = open.map_err(Error::io("open", device))?;
            block::set_read_only(&file, false).map_err(Error::sys("make writable", device))?;
            erase(device, self.wipe)?;
        }
        self.environment
            .steps
            .reached(Step::ArtifactRemoved, &volume.id);
        Ok(())
    }

    fn expand(&self, volume: &VolumeRecord, bytes: u64) -> Result<()> {
        if bytes <= measure(self.device(volume)?)? {
            return Ok(());
        }
        let instead = "create a larger volume and copy the data";
        Err(unsupported(
            &self.class,
            BackendKind::Raw,
            "grow a disk",
            instead,
        ))
    }

    fn snapshot(&self, _: &VolumeRecord, _: &SnapshotRecord, _: bool) -> Result<()> {
        let instead = "use a class of another backend";
        Err(unsupported(
            &self.class,
            BackendKind::Raw,
            "take snapshots",
            instead,
        ))
    }

    fn delete_snapshot(&self, _id: &str) -> Result<()> {
        Ok(())
    }

    fn list(&self) -> Result<Inventory> {
        // Disks carry no name of their volume: only records do.
        Ok(Inventory::default())
    }

    fn usage(&self, volume: &VolumeRecord) -> Result<Usage> {
        let bytes = measure(self.device(volume)?)?;
        Ok(Usage { bytes, used: bytes })
    }

    fn location(&self, volume: &VolumeRecord) -> PathBuf {
        volume.device.clone().unwrap_or_default()
    }

    fn space(&self, volumes: &[VolumeRecord]) -> Result<Space> {
        let free = self.free(volumes);
        let total = self.disks().iter().map(|it| it.bytes).sum();
        let available = free.iter().map(|it| it.bytes).sum();
        Ok(Space {
            available,
            largest: free.iter().map(|it| it.bytes).max().unwrap_or(0),
            total,
            used: total - available,
        })
    }

    fn attach(&self, volume: &VolumeRecord, read_only: bool) -> Result<Attachment> {
        let device = self.device(volume)?;
        let file = File::open(device).map_err(Error::io("open", device))?;
        block::set_read_only(&file, read_only).map_err(Error::sys("protect", device))?;
        Ok(Attachment::Device(device.clone()))
    }

    fn attached(&self, volume: &VolumeRecord) -> Result<Option<Attachment>> {
        let device = self.device(volume)?;
        Ok(device.exists().then(|| Attachment::Device(device.clone())))
    }

    fn detach(&self, _volume: &VolumeRecord) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_disk_that_is_large_enough_is_chosen() {
        let disk = |name: &str, bytes| Disk {
            path: name.into(),
            bytes,
        };
        let disks = [disk("a", 100), disk("b", 50), disk("c", 10)];
        assert_eq!(choose(&disks, 20), Some(&disks[1]));
        assert_eq!(choose(&disks, 100), Some(&disks[0]));
        assert_eq!(choose(&disks, 101), None);
    }
}
