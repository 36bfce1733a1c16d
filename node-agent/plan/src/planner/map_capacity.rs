//! The capacity of the maps, and the part of a set that fits.

use ebpf_abi::{Service, ServiceFlags};

use super::set_size::{chunks_of, members_of};
use crate::compile::DesiredSet;

/// The number of entries of each map, or the most that it may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapCapacity {
    /// Service ports, each counted per address.
    pub services: usize,
    /// Backends.
    pub slots: usize,
    /// Backends of service ports with affinity or many backends.
    pub members: usize,
    /// Parts of tables for consistent hashing.
    pub chunks: usize,
    /// Source ranges.
    pub sources: usize,
}

/// How full a map is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fullness {
    /// The map, by its name in [`ebpf_abi::maps`].
    pub map: &'static str,
    /// Entries that the plan needs, or has room for, if that is less.
    pub used: usize,
    /// Entries that it takes.
    pub capacity: usize,
}

// === impl Room ===

impl MapCapacity {
    /// As many as there may come.
    pub const UNLIMITED: Self = Self {
        services: usize::MAX,
        slots: usize::MAX,
        members: usize::MAX,
        chunks: usize::MAX,
        sources: usize::MAX,
    };
    /// None.
    pub const NONE: Self = Self {
        services: 0,
        slots: 0,
        members: 0,
        chunks: 0,
        sources: 0,
    };

    pub(super) fn minus(&self, other: &Self) -> Self {
        Self {
            services: self.services.saturating_sub(other.services),
            slots: self.slots.saturating_sub(other.slots),
            members: self.members.saturating_sub(other.members),
            chunks: self.chunks.saturating_sub(other.chunks),
            sources: self.sources.saturating_sub(other.sources),
        }
    }

    pub(super) fn subtract(&mut self, other: &Self) {
        *self = self.minus(other);
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.services += other.services;
        self.slots += other.slots;
        self.members += other.members;
        self.chunks += other.chunks;
        self.sources += other.sources;
    }

    pub(super) fn give_back(&mut self, other: &Self) {
        self.slots = self.slots.saturating_add(other.slots);
        self.members = self.members.saturating_add(other.members);
        self.sources = self.sources.saturating_add(other.sources);
        // Not the parts of tables: a new table needs room beside the old one.
    }

    /// Reduces a set to the available room; returns true if something was left out.
    pub(super) fn fit(&self, desired: &mut DesiredSet) -> bool {
        let wanted = desired.backends.len();
        desired.backends.truncate(self.slots);
        // Those of this node may stand twice.
        let needed = members_of(desired);
        if needed > self.members {
            let affinity = desired.flags.contains(ServiceFlags::AFFINITY);
            let least = if affinity {
                0
            } else {
                Service::WALKED as usize
            };
            let most = desired.backends.len().saturating_sub(needed - self.members);
            desired.backends.truncate(most.max(least));
        }
        if chunks_of(desired.table) > self.chunks || desired.backends.is_empty() {
            desired.table = 0;
        }
        if desired.table == 0 && desired.flags.contains(ServiceFlags::MAGLEV) {
            desired.flags = ServiceFlags(desired.flags.0 & !ServiceFlags::MAGLEV.0);
            desired.missing += 1;
        }
        // A client whose range did not fit is not admitted.
        let ranges = desired.sources.len();
        desired.sources.truncate(self.sources);
        desired.missing += wanted - desired.backends.len() + ranges - desired.sources.len();
        desired.missing > 0
    }
}

// === impl Fullness ===

impl Fullness {
    /// No more than a tenth is left: time for larger maps.
    #[must_use]
    pub const fn is_near(&self) -> bool {
        self.used >= self.capacity - self.capacity / 10
    }
}
