//! What the pinned maps say of a new flow, look by look: the very decision that
//! programs take, taken here.

use std::cell::RefCell;
use std::net::IpAddr;

use ebpf_abi::policy::{
    Direction, EndpointKey, EndpointPolicy, PeerEntry, PolicyRoot, PolicyVerdict, PortClasses,
    VerdictKey, cookies,
};
use ebpf_abi::{Address, ChecksummedValue, Protocol, Range, maps};
use ebpf_logic::policy::{Flow, HookPlace, PolicyMaps, policy};

use super::Policy;
use crate::trace::MapRead;

/// A new flow, as one of its ends asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PolicyQuestion {
    /// At a pod's interface, or at the node's own.
    pub place: HookPlace,
    /// Which way.
    pub direction: Direction,
    /// The end that asks: of a pod here, or this node's.
    pub own: IpAddr,
    /// The other end, behind translation.
    pub peer: IpAddr,
    /// Protocol.
    pub protocol: Protocol,
    /// Destination port.
    pub port: u16,
}

/// What is decided, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyWalk {
    /// Allowed?
    pub allow: bool,
    /// The rule, or one of [`cookies`].
    pub cookie: u32,
    /// Its name, where it is a rule's.
    pub rule: Option<String>,
    /// What it was decided under.
    pub root: PolicyRoot,
    /// The class of the other end, and what it is; none: nobody that is known.
    pub peer: Option<PeerEntry>,
    /// The ruleset; 0: no policy; none: the end has no rules yet.
    pub ruleset: Option<u32>,
    /// The class of the port.
    pub class: u32,
    /// Every look at a map.
    pub looks: Vec<MapRead>,
}

/// Maps that record every lookup.
struct RecordingMaps<'a> {
    maps: &'a Policy,
    seen: RefCell<MapLookup>,
}

#[derive(Default)]
struct MapLookup {
    peer: Option<PeerEntry>,
    ruleset: Option<u32>,
    class: u32,
    looks: Vec<MapRead>,
}

// === impl Policy ===

impl Policy {
    /// Decides on a new flow as programs would, and writes nothing. What cannot be read is missing, as for them.
    #[must_use]
    pub fn walk(&self, question: &PolicyQuestion) -> PolicyWalk {
        let noted = RecordingMaps {
            maps: self,
            seen: RefCell::default(),
        };
        let flow = Flow {
            place: question.place,
            direction: question.direction,
            own: question.own.into(),
            peer: question.peer.into(),
            protocol: question.protocol,
            port: question.port,
            relayed: false,
        };
        let decision = policy(&noted, &flow);
        let seen = noted.seen.into_inner();
        let rule = (decision.cookie >= cookies::FIRST)
            .then(|| self.rule(decision.cookie).ok().flatten())
            .flatten();
        PolicyWalk {
            allow: decision.allow,
            cookie: decision.cookie,
            rule,
            root: decision.root,
            peer: seen.peer,
            ruleset: seen.ruleset,
            class: seen.class,
            looks: seen.looks,
        }
    }
}

// === impl Noted ===

impl RecordingMaps<'_> {
    fn note(&self, map: &'static str, key: String, found: Option<String>) {
        self.seen
            .borrow_mut()
            .looks
            .push(MapRead { map, key, found });
    }
}

impl PolicyMaps for RecordingMaps<'_> {
    fn policy_root(&self) -> PolicyRoot {
        self.maps.policy_root()
    }

    fn peer(&self, range: &Range) -> Option<PeerEntry> {
        let found = self.maps.peer(range);
        let address = IpAddr::from(Address::from_words(range.address));
        let words = found.map(|it| {
            let mut words = format!("class {}", it.peer);
            for (flag, word) in [
                (PeerEntry::POD, ", a pod"),
                (PeerEntry::NODE, ", a node"),
                (PeerEntry::LOCAL, ", here"),
            ] {
                if it.has(flag) {
                    words.push_str(word);
                }
            }
            words
        });
        self.note(maps::PEERS, address.to_string(), words);
        self.seen.borrow_mut().peer = found;
        found
    }

    fn endpoint(&self, key: &EndpointKey) -> Option<ChecksummedValue<EndpointPolicy>> {
        let found = self.maps.endpoint(key);
        let ruleset = found
            .and_then(|sealed| sealed.open(key))
            .map(|it| it.ruleset);
        let word = if key.direction == Direction::INGRESS {
            "ingress"
        } else {
            "egress"
        };
        let words = ruleset.map(|it| match it {
            0 => "no policy".to_owned(),
            it => format!("ruleset {it}"),
        });
        let name = format!("{} {word}", IpAddr::from(key.address));
        self.note(maps::ENDPOINTS, name, words);
        self.seen.borrow_mut().ruleset = ruleset;
        found
    }

    fn ports(&self, element: u32) -> Option<PortClasses> {
        self.maps.ports(element)
    }

    fn verdict(&self, key: &VerdictKey) -> Option<ChecksummedValue<PolicyVerdict>> {
        let found = self.maps.verdict(key);
        let words = found.and_then(|sealed| sealed.open(key)).map(|it| {
            let verdict = if it.allows() { "allow" } else { "deny" };
            let more = if it.flags & PolicyVerdict::PORTS != 0 && key.class == 0 {
                ", some ports otherwise"
            } else {
                ""
            };
            format!("{verdict}, cookie {}{more}", it.cookie)
        });
        let name = format!(
            "ruleset {} of class {}, ports of class {}",
            key.ruleset, key.peer, key.class
        );
        self.note(maps::VERDICTS, name, words);
        self.seen.borrow_mut().class = key.class;
        found
    }
}
