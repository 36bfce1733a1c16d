//! Moments and spans of time: their texts, their parts in a time zone.

use super::error::Error;
use super::node::Meter;
use super::value::{Moment, Val};

/// The first second of the year 1, since 1970: the lower bound of timestamps.
pub(crate) const YEAR_ONE: i64 = -62_135_596_800;
/// The last second of the year 9999.
const LAST: i64 = 253_402_300_799;
const NANOS: i64 = 1_000_000_000;
const DAY: i64 = 86_400;

type Result<'a> = std::result::Result<Val<'a>, Error>;

/// The moment `nanos` later.
pub(crate) fn shift(from: Moment, nanos: i64) -> std::result::Result<Moment, Error> {
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
fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

/// Year, month, day of a number of days since 1970.
fn date_of(days: i64) -> (i64, i64, i64) {
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

/// The offset from UTC in seconds at a moment, in a zone by name (`Europe/Bern`)
/// or by offset (`+02:00`, `-05:30`).
fn offset(moment: Moment, zone: &str) -> std::result::Result<i64, Error> {
    if zone.is_empty() || zone == "UTC" {
        return Ok(0);
    }
    if let Some((hours, minutes)) = zone.split_once(':') {
        let negative = hours.starts_with('-');
        let hour: i64 = hours.parse().map_err(|_| {
            Error::failed(format!("strconv.Atoi: parsing {hours:?}: invalid syntax"))
        })?;
        let minute: i64 = minutes.parse().map_err(|_| {
            Error::failed(format!("strconv.Atoi: parsing {minutes:?}: invalid syntax"))
        })?;
        let minute = if negative { -minute } else { minute };
        return Ok(hour
            .saturating_mul(3600)
            .saturating_add(minute.saturating_mul(60)));
    }
    let unknown = || Error::failed(format!("unknown time zone {zone}"));
    let zone = jiff::tz::TimeZone::get(zone).map_err(|_| unknown())?;
    let at = jiff::Timestamp::from_second(moment.seconds).map_err(|_| unknown())?;
    Ok(i64::from(zone.to_offset(at).seconds()))
}

/// The parts of a moment and of a span that getters tell.
fn part<'a>(args: &[Val<'a>], get: fn(i64, i64, u32) -> i64) -> Result<'a> {
    let (moment, zone) = match args {
        [Val::Timestamp(moment)] => (*moment, ""),
        [Val::Timestamp(moment), Val::Text(zone)] => (*moment, &**zone),
        _ => return Err(Error::NoSuchOverload),
    };
    let local = moment.seconds.saturating_add(offset(moment, zone)?);
    Ok(Val::Int(get(
        local.div_euclid(DAY),
        local.rem_euclid(DAY),
        moment.nanos,
    )))
}

macro_rules! parts {
    ($($name:ident = $get:expr;)*) => {$(
        pub(crate) fn $name<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
            part(args, $get)
        }
    )*};
}
parts! {
    full_year = |days, _, _| date_of(days).0;
    month = |days, _, _| date_of(days).1 - 1;
    day_of_year = |days, _, _| days - days_of(date_of(days).0, 1, 1);
    day_of_month = |days, _, _| date_of(days).2 - 1;
    date = |days, _, _| date_of(days).2;
    day_of_week = |days, _, _| (days + 4).rem_euclid(7);
}

pub(crate) fn hours<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Duration(nanos)] => Ok(Val::Int(nanos / (3600 * NANOS))),
        args => part(args, |_, second, _| second / 3600),
    }
}

pub(crate) fn minutes<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Duration(nanos)] => Ok(Val::Int(nanos / (60 * NANOS))),
        args => part(args, |_, second, _| second / 60 % 60),
    }
}

pub(crate) fn seconds<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Duration(nanos)] => Ok(Val::Int(nanos / NANOS)),
        args => part(args, |_, second, _| second % 60),
    }
}

pub(crate) fn milliseconds<'a>(_: &mut Meter, args: &[Val<'a>]) -> Result<'a> {
    match args {
        [Val::Duration(nanos)] => Ok(Val::Int(nanos / 1_000_000)),
        args => part(args, |_, _, nanos| i64::from(nanos / 1_000_000)),
    }
}
