//! Wiring of the node agent: Services and EndpointSlices reach the datapath.
//!
//! The watch fills caches, each change goes through the plan into the maps, and
//! after any failure the whole is compared again: the maps of the kernel are
//! never flushed, so nothing that works stops working meanwhile.

use std::path::{Path, PathBuf};

use control_client::Client;
use tokio_util::sync::CancellationToken;

mod error;
mod services;
mod views;

pub use error::Error;

/// Where eBPF programs and maps are pinned unless told otherwise.
pub const PINS: &str = "/sys/fs/bpf/orlop";

/// What the agent needs to know.
#[derive(Clone, Debug)]
pub struct Options {
    /// The Node object's name.
    pub node_name: String,
    /// The cgroup v2 folder whose processes see services; the root of the
    /// hierarchy if `None`.
    pub cgroup: Option<PathBuf>,
    /// Where programs and maps are pinned; on a BPF file system.
    pub pin_dir: PathBuf,
}

/// Keeps services working on this node until `shutdown`. What is pinned goes on
/// working afterwards, and the next start adopts it.
///
/// # Errors
/// [`Error::Datapath`] when the programs cannot be brought into force.
pub async fn run(
    client: Client,
    options: Options,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    services::run(client, &options, shutdown).await
}

/// What the maps pinned below `pin_dir` hold, in words.
///
/// # Errors
/// [`Error::Datapath`] when there are none or they cannot be read.
pub fn inspect(pin_dir: &Path) -> Result<String, Error> {
    node_agent_datapath::inspect(pin_dir)
        .map(|snapshot| snapshot.to_string())
        .map_err(Error::Datapath)
}
