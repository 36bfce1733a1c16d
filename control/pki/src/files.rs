//! Files that are whole or not there, and as private as their content.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use crate::Error;

/// Writes a file that only its owner may read (mode 0600), whole or not at all:
/// a reader, or a crash, meets the old content or the new.
///
/// # Errors
/// [`Error::File`].
pub fn write_private(path: &Path, content: &[u8]) -> Result<(), Error> {
    write(path, content, 0o600)
}

/// As [`write_private`], readable by all (mode 0644).
///
/// # Errors
/// [`Error::File`].
pub fn write_public(path: &Path, content: &[u8]) -> Result<(), Error> {
    write(path, content, 0o644)
}

/// The SHA-256 of bytes, in lower-case hexadecimal.
#[must_use]
pub fn fingerprint(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    use std::fmt::Write as _;
    Sha256::digest(bytes)
        .iter()
        .fold(String::new(), |mut text, byte| {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
            text
        })
}

/// Returns the file's text; `None` if there is no such file.
pub(crate) fn read(path: &Path) -> Result<Option<String>, Error> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(Error::File {
            path: path.to_owned(),
            action: "read",
            source,
        }),
    }
}

/// Makes a directory for its owner only, unless it is there.
pub(crate) fn directory(path: &Path) -> Result<(), Error> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(path)
        .map_err(|source| Error::File {
            path: path.to_owned(),
            action: "written",
            source,
        })
}

fn write(path: &Path, content: &[u8], mode: u32) -> Result<(), Error> {
    replace(path, content, mode).map_err(|source| Error::File {
        path: path.to_owned(),
        action: "written",
        source,
    })
}

fn replace(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    let mut name = path
        .file_name()
        .ok_or(io::ErrorKind::InvalidInput)?
        .to_owned();
    // Two processes must not write the same temporary file.
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let written = (|| {
        // Left by a process of the same number that was killed.
        let _ = fs::remove_file(&temporary);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(&temporary)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        let directory = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
    })();
    if written.is_err() {
        let _ = fs::remove_file(&temporary);
    }
    written
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_private_file_is_private_even_where_a_public_one_was() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("key");
        write_public(&path, b"old").expect("written");
        write_private(&path, b"new").expect("written");
        assert_eq!(read(&path).expect("read").as_deref(), Some("new"));
        let mode = fs::metadata(&path).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(
            fs::read_dir(dir.path()).expect("a directory").count(),
            1,
            "no temporary file stays"
        );
    }
}
