//! A map of plain keys and values, read and written by few calls: one for every
//! entry takes half a second for 10 000 services.

use std::io;
use std::marker::PhantomData;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use aya::maps::{MapData, MapError};
use ebpf_abi::{Plain, Text};

use crate::error::Error;
use crate::sys;

/// Entries that one call reads at first. More are asked for if a bucket of the
/// map holds more than that.
const PORTION: usize = 4_096;
/// Below so many, calls for one entry each cost less than one for all.
const FEW: usize = 3;

const ENOENT: i32 = 2;
const E2BIG: i32 = 7;
const ENOMEM: i32 = 12;
const EBUSY: i32 = 16;
const EEXIST: i32 = 17;
const ENOSPC: i32 = 28;

/// How often an update is tried again for which the kernel had no memory at
/// hand; its caches are refilled in the background.
const MEMORY_ATTEMPTS: u32 = 20;
const MEMORY_PAUSE: Duration = Duration::from_micros(200);

/// A pinned map whose layout was verified.
#[derive(Debug)]
pub(crate) struct Table<K, V> {
    name: &'static str,
    data: MapData,
    capacity: u32,
    form: PhantomData<(K, V)>,
}

/// Does actions in order, those of one kind that follow each other together.
pub(crate) fn in_runs<A>(
    actions: &[A],
    run: impl FnMut(&[A]) -> Result<(), Error>,
) -> Result<(), Error> {
    let same = |a: &A, b: &A| std::mem::discriminant(a) == std::mem::discriminant(b);
    actions.chunk_by(same).try_for_each(run)
}

/// What the actions of a run are about.
macro_rules! each {
    ($run:expr, $pattern:pat => $content:expr) => {
        &$run
            .iter()
            .filter_map(|action| match action {
                $pattern => Some($content),
                _ => None,
            })
            .collect::<Vec<_>>()
    };
}
pub(crate) use each;

impl<const N: usize> Table<u32, Text<N>> {
    /// Writes names, as many as there is room for: what has none works.
    pub(crate) fn write_names(&self, names: &[(u32, Text<N>)]) -> Result<(), Error> {
        match self.write(names) {
            Err(Error::Full { map, capacity }) => {
                tracing::debug!(map, capacity, "the table of names is full");
                Ok(())
            }
            other => other,
        }
    }
}

impl<K: Plain, V: Plain> Table<K, V> {
    /// Opens what is pinned in a directory.
    pub(crate) fn open(directory: &Path, name: &'static str) -> Result<Self, Error> {
        Self::open_at(&directory.join(name), name)
    }

    /// Opens what is pinned at a path of another name than the map's.
    pub(crate) fn open_at(path: &Path, name: &'static str) -> Result<Self, Error> {
        if !path.exists() {
            let path = path.to_owned();
            return Err(Error::NotPinned { path });
        }
        let unreadable = |source| Error::Map {
            verb: "read",
            map: name,
            source: Box::new(source),
        };
        let data = MapData::from_pin(path).map_err(unreadable)?;
        let capacity = data.info().map_err(unreadable)?.max_entries();
        Ok(Self {
            name,
            data,
            capacity,
            form: PhantomData,
        })
    }

