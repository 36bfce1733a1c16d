//! What the maps hold, in words.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, SocketAddr};

use ebpf_abi::{
    Address, Backend, BackendFlags, Counter, Port, Service, ServiceFlags, ServiceKey, SlotKey,
};
use node_agent_plan::Current;

/// The contents of the maps at one moment, and the counters.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    /// Services and backends.
    pub maps: Current,
    /// What was counted.
    pub counters: Vec<(Counter, u64)>,
}

// === impl Snapshot ===

impl Display for Snapshot {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mut sets: BTreeMap<(&str, u32), Vec<(&ServiceKey, &Service)>> = BTreeMap::new();
        for (key, service) in &self.maps.services {
            let name = self
                .maps
                .names
                .get(&service.set)
                .map_or("(unnamed)", |name| name);
            sets.entry((name, service.set))
                .or_default()
                .push((key, service));
        }
        if sets.is_empty() {
            writeln!(f, "no services")?;
        }
        for ((name, set), mut keys) in sets {
            keys.sort();
            let Some((_, service)) = keys.first() else {
                continue;
            };
            write!(f, "{name}, set {set}, generation {}", service.generation)?;
            if service.flags.contains(ServiceFlags::AFFINITY) {
                write!(
                    f,
                    ", a client keeps its backend for {} s",
                    service.affinity_seconds
                )?;
            }
            if service.flags.contains(ServiceFlags::LOCAL_ONLY) {
                write!(f, ", only backends on this node")?;
            }
            writeln!(f)?;
            for (key, _) in &keys {
                writeln!(f, "  at {} {}", socket(key.address, key.port), key.protocol)?;
            }
            if service.count == 0 {
                writeln!(f, "    no endpoint: clients are refused")?;
            }
            for slot in 0..service.count {
                match self
                    .maps
                    .slots
                    .get(&SlotKey::new(service.set, service.generation, slot))
                {
                    Some(backend) => write_backend(f, backend)?,
                    None => writeln!(f, "    slot {slot} is missing")?,
                }
            }
        }
        for (counter, count) in self.counters.iter().filter(|(_, count)| *count > 0) {
            writeln!(f, "counted {}: {count}", counter.label())?;
        }
        Ok(())
    }
}

fn write_backend(f: &mut Formatter<'_>, backend: &Backend) -> fmt::Result {
    write!(f, "    to {}", socket(backend.address, backend.port))?;
    if backend.flags.contains(BackendFlags::LOCAL) {
        write!(f, ", on this node")?;
    }
    if backend.flags.contains(BackendFlags::TERMINATING) {
        write!(f, ", terminating")?;
    }
    writeln!(f)
}

fn socket(address: Address, port: Port) -> SocketAddr {
    SocketAddr::new(IpAddr::from(address), port.get())
}
