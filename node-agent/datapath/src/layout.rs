//! The layouts of all maps, and whether pinned ones have them.

use std::path::Path;

use aya::maps::{MapInfo, MapType};
use ebpf_abi::policy::{
    EndpointKey, EndpointPolicy, PeerEntry, PolicyFlowEntry, PolicyRoot, PolicyVerdict,
    PortClasses, RuleName, VerdictKey,
};
use ebpf_abi::{
    Address, Affinity, AffinityKey, Backend, Bandwidth, BandwidthKey, ChecksummedValue, Config,
    FlowEntry, FlowLogKey, FlowPorts, FragmentKey, FragmentPorts, MaglevChunk, MaglevKey,
    MemberKey, NodeFlags, Original, OriginalKey, Prefix, Service, ServiceKey, SetName, SlotKey,
    Tuple, maps,
};

use crate::error::Error;
use crate::pinned_map::unreadable;

/// The expected layout of a map.
struct Layout {
    name: &'static str,
    kind: MapType,
    key: usize,
    value: usize,
}

// === impl Layout ===

const LAYOUTS: &[Layout] = &[
    Layout::of::<ServiceKey, ChecksummedValue<Service>>(maps::SERVICES, MapType::Hash),
    Layout::of::<SlotKey, ChecksummedValue<Backend>>(maps::SLOTS, MapType::Hash),
    Layout::of::<MemberKey, u32>(maps::MEMBERS, MapType::Hash),
    Layout::of::<MaglevKey, ChecksummedValue<MaglevChunk>>(maps::MAGLEV, MapType::Hash),
    Layout::of::<Prefix, u32>(maps::SOURCES, MapType::LpmTrie),
    Layout::of::<Address, NodeFlags>(maps::NODES, MapType::Hash),
    Layout::of::<Prefix, u32>(maps::INSIDE, MapType::LpmTrie),
    Layout::of::<u32, u64>(maps::SERVED, MapType::Array),
    Layout::of::<Prefix, u32>(maps::EGRESS, MapType::LpmTrie),
    Layout::of::<u32, SetName>(maps::NAMES, MapType::Hash),
    Layout::of::<OriginalKey, ChecksummedValue<Original>>(maps::ORIGINALS, MapType::LruHash),
    Layout::of::<u32, ChecksummedValue<Original>>(maps::STREAM_ORIGINALS, MapType::Array),
    Layout::of::<AffinityKey, ChecksummedValue<Affinity>>(maps::AFFINITY, MapType::LruHash),
    Layout::of::<u32, ChecksummedValue<Config>>(maps::CONFIG, MapType::Array),
    Layout::of::<u32, ChecksummedValue<Config>>(maps::CONFIG_AHEAD, MapType::Array),
    Layout::of::<Tuple, FlowEntry>(maps::FLOWS, MapType::Hash),
    Layout::of::<u32, FlowPorts>(maps::FLOW_PORTS, MapType::Array),
    Layout::of::<(), FlowLogKey>(maps::FLOW_LOG, MapType::Queue),
    Layout::of::<FragmentKey, ChecksummedValue<FragmentPorts>>(maps::FRAGMENTS, MapType::LruHash),
    Layout::of::<u32, u64>(maps::COUNTERS, MapType::PerCpuArray),
    Layout::of::<u32, PolicyRoot>(maps::POLICY_ROOT, MapType::Array),
    Layout::of::<Prefix, PeerEntry>(maps::PEERS, MapType::LpmTrie),
    Layout::of::<EndpointKey, ChecksummedValue<EndpointPolicy>>(maps::ENDPOINTS, MapType::Hash),
    Layout::of::<u32, PortClasses>(maps::PORTS, MapType::Array),
    Layout::of::<VerdictKey, ChecksummedValue<PolicyVerdict>>(maps::VERDICTS, MapType::Hash),
    Layout::of::<u32, RuleName>(maps::RULES, MapType::Hash),
    Layout::of::<Tuple, PolicyFlowEntry>(maps::POLICY_FLOWS, MapType::LruHash),
    Layout::of::<BandwidthKey, Bandwidth>(maps::BANDWIDTH, MapType::Hash),
    Layout::of::<(), ()>(maps::LOGS, MapType::RingBuf),
    Layout::of::<(), ()>(maps::FLOW_RECORDS, MapType::RingBuf),
];

impl Layout {
    const fn of<K, V>(name: &'static str, kind: MapType) -> Self {
        Self {
            name,
            kind,
            key: size_of::<K>(),
            value: size_of::<V>(),
        }
    }

    /// Compares a pinned map, if there is one: aya would adopt any.
    fn check(&self, directory: &Path) -> Result<(), Error> {
        let path = directory.join(self.name);
        if !path.exists() {
            return Ok(());
        }
        let info = MapInfo::from_pin(&path).map_err(unreadable(self.name))?;
        let (kind, key, value) = (
            info.map_type().ok(),
            info.key_size() as usize,
            info.value_size() as usize,
        );
        if (kind, key, value) == (Some(self.kind), self.key, self.value) {
            return Ok(());
        }
        let describe = |kind: Option<MapType>, key, value| match kind {
            Some(kind) => format!("{kind:?} of {key} to {value} bytes"),
            None => format!("unknown kind of {key} to {value} bytes"),
        };
        Err(Error::Layout {
            path,
            found: describe(kind, key, value),
            expected: describe(Some(self.kind), self.key, self.value),
        })
    }
}

/// Do the maps that are pinned there look like ours?
pub(crate) fn have_our_layout(directory: &Path) -> bool {
    let carries_nothing = [maps::COUNTERS, maps::LOGS, maps::FLOW_RECORDS];
    LAYOUTS
        .iter()
        .filter(|layout| !carries_nothing.contains(&layout.name))
        .all(|layout| layout.check(directory).is_ok())
}

/// Compares all maps that are pinned there.
pub(crate) fn check(directory: &Path) -> Result<(), Error> {
    LAYOUTS
        .iter()
        .try_for_each(|layout| layout.check(directory))
}
