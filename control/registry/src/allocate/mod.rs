//! Addresses and ports of Services.
//!
//! `control_kinds::service` says what a Service needs; here it is handed out.
//! The store gives out each address and port once: addresses as objects
//! ([`objects`]), ports in one map ([`ports`]). In between, a request reserves the
//! addresses that it is about to take and gives them back if it fails.

pub mod objects;
mod port_map;
mod ports;
mod ranges;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use control_kinds::service::{self, AddressNeed, Family, PortNeed};
use control_metrics::{Kind, Page};
use control_types::meta;
use control_types::status::{Cause, Status, quote};
use control_types::value::Value;
use ipnet::IpNet;
use rustc_hash::FxHashSet;

use crate::served_resource::ServedResource;
use crate::storage::Storage;
use control_strategy::invalid;

pub use port_map::PortMap;
pub use ports::HeldPorts;
use ports::Ports;

/// How often a free address or port is sought at random before all are tried.
const TRIES: u32 = 64;
/// How far a cache may lag behind the store.
const LAG: Duration = Duration::from_secs(5);
/// How many addresses of a range are tried in turn.
const MOST: u64 = 1 << 20;
/// Behind which number stock counts the ports that it shows for a dry run.
const DRY_PORT: u16 = 32768;

#[derive(Debug, Default)]
struct AllocatedAddresses {
    addresses: FxHashSet<IpAddr>,
    /// Reservations that are not in the cache yet; a rebuild keeps them.
    pending: Vec<IpAddr>,
    /// What was given back lately: a cache that lags may still show it.
    freed: Vec<(IpAddr, Instant)>,
}

/// Hands out addresses and ports.
#[derive(Debug)]
pub struct Allocators {
    ranges: Vec<IpNet>,
    /// The allocator of node ports.
    pub ports: Arc<Ports>,
    taken: Arc<Mutex<AllocatedAddresses>>,
}

/// What a request reserved; given back when dropped, unless kept.
#[derive(Debug)]
pub struct Allocation {
    taken: Arc<Mutex<AllocatedAddresses>>,
    reserved: Vec<IpAddr>,
    /// What the object no longer needs once it is stored.
    unneeded: Vec<IpAddr>,
    /// Ports that were chosen, some of which may have been taken in the store.
    ports: Vec<u16>,
    unneeded_ports: Vec<u16>,
    held: Option<HeldPorts>,
    /// The Service for which IPAddress objects were made.
    service: Option<(Arc<Storage>, Value)>,
    map: Arc<Ports>,
    kept: bool,
}

fn lock(taken: &Mutex<AllocatedAddresses>) -> MutexGuard<'_, AllocatedAddresses> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

impl AllocatedAddresses {
    fn take(&mut self, address: IpAddr) -> bool {
        self.freed.retain(|(freed, _)| *freed != address);
        self.addresses.insert(address)
    }

    fn free(&mut self, address: IpAddr) {
        self.addresses.remove(&address);
        self.pending.retain(|pending| *pending != address);
        self.freed.push((address, Instant::now()));
    }

    /// Takes over what another knows that the caches may not show yet.
    fn inherit(&mut self, old: &mut Self) {
        self.freed = std::mem::take(&mut old.freed);
        self.freed.retain(|(_, at)| at.elapsed() < LAG);
        for (address, _) in &self.freed {
            self.addresses.remove(address);
        }
        self.pending = std::mem::take(&mut old.pending);
        self.pending
            .retain(|address| !self.addresses.contains(address));
        for address in self.pending.clone() {
            self.take(address);
        }
    }
}

