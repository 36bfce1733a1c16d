//! `portforward` over WebSocket: the bytes of a SPDY connection in binary messages. Their
//! meaning is between the client and the node.

use std::io;
use std::pin::pin;
use std::time::Duration;

use bytes::BytesMut;
use http::header::{
    CONNECTION, SEC_WEBSOCKET_EXTENSIONS, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderValue, Method};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use super::websocket::{self, Message, WebSocketEvent};
use super::{CHUNK, WAITING, spdy};

/// The prefix and suffix of a tunnelled protocol's name.
const PREFIX: &str = "SPDY/3.1+";
const SUFFIX: &str = ".k8s.io";

/// How long a closing side may take to take its last bytes.
const LAST_BYTES: Duration = Duration::from_secs(5);

/// Whether a request is one to tunnel.
#[must_use]
pub fn is_asked(method: &Method, headers: &HeaderMap) -> bool {
    websocket::is_asked(method, headers) && tunnelled(headers).next().is_some()
}

/// The protocols in the tunnel that the client offers.
fn tunnelled(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    websocket::protocols(headers)
        .filter(|protocol| protocol.ends_with(SUFFIX))
        .filter_map(|protocol| protocol.strip_prefix(PREFIX))
}

/// Makes of the headers of a client's WebSocket those that ask the node for the
/// SPDY in it.
pub fn add_request_headers(headers: &mut HeaderMap) {
    let protocols: Vec<HeaderValue> = tunnelled(headers)
        .filter_map(|protocol| HeaderValue::from_str(protocol).ok())
        .collect();
    for name in [
        SEC_WEBSOCKET_EXTENSIONS,
        SEC_WEBSOCKET_KEY,
        SEC_WEBSOCKET_PROTOCOL,
        SEC_WEBSOCKET_VERSION,
    ] {
        headers.remove(name);
    }
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static(spdy::PROTOCOL));
    headers.remove(spdy::STREAM_PROTOCOL);
    for protocol in protocols {
        headers.append(spdy::STREAM_PROTOCOL, protocol);
    }
}

/// Returns the subprotocol to accept for the client, given the node's answer.
#[must_use]
pub fn chosen(answer: &HeaderMap) -> Option<String> {
    answer
        .get(spdy::STREAM_PROTOCOL)
        .and_then(|protocol| protocol.to_str().ok())
        .map(|protocol| format!("{PREFIX}{protocol}"))
}

/// Carries bytes both ways until either side ends.
pub async fn carry<C, N>(client: C, node: N)
where
    C: AsyncRead + AsyncWrite + Unpin,
    N: AsyncRead + AsyncWrite + Unpin,
{
    let (client_reads, client_writes) = tokio::io::split(client);
    let (node_reads, mut node_writes) = tokio::io::split(node);
    let (to_client, queue) = mpsc::channel(WAITING);
    let mut writer = pin!(websocket::write(client_writes, queue));
    let pongs = to_client.clone();
    let ended = {
        let up = to_node(client_reads, &mut node_writes, pongs);
        let down = async {
            from_node(node_reads, &to_client).await?;
            let close = Message::Close(1000);
            to_client
                .send(close)
                .await
                .map_err(|_| io::ErrorKind::BrokenPipe.into())
        };
        tokio::select! {
            ended = up => ended,
            ended = down => ended,
            ended = &mut writer => ended,
        }
    };
    drop(to_client);
    match ended {
        Ok(()) => {
            let last = async {
                let _ = tokio::join!(writer, node_writes.shutdown());
            };
            let _ = tokio::time::timeout(LAST_BYTES, last).await;
        }
        Err(error) => tracing::debug!(%error, "tunnel failed"),
    }
}

async fn to_node(
    client: impl AsyncRead + Unpin,
    node: &mut (impl AsyncWrite + Unpin),
    pongs: mpsc::Sender<Message>,
) -> io::Result<()> {
    let mut reader = websocket::WebSocketReader::new(client);
    loop {
        match reader.next().await? {
            WebSocketEvent::Data { bytes, .. } => {
                node.write_all(&bytes).await?;
                node.flush().await?;
            }
            // A client that does not read is not owed an answer.
            WebSocketEvent::Ping(bytes) => {
                let _ = pongs.try_send(Message::Pong(bytes));
            }
            WebSocketEvent::Close => return Ok(()),
        }
    }
}

async fn from_node(
    mut node: impl AsyncRead + Unpin,
    to_client: &mpsc::Sender<Message>,
) -> io::Result<()> {
    loop {
        let mut bytes = BytesMut::with_capacity(CHUNK);
        if node.read_buf(&mut bytes).await? == 0 {
            return Ok(());
        }
        let message = Message::Binary(None, bytes.freeze());
        if to_client.send(message).await.is_err() {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::websocket::tests::frame;

    #[test]
    fn only_spdy_of_kubernetes_is_tunnelled() {
        let mut headers = HeaderMap::new();
        headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
        let offered = "SPDY/3.1+portforward.k8s.io, SPDY/3.1+other, v4.channel.k8s.io";
        headers.insert(SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(offered));
        assert!(is_asked(&Method::GET, &headers));
        assert_eq!(
            tunnelled(&headers).collect::<Vec<_>>(),
            ["portforward.k8s.io"]
        );
        let mut onward = headers.clone();
        onward.insert(SEC_WEBSOCKET_KEY, HeaderValue::from_static("x"));
        add_request_headers(&mut onward);
        assert_eq!(onward[UPGRADE], "SPDY/3.1");
        assert_eq!(onward[spdy::STREAM_PROTOCOL], "portforward.k8s.io");
        assert_eq!(onward.len(), 3, "{onward:?}");
        assert_eq!(
            chosen(&onward).as_deref(),
            Some("SPDY/3.1+portforward.k8s.io")
        );
        headers.insert(
            SEC_WEBSOCKET_PROTOCOL,
            HeaderValue::from_static("v4.channel.k8s.io"),
        );
        assert!(!is_asked(&Method::GET, &headers));
    }

    #[tokio::test]
    async fn bytes_are_carried_in_messages_and_the_end_is_told() {
        let (client, mut outside) = tokio::io::duplex(1 << 16);
        let (node, mut inside) = tokio::io::duplex(1 << 16);
        let carrying = tokio::spawn(carry(client, node));
        let mut wire = frame(false, 2, b"he");
        wire.extend(frame(true, 9, b"?"));
        wire.extend(frame(true, 0, b"llo"));
        outside.write_all(&wire).await.expect("sent");
        let mut got = [0; 5];
        inside.read_exact(&mut got).await.expect("carried");
        assert_eq!(&got, b"hello");
        inside.write_all(b"world").await.expect("answered");
        drop(inside);
        let mut back = Vec::new();
        outside.read_to_end(&mut back).await.expect("closed");
        assert_eq!(back, b"\x8a\x01?\x82\x05world\x88\x02\x03\xe8");
        carrying.await.expect("ended");
    }

    #[tokio::test]
    async fn a_client_that_closes_ends_the_node_s_side() {
        let (client, mut outside) = tokio::io::duplex(1 << 16);
        let (node, mut inside) = tokio::io::duplex(1 << 16);
        let carrying = tokio::spawn(carry(client, node));
        outside
            .write_all(&frame(true, 8, &[3, 232]))
            .await
            .expect("sent");
        assert_eq!(inside.read(&mut [0; 8]).await.expect("the end"), 0);
        drop(outside);
        carrying.await.expect("ended");
    }
}
