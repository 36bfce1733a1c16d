//! What flows one way only, such as a log, over a WebSocket: one message for
//! each chunk, as browsers want it.

use std::io;
use std::pin::pin;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use control_streams::WAITING;
use control_streams::websocket::{self, Message, WebSocketEvent};
use control_types::status::Status;
use http::HeaderMap;
use http_body_util::BodyExt;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;

use super::agree;
use crate::ProxiedRequest;
use crate::upgrade;
use control_request::Answer;
use control_request::body::Body;

/// Bytes as they are.
const BINARY: &str = "binary.k8s.io";
/// Bytes in base64, as text.
const BASE64: &str = "base64.binary.k8s.io";

/// How long the client may take to take the last bytes.
const LAST_BYTES: Duration = Duration::from_secs(10);

/// Agrees to the client's WebSocket and sends it the body.
///
/// # Errors
/// 400 for an improper handshake or protocols that are not spoken.
pub fn send(incoming: ProxiedRequest<'_>, body: Body) -> Answer {
    let client = upgrade::client_side(incoming)?;
    let headers = &incoming.parts.headers;
    let protocol = protocol(headers)?;
    let response = agree(headers, protocol)?;
    let encoded = protocol == Some(BASE64);
    upgrade::spawn_on(incoming, client, move |client| async move {
        let (reads, writes) = tokio::io::split(client);
        serve(reads, writes, body, encoded).await;
    });
    Ok(response)
}

/// The first protocol of the client that is spoken here; none if it names none.
fn protocol(headers: &HeaderMap) -> Result<Option<&'static str>, Status> {
    let mut offered = websocket::protocols(headers).peekable();
    if offered.peek().is_none() {
        return Ok(None);
    }
    offered
        .find_map(|name| [BINARY, BASE64].into_iter().find(|known| *known == name))
        .map(Some)
        .ok_or_else(|| {
            Status::bad_request(format!(
                "websocket: none of the subprotocols is spoken here; there are {BINARY} and {BASE64}"
            ))
        })
}

async fn serve(
    reads: impl AsyncRead + Unpin,
    writes: impl AsyncWrite + Unpin,
    mut body: Body,
    encoded: bool,
) {
    let (queue, waiting) = mpsc::channel(WAITING);
    let mut writer = pin!(websocket::write(writes, waiting));
    let pongs = queue.clone();
    let copy = async move {
        let message = |bytes: Bytes| {
            if encoded {
                Message::Text(STANDARD.encode(&bytes).into())
            } else {
                Message::Binary(None, bytes)
            }
        };
        // Tells the client that the stream has begun.
        queue.send(message(Bytes::new())).await.map_err(gone)?;
        while let Some(Ok(frame)) = body.frame().await {
            if let Ok(bytes) = frame.into_data() {
                queue.send(message(bytes)).await.map_err(gone)?;
            }
        }
        queue.send(Message::Close(1000)).await.map_err(gone)
    };
    let client = async move {
        let mut reader = websocket::WebSocketReader::new(reads);
        loop {
            match reader.next().await? {
                WebSocketEvent::Close => return Err(io::ErrorKind::ConnectionAborted.into()),
                WebSocketEvent::Ping(bytes) => {
                    let _ = pongs.try_send(Message::Pong(bytes));
                }
                WebSocketEvent::Data { .. } => {}
            }
        }
    };
    let ended: io::Result<()> = tokio::select! {
        ended = copy => ended,
        ended = client => ended,
        ended = &mut writer => ended,
    };
    match ended {
        Ok(()) => {
            let _ = tokio::time::timeout(LAST_BYTES, writer).await;
        }
        Err(error) => tracing::debug!(%error, "a client of a log went away"),
    }
}

fn gone<T>(_: mpsc::error::SendError<T>) -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use http::HeaderValue;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use tokio::io::AsyncReadExt;

    use super::*;
    use control_request::body::BoxError;

    #[test]
    fn the_first_known_protocol_is_taken() {
        let mut headers = HeaderMap::new();
        assert_eq!(protocol(&headers), Ok(None));
        for (offered, expected) in [
            ("other, base64.binary.k8s.io", Some(Some(BASE64))),
            ("binary.k8s.io, base64.binary.k8s.io", Some(Some(BINARY))),
            ("channel.k8s.io", None),
        ] {
            let value = HeaderValue::from_static(offered);
            headers.insert("sec-websocket-protocol", value);
            assert_eq!(protocol(&headers).ok(), expected, "{offered}");
        }
    }

    #[tokio::test]
    async fn each_chunk_is_a_message_between_a_greeting_and_the_end() {
        for (encoded, expected) in [
            (
                false,
                &b"\x82\x00\x82\x03one\x82\x03two\x88\x02\x03\xe8"[..],
            ),
            (true, b"\x81\x00\x81\x04b25l\x81\x04dHdv\x88\x02\x03\xe8"),
        ] {
            let chunks = ["one", "two"].map(|text| Ok::<_, BoxError>(Frame::data(text.into())));
            let body = Body::new(StreamBody::new(stream::iter(chunks)));
            let (server, mut client) = tokio::io::duplex(1 << 10);
            let (reads, writes) = tokio::io::split(server);
            serve(reads, writes, body, encoded).await;
            let mut got = vec![0; expected.len()];
            client.read_exact(&mut got).await.expect("came");
            assert_eq!(got, expected);
        }
    }
}
