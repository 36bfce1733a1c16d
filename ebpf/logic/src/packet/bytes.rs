//! The bytes of a packet.

use super::checksum::replace;
use super::crc::change as sctp_change;

/// A packet with its Ethernet header, in a form that is copied for nothing.
pub trait Packet: Copy {
    /// Bytes of the frame.
    fn len(self) -> u32;
    /// Returns whether it is empty.
    fn is_empty(self) -> bool {
        self.len() == 0
    }
    /// The packet's first bytes, if they lie where they cost nothing.
    fn front(self) -> Option<Front>;
    /// Returns the fields that identify most foreign packets, likewise.
    #[inline(always)]
    fn glance(self) -> Option<Glance> {
        let Front { link, words } = self.front()?;
        let [a, b, c, d, e, f, ..] = words;
        Some(Glance {
            link,
            words: [a, b, c, d, e, f],
        })
    }
    /// The same as [`front`](Self::front) of a packet of IPv6.
    fn front_v6(self) -> Option<FrontV6>;
    /// Returns the EtherType, in host order.
    #[inline(always)]
    fn link(self) -> Option<u16> {
        self.load::<2>(Front::LINK as u32).map(u16::from_be_bytes)
    }
    /// Bytes at an offset, if all are there.
    fn load<const N: usize>(self, at: u32) -> Option<[u8; N]>;
    /// Returns a hardware address of the Ethernet header, in the lower six bytes; zero if
    /// there is none: the destination at [`TO`](Front::TO), the source at
    /// [`FROM`](Front::FROM).
    #[inline(always)]
    fn hardware(self, at: u32) -> u64 {
        hardware_of(self.load::<6>(at).unwrap_or_default())
    }
    /// Overwrites bytes. `summed` are those for which no checksum beside them
    /// makes up (the addresses of IPv6): they count in a sum over the packet
    /// that a device may have made.
    fn store<const N: usize>(self, at: u32, bytes: &[u8; N], summed: bool) -> bool;
    /// Brings a header's checksum up to date by a [`difference`](super::difference).
    #[inline(always)]
    fn fix_header(self, at: u32, difference: u32) -> bool {
        let Some(old) = self.load::<2>(at) else {
            return false;
        };
        let new = replace(u16::from_ne_bytes(old), difference);
        self.store(at, &new.to_ne_bytes(), false)
    }
    /// Updates a transport checksum. `pseudo` tells that the pseudo-header changes, `optional` that
    /// a checksum of zero means none (UDP over IPv4).
    #[inline(always)]
    fn fix_transport(self, at: u32, difference: u32, _pseudo: bool, optional: bool) -> bool {
        let Some(old) = self.load::<2>(at) else {
            return false;
        };
        if optional && old == [0; 2] {
            return true;
        }
        let mut new = replace(u16::from_ne_bytes(old), difference);
        if optional && new == 0 {
            new = 0xffff;
        }
        self.store(at, &new.to_ne_bytes(), false)
    }
    /// Returns the change of SCTP's checksum for changed ports ([`sctp_change`]): long
    /// enough to be a separate function where that matters.
    #[inline(always)]
    fn sctp_change(self, ports: u32, length: u32) -> u32 {
        sctp_change(ports, length)
    }
    /// Cuts the frame off.
    fn truncate(self, length: u32) -> bool;
    /// Makes room after the Ethernet header, for an outer header or not.
    fn grow(self, bytes: u32, outer: OuterHeader) -> bool;
    /// Removes bytes after the Ethernet header.
    fn shrink(self, bytes: u32) -> bool;
}

/// A hardware address in a number, as [`Packet::hardware`] gives it.
#[inline(always)]
#[must_use]
pub const fn hardware_of(bytes: [u8; 6]) -> u64 {
    let [a, b, c, d, e, f] = bytes;
    u64::from_le_bytes([a, b, c, d, e, f, 0, 0])
}

/// The first bytes of a packet: an Ethernet header, one of IPv4 without options,
/// and the most that is read of a transport header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Front {
    /// The EtherType, in network order.
    pub link: u16,
    /// The following bytes, four each as in memory.
    pub words: [u32; Self::WORDS],
}

impl Front {
    /// The offset of the receiver's hardware address.
    pub const TO: u32 = 0;
    /// The offset of the sender's hardware address.
    pub const FROM: u32 = 6;
    /// The offset of [`link`](Self::link).
    pub const LINK: usize = 12;
    /// The offset of [`words`](Self::words).
    pub const START: usize = 14;
    /// How many there are.
    pub const WORDS: usize = 10;
    /// Bytes of all.
    pub const LENGTH: usize = Self::START + Self::WORDS * 4;
    /// Words of a [`FrontV6`].
    pub const WORDS_V6: usize = 14;
}

/// The few bytes of a packet that show that it belongs to no service.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Glance {
    /// The EtherType, in network order.
    pub link: u16,
    /// The following bytes, as [`Front::words`], up to a transport header's ports.
    pub words: [u32; Self::WORDS],
}

impl Glance {
    /// How many words there are.
    pub const WORDS: usize = 6;
    /// Bytes of all.
    pub const LENGTH: usize = Front::START + Self::WORDS * 4;
}

/// The packet after its Ethernet header: an IPv6 header and the transport fields that are read. Each
/// word holds four bytes in packet order.
pub type FrontV6 = [u32; Front::WORDS_V6];

/// The outer header to make room for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OuterHeader {
    /// The packet becomes the content of a message.
    Message,
    /// An outer IPv4 header.
    V4,
    /// An outer IPv6 header.
    V6,
}
