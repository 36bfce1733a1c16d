//! The meaning of etcd's errors. Servers distinguish them by code and by text (etcd,
//! `api/v3rpc/rpctypes`).

use std::io;
use std::sync::Arc;

use etcd_client::Error as Fault;

use crate::Error;

/// Makes errors that name the servers.
pub(super) struct Faults {
    endpoints: Arc<str>,
}

/// The reason why a revision cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Time {
    Compacted,
    Future,
}

/// Codes of gRPC (its specification, "status codes").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Code {
    DeadlineExceeded,
    NotFound,
    PermissionDenied,
    ResourceExhausted,
    OutOfRange,
    Unavailable,
    Unauthenticated,
    InvalidArgument,
    Other,
}

// === impl Faults ===

impl Faults {
    pub fn new(endpoints: &[String]) -> Self {
        Self {
            endpoints: endpoints.join(", ").into(),
        }
    }

    pub fn endpoints(&self) -> &str {
        &self.endpoints
    }

    /// The error of a call that was not about the past.
    pub fn operation(&self, fault: Fault) -> Error {
        let endpoints = self.endpoints.clone();
        let (code, text) = status(&fault);
        match code {
            Code::NotFound if text.contains("lease not found") => Error::LeaseNotFound,
            Code::ResourceExhausted if text.contains("database space exceeded") => {
                Error::Quota { endpoints }
            }
            Code::PermissionDenied | Code::Unauthenticated | Code::InvalidArgument => {
                Error::Refused {
                    endpoints,
                    reason: text,
                }
            }
            _ => Error::Unreachable {
                endpoints,
                source: Arc::new(fault),
            },
        }
    }

    /// Did a server refuse a request for its size?
    pub fn too_large(&self, fault: &Fault) -> bool {
        let (code, text) = status(fault);
        match code {
            Code::InvalidArgument => text.contains("request is too large"),
            Code::ResourceExhausted => text.contains("message larger than max"),
            _ => false,
        }
    }
}

/// Returns the reason if the fault concerns the requested revision.
pub(super) fn time(fault: &Fault) -> Option<Time> {
    match status(fault) {
        (Code::OutOfRange, text) if text.contains("has been compacted") => Some(Time::Compacted),
        (Code::OutOfRange, text) if text.contains("future revision") => Some(Time::Future),
        _ => None,
    }
}

/// Returns whether a retry may succeed.
pub(super) fn may_pass(fault: &Fault) -> bool {
    match fault {
        Fault::TransportError(_) | Fault::IoError(_) | Fault::WatchError(_) => true,
        _ => matches!(
            status(fault).0,
            Code::Unavailable | Code::DeadlineExceeded | Code::Other
        ),
    }
}

pub(super) fn timed_out() -> Fault {
    Fault::IoError(io::Error::from(io::ErrorKind::TimedOut))
}

fn status(fault: &Fault) -> (Code, String) {
    let Fault::GRpcStatus(status) = fault else {
        return (Code::Other, String::new());
    };
    let code = match i32::from(status.code()) {
        3 => Code::InvalidArgument,
        4 => Code::DeadlineExceeded,
        5 => Code::NotFound,
        7 => Code::PermissionDenied,
        8 => Code::ResourceExhausted,
        11 => Code::OutOfRange,
        14 => Code::Unavailable,
        16 => Code::Unauthenticated,
        _ => Code::Other,
    };
    (code, status.message().to_owned())
}
