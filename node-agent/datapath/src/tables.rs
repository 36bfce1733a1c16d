//! The maps that the plan writes, and its actions upon them.

use std::collections::BTreeMap;
use std::hash::Hash;
use std::path::Path;

use ebpf_abi::{
    Address, Backend, ChecksummedValue, MaglevChunk, MaglevKey, MemberKey, NodeFlags, Plain, Port,
    Prefix, Protocol, ServedPlace, Service, ServiceEntryKinds, ServiceKey, SetName, SlotKey, maps,
};
use ipnet::IpNet;
use node_agent_plan::{Action, Current, MapCapacity};
use rustc_hash::FxHashMap;

use crate::error::Error;
use crate::table::{Table, each, in_runs};

/// The maps that the plan writes.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) services: Table<ServiceKey, ChecksummedValue<Service>>,
    pub(crate) slots: Table<SlotKey, ChecksummedValue<Backend>>,
    members: Table<MemberKey, u32>,
    chunks: Table<MaglevKey, ChecksummedValue<MaglevChunk>>,
    sources: Table<Prefix, u32>,
    nodes: Table<Address, NodeFlags>,
    inside: Table<Prefix, u32>,
    served: Table<u32, u64>,
    pub(crate) names: Table<u32, SetName>,
}

// === impl Tables ===

impl Tables {
    pub(crate) fn open(directory: &Path) -> Result<Self, Error> {
        Ok(Self {
            services: Table::open(directory, maps::SERVICES)?,
            slots: Table::open(directory, maps::SLOTS)?,
            members: Table::open(directory, maps::MEMBERS)?,
            chunks: Table::open(directory, maps::MAGLEV)?,
            sources: Table::open(directory, maps::SOURCES)?,
            nodes: Table::open(directory, maps::NODES)?,
            inside: Table::open(directory, maps::INSIDE)?,
            served: Table::open(directory, maps::SERVED)?,
            names: Table::open(directory, maps::NAMES)?,
        })
    }

    /// Actions of one kind that follow each other are written together.
    pub(crate) fn apply(&self, actions: &[Action]) -> Result<(), Error> {
        in_runs(actions, |run| self.apply_run(run))
    }

    fn apply_run(&self, run: &[Action]) -> Result<(), Error> {
        match run.first() {
            None => Ok(()),
            // After a restart a set without a name is written anew, under another
            // number.
            Some(Action::PutName(..)) => self
                .names
                .write_names(each!(run, Action::PutName(set, name) => (*set, SetName::new(name)))),
            Some(Action::PutSlot(..)) => self.slots.write(
                each!(run, Action::PutSlot(key, it) => (*key, ChecksummedValue::new(key, *it))),
            ),
            Some(Action::PutMember(..)) => self
                .members
                .write(each!(run, Action::PutMember(key, slot) => (*key, *slot))),
            Some(Action::PutChunk(..)) => self.chunks.write(
                each!(run, Action::PutChunk(key, it) => (*key, ChecksummedValue::new(key, **it))),
            ),
            Some(Action::PutSource(..)) => self
                .sources
                .write(each!(run, Action::PutSource(set, range) => (prefix(*set, range), 1))),
            Some(Action::PutNode(..)) => self
                .nodes
                .write(each!(run, Action::PutNode(address, flags) => (*address, *flags))),
            Some(Action::PutInside(..)) => self
                .inside
                .write(each!(run, Action::PutInside(range) => (prefix(0, range), 1))),
            Some(Action::PutServed(..)) => put_served(
                &self.served,
                each!(run, Action::PutServed(protocol, port, it) => (*protocol, *port, *it)),
            ),
            Some(Action::PutService(..)) => self.services.write(
                each!(run, Action::PutService(key, it) => (*key, ChecksummedValue::new(key, *it))),
            ),
            Some(Action::DeleteService(_)) => self
                .services
                .delete(each!(run, Action::DeleteService(key) => *key)),
            Some(Action::DeleteSlot(_)) => self
                .slots
                .delete(each!(run, Action::DeleteSlot(key) => *key)),
            Some(Action::DeleteMember(_)) => self
                .members
                .delete(each!(run, Action::DeleteMember(key) => *key)),
            Some(Action::DeleteChunk(_)) => self
                .chunks
                .delete(each!(run, Action::DeleteChunk(key) => *key)),
            Some(Action::DeleteSource(..)) => self
                .sources
                .delete(each!(run, Action::DeleteSource(set, range) => prefix(*set, range))),
            Some(Action::DeleteNode(_)) => self
                .nodes
                .delete(each!(run, Action::DeleteNode(address) => *address)),
            Some(Action::DeleteInside(_)) => self
                .inside
                .delete(each!(run, Action::DeleteInside(range) => prefix(0, range))),
            Some(Action::DeleteName(_)) => self
                .names
                .delete(each!(run, Action::DeleteName(set) => *set)),
        }
    }

    pub(crate) fn dump(&self) -> Result<Current, Error> {
        Ok(self.read(false)?.0)
    }

    /// As [`dump`](Self::dump), and removes entries that are broken: no reader
    /// accepts them, and the plan, to which they are invisible, would never
    /// remove them.
    pub(crate) fn dump_and_sweep(&self) -> Result<Current, Error> {
        let (current, swept) = self.read(true)?;
        if swept > 0 {
            tracing::warn!(swept, "removed invalid entries");
        }
        Ok(current)
    }

