//! How large maps are: at first, and at most.

use std::fs;

use ebpf_abi::maps;

/// How many entries maps take. Memory is taken as entries come, except for the
/// tables themselves (16 bytes per entry) and those marked as taken at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Service ports, each counted per address.
    pub services: u32,
    /// Backends of all service ports; twice during updates.
    pub slots: u32,
    /// Backends of service ports with affinity or more than 32 backends; twice during
    /// updates.
    pub members: u32,
    /// Sockets that talk to services (about 130 bytes each, taken at once).
    /// When full, the least recently used one is forgotten: its peer's name
    /// and replies then show the backend.
    pub originals: u32,
    /// Clients of services with affinity (about 120 bytes each, taken at
    /// once). When full, the least recently used one is placed anew.
    pub affinity: u32,
    /// Connections that packets make, as those of clients outside (about 460
    /// bytes each, taken at once). When full, those that are not established make
    /// room; then new ones are dropped.
    pub flows: u32,
    /// Parts of tables for consistent hashing: 64 for a service port of up to
    /// 20 backends, 512 for one of up to 160, 2 048 for more; twice during
    /// updates.
    pub chunks: u32,
    /// Source ranges of load balancers.
    pub sources: u32,
    /// Addresses that policy knows: of all pods and nodes, and ranges; twice
    /// while the agent starts.
    pub peers: u32,
    /// Both sides of each address of this node's pods; twice while the agent
    /// starts.
    pub endpoints: u32,
    /// What policy says of peers, over all rulesets; twice while the agent
    /// starts.
    pub verdicts: u32,
    /// Names of policies' rules, of which one without works as well.
    pub rules: u32,
    /// Connections of pods that policy guards (about 150 bytes each, taken at
    /// once; 1 where no policy is enforced). When full, the least recently used
    /// one is decided anew.
    pub policy_flows: u32,
}

// === impl Capacity ===

impl Default for Capacity {
    fn default() -> Self {
        Self {
            services: 65_536,
            slots: 524_288,
            members: 131_072,
            originals: 65_536,
            affinity: 16_384,
            flows: 65_536,
            chunks: 65_536,
            sources: 16_384,
            peers: 262_144,
            endpoints: 8_192,
            verdicts: 65_536,
            rules: 8_192,
            policy_flows: 65_536,
        }
    }
}

impl Capacity {
    /// For a machine with so many bytes of memory. What is taken at once is
    /// nearly one percent of it; the rest is taken as it is needed, at
    /// most as much again.
    #[must_use]
    pub fn of_memory(bytes: u64) -> Self {
        let one_per = |share: u64, least: u32, most: u32| {
            u32::try_from(bytes / share)
                .unwrap_or(u32::MAX)
                .clamp(least, most)
        };
        let services = one_per(64 << 10, 8_192, 262_144);
        Self {
            services,
            slots: services * 8,
            members: services * 8,
            originals: one_per(64 << 10, 16_384, 1 << 20),
            affinity: one_per(256 << 10, 8_192, 1 << 18),
            flows: one_per(128 << 10, 16_384, 1 << 20),
            chunks: services,
            sources: services / 4,
            peers: one_per(4 << 10, 262_144, 1 << 24),
            endpoints: one_per(64 << 10, 16_384, 1 << 20),
            verdicts: one_per(4 << 10, 65_536, 1 << 22),
            rules: one_per(64 << 10, 8_192, 1 << 18),
            policy_flows: one_per(128 << 10, 16_384, 1 << 20),
        }
    }

    /// For this machine; the default if its memory is not known.
    #[must_use]
    pub fn of_machine() -> Self {
        let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let total = text.lines().find_map(|line| {
            let kib = line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?;
            kib.trim().parse::<u64>().ok()
        });
        total.map_or_else(Self::default, |kib| Self::of_memory(kib << 10))
    }

    /// With which to begin, on a machine whose maps may become as large as
    /// `most`: what the plan writes grows as it is needed and begins no larger
    /// than the default; what programs write keeps its size and has it at once.
    #[must_use]
    pub fn at_first(most: &Self) -> Self {
        let usual = Self::default();
        Self {
            services: usual.services.min(most.services),
            slots: usual.slots.min(most.slots),
            members: usual.members.min(most.members),
            chunks: usual.chunks.min(most.chunks),
            sources: usual.sources.min(most.sources),
            endpoints: usual.endpoints.min(most.endpoints),
            verdicts: usual.verdicts.min(most.verdicts),
            rules: usual.rules.min(most.rules),
            // A trie takes what it holds, and no table.
            ..*most
        }
    }

    /// Sets: a service port has up to two, and three keys or more then.
    pub(crate) const fn names(&self) -> u32 {
        self.services
    }

    /// The entries of `FLOWS`: a connection has two.
    pub(crate) const fn flow_entries(&self) -> u32 {
        self.flows.saturating_mul(2)
    }

    /// Twice the room for what the plan writes, up to `most`; none if there is
    /// no more.
    #[must_use]
    pub fn grown(&self, full: &[&str], most: &Self) -> Option<Self> {
        let mut grown = *self;
        let grow = |size: &mut u32, most: u32, names: &[&str]| {
            if names.iter().any(|name| full.contains(name)) {
                *size = size.saturating_mul(2).min(most).max(*size);
            }
        };
        grow(
            &mut grown.services,
            most.services,
            &[maps::SERVICES, maps::NAMES],
        );
        grow(&mut grown.slots, most.slots, &[maps::SLOTS]);
        grow(&mut grown.members, most.members, &[maps::MEMBERS]);
        grow(&mut grown.chunks, most.chunks, &[maps::MAGLEV]);
        grow(&mut grown.sources, most.sources, &[maps::SOURCES]);
        grow(&mut grown.peers, most.peers, &[maps::PEERS]);
        grow(&mut grown.endpoints, most.endpoints, &[maps::ENDPOINTS]);
        grow(&mut grown.verdicts, most.verdicts, &[maps::VERDICTS]);
        grow(&mut grown.rules, most.rules, &[maps::RULES]);
        (grown != *self).then_some(grown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_grow_is_as_large_as_the_machine_allows_from_the_start() {
        let usual = Capacity::default();
        for (gib, flows, services) in [
            (1, 16_384, 16_384),
            (16, 131_072, 65_536),
            (512, 1 << 20, 65_536),
        ] {
            let most = Capacity::of_memory(gib << 30);
            let first = Capacity::at_first(&most);
            assert_eq!(
                (first.flows, first.services),
                (flows, services),
                "{gib} GiB"
            );
            assert_eq!(
                (first.originals, first.affinity),
                (most.originals, most.affinity)
            );
            assert!(first.slots <= usual.slots && first.slots <= most.slots);
        }
    }
}
