//! The pods' control groups: one per class of service, one per pod below it.
//!
//! The container runtime makes the leaves, and systemd the groups where it is the driver
//! ([`crate::slices`]). Works with version 1 (a tree per
//! controller), version 2 (one tree), and both mounted at once, where the
//! controllers are in version 1.

#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod slices;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use node_agent_cri::api::HugepageLimit;
use node_agent_kubelet_config::MemoryQos;
use node_agent_objects::error_chain;
use node_agent_objects::pod::{PodSpec, QosClass};
use node_agent_pod_resources::cgroup_names::unit;
use node_agent_pod_resources::qos::{CPU_PERIOD, PodLimits, class, cpu_shares, pod_request};

use crate::slices::{SliceLimits, SystemdSlices, whole_percents};

pub use node_agent_pod_resources::cgroup_names::{CgroupLayout, CgroupManager};

/// Why a control group cannot be configured.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its files.
    #[error(transparent)]
    Files(#[from] io::Error),
    /// Its unit.
    #[error(transparent)]
    Slice(#[from] slices::Error),
}

/// The limits of the group of all pods.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeLimits {
    /// Relative weight.
    pub cpu_shares: i64,
    /// Bytes; 0 where all is reserved, which limits nothing.
    pub memory: i64,
    /// Processes and threads; none where the kernel does not say how many there may be.
    pub tasks: Option<u64>,
    /// Huge pages of each size.
    pub huge: Vec<HugepageLimit>,
}

/// What pods of the classes ask for together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassSums {
    /// Thousandths of a CPU, of Burstable pods.
    pub burstable_cpu: i64,
    /// Bytes of memory to protect, of all but BestEffort pods and of Burstable
    /// ones alone; none without memory QoS.
    pub protected: Option<(i64, i64)>,
}

impl ClassSums {
    /// Of these pods. Pure.
    #[must_use]
    pub fn for_pods<'a>(pods: impl Iterator<Item = &'a PodSpec>, qos: Option<MemoryQos>) -> Self {
        let (mut cpu, mut all, mut burstable) = (0_i64, 0_i64, 0_i64);
        for spec in pods {
            let memory = pod_request(spec, "memory");
            match class(spec) {
                QosClass::Guaranteed => all = all.saturating_add(memory),
                QosClass::Burstable => {
                    cpu = cpu.saturating_add(pod_request(spec, "cpu"));
                    all = all.saturating_add(memory);
                    burstable = burstable.saturating_add(memory);
                }
                QosClass::BestEffort => {}
            }
        }
        let protected = qos.map(|q| if q.protects { (all, burstable) } else { (0, 0) });
        Self {
            burstable_cpu: cpu,
            protected,
        }
    }
}

/// The version of control groups that the kernel offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CgroupVersion {
    /// A tree for each controller.
    One,
    /// One tree.
    Two,
}

/// The control group hierarchies mounted on this machine.
#[derive(Clone, Debug)]
pub struct Cgroups {
    version: CgroupVersion,
    /// Mount points: of every controller, or the one of version 2.
    trees: Vec<PathBuf>,
    layout: CgroupLayout,
    /// Who makes them besides.
    slices: Option<SystemdSlices>,
}

impl Cgroups {
    /// Finds the trees below `mount`, usually `/sys/fs/cgroup`.
    ///
    /// # Errors
    /// When nothing is mounted there that could be read.
    pub fn find(mount: &Path, layout: CgroupLayout) -> io::Result<Self> {
        let slices = (layout.driver() == CgroupManager::Systemd).then(SystemdSlices::default);
        if mount.join("cgroup.controllers").exists() {
            return Ok(Self {
                version: CgroupVersion::Two,
                trees: vec![mount.to_owned()],
                layout,
                slices,
            });
        }
        let mut trees = Vec::new();
        for entry in fs::read_dir(mount)? {
            let entry = entry?;
            // `cpu` is a link to `cpu,cpuacct` on some machines
            if entry.file_type()?.is_dir() && entry.path().join("cgroup.procs").exists() {
                trees.push(entry.path());
            }
        }
        trees.sort();
        Ok(Self {
            version: CgroupVersion::One,
            trees,
            layout,
            slices,
        })
    }

