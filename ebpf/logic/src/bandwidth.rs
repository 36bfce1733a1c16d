//! A pod's bandwidth limit: packets beyond its rate are dropped after a burst.
//!
//! A token bucket, stored as the time at which it is full again (the generic cell rate
//! algorithm, ITU-T I.371): one number, which processors advance without a lock. Two that
//! decide simultaneously may both pass the last packet; both packets are charged, so that
//! the rate holds in the long run.

use ebpf_abi::{Bandwidth, Protocol};

use crate::packet::Packet;
use crate::packet::headers::{LINK, V4, V6};

/// A bucket in its map.
pub trait Bucket {
    /// Bits a second.
    fn rate(&self) -> u64;
    /// How much it holds; see [`Bandwidth`].
    fn depth(&self) -> u64;
    /// When it is full.
    fn full(&self) -> u64;
    /// It is full then.
    fn fill(&self, at: u64);
    /// It is full so much later.
    fn take(&self, cost: u64);
}

/// Returns whether a packet of this many bytes may pass. `now` is in monotonic
/// nanoseconds.
///
/// A packet larger than the bucket passes when the bucket is full, and the deficit is
/// owed: otherwise a sender with segmentation offload would never send at all.
#[inline(always)]
pub fn passes<B: Bucket>(bucket: &B, bytes: u32, now: u64) -> bool {
    let rate = bucket.rate();
    if rate == 0 {
        return true;
    }
    let now = now.wrapping_mul(Bandwidth::PARTS);
    let cost = (u64::from(bytes) * 8 * Bandwidth::A_BIT).div_ceil(rate);
    let depth = bucket.depth();
    let owed = bucket.full().saturating_sub(now);
    let least = if cost < depth { cost } else { depth };
    if owed.saturating_add(least) > depth {
        return false;
    }
    if owed == 0 {
        bucket.fill(now);
    }
    bucket.take(cost);
    true
}

/// Bytes of all frames that a packet is cut into. `content`: bytes of each one's
/// content; 0: it is not cut.
#[inline(always)]
pub fn length<P: Packet>(packet: P, content: u32) -> u32 {
    let whole = packet.len();
    let headers = match content {
        0 => None,
        _ => headers(packet),
    };
    match headers {
        Some(headers) if whole > headers => {
            let frames = (whole - headers).div_ceil(content);
            whole + (frames - 1) * headers
        }
        _ => whole,
    }
}

/// Bytes of headers that each frame has.
#[inline(always)]
fn headers<P: Packet>(packet: P) -> Option<u32> {
    let (transport, protocol) = match u16::from_be_bytes(packet.load::<2>(12)?) {
        V4 => {
            let [first] = packet.load::<1>(LINK)?;
            let [protocol] = packet.load::<1>(LINK + 9)?;
            (LINK + u32::from(first & 0xf) * 4, protocol)
        }
        V6 => (LINK + 40, packet.load::<1>(LINK + 6)?[0]),
        _ => return None,
    };
    match Protocol(protocol) {
        Protocol::TCP => {
            let [words] = packet.load::<1>(transport + 12)?;
            Some(transport + u32::from(words >> 4) * 4)
        }
        Protocol::SCTP => Some(transport + 12),
        _ => Some(transport + 8),
    }
}

#[cfg(test)]
mod tests;
