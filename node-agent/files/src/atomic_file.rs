//! Files that are there as a whole, or not at all, also after a crash or on a
//! full disk.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::{DIRECTORY_MODE, blocking, create_dirs};

/// Writes a file beside its place and moves it there; folders are made.
///
/// # Errors
/// When it cannot be written; what was there before then stays.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    create_dirs(folder, DIRECTORY_MODE)?;
    let beside = path.with_added_extension("tmp");
    let done = blocking::here(|| {
        let mut file = fs::File::create(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        fs::File::open(folder)?.sync_all()
    });
    if done.is_err() {
        let _ = fs::remove_file(&beside);
    }
    done
}

/// Writes a file in its place, where others have that very file open or mounted: they
/// would keep the old one that [`write`](fn@write) puts aside. Room is taken before anything is
/// written, so that a full disk changes nothing.
///
/// # Errors
/// When it cannot be written.
pub fn overwrite(path: &Path, text: &str) -> io::Result<()> {
    let fresh = !path.exists();
    let file = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)?;
    let length = text.len() as u64;
    let done = (|| {
        // of no length is not allowed
        if length > 0 {
            match fallocate(&file, FallocateFlags::KEEP_SIZE, 0, length) {
                // file systems that do not know it write what they are given
                Ok(()) | Err(Errno::OPNOTSUPP) => {}
                Err(error) => return Err(error.into()),
            }
        }
        file.write_all_at(text.as_bytes(), 0)?;
        file.set_len(length)
    })();
    if done.is_err() && fresh {
        let _ = fs::remove_file(path);
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_keeps_what_was_there_whole_and_takes_more_when_there_is_room() {
        let mount_point = tempfile::tempdir().unwrap();
        let Some(disk) = crate::testing::SmallDisk::new(mount_point.path(), 256) else {
            return;
        };
        let path = disk.path().join("state/checkpoint");
        write(&path, "old").unwrap();
        disk.fill();
        for size in [5000, 100_000] {
            let error = write(&path, &"x".repeat(size)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull);
            assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        }
        let names = fs::read_dir(disk.path().join("state")).unwrap();
        assert_eq!(names.count(), 1, "nothing half written is left");
        disk.free();
        write(&path, &"x".repeat(100_000)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 100_000);
    }

    #[test]
    fn a_file_in_use_is_written_in_its_place_or_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("hosts");
        overwrite(&path, "first and long").unwrap();
        let open = fs::File::open(&path).unwrap();
        overwrite(&path, "short").unwrap();
        assert_eq!(io::read_to_string(&open).unwrap(), "short");
        overwrite(&path, "").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "");

        let mount_point = tempfile::tempdir().unwrap();
        let Some(disk) = crate::testing::SmallDisk::new(mount_point.path(), 256) else {
            return;
        };
        let path = disk.path().join("hosts");
        overwrite(&path, "old").unwrap();
        disk.fill();
        let error = overwrite(&path, &"x".repeat(100_000)).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        // what fits where it is needs no room
        overwrite(&path, "new").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        let late = disk.path().join("late");
        assert!(overwrite(&late, "x").is_err());
        assert!(!late.exists(), "nothing half written is left");
        disk.free();
        overwrite(&path, &"x".repeat(100_000)).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), 100_000);
    }

    #[test]
    fn what_cannot_be_put_in_place_leaves_nothing_beside_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a/b");
        write(&path, "1").unwrap();
        write(&path, "2").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "2");
        let taken = dir.path().join("a/c");
        fs::create_dir_all(taken.join("x")).unwrap();
        assert!(write(&taken, "3").is_err());
        assert_eq!(fs::read_dir(dir.path().join("a")).unwrap().count(), 2);
    }
}