    /// Has these slices made.
    #[cfg(any(test, feature = "fake"))]
    #[must_use]
    pub fn through(mut self, slices: SystemdSlices) -> Self {
        self.slices = Some(slices);
        self
    }

    /// Where the groups are.
    #[must_use]
    pub fn layout(&self) -> &CgroupLayout {
        &self.layout
    }

    /// Makes the groups of the classes.
    ///
    /// # Errors
    /// When a group cannot be made or configured.
    pub async fn prepare(&self) -> Result<(), Error> {
        self.make(self.layout.root()).await?;
        for class in [QosClass::Burstable, QosClass::BestEffort] {
            self.make(&self.layout.class(class)).await?;
        }
        let best_effort = self.layout.class(QosClass::BestEffort);
        let limits = SliceLimits {
            shares: Some(2),
            ..SliceLimits::default()
        };
        self.tell(&best_effort, limits).await?;
        Ok(self.set_shares(&best_effort, 2)?)
    }

    /// Gives the burstable class the weight of what its pods ask for, and, with
    /// memory QoS, all pods and that class the memory that is protected.
    ///
    /// # Errors
    /// When a group cannot be configured.
    pub async fn set_classes(&self, asked: ClassSums) -> Result<(), Error> {
        let burstable = self.layout.class(QosClass::Burstable);
        let shares = cpu_shares(asked.burstable_cpu);
        let limits = SliceLimits {
            shares: Some(shares),
            protected: asked.protected.map(|(_, bytes)| ("memory.low", bytes)),
            ..SliceLimits::default()
        };
        self.tell(&burstable, limits).await?;
        self.set_shares(&burstable, shares)?;
        if let (CgroupVersion::Two, Some((all, of_burstable))) = (self.version, asked.protected) {
            let limits = SliceLimits {
                protected: Some(("memory.min", all)),
                ..SliceLimits::default()
            };
            self.tell(self.layout.root(), limits).await?;
            self.write("", self.layout.root(), "memory.min", &all.to_string())?;
            self.write("", &burstable, "memory.low", &of_burstable.to_string())?;
        }
        Ok(())
    }

    /// Limits all pods together.
    ///
    /// # Errors
    /// When the group cannot be configured: they may use more than that now.
    pub async fn limit_node(&self, limits: &NodeLimits) -> Result<(), Error> {
        let group = self.layout.root();
        let memory = Some(limits.memory).filter(|bytes| *bytes > 0);
        let known = SliceLimits {
            shares: Some(limits.cpu_shares),
            memory: Some(memory),
            tasks: Some(limits.tasks),
            ..SliceLimits::default()
        };
        self.tell(group, known).await?;
        self.set_shares(group, limits.cpu_shares)?;
        self.set_huge(group, &limits.huge)?;
        self.write("pids", group, "pids.max", &or_max(limits.tasks))?;
        Ok(self.set_memory(group, memory)?)
    }

    /// Whether swap can be limited.
    #[must_use]
    pub fn limits_swap(&self) -> bool {
        let (group, file) = match self.version {
            CgroupVersion::One => ("/", "memory.memsw.limit_in_bytes"),
            CgroupVersion::Two => (self.layout.root(), "memory.swap.max"),
        };
        self.read("memory", group, file).is_some()
    }

