//! The configuration for a machine without one: the best backend that the machine offers,
//! with the reason for it.

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::backend::file::shares_blocks;
use crate::catalog::FOLDERS;
use crate::config::{Config, ConfigError, STATE_FOLDER};
use crate::tool::{self, Invocation, ToolRunner};

/// Folder of the volumes, if no volume group is reserved for them.
pub const FOLDER: &str = "/var/lib/orlop/volumes";

/// The volume group that is set apart for volumes by its name.
pub const VOLUME_GROUP: &str = "orlop";

/// Programs that make file systems, the preferred first.
const MAKERS: [(&str, &str); 3] = [
    ("mkfs.ext4", "ext4"),
    ("mkfs.xfs", "xfs"),
    ("mkfs.btrfs", "btrfs"),
];

/// The storage of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Machine {
    /// The folder for volumes.
    pub folder: PathBuf,
    /// Name of the folder's file system.
    pub folder_filesystem: String,
    /// Whether copies of files in the folder share their blocks.
    pub shares_blocks: bool,
    /// Whether loop devices can be made.
    pub has_loop_devices: bool,
    /// The file system for which the machine has a program.
    pub filesystem: Option<&'static str>,
    /// Thin pools of the volume group [`VOLUME_GROUP`], if there is such a group.
    pub thin_pools: Option<Vec<String>>,
}

/// A configuration with the reason for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The configuration.
    pub config: Config,
    /// The reason, as one line.
    pub reason: String,
}

/// Reason why a machine has no local volumes.
#[derive(Debug, thiserror::Error)]
pub enum NoVolumes {
    /// No program makes file systems.
    #[error("no program makes file systems: install e2fsprogs")]
    Programs,
    /// The files could not become devices.
    #[error("the kernel has no loop devices (/dev/loop-control): load the module `loop`")]
    LoopDevices,
    /// Data written there is lost.
    #[error(
        "`{}` is on {filesystem}, which a restart of the machine empties: mount a disk there",
        folder.display()
    )]
    Volatile {
        /// The folder.
        folder: PathBuf,
        /// Its file system.
        filesystem: String,
    },
    /// The folder cannot be used.
    #[error("`{}` cannot be made or read", folder.display())]
    Folder {
        /// The folder.
        folder: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// The configuration that was made is refused.
    #[error("the chosen configuration is refused")]
    Config(#[source] ConfigError),
}

/// Chooses the configuration for a machine.
///
/// # Errors
/// What the machine lacks.
pub fn choose(machine: &Machine) -> Result<Choice, NoVolumes> {
    let filesystem = machine.filesystem.ok_or(NoVolumes::Programs)?;
    let (class, reason) = match machine.thin_pools.as_deref() {
        Some([pool, ..]) => (
            format!("backend: lvm-thin, volumeGroup: {VOLUME_GROUP}, thinPool: {pool}"),
            format!(
                "volume group {VOLUME_GROUP} has thin pool {pool}: disks without a file system between, and snapshots that share blocks"
            ),
        ),
        Some([]) => (
            format!("backend: lvm, volumeGroup: {VOLUME_GROUP}"),
            format!(
                "there is a volume group {VOLUME_GROUP}, without a thin pool: each snapshot reserves the size of its volume"
            ),
        ),
        None => (folder_class(machine)?, folder_reason(machine)),
    };
    let text = format!(
        "apiVersion: {}\nkind: {}\nclasses:\n- {{name: local, {class}, filesystem: {filesystem}}}\n",
        crate::config::API_VERSION,
        crate::config::KIND,
    );
    let config = Config::parse(&text).map_err(NoVolumes::Config)?;
    Ok(Choice { config, reason })
}

fn folder_class(machine: &Machine) -> Result<String, NoVolumes> {
    if !machine.has_loop_devices {
        return Err(NoVolumes::LoopDevices);
    }
    if matches!(machine.folder_filesystem.as_str(), "tmpfs" | "ramfs") {
        return Err(NoVolumes::Volatile {
            folder: machine.folder.clone(),
            filesystem: machine.folder_filesystem.clone(),
        });
    }
    Ok(format!("backend: file, path: {}", machine.folder.display()))
}

fn folder_reason(machine: &Machine) -> String {
    let (folder, filesystem) = (machine.folder.display(), &machine.folder_filesystem);
    if machine.shares_blocks {
        return format!(
            "{folder} is on {filesystem}, whose copies share blocks: snapshots and clones take a moment"
        );
    }
    format!(
        "{folder} is on {filesystem}, without reflinks: snapshots and clones copy all bytes, of volumes at rest"
    )
}

/// Looks at the machine, and makes the folder for volumes if it is missing.
///
/// # Errors
/// When the folder cannot be made or read.
pub fn survey(tools: &dyn ToolRunner, folder: &Path) -> Result<Machine, NoVolumes> {
    let failed = |source: io::Error| NoVolumes::Folder {
        folder: folder.to_owned(),
        source,
    };
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(0o700);
    builder.create(folder).map_err(failed)?;
    let found = rustix::fs::statfs(folder).map_err(|errno| failed(errno.into()))?;
    let filesystem = MAKERS.into_iter().find(|(program, _)| is_program(program));
    Ok(Machine {
        folder: folder.to_owned(),
        folder_filesystem: filesystem_name(found.f_type as u64),
        shares_blocks: shares_blocks(folder).unwrap_or(false),
        has_loop_devices: Path::new("/dev/loop-control").exists(),
        filesystem: filesystem.map(|(_, filesystem)| filesystem),
        thin_pools: thin_pools(tools),
    })
}

fn is_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_else(|| tool::DEFAULT_PATH.into());
    std::env::split_paths(&path).any(|folder| folder.join(name).is_file())
}

