//! State of sockets that use services.

use crate::{Address, Plain, Port, Protocol};

/// A socket and the backend that it was sent to.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct OriginalKey {
    /// The socket's cookie: unique until the machine restarts.
    pub cookie: u64,
    /// The backend's address.
    pub address: Address,
    /// The backend's port.
    pub port: Port,
    /// The protocol.
    pub protocol: Protocol,
    reserved8: u8,
    reserved32: u32,
}

/// The number of places for stream sockets that use services: 32 bytes each. The kernel
/// increments cookies, so a socket's place is reused by the socket that comes this many
/// later.
pub const STREAMS: u32 = 1 << 17;

impl OriginalKey {
    /// The place of a stream's socket.
    #[inline(always)]
    #[must_use]
    pub const fn place(&self) -> u32 {
        (self.cookie % STREAMS as u64) as u32
    }

    /// The key of a socket's peer.
    #[inline(always)]
    #[must_use]
    pub const fn new(cookie: u64, address: Address, port: Port, protocol: Protocol) -> Self {
        Self {
            cookie,
            address,
            port,
            protocol,
            reserved8: 0,
            reserved32: 0,
        }
    }
}

/// The original destination of the socket: the peer that it is to see.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct Original {
    /// The service's address.
    pub address: Address,
    /// The service's port.
    pub port: Port,
    reserved16: u16,
    reserved32: u32,
}

impl Original {
    /// A service as the client addressed it.
    #[inline(always)]
    #[must_use]
    pub const fn new(address: Address, port: Port) -> Self {
        Self {
            address,
            port,
            reserved16: 0,
            reserved32: 0,
        }
    }
}

/// A client of a service with affinity: an address where a packet shows it,
/// else a network namespace. When a socket connects, its source address is not
/// chosen yet, and a pod's address and its namespace are one and the same.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct AffinityKey {
    /// The client.
    pub client: Address,
    /// The set of backends.
    pub set: u32,
    /// Zero.
    pub reserved: u32,
}

impl AffinityKey {
    /// A client by its address.
    #[inline(always)]
    #[must_use]
    pub const fn of_address(client: Address, set: u32) -> Self {
        Self {
            client,
            set,
            reserved: 0,
        }
    }

    /// Returns a client by the cookie of its network namespace, encoded as a multicast
    /// address, which no client has.
    #[inline(always)]
    #[must_use]
    pub const fn of_namespace(cookie: u64, set: u32) -> Self {
        let mark = u32::from_ne_bytes([0xff, 0, 0, 0]);
        let words = [mark, 0, cookie as u32, (cookie >> 32) as u32];
        Self::of_address(Address::from_words(words), set)
    }

    /// The cookie, if the client is known by one.
    #[must_use]
    pub const fn namespace(&self) -> Option<u64> {
        let [mark, _, low, high] = self.client.to_words();
        if mark == u32::from_ne_bytes([0xff, 0, 0, 0]) {
            Some((high as u64) << 32 | low as u64)
        } else {
            None
        }
    }
}

/// The backend that a client keeps.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "user", derive(Debug))]
pub struct Affinity {
    /// When it was last used: monotonic clock, nanoseconds.
    pub used: u64,
    /// The backend's address.
    pub address: Address,
    /// The backend's port.
    pub port: Port,
    reserved16: u16,
    reserved32: u32,
}

impl Affinity {
    /// A backend used at `used`.
    #[inline(always)]
    #[must_use]
    pub const fn new(used: u64, address: Address, port: Port) -> Self {
        Self {
            used,
            address,
            port,
            reserved16: 0,
            reserved32: 0,
        }
    }
}

// SAFETY: 32 bytes: u64, Address (16), u16, two u8, u32.
unsafe impl Plain for OriginalKey {}
// SAFETY: 24 bytes: Address (16), two u16, u32.
unsafe impl Plain for Original {}
// SAFETY: 24 bytes: Address (16), two u32.
unsafe impl Plain for AffinityKey {}
// SAFETY: 32 bytes: u64, Address (16), two u16, u32.
unsafe impl Plain for Affinity {}

const _: () = {
    assert!(size_of::<OriginalKey>() == 32);
    assert!(size_of::<Original>() == 24);
    assert!(size_of::<AffinityKey>() == 24);
    assert!(size_of::<Affinity>() == 32);
};
