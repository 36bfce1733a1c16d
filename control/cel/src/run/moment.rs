//! Moments and spans of time, and their texts.

use super::error::Error;

/// The first second of the year 1, since 1970: the lower bound of timestamps.
pub(crate) const YEAR_ONE: i64 = -62_135_596_800;
/// The last second of the year 9999.
const LAST: i64 = 253_402_300_799;
pub(super) const NANOS: i64 = 1_000_000_000;
pub(super) const DAY: i64 = 86_400;

/// A moment: seconds since 1970 and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment {
    /// Whole seconds since the start of 1970, UTC.
    pub seconds: i64,
    /// Nanoseconds of the second.
    pub nanos: u32,
}

/// The moment `nanos` later.
pub(crate) fn shift(from: Moment, nanos: i64) -> Result<Moment, Error> {
    let total =
        i128::from(from.seconds) * i128::from(NANOS) + i128::from(from.nanos) + i128::from(nanos);
    let seconds = total.div_euclid(i128::from(NANOS)) as i64;
    checked(Moment {
        seconds,
        nanos: total.rem_euclid(i128::from(NANOS)) as u32,
    })
    .ok_or_else(|| Error::failed("timestamp overflow"))
}

/// The moment, when it is within the years 1 to 9999.
pub(crate) fn checked(moment: Moment) -> Option<Moment> {
    (YEAR_ONE..=LAST)
        .contains(&moment.seconds)
        .then_some(moment)
}

/// Days since 1970 of a date of the Gregorian calendar.
pub(super) fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year, month, day of a number of days since 1970.
pub(super) fn date_of(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 {
        shifted + 3
    } else {
        shifted - 9
    };
    let year = year + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

const fn month_length(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Reads RFC 3339 text, with any fraction and offset.
pub(crate) fn parse(text: &str) -> Option<Moment> {
    let bytes = text.as_bytes();
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = bytes.get(from..to)?;
        digits.iter().all(u8::is_ascii_digit).then(|| {
            digits
                .iter()
                .fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0'))
        })
    };
    let sign = |at: usize, wanted: u8| (bytes.get(at)? == &wanted).then_some(());
    sign(4, b'-')?;
    sign(7, b'-')?;
    sign(10, b'T')?;
    sign(13, b':')?;
    sign(16, b':')?;
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    let right = (1..=12).contains(&month)
        && (1..=month_length(year, month)).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !right {
        return None;
    }
    let mut at = 19;
    let mut nanos = 0_u32;
    if matches!(bytes.get(at), Some(b'.' | b',')) {
        let start = at + 1;
        at = start;
        while bytes.get(at).is_some_and(u8::is_ascii_digit) {
            at += 1;
        }
        if at == start {
            return None;
        }
        for i in 0..9 {
            let digit = if start + i < at {
                bytes.get(start + i).map_or(0, |d| d - b'0')
            } else {
                0
            };
            nanos = nanos * 10 + u32::from(digit);
        }
    }
    let offset = match bytes.get(at)? {
        b'Z' if at + 1 == bytes.len() => 0,
        way @ (b'+' | b'-') if at + 6 == bytes.len() => {
            sign(at + 3, b':')?;
            let (hours, minutes) = (number(at + 1, at + 3)?, number(at + 4, at + 6)?);
            if hours > 24 || minutes >= 60 {
                return None;
            }
            let offset = hours * 3600 + minutes * 60;
            if *way == b'+' { offset } else { -offset }
        }
        _ => return None,
    };
    let seconds = days_of(year, month, day) * DAY + hour * 3600 + minute * 60 + second - offset;
    Some(Moment { seconds, nanos })
}

/// Reads a date, `2006-01-02`.
pub(crate) fn parse_date(text: &str) -> Option<Moment> {
    if text.len() != 10 {
        return None;
    }
    parse(&format!("{text}T00:00:00Z"))
}

/// A moment as RFC 3339 text in UTC, with the fraction that it has.
pub(crate) fn format(moment: Moment) -> String {
    let (days, rest) = (
        moment.seconds.div_euclid(DAY),
        moment.seconds.rem_euclid(DAY),
    );
    let (year, month, day) = date_of(days);
    let mut out = format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}",
        rest / 3600,
        rest / 60 % 60,
        rest % 60
    );
    if moment.nanos > 0 {
        let fraction = format!("{:09}", moment.nanos);
        out.push('.');
        out.push_str(fraction.trim_end_matches('0'));
    }
    out.push('Z');
    out
}

/// A span in seconds, as conversions to text write it: `90s`, `1.5s`.
pub(crate) fn format_duration(nanos: i64) -> String {
    let seconds = nanos as f64 / NANOS as f64;
    format!("{seconds}s")
}
