//! The container runtime hangs: the node says that it is not ready, as a kubelet does after 30 s,
//! and takes no pods; what runs goes on, and what was asked for comes afterwards.

use std::time::Duration;

use tests::Failure;

use crate::{
    Drill, SERVER, VICTIM,
    bounds::Bounds,
    host::{self, Cordon},
    timeline::{View, now},
    workload::{USUALLY_TOLERATED, Workload},
};

/// How long a hang may be to go unnoticed: stock's patience with a runtime is 30 s.
const UNNOTICED: f64 = 20.0;
/// That patience, plus the time to the kubelet's next status and its write.
const NOTICED: f64 = 30.0 + 10.0 + 1.0;

pub fn run(drill: &Drill, bounds: &mut Bounds) -> Result<(), Failure> {
    let cluster = &drill.cluster;
    let workload = Workload::start_tolerating(drill, USUALLY_TOLERATED)?;
    let timeline = &workload.timeline;
    let fault = now();
    let frozen = host::freeze(cluster, VICTIM, "containerd")?;
    let cordon = Cordon::put(cluster, SERVER)?;
    cluster.kubectl("scale deployment/web --namespace drill --replicas=5")?;
    if drill.short {
        workload.pass(UNNOTICED);
        let lost = timeline.first(fault, |view| view.node_ready(VICTIM) != "True");
        bounds.holds_that("the node stays Ready", lost.is_none(), format!("{lost:?}"));
    } else {
        let noticed = timeline.wait(fault, Duration::from_secs(90), |view| {
            view.node_ready(VICTIM) == "False"
        });
        bounds.within("hang to NotReady", noticed.map(|at| at - fault), NOTICED);
        workload.pass((fault + 120.0 - now()).max(0.0));
    }
    // The agent lives and asks the pods itself: they are as ready as before.
    let out = timeline.first(fault, |view| view.endpoints(VICTIM) < 2);
    bounds.holds_that("the endpoints stay", out.is_none(), format!("{out:?}"));
    let returned = now();
    drop(frozen);
    let wait = |holds: &dyn Fn(&View<'_>) -> bool| {
        let at = timeline.wait(returned, Duration::from_secs(90), holds);
        at.map(|at| at - returned)
    };
    let ready = wait(&|view| view.node_ready(VICTIM) == "True");
    bounds.within("return to Ready", ready, 30.0);
    let asked_for = wait(&|view| view.ready_pods(VICTIM) == 3);
    bounds.within("return to the pod that was asked for", asked_for, 30.0);
    let serving = wait(&|view| view.endpoints(VICTIM) == 3);
    bounds.within("return to endpoints in", serving, 31.0);
    drop(cordon);
    let restarted = timeline.first(fault, |view| view.restarts(VICTIM) > 0);
    bounds.holds_that(
        "no container is restarted",
        restarted.is_none(),
        format!("{restarted:?}"),
    );
    let moved = timeline.first(fault, |view| {
        let mut pods = view.pods(VICTIM).into_iter();
        pods.any(|pod| !pod["metadata"]["deletionTimestamp"].is_null())
    });
    bounds.holds_that("no pod is evicted", moved.is_none(), format!("{moved:?}"));
    workload.judge(bounds, "requests failed from first to last", fault);
    Ok(())
}
