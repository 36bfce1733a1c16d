//! Packet headers (RFC 791, 8200, 9293, 768, 9260, 792, 4443).

use ebpf_abi::{Address, Port, Protocol, Tuple};

/// Bytes of an Ethernet header, whose content is never tagged here: the kernel
/// takes tags off.
pub const LINK: u32 = 14;
pub(crate) const V4: u16 = 0x0800;
pub(crate) const V6: u16 = 0x86dd;
pub(crate) const ICMP: u8 = 1;
pub(crate) const ICMPV6: u8 = 58;
/// Mask of the fragment word; the masked bits are zero in whole packets.
pub(super) const FRAGMENTED: u16 = 0x3fff;
/// The offset of an echo's identifier in its message.
pub(super) const IDENTIFIER: u32 = 4;

/// The kind of packet.
#[repr(u32)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A protocol that services do not support.
    Other = 0,
    /// TCP, UDP or SCTP.
    Transport = 1,
    /// An ICMP error, about another packet.
    Error = 2,
    /// An ICMP echo, or the answer to one: who asks has its identifier as port, who
    /// answers none.
    Echo = 3,
}

/// The part of a datagram.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fragment(pub u8);

impl Fragment {
    /// The whole datagram.
    pub const WHOLE: Self = Self(0);
    /// The first part, with ports.
    pub const FIRST: Self = Self(1);
    /// Another part, without.
    pub const LATER: Self = Self(2);
}

/// TCP's flags.
#[repr(transparent)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    pub(crate) const FIN: u8 = 1;
    pub(crate) const SYN: u8 = 2;
    pub(crate) const RST: u8 = 4;
    pub(crate) const ACK: u8 = 16;

    #[inline(always)]
    pub(crate) const fn has(self, flag: u8) -> bool {
        self.0 & flag != 0
    }
}

/// The parsed headers of a packet.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "model", derive(Debug))]
pub struct Headers {
    /// The source and destination; for an ICMP error, those of the quoted packet
    /// reversed, so that they have the error's own direction.
    pub tuple: Tuple,
    /// The offset of the IP header.
    pub network: u32,
    /// The offset of the transport header.
    pub transport: u32,
    /// Bytes from the IP header to the packet's end.
    pub length: u32,
    /// The datagram's identification, if it is a fragment.
    pub identification: u32,
    /// Whether it is IPv4.
    pub v4: bool,
    /// Fragment.
    pub fragment: Fragment,
    /// TCP's flags; zero for others.
    pub flags: TcpFlags,
    /// Hops that are left.
    pub hops: u8,
    /// Whether routers must not fragment it.
    pub whole: bool,
    /// Whether it is an ICMP echo reply.
    pub answers: bool,
    /// The IPv4 header checksum, as in the header.
    pub sum: u16,
}

impl Headers {
    /// The empty value.
    pub const NOTHING: Self = Self {
        tuple: Tuple::new(
            Address::UNSPECIFIED,
            Port(0),
            Address::UNSPECIFIED,
            Port(0),
            Protocol(0),
        ),
        network: 0,
        transport: 0,
        length: 0,
        identification: 0,
        v4: false,
        fragment: Fragment::WHOLE,
        flags: TcpFlags(0),
        hops: 0,
        whole: false,
        answers: false,
        sum: 0,
    };
}

#[inline(always)]
pub(super) const fn is_icmp(protocol: u8, v4: bool) -> bool {
    protocol == if v4 { ICMP } else { ICMPV6 }
}

/// Returns whether an echo of this kind is a reply; `None` if it is no echo.
#[inline(always)]
pub(super) const fn answers(kind: u8, v4: bool) -> Option<bool> {
    match (kind, v4) {
        (8, true) | (128, false) => Some(false),
        (0, true) | (129, false) => Some(true),
        _ => None,
    }
}

/// Returns the ports that represent an echo's identifier.
#[inline(always)]
pub(super) const fn echo_ports(answers: bool, identifier: [u8; 2]) -> (Port, Port) {
    let identifier = Port(u16::from_ne_bytes(identifier));
    if answers {
        (Port(0), identifier)
    } else {
        (identifier, Port(0))
    }
}
