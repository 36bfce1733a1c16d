//! A copy of the store, made while it is in use.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::PoisonError;

use futures::future::BoxFuture;
use redb::backends::FileBackend;
use redb::{Database, Key, ReadTransaction, ReadableTable as _, TableDefinition, Value};

use super::layout::{EXPIRY, INDEX, LEASED, LEASES, LOG, PARTS, STATE, StoreCounters as Counters};
use super::{EmbeddedShared, EmbeddedStore, blocking, fault, mark, read};
use crate::{Error, Revision};

impl EmbeddedStore {
    /// Writes a consistent copy of the store into the new file `path`, and returns the
    /// copy's revision. Writers are not blocked. A store that is opened from the copy
    /// detects that it is one: see `mark.rs`.
    ///
    /// # Errors
    /// When the file exists or cannot be written, or the store cannot be read.
    pub fn snapshot(&self, path: PathBuf) -> BoxFuture<'_, Result<Revision, Error>> {
        let shared = self.shared.clone();
        blocking(move || snapshot(&shared, &path))
    }
}

fn snapshot(shared: &EmbeddedShared, path: &Path) -> Result<Revision, Error> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let file = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .map_err(|source| fault::system(path, source))?;
    let source = {
        let database = shared
            .database
            .read()
            .unwrap_or_else(PoisonError::into_inner);
        let database = database.as_ref().ok_or(Error::Closed)?;
        redb::ReadableDatabase::begin_read(database)
            .map_err(|error| fault::operation(&shared.path, error.into()))?
    };
    // The library panics on pages that make no sense.
    catch_unwind(AssertUnwindSafe(|| {
        let target = FileBackend::new(file).and_then(|file| {
            let mut builder = Database::builder();
            builder.set_cache_size(shared.options.cache_bytes);
            builder.create_with_backend(file)
        });
        let target = target.map_err(|error| fault::open(path, error))?;
        let counters =
            copy(&source, &target).map_err(|error| fault::operation(&shared.path, error))?;
        target
            .close()
            .map_err(|error| fault::system(path, io::Error::other(error)))?;
        Ok(counters.revision)
    }))
    .unwrap_or_else(|payload| Err(fault::corrupt(&shared.path, fault::panic_text(&*payload))))
}

/// How many rows go into one transaction of the copy, which keeps them in memory.
const ROWS: usize = 4096;

fn copy(source: &ReadTransaction, target: &Database) -> Result<Counters, redb::Error> {
    copy_table(source, target, INDEX)?;
    copy_table(source, target, LOG)?;
    copy_table(source, target, PARTS)?;
    copy_table(source, target, EXPIRY)?;
    copy_table(source, target, LEASES)?;
    copy_table(source, target, LEASED)?;
    copy_table(source, target, STATE)?;
    // Last, so that half a copy is no store; expects the mark that a copy lacks.
    let counters = read::state(source)?;
    mark::write_state(target, counters, true)?;
    Ok(counters)
}

fn copy_table<K: Key + 'static, V: Value + 'static>(
    source: &ReadTransaction,
    target: &Database,
    definition: TableDefinition<'_, K, V>,
) -> Result<(), redb::Error> {
    let from = source.open_table(definition)?;
    let mut rows = from.iter()?.peekable();
    loop {
        let mut transaction = target.begin_write()?;
        // Only the last commit has to be durable.
        transaction
            .set_durability(redb::Durability::None)
            .map_err(|error| redb::Error::Corrupted(error.to_string()))?;
        let mut table = transaction.open_table(definition)?;
        for row in rows.by_ref().take(ROWS) {
            let (key, value) = row?;
            table.insert(key.value(), value.value())?;
        }
        drop(table);
        transaction.commit()?;
        if rows.peek().is_none() {
            return Ok(());
        }
    }
}
