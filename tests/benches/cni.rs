//! Measures the duration of ADD and DEL of the CNI plugin, one pod after the other and a hundred
//! at once, and of the standard plugins `bridge` and `host-local` on the same node.
//!
//! `cargo bench -p tests --bench cni` uses the built programs, or those in `$ORLOP_PROGRAMS`. The
//! node has the real agent, and the pods are objects of the real API. This program attaches the
//! pods instead of the runtime: the node does not start them, because they wait for a volume. Each
//! call starts the plugin anew, as runtimes do, and the figure includes the start. The benchmark
//! needs root and kubectl.

use std::{
    io::Write,
    path::Path,
    process::{Command, Stdio},
    sync::{
        Barrier, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tests::{Cluster, Failure, ensure, eventually, machine};

const PODS: usize = 100;
/// How many calls at a time.
const WIDTHS: [usize; 2] = [1, PODS];
const OURS: &str = "/opt/cni/bin/orlop-cni";
const STANDARD: &str = "/usr/lib/cni/bridge";
/// Says to this program that it is on the node.
const INSIDE: &str = "--inside";

fn main() -> Result<(), Failure> {
    if std::env::args().any(|it| it == INSIDE) {
        let pods: Vec<(String, String)> = serde_json::from_reader(std::io::stdin())?;
        return on_the_node(&pods);
    }
    if !nix::unistd::geteuid().is_root() || tests::kubectl_program().is_none() {
        println!("skipped: clusters need root and kubectl");
        return Ok(());
    }
    let dir = tempfile::tempdir()?;
    let cluster = Cluster::up(&dir.path().join("cluster"), 1, false)?;
    let pods = pods(&cluster)?;
    let agents = machine::processes_of(&cluster.dir, "node-1", &["orlop node-agent"]);
    let agent = agents.first().ok_or("no agent runs")?;
    // The node's folder of temporary files is another.
    let mut inside = Command::new("nsenter")
        .args(["--all", "--target", &agent.to_string()])
        .arg(std::env::current_exe()?)
        .arg(INSIDE)
        .stdin(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = inside.stdin.take() {
        stdin.write_all(&serde_json::to_vec(&pods)?)?;
    }
    ensure(inside.wait()?.success(), "the node's part failed")?;
    cluster.down()
}

/// Pods of the node that it does not start: names and UIDs.
fn pods(cluster: &Cluster) -> Result<Vec<(String, String)>, Failure> {
    let pod = |number: usize| {
        json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": format!("bench-{number}"), "labels": {"bench": "cni"}},
            "spec": {
                "nodeName": "node-1",
                "terminationGracePeriodSeconds": 0,
                "containers": [{
                    "name": "c", "image": "registry.orlop.dev/pause:1",
                    "volumeMounts": [{"name": "absent", "mountPath": "/absent"}],
                }],
                "volumes": [{"name": "absent", "secret": {"secretName": "absent"}}],
            },
        })
    };
    let items: Vec<Value> = (0..PODS).map(pod).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    cluster.kubectl_with("create -f -", &list.to_string())?;
    eventually("all pods", 30, || {
        let list = cluster.get("pods -l bench=cni")?;
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        let found: Vec<(String, String)> = list["items"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|it| (text(&it["metadata"]["name"]), text(&it["metadata"]["uid"])))
            .collect();
        ensure(found.len() == PODS, format!("{} are there", found.len()))?;
        Ok(found)
    })
}

fn on_the_node(pods: &[(String, String)]) -> Result<(), Failure> {
    let network = |number| format!("bench-{number}");
    for number in 0..pods.len() {
        ip(&["netns", "add", &network(number)])?;
    }
    println!(
        "load average: {}",
        std::fs::read_to_string("/proc/loadavg")?.trim()
    );
    println!(
        "| {PODS} pods | ADD p50 | p99 | worst | DEL p50 | p99 | worst |\n|---|---|---|---|---|---|---|"
    );
    let standard = json!({
        "cniVersion": "1.0.0", "name": "bench", "type": "bridge", "bridge": "bench0",
        "isGateway": true,
        "ipam": {
            "type": "host-local", "ranges": [[{"subnet": "10.250.0.0/24"}]],
            "dataDir": "/run/bench-host-local",
        },
    });
    let measured = [
        ("orlop-cni", OURS, ours()?),
        ("bridge and host-local", STANDARD, standard),
    ];
    let mut done = Ok(());
    for (name, plugin, configuration) in measured {
        if !Path::new(plugin).is_file() {
            println!("| {name}: not installed | | | | | | |");
            continue;
        }
        for width in WIDTHS {
            let call = |verb| all(verb, plugin, &configuration, pods, width);
            let figures = call("ADD").and_then(|added| Ok((added, call("DEL")?)));
            match figures {
                Ok((added, removed)) => {
                    println!("| {name}, {width} at a time | {added} | {removed} |");
                }
                // The first is the cause of those that follow.
                Err(error) => done = done.and(Err(error)),
            }
        }
    }
    for number in 0..pods.len() {
        ip(&["netns", "delete", &network(number)])?;
    }
    done
}

fn ip(words: &[&str]) -> Result<(), Failure> {
    let status = Command::new("ip").args(words).status()?;
    ensure(status.success(), format!("ip {}", words.join(" ")))
}

/// The configuration that the agent wrote for the runtime.
fn ours() -> Result<Value, Failure> {
    let folder = std::fs::read_dir("/etc/cni/net.d")?;
    let first = folder.flatten().next().ok_or("no CNI configuration")?;
    let list: Value = serde_json::from_slice(&std::fs::read(first.path())?)?;
    let mut plugin = list["plugins"][0].clone();
    plugin["name"] = list["name"].clone();
    plugin["cniVersion"] = list["cniVersion"].clone();
    Ok(plugin)
}

/// Calls the plugin for all pods, so many at a time; the figures, for a table.
fn all(
    verb: &str,
    plugin: &str,
    configuration: &Value,
    pods: &[(String, String)],
    width: usize,
) -> Result<String, Failure> {
    let (next, begin) = (AtomicUsize::new(0), Barrier::new(width));
    let took = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..width {
            scope.spawn(|| {
                begin.wait();
                while let Some((number, pod)) = {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    pods.get(number).map(|pod| (number, pod))
                } {
                    let called = call(verb, plugin, configuration, number, pod);
                    let called = called.map_err(|error| error.to_string());
                    took.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(called);
                }
            });
        }
    });
    let took = took.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut took = took
        .into_iter()
        .collect::<Result<Vec<Duration>, String>>()?;
    took.sort_unstable();
    let at = |part: usize| {
        let place = (took.len() * part).div_ceil(100).max(1) - 1;
        let time = took.get(place).copied().unwrap_or_default();
        format!("{:.1} ms", time.as_secs_f64() * 1e3)
    };
    Ok([50, 99, 100].map(at).join(" | "))
}

/// One call, from its process's start to its end.
fn call(
    verb: &str,
    plugin: &str,
    configuration: &Value,
    number: usize,
    (name, uid): &(String, String),
) -> Result<Duration, Failure> {
    let folder = Path::new(plugin).parent().unwrap_or(Path::new("/"));
    let begun = Instant::now();
    let mut child = Command::new(plugin)
        .env("CNI_COMMAND", verb)
        .env("CNI_CONTAINERID", format!("bench{number}"))
        .env("CNI_NETNS", format!("/run/netns/bench-{number}"))
        .env("CNI_IFNAME", "eth0")
        .env("CNI_PATH", folder)
        .env(
            "CNI_ARGS",
            format!(
                "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME={name};K8S_POD_UID={uid}"
            ),
        )
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(configuration.to_string().as_bytes())?;
    }
    let output = child.wait_with_output()?;
    let took = begun.elapsed();
    let said = String::from_utf8_lossy(&output.stdout);
    ensure(output.status.success(), format!("{verb} of {name}: {said}"))?;
    Ok(took)
}
