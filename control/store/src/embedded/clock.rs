//! The clock for keys with a limited lifetime.
//!
//! The machine's time of day may jump: when the clock of a node that was an hour behind
//! is set, all leases and events would expire. So the store has its own clock. It starts
//! at the time of day when the file is created, and then advances with the machine's
//! monotonic clock, also between two openings while the machine runs. Only after a reboot
//! does it use the time of day to tell how long the machine was off, if that moved
//! forward.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The readings of the machine's clocks, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Readings {
    /// The time of day, since 1970.
    pub wall: u64,
    /// The time since the machine was booted.
    pub uptime: u64,
    /// Tells one boot from another; 0 if that is not known.
    pub boot: u128,
}

/// The store's time at a moment, as written in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClockMark {
    /// The store's time, in milliseconds.
    pub time: u64,
    /// The readings of the machine's clocks at that moment.
    pub readings: Readings,
}

/// The store's clock while it is open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    start: ClockMark,
    opened: Instant,
}

// === impl Readings ===

impl Readings {
    pub fn now() -> Self {
        let uptime = std::fs::read_to_string("/proc/uptime").unwrap_or_default();
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let boot = u128::from_str_radix(&boot.trim().replace('-', ""), 16).unwrap_or_default();
        match parse_uptime(&uptime) {
            Some(uptime) => Self {
                wall: wall(),
                uptime,
                boot,
            },
            None => Self {
                wall: wall(),
                uptime: 0,
                boot: 0,
            },
        }
    }
}

/// The first number of `/proc/uptime`, which is in seconds.
fn parse_uptime(text: &str) -> Option<u64> {
    let seconds: f64 = text.split_whitespace().next()?.parse().ok()?;
    let uptime = Duration::try_from_secs_f64(seconds).ok()?;
    u64::try_from(uptime.as_millis()).ok()
}

fn wall() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    millis(since)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

// === impl ClockMark ===

impl ClockMark {
    const LENGTH: usize = 3 * 8 + 16;

    pub fn encode(&self) -> [u8; Self::LENGTH] {
        let mut bytes = [0; Self::LENGTH];
        let numbers = [self.time, self.readings.wall, self.readings.uptime];
        let (head, boot) = bytes.split_at_mut(24);
        for (slot, number) in head.chunks_exact_mut(8).zip(numbers) {
            slot.copy_from_slice(&number.to_le_bytes());
        }
        boot.copy_from_slice(&self.readings.boot.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (head, boot) = bytes.split_at_checked(24)?;
        let mut numbers = head
            .chunks_exact(8)
            .filter_map(|chunk| Some(u64::from_le_bytes(chunk.try_into().ok()?)));
        Some(Self {
            time: numbers.next()?,
            readings: Readings {
                wall: numbers.next()?,
                uptime: numbers.next()?,
                boot: u128::from_le_bytes(boot.try_into().ok()?),
            },
        })
    }
}

// === impl Clock ===

impl Clock {
    /// Goes on from where the store's time was.
    pub fn resume(last: Option<ClockMark>, now: Readings) -> Self {
        let time = match last {
            None => now.wall,
            Some(last) if last.readings.boot == now.boot && now.boot != 0 => {
                let passed = now.uptime.saturating_sub(last.readings.uptime);
                last.time.saturating_add(passed)
            }
            Some(last) => {
                let passed = now.wall.saturating_sub(last.readings.wall);
                last.time.saturating_add(passed)
            }
        };
        Self {
            start: ClockMark {
                time,
                readings: now,
            },
            opened: Instant::now(),
        }
    }

    /// The store's time, in milliseconds.
    pub fn now(&self) -> u64 {
        self.start
            .time
            .saturating_add(millis(self.opened.elapsed()))
    }

    /// Returns the mark to write into the file, so that the next opening continues from
    /// here.
    pub fn mark(&self) -> ClockMark {
        self.mark_at(self.opened.elapsed(), wall())
    }

    fn mark_at(&self, elapsed: Duration, wall: u64) -> ClockMark {
        let elapsed = millis(elapsed);
        ClockMark {
            time: self.start.time.saturating_add(elapsed),
            readings: Readings {
                wall,
                uptime: self.start.readings.uptime.saturating_add(elapsed),
                boot: self.start.readings.boot,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;
    const SECOND: u64 = 1000;
    const DAY_ZERO: u64 = 1_800_000_000_000;

    fn readings(wall: u64, uptime: u64, boot: u128) -> Readings {
        Readings { wall, uptime, boot }
    }

    /// A store that was opened, and had its mark written ten seconds later, when the time
    /// of day had jumped by `jump`.
    fn marked(jump: i64) -> ClockMark {
        let clock = Clock::resume(None, readings(DAY_ZERO, HOUR, 7));
        let wall = (DAY_ZERO + 10 * SECOND).saturating_add_signed(jump);
        clock.mark_at(Duration::from_secs(10), wall)
    }

    #[test]
    fn a_jump_of_the_time_of_day_while_the_store_is_open_changes_nothing() {
        for jump in [3_600_000, -3_600_000, 0] {
            assert_eq!(marked(jump).time, DAY_ZERO + 10 * SECOND);
        }
    }

    #[test]
    fn a_jump_while_the_process_is_down_changes_nothing() {
        let last = marked(0);
        // Five seconds later, and the clock was set by an hour, either way.
        for wall in [DAY_ZERO + HOUR, DAY_ZERO - HOUR] {
            let clock = Clock::resume(Some(last), readings(wall, HOUR + 15 * SECOND, 7));
            assert_eq!(clock.start.time, last.time + 5 * SECOND);
        }
    }

    #[test]
    fn over_a_reboot_only_the_time_off_counts() {
        // The clock had jumped before the machine went off for a minute.
        let last = marked(3_600_000);
        let wall = last.readings.wall + 60 * SECOND;
        let clock = Clock::resume(Some(last), readings(wall, SECOND, 8));
        assert_eq!(clock.start.time, last.time + 60 * SECOND);
        // Without a battery it may begin in the past.
        let clock = Clock::resume(Some(last), readings(0, SECOND, 8));
        assert_eq!(clock.start.time, last.time);
    }

    #[test]
    fn marks_are_read_as_they_were_written() {
        let mark = marked(0);
        assert_eq!(ClockMark::decode(&mark.encode()), Some(mark));
        assert_eq!(ClockMark::decode(&mark.encode()[1..]), None);
    }

    #[test]
    fn uptime_is_read_in_milliseconds() {
        assert_eq!(parse_uptime("12345.67 99999.00\n"), Some(12_345_670));
        assert_eq!(parse_uptime(""), None);
        assert_eq!(parse_uptime("-1 0"), None);
        let now = Readings::now();
        assert!(now.uptime > 0 && now.boot != 0, "{now:?}");
    }
}
