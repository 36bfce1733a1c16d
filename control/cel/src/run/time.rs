//! Parts of moments and of spans of time, in a time zone.

use super::error::Error;
use super::meter::Meter;
use super::moment::{DAY, Moment, NANOS, date_of, days_of};
use super::value::Val;

type Result<'a> = std::result::Result<Val<'a>, Error>;

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
