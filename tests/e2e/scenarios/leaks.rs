//! Pods come and go while agents, containerd and its shims are killed: of what a
//! node gave them nothing is left.
//!
//! `ORLOP_LEAK_PODS=2000 cargo test -p tests --test e2e -- nothing_is_left` makes
//! so many.

use std::{
    collections::{BTreeMap, hash_map::DefaultHasher},
    fmt::Write,
    fs,
    hash::{Hash, Hasher},
    net::IpAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use node_agent_datapath::Policy;
use serde_json::Value;
use tests::{Cluster, Failure, ensure, eventually, machine, netns};

use super::IMAGE;
use super::node::AGENT;

const NODES: [&str; 2] = ["node-1", "node-2"];
const VICTIMS: [&[&str]; 3] = [AGENT, &["containerd --config"], &["containerd-shim"]];
/// Pods that are made, if nobody says how many.
const FEW: u32 = 16;
/// Pods that are made at once.
const TOGETHER: u32 = 40;

pub fn run(cluster: &Cluster) -> Result<(), Failure> {
    let asked = std::env::var("ORLOP_LEAK_PODS").ok();
    let total = asked.and_then(|it| it.parse().ok()).unwrap_or(FEW);
    let together = TOGETHER.min(total.div_ceil(2));
    let before = eventually("nodes that no pod is leaving", 120, || {
        let pods = cluster.get("pods --all-namespaces")?;
        let leaves = |pod: &Value| !pod["metadata"]["deletionTimestamp"].is_null();
        let all = pods["items"].as_array();
        ensure(!all.is_some_and(|it| it.iter().any(leaves)), "pods leave")?;
        traces(cluster)
    })?;
    let rounds = total.div_ceil(together);
    for round in 0..rounds {
        let pods = pods(round, together);
        cluster.kubectl_with("create -f -", &pods)?;
        strike(cluster, round * 2);
        // Some have started by then, and some have not.
        if round % 2 == 0 {
            let ready = format!("wait pod -l round=r{round} --for=condition=Ready --timeout=120s");
            cluster.kubectl(&ready)?;
        }
        let gone = format!("delete pod -l round=r{round} --grace-period=1 --wait=false");
        cluster.kubectl(&gone)?;
        strike(cluster, round * 2 + 1);
        eventually("room for the next pods", 300, || {
            let left = cluster.get("pods -l leaks=yes")?;
            let left = left["items"].as_array().map_or(0, Vec::len);
            ensure(left <= 1, format!("{left} pods are still there"))
        })?;
    }
    eventually("nothing of pods left", 180, || {
        let left = cluster.get("pods -l leaks=yes")?;
        ensure(left["items"].as_array().is_none_or(Vec::is_empty), "pods")?;
        let after = traces(cluster)?;
        let more = after
            .iter()
            .filter(|(what, count)| before.get(*what) < Some(count));
        let more: Vec<_> = more.map(|(what, now)| format!("{what}: {now}")).collect();
        ensure(more.is_empty(), format!("{more:?}, {before:?} before"))
    })?;
    println!(
        "    {} pods, {} kills; {before:?}",
        rounds * together,
        rounds * 2
    );
    Ok(())
}

fn pods(round: u32, count: u32) -> String {
    let mut text = String::new();
    for number in 0..count {
        let _ = write!(
            text,
            "---
apiVersion: v1
kind: Pod
metadata:
  name: leak-{round}-{number}
  labels: {{leaks: 'yes', round: r{round}, unique: u{round}-{number}}}
spec:
  terminationGracePeriodSeconds: 1
  containers: [{{name: main, image: {IMAGE}}}]
"
        );
    }
    text
}

/// kill -9 of one program, after a moment; which and when is the same every time.
fn strike(cluster: &Cluster, number: u32) {
    let mut hasher = DefaultHasher::new();
    number.hash(&mut hasher);
    let drawn = hasher.finish();
    let pick = |from: usize, shift: u32| (drawn >> shift) as usize % from;
    std::thread::sleep(Duration::from_millis(pick(1_500, 0) as u64));
    let victim = VICTIMS.get(pick(VICTIMS.len(), 16)).unwrap_or(&AGENT);
    let node = NODES.get(pick(NODES.len(), 32)).unwrap_or(&"node-1");
    machine::kill_program(&cluster.dir, node, victim);
}

/// How much of what nodes give to pods there is.
fn traces(cluster: &Cluster) -> Result<BTreeMap<String, usize>, Failure> {
    let mut found = BTreeMap::new();
    for node in NODES {
        let agents = machine::processes_of(&cluster.dir, node, AGENT);
        let agent = agents.first().ok_or(format!("no agent on {node}"))?;
        let root = PathBuf::from(format!("/proc/{agent}/root"));
        let maps = Policy::open(&root.join("sys/fs/bpf/orlop"))?.entries()?;
        let network = netns::of(*agent);
        let links = netns::inside(&network, "ip -o link")?;
        let mut routes = netns::inside(&network, "ip -4 route show table all")?;
        routes += &netns::inside(&network, "ip -6 route show table all")?;
        // The kernel's own come some time after an interface, once its address is sure.
        let ours = |it: &&str| !it.contains(" proto kernel ");
        let count = |text: &str, word: &str| {
            let lines = text.lines().filter(ours);
            lines.filter(|it| it.contains(word)).count()
        };
        for (what, count) in [
            ("links", count(&links, ": orl")),
            ("routes", count(&routes, " dev orl")),
            (
                "addresses",
                addresses(&root.join("var/lib/orlop/cni/orlop")),
            ),
            ("namespaces", entries(&root.join("run/netns"))),
            ("pods' folders", entries(&root.join("var/lib/kubelet/pods"))),
            ("policy's endpoints", maps.endpoints),
            ("policy's peers", maps.peers),
            ("policy's verdicts", maps.verdicts),
        ] {
            found.insert(format!("{node}: {what}"), count);
        }
    }
    Ok(found)
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .map(|it| it.file_name().to_string_lossy().into_owned())
        .collect()
}

fn entries(folder: &Path) -> usize {
    names(folder).len()
}

/// Addresses that somebody has.
fn addresses(folder: &Path) -> usize {
    let names = names(folder);
    let held = names.iter().filter(|it| it.parse::<IpAddr>().is_ok());
    held.count()
}
