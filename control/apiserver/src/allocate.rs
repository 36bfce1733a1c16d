//! Addresses and ports of Services.
//!
//! What is taken is known from the cache of Services; in between, a request
//! reserves what it is about to store and gives it back if it fails.

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use control_types::status::{Cause, Status};
use control_types::value::Value;
use ipnet::IpNet;
use rustc_hash::FxHashSet;

use crate::api::{Api, Served};

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
        let mut allocation = self.nothing();
        if is_service(served) {
            self.complete(object, &[], &mut allocation)
                .map_err(|cause| invalid(object, cause))?;
        }
        Ok(allocation)
    }

    /// Gives an updated Service what its old form had and it does not mention.
    pub fn carry(served: &Served, new: &mut Value, old: &Value) {
        if !is_service(served) || !needs_address(new) || !needs_address(old) {
            return;
        }
        for field in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"] {
            let empty = new.path(&["spec", field]).is_none_or(|value| {
                value.as_str().is_some_and(str::is_empty)
                    || value.as_array().is_some_and(Vec::is_empty)
            });
            if empty && let Some(value) = old.path(&["spec", field]) {
                new.set_path(&["spec", field], value.clone());
            }
        }
        if !needs_ports(new) || !needs_ports(old) {
            return;
        }
        let before: Vec<Value> = old.items_at(&["spec", "ports"]).to_vec();
        for port in ports_mut(new) {
            if port.i64_at(&["nodePort"]).unwrap_or_default() == 0 {
                let same = before.iter().find(|old| {
                    old.i64_at(&["port"]) == port.i64_at(&["port"])
                        && old.str_at(&["protocol"]) == port.str_at(&["protocol"])
                });
                if let Some(number) = same.and_then(|old| old.i64_at(&["nodePort"])) {
                    port.insert("nodePort", number);
                }
            }
        }
    }

    /// Completes an updated Service.
    ///
    /// # Errors
    /// 422 when what it asks for is taken or impossible.
    pub fn update(
        &self,
        served: &Served,
        new: &mut Value,
        old: &Value,
    ) -> Result<Allocation, Status> {
        let mut allocation = self.nothing();
        if is_service(served) {
            let had = held(old);
            self.complete(new, &had, &mut allocation)
                .map_err(|cause| invalid(new, cause))?;
            let has = held(new);
            allocation.unneeded = had.into_iter().filter(|item| !has.contains(item)).collect();
        }
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

    fn complete(
        &self,
        service: &mut Value,
        had: &[Item],
        allocation: &mut Allocation,
    ) -> Result<(), Cause> {
        if needs_address(service) {
            self.families(service)?;
            self.addresses(service, had, allocation)?;
        }
        if needs_ports(service) {
            self.node_ports(service, had, allocation)?;
        } else if service.str_at(&["spec", "type"]) == Some("ClusterIP") {
            for port in ports_mut(service) {
                port.remove("nodePort");
            }
        }
        Ok(())
    }

    /// Settles how many families the Service has, and which.
    fn families(&self, service: &mut Value) -> Result<(), Cause> {
        let family = |range: &IpNet| {
            if range.addr().is_ipv4() {
                "IPv4"
            } else {
                "IPv6"
            }
        };
        let offered: Vec<&str> = self.ranges.iter().map(family).collect();
        let given: Vec<String> = service
            .items_at(&["spec", "ipFamilies"])
            .iter()
            .filter_map(|family| family.as_str().map(str::to_owned))
            .collect();
        let headless = is_headless(service);
        for (at, family) in given.iter().enumerate() {
            if !offered.contains(&family.as_str()) && !headless {
                let message = format!(
                    "Invalid value: {}: not configured on this cluster",
                    control_types::status::quote(family)
                );
                return Err(cause(&format!("spec.ipFamilies[{at}]"), message));
            }
        }
        let policy = match service.str_at(&["spec", "ipFamilyPolicy"]) {
            None | Some("") if given.len() == 2 => "RequireDualStack".to_owned(),
            None | Some("") => "SingleStack".to_owned(),
            Some(policy) => policy.to_owned(),
        };
        if policy == "RequireDualStack" && offered.len() < 2 && !headless {
            let message = "Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack services".to_owned();
            return Err(cause("spec.ipFamilyPolicy", message));
        }
        let mut families = given;
        if families.is_empty() {
            let asked = service
                .str_at(&["spec", "clusterIP"])
                .and_then(|ip| ip.parse().ok());
            families.push(match asked {
                Some(IpAddr::V4(_)) => "IPv4".into(),
                Some(IpAddr::V6(_)) => "IPv6".into(),
                None => offered.first().copied().unwrap_or("IPv4").to_owned(),
            });
        }
        if policy != "SingleStack" && families.len() == 1 {
            families.extend(
                offered
                    .iter()
                    .filter(|family| **family != families[0])
                    .map(|family| (*family).to_owned())
                    .collect::<Vec<_>>(),
            );
        }
        service.set_path(&["spec", "ipFamilies"], families);
        service.set_path(&["spec", "ipFamilyPolicy"], policy);
        Ok(())
    }

    fn addresses(
        &self,
        service: &mut Value,
        had: &[Item],
        allocation: &mut Allocation,
    ) -> Result<(), Cause> {
        if is_headless(service) {
            service.set_path(&["spec", "clusterIP"], "None");
            service.set_path(&["spec", "clusterIPs"], vec!["None"]);
            return Ok(());
        }
        let mut asked: Vec<String> = service
            .items_at(&["spec", "clusterIPs"])
            .iter()
            .filter_map(|address| address.as_str().map(str::to_owned))
            .collect();
        if asked.is_empty()
            && let Some(one) = service
                .str_at(&["spec", "clusterIP"])
                .filter(|ip| !ip.is_empty())
        {
            asked.push(one.to_owned());
        }
        let families: Vec<String> = service
            .items_at(&["spec", "ipFamilies"])
            .iter()
            .filter_map(|family| family.as_str().map(str::to_owned))
            .collect();
        let mut given = Vec::with_capacity(families.len());
        for (at, family) in families.iter().enumerate() {
            let field = format!("spec.clusterIPs[{at}]");
            let range = self
                .ranges
                .iter()
                .find(|r| r.addr().is_ipv4() == (family == "IPv4"));
            let Some(range) = range else { continue };
            let address = match asked.get(at) {
                Some(text) => {
                    let refuse = |why: &str| {
                        let shown = control_types::status::quote(text);
                        let text =
                            format!("Invalid value: {shown}: failed to allocate IP {text}: {why}");
                        cause(&field, text)
                    };
                    let address: IpAddr = text.parse().map_err(|_| refuse("not a valid IP"))?;
                    if !had.contains(&Item::Address(address)) {
                        if !range.contains(&address) {
                            let why = format!(
                                "the provided IP ({address}) is not in the valid range. The range of valid IPs is {range}"
                            );
                            return Err(refuse(&why));
                        }
                        if !allocation.reserve(Item::Address(address)) {
                            return Err(refuse("provided IP is already allocated"));
                        }
                    }
                    address
                }
                None => self.free_address(range, allocation).ok_or_else(|| {
                    let why = "Internal error: failed to allocate a serviceIP: range is full";
                    Cause {
                        reason: "InternalError".into(),
                        message: why.into(),
                        field,
                    }
                })?,
            };
            given.push(address.to_string());
        }
        if let Some(first) = given.first() {
            service.set_path(&["spec", "clusterIP"], first.as_str());
        }
        service.set_path(&["spec", "clusterIPs"], given);
        Ok(())
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

    fn node_ports(
        &self,
        service: &mut Value,
        had: &[Item],
        allocation: &mut Allocation,
    ) -> Result<(), Cause> {
        let (first, last) = self.ports;
        let wanted = service.bool_at(&["spec", "allocateLoadBalancerNodePorts"]) != Some(false)
            || service.str_at(&["spec", "type"]) == Some("NodePort");
        let mut own: Vec<u16> = Vec::new();
        let mut health = health_port(service);
        for (at, port) in ports_mut(service).iter_mut().enumerate() {
            let number = port.i64_at(&["nodePort"]).unwrap_or_default();
            if number == 0 {
                if wanted {
                    let free = self.free_port(allocation).ok_or_else(|| no_port(at))?;
                    own.push(free);
                    port.insert("nodePort", free);
                }
                continue;
            }
            let number = u16::try_from(number).unwrap_or_default();
            // One number may serve the same port over several protocols.
            if own.contains(&number) || had.contains(&Item::Port(number)) {
                own.push(number);
                continue;
            }
            let refuse = |why: String| {
                cause(
                    &format!("spec.ports[{at}].nodePort"),
                    format!("Invalid value: {number}: {why}"),
                )
            };
            if !(first..=last).contains(&number) {
                let why = format!(
                    "provided port is not in the valid range. The range of valid ports is {first}-{last}"
                );
                return Err(refuse(why));
            }
            if !allocation.reserve(Item::Port(number)) {
                return Err(refuse("provided port is already allocated".into()));
            }
            own.push(number);
        }
        if let Some(number) = health.take() {
            if number == 0 {
                let free = self.free_port(allocation).ok_or_else(|| no_port(0))?;
                service.set_path(&["spec", "healthCheckNodePort"], free);
            } else if !had.contains(&Item::Port(number)) && !allocation.reserve(Item::Port(number))
            {
                let text = format!("Invalid value: {number}: provided port is already allocated");
                return Err(cause("spec.healthCheckNodePort", text));
            }
        }
        Ok(())
    }

    fn free_port(&self, allocation: &mut Allocation) -> Option<u16> {
        let (first, last) = self.ports;
        (0..TRIES)
            .map(|_| rand::random_range(first..=last))
            .chain(first..=last)
            .find(|port| allocation.reserve(Item::Port(*port)))
    }
}

fn no_port(at: usize) -> Cause {
    Cause {
        reason: "InternalError".into(),
        message: "Internal error: failed to allocate a nodePort: range is full".into(),
        field: format!("spec.ports[{at}].nodePort"),
    }
}

fn cause(field: &str, message: String) -> Cause {
    Cause {
        reason: "FieldValueInvalid".into(),
        message,
        field: field.into(),
    }
}

fn invalid(service: &Value, cause: Cause) -> Status {
    Status::invalid(
        "",
        "Service",
        control_types::meta::name(service),
        vec![cause],
    )
}

fn is_service(served: &Served) -> bool {
    (served.resource.group, served.resource.plural) == ("", "services")
}

fn is_headless(service: &Value) -> bool {
    service.str_at(&["spec", "clusterIP"]) == Some("None")
}

fn needs_address(service: &Value) -> bool {
    service.str_at(&["spec", "type"]) != Some("ExternalName")
}

fn needs_ports(service: &Value) -> bool {
    matches!(
        service.str_at(&["spec", "type"]),
        Some("NodePort" | "LoadBalancer")
    )
}

/// The health check port: `Some(0)` when one is needed and none is given.
fn health_port(service: &Value) -> Option<u16> {
    let needed = service.str_at(&["spec", "type"]) == Some("LoadBalancer")
        && service.str_at(&["spec", "externalTrafficPolicy"]) == Some("Local");
    let given = service
        .i64_at(&["spec", "healthCheckNodePort"])
        .unwrap_or_default();
    needed.then(|| u16::try_from(given).unwrap_or_default())
}

fn ports_mut(service: &mut Value) -> &mut [Value] {
    service
        .path_mut(&["spec", "ports"])
        .and_then(Value::as_array_mut)
        .map_or(&mut [], Vec::as_mut_slice)
}

/// The addresses and ports that a Service has.
fn held(service: &Value) -> Vec<Item> {
    let mut items: Vec<Item> = service
        .items_at(&["spec", "clusterIPs"])
        .iter()
        .filter_map(|address| address.as_str()?.parse().ok().map(Item::Address))
        .collect();
    let number = |value: Option<i64>| value.and_then(|n| u16::try_from(n).ok()).filter(|n| *n > 0);
    let ports = service.items_at(&["spec", "ports"]).iter();
    items.extend(
        ports
            .filter_map(|port| number(port.i64_at(&["nodePort"])))
            .map(Item::Port),
    );
    items.extend(number(service.i64_at(&["spec", "healthCheckNodePort"])).map(Item::Port));
    items
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
            let mut allocation = all.nothing();
            all.complete(&mut one, &[], &mut allocation)
                .expect("free addresses");
            kept.push((one, allocation));
        }
        let mut more = service(value!({}));
        assert!(all.complete(&mut more, &[], &mut all.nothing()).is_err());
        let (one, allocation) = kept.pop().expect("one");
        drop(allocation);
        let address = one
            .str_at(&["spec", "clusterIP"])
            .expect("address")
            .to_owned();
        let mut again = service(value!({"clusterIP": (address.as_str())}));
        assert!(all.complete(&mut again, &[], &mut all.nothing()).is_ok());
        assert_eq!(kept.len(), 5);
    }

    #[test]
    fn both_families_are_given_when_asked_for() {
        let all = allocators(&["10.0.0.0/24", "fd00::/112"]);
        let mut one = service(value!({"ipFamilyPolicy": "PreferDualStack"}));
        all.complete(&mut one, &[], &mut all.nothing())
            .expect("free addresses");
        assert_eq!(one.items_at(&["spec", "clusterIPs"]).len(), 2);
        let single = allocators(&["10.0.0.0/24"]);
        let mut one = service(value!({"ipFamilyPolicy": "RequireDualStack"}));
        assert!(
            single
                .complete(&mut one, &[], &mut single.nothing())
                .is_err()
        );
    }

    #[test]
    fn node_ports_are_within_their_range_and_different() {
        let all = allocators(&["10.0.0.0/24"]);
        let spec = value!({"type": "NodePort", "ports": [{"port": 1}, {"port": 2}, {"port": 3}]});
        let mut one = service(spec);
        let mut allocation = all.nothing();
        all.complete(&mut one, &[], &mut allocation)
            .expect("free ports");
        let mut ports: Vec<_> = held(&one)
            .into_iter()
            .filter_map(|item| {
                if let Item::Port(port) = item {
                    Some(port)
                } else {
                    None
                }
            })
            .collect();
        ports.sort_unstable();
        assert_eq!(ports, [30000, 30001, 30002]);
        let mut other = service(value!({"type": "NodePort", "ports": [{"port": 1}]}));
        assert!(all.complete(&mut other, &[], &mut all.nothing()).is_err());
    }
}
