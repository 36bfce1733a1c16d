//! 422 from what validation found.

use control_kinds::FieldError;
use control_types::status::{Cause, Status};

/// The Status for an invalid object.
#[must_use]
pub fn status(group: &str, kind: &str, name: &str, errors: &[FieldError]) -> Status {
    let causes = errors
        .iter()
        .map(|error| Cause {
            reason: error.kind.reason().into(),
            message: error.body(),
            field: error.field.clone(),
        })
        .collect();
    // Events of both groups are checked as those of the core.
    let group = if group == "events.k8s.io" { "" } else { group };
    Status::invalid(group, kind, name, causes)
}
