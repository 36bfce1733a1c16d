//! Subvolumes and quota groups, through the kernel's own calls (`linux/btrfs.h`): there
//! is no tool output to parse, and no dependency on a tool's version.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::ioctl::{self, Getter, NoArg, Opcode, Setter, Updater, opcode};

use crate::backend::Usage;
use crate::error::{Error, Result};

const MAGIC: u8 = 0x94;
const BTRFS_SUPER_MAGIC: i64 = 0x9123_683E;
const FIRST_FREE_OBJECTID: u64 = 256;
const SUBVOL_RDONLY: u64 = 1 << 1;
const QUOTA_CTL_ENABLE: u64 = 1;
const QGROUP_LIMIT_MAX_RFER: u64 = 1;

/// Folders that are looked through for nested subvolumes, at most.
const NESTED_LIMIT: usize = 100_000;

/// `struct btrfs_ioctl_vol_args`.
#[repr(C)]
struct VolumeArguments {
    fd: i64,
    name: [u8; 4088],
}

/// `struct btrfs_ioctl_vol_args_v2`.
#[repr(C)]
struct SnapshotArguments {
    fd: i64,
    transaction: u64,
    flags: u64,
    unused: [u64; 4],
    name: [u8; 4040],
}

/// `struct btrfs_ioctl_quota_ctl_args`.
#[repr(C)]
struct QuotaControl {
    command: u64,
    status: u64,
}

/// `struct btrfs_ioctl_qgroup_limit_args`.
#[repr(C)]
struct QgroupLimit {
    id: u64,
    flags: u64,
    max_referenced: u64,
    max_exclusive: u64,
    reserved_referenced: u64,
    reserved_exclusive: u64,
}

/// `struct btrfs_ioctl_ino_lookup_args`.
#[repr(C)]
struct InodeLookup {
    tree: u64,
    object: u64,
    name: [u8; 4080],
}

/// The part of `struct btrfs_ioctl_fs_info_args` that is read.
#[repr(C)]
#[derive(Clone, Copy)]
struct FilesystemInfo {
    max_id: u64,
    devices: u64,
    id: [u8; 16],
    rest: [u8; 992],
}

const SUBVOL_CREATE: Opcode = opcode::write::<VolumeArguments>(MAGIC, 14);
const SNAP_DESTROY: Opcode = opcode::write::<VolumeArguments>(MAGIC, 15);
const INO_LOOKUP: Opcode = opcode::read_write::<InodeLookup>(MAGIC, 18);
const SNAP_CREATE_V2: Opcode = opcode::write::<SnapshotArguments>(MAGIC, 23);
const SYNC: Opcode = opcode::none(MAGIC, 8);
const FS_INFO: Opcode = opcode::read::<FilesystemInfo>(MAGIC, 31);
const QUOTA_CTL: Opcode = opcode::read_write::<QuotaControl>(MAGIC, 40);
const QGROUP_LIMIT: Opcode = opcode::read::<QgroupLimit>(MAGIC, 43);
const QUOTA_RESCAN_WAIT: Opcode = opcode::none(MAGIC, 46);