/// Returns the kernel's name of a file system, by the number that statfs(2) tells.
fn filesystem_name(magic: u64) -> String {
    let name = match magic & 0xffff_ffff {
        0xef53 => "ext4",
        0x5846_5342 => "xfs",
        0x9123_683e => "btrfs",
        0x0102_1994 => "tmpfs",
        0x8584_58f6 => "ramfs",
        0x794c_7630 => "overlay",
        0x2fc1_2fc1 => "zfs",
        other => return format!("a file system of type {other:#x}"),
    };
    name.to_owned()
}

/// Returns the thin pools of the group, or nothing without the group or lvm2.
fn thin_pools(tools: &dyn ToolRunner) -> Option<Vec<String>> {
    let command = |program| Invocation::new(program).args(["--reportformat", "json", "--nosuffix"]);
    let group = command("vgs").args(["-o", "vg_name"]).arg(VOLUME_GROUP);
    tool::report::<serde_json::Value>(tools, &group).ok()?;
    let pools = command("lvs")
        .args(["-o", "lv_name", "-S", "segtype=thin-pool"])
        .arg(VOLUME_GROUP);
    let report: serde_json::Value = tool::report(tools, &pools).ok()?;
    let all = report.pointer("/report/0/lv")?.as_array()?.iter();
    Some(
        all.filter_map(|pool| Some(pool["lv_name"].as_str()?.trim().to_owned()))
            .collect(),
    )
}

/// Folders of volumes and of snapshots, below that of the driver.
const DATA: [&str; 2] = ["volumes", "snapshots"];

