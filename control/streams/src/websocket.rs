//! The server's side of WebSocket (RFC 6455): handshake and frames.

use std::io;

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::{BufMut, Bytes, BytesMut};
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL,
    SEC_WEBSOCKET_VERSION, UPGRADE,
};
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;

use super::CHUNK;

/// How a subprotocol begins that is a bearer token.
pub const BEARER: &str = "base64url.bearer.authorization.k8s.io.";

/// RFC 6455, section 1.3.
const MAGIC: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/// A control frame's payload at most (section 5.5).
const LARGEST_CONTROL: u64 = 125;

/// Types of frames (section 5.2).
mod opcode {
    pub const CONTINUATION: u8 = 0;
    pub const TEXT: u8 = 1;
    pub const BINARY: u8 = 2;
    pub const CLOSE: u8 = 8;
    pub const PING: u8 = 9;
    pub const PONG: u8 = 10;
}

/// An outgoing message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A binary message of these parts.
    Binary(Option<u8>, Bytes),
    /// A message of UTF-8.
    Text(Bytes),
    /// The answer to a ping.
    Pong(Bytes),
    /// The end, with a code (section 7.4.1).
    Close(u16),
}

/// An incoming event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WebSocketEvent {
    /// Bytes of a message; `first` if they begin it. May be empty.
    Data {
        /// Whether they begin a message.
        first: bool,
        /// The bytes.
        bytes: Bytes,
    },
    /// A ping to be answered with the same bytes.
    Ping(Bytes),
    /// The client wants to end.
    Close,
}

/// Reason why a request is not a valid handshake (section 4.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandshakeError {
    /// An unsupported version.
    #[error("websocket: unsupported version: 13 not found in 'Sec-Websocket-Version' header")]
    Version,
    /// No key to agree to.
    #[error("websocket: 'Sec-WebSocket-Key' header must be base64 of 16 bytes")]
    Key,
    /// A subprotocol that no header can say.
    #[error("websocket: the name of the subprotocol cannot be answered")]
    Protocol,
}

/// Whether a request asks for a WebSocket.
#[must_use]
pub fn is_asked(method: &Method, headers: &HeaderMap) -> bool {
    method == Method::GET
        && wants_upgrade(headers)
        && listed(headers, UPGRADE.as_str())
            .any(|offered| offered.eq_ignore_ascii_case("websocket"))
}

/// Whether the client wants another protocol on this connection.
#[must_use]
pub fn wants_upgrade(headers: &HeaderMap) -> bool {
    headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .any(|value| value.to_ascii_lowercase().contains("upgrade"))
}

/// The members of a list header.
pub fn listed<'a>(headers: &'a HeaderMap, header: &str) -> impl Iterator<Item = &'a str> {
    headers
        .get_all(header)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .filter(|value| !value.is_empty())
}

/// The subprotocols that the client offers.
pub fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    listed(headers, SEC_WEBSOCKET_PROTOCOL.as_str())
}

/// The bearer token of a WebSocket whose client cannot set headers (browsers):
/// one of its subprotocols, which counts only beside another.
#[must_use]
pub fn bearer(method: &Method, from: &HeaderMap) -> Option<String> {
    if !is_asked(method, from) || protocols(from).count() < 2 {
        return None;
    }
    let encoded = protocols(from).find_map(|protocol| protocol.strip_prefix(BEARER))?;
    String::from_utf8(URL_SAFE_NO_PAD.decode(encoded).ok()?).ok()
}

/// The answer that agrees to a WebSocket, with this subprotocol if any.
///
/// # Errors
/// When the request is no proper handshake.
pub fn agree(headers: &HeaderMap, protocol: Option<&str>) -> Result<Response<()>, HandshakeError> {
    let version = headers
        .get(SEC_WEBSOCKET_VERSION)
        .map(HeaderValue::as_bytes);
    if version != Some(b"13") {
        return Err(HandshakeError::Version);
    }
    let key = headers
        .get(SEC_WEBSOCKET_KEY)
        .filter(|key| STANDARD.decode(key).is_ok_and(|key| key.len() == 16))
        .ok_or(HandshakeError::Key)?;
    let mut hash = digest::Context::new(&digest::SHA1_FOR_LEGACY_USE_ONLY);
    hash.update(key.as_bytes());
    hash.update(MAGIC);
    let accept = STANDARD.encode(hash.finish());
    let value = |text: &str| HeaderValue::from_str(text).map_err(|_| HandshakeError::Protocol);
    let mut response = Response::new(());
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(SEC_WEBSOCKET_ACCEPT, value(&accept)?);
    if let Some(protocol) = protocol {
        headers.insert(SEC_WEBSOCKET_PROTOCOL, value(protocol)?);
    }
    Ok(response)
}

