//! Creates a store's file from keys that keep their revisions.
//!
//! The counters are written last: without them the file is not a store. The file contains
//! no history, only the current value of each key.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use redb::backends::FileBackend;
use redb::{Database, ReadableTable as _};

use super::super::clock::{Clock, Readings};
use super::super::layout::{FIRST_FORMAT, FORMAT, Record, STATE_KEY, StoreCounters, WRITTEN};
use super::super::{Options, fault};
use super::{Tables, expires_at};
use crate::{Error, EventKind, KeyValue, Revision};

/// A change of a store that is imported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportedChange {
    /// A key, whatever was there.
    Put {
        /// The key with its revisions and its version; its lease is not looked at.
        kv: KeyValue,
        /// How long it still lives; `None` if for ever.
        remaining: Option<Duration>,
    },
    /// A deleted key.
    Delete(Bytes),
}

/// Fills a new store. Dropped without [`Importer::finish`], it removes the file.
pub struct Importer {
    path: PathBuf,
    database: Option<Database>,
    clock: Clock,
    format: u64,
}

// === impl Importer ===

impl Importer {
    /// Creates the file, which must not exist.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Full`].
    pub fn create(path: &Path) -> Result<Self, Error> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(|source| fault::system(path, source))?;
        let created = FileBackend::new(file).and_then(|file| {
            let mut builder = Database::builder();
            builder.set_cache_size(Options::default().cache_bytes);
            builder.create_with_backend(file)
        });
        Ok(Self {
            path: path.to_owned(),
            database: Some(created.map_err(|error| fault::open(path, error))?),
            clock: Clock::resume(None, Readings::now()),
            format: FIRST_FORMAT,
        })
    }

    /// Applies changes. They are durable when the import is finished.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn apply(&mut self, changes: &[ImportedChange]) -> Result<(), Error> {
        let now = self.clock.now();
        let format = self.transact(redb::Durability::None, |tables| {
            let mut format = FIRST_FORMAT;
            for change in changes {
                match change {
                    ImportedChange::Put { kv, remaining } => {
                        tables.drop_key(&kv.key)?;
                        let lease = remaining.map_or(0, |time| expires_at(now, time));
                        if tables.import(kv, lease)? {
                            format = FORMAT;
                        }
                    }
                    ImportedChange::Delete(key) => tables.drop_key(key)?,
                }
            }
            Ok(format)
        })?;
        self.format = self.format.max(format);
        Ok(())
    }

    /// Makes the file a store at `revision`, whose past is forgotten.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn finish(mut self, revision: Revision) -> Result<(), Error> {
        let state = StoreCounters {
            format: self.format,
            revision: revision.max(1),
            compacted: revision.max(1),
            swept: revision.max(1),
        };
        self.transact(redb::Durability::Immediate, |tables| {
            let row = state.encode();
            tables.counters.insert(STATE_KEY, row.as_slice())?;
            Ok(())
        })?;
        if let Some(database) = self.database.take() {
            let closed = database.close();
            closed.map_err(|error| {
                fault::system(&self.path, std::io::Error::other(error.to_string()))
            })?;
        }
        Ok(())
    }

    fn transact<T>(
        &self,
        durability: redb::Durability,
        work: impl FnOnce(&mut Tables<'_>) -> Result<T, redb::Error>,
    ) -> Result<T, Error> {
        let database = self.database.as_ref().ok_or(Error::Closed)?;
        let attempt = || -> Result<T, redb::Error> {
            let mut transaction = database.begin_write()?;
            transaction
                .set_durability(durability)
                .map_err(|error| redb::Error::Corrupted(error.to_string()))?;
            let mut tables = Tables::open(&transaction)?;
            let done = work(&mut tables)?;
            drop(tables);
            transaction.commit()?;
            Ok(done)
        };
        // The library panics on pages that make no sense.
        catch_unwind(AssertUnwindSafe(attempt))
            .unwrap_or_else(|payload| Err(redb::Error::Corrupted(fault::panic_text(&*payload))))
            .map_err(|error| fault::operation(&self.path, error))
    }
}

impl std::fmt::Debug for Importer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Importer")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl Drop for Importer {
    fn drop(&mut self) {
        if let Some(database) = self.database.take() {
            drop(database);
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

// === impl Tables ===

impl Tables<'_> {
    /// Removes a key without a trace in the history.
    fn drop_key(&mut self, key: &Bytes) -> Result<(), redb::Error> {
        if let Some(old) = self.current(key)? {
            self.detach(key, &old)?;
            self.forget(key, old.mod_revision)?;
        }
        Ok(())
    }

    /// Adds a key that does not exist; tells whether another one has the same revision.
    fn import(&mut self, kv: &KeyValue, lease: u64) -> Result<bool, redb::Error> {
        let record = Record {
            kind: EventKind::Put,
            create: kv.create_revision,
            version: kv.version,
            lease,
            previous: 0,
            key: &kv.key,
            value: &kv.value,
        };
        let revision = kv.mod_revision;
        let is_part = self.log.get(revision)?.is_some();
        if is_part {
            let rows = self
                .parts
                .range::<(u64, &[u8])>((revision, &[][..])..(revision + 1, &[][..]))?;
            let number = u32::try_from(rows.count()).unwrap_or(u32::MAX - 1) + 1;
            let mut bytes = vec![0; record.size()];
            record.encode(&mut bytes);
            self.parts.insert((revision, &*kv.key), (number, &*bytes))?;
        } else {
            record.encode(self.log.insert_reserve(revision, record.size())?.as_mut());
        }
        self.index.insert((&*kv.key, revision), WRITTEN)?;
        if lease != 0 {
            self.expiry.insert((lease, revision), &*kv.key)?;
        }
        Ok(is_part)
    }
}

/// Reads the format and the revision of a store that no process has open.
///
/// # Errors
/// As [`EmbeddedStore::open`](crate::embedded::EmbeddedStore::open).
pub fn inspect(path: &Path) -> Result<(u64, Revision), Error> {
    if !path.exists() {
        let source = std::io::Error::from(std::io::ErrorKind::NotFound);
        return Err(fault::system(path, source));
    }
    let (database, state) = super::open(path, &Options::default())?;
    drop(database);
    Ok((state.format, state.revision))
}
