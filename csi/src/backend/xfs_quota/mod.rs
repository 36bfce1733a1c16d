//! Folders on XFS whose size a project quota enforces.
//!
//! A volume is a folder with its own project, which its files inherit. The number of the
//! project is kept only in the folder's own attributes (`FS_IOC_FSGETXATTR`). Without
//! `prjquota` among the mount options the class is rejected, unless it sets
//! `allowUnenforcedSize: true`: then the volumes are plain folders.

mod project;

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::backend::{
    Attachment, Backend, CopySource, Environment, Features, Inventory, Space, Usage, class_folder,
    unsupported,
};
use crate::catalog::atomic_file;
use crate::catalog::record::{SnapshotRecord, VolumeRecord};
use crate::config::{BackendKind, ClassConfig};
use crate::error::{Error, Result};
use crate::filesystem::mounts::MountTable;
use crate::request::size::{self, Bounds};
use crate::steps::Step;
use crate::tool::Invocation;

/// Ending of folders that are being made or removed.
const PARTIAL: &str = "partial";

/// First number of the driver's projects; smaller ones are others'.
const FIRST_PROJECT: u32 = 1 << 20;

/// Quotas are counted in these.
const BOUNDS: Bounds = Bounds {
    minimum: 1 << 20,
    granule: 4096,
};

/// Folders with project quotas.
pub struct XfsQuotaBackend {
    class: String,
    folder: PathBuf,
    /// The mount point of the file system; `None` if sizes are not enforced.
    mount: Option<PathBuf>,
    overcommit: f64,
    environment: Environment,
    /// Taken while a number is chosen.
    projects: Mutex<()>,
}

impl XfsQuotaBackend {
    /// Opens the folder of a class.
    ///
    /// # Errors
    /// When the file system does not enforce project quotas and the class
    /// insists.
    pub fn open(class: &ClassConfig, environment: Environment) -> Result<Self> {
        let folder = class_folder(class)?;
        let table = MountTable::read()?;
        let mount = table.containing(&folder);
        let reason = match mount {
            Some(it) if it.fs_type != "xfs" => Some(format!("it is {}, not XFS", it.fs_type)),
            Some(it) if !it.super_options.split(',').any(|word| word == "prjquota") => {
                Some("XFS is mounted without `prjquota`".to_owned())
            }
            Some(_) => None,
            None => Some("its file system is not in the mount table".to_owned()),
        };
        if let Some(reason) = &reason {
            if class.allow_unenforced_size != Some(true) {
                return Err(Error::Unenforced {
                    path: folder,
                    reason: reason.clone(),
                });
            }
            tracing::warn!(class = class.name, reason, "sizes are not enforced");
        }
        let mount = mount
            .filter(|_| reason.is_none())
            .map(|it| it.target.clone());
        let volumes = folder.join("volumes");
        let made = DirBuilder::new()
            .recursive(true)
            .mode(0o711)
            .create(&volumes);
        made.map_err(Error::io("create", &volumes))?;
        Ok(Self {
            class: class.name.clone(),
            folder,
            mount,
            overcommit: class.overcommit.unwrap_or(1.0),
            environment,
            projects: Mutex::new(()),
        })
    }

    fn volume(&self, id: &str) -> PathBuf {
        self.folder.join("volumes").join(id)
    }

    /// Sets the limit of a project.
    fn limit(&self, mount: &Path, project: u32, bytes: u64, id: &str) -> Result<()> {
        let limit = format!("limit -p bhard={bytes} {project}");
        let invocation = Invocation::new("xfs_quota")
            .args(["-x", "-c", &limit])
            .arg(mount);
        let done = self.environment.tools.run(&invocation);
        done.map(drop)
            .map_err(Error::tool("limiting the size of", id))
    }

    /// Returns the smallest number that no volume has.
    fn free_project(&self) -> Result<u32> {
        let folder = self.folder.join("volumes");
        let mut taken = Vec::new();
        for entry in fs::read_dir(&folder).map_err(Error::io("list", &folder))? {
            let path = entry.map_err(Error::io("list", &folder))?.path();
            if path.is_dir() {
                taken.push(project::get(&path)?);
            }
        }
        Ok((FIRST_PROJECT..u32::MAX)
            .find(|it| !taken.contains(it))
            .unwrap_or(FIRST_PROJECT))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        match fs::remove_dir_all(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(Error::io("remove", path)(error))
            }
            _ => Ok(()),
        }
    }
}

