//! Maps and programs in force at one cgroup.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use aya::maps::{HashMap, Map, MapData, MapError, MapInfo, MapType, PerCpuArray};
use ebpf_abi::policy::{
    EndpointKey, EndpointPolicy, PeerEntry, PolicyFlowEntry, PolicyRoot, PolicyVerdict,
    PortClasses, RuleName, VerdictKey,
};
use ebpf_abi::{
    Address, Affinity, AffinityKey, Backend, Bandwidth, BandwidthKey, ChecksummedValue, Config,
    Counter, FlowEntry, FlowLogKey, FlowPorts, FragmentKey, FragmentPorts, MaglevChunk, MaglevKey,
    MemberKey, NodeFlags, Original, OriginalKey, Prefix, Service, ServiceKey, SetName, SlotKey,
    Tuple, maps,
};
use node_agent_plan::{Action, Current, MapCapacity};
use rustix::fs::{FlockOperation, flock};

use crate::bandwidth;
use crate::capacity::Capacity;
use crate::configuration::Configuration;
use crate::devices::attach::{AttachSummary, DeviceLinks, TcWay};
use crate::devices::{self, Attachment, Device, DeviceHook, Patterns};
use crate::environment;
use crate::error::Error;
use crate::flow_log::LargerFlowLog;
use crate::flow_ports;
use crate::grace::wait_for_programs;
use crate::growth;
use crate::links::{self, Cost};
use crate::loader::{self, Source};
use crate::log::{self, Reader};
use crate::records::RecordingOptions;
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
    pub object: &'static [u8],
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

pub(crate) struct Counters(PerCpuArray<MapData, u64>);

/// The expected layout of a map.
struct Layout {
    name: &'static str,
    kind: MapType,
    key: usize,
    value: usize,
}

/// Links, below a version's directory.
pub(crate) const LINKS: &str = "links";
/// Below the links of the hooks of sockets.
pub(crate) const DEVICE_LINKS: &str = "devices";

/// How long to wait for another process to let go of the maps: one that was
/// told to end, or killed, takes a moment.
const LOCK_ATTEMPTS: u32 = 40;
const LOCK_PAUSE: Duration = Duration::from_millis(50);

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
        for layout in LAYOUTS {
            layout.check(&directory)?;
        }

        let mut capacity = options.capacity;
        let members = tables::needed_members(&directory)?;
        capacity.members = capacity.members.max(members);
        let outgrown = growth::outgrown(&directory, &capacity)?;
        let elsewhere: Vec<_> = outgrown
            .iter()
            .map(|name| (*name, growth::next(&directory, name)))
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

impl Counters {
    pub(crate) fn open(directory: &Path) -> Result<Self, Error> {
        Map::from_map_data(pinned(directory, maps::COUNTERS)?)
            .and_then(PerCpuArray::try_from)
            .map(Self)
            .map_err(unreadable(maps::COUNTERS))
    }

    /// What all processors counted.
    pub(crate) fn get(&self, counter: Counter) -> Result<u64, Error> {
        let values = self
            .0
            .get(&counter.index(), 0)
            .map_err(unreadable(maps::COUNTERS))?;
        let add = |sum: u64, value: &u64| sum.wrapping_add(*value);
        Ok(values.iter().fold(0, add))
    }
}

