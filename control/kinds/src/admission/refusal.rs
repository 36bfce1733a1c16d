//! The reason of a rejection.

/// The reason of a rejection: the text after `is forbidden: ` in the response.
pub type Refusal = String;
