//! How the control plane takes a node that nobody hears of, whatever the reason.

use std::time::Duration;

use crate::{
    SERVER, VICTIM,
    bounds::Bounds,
    timeline::View,
    workload::{TOLERATED, Workload},
};

/// Stock's node monitor grace period, plus the time for a write and a watch.
const GRACE: f64 = 50.0 + 0.5;
const TAINT: &str = "node.kubernetes.io/unreachable";

/// Waits for what must happen to a node that was silent from `fault` on, and holds it
/// against stock's bounds.
pub fn is_noticed(workload: &Workload, bounds: &mut Bounds, fault: f64) {
    let timeline = &workload.timeline;
    let wait = |seconds: u64, holds: &dyn Fn(&View<'_>) -> bool| {
        timeline.wait(fault, Duration::from_secs(seconds), holds)
    };
    let noticed = wait(90, &|view| view.node_ready(VICTIM) == "Unknown");
    let lease = timeline.last_renewal(VICTIM, fault);
    let since = |at: Option<f64>, start: Option<f64>| Some(at? - start?);
    bounds.within("last lease to NotReady", since(noticed, lease), GRACE);
    let Some(noticed) = noticed else { return };

    let out = wait(15, &|view| view.endpoints(VICTIM) == 0);
    bounds.within("NotReady to endpoints out", since(out, Some(noticed)), 1.0);
    let closed = wait(15, &|view| view.tainted(VICTIM, TAINT, "NoSchedule"));
    bounds.within(
        "NotReady to taint NoSchedule",
        since(closed, Some(noticed)),
        1.0,
    );
    let tainted = wait(15, &|view| view.tainted(VICTIM, TAINT, "NoExecute"));
    bounds.within(
        "NotReady to taint NoExecute",
        since(tainted, Some(noticed)),
        5.0,
    );
    let evicted = wait(30, &|view| {
        let mut pods = view.pods(VICTIM).into_iter();
        pods.all(|pod| !pod["metadata"]["deletionTimestamp"].is_null())
    });
    let bound = f64::from(TOLERATED) + 2.0;
    bounds.within(
        "taint NoExecute to pods evicted",
        since(evicted, tainted),
        bound,
    );
    let replaced = wait(60, &|view| view.ready_pods(SERVER) >= 4);
    bounds.within(
        "evicted to replacements ready",
        since(replaced, evicted),
        15.0,
    );

    // A moment for the endpoints to reach the datapath, then nobody may notice anything.
    let from = out.unwrap_or(noticed) + 1.0;
    workload.pass((from + 5.0 - crate::timeline::now()).max(0.0));
    let share = workload.share(fault, from);
    bounds.note("requests failed until the endpoints were out", share);
    let failed = workload.failed(from, from + 5.0);
    bounds.at_most("requests failed from 1 s after that", failed, 0);
}

/// Waits until the node is back and has nothing left of what it was told to give up.
pub fn returns(workload: &Workload, bounds: &mut Bounds, returned: f64, bound: f64) {
    let timeline = &workload.timeline;
    let wait = |holds: &dyn Fn(&View<'_>) -> bool| {
        let found = timeline.wait(returned, Duration::from_secs(120), holds);
        found.map(|at| at - returned)
    };
    let ready = wait(&|view| view.node_ready(VICTIM) == "True");
    bounds.within("return to Ready", ready, bound);
    bounds.within(
        "return to no taint",
        wait(&|view| !view.has_taints(VICTIM)),
        bound + 2.0,
    );
    let gone = wait(&|view| view.pods(VICTIM).is_empty());
    bounds.within("return to evicted pods gone", gone, bound + 20.0);
}
