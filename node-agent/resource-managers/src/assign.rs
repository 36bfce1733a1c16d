//! Which CPUs a container gets of those that are free. Pure.
//!
//! Whole sockets and NUMA nodes first, then whole caches where asked for, then
//! whole cores, then single threads of the cores that are used most: what is
//! left stays as whole as it can. The order is the kubelet's, so that it and
//! the agent choose alike.

use std::collections::{BTreeMap, BTreeSet};

use node_agent_pod_resources::cpuset::CpuSet;

use super::hints::NumaMask;
use super::topology::{CpuLocation, MachineTopology};

/// The order in which CPUs are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuOrder {
    /// One thread of each core before the second of any
    /// (`distribute-cpus-across-cores`).
    pub spread: bool,
    /// Whole caches before whole cores (`prefer-align-cpus-by-uncorecache`).
    pub caches: bool,
}

/// Fewer CPUs are free than were requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not enough cpus available to satisfy request: requested={wanted}, available={free}")]
pub struct NotEnoughCpus {
    /// How many are wanted.
    pub wanted: usize,
    /// How many there are.
    pub free: usize,
}

/// Takes `wanted` of the `free` CPUs.
///
/// # Errors
/// When there are not as many.
pub fn packed(
    topology: &MachineTopology,
    free: &CpuSet,
    wanted: usize,
    order: CpuOrder,
) -> Result<CpuSet, NotEnoughCpus> {
    let mut taking = CpuSelection::new(topology, free, wanted)?;
    taking.whole(taking.first());
    taking.whole(taking.second());
    if order.caches {
        taking.caches();
    }
    if !order.spread {
        taking.whole(TopologyLevel::Core);
    }
    taking.rest(order.spread);
    Ok(taking.taken)
}

/// Takes `wanted` of the `free` CPUs, as many of each NUMA node, of as few
/// nodes as it needs, so that what is left is as even as it can be; in groups
/// of `group` (threads of a core).
///
/// # Errors
/// When there are not as many.
pub fn distributed(
    topology: &MachineTopology,
    free: &CpuSet,
    wanted: usize,
    group: usize,
    order: CpuOrder,
) -> Result<CpuSet, NotEnoughCpus> {
    let order = CpuOrder {
        caches: false,
        ..order
    };
    let group = group.max(1);
    if wanted == 0 || !wanted.is_multiple_of(group) {
        return packed(topology, free, wanted, order);
    }
    let mut taking = CpuSelection::new(topology, free, wanted)?;
    let nodes = taking.sorted(TopologyLevel::Numa);
    let Some(share) = shares(topology, &taking, &nodes, wanted, group) else {
        return packed(topology, free, wanted, order);
    };
    for (node, count) in share {
        let of_node = taking.free_of(TopologyLevel::Numa, node);
        let cpus = packed(topology, &of_node, count, order)?;
        taking.take(&cpus);
    }
    Ok(taking.taken)
}

/// How many CPUs come of which node; none when no even share is possible.
fn shares(
    topology: &MachineTopology,
    taking: &CpuSelection<'_>,
    nodes: &[u32],
    wanted: usize,
    group: usize,
) -> Option<Vec<(u32, usize)>> {
    let free: BTreeMap<u32, usize> = nodes
        .iter()
        .map(|node| (*node, taking.free_of(TopologyLevel::Numa, *node).len()))
        .collect();
    let groups = topology.cpus.len().div_ceil(group);
    let per_node = groups.div_ceil(topology.count(|p| p.numa).max(1));
    let needed = wanted.div_ceil(group);
    for count in needed.div_ceil(per_node.max(1))..=needed.min(nodes.len()) {
        let each = wanted / count / group * group;
        let rest = wanted - each * count;
        let mut best: Option<(u64, Vec<u32>, Vec<u32>)> = None;
        for combination in combinations(nodes, count) {
            let of = |node: &u32| free.get(node).copied().unwrap_or(0);
            let whole: usize = combination.iter().map(|n| of(n) / group * group).sum();
            if whole < wanted || combination.iter().any(|n| of(n) < each) {
                continue;
            }
            let mut left = free.clone();
            for node in &combination {
                left.entry(*node).and_modify(|n| *n -= each);
            }
            let Some((uneven, more)) = spread_rest(&combination, &left, rest, group) else {
                continue;
            };
            if best.as_ref().is_none_or(|(least, ..)| uneven < *least) {
                best = Some((uneven, combination, more));
            }
        }
        if let Some((_, combination, more)) = best {
            let extra = |node: &u32| more.iter().filter(|n| *n == node).count() * group;
            let share = combination.iter().map(|node| (*node, each + extra(node)));
            return Some(share.collect());
        }
    }
    None
}

