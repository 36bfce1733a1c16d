//! Maps and programs in force at one cgroup.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use ebpf_abi::{Config, Counter, maps};
use node_agent_plan::{Action, Current, MapCapacity};

use crate::bandwidth;
use crate::capacity::Capacity;
use crate::configuration::Configuration;
use crate::counters::Counters;
use crate::devices::attach::{AttachSummary, DeviceLinks, TcWay};
use crate::devices::{self, Attachment, Device, DeviceHook, Patterns};
use crate::environment;
use crate::error::Error;
use crate::flow_log::LargerFlowLog;
use crate::flow_ports;
use crate::grace::wait_for_programs;
use crate::growth;
use crate::layout;
use crate::links::{self, Cost};
use crate::loader::{self, Source};
use crate::log::{self, Reader};
use crate::object::Object;
use crate::pins::{self, DEVICE_LINKS, LINKS, lock, version_dir, versions};
use crate::records::RecordingOptions;
use crate::removal::remove_other_versions;
use crate::retirement::Retirement;
use crate::snapshot::Snapshot;
use crate::sys;
use crate::tables::{self, Tables};

/// What to load and where to attach it.
#[derive(Clone, Debug)]
pub struct Options {
    /// The cgroup v2 directory whose processes see services.
    pub cgroup: PathBuf,
    /// Where to pin; on a BPF filesystem. Created if missing.
    pub pin_dir: PathBuf,
    /// The BPF object: [`embedded_object!`](crate::embedded_object).
    pub object: Object,
    /// How large new maps are; adopted ones keep their size.
    pub capacity: Capacity,
    /// How programs are attached to devices.
    pub tc: TcWay,
    /// Of which verdicts programs tell one by one.
    pub recording: RecordingOptions,
}

/// The maps and programs of a node.
///
/// Dropping it changes nothing: what is pinned stays in force.
#[derive(Debug)]
pub struct Datapath {
    tables: Tables,
    counters: Counters,
    costs: Vec<Cost>,
    /// Programs at devices; none where maps are only looked at.
    devices: Option<DeviceLinks>,
    config: Configuration,
    /// Where another version's maps and links may be, which go once our
    /// programs are at the devices too.
    former: Option<PathBuf>,
    directory: PathBuf,
    _log: Option<Reader>,
    /// Held while this value lives.
    _lock: Option<File>,
}

// === impl Datapath ===

impl Datapath {
    /// Brings the programs into force. Maps and links that an earlier process
    /// pinned are adopted; services that they hold keep working throughout.
    ///
    /// # Errors
    ///
    /// Before anything is changed: [`Error::NotRoot`], [`Error::KernelTooOld`],
    /// [`Error::NoCgroup2`], [`Error::NoBpffs`], [`Error::Busy`],
    /// [`Error::Layout`]. Afterwards: what the kernel refuses.
    pub fn open(options: &Options) -> Result<Self, Error> {
        environment::check(&options.cgroup, &options.pin_dir)?;
        let links = version_dir(&options.pin_dir).join(LINKS);
        fs::create_dir_all(&links).map_err(|source| Error::File {
            verb: "create",
            path: links.clone(),
            source,
        })?;
        Self::open_locked(options, lock(&options.pin_dir)?)
    }

    /// Gives the maps another, larger size, while all goes on.
    ///
    /// # Errors
    ///
    /// Those of [`open`](Self::open); what was in force still is, in maps of
    /// the former size.
    pub fn grow(&mut self, options: &Options) -> Result<(), Error> {
        let Some(lock) = &self._lock else {
            let path = options.pin_dir.clone();
            return Err(Error::NotPinned { path });
        };
        // The lock belongs to the open file, which both then hold.
        let lock = lock.try_clone().map_err(|source| Error::File {
            verb: "lock",
            path: options.pin_dir.clone(),
            source,
        })?;
        let former = self.former.take();
        // One reader of the programs' messages at a time.
        self._log = None;
        let mut grown = Self::open_locked(options, lock)?;
        grown.former = grown.former.or(former);
        *self = grown;
        Ok(())
    }

