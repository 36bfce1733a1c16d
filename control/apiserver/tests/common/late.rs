//! A store that tells of its changes late, as one beside a busy machine does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use control_store::{
    Error, KeyValue, Outcome, Page, Precondition, Range, Revision, Store, Watch, WatchParts, Write,
};
use futures::StreamExt;
use futures::future::BoxFuture;

/// By how much, once it has begun.
const LATE: Duration = Duration::from_millis(300);

pub struct Late {
    store: Arc<dyn Store>,
    begun: Arc<AtomicBool>,
}

impl Late {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            begun: Arc::default(),
        }
    }

    /// What makes changes be told late from then on, once it holds.
    pub fn begun(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.begun)
    }
}

impl Store for Late {
    fn get(
        &self,
        key: Bytes,
        at: Option<Revision>,
    ) -> BoxFuture<'_, Result<Option<KeyValue>, Error>> {
        self.store.get(key, at)
    }

    fn range(&self, range: Range) -> BoxFuture<'_, Result<Page, Error>> {
        self.store.range(range)
    }

    fn write(
        &self,
        key: Bytes,
        precondition: Precondition,
        write: Write,
    ) -> BoxFuture<'_, Result<Outcome, Error>> {
        self.store.write(key, precondition, write)
    }

    fn watch(&self, prefix: Bytes, after: Revision) -> Watch {
        let watch = self.store.watch(prefix, after);
        let progress = watch.progress();
        let begun = Arc::clone(&self.begun);
        let stream = watch.then(move |batch| {
            let late = begun.load(Ordering::SeqCst);
            async move {
                if late {
                    tokio::time::sleep(LATE).await;
                }
                batch
            }
        });
        Watch::new(WatchParts {
            stream: stream.boxed(),
            request_progress: Arc::new(move || progress.request()),
        })
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), Error>> {
        self.store.compact(revision)
    }

    fn revision(&self) -> Revision {
        self.store.revision()
    }

    fn compacted(&self) -> Revision {
        self.store.compacted()
    }
}
