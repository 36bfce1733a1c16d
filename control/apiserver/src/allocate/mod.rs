//! Addresses and ports of Services.
//!
//! `control_kinds::service` says what a Service needs; here it is handed out.
//! What is taken is known from the cache of Services; in between, a request
//! reserves what it is about to store and gives it back if it fails.

pub(crate) mod objects;
mod ranges;

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use control_kinds::service::{self, AddressNeed, Family, PortNeed};
use control_types::meta;
use control_types::status::{Cause, Status, quote};
use control_types::value::Value;
use ipnet::IpNet;
use rustc_hash::FxHashSet;

use crate::api::{Api, Served};
use crate::invalid;

/// How often a free address or port is sought at random before all are tried.
const TRIES: u32 = 64;
/// How far a cache may lag behind the store.
const LAG: Duration = Duration::from_secs(5);
/// How many addresses of a range are tried in turn.
const MOST: u64 = 1 << 20;

#[derive(Debug, Default)]
struct Taken {
    addresses: FxHashSet<IpAddr>,
    ports: FxHashSet<u16>,
    /// Reservations that are not in the cache yet; a rebuild keeps them.
    pending: Vec<Item>,
    /// What was given back lately: a cache that lags may still show it.
    freed: Vec<(Item, Instant)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Item {
    Address(IpAddr),
    Port(u16),
}

/// Hands out addresses and ports.
#[derive(Debug)]
pub struct Allocators {
    ranges: Vec<IpNet>,
    ports: (u16, u16),
    taken: Arc<Mutex<Taken>>,
}

/// What a request reserved; given back when dropped, unless kept.
#[derive(Debug)]
pub struct Allocation {
    taken: Arc<Mutex<Taken>>,
    reserved: Vec<Item>,
    /// What the object no longer needs once it is stored.
    unneeded: Vec<Item>,
    /// The Service for which IPAddress objects were made.
    service: Option<(Arc<Api>, Value)>,
    kept: bool,
}

fn lock(taken: &Mutex<Taken>) -> MutexGuard<'_, Taken> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Taken {
    fn take(&mut self, item: Item) -> bool {
        self.freed.retain(|(freed, _)| *freed != item);
        match item {
            Item::Address(address) => self.addresses.insert(address),
            Item::Port(port) => self.ports.insert(port),
        }
    }

    fn free(&mut self, item: Item) {
        match item {
            Item::Address(address) => self.addresses.remove(&address),
            Item::Port(port) => self.ports.remove(&port),
        };
        self.pending.retain(|pending| *pending != item);
        self.freed.push((item, Instant::now()));
    }

    /// Takes over what another knows that the caches may not show yet.
    fn inherit(&mut self, old: &mut Self) {
        self.freed = std::mem::take(&mut old.freed);
        self.freed.retain(|(_, at)| at.elapsed() < LAG);
        for (item, _) in &self.freed {
            match item {
                Item::Address(address) => self.addresses.remove(address),
                Item::Port(port) => self.ports.remove(port),
            };
        }
        self.pending = std::mem::take(&mut old.pending);
        self.pending.retain(|item| match item {
            Item::Address(address) => !self.addresses.contains(address),
            Item::Port(port) => !self.ports.contains(port),
        });
        for item in self.pending.clone() {
            self.take(item);
        }
    }
}

