//! What the maps hold, in words.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};
use std::net::{IpAddr, SocketAddr};

use ebpf_abi::{
    Address, Backend, BackendFlags, Counter, NodeFlags, Port, Scope, Service, ServiceFlags,
    ServiceKey, SlotKey,
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
            if service.flags.contains(ServiceFlags::MAGLEV) {
                write!(f, ", by consistent hashing over {} places", service.table)?;
            }
            writeln!(f)?;
            for (key, service) in &keys {
                write_key(f, key, service)?;
            }
            if keys
                .iter()
                .any(|(_, service)| service.flags.contains(ServiceFlags::SOURCES))
            {
                let its = self.maps.sources.iter().filter(|(id, _)| *id == set);
                let mut its: Vec<_> = its.map(|(_, range)| range).collect();
                its.sort();
                write!(f, "    its clients are in")?;
                for range in its {
                    write!(f, " {range}")?;
                }
                writeln!(f)?;
            }
            if service.count == 0 {
                let dropped = service.flags.contains(ServiceFlags::DROP_EMPTY);
                let fate = if dropped { "dropped" } else { "refused" };
                writeln!(f, "    no endpoint: clients are {fate}")?;
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
        let mut nodes: Vec<_> = self.maps.nodes.iter().collect();
        nodes.sort();
        for (address, flags) in nodes {
            let ports = flags.contains(NodeFlags::PORTS);
            let serves = if ports { ", serves node ports" } else { "" };
            writeln!(f, "this node has {address}{serves}")?;
        }
        let mut inside: Vec<_> = self.maps.inside.iter().collect();
        inside.sort();
        for range in inside {
            writeln!(f, "inside is {range}")?;
        }
        for (counter, count) in self.counters.iter().filter(|(_, count)| *count > 0) {
            writeln!(f, "counted {}: {count}", counter.label())?;
        }
        Ok(())
    }
}

fn write_key(f: &mut Formatter<'_>, key: &ServiceKey, service: &Service) -> fmt::Result {
    if key.address == key.address.wildcard() {
        let family = if key.address.is_v4() { "IPv4" } else { "IPv6" };
        let port = key.port.get();
        write!(f, "  at port {port} of the node, {family} {}", key.protocol)?;
    } else {
        write!(f, "  at {} {}", socket(key.address, key.port), key.protocol)?;
    }
    let words = [
        (key.scope == Scope::EXTERNAL, ", from outside"),
        (
            service.flags.contains(ServiceFlags::SCOPED),
            ", from inside",
        ),
        (
            service.flags.contains(ServiceFlags::SOURCES),
            ", for some clients only",
        ),
        (
            service.flags.contains(ServiceFlags::DIRECT_RETURN),
            ", answered directly",
        ),
    ];
    for (_, word) in words.iter().filter(|(is, _)| *is) {
        f.write_str(word)?;
    }
    writeln!(f)
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

#[cfg(test)]
mod tests {
    use ebpf_abi::{Protocol, SlotKey};

    use super::*;

    #[test]
    fn words_say_who_is_served_and_who_is_not() {
        let mut maps = Current::default();
        let outside = ServiceFlags::LOCAL_ONLY.with(ServiceFlags::DROP_EMPTY);
        let entry = |set, count, flags| Service {
            set,
            generation: 1,
            count,
            flags,
            affinity_seconds: 0,
            table: 0,
        };
        let key = |scope| {
            ServiceKey::new(
                Address::UNSPECIFIED_V4,
                Port::new(30_080),
                Protocol::TCP,
                scope,
            )
        };
        let backend = Backend::new(
            Address::v4([10, 244, 2, 1]),
            Port::new(80),
            BackendFlags::NONE,
        );
        maps.services
            .insert(key(Scope::INTERNAL), entry(1, 1, ServiceFlags::SCOPED));
        maps.services
            .insert(key(Scope::EXTERNAL), entry(2, 0, outside));
        maps.slots.insert(SlotKey::new(1, 1, 0), backend);
        maps.names.insert(1, "shop/web TCP IPv4".into());
        maps.names.insert(2, "shop/web TCP IPv4 local".into());
        let address = Address::v4([192, 0, 2, 1]);
        maps.nodes.insert(address, NodeFlags::PORTS);
        let counters = Vec::new();
        assert_eq!(
            Snapshot { maps, counters }.to_string(),
            "shop/web TCP IPv4, set 1, generation 1\n  \
             at port 30080 of the node, IPv4 TCP, from inside\n    \
             to 10.244.2.1:80\n\
             shop/web TCP IPv4 local, set 2, generation 1, only backends on this node\n  \
             at port 30080 of the node, IPv4 TCP, from outside\n    \
             no endpoint: clients are dropped\n\
             this node has 192.0.2.1, serves node ports\n"
        );
    }
}
