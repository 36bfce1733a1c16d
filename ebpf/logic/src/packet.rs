//! Packets at network devices: services for clients whose sockets the hooks do not see.
//!
//! A packet takes the same steps in each program: [`parse`], [`track`] if it belongs to a
//! flow, else [`begin`] if it addresses a service, then [`rewrite`] or [`refuse`]. They
//! share one [`Work`], because a program's stack is too small.
//!
//! # Source NAT
//!
//! A backend on this node sees the client. A remote one sees this node instead of a
//! client on another machine, since its answers must come back here. So does every
//! backend of a cluster IP that was addressed from outside, and a pod that reaches
//! itself. A pod of another node keeps its address and gets another port: its own node
//! translates its other connections, and two of them may leave one port for the same
//! backend.
//!
//! A pod that leaves the cluster is represented by this node, unless the destination has
//! a route to pods ([`Flows::leaves`]). Its flow is like those of services, and takes a
//! port of the same range.
//!
//! # Forwarding
//!
//! The kernel treats a packet as martian if its source is an address of the node that
//! receives it. A packet that gets such a source on ingress (the node's as a client, or
//! the service's as a server) is therefore forwarded by the program
//! ([`PacketVerdict::Forward`]); others by the kernel.

mod begin;
mod bytes;
mod checksum;
mod crc;
mod egress;
mod error;
mod fragments;
mod glance;
pub(crate) mod headers;
mod lifetime;
mod nat;
pub(crate) mod parse;
mod refuse;
mod step;
mod track;
mod tunnel;
mod work;

use ebpf_abi::{Counter, Protocol};

pub use begin::begin;
pub use bytes::{Front, FrontV6, Glance, OuterHeader, Packet, hardware_of};
pub use checksum::{difference, fold, replace};
pub use crc::change as sctp_change;
pub use error::rewrite_error;
pub use glance::{is_foreign, is_strange};
pub use headers::{Fragment, Headers, Kind};
pub use lifetime::{collect, is_over, together};
pub use nat::{relay, rewrite};
pub use parse::{parse, parse_front};
pub use refuse::{answer, refuse};
pub use step::{Origin, PacketVerdict, Step};
pub use track::track;
pub use tunnel::{decapsulate, encapsulate};
pub use work::{Quote, Search, Work};

use crate::maps::Flows;

/// Takes a step.
#[inline(always)]
pub fn take<M: Flows>(maps: &M, step: Step, origin: Origin, work: &mut Work) -> PacketVerdict {
    match step {
        Step::Error => error::find(maps, origin, work),
        Step::Recall => {
            if fragments::recall(maps, work) {
                PacketVerdict::Unknown
            } else {
                PacketVerdict::Pass
            }
        }
        Step::Keep => {
            fragments::keep(maps, work);
            PacketVerdict::Unknown
        }
        Step::Track => track(maps, origin, work),
        Step::Ask => {
            if begin::addresses_service(maps, work) {
                PacketVerdict::Unknown
            } else {
                PacketVerdict::Pass
            }
        }
        Step::Leave => egress::leave(maps, work),
        Step::Hide => egress::hide(maps, work),
        Step::Select => begin::select(maps, origin, work),
        Step::Add => begin::add(maps, work),
        Step::Forward => begin::add_forward(maps, work),
        Step::Reply => begin::try_reply(maps, work),
        Step::Search => begin::search(maps, work),
        Step::SearchRun => begin::search_run(maps, work),
        Step::TakeOver => {
            if begin::take_over(maps, work) {
                PacketVerdict::Unknown
            } else {
                PacketVerdict::Pass
            }
        }
        Step::Forget => begin::forget(maps, work),
        Step::Collect => {
            collect(maps, work, lifetime::EXAMINED, lifetime::REST);
            PacketVerdict::Unknown
        }
        Step::MakeRoom => {
            collect(maps, work, lifetime::EXAMINED_WHEN_FULL, 0);
            PacketVerdict::Unknown
        }
    }
}

/// Decides on a packet that was [parsed](parse): all before it is changed.
#[inline(always)]
pub fn decide<M: Flows>(maps: &M, kind: Kind, origin: Origin, work: &mut Work) -> PacketVerdict {
    if work.tunnel != 0 && origin != Origin::Device {
        return PacketVerdict::Pass;
    }
    match kind {
        Kind::Other => return PacketVerdict::Pass,
        Kind::Error => return maps.step(Step::Error, origin, work),
        Kind::Echo if work.tunnel != 0 => return PacketVerdict::Pass,
        Kind::Transport | Kind::Echo => {}
    }
    if work.headers.fragment == Fragment::LATER
        && maps.step(Step::Recall, origin, work) != PacketVerdict::Unknown
    {
        return PacketVerdict::Pass;
    }
    let verdict = decide_whole(maps, origin, work);
    if work.headers.fragment == Fragment::FIRST
        && matches!(verdict, PacketVerdict::Translate | PacketVerdict::Forward)
        && work.headers.tuple.protocol == Protocol::SCTP
        && nat::ports(&work.headers.tuple) != nat::ports(&work.to)
    {
        return work.drop(Counter::DroppedSctpPort);
    }
    if work.headers.fragment == Fragment::FIRST && verdict != PacketVerdict::Pass {
        maps.step(Step::Keep, origin, work);
    }
    verdict
}

/// As [`decide`], of a packet that is no fragment and lies in no other: such as
/// [`parse_front`] reads.
#[inline(always)]
pub fn decide_whole<M: Flows>(maps: &M, origin: Origin, work: &mut Work) -> PacketVerdict {
    match maps.step(Step::Track, origin, work) {
        PacketVerdict::Unknown if origin == Origin::Leaving => PacketVerdict::Pass,
        PacketVerdict::Unknown => begin(maps, origin, work),
        known => known,
    }
}

#[cfg(test)]
pub(crate) mod tests;
