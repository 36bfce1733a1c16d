//! The decision on a flow, and the maps that it reads.

use ebpf_abi::policy::{
    Direction, EndpointKey, EndpointPolicy, PeerEntry, PolicyRoot, PolicyVerdict, PortClasses,
    VerdictKey, cookies,
};
use ebpf_abi::{Address, ChecksummedValue, Protocol, Range};

/// The maps of network policy.
pub trait PolicyMaps {
    /// The root.
    fn policy_root(&self) -> PolicyRoot;
    /// Returns the owner of the longest prefix of an address.
    fn peer(&self, range: &Range) -> Option<PeerEntry>;
    /// Returns the policy of an endpoint for one direction.
    fn endpoint(&self, key: &EndpointKey) -> Option<ChecksummedValue<EndpointPolicy>>;
    /// An element of `PORTS`.
    fn ports(&self, element: u32) -> Option<PortClasses>;
    /// Returns a verdict of a ruleset.
    fn verdict(&self, key: &VerdictKey) -> Option<ChecksummedValue<PolicyVerdict>>;
}

/// The place of the decision.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HookPlace {
    /// At a pod's interface: closed until its rules are there.
    Pod,
    /// At the node's own: open as long as no policy selects the node.
    Host,
}

/// A flow, as one end sees it. Addresses are those of pods, never a service's.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "model", derive(Debug))]
pub struct Flow {
    /// The deciding end.
    pub place: HookPlace,
    /// The direction.
    pub direction: Direction,
    /// The address of this end.
    pub own: Address,
    /// The address of the other end.
    pub peer: Address,
    /// Protocol.
    pub protocol: Protocol,
    /// Destination port, host order; unspecified if the protocol has none.
    pub port: u16,
    /// Whether it was only forwarded by this node. Then the node's address as its source
    /// proves nothing: outside clients may be represented by it.
    pub relayed: bool,
}

/// The decision, and its reason.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "model", derive(Debug))]
pub struct PolicyDecision {
    /// Whether it is allowed.
    pub allow: bool,
    /// The rule, or one of [`cookies`].
    pub cookie: u32,
    /// The root of the decision; a flow whose generation differs from the root's is to be
    /// decided again.
    pub root: PolicyRoot,
}

/// How often a torn entry is read again.
const TRIES: u32 = 3;

/// Decides.
#[inline(always)]
pub fn policy<M: PolicyMaps>(maps: &M, flow: &Flow) -> PolicyDecision {
    let root = maps.policy_root();
    let decided = |allow, cookie| PolicyDecision {
        allow,
        cookie,
        root,
    };
    if flow.own == flow.peer {
        return decided(true, cookies::ITSELF);
    }
    if root.epoch == 0 {
        // It was taken away since the packet was found to need a decision.
        return decided(true, cookies::DEFAULT);
    }
    let key = EndpointKey {
        epoch: root.epoch,
        direction: flow.direction,
        address: flow.own,
    };
    let endpoint = endpoint(maps, &key);
    if let MatchedPeer::Entry(EndpointPolicy { ruleset: 0, .. }) = endpoint {
        return decided(true, cookies::DEFAULT);
    }
    let entry = maps
        .peer(&Range::new(root.epoch, flow.peer))
        .unwrap_or(PeerEntry {
            peer: PeerEntry::other_kind(flow.peer),
            flags: 0,
        });
    let unavoidable = match flow.place {
        HookPlace::Pod => {
            flow.direction == Direction::INGRESS
                && !flow.relayed
                && entry.has(PeerEntry::NODE | PeerEntry::LOCAL)
        }
        HookPlace::Host => {
            flow.direction == Direction::EGRESS && entry.has(PeerEntry::POD | PeerEntry::LOCAL)
        }
    };
    if unavoidable {
        return decided(true, cookies::NODE);
    }
    let endpoint = match endpoint {
        MatchedPeer::Entry(endpoint) => endpoint,
        MatchedPeer::Torn => return decided(false, cookies::BROKEN),
        MatchedPeer::Nothing => {
            return match flow.place {
                HookPlace::Pod => decided(false, cookies::CLOSED),
                HookPlace::Host => decided(true, cookies::DEFAULT),
            };
        }
    };
    let class = class(maps, root.epoch, flow);
    let kind = if entry.has(PeerEntry::POD) {
        PeerEntry::pod_kind(flow.peer)
    } else {
        PeerEntry::other_kind(flow.peer)
    };
    let mut key = VerdictKey {
        epoch: root.epoch,
        ruleset: endpoint.ruleset,
        peer: entry.peer,
        class: 0,
    };
    let mut said = verdict(maps, &key);
    if matches!(said, MatchedPeer::Nothing) && entry.peer != kind {
        key.peer = kind;
        said = verdict(maps, &key);
    }
    let MatchedPeer::Entry(mut said) = said else {
        return decided(false, cookies::BROKEN);
    };
    if class != 0 && said.flags & PolicyVerdict::PORTS != 0 {
        key.class = class;
        match verdict(maps, &key) {
            MatchedPeer::Entry(exact) => said = exact,
            MatchedPeer::Nothing => {}
            MatchedPeer::Torn => return decided(false, cookies::BROKEN),
        }
    }
    decided(said.allows(), said.cookie)
}

enum MatchedPeer<T> {
    Entry(T),
    Nothing,
    Torn,
}

#[inline(always)]
fn endpoint<M: PolicyMaps>(maps: &M, key: &EndpointKey) -> MatchedPeer<EndpointPolicy> {
    let mut tries = 0;
    while tries < TRIES {
        let Some(sealed) = maps.endpoint(key) else {
            return MatchedPeer::Nothing;
        };
        if let Some(value) = sealed.open(key) {
            return MatchedPeer::Entry(value);
        }
        tries += 1;
    }
    MatchedPeer::Torn
}

#[inline(always)]
fn verdict<M: PolicyMaps>(maps: &M, key: &VerdictKey) -> MatchedPeer<PolicyVerdict> {
    let mut tries = 0;
    while tries < TRIES {
        let Some(sealed) = maps.verdict(key) else {
            return MatchedPeer::Nothing;
        };
        if let Some(value) = sealed.open(key) {
            return MatchedPeer::Entry(value);
        }
        tries += 1;
    }
    MatchedPeer::Torn
}

#[inline(always)]
fn class<M: PolicyMaps>(maps: &M, epoch: u32, flow: &Flow) -> u32 {
    let Some((element, place)) = PortClasses::place(epoch, flow.protocol, flow.port) else {
        return 0;
    };
    let Some(PortClasses([a, b, c, d])) = maps.ports(element) else {
        return 0;
    };
    // No indexing: the verifier would want the bound proven.
    let class = match place {
        0 => a,
        1 => b,
        2 => c,
        _ => d,
    };
    class as u32
}
