//! Attacks on the listener: each is refused with the right code, the server goes on
//! answering, and its memory stays under a stated bound. Client and server are one
//! process here, so the bounds hold for both together.

#![allow(
    clippy::large_futures,
    reason = "a test may hold a server and its clients on its stack"
)]

mod common;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use common::root;
use control_apiserver::ApiServer;
use control_apiserver::chain::Settings;
use control_pki::{Cluster, Issued, ServingIdentity, client_config, server_config};
use http::Method;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_util::sync::CancellationToken;

const MIB: usize = 1024 * 1024;
/// How long anything may take before a test gives up.
const PATIENCE: Duration = Duration::from_secs(60);

/// Memory is the process's: tests that look at it run one after the other.
static ALONE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// A server that listens, and how to reach it.
struct Target {
    _alone: tokio::sync::MutexGuard<'static, ()>,
    _dir: tempfile::TempDir,
    address: SocketAddr,
    authority: String,
    admin: Issued,
    stop: CancellationToken,
    served: tokio::task::JoinHandle<()>,
}

/// A server and what it takes to serve it.
struct Unserved {
    dir: tempfile::TempDir,
    cluster: Cluster,
    tls: Arc<ArcSwap<rustls::ServerConfig>>,
    address: SocketAddr,
    server: Option<ApiServer>,
    listener: Option<TcpListener>,
}

async fn target(settings: Settings) -> Target {
    let alone = ALONE.lock().await;
    let mut parts = unserved(settings).await;
    let stop = CancellationToken::new();
    let server = parts.server.take().expect("a server");
    let listener = parts.listener.take().expect("a listener");
    let served = tokio::spawn(server.serve([listener], Arc::clone(&parts.tls), stop.clone()));
    parts.target(alone, stop, served)
}

impl Unserved {
    fn target(
        self,
        alone: tokio::sync::MutexGuard<'static, ()>,
        stop: CancellationToken,
        served: tokio::task::JoinHandle<()>,
    ) -> Target {
        Target {
            _alone: alone,
            _dir: self.dir,
            address: self.address,
            authority: self.cluster.ca.certificate_pem().to_owned(),
            admin: self.cluster.administrator().expect("issued"),
            stop,
            served,
        }
    }
}

async fn unserved(settings: Settings) -> Unserved {
    let dir = tempfile::tempdir().expect("a directory");
    let first = common::server(dir.path()).await;
    let mut config = first.api().config.clone();
    drop(first);
    config.chain = settings;
    let cluster = Cluster::load_or_create(dir.path().join("pki")).expect("keys");
    let serving = cluster.serving(["127.0.0.1"]).expect("issued");
    let file = dir.path().join("serving.crt");
    let identity = ServingIdentity::new(&serving, &file).expect("usable");
    let tls = server_config(identity, &[]).expect("usable");
    let server = ApiServer::new(config).await.expect("a server");
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    Unserved {
        dir,
        cluster,
        tls: Arc::new(ArcSwap::from_pointee(tls)),
        address,
        server: Some(server),
        listener: Some(listener),
    }
}

impl Target {
    async fn connect(&self, protocol: &[u8]) -> TlsStream<TcpStream> {
        self.connect_as(Some(&self.admin), protocol).await
    }

    async fn connect_as(&self, who: Option<&Issued>, protocol: &[u8]) -> TlsStream<TcpStream> {
        let mut tls = client_config(&self.authority, who).expect("usable");
        tls.alpn_protocols = vec![protocol.to_vec()];
        let stream = TcpStream::connect(self.address).await.expect("connected");
        let name = ServerName::try_from("127.0.0.1").expect("a name");
        let connector = TlsConnector::from(Arc::new(tls));
        connector.connect(name, stream).await.expect("a handshake")
    }

    /// Sends bytes over HTTP/1.1 and reads what comes until the end, or for a second.
    async fn say(&self, bytes: &[u8]) -> String {
        let mut stream = self.connect(b"http/1.1").await;
        stream.write_all(bytes).await.expect("sent");
        heard(&mut stream).await
    }

    /// Whether the server answers as if nothing were.
    async fn is_well(&self) {
        let answer = self
            .say(b"GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
            .await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    }

    async fn end(self) {
        self.stop.cancel();
        tokio::time::timeout(PATIENCE, self.served)
            .await
            .expect("it ends")
            .expect("it ends well");
    }
}

async fn heard(stream: &mut (impl AsyncRead + Unpin)) -> String {
    let mut all = Vec::new();
    let mut chunk = [0; 16_384];
    while let Ok(Ok(read)) =
        tokio::time::timeout(Duration::from_secs(3), stream.read(&mut chunk)).await
    {
        if read == 0 {
            break;
        }
        all.extend_from_slice(&chunk[..read]);
    }
    String::from_utf8_lossy(&all).into_owned()
}

/// What the process has in memory, in bytes.
fn memory() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("proc");
    let pages: usize = statm
        .split_whitespace()
        .nth(1)
        .and_then(|text| text.parse().ok())
        .expect("a number");
    pages * 4096
}

