//! How full the table of connections is.
//!
//! The kernel does not count a map's entries, and to walk through a large table
//! takes a while. What began and what was collected is counted by the programs:
//! their difference is how many entries there are at most. Only where that is
//! near the table's size, it is walked through; and since entries of connections
//! that are over make room as new ones come, only those that are not count.

use std::path::Path;

use ebpf_abi::{Counter, FlowEntry, FlowFlags, Timeouts, Tuple, maps};
use ebpf_logic::packet::is_over;

use crate::configuration::Configuration;
use crate::counters::Counters;
use crate::error::Error;
use crate::flows::{lives, ticks_now, whole_life};
use crate::pins::version_dir;
use crate::table::Table;

/// From this part of the table on it is walked through: four fifths.
const NEAR: (u64, u64) = (4, 5);

/// How full a table is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TableLoad {
    /// What it holds that is still needed, exactly if that is much, else at most so
    /// much.
    pub held: u64,
    /// How much that may be.
    pub capacity: u64,
    /// What found no room, or was lost for want of it: of connections the packets since
    /// the maps were made, of others what is known since this was opened.
    pub lost: u64,
}

/// Reads how full tables are, beside the process that owns the maps.
#[derive(Debug)]
pub struct Loads {
    flows: Table<Tuple, FlowEntry>,
    config: Configuration,
    counters: Counters,
    /// By how much the counters' difference was too large when it was last
    /// compared: what commands have forgotten.
    excess: u64,
}

// === impl Loads ===

impl Loads {
    /// Opens what is pinned there. The maps keep their place while others grow.
    ///
    /// # Errors
    ///
    /// [`Error::NotPinned`], [`Error::Map`].
    pub fn open(pin_dir: &Path) -> Result<Self, Error> {
        let directory = version_dir(pin_dir);
        Ok(Self {
            flows: Table::open(&directory, maps::FLOWS)?,
            config: Configuration::open(&directory)?,
            counters: Counters::open(&directory)?,
            excess: 0,
        })
    }

    /// Looks.
    ///
    /// # Errors
    ///
    /// [`Error::Map`].
    pub fn look(&mut self) -> Result<TableLoad, Error> {
        // A connection has two entries.
        let capacity = u64::from(self.flows.capacity()) / 2;
        let collected = self.counters.get(Counter::FlowCollected)?;
        let created = self.counters.get(Counter::FlowCreated)?;
        let counted = created.saturating_sub(collected);
        let mut connections = counted.saturating_sub(self.excess);
        let (part, whole) = NEAR;
        if connections >= capacity * part / whole {
            let (there, alive) = self.walk()?;
            self.excess = counted.saturating_sub(there);
            connections = alive;
        }
        Ok(TableLoad {
            held: connections,
            capacity,
            lost: self.counters.get(Counter::DroppedFlowsFull)?,
        })
    }

    /// How many connections have entries, and the room that those take that are not over,
    /// in connections of two entries.
    fn walk(&self) -> Result<(u64, u64), Error> {
        let timeouts = self
            .config
            .get()?
            .map_or(Timeouts::DEFAULT, |config| config.timeouts);
        let entries = self.flows.entries()?;
        let (lives, now) = (lives(&entries), ticks_now());
        let (mut there, mut alive) = (0, 0_u64);
        for (key, entry) in &entries {
            let Some(flow) = entry.flow.open(key) else {
                continue;
            };
            if flow.flags.contains(FlowFlags::REPLY) {
                continue;
            }
            there += 1;
            let life = whole_life(&flow, entry.life, &lives);
            if !is_over(&timeouts, key.protocol, life, now) {
                // What is answered directly has one entry.
                alive += if flow.flags.contains(FlowFlags::DIRECT) {
                    1
                } else {
                    2
                };
            }
        }
        Ok((there, alive.div_ceil(2)))
    }
}
