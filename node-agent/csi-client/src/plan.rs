//! What a driver is asked for: pure, from what the API has.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use csi_api::{AccessMode, BlockVolume, Capability, Mode, MountVolume, VolumeCapability};
use node_agent_files::digest;
use node_agent_objects::claim::CsiVolume;
use node_agent_objects::pod::Pod;
use serde::{Deserialize, Serialize};

/// A volume that a CSI driver publishes for a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct VolumeRequest {
    /// Name of the persistent volume, or of the pod's volume for one that
    /// lives with the pod.
    pub name: String,
    /// What the driver knows it by.
    pub source: CsiVolume,
    /// Whether it lives with the pod.
    pub inline: bool,
    /// The kinds of access that it is for.
    pub access_modes: Vec<String>,
    /// Options of the mount.
    pub options: Vec<String>,
    /// Whether the pod may only read it.
    pub read_only: bool,
    /// Whether it is a block device and no file system.
    pub block: bool,
}

/// `CSIDriver`: how a driver wants to be used. The defaults are the API's, and
/// what counts for a driver without such an object.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct DriverObject {
    /// What it says.
    pub spec: DriverSpec,
}

/// `CSIDriverSpec`
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DriverSpec {
    /// Whether volumes are attached to nodes first; unless told, they are.
    pub attach_required: Option<bool>,
    /// Whether the driver wants to know whose volume it is.
    pub pod_info_on_mount: bool,
    /// When files are given to the pod's group.
    pub fs_group_policy: Option<String>,
    /// Which kinds of life its volumes can have.
    pub volume_lifecycle_modes: Vec<String>,
    /// Tokens of the pod's account that it wants.
    pub token_requests: Vec<DriverTokenRequest>,
    /// Whether the tokens go where passwords do.
    pub service_account_token_in_secrets: bool,
    /// Whether the driver wants to publish again from time to time.
    pub requires_republish: bool,
    /// How often the driver is asked how many volumes the node can hold, in seconds;
    /// none asks it only when it makes itself known (KEP-4876).
    pub node_allocatable_update_period_seconds: Option<u64>,
}

/// A service account token that a driver requests (`spec.tokenRequests`).
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DriverTokenRequest {
    /// For whom it shall be.
    pub audience: String,
    /// How long it shall live.
    pub expiration_seconds: Option<i64>,
}

impl DriverSpec {
    /// Whether the driver makes volumes of this kind of life.
    #[must_use]
    pub fn allows(&self, inline: bool) -> bool {
        let wanted = if inline { "Ephemeral" } else { "Persistent" };
        if self.volume_lifecycle_modes.is_empty() {
            return !inline;
        }
        self.volume_lifecycle_modes
            .iter()
            .any(|mode| mode == wanted)
    }
}

/// `vol_data.json`, beside every published volume, by which it is taken back,
/// whoever published it. The names are the kubelet's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeData {
    /// The driver.
    pub driver_name: String,
    /// What it knows the volume by.
    pub volume_handle: String,
    /// Name of the volume.
    #[serde(rename = "specVolID")]
    pub spec_vol_id: String,
    /// The node.
    pub node_name: String,
    /// Name of the attachment.
    #[serde(rename = "attachmentID")]
    pub attachment_id: String,
    /// `Persistent` or `Ephemeral`.
    pub volume_lifecycle_mode: String,
}

/// What a driver knows an inline volume by.
#[must_use]
pub fn inline_handle(pod_uid: &str, volume: &str) -> String {
    format!("csi-{}", digest(&format!("{pod_uid}{volume}")))
}

/// Name of the object that says whether a volume is attached.
#[must_use]
pub fn attachment(handle: &str, driver: &str, node: &str) -> String {
    format!("csi-{}", digest(&format!("{handle}{driver}{node}")))
}

/// Where a volume is staged for all pods of the node.
#[must_use]
pub fn staging(root: &Path, driver: &str, handle: &str) -> PathBuf {
    root.join("plugins/kubernetes.io/csi")
        .join(driver)
        .join(digest(handle))
        .join("globalmount")
}

