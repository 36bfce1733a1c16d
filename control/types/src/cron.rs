//! Schedules of CronJobs, as robfig/cron v3's standard parser understands them and
//! finds their times: five fields, descriptors (`@daily`, `@every 1h30m`), a time zone
//! before them (`TZ=`, `CRON_TZ=`). The API server validates by it and the controller
//! starts jobs by it; both must agree with stock ones, in the oddities too: a time that
//! a change of clocks leaves out is left out, one that it brings twice comes twice.

use jiff::Timestamp;
use jiff::civil::{self, DateTime};
use jiff::tz::{Offset, TimeZone};

use crate::duration;

/// Marks a field that says `*`: days then have to match both ways of naming them.
const STAR: u64 = 1 << 63;

/// How many years ahead a time is looked for.
const YEARS: i16 = 5;

const NANOS: i64 = 1_000_000_000;

/// When something is due.
#[derive(Clone, Debug)]
pub struct Schedule(Due);

#[derive(Clone, Debug)]
enum Due {
    /// Seconds between one time and the next.
    Every(i64),
    Fields(Box<Fields>),
}

/// Bits for the values that match.
#[derive(Clone, Debug)]
struct Fields {
    minute: u64,
    hour: u64,
    day: u64,
    month: u64,
    weekday: u64,
    zone: TimeZone,
}

/// Error for an invalid schedule; the message is that of the stock parser.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

/// Returns the time zone with a name, spelled as in the database; an empty name is UTC.
///
/// # Errors
/// When the database has no such zone.
pub fn zone(name: &str) -> Result<TimeZone, Error> {
    match name {
        "" | "UTC" => return Ok(TimeZone::UTC),
        "Local" => return Ok(local()),
        _ => {}
    }
    let outside = name.starts_with(['/', '\\']) || name.split(['/', '\\']).any(|part| part == "..");
    if outside {
        return Err(Error("time: invalid location name".into()));
    }
    TimeZone::get(name)
        .ok()
        .filter(|zone| zone.iana_name().is_none_or(|known| known == name))
        .ok_or_else(|| Error(format!("unknown time zone {name}")))
}

/// The time zone of this machine.
fn local() -> TimeZone {
    TimeZone::try_system().unwrap_or(TimeZone::UTC)
}

impl Schedule {
    /// Reads a schedule.
    ///
    /// # Errors
    /// The field of the schedule that is invalid.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.is_empty() {
            return Err(Error("empty spec string".into()));
        }
        let mut zone = None;
        let mut rest = text;
        if text.starts_with("TZ=") || text.starts_with("CRON_TZ=") {
            let (head, tail) = text.split_once(' ').ok_or_else(|| {
                // The stock parser panics here, and its caller reports that.
                let why = "runtime error: slice bounds out of range [:-1]";
                Error(format!("invalid schedule format: {why}"))
            })?;
            let name = head.split_once('=').map_or("", |(_, name)| name);
            let found = self::zone(name)
                .map_err(|error| Error(format!("provided bad location {name}: {error}")))?;
            zone = Some(found);
            rest = tail.trim();
        }
        let due = if rest.starts_with('@') {
            descriptor(rest, zone)?
        } else {
            Due::Fields(Box::new(fields(rest, zone)?))
        };
        Ok(Self(due))
    }

    /// Returns the first time after `after`; `None` if there is none within five years.
    #[must_use]
    pub fn next(&self, after: Timestamp) -> Option<Timestamp> {
        let second = after.as_second() - i64::from(after.subsec_nanosecond() < 0);
        let found = match &self.0 {
            Due::Every(seconds) => second.checked_add(*seconds)?,
            Due::Fields(fields) => fields.next(second + 1)?,
        };
        Timestamp::from_second(found).ok()
    }
}

fn descriptor(text: &str, zone: Option<TimeZone>) -> Result<Due, Error> {
    let five = match text {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        _ => {
            let Some(span) = text.strip_prefix("@every ") else {
                return Err(Error(format!("unrecognized descriptor: {text}")));
            };
            let nanos = duration::parse(span).ok_or_else(|| {
                let why = not_a_duration(span);
                Error(format!("failed to parse duration {span}: {why}"))
            })?;
            return Ok(Due::Every((nanos / NANOS).max(1)));
        }
    };
    Ok(Due::Fields(Box::new(fields(five, zone)?)))
}

