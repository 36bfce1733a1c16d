//! A disk of the agent's own that is full while statuses and checkpoints are written:
//! what runs goes on, also when the agent is killed meanwhile; nothing that was written
//! down is lost or half; and what waited for room comes when there is some.

use std::{path::PathBuf, time::Duration};

use serde_json::Value;
use tests::{Cluster, Failure, ensure, eventually};

use super::node::{Node, end, ready, same, states};

const NODE: &str = "node-2";
const FOLDER: &str = "/var/lib/kubelet";
const FILLER: &str = "/var/lib/kubelet/filler";
/// The file system, as the node sees it.
const IMAGE_FILE: &str = "/mnt/small.img";
/// What the agent writes of all pods, with a checksum.
const GRANTED: &str = "/var/lib/kubelet/allocated_pods_state";
const IN_FORCE: &str = "/var/lib/kubelet/actuated_pods_state";

const PODS: &str = "
apiVersion: v1
kind: ConfigMap
metadata: {name: full}
data: {word: first}
---
apiVersion: v1
kind: Pod
metadata: {name: full-stays, labels: {disk: full}}
spec:
  nodeName: NODE
  containers:
  - name: main
    image: IMAGE
    resources: {requests: {cpu: 20m, memory: 20Mi}, limits: {cpu: 300m, memory: 60Mi}}
    readinessProbe: {httpGet: {port: 8080}, periodSeconds: 1}
    livenessProbe: {httpGet: {port: 8080}, periodSeconds: 1, failureThreshold: 3}
    volumeMounts: [{name: config, mountPath: /config}]
  volumes: [{name: config, configMap: {name: full}}]
---
apiVersion: v1
kind: Pod
metadata: {name: full-goes}
spec:
  nodeName: NODE
  containers: [{name: main, image: IMAGE}]
";
const LATE: &str = "
apiVersion: v1
kind: Pod
metadata: {name: full-comes}
spec:
  nodeName: NODE
  containers:
  - name: main
    image: IMAGE
    volumeMounts: [{name: config, mountPath: /config}]
  volumes: [{name: config, configMap: {name: full}}]
";

pub fn run(cluster: &Cluster) -> Result<(), Failure> {
    let node = Node::of(cluster, NODE);
    let alone = node.alone()?;
    // it is not to evict anything for want of the room that is taken from it here
    let configured = node.configured(|text| {
        let off = |line: &str| {
            let name = line
                .trim_start()
                .strip_prefix("nodefs.")?
                .split(':')
                .next()?;
            Some(format!("  nodefs.{name}: 0%"))
        };
        let lines = text
            .lines()
            .map(|line| off(line).unwrap_or(line.to_owned()));
        lines.collect::<Vec<_>>().join("\n") + "\n"
    })?;
    let small = Small::put(&node)?;
    node.restart_agent(0)?;
    let result = is_survived(cluster, &node);
    end(cluster, "pod full-stays full-goes full-comes")?;
    cluster.kubectl("delete configmap full --ignore-not-found")?;
    drop(configured);
    drop(small);
    node.restart_agent(0)?;
    drop(alone);
    result
}

