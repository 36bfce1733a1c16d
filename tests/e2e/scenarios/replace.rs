//! A container that dies restarts; a pod that is deleted is replaced.

use std::{
    io::{BufRead, BufReader},
    process::Stdio,
};

use tests::{Cluster, Failure, ensure, eventually};

use super::IMAGE;

pub fn run(cluster: &Cluster) -> Result<(), Failure> {
    // Its one container ends by itself, at once: it restarts with back-off.
    cluster.kubectl(&format!(
        "run ender --image={IMAGE} --restart=Always -- echo 127.0.0.1:1 tcp x"
    ))?;
    eventually("a second restart", 60, || {
        let pod = cluster.get("pod ender")?;
        let status = &pod["status"]["containerStatuses"][0];
        ensure(
            status["restartCount"].as_u64().unwrap_or(0) >= 2,
            format!("{status}"),
        )
    })?;
    eventually("the back-off to show", 30, || {
        let table = cluster.kubectl("get pod ender")?;
        ensure(
            table.contains("CrashLoopBackOff") || table.contains("Error"),
            table,
        )
    })?;
    cluster.kubectl("delete pod ender --grace-period=1")?;

    cluster.kubectl(&format!("create deployment keeper --image={IMAGE}"))?;
    cluster.kubectl("rollout status deployment/keeper --timeout=60s")?;
    let mut watch = cluster
        .command("get pods -l app=keeper -w -o name")
        .stdout(Stdio::piped())
        .spawn()?;
    let pods = cluster.get("pods -l app=keeper")?;
    let first = pods["items"][0]["metadata"]["name"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    cluster.kubectl(&format!("delete pod {first}"))?;
    let result = eventually("another pod in its place", 60, || {
        let pods = cluster.get("pods -l app=keeper")?;
        let items = pods["items"].as_array().cloned().unwrap_or_default();
        ensure(
            items.len() == 1
                && items[0]["metadata"]["name"] != first.as_str()
                && items[0]["status"]["phase"] == "Running",
            format!("{} pods", items.len()),
        )
    });
    let _ = watch.kill();
    let seen = watch.stdout.take().map_or(0, |out| {
        BufReader::new(out)
            .lines()
            .map_while(Result::ok)
            .collect::<std::collections::BTreeSet<_>>()
            .len()
    });
    let _ = watch.wait();
    result?;
    ensure(seen == 2, format!("`get -w` showed {seen} pods, not both"))?;
    cluster.kubectl("delete deployment keeper").map(drop)
}
