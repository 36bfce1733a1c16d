//! Compares the whole plan with the contents of the maps.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use ebpf_abi::{Backend, Protocol, ServiceFlags, ServiceKey};
use rustc_hash::{FxHashMap, FxHashSet};

use super::batch::Batch;
use super::claims::Claimant;
use super::set::{Set, member};
use super::set_size::chunks_of;
use super::{
    Action, DesiredSet, MapCapacity, Node, Owner, Planner, Ports, RemovedBackends, overriding,
};
use crate::current::Current;

impl Planner {
    /// Compares the whole plan with the contents of the maps. Correct entries stay,
    /// including identifiers and generations, so that a restart changes nothing. Must be
    /// called once all objects are known, and whenever actions could not be applied.
    pub fn resync(&mut self, current: &Current) -> Vec<Action> {
        self.started = true;
        self.sets.clear();
        self.keys.clear();
        self.starved.clear();
        self.used = MapCapacity::NONE;
        self.ports = Ports::said(&current.served);
        let seen = SeenIdentifiers::of(current);
        self.last_id = seen.last_id;
        let mut batch = Batch::default();
        for (owner, created, desired) in self.wanted() {
            let ids = desired
                .into_iter()
                .map(|desired| self.adopt(&owner, created, desired, &seen, current, &mut batch))
                .collect();
            self.keep_ids(&owner, ids);
            batch.owners.insert(owner);
        }
        batch.owners.extend(self.problems.keys().cloned());
        self.note_gone_meanwhile(current);
        self.compare_entries(current, &mut batch);
        self.remove_surplus(current, &mut batch);
        self.ports.flush(&mut batch);
        batch.change_node(
            &Node {
                addresses: current.nodes.clone(),
                inside: current.inside.clone(),
                reserved: FxHashSet::default(),
            },
            &self.node,
        );
        for owner in std::mem::take(&mut batch.owners) {
            self.judge(owner);
        }
        batch.actions()
    }

    /// Everything that is to be, in the order of names, so that equal objects
    /// give equal numbers.
    fn wanted(&mut self) -> Vec<(Owner, u64, Vec<DesiredSet>)> {
        let mut wanted = vec![(Owner::Override, 0, overriding(&self.overrides))];
        let mut keys: Vec<_> = self.services.keys().cloned().collect();
        keys.sort_unstable();
        for key in keys {
            if let Some((_, created, desired)) = self.plan_service(&key) {
                wanted.push((Owner::Service(key), created, desired));
            }
        }
        let mut keys: Vec<_> = self.pods.keys().cloned().collect();
        keys.sort_unstable();
        for key in keys {
            if let Some(known) = self.pods.get(&key) {
                let sets = known.state.sets(&key);
                wanted.push((Owner::Pod(key), known.state.created, sets));
            }
        }
        wanted
    }

    /// Adopts a set from the maps, or rewrites it.
    fn adopt(
        &mut self,
        owner: &Owner,
        created: u64,
        mut desired: DesiredSet,
        seen: &SeenIdentifiers<'_>,
        current: &Current,
        batch: &mut Batch,
    ) -> u32 {
        if self.room.minus(&self.used).fit(&mut desired) {
            self.starved.insert(owner.clone());
        }
        let id = seen
            .ids
            .get(&*desired.name)
            .copied()
            .unwrap_or_else(|| self.next_id());
        let mut set = Set::new(owner.clone(), created, desired);
        let former = seen.generations.get(&id).copied();
        set.generation = former.unwrap_or(1);
        let kept = former
            .and_then(|_| current.backends(&set.entry(id, ServiceFlags::NONE)))
            .filter(|slots| are_equal(slots, &set.desired.backends));
        if let Some(slots) = kept {
            // In the order of the slots, which is another after changes in place.
            set.desired.backends = slots;
        } else {
            set.generation = former.unwrap_or_default().wrapping_add(1);
            batch.write_generation(id, &set);
        }
        for range in &set.desired.sources {
            if !current.sources.contains(&(id, *range)) {
                batch.other(Action::PutSource(id, *range));
            }
        }
        if current.names.get(&id) != Some(&set.desired.name) {
            batch.name(id, &set.desired.name);
        }
        for key in &set.desired.keys {
            let claimant = Claimant {
                set: id,
                flags: key.flags,
                rank: key.rank,
            };
            let claim = self.keys.entry(key.key).or_default();
            claim.claimants.push(claimant);
        }
        self.used.add(&set.size());
        self.sets.insert(id, set);
        id
    }

    fn compare_entries(&mut self, current: &Current, batch: &mut Batch) {
        let mut keys: Vec<_> = self.keys.keys().copied().collect();
        keys.sort_unstable();
        for key in keys {
            let winner = self.winner(&key);
            let mut entry = winner.map(|(_, entry)| entry);
            if let Some((id, _)) = winner
                && self.used.services >= self.room.services
            {
                entry = None;
                let owner = self.sets.get(&id).map(|set| set.owner.clone());
                self.starved.extend(owner);
            }
            if let Some(entry) = entry {
                self.used.services += 1;
                self.ports.enter(&key);
                if current.services.get(&key) != Some(&entry) {
                    batch.enter(key, entry);
                }
            }
            if let Some(claim) = self.keys.get_mut(&key) {
                claim.written = entry;
            }
        }
    }

