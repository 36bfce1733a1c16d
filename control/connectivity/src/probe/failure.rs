//! Failures of requests, by kind.

use std::io::{Error, ErrorKind};

use nix::errno::Errno;

use crate::operation::{Failure, Outcome};

/// A failure.
#[derive(Debug)]
pub struct ProbeFailure {
    /// How it failed.
    pub failure: Failure,
    /// In words.
    pub detail: String,
}

impl ProbeFailure {
    /// Returns the failure for a wrong answer.
    pub fn wrong(detail: impl Into<String>) -> Self {
        Self {
            failure: Failure::WrongAnswer,
            detail: detail.into(),
        }
    }

    /// A failure with its words.
    pub fn new(failure: Failure, detail: impl Into<String>) -> Self {
        Self {
            failure,
            detail: detail.into(),
        }
    }

    /// As the outcome of an operation.
    pub fn into_outcome(self) -> Outcome {
        Outcome::Failed {
            failure: self.failure,
            detail: self.detail,
        }
    }
}

impl From<Error> for ProbeFailure {
    fn from(error: Error) -> Self {
        let number = error.raw_os_error().map(Errno::from_raw);
        let (failure, detail) = match (number, error.kind()) {
            (Some(Errno::EMSGSIZE), _) => (
                Failure::TooLarge,
                "the packet is larger than the path's MTU".to_owned(),
            ),
            (Some(Errno::EPERM | Errno::EACCES), _) => (
                Failure::Unreachable,
                "not permitted: something on the client's node rejects it".to_owned(),
            ),
            (Some(Errno::EHOSTUNREACH | Errno::ENETUNREACH), _) => {
                (Failure::Unreachable, "no route to the address".to_owned())
            }
            (_, ErrorKind::ConnectionRefused) => (Failure::Refused, "refused".to_owned()),
            (_, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe) => {
                (Failure::Refused, "the connection was reset".to_owned())
            }
            (_, ErrorKind::TimedOut | ErrorKind::WouldBlock) => {
                (Failure::TimedOut, "no answer within 2 s".to_owned())
            }
            (_, ErrorKind::UnexpectedEof) => (
                Failure::WrongAnswer,
                "the connection ended before the answer".to_owned(),
            ),
            _ => (Failure::Other, error.to_string()),
        };
        Self { failure, detail }
    }
}
