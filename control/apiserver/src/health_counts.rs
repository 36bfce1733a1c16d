//! What became of health checks, for `/metrics/slis` (KEP-3466).

use std::sync::{Mutex, PoisonError};

use control_metrics::{Kind, Page};

/// Counts of a check of a path.
#[derive(Debug, Clone, Copy)]
struct Count {
    root: &'static str,
    name: &'static str,
    /// Whether it was well the last time.
    well: bool,
    successes: u64,
    failures: u64,
}

/// All checks that were made.
#[derive(Debug, Default)]
pub(crate) struct HealthCounts(Mutex<Vec<Count>>);

impl HealthCounts {
    /// A check was made.
    pub(crate) fn count(&self, root: &'static str, name: &'static str, well: bool) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let at = all.binary_search_by_key(&(name, root), |one| (one.name, one.root));
        let at = at.unwrap_or_else(|at| {
            let count = Count {
                root,
                name,
                well,
                successes: 0,
                failures: 0,
            };
            all.insert(at, count);
            at
        });
        let count = &mut all[at];
        count.well = well;
        *if well {
            &mut count.successes
        } else {
            &mut count.failures
        } += 1;
    }

    /// Writes all of them.
    #[expect(clippy::cast_precision_loss, reason = "for metrics")]
    pub(crate) fn write(&self, page: &mut Page) {
        let all = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        let name = "kubernetes_healthcheck";
        page.family(
            name,
            Kind::Gauge,
            "This metric records the result of a single healthcheck.",
        );
        for one in &all {
            let labels = [("name", one.name), ("type", one.root)];
            page.sample(name, &labels, if one.well { 1.0 } else { 0.0 });
        }
        page.family(
            "kubernetes_healthchecks",
            Kind::Counter,
            "This metric records the results of all healthcheck.",
        );
        for one in &all {
            for (status, count) in [("error", one.failures), ("success", one.successes)] {
                if count == 0 {
                    continue;
                }
                let labels = [("name", one.name), ("status", status), ("type", one.root)];
                page.sample("kubernetes_healthchecks_total", &labels, count as f64);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use control_metrics::Format;

    use super::*;

    #[test]
    fn checks_are_counted_by_path_and_outcome() {
        let counts = HealthCounts::default();
        for well in [true, true, false] {
            counts.count("readyz", "etcd", well);
        }
        counts.count("livez", "etcd", true);
        let mut page = Page::new(Format::Text);
        counts.write(&mut page);
        let page = page.finish();
        for line in [
            "kubernetes_healthcheck{name=\"etcd\",type=\"readyz\"} 0\n",
            "kubernetes_healthcheck{name=\"etcd\",type=\"livez\"} 1\n",
            "kubernetes_healthchecks_total{name=\"etcd\",status=\"success\",type=\"readyz\"} 2\n",
            "kubernetes_healthchecks_total{name=\"etcd\",status=\"error\",type=\"readyz\"} 1\n",
        ] {
            assert!(page.contains(line), "{line} in {page}");
        }
        assert_eq!(page.matches("kubernetes_healthcheck{").count(), 2);
    }
}
