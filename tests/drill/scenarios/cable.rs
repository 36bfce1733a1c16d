//! A node's cable is pulled out and put in again.

use tests::{Failure, eventually};

use super::unreachable;
use crate::{Drill, VICTIM, bounds::Bounds, host::Outage, timeline::now, workload::Workload};

/// For 30 s: less than the control plane waits, so nothing is moved.
pub fn blip(drill: &Drill, bounds: &mut Bounds) -> Result<(), Failure> {
    let workload = Workload::start(drill)?;
    let fault = now();
    let outage = Outage::cable(&drill.cluster, VICTIM)?;
    workload.pass(30.0);
    let returned = now();
    outage.end()?;
    workload.pass(15.0);
    let timeline = &workload.timeline;
    let noticed = timeline.first(fault, |view| view.node_ready(VICTIM) != "True");
    bounds.holds_that(
        "the node stays Ready",
        noticed.is_none(),
        format!("{noticed:?}"),
    );
    let moved = timeline.first(fault, |view| view.pods(VICTIM).len() != 2);
    bounds.holds_that("no pod is moved", moved.is_none(), format!("{moved:?}"));
    bounds.note("requests failed meanwhile", workload.share(fault, returned));
    let last = workload.last_failure(fault, now());
    let last = last.map_or(0.0, |last| (last - returned).max(0.0));
    bounds.within("return to the last failed request", Some(last), 5.0);
    let renewed = eventually("a renewed lease", 20, || {
        let renewal = timeline.last_renewal(VICTIM, f64::MAX);
        let renewal = renewal.filter(|renewal| *renewal > returned);
        renewal.ok_or_else(|| "it is as old as the fault".into())
    })?;
    bounds.within("return to a renewed lease", Some(renewed - returned), 15.0);
    Ok(())
}

/// For ten minutes: pods are moved, and come to an end when the node is back.
pub fn outage(drill: &Drill, bounds: &mut Bounds) -> Result<(), Failure> {
    let workload = Workload::start(drill)?;
    let fault = now();
    let length = if drill.short { 80.0 } else { 600.0 };
    let outage = Outage::cable(&drill.cluster, VICTIM)?;
    unreachable::is_noticed(&workload, bounds, fault);
    workload.pass((fault + length - now()).max(0.0));
    let returned = now();
    outage.end()?;
    unreachable::returns(&workload, bounds, returned, 20.0);
    workload.judge(bounds, "requests failed while it came back", returned);
    Ok(())
}
