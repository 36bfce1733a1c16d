//! What tests need of the machine under them.

use std::fs;
use std::path::{Path, PathBuf};

/// Why this machine cannot run programs at a cgroup.
pub fn lack() -> Option<String> {
    if !nix::unistd::geteuid().is_root() {
        return Some("not root".into());
    }
    if cgroup2().is_none() {
        return Some("no cgroup2 is mounted".into());
    }
    if node_agent_datapath::OBJECT.is_none() {
        return Some("the BPF object is not built; `cargo xtask build` makes it".into());
    }
    None
}

/// Where cgroup2 is mounted, and the directory of this process.
pub fn cgroup2() -> Option<(PathBuf, PathBuf)> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let root = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ');
        let (_, place, kind) = (fields.next()?, fields.next()?, fields.next()?);
        (kind == "cgroup2").then(|| PathBuf::from(place))
    })?;
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let home = root.join(own);
    Some((root, home))
}

/// This process belongs there from now on.
pub fn enter(cgroup: &Path) {
    fs::write(cgroup.join("cgroup.procs"), std::process::id().to_string()).expect("enter a cgroup");
}
