//! Servers that say who they are and whom they see, and clients that ask them.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use super::rules::{Node, Protocol};
use super::world::Space;

/// What became of a question.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// This node's endpoint answered, and saw this client.
    Answer(Node, IpAddr),
    /// A connection was refused.
    Refused,
    /// Nothing came.
    Silence,
}

/// The port at which endpoints listen.
pub const TARGET: u16 = 8080;
/// How often a datagram is sent anew: one may meet an empty neighbour table.
const AGAIN: Duration = Duration::from_millis(500);

/// Serves at an endpoint's addresses until the process ends.
pub fn serve(space: &Space, node: Node, addresses: [IpAddr; 2]) {
    let name = if node == Node::One { "1" } else { "2" };
    for address in addresses {
        let (streams, datagrams) = space.run(|| {
            (
                TcpListener::bind((address, TARGET)).expect("bind"),
                UdpSocket::bind((address, TARGET)).expect("bind"),
            )
        });
        std::thread::spawn(move || {
            for stream in streams.incoming() {
                let Ok(mut stream) = stream else { continue };
                if let Ok(client) = stream.peer_addr() {
                    let _ = write!(stream, "{name} {}", client.ip());
                }
            }
        });
        std::thread::spawn(move || {
            let mut buffer = [0; 64];
            while let Ok((_, client)) = datagrams.recv_from(&mut buffer) {
                let _ = datagrams.send_to(format!("{name} {}", client.ip()).as_bytes(), client);
            }
        });
    }
}

/// Asks from the caller's namespace, for at most so long; an error is something
/// that may never be.
pub fn ask(to: SocketAddr, protocol: Protocol, patience: Duration) -> Result<Outcome, String> {
    let asked = match protocol {
        Protocol::Tcp => stream(to, patience),
        Protocol::Udp => datagram(to, patience, true),
        Protocol::UdpSendTo => datagram(to, patience, false),
    };
    outcome(asked, to)
}

fn outcome(
    asked: std::io::Result<(String, SocketAddr)>,
    to: SocketAddr,
) -> Result<Outcome, String> {
    match asked {
        Ok((text, from)) if from == to => parse(&text),
        Ok((text, from)) => Err(format!("`{text}` seems to come from {from}")),
        Err(error) => match error.kind() {
            ErrorKind::ConnectionRefused => Ok(Outcome::Refused),
            ErrorKind::TimedOut | ErrorKind::WouldBlock => Ok(Outcome::Silence),
            _ => Err(error.to_string()),
        },
    }
}

fn parse(text: &str) -> Result<Outcome, String> {
    let unknown = || format!("an answer `{text}`");
    let (node, client) = text.split_once(' ').ok_or_else(unknown)?;
    let node = if node == "1" { Node::One } else { Node::Two };
    Ok(Outcome::Answer(
        node,
        client.parse().map_err(|_| unknown())?,
    ))
}

fn stream(to: SocketAddr, patience: Duration) -> std::io::Result<(String, SocketAddr)> {
    let mut stream = TcpStream::connect_timeout(&to, patience)?;
    stream.set_read_timeout(Some(patience))?;
    let mut text = String::new();
    stream.read_to_string(&mut text).map_err(|error| {
        // Not silence: somebody took the connection.
        std::io::Error::other(format!(
            "connected, as {:?}, but {error}",
            stream.local_addr()
        ))
    })?;
    Ok((text, stream.peer_addr()?))
}

/// Asks several addresses from one port.
pub fn ask_each(all: &[SocketAddr], patience: Duration) -> Vec<Result<Outcome, String>> {
    let any = if all[0].is_ipv4() {
        "0.0.0.0:0"
    } else {
        "[::]:0"
    };
    let socket = UdpSocket::bind(any).expect("a socket");
    all.iter()
        .map(|to| outcome(exchange(&socket, *to, patience, false), *to))
        .collect()
}

fn datagram(
    to: SocketAddr,
    patience: Duration,
    connected: bool,
) -> std::io::Result<(String, SocketAddr)> {
    let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
    let socket = UdpSocket::bind(any)?;
    if connected {
        socket.connect(to)?;
    }
    exchange(&socket, to, patience, connected)
}

fn exchange(
    socket: &UdpSocket,
    to: SocketAddr,
    patience: Duration,
    connected: bool,
) -> std::io::Result<(String, SocketAddr)> {
    socket.set_read_timeout(Some(AGAIN))?;
    let mut buffer = [0; 64];
    let end = Instant::now() + patience;
    loop {
        if connected {
            socket.send(b"?")?;
        } else {
            socket.send_to(b"?", to)?;
        }
        let received = if connected {
            socket.recv(&mut buffer).map(|length| (length, to))
        } else {
            socket.recv_from(&mut buffer)
        };
        match received {
            Ok((length, from)) => {
                let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
                return Ok((text, from));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock && Instant::now() < end => {}
            Err(error) => return Err(error),
        }
    }
}
