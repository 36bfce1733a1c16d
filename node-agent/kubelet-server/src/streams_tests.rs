//! Tests of streams against a server on loopback that speaks as a runtime's
//! does up to the upgrade. What it cannot show is the runtime's own protocol.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use super::*;

fn pairs(text: &str) -> Vec<(String, String)> {
    query(Some(text))
}

#[test]
fn a_terminal_has_one_output() {
    let streams = wanted(&pairs("input=1&output=1&error=1&tty=1")).expect("streams");
    assert_eq!(
        streams,
        StreamSelection {
            stdin: true,
            stdout: true,
            stderr: false,
            tty: true
        }
    );
}

#[test]
fn no_stream_at_all_is_refused() {
    assert!(wanted(&pairs("tty=1&error=1")).is_err());
    assert!(wanted(&pairs("output=true")).is_err());
}

#[test]
fn ports_may_be_listed_or_repeated() {
    assert_eq!(ports(&pairs("port=80%2C81&port=82")), Ok(vec![80, 81, 82]));
    assert_eq!(ports(&pairs("other=1")), Ok(vec![]));
    for wrong in ["port=0", "port=65536", "port=http", "port=-1"] {
        assert!(ports(&pairs(wrong)).is_err(), "{wrong}");
    }
}

/// A server that answers each connection with `answer` and then, should it be
/// an upgrade, sends back what it gets. Returns its address.
async fn runtime(answer: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.expect("a request"));
            }
            stream.write_all(answer.as_bytes()).await.expect("answered");
            if answer.starts_with("HTTP/1.1 101") {
                let (mut reads, mut writes) = stream.split();
                tokio::io::copy(&mut reads, &mut writes).await.ok();
            }
        }
    });
    address
}

/// A server that passes everything on to `url`. Returns its address.
async fn agent(url: String, shutdown: CancellationToken) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (url, shutdown) = (url.clone(), shutdown.clone());
            let service = hyper::service::service_fn(move |request| {
                let (url, shutdown) = (url.clone(), shutdown.clone());
                async move { Ok::<_, std::convert::Infallible>(pass(&url, request, shutdown).await) }
            });
            tokio::spawn(
                hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .with_upgrades(),
            );
        }
    });
    address
}

const UPGRADED: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n";

const ASKED: &[u8] = b"POST /exec/n/p/c HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\n\
    Upgrade: SPDY/3.1\r\nContent-Length: 0\r\n\r\n";

async fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("an answer"));
    }
    String::from_utf8(head).expect("text").to_lowercase()
}

#[tokio::test]
async fn bytes_go_both_ways_after_the_upgrade_until_one_side_closes() {
    let runtime = runtime(UPGRADED).await;
    let agent = agent(
        format!("http://{runtime}/exec/token"),
        CancellationToken::new(),
    )
    .await;
    let mut client = TcpStream::connect(agent).await.expect("connected");
    client.write_all(ASKED).await.expect("asked");
    let answer = head(&mut client).await;
    assert!(answer.starts_with("http/1.1 101"), "{answer}");
    assert!(answer.contains("upgrade: spdy/3.1"), "{answer}");
    // More than all buffers between hold.
    let sent: Vec<u8> = (0..1_000_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    let (mut reads, mut writes) = client.split();
    let mut back = vec![0; sent.len()];
    let (wrote, read) = tokio::join!(writes.write_all(&sent), reads.read_exact(&mut back));
    wrote.expect("sent");
    read.expect("came back");
    assert!(sent == back);
    client.shutdown().await.expect("closed");
    assert_eq!(client.read(&mut [0]).await.expect("the end"), 0);
}

#[tokio::test]
async fn a_stopping_agent_closes_streams() {
    let runtime = runtime(UPGRADED).await;
    let shutdown = CancellationToken::new();
    let agent = agent(format!("http://{runtime}/exec/token"), shutdown.clone()).await;
    let mut client = TcpStream::connect(agent).await.expect("connected");
    client.write_all(ASKED).await.expect("asked");
    head(&mut client).await;
    shutdown.cancel();
    assert_eq!(client.read(&mut [0]).await.expect("the end"), 0);
}

#[tokio::test]
async fn a_refusal_of_the_runtime_reaches_the_client() {
    let runtime =
        runtime("HTTP/1.1 404 Not Found\r\nContent-Length: 7\r\nConnection: close\r\n\r\nno such")
            .await;
    let agent = agent(
        format!("http://{runtime}/exec/token"),
        CancellationToken::new(),
    )
    .await;
    let mut client = TcpStream::connect(agent).await.expect("connected");
    client.write_all(ASKED).await.expect("asked");
    let answer = head(&mut client).await;
    assert!(answer.starts_with("http/1.1 404"), "{answer}");
    let mut body = [0; 7];
    client.read_exact(&mut body).await.expect("the body");
    assert_eq!(&body, b"no such");
}

#[tokio::test]
async fn without_an_upgrade_nothing_is_passed_on() {
    let agent = agent(
        "http://127.0.0.1:1/exec".to_owned(),
        CancellationToken::new(),
    )
    .await;
    let mut client = TcpStream::connect(agent).await.expect("connected");
    client
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        .await
        .expect("asked");
    assert!(head(&mut client).await.starts_with("http/1.1 400"));
}

#[tokio::test]
async fn a_runtime_that_is_not_there_is_named() {
    // A port that was free a moment ago.
    let gone = TcpListener::bind("127.0.0.1:0")
        .await
        .and_then(|listener| listener.local_addr())
        .expect("a port");
    let agent = agent(format!("http://{gone}/exec"), CancellationToken::new()).await;
    let mut client = TcpStream::connect(agent).await.expect("connected");
    client.write_all(ASKED).await.expect("asked");
    assert!(head(&mut client).await.starts_with("http/1.1 500"));
    let mut body = vec![0; 21];
    client.read_exact(&mut body).await.expect("the body");
    assert_eq!(body, b"error dialing backend");
}