    /// Makes a pod's group with its limits; idempotent.
    ///
    /// # Errors
    /// When the group cannot be made or configured.
    pub async fn make_pod(
        &self,
        class: QosClass,
        uid: &str,
        limits: PodLimits,
        pids: Option<i64>,
        beyond: &FixedLimits,
    ) -> Result<(), Error> {
        let group = self.layout.pod(class, uid);
        let limits = self.as_written(limits);
        self.make(&group).await?;
        let known = SliceLimits {
            shares: Some(limits.cpu_shares),
            quota: limits.cpu_quota.map(Some),
            memory: limits.memory.map(Some),
            tasks: pids.map(|most| u64::try_from(most).ok()),
            protected: beyond.protected,
        };
        self.tell(&group, known).await?;
        self.set_shares(&group, limits.cpu_shares)?;
        self.set_huge(&group, &beyond.huge)?;
        if let Some((file, bytes)) = beyond.protected {
            self.write("memory", &group, file, &bytes.to_string())?;
        }
        let quota = limits.cpu_quota;
        match self.version {
            CgroupVersion::One => {
                if let Some(quota) = quota {
                    self.write("cpu", &group, "cpu.cfs_period_us", &CPU_PERIOD.to_string())?;
                    self.write("cpu", &group, "cpu.cfs_quota_us", &quota.to_string())?;
                }
                if let Some(memory) = limits.memory {
                    self.write(
                        "memory",
                        &group,
                        "memory.limit_in_bytes",
                        &memory.to_string(),
                    )?;
                }
                if let Some(pids) = pids {
                    self.write("pids", &group, "pids.max", &pids.to_string())?;
                }
            }
            CgroupVersion::Two => {
                if let Some(quota) = quota {
                    self.write("", &group, "cpu.max", &format!("{quota} {CPU_PERIOD}"))?;
                }
                if let Some(memory) = limits.memory {
                    self.write("", &group, "memory.max", &memory.to_string())?;
                }
                if let Some(pids) = pids {
                    self.write("", &group, "pids.max", &pids.to_string())?;
                }
            }
        }
        Ok(())
    }

    /// Changes the limits of a pod's group; what is not limited any more is
    /// opened.
    ///
    /// # Errors
    /// When the group cannot be configured.
    pub async fn limit_pod(
        &self,
        class: QosClass,
        uid: &str,
        limits: PodLimits,
    ) -> Result<(), Error> {
        let group = self.layout.pod(class, uid);
        let limits = self.as_written(limits);
        let known = SliceLimits {
            shares: Some(limits.cpu_shares),
            quota: Some(limits.cpu_quota),
            memory: Some(limits.memory),
            ..SliceLimits::default()
        };
        self.tell(&group, known).await?;
        self.set_shares(&group, limits.cpu_shares)?;
        match self.version {
            CgroupVersion::One => {
                let quota = limits.cpu_quota.unwrap_or(-1).to_string();
                self.write("cpu", &group, "cpu.cfs_quota_us", &quota)?;
            }
            CgroupVersion::Two => {
                let quota = format!("{} {CPU_PERIOD}", or_max(limits.cpu_quota));
                self.write("", &group, "cpu.max", &quota)?;
            }
        }
        Ok(self.set_memory(&group, limits.memory)?)
    }

    /// Removes a pod's group from every tree, with what is empty below it.
    /// Whether it is gone everywhere.
    pub async fn remove_pod(&self, uid: &str) -> bool {
        let mut gone = true;
        for class in [
            QosClass::Guaranteed,
            QosClass::Burstable,
            QosClass::BestEffort,
        ] {
            let group = self.layout.pod(class, uid);
            let paths = self.trees.iter().map(|tree| below(tree, &group));
            let paths: Vec<PathBuf> = paths.filter(|path| path.is_dir()).collect();
            if paths.is_empty() {
                continue;
            }
            if let Some(slices) = &self.slices {
                // systemd would end what runs in it
                if paths.iter().any(|path| is_busy(path)) {
                    gone = false;
                    continue;
                }
                let (unit, _) = unit(&group);
                if let Err(error) = slices.remove(unit).await {
                    let error = error_chain(&error);
                    tracing::warn!(unit, error, "failed to remove the slice of a pod");
                    gone = false;
                    continue;
                }
            }
            for path in paths {
                gone &= remove(&path);
            }
        }
        gone
    }

    /// The uids of all pods that have a group.
    #[must_use]
    pub fn pods(&self) -> Vec<String> {
        let mut uids = Vec::new();
        for class in [
            QosClass::Guaranteed,
            QosClass::Burstable,
            QosClass::BestEffort,
        ] {
            for tree in &self.trees {
                let Ok(entries) = fs::read_dir(below(tree, &self.layout.class(class))) else {
                    continue;
                };
                uids.extend(entries.filter_map(|entry| {
                    let name = entry.ok()?.file_name().into_string().ok()?;
                    self.layout.uid(class, &name)
                }));
            }
        }
        uids.sort();
        uids.dedup();
        uids
    }

