//! Addresses and ports of Services.
//!
//! `control_kinds::service` says what a Service needs; here it is handed out.
//! What is taken is known from the cache of Services; in between, a request
//! reserves what it is about to store and gives it back if it fails.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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

#[derive(Debug, Default)]
struct Taken {
    addresses: FxHashSet<IpAddr>,
    ports: FxHashSet<u16>,
    /// Reservations that are not in the cache yet; a rebuild keeps them.
    pending: Vec<Item>,
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
    kept: bool,
}

fn lock(taken: &Mutex<Taken>) -> MutexGuard<'_, Taken> {
    taken.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Taken {
    fn take(&mut self, item: Item) -> bool {
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
    }
}

impl Allocation {
    /// The object is stored: what it names is taken, what it left is free.
    pub fn keep(mut self) {
        self.kept = true;
        let mut taken = lock(&self.taken);
        for item in &self.unneeded {
            taken.free(*item);
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
        if !self.kept {
            let mut taken = lock(&self.taken);
            for item in &self.reserved {
                taken.free(*item);
            }
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
        self.ranges.first().and_then(|range| nth(range, 1))
    }

    /// Learns anew from the cached Services what is taken.
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
        fresh.pending = std::mem::take(&mut taken.pending);
        fresh.pending.retain(|item| match item {
            Item::Address(address) => !fresh.addresses.contains(address),
            Item::Port(port) => !fresh.ports.contains(port),
        });
        for item in fresh.pending.clone() {
            fresh.take(item);
        }
        *taken = fresh;
    }

    /// Completes a new Service.
    ///
    /// # Errors
    /// 422 when what it asks for is taken or impossible.
    pub fn create(&self, served: &Served, object: &mut Value) -> Result<Allocation, Status> {
        if is_service(served) {
            self.settle(object, None)
        } else {
            Ok(self.nothing())
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

    /// Completes an updated Service: with what its old form had and it does
    /// not mention, and with what is new.
    ///
    /// # Errors
    /// 422 when what it asks for is taken or impossible.
    pub fn update(
        &self,
        served: &Served,
        new: &mut Value,
        old: &Value,
    ) -> Result<Allocation, Status> {
        if !is_service(served) {
            return Ok(self.nothing());
        }
        let mut allocation = self.settle(new, Some(old))?;
        allocation.unneeded = items(&service::released(Some(new), old));
        Ok(allocation)
    }

    /// Frees what a deleted Service had.
    pub fn deleted(&self, served: &Served, object: &Value) {
        if is_service(served) {
            let mut taken = lock(&self.taken);
            for item in held(object) {
                taken.free(item);
            }
        }
    }

    fn nothing(&self) -> Allocation {
        Allocation {
            taken: Arc::clone(&self.taken),
            reserved: Vec::new(),
            unneeded: Vec::new(),
            kept: false,
        }
    }

    fn settle(&self, new: &mut Value, old: Option<&Value>) -> Result<Allocation, Status> {
        let families: Vec<Family> = self.ranges.iter().map(family_of).collect();
        service::prepare(new, old, &families)
            .map_err(|errors| invalid::status("", "Service", meta::name(new), &errors))?;
        let had = old.map(held).unwrap_or_default();
        let needs = service::needs(new, old);
        let mut allocation = self.nothing();
        let refuse =
            |new: &Value, cause| Status::invalid("", "Service", meta::name(new), vec![cause]);
        for need in &needs.addresses {
            let given = self.address(need, &mut allocation);
            let given = given.map_err(|cause| refuse(new, cause))?;
            if let Some(address) = given {
                service::set_address(new, need.index, &address.to_string());
            }
        }
        for need in &needs.ports {
            // One port of the Service over several protocols has one number on the nodes.
            let shared = need
                .port
                .is_none()
                .then(|| service::shared_port(new, need.index));
            let port = match shared.flatten() {
                Some(port) => port,
                None => self
                    .port(need, &had, &mut allocation)
                    .map_err(|cause| refuse(new, cause))?,
            };
            service::set_port(new, need.index, port);
        }
        Ok(allocation)
    }

    /// The address that a Service asks for, or a free one. `None` when the
    /// cluster has no range of the family, which only headless Services may ask.
    fn address(
        &self,
        need: &AddressNeed,
        allocation: &mut Allocation,
    ) -> Result<Option<IpAddr>, Cause> {
        let field = format!("spec.clusterIPs[{}]", need.index);
        let Some(range) = self
            .ranges
            .iter()
            .find(|range| family_of(range) == need.family)
        else {
            return Ok(None);
        };
        let Some(text) = &need.address else {
            return self
                .free_address(range, allocation)
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
        if !range.contains(&address) {
            return Err(refuse(&format!(
                "the provided IP ({address}) is not in the valid range. The range of valid IPs is {range}"
            )));
        }
        if !allocation.reserve(Item::Address(address)) {
            return Err(refuse("provided IP is already allocated"));
        }
        Ok(Some(address))
    }

    /// The port that a Service asks for, or a free one.
    fn port(
        &self,
        need: &PortNeed,
        had: &[Item],
        allocation: &mut Allocation,
    ) -> Result<u16, Cause> {
        let field = match need.index {
            Some(at) => format!("spec.ports[{at}].nodePort"),
            None => "spec.healthCheckNodePort".into(),
        };
        let Some(number) = need.port else {
            return self.free_port(allocation).ok_or_else(|| Cause {
                reason: "InternalError".into(),
                message: "Internal error: failed to allocate a nodePort: range is full".into(),
                field,
            });
        };
        let item = Item::Port(number);
        // One number may serve the same port over several protocols.
        if had.contains(&item) || allocation.reserved.contains(&item) {
            return Ok(number);
        }
        let (first, last) = self.ports;
        if !(first..=last).contains(&number) {
            return Err(cause(
                &field,
                format!(
                    "Invalid value: {number}: provided port is not in the valid range. The range of valid ports is {first}-{last}"
                ),
            ));
        }
        if !allocation.reserve(item) {
            let why = format!("Invalid value: {number}: provided port is already allocated");
            return Err(cause(&field, why));
        }
        Ok(number)
    }

    fn free_address(&self, range: &IpNet, allocation: &mut Allocation) -> Option<IpAddr> {
        let bits = range.max_prefix_len() - range.prefix_len();
        let size = 1_u64 << bits.min(16);
        // The last address of an IPv4 range is its broadcast address.
        let usable = size.saturating_sub(if range.addr().is_ipv4() { 2 } else { 1 });
        // The lower part is left to those who ask for a certain address.
        let band = (usable / 16).clamp(16, 256).min(usable / 2);
        for _ in 0..TRIES {
            let at = rand::random_range(band.min(usable)..usable.max(band + 1));
            let address = nth(range, at + 1)?;
            if range.contains(&address) && allocation.reserve(Item::Address(address)) {
                return Some(address);
            }
        }
        (1..=usable)
            .rev()
            .filter_map(|at| nth(range, at))
            .find(|address| range.contains(address) && allocation.reserve(Item::Address(*address)))
    }

    fn free_port(&self, allocation: &mut Allocation) -> Option<u16> {
        let (first, last) = self.ports;
        (0..TRIES)
            .map(|_| rand::random_range(first..=last))
            .chain(first..=last)
            .find(|port| allocation.reserve(Item::Port(*port)))
    }
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

/// The nth address of a range.
fn nth(range: &IpNet, at: u64) -> Option<IpAddr> {
    match range {
        IpNet::V4(range) => u32::from(range.network())
            .checked_add(u32::try_from(at).ok()?)
            .map(|address| IpAddr::V4(address.into())),
        IpNet::V6(range) => u128::from(range.network())
            .checked_add(u128::from(at))
            .map(|address| IpAddr::V6(address.into())),
    }
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

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
            let allocation = all.settle(&mut one, None).expect("free addresses");
            kept.push((one, allocation));
        }
        let mut more = service(value!({"type": "ClusterIP"}));
        assert!(all.settle(&mut more, None).is_err());
        let (one, allocation) = kept.pop().expect("one");
        drop(allocation);
        let address = one
            .str_at(&["spec", "clusterIP"])
            .expect("address")
            .to_owned();
        let mut again = service(value!({"type": "ClusterIP", "clusterIP": (address.as_str())}));
        assert!(all.settle(&mut again, None).is_ok());
        assert_eq!(kept.len(), 5);
    }

    #[test]
    fn both_families_are_given_when_asked_for() {
        let spec = |policy: &str| service(value!({"type": "ClusterIP", "ipFamilyPolicy": policy}));
        let all = allocators(&["10.0.0.0/24", "fd00::/112"]);
        let mut one = spec("PreferDualStack");
        all.settle(&mut one, None).expect("free addresses").keep();
        assert_eq!(one.items_at(&["spec", "clusterIPs"]).len(), 2);
        let single = allocators(&["10.0.0.0/24"]);
        let mut one = spec("RequireDualStack");
        assert!(single.settle(&mut one, None).is_err());
    }

    #[test]
    fn node_ports_are_within_their_range_and_different() {
        let all = allocators(&["10.0.0.0/24"]);
        let port = |number: i64| value!({"port": number, "protocol": "TCP"});
        let spec = value!({"type": "NodePort", "ports": [(port(1)), (port(2)), (port(3))]});
        let mut one = service(spec);
        let allocation = all.settle(&mut one, None).expect("free ports");
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
        assert!(all.settle(&mut other, None).is_err());
        allocation.keep();
        // As a ClusterIP the Service gives its ports back.
        let mut changed = one.clone();
        changed.set_path(&["spec", "type"], "ClusterIP");
        let mut allocation = all.settle(&mut changed, Some(&one)).expect("nothing new");
        allocation.unneeded = items(&service::released(Some(&changed), &one));
        allocation.keep();
        assert!(all.settle(&mut other, None).is_ok());
    }
}
