//! Counters of the programs, summed over all CPUs.

use std::path::Path;

use aya::maps::{Map, MapData, PerCpuArray};
use ebpf_abi::{Counter, maps};

use crate::error::Error;
use crate::pinned_map::{pinned, unreadable};

pub(crate) struct Counters(PerCpuArray<MapData, u64>);

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
