//! Tasks' health in OpenMetrics form.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::{Counts, State, TaskHealth};

/// Names are words of the source: they need no escapes.
pub(crate) fn write(
    counts: &BTreeMap<&'static str, Counts>,
    health: &[TaskHealth],
    out: &mut String,
) {
    out.push_str("# HELP orlop_task_up Whether all tasks of this name run.\n");
    out.push_str("# TYPE orlop_task_up gauge\n");
    for name in counts.keys() {
        let down = health
            .iter()
            .any(|task| task.name == *name && task.state != State::Running);
        let _ = writeln!(out, "orlop_task_up{{task=\"{name}\"}} {}", u8::from(!down));
    }
    out.push_str("# HELP orlop_task_restarts Restarts of tasks that failed.\n");
    out.push_str("# TYPE orlop_task_restarts counter\n");
    for (name, counts) in counts {
        let restarts = counts.restarts;
        let _ = writeln!(
            out,
            "orlop_task_restarts_total{{task=\"{name}\"}} {restarts}"
        );
    }
}
