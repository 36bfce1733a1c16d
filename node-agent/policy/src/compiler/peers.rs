//! Peers of addresses, and the rulesets that distinguish them.

use ebpf_abi::policy::PeerEntry;
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::round::{RoundOutput, key};
use super::{AddressOwner, Compiler};
use crate::action::Action;
use crate::address::Prefix;
use crate::ruleset::{AtomId, Binding, PeerClass, PeerId, RulesetId, atom};

impl Compiler {
    /// Peers of dirty addresses and prefixes; those that are new.
    pub(super) fn resolve(&mut self, out: &mut RoundOutput) -> Vec<PeerId> {
        let mut new = Vec::new();
        let epoch = self.root.epoch;
        for prefix in std::mem::take(&mut self.dirty.mentions) {
            let before = self.mentions.get(&prefix).copied();
            if self.prefixes.is_mentioned(prefix) {
                let id = self.hold_peer(self.unowned(prefix), &mut new);
                self.mentions.insert(prefix, id);
                self.leave_peer(before, Some(id));
                if before != Some(id) {
                    let entry = self.range_entry(id);
                    // A host's own entry is under the same key as its prefix.
                    if !self.is_host(prefix) {
                        out.peers.push(Action::PutPeer(epoch, prefix, entry));
                    }
                }
            } else if let Some(before) = before {
                self.mentions.remove(&prefix);
                self.leave_peer(Some(before), None);
                if !self.is_host(prefix) {
                    out.gone.push(Action::DeletePeer(epoch, prefix));
                }
            }
        }
        for address in std::mem::take(&mut self.dirty.hosts) {
            let prefix = Prefix::new(address, 128);
            let (wanted, bindings) = match self.describe(address) {
                Some((peer, flags, bindings)) => {
                    let id = self.hold_peer(peer, &mut new);
                    (Some(PeerEntry { peer: id, flags }), bindings)
                }
                None => (None, SmallVec::new()),
            };
            let Some(host) = self.hosts.get_mut(&address) else {
                continue;
            };
            let before = std::mem::replace(&mut host.said, wanted);
            let same = host.bindings == bindings;
            let old_bindings = std::mem::replace(&mut host.bindings, bindings);
            if wanted.is_none() && host.pods.is_empty() && host.nodes.is_empty() && !host.own {
                self.hosts.remove(&address);
            }
            self.leave_peer(before.map(|it| it.peer), wanted.map(|it| it.peer));
            if same {
                for binding in old_bindings {
                    self.release_binding(binding);
                }
            } else {
                self.leaving.now.bindings.extend(old_bindings);
            }
            match (before, wanted) {
                (_, Some(wanted)) if before != Some(wanted) => {
                    out.peers.push(Action::PutPeer(epoch, prefix, wanted));
                }
                (Some(_), None) => match self.mentions.get(&prefix) {
                    Some(peer) => {
                        let entry = self.range_entry(*peer);
                        out.peers.push(Action::PutPeer(epoch, prefix, entry));
                    }
                    None => out.gone.push(Action::DeletePeer(epoch, prefix)),
                },
                _ => {}
            }
        }
        new
    }

    /// Returns the peer of an unowned prefix or address: in a range of pods it counts as
    /// an unknown pod.
    pub(super) fn unowned(&self, prefix: Prefix) -> PeerClass {
        let atoms: Box<[AtomId]> = self.prefixes.signature(prefix).as_ref().into();
        let kind = if atoms.contains(&atom::UNKNOWN_POD) {
            PeerEntry::pod_kind(prefix.address())
        } else {
            PeerEntry::other_kind(prefix.address())
        };
        PeerClass { kind, atoms }
    }

    /// The entry of a range.
    fn range_entry(&self, peer: PeerId) -> PeerEntry {
        let is_pod = |it: &std::sync::Arc<PeerClass>| it.has(atom::UNKNOWN_POD);
        let flags = u32::from(self.peers.get(peer).is_some_and(is_pod)) * PeerEntry::POD;
        PeerEntry { peer, flags }
    }

    /// Releases the former peer of something; if it is the new one, that is released
    /// once, too.
    fn leave_peer(&mut self, old: Option<PeerId>, new: Option<PeerId>) {
        match old.filter(|it| *it >= PeerEntry::FIRST) {
            Some(old) if Some(old) == new => {
                self.peers.release(old);
            }
            Some(old) => self.leaving.now.peers.push(old),
            None => {}
        }
    }

    fn is_host(&self, prefix: Prefix) -> bool {
        prefix.bits() == 128
            && self
                .hosts
                .get(&prefix.first())
                .is_some_and(|it| it.said.is_some())
    }