    fn read(&self, sweep: bool) -> Result<(Current, usize), Error> {
        let mut current = Current::default();
        let broken = opened(&self.services, &mut current.services, sweep)?
            + opened(&self.slots, &mut current.slots, sweep)?
            + opened(&self.chunks, &mut current.chunks, sweep)?;
        current.members.extend(self.members.entries()?);
        let sources = self.sources.entries()?;
        current.sources.extend(
            sources
                .iter()
                .filter_map(|(key, _)| Some((key.range.number, range(key)?))),
        );
        current.nodes.extend(self.nodes.entries()?);
        let inside = self.inside.entries()?;
        current
            .inside
            .extend(inside.iter().filter_map(|(key, _)| range(key)));
        for (word, content) in self.served.entries()? {
            let all = ServedPlace::all(word, content);
            current
                .served
                .extend(all.map(|(protocol, port, served)| ((protocol, port), served)));
        }
        for (set, name) in self.names.entries()? {
            current.names.insert(set, name.as_str().into());
        }
        Ok((current, broken))
    }

    pub(crate) fn room(&self) -> MapCapacity {
        MapCapacity {
            services: self.services.capacity() as usize,
            slots: self.slots.capacity() as usize,
            members: self.members.capacity() as usize,
            chunks: self.chunks.capacity() as usize,
            sources: self.sources.capacity() as usize,
        }
    }
}

/// Says of each port what is to be said of it. The words are only written here,
/// by one process.
fn put_served(
    table: &Table<u32, u64>,
    ports: &[(Protocol, Port, ServiceEntryKinds)],
) -> Result<(), Error> {
    let mut words: BTreeMap<u32, u64> = BTreeMap::new();
    for (protocol, port, served) in ports {
        let Some(place) = ServiceEntryKinds::place(*protocol, *port) else {
            continue;
        };
        let former = match words.get(&place.word) {
            Some(word) => *word,
            None => table.get(&place.word)?.unwrap_or_default(),
        };
        words.insert(place.word, place.write(former, *served));
    }
    let words: Vec<_> = words.into_iter().collect();
    table.write(&words)
}

/// Says of the entries that are there under which ports they stand: programs of
/// a former build did not ask, and those that are about to run must find them.
pub(crate) fn serve_what_stands(directory: &Path) -> Result<(), Error> {
    let services: Table<ServiceKey, ChecksummedValue<Service>> =
        Table::open(directory, maps::SERVICES)?;
    let mut found: BTreeMap<(Protocol, Port), ServiceEntryKinds> = BTreeMap::new();
    for (key, _) in services.entries()? {
        let served = found
            .entry((key.protocol, key.port))
            .or_insert(ServiceEntryKinds::NONE);
        *served = served.with(ServiceEntryKinds::from_key(&key));
    }
    let found: Vec<_> = found
        .into_iter()
        .map(|((protocol, port), served)| (protocol, port, served))
        .collect();
    put_served(&Table::open(directory, maps::SERVED)?, &found)
}

/// Returns how many entries `MEMBERS` has once those that are missing are added.
pub(crate) fn needed_members(directory: &Path) -> Result<u32, Error> {
    let is_pinned = |name: &str| directory.join(name).exists();
    if ![maps::SERVICES, maps::SLOTS, maps::MEMBERS]
        .into_iter()
        .all(is_pinned)
    {
        return Ok(0);
    }
    let members: Table<MemberKey, u32> = Table::open(directory, maps::MEMBERS)?;
    let (there, missing) = missing_members(directory, &members)?;
    Ok(u32::try_from(there + missing.len()).unwrap_or(u32::MAX))
}

/// Adds the members of the services that are there to the map at a path: a former build
/// wrote none for large sets, and the programs that are about to run take a backend
/// without a member for one that left.
pub(crate) fn add_missing_members(directory: &Path, path: &Path) -> Result<(), Error> {
    let members = Table::open_at(path, maps::MEMBERS)?;
    let (_, missing) = missing_members(directory, &members)?;
    if !missing.is_empty() {
        tracing::info!(entries = missing.len(), "added Service members");
    }
    members.write(&missing)
}

/// Returns how many members there are, and those that services lack.
fn missing_members(
    directory: &Path,
    members: &Table<MemberKey, u32>,
) -> Result<(usize, Vec<(MemberKey, u32)>), Error> {
    let mut current = Current::default();
    opened(
        &Table::open(directory, maps::SERVICES)?,
        &mut current.services,
        false,
    )?;
    current.services.retain(|_, service| service.has_members());
    if current.services.is_empty() {
        return Ok((0, Vec::new()));
    }
    opened(
        &Table::open(directory, maps::SLOTS)?,
        &mut current.slots,
        false,
    )?;
    current.members.extend(members.entries()?);
    Ok((current.members.len(), current.missing_members()))
}

/// Takes the entries that are whole, and may remove the others: how many those
/// are.
fn opened<K: Plain + Eq + Hash, V: Plain>(
    table: &Table<K, ChecksummedValue<V>>,
    whole: &mut FxHashMap<K, V>,
    sweep: bool,
) -> Result<usize, Error> {
    let entries = table.entries()?;
    whole.reserve(entries.len());
    let mut broken = Vec::new();
    for (key, sealed) in entries {
        match sealed.open(&key) {
            Some(value) => {
                whole.insert(key, value);
            }
            None => broken.push(key),
        }
    }
    if sweep {
        table.delete(&broken)?;
    }
    Ok(broken.len())
}

fn prefix(number: u32, range: &IpNet) -> Prefix {
    Prefix::new(number, range.network().into(), range.prefix_len())
}

fn range(prefix: &Prefix) -> Option<IpNet> {
    let (address, bits) = prefix.first();
    IpNet::new(address.into(), bits).ok()
}
