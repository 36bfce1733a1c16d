//! Small writes to a connection, gathered into large ones.
//!
//! HTTP/2 writes each frame by itself: a thousand watchers on one connection
//! would be a thousand TLS records and a thousand system calls for one event.
//! Between two flushes, which HTTP asks for when it has nothing more to say, what
//! is written is put together; a record then holds ten frames. On a connection that
//! is flushed all the time, a flush waits for one turn of the other tasks, which
//! mostly have something to say, too.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// As much is gathered: four TLS records of the largest size.
const LIMIT: usize = 64 * 1024;
/// Most answers are shorter: there is room for one at first. What is more is written
/// by many streams, and gets all the room at once.
const ANSWER: usize = 2 * 1024;

/// Flushes that follow each other in less than this come from many streams.
const BUSY: Duration = Duration::from_micros(200);

/// A connection whose writes are gathered. What is read passes through.
#[derive(Debug)]
pub(crate) struct Gather<S> {
    inner: S,
    /// What is not written yet; without memory of its own while there is nothing,
    /// since most connections are idle.
    pending: Vec<u8>,
    /// How much of `pending` has been written.
    written: usize,
    /// When it was last flushed.
    flushed: Option<Instant>,
    /// The flush that is asked for has waited for its turn.
    waited: bool,
}

impl<S: AsyncWrite + Unpin> Gather<S> {
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            pending: Vec::new(),
            written: 0,
            flushed: None,
            waited: false,
        }
    }

    /// Whether a flush is to let others have their turn first.
    fn waits(&mut self) -> bool {
        let busy = !self.waited
            && !self.pending.is_empty()
            && self.flushed.is_some_and(|last| last.elapsed() < BUSY);
        self.waited |= busy;
        busy
    }

    /// Writes what was gathered.
    fn drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.pending.len() {
            let rest = &self.pending[self.written..];
            let more = ready!(Pin::new(&mut self.inner).poll_write(context, rest))?;
            if more == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += more;
        }
        self.pending = Vec::new();
        self.written = 0;
        Poll::Ready(Ok(()))
    }

    /// Makes room for `length` more bytes; tells whether they are to be gathered,
    /// or are so many that they are better written as they lie.
    fn room(&mut self, length: usize, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let wanted = self.pending.len() + length;
        if wanted > LIMIT {
            ready!(self.drain(context))?;
        }
        let gathers = length < LIMIT;
        if gathers && wanted > self.pending.capacity() {
            let room = if wanted > ANSWER { LIMIT } else { ANSWER };
            self.pending.reserve_exact(room - self.pending.len());
        }
        Poll::Ready(Ok(gathers))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gather<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gather<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if ready!(self.room(bytes.len(), context))? {
            self.pending.extend_from_slice(bytes);
            return Poll::Ready(Ok(bytes.len()));
        }
        Pin::new(&mut self.inner).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = parts.iter().map(|part| part.len()).sum();
        if ready!(self.room(length, context))? {
            for part in parts {
                self.pending.extend_from_slice(part);
            }
            return Poll::Ready(Ok(length));
        }
        Pin::new(&mut self.inner).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.pending.is_empty() {
            return Pin::new(&mut self.inner).poll_flush(context);
        }
        if self.waits() {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        ready!(self.drain(context))?;
        self.waited = false;
        self.flushed = Some(Instant::now());
        Pin::new(&mut self.inner).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.drain(context))?;
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Takes a few bytes at a time, and counts how often it was asked.
    #[derive(Default)]
    struct Slow {
        taken: Vec<u8>,
        most: usize,
        calls: usize,
    }

    impl AsyncWrite for Slow {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let length = bytes.len().min(self.most);
            self.taken.extend_from_slice(&bytes[..length]);
            self.calls += 1;
            Poll::Ready(Ok(length))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    fn slow(most: usize) -> Gather<Slow> {
        Gather::new(Slow {
            most,
            ..Slow::default()
        })
    }

    #[tokio::test]
    async fn small_writes_are_one_when_they_are_flushed() {
        let mut gather = slow(usize::MAX);
        for _ in 0..20 {
            gather.write_all(b"frame").await.expect("gathered");
        }
        assert_eq!(gather.inner.calls, 0);
        gather.flush().await.expect("flushed");
        assert_eq!((gather.inner.calls, gather.inner.taken.len()), (1, 5 * 20));
        assert_eq!(gather.pending.capacity(), 0);
    }

    fn ask_for_flush(gather: &mut Gather<Slow>) -> Poll<io::Result<()>> {
        let mut context = Context::from_waker(std::task::Waker::noop());
        Pin::new(gather).poll_flush(&mut context)
    }

    #[tokio::test]
    async fn a_connection_that_is_flushed_all_the_time_waits_for_others() {
        let mut gather = slow(usize::MAX);
        gather.write_all(b"first").await.expect("gathered");
        gather.flush().await.expect("flushed");
        gather.flushed = Some(Instant::now() + Duration::from_secs(60));
        gather.write_all(b"second").await.expect("gathered");
        assert!(ask_for_flush(&mut gather).is_pending());
        gather.write_all(b"third").await.expect("gathered");
        assert!(ask_for_flush(&mut gather).is_ready());
        assert_eq!(gather.inner.calls, 2);
        assert_eq!(&gather.inner.taken[5..], b"secondthird");
    }

    #[tokio::test]
    async fn bytes_keep_their_order_whatever_their_size_and_the_pace_of_the_other_side() {
        for most in [1, 7, 5000, usize::MAX] {
            let mut gather = slow(most);
            let mut expected = Vec::new();
            for (at, size) in [3, LIMIT - 1, 10, 3 * LIMIT, 0, LIMIT, 1, 400]
                .into_iter()
                .enumerate()
            {
                let bytes = vec![u8::try_from(at).expect("few"); size];
                expected.extend_from_slice(&bytes);
                let parts = [
                    IoSlice::new(&bytes[..size / 2]),
                    IoSlice::new(&bytes[size / 2..]),
                ];
                let mut sent = std::future::poll_fn(|context| {
                    Pin::new(&mut gather).poll_write_vectored(context, &parts)
                })
                .await
                .expect("written");
                while sent < size {
                    sent += gather.write(&bytes[sent..]).await.expect("written");
                }
                assert!(gather.pending.len() <= LIMIT);
            }
            gather.shutdown().await.expect("ended");
            assert!(gather.inner.taken == expected, "{most}");
        }
    }

    #[tokio::test]
    async fn what_is_read_passes_through() {
        let (mut far, near) = tokio::io::duplex(64);
        let mut near = Gather::new(near);
        far.write_all(b"hello").await.expect("sent");
        let mut read = [0; 5];
        near.read_exact(&mut read).await.expect("read");
        assert_eq!(&read, b"hello");
    }
}