fn assert_grown_less(before: usize, bound: usize) {
    let grown = memory().saturating_sub(before);
    assert!(grown < bound, "{} MiB more", grown / MIB);
}

/// A frame of HTTP/2 (RFC 9113, section 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("short").to_be_bytes();
    let mut out = length[1..].to_vec();
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
    out
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// `GET /readyz` in HPACK, without a table: method and scheme by number, path and
/// authority as texts.
fn head(path: &str) -> Vec<u8> {
    let mut out = vec![0x82, 0x87];
    for (name, text) in [(0x04, path), (0x01, "x")] {
        out.push(name);
        out.push(u8::try_from(text.len()).expect("short"));
        out.extend_from_slice(text.as_bytes());
    }
    out
}

async fn preface(stream: &mut (impl AsyncWrite + Unpin)) {
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .await
        .expect("sent");
    let settings = frame(SETTINGS, 0, 0, &[]);
    stream.write_all(&settings).await.expect("sent");
}

/// Reads frames until GOAWAY or the end: its error code, if it was said.
async fn farewell(stream: &mut (impl AsyncRead + Unpin)) -> Option<u32> {
    let reading = async {
        let mut said = None;
        loop {
            let mut head = [0; 9];
            if stream.read_exact(&mut head).await.is_err() {
                return said;
            }
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; usize::try_from(length).expect("small")];
            if stream.read_exact(&mut payload).await.is_err() {
                return said;
            }
            if head[3] == GOAWAY && payload.len() >= 8 {
                said = Some(u32::from_be_bytes([
                    payload[4], payload[5], payload[6], payload[7],
                ]));
                if said != Some(0) {
                    return said;
                }
            }
        }
    };
    tokio::time::timeout(PATIENCE, reading)
        .await
        .expect("it says something")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http2_floods_end_the_connection_and_nothing_else() {
    const ENHANCE_YOUR_CALM: u32 = 11;
    let target = target(Settings::default()).await;
    target.is_well().await;
    let before = memory();

    // Rapid reset (CVE-2023-44487): streams are opened and taken back at once.
    let (mut from, mut to) = tokio::io::split(target.connect(b"h2").await);
    preface(&mut to).await;
    let flood = tokio::spawn(async move {
        let block = head("/api/v1/pods");
        for number in 0..50_000_u32 {
            let stream = 2 * number + 1;
            let mut both = frame(HEADERS, END_STREAM | END_HEADERS, stream, &block);
            both.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
            if to.write_all(&both).await.is_err() {
                return number;
            }
        }
        50_000
    });
    assert_eq!(farewell(&mut from).await, Some(ENHANCE_YOUR_CALM));
    drop(from);
    assert!(flood.await.expect("no panic") <= 50_000);
    target.is_well().await;

    // Streams that stay open: watches, more than a connection may have.
    let (mut from, mut to) = tokio::io::split(target.connect(b"h2").await);
    preface(&mut to).await;
    let block = head("/api/v1/pods?watch=1");
    for number in 0..1500_u32 {
        let open = frame(HEADERS, END_STREAM | END_HEADERS, 2 * number + 1, &block);
        if to.write_all(&open).await.is_err() {
            break;
        }
    }
    target.is_well().await;
    let mut some = vec![0; 65_536];
    let read = tokio::time::timeout(PATIENCE, from.read(&mut some)).await;
    assert!(read.expect("in time").expect("answered") > 0);
    drop((from, to));

    // A head that never ends, in CONTINUATION frames.
    let (mut from, mut to) = tokio::io::split(target.connect(b"h2").await);
    preface(&mut to).await;
    let flood = tokio::spawn(async move {
        let first = frame(HEADERS, END_STREAM, 1, &head("/readyz"));
        if to.write_all(&first).await.is_err() {
            return 0;
        }
        // One header after the other, each of its own name.
        for number in 0..2000_usize {
            let name = format!("x-{number:05}");
            let mut block = vec![0x00, u8::try_from(name.len()).expect("short")];
            block.extend_from_slice(name.as_bytes());
            // 16000 bytes: 127 in the first octet, the rest behind it.
            block.extend_from_slice(&[0x7f, 0x81, 0x7c]);
            block.extend(std::iter::repeat_n(b'a', 16_000));
            if to
                .write_all(&frame(CONTINUATION, 0, 1, &block))
                .await
                .is_err()
            {
                return number;
            }
        }
        2000
    });
    farewell(&mut from).await;
    drop(from);
    assert!(flood.await.expect("no panic") < 2000, "it was taken whole");
    target.is_well().await;

    assert_grown_less(before, 96 * MIB);
    target.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_sends_slowly_is_not_waited_for() {
    let target = target(Settings {
        header_timeout: Duration::from_secs(1),
        ..Settings::default()
    })
    .await;
    let began = std::time::Instant::now();
    // A head that never ends.
    let answer = target
        .say(b"GET /readyz HTTP/1.1\r\nhost: x\r\nx-slow: ")
        .await;
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 408"),
        "{answer}"
    );
    // A body that never comes: the request's own time ends it.
    let answer = target
        .say(b"POST /api/v1/namespaces/default/configmaps?timeout=1s HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{\"kind\":")
        .await;
    assert!(answer.starts_with("HTTP/1.1 504"), "{answer}");
    assert!(answer.contains("request did not complete within the allotted timeout"));
    assert!(began.elapsed() < Duration::from_secs(30));
    target.is_well().await;
    target.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_bodies_and_heads_are_refused_before_they_are_kept() {
    let target = target(Settings::default()).await;
    target.is_well().await;
    let before = memory();
    // A hundred megabytes.
    let (mut from, mut to) = tokio::io::split(target.connect(b"http/1.1").await);
    let sending = tokio::spawn(async move {
        to.write_all(b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 104857600\r\n\r\n")
            .await
            .expect("sent");
        let chunk = vec![b'x'; MIB];
        for sent in 0..100 {
            if to.write_all(&chunk).await.is_err() {
                return sent;
            }
        }
        100
    });
    let mut answer = vec![0; 12];
    let read = tokio::time::timeout(PATIENCE, from.read_exact(&mut answer)).await;
    read.expect("in time").expect("answered");
    assert_eq!(answer, b"HTTP/1.1 413");
    drop(from);
    sending.abort();

    // A bomb of three megabytes packed: what is packed is not unpacked, but read
    // as it is.
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    std::io::Write::write_all(&mut packed, &vec![b' '; 64 * MIB]).expect("packed");
    let packed = packed.finish().expect("packed");
    let mut request = format!(
        "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-encoding: gzip\r\nconnection: close\r\ncontent-length: {}\r\n\r\n",
        packed.len()
    )
    .into_bytes();
    request.extend(packed);
    let answer = target.say(&request).await;
    assert!(
        answer.starts_with("HTTP/1.1 400") || answer.starts_with("HTTP/1.1 415"),
        "{answer}"
    );

    // Heads.
    let long = "x".repeat(100_000);
    let answer = target
        .say(format!("GET /{long} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes())
        .await;
    assert!(
        answer.starts_with("HTTP/1.1 414") || answer.starts_with("HTTP/1.1 431"),
        "{answer}"
    );
    let longer = "x".repeat(400_000);
    let answer = target
        .say(format!("GET / HTTP/1.1\r\nhost: x\r\nx: {longer}\r\n\r\n").as_bytes())
        .await;
    assert!(
        answer.is_empty() || answer.starts_with("HTTP/1.1 431"),
        "{answer}"
    );
    let many: String = (0..200).map(|at| format!("x-{at}: y\r\n")).collect();
    let answer = target
        .say(format!("GET / HTTP/1.1\r\nhost: x\r\n{many}\r\n").as_bytes())
        .await;
    assert!(answer.starts_with("HTTP/1.1 431"), "{answer}");
    target.is_well().await;
    // 64 MiB are this test's own, before they are packed.
    assert_grown_less(before, 128 * MIB);
    target.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_not_hidden_in_another() {
    let target = target(Settings::default()).await;
    // Two lengths: what follows the one that counts is a request of its own, and
    // nothing of it is lost or read twice.
    let hidden = "GET /version HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let answer = target
        .say(format!("POST /api/v1/namespaces HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n{hidden}", hidden.len()).as_bytes())
        .await;
    let answers = answer.matches("HTTP/1.1 ").count();
    assert!(
        answer.starts_with("HTTP/1.1 400") && answers <= 2,
        "{answer}"
    );
    for bad in [
        // Lengths that differ.
        "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nabcdef",
        // A length that is none.
        "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: +5\r\n\r\nabcde",
        // An encoding whose last is not chunked.
        "POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
        // A header folded over two lines (obs-fold).
        "GET / HTTP/1.1\r\nhost: x\r\nx: a\r\n b\r\n\r\n",
        // Space before the colon.
        "GET / HTTP/1.1\r\nhost: x\r\ncontent-length : 5\r\n\r\n",
        // A line break in a name.
        "GET / HTTP/1.1\r\nhost: x\r\nx\ny: z\r\n\r\n",
    ] {
        let answer = target.say(bad.as_bytes()).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{bad:?}: {answer}");
        assert_eq!(answer.matches("HTTP/1.1 ").count(), 1, "{bad:?}");
    }
    // Dots in paths lead nowhere.
    for path in [
        "/api/v1/../../version",
        "/api/v1/namespaces/default/configmaps/../secrets",
        "//api/v1/pods",
    ] {
        let answer = target
            .say(format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").as_bytes())
            .await;
        let code = answer.get(9..12).unwrap_or_default();
        assert!(
            matches!(code, "301" | "400" | "403" | "404"),
            "{path}: {answer}"
        );
    }
    target.is_well().await;
    target.end().await;
}

/// What becomes of a request on HTTP/2: the first octet of its head, or the code by
/// which stream or connection was ended.
async fn verdict(stream: &mut (impl AsyncRead + Unpin)) -> Result<u8, u32> {
    let reading = async {
        loop {
            let mut head = [0; 9];
            if stream.read_exact(&mut head).await.is_err() {
                return Err(u32::MAX);
            }
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let mut payload = vec![0; usize::try_from(length).expect("small")];
            if stream.read_exact(&mut payload).await.is_err() {
                return Err(u32::MAX);
            }
            let code = |at: usize| {
                u32::from_be_bytes([
                    payload[at],
                    payload[at + 1],
                    payload[at + 2],
                    payload[at + 3],
                ])
            };
            match head[3] {
                HEADERS => return Ok(payload[0]),
                RST_STREAM => return Err(code(0)),
                GOAWAY => return Err(code(4)),
                _ => {}
            }
        }
    };
    let answer = tokio::time::timeout(PATIENCE, reading).await;
    answer.expect("it says something")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_that_mean_something_to_another_hop_are_no_headers_of_http2() {
    /// `:status: 200` and `:status: 400` of HPACK's table.
    const OK: u8 = 0x88;
    const BAD: u8 = 0x8c;
    /// `:method: GET` and `:scheme: https` of that table.
    const GET: u8 = 0x82;
    const HTTPS: u8 = 0x87;
    let target = target(Settings::default()).await;
    let literal = |name: &str, value: &str| {
        let mut out = vec![0, u8::try_from(name.len()).expect("short")];
        out.extend_from_slice(name.as_bytes());
        out.push(u8::try_from(value.len()).expect("short"));
        out.extend_from_slice(value.as_bytes());
        out
    };
    let with = |name: &str, value: &str| [head("/readyz"), literal(name, value)].concat();
    for (what, block, good) in [
        ("nothing odd", head("/readyz"), true),
        ("connection", with("connection", "close"), false),
        ("upgrade", with("upgrade", "websocket"), false),
        (
            "transfer-encoding",
            with("transfer-encoding", "chunked"),
            false,
        ),
        ("te", with("te", "gzip"), false),
        ("upper case", with("X-Upper", "a"), false),
        ("a line break", with("x", "a\r\nx-remote-user: boss"), false),
        (
            "a pseudo-header behind others",
            [with("x", "y"), literal(":path", "/version")].concat(),
            false,
        ),
        (
            "two paths",
            [head("/readyz"), literal(":path", "/version")].concat(),
            false,
        ),
        ("an unknown pseudo-header", with(":user", "boss"), false),
        (
            "no path",
            [vec![GET, HTTPS], literal(":authority", "x")].concat(),
            false,
        ),
        ("no path and no authority", vec![GET, HTTPS], false),
        (
            "no path, a host",
            [vec![GET, HTTPS], literal("host", "x")].concat(),
            false,
        ),
        (
            "an empty path",
            [vec![GET, HTTPS], literal(":path", "")].concat(),
            false,
        ),
    ] {
        let mut stream = target.connect(b"h2").await;
        preface(&mut stream).await;
        let open = frame(HEADERS, END_STREAM | END_HEADERS, 1, &block);
        stream.write_all(&open).await.expect("sent");
        match verdict(&mut stream).await {
            Ok(OK) => assert!(good, "{what} was answered"),
            Ok(found) => assert!(!good && found == BAD, "{what}: {found:#x}"),
            Err(code) => assert!(!good, "{what}: {code}"),
        }
    }
    // A length that is not that of the body.
    let mut stream = target.connect(b"h2").await;
    preface(&mut stream).await;
    let block = [head("/readyz"), literal("content-length", "5")].concat();
    let mut both = frame(HEADERS, END_HEADERS, 1, &block);
    both.extend(frame(DATA, END_STREAM, 1, b"abcdefgh"));
    stream.write_all(&both).await.expect("sent");
    assert_ne!(verdict(&mut stream).await, Ok(OK));
    target.is_well().await;
    target.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_and_does_not_read_fills_no_memory() {
    const PING: u8 = 6;
    let target = target(Settings::default()).await;
    let big = format!(
        r#"{{"metadata":{{"name":"big"}},"data":{{"a":"{}"}}}}"#,
        "x".repeat(800_000)
    );
    let made = target
        .say(format!("POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{big}", big.len()).as_bytes())
        .await;
    assert!(made.starts_with("HTTP/1.1 201"), "{made}");
    target.is_well().await;
    let before = memory();
    // Frames that want an answer, whose answers nobody reads.
    for one in [frame(PING, 0, 0, &[0; 8]), frame(SETTINGS, 0, 0, &[])] {
        let mut stream = target.connect(b"h2").await;
        preface(&mut stream).await;
        let many = one.repeat(1000);
        let flood = async {
            for _ in 0..1000 {
                if stream.write_all(&many).await.is_err() {
                    break;
                }
            }
        };
        let _ = tokio::time::timeout(Duration::from_secs(1), flood).await;
        target.is_well().await;
        assert_grown_less(before, 16 * MIB);
    }
    // Many large answers for which there is never room (SETTINGS_INITIAL_WINDOW_SIZE).
    let mut stream = target.connect(b"h2").await;
    stream
        .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        .await
        .expect("sent");
    let no_room = frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 0]);
    stream.write_all(&no_room).await.expect("sent");
    for number in 0..500_u32 {
        let block = head("/api/v1/namespaces/default/configmaps/big");
        let open = frame(HEADERS, END_STREAM | END_HEADERS, 2 * number + 1, &block);
        stream.write_all(&open).await.expect("sent");
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    target.is_well().await;
    // 500 copies would be 400 MB; a stream holds no more than it may have ready.
    assert_grown_less(before, 500 * 256 * 1024);
    target.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_who_send_slowly_keep_nobody_out() {
    const MANY: usize = 200;
    let target = target(Settings {
        header_timeout: Duration::from_secs(2),
        ..Settings::default()
    })
    .await;
    target.is_well().await;
    let before = memory();
    let mut slow = Vec::new();
    for _ in 0..MANY {
        let mut stream = target.connect(b"http/1.1").await;
        stream
            .write_all(b"GET /readyz HTTP/1.1\r\nhost: x\r\nx-slow: ")
            .await
            .expect("sent");
        slow.push(stream);
    }
    // No handshake at all.
    let mut silent = Vec::new();
    for _ in 0..MANY {
        silent.push(TcpStream::connect(target.address).await.expect("connected"));
    }
    let began = std::time::Instant::now();
    target.is_well().await;
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "{:?}",
        began.elapsed()
    );
    assert_grown_less(before, MANY * 200 * 1024 + 32 * MIB);
    // They are sent away, dribbling or not.
    for mut stream in slow {
        let dribble = async {
            while stream.write_all(b"a").await.is_ok() {
                let mut rest = Vec::new();
                let ended =
                    tokio::time::timeout(Duration::from_millis(50), stream.read_to_end(&mut rest));
                if ended.await.is_ok() {
                    return;
                }
            }
        };
        tokio::time::timeout(PATIENCE, dribble)
            .await
            .expect("it is closed");
    }
    for mut stream in silent {
        let mut rest = Vec::new();
        let ended = tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
        let _ = ended.expect("it is closed");
    }
    assert!(
        began.elapsed() < Duration::from_secs(30),
        "{:?}",
        began.elapsed()
    );
    target.is_well().await;
    target.end().await;
}

/// Sends requests over one connection, a few ahead of their answers, and counts the
/// answers with a code.
async fn flood(
    mut stream: TlsStream<TcpStream>,
    requests: impl Iterator<Item = String>,
    code: &str,
) -> usize {
    let mut found = 0;
    let wanted = format!("HTTP/1.1 {code}");
    for request in requests {
        stream.write_all(request.as_bytes()).await.expect("sent");
        let mut answer = Vec::new();
        let mut chunk = [0; 4096];
        loop {
            let read = tokio::time::timeout(PATIENCE, stream.read(&mut chunk)).await;
            let read = read.expect("in time").expect("answered");
            assert!(read > 0, "closed");
            answer.extend_from_slice(&chunk[..read]);
            let text = String::from_utf8_lossy(&answer);
            let Some((head, body)) = text.split_once("\r\n\r\n") else {
                continue;
            };
            let length = head
                .lines()
                .find_map(|line| {
                    line.to_lowercase()
                        .strip_prefix("content-length: ")?
                        .parse()
                        .ok()
                })
                .unwrap_or(0);
            if body.len() >= length {
                found += usize::from(head.starts_with(&wanted));
                break;
            }
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_that_clients_make_up_are_refused_and_not_kept() {
    const MANY: usize = 600;
    let target = target(Settings::default()).await;
    target.is_well().await;
    let get = |path: &str, headers: &str| {
        format!("GET {path} HTTP/1.1\r\nhost: x\r\naccept: application/json\r\n{headers}\r\n\r\n")
    };
    let padding = "x".repeat(8000);
    // Once, so that what is made once is there.
    let warm = (0..50).map(|at| get("/api/v1/pods", &format!("authorization: Bearer w{at}")));
    flood(target.connect_as(None, b"http/1.1").await, warm, "401").await;
    let before = memory();
    // Tokens of eight kilobytes, each another: forged, without algorithm, or nothing.
    let tokens = (0..MANY).map(|at| {
        let token = match at % 3 {
            0 => format!("eyJhbGciOiJub25lIn0.e30{at}.{padding}"),
            1 => format!("eyJhbGciOiJFUzI1NiJ9.e30{at}.{padding}"),
            _ => format!("{at}{padding}"),
        };
        get("/api/v1/pods", &format!("authorization: Bearer {token}"))
    });
    let nobody = target.connect_as(None, b"http/1.1").await;
    assert_eq!(flood(nobody, tokens, "401").await, MANY);
    // Users who do not exist, of groups that do not, each a flow of its own.
    let users = (0..MANY).map(|at| {
        let user = format!(
            "impersonate-user: u{at}\r\nimpersonate-group: g{at}{}",
            &padding[..200]
        );
        get("/api/v1/pods", &user)
    });
    let admin = target.connect(b"http/1.1").await;
    assert_eq!(flood(admin, users, "403").await, MANY);
    // Groups, resources, and user agents that do not exist.
    let paths = (0..MANY).map(|at| {
        let path = format!("/apis/g{at}.example/v{at}/r{at}/{}", &padding[..200]);
        get(&path, &format!("user-agent: a{at}"))
    });
    let admin = target.connect(b"http/1.1").await;
    assert_eq!(flood(admin, paths, "404").await, MANY);
    assert_grown_less(before, 16 * MIB);
    let metrics = target
        .say(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .await;
    assert!(
        !metrics.contains("g77.example"),
        "a label that a client made up"
    );
    target.is_well().await;
    target.end().await;
}

/// Idle connections: some hundreds, or as many as `ORLOP_IDLE` says. Ten thousand take
/// twenty thousand descriptors and a minute of handshakes here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_cost_little_and_leave_room() {
    let wanted: usize = std::env::var("ORLOP_IDLE")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(300);
    let target = target(Settings::default()).await;
    target.is_well().await;
    let before = memory();
    let mut idle = Vec::with_capacity(wanted);
    for at in 0..wanted {
        let protocol: &[u8] = if at % 2 == 0 { b"h2" } else { b"http/1.1" };
        idle.push(target.connect(protocol).await);
    }
    target.is_well().await;
    // Both ends of each.
    assert_grown_less(before, wanted * 160 * 1024 + 32 * MIB);
    drop(idle);
    target.is_well().await;
    target.end().await;
}

/// The answer's code to a body of a media type.
async fn told(
    server: &ApiServer,
    method: Method,
    path: &str,
    media: &str,
    text: impl Into<bytes::Bytes>,
) -> u16 {
    let mut request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media)
        .body(control_apiserver::body::full(text.into()))
        .expect("a request");
    request.extensions_mut().insert(root());
    let answer = tower::ServiceExt::oneshot(server.service(), request).await;
    answer.expect("infallible").status().as_u16()
}

#[tokio::test]
async fn texts_that_multiply_themselves_or_nest_without_end_are_refused() {
    const MAPS: &str = "/api/v1/namespaces/default/configmaps";
    let _alone = ALONE.lock().await;
    let dir = tempfile::tempdir().expect("a directory");
    let server = common::server(dir.path()).await;
    let map = control_types::value!({"metadata": {"name": "m"}, "data": {"a": ("x".repeat(1000))}});
    let (code, _) = common::ask(&server, &root(), Method::POST, MAPS, Some(map)).await;
    assert_eq!(code, 201);
    let before = memory();
    // Anchors that double with each line (a billion laughs), as lists and as merges.
    let head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bomb}\n";
    let mut laughs = format!("{head}a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    let mut merges = format!("{head}data:\n  m0: &m0 {{k: v}}\n");
    for at in 1..12 {
        let last = at - 1;
        let many = vec![format!("*a{last}"); 10].join(",");
        laughs.push_str(&format!("a{at}: &a{at} [{many}]\n"));
        merges.push_str(&format!(
            "  m{at}: &m{at} {{a: *m{last}, b: *m{last}, c: *m{last}, d: *m{last}}}\n"
        ));
    }
    let itself = format!("{head}data: &d\n  a: *d\n");
    let deep = |open: &str, close: &str| {
        let (open, close) = (open.repeat(100_000), close.repeat(100_000));
        format!(
            "{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{{\"name\":\"bomb\"}},\"data\":{open}{close}}}"
        )
    };
    let lists = deep("[", "]");
    let objects = deep("{\"a\":", "1}").replace("{\"a\":1}", "1");
    let indented: String = (0..1000)
        .map(|at| format!("{}a:\n", " ".repeat(at)))
        .collect();
    for (what, media, text) in [
        ("laughs", "application/yaml", laughs.clone()),
        ("merges", "application/yaml", merges),
        ("itself", "application/yaml", itself),
        ("lists", "application/json", lists.clone()),
        ("objects", "application/json", objects),
        ("lists in YAML", "application/yaml", lists.clone()),
        ("keys of keys", "application/yaml", "? ".repeat(100_000)),
        (
            "indented",
            "application/yaml",
            format!("{head}data:\n{indented}"),
        ),
    ] {
        assert_eq!(
            told(&server, Method::POST, MAPS, media, text).await,
            400,
            "{what}"
        );
    }
    let path = format!("{MAPS}/m");
    for (what, media, text, code) in [
        (
            "laughs applied",
            "application/apply-patch+yaml",
            laughs,
            400,
        ),
        (
            "a deep merge patch",
            "application/merge-patch+json",
            lists.clone(),
            400,
        ),
        (
            "a deep strategic patch",
            "application/strategic-merge-patch+json",
            lists.clone(),
            400,
        ),
        (
            "a deep JSON patch",
            "application/json-patch+json",
            lists,
            400,
        ),
    ] {
        let path = format!("{path}?fieldManager=x");
        assert_eq!(
            told(&server, Method::PATCH, &path, media, text).await,
            code,
            "{what}"
        );
    }
    // A patch that copies what it copied: 2^30 kilobytes.
    let copies: Vec<String> = (0..30)
        .map(|at| format!(r#"{{"op":"copy","from":"/data","path":"/data/c{at}"}}"#))
        .collect();
    let copies = format!("[{}]", copies.join(","));
    let code = told(
        &server,
        Method::PATCH,
        &path,
        "application/json-patch+json",
        copies,
    )
    .await;
    assert!(matches!(code, 413 | 422), "copies: {code}");
    let one = r#"{"op":"add","path":"/data/a","value":"b"}"#;
    let many = format!("[{}]", vec![one; 10_001].join(","));
    assert_eq!(
        told(
            &server,
            Method::PATCH,
            &path,
            "application/json-patch+json",
            many
        )
        .await,
        413
    );
    // Protobuf: lengths beyond the end, and groups within groups.
    let magic = b"k8s\0";
    for (what, tail) in [
        (
            "a length beyond the end",
            vec![0x12, 0xff, 0xff, 0xff, 0xff, 0x0f],
        ),
        ("groups", vec![0x0b; 1_000_000]),
        ("messages", [0x12, 0xc0, 0x84, 0x3d].repeat(100_000)),
    ] {
        let text = [&magic[..], &tail].concat();
        let media = "application/vnd.kubernetes.protobuf";
        let code = told(&server, Method::POST, MAPS, media, text).await;
        assert!((400..500).contains(&code), "{what}: {code}");
    }
    assert_grown_less(before, 96 * MIB);
    let well = common::send(&server, &root(), Method::GET, "/readyz", &[], None).await;
    assert_eq!(well.status(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_told_to_stop_says_so_and_lets_requests_end() {
    let target = target(Settings {
        shutdown_delay: Duration::from_secs(2),
        ..Settings::default()
    })
    .await;
    target.is_well().await;
    let mut watch = target.connect(b"http/1.1").await;
    watch
        .write_all(b"GET /api/v1/namespaces?watch=1 HTTP/1.1\r\nhost: x\r\n\r\n")
        .await
        .expect("sent");
    let mut h2 = target.connect(b"h2").await;
    preface(&mut h2).await;
    target.stop.cancel();
    tokio::time::sleep(Duration::from_millis(200)).await;
    // Still served, but not ready; alive all the same.
    let ask = |path: &str| format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    let ready = target.say(ask("/readyz").as_bytes()).await;
    assert!(ready.starts_with("HTTP/1.1 500"), "{ready}");
    assert!(
        ready.contains("[-]shutdown failed: reason withheld\n"),
        "{ready}"
    );
    let shutdown = target.say(ask("/readyz/shutdown").as_bytes()).await;
    assert!(
        shutdown.contains("internal server error: process is shutting down\n"),
        "{shutdown}"
    );
    let live = target.say(ask("/livez").as_bytes()).await;
    assert!(live.starts_with("HTTP/1.1 200"), "{live}");
    // Then watches end, and connections of HTTP/2 are told to go.
    let mut all = Vec::new();
    let ended = tokio::time::timeout(PATIENCE, watch.read_to_end(&mut all)).await;
    ended.expect("in time").expect("an orderly end");
    assert!(all.ends_with(b"0\r\n\r\n"), "the stream was cut off");
    assert_eq!(farewell(&mut h2).await, Some(0));
    let began = std::time::Instant::now();
    target.end().await;
    assert!(began.elapsed() < Duration::from_secs(15));
}

/// A connection that asks one thing after the other, from a thread of its own.
struct Asker {
    runtime: tokio::runtime::Runtime,
    stream: TlsStream<TcpStream>,
}

impl Asker {
    fn connect(target: &Target, who: Option<&Issued>) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let stream = runtime.block_on(target.connect_as(who, b"http/1.1"));
        Self { runtime, stream }
    }

    /// The head of the answer, when it has come with its body.
    fn ask(&mut self, method: &str, path: &str, body: &str) -> String {
        let Self { runtime, stream } = self;
        runtime.block_on(async {
            let length = body.len();
            let media = match method {
                "PATCH" => "application/merge-patch+json",
                _ => "application/json",
            };
            let head = format!(
                "{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-type: {media}\r\ncontent-length: {length}\r\n\r\n{body}"
            );
            stream.write_all(head.as_bytes()).await.expect("sent");
            let mut said = Vec::new();
            loop {
                let mut chunk = [0; 4096];
                let read = stream.read(&mut chunk).await.expect("an answer");
                assert!(read > 0, "the connection ended");
                said.extend_from_slice(&chunk[..read]);
                let text = String::from_utf8_lossy(&said).into_owned();
                let Some((head, rest)) = text.split_once("\r\n\r\n") else {
                    continue;
                };
                let length = head
                    .lines()
                    .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
                if rest.len() >= length.unwrap_or(0) {
                    return head.to_owned();
                }
            }
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_is_served_while_the_threads_of_the_crowd_have_no_time() {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    let target = target(Settings::default()).await;
    let cluster = Cluster::load_or_create(target._dir.path().join("pki")).expect("keys");
    let node = control_pki::Spec::client("system:node:n1", &["system:nodes"]);
    let node = cluster.ca.issue(&node).expect("issued");
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let (busy, over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let (busy, over) = (Arc::new(busy), Arc::new(over));
    std::thread::scope(|threads| {
        let (go, gone) = std::sync::mpsc::channel::<()>();
        let (connected, both) = std::sync::mpsc::channel::<()>();
        let (of_node, target, node) = (connected.clone(), &target, &node);
        let renewing = threads.spawn(move || {
            let mut asker = Asker::connect(target, Some(node));
            let lease = r#"{"metadata":{"name":"n1"},"spec":{"holderIdentity":"n1","leaseDurationSeconds":40}}"#;
            let made = asker.ask("POST", leases, lease);
            of_node.send(()).expect("heard");
            gone.recv().expect("told");
            let renewed: Vec<String> = (0..10)
                .map(|at| {
                    let change = format!(r#"{{"spec":{{"leaseTransitions":{at}}}}}"#);
                    asker.ask("PATCH", &format!("{leases}/n1"), &change)
                })
                .collect();
            (made, renewed)
        });
        let (begin, begun) = std::sync::mpsc::channel::<()>();
        let others_answer = Arc::new(AtomicBool::new(false));
        let answered = Arc::clone(&others_answer);
        let other = threads.spawn(move || {
            let mut asker = Asker::connect(target, None);
            asker.ask("GET", "/readyz", "");
            connected.send(()).expect("heard");
            begun.recv().expect("told");
            let answer = asker.ask("GET", "/readyz", "");
            answered.store(true, Ordering::SeqCst);
            answer
        });
        for _ in 0..2 {
            both.recv_timeout(PATIENCE).expect("connected");
        }
        // Both threads of this runtime have something else to do from now on.
        for _ in 0..2 {
            let (busy, over) = (Arc::clone(&busy), Arc::clone(&over));
            tokio::spawn(async move {
                busy.fetch_add(1, Ordering::SeqCst);
                while !over.load(Ordering::SeqCst) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            });
        }
        while busy.load(Ordering::SeqCst) < 2 {
            std::thread::sleep(Duration::from_millis(1));
        }
        begin.send(()).expect("heard");
        go.send(()).expect("heard");
        let began = std::time::Instant::now();
        while !renewing.is_finished() && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        let (in_time, others) = (renewing.is_finished(), others_answer.load(Ordering::SeqCst));
        over.store(true, Ordering::SeqCst);
        let (made, renewed) = renewing.join().expect("it ran");
        assert!(made.starts_with("HTTP/1.1 201"), "{made}");
        for answer in renewed {
            assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        }
        assert!(in_time, "the node waited for the crowd");
        assert!(!others, "nobody was to have time for others");
        let answer = other.join().expect("it ran");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    });
    target.end().await;
}
