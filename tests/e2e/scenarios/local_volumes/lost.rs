//! A node that is gone for good, and comes back after all, with other classes of volumes.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};
use tests::{Cluster, Failure, ensure};

use super::super::{
    IMAGE,
    node::{AGENT, Node, ready},
};
use super::{
    ELSEWHERE, HERE, another, inside, number, orlop_volumes,
    pool::{FOLDER, Pool},
    uid,
};

/// What the node has when it comes back: the same disk, and another one.
const CLASSES: &str = "
apiVersion: orlop.dev/v1alpha1
kind: VolumeConfiguration
classes:
- {name: local, backend: file, path: /var/lib/orlop/volumes}
- {name: files, backend: btrfs, path: /mnt/files}
";

const FILES: &str = "
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: files}
provisioner: csi.orlop.dev
parameters: {class: files}
volumeBindingMode: WaitForFirstConsumer
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: files}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: files
  resources: {requests: {storage: 32Mi}}
---
apiVersion: v1
kind: Pod
metadata: {name: files}
spec:
  terminationGracePeriodSeconds: 1
  securityContext: {fsGroup: 65535}
  containers:
  - name: main
    image: IMAGE
    volumeMounts: [{name: files, mountPath: /files}]
  volumes: [{name: files, persistentVolumeClaim: {claimName: files}}]
";

pub fn run(cluster: &Cluster, pool: &Pool<'_, '_>) -> Result<(), Failure> {
    let kept = images(pool.node)?;
    let before = uid(cluster, "kept-0")?;
    cluster.host("kill", HERE)?;
    let went_on = set_goes_on_elsewhere(cluster, &before);
    // Other scenarios need the node, whatever became of that.
    let returned = Returned::start(cluster, pool)?;
    went_on?;
    ensure(
        images(pool.node)? == kept,
        "data of forgotten volumes is left alone",
    )?;
    classes_are_apart(cluster)?;
    drop(returned);
    Ok(())
}

/// Names and sizes of images.
fn images(node: &Node<'_>) -> Result<String, Failure> {
    let script = format!("cd {FOLDER}/volumes && stat --format '%n %s' *.img");
    node.run(&["sh", "-c", &script])
}

fn set_goes_on_elsewhere(cluster: &Cluster, before: &str) -> Result<(), Failure> {
    cluster.kubectl(&format!("delete node {HERE}"))?;
    let listed = orlop_volumes(cluster, &["forget", HERE])?;
    ensure(listed.contains("default/data-kept-0"), listed)?;
    orlop_volumes(cluster, &["forget", HERE, "--yes"])?;
    cluster.kubectl("delete pod kept-0 --force --grace-period=0")?;
    another(cluster, "kept-0", before)?;
    let pod = cluster.get("pod kept-0")?;
    let node = &pod["spec"]["nodeName"];
    ensure(node == ELSEWHERE, format!("it is on {node}"))?;
    inside(cluster, "kept-0", "keep /data/word again").map(drop)
}

/// A volume that is a folder with a quota, beside those that are images.
fn classes_are_apart(cluster: &Cluster) -> Result<(), Failure> {
    cluster.kubectl_with("apply -f -", &FILES.replace("IMAGE", IMAGE))?;
    ready(cluster, "pod files")?;
    let kept = number(cluster, "files", "fill /files/blocks")?;
    ensure((16..=32).contains(&kept), format!("{kept} MiB fitted"))?;
    let found = number(cluster, "files", "blocks /files/blocks")?;
    ensure(found >= kept, format!("{found} of {kept} blocks"))?;
    cluster.kubectl("delete pod files --timeout=30s")?;
    cluster.kubectl("delete pvc files --timeout=30s").map(drop)
}

/// The node with a configuration of volumes, until this is dropped.
struct Returned<'a> {
    cluster: &'a Cluster,
    pool: &'a Pool<'a, 'a>,
    host: PathBuf,
    before: String,
}

impl<'a> Returned<'a> {
    fn start(cluster: &'a Cluster, pool: &'a Pool<'_, '_>) -> Result<Self, Failure> {
        let node = pool.node;
        let host = node.folder.join("host.json");
        let before = fs::read_to_string(&host)?;
        let returned = Self {
            cluster,
            pool,
            host,
            before,
        };
        fs::write(&returned.host, configured(&returned.before)?)?;
        fs::write(node.folder.join("volumes.yaml"), CLASSES)?;
        start(
            cluster,
            pool,
            "truncate -s 256M /mnt/files.img && mkfs.btrfs -q -f /mnt/files.img && mkdir -p /mnt/files && mount -o loop /mnt/files.img /mnt/files",
        )?;
        Ok(returned)
    }
}

/// Starts the host; its agent waits until the disks are mounted.
fn start(cluster: &Cluster, pool: &Pool<'_, '_>, mounts: &str) -> Result<(), Failure> {
    let node = pool.node;
    let held = node.folder.join("held/node-agent");
    fs::create_dir_all(held.parent().unwrap_or(Path::new("/")))?;
    fs::write(&held, "")?;
    let started = cluster.host("start", HERE).and_then(|()| {
        pool.mount()?;
        node.run(&["sh", "-c", mounts])
    });
    fs::remove_file(&held)?;
    started?;
    node.answers(AGENT, 0)?;
    ready(cluster, &format!("node {HERE}"))
}

/// Has the agent use the file of classes.
fn configured(host: &str) -> Result<String, Failure> {
    let mut host: Value = serde_json::from_str(host)?;
    let programs = host["programs"].as_array_mut().ok_or("no programs")?;
    let agent = programs.iter_mut().find(|it| it["name"] == "node-agent");
    let command = agent.ok_or("no agent")?["command"].as_array_mut();
    let command = command.ok_or("no command")?;
    command.extend([json!("--local-volumes"), json!("/mnt/volumes.yaml")]);
    Ok(host.to_string())
}

impl Drop for Returned<'_> {
    fn drop(&mut self) {
        let again = self.cluster.host("kill", HERE).and_then(|()| {
            fs::write(&self.host, &self.before)?;
            for file in ["files.img", "volumes.yaml"] {
                fs::remove_file(self.pool.node.folder.join(file))?;
            }
            start(self.cluster, self.pool, "true")
        });
        if let Err(error) = again {
            println!("    {HERE} is not what it was: {error}");
        }
    }
}
