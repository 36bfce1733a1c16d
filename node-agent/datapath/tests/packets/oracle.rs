//! An independent model: what must hold of a packet that left, said as simply
//! as possible, knowing nothing of how it is done.
//!
//! It watches: whom a flow's first packet is given to is the program's choice
//! among those that the service names; from then on, every packet of the flow
//! must go there, and every answer must come back as the service's.

use std::collections::HashMap;
use std::fmt::Display;
use std::net::IpAddr;

use ebpf_abi::{Protocol, Scope, ServiceFlags, ServiceKey, SlotKey};
use ebpf_logic::Flows;
use ebpf_logic::model::Model;
use ebpf_logic::packet::Origin;

use super::cases::{NODE, crc32c, ends, ip, pseudo, sum};

type Ends = (IpAddr, u16, IpAddr, u16, Protocol);

/// Flows by what arrives: what must leave.
#[derive(Default)]
pub struct Oracle {
    flows: HashMap<Ends, Ends>,
    pub judged: u64,
}

impl Oracle {
    /// Judges what a program made of a packet, if that is whole and has ports.
    pub fn judge(
        &mut self,
        model: &Model,
        origin: Origin,
        sent: &[u8],
        got: &[u8],
        name: &impl Display,
    ) {
        let (Some(before), Some(after)) = (ends(sent), ends(got)) else {
            return;
        };
        if before == after || before.4 != after.4 || sent.len() != got.len() {
            return;
        }
        self.judged += 1;
        let start = if sent[12] == 8 { 34 } else { 54 };
        let header = match before.4 {
            Protocol::TCP => 18,
            Protocol::SCTP => 12,
            _ => 8,
        };
        let content = start + header;
        assert_eq!(sent.get(content..), got.get(content..), "content changed");
        summed(sent, got, before, after);
        if let Some(known) = self.flows.get(&before) {
            // A flow that ended may have begun anew.
            if *known == after {
                return;
            }
        }
        // The flow's first packet may have been one that is not judged here: a
        // fragment, or one in an outer header. That of TCP may have taken the ends of one that
        // packets of this run closed.
        let answers = served_by(model, after.0, after.1, before.4).contains(&(before.0, before.1))
            || (origin == Origin::Device
                && (before.0, before.1) == (after.0, after.1)
                && before.2 == ip(NODE[usize::from(before.2.is_ipv6())])
                && model.leaves(before.0.into()));
        let is_known = self.flows.contains_key(&before) && before.4 != Protocol::TCP;
        if !is_known && answers {
            self.flows.insert(before, after);
            return;
        }
        self.first(model, origin, before, after, name);
        self.flows.insert(before, after);
        let turned = |it: Ends| (it.2, it.3, it.0, it.1, it.4);
        self.flows.insert(turned(after), turned(before));
    }

    fn first(&self, model: &Model, origin: Origin, before: Ends, after: Ends, name: &impl Display) {
        let (from, port, to, asked, protocol) = before;
        let leaves = origin == Origin::Pod && (to, asked) == (after.2, after.3);
        assert!(
            leaves || served_by(model, to, asked, protocol).contains(&(after.2, after.3)),
            "{before:?} went to {after:?}, which serves nothing there: {name}"
        );
        if leaves {
            assert!(model.leaves(to.into()), "{before:?} stays itself: {name}");
        }
        let node = ip(NODE[usize::from(from.is_ipv6())]);
        let remote = {
            let text = after.2.to_string();
            !(text.contains(".1.") || text.contains(":1::") || after.2 == node)
        };
        if after.0 == node && from != node {
            assert!((61_000..=65_535).contains(&after.1) || protocol == Protocol::SCTP);
        } else {
            assert!(!leaves, "{before:?} is not shown as the node: {name}");
            assert_eq!(after.0, from, "the client is shown as somebody else");
            assert!(after.1 == port || (61_000..=65_535).contains(&after.1));
            assert!(
                !(origin == Origin::Device && remote),
                "answers would not come back"
            );
            assert!(after.0 != after.2 || from == node, "it would answer itself");
        }
        // Nobody else's answers come to the same ends.
        let answer = (after.2, after.3, after.0, after.1, protocol);
        if let Some(other) = self.flows.get(&answer) {
            let alive = (other.2, other.3) != (from, port) || (other.0, other.1) != (to, asked);
            assert!(
                // TCP flows may have been closed by packets of this run.
                !alive || protocol == Protocol::TCP,
                "two flows share {answer:?}"
            );
        }
    }
}

/// Who serves at an address, in either scope, in the order of no importance.
fn served_by(model: &Model, to: IpAddr, port: u16, protocol: Protocol) -> Vec<(IpAddr, u16)> {
    let mut all = Vec::new();
    let any: IpAddr = if to.is_ipv4() {
        ip("0.0.0.0")
    } else {
        ip("::")
    };
    for at in [to, any] {
        for scope in [Scope::INTERNAL, Scope::EXTERNAL] {
            let key = ServiceKey::new(at.into(), ebpf_abi::Port::new(port), protocol, scope);
            let Some(service) = model.services.get(&key).and_then(|it| it.open(&key)) else {
                continue;
            };
            assert!(!service.flags.contains(ServiceFlags::NODE_PORT));
            for slot in 0..service.count {
                let key = SlotKey::new(service.set, service.generation, slot);
                if let Some(backend) = model.slots.get(&key).and_then(|it| it.open(&key)) {
                    all.push((backend.address.into(), backend.port.get()));
                }
            }
        }
    }
    all
}

/// A packet whose checksums were right has right ones.
fn summed(sent: &[u8], got: &[u8], before: Ends, after: Ends) {
    let whole = |frame: &[u8], ends: Ends| {
        let (start, length) = if frame[12] == 8 {
            if sum(&[&frame[14..34]]) != 0 {
                return false;
            }
            (
                34,
                usize::from(u16::from_be_bytes([frame[16], frame[17]])) - 20,
            )
        } else {
            (54, usize::from(u16::from_be_bytes([frame[18], frame[19]])))
        };
        let Some(content) = frame.get(start..start + length) else {
            return false;
        };
        if ends.4 == Protocol::UDP && content.get(6..8) == Some(&[0, 0]) {
            // None, whatever the sum would be.
            return false;
        }
        if ends.4 == Protocol::SCTP {
            let mut content = content.to_vec();
            let check = content.splice(8..12, [0; 4]).collect::<Vec<u8>>();
            return check == crc32c(&content).to_le_bytes();
        }
        let head = match ends.4 {
            // ICMP's sum is over the message alone.
            Protocol(1) => Vec::new(),
            Protocol(number) => pseudo(ends.0, ends.2, number, length),
        };
        sum(&[&head, content]) == 0
    };
    let fragment = sent[12] == 8 && (sent[20] & 0x3f != 0 || sent[21] != 0);
    if !fragment && whole(sent, before) {
        assert!(whole(got, after), "checksums of {before:?} as {after:?}");
    }
}
