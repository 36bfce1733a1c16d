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

/// Returns the provisioner of volumes of a class with this provisioner.
///
/// # Errors
/// The message of the event if there is none.
pub(super) fn provisioner(name: &str) -> Result<&str, String> {
    if let Some(driver) = migrated_driver(name) {
        return Ok(driver);
    }
    match name {
        HOST_PATH => Err(format!(
            "Failed to create provisioner: provisioning in volume plugin {name:?} is disabled"
        )),
        NFS | LOCAL => Err("no provisionable volume plugin matched".to_owned()),
        other if other.starts_with("kubernetes.io/") => {
            Err(format!("no volume plugin matched name: {other}"))
        }
        external => Ok(external),
    }
}

/// Checks that an external driver deletes the storage behind a released volume.
///
/// # Errors
/// The message of the event if there is none.
pub(super) fn external_deleter(volume: &Volume) -> Result<(), String> {
    let provisioned_by = volume.metadata.annotations.get(PROVISIONED_BY);
    if let Some(name) = provisioned_by.filter(|name| !name.is_empty()) {
        return match name {
            HOST_PATH => Err(no_deleter_of_host_path(volume)),
            NFS | LOCAL => Err("no deletable volume plugin matched".to_owned()),
            name if name.starts_with("kubernetes.io/") => {
                Err(format!("no volume plugin matched name: {name}"))
            }
            _ => Ok(()),
        };
    }
    if volume.has(MIGRATED_TO) || volume.spec.csi.is_some() {
        return Ok(());
    }
    if volume.spec.host_path.is_some() {
        return Err(no_deleter_of_host_path(volume));
    }
    let why = if volume.spec.nfs || volume.spec.local {
        "no deletable volume plugin matched"
    } else {
        "no volume plugin matched"
    };
    let name = &volume.metadata.name;
    Err(format!(
        "error getting deleter volume plugin for volume {:?}: {why}",
        name.as_str()
    ))
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
