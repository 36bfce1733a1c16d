//! Measures stopping and starting the agent with many pods.

use std::time::{Duration, Instant};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};
use serde_json::{Value, json};
use tests::{Failure, machine};

use super::{cost::load, subject::Subject, watching::names};

const ROUNDS: usize = 3;
const PATIENCE: Duration = Duration::from_secs(60);

/// Ends the agent by `SIGKILL` and `SIGTERM`, and looks until it knows all containers again.
pub async fn run(subject: &Subject, most: usize) -> Result<(), Failure> {
    let watching = subject.watching();
    let room = most.saturating_sub(subject.others().await?);
    let names = names("kept", room);
    // A part has a probe: what it says must not be forgotten.
    let (probed, plain) = names.split_at(room / 4);
    let probe = reachable(subject).await?;
    subject
        .make(probed, &json!({"readinessProbe": probe}))
        .await?;
    subject.make(plain, &json!({})).await?;
    watching.ready(&names).await?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    let before = watching.seen();
    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        for _ in 0..ROUNDS {
            let (down, up, cpu) = again(subject, signal, room).await?;
            println!(
                "restart beside {most} pods after {signal}: all known {:.2} s after its start, \
                 {cpu:.2} s of processor time; it was down for {:.2} s; load {}",
                up.as_secs_f64(),
                down.as_secs_f64(),
                load()
            );
            tokio::time::sleep(Duration::from_secs(8)).await;
        }
    }
    let after = watching.seen();
    let flips: usize = after.values().map(|pod| pod.flips).sum();
    let touched = after
        .iter()
        .filter(|(name, pod)| {
            before
                .get(*name)
                .is_none_or(|old| old.containers != pod.containers)
        })
        .count();
    let restarts: i32 = after.values().map(|pod| pod.restarts).sum();
    println!(
        "restarts of containers: {restarts}; pods with other containers: {touched}; times a pod was no longer ready: {flips}"
    );
    if flips > 0 || touched > 0 || restarts > 0 {
        return Err("pods noticed a restart of the agent".into());
    }
    subject.clear().await
}

/// A probe that succeeds whatever the image: the API server answers at its own address.
async fn reachable(subject: &Subject) -> Result<Value, Failure> {
    let path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes";
    let slice: Value = serde_json::from_str(&subject.get(path).await?)?;
    Ok(json!({"periodSeconds": 2, "tcpSocket": {
        "host": slice["endpoints"][0]["addresses"][0],
        "port": slice["ports"][0]["port"],
    }}))
}

/// How long the agent was away, and from its new start until it knows that the
/// containers run; with the processor time that it took for that.
async fn again(
    subject: &Subject,
    signal: Signal,
    containers: usize,
) -> Result<(Duration, Duration, f64), Failure> {
    let old = subject.agent()?;
    let ended = Instant::now();
    kill(Pid::from_raw(old), signal)?;
    let path = format!("/api/v1/nodes/{}/proxy/metrics", subject.node);
    while ended.elapsed() < PATIENCE {
        let new = subject.agent().ok().filter(|pid| *pid != old);
        if let (Some(new), Ok(text)) = (new, subject.get(&path).await)
            && running(&text) >= containers
        {
            let all = ended.elapsed();
            let lived = machine::uptime().zip(machine::started(new));
            let up = lived.map_or(all, |(now, start)| now.saturating_sub(start));
            let cpu = machine::processor_time(new).unwrap_or_default();
            return Ok((all.saturating_sub(up), up, cpu.as_secs_f64()));
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Err("the agent did not come back within a minute".into())
}

/// How many containers the kubelet's metrics say run.
fn running(metrics: &str) -> usize {
    let name = "kubelet_running_containers{container_state=\"running\"} ";
    let found = metrics.lines().find_map(|line| line.strip_prefix(name));
    found.and_then(|count| count.parse().ok()).unwrap_or(0)
}
