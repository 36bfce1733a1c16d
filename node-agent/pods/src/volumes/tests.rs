use std::os::unix::fs::MetadataExt;

use super::removal::mounts_below;
use super::*;

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
    let volumes = Volumes::new(root.path(), "u-1");
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
    let objects = crate::objects::source::fake::FakeObjects::default();
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
        let mut volumes = Volumes::new(root.path(), uid);
        let with = Mounting {
            pod: &pod,
            facts: &Facts::default(),
            objects: &objects,
            drivers: &Drivers::default(),
            warn: &|reason, _| told.lock().unwrap().push(reason.to_owned()),
            tell: &|_, _| {},
        };
        for _ in 0..2 {
            let made = volumes.mount(with, &mut Tokens::default()).await;
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
