//! The store in one file, for a control plane of one node.
//!
//! The file is a [redb] database: copy-on-write B-trees, so that readers work on
//! snapshots while the writer commits, and a crash leaves the last commit. `layout.rs`
//! describes its contents.
//!
//! One thread writes (`writer.rs`). It takes all waiting requests, applies them in one
//! transaction, makes that durable with one commit and answers all of them: a single
//! writer waits for one commit, 64 writers share one. Reads (`read.rs`) run on the
//! caller's threads. Watches (`hub.rs`) get each commit from memory and fall back to the
//! file when they are slow.
//!
//! A failed write to the file, such as on a full disk, fails the requests in that commit;
//! the file is then reopened and the store continues.

mod clock;
mod fault;
mod hub;
mod layout;
mod mark;
mod read;
mod requests;
mod snapshot;
mod writer;

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::{BoxFuture, FutureExt};
use redb::{Database, ReadTransaction, ReadableDatabase};
use tokio::sync::oneshot;

use crate::txn::{GRANTED, lease_id};
use crate::{
    Error, KeyValue, Outcome, Page, Precondition, Range, Revision, Size, Store, Watch, WatchParts,
    Write,
};
use clock::Readings;
use hub::{Hub, ReadHistory};
use read::HistoryReplay;
use requests::LeaseRequest;
use writer::{Request, Writer};

pub use writer::{ImportedChange, Importer, inspect};

/// The formats of files that this version of the program reads.
pub const FORMATS: std::ops::RangeInclusive<u64> = layout::FIRST_FORMAT..=layout::FORMAT;

/// How an [`EmbeddedStore`] behaves. The default suits a small cluster.
#[derive(Clone, Debug)]
pub struct Options {
    /// How much of the file is kept in memory, in bytes. The operating system
    /// caches the file besides.
    pub cache_bytes: usize,
    /// For how long the past can be read and watched. Older revisions are
    /// compacted by themselves. `None`: only [`Store::compact`] does it.
    pub retain: Option<Duration>,
    /// How many revisions of the past are kept at most, whatever their age;
    /// bounds the file under a storm of writes. Only with `retain`.
    pub retain_revisions: u64,
    /// The largest key and value together, in bytes.
    pub max_entry_bytes: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            cache_bytes: 16 << 20,
            retain: Some(Duration::from_secs(5 * 60)),
            retain_revisions: 100_000,
            max_entry_bytes: 3 << 19,
        }
    }
}

/// A [`Store`] in one file. Dropping it closes the file.
///
/// Reads and watches use tokio's blocking threads: call them inside a runtime.
pub struct EmbeddedStore {
    shared: Arc<EmbeddedShared>,
    hub: Arc<Hub>,
    requests: mpsc::Sender<Request>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

/// State shared by the writer, the readers and the watches.
struct EmbeddedShared {
    path: PathBuf,
    options: Options,
    /// `None` while the file cannot be opened (after a fault), and at the end.
    database: RwLock<Option<Database>>,
    revision: AtomicU64,
    compacted: AtomicU64,
}

// === impl EmbeddedStore ===

impl EmbeddedStore {
    /// Opens the store in the file `path`, and creates the file if it does not exist. The
    /// directory must exist.
    ///
    /// # Errors
    /// [`Error::Locked`] if another process has it open, [`Error::Corrupt`],
    /// [`Error::Format`], [`Error::Full`] or [`Error::Io`]; each names the file.
    pub fn open(path: impl Into<PathBuf>, options: Options) -> Result<Self, Error> {
        Self::open_at(path.into(), options, Readings::now())
    }

    /// Opens the store when the machine's clocks show `readings`.
    fn open_at(path: PathBuf, options: Options, readings: Readings) -> Result<Self, Error> {
        let started = Instant::now();
        let (database, mut state) = writer::open(&path, &options)?;
        let marker = mark::check_for_restore(&path, &database, &mut state)?;
        tracing::info!(
            path = %path.display(),
            revision = state.revision,
            compacted = state.compacted,
            took = ?started.elapsed(),
            "store opened"
        );
        let shared = Arc::new(EmbeddedShared {
            path,
            options,
            database: RwLock::new(Some(database)),
            revision: AtomicU64::new(state.revision),
            compacted: AtomicU64::new(state.compacted),
        });
        let hub = Arc::new(Hub::new(state.revision));
        let (requests, receiver) = mpsc::channel();
        let writer = Writer::new(
            shared.clone(),
            hub.clone(),
            receiver,
            state,
            marker,
            readings,
        )?;
        let task = control_supervise::task("store-writer");
        let thread = std::thread::Builder::new()
            .name("store-writer".to_owned())
            .spawn(move || task.essential_thread(|| writer.run()))
            .map_err(|source| fault::system(&shared.path, source))?;
        Ok(Self {
            shared,
            hub,
            requests,
            writer: Mutex::new(Some(thread)),
        })
    }

    /// Opens `store.redb` in the directory `dir`, making both if need be; the
    /// directory is for the owner only.
    ///
    /// # Errors
    /// As [`EmbeddedStore::open`].
    pub fn open_in(dir: &Path, options: Options) -> Result<Self, Error> {
        use std::os::unix::fs::DirBuilderExt;
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(|source| fault::system(dir, source))?;
        Self::open(dir.join("store.redb"), options)
    }

    /// The store's file.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.shared.path
    }

