//! Failures of webhooks.

use control_types::status::Status;

/// Why a webhook did not let a request pass.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum WebhookFailure {
    /// The call failed. Metrics count the code; the message to the client ends with the text.
    Calling { why: String, code: u16 },
    /// The webhook rejected the request.
    Rejected(Status),
    /// The request cannot be sent to the webhook, or its patch cannot be applied.
    Internal(Status),
}
