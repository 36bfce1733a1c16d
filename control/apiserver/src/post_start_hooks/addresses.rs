//! IPAddress objects and Services agree: an address that nobody has is given
//! back, one that a Service has is noted, and what is wrong with a Service's
//! address is told in an event (KEP-1880).

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::Duration;

use control_types::meta;
use control_types::status::Status;
use control_types::value::Value;
use futures::FutureExt;

use super::{PostStartHook, events};
use control_registry::allocate::objects::{self, GROUP, MANAGED_BY, MANAGER, PLURAL};
use control_registry::{Registry, own};

pub(super) static HOOK: PostStartHook = PostStartHook::new(
    "addresses of services",
    Duration::from_secs(60),
    |context| run(context).boxed(),
);

/// Who tells the events.
const REPAIR: &str = "ipallocator-repair-controller";
/// An address is taken before its Service is stored: younger ones may be of one
/// that is on its way.
const ON_ITS_WAY: jiff::SignedDuration = jiff::SignedDuration::from_secs(60);

/// What is to be done about an address.
#[derive(Debug, PartialEq, Eq)]
enum Repair {
    /// The Service has it, and there is no object.
    Note { service: usize, address: IpAddr },
    /// The object is of nobody.
    GiveBack {
        address: usize,
        reason: &'static str,
        note: String,
    },
    /// Two Services have it, or it is no address.
    Tell {
        service: usize,
        reason: &'static str,
        note: String,
    },
}

async fn run(registry: &Registry) -> Result<(), Status> {
    registry.catch_up().await?;
    let addresses = own::all(registry, GROUP, PLURAL)?;
    let services = own::all(registry, "", "services")?;
    for repair in decide(&services, &addresses, jiff::Timestamp::now()) {
        match repair {
            Repair::Note { service, address } => {
                objects::take(registry, address, &services[service]).await?;
            }
            Repair::GiveBack {
                address,
                reason,
                note,
            } => {
                let served = objects::served(registry)?;
                events::warn(registry, &addresses[address], REPAIR, reason, &note).await;
                own::delete(registry, served, meta::name(&addresses[address])).await?;
            }
            Repair::Tell {
                service,
                reason,
                note,
            } => {
                events::warn(registry, &services[service], REPAIR, reason, &note).await;
            }
        }
    }
    Ok(())
}

fn decide(services: &[Value], addresses: &[Value], now: jiff::Timestamp) -> Vec<Repair> {
    let mut repairs = Vec::new();
    let by_address: HashMap<&str, &Value> = addresses
        .iter()
        .map(|address| (meta::name(address), address))
        .collect();
    let mut owners: HashMap<IpAddr, usize> = HashMap::new();
    for (at, service) in services.iter().enumerate() {
        let (namespace, name) = (meta::namespace(service), meta::name(service));
        for text in of_service(service) {
            let Ok(address) = text.parse::<IpAddr>() else {
                repairs.push(Repair::Tell {
                    service: at,
                    reason: "ClusterIPNotValid",
                    note: format!("Cluster IP {text} is not a valid IP; please recreate service"),
                });
                continue;
            };
            if let Some(first) = owners.get(&address) {
                let first = &services[*first];
                repairs.push(Repair::Tell {
                    service: at,
                    reason: "ClusterIPAlreadyAllocated",
                    note: format!(
                        "Cluster IP {address} was assigned to multiple services; please recreate service {namespace}/{name} (also {}/{})",
                        meta::namespace(first),
                        meta::name(first)
                    ),
                });
                continue;
            }
            owners.insert(address, at);
            if !by_address.contains_key(address.to_string().as_str()) {
                repairs.push(Repair::Note {
                    service: at,
                    address,
                });
            }
        }
    }
    for (at, address) in addresses.iter().enumerate() {
        if meta::label(address, MANAGED_BY) != Some(MANAGER) {
            continue;
        }
        let name = meta::name(address);
        let parent = |member: &str| {
            address
                .str_at(&["spec", "parentRef", member])
                .unwrap_or_default()
        };
        let of = format!("{}/{}", parent("namespace"), parent("name"));
        if parent("resource") != "services" || !parent("group").is_empty() {
            repairs.push(Repair::GiveBack {
                address: at,
                reason: "IPAddressNotAllocated",
                note: format!(
                    "IPAddress {name} appears to have been modified, not referencing a Service: cleaning up"
                ),
            });
            continue;
        }
        let owner = name
            .parse()
            .ok()
            .and_then(|address: IpAddr| owners.get(&address));
        if owner.is_some_and(|owner| objects::is_of(address, &services[*owner])) {
            continue;
        }
        let young = meta::creation_timestamp(address)
            .and_then(|made| made.checked_add(ON_ITS_WAY).ok())
            .is_some_and(|until| until > now);
        if young {
            continue;
        }
        let exists = services
            .iter()
            .any(|service| objects::is_of(address, service));
        let (reason, end) = if exists {
            (
                "IPAddressWrongReference",
                "has a wrong reference; cleaning up",
            )
        } else {
            (
                "IPAddressNotAllocated",
                "appears to have leaked: cleaning up",
            )
        };
        repairs.push(Repair::GiveBack {
            address: at,
            reason,
            note: format!("IPAddress: {name} for Service {of} {end}"),
        });
    }
    repairs
}

