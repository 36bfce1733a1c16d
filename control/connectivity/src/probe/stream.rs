//! TCP.

use std::{
    io::{Read, Write},
    net::{IpAddr, TcpStream, ToSocketAddrs},
    thread,
};

use super::{TIMEOUT, dns, failure::ProbeFailure};
use crate::operation::Failure;

/// A server's answer.
pub struct Answer {
    /// Its name.
    pub server: String,
    /// The client's address, as the server sees it.
    pub seen: IpAddr,
    /// The client's address, as the client sees it.
    pub own: IpAddr,
}

/// Connects to the first address of a target that answers.
pub fn open(target: &str) -> Result<TcpStream, ProbeFailure> {
    let addresses = target.to_socket_addrs();
    let addresses = addresses.map_err(|error| dns::failed(target, &error))?;
    let mut last = ProbeFailure::new(Failure::NoSuchName, format!("`{target}` has no address"));
    for address in addresses {
        match TcpStream::connect_timeout(&address, TIMEOUT) {
            Ok(stream) => {
                stream.set_read_timeout(Some(TIMEOUT))?;
                stream.set_write_timeout(Some(TIMEOUT))?;
                return Ok(stream);
            }
            Err(error) => last = error.into(),
        }
    }
    Err(last)
}

/// Asks a server for its name.
pub fn query(target: &str) -> Result<Answer, ProbeFailure> {
    let mut stream = open(target)?;
    let own = stream.local_addr()?.ip().to_canonical();
    let request = format!("GET / HTTP/1.1\r\nHost: {target}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut text = String::new();
    stream.take(4096).read_to_string(&mut text)?;
    let words = text.split_once("\r\n\r\n").map(|(_, body)| body);
    let words: Vec<&str> = words.unwrap_or_default().split_whitespace().collect();
    match words[..] {
        [server, seen] => Ok(Answer {
            server: server.to_owned(),
            seen: seen
                .parse()
                .map_err(|_| ProbeFailure::wrong(format!("`{seen}` is no address")))?,
            own,
        }),
        _ => Err(ProbeFailure::wrong("something else than a probe answers")),
    }
}

/// Sends bytes to an echo server, and compares.
pub fn echo(target: &str, bytes: usize) -> Result<(), ProbeFailure> {
    let stream = open(target)?;
    let sent = pattern(bytes);
    let mut received = vec![0; bytes];
    let written = thread::scope(|scope| {
        let writer = scope.spawn(|| (&stream).write_all(&sent));
        let read = (&stream).read_exact(&mut received);
        if read.is_err() {
            // Without a response there is nothing to write either.
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
        let written = writer.join().unwrap_or(Ok(()));
        read.and(written)
    });
    written?;
    match sent.iter().zip(&received).position(|(a, b)| a != b) {
        None => Ok(()),
        Some(place) => Err(ProbeFailure::wrong(format!(
            "byte {place} came back changed"
        ))),
    }
}

/// Bytes of which no two neighbouring blocks are the same.
pub fn pattern(bytes: usize) -> Vec<u8> {
    let byte = |place: usize| (place.wrapping_mul(31) ^ (place >> 8)).to_le_bytes()[0];
    (0..bytes).map(byte).collect()
}
