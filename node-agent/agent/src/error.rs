//! What stops the node agent.

use thiserror::Error;

/// Why the node agent, or a part of it, cannot go on.
#[derive(Debug, Error)]
pub enum Error {
    /// No cgroup v2 hierarchy is mounted.
    #[error(
        "no cgroup2 hierarchy is mounted: mount one (mount -t cgroup2 none /sys/fs/cgroup/unified) \
         or name a folder with --cgroup"
    )]
    NoCgroup,
    /// The datapath.
    #[error("the datapath cannot be used")]
    Datapath(#[source] node_agent_datapath::Error),
}
