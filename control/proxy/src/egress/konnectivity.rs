//! Connections by a konnectivity server: one gRPC stream (`ProxyService.Proxy` of
//! sigs.k8s.io/apiserver-network-proxy), on a connection of its own, for each.
//!
//! ```text
//! this server                      konnectivity server
//!   DIAL_REQ(random, address) ──▶
//!                             ◀──  DIAL_RSP(random, connection)   or an error
//!   DATA(connection) ──▶      ◀──  DATA(connection)
//!   CLOSE_REQ(connection) ──▶ ◀──  CLOSE_RSP(connection)
//! ```
//!
//! Neither side says how much it can take: who reads slowly holds up the whole
//! stream, which carries nothing else.

use std::time::Duration;

use http::uri::PathAndQuery;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::mpsc;
use tonic::Streaming;
use tonic::transport::{Endpoint, Uri};

use super::dial::{Stream, TunnelError};

const PATH: &str = "/ProxyService/Proxy";
/// How much is in flight within this server, in bytes, each way.
const BUFFER: usize = 64 << 10;
/// How much one packet carries at most, in bytes.
const PACKET: usize = 32 << 10;
/// How many packets wait to be sent.
const QUEUE: usize = 4;
/// How long the server's answer to the end of a connection is waited for.
const CLOSE: Duration = Duration::from_secs(5);

/// Asks the server at the other end of `stream` to connect to `address`, a host and
/// port.
///
/// # Errors
/// What the server said instead.
pub(super) async fn tunnel(stream: Stream, address: &str) -> Result<Stream, TunnelError> {
    let mut once = Some(stream);
    let connector = tower::service_fn(move |_: Uri| {
        let stream = once.take().map(TokioIo::new);
        async move { stream.ok_or_else(|| std::io::Error::from(std::io::ErrorKind::NotConnected)) }
    });
    let channel = Endpoint::from_static("http://konnectivity.invalid")
        .connect_with_connector(connector)
        .await?;
    let mut grpc = tonic::client::Grpc::new(channel);
    grpc.ready().await?;
    let (packets, mut queue) = mpsc::channel(QUEUE);
    let outbound = futures::stream::poll_fn(move |context| queue.poll_recv(context));
    // A positive number, as the server's own clients choose it.
    let random = rand::random_range(1..=i64::MAX);
    // The server says nothing, not even that it listens, before it is asked.
    let _ = packets.try_send(message::Packet::dial(random, address));
    let codec = tonic_prost::ProstCodec::<message::Packet, message::Packet>::default();
    let answered = grpc
        .streaming(
            tonic::Request::new(outbound),
            PathAndQuery::from_static(PATH),
            codec,
        )
        .await
        .map_err(TunnelError::Status)?;
    let mut inbound = answered.into_inner();
    let connection = dialed(&mut inbound, random).await?;
    let (ours, theirs) = tokio::io::duplex(BUFFER);
    let (reads, writes) = tokio::io::split(theirs);
    tokio::spawn(async move {
        let goes = outward(reads, &packets, connection);
        let comes = inward(writes, &mut inbound, connection);
        tokio::pin!(comes);
        tokio::select! {
            () = goes => {
                let _ = packets.send(message::Packet::close(connection)).await;
                // What is still on its way is let in until the server has closed, too.
                let _ = tokio::time::timeout(CLOSE, comes).await;
            }
            () = &mut comes => {}
        }
    });
    Ok(Box::new(ours))
}

/// Waits for the answer to a request for a connection: its number.
async fn dialed(inbound: &mut Streaming<message::Packet>, random: i64) -> Result<i64, TunnelError> {
    while let Some(packet) = inbound.message().await.map_err(TunnelError::Status)? {
        match packet.payload {
            Some(message::Payload::DialResponse(answer)) if answer.random == random => {
                return if answer.error.is_empty() {
                    Ok(answer.connection)
                } else {
                    Err(TunnelError::Dial(answer.error))
                };
            }
            Some(message::Payload::CloseDial(closed)) if closed.random == random => {
                return Err(TunnelError::DialClosed);
            }
            _ => {}
        }
    }
    Err(TunnelError::Closed)
}

