//! Backups in a folder. An incomplete one has another name and is locked by its writer:
//! the next backup removes leftovers of a crash.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, RenameFlags, flock, renameat_with};

use super::{Place, Sink, StoredBackup};
use crate::{BackupName, Error};

const PARTIAL: &str = ".partial";

/// A folder of backups.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

struct FileSink {
    file: Option<BufWriter<File>>,
    partial: PathBuf,
    path: PathBuf,
}

// === impl Folder ===

impl Folder {
    /// The folder at a path; it is made with the first backup.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Removes leftovers of writers that no longer run.
    fn tidy(&self) -> Result<(), Error> {
        for entry in fs::read_dir(&self.0).map_err(Error::file(&self.0))? {
            let path = entry.map_err(Error::file(&self.0))?.path();
            let is_partial = path.to_string_lossy().ends_with(PARTIAL)
                && path
                    .file_name()
                    .is_some_and(|name| name.to_string_lossy().starts_with("orlop-"));
            if !is_partial {
                continue;
            }
            let Ok(file) = File::open(&path) else {
                continue;
            };
            if flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok() {
                fs::remove_file(&path).map_err(Error::file(&path))?;
            }
        }
        Ok(())
    }
}

impl Place for Folder {
    fn describe(&self) -> String {
        format!("`{}`", self.0.display())
    }

    fn list(&self) -> Result<Vec<StoredBackup>, Error> {
        let mut found = Vec::new();
        let entries = match fs::read_dir(&self.0) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(found),
            entries => entries.map_err(Error::file(&self.0))?,
        };
        for entry in entries {
            let entry = entry.map_err(Error::file(&self.0))?;
            if let Some(name) = BackupName::parse(&entry.file_name().to_string_lossy()) {
                let size = entry.metadata().map_err(Error::file(entry.path()))?.len();
                found.push(StoredBackup { name, size });
            }
        }
        found.sort_by(|a, b| (a.name.created, &a.name).cmp(&(b.name.created, &b.name)));
        Ok(found)
    }

    fn open(&self, name: &str) -> Result<Box<dyn Read + Send>, Error> {
        let path = self.0.join(name);
        match File::open(&path) {
            Ok(file) => Ok(Box::new(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(Error::NotFound {
                name: name.to_owned(),
                place: self.describe(),
            }),
            Err(error) => Err(Error::file(&path)(error)),
        }
    }

    fn create(&self, name: &str) -> Result<Box<dyn Sink>, Error> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.0)
            .map_err(Error::file(&self.0))?;
        self.tidy()?;
        let path = self.0.join(name);
        let partial = self
            .0
            .join(format!("{name}.{}{PARTIAL}", std::process::id()));
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&partial)
            .map_err(Error::file(&partial))?;
        let sink = FileSink {
            file: Some(BufWriter::with_capacity(1 << 18, file)),
            partial,
            path,
        };
        let locked = sink
            .file
            .as_ref()
            .map(|file| flock(file.get_ref(), FlockOperation::NonBlockingLockExclusive));
        if let Some(Err(error)) = locked {
            return Err(Error::file(&sink.partial)(error.into()));
        }
        Ok(Box::new(sink))
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        let path = self.0.join(name);
        fs::remove_file(&path).map_err(Error::file(&path))
    }
}

// === impl FileSink ===

impl Write for FileSink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.as_mut().map_or(Ok(0), |file| file.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.as_mut().map_or(Ok(()), Write::flush)
    }
}

impl Sink for FileSink {
    fn commit(mut self: Box<Self>) -> Result<u64, Error> {
        let Some(file) = self.file.take() else {
            return Err(Error::Cancelled);
        };
        let file = file
            .into_inner()
            .map_err(|error| Error::Write(error.into_error()))?;
        file.sync_all().map_err(Error::Write)?;
        let size = file.metadata().map_err(Error::Write)?.len();
        let here = rustix::fs::CWD;
        let renamed = renameat_with(
            here,
            &self.partial,
            here,
            &self.path,
            RenameFlags::NOREPLACE,
        );
        match renamed {
            Ok(()) => {}
            // Not every file system can refuse to replace.
            Err(rustix::io::Errno::INVAL) if !self.path.exists() => {
                fs::rename(&self.partial, &self.path).map_err(Error::file(&self.path))?;
            }
            Err(rustix::io::Errno::EXIST | rustix::io::Errno::INVAL) => {
                return Err(Error::Exists {
                    name: name_of(&self.path),
                    place: format!("`{}`", parent_of(&self.path).display()),
                });
            }
            Err(error) => return Err(Error::file(&self.path)(error.into())),
        }
        let parent = parent_of(&self.path);
        File::open(parent)
            .and_then(|folder| folder.sync_all())
            .map_err(Error::file(parent))?;
        Ok(size)
    }
}

impl Drop for FileSink {
    fn drop(&mut self) {
        // There no more when it was committed.
        let _ = fs::remove_file(&self.partial);
    }
}

fn name_of(path: &Path) -> String {
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

fn parent_of(path: &Path) -> &Path {
    path.parent().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "orlop-1b2c3d4e-20261126T195310Z-r7.backup";

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("a folder").flatten();
        entries
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn a_backup_is_there_when_it_is_whole() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("new");
        let folder = Folder::new(&path);
        assert_eq!(folder.list().expect("read"), []);
        let mut sink = folder.create(NAME).expect("begun");
        sink.write_all(b"half").expect("written");
        assert_eq!(folder.list().expect("read"), []);
        drop(sink);
        assert!(names(&path).is_empty(), "given up");
        let mut sink = folder.create(NAME).expect("begun");
        sink.write_all(b"whole").expect("written");
        assert_eq!(sink.commit().expect("committed"), 5);
        assert_eq!(folder.list().expect("read").len(), 1);
        let again = folder.create(NAME).expect("begun").commit();
        assert!(matches!(again, Err(Error::Exists { .. })), "{again:?}");
        let mut content = String::new();
        let mut file = folder.open(NAME).expect("opened");
        file.read_to_string(&mut content).expect("read");
        assert_eq!(content, "whole");
        assert!(matches!(folder.open("none"), Err(Error::NotFound { .. })));
    }

    #[test]
    fn what_a_crash_left_is_removed_and_what_is_being_written_is_not() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = Folder::new(dir.path());
        let left = dir.path().join(format!("{NAME}.1{PARTIAL}"));
        fs::write(&left, "half").expect("written");
        fs::write(dir.path().join("other.partial"), "mine").expect("written");
        let first = folder.create(NAME).expect("begun");
        assert!(!left.exists());
        let other = "orlop-1b2c3d4e-20261126T195311Z-r8.backup";
        let second = folder.create(other).expect("begun");
        assert_eq!(names(dir.path()).len(), 3, "{:?}", names(dir.path()));
        drop((first, second));
        assert_eq!(names(dir.path()), ["other.partial"]);
    }
}