fn is_survived(cluster: &Cluster, node: &Node<'_>) -> Result<(), Failure> {
    let stays = "pod full-stays";
    node.apply(PODS)?;
    ready(cluster, "pod full-stays full-goes")?;
    eventually("what was granted on disk", 20, || limits(node, "60Mi"))?;
    let (granted, in_force) = (node.run(&["cat", GRANTED])?, node.run(&["cat", IN_FORCE])?);
    let before = states(cluster, stays)?;

    fill(node)?;

    cluster.kubectl("delete pod full-goes --grace-period=1 --timeout=60s")?;
    node.apply(LATE)?;
    cluster.kubectl(
        r#"patch pod full-stays --subresource resize --patch {"spec":{"containers":[{"name":"main","resources":{"limits":{"memory":"90Mi"}}}]}}"#,
    )?;
    eventually("a resize without room for its checkpoint", 30, || {
        let pod = cluster.get(stays)?;
        let held = &pod["status"]["containerStatuses"][0]["resources"]["limits"]["memory"];
        ensure(held == "90Mi", format!("{held} in force"))
    })?;
    eventually("what the one that waits says", 60, || {
        let said = cluster.kubectl("get events --field-selector involvedObject.name=full-comes")?;
        ensure(said.contains("No space left on device"), said)
    })?;
    ensure(node.run(&["cat", GRANTED])? == granted, "the file changed")?;
    ensure(
        node.run(&["cat", IN_FORCE])? == in_force,
        "the file changed",
    )?;

    node.restart_agent(1)?;
    // longer than it takes to look at everything once
    std::thread::sleep(Duration::from_secs(12));
    same(&before, &states(cluster, stays)?)?;
    let pod = cluster.get("pod full-comes")?;
    ensure(
        pod["status"]["phase"] == "Pending",
        "full-comes has started",
    )?;
    let word = cluster.kubectl("exec full-stays -- /program cat /config/word")?;
    ensure(word == "first", format!("its configuration: {word}"))?;

    node.run(&["rm", FILLER])?;
    ready(cluster, "pod full-comes")?;
    eventually("what was granted on disk", 30, || limits(node, "90Mi"))?;
    same(&before, &states(cluster, stays)?)?;
    // nothing half written lies about
    let left = node.run(&["find", FOLDER, "-xdev", "-name", "*.tmp"])?;
    ensure(left.is_empty(), left)
}

/// Takes all room, page by page: a larger write that does not fit writes nothing.
fn fill(node: &Node<'_>) -> Result<(), Failure> {
    let turn = format!(
        "dd if=/dev/zero of={FILLER} bs=4k oflag=append conv=notrunc; sync --file-system {FOLDER}; echo x > {FOLDER}/more; \
         more=$?; rm -f {FOLDER}/more; test $more != 0"
    );
    eventually("a full disk", 20, || {
        node.run(&["sh", "-c", &turn]).map(drop)
    })
}

/// Whether both files are whole and say this of the memory of full-stays.
fn limits(node: &Node<'_>, memory: &str) -> Result<(), Failure> {
    for file in [GRANTED, IN_FORCE] {
        let text = node.run(&["cat", file])?;
        let file: Value = serde_json::from_str(&text)?;
        let data: Value = serde_json::from_str(file["data"].as_str().unwrap_or_default())?;
        let pods = data["entries"].as_object().ok_or("no entries")?;
        let mut limits = pods.values().map(|pod| {
            pod["ContainerResources"]["main"]["limits"]["memory"]
                .as_str()
                .unwrap_or_default()
        });
        ensure(limits.any(|limit| limit == memory), text.clone())?;
    }
    Ok(())
}

/// A small file system of its own where the agent has its files, until this is dropped.
struct Small<'a, 'b> {
    node: &'a Node<'b>,
    file: PathBuf,
}

impl<'a, 'b> Small<'a, 'b> {
    fn put(node: &'a Node<'b>) -> Result<Self, Failure> {
        let file = node.folder.join("small.img");
        let small = Self { node, file };
        // ext2, since ext4 keeps room aside that small files get though there is none; and
        // blocks as large as pages, or less than a page would always be left
        let script = format!(
            "truncate -s 24M {IMAGE_FILE} && mkfs.ext2 -q -m 0 -b 4096 {IMAGE_FILE} && mkdir -p /mnt/small \
             && mount -o loop {IMAGE_FILE} /mnt/small \
             && tar -C {FOLDER} --one-file-system -cf - . | tar -C /mnt/small -xf - \
             && mount --bind /mnt/small {FOLDER} && umount /mnt/small && rmdir /mnt/small"
        );
        node.run(&["sh", "-c", &script])?;
        Ok(small)
    }
}

impl Drop for Small<'_, '_> {
    fn drop(&mut self) {
        // sockets of the agent are still in it: it goes with the agent that has them
        let _ = self.node.run(&["umount", "--lazy", FOLDER]);
        let _ = std::fs::remove_file(&self.file);
    }
}