/// Of which nodes the rest comes, a group at a time, so that what is left in
/// all is as even as possible; and how uneven that is.
fn spread_rest(
    combination: &[u32],
    left: &BTreeMap<u32, usize>,
    rest: usize,
    group: usize,
) -> Option<(u64, Vec<u32>)> {
    if rest == 0 {
        return Some((unevenness(left), Vec::new()));
    }
    let some: Vec<u32> = combination
        .iter()
        .copied()
        .filter(|node| left.get(node).is_some_and(|n| *n >= group))
        .collect();
    let mut best: Option<(u64, Vec<u32>)> = None;
    for count in (1..=some.len()).rev() {
        for subset in combinations(&some, count) {
            let mut after = left.clone();
            let mut from = Vec::new();
            let mut open = rest;
            while open > 0 {
                let before = open;
                for node in &subset {
                    if open > 0
                        && let Some(n) = after.get_mut(node).filter(|n| **n >= group)
                    {
                        *n -= group;
                        open -= group;
                        from.push(*node);
                    }
                }
                if open == before {
                    break;
                }
            }
            if open > 0 {
                continue;
            }
            let uneven = unevenness(&after);
            if best.as_ref().is_none_or(|(least, _)| uneven < *least) {
                best = Some((uneven, from));
            }
        }
    }
    best
}

/// How far the values are from their mean: grows with their deviation.
fn unevenness(values: &BTreeMap<u32, usize>) -> u64 {
    let count = values.len() as u64;
    let sum: u64 = values.values().map(|n| *n as u64).sum();
    // times the count, so that the mean is whole
    let far = |n: &usize| (*n as u64).saturating_mul(count).abs_diff(sum);
    values.values().map(|n| far(n).saturating_mul(far(n))).sum()
}

/// All choices of `count` of these, in their order.
fn combinations(all: &[u32], count: usize) -> Vec<Vec<u32>> {
    match (count, all) {
        (0, _) => vec![Vec::new()],
        (_, []) => Vec::new(),
        (_, [first, rest @ ..]) => {
            let mut with = combinations(rest, count - 1);
            for choice in &mut with {
                choice.insert(0, *first);
            }
            with.extend(combinations(rest, count));
            with
        }
    }
}

/// A level of the CPU topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TopologyLevel {
    Socket,
    Numa,
    Cache,
    Core,
}

impl TopologyLevel {
    fn of(self, place: &CpuLocation) -> u32 {
        match self {
            Self::Socket => place.socket,
            Self::Numa => place.numa,
            Self::Cache => place.cache,
            Self::Core => place.core,
        }
    }
}

struct CpuSelection<'a> {
    topology: &'a MachineTopology,
    free: CpuSet,
    needed: usize,
    taken: CpuSet,
}

impl<'a> CpuSelection<'a> {
    fn new(
        topology: &'a MachineTopology,
        free: &CpuSet,
        wanted: usize,
    ) -> Result<Self, NotEnoughCpus> {
        let free = free.intersection(&topology.all());
        if free.len() < wanted {
            let free = free.len();
            return Err(NotEnoughCpus { wanted, free });
        }
        Ok(Self {
            topology,
            free,
            needed: wanted,
            taken: CpuSet::default(),
        })
    }

    /// The larger of sockets and NUMA nodes, and the smaller: nodes are in
    /// sockets, or the other way round.
    fn first(&self) -> TopologyLevel {
        let (sockets, nodes) = (
            self.topology.count(|p| p.socket),
            self.topology.count(|p| p.numa),
        );
        if sockets >= nodes {
            TopologyLevel::Numa
        } else {
            TopologyLevel::Socket
        }
    }

