//! Netlink (RFC 3549) as far as this crate needs it: one request, its answers.
//! What rtnetlink covers, the agent does with it; here are sockets' diagnosis
//! and the removal of a qdisc, from threads that are in other namespaces.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, send,
    socket_with,
};

pub(crate) const REQUEST: u16 = 0x1;
pub(crate) const ACK: u16 = 0x4;
pub(crate) const DUMP: u16 = 0x300;
pub(crate) const CREATE: u16 = 0x400;

const HEADER: usize = 16;
const ERROR: u16 = 2;
const DONE: u16 = 3;

/// A netlink socket of the namespace in which it was opened.
#[derive(Debug)]
pub(crate) struct Socket {
    fd: OwnedFd,
    sequence: u32,
}

/// One of several messages of a [commit](NetlinkSocket::commit).
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) body: Vec<u8>,
}

// === impl Socket ===

impl Socket {
    /// None is the routing protocol, whose number is zero.
    pub(crate) fn open(protocol: Option<Protocol>) -> io::Result<Self> {
        let fd = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            protocol,
        )?;
        bind(&fd, &SocketAddrNetlink::new(0, 0))?;
        Ok(Self { fd, sequence: 0 })
    }

    /// Sends messages between two that mark their beginning and end; the kernel does all or
    /// none. Each must ask for an [`ACK`].
    pub(crate) fn commit(
        &mut self,
        begin: &Message,
        messages: &[Message],
        end: &Message,
    ) -> io::Result<()> {
        let first = self.sequence.wrapping_add(1);
        let mut bytes = Vec::new();
        for message in std::iter::once(begin).chain(messages).chain([end]) {
            self.sequence = self.sequence.wrapping_add(1);
            message.write(self.sequence, &mut bytes);
        }
        send(&self.fd, &bytes, SendFlags::empty())?;
        let mut buffer = vec![0_u8; 1 << 16];
        let mut done = 0;
        while done < messages.len() {
            let (received, _) = recv(&self.fd, buffer.as_mut_slice(), RecvFlags::empty())?;
            let mut rest = buffer.get(..received).unwrap_or_default();
            while let Some((kind, sequence, body, next)) = first_message(rest) {
                rest = next;
                if kind != ERROR || sequence.wrapping_sub(first) > messages.len() as u32 + 1 {
                    continue;
                }
                match word(body, 0).map(u32::cast_signed) {
                    Some(0) => done += 1,
                    Some(code) => return Err(io::Error::from_raw_os_error(-code)),
                    None => return Err(io::ErrorKind::InvalidData.into()),
                }
            }
        }
        Ok(())
    }

    /// Sends one message and hands each answer's body to `each`; returns when
    /// the kernel says that it is done.
    pub(crate) fn request(
        &mut self,
        kind: u16,
        flags: u16,
        body: &[u8],
        mut each: impl FnMut(&[u8]),
    ) -> io::Result<()> {
        self.sequence = self.sequence.wrapping_add(1);
        let mut message = Vec::with_capacity(HEADER + body.len());
        write(kind, flags, self.sequence, body, &mut message);
        send(&self.fd, &message, SendFlags::empty())?;
        // The kernel fills at most 32 KiB at once.
        let mut buffer = vec![0_u8; 1 << 16];
        loop {
            let (received, _) = recv(&self.fd, buffer.as_mut_slice(), RecvFlags::empty())?;
            let mut rest = buffer.get(..received).unwrap_or_default();
            while let Some((kind, sequence, body, next)) = first_message(rest) {
                rest = next;
                if sequence != self.sequence {
                    continue;
                }
                match kind {
                    DONE => return Ok(()),
                    ERROR => {
                        return match word(body, 0).map(u32::cast_signed) {
                            Some(0) => Ok(()),
                            Some(code) => Err(io::Error::from_raw_os_error(-code)),
                            None => Err(io::ErrorKind::InvalidData.into()),
                        };
                    }
                    _ => each(body),
                }
            }
        }
    }
}

// === impl Message ===

impl Message {
    fn write(&self, sequence: u32, bytes: &mut Vec<u8>) {
        write(self.kind, self.flags, sequence, &self.body, bytes);
    }
}

/// Appends a request.
fn write(kind: u16, flags: u16, sequence: u32, body: &[u8], bytes: &mut Vec<u8>) {
    let length = HEADER + body.len();
    bytes.extend(u32::try_from(length).unwrap_or(u32::MAX).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend((flags | REQUEST).to_ne_bytes());
    bytes.extend(sequence.to_ne_bytes());
    bytes.extend(0_u32.to_ne_bytes());
    bytes.extend(body);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
}

/// Kind, sequence number and body of the first message, and what follows.
fn first_message(bytes: &[u8]) -> Option<(u16, u32, &[u8], &[u8])> {
    let length = word(bytes, 0)? as usize;
    let kind = bytes.get(4..6)?.try_into().map(u16::from_ne_bytes).ok()?;
    let body = bytes.get(HEADER..length)?;
    let next = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some((kind, word(bytes, 8)?, body, next))
}

/// The word at a place, in this machine's order.
pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at + 4)?;
    bytes.try_into().map(u32::from_ne_bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, sequence: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend((HEADER as u32 + body.len() as u32).to_ne_bytes());
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(0_u16.to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend(0_u32.to_ne_bytes());
        bytes.extend(body);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    #[test]
    fn messages_are_told_apart() {
        let mut bytes = message(20, 7, b"abcde");
        bytes.extend(message(DONE, 7, &[0; 4]));
        let (kind, sequence, body, rest) = first_message(&bytes).unwrap();
        assert_eq!((kind, sequence, body), (20, 7, &b"abcde"[..]));
        let (kind, _, _, rest) = first_message(rest).unwrap();
        assert_eq!(kind, DONE);
        assert!(first_message(rest).is_none());
    }

    #[test]
    fn what_is_cut_off_is_no_message() {
        let bytes = message(20, 7, b"abcde");
        for length in 0..HEADER + 5 {
            assert!(first_message(&bytes[..length]).is_none(), "{length}");
        }
        // A length shorter than the header itself.
        let mut bytes = bytes;
        bytes[..4].copy_from_slice(&3_u32.to_ne_bytes());
        assert!(first_message(&bytes).is_none());
    }
}
