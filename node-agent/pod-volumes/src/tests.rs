use std::os::unix::fs::MetadataExt;

use super::removal::mounts_below;
use super::*;
use std::fs;

#[test]
fn mount_points_below_a_folder_are_found_whatever_their_names() {
    let text = "36 35 98:0 / /var/lib/x rw - ext4 /dev/sda rw\n\
                37 36 0:50 / /var/lib/x/pods/u/volumes/a\\040b rw - tmpfs tmpfs rw\n\
                38 36 0:51 / /var/lib/xy rw - tmpfs tmpfs rw\n\
                nonsense\n";
    assert_eq!(
        mounts_below(text, Path::new("/var/lib/x")),
        [PathBuf::from("/var/lib/x/pods/u/volumes/a b")]
    );
}

#[test]
fn removing_takes_all_but_what_others_mounted() {
    let root = tempfile::tempdir().unwrap();
    let volumes = PodVolumes::new(root.path(), "u-1");
    let target = tempfile::tempdir().unwrap();
    fs::write(target.path().join("kept"), "").unwrap();
    let dir = volumes
        .pod_dir()
        .join("volumes/kubernetes.io~empty-dir/tmp");
    fs::create_dir_all(&dir).unwrap();
    fs::write(dir.join("file"), "").unwrap();
    std::os::unix::fs::symlink(target.path(), dir.join("link")).unwrap();
    volumes.remove().unwrap();
    assert!(!volumes.pod_dir().exists());
    assert!(target.path().join("kept").exists());
    volumes.remove().unwrap();
}

/// Mounts need root; without it there is nothing to be seen.
#[tokio::test]
async fn a_claim_brings_a_folder_of_the_node_to_the_pod_and_leaves_it_there() {
    if !rustix::process::getuid().is_root() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let data = tempfile::tempdir().unwrap();
    fs::write(data.path().join("kept"), "x").unwrap();
    let objects = node_agent_objects::fake::FakeObjects::default();
    objects.claims.lock().unwrap().push((
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": "c", "namespace": "default", "uid": "c1"},
            "spec": {"volumeName": "pv"}, "status": {"phase": "Bound"}}))
        .unwrap(),
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": "pv", "annotations": {"pv.beta.kubernetes.io/gid": "77"}},
            "spec": {"claimRef": {"uid": "c1"}, "local": {"path": data.path()}}}))
        .unwrap(),
    ));
    let pod = |policy: &str| -> Pod {
        serde_json::from_value(serde_json::json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "u"},
            "spec": {
                "securityContext": {"fsGroup": 4242, "fsGroupChangePolicy": policy},
                "containers": [{"name": "c", "volumeMounts": [
                    {"name": "v", "mountPath": "/d"}]}],
                "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}}))
        .unwrap()
    };
    let told = std::sync::Mutex::new(Vec::new());
    let mut mounted = Vec::new();
    for (uid, policy) in [("u1", "Always"), ("u2", "OnRootMismatch")] {
        let pod = pod(policy);
        let mut volumes = PodVolumes::new(root.path(), uid);
        let with = MountContext {
            pod: &pod,
            facts: &PodFacts::default(),
            objects: &objects,
            drivers: &CsiDrivers::default(),
            warn: &|reason, _| told.lock().unwrap().push(reason.to_owned()),
            tell: &|_, _| {},
            metrics: &PodMetrics::default(),
        };
        for _ in 0..2 {
            let made = volumes.mount(with, &mut TokenCache::default()).await;
            made.unwrap();
        }
        assert_eq!(volumes.groups(), [77]);
        let mounts = volumes.container_mounts(&pod, &pod.spec.containers[0], &[]);
        let path = PathBuf::from(&mounts.unwrap()[0].host_path);
        assert_eq!(fs::metadata(path.join("kept")).unwrap().gid(), 4242);
        mounted.push(volumes);
    }
    assert!(told.lock().unwrap().is_empty());
    for volumes in &mounted {
        volumes.remove().unwrap();
        assert!(!volumes.pod_dir().exists());
    }
    assert!(data.path().join("kept").exists());
}

/// Mounts a pod with volumes of several kinds, and makes what its containers get besides.
async fn mounted(root: &Path) -> PodVolumes {
    use node_agent_objects::fake::FakeObjects;
    let objects = FakeObjects::default();
    objects.put(DataKind::ConfigMap, "cfg", &[("a", "1")]);
    objects.put(DataKind::Secret, "key", &[("b", "2")]);
    let pod: Pod = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "u"},
        "spec": {"containers": [{"name": "c", "volumeMounts": [
                {"name": "empty", "mountPath": "/e", "subPath": "part"},
                {"name": "map", "mountPath": "/m"}, {"name": "secret", "mountPath": "/s"}]}],
            "volumes": [{"name": "empty", "emptyDir": {}},
                {"name": "map", "configMap": {"name": "cfg"}},
                {"name": "secret", "secret": {"secretName": "key"}}]}}))
    .unwrap();
    let mut volumes = PodVolumes::new(root, "u");
    let with = MountContext {
        pod: &pod,
        facts: &PodFacts::default(),
        objects: &objects,
        drivers: &CsiDrivers::default(),
        warn: &|_, _| {},
        tell: &|_, _| {},
        metrics: &PodMetrics::default(),
    };
    volumes
        .mount(with, &mut TokenCache::default())
        .await
        .unwrap();
    volumes
        .container_mounts(&pod, &pod.spec.containers[0], &[])
        .unwrap();
    volumes.hosts("127.0.0.1 localhost\n").unwrap();
    volumes
        .termination_log("c", 0, "/dev/termination-log")
        .unwrap();
    volumes
}

