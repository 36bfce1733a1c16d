//! The network namespaces of this machine, one after the other.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::sched::{CloneFlags, setns};

/// Does something in each network namespace of this machine that a process or a name
/// holds; returns in how many. The caller's own comes first: the node's.
///
/// Entering namespaces is a thread's affair: it is done in one that ends afterwards.
///
/// # Errors
///
/// What fails in the caller's own namespace. Others that fail are named in the log, and
/// those that go away meanwhile are left out.
pub(crate) fn in_each(act: &mut (dyn FnMut() -> io::Result<()> + Send)) -> io::Result<usize> {
    std::thread::scope(|scope| {
        std::thread::Builder::new()
            .name("namespaces".to_owned())
            .spawn_scoped(scope, || walk(act))?
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the thread that enters namespaces failed")))
    })
}

fn walk(act: &mut dyn FnMut() -> io::Result<()>) -> io::Result<usize> {
    act()?;
    let mut entered = 1;
    let own = identity(Path::new("/proc/thread-self/ns/net"));
    let mut seen: BTreeSet<(u64, u64)> = own.into_iter().collect();
    for path in candidates() {
        let Some(found) = identity(&path) else {
            continue;
        };
        if !seen.insert(found) {
            continue;
        }
        // It may be gone by now, and what is no namespace is refused.
        let Ok(file) = File::open(&path) else {
            continue;
        };
        if setns(&file, CloneFlags::CLONE_NEWNET).is_err() {
            continue;
        }
        entered += 1;
        if let Err(error) = act() {
            tracing::warn!(namespace = %path.display(), %error, "could not look into a network namespace");
        }
    }
    Ok(entered)
}

/// Where namespaces can be opened: those with names (container runtimes give
/// them), and those of processes.
fn candidates() -> Vec<PathBuf> {
    let names = ["/run/netns", "/var/run/netns", "/run/docker/netns"]
        .into_iter()
        .filter_map(|folder| fs::read_dir(folder).ok())
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = processes
        .filter(|entry| {
            entry
                .file_name()
                .to_string_lossy()
                .bytes()
                .all(|byte| byte.is_ascii_digit())
        })
        .map(|entry| entry.path().join("ns/net"));
    names.chain(processes).collect()
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    let found = fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}