impl Allocation {
    /// Makes the IPAddress objects of the addresses that were reserved. `false`:
    /// somebody else has one of them.
    async fn take_addresses(
        &mut self,
        storage: &Arc<Storage>,
        service: &Value,
    ) -> Result<bool, Status> {
        // From here on they are given back when this is dropped.
        self.service = Some((Arc::clone(storage), service.clone()));
        for address in self.reserved.clone() {
            if !objects::take(storage, address, service).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The ports that were chosen and are not among those that the request holds.
    pub fn ports_beyond(&self, held: &HeldPorts) -> Vec<u16> {
        let beyond = self.ports.iter();
        let beyond = beyond.filter(|port| !held.ports().contains(port));
        beyond.copied().collect()
    }

    /// Notes which ports the request took in the store.
    pub fn hold(&mut self, held: HeldPorts) {
        self.held = Some(held);
    }

    /// The object is stored, as `service`: what it names is taken, what it left
    /// is free. Of an updated object the addresses are taken here; `old` is what
    /// it was.
    pub async fn keep(mut self, storage: &Storage, stored: &Value) {
        self.kept = true;
        if self.service.is_none() {
            for address in &self.reserved {
                match objects::take(storage, *address, stored).await {
                    Ok(true) => {}
                    Ok(false) => {
                        tracing::warn!(%address, "an address was given to two services");
                    }
                    Err(error) => tracing::warn!(%address, %error, "an address is not noted"),
                }
            }
        }
        give_back(storage, &self.unneeded, stored).await;
        ports::give_back(storage, &self.map, &self.unneeded_ports).await;
        if let Some(held) = &mut self.held {
            held.keep(&self.ports);
        }
        let mut taken = lock(&self.taken);
        for address in &self.unneeded {
            taken.free(*address);
        }
        // The objects say from now on who has them.
        taken
            .pending
            .retain(|address| !self.reserved.contains(address));
    }

    /// The object is not stored: all is given back before anybody is told.
    pub async fn release(mut self) {
        if let Some(mut held) = self.held.take() {
            held.release().await;
        }
        if let Some((storage, service)) = self.service.take() {
            give_back(&storage, &self.reserved, &service).await;
        }
    }

    /// Notes what an updated Service no longer needs.
    fn leave(&mut self, new: &Value, old: &Value) {
        let released = service::released(Some(new), old);
        self.unneeded = addresses_of(&released);
        // A number that goes on with another protocol stays taken.
        let kept = ports_of(&service::held(Some(new)));
        self.unneeded_ports = ports_of(&released);
        self.unneeded_ports.retain(|port| !kept.contains(port));
    }

    fn reserve(&mut self, address: IpAddr) -> bool {
        let mut taken = lock(&self.taken);
        if !taken.take(address) {
            return false;
        }
        taken.pending.push(address);
        self.reserved.push(address);
        true
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        {
            let mut taken = lock(&self.taken);
            for address in &self.reserved {
                taken.free(*address);
            }
        }
        if let Some((storage, service)) = self.service.take() {
            // Whoever asked may be gone; the addresses are given back all the same.
            let reserved = std::mem::take(&mut self.reserved);
            tokio::spawn(async move { give_back(&storage, &reserved, &service).await });
        }
    }
}

/// Error for ranges of Services' addresses that cannot be used together.
#[derive(Debug, thiserror::Error)]
#[error(
    "service address ranges must be one, or one of each family: [{}]",
    .ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
)]
pub struct ServiceRangesError {
    /// The ranges.
    pub ranges: Vec<IpNet>,
}

impl Allocators {
    /// Hands out addresses of `ranges` and ports from first to last.
    ///
    /// # Errors
    /// When there is no range, or two of one family.
    pub fn new(ranges: &[IpNet], ports: (u16, u16)) -> Result<Self, ServiceRangesError> {
        let same = ranges.len() == 2 && ranges[0].addr().is_ipv4() == ranges[1].addr().is_ipv4();
        if ranges.is_empty() || ranges.len() > 2 || same {
            return Err(ServiceRangesError {
                ranges: ranges.to_vec(),
            });
        }
        Ok(Self {
            ranges: ranges.to_vec(),
            ports: Arc::new(Ports::new(ports)),
            taken: Arc::default(),
        })
    }

    /// The address of the `kubernetes` Service.
    #[must_use]
    pub fn first_address(&self) -> Option<IpAddr> {
        self.ranges.first().and_then(|range| ranges::nth(range, 1))
    }

