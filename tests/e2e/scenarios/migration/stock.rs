//! Test hosts made into nodes as kubeadm makes them: a stock kubelet, standard CNI plugins,
//! kubeconfigs where kubeadm or k3s has them, and nothing of Orlop but its program. A cluster
//! comes up with our agents first, which gives its Nodes their pod ranges; then its hosts are
//! started with other programs.
//!
//! A test host has no systemd. `systemctl` there is a script that has the host's first process
//! run, or no longer run, the program of a unit: of the one that `orlop node-agent install` wrote,
//! or of kubeadm's kubelet.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use tests::{Cluster, Failure, ensure, eventually, machine, node_programs};

/// The nodes, and their addresses.
pub const NODES: [(&str, &str); 2] = [("node-1", "10.88.0.11"), ("node-2", "10.88.0.12")];
/// Where Debian puts the standard CNI plugins.
pub const PLUGINS: &str = "/usr/lib/cni";

const SERVER: &str = "https://10.88.0.11:6443";

const NETWORK: &str = r#"{"cniVersion": "0.4.0", "name": "pods", "plugins": [
  {"type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "RANGE"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}
]}"#;

const SYSTEMCTL: &str = r#"#!/bin/sh
verb=$1
shift
if [ "$1" = --now ]; then shift; fi
unit=${1%.service}
runs() { [ -e "/mnt/$unit.pid" ] && [ -e "/proc/$(cat "/mnt/$unit.pid")" ]; }
stop() {
    touch "/mnt/held/$unit"
    runs || return 0
    kill "$(cat "/mnt/$unit.pid")"
    while runs; do sleep 0.1; done
}
case "$verb" in
daemon-reload | is-enabled) ;;
status) [ -e "/mnt/held/$unit" ] || runs || echo "Unit $unit.service could not be found." ;;
is-active) runs && echo active ;;
enable | start) rm -f "/mnt/held/$unit" ;;
disable | stop) stop ;;
restart)
    stop
    rm "/mnt/held/$unit" ;;
*) echo "unknown verb $verb" >&2; exit 1 ;;
esac
"#;

/// Runs what the unit of its argument starts.
const UNIT: &str = "#!/bin/sh
echo $$ > /mnt/$1.pid
exec $(sed -n 's/^ExecStart=//p' /etc/systemd/system/$1.service)
";

/// The unit that `orlop node-agent install` writes.
pub const DATAPATH: &str = "orlop-datapath";

/// Stock programs of the nodes.
pub struct Stock {
    pub kubelet: PathBuf,
    pub kube_proxy: PathBuf,
}

/// Where a distribution keeps its kubeconfigs, as absolute paths.
pub struct Kubeconfigs {
    pub kubelet: &'static str,
    pub administrator: &'static str,
}

/// Those of kubeadm.
pub const KUBEADM: Kubeconfigs = Kubeconfigs {
    kubelet: "/etc/kubernetes/kubelet.conf",
    administrator: "/etc/kubernetes/admin.conf",
};

/// Starts the hosts of a cluster as stock nodes, after `further` has prepared the folder of each, by
/// its name.
pub fn convert(
    cluster: &Cluster,
    stock: &Stock,
    kubeconfigs: &Kubeconfigs,
    further: impl Fn(&Path, &str) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let ranges: Vec<String> = NODES
        .iter()
        .map(|(name, _)| {
            eventually("a pod range", 30, || {
                let node = cluster.get(&format!("node {name}"))?;
                let range = node["spec"]["podCIDR"].as_str().ok_or("none yet")?;
                Ok(range.to_owned())
            })
        })
        .collect::<Result<_, _>>()?;
    for (name, _) in NODES {
        cluster.host("kill", name)?;
    }
    for ((name, address), range) in NODES.iter().zip(&ranges) {
        prepare(cluster, stock, kubeconfigs, (name, address), range)?;
        further(&cluster.dir.join("nodes").join(name), name)?;
        cluster.host("start", name)?;
    }
    for (at, (name, _)) in NODES.iter().enumerate() {
        let other = 1 - at;
        let route = format!("ip route add {} via {}", ranges[other], NODES[other].1);
        let settings = "net.ipv4.ip_forward=1 net.bridge.bridge-nf-call-iptables=1";
        shell(cluster, name, &format!("sysctl -qw {settings} && {route}"))?;
    }
    // What a stock API server does not let nodes do.
    cluster
        .kubectl("delete clusterrolebinding orlop:node-agent")
        .map(drop)
}

/// Writes what the next start of a host is to find.
fn prepare(
    cluster: &Cluster,
    stock: &Stock,
    kubeconfigs: &Kubeconfigs,
    (name, address): (&str, &str),
    range: &str,
) -> Result<(), Failure> {
    let folder = cluster.dir.join("nodes").join(name);
    let group = machine::group_of(&cluster.dir, name).ok_or("no record of the cluster")?;
    let group = group.trim_end_matches("/system");
    // What our agent left on the disk.
    for left in ["opt/cni/bin/orlop-cni", "state"] {
        let path = folder.join(left);
        if path.is_dir() {
            fs::remove_dir_all(path)?;
        } else if path.exists() {
            fs::remove_file(path)?;
        }
    }
    tools(&folder)?;
    network(&folder, range)?;
    let given = fs::read_to_string(folder.join("kubelet.yaml"))?;
    fs::write(
        folder.join("stock.yaml"),
        kubelet_configuration(&given, group),
    )?;
    let of_kubelet = within(&folder, kubeconfigs.kubelet)?;
    fs::copy(folder.join("credentials/kubeconfig"), of_kubelet)?;
    if name == NODES[0].0 {
        administrator(cluster, &within(&folder, kubeconfigs.administrator)?)?;
    }
    programs(&folder, stock, kubeconfigs, (name, address))
}

