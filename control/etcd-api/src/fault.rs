//! Errors as etcd's clients know them: by code and text.

use control_store::Error;
use tonic::{Code, Status};

pub(crate) fn empty_key() -> Status {
    Status::invalid_argument("etcdserver: key is not provided")
}

pub(crate) fn key_not_found() -> Status {
    Status::invalid_argument("etcdserver: key not found")
}

pub(crate) fn value_provided() -> Status {
    Status::invalid_argument("etcdserver: value is provided")
}

pub(crate) fn lease_provided() -> Status {
    Status::invalid_argument("etcdserver: lease is provided")
}

pub(crate) fn too_many_operations() -> Status {
    Status::invalid_argument("etcdserver: too many operations in txn request")
}

pub(crate) fn invalid_sort_option() -> Status {
    Status::invalid_argument("etcdserver: invalid sort option")
}

pub(crate) fn request_too_large() -> Status {
    Status::invalid_argument("etcdserver: request is too large")
}

pub(crate) fn lease_not_found() -> Status {
    Status::not_found("etcdserver: requested lease not found")
}

pub(crate) fn lease_ttl_too_large() -> Status {
    Status::out_of_range("etcdserver: too large lease TTL")
}

pub(crate) fn stopped() -> Status {
    Status::unavailable("etcdserver: server stopped")
}

/// Converts a store error to a client's.
pub(crate) fn status(error: Error) -> Status {
    match error {
        Error::Compacted { .. } => {
            Status::out_of_range("etcdserver: mvcc: required revision has been compacted")
        }
        Error::FutureRevision { .. } => {
            Status::out_of_range("etcdserver: mvcc: required revision is a future revision")
        }
        Error::TooLarge { .. } => request_too_large(),
        Error::UnknownLease { .. } | Error::LeaseNotFound => lease_not_found(),
        Error::LeaseExists { .. } => {
            Status::failed_precondition("etcdserver: lease already exists")
        }
        Error::KeyNotFound => key_not_found(),
        Error::DuplicateKey => {
            Status::invalid_argument("etcdserver: duplicate key given in txn request")
        }
        Error::Full { .. } => {
            Status::resource_exhausted("etcdserver: mvcc: database space exceeded")
        }
        Error::Closed => stopped(),
        other => {
            tracing::error!(error = %other, "store failed");
            Status::new(Code::Unavailable, other.to_string())
        }
    }
}
