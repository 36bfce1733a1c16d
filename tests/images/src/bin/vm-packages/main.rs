//! The life of the Debian package in an emulated machine whose first process is systemd:
//! installed, started, upgraded and removed under traffic, purged. `cargo xtask vm --suites
//! packages` runs it. What is in the machine before the package is there after it, and nothing
//! else.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use nix::sys::reboot::{RebootMode, reboot};
use serde_json::{Value, json};
use tests_images::{Failure, ensure, eventually, run};

mod state;

const DEMO: &str = "registry.orlop.dev/demo:1";
/// What Debian's containerd makes sandboxes of, and what stands for it here.
const SANDBOX: &str = "registry.k8s.io/pause:3.6";
const PAUSE: &str = "registry.orlop.dev/pause:1";
const KUBECONFIG: &str = "/etc/orlop/admin.kubeconfig";
/// The machine's address, and one of this machine and of a client beyond it.
const ADDRESS: &str = "10.0.2.15";
const GATE: &str = "192.0.2.1";
const OUTSIDE: &str = "192.0.2.2";
const NODE_PORT: u16 = 30_777;
const ECHO: u16 = 7777;
/// How long a client runs at most.
const CLIENT_SECONDS: &str = "3600";
const HELD: &str = "4";
/// Time in which traffic is watched after a change.
const WATCHED: Duration = Duration::from_secs(10);

fn main() {
    let passed = match live() {
        Ok(()) => true,
        Err(error) => {
            println!("    {error}");
            logs();
            false
        }
    };
    println!("vm: {}", if passed { "passed" } else { "failed" });
    let _ = reboot(RebootMode::RB_POWER_OFF);
}

/// Runs one step, and says how it went.
fn step<T>(name: &str, work: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    let started = Instant::now();
    let result = work();
    let took = started.elapsed().as_secs();
    let outcome = if result.is_ok() { "ok" } else { "FAILED" };
    println!("test packages {name} ... {outcome} ({took} s)");
    result
}

fn live() -> Result<(), Failure> {
    let packages = packages()?;
    step("the_machine_starts", prepare)?;
    let before = state::take()?;
    step("the_package_is_installed_and_starts_nothing", || {
        install(&packages[0])
    })?;
    step("preflight_finds_nothing_missing", || {
        let text = run("orlop", &["preflight", "--role", "whole"])?;
        ensure(text.contains("\n0 missing"), text)
    })?;
    step("the_unit_brings_a_cluster_up", up)?;
    let mut traffic = step("pods_run_and_clients_reach_them", Traffic::start)?;
    step("an_upgrade_interrupts_no_connection", || {
        upgrade(&packages[1], &mut traffic)
    })?;
    step("a_removal_keeps_pods_and_services", || {
        apt(&["remove", "orlop"])?;
        ensure(unit("LoadState")? == "not-found", "the unit is there")?;
        traffic.check()
    })?;
    step("a_purge_after_a_removal_leaves_nothing", || {
        traffic.stop();
        apt(&["purge", "orlop"])?;
        same(&before)
    })?;
    let installed = step("the_package_is_installed_again", || {
        install(&packages[1])?;
        state::take()
    })?;
    step("the_server_unit_runs_within_its_limits", || {
        run("systemctl", &["start", "orlop-server"])?;
        let shown = run("systemctl", &["show", "orlop-server", "-P", "ActiveState"])?;
        ensure(shown.trim() == "active", shown.clone())?;
        run("systemctl", &["stop", "orlop-server"])?;
        let shown = run("systemctl", &["show", "orlop-server", "-P", "Result"])?;
        ensure(shown.trim() == "success", shown.clone())
    })?;
    step("down_leaves_what_an_installation_leaves", || {
        up()?;
        Traffic::start()?.stop();
        run("orlop", &["down", "--yes"])?;
        same(&installed)
    })?;
    step("a_purge_of_a_running_cluster_leaves_nothing", || {
        up()?;
        Traffic::start()?.stop();
        apt(&["purge", "orlop"])?;
        same(&before)
    })
}

/// The packages beside this program, the former first.
fn packages() -> Result<Vec<String>, Failure> {
    let mut found: Vec<String> = fs::read_dir("/test")?
        .flatten()
        .map(|entry| entry.path().display().to_string())
        .filter(|path| path.ends_with(".deb"))
        .collect();
    found.sort();
    ensure(found.len() == 2, format!("packages: {found:?}"))?;
    Ok(found)
}

