//! The agent is gone while its pods crash: it finds them ended, and starts them again.

use std::time::Duration;

use tests::Failure;

use crate::{Drill, VICTIM, bounds::Bounds, host, timeline::now, workload::Workload};

pub fn run(drill: &Drill, bounds: &mut Bounds) -> Result<(), Failure> {
    let cluster = &drill.cluster;
    let workload = Workload::start(drill)?;
    let fault = now();
    let held = host::hold(cluster, VICTIM, "node-agent")?;
    workload.pass(3.0);
    let crashed = now();
    bounds.at_most(
        "requests failed without the agent",
        workload.failed(fault, crashed),
        0,
    );
    let hit = host::crash_pods(cluster, VICTIM)?;
    bounds.note("containers killed", hit.to_string());
    workload.pass(10.0);
    let returned = now();
    drop(held);
    let timeline = &workload.timeline;
    let patience = Duration::from_secs(60);
    let restarted = timeline.wait(returned, patience, |view| view.restarts(VICTIM) >= 2);
    let restarted = restarted.map(|at| at - returned);
    bounds.within("return to containers started again", restarted, 10.0);
    let serving = timeline.wait(returned + restarted.unwrap_or(0.0), patience, |view| {
        view.endpoints(VICTIM) == 2
    });
    bounds.within(
        "return to endpoints in",
        serving.map(|at| at - returned),
        15.0,
    );
    bounds.note(
        "requests failed meanwhile",
        workload.share(crashed, returned),
    );
    let from = serving.unwrap_or(returned) + 1.0;
    workload.pass((from + 3.0 - now()).max(0.0));
    workload.judge(bounds, "requests failed from 1 s after", from);
    Ok(())
}
