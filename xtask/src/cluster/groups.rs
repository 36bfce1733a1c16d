//! Control groups of test hosts, in every mounted hierarchy (v1, hybrid, v2).

use std::{
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// Returns the mount points of hierarchies: all of them, and the v2 one.
pub fn roots() -> (Vec<PathBuf>, Option<PathBuf>) {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let mut all = Vec::new();
    let mut unified = None;
    for line in mounts.lines() {
        let mut words = line.split(' ').skip(1);
        let (Some(path), Some(kind)) = (words.next(), words.next()) else {
            continue;
        };
        match kind {
            "cgroup" => all.push(PathBuf::from(path)),
            "cgroup2" => {
                all.push(PathBuf::from(path));
                unified = Some(PathBuf::from(path));
            }
            _ => {}
        }
    }
    (all, unified)
}

/// Makes `group` in every hierarchy, with a group `system` in it for the host's
/// own programs, and moves the calling process there.
pub fn enter(group: &str) -> std::io::Result<()> {
    for root in roots().0 {
        let system = root.join(group).join("system");
        fs::create_dir_all(&system)?;
        // A new v1 cpuset group has no CPU until some are assigned.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            if let Ok(value) = fs::read_to_string(root.join(file)) {
                for folder in system
                    .ancestors()
                    .take_while(|f| *f != root)
                    .collect::<Vec<_>>()
                    .iter()
                    .rev()
                {
                    let _ = fs::write(folder.join(file), &value);
                }
            }
        }
        fs::write(system.join("cgroup.procs"), b"0")?;
    }
    Ok(())
}

/// Moves the calling process into `group` of the v2 hierarchy: what runs
/// there sees the node's services.
pub fn enter_unified(group: &str) -> std::io::Result<()> {
    match roots().1 {
        Some(root) => fs::write(root.join(group).join("cgroup.procs"), b"0"),
        None => Err(std::io::Error::other("no cgroup2 hierarchy is mounted")),
    }
}

/// The processes in a group and below, in any hierarchy.
pub fn processes(group: &str) -> Vec<i32> {
    let mut pids: Vec<i32> = roots()
        .0
        .iter()
        .flat_map(|root| folders(&root.join(group)))
        .filter_map(|folder| fs::read_to_string(folder.join("cgroup.procs")).ok())
        .flat_map(|text| {
            text.lines()
                .filter_map(|line| line.parse().ok())
                .collect::<Vec<_>>()
        })
        .filter(|pid| *pid > 0)
        .collect();
    pids.sort_unstable();
    pids.dedup();
    pids
}

/// Kills the processes in a group and removes the group; returns what is left after about
/// ten seconds.
pub fn remove(group: &str) -> Vec<PathBuf> {
    for _ in 0..200 {
        for pid in processes(group) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        let mut left = false;
        for root in roots().0 {
            // Innermost first; a group goes once its last process has ended.
            for folder in folders(&root.join(group)).iter().rev() {
                left |= fs::remove_dir(folder).is_err();
            }
        }
        if !left {
            return Vec::new();
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    roots()
        .0
        .iter()
        .map(|root| root.join(group))
        .filter(|folder| folder.exists())
        .collect()
}

/// A folder and those in it, outermost first.
fn folders(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let mut next = vec![folder.to_owned()];
    while let Some(folder) = next.pop() {
        let Ok(entries) = fs::read_dir(&folder) else {
            continue;
        };
        next.extend(
            entries
                .flatten()
                .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
                .map(|entry| entry.path()),
        );
        all.push(folder);
    }
    all
}