impl Backend for XfsQuotaBackend {
    fn features(&self) -> Features {
        Features {
            expansion: true,
            enforced_size: self.mount.is_some(),
            ..Features::default()
        }
    }

    fn bounds(&self) -> Bounds {
        BOUNDS
    }

    fn create(&self, volume: &VolumeRecord, source: Option<CopySource<'_>>) -> Result<()> {
        if source.is_some() {
            let instead = "use a class of another backend";
            return Err(unsupported(
                &self.class,
                BackendKind::XfsQuota,
                "copy volumes",
                instead,
            ));
        }
        let path = self.volume(&volume.id);
        if path.exists() {
            return Ok(());
        }
        let partial = path.with_extension(PARTIAL);
        self.remove(&partial)?;
        let _turn = self.projects.lock();
        let number = match &self.mount {
            Some(_) => Some(self.free_project()?),
            None => None,
        };
        let made = DirBuilder::new().mode(0o755).create(&partial);
        made.map_err(Error::io("create", &partial))?;
        self.environment
            .steps
            .reached(Step::PartialMade, &volume.id);
        if let (Some(mount), Some(number)) = (&self.mount, number) {
            project::set(&partial, number)?;
            self.limit(mount, number, volume.bytes, &volume.id)?;
        }
        fs::rename(&partial, &path).map_err(Error::io("rename", &partial))?;
        atomic_file::sync_parent(&path).map_err(Error::io("sync the folder of", &path))?;
        self.environment
            .steps
            .reached(Step::ArtifactMade, &volume.id);
        Ok(())
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
        let partial = path.with_extension(PARTIAL);
        self.remove(&partial)?;
        if path.exists() {
            if let Some(mount) = &self.mount {
                self.limit(mount, project::get(&path)?, 0, &volume.id)?;
            }
            // Renamed immediately: removing many files takes time.
            fs::rename(&path, &partial).map_err(Error::io("rename", &path))?;
            self.remove(&partial)?;
        }
        self.environment
            .steps
            .reached(Step::ArtifactRemoved, &volume.id);
        Ok(())
    }

    fn expand(&self, volume: &VolumeRecord, bytes: u64) -> Result<()> {
        if let Some(mount) = &self.mount {
            let project = project::get(&self.volume(&volume.id))?;
            self.limit(mount, project, bytes.max(volume.bytes), &volume.id)?;
        }
        self.environment
            .steps
            .reached(Step::ArtifactGrown, &volume.id);
        Ok(())
    }

    fn snapshot(&self, _: &VolumeRecord, _: &SnapshotRecord, _: bool) -> Result<()> {
        let instead = "use a class of another backend";
        Err(unsupported(
            &self.class,
            BackendKind::XfsQuota,
            "take snapshots",
            instead,
        ))
    }

    fn delete_snapshot(&self, _id: &str) -> Result<()> {
        Ok(())
    }

    fn list(&self) -> Result<Inventory> {
        let folder = self.folder.join("volumes");
        let entries = fs::read_dir(&folder).map_err(Error::io("list", &folder))?;
        let names = entries
            .flatten()
            .filter_map(|it| it.file_name().into_string().ok());
        Ok(Inventory {
            volumes: names.filter(|name| !name.ends_with(PARTIAL)).collect(),
            ..Inventory::default()
        })
    }

    fn usage(&self, volume: &VolumeRecord) -> Result<Usage> {
        let path = self.volume(&volume.id);
        // With a project quota, XFS reports the project as if it were the file system.
        let found = rustix::fs::statvfs(&path).map_err(Error::sys("measure", &path))?;
        let used = (found.f_blocks - found.f_bfree) * found.f_frsize;
        Ok(Usage {
            bytes: volume.bytes,
            used: if self.mount.is_some() { used } else { 0 },
        })
    }

    fn location(&self, volume: &VolumeRecord) -> PathBuf {
        self.volume(&volume.id)
    }

    fn space(&self, volumes: &[VolumeRecord]) -> Result<Space> {
        let found =
            rustix::fs::statvfs(&self.folder).map_err(Error::sys("measure", &self.folder))?;
        let total = found.f_blocks * found.f_frsize;
        let (promised, used) = volumes.iter().fold((0_u64, 0_u64), |(all, taken), it| {
            let used = self.usage(it).map_or(0, |it| it.used);
            (all + it.bytes, taken + used.min(it.bytes))
        });
        let free = found.f_bavail * found.f_frsize;
        let available = size::available(free, total, promised, used, self.overcommit);
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
