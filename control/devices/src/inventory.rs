//! All ResourceSlices, indexed for allocation.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use compact_str::CompactString;
use control_types::quantity::Quantity;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::allocated::PoolId;
use crate::api::{CounterConsumption, DeviceTaintRuleSpec, ResourceSliceSpec};
use crate::features::Features;

/// All ResourceSlices, with the taints that DeviceTaintRules add to their devices.
#[derive(Clone, Debug, Default)]
pub struct Inventory {
    slices: BTreeMap<CompactString, PublishedSlice>,
    rules: BTreeMap<CompactString, DeviceTaintRuleSpec>,
    /// Slices of one node each, without shared counters, in the order of their names.
    on_node: FxHashMap<CompactString, BTreeMap<CompactString, Arc<Slice>>>,
    /// All other slices.
    shared: BTreeMap<CompactString, Arc<Slice>>,
    pools: FxHashMap<PoolId, PoolSlices>,
    serial: u64,
}

/// A slice as it was published.
#[derive(Clone, Debug)]
struct PublishedSlice {
    spec: Arc<ResourceSliceSpec>,
    pool: PoolId,
}

/// A slice with the taints that rules add.
#[derive(Debug)]
pub(crate) struct Slice {
    pub name: CompactString,
    /// Differs between all slices and all their versions.
    pub serial: u64,
    pub pool: PoolId,
    pub spec: Arc<ResourceSliceSpec>,
    pub has_binding_conditions: bool,
}

/// Slices of one pool, of all generations.
#[derive(Clone, Debug, Default)]
struct PoolSlices {
    slices: BTreeMap<CompactString, Arc<Slice>>,
    /// Per generation, newest last; made when it is first needed.
    generations: OnceLock<BTreeMap<i64, Arc<Generation>>>,
}

/// The combined slices of one generation of a pool.
#[derive(Debug, Default)]
pub(crate) struct Generation {
    /// In the order of their names.
    pub slices: Vec<Arc<Slice>>,
    /// Whether no two devices have one name.
    pub unique_names: bool,
    /// The counters of the pool.
    pub counters: Counters,
    /// Why the counters are unusable.
    pub duplicate_counter_set: bool,
    /// Slices, by serial, whose devices consume counters that do not exist.
    pub unknown_counters: FxHashSet<u64>,
}

/// Counters of a pool, numbered.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    sets: FxHashMap<CompactString, FxHashMap<CompactString, usize>>,
    pub values: Vec<Quantity>,
}

// === impl Inventory ===

impl Inventory {
    /// A slice was published or changed.
    pub fn set_slice(&mut self, name: &str, spec: Arc<ResourceSliceSpec>) {
        if let Some(known) = self.slices.get(name)
            && (Arc::ptr_eq(&known.spec, &spec) || known.spec == spec)
        {
            return;
        }
        self.remove_slice(name);
        let pool = PoolId {
            driver: spec.driver.clone(),
            pool: spec.pool.name.clone(),
        };
        let name = CompactString::from(name);
        self.slices
            .insert(name.clone(), PublishedSlice { spec, pool });
        self.arrange(&name);
    }

    /// Removes a deleted slice.
    pub fn remove_slice(&mut self, name: &str) {
        if self.slices.contains_key(name) {
            self.take_out(name);
            self.slices.remove(name);
        }
    }

    /// A DeviceTaintRule was made or changed.
    pub fn set_taint_rule(&mut self, name: &str, rule: DeviceTaintRuleSpec) {
        if self.rules.get(name) == Some(&rule) {
            return;
        }
        let old = self.rules.insert(name.into(), rule.clone());
        self.rearrange(|slice| {
            rule.may_taint(slice) || old.as_ref().is_some_and(|old| old.may_taint(slice))
        });
    }

    /// Removes a deleted DeviceTaintRule.
    pub fn remove_taint_rule(&mut self, name: &str) {
        if let Some(old) = self.rules.remove(name) {
            self.rearrange(|slice| old.may_taint(slice));
        }
    }

    /// Returns whether there are no slices.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slices.is_empty()
    }

    /// Returns slices with devices for the node: its own, then those of several nodes.
    pub(crate) fn for_node(&self, node: &str) -> impl Iterator<Item = &Arc<Slice>> {
        let own = self
            .on_node
            .get(node)
            .into_iter()
            .flat_map(BTreeMap::values);
        own.chain(self.shared.values())
    }

    /// The generations of a pool, oldest first.
    pub(crate) fn generations(&self, pool: &PoolId) -> Option<&BTreeMap<i64, Arc<Generation>>> {
        let pool = self.pools.get(pool)?;
        Some(pool.generations.get_or_init(|| generations(&pool.slices)))
    }

    fn rearrange(&mut self, concerned: impl Fn(&ResourceSliceSpec) -> bool) {
        let names: Vec<CompactString> = self
            .slices
            .iter()
            .filter(|(_, slice)| concerned(&slice.spec))
            .map(|(name, _)| name.clone())
            .collect();
        for name in names {
            self.take_out(&name);
            self.arrange(&name);
        }
    }

    fn arrange(&mut self, name: &CompactString) {
        let Some(published) = self.slices.get(name) else {
            return;
        };
        let spec = tainted(&published.spec, self.rules.values());
        self.serial += 1;
        let slice = Arc::new(Slice {
            name: name.clone(),
            serial: self.serial,
            pool: published.pool.clone(),
            has_binding_conditions: spec
                .devices
                .iter()
                .any(|device| !device.binding_conditions.is_empty()),
            spec,
        });
        let pool = self.pools.entry(slice.pool.clone()).or_default();
        pool.generations.take();
        pool.slices.insert(name.clone(), Arc::clone(&slice));
        match slice.own_node() {
            Some(node) => {
                let own = self.on_node.entry(node.clone()).or_default();
                own.insert(name.clone(), Arc::clone(&slice));
            }
            None => {
                self.shared.insert(name.clone(), slice);
            }
        }
    }

    fn take_out(&mut self, name: &str) {
        let Some(published) = self.slices.get(name) else {
            return;
        };
        let Some(pool) = self.pools.get_mut(&published.pool) else {
            return;
        };
        pool.generations.take();
        let slice = pool.slices.remove(name);
        if pool.slices.is_empty() {
            self.pools.remove(&published.pool);
        }
        self.shared.remove(name);
        if let Some(node) = slice.as_ref().and_then(|slice| slice.own_node())
            && let Some(own) = self.on_node.get_mut(node)
        {
            own.remove(name);
            if own.is_empty() {
                self.on_node.remove(node);
            }
        }
    }
}