    /// Writes how many addresses and ports there are and are taken.
    #[expect(clippy::cast_precision_loss, reason = "for metrics")]
    pub fn write(&self, page: &mut Page) {
        let taken: Vec<u64> = {
            let taken = lock(&self.taken);
            let of = |range: &IpNet| {
                let within = taken.addresses.iter().filter(|one| range.contains(*one));
                within.count() as u64
            };
            self.ranges.iter().map(of).collect()
        };
        for (name, help, free) in [
            (
                "kube_apiserver_clusterip_allocator_allocated_ips",
                "Gauge measuring the number of allocated IPs for Services",
                false,
            ),
            (
                "kube_apiserver_clusterip_allocator_available_ips",
                "Gauge measuring the number of available IPs for Services",
                true,
            ),
        ] {
            page.family(name, Kind::Gauge, help);
            for (range, taken) in self.ranges.iter().zip(&taken) {
                let cidr = range.to_string();
                let count = if free {
                    ranges::size(range).saturating_sub(*taken)
                } else {
                    *taken
                };
                page.sample(name, &[("cidr", &cidr)], count as f64);
            }
        }
        let known = self.ports.known();
        let (first, last) = self.ports.range();
        let all = u64::from(last) + 1 - u64::from(first);
        let taken = known.taken().count() as u64;
        for (name, help, count) in [
            (
                "kube_apiserver_nodeport_allocator_allocated_ports",
                "Gauge measuring the number of allocated NodePorts for Services",
                taken,
            ),
            (
                "kube_apiserver_nodeport_allocator_available_ports",
                "Gauge measuring the number of available NodePorts for Services",
                all.saturating_sub(taken),
            ),
        ] {
            page.family(name, Kind::Gauge, help);
            page.sample(name, &[], count as f64);
        }
    }

    /// Learns anew from the cached Services which addresses are taken.
    pub fn rebuild(&self, storage: &Storage) {
        let Ok(cache) = storage
            .resource("", "services")
            .and_then(|served| served.cache())
        else {
            return;
        };
        let mut fresh = AllocatedAddresses::default();
        // Locked first: what is reserved from now on survives in `pending`.
        let mut taken = lock(&self.taken);
        for object in cache.state().objects.iter() {
            let Ok(service) = object.value() else {
                continue;
            };
            for address in addresses_of(&service::held(Some(&service))) {
                fresh.take(address);
            }
        }
        if let Some(first) = self.first_address() {
            fresh.addresses.insert(first);
        }
        fresh.inherit(&mut taken);
        *taken = fresh;
    }

    /// Completes a new Service and takes what it gets.
    ///
    /// # Errors
    /// 422 when what it asks for is taken or impossible; 500 for health checks'
    /// ports, as stock has it.
    pub async fn create(
        &self,
        storage: &Arc<Storage>,
        served: &ServedResource,
        object: &mut Value,
        dry_run: bool,
    ) -> Result<Allocation, Status> {
        if !is_service(served) {
            return Ok(self.nothing());
        }
        let place = AllocationScope::of(storage, dry_run);
        let mut held = self.hold(storage);
        let mut fresh = false;
        for _ in 0..TRIES {
            let mut service = object.clone();
            let settled = self.settle(&place, held.ports(), &mut service, None);
            let mut allocation = match settled {
                Ok(allocation) => allocation,
                // Another server may have freed a port in between.
                Err(_) if !fresh && may_have_ports(object) => {
                    self.ports.refresh(storage).await?;
                    fresh = true;
                    continue;
                }
                Err(status) => return Err(status),
            };
            if dry_run {
                *object = service;
                return Ok(allocation);
            }
            let ports = allocation.ports_beyond(&held);
            if !ports.is_empty() && !held.take(&ports).await? {
                // What is taken is known now: others are chosen, or none can be.
                fresh = true;
                continue;
            }
            if allocation.take_addresses(storage, &service).await? {
                allocation.hold(held);
                *object = service;
                return Ok(allocation);
            }
            // Another server was faster: its object arrives here, and another
            // address is chosen, or none can be.
            storage.catch_up().await?;
        }
        Err(Status::internal(
            "failed to allocate a serviceIP: range is full",
        ))
    }

