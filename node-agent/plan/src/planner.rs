//! Keeps what was planned and says what to change.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use ebpf_abi::{
    Address, Backend, BackendFlags, MemberKey, Port, Protocol, Service as Entry, ServiceFlags,
    ServiceKey, SlotKey,
};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use crate::compile::{Desired, ServiceState, SliceState, sets};
use crate::current::{Action, Current};
use crate::objects::{EndpointSlice, Service};

/// The label that names an EndpointSlice's Service.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// What the plan depends on besides API objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// This node's name: endpoints that run on it are local.
    pub node: String,
    /// Addresses that this node answers itself.
    pub overrides: Vec<Override>,
}

/// An address that this node answers itself, whatever the API says of it: the
/// cluster's DNS, served by each node's agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Override {
    /// For people.
    pub name: String,
    /// What clients address.
    pub address: IpAddr,
    /// And its port.
    pub port: u16,
    /// And its protocol.
    pub protocol: Protocol,
    /// Who answers: addresses of the same family as `address`; any of this
    /// node's, loopback ones only for clients in the node's own namespace.
    pub backends: Vec<SocketAddr>,
}

/// The plan: API objects as far as they matter, the sets made of them, and
/// what the maps hold after the actions handed out so far.
///
/// Until the first [`resync`](Self::resync) it only collects: a Service whose
/// EndpointSlices have not been listed yet must not lose its backends.
#[derive(Debug, Default)]
pub struct Planner {
    config: Config,
    services: FxHashMap<Box<str>, Known>,
    /// Which service a slice belongs to.
    slices: FxHashMap<Box<str>, Box<str>>,
    sets: FxHashMap<u32, Set>,
    ids: FxHashMap<Box<str>, u32>,
    keys: FxHashMap<ServiceKey, Claim>,
    last_id: u32,
    started: bool,
}

/// A service and its slices; either may be known before the other.
#[derive(Debug, Default)]
struct Known {
    service: Option<ServiceState>,
    slices: BTreeMap<Box<str>, SliceState>,
    sets: SmallVec<[u32; 2]>,
}

#[derive(Debug)]
struct Set {
    rank: Rank,
    generation: u32,
    desired: Desired,
}

/// Who has a key, if several want it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Override,
    Service,
}

/// The sets that want a key, and what is written there.
#[derive(Debug, Default)]
struct Claim {
    sets: SmallVec<[u32; 2]>,
    written: Option<Entry>,
}

/// Actions by kind: joined in the order in which each prefix is sound.
#[derive(Default)]
struct Batch {
    names: Vec<Action>,
    slots: Vec<Action>,
    members: Vec<Action>,
    entries: Vec<Action>,
    removed_entries: Vec<Action>,
    removed_slots: Vec<Action>,
    removed_members: Vec<Action>,
    removed_names: Vec<Action>,
    /// Keys whose entry may have to change.
    touched: Vec<ServiceKey>,
}

// === impl Planner ===

impl Planner {
    /// An empty plan.
    #[must_use]
    pub fn new(config: Config) -> Self {
        Self {
            config,
            ..Self::default()
        }
    }

    /// A Service appeared, changed or (`None`) went.
    pub fn service_changed(
        &mut self,
        namespace: &str,
        name: &str,
        service: Option<&Service>,
    ) -> Vec<Action> {
        let key = join(namespace, name);
        let state = service.and_then(ServiceState::of);
        if state.is_none() && !self.services.contains_key(&key) {
            return Vec::new();
        }
        let known = self.services.entry(key.clone()).or_default();
        if known.service == state {
            return Vec::new();
        }
        known.service = state;
        self.replan(&[key])
    }

