//! Errors of the configuration of access.

use std::io;
use std::path::PathBuf;

use control_access::configuration::ConfigurationError;
use control_proxy::egress::{Kind, kubeconfig};

/// Why access cannot be configured so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A configuration is wrong.
    #[error("{}: {source}", path.display())]
    Configuration {
        /// The file.
        path: PathBuf,
        /// The problem.
        source: ConfigurationError,
    },
    /// A kubeconfig names no server that can be asked.
    #[error(transparent)]
    Kubeconfig(#[from] kubeconfig::Error),
    /// The mode `ABAC` without policies.
    #[error(
        "authorization mode ABAC needs policies: name their file with --authorization-policy-file"
    )]
    NoPolicies,
    /// An issuer is to be reached by a way that nobody configured.
    #[error(
        "issuer `{issuer}`: its egressSelectorType is `{}`, which the egress selector configuration does not name: add it there (--egress-selector-config-file)", kind.as_str()
    )]
    NoWay {
        /// The issuer's URL.
        issuer: String,
        /// By which way.
        kind: Kind,
    },
}