/// Where a pod's volume of that name is published.
#[must_use]
pub fn target(pod_dir: &Path, name: &str) -> PathBuf {
    volumes(pod_dir).join(name).join("mount")
}

/// Where all volumes of a pod are that drivers made.
#[must_use]
pub fn volumes(pod_dir: &Path) -> PathBuf {
    pod_dir.join("volumes/kubernetes.io~csi")
}

/// Where all volumes of a pod are that are devices: links.
#[must_use]
pub fn devices(pod_dir: &Path) -> PathBuf {
    pod_dir.join("volumeDevices/kubernetes.io~csi")
}

/// Where devices are staged, published and noted.
#[must_use]
pub fn device_root(root: &Path) -> PathBuf {
    root.join("plugins/kubernetes.io/csi/volumeDevices")
}

/// The paths of one volume of one pod, as the kubelet names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumePaths {
    /// Where it is staged for all pods of the node.
    pub staging: PathBuf,
    /// Where it is published for the pod.
    pub target: PathBuf,
    /// The folder of `vol_data.json`.
    pub data: PathBuf,
}

impl VolumePaths {
    /// Of a file system.
    #[must_use]
    pub fn of_files(root: &Path, pod_dir: &Path, driver: &str, handle: &str, name: &str) -> Self {
        Self {
            staging: staging(root, driver, handle),
            target: target(pod_dir, name),
            data: volumes(pod_dir).join(name),
        }
    }

    /// Of a device.
    #[must_use]
    pub fn of_device(root: &Path, pod_dir: &Path, name: &str) -> Self {
        let all = device_root(root);
        let pod = pod_dir.file_name().unwrap_or_default();
        Self {
            staging: all.join("staging").join(name),
            target: all.join("publish").join(name).join(pod),
            data: all.join(name).join("data"),
        }
    }
}

/// What the volume shall be able to do.
#[must_use]
pub fn capability(
    wish: &VolumeRequest,
    can: &[Capability],
    group: Option<u32>,
) -> VolumeCapability {
    let many = can.contains(&Capability::SingleNodeMultiWriter);
    let mode = match wish.access_modes.first().map(String::as_str) {
        None | Some("ReadWriteOnce") if many => Mode::SingleNodeMultiWriter,
        Some("ReadWriteOncePod") if many => Mode::SingleNodeSingleWriter,
        None | Some("ReadWriteOnce" | "ReadWriteOncePod") => Mode::SingleNodeWriter,
        Some("ReadOnlyMany") => Mode::MultiNodeReaderOnly,
        Some("ReadWriteMany") => Mode::MultiNodeMultiWriter,
        Some(_) => Mode::Unknown,
    };
    let group = group.filter(|_| can.contains(&Capability::VolumeMountGroup));
    VolumeCapability {
        block: wish.block.then_some(BlockVolume {}),
        mount: (!wish.block).then(|| MountVolume {
            fs_type: wish.source.fs_type.clone(),
            mount_flags: wish.options.clone(),
            volume_mount_group: group.map(|g| g.to_string()).unwrap_or_default(),
        }),
        access_mode: Some(AccessMode { mode: mode.into() }),
    }
}

/// Whether the agent gives the files to the pod's group, and not the driver.
#[must_use]
pub fn gives_files(wish: &VolumeRequest, spec: &DriverSpec, can: &[Capability]) -> bool {
    if wish.read_only || wish.block || can.contains(&Capability::VolumeMountGroup) {
        return false;
    }
    match spec.fs_group_policy.as_deref() {
        Some("None") => false,
        Some("File") => true,
        _ => {
            let once = wish.inline || wish.access_modes.iter().any(|m| m == "ReadWriteOnce");
            !wish.source.fs_type.is_empty() && once
        }
    }
}

