//! Streams of clients that speak WebSocket, translated for kubelets that speak
//! SPDY (KEP-4006).
//!
//! ```text
//! kubectl ──WebSocket v5.channel.k8s.io────────▶ remotecommand ──SPDY/3.1──▶ kubelet
//!         ──WebSocket SPDY/3.1+portforward…────▶ tunnel ─────────bytes────▶ kubelet
//! ```
//!
//! Everything else (SPDY, older WebSocket protocols) is passed on as it comes,
//! by [`crate::proxy::upgrade`]. At most a few chunks are under way in each
//! direction; who reads slowly slows the other side down.

pub mod remotecommand;
pub mod spdy;
pub mod text;
pub mod tunnel;
pub mod websocket;

/// Bytes of one chunk at most.
const CHUNK: usize = 32 << 10;

/// Chunks that wait in one direction at most.
const WAITING: usize = 4;
