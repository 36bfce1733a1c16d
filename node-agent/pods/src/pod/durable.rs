//! Files that are there as a whole, or not at all, also after a crash or on a
//! full disk.

use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

/// Writes a file beside its place and moves it there; folders are made.
///
/// # Errors
/// When it cannot be written; what was there before then stays.
pub fn write(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder)?;
    let beside = path.with_added_extension("tmp");
    let done = (|| {
        let mut file = fs::File::create(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        fs::File::open(folder)?.sync_all()
    })();
    if done.is_err() {
        let _ = fs::remove_file(&beside);
    }
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_keeps_what_was_there_whole_and_takes_more_when_there_is_room() {
        let Some(disk) = crate::testing::SmallDisk::new(256) else {
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
