//! Streams of clients that speak WebSocket, translated for servers that speak
//! SPDY (KEP-4006): what the API server does for kubelets that speak SPDY only,
//! and the node agent for its container runtime.
//!
//! ```text
//! kubectl ──WebSocket v5.channel.k8s.io────────▶ remotecommand ──SPDY/3.1──▶ kubelet or runtime
//!         ──WebSocket SPDY/3.1+portforward…────▶ tunnel ─────────bytes────▶ kubelet or runtime
//! ```
//!
//! Who has the connections is for the caller; here are frames and what they
//! mean. At most a few chunks are under way in each direction; who reads slowly
//! slows the other side down.

pub mod join;
pub mod remotecommand;
pub mod spdy;
pub mod tunnel;
pub mod websocket;

/// Bytes of one chunk at most.
pub const CHUNK: usize = 32 << 10;

/// Chunks that wait in one direction at most.
pub const WAITING: usize = 4;
