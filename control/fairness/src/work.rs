//! Work: seats times seconds.

use std::fmt;
use std::ops::{Add, AddAssign, Sub, SubAssign};
use std::time::Duration;

/// How many units a seat-second has.
const SCALE: i128 = 100_000_000;
const NANOS_PER_UNIT: i128 = 1_000_000_000 / SCALE;

/// An amount of work, or a reading of the meter R(t) of fair queuing. Wide enough
/// that the meter never overflows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SeatSeconds(i128);

// === impl SeatSeconds ===

impl SeatSeconds {
    /// So many seats for so long.
    #[must_use]
    pub fn new(seats: u32, time: Duration) -> Self {
        Self(i128::from(seats) * nanos(time) / NANOS_PER_UNIT)
    }

    /// A rate of seats, which may be broken, for so long.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "a rate is a few hundreds")]
    #[expect(clippy::cast_precision_loss, reason = "rates are estimates")]
    pub fn at_rate(rate: f64, time: Duration) -> Self {
        Self((rate * nanos(time) as f64 / NANOS_PER_UNIT as f64).round() as i128)
    }

    /// For how long this work takes so many seats; nothing for none.
    #[must_use]
    pub fn on_seats(self, seats: u32) -> Duration {
        let nanos = self.0.max(0) * NANOS_PER_UNIT / i128::from(seats.max(1));
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// In seat-seconds.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "for metrics")]
    pub fn to_f64(self) -> f64 {
        self.0 as f64 / SCALE as f64
    }
}

fn nanos(time: Duration) -> i128 {
    i128::try_from(time.as_nanos()).unwrap_or(i128::MAX)
}

impl Add for SeatSeconds {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl AddAssign for SeatSeconds {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Sub for SeatSeconds {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self(self.0 - other.0)
    }
}

impl SubAssign for SeatSeconds {
    fn sub_assign(&mut self, other: Self) {
        self.0 -= other.0;
    }
}

impl fmt::Display for SeatSeconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let amount = self.0.unsigned_abs();
        let scale = SCALE.unsigned_abs();
        write!(f, "{sign}{}.{:08}ss", amount / scale, amount % scale)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_seats_times_time_and_can_be_reshaped() {
        let work = SeatSeconds::new(6, Duration::from_millis(5));
        assert_eq!(work.to_string(), "0.03000000ss");
        assert_eq!(work.on_seats(3), Duration::from_millis(10));
        assert_eq!(
            SeatSeconds::at_rate(0.5, Duration::from_secs(3)).to_string(),
            "1.50000000ss"
        );
        assert_eq!((SeatSeconds::default() - work).to_string(), "-0.03000000ss");
    }
}
