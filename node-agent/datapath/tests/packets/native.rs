//! The same decisions on this side of the kernel's border.

use std::cell::RefCell;

use ebpf_abi::NodeFlags;
use ebpf_logic::model::{Frame, Model};
use ebpf_logic::packet::{
    Origin, PacketVerdict, Work, decapsulate, decide, encapsulate, parse, refuse, relay, rewrite,
    rewrite_error,
};

pub const GO_ON: i32 = -1;
pub const DROP: i32 = 2;
pub const REDIRECT: i32 = 7;

/// What a device's program makes of a packet, where every way leads through
/// one device, but the node's own addresses.
pub fn run(model: &Model, origin: Origin, frame: &[u8]) -> (i32, Vec<u8>, PacketVerdict) {
    let bytes = RefCell::new(frame.to_vec());
    let packet = Frame(&bytes);
    let mut work = Work::new();
    let kind = parse(packet, &mut work);
    let verdict = decide(model, kind, origin, &mut work);
    let tunnel = work.tunnel != 0 && verdict != PacketVerdict::Pass;
    let mut code = match verdict {
        PacketVerdict::Pass | PacketVerdict::Unknown => GO_ON,
        PacketVerdict::Drop => DROP,
        _ if tunnel
            && !(matches!(verdict, PacketVerdict::Translate | PacketVerdict::Forward)
                && decapsulate(packet, &mut work)) =>
        {
            DROP
        }
        PacketVerdict::Translate => done(rewrite(packet, &work, false)),
        PacketVerdict::TranslateError if work.quote.forward == 0 => {
            done(rewrite_error(packet, &mut work))
        }
        PacketVerdict::Refuse => {
            if refuse(packet, &work) {
                REDIRECT
            } else {
                DROP
            }
        }
        PacketVerdict::Forward
        | PacketVerdict::TranslateError
        | PacketVerdict::Encapsulate
        | PacketVerdict::Link => send(model, packet, &mut work, verdict, origin),
    };
    if code == DROP {
        // What is dropped is not looked at.
        bytes.borrow_mut().clear();
    }
    if verdict == PacketVerdict::Pass {
        code = GO_ON;
    }
    let bytes = bytes.borrow().clone();
    (code, bytes, verdict)
}

fn send(
    model: &Model,
    packet: Frame<'_>,
    work: &mut Work,
    verdict: PacketVerdict,
    origin: Origin,
) -> i32 {
    let own = model.nodes.get(&work.to.destination) == Some(&NodeFlags::PORTS);
    let stays = matches!(verdict, PacketVerdict::Encapsulate | PacketVerdict::Link);
    if own && (origin.is_routed() || stays) || !own && work.headers.hops <= 1 {
        return DROP;
    }
    let written = match verdict {
        PacketVerdict::Encapsulate => encapsulate(packet, work),
        PacketVerdict::Link => relay(packet, work),
        PacketVerdict::TranslateError => {
            work.quote.forward = u32::from(!own);
            rewrite_error(packet, work)
        }
        _ => rewrite(packet, work, !own),
    };
    match (written, own) {
        (false, _) => DROP,
        (true, true) => GO_ON,
        (true, false) => REDIRECT,
    }
}

const fn done(written: bool) -> i32 {
    if written { GO_ON } else { DROP }
}

/// All flows, without the times of their use.
pub fn flows(model: &Model) -> Vec<(ebpf_abi::Tuple, Option<ebpf_abi::Flow>, u32)> {
    let flows = model.flows.borrow();
    flows
        .iter()
        .map(|(key, entry)| (*key, entry.flow.open(key), entry.life.seen()))
        .collect()
}