/// The initial contents of a subvolume.
#[derive(Clone, Copy)]
pub(super) enum SubvolumeContents<'a> {
    /// Nothing.
    Empty,
    /// The contents of another one.
    Copy(&'a Path),
    /// The same, and it never changes.
    ReadOnlyCopy(&'a Path),
}

/// Whether a folder is on btrfs.
pub(super) fn is_btrfs(folder: &Path) -> Result<bool> {
    let found = rustix::fs::statfs(folder).map_err(Error::sys("measure", folder))?;
    Ok(found.f_type == BTRFS_SUPER_MAGIC)
}

/// Turns quotas on; does nothing where they are.
pub(super) fn enable_quota(folder: &Path) -> Result<()> {
    if quota_folder(folder)?.exists() {
        return Ok(());
    }
    let file = open(folder)?;
    let mut control = QuotaControl {
        command: QUOTA_CTL_ENABLE,
        status: 0,
    };
    // SAFETY: the call reads and writes one `btrfs_ioctl_quota_ctl_args`.
    unsafe { ioctl::ioctl(&file, Updater::<QUOTA_CTL, QuotaControl>::new(&mut control)) }
        .map_err(Error::sys("turn quotas on for", folder))?;
    // SAFETY: the call takes no argument.
    unsafe { ioctl::ioctl(&file, NoArg::<QUOTA_RESCAN_WAIT>::new()) }
        .map_err(Error::sys("wait for the quotas of", folder))
}

/// Creates a subvolume or a snapshot.
pub(super) fn create(path: &Path, kind: SubvolumeContents<'_>) -> Result<()> {
    let (parent, name) = split(path)?;
    let folder = open(parent)?;
    let (source, flags) = match kind {
        SubvolumeContents::Empty => {
            let arguments = VolumeArguments {
                fd: 0,
                name: fixed(name),
            };
            // SAFETY: the call reads one `btrfs_ioctl_vol_args`.
            return unsafe {
                ioctl::ioctl(
                    &folder,
                    Setter::<SUBVOL_CREATE, VolumeArguments>::new(arguments),
                )
            }
            .map_err(Error::sys("create the subvolume", path));
        }
        SubvolumeContents::Copy(source) => (source, 0),
        SubvolumeContents::ReadOnlyCopy(source) => (source, SUBVOL_RDONLY),
    };
    let source = open(source)?;
    let arguments = SnapshotArguments {
        fd: source.as_raw_fd().into(),
        transaction: 0,
        flags,
        unused: [0; 4],
        name: fixed(name),
    };
    // SAFETY: the call reads one `btrfs_ioctl_vol_args_v2`.
    unsafe {
        ioctl::ioctl(
            &folder,
            Setter::<SNAP_CREATE_V2, SnapshotArguments>::new(arguments),
        )
    }
    .map_err(Error::sys("create the snapshot", path))
}

/// Deletes a subvolume with those that its user created in it; does nothing if there is
/// none.
pub(super) fn delete(path: &Path) -> Result<()> {
    match destroy(path) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::NOTEMPTY | Errno::PERM) => {}
        Err(error) => return Err(Error::sys("delete the subvolume", path)(error)),
    }
    for nested in nested(path)? {
        match destroy(&nested) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(Error::sys("delete the subvolume", &nested)(error)),
        }
    }
    match destroy(path) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(Error::sys("delete the subvolume", path)(error)),
    }
}

fn destroy(path: &Path) -> Result<(), Errno> {
    let (parent, name) = split(path).map_err(|_| Errno::INVAL)?;
    let folder = File::open(parent).map_err(|error| {
        error
            .raw_os_error()
            .map_or(Errno::IO, Errno::from_raw_os_error)
    })?;
    let arguments = VolumeArguments {
        fd: 0,
        name: fixed(name),
    };
    // SAFETY: the call reads one `btrfs_ioctl_vol_args`.
    unsafe {
        ioctl::ioctl(
            &folder,
            Setter::<SNAP_DESTROY, VolumeArguments>::new(arguments),
        )
    }
}

/// Returns the subvolumes in a subvolume, the innermost first. Symbolic links
/// are not followed, since the files are their user's.
fn nested(path: &Path) -> Result<Vec<PathBuf>> {
    let mut folders = vec![path.to_owned()];
    let mut found = Vec::new();
    let mut seen = 0;
    while let Some(folder) = folders.pop() {
        seen += 1;
        if seen > NESTED_LIMIT {
            let limit: io::Error = io::ErrorKind::FileTooLarge.into();
            return Err(Error::io("look for nested subvolumes in", path)(limit));
        }
        for entry in fs::read_dir(&folder).map_err(Error::io("list", &folder))? {
            let entry = entry.map_err(Error::io("list", &folder))?;
            // The type of the entry itself, not of its target.
            let Ok(meta) = entry.path().symlink_metadata() else {
                continue;
            };
            if meta.is_dir() {
                if meta.ino() == FIRST_FREE_OBJECTID {
                    found.push(entry.path());
                }
                folders.push(entry.path());
            }
        }
    }
    found.sort_by_key(|it| std::cmp::Reverse(it.components().count()));
    Ok(found)
}