/// Images, and a client beyond this machine.
fn prepare() -> Result<(), Failure> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    println!("vm: kernel {}", release.trim());
    ensure(
        fs::read_to_string("/proc/1/comm")?.trim() == "systemd",
        "the first process is not systemd",
    )?;
    let words = "-n k8s.io images import /test/images.tar".split(' ');
    let words: Vec<&str> = words.collect();
    eventually("an import of the images", || run("ctr", &words).map(drop))?;
    run("ctr", &["-n", "k8s.io", "images", "tag", PAUSE, SANDBOX])?;
    // Orlop switches it on and leaves it on, since others may rely on it by then.
    fs::write("/proc/sys/net/ipv4/ip_forward", "1")?;
    // What runs first loads them, and they stay, with parameters of their own.
    run("modprobe", &["--all", "nf_conntrack", "sctp"])?;
    // Its units want it, and it stays, too.
    run("systemctl", &["start", "network-online.target"])?;
    for words in [
        "netns add outside",
        "link add gate type veth peer name eth0 netns outside",
        // An IPv6 address is checked for a second, and its route counts as left if that ends later.
        "link set gate addrgenmode none",
        &format!("address add {GATE}/24 dev gate"),
        "link set gate up",
        "-n outside link set lo up",
        &format!("-n outside address add {OUTSIDE}/24 dev eth0"),
        "-n outside link set eth0 up",
        &format!("-n outside route add default via {GATE}"),
    ] {
        run("ip", &words.split(' ').collect::<Vec<_>>())?;
    }
    eventually("the network to be up", || {
        let text = run("ip", &["-brief", "address"])?;
        ensure(text.contains(ADDRESS), text)
    })?;
    // Units that only a start of the machine runs have ended.
    eventually("the machine to be up", || {
        let text = run("systemctl", &["list-jobs", "--no-legend"])?;
        let others = text.lines().any(|line| !line.contains("vm-packages"));
        ensure(!others, text.clone())
    })
}

// === the package ===

fn apt(words: &[&str]) -> Result<(), Failure> {
    let mut all = vec!["-y", "-q", "-o", "Dpkg::Use-Pty=0"];
    all.extend(words);
    let text = run("apt-get", &all)?;
    // What scripts have to say, they say here.
    for line in text.lines().filter(|line| line.contains("orlop:")) {
        println!("    {line}");
    }
    Ok(())
}

fn install(package: &str) -> Result<(), Failure> {
    apt(&["install", package])?;
    for name in ["orlop", "orlop-server", "orlop-agent"] {
        let shown = run(
            "systemctl",
            &[
                "show",
                name,
                "-P",
                "ActiveState",
                "-P",
                "UnitFileState",
                "-P",
                "Type",
            ],
        )?;
        let found: BTreeSet<&str> = shown.split_whitespace().collect();
        let wanted = BTreeSet::from(["inactive", "disabled", "notify"]);
        ensure(found == wanted, format!("{name}: {found:?}"))?;
    }
    for file in ["up", "server", "agent"] {
        fs::metadata(format!("/etc/orlop/{file}.yaml"))?;
    }
    Ok(())
}

fn unit(property: &str) -> Result<String, Failure> {
    let text = run("systemctl", &["show", "orlop", "-P", property])?;
    Ok(text.trim().to_owned())
}

/// Starts the unit and checks the node, the journal, the join command and `orlop status`.
fn up() -> Result<(), Failure> {
    run("systemctl", &["enable", "--now", "orlop"])?;
    ensure(unit("ActiveState")? == "active", "the unit is not active")?;
    eventually("the node to be ready", || {
        ensure(ready()?.0 == "True", "it is not")
    })?;
    let journal = run("journalctl", &["-u", "orlop", "-o", "cat", "--no-pager"])?;
    for text in ["The cluster is up", KUBECONFIG, "orlop token create"] {
        ensure(
            journal.contains(text),
            format!("no `{text}` in the journal"),
        )?;
    }
    let line = run("orlop", &["token", "create", "--kubeconfig", KUBECONFIG])?;
    ensure(line.contains("orlop agent --join"), line)?;
    eventually("no problem to be shown", || {
        run("orlop", &["status", "--kubeconfig", KUBECONFIG]).map(drop)
    })
}

