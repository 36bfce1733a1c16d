//! Three servers and a node are upgraded and rolled back under load, machine by machine, as
//! `docs/how-to/upgrade.md` says. The scenario brings a cluster of its own up.
//!
//! `ORLOP_PREVIOUS` names the binary of the previous release, which `cargo xtask test --previous`
//! builds; without it, both binaries are of this build.

use std::{
    fs,
    io::Write as _,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::Instant,
};

use serde_json::Value;
use tests::{Cluster, Failure, ensure, eventually, load::Load, machine, node_programs};

use super::IMAGE;

const SERVERS: [&str; 3] = ["server-1", "server-2", "server-3"];
const NODE: &str = "node-1";
/// Clients of the API.
const CLIENTS: usize = 4;
/// Connections that a pod holds to a Service.
const HELD: usize = 50;
/// Longer than the scenario takes, in seconds.
const SCENARIO: u32 = 900;
/// How often a client may try. The machine of a test run is shared: the bound is wider than what is
/// promised, two attempts, and what was measured is printed.
const ATTEMPTS: usize = 5;

/// Ends the programs of a host whose command line begins with its argument; the host starts them
/// again.
const RESTART: &str = r#"#!/bin/sh
for process in /proc/[0-9]*; do
  line=$(tr '\0' ' ' < "$process/cmdline" 2>/dev/null)
  case "$line" in "$1"*) kill "${process#/proc/}";; esac
done
exit 0
"#;

/// Where a host has its own programs.
const PROGRAMS: &str = "programs";

pub fn run(_: &Cluster) -> Result<(), Failure> {
    let dir = tempfile::tempdir()?;
    let options = ["--no-demo", "--servers", "3"];
    let cluster = Cluster::up_with(&dir.path().join("upgrade"), 1, &options)?;
    let result = scenario(&cluster);
    cluster.down()?;
    result
}

fn scenario(cluster: &Cluster) -> Result<(), Failure> {
    let previous = std::env::var_os("ORLOP_PREVIOUS").map(PathBuf::from);
    match &previous {
        Some(path) => println!("    from {}", path.display()),
        None => println!("    from another copy of this build"),
    }
    let built = node_programs().join("orlop");
    let previous = previous.unwrap_or_else(|| built.clone());
    for host in SERVERS.into_iter().chain([NODE]) {
        install(cluster, host, &previous, &built)?;
    }
    cluster.members_are_well("server-1", 3)?;
    let everyone = [("all servers".to_owned(), cluster.kubeconfig())];
    let mut load = Load::start(&everyone, "load")?;
    hold_connections(cluster)?;
    let round = load.begin(CLIENTS)?;

    for server in SERVERS {
        upgrade_server(cluster, server)?;
    }
    upgrade_node(cluster)?;
    runs_new(cluster, true)?;

    // Nodes go back before servers.
    roll_back(cluster, NODE)?;
    for server in SERVERS {
        roll_back(cluster, server)?;
    }
    runs_new(cluster, false)?;

    for server in SERVERS {
        upgrade_server(cluster, server)?;
    }
    upgrade_node(cluster)?;
    runs_new(cluster, true)?;
    for server in SERVERS {
        let said = cluster.on_server(server, &["upgrade", "finish"])?;
        println!("    {server}: {}", said.trim().replace('\n', ", "));
    }
    cluster.on_host(
        NODE,
        &["orlop", "upgrade", "finish", "--node", "--binary", BINARY],
    )?;

    let outcome = load.end(round)?;
    println!(
        "    {} operations, of at most {} attempts: p50 {:?}, p99 {:?}, longest {:?}",
        outcome.operations(),
        outcome.most_attempts(),
        outcome.percentile(50),
        outcome.percentile(99),
        outcome.percentile(100),
    );
    no_connection_was_lost(cluster)?;
    outcome.check_history()?;
    outcome.check_watches()?;
    ensure(
        outcome.most_attempts() <= ATTEMPTS,
        format!("a client tried {} times", outcome.most_attempts()),
    )
}

/// The installed binary, as seen on a host.
const BINARY: &str = "/mnt/bin/orlop";

/// Gives a host programs of its own, with `previous` as the installed binary and a new one beside
/// it, and restarts it.
fn install(cluster: &Cluster, host: &str, previous: &Path, built: &Path) -> Result<(), Failure> {
    cluster.host("stop", host)?;
    let folder = cluster.dir.join("nodes").join(host);
    let programs = folder.join(PROGRAMS);
    fs::create_dir(&programs)?;
    for entry in fs::read_dir(node_programs())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default();
        if path.is_file() && name != "orlop" {
            symlink(&path, programs.join(name))?;
        }
    }
    fs::copy(previous, programs.join("orlop"))?;
    let new = folder.join("orlop-new");
    fs::copy(built, &new)?;
    // It is another file, also if both binaries are of the same build.
    fs::File::options()
        .append(true)
        .open(&new)?
        .write_all(b"another build")?;
    fs::write(folder.join("restart"), RESTART)?;
    let path = folder.join("host.json");
    let mut description: Value = serde_json::from_slice(&fs::read(&path)?)?;
    for bind in description["binds"].as_array_mut().into_iter().flatten() {
        if bind[0] == "bin" {
            bind[1] = programs.display().to_string().into();
        }
    }
    fs::write(&path, serde_json::to_vec_pretty(&description)?)?;
    cluster.host("start", host)
}

