//! The server is gone: what runs goes on, and nothing is moved when it is back.

use std::time::Duration;

use tests::{Failure, ensure, eventually};

use crate::{Drill, SERVER, VICTIM, bounds::Bounds, host, timeline::now, workload::Workload};

pub fn run(drill: &Drill, bounds: &mut Bounds) -> Result<(), Failure> {
    let cluster = &drill.cluster;
    let workload = Workload::start(drill)?;
    let fault = now();
    let length = if drill.short { 20.0 } else { 300.0 };
    let held = host::hold(cluster, SERVER, "server")?;
    workload.pass(length);
    let returned = now();
    drop(held);
    eventually("an answer of the server", 30, || {
        cluster.kubectl("get --raw /readyz").map(drop)
    })?;
    bounds.within("return to an answer", Some(now() - returned), 5.0);
    cluster.kubectl("scale deployment/web --namespace drill --replicas=5")?;
    let scaled = workload
        .timeline
        .wait(returned, Duration::from_secs(60), |view| {
            view.ready_pods(SERVER) + view.ready_pods(VICTIM) == 5
        });
    bounds.within(
        "return to another pod ready",
        scaled.map(|at| at - returned),
        5.0,
    );
    // Longer than a lease that was not renewed meanwhile is waited for would be too long for
    // CI: the long form waits, since nodes may not be blamed for the server's absence.
    workload.pass(if drill.short { 5.0 } else { 60.0 });
    let timeline = &workload.timeline;
    for node in [SERVER, VICTIM] {
        let lost = timeline.first(returned, |view| view.node_ready(node) != "True");
        let what = format!("{node} stays Ready");
        bounds.holds_that(&what, lost.is_none(), format!("{lost:?}"));
    }
    let state = cluster.get("pods --namespace drill")?;
    let pods = state["items"].as_array().map_or(0, Vec::len);
    ensure(pods == 5, format!("{pods} pods"))?;
    workload.judge(bounds, "requests failed from first to last", fault);
    Ok(())
}
