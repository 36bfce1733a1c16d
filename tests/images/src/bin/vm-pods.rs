//! A node in an emulated machine whose control groups are of version 2 alone: containerd,
//! `orlop up`, and pods that are limited, killed and evicted. `cargo xtask vm` runs it.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
    time::Instant,
};

use serde_json::{Value, json};
use tests_images::{Failure, ensure, eventually, run};

type Check = (&'static str, fn() -> Result<(), Failure>);

const GROUPS: &str = "/sys/fs/cgroup/kubepods";
const NODE: &str = "vm";
const ADDRESS: &str = "192.0.2.10";
const DEMO: &str = "registry.orlop.dev/demo:1";
const KUBECONFIG: &str = "/etc/orlop/admin.kubeconfig";
const SOCKET: &str = "/run/containerd/containerd.sock";

/// Bytes of memory and tasks that must stay free, and tasks that a pod may have.
const MEMORY_LEAST: u64 = 500 * MI;
const TASKS_LEAST: u64 = 320;
const POD_TASKS: u64 = 128;
const MI: u64 = 1 << 20;

/// In this order: what comes last leaves the node short of something.
const CHECKS: &[Check] = &[
    ("groups_of_classes_and_pods_have_their_limits", layout),
    ("a_container_beyond_its_memory_is_told_oom_killed", oom),
    ("a_fork_bomb_ends_at_the_pods_own_limit", bomb),
    ("the_pod_with_most_tasks_is_evicted", evicted_for_tasks),
    (
        "the_pod_that_takes_the_memory_is_evicted",
        evicted_for_memory,
    ),
];

fn main() -> ExitCode {
    let mut programs = Vec::new();
    if let Err(error) = start(&mut programs) {
        println!("test the_node_starts ... FAILED\n    {error}");
        logs();
        return ExitCode::FAILURE;
    }
    let mut failed = 0;
    for (name, check) in CHECKS {
        let started = Instant::now();
        let result = check();
        let took = started.elapsed().as_secs();
        match result {
            Ok(()) => println!("test {name} ... ok ({took} s)"),
            Err(error) => {
                failed += 1;
                println!("test {name} ... FAILED ({took} s)\n    {error}");
            }
        }
    }
    if failed > 0 {
        logs();
    }
    for mut program in programs {
        let _ = program.kill();
        let _ = program.wait();
    }
    println!(
        "test result: {} passed; {failed} failed",
        CHECKS.len() - failed
    );
    if failed == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

// === the node ===

fn start(programs: &mut Vec<Child>) -> Result<(), Failure> {
    let unified = Path::new("/sys/fs/cgroup/cgroup.controllers").exists();
    ensure(unified, "the control groups are not of version 2")?;
    for folder in ["/etc/cni/net.d", "/opt/cni/bin", "/var/lib", "/root"] {
        fs::create_dir_all(folder)?;
    }
    fs::write("/etc/resolv.conf", "")?;
    fs::write("/etc/hosts", "127.0.0.1 localhost\n")?;
    for words in [
        "link add eth0 type veth peer name eth1",
        &format!("address add {ADDRESS}/24 dev eth0"),
        "link set eth0 up",
        "link set eth1 up",
        "route add default via 192.0.2.1 dev eth0",
    ] {
        run("ip", &words.split(' ').collect::<Vec<_>>())?;
    }
    // The root of an initramfs cannot be pivoted away from.
    fs::write(
        "/etc/containerd.toml",
        r#"version = 2
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs"]
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "registry.orlop.dev/pause:1"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      NoPivotRoot = true
      SystemdCgroup = false
"#,
    )?;
    fs::write(
        "/etc/kubelet.yaml",
        format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
             podPidsLimit: {POD_TASKS}\nevictionPressureTransitionPeriod: 20s\n\
             evictionHard: {{memory.available: \"{MEMORY_LEAST}\", pid.available: \"{TASKS_LEAST}\"}}\n"
        ),
    )?;
    programs.push(spawn("containerd", &["--config", "/etc/containerd.toml"])?);
    let import = [
        "-a",
        SOCKET,
        "-n",
        "k8s.io",
        "images",
        "import",
        "/images.tar",
    ];
    eventually("an import of the images", || run("ctr", &import).map(drop))?;
    let node = [
        "up",
        "--node-name",
        NODE,
        "--node-ip",
        ADDRESS,
        "--advertise-address",
        ADDRESS,
        "--kubelet-config",
        "/etc/kubelet.yaml",
    ];
    programs.push(spawn("orlop", &node)?);
    eventually("the node to be ready", || {
        ensure(condition("Ready")? == "True", "it is not")
    })?;
    println!("test the_node_starts ... ok");
    Ok(())
}

/// Starts a program whose output goes to a file of its name.
fn spawn(program: &str, arguments: &[&str]) -> Result<Child, Failure> {
    let log = File::create(format!("/run/{program}.log"))?;
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn();
    child.map_err(|error| format!("{program}: {error}").into())
}

fn logs() {
    for program in ["containerd", "orlop"] {
        let text = fs::read_to_string(format!("/run/{program}.log")).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        for line in lines.iter().skip(lines.len().saturating_sub(60)) {
            println!("{program}: {line}");
        }
    }
}

// === checks ===

fn layout() -> Result<(), Failure> {
    let resources = [
        (
            "guaranteed",
            json!({"limits": {"cpu": "250m", "memory": "64Mi"}}),
        ),
        (
            "burstable",
            json!({"requests": {"cpu": "100m", "memory": "32Mi"}, "limits": {"memory": "64Mi"}}),
        ),
        ("besteffort", json!({})),
    ];
    for (name, resources) in &resources {
        create(name, &["serve"], resources)?;
    }
    for (name, _) in &resources {
        until(name, "it to run", running)?;
    }
    let (limit, weight) = ("67108864", |shares: u64| 1 + (shares - 2) * 9999 / 262_142);
    let (guaranteed, container) = groups("guaranteed", "")?;
    holds(&guaranteed, "cpu.max", "25000 100000")?;
    holds(&guaranteed, "cpu.weight", &weight(256).to_string())?;
    holds(&guaranteed, "memory.max", limit)?;
    holds(&guaranteed, "pids.max", &POD_TASKS.to_string())?;
    holds(&container, "cpu.max", "25000 100000")?;
    holds(&container, "memory.max", limit)?;
    holds(&container, "memory.oom.group", "1")?;
    let (burstable, container) = groups("burstable", "burstable")?;
    holds(&burstable, "cpu.max", "max 100000")?;
    holds(&burstable, "cpu.weight", &weight(102).to_string())?;
    holds(&burstable, "memory.max", limit)?;
    holds(&container, "memory.max", limit)?;
    let (besteffort, container) = groups("besteffort", "besteffort")?;
    holds(&besteffort, "cpu.weight", "1")?;
    holds(&besteffort, "memory.max", "max")?;
    holds(&container, "memory.max", "max")?;
    holds(
        Path::new(GROUPS).join("besteffort").as_path(),
        "cpu.weight",
        "1",
    )?;
    let uids = ["guaranteed", "burstable", "besteffort"].map(uid);
    for (name, _) in &resources {
        delete(name)?;
    }
    for uid in uids {
        let uid = uid?;
        eventually("groups to go with their pods", || {
            let left = ["", "burstable", "besteffort"]
                .map(|class| Path::new(GROUPS).join(class).join(format!("pod{uid}")))
                .into_iter()
                .find(|path| path.exists());
            ensure(left.is_none(), format!("{left:?} is there"))
        })?;
    }
    Ok(())
}

fn oom() -> Result<(), Failure> {
    create(
        "greedy",
        &["hold", "256"],
        &json!({"limits": {"memory": "64Mi"}}),
    )?;
    let pod = until("greedy", "it to end", |pod| {
        pod.pointer("/status/containerStatuses/0/state/terminated")
            .is_some()
    })?;
    let ended = &pod["status"]["containerStatuses"][0]["state"]["terminated"];
    let told = (&ended["reason"], &ended["exitCode"]);
    ensure(
        told == (&json!("OOMKilled"), &json!(137)),
        format!("its end is {ended}"),
    )?;
    ensure(
        pod["status"]["phase"] == "Failed",
        "its phase is not Failed",
    )?;
    delete("greedy")
}

fn bomb() -> Result<(), Failure> {
    create("bomb", &["fork", "1000"], &json!({}))?;
    until("bomb", "it to run", running)?;
    let (group, container) = groups("bomb", "besteffort")?;
    eventually("the limit of tasks to be reached", || {
        // Before Linux 6.11 it is counted where the fork was, not where the limit is.
        let refused = refused(&group)? + refused(&container)?;
        ensure(refused > 0, "nothing was refused")
    })?;
    let now: u64 = fs::read_to_string(group.join("pids.current"))?
        .trim()
        .parse()?;
    ensure(now <= POD_TASKS, format!("it has {now} tasks"))?;
    // others do not notice
    create("neighbour", &["serve"], &json!({}))?;
    until("neighbour", "it to run beside", running)?;
    ensure(
        condition("PIDPressure")? == "False",
        "the node is short of tasks",
    )?;
    delete("neighbour")?;
    delete("bomb")
}

/// How often a fork was refused in a group.
fn refused(group: &Path) -> Result<u64, Failure> {
    let events = fs::read_to_string(group.join("pids.events"))?;
    let count = events.lines().find_map(|line| line.strip_prefix("max "));
    Ok(count.ok_or("no count of refusals")?.parse()?)
}

fn evicted_for_tasks() -> Result<(), Failure> {
    let file = Path::new("/proc/sys/kernel/threads-max");
    let before = fs::read_to_string(file)?;
    fs::write(file, (tasks()? + TASKS_LEAST + 200).to_string())?;
    let result = (|| {
        create("few", &["fork", "90"], &json!({}))?;
        until("few", "it to run", running)?;
        create("many", &["fork", "120"], &json!({}))?;
        evicted("many", "pids", "PIDPressure")?;
        let few = get("few")?;
        ensure(running(&few), format!("the other one is {}", few["status"]))
    })();
    fs::write(file, before)?;
    result?;
    eventually("the node to be well again", || {
        ensure(condition("PIDPressure")? == "False", "it is short of tasks")
    })?;
    delete("few")?;
    delete("many")
}

fn evicted_for_memory() -> Result<(), Failure> {
    create(
        "modest",
        &["hold", "16"],
        &json!({"requests": {"memory": "64Mi"}}),
    )?;
    until("modest", "it to run", running)?;
    let wanted = available()?.saturating_sub(MEMORY_LEAST) / MI + 150;
    create("hungry", &["hold", &wanted.to_string()], &json!({}))?;
    evicted("hungry", "memory", "MemoryPressure")?;
    let modest = get("modest")?;
    ensure(
        running(&modest),
        format!("the other one is {}", modest["status"]),
    )?;
    eventually("the node to be well again", || {
        ensure(
            condition("MemoryPressure")? == "False",
            "it is short of memory",
        )
    })?;
    delete("modest")?;
    delete("hungry")
}

/// Waits until the pod is evicted, the node says what it is short of, and the pod's
/// processes are gone.
fn evicted(name: &str, what: &str, of: &str) -> Result<(), Failure> {
    eventually(of, || {
        ensure(condition(of)? == "True", "the node is not short")
    })?;
    let pod = until(name, "it to be evicted", |pod| {
        pod["status"]["phase"] == "Failed"
    })?;
    ensure(
        pod["status"]["reason"] == "Evicted",
        format!("its reason is {}", pod["status"]["reason"]),
    )?;
    let message = pod["status"]["message"].as_str().unwrap_or_default();
    let begin = format!("The node was low on resource: {what}. Threshold quantity: ");
    ensure(message.starts_with(&begin), format!("it says: {message}"))
}

// === what is asked ===

fn create(name: &str, command: &[&str], resources: &Value) -> Result<(), Failure> {
    let arguments: Vec<&str> = command.to_vec();
    let pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "automountServiceAccountToken": false,
            "containers": [{
                "name": "main",
                "image": DEMO,
                "args": arguments,
                "resources": resources,
            }],
        },
    });
    let file = format!("/run/{name}.json");
    fs::write(&file, pod.to_string())?;
    eventually("a pod to be taken", || {
        kubectl(&["create", "-f", &file]).map(drop)
    })
}

