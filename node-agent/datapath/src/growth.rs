//! Maps that become larger, and maps of a former version: what they hold is
//! carried over before anybody reads the new ones.
//!
//! The size of a map is fixed, and programs hold their maps. So larger maps are
//! made beside the small ones (`SLOTS_NEXT`), filled, and a second instance of
//! the programs, which holds them, takes the places of the first one's, link by
//! link; then they take the small ones' names. Programs only read these maps and
//! one process alone writes them, so that both are equal while some hooks use
//! the one and some the other. What programs write (sockets, affinity,
//! connections) keeps its map, but for the queue of connections ([`flow_log`]). If the process ends in between, the next one
//! finds the small maps under their names, as they were, and starts again.
//!
//! Maps of policy have a writer of their own, who waits meanwhile
//! ([`Engine::grow_policy`](crate::Engine::grow_policy)).

use std::fs;
use std::path::Path;

use ebpf_abi::policy::{
    EndpointKey, EndpointPolicy, PeerEntry, PolicyVerdict, RuleName, VerdictKey,
};
use ebpf_abi::{
    Affinity, AffinityKey, Backend, ChecksummedValue, MaglevChunk, MaglevKey, MemberKey, Original,
    OriginalKey, Plain, Prefix, Service, ServiceKey, SetName, SlotKey, maps,
};

use crate::capacity::Capacity;
use crate::error::Error;
use crate::flow_log;
use crate::layout::have_our_layout;
use crate::pins::next;
use crate::table::Table;

/// The versions of layouts whose services and sockets mean the same in this
/// one: keys and values are as long, and what was zero there means "none" here.
const SAME_MEANING: [u32; 1] = [1];

/// How large the maps that user space alone writes are to be at least.
const fn wanted(capacity: &Capacity) -> [(&'static str, u32); 10] {
    [
        (maps::SERVICES, capacity.services),
        (maps::NAMES, capacity.names()),
        (maps::SLOTS, capacity.slots),
        (maps::MEMBERS, capacity.members),
        (maps::MAGLEV, capacity.chunks),
        (maps::SOURCES, capacity.sources),
        (maps::PEERS, capacity.peers),
        (maps::ENDPOINTS, capacity.endpoints),
        (maps::VERDICTS, capacity.verdicts),
        (maps::RULES, capacity.rules),
    ]
}

/// How large the maps of policy are; others as `capacity` says.
pub(crate) fn of_policy(directory: &Path, capacity: &Capacity) -> Result<Capacity, Error> {
    let size = |name| Ok(Table::<u32, u32>::open(directory, name)?.capacity());
    Ok(Capacity {
        peers: size(maps::PEERS)?,
        endpoints: size(maps::ENDPOINTS)?,
        verdicts: size(maps::VERDICTS)?,
        rules: size(maps::RULES)?,
        ..*capacity
    })
}

/// Is policy enforced from now on, or no longer? Programs fill this map, which
/// is made anew then.
fn is_switched(is: u32, to_be: u32) -> bool {
    (is > 1) != (to_be > 1)
}

/// The pinned maps that are of another size than they are to be; what an
/// earlier process did not finish is removed.
pub(crate) fn outgrown(directory: &Path, capacity: &Capacity) -> Result<Vec<&'static str>, Error> {
    let mut names = Vec::new();
    let of_programs = [
        (maps::POLICY_FLOWS, capacity.policy_flows),
        (maps::FLOW_LOG, flow_log::size(directory, capacity)?),
    ];
    for (name, size) in wanted(capacity).into_iter().chain(of_programs) {
        let unfinished = next(directory, name);
        if unfinished.exists() {
            fs::remove_file(&unfinished).map_err(|source| Error::File {
                verb: "remove",
                path: unfinished.clone(),
                source,
            })?;
        }
        let path = directory.join(name);
        if !path.exists() {
            continue;
        }
        let is = Table::<u32, u32>::open_at(&path, name)?.capacity();
        let replaced = match name {
            maps::POLICY_FLOWS => is_switched(is, size),
            _ => is < size,
        };
        if replaced {
            names.push(name);
        }
    }
    Ok(names)
}

