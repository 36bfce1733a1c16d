//! Tasks' health in OpenMetrics form.

use std::collections::BTreeMap;

use control_metrics::{Format, Kind, Page};

use crate::{Counts, State, TaskHealth};

/// Appends the families, without an end.
pub(crate) fn write(
    counts: &BTreeMap<&'static str, Counts>,
    health: &[TaskHealth],
    out: &mut String,
) {
    let mut page = Page::new(Format::OpenMetrics);
    let name = "orlop_task_up";
    page.family(name, Kind::Gauge, "Whether all tasks of this name run.");
    for task in counts.keys() {
        let down = health
            .iter()
            .any(|it| it.name == *task && it.state != State::Running);
        page.sample(name, &[("task", task)], u8::from(!down));
    }
    let name = "orlop_task_restarts";
    page.family(name, Kind::Counter, "Restarts of tasks that failed.");
    for (task, counts) in counts {
        let labels = [("task", *task)];
        page.sample("orlop_task_restarts_total", &labels, counts.restarts);
    }
    out.push_str(&page.into_families());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_written_byte_by_byte() {
        let restarted = |restarts| Counts {
            restarts,
            last_error: None,
        };
        let counts = BTreeMap::from([("feeder", restarted(3)), ("watcher", restarted(0))]);
        let health =
            [("feeder", State::Restarting), ("watcher", State::Running)].map(|(name, state)| {
                TaskHealth {
                    name,
                    detail: None,
                    state,
                    restarts: 0,
                    last_error: None,
                }
            });
        let mut page = String::new();
        write(&counts, &health, &mut page);
        assert_eq!(
            page,
            r#"# HELP orlop_task_up Whether all tasks of this name run.
# TYPE orlop_task_up gauge
orlop_task_up{task="feeder"} 0
orlop_task_up{task="watcher"} 1
# HELP orlop_task_restarts Restarts of tasks that failed.
# TYPE orlop_task_restarts counter
orlop_task_restarts_total{task="feeder"} 3
orlop_task_restarts_total{task="watcher"} 0
"#
        );
    }
}