/// Removes what the driver keeps in its folder, and the folder, if no volume and no snapshot is
/// there, and no driver runs; returns whether that is so. Other files stay, and so does a mount
/// point.
///
/// # Errors
/// What cannot be read or removed.
pub fn remove_unused(folder: &Path) -> io::Result<bool> {
    let state = folder.join(STATE_FOLDER);
    let data = DATA.map(|it| folder.join(it));
    let records = FOLDERS.map(|it| state.join(it));
    for used in data.iter().chain(&records) {
        match fs::read_dir(used) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
            Ok(mut entries) => {
                if entries.next().transpose()?.is_some() {
                    return Ok(false);
                }
            }
        }
    }
    match File::open(state.join("lock")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
        Ok(lock) => match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(false),
            Err(TryLockError::Error(error)) => return Err(error),
        },
    }
    for ours in data.iter().chain([&state]) {
        match fs::remove_dir_all(ours) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    let _ = fs::remove_dir(folder);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::BackendKind;
    use crate::tool::SystemRunner;

    fn machine(filesystem: &str) -> Machine {
        Machine {
            folder: FOLDER.into(),
            folder_filesystem: filesystem.to_owned(),
            shares_blocks: matches!(filesystem, "xfs" | "btrfs"),
            has_loop_devices: true,
            filesystem: Some("ext4"),
            thin_pools: None,
        }
    }

    #[test]
    fn a_folder_without_volumes_is_removed_and_one_with_a_volume_stays() {
        let parent = tempfile::tempdir().expect("a folder");
        let folder = parent.path().join("volumes");
        assert!(remove_unused(&folder).expect("removed"), "it is not there");
        let state = folder.join(STATE_FOLDER);
        let records = FOLDERS.map(|it| state.join(it));
        for used in DATA.map(|it| folder.join(it)).iter().chain(&records) {
            fs::create_dir_all(used).expect("a folder");
        }
        fs::write(state.join("lock"), "").expect("a file");
        let volume = folder.join("volumes/pvc-1");
        fs::write(&volume, "data").expect("a volume");
        assert!(!remove_unused(&folder).expect("read"));
        assert_eq!(fs::read_to_string(&volume).expect("the volume"), "data");
        fs::remove_file(&volume).expect("removed");
        let lock = File::open(state.join("lock")).expect("the lock");
        lock.lock().expect("locked");
        assert!(!remove_unused(&folder).expect("read"), "a driver runs");
        drop(lock);
        let other = folder.join("lost+found");
        fs::create_dir(&other).expect("a folder");
        assert!(remove_unused(&folder).expect("removed"));
        assert!(other.is_dir() && !state.exists());
        fs::remove_dir(&other).expect("removed");
        assert!(remove_unused(&folder).expect("removed"));
        assert!(!folder.exists());
    }

    #[test]
    fn disks_that_are_set_apart_are_better_than_files_and_thin_pools_better_than_plain_ones() {
        let chosen = |machine: &Machine| {
            let choice = choose(machine).expect("a choice");
            assert!(!choice.reason.contains('\n'));
            let [class] = choice.config.classes.as_slice() else {
                panic!("{choice:?}");
            };
            (class.backend, choice.reason)
        };
        let (backend, reason) = chosen(&machine("xfs"));
        assert_eq!(backend, BackendKind::File);
        assert!(reason.contains("share blocks"), "{reason}");
        let (backend, reason) = chosen(&machine("ext4"));
        assert_eq!(backend, BackendKind::File);
        assert!(reason.contains("copy all bytes"), "{reason}");
        let with_pools = |pools: &[&str]| Machine {
            thin_pools: Some(pools.iter().map(|it| (*it).to_owned()).collect()),
            ..machine("ext4")
        };
        assert_eq!(chosen(&with_pools(&[])).0, BackendKind::Lvm);
        assert_eq!(chosen(&with_pools(&["pool0"])).0, BackendKind::LvmThin);
    }

    #[test]
    fn what_a_machine_lacks_is_said_with_the_way_out() {
        let error = |machine: Machine| choose(&machine).expect_err("an error").to_string();
        let without = Machine {
            filesystem: None,
            ..machine("ext4")
        };
        assert!(error(without).contains("install e2fsprogs"));
        assert!(error(machine("tmpfs")).contains("mount a disk there"));
        let without = Machine {
            has_loop_devices: false,
            ..machine("ext4")
        };
        assert!(error(without).contains("module `loop`"));
    }

    #[test]
    fn a_survey_makes_the_folder_and_names_its_file_system() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = dir.path().join("a/volumes");
        let machine = survey(&SystemRunner, &folder).expect("a machine");
        assert!(folder.is_dir());
        assert!(!machine.folder_filesystem.is_empty());
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 0);
    }
}
