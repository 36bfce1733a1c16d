//! The catalogue of a class: records of its volumes, snapshots and groups, and
//! the journal of operations that have begun.
//!
//! ```text
//! <state>/lock                  held by the one driver that uses the class
//! <state>/volumes/<id>.json     one file a record
//! <state>/snapshots/<id>.json
//! <state>/groups/<id>.json
//! <state>/journal/<key>.json    intents
//! ```
//!
//! It lies on the disk that holds the data, so that a node which returns with
//! its disks finds its volumes again.

pub mod atomic_file;
pub mod journal;
pub mod record;

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use journal::{Intent, Kind};
use record::{GroupRecord, SnapshotRecord, VolumeRecord};

/// Records and intents, in memory and on disk.
pub struct Catalog {
    folder: PathBuf,
    entries: Mutex<Entries>,
    /// Keeps other drivers out.
    _lock: File,
}

/// The recorded objects.
#[derive(Clone, Debug, Default)]
pub struct Entries {
    /// Volumes by identifier.
    pub volumes: BTreeMap<String, VolumeRecord>,
    /// Snapshots by identifier.
    pub snapshots: BTreeMap<String, SnapshotRecord>,
    /// Groups by identifier.
    pub groups: BTreeMap<String, GroupRecord>,
    /// Intents by key.
    pub intents: BTreeMap<String, Intent>,
}

impl Entries {
    /// Whether there is a record.
    #[must_use]
    pub fn is_recorded(&self, kind: Kind, id: &str) -> bool {
        match kind {
            Kind::Volume => self.volumes.contains_key(id),
            Kind::Snapshot => self.snapshots.contains_key(id),
            Kind::Group => self.groups.contains_key(id),
        }
    }

    /// Returns all volumes, also those that are being created.
    pub fn promised(&self) -> impl Iterator<Item = &VolumeRecord> {
        let begun = self.intents.values().filter_map(|intent| match intent {
            Intent::CreateVolume { record } => Some(&**record),
            _ => None,
        });
        let begun = begun.filter(|record| !self.volumes.contains_key(&record.id));
        self.volumes.values().chain(begun)
    }
}

/// Folders of the catalogue, with a file for each volume, snapshot, group and unfinished operation.
pub(crate) const FOLDERS: [&str; 4] = ["volumes", "snapshots", "groups", "journal"];

/// How long the lock of a driver that ended may still be held: a process that it was just
/// starting has a copy until it runs its program.
const LOCK_PATIENCE: Duration = Duration::from_secs(3);

/// Locks a file, for which it waits at most `patience`.
fn lock_within(file: &File, patience: Duration) -> rustix::io::Result<()> {
    let began = Instant::now();
    loop {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) if began.elapsed() < patience => {
                std::thread::sleep(Duration::from_millis(20));
            }
            result => return result,
        }
    }
}

impl Catalog {
    /// Opens the catalogue in a folder, which is made where it is missing.
    ///
    /// # Errors
    /// When another driver uses it, or a file in it is damaged.
    pub fn open(folder: &Path) -> Result<Self> {
        for part in FOLDERS {
            let folder = folder.join(part);
            let mut builder = DirBuilder::new();
            let made = builder.recursive(true).mode(0o700).create(&folder);
            made.map_err(Error::io("create", &folder))?;
        }
        let path = folder.join("lock");
        let lock = File::create(&path).map_err(Error::io("create", &path))?;
        lock_within(&lock, LOCK_PATIENCE)
            .map_err(Error::sys("lock (another driver uses the class)", &path))?;
        let entries = Entries {
            volumes: load(&folder.join("volumes"))?,
            snapshots: load(&folder.join("snapshots"))?,
            groups: load(&folder.join("groups"))?,
            intents: load(&folder.join("journal"))?,
        };
        Ok(Self {
            folder: folder.to_owned(),
            entries: Mutex::new(entries),
            _lock: lock,
        })
    }

    /// Returns access to the records; to be held only briefly.
    pub fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes an intent down, provided that `check` allows it, as one step.
    ///
    /// # Errors
    /// When the check or the file system refuses.
    pub fn begin(&self, intent: Intent, check: impl FnOnce(&Entries) -> Result<()>) -> Result<()> {
        let mut entries = self.entries();
        check(&entries)?;
        let key = intent.key();
        self.save("journal", &key, &intent)?;
        entries.intents.insert(key, intent);
        Ok(())
    }

    /// Strikes an intent out.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn finish(&self, intent: &Intent) -> Result<()> {
        let key = intent.key();
        self.remove("journal", &key)?;
        self.entries().intents.remove(&key);
        Ok(())
    }

    /// Writes the record of a volume.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn put_volume(&self, record: VolumeRecord) -> Result<()> {
        self.save("volumes", &record.id, &record)?;
        self.entries().volumes.insert(record.id.clone(), record);
        Ok(())
    }

    /// Removes the record of a volume.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn remove_volume(&self, id: &str) -> Result<()> {
        self.remove("volumes", id)?;
        self.entries().volumes.remove(id);
        Ok(())
    }

    /// Writes the record of a snapshot.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn put_snapshot(&self, record: SnapshotRecord) -> Result<()> {
        self.save("snapshots", &record.id, &record)?;
        self.entries().snapshots.insert(record.id.clone(), record);
        Ok(())
    }

    /// Removes the record of a snapshot.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn remove_snapshot(&self, id: &str) -> Result<()> {
        self.remove("snapshots", id)?;
        self.entries().snapshots.remove(id);
        Ok(())
    }

    /// Writes the record of a group.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn put_group(&self, record: GroupRecord) -> Result<()> {
        self.save("groups", &record.id, &record)?;
        self.entries().groups.insert(record.id.clone(), record);
        Ok(())
    }

    /// Removes the record of a group.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn remove_group(&self, id: &str) -> Result<()> {
        self.remove("groups", id)?;
        self.entries().groups.remove(id);
        Ok(())
    }

    fn file(&self, part: &str, key: &str) -> PathBuf {
        self.folder.join(part).join(format!("{key}.json"))
    }

    fn save(&self, part: &str, key: &str, value: &impl Serialize) -> Result<()> {
        let path = self.file(part, key);
        let bytes = serde_json::to_vec(value).map_err(|source| Error::Damaged {
            path: path.clone(),
            source,
        })?;
        atomic_file::write(&path, &bytes).map_err(Error::io("write", &path))
    }

    fn remove(&self, part: &str, key: &str) -> Result<()> {
        let path = self.file(part, key);
        atomic_file::remove(&path).map_err(Error::io("remove", &path))
    }
}

/// Reads all records of a folder; removes leftovers of interrupted writes.
fn load<T: DeserializeOwned>(folder: &Path) -> Result<BTreeMap<String, T>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).map_err(Error::io("list", folder))? {
        let path = entry.map_err(Error::io("list", folder))?.path();
        let ending = path.extension().and_then(OsStr::to_str);
        if ending == Some(atomic_file::TEMPORARY) {
            atomic_file::remove(&path).map_err(Error::io("remove", &path))?;
        }
        let (Some("json"), Some(key)) = (ending, path.file_stem().and_then(OsStr::to_str)) else {
            continue;
        };
        let bytes = fs::read(&path).map_err(Error::io("read", &path))?;
        let value = serde_json::from_slice(&bytes).map_err(|source| Error::Damaged {
            path: path.clone(),
            source,
        })?;
        found.insert(key.to_owned(), value);
    }
    Ok(found)
}

#[cfg(test)]
#[path = "catalog_tests.rs"]
mod tests;
