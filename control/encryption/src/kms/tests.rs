//! A key manager's stand-in on a unix socket: it encrypts by adding its key's
//! number to every byte.

use std::convert::Infallible;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

use http::{Request, Response};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use prost::Message as _;

use super::*;

/// The manager's key, and how often it was asked to decrypt.
#[derive(Default)]
struct Manager {
    key: AtomicU8,
    decrypted: AtomicUsize,
    ill: AtomicU8,
}

impl Manager {
    fn answer(&self, method: &str, request: &[u8]) -> Vec<u8> {
        let key = self.key.load(Ordering::SeqCst);
        let key_id = format!("key-{key}");
        let shift = |bytes: &[u8], by: u8| -> Vec<u8> {
            bytes.iter().map(|byte| byte.wrapping_add(by)).collect()
        };
        match method {
            "Status" => client::StatusResponse {
                version: "v2".into(),
                healthz: if self.ill.load(Ordering::SeqCst) == 0 {
                    "ok".into()
                } else {
                    "ill".into()
                },
                key_id,
            }
            .encode_to_vec(),
            "Encrypt" => {
                let asked = client::EncryptRequest::decode(request).expect("a request");
                client::EncryptResponse {
                    ciphertext: shift(&asked.plaintext, key),
                    key_id,
                    annotations: [("kms.example".to_owned(), vec![key])].into(),
                }
                .encode_to_vec()
            }
            _ => {
                self.decrypted.fetch_add(1, Ordering::SeqCst);
                let asked = client::DecryptRequest::decode(request).expect("a request");
                let by: u8 = asked.key_id["key-".len()..].parse().expect("a number");
                assert_eq!(asked.annotations["kms.example"], [by]);
                client::DecryptResponse {
                    plaintext: shift(&asked.ciphertext, 0_u8.wrapping_sub(by)),
                }
                .encode_to_vec()
            }
        }
    }
}

/// Serves in a thread for as long as the process.
fn serve(manager: Arc<Manager>, socket: &std::path::Path) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let guard = runtime.enter();
    let listener = tokio::net::UnixListener::bind(socket).expect("a socket");
    drop(guard);
    std::thread::spawn(move || {
        runtime.block_on(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let manager = Arc::clone(&manager);
                tokio::spawn(async move {
                    let service = hyper::service::service_fn(move |request: Request<Incoming>| {
                        let manager = Arc::clone(&manager);
                        async move { Ok::<_, Infallible>(grpc(manager, request).await) }
                    });
                    let io = hyper_util::rt::TokioIo::new(stream);
                    let executor = hyper_util::rt::TokioExecutor::new();
                    let _ = hyper::server::conn::http2::Builder::new(executor)
                        .serve_connection(io, service)
                        .await;
                });
            }
        });
    });
}

/// One call, in the framing of gRPC: a byte, the length, the message.
async fn grpc(
    manager: Arc<Manager>,
    request: Request<Incoming>,
) -> Response<StreamBody<impl futures::Stream<Item = Result<Frame<Bytes>, Infallible>>>> {
    let method = request
        .uri()
        .path()
        .rsplit('/')
        .next()
        .unwrap_or_default()
        .to_owned();
    let body = request
        .into_body()
        .collect()
        .await
        .expect("a body")
        .to_bytes();
    let message = manager.answer(&method, &body[5..]);
    let mut framed = vec![0];
    framed.extend_from_slice(&u32::try_from(message.len()).expect("small").to_be_bytes());
    framed.extend_from_slice(&message);
    let mut trailers = http::HeaderMap::new();
    trailers.insert("grpc-status", http::HeaderValue::from_static("0"));
    let frames = [
        Ok(Frame::data(Bytes::from(framed))),
        Ok(Frame::trailers(trailers)),
    ];
    Response::builder()
        .header("content-type", "application/grpc")
        .body(StreamBody::new(futures::stream::iter(frames)))
        .expect("an answer")
}

#[test]
fn values_are_encrypted_with_a_seed_that_the_manager_keeps() {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("kms.sock");
    let manager = Arc::new(Manager::default());
    manager.key.store(1, Ordering::SeqCst);
    serve(Arc::clone(&manager), &socket);
    let socket = socket.to_str().expect("text");
    let start = || Kms::start("k", socket, Duration::from_secs(3)).expect("started");
    let kms = start();
    kms.health().expect("well");
    let mut first = Vec::new();
    kms.seal(b"/a", b"value", &mut first).expect("sealed");
    let opened = kms.open(b"/a", &first).expect("opened");
    assert_eq!(
        (opened.value.as_slice(), opened.stale),
        (&b"value"[..], false)
    );
    assert_eq!(
        manager.decrypted.load(Ordering::SeqCst),
        0,
        "its own seed is known"
    );
    assert!(kms.open(b"/b", &first).is_err(), "moved");

    // Another server asks the manager, once.
    let other = start();
    for _ in 0..3 {
        assert_eq!(other.open(b"/a", &first).expect("opened").value, b"value");
    }
    assert_eq!(manager.decrypted.load(Ordering::SeqCst), 1);

    manager.key.store(2, Ordering::SeqCst);
    kms.probe();
    assert!(
        kms.open(b"/a", &first).expect("opened").stale,
        "the key is another"
    );
    let mut second = Vec::new();
    kms.seal(b"/a", b"value", &mut second).expect("sealed");
    assert!(!kms.open(b"/a", &second).expect("opened").stale);

    manager.ill.store(1, Ordering::SeqCst);
    kms.probe();
    let why = kms.health().expect_err("ill").to_string();
    assert!(why.contains("it says of itself: ill"), "{why}");
    let mut third = Vec::new();
    kms.seal(b"/a", b"value", &mut third)
        .expect("for some minutes more");
    kms.open(b"/a", &first).expect("what is known is read");
}

#[test]
fn a_manager_that_is_not_there_is_told_and_nothing_is_written_plainly() {
    let dir = tempfile::tempdir().expect("a directory");
    let socket = dir.path().join("none.sock");
    let socket = socket.to_str().expect("text");
    let kms = Kms::start("k", socket, Duration::from_millis(200)).expect("started");
    assert!(kms.health().is_err());
    let mut out = Vec::new();
    assert!(kms.seal(b"/a", b"value", &mut out).is_err());
    assert_eq!(out, b"");
    assert!(kms.open(b"/a", b"\x0a\x01x").is_err());
    assert!(kms.open(b"/a", b"\xff\xff").is_err());
}
