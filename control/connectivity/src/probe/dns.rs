//! Names: by the system's resolver, and by queries of our own (RFC 1035).

use std::{
    io::{Read, Write},
    net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs, UdpSocket},
};

use super::{TIMEOUT, failure::ProbeFailure};
use crate::operation::{Failure, Record};

/// The file with the name servers.
const RESOLV_CONF: &str = "/etc/resolv.conf";

/// The addresses of a name, as programs get them.
pub fn resolve(name: &str) -> Result<Vec<IpAddr>, ProbeFailure> {
    let found = (name, 0).to_socket_addrs();
    let found = found.map_err(|error| failed(name, &error))?;
    let mut addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    Ok(addresses)
}

/// Classifies a resolver error. It has no codes in Rust; its texts are those of
/// `gai_strerror(3)`.
pub fn failed(name: &str, error: &std::io::Error) -> ProbeFailure {
    let text = error.to_string();
    let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
    if has(&[
        "Name or service not known",
        "Name does not resolve",
        "No address associated",
    ]) {
        return ProbeFailure::new(
            Failure::NoSuchName,
            format!("the name `{name}` does not exist"),
        );
    }
    if has(&[
        "Temporary failure",
        "Try again",
        "Non-recoverable",
        "unrecoverable",
    ]) {
        let detail = format!("no name server answers for `{name}`");
        return ProbeFailure::new(Failure::NameServer, detail);
    }
    ProbeFailure::new(Failure::Other, text)
}

/// Asks the first name server for a record; there must be one at least.
pub fn query(name: &str, record: Record, tcp: bool) -> Result<(), ProbeFailure> {
    let conf = std::fs::read_to_string(RESOLV_CONF)?;
    let server = name_server(&conf).ok_or_else(|| {
        let detail = format!("{RESOLV_CONF} names no server");
        ProbeFailure::new(Failure::NameServer, detail)
    })?;
    let server = SocketAddr::new(server, 53);
    let id = std::process::id().to_le_bytes();
    let question = question([id[0], id[1]], name, record);
    let answer = if tcp {
        over_tcp(server, &question)
    } else {
        over_udp(server, &question)
    };
    let answer = answer.map_err(|mut failed| {
        failed.detail = format!("{} (name server {server})", failed.detail);
        failed
    })?;
    match answers(&question, &answer)? {
        0 => Err(ProbeFailure::wrong(format!("`{name}` has no such record"))),
        _ => Ok(()),
    }
}

/// The first name server of a resolv.conf(5).
fn name_server(conf: &str) -> Option<IpAddr> {
    conf.lines().find_map(|line| {
        let rest = line.trim().strip_prefix("nameserver")?;
        rest.trim().parse().ok()
    })
}

fn question(id: [u8; 2], name: &str, record: Record) -> Vec<u8> {
    // Recursion desired, one question.
    let mut message = vec![id[0], id[1], 1, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for label in name.trim_end_matches('.').split('.') {
        message.push(u8::try_from(label.len().min(63)).unwrap_or(63));
        message.extend(label.bytes().take(63));
    }
    let record: u16 = match record {
        Record::A => 1,
        Record::Aaaa => 28,
        Record::Srv => 33,
    };
    message.push(0);
    message.extend(record.to_be_bytes());
    message.extend([0, 1]);
    message
}

fn over_udp(server: SocketAddr, question: &[u8]) -> Result<Vec<u8>, ProbeFailure> {
    let socket = UdpSocket::bind(if server.is_ipv4() {
        "0.0.0.0:0"
    } else {
        "[::]:0"
    })?;
    socket.set_read_timeout(Some(TIMEOUT))?;
    socket.connect(server)?;
    socket.send(question)?;
    let mut buffer = vec![0; 4096];
    let length = socket.recv(&mut buffer)?;
    buffer.truncate(length);
    Ok(buffer)
}

fn over_tcp(server: SocketAddr, question: &[u8]) -> Result<Vec<u8>, ProbeFailure> {
    let mut stream = TcpStream::connect_timeout(&server, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    let length = u16::try_from(question.len()).unwrap_or(u16::MAX);
    let mut message = length.to_be_bytes().to_vec();
    message.extend_from_slice(question);
    stream.write_all(&message)?;
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let mut answer = vec![0; u16::from_be_bytes(length).into()];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}

/// The number of answers in a message.
fn answers(question: &[u8], answer: &[u8]) -> Result<u16, ProbeFailure> {
    let [first, second, flags, code, _, _, high, low, ..] = *answer else {
        return Err(ProbeFailure::wrong("the name server's answer is cut off"));
    };
    if question[..2] != [first, second] || flags & 0x80 == 0 {
        return Err(ProbeFailure::wrong(
            "the name server answers another question",
        ));
    }
    match code & 0xf {
        0 => Ok(u16::from_be_bytes([high, low])),
        3 => Err(ProbeFailure::new(
            Failure::NoSuchName,
            "the name does not exist".to_owned(),
        )),
        code => Err(ProbeFailure::new(
            Failure::NameServer,
            format!("the name server fails with code {code}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_server_is_asked() {
        let conf = "search a.b\nnameserver 10.96.0.10\nnameserver 1.1.1.1\n";
        assert_eq!(name_server(conf), Some("10.96.0.10".parse().unwrap()));
        assert_eq!(
            name_server("# nameserver\nnameserver fd00::a\n"),
            Some("fd00::a".parse().unwrap())
        );
        assert_eq!(name_server("search a\n"), None);
    }

    #[test]
    fn questions_and_answers_are_those_of_rfc_1035() {
        let question = question([7, 9], "a.example.", Record::A);
        assert_eq!(
            question,
            b"\x07\x09\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x01a\x07example\x00\x00\x01\x00\x01"
        );
        let answer = |flags, code, count| [7, 9, flags, code, 0, 1, 0, count, 0, 0, 0, 0];
        assert_eq!(answers(&question, &answer(0x81, 0x80, 2)).unwrap(), 2);
        let failure = |answer: &[u8]| answers(&question, answer).unwrap_err().failure;
        assert_eq!(failure(&answer(0x81, 0x83, 0)), Failure::NoSuchName);
        assert_eq!(failure(&answer(0x81, 0x82, 0)), Failure::NameServer);
        assert_eq!(failure(&answer(0x01, 0, 1)), Failure::WrongAnswer);
        assert_eq!(failure(&[7, 9]), Failure::WrongAnswer);
    }

    #[test]
    fn texts_of_both_c_libraries_are_known() {
        let kind = |text: &str| {
            let error =
                std::io::Error::other(format!("failed to lookup address information: {text}"));
            failed("a", &error).failure
        };
        assert_eq!(kind("Name or service not known"), Failure::NoSuchName);
        assert_eq!(kind("Name does not resolve"), Failure::NoSuchName);
        assert_eq!(
            kind("Temporary failure in name resolution"),
            Failure::NameServer
        );
        assert_eq!(kind("Try again"), Failure::NameServer);
    }
}
