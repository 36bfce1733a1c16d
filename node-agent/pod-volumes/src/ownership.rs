//! `fsGroup`: whose a volume is, down to its last file.
//!
//! Everything gets the group, read and write permission for it, and folders
//! what makes new files theirs too. A volume is walked by descriptors, and no
//! link in it is followed: what a container put there cannot lead out of it.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Gid, Mode, OFlags, chmod, chownat, fstat, openat};

/// Read and write, for owner and group.
const FILE: u32 = 0o660;
/// Folders: entering them, and their group for what is made in them.
const FOLDER: u32 = 0o2110;

/// Whether the volume's root says that the volume is the group's already, which
/// is all that is looked at with `OnRootMismatch`.
#[must_use]
pub fn matches(volume: &Path, group: u32) -> bool {
    let Ok(stat) = rustix::fs::stat(volume) else {
        return false;
    };
    let wanted = FILE | FOLDER;
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
        && stat.st_gid == group
        && stat.st_mode & wanted == wanted
}

/// How deep folders may be nested: each is held open while it is walked.
const DEEPEST: usize = 256;

/// Gives the volume to the group; how many files that were. A file that cannot
/// be given is passed over, as it may be one that nobody may change.
///
/// # Errors
/// When the volume cannot be read.
pub fn give_to_group(volume: &Path, group: u32) -> io::Result<u64> {
    let root = openat(
        CWD,
        volume,
        OFlags::PATH | OFlags::CLOEXEC | OFlags::NOFOLLOW,
        Mode::empty(),
    )?;
    let mut count = 0;
    walk(root.as_fd(), group, DEEPEST, &mut count)?;
    Ok(count)
}

fn walk(at: BorrowedFd<'_>, group: u32, deeper: usize, count: &mut u64) -> io::Result<()> {
    let mode = fstat(at)?.st_mode;
    let kind = FileType::from_raw_mode(mode);
    if kind == FileType::Directory {
        if deeper == 0 {
            return Err(io::Error::other(format!(
                "folders are nested deeper than {DEEPEST}"
            )));
        }
        let folder = openat(
            at,
            ".",
            OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC,
            Mode::empty(),
        )?;
        for entry in Dir::read_from(&folder)? {
            let entry = entry?;
            let name = entry.file_name();
            if name.to_bytes() == b"." || name.to_bytes() == b".." {
                continue;
            }
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            match openat(&folder, name, flags, Mode::empty()) {
                Ok(child) => walk(child.as_fd(), group, deeper - 1, count)?,
                // it went away meanwhile
                Err(rustix::io::Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    // after what is in it: a root that is right means that all is
    *count += 1;
    if let Err(error) = change(at, mode, kind, group) {
        tracing::debug!(%error, group, "failed to change the group of a volume's file");
    }
    Ok(())
}

fn change(at: BorrowedFd<'_>, mode: u32, kind: FileType, group: u32) -> io::Result<()> {
    chownat(
        at,
        "",
        None,
        Some(Gid::from_raw(group)),
        AtFlags::EMPTY_PATH,
    )?;
    if kind == FileType::Symlink {
        return Ok(());
    }
    let more = if kind == FileType::Directory {
        FILE | FOLDER
    } else {
        FILE
    };
    // the descriptor's own link: no name is looked up in the volume
    let path = format!("/proc/self/fd/{}", at.as_raw_fd());
    chmod(path, Mode::from_raw_mode((mode & 0o7777) | more))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

    #[test]
    fn all_files_are_given_and_nothing_outside_is_touched() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let secret = outside.path().join("secret");
        fs::write(&secret, "").unwrap();
        fs::set_permissions(&secret, fs::Permissions::from_mode(0o600)).unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        fs::write(dir.path().join("a/b/file"), "").unwrap();
        fs::set_permissions(
            dir.path().join("a/b/file"),
            fs::Permissions::from_mode(0o400),
        )
        .unwrap();
        symlink(&secret, dir.path().join("a/link")).unwrap();
        symlink(outside.path(), dir.path().join("out")).unwrap();
        // without root only the own group can be given
        let group = rustix::process::getgid().as_raw();
        let group = if group == 0 { 4242 } else { group };
        assert!(!matches(dir.path(), group));
        assert_eq!(give_to_group(dir.path(), group).unwrap(), 6);
        assert!(matches(dir.path(), group));
        let file = fs::metadata(dir.path().join("a/b/file")).unwrap();
        assert_eq!((file.gid(), file.mode() & 0o7777), (group, 0o660));
        let folder = fs::metadata(dir.path().join("a/b")).unwrap();
        assert_eq!(folder.mode() & 0o2770, 0o2770);
        let secret = fs::metadata(&secret).unwrap();
        assert_eq!(secret.mode() & 0o7777, 0o600);
        if rustix::process::getuid().is_root() {
            assert_eq!(secret.gid(), 0);
        }
    }

    #[test]
    fn a_root_of_another_group_or_with_less_permissions_is_a_mismatch() {
        let dir = tempfile::tempdir().unwrap();
        let group = fs::metadata(dir.path()).unwrap().gid();
        let set = |mode| {
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
            matches(dir.path(), group)
        };
        assert!(set(0o2775));
        assert!(!set(0o775));
        assert!(!set(0o2755));
        assert!(!matches(dir.path(), group + 1));
    }
}
