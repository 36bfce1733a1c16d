//! Tests the translation of packets and the verdicts. Code separate from the tested code builds
//! and parses the packets, and checksums are computed over the whole packet.

mod egress;
mod flows;
pub mod frames;
mod kernel;
mod lifetimes;
mod malformed;
mod messages;
mod soak;

use core::cell::RefCell;
use std::vec::Vec;

use ebpf_abi::{
    Address, Backend, BackendFlags, ChecksummedValue, Config, Counter, Life, NodeFlags, Port,
    Protocol, Range, Scope, Service, ServiceFlags, ServiceKey, Tuple,
};

use super::*;
use crate::model::{Frame, Model};

pub const NODE: [&str; 2] = ["192.0.2.1", "2001:db8::1"];
pub const CLIENT: [&str; 2] = ["198.51.100.7", "2001:db8:c::7"];
pub const VIP: [&str; 2] = ["10.96.0.1", "fd00:96::1"];
pub const LOCAL: [&str; 2] = ["10.244.1.2", "fd00:244:1::2"];
pub const REMOTE: [&str; 2] = ["10.244.2.2", "fd00:244:2::2"];
pub const NODE_PORT: u16 = 30080;

pub fn address(text: &str) -> Address {
    text.parse::<core::net::IpAddr>().unwrap().into()
}

fn tuple(from: (&str, u16), to: (&str, u16), protocol: Protocol) -> Tuple {
    Tuple::new(
        address(from.0),
        Port::new(from.1),
        address(to.0),
        Port::new(to.1),
        protocol,
    )
}

/// A node with addresses, ranges of pods and a clock that has run for a while.
pub fn node() -> Model {
    let mut model = Model {
        config: Some(Config {
            node_v4: address(NODE[0]),
            node_v6: address(NODE[1]),
            ..Config::DEFAULT
        }),
        ..Model::default()
    };
    for it in NODE {
        model.nodes.insert(address(it), NodeFlags::PORTS);
    }
    for (range, bits) in [("10.244.0.0", 16), ("fd00:244::", 32)] {
        let range = address(range);
        model
            .inside
            .insert((Range::prefix(range, bits), Range::new(0, range)));
    }
    model.now.set(1_000_000 << Life::TICK);
    model
}

pub fn backend(at: &str) -> Backend {
    let flags = if LOCAL.contains(&at) || NODE.contains(&at) {
        BackendFlags::LOCAL
    } else {
        BackendFlags::NONE
    };
    Backend::new(address(at), Port::new(8080), flags)
}

/// Puts a service at an address.
pub fn serve(
    model: &mut Model,
    set: u32,
    key: ServiceKey,
    flags: ServiceFlags,
    backends: &[Backend],
) {
    let service = Service {
        set,
        generation: 1,
        count: u32::try_from(backends.len()).unwrap(),
        flags,
        affinity_seconds: 10,
        table: 0,
    };
    model.put(key, service, backends);
}

pub fn at(vip: &str, port: u16, protocol: Protocol) -> ServiceKey {
    ServiceKey::internal(address(vip), Port::new(port), protocol)
}

pub fn node_port(family: usize, protocol: Protocol) -> ServiceKey {
    let any = address(NODE[family]).wildcard();
    ServiceKey::internal(any, Port::new(NODE_PORT), protocol)
}

/// Runs a frame through all steps, as a program does that knows every way.
pub fn run(model: &Model, origin: Origin, frame: &[u8]) -> (PacketVerdict, Vec<u8>, Work) {
    let bytes = RefCell::new(frame.to_vec());
    let packet = Frame(&bytes);
    let mut work = Work::new();
    let kind = parse(packet, &mut work);
    let verdict = decide(model, kind, origin, &mut work);
    if work.tunnel != 0 && matches!(verdict, PacketVerdict::Translate | PacketVerdict::Forward) {
        assert!(decapsulate(packet, &mut work));
    }
    let done = match verdict {
        PacketVerdict::Translate => rewrite(packet, &work, false),
        PacketVerdict::Forward => rewrite(packet, &work, true),
        PacketVerdict::TranslateError => rewrite_error(packet, &mut work),
        PacketVerdict::Encapsulate => encapsulate(packet, &work),
        PacketVerdict::Refuse => refuse(packet, &work),
        PacketVerdict::Link => relay(packet, &work),
        _ => true,
    };
    assert!(done, "{verdict:?}");
    let bytes = bytes.borrow().clone();
    (verdict, bytes, work)
}
