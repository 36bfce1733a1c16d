//! What the store says of node ports and what Services have agree: a port that a
//! Service has is noted, one that nobody has is given back after a while, and what
//! is wrong with a Service's port is told in an event.

use std::collections::{HashMap, HashSet};
use std::sync::PoisonError;
use std::time::Duration;

use control_types::status::Status;
use control_types::value::Value;
use futures::FutureExt;

use super::{PostStartHook, events};
use control_registry::allocate::PortMap;
use control_registry::{Registry, own};

pub(super) static HOOK: PostStartHook =
    PostStartHook::new("node ports", Duration::from_secs(180), |context| {
        run(context).boxed()
    });

/// Who tells the events.
const REPAIR: &str = "portallocator-repair-controller";
/// In how many rounds a port must be found with nobody until it is given back:
/// one that is taken may wait for its Service to be stored.
const ROUNDS: u8 = 3;
/// How often it is looked anew because ports were taken meanwhile.
const ATTEMPTS: usize = 10;

/// Something to tell about a Service.
#[derive(Debug, PartialEq, Eq)]
struct PortWarning {
    service: usize,
    reason: &'static str,
    note: String,
}

async fn run(registry: &Registry) -> Result<(), Status> {
    let ports = &registry.allocators.ports;
    for _ in 0..ATTEMPTS {
        // First what is taken, then who has it: whatever is taken in between makes
        // the write fail.
        let (stored, revision) = ports.read(registry).await?;
        registry.catch_up().await?;
        let services = own::all(registry, "", "services")?;
        let mut leaks = {
            let leaks = ports.leaks.lock();
            leaks.unwrap_or_else(PoisonError::into_inner).clone()
        };
        let (map, told) = decide(stored.as_ref(), &services, ports.range(), &mut leaks);
        if stored.as_ref() == Some(&map) {
            ports.refresh(registry).await?;
        } else if !ports.replace(registry, map, revision).await? {
            continue;
        }
        *ports.leaks.lock().unwrap_or_else(PoisonError::into_inner) = leaks;
        for PortWarning {
            service,
            reason,
            note,
        } in told
        {
            events::warn(registry, &services[service], REPAIR, reason, &note).await;
        }
        return Ok(());
    }
    Err(Status::internal(
        "node ports are being taken too often to be looked at",
    ))
}

/// What the store ought to say. `stored`: what it says, nothing in a new cluster.
fn decide(
    stored: Option<&PortMap>,
    services: &[Value],
    range: (u16, u16),
    leaks: &mut HashMap<u16, u8>,
) -> (PortMap, Vec<PortWarning>) {
    let mut map = PortMap::new(range);
    let mut told = Vec::new();
    let (first, last) = range;
    for (at, service) in services.iter().enumerate() {
        for port in ports_of(service) {
            let mut tell = |reason, note| {
                told.push(PortWarning {
                    service: at,
                    reason,
                    note,
                });
            };
            if !(first..=last).contains(&port) {
                tell(
                    "PortOutOfRange",
                    format!(
                        "Port {port} is not within the port range {first}-{last}; please recreate service"
                    ),
                );
                continue;
            }
            if map.has(port) {
                tell(
                    "PortAlreadyAllocated",
                    format!(
                        "Port {port} was assigned to multiple services; please recreate service"
                    ),
                );
                continue;
            }
            map.set(port, true);
            leaks.remove(&port);
            if stored.is_some_and(|stored| !stored.has(port)) {
                tell(
                    "PortNotAllocated",
                    format!("Port {port} is not allocated; repairing"),
                );
            }
        }
    }
    let of_nobody = stored.into_iter().flat_map(PortMap::taken);
    for port in of_nobody.filter(|port| !map.has(*port)).collect::<Vec<_>>() {
        let left = leaks.entry(port).or_insert(ROUNDS - 1);
        if *left == 0 {
            leaks.remove(&port);
            tracing::warn!(port, "a node port of no service is given back");
            continue;
        }
        *left -= 1;
        map.set(port, true);
    }
    leaks.retain(|port, _| map.has(*port));
    (map, told)
}

