//! Reasons why the controllers end.

use ipnet::IpNet;

/// Reason why the controllers ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The configuration names a controller that does not exist.
    #[error("no controller is called `{name}`; there are: {known}")]
    UnknownController {
        /// The requested name.
        name: String,
        /// All names.
        known: String,
    },
    /// More than one pod range of an IP version.
    #[error("pod ranges must be one, or one of each IP version: {0}")]
    PodRanges(String),
    /// The pod ranges cannot be divided among nodes.
    #[error(
        "pod range `{range}` cannot be divided into ranges of /{size} for nodes; give a node mask between {from} and {to}"
    )]
    NodeMask {
        /// The whole range.
        range: IpNet,
        /// The size asked for.
        size: u8,
        /// The least that would do.
        from: u8,
        /// The most.
        to: u8,
    },
    /// A controller ended without a shutdown.
    #[error("controller `{name}` ended unexpectedly")]
    Ended {
        /// Its name.
        name: &'static str,
    },
}
