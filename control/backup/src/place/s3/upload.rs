//! An upload in parts: the object is there when the upload is completed.

use std::io::{self, Write};
use std::sync::Arc;

use bytes::Bytes;
use http::Method;

use super::server::Server;
use super::xml::{element, summary, unescape};
use crate::Error;
use crate::place::Sink;

/// The size of a part: an object has at most 10 000 of them, so 160 GiB.
const PART: usize = 16 << 20;
const MAX_PARTS: usize = 10_000;

/// An upload in parts.
pub(super) struct Upload {
    server: Arc<Server>,
    key: String,
    id: String,
    part: Vec<u8>,
    etags: Vec<String>,
    size: u64,
    is_done: bool,
}

// === impl Upload ===

impl Upload {
    /// Begins one.
    pub(super) fn begin(server: &Arc<Server>, key: String) -> Result<Self, Error> {
        const ACTION: &str = "beginning an upload";
        let url = || server.url(&Method::POST, &key, &[("uploads", "")]);
        let text = server.text(ACTION, &Method::POST, url, &Bytes::new())?;
        let id = element(&text, "UploadId").map(unescape);
        let id = id.ok_or_else(|| server.nonsense(ACTION, &summary(&text)))?;
        Ok(Self {
            server: Arc::clone(server),
            id,
            key,
            part: Vec::new(),
            etags: Vec::new(),
            size: 0,
            is_done: false,
        })
    }

    fn send(&mut self) -> Result<(), Error> {
        const ACTION: &str = "uploading a part";
        let server = &self.server;
        let body = Bytes::from(std::mem::take(&mut self.part));
        if self.etags.len() >= MAX_PARTS {
            return Err(server.nonsense(ACTION, "the backup is larger than 160 GiB"));
        }
        let number = (self.etags.len() + 1).to_string();
        let url = || {
            let query = [("partNumber", &*number), ("uploadId", &*self.id)];
            server.url(&Method::PUT, &self.key, &query)
        };
        let answer = server.call(ACTION, &Method::PUT, url, &body)?;
        let etag = answer
            .headers()
            .get(http::header::ETAG)
            .and_then(|tag| tag.to_str().ok())
            .ok_or_else(|| server.nonsense(ACTION, "the answer has no ETag"))?;
        self.etags.push(etag.to_owned());
        self.size += body.len() as u64;
        Ok(())
    }
}

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.part.len() >= PART {
            self.send().map_err(io::Error::other)?;
        }
        let taken = bytes.len().min(PART - self.part.len());
        self.part.extend_from_slice(&bytes[..taken]);
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for Upload {
    fn commit(mut self: Box<Self>) -> Result<u64, Error> {
        const ACTION: &str = "completing an upload";
        self.send()?;
        let server = &self.server;
        let mut body = "<CompleteMultipartUpload>".to_owned();
        for (at, etag) in self.etags.iter().enumerate() {
            let (number, etag) = (at + 1, etag.replace('"', "&quot;"));
            body.push_str(&format!(
                "<Part><PartNumber>{number}</PartNumber><ETag>{etag}</ETag></Part>"
            ));
        }
        body.push_str("</CompleteMultipartUpload>");
        let body = Bytes::from(body);
        let url = || server.url(&Method::POST, &self.key, &[("uploadId", &self.id)]);
        let text = server.text(ACTION, &Method::POST, url, &body)?;
        // A server that answers before it is done reports errors in the body.
        if text.contains("<Error>") {
            return Err(server.nonsense(ACTION, &summary(&text)));
        }
        self.is_done = true;
        Ok(self.size)
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let server = &self.server;
        let url = || server.url(&Method::DELETE, &self.key, &[("uploadId", &self.id)]);
        let aborted = server.text("giving up an upload", &Method::DELETE, url, &Bytes::new());
        if let Err(error) = aborted {
            tracing::warn!(place = server.describe(), %error, "failed to abort an upload");
        }
    }
}
