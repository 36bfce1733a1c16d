//! An open directory, below which names are resolved.

use std::ffi::{CStr, OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, RawMode, ResolveFlags, Stat, Uid, openat,
    openat2,
};
use rustix::io::Errno;

/// Mode of directories that only the agent and the runtime enter, as the kubelet's.
pub const DIRECTORY_MODE: RawMode = 0o750;

/// No link is followed, and no name leads out.
const BENEATH: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS);

const OPEN_DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// An open directory. Paths are relative to it, follow no symbolic link and stay below it.
#[derive(Debug)]
pub struct Directory(OwnedFd);

impl Directory {
    /// Opens the directory at `path`, whose parents are trusted; its last part is no link.
    ///
    /// # Errors
    /// When it is not there or no directory.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self(openat(CWD, path, OPEN_DIRECTORY, Mode::empty())?))
    }

    /// Opens a directory below this one.
    ///
    /// # Errors
    /// When it is not there, no directory, or reached by a link.
    pub fn open_dir(&self, path: impl AsRef<Path>) -> io::Result<Self> {
        let flags = OPEN_DIRECTORY;
        Ok(Self(openat2(
            &self.0,
            path.as_ref(),
            flags,
            Mode::empty(),
            BENEATH,
        )?))
    }

    /// The same, unless something is mounted on the way.
    pub(super) fn open_dir_here(at: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
        let resolve = BENEATH | ResolveFlags::NO_XDEV;
        openat2(at, name, OPEN_DIRECTORY, Mode::empty(), resolve)
    }

    /// Opens a regular file below this directory.
    ///
    /// # Errors
    /// When it is not there, no regular file, or reached by a link.
    pub fn open_file(&self, path: impl AsRef<Path>) -> io::Result<File> {
        // a pipe that nobody writes would keep the opener waiting
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        super::read::regular_at(&self.0, path.as_ref(), flags, BENEATH)
    }

    /// Makes a directory with that mode, whatever the umask, and opens it.
    ///
    /// # Errors
    /// When it is there already, or cannot be made.
    pub fn create_dir(&self, name: impl AsRef<Path>, mode: RawMode) -> io::Result<Self> {
        rustix::fs::mkdirat(&self.0, name.as_ref(), Mode::from_raw_mode(0o700))?;
        let made = self.open_dir(name)?;
        made.set_mode(mode)?;
        Ok(made)
    }

    /// Makes all directories of a path that are not there.
    ///
    /// # Errors
    /// When one cannot be made, or is no directory.
    pub fn create_dirs(&self, path: &Path, mode: RawMode) -> io::Result<()> {
        let mut at: Option<Self> = None;
        for part in path.components() {
            let parent = at.as_ref().unwrap_or(self);
            let next = match parent.open_dir(part) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    parent.create_dir(part, mode)
                }
                other => other,
            };
            at = Some(next?);
        }
        Ok(())
    }

    /// Makes a new file for writing, readable by its owner only.
    ///
    /// # Errors
    /// When something of that name is there, or its directory is reached by a link.
    pub fn create_file(&self, path: impl AsRef<Path>) -> io::Result<File> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let mode = Mode::from_raw_mode(0o600);
        Ok(openat2(&self.0, path.as_ref(), flags, mode, BENEATH)?.into())
    }

    /// What is known of a file below this directory; of a link, not of where it leads.
    ///
    /// # Errors
    /// When it is not there, or its directory is reached by a link.
    pub fn stat(&self, path: impl AsRef<Path>) -> io::Result<Stat> {
        let path = path.as_ref();
        if path.as_os_str().is_empty() {
            return Ok(rustix::fs::fstat(&self.0)?);
        }
        // of these two flags together the kernel gives the link itself
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let found = openat2(&self.0, path, flags, Mode::empty(), BENEATH)?;
        Ok(rustix::fs::fstat(found)?)
    }

    /// Whether that name in this directory is a symbolic link.
    #[must_use]
    pub fn is_symlink(&self, name: &OsStr) -> bool {
        rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
    }

    /// Where a link of this directory leads.
    ///
    /// # Errors
    /// When it is not there or no link.
    pub fn read_link(&self, name: &str) -> io::Result<OsString> {
        let target = rustix::fs::readlinkat(&self.0, name, Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()))
    }

    /// Makes a link in this directory.
    ///
    /// # Errors
    /// When something of that name is there.
    pub fn symlink(&self, target: impl AsRef<Path>, name: impl AsRef<Path>) -> io::Result<()> {
        let (target, name) = (target.as_ref(), name.as_ref());
        Ok(rustix::fs::symlinkat(target, &self.0, name)?)
    }

    /// Renames within this directory; what has the new name is replaced.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn rename(&self, old: &str, new: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.0, old, &self.0, new)?)
    }

    /// Removes a file or link of this directory.
    ///
    /// # Errors
    /// When it is not there or a directory.
    pub fn remove_file(&self, name: impl AsRef<Path>) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(
            &self.0,
            name.as_ref(),
            AtFlags::empty(),
        )?)
    }

    /// The names in this directory, without `.` and `..`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn names(&self) -> io::Result<Vec<(OsString, FileType)>> {
        let mut all = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name != b"." && name != b".." {
                all.push((OsString::from_vec(name.to_vec()), entry.file_type()));
            }
        }
        Ok(all)
    }

    /// Sets the mode of the directory itself.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn set_mode(&self, mode: RawMode) -> io::Result<()> {
        Ok(rustix::fs::fchmod(&self.0, Mode::from_raw_mode(mode))?)
    }

    /// Gives the directory itself to a group.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn set_group(&self, group: u32) -> io::Result<()> {
        set_owner(&self.0, None, Some(group))
    }
}

