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

/// Formats a time as `2006-01-02T15:04:05.000000Z`; smaller fractions are truncated.
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

/// Parses RFC 3339 with any offset and fraction. Returns `None` if the text is not a
/// time.
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

/// The zero value of Go's times, the first moment of the year 1, in seconds since 1970.
pub(crate) const ZERO: i64 = -62_135_596_800;

/// Seconds since 1970 and nanoseconds, of RFC 3339 text.
pub(crate) fn seconds(text: &[u8]) -> Option<(i64, u32)> {
    let number = |from: usize, length: usize| {
        text.get(from..from + length)?
            .iter()
            .try_fold(0_i64, |number, digit| {
                digit
                    .is_ascii_digit()
                    .then(|| number * 10 + i64::from(digit - b'0'))
            })
    };
    // Fast path for the API's own form, without or with six fractional digits.
    let plain = match text.len() {
        20 => Some(0),
        27 if text[19] == b'.' => number(20, 6),
        _ => None,
    };
    if let (Some(micros), Some(b'Z')) = (plain, text.last())
        && (text[4], text[7], text[10], text[13], text[16]) == (b'-', b'-', b'T', b':', b':')
        && let (Some(year), Some(month @ 1..=12), Some(day @ 1..=28)) =
            (number(0, 4), number(5, 2), number(8, 2))
        && let (Some(hour @ 0..24), Some(minute @ 0..60), Some(second @ 0..60)) =
            (number(11, 2), number(14, 2), number(17, 2))
    {
        // Days of the proleptic Gregorian calendar, years beginning in March.
        let year = year - i64::from(month <= 2);
        let era = year.div_euclid(400);
        let of_era = year.rem_euclid(400);
        let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
        let days = era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468;
        let nanos = u32::try_from(micros * 1000).ok()?;
        return Some((days * 86_400 + hour * 3600 + minute * 60 + second, nanos));
    }
    let time = parse(std::str::from_utf8(text).ok()?)?;
    let (seconds, nanos) = (time.as_second(), time.subsec_nanosecond());
    // Before 1970 jiff counts both down from it; protobuf counts fractions up.
    match u32::try_from(nanos) {
        Ok(nanos) => Some((seconds, nanos)),
        Err(_) => Some((seconds - 1, u32::try_from(nanos + 1_000_000_000).ok()?)),
    }
}

/// Appends seconds since 1970 as a JSON string, with `micros` as `metav1.MicroTime`.
/// Nothing, and nothing appended, when the year has more than four digits.
pub(crate) fn write(seconds: i64, micros: Option<i64>, out: &mut Vec<u8>) -> Option<()> {
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // The calendar of `seconds`, backwards.
    let shifted = days.checked_add(719_468)?;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let of_years = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * of_years + of_years / 4 - of_years / 100);
    let part = (5 * of_year + 2) / 153;
    let day = of_year - (153 * part + 2) / 5 + 1;
    let month = if part < 10 { part + 3 } else { part - 9 };
    let year = of_years + era * 400 + i64::from(month <= 2);
    if !(0..=9999).contains(&year) || micros.is_some_and(|micros| !(0..1_000_000).contains(&micros))
    {
        return None;
    }
    out.push(b'"');
    let mut digits = |number: i64, count: u32, behind: u8| {
        for place in (0..count).rev() {
            let digit = number / 10_i64.pow(place) % 10;
            out.push(b'0' + digit.to_le_bytes()[0]);
        }
        out.push(behind);
    };
    digits(year, 4, b'-');
    digits(month, 2, b'-');
    digits(day, 2, b'T');
    digits(rest / 3600, 2, b':');
    digits(rest / 60 % 60, 2, b':');
    digits(rest % 60, 2, if micros.is_some() { b'.' } else { b'Z' });
    if let Some(micros) = micros {
        digits(micros, 6, b'Z');
    }
    out.push(b'"');
    Some(())
}

/// A text in quotes as Go's package of times has it: bytes that are no plain letters
/// are shown as numbers.
fn quote_of_time(text: &str) -> String {
    use std::fmt::Write as _;
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => {
                out.push('\\');
                out.push(char::from(byte));
            }
            b' '..=0x7f => out.push(char::from(byte)),
            _ => {
                let _ = write!(out, "\\x{byte:02x}");
            }
        }
    }
    out.push('"');
    out
}

