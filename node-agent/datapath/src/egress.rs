//! The map that says which addresses pods reach as the node.

use std::collections::BTreeMap;
use std::path::Path;

use ebpf_abi::{AS_NODE, AS_POD, Prefix, maps};
use ipnet::IpNet;

use crate::error::Error;
use crate::pins::version_dir;
use crate::table::Table;

/// The source address with which pods reach a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum EgressSource {
    /// As themselves.
    Pod,
    /// As the node.
    Node,
}

/// Ranges, of which the narrowest that holds an address decides; what none holds is
/// reached by pods as themselves.
pub type Exits = BTreeMap<IpNet, EgressSource>;

/// The egress map, pinned by a [`Datapath`](crate::Datapath) and written by the owner of the
/// node's network.
#[derive(Debug)]
pub struct Egress {
    table: Table<Prefix, u32>,
}

impl Egress {
    /// Opens what is pinned there.
    ///
    /// # Errors
    ///
    /// [`Error::NotPinned`], [`Error::Map`].
    pub fn open(pin_dir: &Path) -> Result<Self, Error> {
        let table = Table::open(&version_dir(pin_dir), maps::EGRESS)?;
        Ok(Self { table })
    }

    /// Makes the map say this; whether anything changed.
    ///
    /// What pods are to reach as themselves is written first and removed last: no
    /// flow begins as the node's that need not.
    ///
    /// # Errors
    ///
    /// [`Error::Full`], [`Error::Map`].
    pub fn put(&self, exits: &Exits) -> Result<bool, Error> {
        let present: BTreeMap<Prefix, u32> = self.table.entries()?.into_iter().collect();
        let wanted: BTreeMap<Prefix, u32> = exits
            .iter()
            .map(|(range, shown)| (key(*range), value(*shown)))
            .collect();
        let mut put: Vec<_> = wanted
            .iter()
            .filter(|(key, value)| present.get(key) != Some(value))
            .map(|(key, value)| (*key, *value))
            .collect();
        put.sort_by_key(|(_, value)| *value);
        let mut gone: Vec<_> = present
            .iter()
            .filter(|(key, _)| !wanted.contains_key(key))
            .collect();
        gone.sort_by_key(|(_, value)| std::cmp::Reverse(**value));
        let gone: Vec<_> = gone.into_iter().map(|(key, _)| *key).collect();
        self.table.write(&put)?;
        self.table.delete(&gone)?;
        Ok(!put.is_empty() || !gone.is_empty())
    }
}

fn key(range: IpNet) -> Prefix {
    Prefix::new(0, range.network().into(), range.prefix_len())
}

const fn value(shown: EgressSource) -> u32 {
    match shown {
        EgressSource::Pod => AS_POD,
        EgressSource::Node => AS_NODE,
    }
}