/// Writes queued messages, until all senders are dropped.
///
/// # Errors
/// When the client has disconnected.
pub async fn write(
    mut to: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<Message>,
) -> io::Result<()> {
    while let Some(message) = queue.recv().await {
        let mut frame = BytesMut::with_capacity(CHUNK + 16);
        encode(&message, &mut frame);
        to.write_all(&frame).await?;
        if queue.is_empty() {
            to.flush().await?;
        }
    }
    to.shutdown().await
}

fn encode(message: &Message, out: &mut BytesMut) {
    let code;
    let (opcode, first, bytes): (u8, Option<u8>, &[u8]) = match message {
        Message::Binary(first, bytes) => (opcode::BINARY, *first, bytes),
        Message::Text(bytes) => (opcode::TEXT, None, bytes),
        Message::Pong(bytes) => (opcode::PONG, None, bytes),
        Message::Close(status) => {
            code = status.to_be_bytes();
            (opcode::CLOSE, None, &code)
        }
    };
    let length = bytes.len() + usize::from(first.is_some());
    out.put_u8(0x80 | opcode);
    match (u8::try_from(length), u16::try_from(length)) {
        (Ok(short @ 0..=125), _) => out.put_u8(short),
        (_, Ok(long)) => {
            out.put_u8(126);
            out.put_u16(long);
        }
        _ => {
            out.put_u8(127);
            out.put_u64(length as u64);
        }
    }
    if let Some(first) = first {
        out.put_u8(first);
    }
    out.put_slice(bytes);
}

/// Reads the client's messages in pieces: none is held as a whole.
#[derive(Debug)]
pub struct WebSocketReader<R> {
    from: R,
    /// The remaining length of the current data frame, and the position in its mask.
    left: u64,
    mask: [u8; 4],
    at: usize,
    /// Whether a message continues in the next data frame.
    open: bool,
    first: bool,
    last: bool,
}

impl<R: AsyncRead + Unpin> WebSocketReader<R> {
    /// Reads from `from`, which is behind the handshake.
    pub fn new(from: R) -> Self {
        Self {
            from,
            left: 0,
            mask: [0; 4],
            at: 0,
            open: false,
            first: false,
            last: false,
        }
    }

    /// Returns the next event; not cancel-safe.
    ///
    /// # Errors
    /// When the client has disconnected or violates the protocol.
    pub async fn next(&mut self) -> io::Result<WebSocketEvent> {
        if self.left > 0 {
            return self.chunk().await;
        }
        loop {
            let [head, length] = self.array().await?;
            let (fin, reserved, code) = (head & 0x80 != 0, head & 0x70, head & 0x0f);
            if reserved != 0 {
                return Err(broken("reserved bits are set"));
            }
            if length & 0x80 == 0 {
                return Err(broken("a client's frame is not masked"));
            }
            let length = match length & 0x7f {
                126 => u64::from(u16::from_be_bytes(self.array().await?)),
                127 => u64::from_be_bytes(self.array().await?),
                short => u64::from(short),
            };
            self.mask = self.array().await?;
            self.at = 0;
            match code {
                opcode::CONTINUATION | opcode::TEXT | opcode::BINARY => {
                    if (code == opcode::CONTINUATION) != self.open {
                        return Err(broken("a message is continued that has not begun"));
                    }
                    self.first = !self.open;
                    self.open = !fin;
                    self.last = fin;
                    self.left = length;
                    return self.chunk().await;
                }
                _ if !fin || length > LARGEST_CONTROL => {
                    return Err(broken("a control frame is fragmented or too long"));
                }
                opcode::CLOSE => return Ok(WebSocketEvent::Close),
                opcode::PING => {
                    self.left = length;
                    let mut payload = BytesMut::with_capacity(LARGEST_CONTROL as usize);
                    while self.left > 0 {
                        let bytes = self.read().await?;
                        payload.extend_from_slice(&bytes);
                    }
                    return Ok(WebSocketEvent::Ping(payload.freeze()));
                }
                opcode::PONG => {
                    self.left = length;
                    while self.left > 0 {
                        self.read().await?;
                    }
                }
                _ => return Err(broken("a frame of an unknown kind")),
            }
        }
    }