/// A pod that holds connections to a Service, and makes new ones all the while.
fn hold_connections(cluster: &Cluster) -> Result<(), Failure> {
    eventually("the node", 60, || {
        let node = cluster.get(&format!("node {NODE}"))?["status"]["conditions"].to_string();
        ensure(node.contains("KubeletReady"), node)
    })?;
    cluster.kubectl(&format!(
        "create deployment echo --image={IMAGE} --replicas=2"
    ))?;
    cluster.kubectl("expose deployment echo --port=7777")?;
    cluster.kubectl("rollout status deployment/echo --timeout=120s")?;
    let address = cluster.get("service echo")?["spec"]["clusterIP"].clone();
    let address = address.as_str().unwrap_or_default();
    cluster.kubectl_with(
        "apply -f -",
        &format!(
            "apiVersion: v1
kind: Pod
metadata: {{name: holder}}
spec:
  restartPolicy: Never
  containers:
  - {{name: holder, image: {IMAGE}, args: [connect, '{address}:7777', '{HELD}', '{SCENARIO}']}}
"
        ),
    )?;
    eventually("the connections", 60, || {
        let log = cluster.kubectl("logs holder")?;
        ensure(log.contains(&format!("held {HELD} lost 0")), log)
    })
}

fn no_connection_was_lost(cluster: &Cluster) -> Result<(), Failure> {
    let log = cluster.kubectl("logs holder")?;
    let last = log.lines().last().unwrap_or_default();
    println!("    connections: {last}");
    ensure(
        last.starts_with(&format!("held {HELD} lost 0 made ")) && last.ends_with(" failed 0"),
        log.lines()
            .filter(|line| !line.starts_with("held"))
            .collect::<Vec<_>>()
            .join("\n"),
    )
}

fn upgrade_server(cluster: &Cluster, server: &str) -> Result<(), Failure> {
    let began = Instant::now();
    let apply = [
        "upgrade",
        "apply",
        "--to",
        "/mnt/orlop-new",
        "--restart",
        "sh /mnt/restart '/mnt/bin/orlop server'",
        "--backup-to",
        "/mnt/backups",
        "--backup-plain",
    ];
    let said = cluster.on_server(server, &apply)?;
    let last = said.lines().last().unwrap_or_default();
    println!("    {server} after {:.1?}: {last}", began.elapsed());
    ensure(last.contains("ready after"), said.clone())
}

fn upgrade_node(cluster: &Cluster) -> Result<(), Failure> {
    let began = Instant::now();
    let apply = [
        "orlop",
        "upgrade",
        "apply",
        "--node",
        "--to",
        "/mnt/orlop-new",
        "--binary",
        BINARY,
        "--restart",
        "sh /mnt/restart '/mnt/bin/orlop node-agent'",
        "--kubeconfig",
        "/mnt/credentials/kubeconfig",
    ];
    let said = cluster.on_host(NODE, &apply)?;
    let last = said.lines().last().unwrap_or_default();
    println!("    {NODE} after {:.1?}: {last}", began.elapsed());
    let (kept, all) = last
        .split_once(" of ")
        .ok_or_else(|| format!("no count of containers: {said}"))?;
    ensure(
        kept != "0" && all.split(' ').next() == Some(kept),
        format!("containers were restarted: {said}"),
    )
}

fn roll_back(cluster: &Cluster, host: &str) -> Result<(), Failure> {
    let began = Instant::now();
    if host == NODE {
        let rollback = [
            "orlop",
            "upgrade",
            "rollback",
            "--node",
            "--binary",
            BINARY,
            "--restart",
            "sh /mnt/restart '/mnt/bin/orlop node-agent'",
            "--kubeconfig",
            "/mnt/credentials/kubeconfig",
        ];
        cluster.on_host(host, &rollback)?;
    } else {
        let restart = "sh /mnt/restart '/mnt/bin/orlop server'";
        cluster.on_server(host, &["upgrade", "rollback", "--restart", restart])?;
    }
    println!("    {host} is back after {:.1?}", began.elapsed());
    Ok(())
}

/// Every program of the hosts runs from the new binary, or from the previous one.
fn runs_new(cluster: &Cluster, is_new: bool) -> Result<(), Failure> {
    let size = |path: &Path| fs::metadata(path).map(|file| file.len());
    for host in SERVERS.into_iter().chain([NODE]) {
        let new = size(&cluster.dir.join("nodes").join(host).join("orlop-new"))?;
        eventually(&format!("the right binary on {host}"), 30, || {
            let running = machine::processes_of(&cluster.dir, host, &[BINARY]);
            ensure(!running.is_empty(), "no program runs")?;
            for pid in running {
                let is = size(Path::new(&format!("/proc/{pid}/exe")))? == new;
                ensure(is == is_new, format!("process {pid} runs the other binary"))?;
            }
            Ok(())
        })?;
    }
    Ok(())
}
