//! What a machine has, to see that nothing is left; and its processes.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Duration,
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
    let state = stat(pid).and_then(|fields| fields.into_iter().next());
    matches!(state.as_deref(), None | Some("Z" | "X"))
}

fn ours(path: &Path) -> bool {
    path.components()
        .any(|part| part.as_os_str().to_string_lossy().starts_with("orlop"))
}

/// All control groups, with their files.
pub fn groups() -> BTreeSet<PathBuf> {
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

/// The control group of the programs of the test host `node` of the cluster in `dir`.
pub fn group_of(dir: &Path, node: &str) -> Option<String> {
    let record = fs::read(dir.join("cluster.json")).ok()?;
    let record: serde_json::Value = serde_json::from_slice(&record).ok()?;
    let id = record["id"].as_str()?;
    Some(format!("/{id}/{node}/system"))
}

/// The processes of the test host `node` of the cluster in `dir` whose command
/// line contains all `words`.
pub fn processes_of(dir: &Path, node: &str, words: &[&str]) -> Vec<i32> {
    group_of(dir, node).map_or_else(Vec::new, |group| processes_in(&group, words))
}

/// The processes of a control group whose command line contains all `words`.
pub fn processes_in(group: &str, words: &[&str]) -> Vec<i32> {
    processes()
        .into_iter()
        .filter(|pid| {
            fs::read_to_string(format!("/proc/{pid}/cgroup"))
                .is_ok_and(|text| text.lines().any(|line| line.ends_with(group)))
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
    kib(&format!("/proc/{pid}/status"), "VmRSS:")
}

/// Memory of a process in KiB, what it shares with others counted in shares.
pub fn proportional(pid: i32) -> Option<u64> {
    kib(&format!("/proc/{pid}/smaps_rollup"), "Pss:")
}

fn kib(path: &str, key: &str) -> Option<u64> {
    fs::read_to_string(path)
        .ok()?
        .lines()
        .find_map(|line| line.strip_prefix(key))?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

/// Processor time that a process has taken since its start, of all its threads.
pub fn processor_time(pid: i32) -> Option<Duration> {
    let fields = stat(pid)?;
    // utime and stime, the 14th and 15th field of proc_pid_stat(5)
    let ticks: u64 = fields.get(11)?.parse::<u64>().ok()? + fields.get(12)?.parse::<u64>().ok()?;
    Some(Duration::from_millis(ticks * 1000 / TICKS))
}

/// When a process started, from the machine's start on.
pub fn started(pid: i32) -> Option<Duration> {
    let ticks: u64 = stat(pid)?.get(19)?.parse().ok()?;
    Some(Duration::from_millis(ticks * 1000 / TICKS))
}

/// How long the machine has been up.
pub fn uptime() -> Option<Duration> {
    let text = fs::read_to_string("/proc/uptime").ok()?;
    let seconds: f64 = text.split(' ').next()?.parse().ok()?;
    Some(Duration::from_secs_f64(seconds))
}

/// What the kernel counts times of processes in, for users of /proc (`USER_HZ`).
const TICKS: u64 = 100;

/// The fields of `/proc/PID/stat` from the third on.
fn stat(pid: i32) -> Option<Vec<String>> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before them is in brackets and may hold anything.
    let (_, rest) = stat.rsplit_once(')')?;
    Some(rest.split_whitespace().map(str::to_owned).collect())
}
