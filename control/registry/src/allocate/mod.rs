//! Addresses and ports of Services.
//!
//! `control_kinds::service` says what a Service needs; here it is handed out.
//! The store gives out each address and port once: addresses as objects
//! ([`objects`]), ports in one map (`ports`). In between, a request reserves the
//! addresses that it is about to take and gives them back if it fails.

mod address_choice;
mod allocated_addresses;
mod allocation;
mod metrics;
pub mod objects;
mod port_choice;
mod port_map;
mod ports;
mod ranges;
mod refusal;

use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use control_kinds::service::{self, Family};
use control_strategy::invalid;
use control_types::meta;
use control_types::status::Status;
use control_types::value::Value;
use ipnet::IpNet;

use crate::served_resource::ServedResource;
use crate::storage::Storage;

use address_choice::{AllocationScope, address, family_of};
use allocated_addresses::{AllocatedAddresses, addresses_of, lock};
use port_choice::PortChoice;
use ports::{Ports, ports_of};

pub use allocation::Allocation;
pub use port_map::PortMap;
pub use ports::HeldPorts;

/// Attempts to allocate for one Service. An attempt fails when another API server takes a chosen
/// address or port first.
const ATTEMPTS: u32 = 64;

/// Hands out addresses and ports.
#[derive(Debug)]
pub struct Allocators {
    ranges: Vec<IpNet>,
    /// The allocator of node ports.
    pub ports: Arc<Ports>,
    taken: Arc<Mutex<AllocatedAddresses>>,
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
        let place = AllocationScope::new(storage, dry_run);
        let mut held = self.hold(storage);
        let mut fresh = false;
        for _ in 0..ATTEMPTS {
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
        let place = AllocationScope::new(storage, dry_run);
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
        objects::give_back_all(storage, &addresses, object).await;
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
        Allocation::new(&self.taken, &self.ports)
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
        let choice = PortChoice {
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

fn is_service(served: &ServedResource) -> bool {
    (served.resource.group, served.resource.plural) == ("", "services")
}

/// Whether a new Service may want node ports.
fn may_have_ports(service: &Value) -> bool {
    matches!(
        service.str_at(&["spec", "type"]),
        Some("NodePort" | "LoadBalancer")
    )
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