// === impl Slice ===

impl Slice {
    /// Returns the one node that can use its devices, unless other slices depend on it.
    fn own_node(&self) -> Option<&CompactString> {
        let node = self.spec.node_name.as_ref()?;
        (!node.is_empty() && self.spec.shared_counters.is_empty()).then_some(node)
    }

    /// Whether features that are off keep it from being looked at.
    pub(crate) fn is_unsupported(&self, features: &Features) -> bool {
        !features.partitionable_devices
            && (self.spec.per_device_node_selection.is_some()
                || !self.spec.shared_counters.is_empty())
    }

    /// Whether each device says which nodes have it.
    pub(crate) fn selects_nodes_per_device(&self) -> bool {
        self.spec.per_device_node_selection == Some(true)
    }
}

// === impl Counters ===

impl Counters {
    /// The numbers of the counters that a device consumes, and how much of each.
    pub(crate) fn consumed<'a>(
        &'a self,
        consumption: &'a [CounterConsumption],
    ) -> impl Iterator<Item = (usize, &'a Quantity)> {
        consumption.iter().flat_map(|of_set| {
            let set = self.sets.get(&of_set.counter_set);
            of_set.counters.iter().filter_map(move |(name, counter)| {
                let number = set?.get(name)?;
                Some((*number, &counter.value))
            })
        })
    }

    fn has_all(&self, consumption: &[CounterConsumption]) -> bool {
        consumption.iter().all(|of_set| {
            let set = self.sets.get(&of_set.counter_set);
            set.is_some_and(|set| of_set.counters.keys().all(|name| set.contains_key(name)))
        })
    }
}

// === impl DeviceTaintRuleSpec ===

impl DeviceTaintRuleSpec {
    fn may_taint(&self, slice: &ResourceSliceSpec) -> bool {
        let Some(selector) = &self.device_selector else {
            return true;
        };
        let is = |wanted: &Option<CompactString>, is: &str| {
            wanted.as_ref().is_none_or(|wanted| wanted == is)
        };
        is(&selector.driver, &slice.driver) && is(&selector.pool, &slice.pool.name)
    }
}

/// The slice with the taints that rules add.
fn tainted<'a>(
    spec: &Arc<ResourceSliceSpec>,
    rules: impl Iterator<Item = &'a DeviceTaintRuleSpec>,
) -> Arc<ResourceSliceSpec> {
    let mut tainted = Arc::clone(spec);
    for rule in rules.filter(|rule| rule.may_taint(spec)) {
        let device = rule
            .device_selector
            .as_ref()
            .and_then(|selector| selector.device.as_ref());
        let concerned = |name: &CompactString| device.is_none_or(|device| device == name);
        if !spec.devices.iter().any(|device| concerned(&device.name)) {
            continue;
        }
        for device in &mut Arc::make_mut(&mut tainted).devices {
            if concerned(&device.name) {
                device.taints.push(rule.taint.clone());
            }
        }
    }
    tainted
}

fn generations(slices: &BTreeMap<CompactString, Arc<Slice>>) -> BTreeMap<i64, Arc<Generation>> {
    let mut by_generation: BTreeMap<i64, Vec<Arc<Slice>>> = BTreeMap::new();
    for slice in slices.values() {
        let generation = by_generation.entry(slice.spec.pool.generation).or_default();
        generation.push(Arc::clone(slice));
    }
    by_generation
        .into_iter()
        .map(|(number, slices)| (number, Arc::new(generation(slices))))
        .collect()
}

fn generation(slices: Vec<Arc<Slice>>) -> Generation {
    let mut counters = Counters::default();
    let mut duplicate_counter_set = false;
    for set in slices.iter().flat_map(|slice| &slice.spec.shared_counters) {
        let mut numbers = FxHashMap::default();
        for (name, counter) in &set.counters {
            numbers.insert(name.clone(), counters.values.len());
            counters.values.push(counter.value.clone());
        }
        duplicate_counter_set |= counters.sets.insert(set.name.clone(), numbers).is_some();
    }
    let unknown_counters = slices
        .iter()
        .filter(|slice| {
            let mut devices = slice.spec.devices.iter();
            devices.any(|device| !counters.has_all(&device.consumes_counters))
        })
        .map(|slice| slice.serial)
        .collect();
    Generation {
        unique_names: have_unique_names(slices.iter().map(|slice| &**slice)),
        slices,
        counters,
        duplicate_counter_set,
        unknown_counters,
    }
}

/// Whether no two devices of the slices have one name.
pub(crate) fn have_unique_names<'a>(slices: impl Iterator<Item = &'a Slice>) -> bool {
    let mut names = FxHashSet::default();
    slices
        .flat_map(|slice| &slice.spec.devices)
        .all(|device| names.insert(device.name.as_str()))
}

#[cfg(test)]
#[path = "inventory_tests.rs"]
mod tests;
