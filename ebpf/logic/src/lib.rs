//! Packet and socket decisions, generic over maps; runs natively in tests.
//!
//! `ebpf/programs` compiles this to BPF with the kernel's maps; tests use ordinary
//! collections ([`model`]). So tests run the same code as the kernel.
//!
//! Decisions of socket hooks are `#[inline(always)]`: such a program is one function, and
//! references to the stack need not cross subprograms. The larger packet steps are
//! separate BPF functions, which share one value outside of the stack ([`packet::Work`]).
//!
//! ```
//! use ebpf_abi::{Address, Backend, BackendFlags, Port, Protocol, Service, ServiceFlags, ServiceKey};
//! use ebpf_logic::model::{Model, ModelSocket};
//! use ebpf_logic::{Family, Peer, SocketVerdict, connect};
//!
//! let cluster_ip = Address::v4([10, 96, 0, 1]);
//! let pod = Address::v4([10, 244, 1, 2]);
//! let mut maps = Model::default();
//! maps.put(
//!     ServiceKey::internal(cluster_ip, Port::new(80), Protocol::TCP),
//!     Service { set: 1, generation: 1, count: 1, flags: ServiceFlags::NONE, affinity_seconds: 0, table: 0 },
//!     &[Backend::new(pod, Port::new(8080), BackendFlags::LOCAL)],
//! );
//! let mut socket = ModelSocket {
//!     family: Family::V4,
//!     protocol: Protocol::TCP,
//!     peer: Peer { address: cluster_ip, port: Port::new(80) },
//!     cookie: 1,
//!     namespace: 1,
//! };
//! assert_eq!(connect(&maps, &mut socket), SocketVerdict::Translated);
//! assert_eq!(socket.peer, Peer { address: pod, port: Port::new(8080) });
//! ```

#![no_std]

#[cfg(feature = "model")]
extern crate std;

pub mod bandwidth;
mod found_backend;
mod lookup;
mod maps;
#[cfg(feature = "model")]
pub mod model;
pub mod packet;
pub mod policy;
mod socket;

pub use found_backend::FoundBackend;
pub use lookup::{ATTEMPTS, Admission, Choice, LookupClient, choose};
pub use maps::{Entropy, FlowBeginner, Flows, InsertOutcome, Maps};
pub use socket::{
    Family, Peer, Refusal, Socket, SocketVerdict, bind, connect, peer_name, receive, send,
};
