//! The container runtime hangs: what runs goes on, and what was asked for comes afterwards.

use std::time::Duration;

use tests::Failure;

use crate::{Drill, SERVER, VICTIM, bounds::Bounds, host, timeline::now, workload::Workload};

pub fn run(drill: &Drill, bounds: &mut Bounds) -> Result<(), Failure> {
    let cluster = &drill.cluster;
    let workload = Workload::start(drill)?;
    let fault = now();
    let frozen = host::freeze(cluster, VICTIM, "containerd")?;
    cluster.kubectl(&format!("cordon {SERVER}"))?;
    let asked = cluster.kubectl("scale deployment/web --namespace drill --replicas=5");
    workload.pass(if drill.short { 20.0 } else { 120.0 });
    let returned = now();
    drop(frozen);
    let timeline = &workload.timeline;
    let come = timeline.wait(returned, Duration::from_secs(90), |view| {
        view.ready_pods(VICTIM) == 3
    });
    cluster.kubectl(&format!("uncordon {SERVER}"))?;
    asked?;
    bounds.within(
        "return to the pod that was asked for",
        come.map(|at| at - returned),
        30.0,
    );
    let restarted = timeline.first(fault, |view| view.restarts(VICTIM) > 0);
    bounds.holds_that(
        "no container is restarted",
        restarted.is_none(),
        format!("{restarted:?}"),
    );
    let ready = timeline.wait(returned, Duration::from_secs(60), |view| {
        view.node_ready(VICTIM) == "True"
    });
    bounds.within("return to Ready", ready.map(|at| at - returned), 30.0);
    bounds.at_most(
        "requests failed from first to last",
        workload.failed(fault, now()),
        0,
    );
    Ok(())
}
