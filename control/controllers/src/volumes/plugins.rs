//! The volume plug-ins of kube-controller-manager: they recognise volumes, and no longer
//! provision or delete them. CSI drivers do that.

pub(super) use control_types::volumes::migrated_driver;

use crate::views::Volume;

/// The plug-in that made a volume.
pub(super) const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// The CSI driver that took over from an in-tree plug-in.
pub(super) const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";

const HOST_PATH: &str = "kubernetes.io/host-path";
const NFS: &str = "kubernetes.io/nfs";
const LOCAL: &str = "kubernetes.io/local-volume";

/// The in-tree plug-in of a volume whose CSI driver took over.
pub(super) fn migrated_plugin(volume: &Volume) -> Option<&'static str> {
    let spec = &volume.spec;
    [
        (spec.aws_elastic_block_store, "kubernetes.io/aws-ebs"),
        (spec.azure_disk, "kubernetes.io/azure-disk"),
        (spec.azure_file, "kubernetes.io/azure-file"),
        (spec.cinder, "kubernetes.io/cinder"),
        (spec.gce_persistent_disk, "kubernetes.io/gce-pd"),
        (spec.portworx_volume, "kubernetes.io/portworx-volume"),
        (spec.vsphere_volume, "kubernetes.io/vsphere-volume"),
    ]
    .into_iter()
    .find_map(|(is_set, name)| is_set.then_some(name))
}

/// The CSI driver that took over from the in-tree plug-in of a volume.
pub(crate) fn driver_of_migrated(volume: &Volume) -> Option<&'static str> {
    migrated_driver(migrated_plugin(volume)?)
}

/// Reason why no volume plug-in handles a volume; the message is kube-controller-manager's.
#[derive(Debug, thiserror::Error)]
pub(super) enum PluginError {
    #[error("Failed to create provisioner: provisioning in volume plugin {0:?} is disabled")]
    Disabled(&'static str),
    #[error("no provisionable volume plugin matched")]
    NoProvisioner,
    #[error("no deletable volume plugin matched")]
    NoDeleter,
    #[error("no volume plugin matched name: {0}")]
    Unknown(String),
    #[error("{0}")]
    HostPath(String),
    #[error("error getting deleter volume plugin for volume {volume:?}: {why}")]
    Deleter { volume: String, why: &'static str },
}

/// Returns the provisioner of volumes of a class with this provisioner.
///
/// # Errors
/// The message of the event if there is none.
pub(super) fn provisioner(name: &str) -> Result<&str, PluginError> {
    if let Some(driver) = migrated_driver(name) {
        return Ok(driver);
    }
    match name {
        HOST_PATH => Err(PluginError::Disabled(HOST_PATH)),
        NFS | LOCAL => Err(PluginError::NoProvisioner),
        other if other.starts_with("kubernetes.io/") => Err(PluginError::Unknown(other.to_owned())),
        external => Ok(external),
    }
}

/// Checks that an external driver deletes the storage behind a released volume.
///
/// # Errors
/// The message of the event if there is none.
pub(super) fn external_deleter(volume: &Volume) -> Result<(), PluginError> {
    let provisioned_by = volume.metadata.annotations.get(PROVISIONED_BY);
    if let Some(name) = provisioned_by.filter(|name| !name.is_empty()) {
        return match name {
            HOST_PATH => Err(PluginError::HostPath(no_deleter_of_host_path(volume))),
            NFS | LOCAL => Err(PluginError::NoDeleter),
            name if name.starts_with("kubernetes.io/") => {
                Err(PluginError::Unknown(name.to_owned()))
            }
            _ => Ok(()),
        };
    }
    if volume.has(MIGRATED_TO) || volume.spec.csi.is_some() {
        return Ok(());
    }
    if volume.spec.host_path.is_some() {
        return Err(PluginError::HostPath(no_deleter_of_host_path(volume)));
    }
    let why = if volume.spec.nfs || volume.spec.local {
        "no deletable volume plugin matched"
    } else {
        "no volume plugin matched"
    };
    let volume = volume.metadata.name.to_string();
    Err(PluginError::Deleter { volume, why })
}

/// Host paths are not deleted: this process does not run on the node.
/// kube-controller-manager deletes those below `/tmp` of its own machine.
fn no_deleter_of_host_path(volume: &Volume) -> String {
    let path = volume.spec.host_path.as_ref().map_or("", |host| &host.path);
    if path
        .strip_prefix("/tmp/")
        .is_some_and(|rest| !rest.is_empty())
    {
        let name = &volume.metadata.name;
        return format!(
            "error getting deleter volume plugin for volume {:?}: no deletable volume plugin matched",
            name.as_str()
        );
    }
    format!("host_path deleter only supports /tmp/.+ but received provided {path}")
}
