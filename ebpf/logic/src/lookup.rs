//! Finds a backend for a client's destination.

use ebpf_abi::{
    Address, Affinity, AffinityKey, Backend, BackendFlags, ChecksummedValue, Counter, MAGLEV_CHUNK,
    MaglevKey, MemberKey, NodeFlags, Port, Scope, Service, ServiceEntryKinds, ServiceFlags,
    ServiceKey, SlotKey,
};

use crate::found_backend::FoundBackend;
use crate::maps::{Entropy, Maps};

/// The result of a lookup.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "model", derive(Debug))]
pub enum Choice {
    /// The key is no service.
    NoService,
    /// The service sends this client to [`FoundBackend::backend`].
    Backend,
    /// The service has no backend.
    NoEndpoint,
    /// The service has no backend on this node and may use no other.
    NoLocalEndpoint,
    /// The same, but clients are not notified.
    Silent,
    /// The service's source ranges leave the client out.
    NotAdmitted,
    /// Whether the client is admitted cannot be known here.
    Undecided,
    /// The service changed at each attempt to read it.
    Unstable,
}

/// Whether a client may use a service with source ranges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    /// It is in one of them.
    Yes,
    /// It is in none.
    No,
    /// Its address is not known yet.
    Unknown,
}

/// The client.
pub trait LookupClient {
    /// Places the choice: uniformly distributed over all of `u32`, it chooses
    /// uniformly.
    fn spread(&self) -> u32;
    /// The client under a set, for affinity.
    fn client(&self, set: u32) -> AffinityKey;
    /// Returns whether it is in a set's source ranges.
    fn admission(&self, set: u32) -> Admission;
    /// Returns whether it is outside the cluster.
    fn is_outside(&self) -> bool;
    /// Returns whether it reaches the node's loopback addresses.
    fn is_host(&self) -> bool;
    /// The same on all nodes: of the connection, or of the client alone.
    fn hash(&self, client_alone: bool) -> Option<u32>;
    /// The backend's address, if another node has chosen it; it is on this one.
    fn chosen(&self) -> Option<Address>;
}

/// The number of attempts for a service that changes concurrently. Between two reads user
/// space must complete a whole update, so that even the third attempt means that this
/// processor was delayed twice.
pub const ATTEMPTS: u32 = 8;

/// Looks a service up and chooses a backend. `key` starts as the address's own
/// for clients inside, and ends as the key of the entry that decided. It is read
/// at most `ATTEMPTS` times.
#[inline(always)]
pub fn choose<const ATTEMPTS: u32, M: Maps + Entropy, A: LookupClient>(
    maps: &M,
    key: &mut ServiceKey,
    ask: &A,
    found: &mut FoundBackend,
) -> Choice {
    let served = maps.served(key.protocol, key.port);
    // The wildcard itself is not an address.
    if served == ServiceEntryKinds::NONE || key.address == key.address.wildcard() {
        return Choice::NoService;
    }
    choose_at::<ATTEMPTS, _, _>(maps, key, served, ask, found)
}

/// The same, where it is known that `key` may be an entry's: of an address, or of all
/// that are the node's ([`addressed`]).
#[inline(always)]
pub fn choose_at<const ATTEMPTS: u32, M: Maps + Entropy, A: LookupClient>(
    maps: &M,
    key: &mut ServiceKey,
    served: ServiceEntryKinds,
    ask: &A,
    found: &mut FoundBackend,
) -> Choice {
    if ATTEMPTS == 3 {
        // Without a loop: Linux 6.1 takes none that a call falls back into.
        if let Some(choice) = once(maps, key, served, ask, found) {
            return choice;
        }
        if let Some(choice) = once(maps, key, served, ask, found) {
            return choice;
        }
        return once(maps, key, served, ask, found).unwrap_or(Choice::Unstable);
    }
    let mut attempt = 0;
    while attempt < ATTEMPTS {
        attempt += 1;
        if let Some(choice) = once(maps, key, served, ask, found) {
            return choice;
        }
    }
    Choice::Unstable
}

