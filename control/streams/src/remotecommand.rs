//! `exec` and `attach`: channels of one WebSocket (`v5.channel.k8s.io`) on one
//! side, streams of one SPDY connection (`v4.channel.k8s.io`) on the other.

use std::io;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONNECTION, UPGRADE};
use http::{HeaderMap, HeaderValue, Method};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};

use super::spdy::{self, Frame};
use super::websocket::{self, Message};
use super::{CHUNK, WAITING};

/// The one protocol that is translated: the first in which a client can end its
/// standard input.
pub const PROTOCOL: &str = "v5.channel.k8s.io";

/// The offered protocols, whose outcome is a Status.
const OFFERED: [&str; 2] = [PROTOCOL, "v4.channel.k8s.io"];

/// A channel's end in [`PROTOCOL`]: this byte, and the channel.
const CLOSE: u8 = 255;

/// How long the node may take to accept the streams.
const ACCEPT: Duration = Duration::from_secs(30);

/// How long the client may take to take the last bytes.
const LAST_BYTES: Duration = Duration::from_secs(10);

/// An outcome or a refusal longer than this is cut, in bytes.
pub const LONGEST_STATUS: usize = 64 << 10;

/// The streams that a client requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamSelection {
    /// Standard input.
    pub stdin: bool,
    /// Standard output.
    pub stdout: bool,
    /// Standard error.
    pub stderr: bool,
    /// A terminal, whose size may change.
    pub tty: bool,
}

/// The channels, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum Channel {
    Stdin = 0,
    Stdout = 1,
    Stderr = 2,
    Error = 3,
    Resize = 4,
}

/// Whether a request is one to translate.
#[must_use]
pub fn is_asked(method: &Method, headers: &HeaderMap) -> bool {
    websocket::is_asked(method, headers)
        && websocket::protocols(headers).any(|protocol| protocol == PROTOCOL)
}

/// The headers that ask the node for SPDY.
#[must_use]
pub fn asking() -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, HeaderValue::from_static(spdy::PROTOCOL));
    for protocol in OFFERED {
        headers.append(spdy::STREAM_PROTOCOL, HeaderValue::from_static(protocol));
    }
    headers
}

/// Error of a node that agrees to none of the stream protocols that it is offered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unable to upgrade connection: the node wants the stream protocol `{wanted}`")]
pub struct ProtocolMismatch {
    /// The protocol that the node wants; empty if it names none.
    pub wanted: String,
}

/// Checks that the node agreed to one of the protocols that it was offered.
///
/// # Errors
/// Naming the one that it wants.
pub fn check(answer: &HeaderMap) -> Result<(), ProtocolMismatch> {
    let agreed = answer
        .get(spdy::STREAM_PROTOCOL)
        .and_then(|protocol| protocol.to_str().ok())
        .unwrap_or_default();
    if OFFERED.contains(&agreed) {
        return Ok(());
    }
    Err(ProtocolMismatch {
        wanted: agreed.to_owned(),
    })
}

/// Serves a client behind its handshake: connects, copies, tells the outcome,
/// be it that the node does not answer: a Status in JSON.
pub async fn serve<S>(
    reads: impl AsyncRead + Unpin,
    writes: impl AsyncWrite + Unpin,
    wanted: StreamSelection,
    connect: impl Future<Output = Result<S, Bytes>>,
) where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (to_client, queue) = mpsc::channel(WAITING);
    let mut writer = pin!(websocket::write(writes, queue));
    let work = async move {
        // Tells the client that the connection stands.
        let greeted = match wanted {
            StreamSelection { stdout: true, .. } => Channel::Stdout,
            StreamSelection { stderr: true, .. } => Channel::Stderr,
            _ => Channel::Error,
        };
        send(&to_client, greeted, Bytes::new()).await?;
        let outcome = match connect.await {
            Ok(node) => {
                let (node_reads, node_writes) = tokio::io::split(node);
                Session {
                    channels: wanted.channels(),
                    to_client: &to_client,
                }
                .run(reads, node_reads, node_writes)
                .await?
            }
            Err(status) => status,
        };
        send(&to_client, Channel::Error, outcome).await?;
        to_client.send(Message::Close(1000)).await.map_err(gone)
    };
    let ended = tokio::select! {
        ended = work => ended,
        written = &mut writer => written,
    };
    match ended {
        Ok(()) => {
            let _ = tokio::time::timeout(LAST_BYTES, writer).await;
        }
        Err(error) => tracing::debug!(%error, "client of streams disconnected"),
    }
}