#[tokio::test]
async fn volumes_that_no_container_has_are_not_made() {
    let root = tempfile::tempdir().unwrap();
    let pod: Pod = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "web", "namespace": "default", "uid": "u"},
        "spec": {
            "containers": [{"name": "c", "volumeMounts": [{"name": "a", "mountPath": "/a"}]}],
            "ephemeralContainers": [{"name": "d", "volumeMounts": [
                {"name": "b", "mountPath": "/b"}]}],
            "volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "emptyDir": {}},
                {"name": "c", "emptyDir": {}}, {"name": "d", "configMap": {"name": "no-such"}},
                {"name": "e", "persistentVolumeClaim": {"claimName": "no-such"}}]}}))
    .unwrap();
    let mut volumes = PodVolumes::new(root.path(), "u");
    let with = MountContext {
        pod: &pod,
        facts: &PodFacts::default(),
        objects: &node_agent_objects::fake::FakeObjects::default(),
        drivers: &CsiDrivers::default(),
        warn: &|_, _| {},
        tell: &|_, _| {},
        metrics: &PodMetrics::default(),
    };
    volumes
        .mount(with, &mut TokenCache::default())
        .await
        .unwrap();
    let made: Vec<bool> = pod.spec.volumes[..3]
        .iter()
        .map(|volume| volumes.path(volume).unwrap().exists())
        .collect();
    assert_eq!(made, [true, true, false]);
}

#[tokio::test]
async fn nobody_but_the_agent_enters_a_pod_s_folder_and_containers_get_what_they_need() {
    if !rustix::process::getuid().is_root() {
        return;
    }
    let root = tempfile::tempdir().unwrap();
    let volumes = mounted(root.path()).await;
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    let of_kind = |kind: &str| volumes.pod_dir().join("volumes").join(kind);
    let open = [
        (of_kind("kubernetes.io~empty-dir/empty"), 0o777),
        (of_kind("kubernetes.io~configmap/map"), 0o755),
        (of_kind("kubernetes.io~secret/secret"), 0o755),
    ];
    let bound = volumes.pod_dir().join("volume-subpaths/empty/c/0");
    let mut closed = vec![root.path().join("pods")];
    let mut seen = 0;
    while let Some(folder) = closed.pop() {
        assert_eq!(mode(&folder), 0o750, "{}", folder.display());
        for entry in fs::read_dir(&folder).unwrap() {
            let (path, is_dir) = entry.map(|e| (e.path(), e.path().is_dir())).unwrap();
            if let Some((_, wanted)) = open.iter().find(|(open, _)| *open == path) {
                assert_eq!(mode(&path), *wanted, "{}", path.display());
                seen += 1;
            } else if is_dir && path != bound {
                closed.push(path);
            }
        }
    }
    assert_eq!(seen, open.len());
    assert_eq!(mode(&volumes.hosts_path()), 0o644);
    assert_eq!(mode(&volumes.termination_path("c", 0)), 0o666);
    assert_eq!(mode(&bound), 0o777, "as the volume it is a part of");
    volumes.remove().unwrap();
    assert!(!volumes.pod_dir().exists());
}

#[test]
fn a_hosts_file_larger_than_memory_is_written_again_and_not_read() {
    let root = tempfile::tempdir().unwrap();
    let volumes = PodVolumes::new(root.path(), "u");
    let text = "127.0.0.1 localhost\n";
    volumes.hosts(text).unwrap();
    let path = volumes.hosts_path();
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(20 << 30).unwrap();
    volumes.hosts(text).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
}

#[test]
fn messages_of_containers_that_are_not_shown_any_more_are_removed() {
    let root = tempfile::tempdir().unwrap();
    let volumes = PodVolumes::new(root.path(), "u");
    for restarts in 0..5 {
        volumes.termination_log("c", restarts, "/m").unwrap();
    }
    let left = fs::read_dir(volumes.termination_dir("c")).unwrap();
    let mut left: Vec<_> = left.flatten().map(|e| e.file_name()).collect();
    left.sort();
    assert_eq!(left, ["3", "4"]);
}

#[test]
fn a_pod_with_folders_deeper_than_a_path_is_removed_and_links_lead_nowhere() {
    use node_agent_files::Directory;
    let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(outside.path().join("kept"), "").unwrap();
    let volumes = PodVolumes::new(root.path(), "u");
    let volume = volumes.pod_dir().join("volumes/kubernetes.io~empty-dir/v");
    fs::create_dir_all(&volume).unwrap();
    std::os::unix::fs::symlink(outside.path(), volume.join("out")).unwrap();
    let mut at = Directory::open(&volume).unwrap();
    let name = "n".repeat(200);
    for _ in 0..200 {
        at = at.create_dir(&name, 0o777).unwrap();
    }
    volumes.remove().unwrap();
    assert!(!volumes.pod_dir().exists());
    assert!(outside.path().join("kept").exists());
}
