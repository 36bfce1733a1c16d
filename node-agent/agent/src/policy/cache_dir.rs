//! Interfaces that were let up, kept over the agent's restarts: a pod has its
//! addresses before its status says so, and the next agent must know them.
//!
//! One file a pod, of JSON, below `/run`: as long-lived as the interfaces
//! themselves, which end with the machine's run.

use std::{
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use tracing::warn;

use super::admit::PendingPodInterface;

/// What is being written. No namespace begins with a dot.
const UNFINISHED: &str = ".new";

/// The folder in which pod interfaces are cached.
#[derive(Debug)]
pub struct PolicyCacheDir {
    folder: PathBuf,
}

// === impl Kept ===

impl PolicyCacheDir {
    /// The folder beside the agent's socket; it is made.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(folder: PathBuf) -> io::Result<Self> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)?;
        Ok(Self { folder })
    }

    /// Forgets all: no policy is enforced.
    pub fn clear(folder: &Path) {
        if let Err(error) = fs::remove_dir_all(folder)
            && error.kind() != io::ErrorKind::NotFound
        {
            warn!(path = %folder.display(), %error, "failed to clear the cached pod interfaces");
        }
    }

    /// Keeps an interface in the place of its pod's former one.
    ///
    /// # Errors
    /// What the system says.
    pub fn keep(&self, interface: &PendingPodInterface) -> io::Result<()> {
        let new = self.folder.join(UNFINISHED);
        fs::write(&new, serde_json::to_vec(interface)?)?;
        fs::rename(&new, self.path(&interface.namespace, &interface.name))
    }

    /// The pod is gone.
    pub fn forget(&self, namespace: &str, name: &str) {
        let path = self.path(namespace, name);
        if let Err(error) = fs::remove_file(&path)
            && error.kind() != io::ErrorKind::NotFound
        {
            warn!(path = %path.display(), %error, "failed to remove a cached pod interface");
        }
    }

    /// All that still are, as `is` says of each; the others are forgotten, and
    /// files that say nothing.
    ///
    /// # Errors
    /// What the system says.
    pub fn all(
        &self,
        is: impl Fn(&PendingPodInterface) -> bool,
    ) -> io::Result<Vec<PendingPodInterface>> {
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let read: Option<PendingPodInterface> = fs::read(&path)
                .ok()
                .filter(|_| !path.ends_with(UNFINISHED))
                .and_then(|bytes| serde_json::from_slice(&bytes).ok());
            match read.filter(&is) {
                Some(interface) => found.push(interface),
                None => fs::remove_file(&path)?,
            }
        }
        Ok(found)
    }

    /// A namespace has no underscore in its name, so that no two pods share a
    /// file.
    fn path(&self, namespace: &str, name: &str) -> PathBuf {
        self.folder.join(format!("{namespace}_{name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(name: &str, device: &str) -> PendingPodInterface {
        PendingPodInterface {
            namespace: "x".to_owned(),
            name: name.to_owned(),
            uid: "1".to_owned(),
            device: device.to_owned(),
            addresses: vec!["10.0.0.1".parse().expect("an address")],
            bandwidth: None,
        }
    }

    #[test]
    fn what_was_kept_is_found_until_it_goes_and_nothing_else_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let kept = || PolicyCacheDir::open(folder.path().join("i")).expect("open");
        kept().keep(&interface("a", "orl1")).expect("keep");
        kept().keep(&interface("a", "orl2")).expect("keep");
        kept().keep(&interface("b", "orl3")).expect("keep");
        kept().keep(&interface("c.d-e", "orl4")).expect("keep");
        for torn in ["x_torn", UNFINISHED] {
            fs::write(kept().folder.join(torn), "{").expect("write");
        }
        kept().forget("x", "c.d-e");
        kept().forget("x", "never");
        let found = kept().all(|it| it.device != "orl3").expect("read");
        assert_eq!(found, [interface("a", "orl2")]);
        let names = fs::read_dir(&kept().folder).expect("read").count();
        assert_eq!(names, 1);
    }
}
