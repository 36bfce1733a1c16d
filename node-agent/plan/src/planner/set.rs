//! A set of backends as written in the maps.

use std::collections::BTreeMap;

use ebpf_abi::{
    Address, Backend, MaglevChunk, MaglevKey, MemberKey, Port, Protocol, Service as Entry,
    ServiceFlags, SlotKey,
};

use super::batch::Batch;
use super::map_capacity::MapCapacity;
use super::owner::Owner;
use super::set_size::{chunks_of, is_tracked, members_of};
use crate::compile::DesiredSet;
use crate::current::{is_large, members_by_address};
use crate::maglev;

#[derive(Debug)]
pub(super) struct Set {
    pub(super) owner: Owner,
    pub(super) created: u64,
    pub(super) generation: u32,
    /// Its backends, in the order of slots.
    pub(super) desired: DesiredSet,
}

/// The changes from the backends in slots to others.
#[derive(Default)]
struct Difference {
    /// Backends with another state in the same slot.
    changed: Vec<(u32, Backend)>,
    removed: Vec<(u32, Backend)>,
    added: Vec<Backend>,
}

impl Set {
    pub(super) fn new(owner: Owner, created: u64, desired: DesiredSet) -> Self {
        Self {
            owner,
            created,
            generation: 1,
            desired,
        }
    }

    pub(super) fn entry(&self, id: u32, flags: ServiceFlags) -> Entry {
        Entry {
            set: id,
            generation: self.generation,
            count: number(self.desired.backends.len()),
            flags: self.desired.flags.with(flags),
            affinity_seconds: self.desired.affinity_seconds,
            table: self.desired.table,
        }
    }

    /// Returns whether its backends are in `MEMBERS`.
    pub(super) fn is_tracked(&self) -> bool {
        is_tracked(&self.desired)
    }

    /// Returns the room that it takes in the maps, without entries.
    pub(super) fn size(&self) -> MapCapacity {
        let slots = self.desired.backends.len();
        MapCapacity {
            services: 0,
            slots,
            members: members_of(&self.desired),
            chunks: chunks_of(self.desired.table),
            sources: self.desired.sources.len(),
        }
    }

    pub(super) fn slots(&self, id: u32) -> impl Iterator<Item = (SlotKey, Backend)> {
        let generation = self.generation;
        (0..)
            .zip(&self.desired.backends)
            .map(move |(slot, backend)| (SlotKey::new(id, generation, slot), *backend))
    }

    pub(super) fn members(&self, id: u32) -> impl Iterator<Item = (MemberKey, u32)> {
        let generation = self.generation;
        let tracked = self.is_tracked();
        (0..)
            .zip(&self.desired.backends)
            .filter(move |_| tracked)
            .map(move |(slot, backend)| (member(id, generation, backend), slot))
            .chain(self.members_by_address(id))
    }

    /// Those of this node by their address alone, if the set is large.
    pub(super) fn members_by_address(&self, id: u32) -> BTreeMap<MemberKey, u32> {
        members_by_address(id, self.generation, &self.desired.backends)
    }

    pub(super) fn chunks(&self, id: u32) -> Vec<(MaglevKey, MaglevChunk)> {
        let table = maglev::table(&self.desired.backends, self.desired.table);
        let chunks = maglev::chunks(&table);
        self.chunk_keys(id).zip(chunks).collect()
    }

    pub(super) fn chunk_keys(&self, id: u32) -> impl Iterator<Item = MaglevKey> + use<> {
        let generation = self.generation;
        (0..number(chunks_of(self.desired.table)))
            .map(move |chunk| maglev::key(id, generation, chunk))
    }

