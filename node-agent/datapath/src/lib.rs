//! The only crate that knows aya: loads, pins, applies actions.
//!
//! [`Datapath::open`] brings the programs into force at a cgroup: it adopts
//! what an earlier process pinned, replaces programs in place, and never
//! interrupts what is in force. [`Engine`] joins it with the plan.
//!
//! # Below the pin directory
//!
//! ```text
//! <pin_dir>/v2/SERVICES …        maps, by name (`ebpf_abi::maps`)
//! <pin_dir>/v2/links/connect4 …  one link per hook
//! <pin_dir>/v2/links/devices/tc_ingress-2 …  one per hook of a device
//! ```
//!
//! The version is that of the maps' layouts. What another version's maps hold is
//! carried over where it means the same; its directory is removed once this
//! version's programs are attached: for a moment both are, and the second sees
//! addresses that are no service's any more. Maps that become too small are
//! replaced by larger ones while all goes on (`growth.rs`).
//!
//! # Messages of the programs
//!
//! Rare events (faults, refused calls) come as messages of [`LOG_TARGET`]
//! through `tracing`, faults as warnings, the rest at the level `debug`. What
//! the subscriber filters out when the datapath is opened is not in the
//! programs at all.
//!
//! # The BPF object
//!
//! `cargo xtask build` compiles it to `target/bpf/orlop.bpf.o` (another place:
//! `ORLOP_BPF_OBJECT`) before it compiles the programs that embed it.
//! This crate and all that depends on it compile without; only a crate that
//! calls [`embedded_object!`] fails then, with a sentence that says what to do.

mod bandwidth;
mod capacity;
mod configuration;
mod counters;
mod datapath;
mod devices;
mod egress;
mod engine;
mod environment;
mod error;
mod flow_log;
mod flow_ports;
mod flows;
mod grace;
mod growth;
mod kernel_nat;
mod layout;
mod links;
mod load;
mod loader;
mod log;
mod namespaces;
mod netlink;
mod object;
mod pinned_map;
mod pins;
mod pod;
mod policy;
mod probe;
mod records;
mod removal;
mod retirement;
mod snapshot;
mod stale_entries;
mod sys;
mod table;
mod tables;
mod trace;
mod udp;

pub use bandwidth::{Bandwidths, Rate};
pub use capacity::Capacity;
pub use datapath::{Datapath, Options, ensure_unused, inspect, remove};
pub use devices::attach::{AttachSummary, TcWay};
pub use devices::{
    Attachment, DEVICES, Device, DeviceHook, GUARDED_DEVICES, Globs, NotAPattern, POD_DEVICES,
    Patterns, XdpMode, remove_devices,
};
pub use egress::{Egress, EgressSource, Exits};
pub use engine::{ApplyOutcome, Engine};
pub use environment::ensure_bpffs;
pub use error::Error;
pub use flows::{Connection, Flows};
pub use grace::wait_for_programs;
pub use kernel_nat::{KernelNat, Phase, TakenOver, TranslatedConnection};
pub use links::Cost;
pub use load::{Loads, TableLoad};
pub use log::LOG_TARGET;
pub use object::Object;
pub use policy::{HookPlace, PartialWrite, Policy, PolicyEntries, PolicyQuestion, PolicyWalk};
pub use probe::{Feature, ForeignProgram, Probe, foreign_programs, probe, xdp_in_drivers};
pub use records::{RecordingOptions, Records, ServiceNameTable as ServiceNames, clock};
pub use retirement::{InstalledPins, Retirement};
pub use snapshot::Snapshot;
pub use stale_entries::StaleEntryScan;
pub use trace::{
    ClientLocation as TraceFrom, Decision, EndpointChoice, MapRead, PathKind, ProgramWalk,
    Question, Route, Trace, trace,
};
pub use udp::{Move, MoveSummary, Mover};

/// The BPF object found when this crate was compiled, if any.
#[cfg(orlop_bpf_object)]
pub const OBJECT: Option<Object> = Some(Object::of_packed(include_bytes!(concat!(
    env!("OUT_DIR"),
    "/orlop.bpf.o.z"
))));
/// The BPF object found when this crate was compiled, if any.
#[cfg(not(orlop_bpf_object))]
pub const OBJECT: Option<Object> = None;

/// The embedded BPF object, an [`Object`]; does not compile if there is none.
#[cfg(orlop_bpf_object)]
#[macro_export]
macro_rules! embedded_object {
    () => {
        const { $crate::OBJECT.unwrap() }
    };
}

/// The embedded BPF object, an [`Object`]; does not compile if there is none.
#[cfg(not(orlop_bpf_object))]
#[macro_export]
macro_rules! embedded_object {
    () => {
        compile_error!(
            "the BPF object is not built: run `cargo xtask build`, which compiles it first, or name an object in \
             ORLOP_BPF_OBJECT"
        )
    };
}
