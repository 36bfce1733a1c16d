//! The archive that becomes a machine's first file system.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
};

use crate::error::{Error, at};

/// Writes a cpio archive in the `newc` form that the kernel unpacks (kernel
/// documentation, "initramfs buffer format").
///
/// # Errors
/// When a file cannot be read, or the archive cannot be written.
pub fn write_initramfs(path: &Path, files: &[(String, PathBuf)]) -> Result<(), Error> {
    let mut archive = Vec::new();
    let mut folders: BTreeSet<&Path> = ["dev", "proc", "sys", "tmp", "run"].map(Path::new).into();
    for (name, _) in files {
        let parents = Path::new(name).ancestors().skip(1);
        folders.extend(parents.filter(|folder| !folder.as_os_str().is_empty()));
    }
    // Parents come before what they hold.
    for folder in folders {
        entry(&mut archive, &folder.to_string_lossy(), 0o040_755, &[]);
    }
    for (name, file) in files {
        let bytes = fs::read(file).map_err(at(file))?;
        entry(&mut archive, name, 0o100_755, &bytes);
    }
    entry(&mut archive, "TRAILER!!!", 0, &[]);
    File::create(path)
        .and_then(|mut file| file.write_all(&archive))
        .map_err(at(path))
}

fn entry(archive: &mut Vec<u8>, name: &str, mode: u32, bytes: &[u8]) {
    let number = archive.len();
    let header = format!(
        "070701{number:08x}{mode:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}{:08x}",
        0,
        0,
        1,
        0,
        bytes.len(),
        0,
        0,
        0,
        0,
        name.len() + 1,
        0
    );
    archive.extend_from_slice(header.as_bytes());
    archive.extend_from_slice(name.as_bytes());
    archive.push(0);
    archive.resize(archive.len().next_multiple_of(4), 0);
    archive.extend_from_slice(bytes);
    archive.resize(archive.len().next_multiple_of(4), 0);
}