/// Returns Go's message for text that is not a duration.
fn not_a_duration(text: &str) -> String {
    let quoted = format!("{text:?}");
    let bare = text.trim_start_matches(['+', '-']);
    let numeric = |c: char| c.is_ascii_digit() || c == '.';
    let Some(unit) = bare.find(|c| !numeric(c)) else {
        return match bare {
            "" | "." => format!("time: invalid duration {quoted}"),
            _ => format!("time: missing unit in duration {quoted}"),
        };
    };
    let rest = &bare[unit..];
    let unit = rest.split(numeric).next().unwrap_or_default();
    let known = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"].contains(&unit);
    if known || bare.len() == rest.len() {
        format!("time: invalid duration {quoted}")
    } else {
        format!("time: unknown unit {unit:?} in duration {quoted}")
    }
}

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const WEEKDAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

/// The values that a field may have.
struct Bounds {
    least: u64,
    most: u64,
    names: &'static [&'static str],
}

fn fields(text: &str, zone: Option<TimeZone>) -> Result<Fields, Error> {
    let parts: Vec<&str> = text.split_whitespace().collect();
    let [minute, hour, day, month, weekday] = parts[..] else {
        return Err(Error(format!(
            "expected exactly 5 fields, found {}: [{}]",
            parts.len(),
            parts.join(" ")
        )));
    };
    let field = |text: &str, least, most, names| {
        let bounds = Bounds { least, most, names };
        let parts = text.split(',').filter(|part| !part.is_empty());
        parts
            .map(|part| range(part, &bounds))
            .try_fold(0, |bits, part| Ok(bits | part?))
    };
    Ok(Fields {
        minute: field(minute, 0, 59, &[])?,
        hour: field(hour, 0, 23, &[])?,
        day: field(day, 1, 31, &[])?,
        month: field(month, 1, 12, &MONTHS)?,
        weekday: field(weekday, 0, 6, &WEEKDAYS)?,
        zone: zone.unwrap_or_else(local),
    })
}

/// The bits of `5`, `1-5`, `*`, each with a step (`/2`) or without.
fn range(text: &str, bounds: &Bounds) -> Result<u64, Error> {
    let fail = |why: String| Err(Error(why));
    let by_slash: Vec<&str> = text.split('/').collect();
    let ends: Vec<&str> = by_slash[0].split('-').collect();
    let mut star = 0;
    let (start, mut end) = if matches!(ends[0], "*" | "?") {
        star = STAR;
        (bounds.least, bounds.most)
    } else {
        let start = number_or_name(ends[0], bounds)?;
        match ends[..] {
            [_] => (start, start),
            [_, end] => (start, number_or_name(end, bounds)?),
            _ => return fail(format!("too many hyphens: {text}")),
        }
    };
    let step = match by_slash[..] {
        [_] => 1,
        [_, step] => {
            let step = number(step)?;
            if ends.len() == 1 {
                end = bounds.most;
            }
            if step > 1 {
                star = 0;
            }
            step
        }
        _ => return fail(format!("too many slashes: {text}")),
    };
    let Bounds { least, most, .. } = *bounds;
    if start < least {
        return fail(format!(
            "beginning of range ({start}) below minimum ({least}): {text}"
        ));
    }
    if end > most {
        return fail(format!(
            "end of range ({end}) above maximum ({most}): {text}"
        ));
    }
    if start > end {
        return fail(format!(
            "beginning of range ({start}) beyond end of range ({end}): {text}"
        ));
    }
    if step == 0 {
        return fail(format!("step of range should be a positive number: {text}"));
    }
    let step = usize::try_from(step).unwrap_or(usize::MAX);
    let bits = (start..=end)
        .step_by(step)
        .fold(0, |bits, value| bits | 1 << value);
    Ok(bits | star)
}

fn number_or_name(text: &str, bounds: &Bounds) -> Result<u64, Error> {
    let mut names = bounds.names.iter().zip(bounds.least..);
    let named = names.find(|(name, _)| name.eq_ignore_ascii_case(text));
    named.map_or_else(|| number(text), |(_, value)| Ok(value))
}

fn number(text: &str) -> Result<u64, Error> {
    let parsed: i64 = text.parse().map_err(|error: std::num::ParseIntError| {
        use std::num::IntErrorKind::{NegOverflow, PosOverflow};
        let why = match error.kind() {
            PosOverflow | NegOverflow => "value out of range",
            _ => "invalid syntax",
        };
        let why = format!("strconv.Atoi: parsing {text:?}: {why}");
        Error(format!("failed to parse int from {text}: {why}"))
    })?;
    u64::try_from(parsed)
        .map_err(|_| Error(format!("negative number ({parsed}) not allowed: {text}")))
}

