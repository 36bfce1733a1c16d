//! Errors of the driver, and the gRPC status that each becomes.

use std::error::Error as _;
use std::io;
use std::path::{Path, PathBuf};

use tonic::{Code, Status};

use crate::tool::ToolError;

/// Result of an operation of the driver.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Reason why a call to the driver failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A required field of the request is empty.
    #[error("`{field}` is required")]
    Missing {
        /// Name of the field in the protocol.
        field: &'static str,
    },
    /// A field of the request has a value that the driver does not accept.
    #[error("`{field}` is `{value}`: {expected}")]
    Invalid {
        /// Name of the field in the protocol.
        field: String,
        /// Value that was sent.
        value: String,
        /// Values that would be accepted.
        expected: String,
    },
    /// No volume, snapshot or group has the identifier.
    #[error("{kind} `{id}` does not exist on node `{node}`")]
    NotFound {
        /// `volume`, `snapshot` or `group snapshot`.
        kind: &'static str,
        /// Identifier from the request.
        id: String,
        /// The node.
        node: String,
    },
    /// The path does not hold the volume.
    #[error("volume `{id}` is not mounted at `{}`", path.display())]
    NotMounted {
        /// Identifier of the volume.
        id: String,
        /// Path from the request.
        path: PathBuf,
    },
    /// An object of the same name exists and differs from the request.
    #[error("{kind} `{name}` exists already with {difference}: choose another name or delete it")]
    Incompatible {
        /// `volume`, `snapshot` or `group snapshot`.
        kind: &'static str,
        /// Name from the request.
        name: String,
        /// The difference.
        difference: String,
    },
    /// The requested size is impossible.
    #[error("size of `{id}`: {reason}")]
    OutOfRange {
        /// Name or identifier of the volume.
        id: String,
        /// The reason, and the allowed sizes.
        reason: String,
    },
    /// The class has too little space left.
    #[error(
        "class `{class}` has {available} bytes left and `{id}` needs {wanted}: delete volumes, \
         add space, or raise `overcommit` of the class"
    )]
    NoSpace {
        /// Name of the class.
        class: String,
        /// Name of the volume.
        id: String,
        /// Bytes that are needed.
        wanted: u64,
        /// Bytes that are available.
        available: u64,
    },
    /// The request asks for volumes on other nodes only.
    #[error(
        "no requisite topology contains node `{node}`: create the volume through the driver of its node"
    )]
    OtherNode {
        /// Node of this driver.
        node: String,
    },
    /// The snapshot to restore is on another node.
    #[error(
        "snapshot `{id}` is on node `{on}`, not on node `{node}`: create the volume through the \
         driver of its node"
    )]
    SnapshotElsewhere {
        /// Identifier from the request, which names the node.
        id: String,
        /// Node that has the snapshot.
        on: String,
        /// Node of this driver.
        node: String,
    },
    /// Another call works on the same object.
    #[error("an operation on `{id}` is in progress: try again later")]
    Busy {
        /// Identifier of the volume or snapshot.
        id: String,
    },
    /// The object is used and cannot be changed.
    #[error("{kind} `{id}` is in use {usage}")]
    InUse {
        /// `volume` or `snapshot`.
        kind: &'static str,
        /// Identifier.
        id: String,
        /// The user, and how to end the use.
        usage: String,
    },
    /// The backend does not support the operation.
    #[error("class `{class}` ({backend}) cannot {what}: {instead}")]
    Unsupported {
        /// Name of the class.
        class: String,
        /// Name of the backend.
        backend: &'static str,
        /// The operation.
        what: &'static str,
        /// The alternative.
        instead: String,
    },
    /// The volume is not in the state that the call needs.
    #[error("volume `{id}`: {reason}")]
    Precondition {
        /// Identifier of the volume.
        id: String,
        /// The requirement, and how to meet it.
        reason: String,
    },
    /// A class cannot be used at present.
    #[error("class `{class}` is unavailable")]
    Unavailable {
        /// Name of the class.
        class: String,
        /// The reason.
        #[source]
        source: Box<Error>,
    },
    /// The folder of a class cannot enforce sizes.
    #[error(
        "`{}` cannot enforce sizes ({reason}): use another backend, or set `allowUnenforcedSize: true`",
        path.display()
    )]
    Unenforced {
        /// Folder of the class.
        path: PathBuf,
        /// The missing part.
        reason: String,
    },
    /// A page token was not made by this driver.
    #[error("`starting_token` is `{token}`, which no listing returned: list from the beginning")]
    Token {
        /// Token from the request.
        token: String,
    },
    /// An external program failed.
    #[error("{what} `{id}` failed")]
    Tool {
        /// The operation.
        what: &'static str,
        /// With which object.
        id: String,
        /// The program's error.
        #[source]
        source: ToolError,
    },
    /// A key manager refused or did not answer.
    #[error("cannot {what} `{id}`: the key manager of its class fails")]
    KeyManager {
        /// The operation.
        what: &'static str,
        /// Identifier of the volume.
        id: String,
        /// The manager's error.
        #[source]
        source: control_kms::Error,
    },
    /// A system call failed.
    #[error("cannot {what} `{}`", path.display())]
    Io {
        /// The operation.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: io::Error,
    },
    /// A file of the driver cannot be parsed.
    #[error("`{}` is damaged: restore it from a backup, or move it away to give the volume up", path.display())]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        #[source]
        source: serde_json::Error,
    },
}

