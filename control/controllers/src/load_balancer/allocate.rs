//! Allocates load balancer addresses to Services.
//!
//! A pure function of pools and Services. A Service keeps its addresses as long as they
//! are valid; on conflict the oldest Service keeps them. Then Services that request
//! certain addresses are served, then all others, the oldest first, each from the first
//! pool (by name) that selects it, the lowest free address first. So the result depends
//! neither on the order of events nor on earlier runs.
//!
//! Two Services may share an address if both carry the same sharing key, they have no
//! port in common, and both spread traffic over all nodes, or both do not and select the
//! same pods. Otherwise an address would have to be announced from nodes that can serve
//! only one of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;

use control_client::StringMap;
use control_load_balancer::{AddressRange, Pool};
use jiff::Timestamp;

use crate::key::Key;
use crate::views::Text;

/// The addresses that a Service requests and holds.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct AddressClaim {
    pub namespace: Text,
    pub name: Text,
    pub uid: Text,
    pub created: Option<Timestamp>,
    pub labels: StringMap,
    pub namespace_labels: StringMap,
    pub ipv4: bool,
    pub ipv6: bool,
    /// An address of each family or none (`RequireDualStack`).
    pub all_families: bool,
    /// The addresses asked for by name.
    pub requested: Vec<IpAddr>,
    /// The part of the request that cannot be parsed.
    pub malformed: Option<String>,
    /// The pool asked for by name.
    pub pool: Option<Text>,
    /// The sharing key.
    pub sharing: Option<Text>,
    /// Protocol and number.
    pub ports: BTreeSet<(Text, i32)>,
    /// `externalTrafficPolicy: Local`.
    pub local: bool,
    pub selector: Option<BTreeMap<Text, Text>>,
    /// The addresses in its status.
    pub current: Vec<IpAddr>,
}

/// The reason why a Service does not get all addresses that it requests.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Problem {
    #[error("{0}")]
    Malformed(String),
    #[error("there is no pool `{0}`: correct the annotation orlop.dev/ip-pool, or create it")]
    UnknownPool(Text),
    #[error("no pool that gives addresses out by itself selects this Service")]
    NoPool,
    #[error("no {family} address is free in {pools}: add a range or delete Services")]
    Exhausted { family: &'static str, pools: String },
    #[error("no pool that selects this Service has {0}: add it to a range, or ask for another")]
    NotInPool(IpAddr),
    #[error("{address} is used by Service {by}, and cannot be shared with it: {why}")]
    Taken {
        address: IpAddr,
        by: Key,
        why: &'static str,
    },
    #[error("{0} is an address of a node: take it out of the pool")]
    OfNode(IpAddr),
    #[error("{0} is of a family that the Service does not have: set spec.ipFamilies")]
    Family(IpAddr),
}

/// The addresses assigned to a Service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Assignment {
    pub key: Key,
    /// IPv4 before IPv6, as they were; none if there is nothing to be had.
    pub addresses: Vec<IpAddr>,
    pub problem: Option<Problem>,
}

/// Allocates addresses of `pools` (in the order of their names) to all `claims`.
/// Addresses of nodes are never allocated.
pub(super) fn allocate(
    pools: &[Pool],
    nodes: &BTreeSet<IpAddr>,
    claims: &[AddressClaim],
) -> Vec<Assignment> {
    let mut order: Vec<&AddressClaim> = claims.iter().collect();
    order.sort_by(|a, b| {
        let rank = |c: &AddressClaim| {
            (
                c.created,
                c.namespace.clone(),
                c.name.clone(),
                c.uid.clone(),
            )
        };
        rank(a).cmp(&rank(b))
    });
    let mut book = AddressBook {
        pools,
        nodes,
        claims: &order,
        holders: HashMap::new(),
        shared: HashMap::new(),
        cursors: HashMap::new(),
    };
    let mut given: Vec<GivenAddresses> = vec![GivenAddresses::default(); order.len()];
    for (index, claim) in order.iter().enumerate() {
        for &address in &claim.current {
            let has = given[index].of(address.is_ipv4());
            if has.is_none() && book.may_keep(index, address) {
                book.hold(index, address);
                *has = Some(address);
            }
        }
    }
    let mut problems: Vec<Option<Problem>> = vec![None; order.len()];
    let (asking, others): (Vec<usize>, Vec<usize>) =
        (0..order.len()).partition(|&index| !order[index].requested.is_empty());
    for index in asking {
        problems[index] = book.give_requested(index, &mut given[index]);
    }
    for index in others {
        problems[index] = book.give_any(index, &mut given[index]);
    }
    order
        .iter()
        .zip(given)
        .zip(problems)
        .map(|((claim, given), problem)| Assignment {
            key: Key::new(claim.namespace.clone(), claim.name.clone()),
            addresses: given.v4.into_iter().chain(given.v6).collect(),
            problem,
        })
        .collect()
}

