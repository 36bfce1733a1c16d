//! Failures of the store as clients see them.

use control_types::status::Status;

/// What a client is told of a failure of the store.
#[must_use]
pub fn store_error(error: &control_store::Error) -> Status {
    match error {
        // As stock passes on what etcd answers: no reason, and the code of a failure.
        control_store::Error::TooLarge { size, limit } => Status {
            reason: "".into(),
            message: format!(
                "etcdserver: request is too large: {size} bytes, the store takes {limit}"
            ),
            details: None,
            ..Status::internal("")
        },
        control_store::Error::Compacted { .. } => {
            Status::expired("The resourceVersion for the provided list is too old.")
        }
        control_store::Error::Closed => Status::service_unavailable("the server is shutting down"),
        // Another server may answer.
        away @ (control_store::Error::Unreachable { .. }
        | control_store::Error::NoLeader { .. }) => Status::service_unavailable(away.to_string()),
        other => Status::internal(other),
    }
}
