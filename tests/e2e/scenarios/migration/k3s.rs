//! Test hosts made into nodes as k3s makes them: kube-proxy is a part of k3s's process, kubeconfigs are
//! below `/var/lib/rancher` and `/etc/rancher`, and `disable-kube-proxy` in k3s's configuration takes
//! effect when k3s is started again. k3s itself is not run: its process is the stock kube-proxy under
//! k3s's name, beside the stock kubelet.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::{Value, json};
use tests::{Cluster, Failure, ensure, eventually, node_programs};

use super::stock::{self, Kubeconfigs, NODES, Stock, script, shell, within};

/// The mode of k3s's kube-proxy.
pub const MODE: &str = "iptables";

const KUBECONFIGS: Kubeconfigs = Kubeconfigs {
    kubelet: "/var/lib/rancher/k3s/agent/kubelet.kubeconfig",
    administrator: "/etc/rancher/k3s/k3s.yaml",
};
/// kube-proxy's kubeconfig.
const KUBE_PROXY: &str = "/var/lib/rancher/k3s/agent/kubeproxy.kubeconfig";
const CONFIGURATION: &str = "/etc/rancher/k3s/config.yaml";

/// Runs kube-proxy as k3s does, unless k3s's configuration disables it.
const K3S: &str = "#!/bin/sh
echo $$ > /mnt/k3s.pid
grep -qs '^disable-kube-proxy: true' CONFIGURATION && exec sleep infinity
exec k3s-server --proxy-mode=iptables --healthz-bind-address=127.0.0.1 \\
    --kubeconfig=KUBE_PROXY --hostname-override=NAME \\
    --conntrack-max-per-core=0 --conntrack-min=0
";

/// Starts the hosts of a cluster as nodes of k3s.
pub fn convert(cluster: &Cluster, stock: &Stock) -> Result<(), Failure> {
    stock::convert(cluster, stock, &KUBECONFIGS, |folder, name| {
        stock::administrator(cluster, &within(folder, KUBE_PROXY)?)?;
        within(folder, CONFIGURATION)?;
        symlink(&stock.kube_proxy, folder.join("tools/k3s-server"))?;
        let text = K3S
            .replace("CONFIGURATION", CONFIGURATION)
            .replace("KUBE_PROXY", KUBE_PROXY)
            .replace("NAME", name);
        script(&folder.join("tools/k3s"), &text)?;
        add_program(folder)
    })
}

fn add_program(folder: &Path) -> Result<(), Failure> {
    let path = folder.join("host.json");
    let mut host: Value = serde_json::from_slice(&fs::read(&path)?)?;
    let all = host["programs"].as_array_mut().ok_or("no programs")?;
    let path_in_host = "PATH=/mnt/tools:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin";
    all.push(json!({"name": "k3s", "command": ["env", path_in_host, "k3s"]}));
    Ok(fs::write(path, serde_json::to_vec_pretty(&host)?)?)
}

/// Starts k3s again on a node, after the agent there has taken kube-proxy's ports.
pub fn start_again(cluster: &Cluster, node: &str) -> Result<(), Failure> {
    shell(cluster, node, "systemctl stop k3s")?;
    super::mode(cluster, node, "ebpf")?;
    shell(cluster, node, "systemctl start k3s").map(drop)
}

/// `orlop migrate kube-proxy`, or the way back, by an administrator who starts k3s again on each node
/// when the command waits for it.
pub fn migrate(cluster: &Cluster, undo: bool) -> Result<(), Failure> {
    let mut command = cluster.client(&node_programs().join("orlop"));
    command
        .args(["migrate", "kube-proxy", "--timeout", "60s", "--kubeconfig"])
        .arg(cluster.kubeconfig())
        .args(undo.then_some("--undo"));
    let waits = if undo {
        "kube-proxy does not run on this node yet"
    } else {
        "kube-proxy still runs on this node"
    };
    let running = spawn(command)?;
    for _ in NODES {
        let node = eventually("a node that waits for k3s", 60, || waiting(cluster, waits))?;
        let configure = if undo {
            format!("rm {CONFIGURATION}")
        } else {
            format!("echo 'disable-kube-proxy: true' > {CONFIGURATION}")
        };
        shell(
            cluster,
            &node,
            &format!("{configure} && systemctl restart k3s"),
        )?;
        eventually("a node that goes on", 60, || {
            match waiting(cluster, waits) {
                Ok(still) if still == node => Err(format!("{node} waits").into()),
                _ => Ok(()),
            }
        })?;
    }
    let output = running.wait_with_output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    println!("    {}", said.trim().replace('\n', "\n    "));
    ensure(output.status.success(), format!("migrate: {errors}{said}"))
}

fn spawn(mut command: Command) -> Result<std::process::Child, Failure> {
    let pipes = command.stdin(Stdio::null()).stdout(Stdio::piped());
    Ok(pipes.stderr(Stdio::piped()).spawn()?)
}

/// The node whose agent says that it waits so.
fn waiting(cluster: &Cluster, so: &str) -> Result<String, Failure> {
    for (node, _) in NODES {
        let object = cluster.get(&format!("node {node}"))?;
        let conditions = object["status"]["conditions"].as_array();
        let waits = conditions.into_iter().flatten().any(|it| {
            it["type"] == "KubeProxyReplaced"
                && it["message"].as_str().is_some_and(|it| it.starts_with(so))
        });
        if waits {
            return Ok(node.to_owned());
        }
    }
    Err("no node waits".into())
}
