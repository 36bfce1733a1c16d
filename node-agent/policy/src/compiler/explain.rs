//! Explains why a flow is allowed or denied, from the compiled state rather than from the
//! objects, so that it matches the maps.

use std::net::IpAddr;

use ebpf_abi::policy::{Direction, PeerEntry, cookies};
use ebpf_abi::{Address, Protocol};

use super::explanation::{End, Explanation, Reason, Side, SideDecision};
use super::{AddressOwner, Compiler};
use crate::address::{Prefix, ip, number};
use crate::ruleset::{PeerClass, RulesetId, atom, kinds};

impl Compiler {
    /// Explains the decision on a new flow between two addresses, as of the last
    /// [`sync`](Self::sync). `port` is the destination's.
    #[must_use]
    pub fn explain(&self, from: IpAddr, to: IpAddr, protocol: Protocol, port: u16) -> Explanation {
        let side = |direction, own, peer| self.side(direction, own, peer, protocol, port);
        let egress = side(Direction::EGRESS, from, to);
        let ingress = side(Direction::INGRESS, to, from);
        let allows = |side: &Option<Side>| side.as_ref().is_none_or(|it| it.decided.allow);
        Explanation {
            allow: allows(&egress) && allows(&ingress),
            from: self.end(from),
            to: self.end(to),
            egress,
            ingress,
        }
    }

    /// Returns the owner of an address.
    #[must_use]
    pub fn end(&self, address: IpAddr) -> End {
        match self.owner(number(address)) {
            Some(AddressOwner::Pod(id)) => self.pods.get(&id).map(|pod| End::Pod {
                namespace: pod.namespace.to_string(),
                name: pod.name.to_string(),
            }),
            Some(AddressOwner::Node(id)) => self
                .nodes
                .get(&id)
                .map(|node| End::Node(node.name.to_string())),
            None if self.is_unknown_pod(number(address)) => Some(End::UnknownPod(address)),
            None => None,
        }
        .unwrap_or(End::Outside(address))
    }

    /// Returns whether an unowned address counts as a pod's.
    fn is_unknown_pod(&self, address: u128) -> bool {
        let ranges = self.prefixes.signature(Prefix::new(address, 128));
        let host = self.hosts.get(&address);
        !host.is_some_and(|it| it.own)
            && (ranges.contains(&atom::UNKNOWN_POD) || host.is_some_and(|it| !it.pods.is_empty()))
    }

    /// The addresses of an end.
    #[must_use]
    pub fn addresses(&self, end: &End) -> Vec<IpAddr> {
        match end {
            End::Outside(address) | End::UnknownPod(address) => vec![*address],
            End::Node(name) => {
                let node = self.node_ids.get(name.as_str());
                let node = node.and_then(|id| self.nodes.get(id));
                node.map(|it| it.addresses.iter().copied().map(ip).collect())
                    .unwrap_or_default()
            }
            End::Pod { namespace, name } => {
                let pod = self
                    .pod_ids
                    .get(&(namespace.as_str().into(), name.as_str().into()));
                let pod = pod.and_then(|id| self.pods.get(id));
                pod.map(|it| it.addresses.iter().copied().map(ip).collect())
                    .unwrap_or_default()
            }
        }
    }

    fn side(
        &self,
        direction: Direction,
        own: IpAddr,
        other: IpAddr,
        protocol: Protocol,
        port: u16,
    ) -> Option<Side> {
        let (own, other) = (number(own), number(other));
        let owner = self.owner(own)?;
        let is_pod = matches!(owner, AddressOwner::Pod(_));
        let ours = match owner {
            AddressOwner::Pod(id) => self.pods.get(&id)?.local,
            AddressOwner::Node(id) => self.nodes.get(&id)?.local,
        };
        if !ours {
            return None;
        }
        let peer = self.peer_of(other);
        let (id, state) = &peer;
        let ruleset = match self.endpoints.get(&own) {
            Some(endpoint) if direction == Direction::INGRESS => Some(endpoint.rulesets[0]),
            Some(endpoint) => Some(endpoint.rulesets[1]),
            None => None,
        };
        let class = self.ports.class(protocol, port);
        let unavoidable = self.is_own_node(owner, other, direction);
        let decided = if own == other {
            fixed(true, cookies::ITSELF, Reason::Itself)
        } else if unavoidable {
            fixed(true, cookies::NODE, Reason::Node)
        } else {
            match ruleset {
                None if is_pod => fixed(false, cookies::CLOSED, Reason::Closed),
                None | Some(0) => fixed(true, cookies::DEFAULT, Reason::NoPolicy),
                Some(ruleset) => self.decided(ruleset, *id, state, class)?,
            }
        };
        let policies = ruleset
            .and_then(|id| self.rulesets.get(&id))
            .map(|it| it.key.policies.iter())
            .into_iter()
            .flatten()
            .filter_map(|id| Some(self.policies.get(id)?.policy.name.clone()))
            .collect();
        Some(Side {
            direction,
            peer: *id,
            matches: state.atoms.iter().filter_map(|it| self.atom(*it)).collect(),
            ruleset: ruleset.unwrap_or(0),
            policies,
            class,
            unknown_pod: !decided.allow
                && ruleset.is_some_and(|id| self.is_denied_as_unknown(id, state, class)),
            decided,
        })
    }

