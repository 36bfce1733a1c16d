//! Keeps the plan and computes changes.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use ebpf_abi::ServiceKey;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::compile::{DesiredSet, View};
use crate::current::Action;
use crate::node::{Node, NodeFacts};
use crate::objects::Pod;
use crate::pods::PodState;
use crate::problem::{Problem, Reason};
use crate::service::ServiceState;
use crate::slice::{NameHash, SliceState};

mod arbitration;
mod batch;
mod claims;
mod fronts;
mod judge;
mod known_service;
mod map_capacity;
mod overrides;
mod owner;
mod removed_backends;
mod resync;
mod served;
mod set;
mod set_size;

use batch::Batch;
use claims::Claim;
use known_service::{Ids, KnownPod, KnownService};
pub use map_capacity::{Fullness, MapCapacity};
pub use overrides::Override;
use overrides::overriding;
use owner::{Owner, join, split};
pub use removed_backends::RemovedBackends;
use removed_backends::note_gone;
use served::Ports;
use set::Set;

/// The plan's configuration besides API objects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Config {
    /// This node's name: endpoints that run on it are local.
    pub node: String,
    /// Addresses that this node answers itself.
    pub overrides: Vec<Override>,
    /// The node, as it is at first.
    pub facts: NodeFacts,
}

/// The response to a load balancer at a Service's `healthCheckNodePort`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthCheck {
    /// The Service's namespace.
    pub namespace: Box<str>,
    /// Its name.
    pub name: Box<str>,
    /// The port.
    pub port: u16,
    /// Ready endpoints on this node, of the Service's first family.
    pub local_ready: usize,
}

/// The plan: the relevant API objects, their sets, and the maps' contents after the
/// actions so far.
///
/// Until the first [`resync`](Self::resync) it only collects: a Service whose
/// EndpointSlices have not been listed yet must not lose its backends.
#[derive(Debug)]
pub struct Planner {
    overrides: Vec<Override>,
    override_sets: Ids,
    facts: NodeFacts,
    node: Node,
    view: View,
    services: FxHashMap<Arc<str>, KnownService>,
    /// The service of each slice.
    slices: FxHashMap<Box<str>, Arc<str>>,
    pods: FxHashMap<Arc<str>, KnownPod>,
    sets: FxHashMap<u32, Set>,
    keys: FxHashMap<ServiceKey, Claim>,
    ports: Ports,
    last_id: u32,
    room: MapCapacity,
    used: MapCapacity,
    started: bool,
    gone: Vec<RemovedBackends>,
    health: BTreeMap<Arc<str>, HealthCheck>,
    health_version: u64,
    problems: BTreeMap<Owner, Vec<Reason>>,
    problems_version: u64,
    /// The owners of sets that did not find room.
    starved: BTreeSet<Owner>,
}

// === impl Planner ===

