//! What the maps hold, and what changes it.

use ebpf_abi::{Backend, MemberKey, Service, ServiceFlags, ServiceKey, SlotKey};
use rustc_hash::FxHashMap;

/// A change of one entry of a map. Each is idempotent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Names a set.
    PutName(u32, Box<str>),
    /// Writes a slot that no entry refers to yet.
    PutSlot(SlotKey, Backend),
    /// Writes a member of a generation that no entry refers to yet.
    PutMember(MemberKey, u32),
    /// Writes a service's entry: from here on, clients see it.
    PutService(ServiceKey, Service),
    /// Removes a service's entry.
    DeleteService(ServiceKey),
    /// Removes a slot that no entry refers to any more.
    DeleteSlot(SlotKey),
    /// Removes a member of a generation that no entry refers to any more.
    DeleteMember(MemberKey),
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
    /// `NAMES`.
    pub names: FxHashMap<u32, Box<str>>,
}

impl Current {
    /// Does to this copy what the action does to the maps.
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
        }
    }

    /// The backends that an entry leads to; none if a slot is missing, or a
    /// member where affinity needs them.
    #[must_use]
    pub fn backends(&self, service: &Service) -> Option<Vec<Backend>> {
        let slots = (0..service.count).map(|slot| {
            let backend = self
                .slots
                .get(&SlotKey::new(service.set, service.generation, slot))
                .copied()?;
            if service.flags.contains(ServiceFlags::AFFINITY) {
                let key = MemberKey::new(
                    service.set,
                    service.generation,
                    backend.address,
                    backend.port,
                );
                (self.members.get(&key) == Some(&slot)).then_some(backend)
            } else {
                Some(backend)
            }
        });
        slots.collect()
    }
}
