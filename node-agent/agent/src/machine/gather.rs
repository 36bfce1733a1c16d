//! Collects the facts. Nothing on the machine is changed.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use node_agent_cri::{Runtime as _, RuntimeClient, api};
use node_agent_datapath::{InstalledPins, foreign_programs, probe, xdp_in_drivers};

use super::{
    Cgroups, ContainerRuntime, DiskSpace, MachineFacts, Nic, PinnedDatapath, ProbePaths, clock,
    owners,
};
use crate::{preflight, routes::netlink};

const SYSCTLS: [&str; 4] = [
    "net.ipv4.ip_forward",
    "net.ipv6.conf.all.forwarding",
    "net.ipv4.conf.all.rp_filter",
    "fs.inotify.max_user_instances",
];
const PORTS: [u16; 4] = [6443, 10249, 10250, 10256];
/// How long the container runtime may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// Looks at this machine. What cannot be read is left out, or says why.
pub async fn gather(places: &ProbePaths) -> MachineFacts {
    let root = nix::unistd::geteuid().is_root();
    let v2 = preflight::hierarchy().ok();
    let installed = InstalledPins::find(&places.pin_dir).ok().flatten();
    MachineFacts {
        kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
            .map(|it| it.trim().to_owned())
            .unwrap_or_default(),
        root,
        btf: Path::new(preflight::BTF).exists(),
        probes: if root {
            probe(v2.as_deref())
        } else {
            Vec::new()
        },
        foreign_programs: foreign_programs().unwrap_or_default(),
        datapath: installed.map(PinnedDatapath::from),
        cgroups: Cgroups {
            v2,
            v1: controllers(&fs::read_to_string("/proc/self/mounts").unwrap_or_default()),
        },
        sysctls: sysctls(Path::new("/proc/sys")),
        memory: memory(&fs::read_to_string("/proc/meminfo").unwrap_or_default()),
        ports: owners::taken(&PORTS),
        devices: devices(Path::new("/sys/class/net")),
        address: netlink::default_address().ok(),
        runtime: runtime(&places.runtime_endpoint).await,
        clock_synchronized: clock::is_synchronized(),
        disks: disks(&places.disks),
    }
}

fn sysctls(root: &Path) -> BTreeMap<String, String> {
    let read = |name: &&str| {
        let text = fs::read_to_string(root.join(name.replace('.', "/"))).ok()?;
        Some(((*name).to_owned(), text.trim().to_owned()))
    };
    SYSCTLS.iter().filter_map(read).collect()
}

/// Total memory, in bytes.
fn memory(text: &str) -> u64 {
    let kib = text.lines().find_map(|line| {
        let rest = line.strip_prefix("MemTotal:")?;
        rest.split_whitespace().next()?.parse::<u64>().ok()
    });
    kib.unwrap_or_default() << 10
}

/// Controllers of version 1 in a mount table.
fn controllers(mounts: &str) -> Vec<String> {
    let names = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        let path = Path::new(words.next()?);
        let name = path.file_name()?.to_string_lossy().into_owned();
        (words.next()? == "cgroup").then_some(name)
    });
    names.collect()
}

/// Devices of the machine's hardware.
fn devices(root: &Path) -> Vec<Nic> {
    let xdp: BTreeMap<u32, bool> = xdp_in_drivers().unwrap_or_default().into_iter().collect();
    let mut found = Vec::new();
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let folder = entry.path();
        let number = |file: &str| {
            let text = fs::read_to_string(folder.join(file)).ok()?;
            text.trim().parse::<u32>().ok()
        };
        // Only hardware has a device behind it; ARPHRD_ETHER is 1.
        if !folder.join("device").exists() || number("type") != Some(1) {
            continue;
        }
        let driver = fs::read_link(folder.join("device/driver")).unwrap_or_default();
        found.push(Nic {
            name: entry.file_name().to_string_lossy().into_owned(),
            mtu: number("mtu").unwrap_or_default(),
            driver: driver.file_name().map_or_else(
                || "unknown driver".to_owned(),
                |it| it.to_string_lossy().into_owned(),
            ),
            xdp: number("ifindex").and_then(|index| xdp.get(&index).copied()),
        });
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

async fn runtime(endpoint: &str) -> ContainerRuntime {
    let client = RuntimeClient::new(endpoint);
    let asked = client.version(api::VersionRequest::default());
    let (version, error) = match tokio::time::timeout(PATIENCE, asked).await {
        _ if !client.socket().exists() => (None, Some("no such socket".to_owned())),
        Ok(Ok(answer)) => (Some((answer.runtime_name, answer.runtime_version)), None),
        Ok(Err(error)) => (None, Some(error.to_string())),
        Err(_) => (None, Some(format!("no answer in {} s", PATIENCE.as_secs()))),
    };
    ContainerRuntime {
        endpoint: endpoint.to_owned(),
        version,
        error,
    }
}

/// Room of the file systems of these directories, each file system once.
fn disks(paths: &[PathBuf]) -> Vec<DiskSpace> {
    let mut seen = Vec::new();
    let mut found = Vec::new();
    for path in paths {
        let Some(path) = path.ancestors().find(|it| it.exists()) else {
            continue;
        };
        let Ok(room) = nix::sys::statvfs::statvfs(path) else {
            continue;
        };
        if seen.contains(&room.filesystem_id()) {
            continue;
        }
        seen.push(room.filesystem_id());
        let unit = room.fragment_size();
        found.push(DiskSpace {
            path: path.to_owned(),
            size: room.blocks() * unit,
            free: room.blocks_available() * unit,
            inodes_free: (room.files_available() * 100)
                .checked_div(room.files())
                .unwrap_or(100),
        });
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{FindingLevel, MachineRole, judge};

    #[test]
    fn controllers_of_version_1_are_named() {
        let table = "cgroup /sys/fs/cgroup/cpu cgroup rw,cpu 0 0\n\
                     cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n\
                     cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n";
        assert_eq!(controllers(table), ["cpu", "memory"]);
        assert_eq!(memory("MemTotal:        2048 kB\n"), 2 << 20);
        assert_eq!(memory(""), 0);
    }

    #[test]
    fn file_systems_count_once_and_missing_folders_count_as_their_parents() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let missing = folder.path().join("a/b");
        let found = disks(&[folder.path().to_owned(), missing]);
        assert_eq!(found.len(), 1);
        assert!(found[0].size >= found[0].free && found[0].size > 0);
    }

    #[tokio::test]
    async fn facts_of_this_machine_are_gathered_and_judged() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let places = ProbePaths {
            pin_dir: folder.path().join("pins"),
            runtime_endpoint: folder.path().join("none.sock").display().to_string(),
            disks: vec![folder.path().to_owned()],
        };
        let facts = gather(&places).await;
        assert!(facts.memory > 0 && !facts.kernel.is_empty());
        assert_eq!(facts.datapath, None);
        let findings = judge(&facts, MachineRole::Node);
        let runtime = findings
            .iter()
            .find(|it| it.check == "container runtime")
            .expect("a finding");
        assert_eq!(runtime.verdict, FindingLevel::Missing);
        assert!(runtime.found.contains("no such socket"), "{runtime:?}");
    }
}
