//! Paths of the node itself.

use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use node_agent_files::create_dirs;

use super::Error;

/// Checks that what is at `path` is of the wanted type, or makes it.
///
/// # Errors
/// When it is something else, is not there, or cannot be made.
pub fn check(path: &Path, r#type: &str) -> Result<(), Error> {
    let refused = |what: &str| {
        Err(Error::HostPath(format!(
            "hostPath type check failed: {} is not {what}",
            path.display()
        )))
    };
    let make_error =
        |error: std::io::Error| Error::HostPath(format!("{}: {error}", path.display()));
    let found = fs::metadata(path).map(|m| m.file_type());
    match r#type {
        "" => Ok(()),
        "DirectoryOrCreate" => match found {
            Ok(kind) if kind.is_dir() => Ok(()),
            Ok(_) => refused("a directory"),
            Err(_) => {
                // the node's own, open to all as the kubelet makes it
                create_dirs(path, 0o755).map_err(make_error)
            }
        },
        "FileOrCreate" => match found {
            Ok(kind) if kind.is_file() => Ok(()),
            Ok(_) => refused("a file"),
            Err(_) => {
                fs::File::create_new(path).map_err(make_error)?;
                fs::set_permissions(path, fs::Permissions::from_mode(0o644)).map_err(make_error)
            }
        },
        "Directory" => match found {
            Ok(kind) if kind.is_dir() => Ok(()),
            _ => refused("a directory"),
        },
        "File" => match found {
            Ok(kind) if kind.is_file() => Ok(()),
            _ => refused("a file"),
        },
        "Socket" => match found {
            Ok(kind) if kind.is_socket() => Ok(()),
            _ => refused("a socket file"),
        },
        "CharDevice" => match found {
            Ok(kind) if kind.is_char_device() => Ok(()),
            _ => refused("a character device"),
        },
        "BlockDevice" => match found {
            Ok(kind) if kind.is_block_device() => Ok(()),
            _ => refused("a block device"),
        },
        other => Err(Error::HostPath(format!(
            "hostPath type `{other}` is unknown"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_checked_and_made() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let socket = dir.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let new = dir.path().join("a/b");
        let new_file = dir.path().join("new");
        let good = [
            (dir.path(), "Directory"),
            (dir.path(), "DirectoryOrCreate"),
            (&new, "DirectoryOrCreate"),
            (&file, "File"),
            (&new_file, "FileOrCreate"),
            (&socket, "Socket"),
            (Path::new("/dev/null"), "CharDevice"),
            (Path::new("/nowhere"), ""),
        ];
        for (path, kind) in good {
            assert!(check(path, kind).is_ok(), "{path:?} {kind}");
        }
        let bad = [
            (file.as_path(), "Directory"),
            (file.as_path(), "DirectoryOrCreate"),
            (dir.path(), "File"),
            (Path::new("/nowhere"), "Directory"),
            (Path::new("/nowhere/x"), "FileOrCreate"),
            (file.as_path(), "Socket"),
            (file.as_path(), "BlockDevice"),
            (file.as_path(), "Nonsense"),
        ];
        for (path, kind) in bad {
            assert!(check(path, kind).is_err(), "{path:?} {kind}");
        }
    }
}