impl Allocation {
    /// Makes the IPAddress objects of the addresses that were reserved. `false`:
    /// somebody else has one of them.
    async fn take_addresses(&mut self, api: &Arc<Api>, service: &Value) -> Result<bool, Status> {
        // From here on they are given back when this is dropped.
        self.service = Some((Arc::clone(api), service.clone()));
        for item in self.reserved.clone() {
            let Item::Address(address) = item else {
                continue;
            };
            if !objects::take(api, address, service).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The object is stored, as `service`: what it names is taken, what it left
    /// is free. Of an updated object the addresses are taken here; `old` is what
    /// it was.
    pub async fn keep(mut self, api: &Api, stored: &Value) {
        self.kept = true;
        if self.service.is_none() {
            for item in &self.reserved {
                let Item::Address(address) = item else {
                    continue;
                };
                match objects::take(api, *address, stored).await {
                    Ok(true) => {}
                    Ok(false) => {
                        tracing::warn!(%address, "an address was given to two services");
                    }
                    Err(error) => tracing::warn!(%address, %error, "an address is not noted"),
                }
            }
        }
        give_back(api, &self.unneeded, stored).await;
        let mut taken = lock(&self.taken);
        for item in &self.unneeded {
            taken.free(*item);
        }
        // The objects say from now on who has them.
        taken
            .pending
            .retain(|item| !self.reserved.contains(item) || matches!(item, Item::Port(_)));
    }

    /// The object is not stored: all is given back before anybody is told.
    pub async fn release(mut self) {
        if let Some((api, service)) = self.service.take() {
            give_back(&api, &self.reserved, &service).await;
        }
    }

    fn reserve(&mut self, item: Item) -> bool {
        let mut taken = lock(&self.taken);
        if !taken.take(item) {
            return false;
        }
        taken.pending.push(item);
        self.reserved.push(item);
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
            for item in &self.reserved {
                taken.free(*item);
            }
        }
        if let Some((api, service)) = self.service.take() {
            // Whoever asked may be gone; the addresses are given back all the same.
            let reserved = std::mem::take(&mut self.reserved);
            tokio::spawn(async move { give_back(&api, &reserved, &service).await });
        }
    }
}

impl Allocators {
    /// Hands out addresses of `ranges` and ports from first to last.
    ///
    /// # Errors
    /// Text, when there is no range, or two of one family.
    pub fn new(ranges: &[IpNet], ports: (u16, u16)) -> Result<Self, String> {
        let same = ranges.len() == 2 && ranges[0].addr().is_ipv4() == ranges[1].addr().is_ipv4();
        if ranges.is_empty() || ranges.len() > 2 || same {
            let shown: Vec<_> = ranges.iter().map(ToString::to_string).collect();
            return Err(format!("[{}]", shown.join(", ")));
        }
        Ok(Self {
            ranges: ranges.to_vec(),
            ports,
            taken: Arc::default(),
        })
    }

    /// The address of the `kubernetes` Service.
    #[must_use]
    pub fn first_address(&self) -> Option<IpAddr> {
        self.ranges.first().and_then(|range| ranges::nth(range, 1))
    }

    /// Learns anew from the cached Services which ports are taken. Addresses are
    /// taken by IPAddress objects.
    pub fn rebuild(&self, api: &Api) {
        let Ok(cache) = api
            .resource("", "services")
            .and_then(|served| served.cache())
        else {
            return;
        };
        let mut fresh = Taken::default();
        // Locked first: what is reserved from now on survives in `pending`.
        let mut taken = lock(&self.taken);
        for object in cache.state().objects.iter() {
            let Ok(service) = object.value() else {
                continue;
            };
            for item in held(&service) {
                fresh.take(item);
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
        api: &Arc<Api>,
        served: &Served,
        object: &mut Value,
        dry_run: bool,
    ) -> Result<Allocation, Status> {
        if !is_service(served) {
            return Ok(self.nothing());
        }
        for _ in 0..TRIES {
            let mut service = object.clone();
            let mut allocation = self.settle(&Place::of(api, dry_run), &mut service, None)?;
            if dry_run || allocation.take_addresses(api, &service).await? {
                *object = service;
                return Ok(allocation);
            }
            // Another server was faster: its object arrives here, and another
            // address is chosen, or none can be.
            api.catch_up().await?;
        }
        Err(Status::internal(
            "failed to allocate a serviceIP: range is full",
        ))
    }

    /// Completes an updated Service: with what its old form had and it does
    /// not mention, and with what is new.
    ///
    /// # Errors
    /// As with [`Allocators::create`].
    pub fn update(
        &self,
        api: &Arc<Api>,
        served: &Served,
        new: &mut Value,
        old: &Value,
        dry_run: bool,
    ) -> Result<Allocation, Status> {
        if !is_service(served) {
            return Ok(self.nothing());
        }
        let mut allocation = self.settle(&Place::of(api, dry_run), new, Some(old))?;
        allocation.unneeded = items(&service::released(Some(new), old));
        Ok(allocation)
    }

    /// Frees what a deleted Service had.
    pub async fn deleted(&self, api: &Api, served: &Served, object: &Value) {
        if !is_service(served) {
            return;
        }
        let items = held(object);
        give_back(api, &items, object).await;
        let mut taken = lock(&self.taken);
        for item in items {
            taken.free(item);
        }
    }

    /// Fills in what follows from what a new Service says, without taking
    /// anything: of the server's own, whose address nobody else gets.
    ///
    /// # Errors
    /// 422 when what it says is impossible.
    pub fn complete(&self, served: &Served, object: &mut Value) -> Result<(), Status> {
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
            service: None,
            kept: false,
        }
    }

    fn settle(
        &self,
        place: &Place<'_>,
        new: &mut Value,
        old: Option<&Value>,
    ) -> Result<Allocation, Status> {
        let families: Vec<Family> = self.ranges.iter().map(family_of).collect();
        service::prepare(new, old, &families)
            .map_err(|errors| invalid::status("", "Service", meta::name(new), &errors))?;
        let had = old.map(held).unwrap_or_default();
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
        // Of a new service one port of several protocols has one node port.
        let mut shared: Vec<(i64, u16)> = Vec::new();
        for need in &needs.ports {
            let Some(at) = need.index else {
                let port = self.health_check_port(need, &mut allocation)?;
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
                    let given = self.port(at, need, &had, old.is_some(), &mut allocation);
                    given.map_err(|cause| refuse(new, cause))?
                }
            };
            shared.push((number, port));
            service::set_port(new, need.index, port);
        }
        Ok(allocation)
    }

