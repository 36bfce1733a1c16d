//! What priority and fairness is doing, for people:
//! `/debug/api_priority_and_fairness/dump_*`, in kube-apiserver's columns.

use std::time::Duration;

use control_fairness::RequestView;
use http::Response;

use crate::fairness::{Fairness, Rules, Ticket, now};
use crate::level::Level;
use control_registry::reply;
use control_request::body::Body;

/// Columns are at least this wide.
const NARROWEST: usize = 8;

impl Fairness {
    /// Returns the page of a path, if it is one of these.
    #[must_use]
    pub fn dump(&self, path: &str, query: Option<&str>) -> Option<Response<Body>> {
        let what = path.strip_prefix("/debug/api_priority_and_fairness/")?;
        let rules = self.rules.load();
        let rows = match what {
            "dump_priority_levels" => levels(&rules),
            "dump_queues" => queues(&rules),
            "dump_requests" => {
                let detailed = control_request::pairs(query.unwrap_or_default())
                    .any(|(key, value)| key == "includeRequestDetails" && !value.is_empty());
                requests(&rules, detailed)
            }
            _ => return None,
        };
        Some(reply::text(200, table(&rows)))
    }
}

fn sorted(rules: &Rules) -> Vec<(String, &Level)> {
    let mut levels: Vec<_> = rules
        .levels
        .iter()
        .map(|level| (level.spec.load().name.clone(), &**level))
        .collect();
    levels.sort_by(|(a, _), (b, _)| a.cmp(b));
    levels
}

fn head(columns: &[&str]) -> Vec<String> {
    columns.iter().map(|&column| column.to_owned()).collect()
}

fn levels(rules: &Rules) -> Vec<Vec<String>> {
    let mut rows = vec![head(&[
        "PriorityLevelName",
        "ActiveQueues",
        "IsIdle",
        "IsQuiescing",
        "WaitingRequests",
        "ExecutingRequests",
        "DispatchedRequests",
        "RejectedRequests",
        "TimedoutRequests",
        "CancelledRequests",
    ])];
    for (name, level) in sorted(rules) {
        let leaves = level.share().leaves;
        let set = level.lock();
        let totals = set.totals();
        rows.push(vec![
            name,
            set.queues()
                .filter(|queue| queue.waiting > 0)
                .count()
                .to_string(),
            set.is_idle().to_string(),
            leaves.to_string(),
            totals.waiting.to_string(),
            totals.executing.to_string(),
            totals.dispatched.to_string(),
            totals.rejected.to_string(),
            "0".to_owned(),
            totals.cancelled.to_string(),
        ]);
    }
    rows
}

fn queues(rules: &Rules) -> Vec<Vec<String>> {
    let mut rows = vec![head(&[
        "PriorityLevelName",
        "Index",
        "PendingRequests",
        "ExecutingRequests",
        "SeatsInUse",
        "NextDispatchR",
        "InitialSeatsSum",
        "MaxSeatsSum",
        "TotalWorkSum",
    ])];
    for (name, level) in sorted(rules) {
        for (index, queue) in level.lock().queues().enumerate() {
            rows.push(vec![
                name.clone(),
                index.to_string(),
                queue.waiting.to_string(),
                queue.executing.to_string(),
                queue.seats_in_use.to_string(),
                queue.next.to_string(),
                queue.initial.to_string(),
                queue.most.to_string(),
                queue.work.to_string(),
            ]);
        }
    }
    rows
}

fn requests(rules: &Rules, detailed: bool) -> Vec<Vec<String>> {
    let mut columns = head(&[
        "PriorityLevelName",
        "FlowSchemaName",
        "QueueIndex",
        "RequestIndexInQueue",
        "FlowDistingsher",
        "ArriveTime",
        "InitialSeats",
        "FinalSeats",
        "AdditionalLatency",
        "StartTime",
    ]);
    if detailed {
        columns.extend(head(&[
            "UserName",
            "Verb",
            "APIPath",
            "Namespace",
            "Name",
            "APIVersion",
            "Resource",
            "SubResource",
        ]));
    }
    let mut rows = vec![columns];
    for (name, level) in sorted(rules) {
        let set = level.lock();
        rows.extend(set.requests().map(|view| row(&name, &view, detailed)));
    }
    rows
}

fn row(level: &str, view: &RequestView<'_, Ticket>, detailed: bool) -> Vec<String> {
    let index = |index: Option<usize>| index.map_or_else(|| "-1".to_owned(), |at| at.to_string());
    let mut row = vec![
        level.to_owned(),
        view.schema.to_owned(),
        index(view.queue),
        index(view.position),
        view.flow.to_owned(),
        timestamp(Some(view.arrived)),
        view.estimate.seats.to_string(),
        view.estimate.last.to_string(),
        seconds(view.estimate.lingering),
        timestamp(view.began),
    ];
    if detailed {
        let Ticket { info, user, .. } = view.waiter;
        let version = if info.group.is_empty() {
            info.version.clone()
        } else {
            format!("{}/{}", info.group, info.version)
        };
        row.extend([
            user.to_string(),
            info.verb.to_owned(),
            info.path.clone(),
            info.namespace.clone(),
            info.name.clone(),
            version,
            info.resource.clone(),
            info.subresource.clone(),
        ]);
    }
    row
}

/// A moment; the zero one of Go for what has not come.
fn timestamp(at: Option<Duration>) -> String {
    let Some(at) = at else {
        return "0001-01-01T00:00:00Z".to_owned();
    };
    let ago = now().saturating_sub(at);
    (jiff::Timestamp::now() - ago).to_string()
}

/// As Go writes short durations.
fn seconds(time: Duration) -> String {
    if time.is_zero() {
        "0s".to_owned()
    } else {
        format!("{time:?}")
    }
}

/// Columns with a comma behind each but the last, as wide as the widest.
fn table(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at));
        // A comma and a space behind.
        let widest = cells.map(|cell| cell.chars().count() + 2).max();
        widest.unwrap_or(0).max(NARROWEST)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut out = String::new();
    for row in rows {
        for (at, cell) in row.iter().enumerate() {
            out.push_str(cell);
            if at + 1 < row.len() {
                let used = cell.chars().count() + 1;
                out.push(',');
                out.extend(std::iter::repeat_n(' ', widths[at] - used));
            }
        }
        out.push('\n');
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [head(&["Name", "A", "B"]), head(&["somebody", "1", "2"])];
        assert_eq!(table(&rows), "Name,     A,      B\nsomebody, 1,      2\n");
    }

    #[test]
    fn levels_of_a_fresh_server_are_shown() {
        let rules = crate::follow::mandatory(600);
        let rows = levels(&rules);
        assert_eq!(rows.len(), 3);
        assert_eq!(rows[1][0], "catch-all");
        assert_eq!(&rows[1][1..4], ["0", "true", "false"]);
    }
}
