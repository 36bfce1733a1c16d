//! Parts of volumes, safe against links that lead out of them.
//!
//! A container that may write a volume can put links into it. So a part is
//! found with `openat2(RESOLVE_BENEATH)`, which the kernel resolves without
//! ever leaving the volume, and what is mounted is the descriptor found, not
//! the path: nobody can change it in between.

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Component, Path};

use node_agent_files::{DIRECTORY_MODE, create_dirs};
use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::mount::{UnmountFlags, mount_bind_recursive, unmount};

/// Opens `sub` in the volume at `volume`; makes folders that are missing.
///
/// # Errors
/// When the path leads out of the volume, or cannot be made.
pub fn open(volume: &Path, sub: &str) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let root = openat(CWD, volume, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let mode = Mode::from_raw_mode(rustix::fs::fstat(&root)?.st_mode & 0o7777);
    let mut parts = Vec::new();
    for component in Path::new(sub).components() {
        match component {
            Component::Normal(part) => parts.push(part),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    format!("subPath `{sub}` must be relative and without `..`"),
                ));
            }
        }
    }
    let find = |path: &Path| {
        openat2(
            &root,
            path,
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
            resolve,
        )
    };
    let whole: std::path::PathBuf = if parts.is_empty() {
        ".".into()
    } else {
        parts.iter().collect()
    };
    match find(&whole) {
        Err(rustix::io::Errno::NOENT) => {}
        other => return Ok(other?),
    }
    // Step by step: each folder is opened in the one before, beneath the root.
    let mut path = std::path::PathBuf::new();
    let mut at = root.try_clone()?;
    for part in parts {
        path.push(part);
        match find(&path) {
            Ok(found) => at = found,
            Err(rustix::io::Errno::NOENT) => {
                rustix::fs::mkdirat(&at, part, Mode::from_raw_mode(0o750))?;
                at = find(&path)?;
                // as the volume: what a group may that has it, it may in its parts
                rustix::fs::chmod(format!("/proc/self/fd/{}", at.as_raw_fd()), mode)?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(at)
}

/// Mounts what `part` is at `target`, which is made as needed.
///
/// # Errors
/// When the target cannot be made or mounted.
pub fn bind(part: &OwnedFd, target: &Path) -> io::Result<()> {
    let source = format!("/proc/self/fd/{}", part.as_raw_fd());
    if let Some(parent) = target.parent() {
        create_dirs(parent, DIRECTORY_MODE)?;
    }
    // a mount left by an earlier container of this name
    while unmount(target, UnmountFlags::DETACH).is_ok() {}
    let stat = rustix::fs::fstat(part)?;
    if rustix::fs::FileType::from_raw_mode(stat.st_mode) == rustix::fs::FileType::Directory {
        create_dirs(target, DIRECTORY_MODE)?;
    } else {
        fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(target)?;
    }
    mount_bind_recursive(source.as_str(), target)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    #[test]
    fn parts_are_made_and_links_inside_are_followed() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o2773)).unwrap();
        open(dir.path(), "a/b/c").unwrap();
        for part in ["a", "a/b", "a/b/c"] {
            let found = fs::metadata(dir.path().join(part)).unwrap();
            assert!(found.is_dir());
            assert_eq!(found.permissions().mode() & 0o7777, 0o2773, "{part}");
        }
        fs::write(dir.path().join("a/file"), "x").unwrap();
        symlink("a", dir.path().join("link")).unwrap();
        open(dir.path(), "link/file").unwrap();
        open(dir.path(), "").unwrap();
        open(dir.path(), "./a/./b").unwrap();
    }

    #[test]
    fn a_link_that_is_put_in_place_of_a_folder_meanwhile_leads_nowhere() {
        use rustix::fs::{RenameFlags, renameat_with};
        use std::sync::atomic::{AtomicBool, Ordering};
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let volume = dir.path().join("volume");
        fs::create_dir_all(volume.join("a/b")).unwrap();
        symlink(outside.path(), volume.join("link")).unwrap();
        let stop = AtomicBool::new(false);
        let escaped = std::thread::scope(|scope| {
            scope.spawn(|| {
                // one is the other all the time, as a container could do it
                while !stop.load(Ordering::Relaxed) {
                    let (a, link) = (volume.join("a"), volume.join("link"));
                    let _ = renameat_with(CWD, &a, CWD, &link, RenameFlags::EXCHANGE);
                }
            });
            let (mut found, mut refused, mut escaped) = (0, 0, None);
            for round in 0..20_000 {
                match open(&volume, &format!("a/b/{}", round % 7)) {
                    Err(_) => refused += 1,
                    Ok(part) => {
                        found += 1;
                        let path = format!("/proc/self/fd/{}", part.as_raw_fd());
                        let path = fs::read_link(path).unwrap_or_default();
                        escaped = Some(path).filter(|path| !path.starts_with(&volume));
                    }
                }
                if escaped.is_some() || (round > 2000 && found > 100 && refused > 100) {
                    break;
                }
            }
            stop.store(true, Ordering::Relaxed);
            escaped
        });
        assert_eq!(escaped, None);
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }

    #[test]
    fn links_that_lead_out_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        symlink(outside.path(), dir.path().join("absolute")).unwrap();
        symlink("../..", dir.path().join("up")).unwrap();
        for path in [
            "absolute",
            "absolute/x",
            "up/etc",
            "../x",
            "/etc",
            "a/../../x",
        ] {
            assert!(open(dir.path(), path).is_err(), "{path}");
        }
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 0);
    }
}
