//! A key manager for tests: it encrypts by adding its key's number to every byte.

use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};

use http::{Request, Response};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use prost::Message;

use crate::messages::{
    DecryptRequest, DecryptResponse, EncryptRequest, EncryptResponse, StatusResponse,
};

/// The annotation that the manager requires with its ciphertext.
const ANNOTATION: &str = "kms.example";
/// The prefix of the names of its keys.
const KEY: &str = "key-";

/// A manager with one key at a time.
#[derive(Debug, Default)]
pub struct FakeManager {
    key: AtomicU8,
    decrypted: AtomicUsize,
    is_ill: AtomicBool,
}

impl FakeManager {
    /// Encrypts with another key from now on; former ones decrypt as before.
    pub fn use_key(&self, number: u8) {
        self.key.store(number, Ordering::SeqCst);
    }

    /// Says of itself that it is ill from now on.
    pub fn fall_ill(&self) {
        self.is_ill.store(true, Ordering::SeqCst);
    }

    /// Returns the number of decryption requests.
    pub fn decrypted(&self) -> usize {
        self.decrypted.load(Ordering::SeqCst)
    }

    /// Serves at a socket, in a thread for as long as the process.
    ///
    /// # Errors
    /// When there can be no socket or no thread.
    pub fn serve(self: &Arc<Self>, socket: &Path) -> io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let guard = runtime.enter();
        let listener = tokio::net::UnixListener::bind(socket)?;
        drop(guard);
        let manager = Arc::clone(self);
        let thread = std::thread::Builder::new().name("fake-kms".to_owned());
        thread
            .spawn(move || runtime.block_on(accept(listener, manager)))
            .map(drop)
    }

    /// Returns the answer to a call; `None` if it is not part of the protocol.
    fn answer(&self, method: &str, request: &[u8]) -> Option<Vec<u8>> {
        let key = self.key.load(Ordering::SeqCst);
        let key_id = format!("{KEY}{key}");
        let shift = |bytes: &[u8], by: u8| -> Vec<u8> {
            bytes.iter().map(|byte| byte.wrapping_add(by)).collect()
        };
        match method {
            "Status" => {
                let healthz = match self.is_ill.load(Ordering::SeqCst) {
                    false => "ok",
                    true => "ill",
                };
                let status = StatusResponse {
                    version: "v2".to_owned(),
                    healthz: healthz.to_owned(),
                    key_id,
                };
                Some(status.encode_to_vec())
            }
            "Encrypt" => {
                let asked = EncryptRequest::decode(request).ok()?;
                let encrypted = EncryptResponse {
                    ciphertext: shift(&asked.plaintext, key),
                    key_id,
                    annotations: [(ANNOTATION.to_owned(), vec![key])].into(),
                };
                Some(encrypted.encode_to_vec())
            }
            "Decrypt" => {
                self.decrypted.fetch_add(1, Ordering::SeqCst);
                let asked = DecryptRequest::decode(request).ok()?;
                let by: u8 = asked.key_id.strip_prefix(KEY)?.parse().ok()?;
                let annotation = asked.annotations.get(ANNOTATION)?;
                let decrypted = DecryptResponse {
                    plaintext: shift(&asked.ciphertext, 0_u8.wrapping_sub(by)),
                };
                (*annotation == [by]).then(|| decrypted.encode_to_vec())
            }
            _ => None,
        }
    }
}

async fn accept(listener: tokio::net::UnixListener, manager: Arc<FakeManager>) {
    while let Ok((stream, _)) = listener.accept().await {
        let manager = Arc::clone(&manager);
        tokio::spawn(async move {
            let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                let manager = Arc::clone(&manager);
                async move { Ok::<_, Infallible>(call(&manager, request).await) }
            });
            let io = hyper_util::rt::TokioIo::new(stream);
            let executor = hyper_util::rt::TokioExecutor::new();
            let _ = hyper::server::conn::http2::Builder::new(executor)
                .serve_connection(io, service)
                .await;
        });
    }
}

/// Answers one call, in the framing of gRPC: a byte, the length, the message.
async fn call(
    manager: &FakeManager,
    request: Request<Incoming>,
) -> Response<StreamBody<impl futures::Stream<Item = Result<Frame<Bytes>, Infallible>> + use<>>> {
    let path = request.uri().path().to_owned();
    let method = path.rsplit('/').next().unwrap_or_default();
    let body = request.into_body().collect().await;
    let body = body
        .map(http_body_util::Collected::to_bytes)
        .unwrap_or_default();
    let answer = body
        .get(5..)
        .and_then(|message| manager.answer(method, message));
    let mut frames = Vec::new();
    if let Some(message) = &answer {
        let length = u32::try_from(message.len()).unwrap_or_default();
        let framed = [&[0], &length.to_be_bytes()[..], message].concat();
        frames.push(Ok(Frame::data(Bytes::from(framed))));
    }
    // 3 is INVALID_ARGUMENT.
    let status = if answer.is_some() { "0" } else { "3" };
    let mut trailers = http::HeaderMap::new();
    trailers.insert("grpc-status", http::HeaderValue::from_static(status));
    frames.push(Ok(Frame::trailers(trailers)));
    let mut response = Response::new(StreamBody::new(futures::stream::iter(frames)));
    let content = http::HeaderValue::from_static("application/grpc");
    response.headers_mut().insert("content-type", content);
    response
}
