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
