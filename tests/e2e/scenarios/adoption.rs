//! A stock kubelet takes a node's place over from the agent, and the agent from the
//! kubelet: no container is restarted, no pod stops being ready, and each ends what the
//! other started.
//!
//! The kubelet is the one on the PATH or in target/go/bin; `ORLOP_KUBELET` names another.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    time::{Duration, Instant},
};

use tests::{Cluster, Failure, ensure, machine, no_stock_program, report::skip, stock_program};

use super::node::{AGENT, Node, containers, end, ready};

const NODE: &str = "node-2";
const KUBELET: &[&str] = &["kubelet", "--hostname-override"];
const PODS_TAKEN: &str = "pods -l take=over";
/// A kubelet takes containers that began less than this before itself for new ones: with
/// a readiness or startup probe they are unready until it has probed them, as they are
/// after its own restart (`kubeletRestartGracePeriod` in its `prober_manager.go`, since
/// the gate `ChangeContainerStatusOnKubeletRestart` is off).
const NEW_TO_A_KUBELET: Duration = Duration::from_secs(10);

/// Pods of each kind that is adopted in its own way.
const PODS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: taken}
data: {word: first}
---
apiVersion: v1
kind: Pod
metadata: {name: taken-plain, labels: {take: over}}
spec:
  nodeName: NODE
  containers: [{name: main, image: IMAGE}]
---
apiVersion: v1
kind: Pod
metadata: {name: taken-probed, labels: {take: over}}
spec:
  nodeName: NODE
  containers:
  - name: main
    image: IMAGE
    readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}
    livenessProbe: {tcpSocket: {port: 8080}, periodSeconds: 2}
    startupProbe: {httpGet: {port: 8080}, periodSeconds: 1}
---
apiVersion: v1
kind: Pod
metadata: {name: taken-limited, labels: {take: over}}
spec:
  nodeName: NODE
  containers:
  - name: main
    image: IMAGE
    resources: {requests: {cpu: 20m, memory: 20Mi}, limits: {cpu: 300m, memory: 60Mi}}
    resizePolicy: [{resourceName: memory, restartPolicy: RestartContainer}]
---
apiVersion: v1
kind: Pod
metadata: {name: taken-together, labels: {take: over}}
spec:
  nodeName: NODE
  initContainers:
  - {name: before, image: IMAGE, args: [env]}
  - {name: beside, image: IMAGE, args: [serve, '8081', '7778'], restartPolicy: Always}
  containers:
  - name: main
    image: IMAGE
    volumeMounts: [{name: config, mountPath: /config}, {name: scratch, mountPath: /scratch}]
  volumes:
  - {name: config, configMap: {name: taken}}
  - {name: scratch, emptyDir: {medium: Memory}}
";
const LATE: &str = "
apiVersion: v1
kind: Pod
metadata: {name: taken-late, labels: {take: over}}
spec:
  nodeName: NODE
  hostNetwork: true
  containers: [{name: main, image: IMAGE, args: [serve, '18080', '17777']}]
";

pub fn run(cluster: &Cluster) -> Result<(), Failure> {
    let Some(kubelet) = stock_program("ORLOP_KUBELET", "kubelet") else {
        return skip(no_stock_program("ORLOP_KUBELET", "kubelet"));
    };
    let place = Place::of(cluster)?;
    place.node.apply(PODS)?;
    ready(cluster, PODS_TAKEN)?;
    let before = containers(cluster, PODS_TAKEN)?;

    // They are ready, and so have begun.
    std::thread::sleep(NEW_TO_A_KUBELET);
    let under_kubelet = place
        .hand_over(cluster, &kubelet)
        .and_then(|()| goes_on(cluster, &place.node, &before));
    // What follows needs an agent, whatever became of that.
    let back = place.take_back(cluster);
    let before = under_kubelet?;
    back?;
    stays_so(cluster, &before, "after the agent took over")?;
    serves(cluster)?;
    end(cluster, PODS_TAKEN)?;
    cluster.kubectl("delete configmap taken").map(drop)
}