    /// Stops the writer and the watches and closes the file; waits for pending writes.
    /// Afterwards every call returns [`Error::Closed`].
    pub fn close(&self) {
        let thread = self
            .writer
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let Some(thread) = thread else { return };
        // Fails only if the writer has already stopped.
        let _ = self.requests.send(Request::Close);
        if thread.join().is_err() {
            tracing::error!(path = %self.shared.path.display(), "store writer panicked");
        }
    }

    fn ask<T: Send + 'static>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, Error>>) -> Request,
    ) -> BoxFuture<'_, Result<T, Error>> {
        let (answer, receiver) = oneshot::channel();
        if self.requests.send(request(answer)).is_err() {
            return futures::future::ready(Err(Error::Closed)).boxed();
        }
        receiver
            .map(|answer| answer.unwrap_or(Err(Error::Closed)))
            .boxed()
    }
}

impl Drop for EmbeddedStore {
    fn drop(&mut self) {
        self.close();
    }
}

impl fmt::Debug for EmbeddedStore {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("EmbeddedStore")
            .field("path", &self.shared.path)
            .finish_non_exhaustive()
    }
}

impl Store for EmbeddedStore {
    fn get(
        &self,
        key: Bytes,
        at: Option<Revision>,
    ) -> BoxFuture<'_, Result<Option<KeyValue>, Error>> {
        // One or two pages, mostly cached: cheaper than another thread.
        let answer = self
            .shared
            .read(at, |transaction| read::get(transaction, &key, at));
        futures::future::ready(answer).boxed()
    }

    fn range(&self, range: Range) -> BoxFuture<'_, Result<Page, Error>> {
        let shared = self.shared.clone();
        blocking(move || shared.read(range.at, |transaction| read::range(transaction, &range)))
    }

    fn write(
        &self,
        key: Bytes,
        precondition: Precondition,
        write: Write,
    ) -> BoxFuture<'_, Result<Outcome, Error>> {
        let limit = self.shared.options.max_entry_bytes;
        let size = key.len()
            + match &write {
                Write::Put { value, .. } => value.len(),
                Write::Delete => 0,
            };
        if size > limit {
            return futures::future::ready(Err(Error::TooLarge { size, limit })).boxed();
        }
        self.ask(|answer| {
            Request::Write(writer::WriteRequest {
                key,
                precondition,
                write,
                answer: Some(answer),
            })
        })
    }

    fn watch(&self, prefix: Bytes, after: Revision) -> Watch {
        let shared = self.shared.clone();
        let read_history: ReadHistory = Arc::new(move |prefix, after, to| {
            let shared = shared.clone();
            blocking(move || {
                shared.read(Some(after), |transaction| {
                    read::history(transaction, &prefix, after, to)
                })
            })
        });
        let (reader, request_progress) = self.hub.watch(prefix, after, read_history);
        Watch::new(WatchParts {
            stream: Box::pin(reader),
            request_progress,
        })
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), Error>> {
        self.ask(|answer| Request::Compact {
            revision,
            answer: Some(answer),
        })
    }

    fn remaining(&self, lease: u64) -> BoxFuture<'_, Result<Option<Duration>, Error>> {
        if lease & GRANTED == 0 {
            // A time, which the key itself tells.
            return futures::future::ready(Ok(None)).boxed();
        }
        let status = self.lease_status(lease_id(lease), false);
        async move {
            let remaining = status.await?.map(|status| status.remaining);
            Ok(remaining.map(|seconds| Duration::from_secs(u64::try_from(seconds).unwrap_or(0))))
        }
        .boxed()
    }

    fn size(&self) -> BoxFuture<'_, Option<Size>> {
        let file = std::fs::metadata(&self.shared.path).ok();
        let size = file.map(|file| Size {
            of: "embedded",
            bytes: file.len(),
        });
        Box::pin(futures::future::ready(size))
    }

    fn revision(&self) -> Revision {
        self.shared.revision.load(Ordering::Acquire)
    }

    fn compacted(&self) -> Revision {
        self.shared.compacted.load(Ordering::Acquire)
    }
}

// === impl Shared ===

impl EmbeddedShared {
    /// Runs a read on a snapshot. `asked` is the requested revision, for the error.
    fn read<T>(
        &self,
        asked: Option<Revision>,
        question: impl FnOnce(&ReadTransaction) -> Result<HistoryReplay<T>, redb::Error>,
    ) -> Result<T, Error> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner);
        let database = database.as_ref().ok_or(Error::Closed)?;
        let past = database
            .begin_read()
            .map_err(redb::Error::from)
            .and_then(|transaction| question(&transaction))
            .map_err(|error| fault::operation(&self.path, error))?;
        let requested = asked.unwrap_or_default();
        match past {
            HistoryReplay::Answer(answer) => Ok(answer),
            HistoryReplay::Compacted { compacted } => Err(Error::Compacted {
                requested,
                compacted,
            }),
            HistoryReplay::Future { current } => Err(Error::FutureRevision { requested, current }),
        }
    }
}

/// Runs file input and output on a thread that may wait.
fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> BoxFuture<'static, Result<T, Error>> {
    tokio::task::spawn_blocking(work)
        .map(|joined| match joined {
            Ok(answer) => answer,
            // Cancelled because the runtime ends.
            Err(error) if error.is_cancelled() => Err(Error::Closed),
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        })
        .boxed()
}

#[cfg(test)]
mod tests;
