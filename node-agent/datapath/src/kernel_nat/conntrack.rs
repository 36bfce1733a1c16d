//! Connections that the kernel's connection tracking knows
//! (`linux/netfilter/nfnetlink_conntrack.h`).

use std::io;
use std::net::{IpAddr, SocketAddr};

use ebpf_abi::{Address, Port, Protocol, Tuple};
use rustix::net::netlink::NETFILTER;

use super::attributes::{GENERIC, get, header, nest, number, port, put};
use crate::netlink::{ACK, CREATE, DUMP, Socket};

/// Subsystem 1 (`NFNL_SUBSYS_CTNETLINK`) with `IPCTNL_MSG_CT_NEW`, and with `IPCTNL_MSG_CT_GET`.
const NEW: u16 = 1 << 8;
const GET: u16 = 1 << 8 | 1;

pub(super) const V4: u8 = 2;
pub(super) const V6: u8 = 10;

const ORIGINAL: u16 = 1;
const REPLY: u16 = 2;
const STATUS: u16 = 3;
const PROTOCOL_STATE: u16 = 4;
const TIMEOUT: u16 = 7;

const TUPLE_ADDRESSES: u16 = 1;
const TUPLE_PROTOCOL: u16 = 2;
const SOURCE_V4: u16 = 1;
const DESTINATION_V4: u16 = 2;
const SOURCE_V6: u16 = 3;
const DESTINATION_V6: u16 = 4;
const NUMBER: u16 = 1;
const SOURCE_PORT: u16 = 2;
const DESTINATION_PORT: u16 = 3;

const STATE_TCP: u16 = 1;
const TCP_STATE: u16 = 1;
/// Flags and the mask of those that are set (`struct nf_ct_tcp_flags`).
const TCP_FLAGS_ORIGINAL: u16 = 4;
const TCP_FLAGS_REPLY: u16 = 5;
/// `IP_CT_TCP_FLAG_BE_LIBERAL`.
const BE_LIBERAL: u8 = 0x08;
/// `TCP_CONNTRACK_ESTABLISHED`.
const ESTABLISHED: u8 = 3;

/// `IPS_SEEN_REPLY`.
const SEEN_REPLY: u32 = 1 << 1;
/// `IPS_ASSURED`.
const ASSURED: u32 = 1 << 2;
/// `IPS_CONFIRMED`.
const CONFIRMED: u32 = 1 << 3;
/// `IPS_DST_NAT`.
const DESTINATION_TRANSLATED: u32 = 1 << 5;

/// The phase of a connection, as far as a takeover needs it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The other side has not answered yet.
    Opening,
    /// Both sides have spoken.
    Open,
    /// One side has closed.
    Closing,
    /// It is over.
    Closed,
}

/// A connection whose destination the kernel translates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TranslatedConnection {
    /// What the client sends: `Tuple`'s destination is the Service.
    pub(crate) asked: Tuple,
    /// What the backend gets.
    pub(crate) sent: Tuple,
    /// How far it is.
    pub phase: Phase,
}

// === impl Translated ===

impl TranslatedConnection {
    /// The client.
    #[must_use]
    pub fn client(&self) -> SocketAddr {
        place(self.asked.source, self.asked.source_port)
    }

    /// What the client asked for.
    #[must_use]
    pub fn service(&self) -> SocketAddr {
        place(self.asked.destination, self.asked.destination_port)
    }

    /// Who answers.
    #[must_use]
    pub fn backend(&self) -> SocketAddr {
        place(self.sent.destination, self.sent.destination_port)
    }

    /// Whether both ends are on this machine's loopback, where no device of the node sees
    /// packets.
    pub(super) fn is_of_loopback(&self) -> bool {
        IpAddr::from(self.asked.source).is_loopback()
    }
}

fn place(address: Address, port: Port) -> SocketAddr {
    SocketAddr::new(address.into(), port.get())
}

