//! Pure: policies, pods, namespaces and nodes in, desired policy maps and actions out.
//!
//! ```text
//! NetworkPolicy, ClusterNetworkPolicy ──► lower ──► Policy ──┐
//! Pod, Namespace, Node ──────────────────────────────────────┼──► Compiler ──► [Action]
//!                                                            │
//!                                                            └──► explain: who, which rule
//! ```
//!
//! [`lower`] alone knows what an object of the API means. The [`Compiler`]
//! keeps what was compiled, so that a change costs what it touches, and says
//! what to write, in an order in which every prefix is sound. The shape of the
//! maps is that of `ebpf_abi::policy`; what they mean is decided by
//! `ebpf_logic::policy`, in the kernel as in tests.
//!
//! Nothing here does I/O, and equal input gives the same verdicts.

mod action;
mod address;
pub mod check;
mod compiler;
pub mod custom_resource;
mod index;
mod intern;
mod labels;
pub mod lower;
pub mod objects;
pub mod policy;
mod ports;
mod prefixes;
mod ruleset;

pub use action::Action;
pub use address::Prefix;
pub use compiler::{
    Compiler, Config, End, Explanation, FreeMark, Reason, Side, SideDecision, Sizes, UNKNOWN_POD,
};
pub use labels::{Labels, Selector};