    fn open_locked(options: &Options, lock: File) -> Result<Self, Error> {
        let directory = version_dir(&options.pin_dir);
        let links = directory.join(LINKS);
        layout::check(&directory)?;

        let mut capacity = options.capacity;
        let members = tables::needed_members(&directory)?;
        capacity.members = capacity.members.max(members);
        let outgrown = growth::outgrown(&directory, &capacity)?;
        let elsewhere: Vec<_> = outgrown
            .iter()
            .map(|name| (*name, pins::next(&directory, name)))
            .collect();
        let level = log::level();
        let source = Source {
            object: options.object,
            capacity,
            level,
            recording: options.recording,
            directory: directory.clone(),
        };
        let new = flow_ports::is_new(&directory);
        let mut ebpf = source.load(&elsewhere)?;
        growth::fill(&directory, &outgrown)?;
        let flow_log = outgrown
            .contains(&maps::FLOW_LOG)
            .then(|| LargerFlowLog::fill(&directory))
            .transpose()?;
        let former = versions(&options.pin_dir)?;
        for version in former.iter().filter(|version| **version != directory) {
            growth::carry_over(version, &directory)?;
        }
        tables::serve_what_stands(&directory)?;
        let members = elsewhere
            .iter()
            .find(|(name, _)| *name == maps::MEMBERS)
            .map_or_else(|| directory.join(maps::MEMBERS), |(_, path)| path.clone());
        tables::add_missing_members(&directory, &members)?;
        flow_ports::prepare(&directory, new)?;
        // What is at devices already is replaced with the rest; what is not
        // there yet is loaded when a device needs it.
        let device_links = links.join(DEVICE_LINKS);
        let pinned = DeviceLinks::pinned(&device_links)?;
        let names: Vec<_> = pinned
            .iter()
            .map(|hook| hook.program())
            .chain(links::programs())
            .collect();
        loader::verify(&mut ebpf, &names)?;
        let mut costs = links::costs(&mut ebpf)?;
        let (mut devices, more) =
            DeviceLinks::summarize(&mut ebpf, &pinned, source, &device_links, options.tc)?;
        costs.extend(more);
        links::attach(&mut ebpf, &options.cgroup, &links)?;
        devices.adopt()?;
        if let Some(flow_log) = flow_log {
            wait_for_programs()?;
            flow_log.carry_over(&directory)?;
        }
        growth::take_place(&directory, &outgrown)?;

        let mut datapath = Self::of_pinned(&directory, Some(lock))?;
        datapath.costs = costs;
        datapath.devices = Some(devices);
        if versions(&options.pin_dir)?
            .iter()
            .any(|version| *version != directory && version.join(LINKS).join(DEVICE_LINKS).exists())
        {
            datapath.former = Some(options.pin_dir.clone());
        } else {
            remove_other_versions(&options.pin_dir, &directory)?;
        }
        if level > 0 {
            datapath._log = Some(Reader::start(&mut ebpf, &directory)?);
        }
        Ok(datapath)
    }

    /// Writes actions in order. Each is idempotent; after an error the maps
    /// hold a prefix of them, which is sound.
    ///
    /// # Errors
    ///
    /// [`Error::Full`] or [`Error::Map`].
    pub fn apply(&mut self, actions: &[Action]) -> Result<(), Error> {
        self.tables.apply(actions)
    }

    /// Reads what the maps hold.
    ///
    /// # Errors
    ///
    /// [`Error::Map`].
    pub fn dump(&self) -> Result<Current, Error> {
        self.tables.dump()
    }

    /// As [`dump`](Self::dump), and removes entries that no reader accepts.
    ///
    /// # Errors
    ///
    /// [`Error::Map`].
    pub fn dump_and_sweep(&self) -> Result<Current, Error> {
        self.tables.dump_and_sweep()
    }

    /// How many entries the maps take.
    #[must_use]
    pub fn room(&self) -> MapCapacity {
        self.tables.room()
    }

    /// How many entries the maps of policy take; the others as `capacity` says.
    pub(crate) fn policy_capacity(&self, capacity: &Capacity) -> Result<Capacity, Error> {
        growth::of_policy(&self.directory, capacity)
    }

    /// What the programs counted since the maps were made.
    ///
    /// # Errors
    ///
    /// [`Error::Map`].
    pub fn counters(&self) -> Result<Vec<(Counter, u64)>, Error> {
        let sum = |counter: &Counter| Ok((*counter, self.counters.get(*counter)?));
        Counter::ALL.iter().map(sum).collect()
    }

    /// Has the kernel verify the programs for these hooks of devices, which is
    /// otherwise done when a device first needs them.
    ///
    /// # Errors
    ///
    /// What the kernel refuses.
    pub fn load(&mut self, hooks: &[DeviceHook]) -> Result<(), Error> {
        if let Some(devices) = &mut self.devices {
            let costs = devices.load(&hooks.iter().copied().collect())?;
            self.costs.extend(costs);
        }
        Ok(())
    }

    /// What the programs cost, as the kernel says; empty if they were not
    /// loaded by this value.
    #[must_use]
    pub fn costs(&self) -> &[Cost] {
        &self.costs
    }

    /// Tells the packet programs of the node; until the first time, they pass
    /// all packets on. The host's network namespace is that of the caller. A
    /// seed of zero stands for the one that is in force, or, the first time, for
    /// one that nobody can foresee: it is kept as long as the maps are, and with
    /// it the ports and backends that new connections get. What the programs
    /// know already is not written again. Each packet meets the former or this
    /// configuration, whole.
    ///
    /// # Errors
    ///
    /// [`Error::Map`]; [`Error::Namespace`]; [`Error::Wait`].
    pub fn configure(&mut self, config: &Config) -> Result<(), Error> {
        let former = self.configuration()?;
        let seed = match (config.seed, &former) {
            (0, Some(former)) if former.seed != 0 => former.seed,
            (0, _) => random_seed(),
            (given, _) => given,
        };
        let config = Config {
            seed,
            host_namespace: sys::namespace_cookie()
                .map_err(|source| Error::Namespace { source })?,
            ..*config
        };
        if former == Some(config) {
            return Ok(());
        }
        self.config.set(config)
    }

