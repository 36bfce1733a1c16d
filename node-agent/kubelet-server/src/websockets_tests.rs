//! Tests against a server on loopback that speaks SPDY as far as is needed. What
//! it cannot show is a real runtime.

use std::convert::Infallible;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

use super::*;

/// A runtime that agrees to SPDY with this protocol and then does `work`.
async fn runtime<F>(protocol: &'static str, work: fn(TcpStream) -> F) -> SocketAddr
where
    F: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.expect("a connection");
        let asked = head(&mut stream).await;
        assert!(asked.starts_with("post /token "), "{asked}");
        assert!(asked.contains("upgrade: spdy/3.1"), "{asked}");
        assert!(!asked.contains("sec-websocket"), "{asked}");
        assert!(!asked.contains("secret"), "{asked}");
        let answer = format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\
             X-Stream-Protocol-Version: {protocol}\r\n\r\n"
        );
        stream.write_all(answer.as_bytes()).await.expect("answered");
        work(stream).await;
    });
    address
}

/// A server that has the runtime at `url`.
async fn agent(url: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        let (stream, _) = listener.accept().await.expect("a connection");
        let service = hyper::service::service_fn(move |request| {
            let url = url.clone();
            async move {
                let end = CancellationToken::new();
                let wanted = StreamSelection {
                    stdout: true,
                    ..StreamSelection::default()
                };
                Ok::<_, Infallible>(if is_translated(&request) {
                    translate(url, request, wanted, end)
                } else if is_tunnelled(&request) {
                    carry(&url, request, end).await
                } else {
                    text(StatusCode::BAD_REQUEST, "neither")
                })
            }
        });
        let connection = hyper::server::conn::http1::Builder::new()
            .serve_connection(TokioIo::new(stream), service);
        connection.with_upgrades().await.ok();
    });
    address
}

async fn head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await.expect("a head"));
    }
    String::from_utf8(head).expect("text").to_lowercase()
}

/// A client behind its handshake, and what it was answered.
async fn client(agent: SocketAddr, protocol: &str) -> (TcpStream, String) {
    let mut client = TcpStream::connect(agent).await.expect("connected");
    let asked = format!(
        "GET /any HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
         Authorization: Bearer secret\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         Sec-WebSocket-Protocol: {protocol}\r\n\r\n"
    );
    client.write_all(asked.as_bytes()).await.expect("asked");
    let answer = head(&mut client).await;
    (client, answer)
}

async fn message(client: &mut TcpStream) -> (u8, Vec<u8>) {
    let kind = client.read_u8().await.expect("a frame");
    let length = client.read_u8().await.expect("a length");
    let length = match length {
        126 => usize::from(client.read_u16().await.expect("a length")),
        short => usize::from(short),
    };
    let mut bytes = vec![0; length];
    client.read_exact(&mut bytes).await.expect("bytes");
    (kind, bytes)
}

/// Accepts two streams, writes on the second and ends both, as a command does
/// that went well.
async fn command(mut stream: TcpStream) {
    for expected in [1, 3] {
        let mut control = [0; 8];
        stream.read_exact(&mut control).await.expect("a frame");
        assert_eq!(control[..4], [0x80, 3, 0, 1], "opens a stream");
        let [.., a, b, c] = control;
        let mut rest = vec![0; u32::from_be_bytes([0, a, b, c]) as usize];
        stream.read_exact(&mut rest).await.expect("the rest");
        assert_eq!(rest[..4], [0, 0, 0, expected]);
        let reply = [0x80, 3, 0, 2, 0, 0, 0, 4, 0, 0, 0, expected];
        stream.write_all(&reply).await.expect("accepted");
    }
    let data = b"\0\0\0\x03\0\0\0\x02hi\0\0\0\x03\x01\0\0\0\0\0\0\x01\x01\0\0\0";
    stream.write_all(data).await.expect("written");
    stream.read_to_end(&mut Vec::new()).await.ok();
}

#[tokio::test]
async fn a_command_s_streams_are_channels_of_a_web_socket() {
    let runtime = runtime("v4.channel.k8s.io", command).await;
    let agent = agent(format!("http://{runtime}/token")).await;
    let (mut client, answer) = client(agent, "v5.channel.k8s.io").await;
    assert!(answer.starts_with("http/1.1 101"), "{answer}");
    assert!(answer.contains("sec-websocket-protocol: v5.channel.k8s.io"));
    assert_eq!(message(&mut client).await, (0x82, vec![1]), "it stands");
    assert_eq!(message(&mut client).await, (0x82, b"\x01hi".to_vec()));
    let (kind, outcome) = message(&mut client).await;
    assert_eq!((kind, outcome[0]), (0x82, 3));
    let outcome: serde_json::Value = serde_json::from_slice(&outcome[1..]).expect("a status");
    assert_eq!(outcome["status"], "Success");
    assert_eq!(message(&mut client).await.0, 0x88);
}

#[tokio::test]
async fn a_runtime_that_is_not_there_is_told_on_the_error_channel() {
    let gone = TcpListener::bind("127.0.0.1:0")
        .await
        .and_then(|listener| listener.local_addr())
        .expect("a port");
    let agent = agent(format!("http://{gone}/token")).await;
    let (mut client, answer) = client(agent, "v5.channel.k8s.io").await;
    assert!(answer.starts_with("http/1.1 101"), "{answer}");
    message(&mut client).await;
    let (_, outcome) = message(&mut client).await;
    assert_eq!(outcome[0], 3);
    let outcome = String::from_utf8_lossy(&outcome[1..]);
    let cause = format!("error dialing backend: dial tcp {gone}: Connection refused");
    assert!(outcome.contains(&cause), "{outcome}");
}

#[tokio::test]
async fn a_tunnel_carries_the_runtime_s_spdy() {
    let runtime = runtime("portforward.k8s.io", |mut stream| async move {
        let (mut reads, mut writes) = stream.split();
        tokio::io::copy(&mut reads, &mut writes).await.ok();
    })
    .await;
    let agent = agent(format!("http://{runtime}/token")).await;
    let (mut client, answer) = client(agent, "SPDY/3.1+portforward.k8s.io").await;
    assert!(answer.starts_with("http/1.1 101"), "{answer}");
    assert!(answer.contains("sec-websocket-protocol: spdy/3.1+portforward.k8s.io"));
    // masked with zeros
    let frame = b"\x82\x85\0\0\0\0hello";
    client.write_all(frame).await.expect("sent");
    assert_eq!(message(&mut client).await, (0x82, b"hello".to_vec()));
}

#[tokio::test]
async fn what_is_no_proper_handshake_is_refused() {
    let agent = agent("http://127.0.0.1:1/token".to_owned()).await;
    let mut client = TcpStream::connect(agent).await.expect("connected");
    let asked = b"GET /any HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
        Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: short\r\n\
        Sec-WebSocket-Protocol: SPDY/3.1+portforward.k8s.io\r\n\r\n";
    client.write_all(asked).await.expect("asked");
    assert!(head(&mut client).await.starts_with("http/1.1 400"));
}
