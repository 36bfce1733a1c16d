//! Keys and values shared by kernel and user space.
//!
//! Everything here is `repr(C)`, has no padding (each constructor of a key
//! writes every byte, since the kernel hashes keys as bytes) and is plain old
//! data. A change of any layout is a change of [`VERSION`], because maps
//! outlive the process that made them.
//!
//! # How a service is stored
//!
//! ```text
//! SERVICES  (address, port, protocol, scope) ──► Service { set, generation, count, … }
//! SLOTS     (set, generation, slot)          ──► Backend { address, port, … }
//! MEMBERS   (set, generation, address, port) ──► slot          of sets with affinity or more than 32 backends
//! MAGLEV    (set, generation, chunk)         ──► slots         only for consistent hashing
//! SOURCES   (set, range)                     ──► 1             only with source ranges
//! NODES     address                          ──► flags         this node's own addresses
//! INSIDE    (0, range)                       ──► 1             ranges of pods
//! SERVED    (protocol, port)                 ──► bits          which entries of SERVICES there may be
//! EGRESS    (0, range)                       ──► 1 or 2        pods leave as themselves or as the node
//! CONFIG    0                                ──► Config        the node
//! CONFIG_AHEAD 0                               ──► Config        the same, before it is written to CONFIG
//! FLOWS     (client, VIP) and (backend, …)   ──► Flow, life    connections of packets
//! FLOW_PORTS (which, protocol, port / 8)       ──► bytes         ports under which no flow was ever made
//! FLOW_LOG  queue of the clients' keys of FLOWS                  for their collection
//! FRAGMENTS (source, destination, id)        ──► ports         of a first fragment
//! BANDWIDTH (device, direction)              ──► Bandwidth     buckets of pods that have a rate
//! FLOW_RECORDS ring of FlowRecord                                verdicts and drops, for people
//! ```
//!
//! An update writes the slots of the next generation, then replaces the one
//! entry of `SERVICES`, then removes the slots of the former generation: a
//! reader sees the old state or the new one. What `SERVED` says is written
//! before the first entry under a port and removed after the last one.
//!
//! # Why values are sealed
//!
//! A BPF program reads a map's value in place, while the kernel may already
//! reuse the element for another key: elements freed by a hash map are handed
//! out again without waiting for readers. [`ChecksummedValue`] carries a checksum over
//! key and value, so that a value that was overwritten while it was read is
//! recognised on every processor, whatever its memory order, and read again.
//!
//! `CONFIG` is an array: its value is written in place, and who writes may be held up
//! half way. So the next value is written to `CONFIG_AHEAD` first, which programs read
//! when they meet a half written one: each sees the former value or the next.

#![no_std]

#[macro_use]
mod flags;

mod address;
mod bandwidth;
mod checksummed_value;
mod config;
mod counter;
mod flow;
mod flow_ports;
mod maglev;
mod node;
mod plain;
pub mod policy;
pub mod record;
mod served;
mod service;
mod socket;
#[cfg(test)]
mod testing;
mod text;

pub use address::{Address, Port, Protocol};
pub use bandwidth::{Bandwidth, BandwidthKey};
pub use checksummed_value::ChecksummedValue;
pub use config::{CONFIG_KEY, Config, ConfigFlags, DirectReturn, Timeouts};
pub use counter::{Counter, Hook};
pub use flow::{Flow, FlowEntry, FlowFlags, FlowLogKey, FragmentKey, FragmentPorts, Life, Tuple};
pub use flow_ports::{FlowPort, FlowPortPlace, FlowPorts};
pub use maglev::{MAGLEV_CHUNK, MaglevChunk, MaglevKey};
pub use node::{AS_NODE, AS_POD, NodeFlags, Prefix, Range};
pub use plain::Plain;
pub use record::FlowRecord;
pub use served::{ServedPlace, ServiceEntryKinds};
pub use service::{
    Backend, BackendFlags, MemberKey, Scope, Service, ServiceFlags, ServiceKey, SetName, SlotKey,
};
pub use socket::{Affinity, AffinityKey, Original, OriginalKey, STREAMS};
pub use text::Text;

/// Version of every layout in this crate; part of the path at which maps are
/// pinned.
pub const VERSION: u32 = 2;

