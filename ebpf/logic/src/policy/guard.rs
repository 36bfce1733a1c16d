//! Packets at a pod's interface: which flow they belong to, and whether policy
//! lets it be.
//!
//! ```text
//! parse, translate ──► outline ──► guard ──► known flow, decided under this generation: pass
//!                          │             ├─► known flow, older: decide again, or end it
//!                          │             └─► none ──► begin: decide, and keep what is allowed
//!                          └─► of the link alone ──► neighbour: is it the pod's to say?
//! ```
//!
//! A flow is known by what the pod sees, and decided by what is behind
//! translation: a packet to a service is decided by the pod that serves it.
//! What is denied is not kept, so that nobody fills the table with it.
//!
//! # Who began a flow
//!
//! The first packet that is seen, but TCP says so itself: a segment that opens
//! a connection never belongs to one of the other direction. Without a
//! connection an answer is one while the flow is fresh ([`Timeouts`]). A flow
//! that policy ended is remembered, else its own next segment, from the other
//! side, would begin it anew.
//!
//! [`Timeouts`]: ebpf_abi::Timeouts

mod flows;
mod host;
mod outline;
mod portless;
mod recent;
mod recent_packet;
mod report;
mod sender;
mod state;
mod verdict;

pub use flows::PolicyFlows;
pub use host::{host_begin, host_outline, host_portless, host_told};
pub use outline::{outline, unreadable};
pub use portless::portless;
pub use recent::{is_recent, is_recent_still};
pub use recent_packet::Recent;
pub use report::{VerdictReason, describe};
pub use sender::{ReturnPath, neighbour, prove, way_back};
pub use state::{DeviceFacts, Guard, Ruling};
pub use verdict::{begin, guard};

#[cfg(test)]
mod tests;
