//! The contents of the maps, and their changes.

use std::collections::BTreeMap;

use ebpf_abi::{
    Address, Backend, BackendFlags, MaglevChunk, MaglevKey, MemberKey, NodeFlags, Port, Protocol,
    Service, ServiceEntryKinds, ServiceFlags, ServiceKey, SlotKey,
};
use ipnet::IpNet;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::maglev;

/// A change of one entry of a map. Each is idempotent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Names a set.
    PutName(u32, Box<str>),
    /// Writes a slot: one that no entry refers to yet, or, where few backends
    /// of many change, the successor of a backend in its place.
    PutSlot(SlotKey, Backend),
    /// Writes a member.
    PutMember(MemberKey, u32),
    /// Writes a part of a table that no entry refers to yet.
    PutChunk(MaglevKey, Box<MaglevChunk>),
    /// Lets clients of a range use a set's restricted entries.
    PutSource(u32, IpNet),
    /// Makes an address one of the node's own.
    PutNode(Address, NodeFlags),
    /// Makes clients of a range ones that are inside.
    PutInside(IpNet),
    /// Says which entries there may be under a port.
    PutServed(Protocol, Port, ServiceEntryKinds),
    /// Writes a service's entry: from here on, clients see it.
    PutService(ServiceKey, Service),
    /// Removes a service's entry.
    DeleteService(ServiceKey),
    /// Removes a slot that no entry refers to any more.
    DeleteSlot(SlotKey),
    /// Removes a member of a generation that no entry refers to any more.
    DeleteMember(MemberKey),
    /// Removes a part of a table that no entry refers to any more.
    DeleteChunk(MaglevKey),
    /// Clients of a range may no longer use a set's restricted entries.
    DeleteSource(u32, IpNet),
    /// An address is none of the node's any more.
    DeleteNode(Address),
    /// Clients of a range are outside from now on.
    DeleteInside(IpNet),
    /// Forgets a set's name.
    DeleteName(u32),
}

/// The contents of the maps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Current {
    /// `SERVICES`.
    pub services: FxHashMap<ServiceKey, Service>,
    /// `SLOTS`.
    pub slots: FxHashMap<SlotKey, Backend>,
    /// `MEMBERS`.
    pub members: FxHashMap<MemberKey, u32>,
    /// `MAGLEV`.
    pub chunks: FxHashMap<MaglevKey, MaglevChunk>,
    /// `SOURCES`.
    pub sources: FxHashSet<(u32, IpNet)>,
    /// `NODES`.
    pub nodes: FxHashMap<Address, NodeFlags>,
    /// `INSIDE`.
    pub inside: FxHashSet<IpNet>,
    /// `SERVED`: the ports with any bits set.
    pub served: FxHashMap<(Protocol, Port), ServiceEntryKinds>,
    /// `NAMES`.
    pub names: FxHashMap<u32, Box<str>>,
}

impl Current {
    /// Applies an action to this copy as to the maps.
    pub fn apply(&mut self, action: &Action) {
        match action {
            Action::PutName(set, name) => {
                self.names.insert(*set, name.clone());
            }
            Action::PutSlot(key, backend) => {
                self.slots.insert(*key, *backend);
            }
            Action::PutMember(key, slot) => {
                self.members.insert(*key, *slot);
            }
            Action::PutServed(protocol, port, ServiceEntryKinds::NONE) => {
                self.served.remove(&(*protocol, *port));
            }
            Action::PutServed(protocol, port, served) => {
                self.served.insert((*protocol, *port), *served);
            }
            Action::PutService(key, service) => {
                self.services.insert(*key, *service);
            }
            Action::DeleteService(key) => {
                self.services.remove(key);
            }
            Action::DeleteSlot(key) => {
                self.slots.remove(key);
            }
            Action::DeleteMember(key) => {
                self.members.remove(key);
            }
            Action::DeleteName(set) => {
                self.names.remove(set);
            }
            Action::PutChunk(key, chunk) => {
                self.chunks.insert(*key, **chunk);
            }
            Action::PutSource(set, range) => {
                self.sources.insert((*set, *range));
            }
            Action::PutNode(address, flags) => {
                self.nodes.insert(*address, *flags);
            }
            Action::PutInside(range) => {
                self.inside.insert(*range);
            }
            Action::DeleteChunk(key) => {
                self.chunks.remove(key);
            }
            Action::DeleteSource(set, range) => {
                self.sources.remove(&(*set, *range));
            }
            Action::DeleteNode(address) => {
                self.nodes.remove(address);
            }
            Action::DeleteInside(range) => {
                self.inside.remove(range);
            }
        }
    }