    /// An EndpointSlice appeared, changed or (`None`) went.
    pub fn slice_changed(
        &mut self,
        namespace: &str,
        name: &str,
        slice: Option<&EndpointSlice>,
    ) -> Vec<Action> {
        let slice_key = join(namespace, name);
        let owner = slice
            .and_then(|slice| slice.metadata.labels.get(SERVICE_NAME))
            .map(|service| join(namespace, service));
        let state = slice.and_then(|slice| SliceState::of(slice, &self.config.node));
        let next = owner.zip(state);
        let former = match &next {
            Some((owner, _)) => self.slices.insert(slice_key.clone(), owner.clone()),
            None => self.slices.remove(&slice_key),
        };
        let mut changed: SmallVec<[Box<str>; 2]> = SmallVec::new();
        if let Some(former) = former
            && next.as_ref().is_none_or(|(owner, _)| *owner != former)
            && let Some(known) = self.services.get_mut(&former)
        {
            known.slices.remove(&slice_key);
            changed.push(former);
        }
        if let Some((owner, state)) = next {
            let known = self.services.entry(owner.clone()).or_default();
            if known.slices.get(&slice_key) != Some(&state) {
                known.slices.insert(slice_key, state);
                changed.push(owner);
            }
        }
        self.replan(&changed)
    }

    /// This node answers other addresses itself than before.
    pub fn set_overrides(&mut self, overrides: Vec<Override>) -> Vec<Action> {
        let former = std::mem::replace(&mut self.config.overrides, overrides);
        if !self.started {
            return Vec::new();
        }
        let mut batch = Batch::default();
        let wanted: Vec<_> = self
            .config
            .overrides
            .iter()
            .map(Override::desired)
            .collect();
        for gone in former.iter().map(Override::desired) {
            if !wanted.iter().any(|set| set.name == gone.name)
                && let Some(id) = self.ids.get(&gone.name).copied()
            {
                self.remove(id, &mut batch);
            }
        }
        for desired in wanted {
            self.put(Rank::Override, desired, &mut batch);
        }
        self.finish(batch)
    }

    /// Compares the whole plan with what the maps hold. What is right stays as
    /// it is, identifiers and generations included, so that a restart changes
    /// nothing. To be called once all objects are known, and whenever actions
    /// could not be applied.
    pub fn resync(&mut self, current: &Current) -> Vec<Action> {
        self.started = true;
        self.sets.clear();
        self.ids.clear();
        self.keys.clear();
        let seen = Seen::of(current);
        self.last_id = seen.last_id;

        let mut wanted: Vec<(Rank, Option<Box<str>>, Desired)> =
            Vec::with_capacity(self.services.len());
        wanted.extend(
            self.config
                .overrides
                .iter()
                .map(|it| (Rank::Override, None, it.desired())),
        );
        for (key, known) in &mut self.services {
            known.sets.clear();
            let desired = known.desired(key);
            wanted.extend(
                desired
                    .into_iter()
                    .map(|desired| (Rank::Service, Some(key.clone()), desired)),
            );
        }
        wanted.sort_by(|a, b| (a.0, &a.2.name).cmp(&(b.0, &b.2.name)));
        wanted.dedup_by(|a, b| a.2.name == b.2.name);

        let mut target = Current::default();
        for (rank, owner, desired) in wanted {
            let id = seen
                .ids
                .get(&*desired.name)
                .copied()
                .unwrap_or_else(|| self.next_id());
            let former = seen.generations.get(&id).copied();
            let set = Set {
                rank,
                generation: former.unwrap_or(1),
                desired,
            };
            let kept = former.is_some()
                && current.backends(&set.entry(id)).as_ref() == Some(&set.desired.backends);
            let generation = if kept {
                set.generation
            } else {
                former.unwrap_or_default().wrapping_add(1)
            };
            let set = Set { generation, ..set };
            for (slot, backend) in set.slots(id) {
                target.slots.insert(slot, backend);
            }
            for (member, slot) in set.members(id) {
                target.members.insert(member, slot);
            }
            target.names.insert(id, set.desired.name.clone());
            for key in &set.desired.keys {
                self.keys.entry(*key).or_default().sets.push(id);
            }
            if let Some(known) = owner.and_then(|owner| self.services.get_mut(&owner)) {
                known.sets.push(id);
            }
            self.ids.insert(set.desired.name.clone(), id);
            self.sets.insert(id, set);
        }
        let keys: Vec<_> = self.keys.keys().copied().collect();
        for key in keys {
            let entry = self.winner(&key);
            if let Some(entry) = entry {
                target.services.insert(key, entry);
            }
            if let Some(claim) = self.keys.get_mut(&key) {
                claim.written = entry;
            }
        }
        difference(current, &target)
    }

