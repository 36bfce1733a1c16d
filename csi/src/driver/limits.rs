//! IO limits are set where they act: at the control groups of the pods that
//! use a volume, for the volume's device.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::{Driver, Store};
use crate::backend::Attachment;
use crate::catalog::record::VolumeRecord;
use crate::error::{Error, Result};
use crate::filesystem::mounts::MountTable;
use crate::request::io_limits::IoLimits;

/// Depth at which control groups of pods are, at most.
const DEPTH: usize = 5;

impl Driver {
    /// Sets the limits for all pods that use a volume.
    pub(super) fn limit_everywhere(
        &self,
        store: &Store,
        record: &VolumeRecord,
        limits: IoLimits,
    ) -> Result<()> {
        for mount in store.mounts(record, &MountTable::read()?)? {
            self.limit_target(store, record, limits, &mount.target)?;
        }
        Ok(())
    }

    /// Sets the limits for the pod that a target belongs to, if it is a pod's.
    pub(super) fn limit_target(
        &self,
        store: &Store,
        record: &VolumeRecord,
        limits: IoLimits,
        target: &Path,
    ) -> Result<()> {
        let Some(pod) = pod_of(target) else {
            return Ok(());
        };
        let Some(Attachment::Device(device)) = store.reachable(record)? else {
            return Ok(());
        };
        let found = fs::metadata(&device).map_err(Error::io("look at", &device))?;
        if !found.file_type().is_block_device() {
            return Ok(());
        }
        let number = found.rdev();
        let number = (rustix::fs::major(number), rustix::fs::minor(number));
        let applied = apply(&self.cgroups, pod, limits, number)?;
        if !applied && !limits.is_unlimited() {
            tracing::warn!(
                volume = record.id,
                pod,
                "control group of the pod not found, IO is not limited"
            );
        }
        Ok(())
    }
}

/// Returns the pod whose folder a path is in: `…/pods/<uid>/…`.
#[must_use]
pub fn pod_of(target: &Path) -> Option<&str> {
    let mut parts = target.components().map(|it| it.as_os_str().to_str());
    parts.find(|part| *part == Some("pods"))?;
    parts.next().flatten().filter(|uid| uid.len() >= 32)
}

/// Writes limits into the control group of a pod, and returns whether it is there.
fn apply(root: &Path, pod: &str, limits: IoLimits, device: (u32, u32)) -> Result<bool> {
    let unified = root.join("cgroup.controllers").exists();
    let root = if unified {
        root.to_owned()
    } else {
        root.join("blkio")
    };
    let Some(group) = find_group(&root, pod) else {
        return Ok(false);
    };
    let write = |file: &str, line: &str| {
        let path = group.join(file);
        fs::write(&path, line).map_err(Error::io("write", &path))
    };
    if unified {
        write("io.max", &limits.io_max(device))?;
    } else {
        for (file, line) in limits.throttle(device) {
            write(file, &line)?;
        }
    }
    Ok(true)
}

/// Finds the control group of a pod: its name contains the pod's identifier,
/// with `_` for `-` where systemd names groups.
fn find_group(root: &Path, pod: &str) -> Option<PathBuf> {
    let escaped = pod.replace('-', "_");
    let mut level = vec![root.to_owned()];
    for _ in 0..DEPTH {
        let mut next = Vec::new();
        for folder in &level {
            for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
                if !entry.file_type().is_ok_and(|it| it.is_dir()) {
                    continue;
                }
                let name = entry.file_name();
                let name = name.to_string_lossy();
                if name.contains(pod) || name.contains(&escaped) {
                    return Some(entry.path());
                }
                next.push(entry.path());
            }
        }
        level = next;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: &str = "0b9b2d3e-6f6d-4e0e-8f5a-1d2c3b4a5968";

    #[test]
    fn the_pod_of_a_target_is_in_its_path() {
        let path = format!("/var/lib/kubelet/pods/{POD}/volumes/kubernetes.io~csi/v/mount");
        assert_eq!(pod_of(Path::new(&path)), Some(POD));
        assert_eq!(pod_of(Path::new("/tmp/target")), None);
    }

    #[test]
    fn limits_are_written_for_both_versions_of_control_groups() {
        let limits = IoLimits {
            read_iops: Some(100),
            ..IoLimits::default()
        };
        let root = tempfile::tempdir().unwrap();
        let escaped = POD.replace('-', "_");
        let group = root
            .path()
            .join(format!("kubepods.slice/kubepods-pod{escaped}.slice"));
        fs::create_dir_all(&group).unwrap();
        fs::write(root.path().join("cgroup.controllers"), "io").unwrap();
        assert!(apply(root.path(), POD, limits, (7, 1)).unwrap());
        let line = fs::read_to_string(group.join("io.max")).unwrap();
        assert_eq!(line, "7:1 rbps=max wbps=max riops=100 wiops=max");

        let root = tempfile::tempdir().unwrap();
        let group = root
            .path()
            .join("blkio/kubepods/burstable")
            .join(format!("pod{POD}"));
        fs::create_dir_all(&group).unwrap();
        assert!(apply(root.path(), POD, limits, (7, 1)).unwrap());
        let file = group.join("blkio.throttle.read_iops_device");
        assert_eq!(fs::read_to_string(file).unwrap(), "7:1 100");
        assert!(!apply(root.path(), "another", limits, (7, 1)).unwrap());
    }
}
