//! What is counted of connections made by proxies, under kube-apiserver's names.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use control_metrics::{Histogram, Kind, Page};

const STARTS: &str = "apiserver_egress_dialer_dial_start";
const FAILURES: &str = "apiserver_egress_dialer_dial_failure_count";
const DURATIONS: &str = "apiserver_egress_dialer_dial_duration_seconds";
/// Bounds of durations, in seconds.
const SECONDS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 2.5, 12.5];

/// Protocol and transport of a proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Labels {
    pub protocol: &'static str,
    pub transport: &'static str,
}

/// How far a connection came that was not made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// Not to the proxy.
    Connect,
    /// The proxy did not make it.
    Proxy,
}

#[derive(Debug, Default)]
pub(super) struct Counts(Mutex<BTreeMap<Labels, DialCounts>>);

/// What is counted of one protocol and transport.
#[derive(Debug)]
struct DialCounts {
    starts: u64,
    /// By stage.
    failures: BTreeMap<Stage, u64>,
    durations: Histogram,
}

impl Default for DialCounts {
    fn default() -> Self {
        Self {
            starts: 0,
            failures: BTreeMap::new(),
            durations: Histogram::new(SECONDS),
        }
    }
}

impl Stage {
    fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::Proxy => "proxy",
        }
    }
}

impl Labels {
    fn pairs(&self) -> [(&'static str, &'static str); 2] {
        [("protocol", self.protocol), ("transport", self.transport)]
    }
}

// === impl Counts ===

impl Counts {
    pub fn starts(&self, labels: Labels) {
        self.with(labels, |of| of.starts += 1);
    }

    pub fn fails(&self, labels: Labels, stage: Stage) {
        self.with(labels, |of| *of.failures.entry(stage).or_default() += 1);
    }

    pub fn made(&self, labels: Labels, took: Duration) {
        self.with(labels, |of| of.durations.observe(took.as_secs_f64()));
    }

    fn with(&self, labels: Labels, change: impl FnOnce(&mut DialCounts)) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(all.entry(labels).or_default());
    }

    #[expect(clippy::cast_precision_loss, reason = "for metrics")]
    pub fn write(&self, page: &mut Page) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.is_empty() {
            return;
        }
        page.family(
            STARTS,
            Kind::Counter,
            "Connections that were begun by a proxy, by its protocol and transport",
        );
        for (labels, of) in &*all {
            let name = format!("{STARTS}_total");
            page.sample(&name, &labels.pairs(), of.starts as f64);
        }
        page.bare_counter(
            FAILURES,
            "Connections that failed, by the proxy's protocol and transport and by how far they came",
        );
        for (labels, of) in &*all {
            for (stage, count) in &of.failures {
                let [protocol, transport] = labels.pairs();
                let labels = [protocol, ("stage", stage.as_str()), transport];
                page.sample(FAILURES, &labels, *count as f64);
            }
        }
        page.family(
            DURATIONS,
            Kind::Histogram,
            "Time until a proxy had made a connection, by its protocol and transport",
        );
        for (labels, of) in &*all {
            page.histogram(DURATIONS, &labels.pairs(), &of.durations);
        }
    }
}
