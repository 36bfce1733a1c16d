//! When the job of a CronJob was due last, and when the next will be. The way of
//! counting is upstream's: an estimate by the distance of two times, so that years of
//! missed ones cost nothing.

use std::time::Duration;

use control_types::cron::Schedule;
use jiff::{SignedDuration, Timestamp};

use crate::views::CronJob;

/// Added to every wait, for clocks that differ a little.
const PADDING: Duration = Duration::from_millis(100);

/// More missed times than this are reported as a warning.
const MANY: i64 = 100;

/// Scheduled times up to now that were not met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Due {
    /// The start of the search.
    pub since: Timestamp,
    /// The last time that was due; none when none was.
    pub last: Option<Timestamp>,
    /// Whether any were missed.
    pub missed: bool,
    /// Whether so many were missed that something is wrong.
    pub many: bool,
}

/// Two times of the schedule coincide, so that no interval can be computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("time difference between two schedules is less than 1 second")]
pub struct NoDifference;

/// Returns the times that were due between the last start (or the creation) and `now`;
/// with `deadline`, only those that may still start.
///
/// # Errors
/// [`NoDifference`].
pub fn due(
    cron: &CronJob,
    schedule: &Schedule,
    now: Timestamp,
    deadline: bool,
) -> Result<Due, NoDifference> {
    let created = cron.metadata.creation_timestamp.unwrap_or(now);
    let mut since = cron.status.last_schedule_time.unwrap_or(created);
    if let Some(seconds) = cron.spec.starting_deadline_seconds.filter(|_| deadline) {
        since = earlier(now, seconds).max(since);
    }
    let nothing = Due {
        since,
        last: None,
        missed: false,
        many: false,
    };
    let Some(first) = schedule.next(since) else {
        return Err(NoDifference);
    };
    if now < first {
        return Ok(nothing);
    }
    let second = schedule.next(first).ok_or(NoDifference)?;
    if now < second {
        return Ok(Due {
            last: Some(first),
            ..nothing
        });
    }
    let between = second.as_second() - first.as_second();
    if between < 1 {
        return Err(NoDifference);
    }
    let missed = (now.as_second() - first.as_second()) / between + 1;
    // Schedules that are not regular have others near by.
    let from = first
        .checked_add(SignedDuration::from_secs((missed - 2) * between))
        .unwrap_or(first);
    let mut last = None;
    let mut next = schedule.next(from);
    while let Some(time) = next.filter(|time| *time <= now) {
        last = Some(time);
        next = schedule.next(time);
    }
    Ok(Due {
        last,
        missed: true,
        many: missed > MANY,
        ..nothing
    })
}

/// Returns the time until the next start; `None` if there is none.
#[must_use]
pub fn wait(cron: &CronJob, schedule: &Schedule, now: Timestamp) -> Option<Duration> {
    let from = match due(cron, schedule, now, false) {
        Ok(Due {
            last: Some(last), ..
        }) => last,
        Ok(Due {
            since,
            missed: false,
            ..
        }) => since,
        Ok(_) | Err(NoDifference) => now,
    };
    let next = schedule.next(from)?;
    let left = Duration::try_from(next.duration_since(now)).unwrap_or_default();
    Some(left + PADDING)
}

/// A time so many seconds before another.
pub(super) fn earlier(time: Timestamp, seconds: i64) -> Timestamp {
    time.checked_sub(SignedDuration::from_secs(seconds))
        .unwrap_or(Timestamp::MIN)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn cron(last: &str) -> CronJob {
        serde_json::from_value(json!({
            "metadata": {"name": "c", "creationTimestamp": "2026-01-01T10:00:00Z"},
            "status": if last.is_empty() { json!({}) } else { json!({"lastScheduleTime": last}) },
        }))
        .unwrap()
    }

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn the_last_of_all_missed_times_is_due() {
        for (schedule, last, now, found, many) in [
            ("0 * * * *", "", "2026-01-01T10:00:00Z", "", false),
            (
                "0 * * * *",
                "",
                "2026-01-01T11:00:00Z",
                "2026-01-01T11:00:00Z",
                false,
            ),
            (
                "0 * * * *",
                "",
                "2026-01-01T12:30:00Z",
                "2026-01-01T12:00:00Z",
                false,
            ),
            (
                "0 * * * *",
                "2026-01-01T11:00:00Z",
                "2026-01-01T11:59:59Z",
                "",
                false,
            ),
            (
                "0 * * * *",
                "",
                "2026-03-01T00:30:00Z",
                "2026-03-01T00:00:00Z",
                true,
            ),
            (
                "@every 1h",
                "2026-01-01T10:07:00Z",
                "2026-01-01T13:30:00Z",
                "2026-01-01T13:07:00Z",
                false,
            ),
            (
                "30 6-16/4 * * 1-5",
                "",
                "2026-01-05T07:00:00Z",
                "2026-01-05T06:30:00Z",
                false,
            ),
        ] {
            let schedule_of = if schedule.starts_with('@') {
                schedule.to_owned()
            } else {
                format!("TZ=UTC {schedule}")
            };
            let due = due(
                &cron(last),
                &Schedule::parse(&schedule_of).unwrap(),
                at(now),
                true,
            )
            .unwrap();
            let wanted = (!found.is_empty()).then(|| at(found));
            assert_eq!((due.last, due.many), (wanted, many), "{schedule} {now}");
        }
    }

    #[test]
    fn what_is_older_than_the_deadline_is_not_looked_for() {
        let mut late = cron("");
        late.spec.starting_deadline_seconds = Some(600);
        let hourly = Schedule::parse("TZ=UTC 0 * * * *").unwrap();
        let now = at("2026-01-01T12:30:00Z");
        assert_eq!(due(&late, &hourly, now, true).unwrap().last, None);
        assert!(due(&late, &hourly, now, false).unwrap().last.is_some());
    }

    #[test]
    fn a_schedule_without_times_is_an_error_and_waits_for_nothing() {
        let never = Schedule::parse("TZ=UTC 59 23 31 2 *").unwrap();
        let now = at("2026-01-01T12:30:00Z");
        assert_eq!(due(&cron(""), &never, now, true), Err(NoDifference));
        assert_eq!(wait(&cron(""), &never, now), None);
    }

    #[test]
    fn it_waits_for_the_next_time_and_a_little_more() {
        let hourly = Schedule::parse("TZ=UTC 0 * * * *").unwrap();
        let now = at("2026-01-01T12:30:00Z");
        assert_eq!(
            wait(&cron(""), &hourly, now),
            Some(Duration::from_secs(1800) + PADDING)
        );
    }
}
