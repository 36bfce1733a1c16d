//! Errors, with their codes for the runtime.

use std::path::{Path, PathBuf};

use cni_addresses::wire;
use thiserror::Error;

/// A failure of one verb. `code` gives the number of CNI specification 1.1,
/// section "Error": 1 to 99 are well known, ours start at 100.
#[derive(Debug, Error)]
pub(crate) enum Error {
    #[error("environment variable `{0}` is missing or not valid: the runtime has to set it")]
    Environment(&'static str),
    #[error("the network configuration on standard input is not valid: {0}")]
    Configuration(String),
    #[error("CNI version `{0}` is not supported: use one of 0.4.0, 1.0.0, 1.1.0")]
    Version(String),
    #[error("the network namespace `{path}` cannot be entered")]
    Namespace { path: String, source: nix::Error },
    #[error("cannot access `{path}`")]
    File {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error(transparent)]
    Addresses(cni_addresses::Error),
    #[error("{}", .0.reason)]
    Refused(wire::Refusal),
    #[error("netlink: cannot {action}")]
    Netlink {
        action: String,
        source: rtnetlink::Error,
    },
    #[error("netlink cannot be reached")]
    Connection(#[source] std::io::Error),
    #[error("interface `{0}` does not exist")]
    NoInterface(String),
    #[error("CHECK of interface `{interface}`: {what}")]
    Check { interface: String, what: String },
    #[error("the plugin is not ready: {0}")]
    NotReady(String),
    #[error("try again later: {0}")]
    Later(String),
}

impl Error {
    /// Returns the message with its causes, which the runtime shows.
    pub(crate) fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(cause) = source {
            let cause_text = cause.to_string();
            // Some libraries repeat their cause in their own message.
            if !text.contains(&cause_text) {
                text.push_str(": ");
                text.push_str(&cause_text);
            }
            source = cause.source();
        }
        text
    }

    /// Returns the number for the runtime.
    pub(crate) fn code(&self) -> u32 {
        match self {
            Self::Version(_) => 1,
            Self::Environment(_) => 4,
            Self::File { .. } => 5,
            Self::Configuration(_) => 7,
            Self::Later(_) => wire::LATER,
            Self::NotReady(_) => wire::NOT_READY,
            Self::Addresses(error) => wire::code(error),
            Self::Refused(refusal) => refusal.code,
            Self::Namespace { .. } => 101,
            Self::Netlink { .. } | Self::Connection(_) => 102,
            Self::NoInterface(_) => 103,
            Self::Check { .. } => 104,
        }
    }
}

pub(crate) fn file_error(path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.to_owned();
    move |source| Error::File { path, source }
}