impl std::fmt::Debug for Counters {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Counters")
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
    for layout in LAYOUTS {
        layout.check(&directory)?;
    }
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

pub(crate) fn version_dir(pin_dir: &Path) -> PathBuf {
    pin_dir.join(format!("v{}", ebpf_abi::VERSION))
}

/// Directories of all versions.
pub(crate) fn versions(pin_dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| Error::File {
        verb: "read",
        path: pin_dir.to_owned(),
        source,
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(pin_dir).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let number = name
            .to_str()
            .and_then(|name| name.strip_prefix('v'))
            .map(str::parse::<u32>);
        if matches!(number, Some(Ok(_))) {
            found.push(entry.path());
        }
    }
    Ok(found)
}

fn remove_other_versions(pin_dir: &Path, ours: &Path) -> Result<(), Error> {
    for version in versions(pin_dir)?.iter().filter(|version| *version != ours) {
        tracing::info!(directory = %version.display(), "removing the datapath of another version");
        // First those that translate: whom they sent to a backend since ours
        // are attached, ours must know too.
        let links = version.join(LINKS);
        for pinned in links
            .exists()
            .then(|| files(&links))
            .transpose()?
            .iter()
            .flatten()
        {
            let name = pinned.file_name().and_then(|name| name.to_str());
            if name.is_some_and(|name| name.starts_with("connect") || name.starts_with("sendmsg")) {
                links::remove(pinned)?;
            }
        }
        growth::carry_sockets(version, ours)?;
        remove_version(version)?;
    }
    Ok(())
}

/// Links go first: once they are gone, nobody reads the maps.
pub(crate) fn remove_version(directory: &Path) -> Result<(), Error> {
    let links = directory.join(LINKS);
    if links.exists() {
        devices::attach::remove(&links.join(DEVICE_LINKS))?;
        for pinned in files(&links)? {
            links::remove(&pinned)?;
        }
        remove_dir(&links)?;
    }
    for path in files(directory)? {
        fs::remove_file(&path).map_err(|source| Error::File {
            verb: "remove",
            path,
            source,
        })?;
    }
    remove_dir(directory)
}

pub(crate) fn files(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |source| Error::File {
        verb: "read",
        path: directory.to_owned(),
        source,
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if !path.is_dir() {
            found.push(path);
        }
    }
    Ok(found)
}

pub(crate) fn remove_dir(path: &Path) -> Result<(), Error> {
    fs::remove_dir(path).map_err(|source| Error::File {
        verb: "remove",
        path: path.to_owned(),
        source,
    })
}

pub(crate) fn lock(pin_dir: &Path) -> Result<File, Error> {
    for _ in 0..LOCK_ATTEMPTS {
        if let Some(directory) = try_lock(pin_dir)? {
            return Ok(directory);
        }
        sleep(LOCK_PAUSE);
    }
    Err(Error::Busy {
        path: pin_dir.to_owned(),
    })
}

/// Whether a process works with what is pinned there, at this moment.
pub(crate) fn is_locked(pin_dir: &Path) -> Result<bool, Error> {
    Ok(try_lock(pin_dir)?.is_none())
}

fn try_lock(pin_dir: &Path) -> Result<Option<File>, Error> {
    let failed = |source| Error::File {
        verb: "open",
        path: pin_dir.to_owned(),
        source,
    };
    let directory = File::open(pin_dir).map_err(failed)?;
    match flock(&directory, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(Some(directory)),
        Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
        Err(errno) => Err(failed(errno.into())),
    }
}

// === impl Layout ===

const LAYOUTS: &[Layout] = &[
    Layout::of::<ServiceKey, ChecksummedValue<Service>>(maps::SERVICES, MapType::Hash),
    Layout::of::<SlotKey, ChecksummedValue<Backend>>(maps::SLOTS, MapType::Hash),
    Layout::of::<MemberKey, u32>(maps::MEMBERS, MapType::Hash),
    Layout::of::<MaglevKey, ChecksummedValue<MaglevChunk>>(maps::MAGLEV, MapType::Hash),
    Layout::of::<Prefix, u32>(maps::SOURCES, MapType::LpmTrie),
    Layout::of::<Address, NodeFlags>(maps::NODES, MapType::Hash),
    Layout::of::<Prefix, u32>(maps::INSIDE, MapType::LpmTrie),
    Layout::of::<u32, u64>(maps::SERVED, MapType::Array),
    Layout::of::<Prefix, u32>(maps::EGRESS, MapType::LpmTrie),
    Layout::of::<u32, SetName>(maps::NAMES, MapType::Hash),
    Layout::of::<OriginalKey, ChecksummedValue<Original>>(maps::ORIGINALS, MapType::LruHash),
    Layout::of::<u32, ChecksummedValue<Original>>(maps::STREAM_ORIGINALS, MapType::Array),
    Layout::of::<AffinityKey, ChecksummedValue<Affinity>>(maps::AFFINITY, MapType::LruHash),
    Layout::of::<u32, ChecksummedValue<Config>>(maps::CONFIG, MapType::Array),
    Layout::of::<u32, ChecksummedValue<Config>>(maps::CONFIG_AHEAD, MapType::Array),
    Layout::of::<Tuple, FlowEntry>(maps::FLOWS, MapType::Hash),
    Layout::of::<u32, FlowPorts>(maps::FLOW_PORTS, MapType::Array),
    Layout::of::<(), FlowLogKey>(maps::FLOW_LOG, MapType::Queue),
    Layout::of::<FragmentKey, ChecksummedValue<FragmentPorts>>(maps::FRAGMENTS, MapType::LruHash),
    Layout::of::<u32, u64>(maps::COUNTERS, MapType::PerCpuArray),
    Layout::of::<u32, PolicyRoot>(maps::POLICY_ROOT, MapType::Array),
    Layout::of::<Prefix, PeerEntry>(maps::PEERS, MapType::LpmTrie),
    Layout::of::<EndpointKey, ChecksummedValue<EndpointPolicy>>(maps::ENDPOINTS, MapType::Hash),
    Layout::of::<u32, PortClasses>(maps::PORTS, MapType::Array),
    Layout::of::<VerdictKey, ChecksummedValue<PolicyVerdict>>(maps::VERDICTS, MapType::Hash),
    Layout::of::<u32, RuleName>(maps::RULES, MapType::Hash),
    Layout::of::<Tuple, PolicyFlowEntry>(maps::POLICY_FLOWS, MapType::LruHash),
    Layout::of::<BandwidthKey, Bandwidth>(maps::BANDWIDTH, MapType::Hash),
    Layout::of::<(), ()>(maps::LOGS, MapType::RingBuf),
    Layout::of::<(), ()>(maps::FLOW_RECORDS, MapType::RingBuf),
];

impl Layout {
    const fn of<K, V>(name: &'static str, kind: MapType) -> Self {
        Self {
            name,
            kind,
            key: size_of::<K>(),
            value: size_of::<V>(),
        }
    }

