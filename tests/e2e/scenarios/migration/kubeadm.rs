//! A cluster that kubeadm made: `kubeadm init` on the first test host, `kubeadm join` on the
//! second, and a network of pods of standard CNI plugins.
//!
//! kubeadm's configuration says what differs on test hosts: their control groups, of which they
//! have not the roots and which may be of version 1; files of the machine's that hosts share; and
//! the size of the connection tracking table, which only the machine's own network may set.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};
use tests::{Cluster, Failure, ensure, eventually, lan::Lan, machine, stock_program};

use super::{
    images,
    stock::{self, NODES, script, shell},
};

/// The administrator's machine, which is no node.
pub const ADMINISTRATOR: &str = "10.88.0.2/24";

/// Stock programs: the variable that names another, and the name.
const PROGRAMS: [(&str, &str); 8] = [
    ("KUBEADM", "kubeadm"),
    ("ORLOP_KUBELET", "kubelet"),
    ("KUBE_APISERVER", "kube-apiserver"),
    ("KUBE_CONTROLLER_MANAGER", "kube-controller-manager"),
    ("KUBE_SCHEDULER", "kube-scheduler"),
    ("KUBE_PROXY", "kube-proxy"),
    // Debian's etcd does not know the options that kubeadm gives.
    ("ETCD_SERVER", "etcd-server"),
    ("COREDNS", "coredns"),
];

/// What the kubelet's unit in the packages runs.
const KUBELET: &str = "#!/bin/sh
echo $$ > /mnt/kubelet.pid
. /var/lib/kubelet/kubeadm-flags.env
exec kubelet --bootstrap-kubeconfig=/etc/kubernetes/bootstrap-kubelet.conf \\
    --kubeconfig=/etc/kubernetes/kubelet.conf --config=/var/lib/kubelet/config.yaml \\
    $KUBELET_KUBEADM_ARGS
";

const CONFIGURATION: &str = "apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
nodeRegistration: {criSocket: 'unix:///mnt/containerd.sock'}
patches: {directory: /mnt/patches}
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: VERSION
networking: {podSubnet: 10.244.0.0/16}
controllerManager:
  extraArgs: [{name: flex-volume-plugin-dir, value: /var/lib/kubelet/flex}]
---
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
# Without CAP_SYS_RESOURCE nobody may lower a process's OOM score.
oomScoreAdj: 0
volumePluginDir: /var/lib/kubelet/flex
evictionHard:
  memory.available: 100Mi
  nodefs.available: 1%
  nodefs.inodesFree: 1%
  imagefs.available: 1%
  imagefs.inodesFree: 1%
imageGCHighThresholdPercent: 99
imageGCLowThresholdPercent: 98
---
apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
mode: 'MODE'
conntrack: {maxPerCore: 0, min: 0}
";

/// The checks that a test host does not pass: for its control groups of version 1.
const IGNORED: &str = "SystemVerification";

/// The stock programs that a cluster needs.
///
/// # Errors
/// The variable and the name of the first that is not there.
pub fn programs() -> Result<BTreeMap<String, PathBuf>, (&'static str, &'static str)> {
    let found = |(variable, name): &(&'static str, &'static str)| {
        let path = stock_program(variable, name).ok_or((*variable, *name))?;
        Ok(((*name).to_owned(), path))
    };
    PROGRAMS.iter().map(found).collect()
}

/// Has kubeadm make a cluster of bare hosts, with this mode in kube-proxy's configuration; empty:
/// kubeadm's default.
pub fn install(
    cluster: &mut Cluster,
    programs: &BTreeMap<String, PathBuf>,
    mode: &str,
) -> Result<(), Failure> {
    let version = version(&programs["kubeadm"])?;
    let names = image_names(&programs["kubeadm"], &version)?;
    let archive = cluster.dir.join("nodes/stock");
    fs::create_dir_all(&archive)?;
    write_images(&archive.join("images.tar"), &names, programs)?;
    let pause = names.iter().find(|name| images::base(name) == "pause");
    let pause = pause.ok_or("kubeadm lists no pause image")?;
    for (name, _) in NODES {
        cluster.host("kill", name)?;
        prepare(cluster, programs, name, pause, &archive)?;
        cluster.host("start", name)?;
        // As "Installing kubeadm" and "Container runtimes" in Kubernetes' documentation say.
        let settings = "net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1";
        shell(cluster, name, &format!("sysctl -qw {settings}"))?;
        // CoreDNS wants a name server to ask for other names; none is there.
        let resolver = "echo nameserver 10.88.0.1 > /etc/resolv.conf";
        shell(cluster, name, resolver)?;
        let import = "ctr --namespace k8s.io images import /mnt/stock/images.tar";
        shell(cluster, name, import)?;
    }
    let (first, second) = (NODES[0].0, NODES[1].0);
    let configuration = CONFIGURATION
        .replace("VERSION", &version)
        .replace("MODE", mode);
    fs::write(folder(cluster, first).join("kubeadm.yaml"), configuration)?;
    let ignored = format!("--ignore-preflight-errors={IGNORED}");
    let init = format!("kubeadm init --config /mnt/kubeadm.yaml {ignored} 2>&1");
    shell(cluster, first, &init)?;
    let join = shell(cluster, first, "kubeadm token create --print-join-command")?;
    let runtime = "--cri-socket unix:///mnt/containerd.sock --patches /mnt/patches";
    let join = format!("{} {ignored} {runtime} 2>&1", join.trim());
    shell(cluster, second, &join)?;

    let lan = Lan::join(&cluster.dir, ADMINISTRATOR)?;
    fs::copy(
        folder(cluster, first).join("etc/kubernetes/admin.conf"),
        cluster.kubeconfig(),
    )?;
    cluster.clients_in(lan.network());
    join_pods(cluster)?;
    cluster.kubectl("wait --for=condition=Ready node --all --timeout=60s")?;
    for addon in ["daemonset/kube-proxy", "deployment/coredns"] {
        cluster.kubectl(&format!(
            "-n kube-system rollout status {addon} --timeout=120s"
        ))?;
    }
    Ok(())
}