    /// Returns whether a ruleset allows to the outside what it may deny to an unknown
    /// pod.
    fn is_denied_as_unknown(&self, id: RulesetId, peer: &PeerClass, class: u16) -> bool {
        if !peer.has(atom::UNKNOWN_POD) {
            return false;
        }
        let outside = PeerClass {
            kind: peer.kind & 1,
            atoms: peer
                .atoms
                .iter()
                .copied()
                .filter(|it| *it != atom::UNKNOWN_POD)
                .collect(),
        };
        let ruleset = self.rulesets.get(&id);
        ruleset.is_some_and(|it| it.row(&outside, &[], &self.ports).said(class).allow)
    }

    /// A pod's node reaches it, and a node reaches its pods.
    fn is_own_node(&self, owner: AddressOwner, other: u128, direction: Direction) -> bool {
        let (pod, node) = match (owner, self.owner(other), direction) {
            (AddressOwner::Pod(pod), Some(AddressOwner::Node(node)), Direction::INGRESS)
            | (AddressOwner::Node(node), Some(AddressOwner::Pod(pod)), Direction::EGRESS) => {
                (pod, node)
            }
            (AddressOwner::Pod(_), None, Direction::INGRESS) => {
                return self.own_addresses.contains(&other);
            }
            _ => return false,
        };
        match (self.pods.get(&pod), self.nodes.get(&node)) {
            (Some(pod), Some(node)) => pod.node == node.name,
            _ => false,
        }
    }

    fn peer_of(&self, address: u128) -> (u32, PeerClass) {
        let prefix = Prefix::new(address, 128);
        let said = self.hosts.get(&address).and_then(|it| it.said);
        let id = said.map_or_else(
            || {
                let peer = self.unowned(prefix);
                self.peers.number(&peer).unwrap_or(peer.kind)
            },
            |it| it.peer,
        );
        let known = self.peers.get(id).map(|it| (**it).clone());
        let kind = kinds().find(|(kind, _)| *kind == id).map(|(_, peer)| peer);
        let unknown = || PeerClass {
            kind: PeerEntry::other_kind(Address::v6(address.to_be_bytes())),
            atoms: Box::default(),
        };
        (id, known.or(kind).unwrap_or_else(unknown))
    }

    fn decided(
        &self,
        id: RulesetId,
        peer: u32,
        state: &PeerClass,
        class: u16,
    ) -> Option<SideDecision> {
        let rows = &self.rulesets.get(&id)?.rows;
        let row = rows.get(&peer).or_else(|| rows.get(&state.kind))?;
        let said = row.said(class);
        let reason = self.reason(said.cookie)?;
        Some(fixed(said.allow, said.cookie, reason))
    }

    /// Returns the reason behind a cookie of this compiler's epoch; `None` for a removed
    /// rule, or an unknown cookie.
    #[must_use]
    pub fn reason(&self, cookie: u32) -> Option<Reason> {
        match cookie {
            cookies::DEFAULT => Some(Reason::NoPolicy),
            cookies::NODE => Some(Reason::Node),
            cookies::ITSELF => Some(Reason::Itself),
            cookies::CLOSED => Some(Reason::Closed),
            cookies::PROTECTED => Some(Reason::Protected),
            cookie => self.rule(cookie),
        }
    }

    /// The rule of a cookie. A policy's are consecutive.
    fn rule(&self, cookie: u32) -> Option<Reason> {
        let (_, id) = self.cookies.range(..=cookie).next_back()?;
        let state = self.policies.get(id)?;
        let object = &state.policy.name;
        if cookie == state.cookie || cookie == state.cookie + 1 {
            let object = object.clone();
            return Some(Reason::Isolated { object });
        }
        let lowered = [&state.policy.ingress, &state.policy.egress];
        let compiled = [&state.ingress, &state.egress];
        let mut pairs = lowered
            .into_iter()
            .flatten()
            .flatten()
            .zip(compiled.into_iter().flatten().flatten());
        let (rule, _) = pairs.find(|(_, it)| it.cookie == cookie)?;
        Some(Reason::Rule {
            object: object.clone(),
            tier: state.policy.tier,
            index: rule.index,
            name: rule.name.to_string(),
            action: rule.action,
        })
    }

    /// Returns the part of policies that an atom represents.
    fn atom(&self, atom: u32) -> Option<String> {
        let number = atom::number(atom);
        Some(match atom::sort(atom) {
            atom::PODS => self.pod_atoms.get(number)?.to_string(),
            atom::NODES => format!("nodes {}", self.node_atoms.get(number)?),
            _ if atom == atom::UNKNOWN_POD => "any pod, since it is not known which".to_owned(),
            atom::NETWORKS => self.network_atoms.get(number)?.to_string(),
            _ => {
                let it = self.bindings.get(number)?;
                format!("port {} is {}/{}", it.name, it.port.first, it.port.protocol)
            }
        })
    }
}

const fn fixed(allow: bool, cookie: u32, reason: Reason) -> SideDecision {
    SideDecision {
        allow,
        cookie,
        reason,
    }
}