    /// Returns the peer of an address, its flags, and its bindings.
    fn describe(&mut self, address: u128) -> Option<(PeerClass, u32, SmallVec<[u32; 1]>)> {
        let prefix = Prefix::new(address, 128);
        let other = PeerEntry::other_kind(prefix.address());
        let mut atoms: SmallVec<[AtomId; 16]> = SmallVec::new();
        let mut held: SmallVec<[u32; 1]> = SmallVec::new();
        let own = self.hosts.get(&address).is_some_and(|it| it.own);
        let here = |local: bool| u32::from(local && self.config.node.is_some()) * PeerEntry::LOCAL;
        let owner = self.owner(address);
        let (kind, flags) = match owner {
            Some(AddressOwner::Node(id)) => {
                let node = self.nodes.get(&id)?;
                let selectors = self.node_atoms.iter();
                atoms.extend(
                    selectors
                        .filter(|(_, selector)| selector.matches(&node.labels))
                        .map(|(number, _)| atom::atom(atom::NODES, number)),
                );
                (other, PeerEntry::NODE | here(node.local || own))
            }
            None if own => (other, PeerEntry::NODE | here(true)),
            // Pods whose namespaces are not known.
            None if self
                .hosts
                .get(&address)
                .is_some_and(|it| !it.pods.is_empty()) =>
            {
                atoms.push(atom::UNKNOWN_POD);
                (other | 2, PeerEntry::POD)
            }
            None => return None,
            Some(AddressOwner::Pod(id)) => {
                let pod = self.pods.get(&id)?;
                let state = self.namespaces.get(&pod.namespace)?;
                let selectors = state.atoms.candidates(&pod.labels).filter(|number| {
                    let selector = self.pod_atoms.get(*number);
                    selector.is_some_and(|it| it.pods.matches(&pod.labels))
                });
                atoms.extend(selectors.map(|number| atom::atom(atom::PODS, number)));
                let wanted: SmallVec<[Binding; 2]> = pod
                    .ports
                    .iter()
                    .filter(|it| self.names.contains_key(&it.name))
                    .cloned()
                    .collect();
                let flags = PeerEntry::POD | here(pod.local);
                for binding in wanted {
                    let number = self.hold_binding(binding);
                    held.push(number);
                    atoms.push(atom::atom(atom::PORT, number));
                }
                (other | 2, flags)
            }
        };
        let ranges = self.prefixes.signature(prefix);
        let ranges = ranges.iter().copied();
        atoms.extend(ranges.filter(|it| *it != atom::UNKNOWN_POD));
        atoms.sort_unstable();
        atoms.dedup();
        let atoms = atoms.as_slice().into();
        Some((PeerClass { kind, atoms }, flags, held))
    }

    fn hold_binding(&mut self, binding: Binding) -> u32 {
        let (name, range) = (binding.name.clone(), binding.port);
        let (number, new) = self.bindings.acquire(binding);
        if new {
            let port = self.ports.acquire(range);
            self.binding_ports.insert(number, port);
            let atoms = self.bindings_of.entry(name).or_default();
            atoms.push(atom::atom(atom::PORT, number));
        }
        number
    }

    pub(super) fn release_binding(&mut self, number: u32) {
        let Some(binding) = self.bindings.release(number) else {
            return;
        };
        if let Some(port) = self.binding_ports.remove(&number) {
            self.ports.release(port);
        }
        if let Some(atoms) = self.bindings_of.get_mut(&binding.name) {
            atoms.retain(|it| *it != atom::atom(atom::PORT, number));
            if atoms.is_empty() {
                self.bindings_of.remove(&binding.name);
            }
        }
    }

    fn hold_peer(&mut self, peer: PeerClass, new: &mut Vec<PeerId>) -> PeerId {
        if peer.atoms.is_empty() {
            return peer.kind;
        }
        let atoms = peer.atoms.clone();
        let (id, is_new) = self.peers.acquire(peer);
        if is_new {
            for atom in atoms {
                self.peers_of.entry(atom).or_default().insert(id);
            }
            new.push(id);
        }
        id
    }

    pub(super) fn release_peer(&mut self, id: PeerId, out: &mut RoundOutput) {
        if id < PeerEntry::FIRST {
            return;
        }
        let Some(peer) = self.peers.release(id) else {
            return;
        };
        let seers = self.seers(&peer);
        for atom in &peer.atoms {
            if let Some(peers) = self.peers_of.get_mut(atom) {
                peers.remove(&id);
                if peers.is_empty() {
                    self.peers_of.remove(atom);
                }
            }
        }
        for ruleset in seers {
            let Some(state) = self.rulesets.get_mut(&ruleset) else {
                continue;
            };
            if let Some(row) = state.rows.remove(&id) {
                let classes = row.entries().map(|(class, _)| class);
                let epoch = self.root.epoch;
                out.gone.extend(
                    classes.map(|class| Action::DeleteVerdict(key(epoch, ruleset, id, class))),
                );
            }
        }
    }

    /// Rulesets that tell a peer from others of its kind.
    pub(super) fn seers(&self, peer: &PeerClass) -> FxHashSet<RulesetId> {
        let mut seers = FxHashSet::default();
        for atom in &peer.atoms {
            if atom::sort(*atom) == atom::PORT {
                if let Some(binding) = self.bindings.get(atom::number(*atom)) {
                    seers.extend(
                        self.rulesets_of_name
                            .get(&binding.name)
                            .into_iter()
                            .flatten(),
                    );
                }
            } else {
                seers.extend(self.rulesets_of.get(atom).into_iter().flatten());
            }
        }
        seers
    }
}
