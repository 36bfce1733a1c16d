//! Failures of webhooks.

use control_types::status::Status;

/// Why a webhook did not let a request pass.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum WebhookFailure {
    /// It failed. The code is counted; the text ends what the client is told.
    Calling { why: String, code: u16 },
    /// It said no.
    Rejected(Status),
    /// What it asks for cannot be done.
    Internal(Status),
}
