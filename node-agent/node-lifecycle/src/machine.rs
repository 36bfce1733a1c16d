//! What the machine has: read from the kernel, once.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use node_agent_kubelet_config::{Settings, Signal};
use node_agent_objects::quantity;
use node_agent_pod_resources::hugepages;
use serde_json::{Map, Value};

/// Capacity of the machine.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// Processors.
    pub cpus: u64,
    /// Bytes.
    pub memory: u64,
    /// Bytes of the file system that holds the agent's folder.
    pub disk: u64,
    /// Bytes of swap.
    pub swap: u64,
    /// Bytes of a page of memory.
    pub page: u64,
    /// Processes and threads that there may be at once; none where it is not told.
    pub tasks: Option<u64>,
    /// By bytes of a huge page: how many there are.
    pub hugepages: BTreeMap<u64, u64>,
    /// Kernel release.
    pub kernel: String,
    /// The distribution's name.
    pub os_image: String,
    /// `/etc/machine-id`.
    pub machine_id: String,
    /// Changes with every start of the machine.
    pub boot_id: String,
    /// The mainboard's, where there is one.
    pub system_uuid: String,
}

/// The resources that the node is short of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    /// Memory.
    pub memory: bool,
    /// Disk.
    pub disk: bool,
    /// Process ids.
    pub pids: bool,
}

/// What the node is short of, as the eviction guard last found it. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct CurrentPressure(Arc<Mutex<Pressure>>);

impl CurrentPressure {
    /// What the node is short of now.
    #[must_use]
    pub fn get(&self) -> Pressure {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what the node is short of.
    pub fn set(&self, pressure: Pressure) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = pressure;
    }
}

impl Machine {
    /// Reads what the machine has. What cannot be read is empty.
    #[must_use]
    pub fn read(root: &Path) -> Self {
        let text = |path: &str| {
            fs::read_to_string(path)
                .unwrap_or_default()
                .trim()
                .to_owned()
        };
        let os = text("/etc/os-release");
        let os_image = os
            .lines()
            .find_map(|line| line.strip_prefix("PRETTY_NAME="))
            .map_or("Linux", |name| name.trim_matches('"'))
            .to_owned();
        let boot_id = text("/proc/sys/kernel/random/boot_id");
        let mut machine_id = text("/etc/machine-id");
        if machine_id.is_empty() {
            machine_id = text("/var/lib/dbus/machine-id");
        }
        let mut system_uuid = text("/sys/class/dmi/id/product_uuid");
        if system_uuid.is_empty() {
            system_uuid.clone_from(&machine_id);
        }
        Self {
            cpus: std::thread::available_parallelism().map_or(1, |n| n.get() as u64),
            memory: meminfo(&text("/proc/meminfo"), "MemTotal").unwrap_or(0),
            disk: disk(root).map_or(0, |(total, _)| total),
            swap: meminfo(&text("/proc/meminfo"), "SwapTotal").unwrap_or(0),
            page: meminfo(&text("/proc/self/smaps"), "KernelPageSize").unwrap_or(4096),
            tasks: most_tasks(),
            hugepages: hugepages::pages(Path::new(hugepages::FOLDER)),
            kernel: text("/proc/sys/kernel/osrelease"),
            os_image,
            machine_id,
            boot_id,
            system_uuid,
        }
    }

    /// What the node has, as the API writes it.
    #[must_use]
    pub fn capacity(&self, pods: u32) -> Map<String, Value> {
        let mut map = Map::new();
        map.insert("cpu".into(), self.cpus.to_string().into());
        map.insert("memory".into(), format!("{}Ki", self.memory / 1024).into());
        map.insert(
            "ephemeral-storage".into(),
            format!("{}Ki", self.disk / 1024).into(),
        );
        map.insert("pods".into(), pods.to_string().into());
        for (size, pages) in &self.hugepages {
            let bytes = size.saturating_mul(*pages);
            map.insert(hugepages::resource(*size), bytes.to_string().into());
        }
        map
    }