/// What there is after all under the kubelet.
fn goes_on(cluster: &Cluster, node: &Node<'_>, before: &[String]) -> Result<Vec<String>, Failure> {
    stays_so(cluster, before, "after the kubelet took over")?;
    serves(cluster)?;
    // One of the agent's pods ends under the kubelet, and one of the kubelet's begins.
    end(cluster, "pod taken-plain")?;
    node.apply(LATE)?;
    ready(cluster, PODS_TAKEN)?;
    containers(cluster, PODS_TAKEN)
}

/// Looks for longer than either takes to look at everything once.
fn stays_so(cluster: &Cluster, before: &[String], when: &str) -> Result<(), Failure> {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(15) {
        let now = containers(cluster, PODS_TAKEN)?;
        ensure(
            now == before,
            format!("{when}: {before:#?} before, {now:#?}"),
        )?;
        std::thread::sleep(Duration::from_millis(300));
    }
    Ok(())
}

fn serves(cluster: &Cluster) -> Result<(), Failure> {
    let log = cluster.kubectl("logs taken-probed")?;
    ensure(log.contains("serves HTTP"), format!("log: {log}"))?;
    let word = cluster.kubectl("exec taken-together -c main -- /program cat /config/word")?;
    ensure(word == "first", format!("exec: {word}"))
}

/// The node, and what a kubelet is told of it.
struct Place<'a> {
    node: Node<'a>,
    group: String,
    address: String,
}

impl<'a> Place<'a> {
    fn of(cluster: &'a Cluster) -> Result<Self, Failure> {
        let node = cluster.get(&format!("node {NODE}"))?;
        let address = node["status"]["addresses"][0]["address"].as_str();
        let group = machine::group_of(&cluster.dir, NODE).ok_or("no record of the cluster")?;
        Ok(Self {
            node: Node::of(cluster, NODE),
            group: group.trim_end_matches("/system").to_owned(),
            address: address.unwrap_or_default().to_owned(),
        })
    }

    /// Puts a script in the program's place, as this node alone sees it, and ends the agent.
    fn hand_over(&self, cluster: &Cluster, kubelet: &Path) -> Result<(), Failure> {
        let given = fs::read_to_string(self.node.folder.join("kubelet.yaml"))?;
        let config = format!(
            "{given}
containerRuntimeEndpoint: unix:///mnt/containerd.sock
tlsCertFile: /mnt/credentials/serving.crt
tlsPrivateKeyFile: /mnt/credentials/serving.key
authentication: {{anonymous: {{enabled: false}}, x509: {{clientCAFile: /mnt/credentials/ca.crt}}}}
authorization: {{mode: Webhook}}
clusterDNS: [10.96.0.10]
clusterDomain: cluster.local
cgroupDriver: cgroupfs
cgroupRoot: {}
failCgroupV1: false
failSwapOn: false
# Without CAP_SYS_RESOURCE nobody may lower a process's OOM score.
oomScoreAdj: 0
",
            self.group
        );
        fs::write(self.node.folder.join("stock.yaml"), config)?;
        let script = self.node.folder.join("stock");
        let words = format!(
            "#!/bin/sh\nexec {} --config=/mnt/stock.yaml --kubeconfig=/mnt/credentials/kubeconfig \
             --hostname-override={NODE} --node-ip={}\n",
            kubelet.display(),
            self.address
        );
        fs::write(&script, words)?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
        self.node
            .run(&["mount", "--bind", "/mnt/stock", "/mnt/bin/orlop"])?;
        machine::kill_program(&cluster.dir, NODE, AGENT);
        self.node.answers(KUBELET, 4)
    }

    fn take_back(&self, cluster: &Cluster) -> Result<(), Failure> {
        self.node.run(&["umount", "/mnt/bin/orlop"])?;
        machine::kill_program(&cluster.dir, NODE, KUBELET);
        self.node.answers(AGENT, 4)
    }
}
