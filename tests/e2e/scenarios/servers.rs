//! Three servers with a managed etcd: each is killed in turn under load, one is replaced, then
//! two are lost. The scenario brings a cluster of its own up.

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use tests::{
    Cluster, Failure, ensure, eventually, kubectl_program,
    load::{Load, Outcome},
    machine,
};

use super::IMAGE;

/// How long clients may notice a server that is killed, and how long the loops may stand still.
/// The machine of a test run is shared: the bounds are wider than what is promised, and what was
/// measured is printed.
const CLIENTS: Duration = Duration::from_secs(2);
const LEADERS: Duration = Duration::from_secs(8);

/// Clients of the load.
const CLIENTS_AT_ONCE: usize = 4;

/// How long a refusal may take once the loss of the majority is known.
const AT_ONCE: Duration = Duration::from_secs(1);

const LOOPS: [&str; 2] = ["kube-controller-manager", "kube-scheduler"];

pub fn run(_: &Cluster) -> Result<(), Failure> {
    let dir = tempfile::tempdir()?;
    let options = ["--no-demo", "--servers", "3"];
    let cluster = Cluster::up_with(&dir.path().join("servers"), 1, &options)?;
    let result = scenario(&cluster);
    if result.is_err() {
        for number in 1..=3 {
            let log = cluster
                .dir
                .join(format!("nodes/server-{number}/logs/server.log"));
            let text = fs::read_to_string(log).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let last = &lines[lines.len().saturating_sub(30)..];
            println!("--- server-{number}\n{}", last.join("\n"));
        }
    }
    cluster.down()?;
    result
}

fn scenario(cluster: &Cluster) -> Result<(), Failure> {
    cluster.members_are_well("server-1", 3)?;
    for number in 1..=3 {
        let one = cluster.of_server(number, "get --raw /readyz")?;
        ensure(one == "ok", one)?;
    }
    steady_pods(cluster)?;
    start_asker(cluster, "asker", 60)?;
    let everyone = [("all servers".to_owned(), cluster.kubeconfig())];
    let mut load = Load::start(&everyone, "load")?;
    let round = load.begin(CLIENTS_AT_ONCE)?;
    for number in 1..=3 {
        kill_one(cluster, number)?;
    }
    replace_one(cluster)?;
    let outcome = load.end(round)?;
    check(&outcome)?;
    asker_went_on(cluster, "asker")?;
    lose_quorum(cluster)?;
    recover_from_one(cluster)
}

fn steady_pods(cluster: &Cluster) -> Result<(), Failure> {
    cluster.kubectl(&format!(
        "create deployment steady --image={IMAGE} --replicas=2"
    ))?;
    cluster.kubectl("expose deployment steady --port=80 --target-port=8080")?;
    cluster
        .kubectl("rollout status deployment/steady --timeout=60s")
        .map(drop)
}

/// A pod that asks a Service all the while.
fn start_asker(cluster: &Cluster, name: &str, seconds: u32) -> Result<(), Failure> {
    let address = cluster.get("service steady")?["spec"]["clusterIP"]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    cluster.kubectl_with(
        "apply -f -",
        &format!(
            "apiVersion: v1
kind: Pod
metadata: {{name: {name}}}
spec:
  restartPolicy: Never
  containers:
  - {{name: asker, image: {IMAGE}, args: [watch, '{address}:80', '{seconds}']}}
"
        ),
    )?;
    let wait = format!("wait pod/{name} --for=condition=Ready --timeout=60s");
    cluster.kubectl(&wait).map(drop)
}

fn asker_went_on(cluster: &Cluster, asker: &str) -> Result<(), Failure> {
    eventually("the asker's end", 90, || {
        let phase = cluster.get(&format!("pod {asker}"))?["status"]["phase"].clone();
        ensure(phase == "Succeeded" || phase == "Failed", phase.to_string())
    })?;
    let log = cluster.kubectl(&format!("logs {asker}"))?;
    let last = log.lines().last().unwrap_or_default();
    println!("    {asker}: {last}");
    ensure(
        last.ends_with(" 0 failed"),
        format!("traffic stopped: {log}"),
    )
}