    /// What pods may ask for together: all but what is reserved and what must
    /// stay free.
    #[must_use]
    pub fn allocatable(&self, pods: u32, settings: &Settings) -> Map<String, Value> {
        let mut map = self.capacity(pods);
        let hard = |signal, capacity| settings.eviction.hard(signal, capacity);
        let reserved = |name: &str| -> u64 {
            let text = settings.reserved.get(name);
            let whole = text.and_then(|t| quantity::whole(t));
            whole.and_then(|n| u64::try_from(n).ok()).unwrap_or(0)
        };
        let mut huge = 0_u64;
        for (size, pages) in &self.hugepages {
            let (name, bytes) = (hugepages::resource(*size), size.saturating_mul(*pages));
            huge = huge.saturating_add(bytes);
            let left = bytes.saturating_sub(reserved(&name));
            map.insert(name, left.to_string().into());
        }
        let memory = self
            .memory
            .saturating_sub(reserved("memory"))
            .saturating_sub(hard(Signal::Memory, self.memory))
            .saturating_sub(huge);
        map.insert("memory".into(), format!("{}Ki", memory / 1024).into());
        let disk = self
            .disk
            .saturating_sub(reserved("ephemeral-storage"))
            .saturating_sub(hard(Signal::Disk, self.disk));
        map.insert("ephemeral-storage".into(), disk.to_string().into());
        if let Some(cpu) = settings
            .reserved
            .get("cpu")
            .and_then(|t| quantity::milli(t))
        {
            let all = i64::try_from(self.cpus)
                .unwrap_or(i64::MAX)
                .saturating_mul(1000);
            let left = all.saturating_sub(cpu).max(0);
            map.insert("cpu".into(), format!("{left}m").into());
        }
        map
    }
}

/// How many processes and threads there may be at once: there must be ids for them, and
/// room.
pub(super) fn most_tasks() -> Option<u64> {
    ["pid_max", "threads-max"]
        .iter()
        .filter_map(|name| fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok())
        .filter_map(|text| text.trim().parse().ok())
        .min()
}

/// The processor's name as Go and Kubernetes write it.
#[must_use]
pub fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// Whether this process may lower OOM scores (`CAP_SYS_RESOURCE`, number 24).
#[must_use]
pub fn may_lower_oom_score() -> bool {
    fs::read_to_string("/proc/self/status")
        .ok()
        .and_then(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
            u64::from_str_radix(line.trim(), 16).ok()
        })
        .is_some_and(|set| set >> 24 & 1 == 1)
}

/// Bytes of a line of `/proc/meminfo`.
pub(super) fn meminfo(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let rest = line.strip_prefix(name)?.strip_prefix(':')?;
        let number: u64 = rest.split_whitespace().next()?.parse().ok()?;
        number.checked_mul(1024)
    })
}

/// Total and free bytes of the file system at `path`.
fn disk(path: &Path) -> Option<(u64, u64)> {
    let stat = rustix::fs::statvfs(path).ok()?;
    Some((
        stat.f_blocks.saturating_mul(stat.f_frsize),
        stat.f_bavail.saturating_mul(stat.f_frsize),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_has_something_of_everything() {
        let machine = Machine::read(Path::new("/"));
        assert!(machine.cpus > 0 && machine.memory > 1 << 20 && machine.disk > 0);
        assert!(machine.tasks.is_some_and(|most| most > 300));
        assert!(!machine.kernel.is_empty() && !machine.boot_id.is_empty());
        let capacity = machine.capacity(110);
        assert_eq!(capacity["pods"], "110");
        let mut settings = Settings::default();
        let free = machine.allocatable(110, &settings);
        assert!(free["memory"] != capacity["memory"] && free["cpu"] == capacity["cpu"]);
        settings.reserved.insert("cpu".into(), "100m".into());
        let milli = machine.cpus * 1000 - 100;
        assert_eq!(
            machine.allocatable(110, &settings)["cpu"],
            format!("{milli}m")
        );
    }

    #[test]
    fn memory_lines_are_read_in_bytes() {
        let text = "MemTotal:       16 kB\nMemAvailable:   8 kB\n";
        assert_eq!(meminfo(text, "MemTotal"), Some(16384));
        assert_eq!(meminfo(text, "Mem"), None);
    }
}
