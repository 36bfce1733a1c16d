//! Volumes of the nodes' own disks: a StatefulSet finds its data, snapshots and clones are
//! equal to their source, a pod has an inline volume, volumes grow in use, a size is a limit,
//! a claim waits for room and gets it, a StatefulSet goes on without a node that is gone, and
//! nothing is left.

mod lost;
pub mod pool;

use serde_json::Value;
use tests::{Cluster, Failure, ensure, eventually, node_programs};

use self::pool::Pool;
use super::{
    IMAGE,
    node::{Node, end, ready},
};

/// The node on which the volumes begin.
const HERE: &str = "node-2";
/// The node on which they go on.
const ELSEWHERE: &str = "node-1";

/// Of XFS, which grows in use also where ext4 lacks a right (CAP_SYS_RESOURCE).
const SET: &str = "
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local-xfs}
provisioner: csi.orlop.dev
parameters: {csi.storage.k8s.io/fstype: xfs}
volumeBindingMode: WaitForFirstConsumer
allowVolumeExpansion: true
---
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: kept}
spec:
  serviceName: kept
  selector: {matchLabels: {app: kept}}
  template:
    metadata: {labels: {app: kept}}
    spec:
      terminationGracePeriodSeconds: 1
      securityContext: {fsGroup: 65535}
      containers:
      - name: main
        image: IMAGE
        volumeMounts: [{name: data, mountPath: /data}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec:
      accessModes: [ReadWriteOnce]
      storageClassName: local-xfs
      resources: {requests: {storage: 320Mi}}
";

const SNAPSHOT: &str = "
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {name: before}
spec: {source: {persistentVolumeClaimName: data-kept-0}}
";

const COPIES: &str = "
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: restored}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: local
  dataSource: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: before}
  resources: {requests: {storage: 512Mi}}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: cloned}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: local
  dataSource: {kind: PersistentVolumeClaim, name: data-kept-0}
  resources: {requests: {storage: 448Mi}}
---
apiVersion: v1
kind: Pod
metadata: {name: copies}
spec:
  terminationGracePeriodSeconds: 1
  securityContext: {fsGroup: 65535}
  containers:
  - name: main
    image: IMAGE
    volumeMounts:
    - {name: restored, mountPath: /restored}
    - {name: cloned, mountPath: /cloned}
    - {name: inline, mountPath: /inline}
  volumes:
  - {name: inline, csi: {driver: csi.orlop.dev, volumeAttributes: {size: 64Mi}}}
  - {name: restored, persistentVolumeClaim: {claimName: restored}}
  - {name: cloned, persistentVolumeClaim: {claimName: cloned}}
";

/// A class whose claims wait for no pod. Its two claims fit on the pools one by one.
const AT_ONCE: &str = "
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: local-at-once}
provisioner: csi.orlop.dev
volumeBindingMode: Immediate
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: first}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: local-at-once
  resources: {requests: {storage: 2700Mi}}
";

const MIB: u64 = 1 << 20;

pub fn run(cluster: &Cluster) -> Result<(), Failure> {
    let (here, elsewhere) = (Node::of(cluster, HERE), Node::of(cluster, ELSEWHERE));
    let pools = [Pool::put(&here)?, Pool::put(&elsewhere)?];
    let result = scenario(cluster, &pools);
    // What a failure left must not hold the pools.
    for words in [
        "delete statefulset kept --ignore-not-found",
        "delete pod copies files --ignore-not-found --grace-period=1",
        "delete volumesnapshot --all",
        "delete pvc --all --timeout=20s",
        "delete storageclass local-at-once local-xfs files --ignore-not-found",
    ] {
        let ended = cluster.kubectl(words);
        if result.is_ok() {
            ended?;
        }
    }
    result
}

fn scenario(cluster: &Cluster, pools: &[Pool<'_, '_>; 2]) -> Result<(), Failure> {
    let [here, elsewhere] = pools;
    let before = here.inventory()?;
    ensure(before.is_empty(), format!("a new pool has {before:#?}"))?;
    cluster.kubectl(&format!("cordon {ELSEWHERE}"))?;
    let begun = data_outlives_its_pod(cluster);
    cluster.kubectl(&format!("uncordon {ELSEWHERE}"))?;
    begun?;
    volume_grows_at_once(cluster)?;
    claim_waits_for_room(cluster)?;
    copies_are_equal(cluster)?;
    size_is_a_limit(cluster)?;
    is_listed(cluster)?;

    end(cluster, "pod copies")?;
    cluster.kubectl("delete pvc restored cloned --timeout=30s")?;
    cluster.kubectl("delete volumesnapshot before --timeout=30s")?;
    eventually("room that copies gave back", 20, || {
        let left = here.inventory()?;
        // Image, record, device and mount of the one volume.
        ensure(left.len() == 4, format!("{left:#?}"))
    })?;
    lost::run(cluster, here)?;

    cluster.kubectl("delete statefulset kept --timeout=30s")?;
    cluster.kubectl("delete pvc data-kept-0 --timeout=30s")?;
    eventually("what is left of volumes", 20, || {
        let left = elsewhere.inventory()?;
        ensure(left.is_empty(), format!("{left:#?}"))
    })
}

