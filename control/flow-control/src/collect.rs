//! Metrics of priority and fairness: `apiserver_flowcontrol_…`.

use control_fairness::{FlowStats, Totals};
use control_metrics::{Histogram, Kind, Page};

use crate::fairness::{Fairness, now};
use crate::level::Share;

/// One flow schema in one level, with what is counted of it.
type Flow<'a> = (&'a str, &'a str, &'a FlowStats);
/// A metric of flows: its name, its help, and its value.
type OfFlow<T> = (&'static str, &'static str, fn(&FlowStats) -> T);
type Spread = (&'static str, &'static str, fn(&FlowStats) -> &Histogram);

/// A level as it was when somebody asked.
struct LevelSnapshot {
    name: String,
    share: Share,
    totals: Totals,
    meter: f64,
    flows: Vec<(String, FlowStats)>,
    utilization: [Histogram; 4],
}

const COUNTS: &[OfFlow<u64>] = &[
    (
        "dispatched_requests",
        "Number of requests executed by API Priority and Fairness subsystem",
        |stats| stats.dispatched,
    ),
    (
        "request_dispatch_no_accommodation",
        "Number of times a dispatch attempt resulted in a non accommodation due to lack of available seats",
        |stats| stats.no_room,
    ),
];
const GAUGES: &[OfFlow<u64>] = &[
    (
        "current_inqueue_requests",
        "Number of requests currently pending in queues of the API Priority and Fairness subsystem",
        |stats| stats.waiting,
    ),
    (
        "current_inqueue_seats",
        "Number of seats currently pending in queues of the API Priority and Fairness subsystem",
        |stats| stats.seats_waiting,
    ),
    (
        "current_executing_requests",
        "Number of requests in initial (for a WATCH) or any (for a non-WATCH) execution stage in the API Priority and Fairness subsystem",
        |stats| stats.executing,
    ),
    (
        "current_executing_seats",
        "Concurrency (number of seats) occupied by the currently executing (initial stage for a WATCH, any stage otherwise) requests in the API Priority and Fairness subsystem",
        |stats| stats.seats_in_use,
    ),
];
const HISTOGRAMS: &[Spread] = &[
    (
        "request_queue_length_after_enqueue",
        "Length of queue in the API Priority and Fairness subsystem, as seen by each request after it is enqueued",
        |stats| &stats.queue_length,
    ),
    (
        "work_estimated_seats",
        "Number of estimated seats (maximum of initial and final seats) associated with requests in API Priority and Fairness",
        |stats| &stats.seats,
    ),
];

impl Fairness {
    /// Writes metrics of all levels and flows.
    pub fn write_metrics(&self, page: &mut Page) {
        let seen = look(self);
        let flows: Vec<Flow<'_>> = seen
            .iter()
            .flat_map(|level| {
                let flows = level.flows.iter();
                flows.map(|(schema, stats)| (&*level.name, &**schema, stats))
            })
            .collect();
        of_flows(&flows, page);
        of_levels(&seen, page);
    }
}

fn look(fairness: &Fairness) -> Vec<LevelSnapshot> {
    let rules = fairness.rules.load();
    let mut seen: Vec<LevelSnapshot> = rules
        .levels
        .iter()
        .map(|level| {
            let share = *level.share();
            let mut set = level.lock();
            let used = set.utilization(now());
            let utilization = [
                used.seats.seen(now()).clone(),
                used.waiting.seen(now()).clone(),
                used.executing.seen(now()).clone(),
                used.demand.seen(now()).clone(),
            ];
            LevelSnapshot {
                name: level.spec.load().name.clone(),
                share,
                totals: set.totals(),
                meter: set.meter().to_f64(),
                flows: set.slots().to_vec(),
                utilization,
            }
        })
        .collect();
    seen.sort_by(|a, b| a.name.cmp(&b.name));
    seen
}

