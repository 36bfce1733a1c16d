//! Measures the throughput between pods of two nodes: through our VXLAN and over native routes,
//! with all our programs, and, for comparison, through the kernel's own VXLAN device and plain
//! routing between namespaces in place of pods, without our programs.
//!
//! `cargo bench -p tests --bench overlay` uses the built programs, or those in `$ORLOP_PROGRAMS`.
//! The cases alternate in every round, `ORLOP_ROUNDS` (15) times, so that other load affects all
//! of them alike. The benchmark needs root, kubectl and iperf3.

mod plain;
mod speed;

use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;

use serde_json::Value;
use tests::lan::Lan;
use tests::{Cluster, Failure, ensure, eventually, machine, netns};

use plain::Plain;
use speed::{Load, Served};

const ROUNDS: usize = 15;
/// How pods are reached, the agents' word for it, and which part of the plain way's
/// throughput is wanted.
const WAYS: [(&str, &str, f64); 2] = [("VXLAN", "vxlan", 0.9), ("native routes", "none", 0.97)];
const LOADS: [Load; 3] = [Load::Streams(1), Load::Streams(4), Load::Questions];

/// A pod, or who stands in its place: its network, and its addresses.
pub struct Place {
    /// The network namespace's file.
    pub network: PathBuf,
    /// One of each IP version, the older one first.
    pub addresses: Vec<IpAddr>,
}

fn main() -> Result<(), Failure> {
    if !nix::unistd::geteuid().is_root() || tests::kubectl_program().is_none() {
        println!("skipped: clusters need root and kubectl");
        return Ok(());
    }
    if !speed::is_installed() {
        println!("skipped: iperf3 is not installed");
        return Ok(());
    }
    let rounds = std::env::var("ORLOP_ROUNDS").unwrap_or_default();
    let rounds = rounds.parse().unwrap_or(ROUNDS).max(1);
    let mut rows = Vec::new();
    for (name, overlay, wanted) in WAYS {
        rows.extend(way(name, overlay, wanted, rounds)?);
    }
    println!(
        "\n| {rounds} rounds | ours: median, best | plain: median, best | of the medians | of the bests | wanted |"
    );
    println!("|---|---|---|---|---|---|");
    for row in rows {
        println!("{row}");
    }
    println!("load average: {}", load());
    Ok(())
}

fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').take(3).collect::<Vec<_>>().join(" ")
}

/// The rows of one way.
fn way(name: &str, overlay: &str, wanted: f64, rounds: usize) -> Result<Vec<String>, Failure> {
    let dir = tempfile::tempdir()?;
    let options = ["--no-demo", "--dual-stack", "--overlay", overlay];
    let cluster = Cluster::up_with(&dir.path().join("cluster"), 2, &options)?;
    let ours = pods(&cluster)?;
    let device = netns::inside(&ours[0].network, "ip -o link show eth0")?;
    let mtu = word_after(&device, "mtu").ok_or("the pod's device has no MTU")?;
    let tunnel = overlay == "vxlan";
    check(&cluster, tunnel)?;
    let plain = Plain::new(&Lan::join(&cluster.dir, "10.88.0.2/24")?, tunnel, mtu)?;
    println!("{name}: pods' MTU {mtu}, load average {}", load());
    let sides = [&ours, plain.places()];
    let served: Vec<Served> = sides
        .iter()
        .map(|[_, to]| Served::new(&to.network))
        .collect::<Result<_, _>>()?;
    let mut rows = Vec::new();
    for version in 0..2 {
        for load in LOADS {
            let mut figures = [Vec::new(), Vec::new()];
            for round in 0..rounds {
                // Neither always comes first.
                for turn in 0..sides.len() {
                    let side = (round + turn) % sides.len();
                    let [from, to] = sides[side];
                    let figure =
                        load.measure(&served[side], &from.network, to.addresses[version])?;
                    figures[side].push(figure);
                }
            }
            let family = ["IPv4", "IPv6"][version];
            let asked = match load {
                Load::Streams(_) => format!("{wanted}"),
                Load::Questions => String::new(),
            };
            rows.push(row(
                &format!("{name}, {family}, {load}"),
                load,
                figures,
                &asked,
            ));
            println!("{}", rows.last().map_or("", String::as_str));
        }
    }
    drop(served);
    drop(plain);
    cluster.down()?;
    Ok(rows)
}

fn row(name: &str, load: Load, figures: [Vec<f64>; 2], wanted: &str) -> String {
    let [ours, plain] = figures.map(|mut all| {
        all.sort_by(f64::total_cmp);
        let median = all[all.len() / 2];
        (median, all[all.len() - 1])
    });
    let unit = load.unit();
    let show = |(median, best): (f64, f64)| format!("{median:.1}, {best:.1} {unit}");
    format!(
        "| {name} | {} | {} | {:.2} | {:.2} | {wanted} |",
        show(ours),
        show(plain),
        ours.0 / plain.0,
        ours.1 / plain.1
    )
}

/// A pod on each node.
fn pods(cluster: &Cluster) -> Result<[Place; 2], Failure> {
    for node in ["node-1", "node-2"] {
        let pod = serde_json::json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": node},
            "spec": {
                "nodeName": node,
                "containers": [{"name": "pause", "image": "registry.orlop.dev/pause:1"}],
            },
        });
        cluster.kubectl_with("create -f -", &pod.to_string())?;
    }
    cluster.kubectl("wait pod/node-1 pod/node-2 --for=condition=Ready --timeout=60s")?;
    Ok([place(cluster, "node-1")?, place(cluster, "node-2")?])
}

fn place(cluster: &Cluster, node: &str) -> Result<Place, Failure> {
    let pod = cluster.get(&format!("pod {node}"))?;
    let of = |it: &Value| it["ip"].as_str().and_then(|it| it.parse().ok());
    let addresses = pod["status"]["podIPs"].as_array();
    let mut addresses: Vec<IpAddr> = addresses.into_iter().flatten().filter_map(of).collect();
    addresses.sort();
    ensure(
        addresses.len() == 2,
        format!("pod {node} has {addresses:?}, not an address of each IP version"),
    )?;
    let agents = machine::processes_of(&cluster.dir, node, &["orlop node-agent"]);
    let agent = agents.first().ok_or("no agent runs")?;
    let networks = format!("/proc/{agent}/root/run/netns");
    for entry in fs::read_dir(&networks)?.flatten() {
        let network = entry.path();
        let said = netns::inside(&network, "ip -o addr")?;
        if said.contains(&format!(" {}/", addresses[0])) {
            return Ok(Place { network, addresses });
        }
    }
    Err(format!("no network of {networks} has {}", addresses[0]).into())
}

/// Is what is measured what was asked for?
fn check(cluster: &Cluster, tunnel: bool) -> Result<(), Failure> {
    let agents = machine::processes_of(&cluster.dir, "node-1", &["orlop node-agent"]);
    let agent = agents.first().ok_or("no agent runs")?;
    let network = netns::of(*agent);
    eventually("routes to the other node's pods", 30, || {
        let mut routes = netns::inside(&network, "ip -4 route")?;
        routes += &netns::inside(&network, "ip -6 route")?;
        let found = routes.lines().filter(|it| it.contains("dev vxlan.orlop"));
        let found = found.filter(|it| it.contains(" via ")).count();
        ensure(found == if tunnel { 2 } else { 0 }, routes.clone())
    })
}

fn word_after<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    let mut words = text.split_whitespace();
    words.find(|it| *it == word)?;
    words.next()
}
