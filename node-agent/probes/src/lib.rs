//! Probes of containers ([`probe`]), and the hooks of their lives ([`hooks`]): both run a
//! command, ask over HTTP or gRPC, or open a connection.

pub mod hooks;
mod http_get;
pub mod probe;
mod tls;