    /// The port that a Service asks for, or a free one.
    fn port(
        &self,
        at: usize,
        need: &PortNeed,
        had: &[Item],
        updates: bool,
        allocation: &mut Allocation,
    ) -> Result<u16, Cause> {
        let field = format!("spec.ports[{at}].nodePort");
        let Some(number) = need.port else {
            return self.free_port(allocation).ok_or_else(|| Cause {
                reason: "InternalError".into(),
                message: "Internal error: failed to allocate a nodePort: range is full".into(),
                field,
            });
        };
        let item = Item::Port(number);
        // What it had it keeps, for other protocols, too.
        if had.contains(&item) || (updates && allocation.reserved.contains(&item)) {
            return Ok(number);
        }
        self.certain_port(number, allocation)
            .map_err(|why| cause(&field, format!("Invalid value: {number}: {why}")))?;
        Ok(number)
    }

    /// The port that a load balancer asks for its health checks, or a free one.
    fn health_check_port(
        &self,
        need: &PortNeed,
        allocation: &mut Allocation,
    ) -> Result<u16, Status> {
        let Some(number) = need.port else {
            return self.free_port(allocation).ok_or_else(|| {
                Status::internal("failed to allocate a HealthCheck NodePort : range is full")
            });
        };
        self.certain_port(number, allocation).map_err(|why| {
            Status::internal(format!(
                "failed to allocate requested HealthCheck NodePort {number}: {why}"
            ))
        })?;
        Ok(number)
    }

    fn certain_port(&self, number: u16, allocation: &mut Allocation) -> Result<(), String> {
        let (first, last) = self.ports;
        if !(first..=last).contains(&number) {
            return Err(format!(
                "provided port is not in the valid range. The range of valid ports is {first}-{last}"
            ));
        }
        if allocation.reserve(Item::Port(number)) {
            Ok(())
        } else {
            Err("provided port is already allocated".into())
        }
    }

    /// A free port: of the upper band as long as there is one, since the lower
    /// is left to those who ask for a certain port (KEP-3668).
    fn free_port(&self, allocation: &mut Allocation) -> Option<u16> {
        let (first, last) = self.ports;
        let upper = first + port_band(first, last);
        (0..TRIES)
            .map(|_| rand::random_range(upper..=last))
            .chain(upper..=last)
            .chain(first..upper)
            .find(|port| allocation.reserve(Item::Port(*port)))
    }
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
struct Place<'a> {
    /// `None` where there is nobody else.
    api: Option<&'a Api>,
    dry_run: bool,
}

impl<'a> Place<'a> {
    fn of(api: &'a Api, dry_run: bool) -> Self {
        Self {
            api: Some(api),
            dry_run,
        }
    }

    fn ranges(&self, first: &[IpNet]) -> Vec<IpNet> {
        self.api
            .map_or_else(|| first.to_vec(), |api| ranges::ready(api, first))
    }