/// Names of the maps, as they stand in the object and under the pin directory.
pub mod maps {
    /// [`ServiceKey`](crate::ServiceKey) to [`ChecksummedValue`](crate::ChecksummedValue)`<`[`Service`](crate::Service)`>`.
    pub const SERVICES: &str = "SERVICES";
    /// [`SlotKey`](crate::SlotKey) to [`ChecksummedValue`](crate::ChecksummedValue)`<`[`Backend`](crate::Backend)`>`.
    pub const SLOTS: &str = "SLOTS";
    /// [`MemberKey`](crate::MemberKey) to the slot (`u32`).
    pub const MEMBERS: &str = "MEMBERS";
    /// [`MaglevKey`](crate::MaglevKey) to [`ChecksummedValue`](crate::ChecksummedValue)`<`[`MaglevChunk`](crate::MaglevChunk)`>`.
    pub const MAGLEV: &str = "MAGLEV";
    /// [`Prefix`](crate::Prefix) to `u32`, always 1.
    pub const SOURCES: &str = "SOURCES";
    /// [`Address`](crate::Address) to [`NodeFlags`](crate::NodeFlags).
    pub const NODES: &str = "NODES";
    /// [`Prefix`](crate::Prefix) to `u32`, always 1.
    pub const INSIDE: &str = "INSIDE";
    /// Words of [`ServiceEntryKinds`](crate::ServiceEntryKinds) by their place.
    pub const SERVED: &str = "SERVED";
    /// [`Prefix`](crate::Prefix) in set 0 to [`AS_POD`](crate::AS_POD) or
    /// [`AS_NODE`](crate::AS_NODE).
    pub const EGRESS: &str = "EGRESS";
    /// Set (`u32`) to [`SetName`](crate::SetName); read by people only.
    pub const NAMES: &str = "NAMES";
    /// [`OriginalKey`](crate::OriginalKey) to [`ChecksummedValue`](crate::ChecksummedValue)`<`[`Original`](crate::Original)`>`.
    pub const ORIGINALS: &str = "ORIGINALS";
    /// As `ORIGINALS`, for sockets of streams: their cookie modulo
    /// [`STREAMS`](crate::STREAMS) to
    /// [`ChecksummedValue`](crate::ChecksummedValue)`<`[`Original`](crate::Original)`>`.
    pub const STREAM_ORIGINALS: &str = "STREAM_ORIGINALS";
    /// [`AffinityKey`](crate::AffinityKey) to [`ChecksummedValue`](crate::ChecksummedValue)`<`[`Affinity`](crate::Affinity)`>`.
    pub const AFFINITY: &str = "AFFINITY";
    /// Zero to [`ChecksummedValue`](crate::ChecksummedValue)`<`[`Config`](crate::Config)`>`.
    pub const CONFIG: &str = "CONFIG";
    /// As `CONFIG`, and written before it: whole whenever that is not.
    pub const CONFIG_AHEAD: &str = "CONFIG_AHEAD";
    /// [`Tuple`](crate::Tuple) to [`FlowEntry`](crate::FlowEntry).
    pub const FLOWS: &str = "FLOWS";
    /// A queue of [`FlowLogKey`](crate::FlowLogKey).
    pub const FLOW_LOG: &str = "FLOW_LOG";
    /// [`FlowPorts`](crate::FlowPorts) by their place.
    pub const FLOW_PORTS: &str = "FLOW_PORTS";
    /// [`FragmentKey`](crate::FragmentKey) to [`ChecksummedValue`](crate::ChecksummedValue)`<`[`FragmentPorts`](crate::FragmentPorts)`>`.
    pub const FRAGMENTS: &str = "FRAGMENTS";
    /// Per processor, indexed by [`Counter::index`](crate::Counter::index).
    pub const COUNTERS: &str = "COUNTERS";
    /// Zero to [`PolicyRoot`](crate::policy::PolicyRoot).
    pub const POLICY_ROOT: &str = "POLICY_ROOT";
    /// [`Prefix`](crate::Prefix) under an epoch to [`PeerEntry`](crate::policy::PeerEntry).
    pub const PEERS: &str = "PEERS";
    /// [`EndpointKey`](crate::policy::EndpointKey) to
    /// [`ChecksummedValue`](crate::ChecksummedValue)`<`[`EndpointPolicy`](crate::policy::EndpointPolicy)`>`.
    pub const ENDPOINTS: &str = "ENDPOINTS";
    /// [`PortClasses`](crate::policy::PortClasses) by their place.
    pub const PORTS: &str = "PORTS";
    /// [`VerdictKey`](crate::policy::VerdictKey) to
    /// [`ChecksummedValue`](crate::ChecksummedValue)`<`[`PolicyVerdict`](crate::policy::PolicyVerdict)`>`.
    pub const VERDICTS: &str = "VERDICTS";
    /// Cookie (`u32`) to [`RuleName`](crate::policy::RuleName); read by people only.
    pub const RULES: &str = "RULES";
    /// [`Tuple`](crate::Tuple) to [`PolicyFlowEntry`](crate::policy::PolicyFlowEntry).
    pub const POLICY_FLOWS: &str = "POLICY_FLOWS";

    /// [`BandwidthKey`](crate::BandwidthKey) to [`Bandwidth`](crate::Bandwidth).
    pub const BANDWIDTH: &str = "BANDWIDTH";

    /// The ring of aya-log's records. Their form belongs to
    /// [`VERSION`](crate::VERSION): a new one of aya-log's is a new version.
    pub const LOGS: &str = "AYA_LOGS";

    /// The ring of [`FlowRecord`](crate::FlowRecord).
    pub const FLOW_RECORDS: &str = "FLOW_RECORDS";

    /// All of them, in the order in which they are opened.
    pub const ALL: [&str; 30] = [
        SERVICES,
        SLOTS,
        MEMBERS,
        MAGLEV,
        SOURCES,
        NODES,
        INSIDE,
        SERVED,
        EGRESS,
        NAMES,
        ORIGINALS,
        STREAM_ORIGINALS,
        AFFINITY,
        CONFIG,
        CONFIG_AHEAD,
        FLOWS,
        FLOW_LOG,
        FLOW_PORTS,
        FRAGMENTS,
        COUNTERS,
        POLICY_ROOT,
        PEERS,
        ENDPOINTS,
        PORTS,
        VERDICTS,
        RULES,
        POLICY_FLOWS,
        BANDWIDTH,
        LOGS,
        FLOW_RECORDS,
    ];
}
