//! How long ago: `5m3s`, `2d4h`, `3y12d`.

use control_types::value::Value;

use super::Timestamp;
use crate::tree::Read;

/// Formats a duration in seconds in the short form of tables: at most two units, one if
/// the second is irrelevant.
pub(crate) fn duration(seconds: i64) -> String {
    // a little before zero is a difference of clocks
    if seconds < -1 {
        return "<invalid>".into();
    }
    let seconds = seconds.max(0);
    if seconds < 120 {
        return format!("{seconds}s");
    }
    let minutes = seconds / 60;
    let pair = |big: i64, b: char, small: i64, s: char| {
        if small == 0 {
            format!("{big}{b}")
        } else {
            format!("{big}{b}{small}{s}")
        }
    };
    if minutes < 10 {
        return pair(minutes, 'm', seconds % 60, 's');
    }
    if minutes < 180 {
        return format!("{minutes}m");
    }
    let hours = seconds / 3600;
    if hours < 8 {
        return pair(hours, 'h', minutes % 60, 'm');
    }
    if hours < 48 {
        return format!("{hours}h");
    }
    let days = hours / 24;
    if hours < 192 {
        return pair(days, 'd', hours % 24, 'h');
    }
    if days < 365 * 2 {
        return format!("{days}d");
    }
    if days < 365 * 8 {
        return pair(days / 365, 'y', days % 365, 'd');
    }
    format!("{}y", days / 365)
}

/// Returns the age of an RFC 3339 stamp; `<unknown>` if there is none.
pub(crate) fn since(stamp: &str, now: Timestamp) -> String {
    if stamp.is_empty() {
        return "<unknown>".into();
    }
    match stamp.parse::<jiff::Timestamp>() {
        Ok(then) => duration((now.as_millisecond() - then.as_millisecond()).div_euclid(1000)),
        Err(_) => "<invalid>".into(),
    }
}

/// An object's age.
pub(crate) fn age(object: &Value, now: Timestamp) -> Value {
    since(object.at("metadata").text("creationTimestamp"), now).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_units_at_most() {
        let shown = |s| duration(s);
        assert_eq!(shown(0), "0s");
        assert_eq!(shown(119), "119s");
        assert_eq!(shown(120), "2m");
        assert_eq!(shown(303), "5m3s");
        assert_eq!(shown(600), "10m");
        assert_eq!(shown(3 * 3600), "3h");
        assert_eq!(shown(3 * 3600 + 60), "3h1m");
        assert_eq!(shown(9 * 3600 + 60), "9h");
        assert_eq!(shown(52 * 3600), "2d4h");
        assert_eq!(shown(8 * 24 * 3600 + 3600), "8d");
        assert_eq!(shown(800 * 24 * 3600), "2y70d");
        assert_eq!(shown(-2), "<invalid>");
    }
}