    /// Reserves an address that nobody has.
    fn reserve(&self, address: IpAddr, allocation: &mut Allocation) -> bool {
        !self.api.is_some_and(|api| objects::is_taken(api, address))
            && allocation.reserve(Item::Address(address))
    }
}

/// The address that a Service asks for, or a free one. `None` when the cluster
/// has no range of the family, which only headless Services may ask.
fn address(
    place: &Place<'_>,
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
fn free_address(place: &Place<'_>, range: &IpNet, allocation: &mut Allocation) -> Option<IpAddr> {
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

fn is_service(served: &Served) -> bool {
    (served.resource.group, served.resource.plural) == ("", "services")
}

fn family_of(range: &IpNet) -> Family {
    if range.addr().is_ipv4() {
        Family::V4
    } else {
        Family::V6
    }
}

/// The addresses and ports that a Service has.
fn held(service: &Value) -> Vec<Item> {
    items(&service::held(Some(service)))
}

fn items(held: &service::Released) -> Vec<Item> {
    let addresses = held.addresses.iter().filter_map(|text| text.parse().ok());
    let ports = held.ports.iter().map(|(port, _)| Item::Port(*port));
    addresses.map(Item::Address).chain(ports).collect()
}

/// Deletes the IPAddress objects of addresses that a Service had.
async fn give_back(api: &Api, items: &[Item], service: &Value) {
    for item in items {
        if let Item::Address(address) = item
            && let Err(error) = objects::give_back(api, *address, service).await
        {
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
    const ALONE: Place<'static> = Place {
        api: None,
        dry_run: false,
    };

    impl Allocation {
        /// What [`Allocation::keep`] does where there are no objects.
        fn settled(mut self) {
            self.kept = true;
            let mut taken = lock(&self.taken);
            for item in &self.unneeded {
                taken.free(*item);
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
        let mut old = Taken::default();
        old.take(Item::Port(30000));
        old.free(Item::Port(30000));
        let mut fresh = Taken::default();
        fresh.take(Item::Port(30000));
        fresh.inherit(&mut old);
        assert!(fresh.take(Item::Port(30000)));
        // Taken anew it is taken, whatever was given back before.
        let mut newer = Taken::default();
        newer.take(Item::Port(30000));
        newer.inherit(&mut fresh);
        assert!(!newer.take(Item::Port(30000)));
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
            let allocation = all.settle(&ALONE, &mut one, None).expect("free addresses");
            kept.push((one, allocation));
        }
        let mut more = service(value!({"type": "ClusterIP"}));
        assert!(all.settle(&ALONE, &mut more, None).is_err());
        let (one, allocation) = kept.pop().expect("one");
        drop(allocation);
        let address = one
            .str_at(&["spec", "clusterIP"])
            .expect("address")
            .to_owned();
        let mut again = service(value!({"type": "ClusterIP", "clusterIP": (address.as_str())}));
        assert!(all.settle(&ALONE, &mut again, None).is_ok());
        assert_eq!(kept.len(), 5);
    }

    #[test]
    fn both_families_are_given_when_asked_for() {
        let spec = |policy: &str| service(value!({"type": "ClusterIP", "ipFamilyPolicy": policy}));
        let all = allocators(&["10.0.0.0/24", "fd00::/112"]);
        let mut one = spec("PreferDualStack");
        all.settle(&ALONE, &mut one, None)
            .expect("free addresses")
            .settled();
        assert_eq!(one.items_at(&["spec", "clusterIPs"]).len(), 2);
        let single = allocators(&["10.0.0.0/24"]);
        let mut one = spec("RequireDualStack");
        assert!(single.settle(&ALONE, &mut one, None).is_err());
    }

    #[test]
    fn node_ports_are_within_their_range_and_different() {
        let all = allocators(&["10.0.0.0/24"]);
        let port = |number: i64| value!({"port": number, "protocol": "TCP"});
        let spec = value!({"type": "NodePort", "ports": [(port(1)), (port(2)), (port(3))]});
        let mut one = service(spec);
        let allocation = all.settle(&ALONE, &mut one, None).expect("free ports");
        let mut ports: Vec<_> = held(&one)
            .into_iter()
            .filter_map(|item| match item {
                Item::Port(port) => Some(port),
                Item::Address(_) => None,
            })
            .collect();
        ports.sort_unstable();
        assert_eq!(ports, [30000, 30001, 30002]);
        let mut other = service(value!({"type": "NodePort", "ports": [(port(1))]}));
        assert!(all.settle(&ALONE, &mut other, None).is_err());
        allocation.settled();
        // As a ClusterIP the Service gives its ports back.
        let mut changed = one.clone();
        changed.set_path(&["spec", "type"], "ClusterIP");
        let mut allocation = all
            .settle(&ALONE, &mut changed, Some(&one))
            .expect("nothing new");
        allocation.unneeded = items(&service::released(Some(&changed), &one));
        allocation.settled();
        assert!(all.settle(&ALONE, &mut other, None).is_ok());
    }
}
