//! Reads a whole map by few calls: two for every entry, as an iterator makes
//! them, take half a second for 10 000 services.

use std::io;

use aya::maps::{IterableMap, MapError};
use ebpf_abi::Plain;

use crate::error::Error;
use crate::pod::Raw;
use crate::sys;

/// Entries that one call asks for at first. More are asked for if a bucket of
/// the map holds more than that.
const PORTION: usize = 4_096;

const ENOENT: i32 = 2;
const ENOSPC: i32 = 28;

/// All entries of a hash map. One that is written meanwhile may be missing or
/// there twice; here nobody else writes.
pub(crate) fn entries<K: Plain, V: Plain, M>(
    map: &M,
    name: &'static str,
) -> Result<Vec<(K, V)>, Error>
where
    M: IterableMap<Raw<K>, Raw<V>>,
{
    let failed = |source: io::Error| Error::Map {
        verb: "read",
        map: name,
        source: Box::new(MapError::IoError(source)),
    };
    let map = IterableMap::map(map).fd();
    let mut all = Vec::new();
    let mut portion = PORTION;
    let mut cursor = None;
    loop {
        let read = sys::read_batch::<K, V>(map, cursor, portion);
        match read.end {
            // The place is the same: nothing was read.
            Err(error) if error.raw_os_error() == Some(ENOSPC) && read.entries.is_empty() => {
                portion *= 2;
            }
            Err(error) if error.raw_os_error() == Some(ENOENT) => {
                all.extend(read.entries);
                return Ok(all);
            }
            Err(error) => return Err(failed(error)),
            Ok(place) => {
                all.extend(read.entries);
                cursor = Some(place);
            }
        }
    }
}
