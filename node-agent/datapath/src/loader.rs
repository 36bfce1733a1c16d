//! aya's loader, without the kernel's types.

use std::path::Path;

use aya::EbpfLoader;
use nix::sched::{CloneFlags, unshare};

/// A loader for objects that are not relocated against the kernel's types.
///
/// `EbpfLoader::new` reads all of them from `/sys/kernel/btf/vmlinux`, also for
/// callers who then decline them: 100 MB for a moment, some of which the
/// allocator keeps, and a tenth of a second. So the loader is made by a thread
/// for which `nowhere`, an existing folder, is the whole of the file system.
pub(crate) fn without_kernel_types<'a>(nowhere: &Path) -> EbpfLoader<'a> {
    let made = std::thread::scope(|scope| {
        scope
            .spawn(|| {
                // From here on this thread's root is its own; it ends with it.
                unshare(CloneFlags::CLONE_FS).ok()?;
                nix::unistd::chroot(nowhere).ok()?;
                Some(EbpfLoader::new())
            })
            .join()
            .ok()
            .flatten()
    });
    let mut loader = made.unwrap_or_default();
    loader.btf(None);
    loader
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_process_keeps_its_root() {
        let folder = std::env::temp_dir();
        let _ = without_kernel_types(&folder);
        assert!(Path::new("/proc/self/status").exists());
    }
}
