//! Proxies of ours on loopback: one that takes `CONNECT`, and a konnectivity server.
//! Both connect to the port that they are asked for on this machine, whatever the host:
//! so tests name hosts that cannot be reached otherwise.

#![allow(dead_code, reason = "no test needs all of it")]

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use bytes::{Buf, BufMut, Bytes, BytesMut};
use control_pki::{Authority, ClientTrust, ServingIdentity, Spec, server_config};
use http::Response;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener};
use tokio::sync::mpsc;
use tokio_rustls::TlsAcceptor;

/// What a proxy does when it is asked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Does {
    /// Connects.
    Connect,
    /// Says that it may not.
    Refuse,
    /// Says something before anybody else does.
    Interrupt,
}

/// A proxy.
pub struct Proxy {
    /// What an `egressSelection` says of it.
    pub connection: String,
    asked: Asked,
}

type Asked = Arc<Mutex<Vec<String>>>;

impl Proxy {
    /// Takes `CONNECT` in the clear.
    pub async fn tcp(does: Does) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let asked = Asked::default();
        let notes = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(connect(stream, does, Arc::clone(&notes)));
            }
        });
        let url = format!("http://{address}");
        Self {
            connection: format!(
                "{{proxyProtocol: HTTPConnect, transport: {{tcp: {{url: '{url}'}}}}}}"
            ),
            asked,
        }
    }

    /// Takes `CONNECT` over TLS, of clients with a certificate of its authority only.
    pub async fn tls(dir: &Path) -> Self {
        let authority = Authority::create("proxies").expect("an authority");
        let issue = |spec: &Spec| authority.issue(spec).expect("signed");
        let own = issue(&Spec::server("proxy", ["proxy.example"]));
        let identity = ServingIdentity::new(&own, dir).expect("an identity");
        let trust = ClientTrust::new(authority.certificate_pem()).expect("trust");
        let tls = server_config(identity, &[&trust]).expect("TLS");
        let client = issue(&Spec::client("apiserver", &[]));
        let file = |name: &str, text: &str| {
            let path = dir.join(name);
            std::fs::write(&path, text).expect("written");
            path.display().to_string()
        };
        let (ca, cert, key) = (
            file("ca.crt", authority.certificate_pem()),
            file("client.crt", &client.cert_pem),
            file("client.key", &client.key_pem),
        );
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let asked = Asked::default();
        let (notes, acceptor) = (Arc::clone(&asked), TlsAcceptor::from(Arc::new(tls)));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (notes, acceptor) = (Arc::clone(&notes), acceptor.clone());
                let trust = trust.clone();
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else {
                        return;
                    };
                    let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
                    if trust.verify(shown).is_ok() {
                        connect(stream, Does::Connect, notes).await;
                    }
                });
            }
        });
        Self {
            connection: format!(
                "{{proxyProtocol: HTTPConnect, transport: {{tcp: {{url: 'https://{address}', tlsConfig: {{caBundle: {ca}, clientCert: {cert}, clientKey: {key}, tlsServerName: proxy.example}}}}}}}}"
            ),
            asked,
        }
    }

    /// Takes `CONNECT` at a Unix socket.
    pub fn unix(dir: &Path) -> Self {
        let (listener, path) = socket(dir, "connect.sock");
        let asked = Asked::default();
        let notes = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(connect(stream, Does::Connect, Arc::clone(&notes)));
            }
        });
        let path = path.display();
        Self {
            connection: format!(
                "{{proxyProtocol: HTTPConnect, transport: {{uds: {{udsName: {path}}}}}}}"
            ),
            asked,
        }
    }

    /// A konnectivity server.
    pub fn konnectivity(dir: &Path) -> Self {
        let (listener, path) = socket(dir, "konnectivity.sock");
        let asked = Asked::default();
        let notes = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let notes = Arc::clone(&notes);
                let service = hyper::service::service_fn(move |request| {
                    let notes = Arc::clone(&notes);
                    async move { Ok::<_, std::convert::Infallible>(tunnel(request, notes)) }
                });
                let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(stream), service);
                tokio::spawn(serving);
            }
        });
        let path = path.display();
        Self {
            connection: format!("{{proxyProtocol: GRPC, transport: {{uds: {{udsName: {path}}}}}}}"),
            asked,
        }
    }

    /// What it was asked for so far.
    pub fn asked(&self) -> Vec<String> {
        self.asked.lock().expect("a lock").clone()
    }
}

