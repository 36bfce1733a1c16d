//! The network namespaces of this machine, one after the other.
//!
//! Those of pods have names that the container runtime gave them, and are listed at once.
//! Others (`unshare`, services of the machine) are only seen by a walk through all
//! processes, which costs milliseconds of processor time. So what a walk found is
//! remembered, for those who come again later for what they may have missed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sched::{CloneFlags, setns};

/// Where namespaces have names.
const NAMED: [&str; 3] = ["/run/netns", "/var/run/netns", "/run/docker/netns"];

/// Identity of a namespace: the device and inode of its file.
pub(crate) type Identity = (u64, u64);

/// Selects namespaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NamespaceSelection {
    /// Those that have names, and those that the last walk found and that are still
    /// where it found them.
    AtHand,
    /// All that a process or a name holds: a walk.
    All,
}

/// The namespaces that the last walk found, and how to enter each.
#[derive(Debug, Default)]
pub(crate) struct Namespaces {
    found: BTreeMap<Identity, PathBuf>,
}

// === impl Namespaces ===

impl Namespaces {
    /// Does something in each of them; returns in how many. The caller's own comes first:
    /// the node's.
    ///
    /// Entering namespaces is a thread's affair: it is done in one that ends afterwards.
    ///
    /// # Errors
    ///
    /// What fails in the caller's own namespace. Others that fail are named in the log,
    /// and those that go away meanwhile are left out.
    pub(crate) fn in_each(
        &mut self,
        which: NamespaceSelection,
        act: &mut (dyn FnMut() -> io::Result<()> + Send),
    ) -> io::Result<usize> {
        let others = self.others(which);
        std::thread::scope(|scope| {
            std::thread::Builder::new()
                .name("namespaces".to_owned())
                .spawn_scoped(scope, || enter(&others, act))?
                .join()
                .unwrap_or_else(|_| {
                    Err(io::Error::other("the thread that enters namespaces failed"))
                })
        })
    }

    /// Without this thread's own.
    fn others(&mut self, which: NamespaceSelection) -> BTreeMap<Identity, PathBuf> {
        let mut all: BTreeMap<Identity, PathBuf> = match which {
            NamespaceSelection::AtHand => {
                let found = self.found.iter();
                let still = found.filter(|(known, path)| identity(path).as_ref() == Some(known));
                still.map(|(known, path)| (*known, path.clone())).collect()
            }
            NamespaceSelection::All => identified(of_processes()).collect(),
        };
        // Names last as long as namespaces, processes may not.
        all.extend(identified(named()));
        if let Some(own) = identity(Path::new("/proc/thread-self/ns/net")) {
            all.remove(&own);
        }
        self.found.clone_from(&all);
        all
    }
}

fn enter(
    others: &BTreeMap<Identity, PathBuf>,
    act: &mut dyn FnMut() -> io::Result<()>,
) -> io::Result<usize> {
    act()?;
    let mut entered = 1;
    for path in others.values() {
        // It may be gone by now, and what is no namespace is refused.
        let Ok(file) = File::open(path) else {
            continue;
        };
        if setns(&file, CloneFlags::CLONE_NEWNET).is_err() {
            continue;
        }
        entered += 1;
        if let Err(error) = act() {
            tracing::warn!(namespace = %path.display(), %error, "failed to inspect a network namespace");
        }
    }
    Ok(entered)
}

fn identified(paths: impl Iterator<Item = PathBuf>) -> impl Iterator<Item = (Identity, PathBuf)> {
    paths.filter_map(|path| Some((identity(&path)?, path)))
}

fn named() -> impl Iterator<Item = PathBuf> {
    NAMED
        .into_iter()
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten()
        .flatten()
        .map(|entry| entry.path())
}

fn of_processes() -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let is_process = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        name.as_encoded_bytes().iter().all(u8::is_ascii_digit)
    };
    entries
        .filter(is_process)
        .map(|entry| entry.path().join("ns/net"))
}

/// What namespace a path is; none if it is none any more.
pub(crate) fn identity(path: &Path) -> Option<Identity> {
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A process with a namespace of its own without a name, which ends with it.
    struct Alone(Child);

    impl Alone {
        fn begin() -> Option<Self> {
            if !nix::unistd::geteuid().is_root() {
                println!("skipped: needs root to make a namespace");
                return None;
            }
            // It says so when it has one.
            let mut child = Command::new("unshare")
                .args([
                    "--net",
                    "sh",
                    "-c",
                    "ip link set lo up; echo; exec sleep 600",
                ])
                .stdout(Stdio::piped())
                .spawn()
                .ok()?;
            let mut line = [0];
            io::Read::read_exact(child.stdout.as_mut()?, &mut line).ok()?;
            Some(Self(child))
        }

        fn path(&self) -> PathBuf {
            format!("/proc/{}/ns/net", self.0.id()).into()
        }
    }

    impl Drop for Alone {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn a_namespace_without_a_name_is_at_hand_after_a_walk_and_until_it_ends() {
        let Some(alone) = Alone::begin() else { return };
        let its = identity(&alone.path()).unwrap();
        let mut namespaces = Namespaces::default();
        let mut has = |which| namespaces.others(which).contains_key(&its);
        assert!(!has(NamespaceSelection::AtHand));
        assert!(has(NamespaceSelection::All));
        assert!(has(NamespaceSelection::AtHand) && has(NamespaceSelection::AtHand));
        drop(alone);
        assert!(!has(NamespaceSelection::AtHand) && !has(NamespaceSelection::All));
    }

    #[test]
    fn the_own_namespace_is_not_among_the_others() {
        let own = identity(Path::new("/proc/thread-self/ns/net")).unwrap();
        let mut namespaces = Namespaces::default();
        for which in [NamespaceSelection::All, NamespaceSelection::AtHand] {
            assert!(!namespaces.others(which).contains_key(&own));
        }
    }
}