    /// The sets in force: name, identifier, generation, content.
    pub fn sets(&self) -> impl Iterator<Item = (u32, u32, &Desired)> {
        self.sets
            .iter()
            .map(|(id, set)| (*id, set.generation, &set.desired))
    }

    fn next_id(&mut self) -> u32 {
        self.last_id = self.last_id.wrapping_add(1);
        self.last_id
    }

    fn replan(&mut self, changed: &[Box<str>]) -> Vec<Action> {
        if !self.started {
            self.forget_empty(changed);
            return Vec::new();
        }
        let mut batch = Batch::default();
        for key in changed {
            let Some(known) = self.services.get_mut(key) else {
                continue;
            };
            let former = std::mem::take(&mut known.sets);
            let desired = known.desired(key);
            for id in former {
                let stays = self
                    .sets
                    .get(&id)
                    .is_some_and(|set| desired.iter().any(|it| it.name == set.desired.name));
                if !stays {
                    self.remove(id, &mut batch);
                }
            }
            let sets = desired
                .into_iter()
                .map(|desired| self.put(Rank::Service, desired, &mut batch))
                .collect();
            if let Some(known) = self.services.get_mut(key) {
                known.sets = sets;
            }
        }
        self.forget_empty(changed);
        self.finish(batch)
    }

    fn forget_empty(&mut self, changed: &[Box<str>]) {
        for key in changed {
            if self
                .services
                .get(key)
                .is_some_and(|known| known.service.is_none() && known.slices.is_empty())
            {
                self.services.remove(key);
            }
        }
    }

    /// Makes a set what is desired.
    fn put(&mut self, rank: Rank, desired: Desired, batch: &mut Batch) -> u32 {
        let Some(id) = self.ids.get(&desired.name).copied() else {
            let id = self.next_id();
            batch.names.push(Action::PutName(id, desired.name.clone()));
            self.ids.insert(desired.name.clone(), id);
            let set = Set {
                rank,
                generation: 1,
                desired,
            };
            batch.write(id, &set);
            for key in &set.desired.keys {
                self.keys.entry(*key).or_default().sets.push(id);
                batch.touched.push(*key);
            }
            self.sets.insert(id, set);
            return id;
        };
        let Some(set) = self.sets.get_mut(&id) else {
            return id;
        };
        let tracked = |desired: &Desired| desired.flags.contains(ServiceFlags::AFFINITY);
        let rewritten =
            set.desired.backends != desired.backends || tracked(&set.desired) != tracked(&desired);
        let mut former = std::mem::replace(&mut set.desired, desired);
        let keys = std::mem::take(&mut former.keys);
        if rewritten {
            batch.remove(
                id,
                &Set {
                    rank,
                    generation: set.generation,
                    desired: former,
                },
            );
            set.generation = set.generation.wrapping_add(1);
            batch.write(id, set);
        }
        for key in keys.iter().filter(|key| !set.desired.keys.contains(key)) {
            if let Some(claim) = self.keys.get_mut(key) {
                claim.sets.retain(|set| *set != id);
            }
            batch.touched.push(*key);
        }
        for key in &set.desired.keys {
            if !keys.contains(key) {
                self.keys.entry(*key).or_default().sets.push(id);
            }
            batch.touched.push(*key);
        }
        id
    }

