//! Packet and socket decisions, generic over maps; runs natively in tests.
//!
//! `ebpf/programs` compiles this to BPF and hands in the kernel's maps; tests
//! hand in ordinary collections ([`model`]). So what is tested is what runs.
//!
//! Everything that decides is `#[inline(always)]`: a BPF program is one
//! function as far as the verifier is concerned, and references to the stack
//! need not cross subprograms.

#![no_std]

#[cfg(feature = "model")]
extern crate std;

mod lookup;
mod maps;
#[cfg(feature = "model")]
pub mod model;
mod socket;

pub use lookup::{Choice, choose};
pub use maps::{Entropy, Maps};
pub use socket::{Family, Peer, Refusal, Socket, Verdict, connect, peer_name, receive, send};
