//! Tracks the ports of written entries.

use std::collections::BTreeMap;

use ebpf_abi::{Port, Protocol, ServiceEntryKinds, ServiceKey};
use rustc_hash::FxHashMap;

use super::batch::Batch;

/// Entries by port, counted, and what changed since that was last told.
#[derive(Debug, Default)]
pub(super) struct Ports {
    counts: FxHashMap<PortAddress, Count>,
    /// The former bits of ports.
    former: BTreeMap<PortAddress, ServiceEntryKinds>,
}

type PortAddress = (Protocol, Port);

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    addresses: u32,
    node: u32,
}

// === impl Ports ===

impl Ports {
    /// Returns the bits of ports before any change.
    pub(super) fn said(said: &FxHashMap<PortAddress, ServiceEntryKinds>) -> Self {
        Self {
            counts: FxHashMap::default(),
            former: said.iter().map(|(at, served)| (*at, *served)).collect(),
        }
    }

    /// An entry is to be written that is not there.
    pub(super) fn enter(&mut self, key: &ServiceKey) {
        *self.change(key) += 1;
    }

    /// An entry is to be removed.
    pub(super) fn withdraw(&mut self, key: &ServiceKey) {
        let count = self.change(key);
        *count = count.saturating_sub(1);
    }

    fn change(&mut self, key: &ServiceKey) -> &mut u32 {
        let at = (key.protocol, key.port);
        let now = self.now(at);
        self.former.entry(at).or_insert(now);
        let count = self.counts.entry(at).or_default();
        if ServiceEntryKinds::from_key(key) == ServiceEntryKinds::NODE {
            &mut count.node
        } else {
            &mut count.addresses
        }
    }

    fn now(&self, at: PortAddress) -> ServiceEntryKinds {
        self.counts
            .get(&at)
            .map_or(ServiceEntryKinds::NONE, |count| count.served())
    }

    /// Emits the changes: additions before any entry, removals after all.
    pub(super) fn flush(&mut self, batch: &mut Batch) {
        for (at, former) in std::mem::take(&mut self.former) {
            let now = self.now(at);
            if now == ServiceEntryKinds::NONE {
                self.counts.remove(&at);
            }
            batch.change_served(at, former, now);
        }
    }
}

// === impl Count ===

impl Count {
    fn served(self) -> ServiceEntryKinds {
        let addresses =
            [ServiceEntryKinds::NONE, ServiceEntryKinds::ADDRESS][usize::from(self.addresses > 0)];
        let node = [ServiceEntryKinds::NONE, ServiceEntryKinds::NODE][usize::from(self.node > 0)];
        addresses.with(node)
    }
}