    /// Removes a set.
    fn remove(&mut self, id: u32, batch: &mut Batch) {
        let Some(set) = self.sets.remove(&id) else {
            return;
        };
        self.ids.remove(&set.desired.name);
        batch.remove(id, &set);
        batch.removed_names.push(Action::DeleteName(id));
        for key in &set.desired.keys {
            if let Some(claim) = self.keys.get_mut(key) {
                claim.sets.retain(|set| *set != id);
            }
            batch.touched.push(*key);
        }
    }

    /// Decides what each touched key shows, and orders the actions.
    fn finish(&mut self, mut batch: Batch) -> Vec<Action> {
        for key in std::mem::take(&mut batch.touched) {
            let entry = self.winner(&key);
            let Some(claim) = self.keys.get_mut(&key) else {
                continue;
            };
            if claim.written == entry {
                continue;
            }
            claim.written = entry;
            if let Some(entry) = entry {
                batch.entries.push(Action::PutService(key, entry));
            } else {
                batch.removed_entries.push(Action::DeleteService(key));
                self.keys.remove(&key);
            }
        }
        batch.actions()
    }

    /// What is to stand under a key: overrides go before services, and of two
    /// services the one whose name sorts first has it. Two services hold one
    /// address only while one of them is being replaced.
    fn winner(&self, key: &ServiceKey) -> Option<Entry> {
        let claimants = self
            .keys
            .get(key)?
            .sets
            .iter()
            .filter_map(|id| Some((*id, self.sets.get(id)?)));
        let (id, set) = claimants
            .min_by(|(_, a), (_, b)| (a.rank, &a.desired.name).cmp(&(b.rank, &b.desired.name)))?;
        Some(set.entry(id))
    }
}

// === impl Known ===

impl Known {
    fn desired(&self, prefix: &str) -> Vec<Desired> {
        self.service
            .as_ref()
            .map(|service| sets(prefix, service, self.slices.values()))
            .unwrap_or_default()
    }
}

// === impl Set ===

impl Set {
    fn entry(&self, id: u32) -> Entry {
        Entry {
            set: id,
            generation: self.generation,
            count: u32::try_from(self.desired.backends.len()).unwrap_or(u32::MAX),
            flags: self.desired.flags,
            affinity_seconds: self.desired.affinity_seconds,
            table: 0,
        }
    }

    fn slots(&self, id: u32) -> impl Iterator<Item = (SlotKey, Backend)> {
        let generation = self.generation;
        (0..)
            .zip(&self.desired.backends)
            .map(move |(slot, backend)| (SlotKey::new(id, generation, slot), *backend))
    }

    fn members(&self, id: u32) -> impl Iterator<Item = (MemberKey, u32)> {
        let generation = self.generation;
        let tracked = self.desired.flags.contains(ServiceFlags::AFFINITY);
        (0..)
            .zip(&self.desired.backends)
            .filter(move |_| tracked)
            .map(move |(slot, backend)| {
                (
                    MemberKey::new(id, generation, backend.address, backend.port),
                    slot,
                )
            })
    }
}

// === impl Override ===

impl Override {
    fn desired(&self) -> Desired {
        let (address, port) = (Address::from(self.address), Port::new(self.port));
        let mut backends: Vec<_> = self
            .backends
            .iter()
            .filter(|backend| backend.is_ipv4() == self.address.is_ipv4())
            .map(|backend| {
                Backend::new(
                    Address::from(backend.ip()),
                    Port::new(backend.port()),
                    BackendFlags::LOCAL,
                )
            })
            .collect();
        backends.sort_unstable();
        backends.dedup();
        Desired {
            // No namespace has such a name.
            name: format!(
                "(node) {} {} {}",
                self.name,
                self.protocol,
                SocketAddr::new(self.address, self.port)
            )
            .into(),
            keys: vec![ServiceKey::internal(address, port, self.protocol)],
            flags: ServiceFlags::NONE,
            affinity_seconds: 0,
            backends,
        }
    }
}

// === impl Batch ===