#[expect(clippy::cast_precision_loss, reason = "counts of a page for people")]
fn of_flows(flows: &[Flow<'_>], page: &mut Page) {
    for (kind, total, metrics) in [(Kind::Counter, "_total", COUNTS), (Kind::Gauge, "", GAUGES)] {
        for (name, help, value) in metrics {
            let name = format!("apiserver_flowcontrol_{name}");
            page.family(&name, kind, help);
            let name = format!("{name}{total}");
            for (level, schema, stats) in flows {
                let labels = [("priority_level", *level), ("flow_schema", *schema)];
                page.sample(&name, &labels, value(stats) as f64);
            }
        }
    }
    let name = "apiserver_flowcontrol_rejected_requests";
    page.family(
        name,
        Kind::Counter,
        "Number of requests rejected by API Priority and Fairness subsystem",
    );
    let name = "apiserver_flowcontrol_rejected_requests_total";
    for (level, schema, stats) in flows {
        for (reason, count) in [
            ("concurrency-limit", stats.at_limit),
            ("queue-full", stats.queue_full),
            ("time-out", stats.timed_out),
        ] {
            if count > 0 {
                let labels = [
                    ("priority_level", *level),
                    ("flow_schema", *schema),
                    ("reason", reason),
                ];
                page.sample(name, &labels, count as f64);
            }
        }
    }
    for (name, help, value) in HISTOGRAMS {
        let name = format!("apiserver_flowcontrol_{name}");
        page.family(&name, Kind::Histogram, help);
        for (level, schema, stats) in flows {
            let labels = [("priority_level", *level), ("flow_schema", *schema)];
            page.histogram(&name, &labels, value(stats));
        }
    }
    by_label(
        flows,
        page,
        (
            "request_wait_duration_seconds",
            "Length of time a request spent waiting in its queue",
        ),
        "execute",
        |stats| [("true", &stats.waited), ("false", &stats.waited_in_vain)],
    );
    by_label(
        flows,
        page,
        (
            "request_execution_seconds",
            "Duration of initial stage (for a WATCH) or any (for a non-WATCH) stage of request execution in the API Priority and Fairness subsystem",
        ),
        "type",
        |stats| [("regular", &stats.executed), ("watch", &stats.watch_began)],
    );
}

/// Histograms of which each flow has two, told apart by a label; empty ones are
/// left out.
fn by_label(
    flows: &[Flow<'_>],
    page: &mut Page,
    (name, help): (&str, &str),
    label: &str,
    both: for<'a> fn(&'a FlowStats) -> [(&'static str, &'a Histogram); 2],
) {
    let name = format!("apiserver_flowcontrol_{name}");
    page.family(&name, Kind::Histogram, help);
    for (level, schema, stats) in flows {
        for (value, histogram) in both(stats) {
            if histogram.count() > 0 {
                let labels = [
                    ("priority_level", *level),
                    ("flow_schema", *schema),
                    (label, value),
                ];
                page.histogram(&name, &labels, histogram);
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of a page for people")]
fn of_levels(seen: &[LevelSnapshot], page: &mut Page) {
    let gauges: [(&str, &str, fn(&LevelSnapshot) -> f64); 12] = [
        (
            "nominal_limit_seats",
            "Nominal number of execution seats configured for each priority level",
            |level| level.share.limits.nominal as f64,
        ),
        (
            "lower_limit_seats",
            "Configured lower bound on number of execution seats available to each priority level",
            |level| level.share.limits.least as f64,
        ),
        (
            "upper_limit_seats",
            "Configured upper bound on number of execution seats available to each priority level",
            |level| level.share.limits.most as f64,
        ),
        (
            "current_limit_seats",
            "current derived number of execution seats available to each priority level",
            |level| level.share.current as f64,
        ),
        (
            "demand_seats_high_watermark",
            "High watermark, over last adjustment period, of demand_seats",
            |level| level.share.demand.most as f64,
        ),
        (
            "demand_seats_average",
            "Time-weighted average, over last adjustment period, of demand_seats",
            |level| level.share.demand.average,
        ),
        (
            "demand_seats_stdev",
            "Time-weighted standard deviation, over last adjustment period, of demand_seats",
            |level| level.share.demand.deviation,
        ),
        ("demand_seats_smoothed", "Smoothed seat demands", |level| {
            level.share.demand.smoothed
        }),
        ("target_seats", "Seat allocation targets", |level| {
            level.share.target
        }),
        ("current_r", "R(time of last change)", |level| level.meter),
        ("dispatch_r", "R(time of last dispatch)", |level| {
            level.totals.last_meter.to_f64()
        }),
        ("latest_s", "S(most recently dispatched request)", |level| {
            level.totals.last_start.to_f64()
        }),
    ];
    for (name, help, value) in gauges {
        let name = format!("apiserver_flowcontrol_{name}");
        page.family(&name, Kind::Gauge, help);
        for level in seen {
            page.sample(&name, &[("priority_level", &level.name)], value(level));
        }
    }
    let name = "apiserver_flowcontrol_seat_fair_frac";
    page.family(
        name,
        Kind::Gauge,
        "Fair fraction of server's concurrency to allocate to each priority level that can use it",
    );
    let fair = seen.first().map_or(0.0, |level| level.share.fair);
    page.sample(name, &[], fair);

    let name = "apiserver_flowcontrol_priority_level_seat_utilization";
    page.family(name, Kind::Histogram, "Observations, at the end of every nanosecond, of utilization of seats for any stage of execution (but only initial stage for WATCHes)");
    for level in seen {
        let labels = [("priority_level", &*level.name), ("phase", "executing")];
        page.histogram(name, &labels, &level.utilization[0]);
    }
    let name = "apiserver_flowcontrol_priority_level_request_utilization";
    page.family(name, Kind::Histogram, "Observations, at the end of every nanosecond, of number of requests (as a fraction of the relevant limit) waiting or in any stage of execution (but only initial stage for WATCHes)");
    for level in seen {
        for (phase, at) in [("waiting", 1), ("executing", 2)] {
            let labels = [("phase", phase), ("priority_level", &*level.name)];
            page.histogram(name, &labels, &level.utilization[at]);
        }
    }
    let name = "apiserver_flowcontrol_demand_seats";
    page.family(name, Kind::Histogram, "Observations, at the end of every nanosecond, of (the number of seats each priority level could use) / (nominal number of seats for that level)");
    for level in seen {
        page.histogram(
            name,
            &[("priority_level", &level.name)],
            &level.utilization[3],
        );
    }
}
