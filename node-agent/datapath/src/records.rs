//! What programs tell of single flows, taken out of their ring.
//!
//! The ring is pinned with the maps, so that what happened while no agent ran is
//! told by the next one. One process at a time may read it: whoever reads moves
//! the place up to which all is read.

use std::fmt::{self, Debug, Formatter};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::path::{Path, PathBuf};

use aya::maps::{Map, MapData, RingBuf};
use ebpf_abi::{
    Address, ChecksummedValue, Counter, FlowRecord, NodeFlags, Port, Protocol, Scope, Service,
    ServiceKey, SetName, maps,
};

use crate::counters::Counters;
use crate::error::Error;
use crate::pinned_map::{pinned, unreadable};
use crate::pins::version_dir;
use crate::sys;
use crate::table::Table;

/// Verdicts that programs report one by one; the code for others is not loaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordingOptions {
    /// Of drops, refusals, and the share below.
    pub verdicts: bool,
    /// Of the flows that policy allows, of one in so many; 0: of none.
    pub sample: u32,
}

/// Reads the record ring. It can be polled as a file descriptor.
pub struct Records {
    ring: RingBuf<MapData>,
    counters: Counters,
}

/// Names of Services by their addresses.
#[derive(Debug)]
pub struct ServiceNameTable {
    directory: PathBuf,
}

/// The clock of [`FlowRecord::time`]; nanoseconds.
#[must_use]
pub fn clock() -> u64 {
    sys::monotonic()
}

// === impl Records ===

impl Records {
    /// Opens what a [`Datapath`](crate::Datapath) pinned.
    ///
    /// # Errors
    ///
    /// [`Error::NotPinned`] or [`Error::Map`].
    pub fn open(pin_dir: &Path) -> Result<Self, Error> {
        let directory = version_dir(pin_dir);
        let data = pinned(&directory, maps::FLOW_RECORDS)?;
        let ring = Map::from_map_data(data)
            .and_then(RingBuf::try_from)
            .map_err(unreadable(maps::FLOW_RECORDS))?;
        Ok(Self {
            ring,
            counters: Counters::open(&directory)?,
        })
    }

    /// The next one; none: all are read.
    pub fn take(&mut self) -> Option<FlowRecord> {
        loop {
            // What is of another length is another version's.
            if let Some(record) = sys::plain_of(&self.ring.next()?) {
                return Some(record);
            }
        }
    }

    /// How many found no room, since the maps were made.
    ///
    /// # Errors
    ///
    /// [`Error::Map`].
    pub fn lost(&self) -> Result<u64, Error> {
        self.counters.get(Counter::RecordLost)
    }
}

impl AsFd for Records {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.ring.as_fd()
    }
}

impl AsRawFd for Records {
    fn as_raw_fd(&self) -> RawFd {
        self.ring.as_raw_fd()
    }
}

impl Debug for Records {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records").finish_non_exhaustive()
    }
}

// === impl Services ===

impl ServiceNameTable {
    /// Those of the maps that are pinned there.
    #[must_use]
    pub fn open(pin_dir: &Path) -> Self {
        Self {
            directory: version_dir(pin_dir),
        }
    }

    /// The set that is asked for at an address, as it is named; none where
    /// there is none.
    ///
    /// # Errors
    ///
    /// [`Error::NotPinned`] or [`Error::Map`].
    pub fn name(
        &self,
        address: Address,
        port: Port,
        protocol: Protocol,
    ) -> Result<Option<String>, Error> {
        // Opened each time: maps that grow are replaced.
        let services: Table<ServiceKey, ChecksummedValue<Service>> =
            Table::open(&self.directory, maps::SERVICES)?;
        let mut keys = vec![
            ServiceKey::new(address, port, protocol, Scope::INTERNAL),
            ServiceKey::new(address, port, protocol, Scope::EXTERNAL),
        ];
        let nodes: Table<Address, NodeFlags> = Table::open(&self.directory, maps::NODES)?;
        if nodes.get(&address)?.is_some() {
            let any = address.wildcard();
            keys.push(ServiceKey::new(any, port, protocol, Scope::INTERNAL));
            keys.push(ServiceKey::new(any, port, protocol, Scope::EXTERNAL));
        }
        for key in keys {
            let found = services.get(&key)?.and_then(|sealed| sealed.open(&key));
            if let Some(service) = found {
                let names: Table<u32, SetName> = Table::open(&self.directory, maps::NAMES)?;
                let name = names.get(&service.set)?;
                return Ok(name.map(|name| name.as_str().to_owned()));
            }
        }
        Ok(None)
    }
}
