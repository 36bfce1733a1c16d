//! Replaces an installed binary, and puts the old one back.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::plan::Program;
use crate::error::Error;

/// Returns the path at which the replaced binary is kept.
pub fn kept(binary: &Path) -> PathBuf {
    with_end(binary, "before-upgrade")
}

fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{end}"));
    PathBuf::from(name)
}

/// Installs `new` as `binary`, in one step; the old one is kept beside it.
///
/// # Errors
/// When a file cannot be read or written.
pub fn replace(binary: &Path, new: &Path) -> Result<(), Error> {
    let staged = with_end(binary, "new");
    copy(new, &staged)?;
    // Not moved: the name always has a binary.
    copy(binary, &kept(binary))?;
    rename(&staged, binary)
}

/// Reinstalls the replaced binary.
///
/// # Errors
/// When there is none, or it cannot be moved.
pub fn put_back(binary: &Path) -> Result<(), Error> {
    rename(&kept(binary), binary)
}

/// Removes the replaced binary.
///
/// # Errors
/// When there is none, or it cannot be removed.
pub fn forget(binary: &Path) -> Result<(), Error> {
    let path = kept(binary);
    fs::remove_file(&path).map_err(|source| Error::File { path, source })
}

fn copy(from: &Path, to: &Path) -> Result<(), Error> {
    // Over a program that runs one cannot write.
    let _ = fs::remove_file(to);
    fs::copy(from, to)
        .and_then(|_| File::open(to)?.sync_all())
        .map_err(|source| Error::File {
            path: from.to_owned(),
            source,
        })
}

fn rename(from: &Path, to: &Path) -> Result<(), Error> {
    fs::rename(from, to).map_err(|source| Error::File {
        path: from.to_owned(),
        source,
    })
}

/// Asks a binary for its facts.
///
/// # Errors
/// When it cannot be run, or does not support the command.
pub fn query_version(binary: &Path) -> Result<Program, Error> {
    let command = format!("{} upgrade facts", binary.display());
    let failed = |detail: String| Error::Program {
        command: command.clone(),
        detail,
    };
    let done = std::process::Command::new(binary)
        .args(["upgrade", "facts"])
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !done.status.success() {
        return Err(failed(
            "this is no orlop, or one that cannot upgrade".to_owned(),
        ));
    }
    serde_json::from_slice(&done.stdout).map_err(|error| failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_is_replaced_and_put_back() {
        let dir = tempfile::tempdir().unwrap();
        let (binary, new) = (dir.path().join("orlop"), dir.path().join("other"));
        fs::write(&binary, "old").unwrap();
        fs::write(&new, "new").unwrap();
        replace(&binary, &new).unwrap();
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        assert_eq!((&*read(&binary), &*read(&kept(&binary))), ("new", "old"));
        put_back(&binary).unwrap();
        assert_eq!(read(&binary), "old");
        assert!(put_back(&binary).is_err());
        assert!(forget(&binary).is_err());
        replace(&binary, &new).unwrap();
        forget(&binary).unwrap();
        assert_eq!(read(&binary), "new");
        assert_eq!(
            fs::read_dir(dir.path()).unwrap().count(),
            2,
            "nothing is left"
        );
    }
}