/// Writes an `EgressSelectorConfiguration` with these selections and reads it.
pub fn egress(dir: &Path, selections: &[(&str, &str)]) -> control_proxy::Egress {
    let mut text = "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n".to_owned();
    for (name, connection) in selections {
        text.push_str(&format!("- {{name: {name}, connection: {connection}}}\n"));
    }
    let path = dir.join("egress.yaml");
    std::fs::write(&path, text).expect("written");
    control_proxy::Egress::read(&path).expect("usable")
}

fn socket(dir: &Path, name: &str) -> (UnixListener, PathBuf) {
    let path = dir.join(name);
    (UnixListener::bind(&path).expect("a socket"), path)
}

async fn local(address: &str) -> std::io::Result<TcpStream> {
    let port = address.rsplit(':').next().expect("a port");
    TcpStream::connect(("127.0.0.1", port.parse().expect("a number"))).await
}

async fn connect(mut client: impl AsyncRead + AsyncWrite + Unpin, does: Does, asked: Asked) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let Ok(byte) = client.read_u8().await else {
            return;
        };
        head.push(byte);
    }
    let head = String::from_utf8(head).expect("text");
    let address = head
        .strip_prefix("CONNECT ")
        .and_then(|rest| rest.split(' ').next())
        .expect("a CONNECT");
    assert!(
        head.to_lowercase().contains("\r\nhost: 127.0.0.1\r\n"),
        "{head}"
    );
    asked.lock().expect("a lock").push(address.to_owned());
    let answer = match does {
        Does::Connect => "HTTP/1.1 200 Connection established\r\n\r\n",
        Does::Refuse => "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n",
        Does::Interrupt => "HTTP/1.1 200 OK\r\n\r\nearly",
    };
    if does != Does::Connect {
        let _ = client.write_all(answer.as_bytes()).await;
        // Until the other side has read it.
        let _ = tokio::io::copy(&mut client, &mut tokio::io::sink()).await;
        return;
    }
    let mut server = local(address).await.expect("somebody is there");
    if client.write_all(answer.as_bytes()).await.is_ok() {
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    }
}

/// A message of `ProxyService`, with all fields of all payloads that are sent here.
#[derive(Clone, PartialEq, Message)]
struct Packet {
    #[prost(int32, tag = "1")]
    kind: i32,
    #[prost(message, optional, tag = "2")]
    dial: Option<Dial>,
    #[prost(message, optional, tag = "3")]
    dialed: Option<Dialed>,
    #[prost(message, optional, tag = "4")]
    data: Option<Data>,
    #[prost(message, optional, tag = "5")]
    close: Option<Close>,
    #[prost(message, optional, tag = "6")]
    closed: Option<Closed>,
}

