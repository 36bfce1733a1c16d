//! The ring as something that the runtime waits for.

use std::io;

use node_agent_datapath::Records;
use tokio::io::unix::AsyncFd;

/// Registers the ring's descriptor.
///
/// # Errors
/// What the system says.
pub fn async_records(records: Records) -> io::Result<AsyncFd<Records>> {
    // SAFETY: the descriptor is the map's, which `Records` owns: it is the same
    // and open as long as the value lives, and nothing takes it out of the
    // `AsyncFd`.
    Ok(unsafe { AsyncFd::register(records) }?)
}
