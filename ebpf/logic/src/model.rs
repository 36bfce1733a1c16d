//! The maps as ordinary collections, for tests and for tools that walk the
//! decisions over a copy of the kernel's maps.
//!
//! What this cannot show: values overwritten while they are read, eviction
//! from maps that are full, and what the verifier makes of the code.

use core::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::vec::Vec;

use ebpf_abi::{
    Address, Affinity, AffinityKey, Backend, Counter, MemberKey, Original, OriginalKey, Port,
    Protocol, Sealed, Service, ServiceKey, SlotKey,
};

use crate::maps::{Entropy, Maps};
use crate::socket::{Family, Peer, Socket};

/// Maps in memory; all public, so that tests may write anything.
#[derive(Default, Debug)]
pub struct Model {
    /// `SERVICES`.
    pub services: BTreeMap<ServiceKey, Sealed<Service>>,
    /// `SLOTS`.
    pub slots: BTreeMap<SlotKey, Sealed<Backend>>,
    /// `MEMBERS`.
    pub members: BTreeMap<MemberKey, u32>,
    /// `ORIGINALS`.
    pub originals: RefCell<BTreeMap<OriginalKey, Sealed<Original>>>,
    /// `AFFINITY`.
    pub affinity: RefCell<BTreeMap<AffinityKey, Sealed<Affinity>>>,
    /// `COUNTERS`.
    pub counters: RefCell<BTreeMap<Counter, u64>>,
    /// What was told.
    pub told: RefCell<Vec<(Counter, ServiceKey)>>,
    /// How many entries `ORIGINALS` takes; none: any number.
    pub originals_capacity: Option<usize>,
    /// The next random number.
    pub random: Cell<u32>,
    /// The time.
    pub now: Cell<u64>,
}

/// A socket in a hook.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModelSocket {
    /// Family of the address.
    pub family: Family,
    /// Protocol.
    pub protocol: Protocol,
    /// The address.
    pub peer: Peer,
    /// The socket's cookie.
    pub cookie: u64,
    /// Its namespace's cookie.
    pub namespace: u64,
}

// === impl Model ===

impl Model {
    /// Writes a service with its backends, as user space does.
    pub fn put(&mut self, key: ServiceKey, service: Service, backends: &[Backend]) {
        for (number, backend) in backends.iter().enumerate() {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            let slot = SlotKey::new(service.set, service.generation, number);
            self.slots.insert(slot, Sealed::new(&slot, *backend));
            let member = MemberKey::new(
                service.set,
                service.generation,
                backend.address,
                backend.port,
            );
            self.members.insert(member, number);
        }
        self.services.insert(key, Sealed::new(&key, service));
    }

    /// How often something was counted.
    #[must_use]
    pub fn counted(&self, counter: Counter) -> u64 {
        self.counters
            .borrow()
            .get(&counter)
            .copied()
            .unwrap_or_default()
    }
}

impl Maps for Model {
    fn service(&self, key: &ServiceKey) -> Option<Sealed<Service>> {
        self.services.get(key).copied()
    }

    fn slot(&self, key: &SlotKey) -> Option<Sealed<Backend>> {
        self.slots.get(key).copied()
    }

    fn member(&self, key: &MemberKey) -> Option<u32> {
        self.members.get(key).copied()
    }

    fn original(&self, key: &OriginalKey) -> Option<Sealed<Original>> {
        self.originals.borrow().get(key).copied()
    }

    fn remember(&self, key: &OriginalKey, value: &Sealed<Original>) -> bool {
        let mut originals = self.originals.borrow_mut();
        if self
            .originals_capacity
            .is_some_and(|most| originals.len() >= most)
            && !originals.contains_key(key)
        {
            return false;
        }
        originals.insert(*key, *value);
        true
    }

    fn forget(&self, key: &OriginalKey) {
        self.originals.borrow_mut().remove(key);
    }

    fn affinity(&self, key: &AffinityKey) -> Option<Sealed<Affinity>> {
        self.affinity.borrow().get(key).copied()
    }

    fn keep(&self, key: &AffinityKey, value: &Sealed<Affinity>) {
        self.affinity.borrow_mut().insert(*key, *value);
    }

    fn count(&self, counter: Counter) {
        *self.counters.borrow_mut().entry(counter).or_default() += 1;
    }

    fn tell(&self, what: Counter, asked: &ServiceKey) {
        self.told.borrow_mut().push((what, *asked));
    }
}

impl Entropy for Model {
    fn random(&self) -> u32 {
        // A Weyl sequence: reproducible, and every value comes up.
        let next = self.random.get().wrapping_add(0x9e37_79b9);
        self.random.set(next);
        next
    }

    fn now(&self) -> u64 {
        self.now.get()
    }
}

// === impl ModelSocket ===

impl ModelSocket {
    /// A socket that names a peer.
    #[must_use]
    pub fn new(family: Family, protocol: Protocol, address: Address, port: Port) -> Self {
        Self {
            family,
            protocol,
            peer: Peer { address, port },
            cookie: 1,
            namespace: 1,
        }
    }
}

impl Socket for ModelSocket {
    fn family(&self) -> Family {
        self.family
    }

    fn protocol(&self) -> Protocol {
        self.protocol
    }

    fn peer(&self) -> Peer {
        self.peer
    }

    fn set_peer(&mut self, peer: Peer) {
        // What an `AF_INET` address cannot hold is lost, as in the kernel.
        self.peer = match self.family {
            Family::V4 => Peer {
                address: Address::v4(peer.address.last_word().to_ne_bytes()),
                port: peer.port,
            },
            Family::V6 => peer,
        };
    }

    fn cookie(&self) -> u64 {
        self.cookie
    }

    fn namespace(&self) -> u64 {
        self.namespace
    }
}
