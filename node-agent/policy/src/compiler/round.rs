//! One round: converts dirty state to actions, in an order in which every prefix is
//! sound.

use ebpf_abi::policy::{Direction, EndpointKey, EndpointPolicy, VerdictKey};
use rustc_hash::FxHashSet;

use super::{AddressOwner, Compiler, Endpoint};
use crate::action::Action;
use crate::address::Prefix;
use crate::ruleset::{PeerId, RulesetId};

/// The actions of one round, in the order in which they are written.
#[derive(Default)]
pub(super) struct RoundOutput {
    pub(super) closed: Vec<Action>,
    pub(super) verdicts: Vec<Action>,
    pub(super) ports: Vec<Action>,
    pub(super) peers: Vec<Action>,
    pub(super) endpoints: Vec<Action>,
    pub(super) gone: Vec<Action>,
}

impl Compiler {
    pub(super) fn round(&mut self, actions: &mut Vec<Action>) {
        let mut out = RoundOutput::default();
        let rules = std::mem::take(&mut self.dirty.rules);
        actions.extend(
            rules
                .into_iter()
                .map(|(cookie, name)| Action::PutRule(cookie, name)),
        );

        // Peers and rulesets: numbers are allocated.
        let new_peers = self.resolve(&mut out);
        let new_rulesets = self.choose_rulesets();

        // Ports in the ranges that all this needs.
        let changed = self.ports.recompute_classes(self.root.epoch);
        self.leaving.now.classes.extend(changed.gone);
        out.ports.extend(
            changed
                .elements
                .into_iter()
                .map(|(element, classes)| Action::PutPorts(element, classes)),
        );

        // Rulesets are completed.
        let mut full: FxHashSet<RulesetId> = new_rulesets.into_iter().collect();
        for range in &changed.ranges {
            full.extend(self.rulesets_of_port.get(range).into_iter().flatten());
        }
        let bound_ports = self
            .binding_ports
            .iter()
            .filter(|(_, port)| changed.ranges.contains(port));
        for (number, _) in bound_ports {
            if let Some(binding) = self.bindings.get(*number) {
                full.extend(
                    self.rulesets_of_name
                        .get(&binding.name)
                        .into_iter()
                        .flatten(),
                );
            }
        }
        for id in &full {
            self.fill(*id, &mut out);
        }
        for peer in new_peers {
            let seers = self.peers.get(peer).map(|it| self.seers(it));
            for id in seers.into_iter().flatten() {
                if !full.contains(&id) {
                    self.add_peer(id, peer, &mut out);
                }
            }
        }

        self.point_endpoints(&mut out);

        actions.append(&mut out.closed);
        actions.append(&mut out.verdicts);
        actions.append(&mut out.ports);
        actions.append(&mut out.peers);
        actions.append(&mut out.endpoints);
        actions.append(&mut out.gone);
    }

    /// Assigns rulesets to addresses.
    fn point_endpoints(&mut self, out: &mut RoundOutput) {
        let epoch = self.root.epoch;
        for address in std::mem::take(&mut self.dirty.endpoints) {
            let owner = self.owner(address);
            let wanted = match owner {
                Some(AddressOwner::Pod(id)) => self
                    .pods
                    .get(&id)
                    .filter(|it| it.local)
                    .map(|it| it.rulesets),
                Some(AddressOwner::Node(id)) => self
                    .nodes
                    .get(&id)
                    .filter(|it| it.local)
                    .map(|it| it.rulesets),
                None if self.own_addresses.contains(&address) => {
                    let own = self.nodes.values().find(|it| it.local);
                    own.map(|it| it.rulesets)
                }
                None => None,
            };
            // A node that no policy selects is open, and needs no entry.
            let is_pod = matches!(owner, Some(AddressOwner::Pod(_)));
            let wanted = wanted
                .filter(|it| is_pod || *it != [0; 2])
                .map(|rulesets| Endpoint {
                    owner: owner.unwrap_or(AddressOwner::Node(0)),
                    rulesets,
                });
            let before = self.endpoints.get(&address).copied();
            if before == wanted {
                continue;
            }
            let at = |direction| EndpointKey {
                epoch,
                direction,
                address: Prefix::new(address, 128).address(),
            };
            let both = [Direction::INGRESS, Direction::EGRESS];
            let is_other = before.is_some_and(|it| wanted.is_none_or(|new| new.owner != it.owner));
            if is_other {
                let delete = both.map(|it| Action::DeleteEndpoint(at(it)));
                out.closed.extend(delete);
            }
            match wanted {
                Some(wanted) => {
                    self.endpoints.insert(address, wanted);
                    for (number, direction) in both.into_iter().enumerate() {
                        let ruleset = wanted.rulesets.get(number).copied().unwrap_or(0);
                        let same = before.and_then(|it| it.rulesets.get(number).copied());
                        if is_other || same != Some(ruleset) {
                            out.endpoints.push(Action::PutEndpoint(
                                at(direction),
                                EndpointPolicy {
                                    ruleset,
                                    reserved: 0,
                                },
                            ));
                        }
                    }
                }
                None => {
                    self.endpoints.remove(&address);
                }
            }
        }
    }
}

/// The key of a verdict in the maps.
pub(super) fn key(epoch: u32, ruleset: RulesetId, peer: PeerId, class: u16) -> VerdictKey {
    VerdictKey {
        epoch,
        ruleset,
        peer,
        class: u32::from(class),
    }
}
