//! Everything at once: no server, no power at one node, and the other node's agent killed.

use std::time::Duration;

use tests::Failure;

use crate::{
    Drill, SERVER, VICTIM,
    bounds::Bounds,
    host::{self, Outage},
    timeline::now,
    workload::Workload,
};

pub fn run(drill: &Drill, bounds: &mut Bounds) -> Result<(), Failure> {
    let cluster = &drill.cluster;
    let workload = Workload::start(drill)?;
    let fault = now();
    let held = host::hold(cluster, SERVER, "server")?;
    let outage = Outage::power(cluster, VICTIM)?;
    host::restart(cluster, SERVER, "node-agent")?;
    workload.pass(if drill.short { 15.0 } else { 120.0 });
    let returned = now();
    drop(held);
    outage.end()?;
    let timeline = &workload.timeline;
    let patience = Duration::from_secs(180);
    // The watches bring what they knew before until the server answers again.
    let whole = timeline.wait(returned + 1.0, patience, |view| {
        let ready = [SERVER, VICTIM].map(|node| view.node_ready(node) == "True");
        let tainted = view.has_taints(SERVER) || view.has_taints(VICTIM);
        ready == [true, true]
            && !tainted
            && view.restarts(VICTIM) >= 2
            && view.ready_pods(SERVER) + view.ready_pods(VICTIM) == 4
            && view.endpoints(SERVER) + view.endpoints(VICTIM) == 4
    });
    bounds.within(
        "return to everything as it was",
        whole.map(|at| at - returned),
        60.0,
    );
    bounds.note("requests failed meanwhile", workload.share(fault, returned));
    let from = whole.unwrap_or(returned) + 1.0;
    workload.pass((from + 5.0 - now()).max(0.0));
    workload.judge(bounds, "requests failed from 1 s after", from);
    Ok(())
}
