//! The mount table, and mounting.
//!
//! What is mounted where is read from the kernel each time: no note of the
//! driver's own can disagree with it after a crash.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};

use crate::error::{Error, Result};

/// The kernel's table of the mounts that this process sees.
const TABLE: &str = "/proc/thread-self/mountinfo";

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Device number, as `major:minor`.
    pub device: String,
    /// Path within the file system that is the mount's root.
    pub root: PathBuf,
    /// The mount point.
    pub target: PathBuf,
    /// Options of the mount.
    pub options: String,
    /// Kind of file system.
    pub fs_type: String,
    /// The device or folder that is mounted.
    pub source: PathBuf,
    /// Options of the file system.
    pub super_options: String,
}

impl Mount {
    /// Whether the mount shows the same files as another.
    #[must_use]
    pub fn shows_same(&self, other: &Self) -> bool {
        self.device == other.device && self.root == other.root
    }

    /// Whether the file system is read-only as a whole.
    #[must_use]
    pub fn is_super_read_only(&self) -> bool {
        self.super_options.split(',').any(|word| word == "ro")
    }

    /// Whether the mount is read-only.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.options.split(',').any(|word| word == "ro")
    }
}

/// All mounts, in the order in which they were made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountTable(Vec<Mount>);

impl MountTable {
    /// Reads the mounts that this process sees.
    ///
    /// # Errors
    /// When the kernel does not show them.
    pub fn read() -> Result<Self> {
        let path = Path::new(TABLE);
        let text = fs::read(path).map_err(Error::io("read", path))?;
        Ok(Self::parse(&String::from_utf8_lossy(&text)))
    }

    /// Parses `/proc/PID/mountinfo` (`proc(5)`); lines that are not understood
    /// are left out.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self(text.lines().filter_map(parse_line).collect())
    }

    /// Returns the topmost mount at a path.
    #[must_use]
    pub fn at(&self, target: &Path) -> Option<&Mount> {
        self.0.iter().rev().find(|mount| mount.target == target)
    }

    /// Returns the mount whose file system a path belongs to.
    #[must_use]
    pub fn containing(&self, path: &Path) -> Option<&Mount> {
        let holds = self
            .0
            .iter()
            .rev()
            .filter(|it| path.starts_with(&it.target));
        holds.max_by_key(|it| it.target.components().count())
    }

    /// Returns all mounts.
    pub fn iter(&self) -> std::slice::Iter<'_, Mount> {
        self.0.iter()
    }

    /// Returns the mounts of a device with a file system.
    pub fn of_device<'a>(&'a self, device: &'a Path) -> impl Iterator<Item = &'a Mount> {
        self.0.iter().filter(move |mount| mount.source == device)
    }

    /// Returns the mounts that make a device node visible as a file elsewhere.
    pub fn of_node<'a>(&'a self, device: &'a Path) -> impl Iterator<Item = &'a Mount> {
        let name = device.file_name();
        let number = fs::metadata(device).ok().map(|it| it.rdev());
        self.0.iter().filter(move |mount| {
            mount.root.file_name() == name
                && mount.target != device
                && fs::metadata(&mount.target)
                    .is_ok_and(|it| it.file_type().is_block_device() && Some(it.rdev()) == number)
        })
    }

    /// Returns the mounts whose root is a folder, wherever they are.
    pub fn of_folder<'a>(&'a self, folder: &'a Path) -> impl Iterator<Item = &'a Mount> {
        let base = self.containing(folder).cloned();
        let root = base.as_ref().and_then(|base| {
            let below = folder.strip_prefix(&base.target).ok()?;
            Some(base.root.join(below))
        });
        self.0.iter().filter(move |mount| {
            base.as_ref()
                .is_some_and(|base| base.source == mount.source && base.fs_type == mount.fs_type)
                && Some(&mount.root) == root.as_ref()
                && base.as_ref().is_none_or(|base| base.target != mount.target)
        })
    }
}

fn parse_line(line: &str) -> Option<Mount> {
    let (left, right) = line.split_once(" - ")?;
    let mut left = left.split(' ').skip(2);
    let device = left.next()?.to_owned();
    let root = unescape(left.next()?);
    let target = unescape(left.next()?);
    let options = left.next()?.to_owned();
    let mut right = right.split(' ');
    Some(Mount {
        device,
        root,
        target,
        options,
        fs_type: right.next()?.to_owned(),
        source: unescape(right.next()?),
        super_options: right.next().unwrap_or_default().to_owned(),
    })
}

