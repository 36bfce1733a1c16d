//! What tests of full disks need.

use std::path::{Path, PathBuf};

/// A disk that can be filled. Mounts need root; without it there is none.
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts an empty disk of `kib` KiB at a folder.
    ///
    /// # Panics
    /// When it cannot be mounted.
    #[must_use]
    pub fn new(folder: &Path, kib: u32) -> Option<Self> {
        if !rustix::process::getuid().is_root() {
            return None;
        }
        let options = std::ffi::CString::new(format!("size={kib}k")).unwrap();
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount("orlop-test", folder, "tmpfs", flags, options.as_c_str()).unwrap();
        Some(Self(folder.to_owned()))
    }

    /// Where it is mounted.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Takes all that is left.
    ///
    /// # Panics
    /// When no file can be made.
    pub fn fill(&self) {
        let mut file = std::fs::File::create(self.path().join("filler")).unwrap();
        while std::io::Write::write_all(&mut file, &[0; 4096]).is_ok() {}
    }

    /// Gives it back.
    ///
    /// # Panics
    /// When nothing was taken.
    pub fn free(&self) {
        std::fs::remove_file(self.path().join("filler")).unwrap();
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(self.path(), rustix::mount::UnmountFlags::DETACH);
    }
}