/// Installs a newer version under traffic. The unit is restarted; the node stays ready, pods
/// run on, no connection is lost or refused.
fn upgrade(package: &str, traffic: &mut Traffic) -> Result<(), Failure> {
    let (process, pods, node) = (unit("MainPID")?, containers()?, ready()?);
    apt(&["install", package])?;
    ensure(unit("ActiveState")? == "active", "the unit is not active")?;
    ensure(unit("MainPID")? != process, "the unit was not restarted")?;
    eventually("the node to be as it was", || {
        let now = ready()?;
        ensure(now == node, format!("it was {node:?} and is {now:?}"))
    })?;
    let now = containers()?;
    ensure(now == pods, format!("pods were {pods} and are {now}"))?;
    traffic.check()
}

fn same(before: &BTreeSet<String>) -> Result<(), Failure> {
    let mut changes = Vec::new();
    // Processes and groups of what has ended go a moment later.
    for _ in 0..10 {
        changes = state::changes(before, &state::take()?);
        if changes.is_empty() {
            return Ok(());
        }
        thread::sleep(Duration::from_secs(2));
    }
    Err(changes.join("\n    ").into())
}

// === the cluster ===

/// Whether the node is ready, and since when.
fn ready() -> Result<(String, String), Failure> {
    let nodes = get(&["nodes"])?;
    let conditions = nodes["items"][0]["status"]["conditions"].as_array();
    let ready = conditions
        .into_iter()
        .flatten()
        .find(|condition| condition["type"] == "Ready")
        .ok_or("no condition")?;
    let text = |name: &str| ready[name].as_str().unwrap_or_default().to_owned();
    Ok((text("status"), text("lastTransitionTime")))
}

/// The containers of the pods and how often they were restarted.
fn containers() -> Result<Value, Failure> {
    let pods = get(&["pods", "-n", "default"])?;
    let pods = pods["items"].as_array().into_iter().flatten();
    Ok(pods
        .map(|pod| {
            let container = &pod["status"]["containerStatuses"][0];
            json!([
                pod["metadata"]["name"],
                container["containerID"],
                container["restartCount"]
            ])
        })
        .collect())
}

fn get(words: &[&str]) -> Result<Value, Failure> {
    let mut all = vec!["get", "-o", "json"];
    all.extend(words);
    Ok(serde_json::from_str(&kubectl(&all)?)?)
}

fn kubectl(words: &[&str]) -> Result<String, Failure> {
    let mut all = vec![
        "--kubeconfig",
        KUBECONFIG,
        "--cache-dir=/test/kubectl-cache",
        "--request-timeout=60s",
    ];
    all.extend(words);
    run("/test/kubectl", &all)
}

// === traffic ===

/// Clients of a Service: on this machine, beyond it, and in a pod. Each holds connections and
/// makes new ones all the while.
struct Traffic {
    clients: Vec<(&'static str, Child)>,
}

/// How a client fared.
#[derive(Debug)]
struct Counts {
    held: u64,
    lost: u64,
    made: u64,
    failed: u64,
}

impl Traffic {
    fn start() -> Result<Self, Failure> {
        create(&[deployment(), service()])?;
        eventually("the pods to be ready", || {
            let web = get(&["deployment", "web"])?;
            ensure(
                web["status"]["readyReplicas"] == 2,
                format!("they are {}", web["status"]),
            )
        })?;
        let service = get(&["service", "web"])?;
        let cluster = service["spec"]["clusterIP"].as_str().ok_or("no address")?;
        let cluster = format!("{cluster}:{ECHO}");
        let node = format!("{ADDRESS}:{NODE_PORT}");
        eventually("an answer", || {
            run("/test/demo", &["echo", &cluster, "tcp", "hello"]).map(drop)
        })?;
        create(&[pod(&cluster)])?;
        let clients = vec![
            ("here", client("here", &[], &cluster)?),
            ("here-node-port", client("here-node-port", &[], &node)?),
            (
                "outside",
                client("outside", &["ip", "netns", "exec", "outside"], &node)?,
            ),
        ];
        let mut traffic = Self { clients };
        eventually("clients to be connected", || traffic.counts().map(drop))?;
        traffic.check()?;
        Ok(traffic)
    }

