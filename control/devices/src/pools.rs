//! The pools that one node has devices of.

use std::sync::Arc;

use control_types::quantity::Quantity;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::allocated::PoolId;
use crate::api::NodeSelector;
use crate::features::Features;
use crate::inventory::{Generation, Inventory, Slice, have_unique_names};

/// The node that devices are looked for.
pub trait Node {
    /// Its name.
    fn name(&self) -> &str;

    /// Whether a node selector selects it.
    fn matches(&self, selector: &NodeSelector) -> bool;
}

/// A pool that a node has devices of.
#[derive(Debug)]
pub(crate) struct Pool {
    pub state: PoolState,
    pub id: PoolId,
    /// Slices with devices of the node, in the order of their names.
    pub slices: SmallVec<[Arc<Slice>; 2]>,
    pub generation: Arc<Generation>,
}

/// Counters of a pool, less what allocated devices consume.
#[derive(Debug)]
pub(crate) struct AvailableCounters {
    pub values: Vec<Quantity>,
    /// Whether more of a counter is consumed than there is.
    pub is_exceeded: bool,
}

/// Whether devices of a pool can be allocated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PoolState {
    Usable,
    /// Slices are missing: the driver is at work.
    Incomplete,
    /// Device names are not unique, or counters are wrong.
    Invalid,
}

/// Slices of one pool that are relevant for a node.
struct Relevant {
    generation: i64,
    slices: SmallVec<[Arc<Slice>; 2]>,
}

/// Whether a node is one that a slice or a device names.
pub(crate) fn is_on_node(
    node: &dyn Node,
    name: Option<&str>,
    all: bool,
    selector: Option<&NodeSelector>,
) -> bool {
    match name {
        Some(name) if !name.is_empty() => name == node.name(),
        _ if all => true,
        _ => selector.is_some_and(|selector| node.matches(selector)),
    }
}

/// Slices that have devices of the node, or counters that those consume. Slices of older
/// generations are left out where newer ones are relevant.
pub(crate) fn relevant_slices(
    inventory: &Inventory,
    node: &dyn Node,
    features: &Features,
) -> Vec<Arc<Slice>> {
    let slices = inventory.for_node(node.name());
    slices
        .filter(|slice| !slice.is_unsupported(features) && is_relevant(slice, node))
        .cloned()
        .collect()
}

fn is_relevant(slice: &Slice, node: &dyn Node) -> bool {
    let spec = &*slice.spec;
    if !spec.shared_counters.is_empty() {
        return true;
    }
    let name = spec.node_name.as_deref().unwrap_or_default();
    let all = spec.all_nodes == Some(true);
    if !name.is_empty() || all || spec.node_selector.is_some() {
        return is_on_node(node, Some(name), all, spec.node_selector.as_ref());
    }
    // a slice without content is of some future kind
    slice.selects_nodes_per_device()
        && spec.devices.iter().any(|device| {
            is_on_node(
                node,
                device.node_name.as_deref(),
                device.all_nodes == Some(true),
                device.node_selector.as_ref(),
            )
        })
}

/// Makes pools of the slices that are relevant for a node, in the order in which devices
/// are tried: by driver and pool, those with binding conditions last.
pub(crate) fn gather(
    inventory: &Inventory,
    slices: &[Arc<Slice>],
    features: &Features,
) -> Vec<Pool> {
    let mut pools: FxHashMap<&PoolId, Relevant> = FxHashMap::default();
    for slice in slices {
        let generation = slice.spec.pool.generation;
        let known = pools.entry(&slice.pool).or_insert_with(|| Relevant {
            generation,
            slices: SmallVec::new(),
        });
        if generation > known.generation {
            known.generation = generation;
            known.slices.clear();
        }
        if generation == known.generation {
            known.slices.push(Arc::clone(slice));
        }
    }
    let pools = pools.into_iter();
    let mut pools: Vec<Pool> = pools
        .filter_map(|(id, relevant)| build(inventory, id.clone(), relevant, features))
        .collect();
    pools.sort_by(|a, b| {
        let late = |pool: &Pool| pool.has_binding_conditions();
        late(a).cmp(&late(b)).then_with(|| a.id.cmp(&b.id))
    });
    pools
}

/// `None` for a pool whose driver is replacing the generation.
fn build(
    inventory: &Inventory,
    id: PoolId,
    relevant: Relevant,
    features: &Features,
) -> Option<Pool> {
    let Relevant {
        generation,
        mut slices,
    } = relevant;
    let generations = inventory.generations(&id)?;
    let all = Arc::clone(generations.get(&generation)?);
    let wanted = slices.first()?.spec.pool.resource_slice_count;
    let is_whole = |count: usize| i64::try_from(count) == Ok(wanted);
    let mut others_count = false;
    if !is_whole(slices.len()) {
        let newest = generations.keys().next_back()?;
        if *newest > generation {
            return None;
        }
        if !is_whole(all.slices.len()) {
            return Some(Pool {
                state: PoolState::Incomplete,
                id,
                slices: SmallVec::new(),
                generation: all,
            });
        }
        others_count = true;
    }
    slices.sort_by(|a, b| a.name.cmp(&b.name));
    let unknown_counters = || {
        let wrong = |slice: &Arc<Slice>| all.unknown_counters.contains(&slice.serial);
        !all.unknown_counters.is_empty()
            && (slices.iter().any(wrong) || others_count && all.slices.iter().any(wrong))
    };
    let has_devices =
        |slice: &Slice| !features.partitionable_devices || slice.spec.shared_counters.is_empty();
    let duplicates = || {
        let with_devices = slices.iter().map(|slice| &**slice);
        !all.unique_names && !have_unique_names(with_devices.filter(|slice| has_devices(slice)))
    };
    let invalid = duplicates()
        || features.partitionable_devices && (all.duplicate_counter_set || unknown_counters());
    slices.retain(|slice| has_devices(slice));
    Some(Pool {
        state: if invalid {
            PoolState::Invalid
        } else {
            PoolState::Usable
        },
        id,
        slices,
        generation: all,
    })
}

// === impl Pool ===

impl Pool {
    fn has_binding_conditions(&self) -> bool {
        self.state == PoolState::Usable
            && self.slices.iter().any(|slice| slice.has_binding_conditions)
    }
}
