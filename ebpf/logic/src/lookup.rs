//! From a service's key to one of its backends.

use ebpf_abi::{
    Affinity, AffinityKey, Backend, Counter, MemberKey, Sealed, Service, ServiceFlags, ServiceKey,
    SlotKey,
};

use crate::maps::{Entropy, Maps};

/// What a lookup found.
#[derive(Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "model", derive(Debug))]
pub enum Choice {
    /// The key is no service.
    NoService,
    /// The service sends this client to a backend.
    Backend(Backend),
    /// The service has no backend.
    NoEndpoint,
    /// The service has no backend on this node and may use no other.
    NoLocalEndpoint,
    /// The service changed at each attempt to read it.
    Unstable,
}

/// How often a service that changes meanwhile is read again. Between two
/// reads user space must complete a whole update, so that even the third
/// attempt means that this processor was held up twice.
const ATTEMPTS: u32 = 8;

/// Looks a service up and chooses a backend.
///
/// `spread` places the choice: uniformly distributed over all of `u32`, it
/// chooses uniformly. `client` says who asks a set, for affinity.
#[inline(always)]
pub fn choose<M: Maps + Entropy>(
    maps: &M,
    key: &ServiceKey,
    spread: u32,
    client: impl Fn(u32) -> AffinityKey,
) -> Choice {
    let mut attempt = 0;
    while attempt < ATTEMPTS {
        let Some(sealed) = maps.service(key) else {
            return Choice::NoService;
        };
        if let Some(service) = sealed.open(key) {
            if service.count == 0 {
                return if service.flags.contains(ServiceFlags::LOCAL_ONLY) {
                    Choice::NoLocalEndpoint
                } else {
                    Choice::NoEndpoint
                };
            }
            let backend = if service.flags.contains(ServiceFlags::AFFINITY) {
                with_affinity(maps, &service, spread, &client)
            } else {
                slot(maps, &service, scale(spread, service.count))
            };
            if let Some(backend) = backend {
                return Choice::Backend(backend);
            }
        }
        maps.count(Counter::Reread);
        attempt += 1;
    }
    Choice::Unstable
}

/// The backend in a slot; none if the generation is gone already.
#[inline(always)]
fn slot<M: Maps>(maps: &M, service: &Service, slot: u32) -> Option<Backend> {
    let key = SlotKey::new(service.set, service.generation, slot);
    maps.slot(&key)?.open(&key)
}

/// The client's own backend while it belongs to the service and was used
/// lately, else a new one, which the client then keeps.
#[inline(always)]
fn with_affinity<M: Maps + Entropy>(
    maps: &M,
    service: &Service,
    spread: u32,
    client: &impl Fn(u32) -> AffinityKey,
) -> Option<Backend> {
    let key = client(service.set);
    let now = maps.now();
    let mut number = scale(spread, service.count);
    let mut kept = false;
    if let Some(affinity) = maps.affinity(&key).and_then(|sealed| sealed.open(&key)) {
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
            }
        }
    }
    let backend = slot(maps, service, number)?;
    if kept {
        maps.count(Counter::AffinityKept);
    }
    let value = Affinity::new(now, backend.address, backend.port);
    maps.keep(&key, &Sealed::new(&key, value));
    Some(backend)
}

/// `spread` scaled to `0..count`, without the bias and cost of a remainder.
#[inline(always)]
fn scale(spread: u32, count: u32) -> u32 {
    ((u64::from(spread) * u64::from(count)) >> 32) as u32
}

#[cfg(test)]
mod tests;
