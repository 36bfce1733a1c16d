//! What a machine has, to see that nothing is left; and its processes.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::Pid,
};

/// What must be the same before `up` and after `down`.
#[derive(Debug, Eq, PartialEq)]
pub struct Traces {
    /// Network, mount, pid and uts namespaces of all processes.
    pub namespaces: BTreeSet<String>,
    /// This process's mounts.
    pub mounts: BTreeSet<String>,
    /// Network interfaces.
    pub links: BTreeSet<String>,
    /// Control groups of clusters.
    pub groups: BTreeSet<PathBuf>,
    /// Pinned eBPF objects.
    pub pins: BTreeSet<PathBuf>,
}

impl Traces {
    /// Looks at the machine now.
    pub fn now() -> Self {
        let mut namespaces = BTreeSet::new();
        for pid in processes().into_iter().filter(|pid| !has_ended(*pid)) {
            for kind in ["net", "mnt", "pid", "uts"] {
                if let Ok(name) = fs::read_link(format!("/proc/{pid}/ns/{kind}")) {
                    namespaces.insert(name.display().to_string());
                }
            }
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        Self {
            namespaces,
            mounts: mounts
                .lines()
                .filter_map(|line| line.split(' ').nth(4).map(str::to_owned))
                .collect(),
            links: names(Path::new("/sys/class/net"))
                .into_iter()
                .map(|path| path.display().to_string())
                .collect(),
            groups: groups().into_iter().filter(|path| ours(path)).collect(),
            pins: below(Path::new("/sys/fs/bpf")),
        }
    }

    /// What is there now and was not before.
    pub fn since(&self, before: &Self) -> Vec<String> {
        let mut left: Vec<String> = Vec::new();
        left.extend(self.namespaces.difference(&before.namespaces).cloned());
        left.extend(self.mounts.difference(&before.mounts).cloned());
        left.extend(self.links.difference(&before.links).cloned());
        for (now, then) in [(&self.groups, &before.groups), (&self.pins, &before.pins)] {
            left.extend(now.difference(then).map(|path| path.display().to_string()));
        }
        left
    }
}

/// Whether the process only waits for its parent to ask how it ended, which is
/// the business of the machine's first process for those whose parent is gone.
fn has_ended(pid: i32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name before it is in brackets and may hold anything.
    stat.rsplit_once(')')
        .is_none_or(|(_, rest)| matches!(rest.trim_start().as_bytes().first(), Some(b'Z' | b'X')))
}

fn ours(path: &Path) -> bool {
    path.components()
        .any(|part| part.as_os_str().to_string_lossy().starts_with("orlop"))
}

fn groups() -> BTreeSet<PathBuf> {
    below(Path::new("/sys/fs/cgroup"))
}

fn names(folder: &Path) -> Vec<PathBuf> {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .collect()
}

fn below(folder: &Path) -> BTreeSet<PathBuf> {
    let mut all = BTreeSet::new();
    let mut next = vec![folder.to_owned()];
    while let Some(folder) = next.pop() {
        for path in names(&folder) {
            if path.is_dir() && !path.is_symlink() {
                next.push(path.clone());
            }
            all.insert(path);
        }
    }
    all
}

fn processes() -> Vec<i32> {
    names(Path::new("/proc"))
        .iter()
        .filter_map(|path| path.file_name()?.to_str()?.parse().ok())
        .collect()
}

/// The processes of the test host `node` of the cluster in `dir` whose command
/// line contains all `words`.
pub fn processes_of(dir: &Path, node: &str, words: &[&str]) -> Vec<i32> {
    let Ok(record) = fs::read(dir.join("cluster.json")) else {
        return Vec::new();
    };
    let record: serde_json::Value = serde_json::from_slice(&record).unwrap_or_default();
    let Some(id) = record["id"].as_str() else {
        return Vec::new();
    };
    let group = format!("/{id}/{node}/system");
    processes()
        .into_iter()
        .filter(|pid| {
            fs::read_to_string(format!("/proc/{pid}/cgroup"))
                .is_ok_and(|text| text.lines().any(|line| line.ends_with(&group)))
                && fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| {
                    let line = String::from_utf8_lossy(&line).replace('\0', " ");
                    words.iter().all(|word| line.contains(word))
                })
        })
        .collect()
}

/// kill -9 of a test host's program; gives how many processes were hit.
pub fn kill_program(dir: &Path, node: &str, words: &[&str]) -> usize {
    let found = processes_of(dir, node, words);
    for pid in &found {
        let _ = kill(Pid::from_raw(*pid), Signal::SIGKILL);
    }
    found.len()
}

/// Resident memory of a process in KiB.
pub fn resident(pid: i32) -> Option<u64> {
    fs::read_to_string(format!("/proc/{pid}/status"))
        .ok()?
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}