/// Returns whether there is an entry for a client that does not reach loopback addresses.
/// `key` is then the entry's: that of the address, or the wildcard. If there is none,
/// [`choose`] finds none either.
#[inline(always)]
pub fn addressed<M: Maps>(maps: &M, key: &mut ServiceKey) -> bool {
    let served = maps.served(key.protocol, key.port);
    let any = key.address.wildcard();
    // The wildcard itself is not an address.
    if served == ServiceEntryKinds::NONE || key.address == any {
        return false;
    }
    if served.contains(ServiceEntryKinds::ADDRESS) && maps.is_service(key) {
        return true;
    }
    let serves =
        |flags: NodeFlags| flags.contains(NodeFlags::PORTS) && !flags.contains(NodeFlags::LOOPBACK);
    if !served.contains(ServiceEntryKinds::NODE) || !maps.node(&key.address).is_some_and(serves) {
        return false;
    }
    key.address = any;
    maps.is_service(key)
}

/// Reads one entry: none if another is to be read, or the same again.
#[inline(always)]
fn once<M: Maps + Entropy, A: LookupClient>(
    maps: &M,
    key: &mut ServiceKey,
    served: ServiceEntryKinds,
    ask: &A,
    found: &mut FoundBackend,
) -> Option<Choice> {
    let Some(sealed) = maps.service(key) else {
        if key.scope == Scope::INTERNAL
            && served.contains(ServiceEntryKinds::NODE)
            && serves_ports(maps, &key.address, ask)
        {
            key.address = key.address.wildcard();
            return None;
        }
        return Some(Choice::NoService);
    };
    if let Some(service) = sealed.open(key) {
        if service.flags.contains(ServiceFlags::SCOPED)
            && key.scope == Scope::INTERNAL
            && ask.is_outside()
        {
            key.scope = Scope::EXTERNAL;
            return None;
        }
        if service.flags.contains(ServiceFlags::SOURCES) {
            match ask.admission(service.set) {
                Admission::Yes => {}
                // Ranges go once no entry needs them: one that was read before may.
                Admission::No if !is_still(maps, key, &service) => {
                    maps.count(Counter::Reread);
                    return None;
                }
                Admission::No => return Some(Choice::NotAdmitted),
                Admission::Unknown => return Some(Choice::Undecided),
            }
        }
        if let Some(address) = ask.chosen() {
            found.service = service;
            return match with_address(maps, &service, address) {
                Some(backend) => {
                    found.backend = backend;
                    Some(Choice::Backend)
                }
                None => Some(Choice::NoService),
            };
        }
        if service.count == 0 {
            return Some(nothing(service.flags));
        }
        if let Some(backend) = backend(maps, &service, ask) {
            found.service = service;
            found.backend = backend;
            return Some(Choice::Backend);
        }
    }
    maps.count(Counter::Reread);
    None
}

/// Returns whether this is the current entry.
#[inline(always)]
fn is_still<M: Maps>(maps: &M, key: &ServiceKey, service: &Service) -> bool {
    let now = maps.service(key).and_then(|sealed| sealed.open(key));
    now.is_some_and(|now| now == *service)
}

/// Returns whether the node serves its node ports at this address, to this client.
#[inline(always)]
fn serves_ports<M: Maps, A: LookupClient>(maps: &M, address: &Address, ask: &A) -> bool {
    let Some(flags) = maps.node(address) else {
        return false;
    };
    flags.contains(NodeFlags::PORTS) && (!flags.contains(NodeFlags::LOOPBACK) || ask.is_host())
}

#[inline(always)]
fn nothing(flags: ServiceFlags) -> Choice {
    if flags.contains(ServiceFlags::DROP_EMPTY) {
        Choice::Silent
    } else if flags.contains(ServiceFlags::LOCAL_ONLY) {
        Choice::NoLocalEndpoint
    } else {
        Choice::NoEndpoint
    }
}