/// Limits what a subvolume may refer to.
pub(super) fn limit(path: &Path, bytes: u64) -> Result<()> {
    let file = open(path)?;
    let limit = QgroupLimit {
        // Zero is the group of the subvolume itself.
        id: 0,
        flags: QGROUP_LIMIT_MAX_RFER,
        max_referenced: bytes,
        max_exclusive: 0,
        reserved_referenced: 0,
        reserved_exclusive: 0,
    };
    // SAFETY: the call reads one `btrfs_ioctl_qgroup_limit_args`, although its
    // number says that it writes one.
    unsafe { ioctl::ioctl(&file, Setter::<QGROUP_LIMIT, QgroupLimit>::new(limit)) }
        .map_err(Error::sys("limit the size of", path))
}

/// Returns the limit of a subvolume, and what it refers to.
pub(super) fn usage(path: &Path) -> Result<Usage> {
    let file = open(path)?;
    let mut lookup = InodeLookup {
        tree: 0,
        object: FIRST_FREE_OBJECTID,
        name: [0; 4080],
    };
    // SAFETY: the call reads and writes one `btrfs_ioctl_ino_lookup_args`.
    unsafe { ioctl::ioctl(&file, Updater::<INO_LOOKUP, InodeLookup>::new(&mut lookup)) }
        .map_err(Error::sys("identify the subvolume", path))?;
    let folder = quota_folder(path)?.join(format!("0_{}", lookup.tree));
    let read = |name: &str| -> Result<u64> {
        let file = folder.join(name);
        let text = fs::read_to_string(&file).map_err(Error::io("read", &file))?;
        let number = text.trim().parse::<u64>();
        number.map_err(|_| Error::io("read a number in", &file)(io::ErrorKind::InvalidData.into()))
    };
    Ok(Usage {
        bytes: read("max_referenced")?,
        used: read("referenced")?,
    })
}

/// Returns the sysfs folder of the quota groups of a folder's file system.
fn quota_folder(folder: &Path) -> Result<PathBuf> {
    let file = open(folder)?;
    // SAFETY: the call writes one `btrfs_ioctl_fs_info_args`.
    let info = unsafe { ioctl::ioctl(&file, Getter::<FS_INFO, FilesystemInfo>::new()) }
        .map_err(Error::sys("identify the file system of", folder))?;
    let mut id = String::new();
    for (at, byte) in info.id.iter().enumerate() {
        if [4, 6, 8, 10].contains(&at) {
            id.push('-');
        }
        id.push_str(&format!("{byte:02x}"));
    }
    Ok(Path::new("/sys/fs/btrfs").join(id).join("qgroups"))
}

/// Flushes changes of a subvolume, so that they survive a power failure.
pub(super) fn sync(path: &Path) -> Result<()> {
    let file = open(path)?;
    // SAFETY: the call takes no argument.
    unsafe { ioctl::ioctl(file.as_fd(), NoArg::<SYNC>::new()) }.map_err(Error::sys("sync", path))
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(Error::io("open", path))
}

fn split(path: &Path) -> Result<(&Path, &OsStr)> {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Ok((parent, name)),
        _ => Err(Error::io("split", path)(io::ErrorKind::InvalidInput.into())),
    }
}

/// Puts a name into a fixed number of bytes, ended by zero.
fn fixed<const N: usize>(name: &OsStr) -> [u8; N] {
    let mut bytes = [0; N];
    let name = name.as_encoded_bytes();
    let length = name.len().min(N - 1);
    bytes[..length].copy_from_slice(&name[..length]);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_kernels_sizes() {
        assert_eq!(size_of::<VolumeArguments>(), 4096);
        assert_eq!(size_of::<SnapshotArguments>(), 4096);
        assert_eq!(size_of::<InodeLookup>(), 4096);
        assert_eq!(size_of::<FilesystemInfo>(), 1024);
        assert_eq!(size_of::<QgroupLimit>(), 48);
    }
}