impl Planner {
    /// An empty plan.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let Config {
            node,
            overrides,
            facts,
        } = config;
        let mut view = View::new(&node, facts.zone.as_deref());
        view.direct_return = facts.direct_return;
        view.own = own(&facts);
        Self {
            overrides,
            override_sets: Ids::new(),
            node: Node::from_facts(&facts),
            facts,
            view,
            services: FxHashMap::default(),
            slices: FxHashMap::default(),
            pods: FxHashMap::default(),
            sets: FxHashMap::default(),
            keys: FxHashMap::default(),
            ports: Ports::default(),
            last_id: 0,
            room: MapCapacity::UNLIMITED,
            used: MapCapacity::NONE,
            started: false,
            gone: Vec::new(),
            health: BTreeMap::new(),
            health_version: 0,
            problems: BTreeMap::new(),
            problems_version: 0,
            starved: BTreeSet::new(),
        }
    }

    /// A Service appeared, changed or (`None`) went.
    pub fn service_changed(
        &mut self,
        namespace: &str,
        name: &str,
        service: Option<impl Into<Arc<ServiceState>>>,
    ) -> Vec<Action> {
        let key = join(namespace, name);
        let state: Option<Arc<ServiceState>> = service.map(Into::into);
        let state = state.filter(|it| it.nothing().is_none());
        if state.is_none() && !self.services.contains_key(&key) {
            return Vec::new();
        }
        let known = self.services.entry(key.clone()).or_default();
        if known.service == state {
            return Vec::new();
        }
        known.service = state;
        self.replan([Owner::Service(key)])
    }

    /// An EndpointSlice appeared, changed or (`None`) went.
    pub fn slice_changed(
        &mut self,
        namespace: &str,
        name: &str,
        slice: Option<impl Into<Arc<SliceState>>>,
    ) -> Vec<Action> {
        let slice_key: Box<str> = format!("{namespace}/{name}").into();
        let state: Option<Arc<SliceState>> = slice.map(Into::into);
        let next = state.and_then(|state| {
            let owner = self.service_key(namespace, state.service()?);
            Some((owner, state))
        });
        let former = match &next {
            Some((owner, _)) => self.slices.insert(slice_key, owner.clone()),
            None => self.slices.remove(&slice_key),
        };
        let mut changed: SmallVec<[Owner; 2]> = SmallVec::new();
        if let Some(former) = former
            && next.as_ref().is_none_or(|(owner, _)| *owner != former)
            && let Some(known) = self.services.get_mut(&former)
            && known.put_slice(name, None)
        {
            changed.push(Owner::Service(former));
        }
        if let Some((owner, state)) = next
            && self
                .services
                .entry(owner.clone())
                .or_default()
                .put_slice(name, Some(state))
        {
            changed.push(Owner::Service(owner));
        }
        self.replan(changed)
    }

    /// Handles a Pod of this node that was added, changed or (`None`) deleted. Must not
    /// be called for other nodes' Pods.
    pub fn pod_changed(&mut self, namespace: &str, name: &str, pod: Option<&Pod>) -> Vec<Action> {
        let key = join(namespace, name);
        let state = pod.and_then(PodState::from_pod);
        let mut batch = Batch::default();
        match (self.pods.get_mut(&key), state) {
            (None, None) => return Vec::new(),
            (Some(known), Some(state)) if known.state == state => return Vec::new(),
            (Some(known), Some(state)) => known.state = state,
            (None, Some(state)) => {
                let sets = Ids::new();
                self.pods.insert(key.clone(), KnownPod { state, sets });
            }
            (Some(_), None) => {
                if let Some(known) = self.pods.remove(&key) {
                    for id in known.sets {
                        self.remove(id, &mut batch);
                    }
                }
                let owner = Owner::Pod(key);
                self.starved.remove(&owner);
                batch.owners.insert(owner);
                return self.finish(batch);
            }
        }
        self.replan([Owner::Pod(key)])
    }

    /// This node answers other addresses itself than before.
    pub fn set_overrides(&mut self, overrides: Vec<Override>) -> Vec<Action> {
        self.overrides = overrides;
        self.replan([Owner::Override])
    }

    /// The node is another than before: its addresses, its zone, who is inside.
    pub fn set_node(&mut self, facts: NodeFacts) -> Vec<Action> {
        if self.facts == facts {
            return Vec::new();
        }
        let zone = facts.zone.as_deref().map(NameHash::hash);
        let moved = std::mem::replace(&mut self.view.zone, zone) != zone;
        let redirected = self.view.direct_return != facts.direct_return;
        self.view.direct_return = facts.direct_return;
        let former = std::mem::replace(&mut self.node, Node::from_facts(&facts));
        let own = own(&facts);
        let readdressed = self.view.own != own;
        self.view.own = own;
        self.facts = facts;
        if !self.started {
            return Vec::new();
        }
        let mut batch = Batch::default();
        batch.change_node(&former, &self.node);
        // The winner of a key depends on the node's own ports, and problems on its
        // addresses. Both are looked up in memory.
        let same_addresses = former.addresses.len() == self.node.addresses.len()
            && former
                .addresses
                .keys()
                .all(|address| self.node.addresses.contains_key(address));
        if former.reserved != self.node.reserved || !same_addresses {
            let concerned = |key: &&ServiceKey| {
                [&former, &self.node]
                    .iter()
                    .any(|node| node.reserves(key) || node.addresses.contains_key(&key.address))
            };
            let keys: Vec<_> = self.keys.keys().filter(concerned).copied().collect();
            for key in &keys {
                batch.owners.extend(self.owners_of(key));
            }
            batch.touched.extend(keys);
        }
        if moved || redirected || readdressed {
            let restricted =
                |known: &KnownService| known.service.as_ref().is_some_and(|it| it.has_ranges());
            let concerned: Vec<_> = self
                .services
                .iter()
                .filter(|(_, known)| moved || redirected || restricted(known))
                .map(|(key, _)| Owner::Service(key.clone()))
                .collect();
            for owner in concerned {
                self.plan(&owner, &mut batch);
            }
        }
        self.finish(batch)
    }

    /// How many entries the maps take. Services that need more keep what fits,
    /// and have a problem.
    pub const fn set_room(&mut self, room: MapCapacity) {
        self.room = room;
    }

    /// Returns how full the maps are, including this plan's writes.
    #[must_use]
    pub fn fullness(&self) -> [Fullness; 5] {
        use ebpf_abi::maps;
        let (used, room) = (&self.used, &self.room);
        let of = |map, used, capacity| Fullness {
            map,
            used,
            capacity,
        };
        [
            of(maps::SERVICES, used.services, room.services),
            of(maps::SLOTS, used.slots, room.slots),
            of(maps::MEMBERS, used.members, room.members),
            of(maps::MAGLEV, used.chunks, room.chunks),
            of(maps::SOURCES, used.sources, room.sources),
        ]
    }

    /// Returns UDP backends that were removed since the last call.
    pub fn take_gone(&mut self) -> Vec<RemovedBackends> {
        std::mem::take(&mut self.gone)
    }

    /// Returns the health check responses, in the order of names.
    pub fn health_checks(&self) -> impl Iterator<Item = &HealthCheck> {
        self.health.values()
    }

    /// Changes whenever [`health_checks`](Self::health_checks) do.
    #[must_use]
    pub const fn health_version(&self) -> u64 {
        self.health_version
    }

    /// Everything that objects ask for and do not get, in the order of objects.
    pub fn problems(&self) -> impl Iterator<Item = Problem> + '_ {
        self.problems.iter().flat_map(|(owner, reasons)| {
            let object = owner.object();
            reasons.iter().map(move |reason| Problem {
                object: object.clone(),
                reason: reason.clone(),
            })
        })
    }

    /// Changes whenever [`problems`](Self::problems) do.
    #[must_use]
    pub const fn problems_version(&self) -> u64 {
        self.problems_version
    }

    /// Returns the sets in force: identifier, generation, content; backends in the order
    /// of slots.
    pub fn sets(&self) -> impl Iterator<Item = (u32, u32, &DesiredSet)> {
        self.sets
            .iter()
            .map(|(id, set)| (*id, set.generation, &set.desired))
    }

    fn next_id(&mut self) -> u32 {
        self.last_id = self.last_id.wrapping_add(1);
        self.last_id
    }

    /// A service's key; one in memory for all who know it.
    fn service_key(&self, namespace: &str, name: &str) -> Arc<str> {
        let key = join(namespace, name);
        self.services
            .get_key_value(&key)
            .map_or(key, |(known, _)| known.clone())
    }

    fn replan(&mut self, changed: impl IntoIterator<Item = Owner>) -> Vec<Action> {
        let mut batch = Batch::default();
        for owner in changed {
            if self.started {
                self.plan(&owner, &mut batch);
            }
            self.forget_empty(&owner);
        }
        // Room that became free is for who found none.
        if let Some(owner) = self.starved.first().cloned()
            && !batch.owners.contains(&owner)
            && !batch.owners.is_empty()
        {
            self.plan(&owner, &mut batch);
        }
        self.finish(batch)
    }

    /// Brings the sets of one object to the desired state.
    fn plan(&mut self, owner: &Owner, batch: &mut Batch) {
        let (former, created, desired) = match owner {
            Owner::Override => {
                let former = std::mem::take(&mut self.override_sets);
                (former, 0, overriding(&self.overrides))
            }
            Owner::Service(key) => {
                let Some((former, created, desired)) = self.plan_service(key) else {
                    return;
                };
                (former, created, desired)
            }
            Owner::Pod(key) => {
                let Some(known) = self.pods.get_mut(key) else {
                    return;
                };
                let former = std::mem::take(&mut known.sets);
                (former, known.state.created, known.state.sets(key))
            }
        };
        self.starved.remove(owner);
        batch.owners.insert(owner.clone());
        // Match each wanted set with a former one: usually the one in its place.
        let mut known: Vec<Option<u32>> = vec![None; desired.len()];
        let mut named: Option<FxHashMap<&str, usize>> = None;
        let mut gone = Ids::new();
        for (place, id) in former.iter().enumerate() {
            let Some(set) = self.sets.get(id) else {
                continue;
            };
            let name = &set.desired.name;
            let place = if desired.get(place).is_some_and(|it| it.name == *name) {
                Some(place)
            } else {
                let named = named.get_or_insert_with(|| {
                    (0..)
                        .zip(&desired)
                        .map(|(place, it): (usize, &DesiredSet)| (&*it.name, place))
                        .collect()
                });
                named.get(&**name).copied()
            };
            match place.and_then(|place| known.get_mut(place)) {
                Some(known) => *known = Some(*id),
                None => gone.push(*id),
            }
        }
        for id in gone {
            self.remove(id, batch);
        }
        let ids = desired
            .into_iter()
            .zip(known)
            .map(|(desired, known)| self.put(owner, created, known, desired, batch))
            .collect();
        self.keep_ids(owner, ids);
    }

    fn keep_ids(&mut self, owner: &Owner, ids: Ids) {
        match owner {
            Owner::Override => self.override_sets = ids,
            Owner::Service(key) => {
                if let Some(known) = self.services.get_mut(key) {
                    known.sets = ids;
                }
            }
            Owner::Pod(key) => {
                if let Some(known) = self.pods.get_mut(key) {
                    known.sets = ids;
                }
            }
        }
    }

    /// Compiles a service and notes what follows beside its sets.
    fn plan_service(&mut self, key: &Arc<str>) -> Option<(Ids, u64, Vec<DesiredSet>)> {
        let known = self.services.get_mut(key)?;
        let compiled = known.compile(key, &self.view);
        let former = std::mem::replace(&mut known.datagrams, compiled.datagrams);
        note_gone(&former, &known.datagrams, &mut self.gone);
        known.problems = compiled.problems;
        let created = known.service.as_ref().map_or(u64::MAX, |it| it.created);
        let port = known.service.as_ref().and_then(|it| it.health_port);
        if let Some(port) = port {
            let (namespace, name) = split(key);
            let check = HealthCheck {
                namespace,
                name,
                port,
                local_ready: compiled.local_ready,
            };
            if self.health.get(key) != Some(&check) {
                self.health.insert(key.clone(), check);
                self.health_version += 1;
            }
        } else if self.health.remove(key).is_some() {
            self.health_version += 1;
        }
        Some((std::mem::take(&mut known.sets), created, compiled.sets))
    }

    fn forget_empty(&mut self, owner: &Owner) {
        if let Owner::Service(key) = owner
            && self
                .services
                .get(key)
                .is_some_and(|known| known.service.is_none() && known.slices.is_empty())
        {
            self.services.remove(key);
        }
    }

    /// Writes a set as desired, replacing the known one of its name.
    fn put(
        &mut self,
        owner: &Owner,
        created: u64,
        known: Option<u32>,
        mut desired: DesiredSet,
        batch: &mut Batch,
    ) -> u32 {
        let old = known.and_then(|id| self.sets.remove(&id));
        let mut free = self.room.minus(&self.used);
        if let Some(old) = &old {
            free.give_back(&old.size());
        }
        if free.fit(&mut desired) {
            self.starved.insert(owner.clone());
        }
        let (id, set) = match (known, old) {
            (Some(id), Some(old)) => {
                self.used.subtract(&old.size());
                // While two generations are there, both need room.
                let spare = self.room.minus(&self.used).minus(&old.size());
                let keys = old.desired.keys.clone();
                let mut set = old;
                set.created = created;
                set.update(id, desired, &spare, batch);
                self.unclaim(id, &keys, &set.desired.keys, batch);
                (id, set)
            }
            _ => {
                let id = self.next_id();
                let set = Set::new(owner.clone(), created, desired);
                batch.name(id, &set.desired.name);
                batch.write(id, &set);
                (id, set)
            }
        };
        self.used.add(&set.size());
        self.claim(id, &set.desired.keys, batch);
        self.sets.insert(id, set);
        id
    }

    /// Removes a set.
    fn remove(&mut self, id: u32, batch: &mut Batch) {
        let Some(set) = self.sets.remove(&id) else {
            return;
        };
        self.used.subtract(&set.size());
        batch.remove(id, &set);
        batch.unname(id);
        self.unclaim(id, &set.desired.keys, &[], batch);
    }
}

impl Default for Planner {
    fn default() -> Self {
        Self::new(Config::default())
    }
}

/// Addresses from which the node speaks to others.
fn own(facts: &NodeFacts) -> Vec<IpAddr> {
    let own = facts.addresses.iter().map(|it| it.address);
    own.filter(|address| !address.is_loopback()).collect()
}

#[cfg(test)]
mod tests;
