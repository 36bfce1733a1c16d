//! Requests that are to be read as two, or as another than they are.

use control_apiserver::chain::Settings;
use tokio::io::AsyncWriteExt;

use super::common::memory::MIB;
use super::frames::{DATA, END_HEADERS, END_STREAM, HEADERS, OK, frame, head, preface, verdict};
use super::target;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_not_hidden_in_another() {
    let mut target = target(Settings::default()).await;
    target.is_well_before().await;
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
    target.is_well_within(16 * MIB).await;
    target.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_that_mean_something_to_another_hop_are_no_headers_of_http2() {
    /// `:status: 400` of HPACK's table.
    const BAD: u8 = 0x8c;
    /// `:method: GET` and `:scheme: https` of that table.
    const GET: u8 = 0x82;
    const HTTPS: u8 = 0x87;
    let mut target = target(Settings::default()).await;
    target.is_well_before().await;
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
    target.is_well_within(16 * MIB).await;
    target.end().await;
}