async fn send(to_client: &mpsc::Sender<Message>, channel: Channel, bytes: Bytes) -> io::Result<()> {
    let message = Message::Binary(Some(channel as u8), bytes);
    to_client.send(message).await.map_err(gone)
}

fn gone<T>(_: mpsc::error::SendError<T>) -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

/// One command's streams.
struct Session<'a> {
    /// The channels, in the order in which kubelets expect them.
    channels: Vec<Channel>,
    to_client: &'a mpsc::Sender<Message>,
}

impl Session<'_> {
    /// Copies until the command has ended; returns its outcome, as JSON.
    async fn run(
        &self,
        client: impl AsyncRead + Unpin,
        node_reads: impl AsyncRead + Unpin,
        node_writes: impl AsyncWrite + Unpin,
    ) -> io::Result<Bytes> {
        let (to_node, queue) = mpsc::channel(WAITING);
        let (opened, are_open) = watch::channel(false);
        let writer = async {
            if let Err(error) = spdy::write(node_writes, queue).await {
                tracing::debug!(%error, "streams of a node failed");
            }
            // Reading ends, too, and has received the command's status by then.
            futures::future::pending::<()>().await;
        };
        tokio::select! {
            outcome = self.read_node(node_reads, to_node.clone(), opened) => Ok(outcome?),
            ended = self.read_client(client, to_node, are_open) => {
                Err(ended.err().unwrap_or_else(|| io::ErrorKind::ConnectionAborted.into()))
            }
            () = writer => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// The stream of a channel; the side that connects counts oddly.
    fn stream(&self, channel: Channel) -> Option<u32> {
        let at = self.channels.iter().position(|known| *known == channel)?;
        u32::try_from(at).ok().map(|at| 2 * at + 1)
    }

    /// The channel of a stream.
    fn channel(&self, stream: u32) -> Option<Channel> {
        let at = usize::try_from(stream / 2).ok()?;
        self.channels.get(at).copied().filter(|_| stream % 2 == 1)
    }

    /// Opens the streams and forwards the node's data, to the end of all outputs and of
    /// the outcome.
    async fn read_node(
        &self,
        reads: impl AsyncRead + Unpin,
        to_node: mpsc::Sender<Frame>,
        opened: watch::Sender<bool>,
    ) -> io::Result<Bytes> {
        for &channel in &self.channels {
            let frame = Frame::Open {
                stream: self.stream(channel).unwrap_or_default(),
                header: ("streamtype", channel.name()),
            };
            to_node.send(frame).await.map_err(gone)?;
        }
        let mut reader = spdy::SpdyReader::new(reads);
        let mut unanswered = self.channels.clone();
        let mut open = self.channels.clone();
        open.retain(|channel| !matches!(channel, Channel::Stdin | Channel::Resize));
        let mut outcome = Vec::new();
        let mut accept = pin!(tokio::time::sleep(ACCEPT));
        while !open.is_empty() {
            let next = reader.next();
            let event = if unanswered.is_empty() {
                next.await
            } else {
                tokio::select! {
                    event = next => event,
                    () = &mut accept => {
                        return Ok(failure("the node did not accept the streams in time"));
                    }
                }
            };
            match event {
                Ok(spdy::SpdyEvent::Reply(stream)) => {
                    let answered = self.channel(stream);
                    unanswered.retain(|channel| Some(*channel) != answered);
                    if unanswered.is_empty() {
                        opened.send_replace(true);
                    }
                }
                Ok(spdy::SpdyEvent::Data { stream, bytes }) => match self.channel(stream) {
                    Some(Channel::Error) if outcome.len() < LONGEST_STATUS => {
                        outcome.extend_from_slice(&bytes);
                    }
                    Some(channel @ (Channel::Stdout | Channel::Stderr)) => {
                        send(self.to_client, channel, bytes).await?;
                    }
                    // A stream that was not requested; the end of the outcome.
                    _ => {}
                },
                Ok(spdy::SpdyEvent::End(stream)) => {
                    let ended = self.channel(stream);
                    open.retain(|channel| Some(*channel) != ended);
                }
                // Must not wait: the node may itself be waiting for its data to be read.
                Ok(spdy::SpdyEvent::Ping(id)) if id % 2 == 0 => {
                    let _ = to_node.try_send(Frame::Pong(id));
                }
                Ok(spdy::SpdyEvent::Ping(_) | spdy::SpdyEvent::Away) => {}
                Err(_) if !outcome.is_empty() => break,
                Err(error) => {
                    return Ok(failure(&format!("the node's streams broke off: {error}")));
                }
            }
        }
        if outcome.is_empty() {
            outcome = br#"{"metadata":{},"status":"Success"}"#.to_vec();
        }
        Ok(outcome.into())
    }

    /// Forwards the client's data, until it disconnects.
    async fn read_client(
        &self,
        reads: impl AsyncRead + Unpin,
        to_node: mpsc::Sender<Frame>,
        mut opened: watch::Receiver<bool>,
    ) -> io::Result<()> {
        // Data before a stream is accepted would be dropped there.
        while !*opened.borrow_and_update() {
            if opened.changed().await.is_err() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
        }
        let mut reader = websocket::WebSocketReader::new(reads);
        // The channel of the current message, once its first byte has arrived.
        let mut of: Option<u8> = None;
        loop {
            let mut bytes = match reader.next().await? {
                websocket::WebSocketEvent::Close => return Ok(()),
                websocket::WebSocketEvent::Ping(bytes) => {
                    let _ = self.to_client.try_send(Message::Pong(bytes));
                    continue;
                }
                websocket::WebSocketEvent::Data { first, bytes } => {
                    if first {
                        of = None;
                    }
                    bytes
                }
            };
            debug_assert!(bytes.len() <= CHUNK, "readers hand out chunks");
            if of.is_none() && !bytes.is_empty() {
                of = Some(bytes.split_to(1)[0]);
            }
            match of {
                Some(CLOSE) => {
                    let stdin = bytes.first() == Some(&(Channel::Stdin as u8));
                    if let Some(stream) = self.stream(Channel::Stdin).filter(|_| stdin) {
                        to_node.send(Frame::Finish(stream)).await.map_err(gone)?;
                    }
                }
                Some(number) if !bytes.is_empty() => {
                    let input = [Channel::Stdin, Channel::Resize]
                        .into_iter()
                        .find(|channel| *channel as u8 == number);
                    if let Some(stream) = input.and_then(|channel| self.stream(channel)) {
                        let frame = Frame::Data { stream, bytes };
                        to_node.send(frame).await.map_err(gone)?;
                    }
                }
                _ => {}
            }
        }
    }
}

/// Returns a failure without a Status as one in JSON.
#[must_use]
pub fn failure(message: &str) -> Bytes {
    let status = serde_json::json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": format!("Internal error occurred: {message}"),
        "reason": "InternalError",
        "details": {"causes": [{"message": message}]},
        "code": 500,
    });
    status.to_string().into()
}

// === impl Wanted ===

impl StreamSelection {
    fn channels(self) -> Vec<Channel> {
        [
            (Channel::Error, true),
            (Channel::Stdin, self.stdin),
            (Channel::Stdout, self.stdout),
            // A terminal has one output.
            (Channel::Stderr, self.stderr && !self.tty),
            (Channel::Resize, self.tty),
        ]
        .into_iter()
        .filter_map(|(channel, there)| there.then_some(channel))
        .collect()
    }
}

// === impl Channel ===

impl Channel {
    fn name(self) -> &'static str {
        match self {
            Self::Stdin => "stdin",
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
            Self::Error => "error",
            Self::Resize => "resize",
        }
    }
}

#[cfg(test)]
#[path = "remotecommand_tests.rs"]
mod tests;