    /// Completes an updated Service: with what its old form had and it does
    /// not mention, and with what is new. Ports that are not among those `held`
    /// are to be taken before it is stored.
    ///
    /// # Errors
    /// As with [`Allocators::create`].
    pub async fn update(
        &self,
        storage: &Arc<Storage>,
        served: &ServedResource,
        new: &mut Value,
        old: &Value,
        held: &[u16],
        dry_run: bool,
    ) -> Result<Allocation, Status> {
        if !is_service(served) {
            return Ok(self.nothing());
        }
        let place = AllocationScope::of(storage, dry_run);
        let mut allocation = if may_have_ports(new) {
            let mut first = new.clone();
            if let Ok(allocation) = self.settle(&place, held, &mut first, Some(old)) {
                *new = first;
                allocation
            } else {
                // Another server may have freed a port in between.
                self.ports.refresh(storage).await?;
                self.settle(&place, held, new, Some(old))?
            }
        } else {
            self.settle(&place, held, new, Some(old))?
        };
        allocation.leave(new, old);
        Ok(allocation)
    }

    /// Returns the ports that a request will take in the store: none yet.
    #[must_use]
    pub fn hold(&self, storage: &Arc<Storage>) -> HeldPorts {
        HeldPorts::new(storage, &self.ports)
    }

    /// Frees what a deleted Service had.
    pub async fn deleted(&self, storage: &Storage, served: &ServedResource, object: &Value) {
        if !is_service(served) {
            return;
        }
        let had = service::held(Some(object));
        let addresses = addresses_of(&had);
        give_back(storage, &addresses, object).await;
        ports::give_back(storage, &self.ports, &ports_of(&had)).await;
        let mut taken = lock(&self.taken);
        for address in addresses {
            taken.free(address);
        }
    }

    /// Fills in what follows from what a new Service says, without taking
    /// anything: of the server's own, whose address nobody else gets.
    ///
    /// # Errors
    /// 422 when what it says is impossible.
    pub fn complete(&self, served: &ServedResource, object: &mut Value) -> Result<(), Status> {
        if !is_service(served) {
            return Ok(());
        }
        let families: Vec<Family> = self.ranges.iter().map(family_of).collect();
        service::prepare(object, None, &families)
            .map_err(|errors| invalid::status("", "Service", meta::name(object), &errors))
    }

    fn nothing(&self) -> Allocation {
        Allocation {
            taken: Arc::clone(&self.taken),
            reserved: Vec::new(),
            unneeded: Vec::new(),
            ports: Vec::new(),
            unneeded_ports: Vec::new(),
            held: None,
            service: None,
            map: Arc::clone(&self.ports),
            kept: false,
        }
    }

    fn settle(
        &self,
        place: &AllocationScope<'_>,
        held: &[u16],
        new: &mut Value,
        old: Option<&Value>,
    ) -> Result<Allocation, Status> {
        let families: Vec<Family> = self.ranges.iter().map(family_of).collect();
        service::prepare(new, old, &families)
            .map_err(|errors| invalid::status("", "Service", meta::name(new), &errors))?;
        let needs = service::needs(new, old);
        let mut allocation = self.nothing();
        let refuse =
            |new: &Value, cause| Status::invalid("", "Service", meta::name(new), vec![cause]);
        let ranges = place.ranges(&self.ranges);
        for need in &needs.addresses {
            let given = address(place, &ranges, need, &mut allocation);
            let given = given.map_err(|cause| refuse(new, cause))?;
            if let Some(address) = given {
                service::set_address(new, need.index, &address.to_string());
            }
        }
        if needs.ports.is_empty() {
            return Ok(allocation);
        }
        let choice = Choice {
            range: self.ports.range(),
            known: &self.ports.known(),
            held,
            had: &ports_of(&service::held(old)),
            updates: old.is_some(),
            dry_run: place.dry_run,
        };
        // Of a new service one port of several protocols has one node port.
        let mut shared: Vec<(i64, u16)> = Vec::new();
        for need in &needs.ports {
            let Some(at) = need.index else {
                let port = choice.health_check_port(need, &mut allocation.ports)?;
                service::set_port(new, None, port);
                continue;
            };
            let number = new
                .items_at(&["spec", "ports"])
                .get(at)
                .and_then(|port| port.i64_at(&["port"]))
                .unwrap_or_default();
            let same = shared
                .iter()
                .find(|(port, _)| old.is_none() && *port == number)
                .map(|(_, given)| *given);
            let port = match (same, need.port) {
                (Some(given), None) => given,
                (Some(given), Some(asked)) if given == asked => given,
                _ => {
                    let given = choice.port(at, need, &mut allocation.ports);
                    given.map_err(|cause| refuse(new, cause))?
                }
            };
            shared.push((number, port));
            service::set_port(new, need.index, port);
        }
        Ok(allocation)
    }
}

