//! gRPC served on unix sockets ([`server`]), to clients that name the socket's path as their
//! host, too.
//!
//! A client of gRPC for Go that dials `/var/lib/kubelet/plugins_registry/driver.sock` sends
//! `:authority: %2Fvar%2Flib%2F…`, as the kubelet and many device plugins do. That is no
//! authority of a URI (RFC 3986, section 3.2), so hyper resets the stream with `PROTOCOL_ERROR`.
//! On a unix socket the host has no meaning: [`UnixGrpcStream`] reads requests as if all of
//! them named `localhost`, which is what gRPC prescribes for `unix:` targets.

mod frames;
mod headers;
pub mod server;

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use self::frames::FrameRewriter;

/// Bytes read from the socket at once.
const CHUNK: usize = 16 << 10;

/// A server's end of an HTTP/2 connection on a unix socket.
#[derive(Debug)]
pub struct UnixGrpcStream<S> {
    inner: S,
    rewriter: FrameRewriter,
    /// Bytes that are rewritten, of which `taken` have been read.
    rewritten: Vec<u8>,
    taken: usize,
}

impl<S> UnixGrpcStream<S> {
    /// Wraps a connection that a client has just opened.
    pub fn new(inner: S) -> Self {
        Self {
            inner,
            rewriter: FrameRewriter::default(),
            rewritten: Vec::new(),
            taken: 0,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for UnixGrpcStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        target: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.taken == this.rewritten.len() {
            this.rewritten.clear();
            this.taken = 0;
            let mut chunk = [0; CHUNK];
            let mut chunk = ReadBuf::new(&mut chunk);
            ready!(Pin::new(&mut this.inner).poll_read(cx, &mut chunk))?;
            if chunk.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.rewriter.feed(chunk.filled(), &mut this.rewritten);
        }
        let rest = this.rewritten.get(this.taken..).unwrap_or_default();
        let count = rest.len().min(target.remaining());
        target.put_slice(rest.get(..count).unwrap_or_default());
        this.taken += count;
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for UnixGrpcStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
