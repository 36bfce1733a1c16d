//! kill -9 of the server, the agent and containerd, in the middle of a rollout:
//! the cluster converges, and traffic of running pods never stops.

use std::{
    process::Stdio,
    time::{Duration, Instant},
};

use tests::{Cluster, Failure, ensure, eventually, machine};

use super::IMAGE;
use super::node::AGENT;

const SERVER: &[&str] = &["orlop", "server", "--data-dir"];
const CONTAINERD: &[&str] = &["containerd --config"];

pub fn run(cluster: &Cluster) -> Result<(), Failure> {
    cluster.kubectl(&format!(
        "create deployment steady --image={IMAGE} --replicas=2"
    ))?;
    cluster.kubectl("expose deployment steady --port=80 --target-port=8080")?;
    cluster.kubectl("rollout status deployment/steady --timeout=60s")?;
    let address = cluster.get("service steady")?["spec"]["clusterIP"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    // Asks the Service all the while from a pod, and must never fail.
    cluster.kubectl_with(
        "apply -f -",
        &format!(
            "apiVersion: v1
kind: Pod
metadata: {{name: asker}}
spec:
  restartPolicy: Never
  containers:
  - {{name: asker, image: {IMAGE}, args: [watch, '{address}:80', '40']}}
"
        ),
    )?;
    cluster.kubectl("wait pod/asker --for=condition=Ready --timeout=60s")?;
    let before = restarts(cluster, "steady")?;

    for (round, (program, node)) in [
        (SERVER, "node-1"),
        (AGENT, "node-1"),
        (CONTAINERD, "node-2"),
        (AGENT, "node-2"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("burst-{round}");
        let mut create = cluster
            .command(&format!(
                "create deployment {name} --image={IMAGE} --replicas=4"
            ))
            .stdout(Stdio::null())
            .spawn()?;
        create.wait()?;
        std::thread::sleep(Duration::from_millis(150));
        let hit = machine::kill_program(&cluster.dir, node, program);
        ensure(hit >= 1, format!("no process {program:?} on {node}"))?;
        let started = Instant::now();
        eventually(
            &format!("convergence after kill -9 of {program:?}"),
            90,
            || {
                let deployment = cluster.get(&format!("deployment {name}"))?;
                ensure(
                    deployment["status"]["availableReplicas"] == 4,
                    deployment["status"].to_string(),
                )
            },
        )?;
        println!(
            "    {} on {node}: converged after {:.1} s",
            program.join(" "),
            started.elapsed().as_secs_f64()
        );
    }
    let after = restarts(cluster, "steady")?;
    ensure(
        before == after,
        format!("containers were restarted: {before:?} before, {after:?} after"),
    )?;
    eventually("the asker's end", 60, || {
        let pod = cluster.get("pod asker")?;
        let phase = pod["status"]["phase"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        ensure(phase == "Succeeded" || phase == "Failed", phase)
    })?;
    let log = cluster.kubectl("logs asker")?;
    ensure(
        log.lines()
            .last()
            .is_some_and(|line| line.ends_with(" 0 failed")),
        format!("traffic stopped: {log}"),
    )?;
    println!("    asker: {}", log.lines().last().unwrap_or_default());
    for round in 0..4 {
        cluster.kubectl(&format!("delete deployment burst-{round} --wait=false"))?;
    }
    cluster.kubectl("delete deployment/steady service/steady pod/asker --wait=true")?;
    Ok(())
}

/// Container ids and restart counts of an app's pods.
fn restarts(cluster: &Cluster, app: &str) -> Result<Vec<String>, Failure> {
    let pods = cluster.get(&format!("pods -l app={app}"))?;
    let mut found: Vec<String> = pods["items"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|pod| {
            let status = &pod["status"]["containerStatuses"][0];
            format!("{} {}", status["containerID"], status["restartCount"])
        })
        .collect();
    found.sort();
    Ok(found)
}