impl AsFd for Directory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Gives an open file to a user and a group.
///
/// # Errors
/// When the kernel refuses.
pub fn set_owner(file: impl AsFd, user: Option<u32>, group: Option<u32>) -> io::Result<()> {
    let user = user.map(Uid::from_raw);
    Ok(rustix::fs::fchown(file, user, group.map(Gid::from_raw))?)
}

/// Makes the directory at `path` and its missing parents, each with `mode`, whatever the
/// umask. Directories that are there stay as they are.
///
/// # Errors
/// When one cannot be made.
pub fn create_dirs(path: &Path, mode: RawMode) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|p| !p.as_os_str().is_empty()) {
        create_dirs(parent, mode)?;
    }
    match rustix::fs::mkdir(path, Mode::from_raw_mode(mode)) {
        Ok(()) => Directory::open(path)?.set_mode(mode),
        // another task was faster
        Err(Errno::EXIST) if path.is_dir() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Takes the permissions away from a directory that [`DIRECTORY_MODE`] does not have;
/// what it lacks is not added. Whether it had more.
///
/// # Errors
/// When it is no directory, or cannot be changed.
pub fn tighten(path: &Path) -> io::Result<bool> {
    let directory = Directory::open(path)?;
    let mode = directory.stat("")?.st_mode & 0o7777;
    // the set-group-ID and sticky bits give nobody access
    let tight = mode & (DIRECTORY_MODE | 0o7000);
    if tight == mode {
        return Ok(false);
    }
    directory.set_mode(tight)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn no_name_leads_out_of_a_directory() {
        let (dir, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(outside.path().join("file"), "secret").unwrap();
        fs::create_dir(dir.path().join("in")).unwrap();
        fs::write(dir.path().join("in/file"), "own").unwrap();
        symlink(outside.path(), dir.path().join("away")).unwrap();
        symlink(outside.path().join("file"), dir.path().join("link")).unwrap();
        symlink("in", dir.path().join("inner")).unwrap();
        let root = Directory::open(dir.path()).unwrap();
        assert!(root.open_file("in/file").is_ok());
        let outside_file = outside.path().join("file");
        for path in ["away/file", "link", "inner/file", "../x", "in/../../x"] {
            assert!(root.open_file(path).is_err(), "{path}");
            assert!(root.create_file(path).is_err(), "{path}");
        }
        assert!(root.open_file(&outside_file).is_err());
        for path in ["away", "inner", "..", "/"] {
            assert!(root.open_dir(path).is_err(), "{path}");
        }
        assert!(root.create_dirs(Path::new("away/new"), 0o755).is_err());
        assert!(Directory::open(&dir.path().join("away")).is_err());
        assert!(root.is_symlink(OsStr::new("away")));
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    }

    #[test]
    fn missing_directories_get_the_mode_and_present_ones_keep_theirs() {
        let dir = tempfile::tempdir().unwrap();
        let mode = |path: &str| {
            let found = fs::metadata(dir.path().join(path)).unwrap();
            found.permissions().mode() & 0o7777
        };
        fs::create_dir(dir.path().join("a")).unwrap();
        fs::set_permissions(dir.path().join("a"), fs::Permissions::from_mode(0o711)).unwrap();
        create_dirs(&dir.path().join("a/b/c"), DIRECTORY_MODE).unwrap();
        assert_eq!(
            [mode("a"), mode("a/b"), mode("a/b/c")],
            [0o711, 0o750, 0o750]
        );
        assert!(tighten(&dir.path().join("a")).unwrap());
        assert_eq!(mode("a"), 0o710);
        assert!(!tighten(&dir.path().join("a")).unwrap());
    }
}
