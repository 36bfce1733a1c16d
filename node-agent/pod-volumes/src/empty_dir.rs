//! Volumes of kind `emptyDir`: a folder, or memory, or huge pages.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;

use node_agent_objects::pod::PodSpec;
use node_agent_objects::quantity;
use node_agent_objects::volume::EmptyDir;
use node_agent_pod_resources::hugepages;
use rustix::mount::{MountFlags, mount};

use super::{Error, io_error, make as make_dir};

/// The medium of which the pod says the size elsewhere.
const HUGE: &str = "HugePages";

/// Makes the volume, once.
pub(super) fn make(
    path: &Path,
    empty: &EmptyDir,
    group: Option<u32>,
    spec: &PodSpec,
) -> Result<(), Error> {
    let fresh = !path.exists();
    if !fresh {
        return Ok(());
    }
    make_dir(path)?;
    let mounted = match empty.medium.as_str() {
        "" => Ok(()),
        "Memory" => tmpfs(path, empty.size_limit.as_deref().and_then(quantity::whole)),
        medium if medium == HUGE || medium.starts_with("HugePages-") => {
            hugepages::of_medium(medium, spec)
                .map_err(Error::from)
                .and_then(|size| mount_at(path, "hugetlbfs", &hugepages::option(size)))
        }
        other => Err(Error::Unsupported(format!("emptyDir of medium {other}"))),
    };
    if let Err(error) = mounted {
        let _ = fs::remove_dir(path);
        return Err(error);
    }
    if group.is_some() {
        chown(path, None, group).map_err(io_error("cannot give", path))?;
    }
    let mode = mode(&empty.medium, group.is_some());
    fs::set_permissions(path, fs::Permissions::from_mode(mode))
        .map_err(io_error("cannot open", path))
}

/// Everybody may write; what is a group's stays so in folders. Memory keeps the sticky bit
/// that Linux mounts it with, as under a kubelet.
fn mode(medium: &str, of_group: bool) -> u32 {
    let sticky = if medium == "Memory" { 0o1000 } else { 0 };
    let group = if of_group { 0o2000 } else { 0 };
    0o777 | sticky | group
}

/// Mounts memory at `path`, unless a mount is there already.
pub(super) fn tmpfs(path: &Path, size: Option<i64>) -> Result<(), Error> {
    let options = match size.filter(|s| *s > 0) {
        Some(size) => format!("size={size}"),
        None => String::new(),
    };
    mount_at(path, "tmpfs", &options)
}

fn mount_at(path: &Path, kind: &'static str, options: &str) -> Result<(), Error> {
    let device = |p: &Path| fs::metadata(p).map(|m| m.dev());
    let parent = path.parent().unwrap_or(path);
    let own = device(path).map_err(io_error("cannot read", path))?;
    if own != device(parent).map_err(io_error("cannot read", parent))? {
        return Ok(());
    }
    let options = std::ffi::CString::new(options).unwrap_or_default();
    mount(kind, path, kind, MountFlags::empty(), options.as_c_str())
        .map_err(|e| io_error("cannot mount memory at", path)(e.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_the_kubelets() {
        assert_eq!(mode("", false), 0o777);
        assert_eq!(mode("", true), 0o2777);
        assert_eq!(mode("HugePages-2Mi", true), 0o2777);
        assert_eq!(mode("Memory", false), 0o1777);
        assert_eq!(mode("Memory", true), 0o3777);
    }
}
