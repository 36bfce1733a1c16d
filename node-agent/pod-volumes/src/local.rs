//! Local volumes: a path of the node, mounted for each pod that uses it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::mount::{MountFlags, UnmountFlags, mount_bind, mount_remount, unmount};

use super::claim::BoundClaim;
use super::removal::unescape;
use super::{Error, MountContext, group, io_error, make, ownership};

/// How long giving a volume to its group may take before somebody is told.
const LONG: Duration = Duration::from_secs(30);

/// Mounts `path` at `target`, which is the pod's, and gives it to the pod's
/// group, if no other pod below `root` has it.
///
/// # Errors
/// When there is nothing at the path, or it cannot be mounted.
pub async fn mount(
    root: &Path,
    path: &Path,
    target: &Path,
    bound: &BoundClaim,
    with: MountContext<'_>,
) -> Result<(), Error> {
    let found = fs::metadata(path).map_err(|source| Error::NoLocalPath {
        path: path.to_owned(),
        source,
    })?;
    if !found.is_dir() {
        return Err(Error::NoDirectory(path.to_owned()));
    }
    make(target)?;
    let text =
        || fs::read_to_string("/proc/self/mountinfo").map_err(io_error("cannot read", target));
    let mut mounts = text()?;
    if !is_mounted(&mounts, target) {
        let bind = || -> rustix::io::Result<()> {
            mount_bind(path, target)?;
            let flags = flags(bound.read_only, &bound.options);
            if !flags.is_empty() {
                mount_remount(target, MountFlags::BIND | flags, "")?;
            }
            Ok(())
        };
        if let Err(error) = bind() {
            let _ = unmount(target, UnmountFlags::DETACH);
            let _ = fs::remove_dir(target);
            return Err(io_error("cannot mount", path)(error.into()));
        }
        mounts = text()?;
    }
    let Some(group) = group(with.pod) else {
        return Ok(());
    };
    if others(&mounts, &root.join("pods"), target) {
        if found.gid() != group {
            let message = format!(
                "The requested fsGroup is {group}, but the volume {} has GID {}. The volume may not be shareable.",
                bound.name,
                found.gid()
            );
            (with.warn)("AlreadyMountedVolume", message);
        }
        return Ok(());
    }
    if bound.read_only {
        return Ok(());
    }
    give_to_group(target, group, with).await
}

/// Gives a volume to the pod's group, unless the pod says that its root tells
/// whether that is needed and it does.
///
/// # Errors
/// When the volume cannot be read.
pub async fn give_to_group(volume: &Path, group: u32, with: MountContext<'_>) -> Result<(), Error> {
    let security = with.pod.spec.security_context.as_ref();
    let policy = security.and_then(|s| s.fs_group_change_policy.as_deref());
    if policy == Some("OnRootMismatch") && ownership::matches(volume, group) {
        return Ok(());
    }
    let path = volume.to_owned();
    // a volume may have millions of files
    let mut work = tokio::task::spawn_blocking(move || ownership::give_to_group(&path, group));
    let done = tokio::select! {
        done = &mut work => done,
        () = tokio::time::sleep(LONG) => {
            let message = format!(
                "Setting volume ownership for {} is taking longer than expected, consider using OnRootMismatch - https://kubernetes.io/docs/tasks/configure-pod-container/security-context/#configure-volume-permission-and-ownership-change-policy-for-pods",
                volume.display()
            );
            (with.warn)("VolumePermissionChangeInProgress", message);
            work.await
        }
    };
    match done {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(io_error("cannot give", volume)(error)),
        Err(error) => Err(io_error("cannot give", volume)(std::io::Error::other(
            error,
        ))),
    }
}

/// The options of a mount that a second mount of something can have.
fn flags(read_only: bool, options: &[String]) -> MountFlags {
    let mut flags = MountFlags::empty();
    for option in options {
        flags |= match option.as_str() {
            "ro" => MountFlags::RDONLY,
            "noexec" => MountFlags::NOEXEC,
            "nosuid" => MountFlags::NOSUID,
            "nodev" => MountFlags::NODEV,
            "noatime" => MountFlags::NOATIME,
            "nodiratime" => MountFlags::NODIRATIME,
            "relatime" => MountFlags::RELATIME,
            _ => MountFlags::empty(),
        };
    }
    if read_only {
        flags |= MountFlags::RDONLY;
    }
    flags
}

/// A line of `mountinfo`: what is mounted (device and folder of it), and where.
fn line(line: &str) -> Option<((&str, &str), PathBuf)> {
    let mut fields = line.split(' ').skip(2);
    let (device, folder, at) = (fields.next()?, fields.next()?, fields.next()?);
    Some(((device, folder), PathBuf::from(unescape(at))))
}

fn is_mounted(mounts: &str, target: &Path) -> bool {
    mounts.lines().filter_map(line).any(|(_, at)| at == target)
}

/// Whether what is mounted at `target` is mounted for another pod too.
fn others(mounts: &str, pods: &Path, target: &Path) -> bool {
    let own = mounts.lines().filter_map(line).find(|(_, at)| at == target);
    let Some((what, _)) = own else { return false };
    mounts
        .lines()
        .filter_map(line)
        .any(|(other, at)| other == what && at != target && at.starts_with(pods))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOUNTS: &str = "36 35 98:0 / / rw - ext4 /dev/sda rw\n\
        37 36 98:0 /mnt/d /k/pods/u1/volumes/kubernetes.io~local-volume/pv rw - ext4 /dev/sda rw\n\
        38 36 98:0 /mnt/d /k/pods/u2/volumes/kubernetes.io~local-volume/pv rw - ext4 /dev/sda rw\n\
        39 36 98:0 /mnt/e /k/pods/u3/volumes/kubernetes.io~local-volume/pv rw - ext4 /dev/sda rw\n\
        40 36 98:0 /mnt/e /srv/e rw - ext4 /dev/sda rw\n";

    #[test]
    fn a_volume_is_shared_only_with_mounts_of_other_pods() {
        let at = |uid: &str| {
            PathBuf::from(format!(
                "/k/pods/{uid}/volumes/kubernetes.io~local-volume/pv"
            ))
        };
        let shared = |uid: &str| others(MOUNTS, Path::new("/k/pods"), &at(uid));
        assert!(shared("u1"));
        assert!(shared("u2"));
        assert!(!shared("u3"));
        assert!(!shared("u4"));
        assert!(is_mounted(MOUNTS, &at("u3")));
        assert!(!is_mounted(MOUNTS, &at("u4")));
    }

    #[test]
    fn a_read_only_claim_is_mounted_so_whatever_the_options() {
        let options = ["rw".to_owned(), "noexec".to_owned(), "data=x".to_owned()];
        assert_eq!(flags(false, &options), MountFlags::NOEXEC);
        assert_eq!(
            flags(true, &options),
            MountFlags::NOEXEC | MountFlags::RDONLY
        );
        assert!(flags(false, &[]).is_empty());
    }
}