impl Batch {
    fn write(&mut self, id: u32, set: &Set) {
        self.slots.extend(
            set.slots(id)
                .map(|(key, backend)| Action::PutSlot(key, backend)),
        );
        self.members.extend(
            set.members(id)
                .map(|(key, slot)| Action::PutMember(key, slot)),
        );
    }

    fn remove(&mut self, id: u32, set: &Set) {
        self.removed_slots
            .extend(set.slots(id).map(|(key, _)| Action::DeleteSlot(key)));
        self.removed_members
            .extend(set.members(id).map(|(key, _)| Action::DeleteMember(key)));
    }

    fn actions(self) -> Vec<Action> {
        let mut actions = self.names;
        actions.extend(self.slots);
        actions.extend(self.members);
        actions.extend(self.entries);
        actions.extend(self.removed_entries);
        actions.extend(self.removed_slots);
        actions.extend(self.removed_members);
        actions.extend(self.removed_names);
        actions
    }
}

/// What a copy of the maps says of identifiers.
#[derive(Default)]
struct Seen<'a> {
    ids: FxHashMap<&'a str, u32>,
    /// Per set the newest generation of which anything is there, be it left
    /// over from an update that was cut off.
    generations: FxHashMap<u32, u32>,
    last_id: u32,
}

impl<'a> Seen<'a> {
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
        seen
    }

    fn note(&mut self, set: u32, generation: u32) {
        self.last_id = self.last_id.max(set);
        let newest = self.generations.entry(set).or_insert(generation);
        *newest = (*newest).max(generation);
    }
}

/// What turns one content of the maps into another, new things first.
fn difference(current: &Current, target: &Current) -> Vec<Action> {
    let batch = Batch {
        names: missing(&target.names, &current.names, |set, name| {
            Action::PutName(*set, name.clone())
        }),
        slots: missing(&target.slots, &current.slots, |key, backend| {
            Action::PutSlot(*key, *backend)
        }),
        members: missing(&target.members, &current.members, |key, slot| {
            Action::PutMember(*key, *slot)
        }),
        entries: missing(&target.services, &current.services, |key, entry| {
            Action::PutService(*key, *entry)
        }),
        removed_entries: surplus(&target.services, &current.services, |key| {
            Action::DeleteService(*key)
        }),
        removed_slots: surplus(&target.slots, &current.slots, |key| {
            Action::DeleteSlot(*key)
        }),
        removed_members: surplus(&target.members, &current.members, |key| {
            Action::DeleteMember(*key)
        }),
        removed_names: surplus(&target.names, &current.names, |set| {
            Action::DeleteName(*set)
        }),
        touched: Vec::new(),
    };
    batch.actions()
}

/// Actions for what `target` has and `current` has not, or otherwise; sorted
/// by key.
fn missing<K: Ord + std::hash::Hash, V: PartialEq>(
    target: &FxHashMap<K, V>,
    current: &FxHashMap<K, V>,
    action: impl Fn(&K, &V) -> Action,
) -> Vec<Action> {
    let mut found: Vec<_> = target
        .iter()
        .filter(|(key, value)| current.get(key) != Some(value))
        .collect();
    found.sort_unstable_by(|a, b| a.0.cmp(b.0));
    found
        .into_iter()
        .map(|(key, value)| action(key, value))
        .collect()
}

/// Actions for what `current` has and `target` has not; sorted by key.
fn surplus<K: Ord + std::hash::Hash, V>(
    target: &FxHashMap<K, V>,
    current: &FxHashMap<K, V>,
    action: impl Fn(&K) -> Action,
) -> Vec<Action> {
    let gone: FxHashSet<&K> = current
        .keys()
        .filter(|key| !target.contains_key(key))
        .collect();
    let mut gone: Vec<_> = gone.into_iter().collect();
    gone.sort_unstable();
    gone.into_iter().map(action).collect()
}

fn join(namespace: &str, name: &str) -> Box<str> {
    format!("{namespace}/{name}").into()
}

#[cfg(test)]
mod tests;
