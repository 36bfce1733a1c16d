//! Volumes of drivers that are devices (`volumeMode: Block`).
//!
//! ```text
//! <root>/plugins/kubernetes.io/csi/volumeDevices/
//!   staging/<volume>               staged, once a node
//!   publish/<volume>/<pod uid>     published, once a pod: the device
//!   <volume>/data/vol_data.json    how to take it back
//! <root>/pods/<uid>/volumeDevices/kubernetes.io~csi/<volume>   a link to the device
//! ```

use std::fs;
use std::io;
use std::path::Path;

use csi_api as api;
use node_agent_files::{DIRECTORY_MODE, create_dirs};
use node_agent_plugins::api::Empty;

use super::plan::{self, VolumeData, VolumePaths};
use super::{CsiDrivers, DATA, Error, failed, folders, load};

/// Notes in the pod's folder that it has the device: before it does.
pub(super) fn link(pod_dir: &Path, volume: &str, target: &Path) -> Result<(), Error> {
    let folder = plan::devices(pod_dir);
    create_dirs(&folder, DIRECTORY_MODE).map_err(failed("cannot make", &folder))?;
    let path = folder.join(volume);
    match std::os::unix::fs::symlink(target, &path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(failed("cannot make", &path)(error))
        }
        _ => Ok(()),
    }
}

/// Whether any pod has the volume.
fn is_published(target: &Path) -> bool {
    let folder = target.parent().unwrap_or(target);
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some())
}

/// Whether another pod has the volume whose device a pod gets at `target`.
pub(super) fn is_published_beside(target: &Path) -> bool {
    let folder = target.parent().unwrap_or(target);
    let mut entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.any(|entry| entry.path() != target)
}

/// All devices that are published on this node.
pub(super) fn published(root: &Path) -> impl Iterator<Item = VolumeData> + use<> {
    let all = plan::device_root(root);
    let of = move |folder: &std::path::PathBuf| {
        let name = folder.file_name().unwrap_or_default();
        is_published(&all.join("publish").join(name).join("any"))
    };
    let noted = folders(&plan::device_root(root)).into_iter().filter(of);
    noted.filter_map(|folder| load(&folder.join("data")))
}

fn gone(what: &'static str, path: &Path, removed: io::Result<()>) -> Result<(), Error> {
    match removed {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(what, path)(error)),
        _ => Ok(()),
    }
}

impl CsiDrivers {
    /// Takes back all devices of the pod whose folder this is.
    pub(super) async fn release_devices(&self, pod_dir: &Path) -> Result<(), Error> {
        let folder = plan::devices(pod_dir);
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let volume = entry.file_name().to_string_lossy().into_owned();
            let places = VolumePaths::of_device(&self.root, pod_dir, &volume);
            if let Some(data) = load(&places.data) {
                self.release_device(&places, &data).await?;
            } else if places.target.exists() {
                return Err(Error::Refused(format!(
                    "`{}` is missing: take the device at `{}` back by hand",
                    places.data.join(DATA).display(),
                    places.target.display()
                )));
            }
            let link = entry.path();
            gone("cannot remove", &link, fs::remove_file(&link))?;
        }
        Ok(())
    }

    async fn release_device(&self, places: &VolumePaths, data: &VolumeData) -> Result<(), Error> {
        let (name, handle) = (&data.driver_name, &data.volume_handle);
        let driver = self.find(name)?;
        let _turn = self.turns.take((name.clone(), handle.clone())).await;
        driver
            .call::<_, Empty>(
                "csi.v1.Node/NodeUnpublishVolume",
                api::NodeUnpublishVolumeRequest {
                    volume_id: handle.clone(),
                    target_path: places.target.display().to_string(),
                },
            )
            .await?;
        // a driver takes away what it put there; a file that is left is none
        gone(
            "cannot remove",
            &places.target,
            fs::remove_file(&places.target),
        )?;
        if is_published(&places.target) {
            return Ok(());
        }
        if places.staging.exists() {
            driver
                .call::<_, Empty>(
                    "csi.v1.Node/NodeUnstageVolume",
                    api::NodeUnstageVolumeRequest {
                        volume_id: handle.clone(),
                        staging_target_path: places.staging.display().to_string(),
                    },
                )
                .await?;
        }
        let published = places.target.parent().unwrap_or(&places.target);
        for folder in [published, &places.staging] {
            gone("cannot remove", folder, fs::remove_dir(folder))?;
        }
        // last: as long as it is there, all of it is done again
        let file = places.data.join(DATA);
        gone("cannot remove", &file, fs::remove_file(&file))?;
        let _ = fs::remove_dir(&places.data);
        let _ = places.data.parent().map(fs::remove_dir);
        Ok(())
    }
}