/// Where a path of a host's is in its folder; makes the parent.
pub fn within(folder: &Path, path: &str) -> Result<PathBuf, Failure> {
    let path = folder.join(path.trim_start_matches('/'));
    fs::create_dir_all(path.parent().ok_or("a path without a folder")?)?;
    Ok(path)
}

/// The scripts and clients of a host, and a container runtime with standard CNI plugins.
pub fn tools(folder: &Path) -> Result<(), Failure> {
    for made in ["tools", "held", "cni", "etc/systemd/system"] {
        fs::create_dir_all(folder.join(made))?;
    }
    script(&folder.join("tools/systemctl"), SYSTEMCTL)?;
    script(&folder.join("tools/unit"), UNIT)?;
    let demo = "../images/x86_64-unknown-linux-gnu/release/demo";
    fs::copy(tests::programs().join(demo), folder.join("tools/demo"))?;
    fs::write(folder.join("held").join(DATAPATH), "")?;
    let runtime = folder.join("containerd.toml");
    let text = fs::read_to_string(&runtime)?
        .replace("/opt/cni/bin", PLUGINS)
        .replace("/etc/cni/net.d", "/mnt/cni");
    Ok(fs::write(runtime, text)?)
}

/// A network of the host's pods, whose range this is.
pub fn network(folder: &Path, range: &str) -> Result<(), Failure> {
    let text = NETWORK.replace("RANGE", range);
    Ok(fs::write(folder.join("cni/10-pods.conflist"), text)?)
}

/// The program that runs the datapath's unit.
pub fn datapath() -> Value {
    json!({"name": DATAPATH, "command": ["/mnt/tools/unit", DATAPATH]})
}

fn kubelet_configuration(given: &str, group: &str) -> String {
    format!(
        "{given}
containerRuntimeEndpoint: unix:///mnt/containerd.sock
tlsCertFile: /mnt/credentials/serving.crt
tlsPrivateKeyFile: /mnt/credentials/serving.key
authentication: {{anonymous: {{enabled: false}}, x509: {{clientCAFile: /mnt/credentials/ca.crt}}}}
authorization: {{mode: Webhook}}
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
cgroupDriver: cgroupfs
cgroupRoot: {group}
failCgroupV1: false
failSwapOn: false
# Without CAP_SYS_RESOURCE nobody may lower a process's OOM score.
oomScoreAdj: 0
"
    )
}

/// Writes an administrator's kubeconfig.
pub fn administrator(cluster: &Cluster, file: &Path) -> Result<(), Failure> {
    let _ = fs::remove_file(file);
    let made = Command::new(node_programs().join("orlop"))
        .args(["credentials", "admin", "--server", SERVER, "--data-dir"])
        .arg(cluster.dir.join("server"))
        .arg("--output")
        .arg(file)
        .output()?;
    let said = String::from_utf8_lossy(&made.stderr);
    ensure(made.status.success(), format!("credentials: {said}"))
}

/// The kubelet in the agent's place, and the unit that is yet to be written.
fn programs(
    folder: &Path,
    stock: &Stock,
    kubeconfigs: &Kubeconfigs,
    (name, address): (&str, &str),
) -> Result<(), Failure> {
    let path = folder.join("host.json");
    let mut host: Value = serde_json::from_slice(&fs::read(&path)?)?;
    let kubelet = json!([
        stock.kubelet,
        "--config=/mnt/stock.yaml",
        format!("--kubeconfig={}", kubeconfigs.kubelet),
        format!("--hostname-override={name}"),
        format!("--node-ip={address}"),
    ]);
    let all = host["programs"].as_array_mut().ok_or("no programs")?;
    let agent = all.iter().find(|it| it["name"] == "node-agent");
    let words = agent
        .and_then(|it| it["command"].as_array())
        .ok_or("no agent")?;
    let at = words
        .iter()
        .position(|word| word == "--cgroup")
        .ok_or("no cgroup")?;
    let of_host = words
        .get(at + 1)
        .and_then(Value::as_str)
        .unwrap_or_default();
    fs::write(folder.join("cgroup.path"), of_host)?;
    all.retain(|it| it["name"] != "node-agent");
    all.push(json!({"name": "kubelet", "command": kubelet}));
    all.push(datapath());
    let of_proxy = stock
        .kube_proxy
        .parent()
        .ok_or("kube-proxy without a folder")?;
    let binds = host["binds"].as_array_mut().ok_or("no binds")?;
    binds.push(json!(["kube-proxy", of_proxy]));
    Ok(fs::write(path, serde_json::to_vec_pretty(&host)?)?)
}

/// Writes a script.
pub fn script(path: &Path, text: &str) -> Result<(), Failure> {
    fs::write(path, text)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// A shell's line as a process of a host, as an operator runs it there.
pub fn command(cluster: &Cluster, node: &str, line: &str) -> Command {
    let mut command = Command::new(tests::programs().join("xtask"));
    command
        .current_dir(tests::workspace())
        .args(["shell", node, "--state"])
        .arg(&cluster.dir)
        .args(["--", "sh", "-c"])
        .arg(format!("export PATH=/mnt/tools:$PATH; {line}"))
        .stdin(Stdio::null());
    command
}

/// What such a line prints.
pub fn shell(cluster: &Cluster, node: &str, line: &str) -> Result<String, Failure> {
    let output = command(cluster, node, line).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure(
        output.status.success(),
        format!("{line} on {node}: {errors}{text}"),
    )?;
    Ok(text)
}
