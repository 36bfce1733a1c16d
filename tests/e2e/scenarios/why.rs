//! `orlop why`: the chain at both ends, from both nodes, and where one of them does
//! not know yet what the other does.

use tests::{Cluster, Failure, ensure, eventually, machine, netns, node_programs};

use super::IMAGE;

/// The node that hears nothing of the API for a while.
const BEHIND: &str = "node-2";

const POLICY: &str = "apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: {name: why-nobody}
spec:
  podSelector: {matchLabels: {app: why-asked}}
  policyTypes: [Ingress]
";

pub fn run(cluster: &Cluster) -> Result<(), Failure> {
    start(cluster, "why-asked", BEHIND)?;
    start(cluster, "why-asker", "node-1")?;
    // Both nodes then know who may ask them, too.
    let both_agree = |verdict: &str| {
        eventually("the same from both nodes", 60, || {
            let said = why(cluster, "why-asker")?;
            ensure(
                said.starts_with(verdict) && !said.contains("compiled") && !said.contains("! who"),
                said.clone(),
            )?;
            Ok(said)
        })
    };
    let said = both_agree("ALLOWED")?;
    for chain in ["on node-1", "on node-2", "ENDPOINTS", "map says"] {
        ensure(said.contains(chain), format!("no {chain:?} in {said}"))?;
    }
    let cut = Cut::new(cluster)?;
    cluster.kubectl_with("apply -f -", POLICY)?;
    start(cluster, "why-newcomer", "node-1")?;
    let says = |who: &str, verdict: &str, all: &[&str]| {
        eventually("what the nodes differ in", 60, || {
            let said = why(cluster, who)?;
            let has_all = all.iter().all(|it| said.contains(it));
            ensure(said.starts_with(verdict) && has_all, said.clone())
        })
    };
    // Programs go by the maps of the node, so that is what becomes of the flow.
    says(
        "why-asker",
        "ALLOWED",
        &[
            "! ingress on node-2: the node compiled `ingress allowed: no policy selects it`, \
             the objects say `ingress denied: no ingress rule allows it; \
             selected by NetworkPolicy default/why-nobody`",
        ],
    )?;
    says(
        "why-newcomer",
        "ALLOWED",
        &["! who the sender is: default/why-newcomer to node-1, "],
    )?;
    drop(cut);
    let said = both_agree("DROPPED")?;
    let object = "object    NetworkPolicy default/why-nobody";
    ensure(said.contains(object), format!("no {object:?} in {said}"))?;
    cluster.kubectl("delete networkpolicy why-nobody")?;
    cluster
        .kubectl("delete pod why-asked why-asker why-newcomer --grace-period=1")
        .map(drop)
}

fn start(cluster: &Cluster, name: &str, node: &str) -> Result<(), Failure> {
    let pod = format!(
        "apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: {name}}}}}
spec:
  nodeName: {node}
  containers: [{{name: main, image: {IMAGE}}}]
"
    );
    cluster.kubectl_with("apply -f -", &pod)?;
    cluster
        .kubectl(&format!(
            "wait pod/{name} --for=condition=Ready --timeout=60s"
        ))
        .map(drop)
}

/// What is said about a pod that asks the asked one.
fn why(cluster: &Cluster, who: &str) -> Result<String, Failure> {
    let output = std::process::Command::new(node_programs().join("orlop"))
        .args(["why", &format!("default/{who}"), "default/why-asked:8080"])
        .arg("--kubeconfig")
        .arg(cluster.kubeconfig())
        .output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure(output.status.success(), format!("orlop why: {error}"))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// While this is there, no program of the node reaches the API server, which still
/// reaches the node.
struct Cut {
    network: std::path::PathBuf,
}

/// Before all that leads anywhere but to the node itself.
const RULE: &str = "priority 1 ipproto tcp dport 6443 blackhole";

impl Cut {
    fn new(cluster: &Cluster) -> Result<Self, Failure> {
        let agents = machine::processes_of(&cluster.dir, BEHIND, &["orlop", "node-agent"]);
        let cut = Self {
            network: netns::of(*agents.first().ok_or("no agent runs")?),
        };
        netns::inside(&cut.network, &format!("ip rule add {RULE}"))?;
        // What is connected would still hear.
        netns::inside(&cut.network, "ss -K dport = 6443")?;
        let left = netns::inside(&cut.network, "ss -Htn state established dport = 6443")?;
        ensure(left.is_empty(), format!("still connected: {left}"))?;
        Ok(cut)
    }
}

impl Drop for Cut {
    fn drop(&mut self) {
        if let Err(error) = netns::inside(&self.network, &format!("ip rule delete {RULE}")) {
            eprintln!("{error}");
        }
    }
}
