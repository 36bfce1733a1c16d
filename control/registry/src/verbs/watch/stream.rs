//! The body of a watch.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::Frame;

use super::watcher::{Step, Watcher};
use control_request::body::BoxError;

/// A watcher as a body. Nearly always what it says next is there or it waits for an
/// event, which takes no future; reading the store's history and asking a webhook do.
pub(super) enum Stream {
    /// It can be asked at once.
    Follows(Box<Watcher>),
    /// Something has to be fetched first.
    Fetches(Pin<Box<dyn Future<Output = (Option<Bytes>, Box<Watcher>)> + Send>>),
    /// All is said.
    Ended,
}

impl Stream {
    pub fn new(watcher: Box<Watcher>) -> Self {
        Self::Follows(watcher)
    }
}

impl http_body::Body for Stream {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        loop {
            match &mut *self {
                Self::Follows(watcher) => match ready!(watcher.poll_step(context)) {
                    Step::Say(bytes) => return Poll::Ready(Some(Ok(Frame::data(bytes)))),
                    Step::Fetch => {
                        let this = std::mem::replace(&mut *self, Self::Ended);
                        let Self::Follows(mut watcher) = this else {
                            return Poll::Ready(None);
                        };
                        *self = Self::Fetches(Box::pin(async move {
                            let bytes = watcher.fetch().await;
                            (bytes, watcher)
                        }));
                    }
                    Step::End => *self = Self::Ended,
                },
                Self::Fetches(fetching) => {
                    let (bytes, watcher) = ready!(fetching.as_mut().poll(context));
                    *self = Self::Follows(watcher);
                    if let Some(bytes) = bytes {
                        return Poll::Ready(Some(Ok(Frame::data(bytes))));
                    }
                }
                Self::Ended => return Poll::Ready(None),
            }
        }
    }
}
