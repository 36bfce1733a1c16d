//! Errors between a component and the API server.

use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use crate::transport::ConnectionError;

/// An error of a request, of a watch, or of the configuration of the client.
///
/// Answers of the API server are sorted by the *reason* of their
/// `metav1.Status`, so that callers match on what happened and not on text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The kubeconfig cannot be used. One line: the file, why, and what to do.
    #[error("kubeconfig `{}`: {problem}; {way_out}", path.display())]
    Kubeconfig {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
        /// How to fix it.
        way_out: &'static str,
    },
    /// The object does not exist (404).
    #[error("{}", .0.message)]
    NotFound(Box<Status>),
    /// An object of that name exists (409 `AlreadyExists`).
    #[error("{}", .0.message)]
    AlreadyExists(Box<Status>),
    /// The object changed since it was read (409 `Conflict`).
    #[error("{}", .0.message)]
    Conflict(Box<Status>),
    /// The object is not valid (422).
    #[error("{}", .0.message)]
    Invalid(Box<Status>),
    /// The request makes no sense to the server (400).
    #[error("{}", .0.message)]
    BadRequest(Box<Status>),
    /// The caller is not authenticated (401).
    #[error("{}", .0.message)]
    Unauthorized(Box<Status>),
    /// We are known and may not do this (403).
    #[error("{}", .0.message)]
    Forbidden(Box<Status>),
    /// The revision asked for is compacted (410): list again.
    #[error("{}", .0.message)]
    Expired(Box<Status>),
    /// The server asks to come back later (429), also after our own retries.
    #[error("{}", .0.message)]
    TooManyRequests(Box<Status>),
    /// The server could not do it in time (504 or `Timeout`).
    #[error("{}", .0.message)]
    ServerTimeout(Box<Status>),
    /// Any other answer that is not a success.
    #[error("{}", .0.message)]
    Api(Box<Status>),
    /// The connection was refused, broke, or failed in TLS.
    #[error("cannot reach the API server at {}: {}", .0.server, .0.reason)]
    Connection(ConnectionError),
    /// The request failed before a connection was made, such as for lack of credentials.
    #[error("cannot reach the API server")]
    Transport(#[source] kube::Error),
    /// The answer broke off.
    #[error("the answer of the API server broke off")]
    Body(#[source] kube::Error),
    /// No answer arrived in time.
    #[error("no answer to `{request}` within {after:?}")]
    NoAnswer {
        /// Method and path.
        request: String,
        /// How long was waited.
        after: Duration,
    },
    /// The response cannot be decoded.
    #[error("cannot read the answer to `{request}`")]
    Decode {
        /// Method and path.
        request: String,
        /// The position and the reason.
        #[source]
        source: serde_json::Error,
    },
    /// The body to be sent cannot be written as JSON.
    #[error("cannot encode the body of `{request}`")]
    Encode {
        /// Method and path.
        request: String,
        /// The position and the reason.
        #[source]
        source: serde_json::Error,
    },
    /// Namespace, name or query make no valid URI or header.
    #[error("`{request}` is no valid request")]
    Request {
        /// Method and path.
        request: String,
        /// The reason.
        #[source]
        source: http::Error,
    },
}

impl Error {
    /// The error for a request that kube could not send.
    #[must_use]
    pub fn from_transport(error: kube::Error) -> Self {
        match error {
            kube::Error::Service(source) => match source.downcast::<ConnectionError>() {
                Ok(error) => Self::Connection(*error),
                Err(source) => Self::Transport(kube::Error::Service(source)),
            },
            other => Self::Transport(other),
        }
    }

    /// Returns the error that a status of the API server represents.
    #[must_use]
    pub fn from_status(status: Status) -> Self {
        let status = Box::new(status);
        match (status.reason.as_str(), status.code) {
            ("AlreadyExists", _) => Self::AlreadyExists(status),
            ("Expired" | "Gone", _) | (_, 410) => Self::Expired(status),
            ("Timeout" | "ServerTimeout", _) | (_, 504) => Self::ServerTimeout(status),
            (_, 404) => Self::NotFound(status),
            (_, 409) => Self::Conflict(status),
            (_, 422) => Self::Invalid(status),
            (_, 400) => Self::BadRequest(status),
            (_, 401) => Self::Unauthorized(status),
            (_, 403) => Self::Forbidden(status),
            (_, 429) => Self::TooManyRequests(status),
            _ => Self::Api(status),
        }
    }

    /// The answer of the server, when there was one.
    #[must_use]
    pub fn status(&self) -> Option<&Status> {
        match self {
            Self::NotFound(status)
            | Self::AlreadyExists(status)
            | Self::Conflict(status)
            | Self::Invalid(status)
            | Self::BadRequest(status)
            | Self::Unauthorized(status)
            | Self::Forbidden(status)
            | Self::Expired(status)
            | Self::TooManyRequests(status)
            | Self::ServerTimeout(status)
            | Self::Api(status) => Some(status),
            Self::Kubeconfig { .. }
            | Self::Connection(_)
            | Self::Transport(_)
            | Self::Body(_)
            | Self::NoAnswer { .. }
            | Self::Decode { .. }
            | Self::Encode { .. }
            | Self::Request { .. } => None,
        }
    }

    /// Whether the server is not there or the connection to it broke, so that attempts to
    /// connect cost it nothing.
    #[must_use]
    pub const fn is_unreachable(&self) -> bool {
        match self {
            Self::Connection(error) => !error.is_tls,
            Self::Body(_) => true,
            _ => false,
        }
    }

    /// Whether the object was not there.
    #[must_use]
    pub const fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound(_))
    }

    /// Whether an object of that name was there already.
    #[must_use]
    pub const fn is_already_exists(&self) -> bool {
        matches!(self, Self::AlreadyExists(_))
    }

    /// Whether the object had changed since it was read.
    #[must_use]
    pub const fn is_conflict(&self) -> bool {
        matches!(self, Self::Conflict(_))
    }

    /// Whether the namespace is being deleted, so that nothing may be created.
    #[must_use]
    pub fn is_namespace_terminating(&self) -> bool {
        self.status().is_some_and(|status| {
            status
                .details
                .causes
                .iter()
                .any(|cause| cause.reason == "NamespaceTerminating")
        })
    }

    /// The whole chain in one line, for logs and events.
    #[must_use]
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut source = std::error::Error::source(self);
        while let Some(error) = source {
            let next = error.to_string();
            // kube repeats its source in its own message
            if !text.contains(&next) {
                text.push_str(": ");
                text.push_str(&next);
            }
            source = error.source();
        }
        text
    }
}

/// `metav1.Status`: the API server's description of a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Status {
    /// HTTP status code.
    pub code: u16,
    /// One word for machines, such as `NotFound`.
    pub reason: String,
    /// A sentence for people.
    pub message: String,
    /// More for machines.
    pub details: Details,
}

impl Status {
    /// Whether the request named a resource version that the server does not have yet.
    #[must_use]
    pub fn is_too_large_resource_version(&self) -> bool {
        let mut causes = self.details.causes.iter();
        causes.any(|cause| cause.reason == "ResourceVersionTooLarge")
    }
}

/// `metav1.StatusDetails`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Details {
    /// The object's name.
    pub name: String,
    /// The resource (not the kind, for most errors).
    pub kind: String,
    /// The individual problems, by field.
    pub causes: Vec<Cause>,
    /// When to come back.
    pub retry_after_seconds: u64,
}

/// `metav1.StatusCause`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct Cause {
    /// One word, such as `FieldValueInvalid`.
    pub reason: String,
    /// A sentence.
    pub message: String,
    /// The field, such as `spec.replicas`.
    pub field: String,
}
