//! How long admission takes, under kube-apiserver's names: the two steps as a
//! whole, and of the plugins those whose time depends on what users configured or
//! on how many objects there are. The others are a few comparisons each.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use control_metrics::{Histogram, Kind, Page};
use rustc_hash::FxHashMap;

use crate::operation::Operation;
use crate::plugin::Plugin;

/// Seconds.
const TIMES: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5];

/// Which of the two steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Step {
    /// Objects are changed.
    Admit,
    /// Objects are looked at.
    Validate,
}

/// What a time is counted under; no plugin: the whole step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct DurationKey {
    plugin: Option<Plugin>,
    operation: &'static str,
    rejected: bool,
    step: Step,
}

/// The counts.
#[derive(Debug, Default)]
pub struct AdmissionCounts(RwLock<FxHashMap<DurationKey, Arc<Mutex<Histogram>>>>);

impl AdmissionCounts {
    /// A step, or a plugin's part of it, that began at `began` has ended; gives its
    /// outcome back.
    pub fn ended<T, E>(
        &self,
        plugin: impl Into<Option<Plugin>>,
        step: Step,
        operation: Operation,
        began: Instant,
        outcome: Result<T, E>,
    ) -> Result<T, E> {
        let key = DurationKey {
            plugin: plugin.into(),
            operation: operation.as_str(),
            rejected: outcome.is_err(),
            step,
        };
        self.count(key, began.elapsed());
        outcome
    }

    fn count(&self, key: DurationKey, took: Duration) {
        let known = {
            let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
            all.get(&key).cloned()
        };
        let histogram = known.unwrap_or_else(|| {
            let mut all = self.0.write().unwrap_or_else(PoisonError::into_inner);
            let new = || Arc::new(Mutex::new(Histogram::new(TIMES)));
            Arc::clone(all.entry(key).or_insert_with(new))
        });
        let mut histogram = histogram.lock().unwrap_or_else(PoisonError::into_inner);
        histogram.observe(took.as_secs_f64());
    }

    /// Writes them.
    pub fn write(&self, page: &mut Page) {
        let mut all: Vec<_> = {
            let all = self.0.read().unwrap_or_else(PoisonError::into_inner);
            all.iter()
                .map(|(key, one)| (*key, Arc::clone(one)))
                .collect()
        };
        all.sort_unstable_by_key(|(key, _)| *key);
        for (name, help, whole) in [
            (
                "apiserver_admission_step_admission_duration_seconds",
                "Admission sub-step latency histogram in seconds, broken out for each operation and API resource and step type (validate or admit).",
                true,
            ),
            (
                "apiserver_admission_controller_admission_duration_seconds",
                "Admission controller latency histogram in seconds, identified by name and broken out for each operation and API resource and type (validate or admit).",
                false,
            ),
        ] {
            page.family(name, Kind::Histogram, help);
            for (key, histogram) in &all {
                if key.plugin.is_none() != whole {
                    continue;
                }
                let step = match key.step {
                    Step::Admit => "admit",
                    Step::Validate => "validate",
                };
                let rejected = if key.rejected { "true" } else { "false" };
                let mut labels = Vec::with_capacity(4);
                labels.extend(key.plugin.map(|plugin| ("name", plugin.name())));
                labels.push(("operation", key.operation));
                labels.push(("rejected", rejected));
                labels.push(("type", step));
                let histogram = histogram.lock().unwrap_or_else(PoisonError::into_inner);
                page.histogram(name, &labels, &histogram);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use control_metrics::Format;

    use super::*;

    #[test]
    fn steps_and_plugins_are_counted_apart_with_what_became_of_them() {
        let counts = AdmissionCounts::default();
        let now = Instant::now();
        let good: Result<u8, ()> = Ok(7);
        assert_eq!(
            counts.ended(None, Step::Admit, Operation::Create, now, good),
            good
        );
        let bad: Result<(), u8> = Err(1);
        let plugin = Plugin::PodSecurity;
        let given = counts.ended(plugin, Step::Validate, Operation::Update, now, bad);
        assert_eq!(given, bad);
        let mut page = Page::new(Format::Text);
        counts.write(&mut page);
        let page = page.finish();
        for line in [
            "apiserver_admission_step_admission_duration_seconds_count{operation=\"CREATE\",rejected=\"false\",type=\"admit\"} 1",
            "apiserver_admission_controller_admission_duration_seconds_bucket{name=\"PodSecurity\",operation=\"UPDATE\",rejected=\"true\",type=\"validate\",le=\"2.5\"} 1",
        ] {
            assert!(page.contains(line), "no {line} in\n{page}");
        }
    }
}