    /// Entries that it takes.
    pub(crate) const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &K) -> Result<Option<V>, Error> {
        match sys::read_one(self.data.fd(), key) {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.raw_os_error() == Some(ENOENT) => Ok(None),
            Err(error) => Err(self.failed("read", error)),
        }
    }

    /// All entries. One that is written meanwhile may be missing or there
    /// twice; where programs do not write, nobody else does.
    pub(crate) fn entries(&self) -> Result<Vec<(K, V)>, Error> {
        let mut all = Vec::new();
        self.visit(&mut |entries| {
            all.extend(entries);
            Ok(())
        })?;
        Ok(all)
    }

    /// Hands out all entries in portions, as [`entries`](Self::entries) has them: for
    /// maps that are larger than what is to be kept of them. What is handed out may be
    /// removed meanwhile.
    pub(crate) fn visit(
        &self,
        each: &mut dyn FnMut(Vec<(K, V)>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut portion = PORTION.min(self.capacity as usize);
        let mut cursor = None;
        loop {
            let read = sys::read_batch::<K, V>(self.data.fd(), cursor, portion);
            match read.end {
                // The place is the same: nothing was read.
                Err(error) if error.raw_os_error() == Some(ENOSPC) && read.entries.is_empty() => {
                    portion *= 2;
                }
                Err(error) if error.raw_os_error() == Some(ENOENT) => {
                    return each(read.entries);
                }
                Err(error) => return Err(self.failed("read", error)),
                Ok(place) => {
                    each(read.entries)?;
                    cursor = Some(place);
                }
            }
        }
    }

    /// Writes entries in order. After an error the first ones are written.
    pub(crate) fn write(&self, entries: &[(K, V)]) -> Result<(), Error> {
        if entries.len() <= FEW {
            return entries
                .iter()
                .try_for_each(|(key, value)| self.write_one(key, value));
        }
        for portion in entries.chunks(PORTION) {
            let keys: Vec<K> = portion.iter().map(|(key, _)| *key).collect();
            let values: Vec<V> = portion.iter().map(|(_, value)| *value).collect();
            let mut done = 0;
            while let Some((keys, values)) = keys.get(done..).zip(values.get(done..))
                && !keys.is_empty()
            {
                let (written, end) = sys::write_batch(self.data.fd(), keys, values);
                done += written;
                // Whatever stopped it, by itself the next one is tried again,
                // or says why not; kernels without such calls go on so.
                if end.is_err()
                    && let Some((key, value)) = keys.get(written).zip(values.get(written))
                {
                    self.write_one(key, value)?;
                    done += 1;
                }
            }
        }
        Ok(())
    }

    /// Adds an entry unless there is one, whoever else writes; whether it was added.
    pub(crate) fn add(&self, key: &K, value: &V) -> Result<bool, Error> {
        match sys::add_one(self.data.fd(), key, value) {
            Ok(()) => Ok(true),
            Err(error) if error.raw_os_error() == Some(EEXIST) => Ok(false),
            Err(error) if matches!(error.raw_os_error(), Some(E2BIG | ENOSPC)) => {
                Err(Error::Full {
                    map: self.name,
                    capacity: self.capacity,
                })
            }
            Err(error) => Err(self.failed("write", error)),
        }
    }

    /// Removes entries in order; it is fine if some are not there.
    pub(crate) fn delete(&self, keys: &[K]) -> Result<(), Error> {
        let mut rest = keys;
        while !rest.is_empty() {
            let mut done = 0;
            if rest.len() > FEW {
                let portion = rest.get(..PORTION).unwrap_or(rest);
                done = sys::delete_batch(self.data.fd(), portion).0;
            }
            if let Some(key) = rest.get(done) {
                self.delete_one(key)?;
                done += 1;
            }
            rest = rest.get(done..).unwrap_or_default();
        }
        Ok(())
    }

    /// Appends values to a queue, as many as it has places for; how many were appended.
    pub(crate) fn push_all(&self, values: impl IntoIterator<Item = V>) -> Result<usize, Error> {
        let mut pushed = 0;
        for value in values {
            match sys::push(self.data.fd(), &value) {
                Ok(()) => pushed += 1,
                Err(error) if error.raw_os_error() == Some(E2BIG) => break,
                Err(error) => return Err(self.failed("write", error)),
            }
        }
        Ok(pushed)
    }

    /// Takes the first value off a queue.
    pub(crate) fn pop(&self) -> Result<Option<V>, Error> {
        match sys::pop(self.data.fd()) {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.raw_os_error() == Some(ENOENT) => Ok(None),
            Err(error) => Err(self.failed("read", error)),
        }
    }

    fn write_one(&self, key: &K, value: &V) -> Result<(), Error> {
        let mut attempt = 0;
        loop {
            let Err(error) = sys::write_one(self.data.fd(), key, value) else {
                return Ok(());
            };
            match error.raw_os_error() {
                // Hash maps say the one, tries the other.
                Some(E2BIG | ENOSPC) => {
                    return Err(Error::Full {
                        map: self.name,
                        capacity: self.capacity,
                    });
                }
                Some(ENOMEM | EBUSY) if attempt < MEMORY_ATTEMPTS => sleep(MEMORY_PAUSE),
                _ => return Err(self.failed("write", error)),
            }
            attempt += 1;
        }
    }

    fn delete_one(&self, key: &K) -> Result<(), Error> {
        match sys::delete_one(self.data.fd(), key) {
            Err(error) if error.raw_os_error() != Some(ENOENT) => Err(self.failed("write", error)),
            _ => Ok(()),
        }
    }

    fn failed(&self, verb: &'static str, source: io::Error) -> Error {
        Error::Map {
            verb,
            map: self.name,
            source: Box::new(MapError::IoError(source)),
        }
    }
}
