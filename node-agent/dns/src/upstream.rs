//! Questions for other resolvers.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use hickory_proto::op::ResponseCode;
use tokio::net::{TcpStream, UdpSocket};

use crate::frame;

/// Timeout of a resolver before the next is tried.
const PATIENCE: Duration = Duration::from_secs(2);
/// The bytes of a message's header.
const HEADER: usize = 12;
/// The largest answer over UDP that is taken in.
const LARGEST: usize = 4096;

/// The protocol of a query to a resolver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Udp,
    Tcp,
}

/// Asks the resolvers one after the other until one answers. A resolver that fails or
/// refuses is no reason not to ask the next; when all do, the last such answer counts.
pub(crate) async fn forward(
    upstreams: &[SocketAddr],
    question: &[u8],
    protocol: Protocol,
) -> Option<Vec<u8>> {
    let mut failure = None;
    for upstream in upstreams {
        let asked = async {
            match protocol {
                Protocol::Udp => ask_udp(*upstream, question).await,
                Protocol::Tcp => ask_tcp(*upstream, question).await,
            }
        };
        match tokio::time::timeout(PATIENCE, asked).await {
            Ok(Ok(answer)) if is_failure(&answer) => {
                tracing::debug!(%upstream, code = %code(&answer), "resolver returned an error");
                failure = Some(answer);
            }
            Ok(Ok(answer)) => return Some(answer),
            Ok(Err(error)) => tracing::debug!(%upstream, %error, "failed to query a resolver"),
            Err(_) => tracing::debug!(%upstream, "resolver timed out"),
        }
    }
    failure
}

/// Asks over UDP, and over TCP where the answer was cut.
pub(crate) async fn forward_whole(upstreams: &[SocketAddr], question: &[u8]) -> Option<Vec<u8>> {
    let answer = forward(upstreams, question, Protocol::Udp).await;
    match answer {
        Some(answer) if is_truncated(&answer) => {
            let whole = forward(upstreams, question, Protocol::Tcp).await;
            Some(whole.filter(|whole| !is_failure(whole)).unwrap_or(answer))
        }
        answer => answer,
    }
}

async fn ask_tcp(upstream: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(upstream).await?;
    frame::write(&mut stream, question).await?;
    let answer = frame::read(&mut stream).await?;
    if answers(&answer, question) {
        Ok(answer)
    } else {
        Err(io::Error::other("the answer is for another question"))
    }
}

async fn ask_udp(upstream: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    // A new port for each query, so that answers cannot be guessed.
    let any: SocketAddr = match upstream {
        SocketAddr::V4(_) => ([0; 4], 0).into(),
        SocketAddr::V6(_) => ([0; 16], 0).into(),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(upstream).await?;
    socket.send(question).await?;
    let mut answer = vec![0; LARGEST];
    loop {
        let length = socket.recv(&mut answer).await?;
        if answers(answer.get(..length).unwrap_or_default(), question) {
            answer.truncate(length);
            return Ok(answer);
        }
    }
}

/// Whether a message answers a question, by its length and identifier.
fn answers(answer: &[u8], question: &[u8]) -> bool {
    answer.len() >= HEADER && answer.get(..2) == question.get(..2)
}

/// The code in a message's header (RFC 1035, section 4.1.1).
fn code(message: &[u8]) -> ResponseCode {
    let low = message.get(3).map_or(0, |byte| byte & 0x0f);
    ResponseCode::from_low(low)
}

/// Whether another resolver may know better.
fn is_failure(message: &[u8]) -> bool {
    matches!(
        code(message),
        ResponseCode::ServFail | ResponseCode::Refused | ResponseCode::NotImp
    )
}

fn is_truncated(message: &[u8]) -> bool {
    message.get(2).is_some_and(|byte| byte & 0x02 != 0)
}