/// Decodes `\040` and the like.
fn unescape(text: &str) -> PathBuf {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        let code = after
            .get(..3)
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                plain.push(char::from(code));
                rest = &after[3..];
            }
            None => {
                plain.push('\\');
                rest = after;
            }
        }
    }
    plain.push_str(rest);
    plain.into()
}

/// Mounts a file system.
///
/// # Errors
/// When the kernel refuses.
pub fn mount(
    device: &Path,
    target: &Path,
    fs_type: &str,
    flags: MountFlags,
    options: &[String],
) -> Result<()> {
    let data = std::ffi::CString::new(options.join(",")).unwrap_or_default();
    rustix::mount::mount(device, target, fs_type, flags, &*data)
        .map_err(Error::sys("mount", target))
}

/// Makes a file or folder visible at another path, with its own flags.
///
/// # Errors
/// When the kernel refuses; nothing is mounted then.
pub fn bind(source: &Path, target: &Path, flags: MountFlags) -> Result<()> {
    rustix::mount::mount_bind(source, target).map_err(Error::sys("bind", target))?;
    if flags.is_empty() {
        return Ok(());
    }
    let flags = flags & !(MountFlags::SYNCHRONOUS | MountFlags::DIRSYNC);
    let result = rustix::mount::mount_remount(target, MountFlags::BIND | flags, c"");
    result.map_err(|error| {
        let _ = rustix::mount::unmount(target, UnmountFlags::DETACH);
        Error::sys("set the mount flags of", target)(error)
    })
}

/// Unmounts everything that is mounted at a path; does nothing where nothing is.
///
/// # Errors
/// When the kernel refuses, above all while files are in use.
pub fn unmount_all(target: &Path) -> Result<()> {
    // Others may mount concurrently: the loop is bounded.
    for _ in 0..64 {
        match rustix::mount::unmount(target, UnmountFlags::NOFOLLOW) {
            Ok(()) => {}
            // Not a mount point, or no such file.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => return Ok(()),
            Err(error) => return Err(Error::sys("unmount", target)(error)),
        }
    }
    Ok(())
}

/// Keeps mounts below a path from spreading to other namespaces; used by tests.
///
/// # Errors
/// When the kernel refuses.
pub fn make_private(target: &Path) -> Result<()> {
    rustix::mount::mount_change(target, MountPropagationFlags::PRIVATE)
        .map_err(Error::sys("make private", target))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
22 1 253:0 / / rw,relatime - ext4 /dev/vda rw
30 22 7:3 / /var/a\\040b/mount rw,noatime shared:5 - xfs /dev/loop3 rw,attr2
31 22 7:3 / /pods/1/mount ro,relatime - xfs /dev/loop3 rw,attr2
40 22 0:50 / /data rw - btrfs /dev/loop4 rw,subvolid=5
41 22 0:51 /volumes/v1 /pods/2/mount rw - btrfs /dev/loop4 rw,subvolid=256
odd line
";

    #[test]
    fn mounts_are_found_by_path_device_and_folder() {
        let table = MountTable::parse(TEXT);
        assert_eq!(table.iter().count(), 5);
        let staging = table.at(Path::new("/var/a b/mount")).unwrap();
        let published = table.at(Path::new("/pods/1/mount")).unwrap();
        assert!(staging.shows_same(published));
        assert!(published.is_read_only() && !published.is_super_read_only());
        assert_eq!(table.of_device(Path::new("/dev/loop3")).count(), 2);
        let folder: Vec<_> = table.of_folder(Path::new("/data/volumes/v1")).collect();
        assert_eq!(folder.len(), 1);
        assert_eq!(folder[0].target, Path::new("/pods/2/mount"));
    }

    #[test]
    fn the_file_system_of_a_path_is_the_deepest_mount() {
        let table = MountTable::parse(TEXT);
        assert_eq!(
            table.containing(Path::new("/data/x")).unwrap().fs_type,
            "btrfs"
        );
        assert_eq!(
            table.containing(Path::new("/database")).unwrap().fs_type,
            "ext4"
        );
    }

    #[test]
    fn escapes_are_decoded() {
        assert_eq!(unescape("a\\040b\\134c\\x"), Path::new("a b\\c\\x"));
    }
}
