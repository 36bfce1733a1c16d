//! Time as the API writes it.
//!
//! `metav1.Time` is RFC 3339 in UTC with whole seconds, `metav1.MicroTime` has
//! always six digits of a second.

use compact_str::{CompactString, format_compact};
use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Now, as `metav1.Time`.
#[must_use]
pub fn now() -> CompactString {
    format(Timestamp::now())
}

/// Now, as `metav1.MicroTime`.
#[must_use]
pub fn now_micro() -> CompactString {
    format_micro(Timestamp::now())
}

/// `2006-01-02T15:04:05Z`; fractions of a second are cut off.
#[must_use]
pub fn format(time: Timestamp) -> CompactString {
    let t = time.to_zoned(TimeZone::UTC);
    format_compact!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z",
        t.year(),
        t.month(),
        t.day(),
        t.hour(),
        t.minute(),
        t.second()
    )
}

/// `2006-01-02T15:04:05.000000Z`; what is finer is cut off.
#[must_use]
pub fn format_micro(time: Timestamp) -> CompactString {
    let t = time.to_zoned(TimeZone::UTC);
    format_compact!(
        "{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:06}Z",
        t.year(),
        t.month(),
        t.day(),
        t.hour(),
        t.minute(),
        t.second(),
        t.subsec_nanosecond() / 1000
    )
}

/// Reads RFC 3339, with any offset and fraction. Nothing when it is none.
#[must_use]
pub fn parse(text: &str) -> Option<Timestamp> {
    // jiff reads more than RFC 3339 (blanks for the T, weeks): keep to its shape.
    let bytes = text.as_bytes();
    let shape = bytes.len() >= 20
        && bytes[4] == b'-'
        && bytes[7] == b'-'
        && bytes[10] == b'T'
        && bytes[13] == b':'
        && bytes[16] == b':'
        && (bytes[bytes.len() - 1] == b'Z'
            || matches!(bytes.get(bytes.len() - 6), Some(b'+' | b'-')));
    if shape { text.parse().ok() } else { None }
}

/// Whole seconds from `earlier` to `later`; negative when they are the other way round.
#[must_use]
pub fn seconds_between(earlier: Timestamp, later: Timestamp) -> i64 {
    later.as_second() - earlier.as_second()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_round_trip_in_both_forms() {
        let time = parse("2024-02-29T12:00:01.123456789+02:00").unwrap();
        assert_eq!(format(time), "2024-02-29T10:00:01Z");
        assert_eq!(format_micro(time), "2024-02-29T10:00:01.123456Z");
        assert_eq!(
            parse(&format_micro(time)).unwrap().as_microsecond(),
            time.as_microsecond()
        );
    }

    #[test]
    fn what_is_no_rfc3339_is_refused() {
        for text in [
            "",
            "2024-02-29",
            "2024-02-30T00:00:00Z",
            "2024-02-29 12:00:00Z",
            "2024-02-29T12:00:00",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