    /// Removes everything in the maps that is not in the plan; sorted, so that equal maps
    /// lead to equal actions.
    fn remove_surplus(&self, current: &Current, batch: &mut Batch) {
        let stands = |key: &ServiceKey| self.keys.get(key).is_some_and(|it| it.written.is_some());
        let gone = sorted(current.services.keys().filter(|key| !stands(key)));
        gone.into_iter().for_each(|key| batch.withdraw(key));
        let set = |id: u32, generation: u32| {
            let set = self.sets.get(&id)?;
            (set.generation == generation).then_some(set)
        };
        let gone = sorted(current.slots.keys().filter(|key| {
            set(key.set, key.generation)
                .is_none_or(|set| key.slot as usize >= set.desired.backends.len())
        }));
        gone.into_iter().for_each(|key| batch.delete_slot(key));
        let by_address: BTreeMap<_, _> = self
            .sets
            .iter()
            .flat_map(|(id, set)| set.members_by_address(*id))
            .collect();
        let gone = sorted(current.members.iter().filter_map(|(key, slot)| {
            let set = set(key.set, key.generation).filter(|set| set.is_tracked());
            let backend = set.and_then(|set| set.desired.backends.get(*slot as usize));
            let right = backend.is_some_and(|it| member(key.set, key.generation, it) == *key)
                || by_address.get(key) == Some(slot);
            (!right).then_some(key)
        }));
        gone.into_iter().for_each(|key| batch.delete_member(key));
        let gone = sorted(current.chunks.keys().filter(|key| {
            set(key.set, key.generation)
                .is_none_or(|set| key.chunk as usize >= chunks_of(set.desired.table))
        }));
        gone.into_iter()
            .for_each(|key| batch.other(Action::DeleteChunk(key)));
        let gone = sorted(current.sources.iter().filter(|(id, range)| {
            let set = self.sets.get(id);
            set.is_none_or(|set| set.desired.sources.binary_search(range).is_err())
        }));
        gone.into_iter().for_each(|(id, range)| {
            let restricted = self
                .sets
                .get(&id)
                .is_some_and(|set| !set.desired.sources.is_empty());
            batch.delete_source(id, range, restricted);
        });
        let gone = sorted(
            current
                .names
                .keys()
                .filter(|id| !self.sets.contains_key(id)),
        );
        gone.into_iter().for_each(|id| batch.unname(id));
    }

    /// Records UDP backends that are in the maps but not in the objects: they were
    /// removed while no agent ran.
    fn note_gone_meanwhile(&mut self, current: &Current) {
        let entries = current
            .services
            .iter()
            .filter(|(key, _)| key.protocol == Protocol::UDP);
        let mut found: Vec<(ServiceKey, Vec<SocketAddr>)> = Vec::new();
        for (key, entry) in entries {
            let mut backends: Vec<SocketAddr> = current
                .slots_of_entry(entry)
                .unwrap_or_default()
                .iter()
                .map(|it| SocketAddr::new(it.address.into(), it.port.get()))
                .filter(|backend| !self.serves(key, backend))
                .collect();
            if !backends.is_empty() {
                backends.sort_unstable();
                found.push((*key, backends));
            }
        }
        found.sort_unstable();
        self.gone
            .extend(found.into_iter().map(|(key, backends)| RemovedBackends {
                keys: vec![key],
                protocol: Protocol::UDP,
                backends,
            }));
    }

    fn serves(&self, key: &ServiceKey, backend: &SocketAddr) -> bool {
        let Some(set) = self.winner(key).and_then(|(id, _)| self.sets.get(&id)) else {
            return false;
        };
        let socket = (backend.ip().into(), backend.port());
        match &set.owner {
            Owner::Service(name) => self.services.get(name).is_some_and(|known| {
                known
                    .datagrams
                    .iter()
                    .any(|it| it.keys.contains(key) && it.serving.binary_search(&socket).is_ok())
            }),
            Owner::Override | Owner::Pod(_) => set
                .desired
                .backends
                .iter()
                .any(|it| (it.address, it.port.get()) == socket),
        }
    }
}

fn are_equal(slots: &[Backend], sorted: &[Backend]) -> bool {
    if slots == sorted {
        return true;
    }
    let mut slots = slots.to_vec();
    slots.sort_unstable();
    slots == sorted
}

fn sorted<'a, T: Ord + Copy + 'a>(all: impl Iterator<Item = &'a T>) -> Vec<T> {
    let mut all: Vec<T> = all.copied().collect();
    all.sort_unstable();
    all
}

/// The identifiers found in a copy of the maps.
#[derive(Default)]
struct SeenIdentifiers<'a> {
    ids: FxHashMap<&'a str, u32>,
    /// The newest generation of each set with any entries, including leftovers of an
    /// interrupted update.
    generations: FxHashMap<u32, u32>,
    last_id: u32,
}

impl<'a> SeenIdentifiers<'a> {
    fn of(current: &'a Current) -> Self {
        let mut seen = Self::default();
        for (id, name) in &current.names {
            // Two sets of one name: the older one.
            let entry = seen.ids.entry(name).or_insert(*id);
            *entry = (*entry).min(*id);
            seen.last_id = seen.last_id.max(*id);
        }
        for service in current.services.values() {
            seen.note(service.set, service.generation);
        }
        for key in current.slots.keys() {
            seen.note(key.set, key.generation);
        }
        for key in current.members.keys() {
            seen.note(key.set, key.generation);
        }
        for key in current.chunks.keys() {
            seen.note(key.set, key.generation);
        }
        for (set, _) in &current.sources {
            seen.last_id = seen.last_id.max(*set);
        }
        seen
    }

    fn note(&mut self, set: u32, generation: u32) {
        self.last_id = self.last_id.max(set);
        let newest = self.generations.entry(set).or_insert(generation);
        *newest = (*newest).max(generation);
    }
}