/// Fills the larger maps; [`LargerFlowLog`](flow_log::LargerFlowLog) fills the queue.
pub(crate) fn fill(directory: &Path, names: &[&'static str]) -> Result<(), Error> {
    let mut copied = names.iter().filter(|name| **name != maps::FLOW_LOG);
    copied.try_for_each(|name| {
        let entries = copy(name, &directory.join(name), &next(directory, name))?;
        tracing::info!(
            map = name,
            entries,
            "replacing a map with one of another size"
        );
        Ok(())
    })
}

/// Gives the larger maps the small ones' names, once no program holds those.
pub(crate) fn take_place(directory: &Path, names: &[&'static str]) -> Result<(), Error> {
    names.iter().try_for_each(|name| {
        let from = next(directory, name);
        fs::rename(&from, directory.join(name)).map_err(|source| Error::File {
            verb: "rename",
            path: from,
            source,
        })
    })
}

/// Carries services and sockets of a former version over into maps that were
/// just made. Before a hook runs our programs, so that clients find what they
/// found before, long until the API was asked. False, with a reason in the log,
/// if they mean something else.
pub(crate) fn carry_over(former: &Path, directory: &Path) -> Result<bool, Error> {
    if !means_the_same(former) {
        tracing::warn!(
            former = %former.display(),
            "maps of the previous version have another layout; Services are not served until the API was listed"
        );
        return Ok(false);
    }
    let services = Table::<ServiceKey, ChecksummedValue<Service>>::open(directory, maps::SERVICES)?;
    if !services.entries()?.is_empty() {
        return Ok(false);
    }
    // Entries last: what they lead to is there by then.
    let mut entries = 0;
    for name in [
        maps::NAMES,
        maps::SLOTS,
        maps::MEMBERS,
        maps::AFFINITY,
        maps::ORIGINALS,
        maps::SERVICES,
    ] {
        entries += copy(name, &former.join(name), &directory.join(name))?;
    }
    tracing::info!(former = %former.display(), entries, "migrated maps of a previous version");
    Ok(true)
}

/// Carries over the sockets that a former version's programs translated since
/// [`carry_over`]; those that translate must not run any more.
pub(crate) fn carry_sockets(former: &Path, directory: &Path) -> Result<(), Error> {
    if means_the_same(former) {
        for name in [maps::AFFINITY, maps::ORIGINALS] {
            copy(name, &former.join(name), &directory.join(name))?;
        }
    }
    Ok(())
}

fn means_the_same(former: &Path) -> bool {
    let version = former
        .file_name()
        .and_then(|name| name.to_str()?.strip_prefix('v')?.parse().ok());
    version.is_some_and(|version| SAME_MEANING.contains(&version)) && have_our_layout(former)
}

fn copy(name: &'static str, from: &Path, to: &Path) -> Result<usize, Error> {
    match name {
        maps::SERVICES => copy_as::<ServiceKey, ChecksummedValue<Service>>(name, from, to),
        maps::SLOTS => copy_as::<SlotKey, ChecksummedValue<Backend>>(name, from, to),
        maps::MEMBERS => copy_as::<MemberKey, u32>(name, from, to),
        maps::MAGLEV => copy_as::<MaglevKey, ChecksummedValue<MaglevChunk>>(name, from, to),
        maps::SOURCES => copy_as::<Prefix, u32>(name, from, to),
        maps::NAMES => copy_as::<u32, SetName>(name, from, to),
        maps::ORIGINALS => copy_as::<OriginalKey, ChecksummedValue<Original>>(name, from, to),
        maps::AFFINITY => copy_as::<AffinityKey, ChecksummedValue<Affinity>>(name, from, to),
        maps::PEERS => copy_as::<Prefix, PeerEntry>(name, from, to),
        maps::ENDPOINTS => copy_as::<EndpointKey, ChecksummedValue<EndpointPolicy>>(name, from, to),
        maps::VERDICTS => copy_as::<VerdictKey, ChecksummedValue<PolicyVerdict>>(name, from, to),
        maps::RULES => copy_as::<u32, RuleName>(name, from, to),
        _ => Ok(0),
    }
}

fn copy_as<K: Plain, V: Plain>(name: &'static str, from: &Path, to: &Path) -> Result<usize, Error> {
    let entries = Table::<K, V>::open_at(from, name)?.entries()?;
    Table::<K, V>::open_at(to, name)?.write(&entries)?;
    Ok(entries.len())
}