fn has(bits: u64, value: i8) -> bool {
    bits >> value & 1 == 1
}

impl Fields {
    /// Returns the first matching second at or after `at` (since 1970). It advances field
    /// by field, the largest first, and starts over when a field overflows.
    fn next(&self, at: i64) -> Option<i64> {
        let mut at = at;
        let last_year = self.civil(at)?.year() + YEARS;
        // Whether smaller fields are at their minimum.
        let mut reset = false;
        'wrapped: loop {
            let mut now = self.civil(at)?;
            if now.year() > last_year {
                return None;
            }
            while !has(self.month, now.month()) {
                reset = true;
                let (year, month) = match now.month() {
                    12 => (now.year() + 1, 1),
                    month => (now.year(), month + 1),
                };
                at = self.second(civil::date(year, month, 1).at(0, 0, 0, 0))?;
                now = self.civil(at)?;
                if now.month() == 1 {
                    continue 'wrapped;
                }
            }
            while !self.is_day(now) {
                if !reset {
                    reset = true;
                    at = self.second(now.date().at(0, 0, 0, 0))?;
                    now = self.civil(at)?;
                }
                at = self.second(now.date().tomorrow().ok()?.to_datetime(now.time()))?;
                now = self.civil(at)?;
                // Midnight does not exist here because of a clock change.
                match i64::from(now.hour()) {
                    0 => {}
                    hour @ 13.. => at += (24 - hour) * 3600,
                    hour => at -= hour * 3600,
                }
                now = self.civil(at)?;
                if now.day() == 1 {
                    continue 'wrapped;
                }
            }
            while !has(self.hour, now.hour()) {
                if !reset {
                    reset = true;
                    at = self.second(now.date().at(now.hour(), 0, 0, 0))?;
                }
                at += 3600;
                now = self.civil(at)?;
                if now.hour() == 0 {
                    continue 'wrapped;
                }
            }
            while !has(self.minute, now.minute()) {
                if !reset {
                    reset = true;
                    at -= at.rem_euclid(60);
                }
                at += 60;
                now = self.civil(at)?;
                if now.minute() == 0 {
                    continue 'wrapped;
                }
            }
            if now.second() == 0 {
                return Some(at);
            }
            // The next minute, looked at from the beginning.
            reset = true;
            at += i64::from(60 - now.second());
        }
    }

    fn is_day(&self, now: DateTime) -> bool {
        let day = has(self.day, now.day());
        let weekday = has(self.weekday, now.weekday().to_sunday_zero_offset());
        if (self.day | self.weekday) & STAR != 0 {
            day && weekday
        } else {
            day || weekday
        }
    }

    fn civil(&self, second: i64) -> Option<DateTime> {
        Some(self.zone.to_datetime(Timestamp::from_second(second).ok()?))
    }

    /// The second at which clocks show a time; for one that is left out, or comes
    /// twice, the one that Go takes.
    fn second(&self, time: DateTime) -> Option<i64> {
        let utc = Offset::UTC.to_timestamp(time).ok()?.as_second();
        let offset = |second: i64| -> Option<i64> {
            let at = Timestamp::from_second(second).ok()?;
            Some(i64::from(self.zone.to_offset(at).seconds()))
        };
        match offset(utc)? {
            0 => Some(utc),
            guess => Some(utc - offset(utc - guess)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(schedule: &str, after: &str, count: usize) -> Vec<String> {
        let schedule = Schedule::parse(schedule).expect("valid");
        let mut at: Timestamp = after.parse().expect("a time");
        let mut out = Vec::new();
        for _ in 0..count {
            let Some(found) = schedule.next(at) else {
                break;
            };
            out.push(found.to_string());
            at = found;
        }
        out
    }

    #[test]
    fn times_are_the_first_after() {
        for (schedule, after, found) in [
            (
                "TZ=UTC * * * * *",
                "2026-01-01T00:00:00Z",
                "2026-01-01T00:01:00Z",
            ),
            (
                "TZ=UTC */15 * * * *",
                "2026-01-01T00:14:59.5Z",
                "2026-01-01T00:15:00Z",
            ),
            (
                "TZ=UTC 20-35/15 * * * *",
                "2012-07-09T14:45:00Z",
                "2012-07-09T15:20:00Z",
            ),
            (
                "TZ=UTC 0 0 9 feb ?",
                "2012-07-09T23:35:51Z",
                "2013-02-09T00:00:00Z",
            ),
            (
                "TZ=UTC 0 0 * Feb Mon",
                "2012-07-09T23:35:51Z",
                "2013-02-04T00:00:00Z",
            ),
            (
                "TZ=UTC 0 0 13 * 5",
                "2026-01-09T00:00:00Z",
                "2026-01-13T00:00:00Z",
            ),
            (
                "TZ=UTC 0 0 29 2 *",
                "2025-03-01T00:00:00Z",
                "2028-02-29T00:00:00Z",
            ),
            (
                "TZ=UTC @weekly",
                "2026-01-01T00:00:00Z",
                "2026-01-04T00:00:00Z",
            ),
            (
                "TZ=UTC @yearly",
                "2026-01-01T00:00:00Z",
                "2027-01-01T00:00:00Z",
            ),
            (
                "@every 1h30m",
                "2026-01-01T00:00:00.7Z",
                "2026-01-01T01:30:00Z",
            ),
            (
                "@every 100ms",
                "2026-01-01T00:00:00Z",
                "2026-01-01T00:00:01Z",
            ),
            (
                "CRON_TZ=Asia/Tokyo 30 8 * * *",
                "2026-01-01T00:00:00Z",
                "2026-01-01T23:30:00Z",
            ),
        ] {
            assert_eq!(next(schedule, after, 1), [found], "{schedule}");
        }
    }

    #[test]
    fn what_never_comes_is_not_found() {
        assert!(next("TZ=UTC 59 23 31 2 *", "2026-01-01T00:00:00Z", 1).is_empty());
        assert!(next("TZ=UTC , * * * *", "2026-01-01T00:00:00Z", 1).is_empty());
    }

    #[test]
    fn changes_of_clocks_leave_out_and_repeat() {
        // On 2012-03-11 New York has no 2:30, on 2012-11-04 it has 1:30 twice.
        assert_eq!(
            next(
                "TZ=America/New_York 30 2 11 Mar ?",
                "2012-03-11T05:00:00Z",
                1
            ),
            ["2013-03-11T06:30:00Z"]
        );
        assert_eq!(
            next(
                "TZ=America/New_York 30 1 4 Nov ?",
                "2012-11-04T04:00:00Z",
                3
            ),
            [
                "2012-11-04T05:30:00Z",
                "2012-11-04T06:30:00Z",
                "2013-11-04T06:30:00Z"
            ]
        );
        // São Paulo had no midnight on 2018-11-04.
        assert_eq!(
            next(
                "TZ=America/Sao_Paulo 0 9 10 Nov ?",
                "2018-10-29T09:05:06Z",
                1
            ),
            ["2018-11-10T11:00:00Z"]
        );
    }

    #[test]
    fn errors_are_those_of_the_stock_parser() {
        for (schedule, why) in [
            ("", "empty spec string"),
            ("* * *", "expected exactly 5 fields, found 3: [* * *]"),
            (
                "5 j * * *",
                "failed to parse int from j: strconv.Atoi: parsing \"j\": invalid syntax",
            ),
            ("60 * * * *", "end of range (60) above maximum (59): 60"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            (
                "5-1 * * * *",
                "beginning of range (5) beyond end of range (1): 5-1",
            ),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            (
                "*/0 * * * *",
                "step of range should be a positive number: */0",
            ),
            ("*/-1 * * * *", "negative number (-1) not allowed: -1"),
            ("@never", "unrecognized descriptor: @never"),
            (
                "@every 5",
                "failed to parse duration 5: time: missing unit in duration \"5\"",
            ),
            (
                "@every 5y",
                "failed to parse duration 5y: time: unknown unit \"y\" in duration \"5y\"",
            ),
            (
                "@every x",
                "failed to parse duration x: time: invalid duration \"x\"",
            ),
            (
                "TZ=0",
                "invalid schedule format: runtime error: slice bounds out of range [:-1]",
            ),
            (
                "TZ=No/Where * * * * *",
                "provided bad location No/Where: unknown time zone No/Where",
            ),
            (
                "TZ=america/new_york * * * * *",
                "provided bad location america/new_york: unknown time zone america/new_york",
            ),
        ] {
            let error = Schedule::parse(schedule).expect_err(schedule);
            assert_eq!(error.to_string(), why);
        }
    }

    #[test]
    fn no_text_makes_it_panic() {
        bolero::check!().with_type::<String>().for_each(|text| {
            if let Ok(schedule) = Schedule::parse(text) {
                let _ = schedule.next(Timestamp::UNIX_EPOCH);
                let _ = schedule.next(Timestamp::MAX);
            }
        });
    }
}