#[derive(Debug, Clone, Copy, Default)]
struct GivenAddresses {
    v4: Option<IpAddr>,
    v6: Option<IpAddr>,
}

impl GivenAddresses {
    const fn of(&mut self, ipv4: bool) -> &mut Option<IpAddr> {
        if ipv4 { &mut self.v4 } else { &mut self.v6 }
    }
}

/// The addresses assigned so far, by owner.
struct AddressBook<'a> {
    pools: &'a [Pool],
    nodes: &'a BTreeSet<IpAddr>,
    claims: &'a [&'a AddressClaim],
    holders: HashMap<IpAddr, Vec<usize>>,
    /// Addresses in use under a sharing key.
    shared: HashMap<&'a str, BTreeSet<IpAddr>>,
    /// Per pool and family, all before which is known to be in use: nothing is
    /// given back while a book is kept.
    cursors: HashMap<(usize, bool), (usize, IpAddr)>,
}

impl<'a> AddressBook<'a> {
    fn hold(&mut self, index: usize, address: IpAddr) {
        self.holders.entry(address).or_default().push(index);
        if let Some(key) = &self.claims[index].sharing {
            self.shared.entry(key).or_default().insert(address);
        }
    }

    fn release(&mut self, index: usize, address: IpAddr) {
        if let Some(holders) = self.holders.get_mut(&address) {
            holders.retain(|&holder| holder != index);
            if holders.is_empty() {
                self.holders.remove(&address);
                if let Some(key) = &self.claims[index].sharing
                    && let Some(shared) = self.shared.get_mut(key.as_str())
                {
                    shared.remove(&address);
                }
                // A released address may be before a cursor.
                self.cursors.clear();
            }
        }
    }

    fn is_selected(&self, claim: &AddressClaim, pool: &Pool) -> bool {
        let service = pool.service_selector.as_ref();
        let namespace = pool.namespace_selector.as_ref();
        claim.pool.as_ref().is_none_or(|name| *name == pool.name)
            && service.is_none_or(|s| s.matches(|key| claim.labels.get(key)))
            && namespace.is_none_or(|s| s.matches(|key| claim.namespace_labels.get(key)))
    }

    /// Whether a pool that may serve the Service has the address.
    fn has_pool(&self, claim: &AddressClaim, address: IpAddr) -> bool {
        self.pools
            .iter()
            .any(|pool| pool.contains(address) && self.is_selected(claim, pool))
    }

    fn may_keep(&self, index: usize, address: IpAddr) -> bool {
        let claim = self.claims[index];
        let family = if address.is_ipv4() {
            claim.ipv4
        } else {
            claim.ipv6
        };
        family
            && claim.malformed.is_none()
            && (claim.requested.is_empty() || claim.requested.contains(&address))
            && self.has_pool(claim, address)
            && !self.nodes.contains(&address)
            && self.hindrance(index, address).is_none()
    }

    /// Returns what holds the address already and cannot share it with this Service.
    fn hindrance(&self, index: usize, address: IpAddr) -> Option<Problem> {
        let claim = self.claims[index];
        let holders = self.holders.get(&address)?;
        holders.iter().find_map(|&holder| {
            let other = self.claims[holder];
            let why = why_apart(claim, other)?;
            let by = Key::new(other.namespace.clone(), other.name.clone());
            Some(Problem::Taken { address, by, why })
        })
    }

    /// Allocates all addresses that were requested by name, or none.
    fn give_requested(&mut self, index: usize, given: &mut GivenAddresses) -> Option<Problem> {
        let claim = self.claims[index];
        let problem = self.requested_problem(index, given);
        if problem.is_some() {
            // A partial allocation does not satisfy the request.
            for address in given.v4.take().into_iter().chain(given.v6.take()) {
                self.release(index, address);
            }
            return problem;
        }
        for &address in &claim.requested {
            let has = given.of(address.is_ipv4());
            if has.is_none() {
                *has = Some(address);
                self.hold(index, address);
            }
        }
        None
    }

    fn requested_problem(&self, index: usize, given: &mut GivenAddresses) -> Option<Problem> {
        let claim = self.claims[index];
        if let Some(text) = &claim.malformed {
            return Some(Problem::Malformed(text.clone()));
        }
        if let Some(problem) = self.unknown_pool(claim) {
            return Some(problem);
        }
        claim.requested.iter().find_map(|&address| {
            let family = if address.is_ipv4() {
                claim.ipv4
            } else {
                claim.ipv6
            };
            if !family {
                return Some(Problem::Family(address));
            }
            if !self.has_pool(claim, address) {
                return Some(Problem::NotInPool(address));
            }
            if self.nodes.contains(&address) {
                return Some(Problem::OfNode(address));
            }
            if *given.of(address.is_ipv4()) == Some(address) {
                return None;
            }
            self.hindrance(index, address)
        })
    }

