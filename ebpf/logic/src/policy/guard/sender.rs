//! Is what a pod sends its own to send? Its addresses, its hardware address, and
//! what it says of neighbours (RFC 826, RFC 5227, RFC 4861).
//!
//! Whose an address is, the node's own way to it says: the way leads through the
//! pod's device, to the hardware address of the neighbour's entry that the CNI
//! plugin made. That is asked once a flow; each further packet is compared with what
//! the flow keeps ([`PolicyFlowEntry::mark`]).
//!
//! Of addresses of a link alone (`fe80::/10`) the node keeps no entry. The pod's own is
//! the one that follows from its hardware address (RFC 4291, appendix A), as the kernel
//! gives it; it may name no other, nor the node's, in neighbour discovery. Nothing else
//! is ever sent from one: no ruleset is for it, and so it is closed.
//!
//! [`PolicyFlowEntry::mark`]: ebpf_abi::policy::PolicyFlowEntry::mark

use ebpf_abi::{Address, Counter, Port, Protocol, Tuple};

use super::flows::PolicyFlows;
use super::report::VerdictReason;
use super::state::{Guard, Ruling};
use crate::packet::headers::{Fragment, V6};
use crate::packet::{Packet, hardware_of};

const ARP: u16 = 0x0806;
/// The offset of the ARP message, or the IP header.
const MESSAGE: u32 = 14;
/// Ethernet, IPv4, and as long as their addresses are.
const ARP_OF_IPV4: [u8; 6] = [0, 1, 8, 0, 6, 4];

const ROUTER_SOLICITATION: u8 = 133;
const ROUTER_ADVERTISEMENT: u8 = 134;
const NEIGHBOUR_SOLICITATION: u8 = 135;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
const REDIRECT: u8 = 137;
/// Options that name a hardware address.
const HARDWARE_OF_SENDER: u8 = 1;
const HARDWARE_OF_TARGET: u8 = 2;
/// Options that are looked at; with more a message is not the pod's to send.
const OPTIONS: u32 = 4;

/// The node's route to an address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReturnPath {
    /// Not through the pod's device.
    Elsewhere,
    /// Through it, to a neighbour whose hardware address the node does not know.
    Behind,
    /// Through it, to this hardware address, as [`Packet::hardware`].
    To(u64),
}

/// Returns the lookup for a proof: the route of an answer. The destination is omitted
/// where no route leads from.
#[inline(always)]
#[must_use]
pub fn way_back(guard: &Guard) -> Tuple {
    let to = if guard.about == 0 {
        guard.key.source
    } else {
        guard.headers.tuple.source
    };
    let mut from = guard.key.destination;
    if !from.is_v4() && (is_of_link(from) || is_multicast(from)) {
        from = Address::UNSPECIFIED;
    }
    Tuple::new(from, Port(0), to, Port(0), Protocol(0))
}

/// Says whether a packet is from the pod's own addresses. `link`: it is of the link
/// alone.
#[inline(always)]
pub fn prove<M: PolicyFlows>(maps: &M, back: ReturnPath, link: bool, guard: &mut Guard) -> Ruling {
    let why = match back {
        // The kernel knows ways to such addresses, but not whose they are.
        _ if !link && is_of_link(way_back(guard).destination) => Counter::DroppedSpoofed,
        ReturnPath::To(hardware) if hardware != guard.hardware => Counter::DroppedHardware,
        ReturnPath::Elsewhere => Counter::DroppedSpoofed,
        _ => {
            guard.proven = 1;
            return Ruling::Pass;
        }
    };
    wrong(
        maps,
        if link { Counter::DroppedNeighbour } else { why },
        guard,
    )
}

/// The claim of a link-local message.
enum NeighbourMessage {
    /// A message without a claim.
    Nothing,
    /// That an address, which the guard's key holds then, is the sender's.
    Own,
    /// A claim that a pod may not make.
    Wrong,
    /// It cannot be read.
    Unreadable,
}

/// Checks link-local messages of a pod: ARP, and ICMPv6 messages about neighbours and
/// listeners, whose headers [`outline`](super::outline) parsed. [`Ruling::Prove`]: it
/// passes if the address in the guard's key is the pod's.
#[inline(always)]
pub fn neighbour<M: PolicyFlows, P: Packet>(maps: &M, packet: P, guard: &mut Guard) -> Ruling {
    let said = match packet.load::<2>(12).map(u16::from_be_bytes) {
        Some(ARP) => arp(packet, guard),
        Some(V6) => of_neighbours(packet, guard),
        // Ownership in other protocols is unknown.
        _ => NeighbourMessage::Unreadable,
    };
    let why = match said {
        NeighbourMessage::Nothing => return Ruling::Pass,
        NeighbourMessage::Own => return Ruling::Prove,
        NeighbourMessage::Wrong => Counter::DroppedNeighbour,
        NeighbourMessage::Unreadable => Counter::DroppedUnreadable,
    };
    wrong(maps, why, guard)
}

#[inline(always)]
fn wrong<M: PolicyFlows>(maps: &M, why: Counter, guard: &Guard) -> Ruling {
    maps.tally(why);
    maps.report(guard, &VerdictReason::not_policy(why));
    Ruling::Drop
}