    /// Returns the backends of an entry, in the order of slots; `None` if a slot is
    /// missing, or a member if affinity needs them, or a part of the table that
    /// consistent hashing needs, or if any of them is wrong.
    #[must_use]
    pub fn backends(&self, service: &Service) -> Option<Vec<Backend>> {
        let backends = self.slots_of(service)?;
        let hashed = service.flags.contains(ServiceFlags::MAGLEV);
        let whole = !hashed
            || maglev::chunks(&maglev::table(&backends, service.table))
                .enumerate()
                .all(|(number, chunk)| {
                    let place = u32::try_from(number).unwrap_or(u32::MAX);
                    let key = maglev::key(service.set, service.generation, place);
                    self.chunks.get(&key) == Some(&chunk)
                });
        whole.then_some(backends)
    }

    /// The backends in an entry's slots, whatever else is wrong.
    pub(crate) fn slots_of_entry(&self, service: &Service) -> Option<Vec<Backend>> {
        (0..service.count)
            .map(|slot| SlotKey::new(service.set, service.generation, slot))
            .map(|key| self.slots.get(&key).copied())
            .collect()
    }

    fn slots_of(&self, service: &Service) -> Option<Vec<Backend>> {
        let backends = self.slots_of_entry(service)?;
        let is_there = |(key, slot): &(MemberKey, u32)| self.members.get(key) == Some(slot);
        members(service, &backends)
            .iter()
            .all(is_there)
            .then_some(backends)
    }

    /// Returns the members that services lack whose slots are all there.
    #[must_use]
    pub fn missing_members(&self) -> Vec<(MemberKey, u32)> {
        let mut missing = BTreeMap::new();
        for service in self.services.values() {
            let backends = self.slots_of_entry(service).unwrap_or_default();
            let wanted = members(service, &backends).into_iter();
            missing.extend(wanted.filter(|(key, slot)| self.members.get(key) != Some(slot)));
        }
        missing.into_iter().collect()
    }
}

/// Returns the members of a service, whose backends are in the order of slots.
fn members(service: &Service, backends: &[Backend]) -> Vec<(MemberKey, u32)> {
    if !service.has_members() {
        return Vec::new();
    }
    let (id, generation) = (service.set, service.generation);
    let by_socket = (0..).zip(backends).map(|(slot, backend)| {
        let key = MemberKey::new(id, generation, backend.address, backend.port);
        (key, slot)
    });
    by_socket
        .chain(members_by_address(id, generation, backends))
        .collect()
}

/// As [`Service::is_large`].
pub(crate) fn is_large(backends: &[Backend]) -> bool {
    backends.len() > Service::WALKED as usize
}

/// The slots of a large set's backends on this node by their address alone; of several
/// at an address, the lowest.
pub(crate) fn members_by_address(
    id: u32,
    generation: u32,
    backends: &[Backend],
) -> BTreeMap<MemberKey, u32> {
    let mut members = BTreeMap::new();
    if is_large(backends) {
        for (slot, backend) in (0..).zip(backends) {
            if backend.flags.contains(BackendFlags::LOCAL) {
                let key = MemberKey::of_address(id, generation, backend.address);
                members.entry(key).or_insert(slot);
            }
        }
    }
    members
}
