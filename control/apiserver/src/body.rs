//! Bodies of requests and responses.

use bytes::{Bytes, BytesMut};
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
    use http_body::Frame;
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
    async fn body_over_the_limit_is_refused() {
        assert!(matches!(
            read(frames(&[LIMIT, 1])).await,
            Err(ReadError::TooLarge)
        ));
    }
}