fn folder(cluster: &Cluster, name: &str) -> PathBuf {
    cluster.dir.join("nodes").join(name)
}

/// The version that a kubeadm of this release installs.
fn version(kubeadm: &Path) -> Result<String, Failure> {
    let mut command = Command::new(kubeadm);
    Ok(printed(command.args(["version", "-o", "short"]))?
        .trim()
        .to_owned())
}

fn image_names(kubeadm: &Path, version: &str) -> Result<Vec<String>, Failure> {
    let mut command = Command::new(kubeadm);
    command.args(["config", "images", "list", "--kubernetes-version", version]);
    let names = printed(&mut command)?;
    Ok(names.lines().map(str::to_owned).collect())
}

fn printed(command: &mut Command) -> Result<String, Failure> {
    let output = command.output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure(output.status.success(), format!("{command:?}: {errors}"))?;
    Ok(String::from_utf8(output.stdout)?)
}

fn write_images(
    archive: &Path,
    names: &[String],
    programs: &BTreeMap<String, PathBuf>,
) -> Result<(), Failure> {
    let mut of_images = programs.clone();
    of_images.insert("etcd".to_owned(), programs["etcd-server"].clone());
    let made = tests::programs().join("../images/x86_64-unknown-linux-gnu/release");
    of_images.insert("pause".to_owned(), made.join("pause"));
    images::write(archive, names, &of_images)
}

/// Writes what the next start of a host is to find: a container runtime, kubeadm, and a kubelet
/// that kubeadm starts.
fn prepare(
    cluster: &Cluster,
    programs: &BTreeMap<String, PathBuf>,
    name: &str,
    pause: &str,
    archive: &Path,
) -> Result<(), Failure> {
    let folder = folder(cluster, name);
    stock::tools(&folder)?;
    for program in ["kubeadm", "kubelet"] {
        symlink(&programs[program], folder.join("tools").join(program))?;
    }
    script(&folder.join("tools/run-kubelet"), KUBELET)?;
    fs::write(folder.join("held/kubelet"), "")?;
    let runtime = folder.join("containerd.toml");
    let text = fs::read_to_string(&runtime)?;
    fs::write(&runtime, with_sandbox_image(&text, pause))?;
    let group = machine::group_of(&cluster.dir, name).ok_or("no record of the cluster")?;
    let group = group.trim_end_matches("/system");
    fs::write(folder.join("cgroup.path"), format!("{}{group}", unified()?))?;
    fs::create_dir_all(folder.join("patches"))?;
    fs::write(
        folder.join("patches/kubeletconfiguration.json"),
        json!({"cgroupRoot": group}).to_string(),
    )?;
    let path = folder.join("host.json");
    let mut host: Value = serde_json::from_slice(&fs::read(&path)?)?;
    let all = host["programs"].as_array_mut().ok_or("no programs")?;
    let path_in_host = "PATH=/mnt/tools:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin";
    all.push(json!({"name": "kubelet", "command": ["env", path_in_host, "run-kubelet"]}));
    all.push(stock::datapath());
    let binds = host["binds"].as_array_mut().ok_or("no binds")?;
    binds.push(json!(["stock", archive]));
    Ok(fs::write(path, serde_json::to_vec_pretty(&host)?)?)
}

/// The runtime's configuration with another image of sandboxes.
fn with_sandbox_image(text: &str, pause: &str) -> String {
    let line = |line: &str| match line.split_once("sandbox_image = ") {
        Some((before, _)) => format!("{before}sandbox_image = \"{pause}\"\n"),
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// Where the machine has control groups of version 2.
fn unified() -> Result<String, Failure> {
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    let mut mounts = mounts
        .lines()
        .map(|line| line.split(' ').collect::<Vec<_>>());
    let found = mounts.find(|words| words.get(2) == Some(&"cgroup2"));
    Ok(found.ok_or("no control groups of version 2")?[1].to_owned())
}

/// Gives nodes a network of pods, once they have ranges.
fn join_pods(cluster: &Cluster) -> Result<(), Failure> {
    for (at, (name, address)) in NODES.iter().enumerate() {
        let range = eventually("a pod range", 30, || {
            let node = cluster.get(&format!("node {name}"))?;
            let range = node["spec"]["podCIDR"].as_str().ok_or("none yet")?;
            Ok(range.to_owned())
        })?;
        stock::network(&folder(cluster, name), &range)?;
        let route = format!("ip route add {range} via {address}");
        shell(cluster, NODES[1 - at].0, &route)?;
    }
    Ok(())
}