fn delete(name: &str) -> Result<(), Failure> {
    kubectl(&["delete", "pod", name, "--wait=true", "--timeout=200s"]).map(drop)
}

fn get(name: &str) -> Result<Value, Failure> {
    let text = kubectl(&["get", "pod", name, "-o", "json"])?;
    Ok(serde_json::from_str(&text)?)
}

fn uid(name: &str) -> Result<String, Failure> {
    let pod = get(name)?;
    Ok(pod["metadata"]["uid"]
        .as_str()
        .unwrap_or_default()
        .to_owned())
}

/// The pod, once it is as it should be.
fn until(name: &str, what: &str, is: impl Fn(&Value) -> bool) -> Result<Value, Failure> {
    let mut last = Value::Null;
    eventually(&format!("pod {name}: {what}"), || {
        last = get(name)?;
        ensure(is(&last), format!("its status is {}", last["status"]))
    })?;
    Ok(last)
}

fn running(pod: &Value) -> bool {
    pod.pointer("/status/containerStatuses/0/state/running")
        .is_some()
}

/// The groups of a pod and of its container.
fn groups(name: &str, class: &str) -> Result<(PathBuf, PathBuf), Failure> {
    let pod = get(name)?;
    let uid = pod["metadata"]["uid"].as_str().unwrap_or_default();
    let id = pod["status"]["containerStatuses"][0]["containerID"].as_str();
    let id = id.and_then(|id| id.rsplit('/').next()).unwrap_or_default();
    let group = Path::new(GROUPS).join(class).join(format!("pod{uid}"));
    let container = group.join(id);
    ensure(
        container.is_dir(),
        format!("{} is not there", container.display()),
    )?;
    Ok((group, container))
}

