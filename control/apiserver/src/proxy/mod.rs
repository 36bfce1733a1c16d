//! Requests that are passed on to pods, services and nodes.
//!
//! ```text
//! client ──▶ subresources::{log, streams, proxy} ──▶ Target ──▶ forward   one request, one answer
//!                                                          └──▶ upgrade   raw bytes after 101
//! ```
//!
//! Every request gets a connection of its own to its target: there is no pool
//! whose members may have died, and a client that goes away takes the
//! connection with it ([`crate::egress::target`]). Bodies flow through in frames; none is held as a whole.

pub mod forward;
pub mod headers;
pub mod html;
pub mod location;
pub mod name;
pub mod upgrade;

use control_types::status::Status;

/// 500 with nothing but a message: what stock answers to errors that have no
/// status of their own.
#[must_use]
pub fn plain_error(message: impl Into<String>) -> Status {
    Status {
        code: 500,
        reason: "".into(),
        message: message.into(),
        details: None,
        continue_token: String::new(),
    }
}
