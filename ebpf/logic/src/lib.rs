//! Packet and socket decisions, generic over maps; runs natively in tests.
//!
//! `ebpf/programs` compiles this to BPF and hands in the kernel's maps; tests
//! hand in ordinary collections ([`model`]). So what is tested is what runs.
//!
//! What socket hooks decide is `#[inline(always)]`: such a program is one
//! function, and references to the stack need not cross subprograms. The larger
//! steps of packets are functions of their own in BPF, with what they share in
//! one value that does not lie on the stack ([`packet::Work`]).

#![no_std]

#[cfg(feature = "model")]
extern crate std;

pub mod bandwidth;
mod lookup;
mod maps;
#[cfg(feature = "model")]
pub mod model;
pub mod packet;
pub mod policy;
mod socket;

pub use lookup::{ATTEMPTS, Admission, Choice, FoundBackend, LookupClient, choose};
pub use maps::{Entropy, Flows, InsertOutcome, Maps};
pub use socket::{
    Family, Peer, Refusal, Socket, SocketVerdict, bind, connect, peer_name, receive, send,
};