    /// Changes the set to the desired one. If few backends change, they are replaced in
    /// their slots: each client sees the old backends or the new ones, and the cost is
    /// that of the change. Otherwise, and if a table for consistent hashing must match
    /// the slots, or datagrams must leave a backend, everything is written under the next
    /// generation, if that has room beside the former one.
    pub(super) fn update(
        &mut self,
        id: u32,
        desired: DesiredSet,
        spare: &MapCapacity,
        batch: &mut Batch,
    ) {
        let difference = Difference::of(&self.desired.backends, &desired.backends);
        let tracked = is_tracked(&desired);
        let same_form = tracked == self.is_tracked()
            && is_large(&desired.backends) == is_large(&self.desired.backends)
            && desired.table == self.desired.table;
        let hashed = desired.table != 0;
        let former_sources = std::mem::take(&mut self.desired.sources);
        batch.change_sources(id, &former_sources, &desired.sources);

        let count = desired.backends.len();
        let many = difference.len() * 2 > count.max(self.desired.backends.len());
        let has_room = count <= spare.slots && members_of(&desired) <= spare.members;
        // Flows of datagrams ask whether their backend has left when the generation is
        // another than theirs.
        let moves = !difference.removed.is_empty()
            && desired
                .keys
                .iter()
                .any(|it| it.key.protocol == Protocol::UDP);
        let anew = if same_form {
            difference.len() > 0 && (hashed || ((many || moves) && has_room))
        } else {
            true
        };
        if anew {
            batch.remove_generation(id, self);
            self.generation = self.generation.wrapping_add(1);
            self.desired = desired;
            batch.write_generation(id, self);
        } else {
            let backends = std::mem::take(&mut self.desired.backends);
            self.desired = DesiredSet {
                backends,
                ..desired
            };
            self.replace(id, difference, batch);
        }
    }

    /// Writes a difference into the slots of this generation.
    fn replace(&mut self, id: u32, difference: Difference, batch: &mut Batch) {
        let (generation, tracked) = (self.generation, self.is_tracked());
        let by_address = self.members_by_address(id);
        let backends = &mut self.desired.backends;
        let mut place = |slot: u32, backend: Backend| {
            batch.put_slot(SlotKey::new(id, generation, slot), backend);
            if tracked {
                batch.put_member(member(id, generation, &backend), slot);
            }
        };
        let Difference {
            changed,
            mut removed,
            added,
        } = difference;
        let gone: Vec<Backend> = removed.iter().map(|(_, backend)| *backend).collect();
        for (slot, backend) in changed {
            if let Some(old) = backends.get_mut(slot as usize) {
                *old = backend;
                place(slot, backend);
            }
        }
        // Lowest slots first, so that the last ones remain for what follows.
        removed.sort_unstable_by_key(|(slot, _)| std::cmp::Reverse(*slot));
        for backend in added {
            if let Some((slot, _)) = removed.pop() {
                if let Some(old) = backends.get_mut(slot as usize) {
                    *old = backend;
                    place(slot, backend);
                }
            } else {
                place(number(backends.len()), backend);
                backends.push(backend);
            }
        }
        // From the last one down: the last one is then never one that is removed.
        let mut emptied = Vec::with_capacity(removed.len());
        for (slot, _) in removed {
            let Some(last) = backends.pop() else { continue };
            let end = number(backends.len());
            if let Some(old) = backends.get_mut(slot as usize) {
                *old = last;
                place(slot, last);
            }
            emptied.push(SlotKey::new(id, generation, end));
        }
        for key in emptied {
            batch.delete_slot(key);
        }
        if tracked {
            for backend in gone {
                batch.delete_member(member(id, generation, &backend));
            }
        }
        let now = self.members_by_address(id);
        for (key, slot) in &now {
            if by_address.get(key) != Some(slot) {
                batch.put_member(*key, *slot);
            }
        }
        for key in by_address.keys().filter(|key| !now.contains_key(key)) {
            batch.delete_member(*key);
        }
    }
}

pub(super) fn member(id: u32, generation: u32, backend: &Backend) -> MemberKey {
    MemberKey::new(id, generation, backend.address, backend.port)
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn socket(backend: &Backend) -> (Address, Port) {
    (backend.address, backend.port)
}

// === impl Difference ===

impl Difference {
    /// Computes the changes from backends in slots, in any order, to sorted ones.
    fn of(slots: &[Backend], sorted: &[Backend]) -> Self {
        let mut difference = Self::default();
        if slots == sorted {
            return difference;
        }
        let mut old: Vec<(u32, Backend)> = (0..).zip(slots.iter().copied()).collect();
        old.sort_unstable_by_key(|(_, backend)| socket(backend));
        let (mut old, mut new) = (old.into_iter().peekable(), sorted.iter().peekable());
        loop {
            let order = match (old.peek(), new.peek()) {
                (None, None) => return difference,
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some((_, a)), Some(b)) => socket(a).cmp(&socket(b)),
            };
            if order.is_lt() {
                difference.removed.extend(old.next());
            } else if order.is_gt() {
                difference.added.extend(new.next());
            } else if let (Some((slot, a)), Some(b)) = (old.next(), new.next())
                && a != *b
            {
                difference.changed.push((slot, *b));
            }
        }
    }

    fn len(&self) -> usize {
        self.changed.len() + self.removed.len().max(self.added.len())
    }
}
