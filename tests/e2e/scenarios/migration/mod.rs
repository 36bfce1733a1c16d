//! A stock kube-proxy, deployed as kubeadm deploys it, is replaced by Orlop's datapath node by
//! node, gets Services back, and nothing of Orlop is left in the end. No connection that is held is
//! lost meanwhile, through kube-proxy or through Orlop, and new ones are made all the while.
//!
//! The commands are those of the page *Replace kube-proxy*. The scenario brings a cluster of its
//! own up. `KUBE_PROXY` and `ORLOP_KUBELET` name other programs than those of the PATH and
//! target/go/bin.

pub mod images;
mod k3s;
mod keepers;
mod kubeadm;
mod snapshot;
pub mod stock;

use std::{
    collections::BTreeMap,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use serde_json::Value;
use tests::{
    Cluster, Failure, ensure, eventually, no_stock_program, node_programs, report::skip,
    stock_program,
};

use self::{
    keepers::{Keepers, Target},
    snapshot::Snapshot,
    stock::{NODES, Stock, shell},
};
use super::IMAGE;

const PROBE: &str = "registry.orlop.dev/probe:1";

/// The result of a check of `orlop connectivity test` that passes.
const PASSED: &str = "passed";

/// The longest that installation and migration may take, of two nodes, on a busy machine.
const THERE: Duration = Duration::from_secs(600);
/// The longest that the way back may take.
const BACK: Duration = Duration::from_secs(60);
/// How many connections have to succeed before a Service counts as answering: one may succeed by
/// chance while others are refused.
const SOME: usize = 12;
/// Checks of `orlop connectivity test` for which hosts without cluster DNS and policy have nothing.
const UNSERVED: &str = "dns,policy,egress,mtu";

const ECHO: &str = "apiVersion: apps/v1
kind: DaemonSet
metadata: {name: echo}
spec:
  selector: {matchLabels: {app: echo}}
  template:
    metadata: {labels: {app: echo}}
    spec:
      terminationGracePeriodSeconds: 1
      tolerations: [{operator: Exists}]
      containers:
      - name: echo
        image: IMAGE
        # Without a request it has next to no share of a busy machine.
        resources: {requests: {cpu: 100m}}
---
apiVersion: v1
kind: Service
metadata: {name: echo}
spec:
  type: NodePort
  selector: {app: echo}
  ports: [{name: echo, port: 7777}]
";

/// Mode nftables: every command of the page.
pub fn run(_: &Cluster) -> Result<(), Failure> {
    with_kube_proxy("nftables", there_and_back)
}

/// Mode iptables, whose chains are there before its rules. What passes of `orlop connectivity
/// test` is compared, too, which takes a minute.
pub fn run_iptables(_: &Cluster) -> Result<(), Failure> {
    with_kube_proxy("iptables", |cluster, target, mode| {
        let healthy = connectivity(cluster, UNSERVED)?;
        let mut old = Keepers::start(cluster, target, "kube-proxy")?;
        install(cluster)?;
        migrate(cluster, &[])?;
        old.go_on("after all nodes")?;
        replaced(cluster)?;
        let mut new = Keepers::start(cluster, target, "orlop")?;
        none_lost(&healthy, &connectivity(cluster, UNSERVED)?)?;
        migrate(cluster, &["--undo"])?;
        old.go_on("after the way back")?;
        new.go_on("after the way back")?;
        restored(cluster, mode)?;
        for it in [&old, &new] {
            println!("    {}", it.summary());
        }
        old.end()?;
        new.end()
    })
}

/// A cluster in k3s's shape, whose kube-proxy is a part of k3s's process.
pub fn run_k3s(_: &Cluster) -> Result<(), Failure> {
    with_stock("k3s", |cluster, stock| {
        k3s::convert(cluster, stock)?;
        cluster.kubectl("wait --for=condition=Ready node --all --timeout=60s")?;
        let target = echo(cluster)?;
        eventually("kube-proxy's rules", 30, || {
            restored(cluster, k3s::MODE)?;
            has_rules(cluster)
        })?;
        let mut old = Keepers::start(cluster, &target, "kube-proxy")?;
        let before = settled_snapshots(cluster)?;
        install(cluster)?;
        old.go_on("beside kube-proxy")?;
        // The agent of the first node does not see the kube-proxy that runs from now on.
        k3s::start_again(cluster, NODES[0].0)?;
        k3s::migrate(cluster, false)?;
        old.go_on("after all nodes")?;
        replaced(cluster)?;
        let mut new = Keepers::start(cluster, &target, "orlop")?;
        k3s::migrate(cluster, true)?;
        go_on(&mut [&mut old, &mut new], "after the way back")?;
        restored(cluster, k3s::MODE)?;
        end(vec![old, new])?;
        uninstall(cluster)?;
        same_as(cluster, &before)
    })
}

/// A cluster that kubeadm made, with its own kube-proxy in the mode that it chooses.
pub fn run_kubeadm(_: &Cluster) -> Result<(), Failure> {
    with_kubeadm("", "iptables")
}

/// The same in mode nftables.
pub fn run_kubeadm_nftables(_: &Cluster) -> Result<(), Failure> {
    with_kubeadm("nftables", "nftables")
}

/// Has kubeadm make a cluster with this mode in kube-proxy's configuration, which runs in mode
/// `expected`, and goes through the page.
fn with_kubeadm(configured: &str, expected: &str) -> Result<(), Failure> {
    let programs = match kubeadm::programs() {
        Ok(programs) => programs,
        Err((variable, name)) => return skip(no_stock_program(variable, name)),
    };
    if !Path::new(stock::PLUGINS).join("bridge").is_file() {
        return skip("no standard CNI plugins: install containernetworking-plugins");
    }
    let dir = tempfile::tempdir()?;
    let begun = Instant::now();
    let mut cluster = Cluster::up_with(&dir.path().join("kubeadm"), 2, &["--bare"])?;
    let made = kubeadm::install(&mut cluster, &programs, configured);
    println!("    kubeadm's cluster after {}", seconds(begun));
    let result = made
        .and_then(|()| echo(&cluster))
        .and_then(|target| page(&cluster, &target, expected));
    if result.is_err() {
        show_logs(&cluster);
    }
    cluster.down()?;
    result
}

/// Brings a cluster with a kube-proxy in this mode up for a scenario.
fn with_kube_proxy(
    mode: &str,
    scenario: fn(&Cluster, &Target, &str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    with_stock("kubeadm", |cluster, stock| {
        let target = served(cluster, stock, mode)?;
        scenario(cluster, &target, mode)
    })
}

/// Brings a cluster up, in a folder of this name, for a scenario that makes its nodes stock ones.
fn with_stock(
    name: &str,
    scenario: impl FnOnce(&Cluster, &Stock) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let Some(kube_proxy) = stock_program("KUBE_PROXY", "kube-proxy") else {
        return skip(no_stock_program("KUBE_PROXY", "kube-proxy"));
    };
    let Some(kubelet) = stock_program("ORLOP_KUBELET", "kubelet") else {
        return skip(no_stock_program("ORLOP_KUBELET", "kubelet"));
    };
    if !Path::new(stock::PLUGINS).join("bridge").is_file() {
        return skip("no standard CNI plugins: install containernetworking-plugins");
    }
    let dir = tempfile::tempdir()?;
    let cluster = Cluster::up(&dir.path().join(name), 2, false)?;
    let stock = Stock {
        kubelet,
        kube_proxy,
    };
    let result = scenario(&cluster, &stock);
    if result.is_err() {
        show_logs(&cluster);
    }
    cluster.down()?;
    result
}

/// A stock cluster in which kube-proxy serves an echo.
fn served(cluster: &Cluster, stock: &Stock, mode: &str) -> Result<Target, Failure> {
    let begun = Instant::now();
    stock::convert(cluster, stock, &stock::KUBEADM, |_, _| Ok(()))?;
    cluster.kubectl("wait --for=condition=Ready node --all --timeout=60s")?;
    deploy_kube_proxy(cluster, mode)?;
    let target = echo(cluster)?;
    println!("    kubeadm's kind of cluster after {}", seconds(begun));
    Ok(target)
}

/// A Service with an endpoint on each node.
fn echo(cluster: &Cluster) -> Result<Target, Failure> {
    cluster.kubectl_with("apply -f -", &ECHO.replace("IMAGE", IMAGE))?;
    cluster.kubectl("rollout status daemonset/echo --timeout=60s")?;
    let target = target(cluster)?;
    // kube-proxy refuses connections to a Service until it has heard of its endpoints.
    eventually("answers through kube-proxy", 30, || {
        answered(cluster, &target)
    })?;
    Ok(target)
}

fn show_logs(cluster: &Cluster) {
    for pods in ["kube-proxy", "kube-dns"] {
        let logs = format!("logs -n kube-system -l k8s-app={pods} --tail=40 --prefix");
        println!("{}", cluster.kubectl(&logs).unwrap_or_default());
    }
    for (node, _) in NODES {
        let log = cluster
            .dir
            .join(format!("nodes/{node}/logs/{}.log", stock::DATAPATH));
        let text = std::fs::read_to_string(log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let last = &lines[lines.len().saturating_sub(40)..];
        println!("--- agent of {node}\n{}", last.join("\n"));
    }
}

fn there_and_back(cluster: &Cluster, target: &Target, mode: &str) -> Result<(), Failure> {
    let own = daemon_set(cluster)?;
    let mut old = Keepers::start(cluster, target, "kube-proxy")?;
    let before = settled_snapshots(cluster)?;
    install(cluster)?;
    old.go_on("beside kube-proxy")?;
    there(cluster, &mut [&mut old])?;
    let mut new = Keepers::start(cluster, target, "orlop")?;
    // The DaemonSet is given back, and kube-proxy's pods are replaced, with the last node.
    migrate(cluster, &["--undo", "--node", "node-2"])?;
    go_on(&mut [&mut old, &mut new], "after the first node's way back")?;
    back(cluster, mode, &own, &mut [&mut old, &mut new])?;
    end(vec![old, new])?;
    uninstall(cluster)?;
    same_as(cluster, &before)
}

/// The page as a whole, with the way there and back twice, and `orlop connectivity test` after each
/// step.
fn page(cluster: &Cluster, target: &Target, mode: &str) -> Result<(), Failure> {
    let own = daemon_set(cluster)?;
    let healthy = connectivity(cluster, "")?;
    let mut old = Keepers::start(cluster, target, "kube-proxy")?;
    let before = settled_snapshots(cluster)?;

    let begun = Instant::now();
    install(cluster)?;
    old.go_on("beside kube-proxy")?;
    there(cluster, &mut [&mut old])?;
    let took = begun.elapsed();
    println!("    installed and migrated: {took:.1?}");
    ensure(took < THERE, format!("the way there took {took:?}"))?;
    none_lost(&healthy, &connectivity(cluster, "")?)?;
    let mut new = Keepers::start(cluster, target, "orlop")?;

    back(cluster, mode, &own, &mut [&mut old, &mut new])?;
    none_lost(&healthy, &connectivity(cluster, "")?)?;
    there(cluster, &mut [&mut old, &mut new])?;
    none_lost(&healthy, &connectivity(cluster, "")?)?;
    back(cluster, mode, &own, &mut [&mut old, &mut new])?;
    end(vec![old, new])?;
    uninstall(cluster)?;
    same_as(cluster, &before)
}

/// Migrates the worker, then the others.
fn there(cluster: &Cluster, clients: &mut [&mut Keepers<'_>]) -> Result<(), Failure> {
    let steps = migrate(cluster, &["--dry-run"])?;
    let last = steps.lines().last().unwrap_or_default();
    let last_node = last.contains("] node node-2: label orlop.dev/kube-proxy=replaced");
    ensure(last_node, steps.clone())?;
    migrate(cluster, &["--node", "node-2"])?;
    go_on(clients, "after the first node")?;
    let took = timed(|| migrate(cluster, &[]))?;
    println!("    migrated: {took:.1?}");
    go_on(clients, "after all nodes")?;
    replaced(cluster)
}

/// Gives Services back to the DaemonSet `own`.
fn back(
    cluster: &Cluster,
    mode: &str,
    own: &(Value, Value),
    clients: &mut [&mut Keepers<'_>],
) -> Result<(), Failure> {
    let took = timed(|| migrate(cluster, &["--undo"]))?;
    println!("    undone: {took:.1?}");
    ensure(took < BACK, format!("the way back took {took:?}"))?;
    go_on(clients, "after the way back")?;
    restored(cluster, mode)?;
    let same = daemon_set(cluster)? == *own;
    ensure(same, "the DaemonSet is not as it was")
}

fn go_on(clients: &mut [&mut Keepers<'_>], when: &str) -> Result<(), Failure> {
    clients.iter_mut().try_for_each(|it| it.go_on(when))
}

/// Says what the clients saw, and ends them.
fn end(clients: Vec<Keepers<'_>>) -> Result<(), Failure> {
    for it in clients {
        println!("    {}", it.summary());
        it.end()?;
    }
    Ok(())
}

fn deploy_kube_proxy(cluster: &Cluster, mode: &str) -> Result<(), Failure> {
    let manifests = include_str!("kube-proxy.yaml")
        .replace("MODE", mode)
        .replace("IMAGE", IMAGE)
        .replace("SERVER", "https://10.88.0.11:6443");
    cluster.kubectl_with("apply -f -", &manifests)?;
    // A changed ConfigMap restarts nobody.
    let pods = "pods -n kube-system -l k8s-app=kube-proxy";
    cluster.kubectl(&format!("delete {pods} --grace-period=1 --timeout=60s"))?;
    cluster.kubectl("rollout status -n kube-system daemonset/kube-proxy --timeout=60s")?;
    eventually("kube-proxy's rules", 30, || {
        for (node, _) in NODES {
            let got = shell(
                cluster,
                node,
                "curl -s --max-time 1 http://127.0.0.1:10249/proxyMode",
            )?;
            ensure(got == mode, format!("{node} is in mode {got}"))?;
        }
        has_rules(cluster)
    })
}

/// Fails unless kube-proxy has written rules on each node.
fn has_rules(cluster: &Cluster) -> Result<(), Failure> {
    for (node, _) in NODES {
        let line = "orlop node-agent cleanup-kube-proxy --dry-run | grep -q .";
        shell(cluster, node, line)?;
    }
    Ok(())
}

fn target(cluster: &Cluster) -> Result<Target, Failure> {
    let service = cluster.get("service echo")?;
    let port = service["spec"]["ports"][0]["nodePort"].as_u64();
    Ok(Target {
        cluster_ip: service["spec"]["clusterIP"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        port: 7777,
        node_port: u16::try_from(port.unwrap_or_default())?,
    })
}

/// Fails unless the Service answers at its address and at its node port, from each node, each time.
fn answered(cluster: &Cluster, target: &Target) -> Result<(), Failure> {
    let cluster_ip = format!("{}:{}", target.cluster_ip, target.port);
    for (node, address) in NODES {
        let node_port = format!("{address}:{}", target.node_port);
        for place in [&cluster_ip, &node_port] {
            shell(cluster, node, &format!("demo connect {place} {SOME} 0"))?;
        }
    }
    Ok(())
}

fn snapshots(cluster: &Cluster) -> Result<Vec<Snapshot>, Failure> {
    let of = |(node, _): &(&str, &str)| Snapshot::of(cluster, node);
    NODES.iter().map(of).collect()
}

/// Waits until the nodes no longer change: kube-proxy hears of the endpoints one after the other,
/// and new addresses are tentative at first.
fn settled_snapshots(cluster: &Cluster) -> Result<Vec<Snapshot>, Failure> {
    eventually("nodes that do not change", 30, || {
        let first = snapshots(cluster)?;
        std::thread::sleep(Duration::from_secs(3));
        same_as(cluster, &first)?;
        Ok(first)
    })
}

fn same_as(cluster: &Cluster, before: &[Snapshot]) -> Result<(), Failure> {
    for ((node, _), before) in NODES.iter().zip(before) {
        let now = Snapshot::of(cluster, node)?;
        now.same_as(before, &format!("{node} after all"))?;
    }
    Ok(())
}

/// What an administrator has of the DaemonSet.
fn daemon_set(cluster: &Cluster) -> Result<(Value, Value), Failure> {
    let mut it = cluster.get("daemonset -n kube-system kube-proxy")?;
    let annotations = it["metadata"]["annotations"].as_object_mut();
    if let Some(annotations) = annotations {
        annotations.remove("deprecated.daemonset.template.generation");
    }
    let annotations = it["metadata"]["annotations"].clone();
    Ok((annotations, it["spec"].clone()))
}

/// The worker first, where nobody may change rights.
fn install(cluster: &Cluster) -> Result<(), Failure> {
    let line = "orlop node-agent install --datapath-only --cgroup $(cat /mnt/cgroup.path)";
    for (node, _) in NODES {
        shell(cluster, node, "orlop preflight --role datapath")?;
    }
    let bound = cluster
        .kubectl("get clusterrolebinding orlop-datapath")
        .is_ok();
    if !bound {
        let refused = shell(cluster, "node-2", line).err();
        let said = refused.map(|error| error.to_string()).unwrap_or_default();
        let way_out = "kubectl create clusterrolebinding orlop-datapath";
        ensure(said.contains(way_out), format!("node-2 said: {said}"))?;
    }
    for (node, _) in NODES {
        let begun = Instant::now();
        let said = shell(cluster, node, line)?;
        println!("    installed on {node}: {}", seconds(begun));
        ensure(said.contains("next: orlop migrate kube-proxy"), said)?;
    }
    Ok(())
}

fn uninstall(cluster: &Cluster) -> Result<(), Failure> {
    for (node, _) in NODES {
        let begun = Instant::now();
        shell(cluster, node, "systemctl disable --now orlop-datapath")?;
        let said = shell(cluster, node, "orlop node-agent uninstall --datapath-only")?;
        println!(
            "    uninstalled on {node}: {}: {}",
            seconds(begun),
            said.trim()
        );
        shell(
            cluster,
            node,
            "rm /etc/orlop/datapath.yaml /etc/systemd/system/orlop-datapath.service \
             && rmdir --ignore-fail-on-non-empty /etc/orlop && systemctl daemon-reload",
        )?;
    }
    cluster.kubectl("label nodes --all orlop.dev/kube-proxy-")?;
    cluster
        .kubectl("delete clusterrolebinding orlop-datapath")
        .map(drop)
}

/// `orlop migrate kube-proxy`, by an administrator from elsewhere.
fn migrate(cluster: &Cluster, words: &[&str]) -> Result<String, Failure> {
    let output = cluster
        .client(&node_programs().join("orlop"))
        .args(["migrate", "kube-proxy", "--timeout", "60s", "--kubeconfig"])
        .arg(cluster.kubeconfig())
        .args(words)
        .stdin(Stdio::null())
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure(
        output.status.success(),
        format!("migrate {words:?}: {errors}{text}"),
    )?;
    Ok(text)
}

/// kube-proxy has gone from all nodes with its rules, and we have its ports.
fn replaced(cluster: &Cluster) -> Result<(), Failure> {
    let pods = cluster.get("pods -n kube-system -l k8s-app=kube-proxy")?;
    let pods = pods["items"].as_array().map_or(0, Vec::len);
    ensure(pods == 0, format!("{pods} pods of kube-proxy"))?;
    for (node, _) in NODES {
        let left = shell(
            cluster,
            node,
            "orlop node-agent cleanup-kube-proxy --dry-run",
        )?;
        ensure(left.contains("left nothing"), format!("{node}: {left}"))?;
        mode(cluster, node, "ebpf")?;
    }
    Ok(())
}

fn restored(cluster: &Cluster, expected: &str) -> Result<(), Failure> {
    NODES
        .iter()
        .try_for_each(|(node, _)| mode(cluster, node, expected))
}

/// Who answers at kube-proxy's ports.
fn mode(cluster: &Cluster, node: &str, expected: &str) -> Result<(), Failure> {
    eventually(&format!("{expected} at the ports of {node}"), 20, || {
        let of_mode = "curl -s --max-time 1 http://127.0.0.1:10249/proxyMode";
        let mode = shell(cluster, node, of_mode)?;
        let of_health = "curl -sf --max-time 1 http://127.0.0.1:10256/healthz";
        let health = shell(cluster, node, of_health)?;
        ensure(mode == expected, format!("mode {mode}, health {health}"))
    })
}

/// Fails if a check passed before and does not now.
fn none_lost(
    before: &BTreeMap<String, String>,
    now: &BTreeMap<String, String>,
) -> Result<(), Failure> {
    let lost: Vec<_> = before
        .iter()
        .filter(|(_, result)| *result == PASSED)
        .map(|(check, _)| (check, now.get(check)))
        .filter(|(_, result)| result.is_none_or(|it| it != PASSED))
        .collect();
    ensure(
        lost.is_empty(),
        format!("passed before, not now: {lost:#?}"),
    )
}

/// The checks of `orlop connectivity test` but those of groups `skipped`, each with [`PASSED`] or
/// why it did not pass.
fn connectivity(cluster: &Cluster, skipped: &str) -> Result<BTreeMap<String, String>, Failure> {
    let begun = Instant::now();
    let output = cluster
        .client(&node_programs().join("orlop"))
        .args(["connectivity", "test", "--image", PROBE, "-o", "json"])
        .args(["--exit-code", "0"])
        .args((!skipped.is_empty()).then(|| format!("--skip={skipped}")))
        .args(["--nodes", "node-1,node-2"])
        .args(["--settle", "4s", "--kubeconfig"])
        .arg(cluster.kubeconfig())
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    let result: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("connectivity test: {error}: {said}"))?;
    println!(
        "    connectivity: {} passed, {} failed, {} skipped: {}",
        result["passed"],
        result["failed"],
        result["skipped"],
        seconds(begun)
    );
    let all = result["checks"].as_array().into_iter().flatten();
    Ok(all
        .map(|line| {
            let check = format!(
                "{} {} {} {}",
                line["group"], line["from"], line["to"], line["check"]
            );
            let result = match line["result"].as_str() {
                Some("pass") => PASSED.to_owned(),
                result => format!("{}: {}", result.unwrap_or_default(), line["why"]),
            };
            (check, result)
        })
        .collect())
}

fn timed(work: impl FnOnce() -> Result<String, Failure>) -> Result<Duration, Failure> {
    let begun = Instant::now();
    work()?;
    Ok(begun.elapsed())
}

fn seconds(begun: Instant) -> String {
    format!("{:.1} s", begun.elapsed().as_secs_f64())
}
