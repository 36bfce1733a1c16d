//! Amounts and times as the file writes them.

use std::time::Duration;

use node_agent_objects::quantity;
use node_agent_objects::times::parse_go_duration;

use super::Error;

pub(super) fn size(field: &'static str, text: &str) -> Result<u64, Error> {
    quantity::whole(text)
        .and_then(|n| u64::try_from(n).ok())
        .ok_or_else(|| Error::Value {
            field,
            value: text.to_owned(),
            why: "is no quantity",
        })
}

/// A duration as Go writes it (`1m30s`), to the millisecond; `default` seconds
/// when absent.
pub(super) fn time(
    field: &'static str,
    text: Option<String>,
    default: u64,
) -> Result<Duration, Error> {
    let Some(text) = text else {
        return Ok(Duration::from_secs(default));
    };
    parse_go_duration(&text).ok_or(Error::Value {
        field,
        value: text,
        why: "is no duration, such as `1m30s`",
    })
}
