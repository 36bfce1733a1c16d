//! Answers that go on after they have begun: watches and other streams.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Frame, SizeHint};

use control_request::body::{Body, BoxError};

/// A body with something that is dropped when the body ends, or when nobody wants
/// it any more.
struct HoldingBody<T> {
    body: Body,
    end: Option<T>,
}

/// Drops `end` once the body has ended.
pub(super) fn until<T: Send + Unpin + 'static>(body: Body, end: T) -> Body {
    Body::new(HoldingBody {
        body,
        end: Some(end),
    })
}

impl<T: Unpin> http_body::Body for HoldingBody<T> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let polled = http_body::Body::poll_frame(Pin::new(&mut self.body), context);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.end = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        http_body::Body::is_end_stream(&self.body)
    }

    fn size_hint(&self) -> SizeHint {
        http_body::Body::size_hint(&self.body)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http_body_util::BodyExt;

    use super::*;
    use control_request::body;

    #[tokio::test]
    async fn the_end_is_noticed_whether_the_body_is_read_or_left() {
        let alive = Arc::new(());
        let read = until(body::full("x"), Arc::clone(&alive));
        let bytes = read.collect().await.expect("a body").to_bytes();
        assert_eq!(bytes, "x");
        assert_eq!(Arc::strong_count(&alive), 1);
        let left = until(body::full("x"), Arc::clone(&alive));
        assert_eq!(Arc::strong_count(&alive), 2);
        drop(left);
        assert_eq!(Arc::strong_count(&alive), 1);
    }
}
