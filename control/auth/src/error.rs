//! Errors of the configuration of access, and of tokens.

use std::io;
use std::path::PathBuf;

use control_access::TokenError;
use control_access::configuration::ConfigurationError;
use control_access::oidc::OidcError;
use control_proxy::egress::{Kind, kubeconfig};
use control_types::error_chain;

/// Why access cannot be configured so.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettingsError {
    /// A file cannot be read.
    #[error("cannot read {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A configuration is wrong.
    #[error("cannot use {}", path.display())]
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

/// Error for a token that is nobody's, in the words of a `TokenReview`.
#[derive(Debug, thiserror::Error)]
pub enum BearerError {
    /// Nobody knows it.
    #[error("{}", NOBODY)]
    Unknown,
    /// Nobody knows it, and these refuse it.
    #[error("[{}, {}]", NOBODY, joined(.0))]
    Refused(Vec<TokenRefusal>),
}

/// What is said of a token that nobody knows.
const NOBODY: &str = "invalid bearer token";

/// Error of one of those who know tokens.
#[derive(Debug, thiserror::Error)]
pub enum TokenRefusal {
    /// It is of no service account.
    #[error(transparent)]
    ServiceAccount(TokenError),
    /// The keys of its issuer are not known yet.
    #[error("oidc: authenticator not initialized")]
    NoKeys,
    /// Its issuer did not make it so.
    #[error("{0}")]
    Oidc(OidcError),
    /// The webhook gives no answer.
    #[error(transparent)]
    Webhook(#[from] kubeconfig::Error),
    /// The webhook says that it is wrong, in these words.
    #[error("{0}")]
    Review(String),
}

fn joined(refusals: &[TokenRefusal]) -> String {
    let texts: Vec<String> = refusals.iter().map(|it| error_chain(it)).collect();
    texts.join(", ")
}