/// The server that leads a loop, and when it renewed its lease.
fn leader(cluster: &Cluster, name: &str) -> Result<(String, String), Failure> {
    let lease = cluster.get(&format!("lease -n kube-system {name}"))?;
    let text = |field: &str| lease["spec"][field].as_str().unwrap_or_default().to_owned();
    let holder = text("holderIdentity");
    let host = holder.split('_').next().unwrap_or_default().to_owned();
    Ok((host, text("renewTime")))
}

/// Kills a server as a power cut does, waits until others lead, and starts it again.
fn kill_one(cluster: &Cluster, number: u8) -> Result<(), Failure> {
    let name = format!("server-{number}");
    let led: Vec<&str> = LOOPS
        .into_iter()
        .filter(|one| leader(cluster, one).is_ok_and(|(host, _)| host == name))
        .collect();
    let killed = Instant::now();
    cluster.host("kill", &name)?;
    let mut moved = Vec::new();
    for one in &led {
        let what = format!("another leader of {one}");
        eventually(&what, LEADERS.as_secs() + 20, || {
            let (host, _) = leader(cluster, one)?;
            ensure(host != name && !host.is_empty(), host)
        })?;
        moved.push((*one, killed.elapsed()));
    }
    println!("    {name} killed: leaders moved {moved:?}");
    for (one, took) in &moved {
        ensure(*took <= LEADERS, format!("{one} stood still for {took:?}"))?;
    }
    if number == 1 {
        address_leaves(cluster, number)?;
    }
    cluster.host("start", &name)?;
    let other = if number == 1 { "server-2" } else { "server-1" };
    cluster.members_are_well(other, 3)?;
    eventually(&format!("{name} to answer"), 60, || {
        cluster.of_server(number, "get --raw /readyz").map(drop)
    })
}

/// The address of a dead server leaves the Service.
fn address_leaves(cluster: &Cluster, number: u8) -> Result<(), Failure> {
    let address = format!("10.88.0.{}", 210 + u16::from(number));
    eventually("the dead server's address to leave", 40, || {
        let endpoints = cluster.get("endpoints kubernetes")?["subsets"].to_string();
        ensure(!endpoints.contains(&address), endpoints)
    })
}

/// A machine is lost for good, and another takes its place.
fn replace_one(cluster: &Cluster) -> Result<(), Failure> {
    cluster.host("kill", "server-3")?;
    let took = cluster.replace_server("server-3", "server-1")?;
    println!("    server-3 replaced after {:.1} s", took.as_secs_f64());
    cluster.members_are_well("server-1", 3)?;
    eventually("server-3 to answer", 60, || {
        cluster.of_server(3, "get --raw /readyz").map(drop)
    })
}

fn check(outcome: &Outcome) -> Result<(), Failure> {
    let p99 = outcome.percentile(99);
    println!(
        "    {} operations, {} of unknown fate: p50 {:?}, p99 {p99:?}, longest {:?}; {} watched",
        outcome.operations(),
        outcome.unknown(),
        outcome.percentile(50),
        outcome.percentile(100),
        outcome.watched(),
    );
    ensure(
        outcome.operations() > 200,
        "too few operations to say anything",
    )?;
    outcome.check_history()?;
    outcome.check_watches()?;
    ensure(p99 <= CLIENTS, format!("clients waited {p99:?}"))
}

