//! Volumes are of the kinds that need no trust in the pod.

use std::collections::BTreeSet;

use super::{Check, Pod, Revision, Violation, host_path_volumes, plural, quoted, violation};
use crate::tree::Read as _;

pub(super) const CHECK: Check = Check {
    id: "restrictedVolumes",
    revisions: &[Revision::since(0, check).replacing(host_path_volumes::ID)],
};

const ALLOWED: &[&str] = &[
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

const FORBIDDEN: &[&str] = &[
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

fn check(pod: &Pod<'_>) -> Option<Violation> {
    let (mut bad, mut kinds) = (Vec::new(), BTreeSet::new());
    for volume in pod.spec.items("volumes") {
        if ALLOWED.iter().any(|kind| volume.has(kind)) {
            continue;
        }
        bad.push(volume.text("name"));
        let kind = FORBIDDEN.iter().find(|kind| volume.has(kind));
        kinds.insert(*kind.unwrap_or(&"unknown"));
    }
    if bad.is_empty() {
        return None;
    }
    let detail = format!(
        "{} {} {} {} {}",
        plural(bad.len(), "volume", "volumes"),
        quoted(&bad),
        plural(bad.len(), "uses", "use"),
        plural(
            kinds.len(),
            "restricted volume type",
            "restricted volume types"
        ),
        quoted(&kinds)
    );
    violation("restricted volume types", detail)
}