    /// Which version of control groups the machine has.
    #[must_use]
    pub fn version(&self) -> CgroupVersion {
        self.version
    }

    /// A file of a group; the controller is only looked at in version 1.
    #[must_use]
    pub fn read(&self, controller: &str, group: &str, file: &str) -> Option<String> {
        fs::read_to_string(below(&self.tree(controller)?, group).join(file)).ok()
    }

    /// The processes of a group.
    #[must_use]
    pub fn processes(&self, group: &str) -> Vec<u32> {
        let text = self.read("pids", group, "cgroup.procs").unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }

    /// Nanoseconds of CPU and bytes of memory that a group used. Opens three files.
    #[must_use]
    pub fn usage(&self, group: &str) -> CgroupUsage {
        let number = |controller, file| self.number(controller, group, file);
        let text = |controller, file| self.read(controller, group, file).unwrap_or_default();
        let stat = text("memory", "memory.stat");
        let (cpu, memory, inactive, rss) = match self.version {
            CgroupVersion::One => (
                number("cpuacct", "cpuacct.usage"),
                number("memory", "memory.usage_in_bytes"),
                field(&stat, "total_inactive_file"),
                field(&stat, "total_rss"),
            ),
            CgroupVersion::Two => (
                field(&text("", "cpu.stat"), "usage_usec").map(|us| us.saturating_mul(1000)),
                number("", "memory.current"),
                field(&stat, "inactive_file"),
                field(&stat, "anon"),
            ),
        };
        CgroupUsage {
            cpu_nanoseconds: cpu,
            memory,
            working_set: memory.map(|m| m.saturating_sub(inactive.unwrap_or(0))),
            rss,
        }
    }

    /// Processes and threads of a group.
    #[must_use]
    pub fn tasks(&self, group: &str) -> Option<u64> {
        self.number("pids", group, "pids.current")
    }

    fn number(&self, controller: &str, group: &str, file: &str) -> Option<u64> {
        self.read(controller, group, file)?.trim().parse().ok()
    }

    /// Has systemd keep the limits, too, where it makes the groups.
    async fn tell(&self, group: &str, limits: SliceLimits) -> Result<(), slices::Error> {
        let Some(slices) = &self.slices else {
            return Ok(());
        };
        let (unit, _) = unit(group);
        slices.set(unit, limits.properties(self.version)).await
    }

    /// The limits that both this and systemd write.
    fn as_written(&self, mut limits: PodLimits) -> PodLimits {
        if self.slices.is_some() {
            limits.cpu_quota = limits.cpu_quota.map(whole_percents);
        }
        limits
    }

    async fn make(&self, group: &str) -> Result<(), Error> {
        if let Some(slices) = &self.slices {
            slices.make(unit(group), self.version).await?;
        }
        Ok(self.make_folders(group)?)
    }

    fn make_folders(&self, group: &str) -> io::Result<()> {
        match self.version {
            // The runtime makes the groups of the other controllers, some of
            // which (cpuset) want to be filled from their parents first.
            CgroupVersion::One => {
                for controller in ["cpu", "memory", "pids", "hugetlb"] {
                    if let Some(tree) = self.tree(controller) {
                        create(&below(&tree, group))?;
                    }
                }
                Ok(())
            }
            CgroupVersion::Two => {
                let Some(tree) = self.trees.first() else {
                    return Ok(());
                };
                let mut path = tree.clone();
                for part in group.split('/').filter(|part| !part.is_empty()) {
                    for controller in ["cpu", "memory", "pids", "cpuset", "io", "hugetlb"] {
                        // what the parent lacks cannot be handed on
                        let _ = fs::write(
                            path.join("cgroup.subtree_control"),
                            format!("+{controller}"),
                        );
                    }
                    path.push(part);
                    create(&path)?;
                }
                Ok(())
            }
        }
    }

    fn set_shares(&self, group: &str, shares: i64) -> io::Result<()> {
        match self.version {
            CgroupVersion::One => self.write("cpu", group, "cpu.shares", &shares.to_string()),
            CgroupVersion::Two => self.write("", group, "cpu.weight", &weight(shares).to_string()),
        }
    }

