//! Histograms as plain numbers: counted under a lock that is held anyway, formatted on
//! request.

use std::time::Duration;

/// Observations by size.
#[derive(Clone, Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    counts: Vec<u64>,
    sum: f64,
}

/// For how long a fraction had which size. Weights are nanoseconds, as
/// kube-apiserver gives them.
#[derive(Clone, Debug)]
pub struct TimedRatio {
    histogram: Histogram,
    since: Duration,
    value: f64,
    whole: f64,
    bucket: usize,
}

/// Returns bounds of which each is `factor` times the one before, as the bucket helpers
/// of Prometheus' client libraries.
#[must_use]
pub const fn exponential<const N: usize>(first: f64, factor: f64) -> [f64; N] {
    let mut bounds = [first; N];
    let mut at = 1;
    while at < N {
        bounds[at] = bounds[at - 1] * factor;
        at += 1;
    }
    bounds
}

// === impl Histogram ===

impl Histogram {
    /// One with these upper bounds, which rise.
    #[must_use]
    pub fn new(bounds: &'static [f64]) -> Self {
        Self {
            bounds,
            counts: vec![0; bounds.len() + 1],
            sum: 0.0,
        }
    }

    /// Counts one observation.
    pub fn observe(&mut self, value: f64) {
        let bucket = self.bucket(value);
        self.counts[bucket] += 1;
        self.sum += value;
    }

    /// Adds the observations of another histogram with the same bounds.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *mine += theirs;
        }
        self.sum += other.sum;
    }

    /// The sum of all observations.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the upper bounds, the last of them infinite, with the number of
    /// observations in each bucket.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> + '_ {
        self.bounds
            .iter()
            .copied()
            .chain([f64::INFINITY])
            .zip(self.counts.iter().copied())
    }

    fn bucket(&self, value: f64) -> usize {
        let found = self.bounds.iter().position(|&bound| value <= bound);
        found.unwrap_or(self.bounds.len())
    }
}

// === impl TimedRatio ===

impl TimedRatio {
    /// One that begins now, at zero of one.
    #[must_use]
    pub fn new(bounds: &'static [f64], now: Duration) -> Self {
        let histogram = Histogram::new(bounds);
        Self {
            bucket: histogram.bucket(0.0),
            histogram,
            since: now,
            value: 0.0,
            whole: 1.0,
        }
    }

    /// Sets the value from now on.
    pub fn set(&mut self, now: Duration, value: f64) {
        self.advance(now);
        self.value = value;
        self.bucket = self.histogram.bucket(value / self.whole);
    }

    /// Sets the whole from now on; at least a tiny bit.
    pub fn set_whole(&mut self, now: Duration, whole: f64) {
        self.advance(now);
        self.whole = whole.max(f64::EPSILON);
        self.bucket = self.histogram.bucket(self.value / self.whole);
    }

    /// Returns the observations until now.
    pub fn seen(&mut self, now: Duration) -> &Histogram {
        self.advance(now);
        &self.histogram
    }

    #[expect(clippy::cast_precision_loss, reason = "for metrics")]
    fn advance(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.since).as_nanos();
        self.since = self.since.max(now);
        self.histogram.counts[self.bucket] += u64::try_from(passed).unwrap_or(u64::MAX);
        self.histogram.sum += self.value / self.whole * passed as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn observations_fall_into_the_bucket_whose_bound_they_do_not_exceed() {
        let mut histogram = Histogram::new(&[1.0, 2.0]);
        for value in [0.5, 1.0, 1.5, 9.0] {
            histogram.observe(value);
        }
        let buckets: Vec<_> = histogram.buckets().map(|(_, count)| count).collect();
        assert_eq!(buckets, [2, 1, 1]);
        assert_eq!((histogram.count(), histogram.sum()), (4, 12.0));
    }

    #[test]
    fn histograms_of_the_same_bounds_add_up() {
        let bounds: &[f64] = const { &exponential::<3>(0.5, 2.0) };
        assert_eq!(bounds, [0.5, 1.0, 2.0]);
        let mut all = Histogram::new(bounds);
        for value in [0.7, 9.0] {
            let mut one = Histogram::new(bounds);
            one.observe(value);
            all.merge(&one);
        }
        let buckets: Vec<_> = all.buckets().map(|(_, count)| count).collect();
        assert_eq!(buckets, [0, 1, 0, 1]);
        assert!((all.sum() - 9.7).abs() < 1e-9);
    }

    #[test]
    fn ratios_are_weighted_by_how_long_they_last() {
        let mut ratio = TimedRatio::new(&[0.0, 0.5, 1.0], Duration::ZERO);
        ratio.set_whole(Duration::ZERO, 4.0);
        ratio.set(Duration::from_nanos(10), 1.0);
        ratio.set(Duration::from_nanos(15), 4.0);
        let seen = ratio.seen(Duration::from_nanos(18));
        let buckets: Vec<_> = seen.buckets().map(|(_, count)| count).collect();
        assert_eq!(buckets, [10, 5, 3, 0]);
        assert!((seen.sum() - (1.25 + 3.0)).abs() < 1e-9);
    }
}
