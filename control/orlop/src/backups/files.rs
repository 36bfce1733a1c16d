//! The files of a server that a backup holds: its authorities and keys, and the files outside
//! of its folder without which its store cannot be read.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use control_backup::archive::ServerFile;

use crate::error::Error;
use crate::server_record::{FILE, ServerRecord};

/// Below this, a backup has files from outside of the server's folder, by their paths.
pub const EXTERNAL: &str = "external/";
/// The folders of a server that are backed up whole.
const FOLDERS: [&str; 1] = ["pki"];

/// Reads the files of the server in `data_dir`.
///
/// # Errors
/// Files that cannot be read.
pub fn server_files(data_dir: &Path) -> Result<Vec<ServerFile>, Error> {
    let mut files = Vec::new();
    for folder in FOLDERS {
        let mut found = Vec::new();
        walk(&data_dir.join(folder), &mut found)?;
        found.sort();
        for path in found {
            let name = path.strip_prefix(data_dir).unwrap_or(&path);
            files.push(read(&path, name.to_string_lossy().into_owned())?);
        }
    }
    if let Some(record) = ServerRecord::read(data_dir) {
        for path in &record.files {
            files.push(read(path, external_name(path))?);
        }
        // The server's command line, for restoring.
        files.push(read(&data_dir.join(FILE), format!("{EXTERNAL}{FILE}"))?);
    }
    Ok(files)
}

/// The name in a backup of a file outside of the server's folder.
pub fn external_name(path: &Path) -> String {
    let path = path.to_string_lossy();
    format!("{EXTERNAL}{}", path.trim_start_matches('/'))
}

fn walk(folder: &Path, found: &mut Vec<PathBuf>) -> Result<(), Error> {
    let failed = |source| Error::File {
        path: folder.to_owned(),
        source,
    };
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(failed)?,
    };
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() {
            walk(&entry.path(), found)?;
        } else if kind.is_file() {
            found.push(entry.path());
        }
    }
    Ok(())
}

fn read(path: &Path, name: String) -> Result<ServerFile, Error> {
    let failed = |source| Error::File {
        path: path.to_owned(),
        source,
    };
    let metadata = fs::metadata(path).map_err(failed)?;
    Ok(ServerFile {
        name,
        mode: metadata.permissions().mode() & 0o777,
        content: fs::read(path).map_err(failed)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_files_that_options_name_are_taken_with_their_permissions() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("server");
        fs::create_dir_all(data.join("pki/old")).unwrap();
        control_pki::write_private(&data.join("pki/ca.key"), b"key").unwrap();
        control_pki::write_public(&data.join("pki/old/ca.crt"), b"old").unwrap();
        fs::write(data.join("store.redb"), "").unwrap();
        let outside = dir.path().join("encryption.yaml");
        control_pki::write_private(&outside, b"config").unwrap();
        ServerRecord::of_this_process(None, vec![outside.clone()])
            .write(&data)
            .unwrap();
        let files = server_files(&data).unwrap();
        let names: Vec<&str> = files.iter().map(|file| &*file.name).collect();
        let external = external_name(&outside);
        assert_eq!(
            names,
            [
                "pki/ca.key",
                "pki/old/ca.crt",
                &external,
                "external/server.json"
            ]
        );
        assert_eq!((files[0].mode, files[1].mode), (0o600, 0o644));
        assert_eq!(server_files(&dir.path().join("none")).unwrap(), []);
    }
}