/// From what the ports of one Service are chosen.
struct Choice<'a> {
    range: (u16, u16),
    known: &'a PortMap,
    /// What the request took in the store already.
    held: &'a [u16],
    /// What the Service had.
    had: &'a [u16],
    updates: bool,
    dry_run: bool,
}

impl Choice<'_> {
    /// The port that a Service asks for, or a free one. `chosen`: those of the
    /// Service that were chosen before.
    fn port(&self, at: usize, need: &PortNeed, chosen: &mut Vec<u16>) -> Result<u16, Cause> {
        let field = format!("spec.ports[{at}].nodePort");
        let Some(number) = need.port else {
            return self.free(chosen).ok_or_else(|| Cause {
                reason: "InternalError".into(),
                message: "Internal error: failed to allocate a nodePort: range is full".into(),
                field,
            });
        };
        // What it had it keeps, for other protocols, too.
        if self.had.contains(&number) || (self.updates && chosen.contains(&number)) {
            return Ok(number);
        }
        self.certain(number, chosen)
            .map_err(|why| cause(&field, format!("Invalid value: {number}: {why}")))?;
        Ok(number)
    }

    /// The port that a load balancer asks for its health checks, or a free one.
    fn health_check_port(&self, need: &PortNeed, chosen: &mut Vec<u16>) -> Result<u16, Status> {
        let Some(number) = need.port else {
            return self.free(chosen).ok_or_else(|| {
                Status::internal("failed to allocate a HealthCheck NodePort : range is full")
            });
        };
        self.certain(number, chosen).map_err(|why| {
            Status::internal(format!(
                "failed to allocate requested HealthCheck NodePort {number}: {why}"
            ))
        })?;
        Ok(number)
    }

    fn certain(&self, number: u16, chosen: &mut Vec<u16>) -> Result<(), PortError> {
        let (first, last) = self.range;
        // A dry run only looks whether it is taken.
        if !self.dry_run && !(first..=last).contains(&number) {
            return Err(PortError::OutOfRange { first, last });
        }
        if !self.is_free(number, chosen) {
            return Err(PortError::Allocated);
        }
        chosen.push(number);
        Ok(())
    }

    /// A free port: of the upper band as long as there is one, since the lower
    /// is left to those who ask for a certain port (KEP-3668). A dry run takes
    /// none: it is shown a number that is no node port.
    fn free(&self, chosen: &mut Vec<u16>) -> Option<u16> {
        let port = if self.dry_run {
            let last = chosen.iter().copied().max().unwrap_or(DRY_PORT);
            Some(last.saturating_add(1))
        } else {
            let (first, last) = self.range;
            let upper = first + port_band(first, last);
            let held = self.held.iter().copied();
            held.chain((0..TRIES).map(|_| rand::random_range(upper..=last)))
                .chain(upper..=last)
                .chain(first..upper)
                .find(|port| self.is_free(*port, chosen))
        };
        chosen.extend(port);
        port
    }

    fn is_free(&self, port: u16, chosen: &[u16]) -> bool {
        (self.held.contains(&port) || !self.known.has(port)) && !chosen.contains(&port)
    }
}