impl Error {
    /// Returns the gRPC code of the error, as the CSI specification assigns it.
    #[must_use]
    pub fn code(&self) -> Code {
        match self {
            Self::Missing { .. } | Self::Invalid { .. } => Code::InvalidArgument,
            Self::NotFound { .. } | Self::NotMounted { .. } => Code::NotFound,
            Self::Incompatible { .. } => Code::AlreadyExists,
            Self::OutOfRange { .. } => Code::OutOfRange,
            // csi-provisioner lets the scheduler select another node on this code alone.
            Self::NoSpace { .. } | Self::OtherNode { .. } | Self::SnapshotElsewhere { .. } => {
                Code::ResourceExhausted
            }
            Self::Busy { .. } | Self::Token { .. } => Code::Aborted,
            Self::InUse { .. }
            | Self::Unsupported { .. }
            | Self::Precondition { .. }
            | Self::Unenforced { .. } => Code::FailedPrecondition,
            Self::Unavailable { .. } | Self::KeyManager { .. } => Code::Unavailable,
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                Code::ResourceExhausted
            }
            Self::Tool { .. } | Self::Io { .. } | Self::Damaged { .. } => Code::Internal,
        }
    }

    /// Returns the error and its causes as one line, for callers across the socket.
    #[must_use]
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = self.source();
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }

    /// Wraps an I/O error with the operation and the path.
    pub(crate) fn io<'a>(
        what: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(io::Error) -> Self + 'a {
        move |source| Self::Io {
            what,
            path: path.to_owned(),
            source,
        }
    }

    /// The same for errors of plain system calls.
    pub(crate) fn sys<'a>(
        what: &'static str,
        path: &'a Path,
    ) -> impl FnOnce(rustix::io::Errno) -> Self + 'a {
        move |source| Self::io(what, path)(source.into())
    }

    /// Wraps the failure of an external program.
    pub(crate) fn tool<'a>(what: &'static str, id: &'a str) -> impl FnOnce(ToolError) -> Self + 'a {
        move |source| Self::Tool {
            what,
            id: id.to_owned(),
            source,
        }
    }

    /// Wraps the failure of a key manager.
    pub(crate) fn key_manager<'a>(
        what: &'static str,
        id: &'a str,
    ) -> impl FnOnce(control_kms::Error) -> Self + 'a {
        move |source| Self::KeyManager {
            what,
            id: id.to_owned(),
            source,
        }
    }

    /// Makes an error for a value that is not accepted.
    pub(crate) fn invalid(
        field: impl Into<String>,
        value: impl Into<String>,
        expected: impl Into<String>,
    ) -> Self {
        Self::Invalid {
            field: field.into(),
            value: value.into(),
            expected: expected.into(),
        }
    }
}

impl From<Error> for Status {
    fn from(error: Error) -> Self {
        Self::new(error.code(), error.chain())
    }
}