/// Error for text that is not a time; the message is that of Go's `time.Parse`.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TimeError {
    #[error(
        "parsing time {} as {}: cannot parse {} as {}",
        quote_of_time(text),
        quote_of_time(layout),
        quote_of_time(rest),
        quote_of_time(part)
    )]
    Part {
        text: String,
        layout: &'static str,
        rest: String,
        part: &'static str,
    },
    #[error("parsing time {}: {part} out of range", quote_of_time(text))]
    Range { text: String, part: &'static str },
    #[error(
        "parsing time {}: extra text: {}",
        quote_of_time(text),
        quote_of_time(extra)
    )]
    Extra { text: String, extra: String },
}

/// Reads a time as Go reads `metav1.Time`, or with `micro` `metav1.MicroTime` (which
/// wants exactly six digits of a second).
///
/// # Errors
/// [`TimeError`].
pub(crate) fn parse_as_go(text: &str, micro: bool) -> Result<Timestamp, TimeError> {
    let layout = if micro {
        "2006-01-02T15:04:05.000000Z07:00"
    } else {
        "2006-01-02T15:04:05Z07:00"
    };
    let owned = || text.to_owned();
    let cannot = |rest: &str, part: &'static str| TimeError::Part {
        text: owned(),
        layout,
        rest: rest.to_owned(),
        part,
    };
    let range = |part: &'static str| TimeError::Range {
        text: owned(),
        part,
    };
    // Number of digits, name in the layout, separator after it, bounds, name.
    const PARTS: [(usize, &str, &str, u32, u32, &str); 6] = [
        (4, "2006", "-", 0, 9999, "year"),
        (2, "01", "-", 1, 12, "month"),
        (2, "02", "T", 1, 31, "day"),
        (2, "15", ":", 0, 23, "hour"),
        (2, "04", ":", 0, 59, "minute"),
        (2, "05", "", 0, 59, "second"),
    ];
    let mut rest = text;
    for (length, part, separator, low, high, name) in PARTS {
        let digits = rest
            .get(..length)
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_digit()));
        let Some(number) = digits.and_then(|digits| digits.parse::<u32>().ok()) else {
            return Err(cannot(rest, part));
        };
        if !(low..=high).contains(&number) {
            return Err(range(name));
        }
        rest = &rest[length..];
        rest = rest
            .strip_prefix(separator)
            .ok_or_else(|| cannot(rest, separator))?;
    }
    let fraction = rest.strip_prefix(['.', ',']).map_or(0, |rest| {
        rest.bytes().take_while(u8::is_ascii_digit).count()
    });
    if micro && fraction != 6 {
        return Err(cannot(rest, ".000000"));
    }
    if fraction > 0 {
        rest = &rest[1 + fraction..];
    }
    if rest.is_empty() {
        return Err(cannot("", "Z07:00"));
    }
    // The remaining errors are in the zone, in text after it, or a day that the month
    // lacks.
    parse(text).ok_or_else(|| {
        let bytes = rest.as_bytes();
        let zone = match bytes {
            [b'Z', ..] => 1,
            [b'+' | b'-', _, _, b':', _, _, ..] => 6,
            _ => return cannot(rest, "Z07:00"),
        };
        match rest.get(zone..) {
            Some("") | None => range("day"),
            Some(extra) => TimeError::Extra {
                text: owned(),
                extra: extra.to_owned(),
            },
        }
    })
}

/// Parses a duration as Go writes it (`1m30s`); returns `None` if it is invalid or
/// negative.
#[must_use]
pub fn parse_duration(text: &str) -> Option<std::time::Duration> {
    let nanos = crate::duration::parse(text)?;
    u64::try_from(nanos)
        .ok()
        .map(std::time::Duration::from_nanos)
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
    fn seconds_are_those_of_the_calendar() {
        for text in [
            "1970-01-01T00:00:00Z",
            "2000-02-28T23:59:59Z",
            "2000-02-29T23:59:59Z",
            "2024-12-31T01:02:03Z",
            "1900-03-01T00:00:00Z",
            "1969-07-20T20:17:40.250000Z",
            "2024-01-31T12:00:00.123456+05:30",
            "0001-01-01T00:00:00Z",
            "9999-12-28T00:00:00Z",
        ] {
            let expected = parse(text).unwrap();
            let (seconds, nanos) = seconds(text.as_bytes()).unwrap();
            let nanos = i32::try_from(nanos).unwrap();
            assert_eq!(
                Timestamp::new(seconds, 0).unwrap()
                    + jiff::SignedDuration::from_nanos(nanos.into()),
                expected,
                "{text}"
            );
        }
        assert_eq!(seconds(b"0001-01-01T00:00:00Z"), Some((ZERO, 0)));
        assert_eq!(seconds(b"2023-02-29T00:00:00Z"), None);
        assert_eq!(seconds(b"2023-02-28T24:00:00Z"), None);
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