/// What a program of the image prints in a pod.
fn inside(cluster: &Cluster, pod: &str, words: &str) -> Result<String, Failure> {
    let printed = cluster.kubectl(&format!("exec {pod} -- /program {words}"))?;
    Ok(printed.trim().to_owned())
}

fn number(cluster: &Cluster, pod: &str, words: &str) -> Result<u64, Failure> {
    Ok(inside(cluster, pod, words)?.parse()?)
}

fn reads(cluster: &Cluster, pod: &str, path: &str, text: &str) -> Result<(), Failure> {
    let found = inside(cluster, pod, &format!("cat {path}"))?;
    ensure(found == text, format!("{path} of {pod}: {found}"))
}

/// Waits until a pod that is not the one of `uid` is ready, and returns its uid.
fn another(cluster: &Cluster, pod: &str, uid: &str) -> Result<String, Failure> {
    eventually(&format!("another {pod}"), 60, || {
        let found = cluster.get(&format!("pod {pod}"))?;
        let now = found["metadata"]["uid"].as_str().unwrap_or_default();
        let conditions = found["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        let is_ready = conditions.any(|it| it["type"] == "Ready" && it["status"] == "True");
        ensure(now != uid && is_ready, found["status"].to_string())?;
        Ok(now.to_owned())
    })
}

fn uid(cluster: &Cluster, pod: &str) -> Result<String, Failure> {
    let found = cluster.get(&format!("pod {pod}"))?;
    Ok(found["metadata"]["uid"]
        .as_str()
        .unwrap_or_default()
        .to_owned())
}

/// Ends the pod of the StatefulSet, and waits for the next.
fn replace(cluster: &Cluster) -> Result<(), Failure> {
    let before = uid(cluster, "kept-0")?;
    cluster.kubectl("delete pod kept-0 --timeout=30s")?;
    another(cluster, "kept-0", &before).map(drop)
}

fn data_outlives_its_pod(cluster: &Cluster) -> Result<(), Failure> {
    cluster.kubectl_with("apply -f -", &SET.replace("IMAGE", IMAGE))?;
    another(cluster, "kept-0", "")?;
    inside(cluster, "kept-0", "keep /data/word swordfish")?;
    replace(cluster)?;
    reads(cluster, "kept-0", "/data/word", "swordfish")
}

fn copies_are_equal(cluster: &Cluster) -> Result<(), Failure> {
    cluster.kubectl_with("apply -f -", SNAPSHOT)?;
    eventually("a snapshot", 20, || {
        let snapshot = cluster.get("volumesnapshot before")?;
        let status = &snapshot["status"];
        ensure(status["readyToUse"] == true, status.to_string())
    })?;
    inside(cluster, "kept-0", "keep /data/word later")?;
    cluster.kubectl_with("apply -f -", &COPIES.replace("IMAGE", IMAGE))?;
    ready(cluster, "pod copies")?;
    reads(cluster, "copies", "/restored/word", "swordfish")?;
    reads(cluster, "copies", "/cloned/word", "later")?;
    let room = number(cluster, "copies", "room /restored")?;
    ensure(
        room > 400 * MIB,
        format!("{room} bytes in the larger volume"),
    )?;
    inside(cluster, "copies", "keep /inline/word own")?;
    reads(cluster, "copies", "/inline/word", "own")?;
    let room = number(cluster, "copies", "room /inline")?;
    ensure(
        room < 64 * MIB,
        format!("{room} bytes in the inline volume"),
    )?;
    let pod = cluster.get("pod copies")?;
    ensure(
        pod["spec"]["nodeName"] == HERE,
        "the pod is not where its volumes are",
    )
}

/// The volume grows under its pod, long before the agent's look at all volumes, which is
/// once a minute.
fn volume_grows_at_once(cluster: &Cluster) -> Result<(), Failure> {
    let pod = uid(cluster, "kept-0")?;
    let small = number(cluster, "kept-0", "room /data")?;
    ensure(small < 320 * MIB, format!("{small} bytes at first"))?;
    cluster.kubectl(
        r#"patch pvc data-kept-0 -p {"spec":{"resources":{"requests":{"storage":"448Mi"}}}}"#,
    )?;
    eventually("a larger file system", 15, || {
        let room = number(cluster, "kept-0", "room /data")?;
        ensure(room > 350 * MIB, format!("{room} bytes"))
    })?;
    eventually("the claim's new capacity", 15, || {
        let claim = cluster.get("pvc data-kept-0")?;
        let has = &claim["status"]["capacity"]["storage"];
        ensure(has == "448Mi", has.to_string())
    })?;
    ensure(uid(cluster, "kept-0")? == pod, "the pod went on meanwhile")?;
    reads(cluster, "kept-0", "/data/word", "swordfish")
}

/// Writes until there is no space; all that was acknowledged is there for the next pod.
fn size_is_a_limit(cluster: &Cluster) -> Result<(), Failure> {
    let kept = number(cluster, "kept-0", "fill /data/blocks")?;
    ensure((300..448).contains(&kept), format!("{kept} MiB fitted"))?;
    replace(cluster)?;
    let found = number(cluster, "kept-0", "blocks /data/blocks")?;
    ensure(found >= kept, format!("{found} of {kept} blocks"))?;
    reads(cluster, "kept-0", "/data/word", "later")?;
    // The pool has room for the others all the same.
    inside(cluster, "copies", "keep /cloned/word own")?;
    reads(cluster, "kept-0", "/data/word", "later")
}

fn phase(cluster: &Cluster, claim: &str, wanted: &str) -> Result<(), Failure> {
    let claim = cluster.get(&format!("pvc {claim}"))?;
    ensure(claim["status"]["phase"] == wanted, claim.to_string())
}

fn claim_waits_for_room(cluster: &Cluster) -> Result<(), Failure> {
    cluster.kubectl_with("apply -f -", AT_ONCE)?;
    eventually("a volume without a pod", 20, || {
        phase(cluster, "first", "Bound")
    })?;
    let (_, claim) = AT_ONCE.rsplit_once("---").unwrap_or_default();
    cluster.kubectl_with("apply -f -", &claim.replace("first", "second"))?;
    eventually("an event that names the pool", 20, || {
        let events = cluster.get("events --field-selector involvedObject.name=second")?;
        let all = events["items"].as_array().into_iter().flatten();
        let mut messages = all.filter_map(|event| event["message"].as_str());
        // The event comes from the controller, or from a node that had just promised its room to
        // the other claim.
        let says = [
            "2700Mi left of storage class local-at-once",
            "class `local` has",
        ];
        let named = messages.any(|it| says.iter().any(|part| it.contains(part)));
        ensure(named, events["items"].to_string())
    })?;
    phase(cluster, "second", "Pending")?;
    cluster.kubectl("delete pvc first --timeout=30s")?;
    eventually("a volume once there is room", 30, || {
        phase(cluster, "second", "Bound")
    })?;
    cluster.kubectl("delete pvc second --timeout=30s").map(drop)
}

/// Runs `orlop volumes` with these words.
fn orlop_volumes(cluster: &Cluster, words: &[&str]) -> Result<String, Failure> {
    let done = std::process::Command::new(node_programs().join("orlop"))
        .arg("volumes")
        .args(words)
        .arg("--kubeconfig")
        .arg(cluster.kubeconfig())
        .output()?;
    let printed = String::from_utf8_lossy(&done.stdout).into_owned();
    let failed = String::from_utf8_lossy(&done.stderr);
    ensure(
        done.status.success(),
        format!("orlop volumes {words:?}: {failed}{printed}"),
    )?;
    Ok(printed)
}

fn is_listed(cluster: &Cluster) -> Result<(), Failure> {
    let text = orlop_volumes(cluster, &["--output", "json"])?;
    let rows: Value = serde_json::from_str(&text)?;
    let mut rows = rows.as_array().into_iter().flatten();
    let row = rows.find(|row| row["claim"] == "data-kept-0");
    let row = row.ok_or(format!("no row of the claim: {text}"))?;
    let is_as_it_is = row["node"] == HERE && row["size"] == "448Mi" && row["state"] == "Bound";
    ensure(is_as_it_is, row.to_string())
}
