//! Actions by kind, joined in the order in which each prefix is sound.

use std::collections::BTreeSet;

use ebpf_abi::{
    Backend, MemberKey, Port, Protocol, Scope, Service as Entry, ServiceEntryKinds, ServiceKey,
    SlotKey,
};
use ipnet::IpNet;

use super::owner::Owner;
use super::set::Set;
use crate::current::Action;
use crate::node::Node;

#[derive(Default)]
pub(super) struct Batch {
    names: Vec<Action>,
    slots: Vec<Action>,
    /// Further properties of the node.
    details: Vec<Action>,
    entries: Vec<(ServiceKey, Entry)>,
    removed_entries: Vec<ServiceKey>,
    removed_slots: Vec<Action>,
    removed_details: Vec<Action>,
    removed_names: Vec<Action>,
    /// Keys whose entry may have to change.
    pub(super) touched: Vec<ServiceKey>,
    /// Objects whose problems may have changed.
    pub(super) owners: BTreeSet<Owner>,
}

impl Batch {
    pub(super) fn name(&mut self, id: u32, name: &str) {
        self.names.push(Action::PutName(id, name.into()));
    }

    pub(super) fn unname(&mut self, id: u32) {
        self.removed_names.push(Action::DeleteName(id));
    }

    /// Writes all of a set but its entries.
    pub(super) fn write(&mut self, id: u32, set: &Set) {
        self.write_generation(id, set);
        self.change_sources(id, &[], &set.desired.sources);
    }

    /// Removes all of a set but its entries.
    pub(super) fn remove(&mut self, id: u32, set: &Set) {
        self.remove_generation(id, set);
        self.change_sources(id, &set.desired.sources, &[]);
    }

    pub(super) fn write_generation(&mut self, id: u32, set: &Set) {
        for (key, backend) in set.slots(id) {
            self.put_slot(key, backend);
        }
        for (key, slot) in set.members(id) {
            self.put_member(key, slot);
        }
        for (key, chunk) in set.chunks(id) {
            self.details.push(Action::PutChunk(key, Box::new(chunk)));
        }
    }

    pub(super) fn remove_generation(&mut self, id: u32, set: &Set) {
        for (key, _) in set.slots(id) {
            self.delete_slot(key);
        }
        for (key, _) in set.members(id) {
            self.delete_member(key);
        }
        let chunks = set.chunk_keys(id).map(Action::DeleteChunk);
        self.removed_details.extend(chunks);
    }

    pub(super) fn put_slot(&mut self, key: SlotKey, backend: Backend) {
        self.slots.push(Action::PutSlot(key, backend));
    }

    pub(super) fn put_member(&mut self, key: MemberKey, slot: u32) {
        self.details.push(Action::PutMember(key, slot));
    }

    pub(super) fn delete_slot(&mut self, key: SlotKey) {
        self.removed_slots.push(Action::DeleteSlot(key));
    }

    pub(super) fn delete_member(&mut self, key: MemberKey) {
        self.removed_details.push(Action::DeleteMember(key));
    }

    pub(super) fn change_sources(&mut self, id: u32, former: &[IpNet], now: &[IpNet]) {
        let without = |all: &[IpNet], these: &[IpNet]| -> Vec<IpNet> {
            all.iter()
                .filter(|range| these.binary_search(range).is_err())
                .copied()
                .collect()
        };
        for range in without(now, former) {
            self.details.push(Action::PutSource(id, range));
        }
        for range in without(former, now) {
            self.delete_source(id, range, !now.is_empty());
        }
    }

    /// Removes a source range. Clients that the new ranges exclude may be excluded before
    /// the entries change, and must be before an entry shows the set under a new key; but
    /// if there are no ranges any more (not `restricted`), the old entries need theirs.
    pub(super) fn delete_source(&mut self, id: u32, range: IpNet, restricted: bool) {
        let action = Action::DeleteSource(id, range);
        if restricted {
            self.details.push(action);
        } else {
            self.removed_details.push(action);
        }
    }

    /// Sets both the old and the new bits for a moment: entries are added and removed in
    /// between.
    pub(super) fn change_served(
        &mut self,
        (protocol, port): (Protocol, Port),
        former: ServiceEntryKinds,
        now: ServiceEntryKinds,
    ) {
        let both = former.with(now);
        if both != former {
            self.details.push(Action::PutServed(protocol, port, both));
        }
        if now != both {
            self.removed_details
                .push(Action::PutServed(protocol, port, now));
        }
    }

    pub(super) fn change_node(&mut self, former: &Node, now: &Node) {
        let mut put: Vec<_> = now
            .addresses
            .iter()
            .filter(|(address, flags)| former.addresses.get(address) != Some(flags))
            .collect();
        put.sort_unstable();
        let put = put.into_iter();
        self.details
            .extend(put.map(|(address, flags)| Action::PutNode(*address, *flags)));
        let mut gone: Vec<_> = former
            .addresses
            .keys()
            .filter(|address| !now.addresses.contains_key(address))
            .collect();
        gone.sort_unstable();
        let gone = gone.into_iter();
        self.removed_details
            .extend(gone.map(|address| Action::DeleteNode(*address)));
        let mut put: Vec<_> = now.inside.difference(&former.inside).collect();
        put.sort_unstable();
        let put = put.into_iter();
        self.details
            .extend(put.map(|range| Action::PutInside(*range)));
        let mut gone: Vec<_> = former.inside.difference(&now.inside).collect();
        gone.sort_unstable();
        let gone = gone.into_iter();
        self.removed_details
            .extend(gone.map(|range| Action::DeleteInside(*range)));
    }

    pub(super) fn other(&mut self, action: Action) {
        match action {
            Action::DeleteSlot(_) => self.removed_slots.push(action),
            Action::DeleteName(_) => self.removed_names.push(action),
            Action::PutName(..) => self.names.push(action),
            Action::PutSlot(..) => self.slots.push(action),
            Action::PutService(key, entry) => self.entries.push((key, entry)),
            Action::DeleteService(key) => self.removed_entries.push(key),
            Action::PutMember(..)
            | Action::PutChunk(..)
            | Action::PutSource(..)
            | Action::PutNode(..)
            | Action::PutServed(..)
            | Action::PutInside(..) => self.details.push(action),
            Action::DeleteMember(_)
            | Action::DeleteChunk(_)
            | Action::DeleteSource(..)
            | Action::DeleteNode(_)
            | Action::DeleteInside(_) => self.removed_details.push(action),
        }
    }

    pub(super) fn enter(&mut self, key: ServiceKey, entry: Entry) {
        self.entries.push((key, entry));
    }

    pub(super) fn withdraw(&mut self, key: ServiceKey) {
        self.removed_entries.push(key);
    }

    pub(super) fn actions(mut self) -> Vec<Action> {
        let mut actions = self.names;
        actions.append(&mut self.slots);
        actions.append(&mut self.details);
        // An entry that sends clients outside to another goes after that one.
        self.entries
            .sort_by_key(|(key, _)| key.scope == Scope::INTERNAL);
        let entries = self.entries.into_iter();
        actions.extend(entries.map(|(key, entry)| Action::PutService(key, entry)));
        let removed = self.removed_entries.into_iter();
        actions.extend(removed.map(Action::DeleteService));
        actions.append(&mut self.removed_slots);
        actions.append(&mut self.removed_details);
        actions.append(&mut self.removed_names);
        actions
    }
}
