//! What the packet programs know of the node, in its two maps.
//!
//! The kernel writes an array's value in place, and whoever writes may be held up
//! meanwhile. So each configuration goes to `CONFIG_AHEAD` first, where programs find it
//! while that in `CONFIG` is half written.

use std::path::Path;

use ebpf_abi::{CONFIG_KEY, ChecksummedValue, Config, maps};

use crate::error::Error;
use crate::grace::wait_for_programs;
use crate::table::Table;

#[derive(Debug)]
pub(crate) struct Configuration {
    now: Table<u32, ChecksummedValue<Config>>,
    ahead: Table<u32, ChecksummedValue<Config>>,
}

impl Configuration {
    /// Opens what is pinned there.
    pub(crate) fn open(directory: &Path) -> Result<Self, Error> {
        Ok(Self {
            now: Table::open(directory, maps::CONFIG)?,
            ahead: Table::open(directory, maps::CONFIG_AHEAD)?,
        })
    }

    /// As a program would find it; none before the first.
    pub(crate) fn get(&self) -> Result<Option<Config>, Error> {
        for table in [&self.now, &self.ahead] {
            let read = table.get(&0)?;
            let whole = read.and_then(|sealed| sealed.open(&CONFIG_KEY));
            if whole.is_some() {
                return Ok(whole);
            }
        }
        Ok(None)
    }

    /// Writes it: from some moment on each packet meets this one.
    pub(crate) fn set(&self, config: Config) -> Result<(), Error> {
        let entry = [(0, ChecksummedValue::new(&CONFIG_KEY, config))];
        // A program that met the former one half written may still be about to read what
        // is ahead.
        wait_for_programs()?;
        self.ahead.write(&entry)?;
        self.now.write(&entry)
    }
}