    /// Limits a group's memory, or lets it have all.
    fn set_memory(&self, group: &str, bytes: Option<i64>) -> io::Result<()> {
        match self.version {
            CgroupVersion::One => {
                let limit = bytes.unwrap_or(-1).to_string();
                self.write("memory", group, "memory.limit_in_bytes", &limit)
            }
            CgroupVersion::Two => self.write("memory", group, "memory.max", &or_max(bytes)),
        }
    }

    fn set_huge(&self, group: &str, limits: &[HugepageLimit]) -> io::Result<()> {
        let file = match self.version {
            CgroupVersion::One => "limit_in_bytes",
            CgroupVersion::Two => "max",
        };
        for limit in limits {
            let file = format!("hugetlb.{}.{file}", limit.page_size);
            self.write("hugetlb", group, &file, &limit.limit.to_string())?;
        }
        Ok(())
    }

    /// Where a controller's tree is mounted; `None` when the kernel lacks it.
    fn tree(&self, controller: &str) -> Option<PathBuf> {
        match self.version {
            CgroupVersion::Two => self.trees.first().cloned(),
            CgroupVersion::One => self
                .trees
                .iter()
                .find(|tree| {
                    tree.file_name()
                        .and_then(|name| name.to_str())
                        .is_some_and(|name| name.split(',').any(|part| part == controller))
                })
                .cloned(),
        }
    }

    fn write(&self, controller: &str, group: &str, file: &str, value: &str) -> io::Result<()> {
        let Some(tree) = self.tree(controller) else {
            return Ok(());
        };
        let path = below(&tree, group).join(file);
        match fs::write(&path, value) {
            // a controller that the parent does not hand on has no such file
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            Err(error)
                if error.kind() == io::ErrorKind::PermissionDenied
                    && self.version == CgroupVersion::Two =>
            {
                Ok(())
            }
            other => other,
        }
    }
}

/// Settings of a pod's group beyond the limits that a resize may change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FixedLimits {
    /// Huge pages of each size.
    pub huge: Vec<HugepageLimit>,
    /// The file, and bytes of memory, that keep the kernel from reclaiming.
    pub protected: Option<(&'static str, i64)>,
}

/// Usage of a control group, so far and current.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CgroupUsage {
    /// Of all CPUs together.
    pub cpu_nanoseconds: Option<u64>,
    /// Bytes, with the page cache.
    pub memory: Option<u64>,
    /// Bytes that could not be given back at once.
    pub working_set: Option<u64>,
    /// Bytes that belong to no file.
    pub rss: Option<u64>,
}

/// A line `name number` of a file.
fn field(text: &str, name: &str) -> Option<u64> {
    text.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
}

/// Shares as version 2 counts them: as runc converts, 2..262144 onto 1..10000.
pub(crate) fn weight(shares: i64) -> i64 {
    1 + (shares - 2).max(0) * 9999 / 262_142
}

/// Whether anything runs in a group or below it.
fn is_busy(path: &Path) -> bool {
    fs::read_to_string(path.join("cgroup.procs")).is_ok_and(|text| !text.trim().is_empty())
        || fs::read_dir(path).is_ok_and(|entries| {
            entries
                .flatten()
                .any(|e| e.file_type().is_ok_and(|t| t.is_dir()) && is_busy(&e.path()))
        })
}

fn below(tree: &Path, group: &str) -> PathBuf {
    tree.join(group.trim_start_matches('/'))
}

/// A limit as version 2 writes it.
fn or_max(limit: Option<impl ToString>) -> String {
    limit.map_or_else(|| "max".to_owned(), |limit| limit.to_string())
}

fn create(path: &Path) -> io::Result<()> {
    match fs::create_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Control groups are removed by their directories alone, leaves first.
fn remove(path: &Path) -> bool {
    if let Ok(entries) = fs::read_dir(path) {
        for entry in entries.flatten() {
            if entry.file_type().is_ok_and(|t| t.is_dir()) {
                remove(&entry.path());
            }
        }
    }
    match fs::remove_dir(path) {
        Ok(()) => true,
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests;