fn holds(group: &Path, file: &str, wanted: &str) -> Result<(), Failure> {
    let path = group.join(file);
    let found =
        fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    let found = found.trim();
    ensure(
        found == wanted,
        format!("{} is `{found}`, not `{wanted}`", path.display()),
    )
}

fn condition(kind: &str) -> Result<String, Failure> {
    let path = format!("jsonpath={{.status.conditions[?(@.type==\"{kind}\")].status}}");
    kubectl(&["get", "node", NODE, "-o", &path])
}

/// Tasks of the whole machine.
fn tasks() -> Result<u64, Failure> {
    let text = fs::read_to_string("/proc/loadavg")?;
    let count = text.split(['/', ' ']).nth(4).ok_or("no count of tasks")?;
    Ok(count.parse()?)
}

/// Bytes of memory that are available.
fn available() -> Result<u64, Failure> {
    let text = fs::read_to_string("/proc/meminfo")?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("MemAvailable:"));
    let kibi: u64 = line
        .and_then(|line| line.split_whitespace().next())
        .ok_or("no MemAvailable")?
        .parse()?;
    Ok(kibi << 10)
}

fn kubectl(arguments: &[&str]) -> Result<String, Failure> {
    let mut all = vec!["--kubeconfig", KUBECONFIG, "--request-timeout=60s"];
    all.extend(arguments);
    run("kubectl", &all)
}