    fn second(&self) -> TopologyLevel {
        match self.first() {
            TopologyLevel::Numa => TopologyLevel::Socket,
            _ => TopologyLevel::Numa,
        }
    }

    fn all_of(&self, part: TopologyLevel, id: u32) -> CpuSet {
        self.topology.select(|place| part.of(place) == id)
    }

    fn free_of(&self, part: TopologyLevel, id: u32) -> CpuSet {
        self.free.intersection(&self.all_of(part, id))
    }

    /// The parts that have free CPUs, inside others with few left first, and
    /// of those again the ones with few left.
    fn sorted(&self, part: TopologyLevel) -> Vec<u32> {
        let first = self.first();
        let inside = match part {
            p if p == first => None,
            TopologyLevel::Core => Some(self.second()),
            TopologyLevel::Cache => Some(TopologyLevel::Numa),
            _ => Some(first),
        };
        let Some(around) = inside else {
            return self.sorted_in(part, &self.free);
        };
        let mut all = Vec::new();
        for outer in self.sorted(around) {
            let of_outer = self.free_of(around, outer);
            for one in self.sorted_in(part, &of_outer) {
                if !all.contains(&one) {
                    all.push(one);
                }
            }
        }
        all
    }

    fn sorted_in(&self, part: TopologyLevel, cpus: &CpuSet) -> Vec<u32> {
        let places = cpus.iter().filter_map(|cpu| self.topology.cpus.get(&cpu));
        let ids: BTreeSet<u32> = places.map(|place| part.of(place)).collect();
        let mut ids: Vec<u32> = ids.into_iter().collect();
        ids.sort_by_key(|id| (self.free_of(part, *id).len(), *id));
        ids
    }

    fn take(&mut self, cpus: &CpuSet) {
        self.taken = self.taken.union(cpus);
        self.free = self.free.difference(cpus);
        self.needed = self.needed.saturating_sub(cpus.len());
    }

    /// Whole parts, as long as they are needed whole.
    fn whole(&mut self, part: TopologyLevel) {
        for id in self.sorted(part) {
            let all = self.all_of(part, id);
            if all.is_subset(&self.free) && self.needed >= all.len() && self.needed > 0 {
                self.take(&all);
            }
        }
    }

    /// Whole caches, and cores of one cache for what is needed of less.
    fn caches(&mut self) {
        self.whole(TopologyLevel::Cache);
        let per_core = self.topology.per_core();
        for cache in self.sorted(TopologyLevel::Cache) {
            if self.needed == 0 {
                return;
            }
            let cores = self.needed.div_ceil(per_core);
            let of_cache = self.free_of(TopologyLevel::Cache, cache);
            let free: Vec<u32> = self
                .sorted_in(TopologyLevel::Core, &of_cache)
                .into_iter()
                .filter(|core| self.free_of(TopologyLevel::Core, *core).len() == per_core)
                .collect();
            let mut lowest = free;
            lowest.sort_unstable();
            lowest.truncate(cores);
            let mut cpus: Vec<u32> = lowest
                .iter()
                .flat_map(|core| {
                    self.all_of(TopologyLevel::Core, *core)
                        .iter()
                        .collect::<Vec<_>>()
                })
                .collect();
            cpus.sort_unstable();
            cpus.truncate(self.needed);
            if cpus.len() == self.needed {
                self.take(&cpus.into_iter().collect());
            }
        }
    }

    /// Single threads.
    fn rest(&mut self, spread: bool) {
        let part = if spread {
            TopologyLevel::Socket
        } else {
            TopologyLevel::Core
        };
        for id in self.sorted(part) {
            for cpu in self.free_of(part, id).iter().collect::<Vec<_>>() {
                if self.needed == 0 {
                    return;
                }
                self.take(&[cpu].into_iter().collect());
            }
        }
    }
}

