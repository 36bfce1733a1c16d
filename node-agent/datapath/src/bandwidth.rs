//! The map that says how much pods may send and get.
//!
//! Whoever lets an interface up writes it, before the first packet;
//! [`Datapath::follow_devices`](crate::Datapath::follow_devices) attaches the programs that
//! ask it, and removes what is about devices that are gone.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ebpf_abi::policy::Direction;
use ebpf_abi::{Bandwidth, BandwidthKey, maps};

use crate::devices::DeviceHook;
use crate::devices::attach::is_attached;
use crate::error::Error;
use crate::pins::version_dir;
use crate::table::Table;

/// The permitted rate in one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Bits a second, at least one.
    pub rate: u64,
    /// Bits that may go at once.
    pub burst: u64,
}

/// The bandwidth map, pinned by a [`Datapath`](crate::Datapath).
#[derive(Debug)]
pub struct Bandwidths {
    table: Table<BandwidthKey, Bandwidth>,
    directory: PathBuf,
}

// === impl Bandwidths ===

impl Bandwidths {
    /// Opens what is pinned there.
    ///
    /// # Errors
    ///
    /// [`Error::NotPinned`], [`Error::Map`].
    pub fn open(pin_dir: &Path) -> Result<Self, Error> {
        let directory = version_dir(pin_dir);
        let table = Table::open(&directory, maps::BANDWIDTH)?;
        Ok(Self { table, directory })
    }

    /// Makes the map say how much may go to a device's pod (`ingress`) and come from
    /// it; nothing: anything may. Buckets that hold as much already are left as they
    /// are. The device must be one that
    /// [`follow_devices`](crate::Datapath::follow_devices) knows.
    ///
    /// # Errors
    ///
    /// [`Error::Full`], [`Error::Map`].
    pub fn set(
        &self,
        device: u32,
        ingress: Option<Rate>,
        egress: Option<Rate>,
    ) -> Result<(), Error> {
        for (direction, wanted) in [(Direction::INGRESS, ingress), (Direction::EGRESS, egress)] {
            let key = BandwidthKey { device, direction };
            let known = self.table.get(&key)?;
            let wanted = wanted.map(|it| Bandwidth::new(it.rate, it.burst));
            match wanted {
                None if known.is_some() => self.table.delete(&[key])?,
                Some(wanted) if known.is_none_or(|known| !known.equals(&wanted)) => {
                    self.table.write(&[(key, wanted)])?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// What the map says of a device: of what goes to its pod, and comes from it.
    ///
    /// # Errors
    ///
    /// [`Error::Map`].
    pub fn get(&self, device: u32) -> Result<[Option<Bandwidth>; 2], Error> {
        let get = |direction| self.table.get(&BandwidthKey { device, direction });
        Ok([get(Direction::INGRESS)?, get(Direction::EGRESS)?])
    }

    /// Do programs ask the map of all packets of this device, in both directions?
    #[must_use]
    pub fn is_in_force(&self, device: u32) -> bool {
        let hooks = [DeviceHook::LimitEgress, DeviceHook::LimitIngress];
        is_attached(&self.directory, device, &hooks)
    }
}

/// The devices that the map knows, less those that are gone, of which nothing stays.
pub(crate) fn limited(directory: &Path, there: &BTreeSet<u32>) -> Result<BTreeSet<u32>, Error> {
    let table = Table::<BandwidthKey, Bandwidth>::open(directory, maps::BANDWIDTH)?;
    let (stay, gone): (Vec<_>, Vec<_>) = table
        .entries()?
        .into_iter()
        .map(|(key, _)| key)
        .partition(|key| there.contains(&key.device));
    table.delete(&gone)?;
    Ok(stay.into_iter().map(|key| key.device).collect())
}
