//! Whether sockets and clients are forgotten while they are still there.
//!
//! `ORIGINALS` and `AFFINITY` push out what was used least recently where there is no
//! room, and nobody is told. Here both are looked through from time to time:
//!
//! ```text
//! ORIGINALS ─► half full? ─► sockets of all namespaces ─► entries of closed ones are removed
//! AFFINITY  ─► half full? ─► SERVICES: for how long ────► clients that are not over
//!                                 └► what is watched: was it there, and is it gone too soon?
//! ```
//!
//! Nothing tells a program that a datagram socket was closed: without the removal, the
//! map fills up with those that are gone, and one that lives and is silent goes with them.
//!
//! What was lost is known of a part that is watched from one look to the next. It shows
//! that something is lost, and not how much.

use std::path::{Path, PathBuf};

use ebpf_abi::{
    Affinity, AffinityKey, ChecksummedValue, Original, OriginalKey, Protocol, Service,
    ServiceFlags, ServiceKey, maps,
};
use rustc_hash::FxHashMap;

use crate::error::Error;
use crate::load::TableLoad;
use crate::namespaces::Namespaces;
use crate::pins::version_dir;
use crate::sys;
use crate::table::Table;
use crate::udp;

/// Below this part of a map nothing is pushed out, whichever processors' free elements
/// lie unused.
const NEAR: (u64, u64) = (1, 2);
/// How many entries of a map are watched.
const WATCHED: usize = 4_096;
/// A client is watched if it is remembered for so much longer: nanoseconds.
const LONG: u64 = 120_000_000_000;

/// Scans both maps for stale entries, beside the process that owns them.
#[derive(Debug)]
pub struct StaleEntryScan {
    directory: PathBuf,
    namespaces: Namespaces,
    originals: Table<OriginalKey, ChecksummedValue<Original>>,
    affinity: Table<AffinityKey, ChecksummedValue<Affinity>>,
    sockets: WatchedEntries<OriginalKey, ()>,
    /// Numbers of sockets that were not there at the last look.
    closed: Vec<u64>,
    /// With the time at which they may be forgotten.
    clients: WatchedEntries<AffinityKey, u64>,
}

/// The entries of the previous scan.
#[derive(Debug)]
struct WatchedEntries<K, V> {
    entries: Vec<(K, V)>,
    lost: u64,
}

// === impl Remembered ===

impl StaleEntryScan {
    /// Opens what is pinned there. Both maps keep their place while others grow.
    ///
    /// # Errors
    ///
    /// [`Error::NotPinned`], [`Error::Map`].
    pub fn open(pin_dir: &Path) -> Result<Self, Error> {
        let directory = version_dir(pin_dir);
        Ok(Self {
            originals: Table::open(&directory, maps::ORIGINALS)?,
            affinity: Table::open(&directory, maps::AFFINITY)?,
            sockets: WatchedEntries::new(),
            closed: Vec::new(),
            clients: WatchedEntries::new(),
            namespaces: Namespaces::default(),
            directory,
        })
    }

    /// How many datagram sockets' entries there are: of sockets that are there, if there
    /// are many. Removes those then whose sockets were not there at the last look either:
    /// one that is just being connected is not listed for a moment.
    ///
    /// # Errors
    ///
    /// [`Error::Map`], [`Error::Sockets`].
    pub fn sockets(&mut self) -> Result<TableLoad, Error> {
        let capacity = u64::from(self.originals.capacity());
        let (mut there, mut seen) = (0, Vec::new());
        self.originals.visit(&mut |entries| {
            there += entries.len();
            let datagrams = entries
                .iter()
                .map(|(key, _)| key)
                .filter(|key| is_datagram(key));
            seen.extend(datagrams.map(|key| key.cookie));
            Ok(())
        })?;
        if !is_near(there, capacity) {
            self.sockets.entries.clear();
            self.closed.clear();
            return Ok(self.sockets.load(there, capacity));
        }
        let sockets = udp::all(&mut self.namespaces).map_err(|source| Error::Sockets { source })?;
        let sockets: FxHashMap<u64, _> = sockets.iter().map(|it| (it.cookie, it.peer)).collect();
        seen.retain(|cookie| !sockets.contains_key(cookie));
        seen.sort_unstable();
        seen.dedup();
        // A number is never given twice.
        let closed = std::mem::replace(&mut self.closed, seen);
        let is_listed = |all: &[u64], key: &OriginalKey| {
            is_datagram(key) && all.binary_search(&key.cookie).is_ok()
        };
        let is_connected = |key: &OriginalKey| {
            is_datagram(key) && sockets.get(&key.cookie) == Some(&(key.address, key.port))
        };
        let (originals, mut held) = (&self.originals, 0);
        let lost =
            |(key, ()): &(OriginalKey, ())| Ok(is_connected(key) && originals.get(key)?.is_none());
        self.sockets.lose(&lost)?;
        let (watched, missing) = (&mut self.sockets.entries, &self.closed);
        originals.visit(&mut |entries| {
            let mut gone = Vec::new();
            for (key, _) in entries {
                if !is_listed(missing, &key) {
                    held += 1;
                    if is_connected(&key) && watched.len() < WATCHED {
                        watched.push((key, ()));
                    }
                } else if is_listed(&closed, &key) {
                    gone.push(key);
                }
            }
            originals.delete(&gone)
        })?;
        Ok(self.sockets.load(held, capacity))
    }

