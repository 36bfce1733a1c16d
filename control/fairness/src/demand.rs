//! How many seats a level could have used, over time.

use std::time::Duration;

/// The decay of the smoothed demand in ten seconds: half of it is forgotten in five
/// minutes.
const SMOOTHING: f64 = 0.977;

/// Integrates a number over time.
#[derive(Clone, Debug, Default)]
pub struct Integrator {
    since: Duration,
    now: f64,
    seconds: f64,
    sum: f64,
    squares: f64,
    most: f64,
}

/// The result of an [`Integrator`].
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Integral {
    /// Over how long, in seconds.
    pub seconds: f64,
    /// The average.
    pub average: f64,
    /// The standard deviation.
    pub deviation: f64,
    /// The largest value.
    pub most: f64,
}

/// The demand of a level, as far as the distribution of seats needs it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Demand {
    /// The maximum number of seats that it could have used.
    pub most: usize,
    /// On average.
    pub average: f64,
    /// The standard deviation.
    pub deviation: f64,
    /// The expected demand.
    pub smoothed: f64,
}

// === impl Integrator ===

impl Integrator {
    /// One that begins now, at zero.
    #[must_use]
    pub fn new(now: Duration) -> Self {
        Self {
            since: now,
            ..Self::default()
        }
    }

    /// Sets the number to `value` from now on.
    pub fn set(&mut self, now: Duration, value: f64) {
        self.advance(now);
        self.now = value;
        self.most = self.most.max(value);
    }

    /// Returns the result so far, and starts over.
    pub fn take(&mut self, now: Duration) -> Integral {
        self.advance(now);
        let mut found = Integral {
            seconds: self.seconds,
            most: self.most,
            ..Integral::default()
        };
        if self.seconds > 0.0 {
            found.average = self.sum / self.seconds;
            let variance = self.squares / self.seconds - found.average * found.average;
            // Rounding may bring it below zero.
            found.deviation = variance.max(0.0).sqrt();
        }
        self.seconds = 0.0;
        self.sum = 0.0;
        self.squares = 0.0;
        self.most = self.now;
        found
    }

    fn advance(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.since).as_secs_f64();
        self.since = self.since.max(now);
        self.seconds += passed;
        self.sum += self.now * passed;
        self.squares += self.now * self.now * passed;
    }
}

// === impl Demand ===

impl Demand {
    /// Adds the last period: a rise counts immediately, a fall slowly.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a number of seats"
    )]
    pub fn update(&mut self, found: &Integral) {
        self.most = found.most.round() as usize;
        if found.seconds <= 0.0 {
            return;
        }
        self.average = found.average;
        self.deviation = found.deviation;
        let envelope = found.average + found.deviation;
        let slow = SMOOTHING * self.smoothed + (1.0 - SMOOTHING) * envelope;
        self.smoothed = envelope.max(slow);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn average_deviation_and_peak_are_weighted_by_time() {
        let mut integrator = Integrator::new(at(0));
        integrator.set(at(0), 2.0);
        integrator.set(at(5), 6.0);
        let found = integrator.take(at(10));
        assert_eq!(
            found,
            Integral {
                seconds: 10.0,
                average: 4.0,
                deviation: 2.0,
                most: 6.0
            }
        );
        // The value lasts into the next period, the past does not.
        integrator.set(at(12), 0.0);
        let found = integrator.take(at(14));
        assert_eq!((found.average, found.most), (3.0, 6.0));
    }

    #[test]
    fn demand_rises_at_once_and_falls_slowly() {
        let mut demand = Demand::default();
        let busy = Integral {
            seconds: 10.0,
            average: 100.0,
            deviation: 0.0,
            most: 120.0,
        };
        demand.update(&busy);
        assert_eq!((demand.smoothed, demand.most), (100.0, 120));
        for _ in 0..30 {
            demand.update(&Integral {
                seconds: 10.0,
                ..Integral::default()
            });
        }
        assert!((45.0..55.0).contains(&demand.smoothed), "{demand:?}");
        assert_eq!(demand.most, 0);
    }
}