    async fn chunk(&mut self) -> io::Result<WebSocketEvent> {
        let bytes = if self.left == 0 {
            Bytes::new()
        } else {
            self.read().await?
        };
        let first = std::mem::take(&mut self.first);
        Ok(WebSocketEvent::Data { first, bytes })
    }

    /// Reads and unmasks a part of the remaining data.
    async fn read(&mut self) -> io::Result<Bytes> {
        let most = usize::try_from(self.left).map_or(CHUNK, |left| left.min(CHUNK));
        let mut bytes = BytesMut::with_capacity(most);
        let read = (&mut self.from)
            .take(most as u64)
            .read_buf(&mut bytes)
            .await?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (byte, mask) in bytes.iter_mut().zip(self.mask.iter().cycle().skip(self.at)) {
            *byte ^= mask;
        }
        self.at = (self.at + read) % 4;
        self.left -= read as u64;
        Ok(bytes.freeze())
    }

    async fn array<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.from.read_exact(&mut bytes).await?;
        Ok(bytes)
    }
}

fn broken(why: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A client's frame.
    pub fn frame(fin: bool, opcode: u8, payload: &[u8]) -> Vec<u8> {
        let mut out = vec![if fin { 0x80 | opcode } else { opcode }];
        match payload.len() {
            length @ 0..126 => out.push(0x80 | u8::try_from(length).expect("short")),
            length @ 126..65536 => {
                out.push(0x80 | 126);
                out.extend(u16::try_from(length).expect("fits").to_be_bytes());
            }
            length => {
                out.push(0x80 | 127);
                out.extend((length as u64).to_be_bytes());
            }
        }
        let mask = [0x11, 0x22, 0x33, 0x44];
        out.extend(mask);
        out.extend(payload.iter().zip(mask.iter().cycle()).map(|(a, b)| a ^ b));
        out
    }

    #[test]
    fn the_handshake_is_that_of_the_rfc() {
        let mut headers = HeaderMap::new();
        headers.insert(
            "connection",
            HeaderValue::from_static("keep-alive, Upgrade"),
        );
        headers.insert("upgrade", HeaderValue::from_static("WebSocket"));
        headers.insert("sec-websocket-version", HeaderValue::from_static("13"));
        headers.insert(
            "sec-websocket-key",
            HeaderValue::from_static("dGhlIHNhbXBsZSBub25jZQ=="),
        );
        assert!(is_asked(&Method::GET, &headers));
        assert!(!is_asked(&Method::POST, &headers));
        let answer = agree(&headers, Some("v5.channel.k8s.io")).expect("agreed");
        assert_eq!(answer.status(), 101);
        assert_eq!(
            answer.headers()["sec-websocket-accept"],
            "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="
        );
        assert_eq!(
            answer.headers()["sec-websocket-protocol"],
            "v5.channel.k8s.io"
        );
        headers.insert("sec-websocket-key", HeaderValue::from_static("short"));
        assert_eq!(
            agree(&headers, None).expect_err("refused"),
            HandshakeError::Key
        );
    }

    #[test]
    fn a_token_may_be_a_subprotocol_beside_another() {
        let mut headers = HeaderMap::new();
        headers.insert("connection", HeaderValue::from_static("Upgrade"));
        headers.insert("upgrade", HeaderValue::from_static("websocket"));
        for (offered, expected) in [
            (
                "base64url.bearer.authorization.k8s.io.c2VjcmV0, v4.channel.k8s.io",
                Some("secret"),
            ),
            ("base64url.bearer.authorization.k8s.io.c2VjcmV0", None),
            (
                "base64url.bearer.authorization.k8s.io.?, v4.channel.k8s.io",
                None,
            ),
            ("binary.k8s.io, v4.channel.k8s.io", None),
        ] {
            let value = HeaderValue::from_static(offered);
            headers.insert("sec-websocket-protocol", value);
            let token = bearer(&Method::GET, &headers);
            assert_eq!(token.as_deref(), expected, "{offered}");
        }
    }

    #[tokio::test]
    async fn fragments_and_controls_between_them_are_read() {
        let long = vec![7; 3 * CHUNK];
        let mut wire = Vec::new();
        wire.extend(frame(false, 2, b"ab"));
        wire.extend(frame(true, 9, b"are you there"));
        wire.extend(frame(false, 0, b""));
        wire.extend(frame(true, 0, b"cd"));
        wire.extend(frame(true, 10, b"unasked"));
        wire.extend(frame(true, 1, b"text"));
        wire.extend(frame(true, 2, b""));
        wire.extend(frame(true, 2, &long));
        wire.extend(frame(true, 8, &[3, 232]));
        let mut reader = WebSocketReader::new(wire.as_slice());
        let data = |first, bytes: &'static [u8]| WebSocketEvent::Data {
            first,
            bytes: Bytes::from_static(bytes),
        };
        for expected in [
            data(true, b"ab"),
            WebSocketEvent::Ping(Bytes::from_static(b"are you there")),
            data(false, b""),
            data(false, b"cd"),
            data(true, b"text"),
            data(true, b""),
        ] {
            assert_eq!(reader.next().await.expect("an event"), expected);
        }
        let mut read = 0;
        let mut firsts = 0;
        while read < long.len() {
            let WebSocketEvent::Data { first, bytes } = reader.next().await.expect("data") else {
                panic!("no data");
            };
            assert!(bytes.len() <= CHUNK && bytes.iter().all(|byte| *byte == 7));
            firsts += usize::from(first);
            read += bytes.len();
        }
        assert_eq!((read, firsts), (long.len(), 1));
        assert_eq!(
            reader.next().await.expect("an event"),
            WebSocketEvent::Close
        );
        assert!(reader.next().await.is_err());
    }

    #[tokio::test]
    async fn broken_frames_are_errors() {
        let mut unmasked = frame(true, 2, b"ab");
        unmasked[1] &= 0x7f;
        let mut reserved = frame(true, 2, b"ab");
        reserved[0] |= 0x40;
        for wire in [
            unmasked,
            reserved,
            frame(true, 0, b"no beginning"),
            frame(true, 3, b"unknown"),
            frame(false, 9, b"half a ping"),
            frame(true, 9, &[0; 126]),
            frame(true, 2, b"cut")[..7].to_vec(),
            Vec::new(),
        ] {
            let mut reader = WebSocketReader::new(wire.as_slice());
            let mut last = reader.next().await;
            while let Ok(WebSocketEvent::Data { .. }) = last {
                last = reader.next().await;
            }
            assert!(last.is_err(), "{wire:?}");
        }
    }

    #[tokio::test]
    async fn messages_are_written_with_the_shortest_length() {
        let (queue, waiting) = mpsc::channel(8);
        for size in [0, 124, 125, 65534, 65535] {
            let message = Message::Binary(Some(1), vec![9; size].into());
            queue.send(message).await.expect("queued");
        }
        queue.send(Message::Close(1000)).await.expect("queued");
        drop(queue);
        let mut wire = Vec::new();
        write(&mut wire, waiting).await.expect("written");
        let mut expected: Vec<u8> = Vec::new();
        for (head, size) in [
            (&[0x82, 1, 1][..], 0),
            (&[0x82, 125, 1], 124),
            (&[0x82, 126, 0, 126, 1], 125),
            (&[0x82, 126, 255, 255, 1], 65534),
            (&[0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0, 1], 65535),
        ] {
            expected.extend(head);
            expected.extend(vec![9; size]);
        }
        expected.extend([0x88, 2, 3, 232]);
        assert!(wire == expected);
    }

    const BEGINNINGS: [[u8; 4]; 4] = [
        [0x82, 0x83, 0, 0],
        [0x02, 0x80, 1, 2],
        [0x89, 0x85, 0, 1],
        [0x82, 0xfe, 0, 9],
    ];

    #[tokio::test]
    async fn no_bytes_make_the_reader_panic_or_go_on_forever() {
        use rand::prelude::*;

        let mut random = StdRng::seed_from_u64(7);
        for _ in 0..5000 {
            let length = random.random_range(0..200);
            let mut wire: Vec<u8> = (0..length).map(|_| random.random()).collect();
            // Else nearly all end at the first byte.
            if let [first, second, third, fourth, ..] = wire.as_mut_slice() {
                [*first, *second, *third, *fourth] = *BEGINNINGS.choose(&mut random).expect("some");
            }
            let mut reader = WebSocketReader::new(wire.as_slice());
            let mut events = 0;
            while reader.next().await.is_ok() {
                events += 1;
                assert!(events <= 200, "{wire:?}");
            }
        }
    }
}