/// Error for a port that a Service asks for, in the words of stock.
#[derive(Debug, thiserror::Error)]
enum PortError {
    #[error("provided port is not in the valid range. The range of valid ports is {first}-{last}")]
    OutOfRange { first: u16, last: u16 },
    #[error("provided port is already allocated")]
    Allocated,
}

/// How many ports at the beginning of a range are left to services that ask for
/// certain ones.
fn port_band(first: u16, last: u16) -> u16 {
    const LEAST: u16 = 16;
    let size = (last - first).saturating_add(1);
    if size <= LEAST {
        0
    } else {
        (size / 32).clamp(LEAST, 128)
    }
}

/// Where addresses are looked for.
struct AllocationScope<'a> {
    /// `None` where there is nobody else.
    storage: Option<&'a Storage>,
    dry_run: bool,
}

impl<'a> AllocationScope<'a> {
    fn of(storage: &'a Storage, dry_run: bool) -> Self {
        Self {
            storage: Some(storage),
            dry_run,
        }
    }

    fn ranges(&self, first: &[IpNet]) -> Vec<IpNet> {
        self.storage
            .map_or_else(|| first.to_vec(), |storage| ranges::ready(storage, first))
    }

    /// Reserves an address that nobody has.
    fn reserve(&self, address: IpAddr, allocation: &mut Allocation) -> bool {
        !self
            .storage
            .is_some_and(|storage| objects::is_taken(storage, address))
            && allocation.reserve(address)
    }
}

/// The address that a Service asks for, or a free one. `None` when the cluster
/// has no range of the family, which only headless Services may ask.
fn address(
    place: &AllocationScope<'_>,
    ranges: &[IpNet],
    need: &AddressNeed,
    allocation: &mut Allocation,
) -> Result<Option<IpAddr>, Cause> {
    let field = format!("spec.clusterIPs[{}]", need.index);
    let of_family: Vec<&IpNet> = ranges
        .iter()
        .filter(|range| family_of(range) == need.family)
        .collect();
    let Some(text) = &need.address else {
        if of_family.is_empty() {
            return Ok(None);
        }
        return of_family
            .iter()
            .find_map(|range| free_address(place, range, allocation))
            .map(Some)
            .ok_or_else(|| Cause {
                reason: "InternalError".into(),
                message: "Internal error: failed to allocate a serviceIP: range is full".into(),
                field,
            });
    };
    let refuse = |why: &str| {
        let shown = format!("[{}]", quote(text));
        cause(
            "spec.clusterIPs",
            format!("Invalid value: {shown}: failed to allocate IP {text}: {why}"),
        )
    };
    let address: IpAddr = text.parse().map_err(|_| refuse("not a valid IP"))?;
    if !of_family.iter().any(|range| ranges::has(range, address)) {
        return Err(refuse(
            "the provided network does not match the current range",
        ));
    }
    // A dry run takes nothing, and does not look either.
    if !place.dry_run && !place.reserve(address, allocation) {
        return Err(refuse("provided IP is already allocated"));
    }
    Ok(Some(address))
}

/// A free address: of the upper band as long as there is one, since the lower
/// is left to those who ask for a certain address (KEP-3070).
fn free_address(
    place: &AllocationScope<'_>,
    range: &IpNet,
    allocation: &mut Allocation,
) -> Option<IpAddr> {
    let size = ranges::size(range);
    let band = ranges::band(range).min(size);
    let upper = band + 1..size + 1;
    let random =
        (0..if upper.is_empty() { 0 } else { TRIES }).map(|_| rand::random_range(upper.clone()));
    // Of a range that is nearly full every address is tried, of one that is too
    // large for that the first million.
    let all = (band + 1..=size.min(band + MOST)).chain(1..=band);
    random
        .chain(all)
        .filter_map(|at| ranges::nth(range, at))
        .find(|address| place.reserve(*address, allocation))
}

fn cause(field: &str, message: String) -> Cause {
    Cause {
        reason: "FieldValueInvalid".into(),
        message,
        field: field.into(),
    }
}