/// The node ports that a Service says it has. One of several protocols counts once,
/// one that stands there twice with the same protocol twice.
fn ports_of(service: &Value) -> Vec<u16> {
    let number = |value: Option<i64>| u16::try_from(value?).ok().filter(|port| *port != 0);
    let mut seen: HashSet<(u16, &str)> = HashSet::new();
    let mut out: Vec<u16> = Vec::new();
    for port in service.items_at(&["spec", "ports"]) {
        let Some(node_port) = number(port.i64_at(&["nodePort"])) else {
            continue;
        };
        let again = !seen.insert((node_port, port.str_at(&["protocol"]).unwrap_or_default()));
        if again || !out.contains(&node_port) {
            out.push(node_port);
        }
    }
    if let Some(port) = number(service.i64_at(&["spec", "healthCheckNodePort"]))
        && (seen.contains(&(port, "TCP")) || !out.contains(&port))
    {
        out.push(port);
    }
    out
}

#[cfg(test)]
mod tests {
    use control_types::value;

    use super::*;

    const RANGE: (u16, u16) = (30000, 30010);

    fn service(ports: &[(i64, &str)]) -> Value {
        let ports: Vec<Value> = ports
            .iter()
            .map(|(port, protocol)| value!({"nodePort": (*port), "protocol": (*protocol)}))
            .collect();
        value!({"metadata": {"name": "s", "namespace": "n"}, "spec": {"ports": (ports)}})
    }

    fn map(ports: &[u16]) -> PortMap {
        let mut map = PortMap::new(RANGE);
        ports.iter().for_each(|port| map.set(*port, true));
        map
    }

    fn reasons(told: &[PortWarning]) -> Vec<(usize, &'static str)> {
        told.iter()
            .map(|told| (told.service, told.reason))
            .collect()
    }

    #[test]
    fn a_new_cluster_has_what_its_services_have_and_nothing_is_told() {
        let services = [service(&[(30001, "TCP"), (30001, "UDP")])];
        let (made, told) = decide(None, &services, RANGE, &mut HashMap::new());
        assert_eq!((made, told), (map(&[30001]), Vec::new()));
    }

    #[test]
    fn what_is_missing_double_or_outside_is_told() {
        let services = [
            service(&[(30001, "TCP"), (40000, "TCP")]),
            service(&[(30001, "TCP")]),
            service(&[(30002, "TCP")]),
        ];
        let stored = map(&[30001]);
        let (made, told) = decide(Some(&stored), &services, RANGE, &mut HashMap::new());
        assert_eq!(made, map(&[30001, 30002]));
        assert_eq!(
            reasons(&told),
            [
                (0, "PortOutOfRange"),
                (1, "PortAlreadyAllocated"),
                (2, "PortNotAllocated")
            ]
        );
    }

    #[test]
    fn a_port_of_nobody_is_given_back_in_the_third_round() {
        let mut leaks = HashMap::new();
        let stored = map(&[30005]);
        for _ in 0..2 {
            assert_eq!(decide(Some(&stored), &[], RANGE, &mut leaks).0, stored);
        }
        assert_eq!(decide(Some(&stored), &[], RANGE, &mut leaks).0, map(&[]));
        assert!(leaks.is_empty());
        // Found with its Service in between, it starts anew.
        decide(Some(&stored), &[], RANGE, &mut leaks);
        decide(
            Some(&stored),
            &[service(&[(30005, "TCP")])],
            RANGE,
            &mut leaks,
        );
        assert!(leaks.is_empty());
    }

    #[test]
    fn a_port_for_health_checks_counts_beside_those_of_other_protocols() {
        let mut one = service(&[(30001, "UDP")]);
        one.set_path(&["spec", "healthCheckNodePort"], 30002);
        assert_eq!(ports_of(&one), [30001, 30002]);
        one.set_path(&["spec", "healthCheckNodePort"], 30001);
        assert_eq!(ports_of(&one), [30001]);
    }
}
