//! Packet and socket decisions, generic over maps; runs natively in tests.
//!
//! `ebpf/programs` compiles this to BPF with the kernel's maps; tests use ordinary
//! collections ([`model`]). So tests run the same code as the kernel.
//!
//! Decisions of socket hooks are `#[inline(always)]`: such a program is one function, and
//! references to the stack need not cross subprograms. The larger packet steps are
//! separate BPF functions, which share one value outside of the stack ([`packet::Work`]).

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
pub use maps::{Entropy, Flows, InsertOutcome, Maps};
pub use socket::{
    Family, Peer, Refusal, Socket, SocketVerdict, bind, connect, peer_name, receive, send,
};