#[inline(always)]
fn backend<M: Maps + Entropy, A: LookupClient>(
    maps: &M,
    service: &Service,
    ask: &A,
) -> Option<Backend> {
    let affinity = service.flags.contains(ServiceFlags::AFFINITY);
    if service.flags.contains(ServiceFlags::MAGLEV)
        && service.table != 0
        && let Some(hash) = ask.hash(affinity)
    {
        return hashed(maps, service, hash);
    }
    if affinity {
        return with_affinity(maps, service, ask.spread(), &ask.client(service.set));
    }
    slot(maps, service, scale(ask.spread(), service.count))
}

/// Returns the backend in a slot; `None` if the generation is already removed.
#[inline(always)]
fn slot<M: Maps>(maps: &M, service: &Service, slot: u32) -> Option<Backend> {
    let key = SlotKey::new(service.set, service.generation, slot);
    maps.slot(&key)?.open(&key)
}

/// The backend at a hash's place of the service's table.
#[inline(always)]
fn hashed<M: Maps>(maps: &M, service: &Service, hash: u32) -> Option<Backend> {
    let place = scale(hash, service.table);
    let key = MaglevKey::of_place(service.set, service.generation, place);
    let number = maps.place(&key, place % MAGLEV_CHUNK)?;
    if u32::from(number) >= service.count {
        return None;
    }
    slot(maps, service, u32::from(number))
}

/// This node's backend at an address.
#[inline(always)]
fn with_address<M: Maps>(maps: &M, service: &Service, address: Address) -> Option<Backend> {
    if service.is_large() {
        let key = MemberKey::of_address(service.set, service.generation, address);
        let it = slot(maps, service, maps.member(&key)?)?;
        // The slot may have been given to another one since.
        let right = it.address == address && it.flags.contains(BackendFlags::LOCAL);
        return if right { Some(it) } else { None };
    }
    let mut number = 0;
    while number < Service::WALKED {
        if number >= service.count {
            return None;
        }
        let it = slot(maps, service, number)?;
        if it.address == address && it.flags.contains(BackendFlags::LOCAL) {
            return Some(it);
        }
        number += 1;
    }
    None
}

/// The client's own backend while it belongs to the service and was used
/// lately, else a new one, which the client then keeps.
#[inline(always)]
fn with_affinity<M: Maps + Entropy>(
    maps: &M,
    service: &Service,
    spread: u32,
    key: &AffinityKey,
) -> Option<Backend> {
    let now = maps.now();
    let mut number = scale(spread, service.count);
    let mut kept = false;
    let mut whose = Affinity::new(0, Address::UNSPECIFIED, Port(0));
    if let Some(affinity) = maps.affinity(key).and_then(|sealed| sealed.open(key)) {
        let idle = now.saturating_sub(affinity.used);
        if idle < u64::from(service.affinity_seconds) * 1_000_000_000 {
            let member = MemberKey::new(
                service.set,
                service.generation,
                affinity.address,
                affinity.port,
            );
            if let Some(its) = maps.member(&member)
                && its < service.count
            {
                number = its;
                kept = true;
                whose = affinity;
            }
        }
    }
    let backend = slot(maps, service, number)?;
    if kept {
        // It may have been given to another one since.
        if backend.address != whose.address || backend.port != whose.port {
            return None;
        }
        maps.count(Counter::AffinityKept);
    }
    let value = Affinity::new(now, backend.address, backend.port);
    maps.keep(key, &ChecksummedValue::new(key, value));
    Some(backend)
}

/// `spread` scaled to `0..count`, without the bias and cost of a remainder.
#[inline(always)]
pub(crate) fn scale(spread: u32, count: u32) -> u32 {
    ((u64::from(spread) * u64::from(count)) >> 32) as u32
}

#[cfg(test)]
mod tests;
