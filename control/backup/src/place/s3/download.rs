//! An object that is read as its bytes arrive.

use std::io::{self, Read};

use bytes::{Buf as _, Bytes};
use http_body_util::BodyExt as _;
use tokio::runtime::Handle;

/// An object that is read.
pub(super) struct Download {
    runtime: Handle,
    body: hyper::body::Incoming,
    chunk: Bytes,
}

// === impl Download ===

impl Download {
    pub(super) fn new(runtime: Handle, body: hyper::body::Incoming) -> Self {
        Self {
            runtime,
            body,
            chunk: Bytes::new(),
        }
    }
}

impl Read for Download {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        while self.chunk.is_empty() {
            let frame = self.runtime.block_on(self.body.frame());
            match frame {
                None => return Ok(0),
                Some(Err(error)) => return Err(io::Error::other(error)),
                Some(Ok(frame)) => {
                    self.chunk = frame.into_data().unwrap_or_default();
                }
            }
        }
        let taken = self.chunk.len().min(out.len());
        self.chunk.copy_to_slice(&mut out[..taken]);
        Ok(taken)
    }
}