#[derive(Clone, PartialEq, Message)]
struct Dial {
    #[prost(string, tag = "1")]
    protocol: String,
    #[prost(string, tag = "2")]
    address: String,
    #[prost(int64, tag = "3")]
    random: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Dialed {
    #[prost(string, tag = "1")]
    error: String,
    #[prost(int64, tag = "2")]
    connection: i64,
    #[prost(int64, tag = "3")]
    random: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Data {
    #[prost(int64, tag = "1")]
    connection: i64,
    #[prost(bytes = "vec", tag = "3")]
    data: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Close {
    #[prost(int64, tag = "1")]
    connection: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Closed {
    #[prost(string, tag = "1")]
    error: String,
    #[prost(int64, tag = "2")]
    connection: i64,
}

type Frames = mpsc::Sender<Result<Frame<Bytes>, std::convert::Infallible>>;

/// Answers one call of `Proxy`; like the real server it says nothing before it is
/// asked.
fn tunnel(
    request: http::Request<Incoming>,
    asked: Asked,
) -> Response<StreamBody<impl futures::Stream<Item = Result<Frame<Bytes>, std::convert::Infallible>>>>
{
    assert_eq!(request.uri().path(), "/ProxyService/Proxy");
    let (frames, mut queue) = mpsc::channel(4);
    tokio::spawn(serve(request.into_body(), frames, asked));
    let stream = futures::stream::poll_fn(move |context| queue.poll_recv(context));
    Response::builder()
        .header("content-type", "application/grpc")
        .body(StreamBody::new(stream))
        .expect("a response")
}

async fn say(frames: &Frames, packet: Packet) {
    let message = packet.encode_to_vec();
    let mut bytes = BytesMut::new();
    bytes.put_u8(0);
    bytes.put_u32(u32::try_from(message.len()).expect("small"));
    bytes.extend_from_slice(&message);
    let _ = frames.send(Ok(Frame::data(bytes.freeze()))).await;
}

/// The next message of a client, if there is one.
async fn hear(body: &mut Incoming, buffer: &mut BytesMut) -> Option<Packet> {
    loop {
        if buffer.len() >= 5 {
            let length = u32::from_be_bytes(buffer[1..5].try_into().expect("four")) as usize;
            if buffer.len() >= 5 + length {
                buffer.advance(5);
                let message = buffer.split_to(length);
                return Some(Packet::decode(message).expect("a packet"));
            }
        }
        let frame = body.frame().await?.ok()?;
        buffer.extend_from_slice(&frame.into_data().unwrap_or_default());
    }
}

async fn serve(mut body: Incoming, frames: Frames, asked: Asked) {
    const CONNECTION: i64 = 7;
    let mut buffer = BytesMut::new();
    let first = hear(&mut body, &mut buffer).await.expect("a packet");
    let dial = first.dial.expect("a request");
    assert_eq!((first.kind, dial.protocol.as_str()), (0, "tcp"));
    asked.lock().expect("a lock").push(dial.address.clone());
    let found = local(&dial.address).await;
    let dialed = Dialed {
        error: found
            .as_ref()
            .err()
            .map_or_else(String::new, ToString::to_string),
        connection: CONNECTION,
        random: dial.random,
    };
    let answer = Packet {
        kind: 1,
        dialed: Some(dialed),
        ..Packet::default()
    };
    say(&frames, answer).await;
    let Ok(server) = found else { return };
    let (mut reads, mut writes) = server.into_split();
    let back = frames.clone();
    let copying = tokio::spawn(async move {
        let mut bytes = vec![0; 16 << 10];
        while let Ok(read @ 1..) = reads.read(&mut bytes).await {
            let data = Data {
                connection: CONNECTION,
                data: bytes[..read].to_vec(),
            };
            let packet = Packet {
                kind: 4,
                data: Some(data),
                ..Packet::default()
            };
            say(&back, packet).await;
        }
    });
    while let Some(packet) = hear(&mut body, &mut buffer).await {
        if let Some(data) = packet.data {
            assert_eq!((packet.kind, data.connection), (4, CONNECTION));
            writes.write_all(&data.data).await.expect("written");
        }
        if let Some(close) = packet.close {
            assert_eq!((packet.kind, close.connection), (2, CONNECTION));
            asked.lock().expect("a lock").push("closed".to_owned());
            copying.abort();
            let closed = Closed {
                error: String::new(),
                connection: CONNECTION,
            };
            let packet = Packet {
                kind: 3,
                closed: Some(closed),
                ..Packet::default()
            };
            say(&frames, packet).await;
            return;
        }
    }
}