/// The NUMA nodes of these CPUs.
#[must_use]
pub fn nodes_of(topology: &MachineTopology, cpus: &CpuSet) -> NumaMask {
    let places = cpus.iter().filter_map(|cpu| topology.cpus.get(&cpu));
    places.map(|place| place.numa).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::machine;
    use proptest::prelude::*;

    const PACKED: CpuOrder = CpuOrder {
        spread: false,
        caches: false,
    };

    fn set(text: &str) -> CpuSet {
        text.parse().unwrap()
    }

    #[test]
    fn whole_parts_are_taken_before_their_pieces() {
        // 2 sockets, 1 node in each, 4 cores, 2 threads: 0-3,8-11 and 4-7,12-15
        let machine = machine(2, 1, 4, 2);
        let cases = [
            ("0-15", 1, "0"),
            ("0-15", 2, "0,8"),
            ("0-15", 3, "0-1,8"),
            ("0-15", 8, "0-3,8-11"),
            ("0-15", 10, "0-4,8-12"),
            // a core that is used already is used up before a whole one
            ("1-15", 1, "8"),
            ("1-15", 2, "1,9"),
            // the socket that is used already likewise, for what is no whole one
            ("1-7,9-15", 2, "1,9"),
            ("1-7,9-15", 8, "4-7,12-15"),
        ];
        for (free, wanted, result) in cases {
            let found = packed(&machine, &set(free), wanted, PACKED);
            assert_eq!(found, Ok(set(result)), "{wanted} of {free}");
        }
        let error = packed(&machine, &set("0-3"), 5, PACKED).unwrap_err();
        assert_eq!(
            error.to_string(),
            "not enough cpus available to satisfy request: requested=5, available=4"
        );
    }

    #[test]
    fn options_change_the_order() {
        let machine = machine(2, 1, 4, 2);
        let spread = CpuOrder {
            spread: true,
            caches: false,
        };
        assert_eq!(packed(&machine, &set("0-15"), 3, spread), Ok(set("0-2")));
        let even = distributed(&machine, &set("0-15"), 4, 2, PACKED);
        // one node is enough
        assert_eq!(even, Ok(set("0-1,8-9")));
        let even = distributed(&machine, &set("0-15"), 10, 2, PACKED);
        // 5 cores on 2 nodes: 3 of the one, 2 of the other
        assert_eq!(even, Ok(set("0-2,4-5,8-10,12-13")));
        let even = distributed(&machine, &set("0-15"), 12, 1, PACKED);
        assert_eq!(even, Ok(set("0-2,4-6,8-10,12-14")));
    }

    #[test]
    fn a_cache_is_kept_whole_where_asked_for() {
        // one node of 4 cores of 2 threads, caches of 2 cores: 0-1,4-5 and 2-3,6-7
        let mut machine = machine(1, 1, 4, 2);
        for place in machine.cpus.values_mut() {
            place.cache = place.core / 2;
        }
        let caches = CpuOrder {
            spread: false,
            caches: true,
        };
        // cores alone would take 1,5 and 2,6
        assert_eq!(
            packed(&machine, &set("1-3,5-7"), 4, PACKED),
            Ok(set("1-2,5-6"))
        );
        assert_eq!(
            packed(&machine, &set("1-3,5-7"), 4, caches),
            Ok(set("2-3,6-7"))
        );
        assert_eq!(packed(&machine, &set("0-7"), 2, caches), Ok(set("0,4")));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn as_many_as_wanted_are_taken_and_all_of_them_were_free(
            (sockets, nodes, cores, threads) in (1..3_u32, 1..3_u32, 1..5_u32, 1..3_u32),
            holes in prop::collection::btree_set(0..32_u32, 0..12),
            share in 0..=100_usize,
            (spread, caches, even) in any::<(bool, bool, bool)>(),
        ) {
            let machine = machine(sockets, nodes, cores, threads);
            let free = machine.all().difference(&holes.into_iter().collect());
            let wanted = free.len() * share / 100;
            let order = CpuOrder { spread, caches: caches && !spread };
            let found = if even {
                distributed(&machine, &free, wanted, machine.per_core(), order)
            } else {
                packed(&machine, &free, wanted, order)
            };
            let found = found.unwrap();
            prop_assert_eq!(found.len(), wanted);
            prop_assert!(found.is_subset(&free));
            prop_assert!(packed(&machine, &free, free.len() + 1, order).is_err());
        }
    }
}
