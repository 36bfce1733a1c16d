//! The pin directory of maps and links, and its lock.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};

use crate::error::Error;

/// Links, below a version's directory.
pub(crate) const LINKS: &str = "links";
/// Below the links of the hooks of sockets.
pub(crate) const DEVICE_LINKS: &str = "devices";
/// Behind the name of a map that is being filled. No dot: the BPF filesystem
/// refuses them.
const NEXT: &str = "_NEXT";

/// How long to wait for another process to let go of the maps: one that was
/// told to end, or killed, takes a moment.
const LOCK_ATTEMPTS: u32 = 40;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

pub(crate) fn version_dir(pin_dir: &Path) -> PathBuf {
    pin_dir.join(format!("v{}", ebpf_abi::VERSION))
}

/// Directories of all versions.
pub(crate) fn versions(pin_dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| Error::File {
        verb: "read",
        path: pin_dir.to_owned(),
        source,
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(pin_dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let number = name
            .to_str()
            .and_then(|name| name.strip_prefix('v'))
            .map(str::parse::<u32>);
        if matches!(number, Some(Ok(_))) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

/// Where a map is pinned while it is filled.
pub(crate) fn next(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}{NEXT}"))
}

pub(crate) fn files(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| Error::File {
        verb: "read",
        path: directory.to_owned(),
        source,
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if !path.is_dir() {
            found.push(path);
        }
    }
    Ok(found)
}

pub(crate) fn remove_dir(path: &Path) -> Result<(), Error> {
    fs::remove_dir(path).map_err(|source| Error::File {
        verb: "remove",
        path: path.to_owned(),
        source,
    })
}

pub(crate) fn lock(pin_dir: &Path) -> Result<File, Error> {
    for _ in 0..LOCK_ATTEMPTS {
        if let Some(directory) = try_lock(pin_dir)? {
            return Ok(directory);
        }
        sleep(LOCK_PAUSE);
    }
    Err(Error::Busy {
        path: pin_dir.to_owned(),
    })
}

/// Whether a process works with what is pinned there, at this moment.
pub(crate) fn is_locked(pin_dir: &Path) -> Result<bool, Error> {
    Ok(try_lock(pin_dir)?.is_none())
}

fn try_lock(pin_dir: &Path) -> Result<Option<File>, Error> {
    let failed = |source| Error::File {
        verb: "open",
        path: pin_dir.to_owned(),
        source,
    };
    let directory = File::open(pin_dir).map_err(failed)?;
    match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(directory)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(errno) => Err(failed(errno.into())),
    }
}
