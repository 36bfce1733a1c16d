//! The folder of a server, put together beside its place and moved there when it is whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::fs::{CWD, FlockOperation, RenameFlags, flock, renameat_with};

use crate::Error;
use crate::archive::ServerFile;

/// A folder that is put together. Dropped without [`DataFolder::install`], it is removed.
pub struct DataFolder {
    target: PathBuf,
    staging: PathBuf,
    /// Held while the folder is put together.
    lock: File,
    is_done: bool,
}

/// The file that marks a folder as in use.
const LOCK: &str = ".restoring";

/// Whether a process has the embedded store of a folder open.
#[must_use]
pub fn is_in_use(folder: &Path) -> bool {
    File::open(folder.join("store.redb"))
        .is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockExclusive).is_err())
}

impl DataFolder {
    /// Begins a folder for `target`. Removes leftovers of a crashed attempt.
    ///
    /// # Errors
    /// [`Error::NotEmpty`] if there is a store or a key at `target` and it is not to be
    /// replaced; [`Error::Store`] if a process uses it.
    pub fn begin(target: &Path, replace: bool) -> Result<Self, Error> {
        let holds_something = ["store.redb", "pki", "etcd"]
            .iter()
            .any(|name| target.join(name).exists());
        if holds_something && !replace {
            return Err(Error::NotEmpty {
                target: format!("`{}`", target.display()),
                way_out: "give another --data-dir, or --replace, which keeps the present one beside it",
            });
        }
        if is_in_use(target) {
            return Err(Error::Store(control_store::Error::Locked {
                path: target.join("store.redb"),
            }));
        }
        let staging = beside(target, "restoring");
        let parent = staging.parent().unwrap_or(target);
        fs::create_dir_all(parent).map_err(Error::file(parent))?;
        if let Ok(left) = File::open(staging.join(LOCK))
            && flock(&left, FlockOperation::NonBlockingLockExclusive).is_err()
        {
            return Err(Error::NotEmpty {
                target: format!("`{}`", staging.display()),
                way_out: "another restore is at work there: wait until it ends",
            });
        }
        if staging.exists() {
            fs::remove_dir_all(&staging).map_err(Error::file(&staging))?;
        }
        fs::DirBuilder::new()
            .mode(0o700)
            .create(&staging)
            .map_err(Error::file(&staging))?;
        let lock = staging.join(LOCK);
        let file = File::create(&lock).map_err(Error::file(&lock))?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|error| Error::file(&lock)(error.into()))?;
        Ok(Self {
            target: target.to_owned(),
            staging,
            lock: file,
            is_done: false,
        })
    }

    /// A path in the folder.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        self.staging.join(name)
    }

    /// Writes files of a server.
    ///
    /// # Errors
    /// When one cannot be written.
    pub fn write(&self, files: &[ServerFile]) -> Result<(), Error> {
        for file in files {
            let path = self.path(&file.name);
            let parent = path.parent().unwrap_or(&self.staging);
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o755)
                .create(parent)
                .map_err(Error::file(parent))?;
            OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(file.mode)
                .open(&path)
                .and_then(|mut out| {
                    out.write_all(&file.content)?;
                    out.sync_all()
                })
                .map_err(Error::file(&path))?;
        }
        Ok(())
    }

    /// Moves the folder to its place, in one step; returns where the one is kept that was
    /// there.
    ///
    /// # Errors
    /// When it cannot be moved.
    pub fn install(mut self, now: Timestamp) -> Result<Option<PathBuf>, Error> {
        let lock = self.path(LOCK);
        fs::remove_file(&lock).map_err(Error::file(&lock))?;
        sync(&self.staging)?;
        let failed = |error: rustix::io::Errno, path: &Path| Error::file(path)(error.into());
        let renamed = renameat_with(
            CWD,
            &self.staging,
            CWD,
            &self.target,
            RenameFlags::NOREPLACE,
        );
        let aside = match renamed {
            Ok(()) => None,
            Err(rustix::io::Errno::EXIST) => {
                renameat_with(CWD, &self.staging, CWD, &self.target, RenameFlags::EXCHANGE)
                    .map_err(|error| failed(error, &self.target))?;
                let time = now.strftime("%Y%m%dT%H%M%SZ").to_string();
                let aside = beside(&self.target, &format!("before-restore-{time}"));
                fs::rename(&self.staging, &aside).map_err(Error::file(&aside))?;
                Some(aside)
            }
            Err(error) => return Err(failed(error, &self.target)),
        };
        self.is_done = true;
        sync(self.target.parent().unwrap_or(&self.target))?;
        Ok(aside)
    }
}

impl Drop for DataFolder {
    fn drop(&mut self) {
        if !self.is_done {
            let _ = fs::remove_dir_all(&self.staging);
        }
        let _ = flock(&self.lock, FlockOperation::Unlock);
    }
}

/// A path beside another one, whose name begins with that one's.
fn beside(path: &Path, end: &str) -> PathBuf {
    // A folder that is named with `/` at its end, or is the present one.
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{end}"));
    path.with_file_name(name)
}

fn sync(folder: &Path) -> Result<(), Error> {
    let folder = if folder.as_os_str().is_empty() {
        Path::new(".")
    } else {
        folder
    };
    let synced: io::Result<()> = File::open(folder).and_then(|folder| folder.sync_all());
    synced.map_err(Error::file(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(content: &str) -> ServerFile {
        ServerFile {
            name: "pki/ca.key".to_owned(),
            mode: 0o600,
            content: content.as_bytes().to_vec(),
        }
    }

    #[test]
    fn a_folder_with_a_store_is_replaced_only_on_request_and_kept() {
        let dir = tempfile::tempdir().expect("a folder");
        let target = dir.path().join("server");
        let now = "2026-11-26T19:53:10Z".parse().expect("a time");
        let first = DataFolder::begin(&target, false).expect("begun");
        first.write(&[file("old")]).expect("written");
        assert_eq!(first.install(now).expect("installed"), None);
        assert!(matches!(
            DataFolder::begin(&target, false),
            Err(Error::NotEmpty { .. })
        ));
        let second = DataFolder::begin(&target, true).expect("begun");
        second.write(&[file("new")]).expect("written");
        assert!(DataFolder::begin(&target, true).is_err(), "at work");
        let aside = second.install(now).expect("installed").expect("kept");
        let read = |folder: &Path| fs::read_to_string(folder.join("pki/ca.key")).expect("read");
        assert_eq!(
            (read(&target), read(&aside)),
            ("new".to_owned(), "old".to_owned())
        );
        assert_eq!(fs::read_dir(dir.path()).expect("read").count(), 2);
    }

    #[test]
    fn one_that_was_given_up_leaves_nothing_and_one_that_crashed_is_removed() {
        let dir = tempfile::tempdir().expect("a folder");
        let target = dir.path().join("server");
        let first = DataFolder::begin(&target, false).expect("begun");
        first.write(&[file("half")]).expect("written");
        drop(first);
        assert_eq!(fs::read_dir(dir.path()).expect("read").count(), 0);
        let left = dir.path().join("server.restoring");
        fs::create_dir(&left).expect("made");
        fs::write(left.join(LOCK), "").expect("written");
        fs::write(left.join("half"), "").expect("written");
        let next = DataFolder::begin(&target, false).expect("begun");
        assert!(!left.join("half").exists());
        next.install(Timestamp::now()).expect("installed");
        assert!(target.exists() && !left.exists());
    }
}
