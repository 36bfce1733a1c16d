//! Errors of encryption.

use std::path::PathBuf;

/// Error for an unusable value or configuration.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file cannot be read.
    #[error("`{}` cannot be {action}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// `read` or `written`.
        action: &'static str,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("a key file cannot be written")]
    Pki(#[source] control_pki::Error),
    /// Keys that others can read are no secret.
    #[error("`{}` can be read by others (mode {mode:04o}); make it its owner's alone: chmod 600 {}", path.display(), path.display())]
    Readable {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// The configuration is none.
    #[error("`{}`: {detail}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The problem.
        detail: String,
    },
    /// A part of the configuration cannot be.
    #[error("{at}: {detail}")]
    Invalid {
        /// The field.
        at: String,
        /// The problem.
        detail: String,
    },
    /// No provider of the resource knows what encrypted a value.
    #[error("no provider of `{resource}` can decrypt a value that begins with `{prefix}`")]
    NoProvider {
        /// The resource.
        resource: String,
        /// The beginning of the value.
        prefix: String,
    },
    /// The key does not fit, or the bytes were changed or moved.
    #[error("the key of provider `{provider}` does not fit, or the value was changed or moved")]
    Refused {
        /// The prefix of the provider.
        provider: String,
    },
    /// The cryptographic library cannot do it.
    #[error("cannot {action}")]
    Crypto {
        /// The operation.
        action: &'static str,
    },
    /// The key manager does not do its part.
    #[error("KMS provider `{name}`: {detail}")]
    Kms {
        /// Its name in the configuration.
        name: String,
        /// The problem.
        detail: String,
    },
}

pub(crate) const fn crypto(action: &'static str) -> Error {
    Error::Crypto { action }
}
