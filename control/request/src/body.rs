//! Bodies of requests and responses.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Bytes, BytesMut};
use http_body::{Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};

/// Any error of a body, as tower's middleware has it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of requests and responses on both transports.
pub type Body = UnsyncBoxBody<Bytes, BoxError>;

/// The largest request body taken, in bytes: stock's limit for objects.
pub const LIMIT: usize = 3 * 1024 * 1024;

/// Why a request body could not be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// More than [`LIMIT`] bytes came.
    #[error("request body is larger than {LIMIT} bytes")]
    TooLarge,
    /// The client went away or broke the protocol.
    #[error("request body broke off")]
    Broken(#[source] BoxError),
}

/// A body of bytes that are there already.
#[must_use]
pub fn full(bytes: impl Into<Bytes>) -> Body {
    Body::new(Full::new(bytes.into()).map_err(|never| match never {}))
}

/// A body of bytes that are there already and a line break, without a copy of them.
#[must_use]
pub fn line(bytes: Bytes) -> Body {
    Body::new(Line([Some(bytes), Some(Bytes::from_static(b"\n"))]))
}

/// What is not sent yet of two parts.
struct Line([Option<Bytes>; 2]);

impl http_body::Body for Line {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let next = self.0.iter_mut().find_map(Option::take);
        Poll::Ready(next.map(|bytes| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    fn size_hint(&self) -> SizeHint {
        let rest = self.0.iter().flatten().map(Bytes::len).sum::<usize>();
        SizeHint::with_exact(u64::try_from(rest).unwrap_or(u64::MAX))
    }
}

/// An empty body.
#[must_use]
pub fn empty() -> Body {
    full(Bytes::new())
}

/// Reads a whole request body, up to [`LIMIT`].
///
/// # Errors
/// When it is too large or breaks off.
pub async fn read(mut body: Body) -> Result<Bytes, ReadError> {
    let mut first = Bytes::new();
    let mut all = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(ReadError::Broken)?.into_data() else {
            continue;
        };
        if first.len() + all.len() + data.len() > LIMIT {
            return Err(ReadError::TooLarge);
        }
        // Nearly every body is one frame: then nothing is copied.
        if first.is_empty() && all.is_empty() {
            first = data;
        } else {
            if all.is_empty() {
                all.extend_from_slice(&std::mem::take(&mut first));
            }
            all.extend_from_slice(&data);
        }
    }
    Ok(if all.is_empty() { first } else { all.freeze() })
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use http_body_util::StreamBody;

    use super::*;

    fn frames(sizes: &[usize]) -> Body {
        let frames: Vec<_> = sizes
            .iter()
            .map(|&size| Ok::<_, BoxError>(Frame::data(Bytes::from(vec![b'x'; size]))))
            .collect();
        Body::new(StreamBody::new(stream::iter(frames)))
    }

    #[tokio::test]
    async fn bodies_of_any_number_of_frames_are_read_whole() {
        for sizes in [&[][..], &[5], &[5, 0, 7], &[LIMIT]] {
            let read = read(frames(sizes)).await.expect("body within the limit");
            assert_eq!(read.len(), sizes.iter().sum::<usize>());
        }
    }

    #[tokio::test]
    async fn a_line_says_how_long_it_is_and_ends() {
        use http_body::Body as _;
        let body = line(Bytes::from_static(b"{}"));
        assert_eq!(
            (body.size_hint().exact(), body.is_end_stream()),
            (Some(3), false)
        );
        let whole = body.collect().await.expect("read").to_bytes();
        assert_eq!(&*whole, b"{}\n");
    }

    #[tokio::test]
    async fn body_over_the_limit_is_refused() {
        assert!(matches!(
            read(frames(&[LIMIT, 1])).await,
            Err(ReadError::TooLarge)
        ));
    }
}