/// The addresses that a Service says it has.
fn of_service(service: &Value) -> Vec<&str> {
    if service.str_at(&["spec", "type"]) == Some("ExternalName") {
        return Vec::new();
    }
    let texts = service.items_at(&["spec", "clusterIPs"]);
    let mut texts: Vec<&str> = texts.iter().filter_map(Value::as_str).collect();
    texts.retain(|text| !text.is_empty() && *text != "None");
    texts
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    fn service(name: &str, address: &str) -> Value {
        value!({"metadata": {"name": name, "namespace": "n"}, "spec": {"clusterIPs": [address]}})
    }

    fn address(text: &str, service: &str, made: &str) -> Value {
        let of = value!({"metadata": {"name": service, "namespace": "n"}});
        let mut object = objects::object(text.parse().expect("an address"), &of);
        object.set_path(&["metadata", "creationTimestamp"], made);
        object
    }

    fn reasons(services: &[Value], addresses: &[Value]) -> Vec<&'static str> {
        let now = "2026-01-01T01:00:00Z".parse().expect("a time");
        decide(services, addresses, now)
            .iter()
            .map(|repair| match repair {
                Repair::Note { .. } => "note",
                Repair::GiveBack { reason, .. } | Repair::Tell { reason, .. } => reason,
            })
            .collect()
    }

    #[test]
    fn what_agrees_is_left_alone() {
        let old = "2026-01-01T00:00:00Z";
        let services = [service("a", "10.0.0.1"), service("b", "None")];
        assert!(reasons(&services, &[address("10.0.0.1", "a", old)]).is_empty());
    }

    #[test]
    fn missing_leaked_and_wrong_addresses_are_repaired() {
        let old = "2026-01-01T00:00:00Z";
        assert_eq!(reasons(&[service("a", "10.0.0.1")], &[]), ["note"]);
        let leaked = address("10.0.0.2", "gone", old);
        assert_eq!(reasons(&[], &[leaked]), ["IPAddressNotAllocated"]);
        let young = address("10.0.0.2", "coming", "2026-01-01T00:59:30Z");
        assert!(reasons(&[], &[young]).is_empty());
        let services = [service("a", "10.0.0.1")];
        let both = [address("10.0.0.1", "a", old), address("10.0.0.9", "a", old)];
        assert_eq!(reasons(&services, &both), ["IPAddressWrongReference"]);
    }

    #[test]
    fn an_address_of_two_services_is_told_to_the_second() {
        let old = "2026-01-01T00:00:00Z";
        let services = [service("a", "10.0.0.1"), service("b", "10.0.0.1")];
        let had = [address("10.0.0.1", "a", old)];
        assert_eq!(reasons(&services, &had), ["ClusterIPAlreadyAllocated"]);
    }
}
