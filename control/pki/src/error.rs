//! Errors of keys and certificates.

use std::path::PathBuf;

/// Error for an unusable key or certificate. One line each, naming the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read or written.
    #[error("`{}` cannot be {action}: check that it exists and who may read it", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// `read` or `written`.
        action: &'static str,
        /// The system's error.
        #[source]
        source: std::io::Error,
    },
    /// The file is not what its name says.
    #[error("`{}` is no valid {expected}: {detail}; restore it from a backup, or delete it to have a new one made", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The expected content.
        expected: &'static str,
        /// The problem.
        detail: String,
    },
    /// The certificate's time is over.
    #[error("certificate `{}` expired on {expired}: {way_out}", path.display())]
    Expired {
        /// The certificate's file.
        path: PathBuf,
        /// When, in UTC.
        expired: jiff::Timestamp,
        /// What to do.
        way_out: &'static str,
    },
    /// The certificate's time has not come.
    #[error("certificate `{}` is not valid before {begins}: check this machine's clock", path.display())]
    NotYetValid {
        /// The certificate's file.
        path: PathBuf,
        /// When it will be, in UTC.
        begins: jiff::Timestamp,
    },
    /// Certificate and key are not a pair.
    #[error("key `{}` does not belong to certificate `{}`: restore both from the same backup, or delete both to have new ones made", key.display(), certificate.display())]
    KeyMismatch {
        /// The certificate's file.
        certificate: PathBuf,
        /// The key's file.
        key: PathBuf,
    },
    /// One half of a pair is there, the other is not.
    #[error("`{}` exists but `{}` does not: restore the missing file, or delete the other to have both made anew", present.display(), missing.display())]
    Half {
        /// The file that exists.
        present: PathBuf,
        /// The file that is missing.
        missing: PathBuf,
    },
    /// A name that no certificate can carry.
    #[error("`{name}` cannot be a name in a certificate")]
    Name {
        /// The name.
        name: String,
    },
    /// More organisations than the certificate library can write.
    #[error(
        "the certificate of `{cn}` can name {limit} organisations at most: bind roles to the user instead"
    )]
    TooManyOrganisations {
        /// The common name.
        cn: String,
        /// The bound.
        limit: usize,
    },
    /// The cryptographic library refused.
    #[error("cannot {action}: {detail}")]
    Crypto {
        /// The operation.
        action: &'static str,
        /// The library's message.
        detail: String,
    },
}

// === impl Error ===

impl Error {
    pub(crate) fn crypto(action: &'static str) -> impl FnOnce(rcgen::Error) -> Self {
        move |error| Self::Crypto {
            action,
            detail: error.to_string(),
        }
    }
}
