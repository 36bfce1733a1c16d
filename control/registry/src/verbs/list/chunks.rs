//! The bytes of a list, made a chunk at a time while they are sent.

use std::io::Write as _;
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream;
use http::header::{CACHE_CONTROL, CONTENT_ENCODING, CONTENT_TYPE, VARY};
use http::{HeaderValue, Response};
use http_body::Frame;
use http_body_util::StreamBody;

use crate::selection::Selection;
use crate::served_resource::ServedResource;
use control_request::body::{Body, BoxError};
use control_request::negotiate::Format;
use control_watch_cache::{CacheEntry, Counts, Position, ResourceCache, Tree, TreeEntry as _};

/// How much of a list is made at a time.
const CHUNK: usize = 128 * 1024;

/// How an item is written.
pub(super) type WriteItem = Box<dyn Fn(&CacheEntry, &mut Vec<u8>) + Send>;

/// Makes the bytes of a list, a chunk at a time.
pub(super) struct Writer {
    pub objects: Arc<Tree<CacheEntry>>,
    pub position: Option<Position>,
    pub selection: Selection,
    /// How many items may still come.
    pub left: usize,
    pub first: bool,
    pub head: Vec<u8>,
    /// What stands before the first item, between items, behind the last, and instead
    /// of all that where there is none.
    pub open: &'static [u8],
    pub between: &'static [u8],
    pub end: &'static [u8],
    pub none: &'static [u8],
    pub item: WriteItem,
    pub tally: Tally,
}

/// Counts what a list took, where its cache is known.
#[derive(Default)]
pub(super) struct Tally(Option<Arc<ResourceCache>>);

impl Tally {
    /// Begins a list.
    pub fn begin(served: &ServedResource) -> Self {
        if let Some(cache) = &served.cache {
            Counts::add(&cache.counts().lists, 1);
        }
        Self(served.cache.clone())
    }

    /// So many objects were looked at and sent.
    fn add(&self, looked: usize, sent: usize) {
        if let Some(cache) = &self.0 {
            Counts::add(&cache.counts().fetched, looked);
            Counts::add(&cache.counts().returned, sent);
        }
    }
}

impl Iterator for Writer {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        let mut position = self.position?;
        let (mut looked, mut ended, left) = (0, false, self.left);
        let mut out = Vec::with_capacity(if self.head.is_empty() {
            CHUNK + CHUNK / 4
        } else {
            1024
        });
        out.append(&mut self.head);
        let everything = self.selection.is_everything();
        while out.len() < CHUNK && self.left > 0 {
            let Some((object, next)) = self.objects.at(position) else {
                break;
            };
            if !object.key().starts_with(self.selection.prefix()) {
                break;
            }
            position = next;
            looked += 1;
            if everything || self.selection.matches(object) {
                let first = std::mem::replace(&mut self.first, false);
                out.extend_from_slice(if first { self.open } else { self.between });
                (self.item)(object, &mut out);
                self.left -= 1;
            } else if self
                .selection
                .only()
                .is_some_and(|only| only < object.key())
            {
                ended = true;
                break;
            }
        }
        self.tally.add(looked, left - self.left);
        if ended {
            self.left = 0;
        }
        if out.len() < CHUNK {
            out.extend_from_slice(if self.first { self.none } else { self.end });
            self.position = None;
        } else {
            self.position = Some(position);
        }
        Some(out)
    }
}

/// A response whose body is made while it is sent.
pub(super) fn streamed(first: Vec<u8>, rest: Writer, format: Format) -> Response<Body> {
    let gzip = format.gzip;
    let chunks = std::iter::once(first).chain(rest);
    let mut response = if gzip {
        let packed = Gzip {
            chunks,
            encoder: Some(GzEncoder::new(
                Vec::with_capacity(CHUNK / 4),
                Compression::fast(),
            )),
        };
        Response::new(stream_body(packed))
    } else {
        Response::new(stream_body(chunks.map(Bytes::from)))
    };
    let headers = response.headers_mut();
    let media = format.media.content_type();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    if gzip {
        headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
    response
}

fn stream_body(chunks: impl Iterator<Item = Bytes> + Send + 'static) -> Body {
    Body::new(StreamBody::new(stream::iter(
        chunks.map(|chunk| Ok::<_, BoxError>(Frame::data(chunk))),
    )))
}

/// Compresses chunks on their way.
struct Gzip<I> {
    chunks: I,
    encoder: Option<GzEncoder<Vec<u8>>>,
}

impl<I: Iterator<Item = Vec<u8>>> Iterator for Gzip<I> {
    type Item = Bytes;

    fn next(&mut self) -> Option<Bytes> {
        loop {
            let encoder = self.encoder.as_mut()?;
            let Some(chunk) = self.chunks.next() else {
                // Writing to memory does not fail.
                return self
                    .encoder
                    .take()
                    .and_then(|encoder| encoder.finish().ok())
                    .map(Bytes::from);
            };
            if encoder.write_all(&chunk).is_err() {
                return None;
            }
            let packed = std::mem::take(encoder.get_mut());
            if !packed.is_empty() {
                return Some(packed.into());
            }
        }
    }
}