    /// How many clients' entries there are: of clients that keep their endpoint, if
    /// there are many.
    ///
    /// # Errors
    ///
    /// [`Error::Map`].
    pub fn clients(&mut self) -> Result<TableLoad, Error> {
        let capacity = u64::from(self.affinity.capacity());
        let mut there = 0;
        self.affinity.visit(&mut |entries| {
            there += entries.len();
            Ok(())
        })?;
        if !is_near(there, capacity) {
            self.clients.entries.clear();
            return Ok(self.clients.load(there, capacity));
        }
        let (lasting, now) = (self.lasting()?, sys::monotonic());
        let affinity = &self.affinity;
        let lost = |(key, until): &(AffinityKey, u64)| {
            let kept = *until > now && lasting.contains_key(&key.set);
            Ok(kept && affinity.get(key)?.is_none())
        };
        self.clients.lose(&lost)?;
        let (watched, mut held) = (&mut self.clients.entries, 0);
        affinity.visit(&mut |entries| {
            for (key, sealed) in entries {
                let Some((value, lasts)) = sealed.open(&key).zip(lasting.get(&key.set)) else {
                    continue;
                };
                let until = value.used.saturating_add(*lasts);
                held += usize::from(until > now);
                if until > now.saturating_add(LONG) && watched.len() < WATCHED {
                    watched.push((key, until));
                }
            }
            Ok(())
        })?;
        Ok(self.clients.load(held, capacity))
    }

    /// For how many nanoseconds clients of a set keep their endpoint.
    fn lasting(&self) -> Result<FxHashMap<u32, u64>, Error> {
        // A map that grows is another one afterwards.
        let services: Table<ServiceKey, ChecksummedValue<Service>> =
            Table::open(&self.directory, maps::SERVICES)?;
        let mut lasting = FxHashMap::default();
        services.visit(&mut |entries| {
            let whole = entries
                .iter()
                .filter_map(|(key, sealed)| sealed.open(key))
                .filter(|service| service.flags.contains(ServiceFlags::AFFINITY));
            lasting.extend(whole.map(|service| {
                let seconds = u64::from(service.affinity_seconds);
                (service.set, seconds * 1_000_000_000)
            }));
            Ok(())
        })?;
        Ok(lasting)
    }
}

fn is_datagram(key: &OriginalKey) -> bool {
    key.protocol == Protocol::UDP
}

fn is_near(entries: usize, capacity: u64) -> bool {
    let (part, whole) = NEAR;
    entries as u64 >= capacity * part / whole
}

// === impl Watched ===

impl<K, V> WatchedEntries<K, V> {
    const fn new() -> Self {
        Self {
            entries: Vec::new(),
            lost: 0,
        }
    }

    /// Counts those that are lost. None is watched then.
    fn lose(&mut self, is_lost: &dyn Fn(&(K, V)) -> Result<bool, Error>) -> Result<(), Error> {
        for entry in std::mem::take(&mut self.entries) {
            self.lost += u64::from(is_lost(&entry)?);
        }
        Ok(())
    }

    fn load(&self, held: usize, capacity: u64) -> TableLoad {
        TableLoad {
            held: held as u64,
            capacity,
            lost: self.lost,
        }
    }
}
