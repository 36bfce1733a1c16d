//! The state of a machine that a package may change: files, network, eBPF, control groups,
//! units, processes. One line is one fact, so that two states compare by their lines.

use std::{
    collections::BTreeSet,
    fs,
    hash::{DefaultHasher, Hash, Hasher},
    os::unix::fs::MetadataExt,
    path::Path,
};

use tests_images::{Failure, run};

/// Folders with files of other kinds, and with those that the system writes at any time:
/// of dpkg and apt, of the journal, of containerd and of this test.
const SKIPPED: [&str; 21] = [
    "/dev",
    "/proc",
    "/run/containerd",
    "/run/log",
    "/run/systemd",
    "/run/udev",
    "/sys",
    "/test",
    "/tmp",
    "/var/cache",
    "/var/lib/apt",
    "/var/lib/cni",
    "/var/lib/containerd",
    "/var/lib/dpkg",
    "/var/lib/systemd/timers",
    "/var/log/alternatives.log",
    "/var/log/apt",
    "/var/log/dpkg.log",
    "/var/log/journal",
    "/var/log/wtmp",
    "/var/tmp",
];

/// Parameters that the kernel itself changes, and the mount point of an automount.
const VOLATILE: [&str; 12] = [
    "/proc/sys/fs/aio-nr",
    "/proc/sys/fs/binfmt_misc",
    "/proc/sys/fs/dentry-state",
    "/proc/sys/fs/file-nr",
    "/proc/sys/fs/inode-nr",
    "/proc/sys/fs/inode-state",
    "/proc/sys/fs/quota",
    "/proc/sys/kernel/ns_last_pid",
    "/proc/sys/kernel/pty/nr",
    "/proc/sys/kernel/random",
    "/proc/sys/net/netfilter/nf_conntrack_count",
    "/proc/sys/vm/stat_refresh",
];

/// Commands whose output is state, and how their lines begin that are not.
const COMMANDS: [(&str, &[&str]); 15] = [
    ("ip -brief link", &[]),
    ("ip -brief address", &[]),
    ("ip -4 rule", &[]),
    ("ip -6 rule", &[]),
    ("ip -4 route show table all", &[]),
    ("ip -6 route show table all", &[]),
    ("ip netns", &[]),
    ("tc qdisc show", &[]),
    ("nft list ruleset", &[]),
    ("iptables-save", &["#"]),
    ("ip6tables-save", &["#"]),
    ("ctr -n k8s.io containers ls -q", &[]),
    ("ctr -n k8s.io tasks ls -q", &[]),
    (
        "systemctl list-units --all --no-legend --plain \
         --type=service,socket,timer,target,path,slice,mount,automount",
        &["systemd-", "modprobe@"],
    ),
    // Processes of user space.
    (
        "ps --ppid 2 -p 2 -N -o comm= --sort=comm",
        &["ps", "vm-packages", "(sd-pam)", "(udev-worker)"],
    ),
];

/// Returns what is there now.
///
/// # Errors
/// A command that fails.
pub fn take() -> Result<BTreeSet<String>, Failure> {
    let mut lines = BTreeSet::new();
    files(Path::new("/"), &mut lines);
    names("pin", Path::new("/sys/fs/bpf"), &mut lines);
    names("control group", Path::new("/sys/fs/cgroup"), &mut lines);
    parameters(Path::new("/proc/sys"), &mut lines);
    let mounts = fs::read_to_string("/proc/self/mounts")?;
    lines.extend(mounts.lines().map(|line| format!("mount {line}")));
    for (command, skipped) in COMMANDS {
        let words: Vec<&str> = command.split_whitespace().collect();
        let text = run(words[0], &words[1..])?;
        let kept = text.lines().map(str::trim).filter(|line| {
            !line.is_empty() && !skipped.iter().any(|start| line.starts_with(start))
        });
        // The state of a unit that ended is gone with its last reference.
        lines.extend(kept.map(|line| {
            let line: Vec<&str> = line.split_whitespace().collect();
            format!("{}: {}", words[0], line.join(" "))
        }));
    }
    for kind in ["prog", "map", "link"] {
        ebpf(kind, &mut lines)?;
    }
    Ok(lines)
}

/// Returns what came and what went between two states.
pub fn changes(before: &BTreeSet<String>, after: &BTreeSet<String>) -> Vec<String> {
    let left = after.difference(before).map(|line| format!("left: {line}"));
    let gone = before.difference(after).map(|line| format!("gone: {line}"));
    left.chain(gone).collect()
}

/// Files and folders with their modes; the contents of configuration, too.
fn files(folder: &Path, lines: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if SKIPPED.iter().any(|skipped| path == Path::new(skipped)) {
            continue;
        }
        let Ok(found) = fs::symlink_metadata(&path) else {
            continue;
        };
        let mut line = format!("file {} {:o}", path.display(), found.mode());
        if found.is_file() && path.starts_with("/etc") {
            let mut hasher = DefaultHasher::new();
            fs::read(&path).unwrap_or_default().hash(&mut hasher);
            line.push_str(&format!(" {:x}", hasher.finish()));
        }
        lines.insert(line);
        if found.is_dir() {
            files(&path, lines);
        }
    }
}

fn names(kind: &str, folder: &Path, lines: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let path = entry.path();
        // Files of control groups are there with their folders.
        if is_folder || kind == "pin" {
            lines.insert(format!("{kind} {}", path.display()));
        }
        if is_folder {
            names(kind, &path, lines);
        }
    }
}

fn parameters(folder: &Path, lines: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if VOLATILE.iter().any(|volatile| path == Path::new(volatile)) {
            continue;
        }
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            parameters(&path, lines);
        } else if let Ok(value) = fs::read_to_string(&path) {
            let value: Vec<&str> = value.split_whitespace().collect();
            lines.insert(format!("{} = {}", path.display(), value.join(" ")));
        }
    }
}

/// Programs, maps and links, by what they are and how many there are; their numbers differ each
/// time. Those of systemd come and go with its units.
fn ebpf(kind: &str, lines: &mut BTreeSet<String>) -> Result<(), Failure> {
    let text = run("bpftool", &["-j", kind, "show"])?;
    let all: serde_json::Value = serde_json::from_str(&text)?;
    let mut found: Vec<String> = Vec::new();
    for one in all.as_array().into_iter().flatten() {
        let name = one["name"].as_str().unwrap_or_default();
        let of_runc = kind == "prog" && one["type"] == "cgroup_device";
        if !name.starts_with("sd_") && !of_runc {
            found.push(format!("{} {name}", one["type"]));
        }
    }
    found.sort();
    for (number, one) in found.iter().enumerate() {
        let same = found[..number].iter().filter(|it| *it == one).count();
        lines.insert(format!("{kind} {one} {}", same + 1));
    }
    Ok(())
}