/// With two of three members gone writes and reads of the present are refused at once with a
/// reason, cached reads go on and say so, pods stay, and all comes back by itself.
fn lose_quorum(cluster: &Cluster) -> Result<(), Failure> {
    start_asker(cluster, "witness", 25)?;
    let before = pids_of_pods(&cluster.dir);
    ensure(!before.is_empty(), "no process of a pod")?;
    cluster.host("kill", "server-2")?;
    cluster.host("kill", "server-3")?;
    eventually("the loss to be noticed", 15, || {
        let listed = cached(cluster)?;
        ensure(listed.contains("no leader"), listed)
    })?;
    let began = Instant::now();
    let refused = cluster.of_server(1, "create configmap lost --request-timeout=15s");
    let refused = match refused {
        Err(error) => error.to_string(),
        Ok(_) => return Err("a write without a majority was acknowledged".into()),
    };
    let took = began.elapsed();
    println!(
        "    without a majority a write is refused after {took:.1?}: {}",
        refused.trim()
    );
    ensure(refused.contains("no leader"), "the refusal has no reason")?;
    ensure(took < AT_ONCE, format!("the refusal took {took:?}"))?;
    let fresh = cluster.of_server(1, "get configmap kube-root-ca.crt --request-timeout=15s");
    ensure(
        fresh.is_err(),
        "a read of the present was answered from the cache",
    )?;
    let listed = cached(cluster)?;
    ensure(
        listed.contains("kube-root-ca.crt"),
        format!("the cache is empty: {listed}"),
    )?;
    let after = pids_of_pods(&cluster.dir);
    ensure(
        before == after,
        format!("pods changed: {before:?} {after:?}"),
    )?;
    cluster.host("start", "server-2")?;
    cluster.host("start", "server-3")?;
    cluster.members_are_well("server-1", 3)?;
    eventually("writes again", 60, || {
        cluster.kubectl("create configmap found").map(drop)
    })?;
    asker_went_on(cluster, "witness")
}

/// Two of three machines are lost for good: the third goes on alone, and others join it.
fn recover_from_one(cluster: &Cluster) -> Result<(), Failure> {
    cluster.kubectl("create configmap before")?;
    // The majority that acknowledged it may be the two that are lost; this one has it now.
    cluster.of_server(1, "get configmap before")?;
    cluster.host("kill", "server-2")?;
    cluster.host("kill", "server-3")?;
    let refused = cluster.on_server("server-1", &["etcd", "recover"]);
    let refused = match refused {
        Err(error) => error.to_string(),
        Ok(_) => return Err("it went on alone beside its server".into()),
    };
    ensure(refused.contains("the server runs"), refused)?;
    // The host does not start it again meanwhile.
    let held = cluster.dir.join("nodes/server-1/held");
    fs::create_dir_all(&held)?;
    fs::write(held.join("server"), "")?;
    machine::kill_program(&cluster.dir, "server-1", &["orlop server", "--secure-port"]);
    let began = Instant::now();
    let said = eventually("the member to go on alone", 60, || {
        cluster.on_server(
            "server-1",
            &["etcd", "recover", "--revisions-ahead", "2000"],
        )
    })?;
    println!("    {} ({:.1?})", said.trim(), began.elapsed());
    fs::remove_file(held.join("server"))?;
    eventually("writes by the one that is left", 60, || {
        cluster.of_server(1, "create configmap alone").map(drop)
    })?;
    cluster.of_server(1, "get configmap before")?;
    for number in [2, 3] {
        cluster.replace_lost_server(&format!("server-{number}"), "server-1")?;
    }
    cluster.members_are_well("server-1", 3)?;
    eventually("all servers", 60, || {
        cluster.of_server(3, "get configmap alone").map(drop)
    })
}

/// What server 1 has cached, and its warnings.
fn cached(cluster: &Cluster) -> Result<String, Failure> {
    let kubectl = kubectl_program().ok_or("no kubectl")?;
    let path = "/api/v1/namespaces/default/configmaps?resourceVersion=0";
    let output = Command::new(kubectl)
        .env("KUBECONFIG", cluster.kubeconfig_of_server(1))
        .args(["get", "--raw", path])
        .stdin(Stdio::null())
        .output()?;
    let said = [output.stdout, output.stderr].concat();
    Ok(String::from_utf8_lossy(&said).into_owned())
}

/// The processes that keep pods on the node, one each.
fn pids_of_pods(dir: &Path) -> Vec<i32> {
    machine::processes_of(dir, "node-1", &["containerd-shim"])
}