/// Names the addresses for the proof and for people.
#[inline(always)]
fn name(guard: &mut Guard, whose: Address, to: Address, protocol: Protocol) {
    let tuple = Tuple::new(whose, Port(0), to, Port(0), protocol);
    guard.name(&tuple, &tuple);
}

#[inline(always)]
fn arp<P: Packet>(packet: P, guard: &mut Guard) -> NeighbourMessage {
    let unspecified = Address::UNSPECIFIED_V4;
    name(guard, unspecified, unspecified, Protocol(0));
    let Some([a, b, c, d, e, f]) = packet.load::<6>(MESSAGE) else {
        return NeighbourMessage::Unreadable;
    };
    let (Some(sender), Some(target)) = (
        packet.load::<4>(MESSAGE + 14),
        packet.load::<4>(MESSAGE + 24),
    ) else {
        return NeighbourMessage::Unreadable;
    };
    if [a, b, c, d, e, f] != ARP_OF_IPV4 {
        return NeighbourMessage::Unreadable;
    }
    let (sender, target) = (Address::v4(sender), Address::v4(target));
    // A probe whether an address is in use claims none: the address must be the pod's own
    // regardless.
    let whose = if sender == unspecified {
        target
    } else {
        sender
    };
    name(guard, whose, target, Protocol(0));
    if named(packet, MESSAGE + 8) == guard.hardware {
        NeighbourMessage::Own
    } else {
        NeighbourMessage::Wrong
    }
}

#[inline(always)]
fn of_neighbours<P: Packet>(packet: P, guard: &mut Guard) -> NeighbourMessage {
    let at = guard.headers.transport;
    let source = guard.headers.tuple.source;
    let tuple = guard.headers.tuple;
    guard.name(&tuple, &tuple);
    let Some([kind]) = packet.load::<1>(at) else {
        return NeighbourMessage::Unreadable;
    };
    let options = match kind {
        ROUTER_ADVERTISEMENT | REDIRECT => return NeighbourMessage::Wrong,
        ROUTER_SOLICITATION => 8,
        NEIGHBOUR_SOLICITATION | NEIGHBOUR_ADVERTISEMENT => 24,
        // Messages of listeners.
        _ => 0,
    };
    // Also beside an address that is proven.
    if is_of_link(source) && source != of_link(guard.hardware) {
        return NeighbourMessage::Wrong;
    }
    let mut whose = source;
    if options != 0 {
        // RFC 6980: such messages are never fragments.
        if guard.headers.fragment != Fragment::WHOLE || !is_named(packet, at + options, guard) {
            return NeighbourMessage::Wrong;
        }
        if options == 24 {
            let Some(target) = packet.load::<16>(at + 8) else {
                return NeighbourMessage::Unreadable;
            };
            let target = Address::v6(target);
            if kind == NEIGHBOUR_ADVERTISEMENT {
                if source != target && !is_of_link(source) {
                    return NeighbourMessage::Wrong;
                }
                whose = target;
            } else if source == Address::UNSPECIFIED {
                // It asks whether an address is taken before it has it.
                whose = target;
            }
        }
    }
    if is_of_link(whose) && whose != of_link(guard.hardware) {
        return NeighbourMessage::Wrong;
    }
    if whose == Address::UNSPECIFIED || is_of_link(whose) {
        return NeighbourMessage::Nothing;
    }
    guard.key.source = whose;
    NeighbourMessage::Own
}

/// Returns whether the options of a message name no hardware address except its sender's.
#[inline(always)]
fn is_named<P: Packet>(packet: P, options: u32, guard: &Guard) -> bool {
    let end = guard.headers.network + guard.headers.length;
    let mut at = options;
    let mut step = 0;
    while step < OPTIONS {
        if at + 8 > end {
            return true;
        }
        let Some([kind, length]) = packet.load::<2>(at) else {
            return false;
        };
        if length == 0 {
            return false;
        }
        let names = matches!(kind, HARDWARE_OF_SENDER | HARDWARE_OF_TARGET);
        if names && named(packet, at + 2) != guard.hardware {
            return false;
        }
        at += u32::from(length) * 8;
        step += 1;
    }
    at + 8 > end
}

/// Returns a hardware address in a message; zero if there is none.
#[inline(always)]
fn named<P: Packet>(packet: P, at: u32) -> u64 {
    hardware_of(packet.load::<6>(at).unwrap_or_default())
}

/// The address of the link that follows from a hardware address.
#[inline(always)]
const fn of_link(hardware: u64) -> Address {
    let [a, b, c, d, e, f, _, _] = hardware.to_le_bytes();
    Address::from_words([
        u32::from_ne_bytes([0xfe, 0x80, 0, 0]),
        0,
        // The second bit says that it is one of its maker's (RFC 4291, 2.5.1).
        u32::from_ne_bytes([a ^ 2, b, c, 0xff]),
        u32::from_ne_bytes([0xfe, d, e, f]),
    ])
}

/// `fe80::/10`.
#[inline(always)]
const fn is_of_link(address: Address) -> bool {
    let [a, b, _, _] = address.to_words()[0].to_ne_bytes();
    a == 0xfe && b & 0xc0 == 0x80
}

#[inline(always)]
const fn is_multicast(address: Address) -> bool {
    address.to_words()[0].to_ne_bytes()[0] == 0xff
}
