//! Clients that ask for more than they take: floods of requests and of names.

use std::time::Duration;

use control_apiserver::chain::Settings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

use super::common::memory::MIB;
use super::frames::{
    CONTINUATION, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, SETTINGS, farewell, frame, head,
    preface,
};
use super::{PATIENCE, target};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn http2_floods_end_the_connection_and_nothing_else() {
    const ENHANCE_YOUR_CALM: u32 = 11;
    let mut target = target(Settings::default()).await;
    target.is_well_before().await;

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
    target.is_well_within(32 * MIB).await;

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
    let _ = to.flush().await;
    target.is_well_within(48 * MIB).await;
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
    target.is_well_within(64 * MIB).await;
    target.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_asks_and_does_not_read_fills_no_memory() {
    const PING: u8 = 6;
    let mut target = target(Settings::default()).await;
    let big = format!(
        r#"{{"metadata":{{"name":"big"}},"data":{{"a":"{}"}}}}"#,
        "x".repeat(800_000)
    );
    let made = target
        .say(format!("POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{big}", big.len()).as_bytes())
        .await;
    assert!(made.starts_with("HTTP/1.1 201"), "{made}");
    target.is_well_before().await;
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
        target.is_well_within(16 * MIB).await;
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
    stream.flush().await.expect("sent");
    tokio::time::sleep(Duration::from_secs(1)).await;
    // 500 copies would be 400 MB; all of them are sent what is in the cache.
    target.is_well_within(48 * MIB).await;
    target.end().await;
}

/// Sends requests over one connection, a few ahead of their answers, and counts the
/// answers with a code.
pub async fn flood(
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
    let mut target = target(Settings::default()).await;
    target.is_well().await;
    let get = |path: &str, headers: &str| {
        format!("GET {path} HTTP/1.1\r\nhost: x\r\naccept: application/json\r\n{headers}\r\n\r\n")
    };
    let padding = "x".repeat(8000);
    // Once, so that what is made once is there.
    let warm = (0..50).map(|at| get("/api/v1/pods", &format!("authorization: Bearer w{at}")));
    flood(target.connect_as(None, b"http/1.1").await, warm, "401").await;
    target.memory.begin();
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
    target.memory.assert_grown_less(16 * MIB);
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