fn is_service(served: &ServedResource) -> bool {
    (served.resource.group, served.resource.plural) == ("", "services")
}

fn family_of(range: &IpNet) -> Family {
    if range.addr().is_ipv4() {
        Family::V4
    } else {
        Family::V6
    }
}

/// Whether a new Service may want node ports.
fn may_have_ports(service: &Value) -> bool {
    matches!(
        service.str_at(&["spec", "type"]),
        Some("NodePort" | "LoadBalancer")
    )
}

fn addresses_of(held: &service::ReleasedResources) -> Vec<IpAddr> {
    let addresses = held.addresses.iter();
    addresses.filter_map(|text| text.parse().ok()).collect()
}

fn ports_of(held: &service::ReleasedResources) -> Vec<u16> {
    held.ports.iter().map(|(port, _)| *port).collect()
}

/// Deletes the IPAddress objects of addresses that a Service had.
async fn give_back(storage: &Storage, addresses: &[IpAddr], service: &Value) {
    for address in addresses {
        if let Err(error) = objects::give_back(storage, *address, service).await {
            // The repair finds it later.
            tracing::warn!(%address, %error, "an address is not given back");
        }
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    /// Nobody but the allocators themselves knows what is taken.
    const ALONE: AllocationScope<'static> = AllocationScope {
        storage: None,
        dry_run: false,
    };

    impl Allocation {
        /// What [`Allocation::keep`] does where there are no objects.
        fn settled(mut self) {
            self.kept = true;
            let mut taken = lock(&self.taken);
            for address in &self.unneeded {
                taken.free(*address);
            }
        }
    }

    #[test]
    fn bands_of_ports_are_those_of_kep_3668() {
        assert_eq!(port_band(30000, 32767), 86);
        assert_eq!(port_band(30000, 30015), 0);
        assert_eq!(port_band(30000, 30016), 16);
        assert_eq!(port_band(20000, 60000), 128);
    }

    #[test]
    fn what_was_given_back_stays_free_though_a_cache_still_shows_it() {
        let address: IpAddr = "10.0.0.1".parse().expect("an address");
        let mut old = AllocatedAddresses::default();
        old.take(address);
        old.free(address);
        let mut fresh = AllocatedAddresses::default();
        fresh.take(address);
        fresh.inherit(&mut old);
        assert!(fresh.take(address));
        // Taken anew it is taken, whatever was given back before.
        let mut newer = AllocatedAddresses::default();
        newer.take(address);
        newer.inherit(&mut fresh);
        assert!(!newer.take(address));
    }

    fn allocators(ranges: &[&str]) -> Allocators {
        let ranges: Vec<IpNet> = ranges
            .iter()
            .map(|range| range.parse().expect("range"))
            .collect();
        Allocators::new(&ranges, (30000, 30002)).expect("valid ranges")
    }

    fn service(spec: Value) -> Value {
        value!({"metadata": {"name": "s"}, "spec": (spec)})
    }

    #[test]
    fn addresses_are_given_once_and_come_back() {
        let all = allocators(&["10.0.0.0/29"]);
        let mut kept = Vec::new();
        for _ in 0..6 {
            let mut one = service(value!({"type": "ClusterIP"}));
            let allocation = all
                .settle(&ALONE, &[], &mut one, None)
                .expect("free addresses");
            kept.push((one, allocation));
        }
        let mut more = service(value!({"type": "ClusterIP"}));
        assert!(all.settle(&ALONE, &[], &mut more, None).is_err());
        let (one, allocation) = kept.pop().expect("one");
        drop(allocation);
        let address = one
            .str_at(&["spec", "clusterIP"])
            .expect("address")
            .to_owned();
        let mut again = service(value!({"type": "ClusterIP", "clusterIP": (address.as_str())}));
        assert!(all.settle(&ALONE, &[], &mut again, None).is_ok());
        assert_eq!(kept.len(), 5);
    }

    #[test]
    fn both_families_are_given_when_asked_for() {
        let spec = |policy: &str| service(value!({"type": "ClusterIP", "ipFamilyPolicy": policy}));
        let all = allocators(&["10.0.0.0/24", "fd00::/112"]);
        let mut one = spec("PreferDualStack");
        all.settle(&ALONE, &[], &mut one, None)
            .expect("free addresses")
            .settled();
        assert_eq!(one.items_at(&["spec", "clusterIPs"]).len(), 2);
        let single = allocators(&["10.0.0.0/24"]);
        let mut one = spec("RequireDualStack");
        assert!(single.settle(&ALONE, &[], &mut one, None).is_err());
    }

    #[test]
    fn node_ports_are_within_their_range_and_different() {
        let all = allocators(&["10.0.0.0/24"]);
        let port = |number: i64| value!({"port": number, "protocol": "TCP"});
        let spec = value!({"type": "NodePort", "ports": [(port(1)), (port(2)), (port(3))]});
        let mut one = service(spec);
        let allocation = all.settle(&ALONE, &[], &mut one, None).expect("free ports");
        let mut ports = ports_of(&service::held(Some(&one)));
        ports.sort_unstable();
        assert_eq!(ports, [30000, 30001, 30002]);
        assert_eq!(allocation.ports.len(), 3);
        all.ports.note(&allocation.ports, true);
        let mut other = service(value!({"type": "NodePort", "ports": [(port(1))]}));
        assert!(all.settle(&ALONE, &[], &mut other, None).is_err());
        // What the request itself took in the store it may choose.
        let mut again = other.clone();
        assert!(all.settle(&ALONE, &[30001], &mut again, None).is_ok());
        assert_eq!(ports_of(&service::held(Some(&again))), [30001]);
        // As a ClusterIP the Service gives its ports back.
        let mut changed = one.clone();
        changed.set_path(&["spec", "type"], "ClusterIP");
        let mut allocation = all
            .settle(&ALONE, &[], &mut changed, Some(&one))
            .expect("nothing new");
        allocation.leave(&changed, &one);
        allocation.unneeded_ports.sort_unstable();
        assert_eq!(allocation.unneeded_ports, [30000, 30001, 30002]);
        all.ports.note(&allocation.unneeded_ports, false);
        assert!(all.settle(&ALONE, &[], &mut other, None).is_ok());
    }

    #[test]
    fn a_port_that_changes_its_protocol_stays_taken() {
        let all = allocators(&["10.0.0.0/24"]);
        let of = |protocol: &str| {
            let port = value!({"port": 1, "protocol": protocol, "nodePort": 30000});
            service(
                value!({"type": "NodePort", "clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"], "ports": [(port)]}),
            )
        };
        all.ports.note(&[30000], true);
        let (old, mut new) = (of("TCP"), of("UDP"));
        let mut allocation = all
            .settle(&ALONE, &[], &mut new, Some(&old))
            .expect("it has the port");
        allocation.leave(&new, &old);
        assert!(allocation.ports.is_empty() && allocation.unneeded_ports.is_empty());
    }

    #[test]
    fn a_dry_run_takes_no_ports_and_shows_what_stock_shows() {
        const DRY: AllocationScope<'static> = AllocationScope {
            storage: None,
            dry_run: true,
        };
        let all = allocators(&["10.0.0.0/24"]);
        all.ports.note(&[30002], true);
        let port =
            |number: i64, node: i64| value!({"port": number, "protocol": "TCP", "nodePort": node});
        let of = |ports: Vec<Value>| service(value!({"type": "NodePort", "ports": ports}));
        let mut one = of(vec![port(1, 0), port(2, 40000), port(3, 0)]);
        all.settle(&DRY, &[], &mut one, None)
            .expect("whatever it asks");
        assert_eq!(ports_of(&service::held(Some(&one))), [32769, 40000, 40001]);
        assert!(
            all.settle(&DRY, &[], &mut of(vec![port(1, 30002)]), None)
                .is_err()
        );
        let mut twice = of(vec![port(1, 40000), port(2, 40000)]);
        assert!(all.settle(&DRY, &[], &mut twice, None).is_err());
    }
}