    /// What the packet programs know of the node; `None` if nothing yet.
    ///
    /// # Errors
    ///
    /// [`Error::Map`].
    pub fn configuration(&self) -> Result<Option<Config>, Error> {
        self.config.get()
    }

    /// Brings the programs into force at those of the namespace's `devices`
    /// that the patterns choose, or whose pods have a bandwidth
    /// ([`Bandwidths`](crate::Bandwidths)), and out of force at the others. A device that
    /// refuses its program is named in the log, and tried again at the next
    /// call.
    ///
    /// # Errors
    ///
    /// [`Error::Load`] or [`Error::Program`] when the kernel refuses a program
    /// that was not needed before; [`Error::File`] or [`Error::Link`] when pins
    /// cannot be read or written.
    pub fn follow_devices(
        &mut self,
        devices: &[Device],
        patterns: &Patterns,
    ) -> Result<AttachSummary, Error> {
        let Some(links) = &mut self.devices else {
            return Ok(AttachSummary::default());
        };
        let there = devices.iter().map(|device| device.index).collect();
        let limited = bandwidth::limited(&self.directory, &there)?;
        let wanted = devices::desired(devices, patterns, &limited);
        let costs = links.load(&wanted.iter().map(|at| at.hook).collect())?;
        self.costs.extend(costs);
        let followed = links.follow(devices, &wanted, patterns.xdp)?;
        if let Some(pin_dir) = self.former.take() {
            remove_other_versions(&pin_dir, &self.directory)?;
        }
        Ok(followed)
    }

    /// At which hooks of devices programs run, as far as
    /// [`follow_devices`](Self::follow_devices) knows.
    #[must_use]
    pub fn attachments(&self) -> Vec<Attachment> {
        let links = self.devices.iter();
        links.flat_map(DeviceLinks::attached).collect()
    }

    /// Both, for people.
    ///
    /// # Errors
    ///
    /// [`Error::Map`].
    pub fn snapshot(&self) -> Result<Snapshot, Error> {
        Ok(Snapshot {
            maps: self.dump()?,
            counters: self.counters()?,
        })
    }

    fn of_pinned(directory: &Path, lock: Option<File>) -> Result<Self, Error> {
        let tables = Tables::open(directory)?;
        Ok(Self {
            tables,
            counters: Counters::open(directory)?,
            costs: Vec::new(),
            devices: None,
            config: Configuration::open(directory)?,
            former: None,
            directory: directory.to_owned(),
            _log: None,
            _lock: lock,
        })
    }
}

/// Reads what is pinned, beside the process that works with it.
///
/// # Errors
///
/// [`Error::NotPinned`], [`Error::Layout`] or [`Error::Map`].
pub fn inspect(pin_dir: &Path) -> Result<Snapshot, Error> {
    let directory = version_dir(pin_dir);
    if !directory.is_dir() {
        return Err(Error::NotPinned {
            path: pin_dir.to_owned(),
        });
    }
    layout::check(&directory)?;
    Datapath::of_pinned(&directory, None)?.snapshot()
}

/// Checks that no process works with what is pinned there.
///
/// # Errors
///
/// [`Error::Busy`] while one does; [`Error::File`].
pub fn ensure_unused(pin_dir: &Path) -> Result<(), Error> {
    if !pin_dir.exists() {
        return Ok(());
    }
    lock(pin_dir).map(drop)
}

/// Takes everything out of force that is pinned there, of whatever version;
/// nothing is left. It is fine if nothing was there.
///
/// # Errors
///
/// [`Error::Busy`] while a process works with it; [`Error::File`].
pub fn remove(pin_dir: &Path) -> Result<(), Error> {
    match Retirement::begin(pin_dir)? {
        Some(retirement) => retirement.finish(),
        None => Ok(()),
    }
}

/// Any number but zero. The hasher's keys are the system's random numbers.
fn random_seed() -> u32 {
    use std::hash::{BuildHasher, RandomState};
    let drawn = RandomState::new().hash_one(std::process::id());
    ((drawn >> 32) as u32).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_that_a_process_works_with_are_in_use() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let pins = folder.path().join("pins");
        assert!(ensure_unused(&pins).is_ok(), "none");
        fs::create_dir(&pins).expect("made");
        let held = lock(&pins).expect("locked");
        assert!(matches!(ensure_unused(&pins), Err(Error::Busy { .. })));
        drop(held);
        assert!(ensure_unused(&pins).is_ok());
    }

    #[test]
    fn seeds_differ_and_are_never_zero() {
        let seeds: std::collections::BTreeSet<_> = (0..8).map(|_| random_seed()).collect();
        assert!(!seeds.contains(&0) && seeds.len() > 1, "{seeds:?}");
    }
}