    /// Watches the clients for a while: nothing is lost or fails, and new connections are made.
    fn check(&mut self) -> Result<(), Failure> {
        let before = self.counts()?;
        thread::sleep(WATCHED);
        for ((name, before), (_, now)) in before.iter().zip(self.counts()?) {
            ensure(
                now.lost == 0 && now.failed == 0 && now.held > 0 && now.made > before.made,
                format!(
                    "client {name}: {now:?}, before {before:?}{}",
                    printed(name)?
                ),
            )?;
        }
        Ok(())
    }

    fn counts(&mut self) -> Result<Vec<(&'static str, Counts)>, Failure> {
        let names = self.clients.iter().map(|(name, _)| *name);
        names
            .chain(["pod"])
            .map(|name| {
                let text = printed(name)?;
                let counts = counts(&text).ok_or_else(|| format!("{name}: no counts{text}"))?;
                Ok((name, counts))
            })
            .collect()
    }

    fn stop(&mut self) {
        for (_, client) in &mut self.clients {
            let _ = client.kill();
            let _ = client.wait();
        }
    }
}

/// What a client printed; the log of the one in a pod is a file of the runtime.
fn printed(name: &str) -> Result<String, Failure> {
    if name != "pod" {
        return Ok(fs::read_to_string(format!("/test/{name}.log"))?);
    }
    let folder = fs::read_dir("/var/log/pods")?
        .flatten()
        .map(|entry| entry.path().join("client/0.log"))
        .find(|path| path.display().to_string().contains("default_client_"));
    Ok(fs::read_to_string(folder.ok_or("the pod has no log")?)?)
}

/// The counts in the last line of `demo connect`.
fn counts(text: &str) -> Option<Counts> {
    let line = text.lines().rfind(|line| line.contains("held "))?;
    let mut words = line.split(' ').skip_while(|word| *word != "held");
    let mut next = || {
        words.next();
        words.next()?.parse().ok()
    };
    Some(Counts {
        held: next()?,
        lost: next()?,
        made: next()?,
        failed: next()?,
    })
}

fn client(name: &str, before: &[&str], target: &str) -> Result<Child, Failure> {
    let log = File::create(format!("/test/{name}.log"))?;
    let words = [
        before,
        &["/test/demo", "connect", target, HELD, CLIENT_SECONDS],
    ]
    .concat();
    let child = Command::new(words[0])
        .args(&words[1..])
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()?;
    Ok(child)
}

fn create(objects: &[Value]) -> Result<(), Failure> {
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    fs::write("/test/objects.json", list.to_string())?;
    eventually("objects to be created", || {
        kubectl(&["apply", "-f", "/test/objects.json"]).map(drop)
    })
}

fn deployment() -> Value {
    let labels = json!({"app": "web"});
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": labels},
            "template": {
                "metadata": {"labels": labels},
                "spec": {"containers": [{
                    "name": "web",
                    "image": DEMO,
                    "readinessProbe": {"tcpSocket": {"port": ECHO}, "periodSeconds": 1},
                }]},
            },
        },
    })
}

fn service() -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "type": "NodePort",
            "selector": {"app": "web"},
            "ports": [{"port": ECHO, "targetPort": ECHO, "nodePort": NODE_PORT}],
        },
    })
}

fn pod(target: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "client", "namespace": "default"},
        "spec": {"containers": [{
            "name": "client",
            "image": DEMO,
            "args": ["connect", target, HELD, CLIENT_SECONDS],
        }]},
    })
}

/// The network of this machine, and the last of what the unit said.
fn logs() {
    for words in [
        "ip -brief address",
        "ip route show table all",
        "ip -n outside route",
        "ip -s neighbour",
        "orlop status",
        "nft list ruleset",
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let text = run(words[0], &words[1..]).unwrap_or_else(|error| error.to_string());
        println!("{}:\n{text}", words.join(" "));
    }
    let words = [
        "-u",
        "orlop",
        "-u",
        "orlop-server",
        "-n",
        "150",
        "-o",
        "cat",
        "--no-pager",
    ];
    for line in run("journalctl", &words).unwrap_or_default().lines() {
        println!("orlop: {line}");
    }
}
