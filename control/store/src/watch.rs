//! The reader's end of a watch, the same for every backend.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::stream::{BoxStream, Stream, StreamExt};

use crate::{Batch, Error};

/// A stream of [`Batch`]es. It ends after an error and when the store closes.
///
/// Dropping it ends the watch.
pub struct Watch {
    stream: BoxStream<'static, Result<Batch, Error>>,
    progress: Progress,
}

/// The parts from which a backend makes a [`Watch`].
pub struct WatchParts {
    /// The batches, in order.
    pub stream: BoxStream<'static, Result<Batch, Error>>,
    /// Called by [`Progress::request`].
    pub request_progress: Arc<dyn Fn() + Send + Sync>,
}

/// Asks a watch to say how far it has come. Cheap to clone; may outlive the
/// watch, then it does nothing.
#[derive(Clone)]
pub struct Progress(Arc<dyn Fn() + Send + Sync>);

// === impl Watch ===

impl Watch {
    /// Makes a watch of a backend's parts.
    #[must_use]
    pub fn new(parts: WatchParts) -> Self {
        Self {
            stream: parts.stream,
            progress: Progress(parts.request_progress),
        }
    }

    /// The next batch; `None` when the watch is over.
    pub async fn next(&mut self) -> Option<Result<Batch, Error>> {
        self.stream.next().await
    }

    /// A handle for asking this watch for its progress from elsewhere.
    #[must_use]
    pub fn progress(&self) -> Progress {
        self.progress.clone()
    }
}

impl Stream for Watch {
    type Item = Result<Batch, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.stream.as_mut().poll_next(context)
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Watch")
    }
}

// === impl Progress ===

impl Progress {
    /// Makes the watch yield a batch soon, be it an empty one, whose revision
    /// is at least the store's revision of this moment (when it has caught up
    /// that far). This is how a cache learns that it is as new as the store.
    pub fn request(&self) {
        (self.0)();
    }
}

impl fmt::Debug for Progress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Progress")
    }
}