/// What the driver is told of the pod, when it wants to know.
#[must_use]
pub fn pod_info(pod: &Pod, inline: bool) -> BTreeMap<String, String> {
    [
        ("pod.name", pod.name()),
        ("pod.namespace", pod.namespace()),
        ("pod.uid", pod.uid()),
        ("serviceAccount.name", &pod.spec.service_account_name),
        ("ephemeral", if inline { "true" } else { "false" }),
    ]
    .into_iter()
    .map(|(key, value)| (format!("csi.storage.k8s.io/{key}"), value.to_owned()))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(modes: &[&str], fs_type: &str) -> VolumeRequest {
        VolumeRequest {
            name: "pv".to_owned(),
            source: CsiVolume {
                fs_type: fs_type.to_owned(),
                ..CsiVolume::default()
            },
            inline: false,
            access_modes: modes.iter().map(|m| (*m).to_owned()).collect(),
            options: Vec::new(),
            read_only: false,
            block: false,
        }
    }

    #[test]
    fn modes_of_access_are_the_drivers_words_and_finer_ones_where_it_knows_them() {
        let mode = |modes: &[&str], can: &[Capability]| {
            capability(&wish(modes, ""), can, None)
                .access_mode
                .unwrap()
                .mode()
        };
        let finer = [Capability::SingleNodeMultiWriter];
        assert_eq!(mode(&[], &[]), Mode::SingleNodeWriter);
        assert_eq!(mode(&["ReadWriteOncePod"], &[]), Mode::SingleNodeWriter);
        assert_eq!(
            mode(&["ReadWriteOnce"], &finer),
            Mode::SingleNodeMultiWriter
        );
        assert_eq!(
            mode(&["ReadWriteOncePod"], &finer),
            Mode::SingleNodeSingleWriter
        );
        assert_eq!(
            mode(&["ReadWriteMany", "ReadWriteOnce"], &finer),
            Mode::MultiNodeMultiWriter
        );
    }

    #[test]
    fn files_are_given_to_the_group_by_exactly_one() {
        let policy = |name: &str| DriverSpec {
            fs_group_policy: Some(name.to_owned()),
            ..DriverSpec::default()
        };
        let once = wish(&["ReadWriteOnce"], "ext4");
        let none = DriverSpec::default();
        assert!(gives_files(&once, &none, &[]));
        assert!(!gives_files(&wish(&["ReadWriteMany"], "ext4"), &none, &[]));
        assert!(!gives_files(&wish(&["ReadWriteOnce"], ""), &none, &[]));
        assert!(gives_files(
            &wish(&["ReadWriteMany"], ""),
            &policy("File"),
            &[]
        ));
        assert!(!gives_files(&once, &policy("None"), &[]));
        let can = [Capability::VolumeMountGroup];
        assert!(!gives_files(&once, &policy("File"), &can));
        let told = capability(&once, &can, Some(7)).mount.unwrap();
        assert_eq!(told.volume_mount_group, "7");
        let silent = capability(&once, &[], Some(7)).mount.unwrap();
        assert_eq!(silent.volume_mount_group, "");
    }

    #[test]
    fn names_are_the_kubelets() {
        // sha256 of "vol-1", as sha256sum(1) prints it
        assert_eq!(
            staging(Path::new("/k"), "d", "vol-1"),
            Path::new("/k/plugins/kubernetes.io/csi/d")
                .join(digest("vol-1"))
                .join("globalmount")
        );
        let data = VolumeData {
            spec_vol_id: "pv".to_owned(),
            attachment_id: "csi-1".to_owned(),
            ..VolumeData::default()
        };
        let text = serde_json::to_string(&data).unwrap();
        for name in [
            "driverName",
            "volumeHandle",
            "specVolID",
            "nodeName",
            "attachmentID",
            "volumeLifecycleMode",
        ] {
            assert!(text.contains(&format!("\"{name}\":")), "{text}");
        }
        assert!(!DriverSpec::default().allows(true));
        assert!(DriverSpec::default().allows(false));
    }
}
