//! Statistics of a level.

use std::time::Duration;

use control_metrics::{Histogram, TimedRatio};

use crate::SeatSeconds;

const SECONDS: &[f64] = &[
    0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0,
];
const LENGTHS: &[f64] = &[0.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0];
const SEATS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 100.0];
const SEAT_RATIOS: &[f64] = &[
    0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0,
];
const REQUEST_RATIOS: &[f64] = &[0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1.0];
const DEMAND_RATIOS: &[f64] = &[0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0, 2.8, 4.0, 6.0];

/// Statistics of the requests of one flow schema in one level.
#[derive(Clone, Debug)]
pub struct FlowStats {
    /// How many wait.
    pub waiting: u64,
    /// The seats that those need.
    pub seats_waiting: u64,
    /// How many are being answered.
    pub executing: u64,
    /// The seats that are held.
    pub seats_in_use: u64,
    /// How many were ever served.
    pub dispatched: u64,
    /// How many found neither a seat nor a queue.
    pub at_limit: u64,
    /// How many found their queue full.
    pub queue_full: u64,
    /// How many waited in vain.
    pub timed_out: u64,
    /// How often one was next and needed more seats than were free.
    pub no_room: u64,
    /// How long those waited that were served, in seconds.
    pub waited: Histogram,
    /// How long those waited that were not.
    pub waited_in_vain: Histogram,
    /// How long answers took.
    pub executed: Histogram,
    /// How long watches took to begin.
    pub watch_began: Histogram,
    /// Queue lengths at each enqueueing.
    pub queue_length: Histogram,
    /// The seats that requests were thought to need.
    pub seats: Histogram,
}

/// Statistics of all requests of a level.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    /// How many wait.
    pub waiting: usize,
    /// How many are being answered.
    pub executing: usize,
    /// The seats that waiting ones need.
    pub seats_waiting: u32,
    /// The seats that are held.
    pub seats_in_use: u32,
    /// How many were ever served.
    pub dispatched: u64,
    /// How many were not.
    pub rejected: u64,
    /// How many of those had waited.
    pub cancelled: u64,
    /// The meter when one was last served.
    pub last_meter: SeatSeconds,
    /// The virtual time at which that one began.
    pub last_start: SeatSeconds,
}

/// How full a level was, over time.
#[derive(Debug)]
pub struct Utilization {
    /// The ratio of seats in use to all seats.
    pub seats: TimedRatio,
    /// Requests that wait, of those for which there is room.
    pub waiting: TimedRatio,
    /// The ratio of executing requests to all seats.
    pub executing: TimedRatio,
    /// The ratio of demanded seats to all seats.
    pub demand: TimedRatio,
}

impl Default for FlowStats {
    fn default() -> Self {
        Self {
            waiting: 0,
            seats_waiting: 0,
            executing: 0,
            seats_in_use: 0,
            dispatched: 0,
            at_limit: 0,
            queue_full: 0,
            timed_out: 0,
            no_room: 0,
            waited: Histogram::new(SECONDS),
            waited_in_vain: Histogram::new(SECONDS),
            executed: Histogram::new(SECONDS),
            watch_began: Histogram::new(SECONDS),
            queue_length: Histogram::new(LENGTHS),
            seats: Histogram::new(SEATS),
        }
    }
}

// === impl Utilization ===

#[expect(clippy::cast_precision_loss, reason = "for metrics")]
impl Utilization {
    pub(super) fn new(now: Duration) -> Self {
        Self {
            seats: TimedRatio::new(SEAT_RATIOS, now),
            waiting: TimedRatio::new(REQUEST_RATIOS, now),
            executing: TimedRatio::new(REQUEST_RATIOS, now),
            demand: TimedRatio::new(DEMAND_RATIOS, now),
        }
    }

    pub(super) fn set_room(&mut self, now: Duration, room: usize) {
        self.waiting.set_whole(now, room as f64);
    }

    pub(super) fn set_limit(&mut self, now: Duration, limit: usize) {
        let limit = limit.max(1) as f64;
        self.seats.set_whole(now, limit);
        self.executing.set_whole(now, limit);
        self.demand.set_whole(now, limit);
    }

    pub(super) fn set(
        &mut self,
        now: Duration,
        waiting: usize,
        executing: usize,
        seats: u32,
        demand: f64,
    ) {
        self.seats.set(now, f64::from(seats));
        self.waiting.set(now, waiting as f64);
        self.executing.set(now, executing as f64);
        self.demand.set(now, demand);
    }

    /// Brings all up to now.
    pub(super) fn advance(&mut self, now: Duration) {
        for ratio in [
            &mut self.seats,
            &mut self.waiting,
            &mut self.executing,
            &mut self.demand,
        ] {
            ratio.seen(now);
        }
    }
}
