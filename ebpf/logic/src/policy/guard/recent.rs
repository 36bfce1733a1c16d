//! Packets of flows that this processor let pass a moment ago.
//!
//! Most packets follow another of their flow. Such a one is told by one comparison
//! with what stands at its place of a small table of this processor's own: no lookup
//! in the table of all flows, no clock, nothing that processors share is written.
//! Whatever could change the answer is part of what is compared, or makes the packet
//! one that is not looked for here:
//!
//! - the device, the direction, whence it came, the sender's hardware address;
//! - the root: every change of policy moves it, so that a flow that is now forbidden
//!   ends with its next packet;
//! - the [moment](PolicyFlows::moment): a flow is looked up anew in each, by which its
//!   entry learns that it is used;
//! - what services know: a packet under a port of theirs, or of a flow, is one that they
//!   are asked about first; whether pods leave the cluster as the node, of which a flow
//!   that goes on learns with the next moment;
//! - a segment that opens a connection, a packet that is translated, a fragment, a
//!   message about another packet take the long way.
//!
//! Places are shared by what falls on them: the last one has it.

use ebpf_abi::Protocol;
use ebpf_abi::policy::{Direction, PolicyFlow, PolicyRoot};

use super::flows::PolicyFlows;
use super::recent_packet::Recent;
use super::state::{DeviceFacts, Guard};
use crate::packet::Packet;
use crate::packet::headers::{Headers, TcpFlags};
use crate::packet::parse::parse_plain;

/// Returns whether a packet like this passed a moment ago. If not, the guard then
/// contains what to keep once it passes. `serve`: services may be concerned, and
/// are to be checked first unless it is immediately known that they are not.
#[inline(always)]
pub fn is_recent<M: PolicyFlows, P: Packet>(
    maps: &M,
    packet: P,
    told: &DeviceFacts,
    serve: bool,
    guard: &mut Guard,
) -> bool {
    let mut headers = Headers::NOTHING;
    if !parse_plain(packet, &mut headers) || opens(&headers) {
        guard.recent.root.epoch = 0;
        return false;
    }
    let ingress = told.direction == Direction::INGRESS;
    let flags = match (ingress, told.from) {
        (false, _) => 0,
        (true, 0) => PolicyFlow::INGRESS,
        (true, _) => PolicyFlow::INGRESS | PolicyFlow::RELAYED,
    };
    let recent = Recent {
        tuple: headers.tuple,
        device: told.device,
        when: maps.moment() << Recent::FLAGS | flags as u32,
        root: maps.policy_root(),
        hardware: if ingress { 0 } else { told.hardware },
    };
    if (!serve || maps.is_strange(&recent.tuple)) && maps.is_recent(recent.place(), &recent) {
        return true;
    }
    guard.recent = recent;
    false
}

/// The same, after services were checked and leave the packet unchanged.
#[inline(always)]
pub fn is_recent_still<M: PolicyFlows>(maps: &M, guard: &Guard) -> bool {
    guard.recent.root.epoch != 0 && maps.is_recent(guard.recent.place(), &guard.recent)
}

#[inline(always)]
fn opens(headers: &Headers) -> bool {
    let flags = headers.flags;
    headers.tuple.protocol == Protocol::TCP && flags.has(TcpFlags::SYN) && !flags.has(TcpFlags::ACK)
}

/// Takes note of a packet that passes, since its flow was allowed under this root.
#[inline(always)]
pub(super) fn keep<M: PolicyFlows>(maps: &M, root: PolicyRoot, guard: &Guard) {
    if guard.recent.root == root {
        maps.keep_recent(guard.recent.place(), &guard.recent);
    }
}