    fn unknown_pool(&self, claim: &AddressClaim) -> Option<Problem> {
        let name = claim.pool.as_ref()?;
        let known = self.pools.iter().any(|pool| *name == pool.name);
        (!known).then(|| Problem::UnknownPool(name.clone()))
    }

    fn give_any(&mut self, index: usize, given: &mut GivenAddresses) -> Option<Problem> {
        let claim = self.claims[index];
        if let Some(text) = &claim.malformed {
            return Some(Problem::Malformed(text.clone()));
        }
        let missing: Vec<bool> = [(true, claim.ipv4), (false, claim.ipv6)]
            .into_iter()
            .filter(|&(ipv4, wanted)| wanted && given.of(ipv4).is_none())
            .map(|(ipv4, _)| ipv4)
            .collect();
        if missing.is_empty() {
            return None;
        }
        if let Some(problem) = self.unknown_pool(claim) {
            return Some(problem);
        }
        let eligible: Vec<usize> = (0..self.pools.len())
            .filter(|&at| {
                let pool = &self.pools[at];
                (pool.auto_assign || claim.pool.is_some()) && self.is_selected(claim, pool)
            })
            .collect();
        if eligible.is_empty() {
            return Some(Problem::NoPool);
        }
        // One pool for all families, if one has them all.
        let whole = eligible.iter().find_map(|&at| {
            let found: Option<Vec<IpAddr>> = missing
                .iter()
                .map(|&ipv4| self.find(index, at, ipv4))
                .collect();
            found
        });
        let mut problem = None;
        let found: Vec<IpAddr> = whole.unwrap_or_else(|| {
            let mut some = Vec::new();
            for &ipv4 in &missing {
                match eligible.iter().find_map(|&at| self.find(index, at, ipv4)) {
                    Some(address) => some.push(address),
                    None => {
                        let names: Vec<&str> = eligible
                            .iter()
                            .map(|&at| self.pools[at].name.as_str())
                            .collect();
                        problem = Some(Problem::Exhausted {
                            family: if ipv4 { "IPv4" } else { "IPv6" },
                            pools: names.join(", "),
                        });
                    }
                }
            }
            some
        });
        if problem.is_some() && claim.all_families {
            for address in given.v4.take().into_iter().chain(given.v6.take()) {
                self.release(index, address);
            }
            return problem;
        }
        for address in found {
            self.hold(index, address);
            *given.of(address.is_ipv4()) = Some(address);
        }
        problem
    }

    /// An address of a pool for a Service: one that it may share, else a free one.
    fn find(&mut self, index: usize, at: usize, ipv4: bool) -> Option<IpAddr> {
        let claim = self.claims[index];
        let pool = &self.pools[at];
        if let Some(key) = &claim.sharing {
            let known = self.shared.get(key.as_str()).into_iter().flatten();
            let mut usable = known.copied().filter(|&address| {
                address.is_ipv4() == ipv4
                    && pool.contains(address)
                    && self.hindrance(index, address).is_none()
            });
            if let Some(address) = usable.next() {
                return Some(address);
            }
        }
        let (mut which, mut next) = match self.cursors.get(&(at, ipv4)) {
            Some(&(which, address)) => (which, Some(address)),
            None => (0, pool.ranges.first().map(AddressRange::first)),
        };
        // Each step leaves behind an address that is held, a node's, or held back.
        while let Some(range) = pool.ranges.get(which) {
            if range.is_ipv4() == ipv4 {
                while let Some(address) = next {
                    let used = self.holders.contains_key(&address)
                        || self.nodes.contains(&address)
                        || pool.avoids(address);
                    if !used {
                        self.cursors.insert((at, ipv4), (which, address));
                        return Some(address);
                    }
                    next = range.after(address);
                }
            }
            which += 1;
            next = pool.ranges.get(which).map(AddressRange::first);
        }
        None
    }
}

/// Returns why two Services cannot share an address.
fn why_apart(a: &AddressClaim, b: &AddressClaim) -> Option<&'static str> {
    if a.sharing.is_none() || a.sharing != b.sharing {
        return Some("both need the same annotation orlop.dev/allow-shared-ip");
    }
    if !a.ports.is_disjoint(&b.ports) {
        return Some("they have a port in common");
    }
    if (a.local || b.local)
        && (a.local != b.local || a.selector.is_none() || a.selector != b.selector)
    {
        return Some("with externalTrafficPolicy Local both must have it and select the same pods");
    }
    None
}

#[cfg(test)]
mod tests;