/// Lists the connections of this network namespace, of both IP versions, whose destination
/// the kernel translates.
///
/// # Errors
///
/// What the kernel says; a kernel without connection tracking has none.
pub(super) fn translated() -> io::Result<Vec<TranslatedConnection>> {
    let mut socket = Socket::open(Some(NETFILTER))?;
    let mut all = Vec::new();
    for family in [V4, V6] {
        let listed = socket.request(GET, DUMP, &header(family, 0), |body| {
            all.extend(body.get(GENERIC..).and_then(parse));
        });
        match listed {
            Ok(()) => {}
            // `EINVAL`: the subsystem is not in this kernel.
            Err(error) if error.raw_os_error() == Some(22) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(all)
}

/// Enters connections that the kernel never sees, or renews their entries: each is assured and
/// without translation, and ends after `seconds`.
///
/// # Errors
///
/// What the kernel says; one without connection tracking masquerades nothing.
pub(super) fn enter(connections: &[Tuple], seconds: u32) -> io::Result<()> {
    let mut socket = Socket::open(Some(NETFILTER))?;
    for sent in connections {
        let body = untranslated(sent, seconds);
        match socket.request(NEW, ACK | CREATE, &body, |_| {}) {
            Ok(()) => {}
            // `EINVAL`: the subsystem is not in this kernel.
            Err(error) if error.raw_os_error() == Some(22) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn untranslated(sent: &Tuple, seconds: u32) -> Vec<u8> {
    let is_v4 = IpAddr::from(sent.source).is_ipv4();
    let mut message = header(if is_v4 { V4 } else { V6 }, 0);
    put_tuple(&mut message, ORIGINAL, sent);
    put_tuple(&mut message, REPLY, &sent.reversed());
    let status = CONFIRMED | ASSURED | SEEN_REPLY;
    put(&mut message, STATUS, &status.to_be_bytes());
    if sent.protocol == Protocol::TCP {
        nest(&mut message, PROTOCOL_STATE, |it| {
            nest(it, STATE_TCP, |it| {
                put(it, TCP_STATE, &[ESTABLISHED]);
                // Packets that the kernel sees after all are not invalid: it knows no window.
                put(it, TCP_FLAGS_ORIGINAL, &[BE_LIBERAL, BE_LIBERAL]);
                put(it, TCP_FLAGS_REPLY, &[BE_LIBERAL, BE_LIBERAL]);
            });
        });
    }
    put(&mut message, TIMEOUT, &seconds.to_be_bytes());
    message
}

fn put_tuple(message: &mut Vec<u8>, kind: u16, tuple: &Tuple) {
    nest(message, kind, |it| {
        nest(it, TUPLE_ADDRESSES, |it| {
            put_address(it, [SOURCE_V4, SOURCE_V6], tuple.source);
            put_address(it, [DESTINATION_V4, DESTINATION_V6], tuple.destination);
        });
        nest(it, TUPLE_PROTOCOL, |it| {
            put(it, NUMBER, &[tuple.protocol.0]);
            put(it, SOURCE_PORT, &tuple.source_port.get().to_be_bytes());
            put(
                it,
                DESTINATION_PORT,
                &tuple.destination_port.get().to_be_bytes(),
            );
        });
    });
}

fn put_address(message: &mut Vec<u8>, [v4, v6]: [u16; 2], address: Address) {
    match address.into() {
        IpAddr::V4(address) => put(message, v4, &address.octets()),
        IpAddr::V6(address) => put(message, v6, &address.octets()),
    }
}

/// Reads an entry; `None` for one whose destination is not translated, or whose protocol
/// Services do not have.
fn parse(entry: &[u8]) -> Option<TranslatedConnection> {
    let status = number(entry, STATUS).unwrap_or_default();
    if status & DESTINATION_TRANSLATED == 0 {
        return None;
    }
    let asked = tuple(get(entry, ORIGINAL)?)?;
    let sent = tuple(get(entry, REPLY)?)?.reversed();
    let tcp = get(entry, PROTOCOL_STATE).and_then(|it| get(it, STATE_TCP));
    let state = tcp.and_then(|it| get(it, TCP_STATE)?.first().copied());
    Some(TranslatedConnection {
        asked,
        sent,
        phase: phase(status, state),
    })
}

/// The kernel's states of TCP (`enum tcp_conntrack`): 3 is established, 4 to 6 are between
/// the two FIN, 7 and more are over.
const fn phase(status: u32, tcp: Option<u8>) -> Phase {
    match tcp {
        Some(7..) => Phase::Closed,
        Some(4..=6) => Phase::Closing,
        _ if status & SEEN_REPLY == 0 => Phase::Opening,
        Some(1 | 2) => Phase::Opening,
        _ => Phase::Open,
    }
}

fn tuple(attributes: &[u8]) -> Option<Tuple> {
    let addresses = get(attributes, TUPLE_ADDRESSES)?;
    let protocol = get(attributes, TUPLE_PROTOCOL)?;
    let number = Protocol(*get(protocol, NUMBER)?.first()?);
    if !matches!(number, Protocol::TCP | Protocol::UDP | Protocol::SCTP) {
        return None;
    }
    let address = |v4, v6| {
        let of_v4 = get(addresses, v4).and_then(|it| it.try_into().ok());
        of_v4.map(Address::v4).or_else(|| {
            let bytes = get(addresses, v6)?.try_into().ok()?;
            Some(Address::v6(bytes))
        })
    };
    Some(Tuple::new(
        address(SOURCE_V4, SOURCE_V6)?,
        Port::new(port(protocol, SOURCE_PORT)?),
        address(DESTINATION_V4, DESTINATION_V6)?,
        Port::new(port(protocol, DESTINATION_PORT)?),
        number,
    ))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    fn tcp(from: ([u8; 4], u16), to: ([u8; 4], u16)) -> Tuple {
        Tuple::new(
            Address::v4(from.0),
            Port::new(from.1),
            Address::v4(to.0),
            Port::new(to.1),
            Protocol::TCP,
        )
    }

    /// A client outside, a node port, a pod that sees the node.
    pub(in super::super) fn entry(status: u32, state: u8) -> Vec<u8> {
        let mut message = Vec::new();
        let (client, node, pod) = ([198, 51, 100, 9], [198, 51, 100, 1], [10, 244, 1, 2]);
        let (asked, back) = (
            tcp((client, 4_000), (node, 30_080)),
            tcp((pod, 8_080), (node, 5_000)),
        );
        put_tuple(&mut message, ORIGINAL, &asked);
        put_tuple(&mut message, REPLY, &back);
        put(&mut message, STATUS, &status.to_be_bytes());
        nest(&mut message, PROTOCOL_STATE, |it| {
            nest(it, STATE_TCP, |it| put(it, TCP_STATE, &[state]));
        });
        message
    }

    pub(in super::super) fn translated(status: u32, state: u8) -> Option<TranslatedConnection> {
        parse(&entry(status, state))
    }

    pub(in super::super) const OPEN: u32 = SEEN_REPLY | DESTINATION_TRANSLATED;

    #[test]
    fn a_translated_connection_is_read_with_both_its_forms() {
        let it = translated(OPEN, 3).unwrap();
        assert_eq!(it.client(), "198.51.100.9:4000".parse().unwrap());
        assert_eq!(it.service(), "198.51.100.1:30080".parse().unwrap());
        assert_eq!(it.backend(), "10.244.1.2:8080".parse().unwrap());
        assert_eq!(it.sent.source_port, Port::new(5_000), "as the node");
        assert!(!it.is_of_loopback());
    }

    #[test]
    fn what_is_not_translated_or_cut_off_is_none() {
        assert_eq!(translated(SEEN_REPLY, 3), None);
        let whole = entry(OPEN, 3);
        for length in 0..whole.len() - 20 {
            // Whatever is missing, nothing is made up.
            if let Some(it) = parse(&whole[..length]) {
                assert_eq!(it.client().port(), 4_000, "{length}");
            }
        }
    }

    #[test]
    fn an_entered_connection_is_open_in_both_directions_and_not_translated() {
        let v4 = tcp(([10, 244, 1, 2], 4_000), ([10, 244, 3, 2], 8_080));
        let [from, to] = ["fd00::1", "fd00::2"].map(|it| it.parse::<IpAddr>().unwrap().into());
        let v6 = Tuple::new(from, Port::new(9), to, Port::new(53), Protocol::UDP);
        for sent in [v4, v6] {
            let message = untranslated(&sent, 120);
            let entry = &message[GENERIC..];
            let read = |kind| tuple(get(entry, kind).unwrap()).unwrap();
            assert_eq!((read(ORIGINAL), read(REPLY)), (sent, sent.reversed()));
            assert_eq!(number(entry, TIMEOUT), Some(120));
            assert_eq!(parse(entry), None, "not taken over");
            assert_eq!(get(entry, PROTOCOL_STATE).is_some(), sent == v4);
        }
    }

    #[test]
    fn phases_follow_the_kernel_s_states() {
        for (status, state, expected) in [
            (DESTINATION_TRANSLATED, 1, Phase::Opening),
            (OPEN, 2, Phase::Opening),
            (OPEN, 3, Phase::Open),
            (OPEN, 5, Phase::Closing),
            (OPEN, 7, Phase::Closed),
            (OPEN, 8, Phase::Closed),
        ] {
            assert_eq!(translated(status, state).unwrap().phase, expected);
        }
        assert_eq!(phase(SEEN_REPLY, None), Phase::Open, "datagrams");
        assert_eq!(phase(0, None), Phase::Opening);
    }
}
