//! A packet's first bytes, where they lie in a row and cost nothing.

use ebpf_logic::packet::{Front, FrontV6, Glance};

/// A packet's first bytes, between two places that the kernel told.
#[inline(always)]
pub(crate) fn front(start: usize, end: usize) -> Option<Front> {
    if start + Front::LENGTH > end {
        return None;
    }
    // SAFETY: as many bytes lie there.
    unsafe {
        Some(Front {
            link: ((start + Front::LINK) as *const u16).read_volatile(),
            words: words(start + Front::START),
        })
    }
}

/// Returns the few bytes that identify most foreign packets.
#[inline(always)]
pub(crate) fn glance(start: usize, end: usize) -> Option<Glance> {
    if start + Glance::LENGTH > end {
        return None;
    }
    // SAFETY: as many bytes lie there.
    unsafe {
        Some(Glance {
            link: ((start + Front::LINK) as *const u16).read_volatile(),
            words: words(start + Front::START),
        })
    }
}

/// Returns the EtherType, in host order.
#[inline(always)]
pub(crate) fn link(start: usize, end: usize) -> Option<u16> {
    if start + Front::START > end {
        return None;
    }
    // SAFETY: as many bytes lie there, aligned to two.
    let link = unsafe { ((start + Front::LINK) as *const u16).read_volatile() };
    Some(u16::from_be(link))
}

/// A hardware address of the Ethernet header, as [`Packet::hardware`] gives it.
///
/// [`Packet::hardware`]: ebpf_logic::packet::Packet::hardware
#[inline(always)]
pub(crate) fn link_address(start: usize, end: usize, at: usize) -> u64 {
    if start + Front::START > end {
        return 0;
    }
    // SAFETY: both addresses lie there, aligned to two bytes.
    let part = |i: usize| unsafe { ((start + at + i * 2) as *const u16).read_volatile() };
    u64::from(part(0)) | u64::from(part(1)) << 16 | u64::from(part(2)) << 32
}

/// The same of a packet of IPv6.
#[inline(always)]
pub(crate) fn front_v6(start: usize, end: usize) -> Option<FrontV6> {
    if start + Front::START + Front::WORDS_V6 * 4 > end {
        return None;
    }
    // SAFETY: as many bytes lie there.
    Some(unsafe { words(start + Front::START) })
}

/// Words of a packet.
///
/// # Safety
///
/// They all lie there. The verifier takes such pointers for aligned as an Ethernet
/// header is: to two bytes, and to four behind it.
#[inline(always)]
unsafe fn words<const N: usize>(place: usize) -> [u32; N] {
    let mut words = [0; N];
    let mut at = 0;
    while at < N {
        // SAFETY: the caller's.
        words[at] = unsafe { ((place + at * 4) as *const u32).read_volatile() };
        at += 1;
    }
    words
}
