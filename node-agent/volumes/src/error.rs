//! Errors of the loops. A queue logs them and tries again.

use crate::driver::CallError;

/// Result of one pass of a loop.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Reason why a pass of a loop is to be repeated.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The API server refused a request or did not answer.
    #[error("cannot {what}")]
    Api {
        /// What was tried.
        what: &'static str,
        /// Cause.
        #[source]
        source: control_client::Error,
    },
    /// The driver refused a call or did not answer.
    #[error(transparent)]
    Call(#[from] CallError),
    /// A class or claim asks for what cannot be.
    #[error("{0}")]
    Refused(String),
    /// What a volume is to be a copy of is not on this node.
    #[error("{0}")]
    SourceElsewhere(String),
}

impl Error {
    /// Wraps an error of the API client with what was tried.
    pub fn api(what: &'static str) -> impl FnOnce(control_client::Error) -> Self {
        move |source| Self::Api { what, source }
    }

    /// Returns what of the error is the same at each attempt.
    #[must_use]
    pub fn cause(&self) -> String {
        match self {
            // Its message says how much is left.
            Self::Call(error) if error.code == tonic::Code::ResourceExhausted => {
                format!("{:?}", error.code)
            }
            other => other.chain(),
        }
    }

    /// Returns the error with its causes, for events.
    #[must_use]
    pub fn chain(&self) -> String {
        match self {
            Self::Api { what, source } => format!("cannot {what}: {}", source.chain()),
            other => other.to_string(),
        }
    }
}