/// Sends what is written here, until it ends.
async fn outward(
    mut from: ReadHalf<DuplexStream>,
    packets: &mpsc::Sender<message::Packet>,
    connection: i64,
) {
    let mut buffer = vec![0; PACKET].into_boxed_slice();
    while let Ok(read @ 1..) = from.read(&mut buffer).await {
        let packet = message::Packet::data(connection, buffer[..read].to_vec());
        if packets.send(packet).await.is_err() {
            return;
        }
    }
}

/// Lets in what comes, until the server closes the connection.
async fn inward(
    mut to: WriteHalf<DuplexStream>,
    inbound: &mut Streaming<message::Packet>,
    connection: i64,
) {
    while let Ok(Some(packet)) = inbound.message().await {
        let data = match packet.payload {
            Some(message::Payload::Data(data)) if data.connection == connection => data.data,
            Some(message::Payload::CloseResponse(closed)) if closed.connection == connection => {
                break;
            }
            _ => continue,
        };
        if to.write_all(&data).await.is_err() {
            return;
        }
    }
    let _ = to.shutdown().await;
}

/// The messages, as far as they are used.
mod message {
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Packet {
        #[prost(enumeration = "Kind", tag = "1")]
        pub kind: i32,
        #[prost(oneof = "Payload", tags = "2, 3, 4, 5, 6, 7")]
        pub payload: Option<Payload>,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, prost::Enumeration)]
    #[repr(i32)]
    pub enum Kind {
        DialRequest = 0,
        DialResponse = 1,
        CloseRequest = 2,
        CloseResponse = 3,
        Data = 4,
        CloseDial = 5,
        Drain = 6,
    }

    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum Payload {
        #[prost(message, tag = "2")]
        DialRequest(DialRequest),
        #[prost(message, tag = "3")]
        DialResponse(DialResponse),
        #[prost(message, tag = "4")]
        Data(Data),
        #[prost(message, tag = "5")]
        CloseRequest(CloseRequest),
        #[prost(message, tag = "6")]
        CloseResponse(CloseResponse),
        #[prost(message, tag = "7")]
        CloseDial(CloseDial),
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct DialRequest {
        #[prost(string, tag = "1")]
        pub protocol: String,
        #[prost(string, tag = "2")]
        pub address: String,
        #[prost(int64, tag = "3")]
        pub random: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct DialResponse {
        #[prost(string, tag = "1")]
        pub error: String,
        #[prost(int64, tag = "2")]
        pub connection: i64,
        #[prost(int64, tag = "3")]
        pub random: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct CloseRequest {
        #[prost(int64, tag = "1")]
        pub connection: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct CloseResponse {
        #[prost(string, tag = "1")]
        pub error: String,
        #[prost(int64, tag = "2")]
        pub connection: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct CloseDial {
        #[prost(int64, tag = "1")]
        pub random: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Data {
        #[prost(int64, tag = "1")]
        pub connection: i64,
        #[prost(string, tag = "2")]
        pub error: String,
        #[prost(bytes = "vec", tag = "3")]
        pub data: Vec<u8>,
    }

    impl Packet {
        fn of(kind: Kind, payload: Payload) -> Self {
            Self {
                kind: kind as i32,
                payload: Some(payload),
            }
        }

        pub fn dial(random: i64, address: &str) -> Self {
            let request = DialRequest {
                protocol: "tcp".to_owned(),
                address: address.to_owned(),
                random,
            };
            Self::of(Kind::DialRequest, Payload::DialRequest(request))
        }

        pub fn data(connection: i64, data: Vec<u8>) -> Self {
            let data = Data {
                connection,
                error: String::new(),
                data,
            };
            Self::of(Kind::Data, Payload::Data(data))
        }

        pub fn close(connection: i64) -> Self {
            let request = CloseRequest { connection };
            Self::of(Kind::CloseRequest, Payload::CloseRequest(request))
        }
    }
}
