//! Amounts and times as the file writes them.

use std::time::Duration;

use super::Error;
use crate::pod::quantity;

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
    go_duration(&text).ok_or(Error::Value {
        field,
        value: text,
        why: "is no duration, such as `1m30s`",
    })
}

/// A duration as Go writes it: `1m30s`.
pub(crate) fn go_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = 0.0;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(end);
        let number: f64 = number.parse().ok()?;
        let end = after
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(end);
        total += number
            * match unit {
                "h" => 3600.0,
                "m" => 60.0,
                "s" => 1.0,
                "ms" => 1e-3,
                "us" | "µs" => 1e-6,
                "ns" => 1e-9,
                _ => return None,
            };
        rest = after;
    }
    (!text.is_empty()).then(|| Duration::try_from_secs_f64(total).ok())?
}
