//! What the machine must offer, checked before anything is changed.

use std::path::{Path, PathBuf};

use aya::util::KernelVersion;
use rustix::fs::statfs;

use crate::error::Error;

/// `bpf_set_retval` came with it: without, a refused `connect` would say
/// `EPERM`.
const OLDEST_KERNEL: (KernelVersion, &str) = (KernelVersion::new(5, 18, 0), "5.18");

const BPF_FS_MAGIC: i64 = 0xcafe_4a11;
const CGROUP2_MAGIC: i64 = 0x6367_7270;

/// Mounts a BPF filesystem at `path` if there is none; true if it did.
/// Machines with systemd have one at `/sys/fs/bpf`.
///
/// # Errors
///
/// [`Error::File`] if the directory cannot be made or the mount fails.
pub fn ensure_bpffs(path: &Path) -> Result<bool, Error> {
    if is_bpffs(path) {
        return Ok(false);
    }
    let failed = |verb| {
        let path = path.to_owned();
        move |source| Error::File { verb, path, source }
    };
    std::fs::create_dir_all(path).map_err(failed("create"))?;
    rustix::mount::mount("bpf", path, "bpf", rustix::mount::MountFlags::empty(), None)
        .map_err(|errno| failed("mount a BPF filesystem at")(errno.into()))?;
    Ok(true)
}

/// Checks everything that can be checked beforehand.
pub(crate) fn check(cgroup: &Path, pin_dir: &Path) -> Result<(), Error> {
    if !rustix::process::geteuid().is_root() {
        return Err(Error::NotRoot);
    }
    let (oldest, needed) = OLDEST_KERNEL;
    match KernelVersion::current() {
        Ok(found) if found < oldest => {
            return Err(Error::KernelTooOld {
                found: format!("{found:?}"),
                needed,
            });
        }
        // A version that cannot be read is left to the verifier.
        _ => {}
    }
    if statfs(cgroup).map(|fs| fs.f_type) != Ok(CGROUP2_MAGIC) {
        return Err(Error::NoCgroup2 {
            path: cgroup.to_owned(),
        });
    }
    let existing = nearest(pin_dir);
    if is_bpffs(&existing) {
        Ok(())
    } else {
        Err(Error::NoBpffs { path: existing })
    }
}

fn is_bpffs(path: &Path) -> bool {
    statfs(path).map(|fs| fs.f_type) == Ok(BPF_FS_MAGIC)
}

/// The path itself or its nearest ancestor that exists.
fn nearest(path: &Path) -> PathBuf {
    path.ancestors()
        .find(|path| path.exists())
        .unwrap_or(Path::new("/"))
        .to_owned()
}
