//! Measures what a user waits for: a cluster, its first pod, scaling; and the memory that the
//! cluster takes. Two test hosts measure times, one measures memory.
//!
//! `cargo xtask bench tests` needs root and kubectl. Concurrent builds distort the figures, so it
//! prints the load of the machine.

use std::time::{Duration, Instant};

use tests::{Cluster, Failure, ensure, eventually, machine};

const ROUNDS: usize = 3;
/// After the last change: caches are filled, start-up memory is given back.
const IDLE: Duration = Duration::from_secs(30);

fn main() -> Result<(), Failure> {
    // cargo passes flags of its own harness.
    if !nix::unistd::geteuid().is_root() || tests::kubectl_program().is_none() {
        println!("skipped: clusters need root and kubectl");
        return Ok(());
    }
    println!("load average at the start: {}", load());
    times()?;
    memory()?;
    println!("load average at the end: {}", load());
    Ok(())
}

fn load() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

fn times() -> Result<(), Failure> {
    let mut first_pod = Vec::new();
    let mut three = Vec::new();
    let mut fifty = Vec::new();
    for _ in 0..ROUNDS {
        let dir = tempfile::tempdir()?;
        let started = Instant::now();
        let cluster = Cluster::up(&dir.path().join("cluster"), 2, false)?;
        cluster.kubectl("create deployment web --image=registry.orlop.dev/pause:1")?;
        cluster.kubectl("wait deployment/web --for=condition=Available --timeout=60s")?;
        first_pod.push(started.elapsed());
        three.push(scale(&cluster, 3)?);
        fifty.push(scale(&cluster, 50)?);
        cluster.down()?;
    }
    print(
        "`xtask up --nodes 2`, built, to the first pod Ready",
        first_pod,
    );
    print("`kubectl scale` to rollout complete, 3 replicas", three);
    print("`kubectl scale` to rollout complete, 50 replicas", fifty);
    Ok(())
}

/// From no pod to `replicas` pods, until `kubectl rollout status` says so.
fn scale(cluster: &Cluster, replicas: usize) -> Result<Duration, Failure> {
    cluster.kubectl("scale deployment/web --replicas=0")?;
    eventually("the end of all pods", 60, || {
        let pods = cluster.get("pods")?;
        let left = pods["items"].as_array().map_or(0, Vec::len);
        ensure(left == 0, format!("{left} left"))
    })?;
    std::thread::sleep(Duration::from_secs(2));
    let started = Instant::now();
    cluster.kubectl(&format!("scale deployment/web --replicas={replicas}"))?;
    cluster.kubectl("rollout status deployment/web --timeout=120s")?;
    Ok(started.elapsed())
}

fn memory() -> Result<(), Failure> {
    let dir = tempfile::tempdir()?;
    let cluster = Cluster::up(&dir.path().join("cluster"), 1, false)?;
    std::thread::sleep(IDLE);
    for program in ["orlop server", "orlop node-agent"] {
        for pid in machine::processes_of(&cluster.dir, "node-1", &[program]) {
            let kib = machine::resident(pid).unwrap_or(0);
            println!(
                "{program}: resident, idle, one node: {} MB",
                kib * 1024 / 1_000_000
            );
        }
    }
    cluster.down()
}

fn print(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let seconds: Vec<String> = times
        .iter()
        .map(|time| format!("{:.2}", time.as_secs_f64()))
        .collect();
    println!(
        "{what}: median {} s of {}",
        seconds[seconds.len() / 2],
        seconds.join(", ")
    );
}