    /// Compares a pinned map, if there is one: aya would adopt any.
    fn check(&self, directory: &Path) -> Result<(), Error> {
        let path = directory.join(self.name);
        if !path.exists() {
            return Ok(());
        }
        let info = MapInfo::from_pin(&path).map_err(unreadable(self.name))?;
        let (kind, key, value) = (
            info.map_type().ok(),
            info.key_size() as usize,
            info.value_size() as usize,
        );
        if (kind, key, value) == (Some(self.kind), self.key, self.value) {
            return Ok(());
        }
        let describe = |kind: Option<MapType>, key, value| match kind {
            Some(kind) => format!("{kind:?} of {key} to {value} bytes"),
            None => format!("unknown kind of {key} to {value} bytes"),
        };
        Err(Error::Layout {
            path,
            found: describe(kind, key, value),
            expected: describe(Some(self.kind), self.key, self.value),
        })
    }
}

/// Do the maps that are pinned there look like ours?
pub(crate) fn have_our_layout(directory: &Path) -> bool {
    let carries_nothing = [maps::COUNTERS, maps::LOGS, maps::FLOW_RECORDS];
    LAYOUTS
        .iter()
        .filter(|layout| !carries_nothing.contains(&layout.name))
        .all(|layout| layout.check(directory).is_ok())
}

pub(crate) fn pinned(directory: &Path, name: &'static str) -> Result<MapData, Error> {
    let path = directory.join(name);
    if !path.exists() {
        return Err(Error::NotPinned { path });
    }
    MapData::from_pin(path).map_err(unreadable(name))
}

pub(crate) type OpenedDatapath<K, V> = (HashMap<MapData, K, V>, u32);

pub(crate) fn open<K: aya::Pod, V: aya::Pod>(
    directory: &Path,
    name: &'static str,
) -> Result<OpenedDatapath<K, V>, Error> {
    let data = pinned(directory, name)?;
    let size = data.info().map_err(unreadable(name))?.max_entries();
    let map = Map::from_map_data(data)
        .and_then(HashMap::try_from)
        .map_err(unreadable(name))?;
    Ok((map, size))
}

pub(crate) fn unreadable(map: &'static str) -> impl Fn(MapError) -> Error + Copy {
    move |source| Error::Map {
        verb: "read",
        map,
        source: Box::new(source),
    }
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
