//! Causes for which a Service is refused, in the words of stock.

use control_types::status::Cause;

/// Cause for a value that cannot be given.
pub fn invalid_value(field: &str, message: String) -> Cause {
    Cause {
        reason: "FieldValueInvalid".into(),
        message,
        field: field.into(),
    }
}

/// Cause for a range of which all is taken: of a `serviceIP` or a `nodePort`.
pub fn range_is_full(field: String, what: &str) -> Cause {
    Cause {
        reason: "InternalError".into(),
        message: format!("Internal error: failed to allocate a {what}: range is full"),
        field,
    }
}
