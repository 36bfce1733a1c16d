//! Removes a pod's volumes, and never what is somebody else's.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use node_agent_files::{Directory, blocking};
use rustix::mount::{UnmountFlags, unmount};

use super::PodVolumes;

impl PodVolumes {
    /// Removes all that the pod has on this node. Nothing of it may run.
    ///
    /// # Errors
    /// When something is still in use; call it again later.
    pub fn remove(&self) -> io::Result<()> {
        if !self.pod_dir.exists() {
            return Ok(());
        }
        blocking::here(|| self.remove_all())
    }

    fn remove_all(&self) -> io::Result<()> {
        let text = fs::read_to_string("/proc/self/mountinfo")?;
        let mut below = mounts_below(&text, &self.pod_dir);
        // innermost first
        below.sort_by_key(|path| std::cmp::Reverse(path.components().count()));
        for path in below {
            match unmount(&path, UnmountFlags::empty()) {
                Ok(()) | Err(rustix::io::Errno::INVAL) => {}
                Err(_) => unmount(&path, UnmountFlags::DETACH)?,
            }
        }
        // what is mounted still may be somebody's data: it is not touched
        let text = fs::read_to_string("/proc/self/mountinfo")?;
        if let Some(path) = mounts_below(&text, &self.pod_dir).first() {
            let path = path.display();
            return Err(io::Error::other(format!("`{path}` is still mounted")));
        }
        let name = self.pod_dir.file_name().unwrap_or_default();
        let pods = Directory::open(self.pod_dir.parent().unwrap_or(&self.root))?;
        node_agent_files::remove_tree(&pods, name)
    }
}

/// The mount points in a `mountinfo` that are below `root`.
pub(super) fn mounts_below(text: &str, root: &Path) -> Vec<PathBuf> {
    text.lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(|field| PathBuf::from(unescape(field)))
        .filter(|path| path.starts_with(root) && path != root)
        .collect()
}

/// `\040` and the like, as mountinfo writes them.
pub(super) fn unescape(field: &str) -> String {
    let mut out = Vec::with_capacity(field.len());
    let bytes = field.as_bytes();
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        let code = bytes
            .get(at + 1..at + 4)
            .filter(|_| byte == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let Some(code) = code {
            out.push(code);
            at += 4;
        } else {
            out.push(byte);
            at += 1;
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}
