//! Reads a whole store as of one revision, page by page.

use std::collections::HashMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::{BufMut as _, Bytes, BytesMut};
use control_store::{Range, Revision, Store};

use crate::{Entry, Error};

/// How many bytes of values a page is to have, and how many keys at most.
const PAGE_BYTES: usize = 4 << 20;
const PAGE_KEYS: usize = 4096;
const FIRST_PAGE: usize = 256;

/// The keys of a store in order.
pub struct Pages<'s> {
    store: &'s dyn Store,
    revision: Revision,
    next: Option<Bytes>,
    limit: usize,
    /// The remaining time to live of each lease. `None` when the caller does not need it.
    leases: Option<HashMap<u64, Option<Duration>>>,
}

impl<'s> Pages<'s> {
    /// Begins to read `store` as of `revision`.
    #[must_use]
    pub fn new(store: &'s dyn Store, revision: Revision) -> Self {
        Self {
            store,
            revision,
            next: Some(Bytes::new()),
            limit: FIRST_PAGE,
            leases: Some(HashMap::new()),
        }
    }

    /// Skips the remaining lifetimes of keys.
    #[must_use]
    pub fn without_leases(mut self) -> Self {
        self.leases = None;
        self
    }

    /// Returns the next keys; none at the end.
    ///
    /// # Errors
    /// [`Error::Store`]: the store, or a revision that was compacted meanwhile.
    pub async fn next(&mut self) -> Result<Vec<Entry>, Error> {
        let Some(start) = self.next.take() else {
            return Ok(Vec::new());
        };
        let range = Range {
            start,
            end: Bytes::new(),
            limit: self.limit,
            at: Some(self.revision),
        };
        let page = self.store.range(range).await.map_err(Error::Store)?;
        let bytes = page
            .kvs
            .iter()
            .map(|kv| kv.value.len() + kv.key.len())
            .sum();
        self.limit = next_limit(page.kvs.len(), bytes);
        if page.more {
            self.next = page.kvs.last().map(|kv| after(&kv.key));
        }
        let mut entries = Vec::with_capacity(page.kvs.len());
        for kv in page.kvs {
            let remaining = self.remaining(kv.lease).await?;
            entries.push(Entry::new(kv, remaining));
        }
        Ok(entries)
    }

    async fn remaining(&mut self, lease: u64) -> Result<Option<Duration>, Error> {
        let Some(leases) = &mut self.leases else {
            return Ok(None);
        };
        if lease == 0 || time_of(lease).is_some() {
            return lease_time(self.store, lease).await;
        }
        if let Some(known) = leases.get(&lease) {
            return Ok(*known);
        }
        let remaining = lease_time(self.store, lease).await?;
        leases.insert(lease, remaining);
        Ok(remaining)
    }
}

/// How long a key with a lease still lives; `None` if for ever.
pub(crate) async fn lease_time(store: &dyn Store, lease: u64) -> Result<Option<Duration>, Error> {
    if lease == 0 {
        return Ok(None);
    }
    if let Some(time) = time_of(lease) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        return Ok(Some(time.saturating_sub(now.unwrap_or_default())));
    }
    let remaining = store.remaining(lease).await.map_err(Error::Store)?;
    // A lease that expired meanwhile takes its keys with it.
    Ok(Some(remaining.unwrap_or_default()))
}

/// The smallest key after `key`.
pub(crate) fn after(key: &[u8]) -> Bytes {
    let mut next = BytesMut::with_capacity(key.len() + 1);
    next.put_slice(key);
    next.put_u8(0);
    next.freeze()
}

/// How many keys to ask for, so that a page has about [`PAGE_BYTES`].
fn next_limit(keys: usize, bytes: usize) -> usize {
    let each = (bytes / keys.max(1)).max(1);
    (PAGE_BYTES / each).clamp(16, PAGE_KEYS)
}

/// The end of a key whose lease is a time in Unix milliseconds: the embedded store has such,
/// and etcd's numbers of leases are greater.
fn time_of(lease: u64) -> Option<Duration> {
    const YEAR_2001: u64 = 1_000_000_000_000;
    const YEAR_2128: u64 = 5_000_000_000_000;
    (YEAR_2001..YEAR_2128)
        .contains(&lease)
        .then(|| Duration::from_millis(lease))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_have_about_as_many_bytes_whatever_the_values() {
        assert_eq!(next_limit(256, 256 * 100), PAGE_KEYS);
        assert_eq!(next_limit(256, 256 * 4096), 1024);
        assert_eq!(next_limit(16, 16 << 20), 16);
        assert_eq!(next_limit(0, 0), PAGE_KEYS);
    }

    #[test]
    fn leases_of_the_embedded_store_are_times_and_those_of_etcd_are_not() {
        let time = 1_795_000_000_000;
        assert_eq!(time_of(time), Some(Duration::from_millis(time)));
        for lease in [7, 7_587_883_123_456_789_012, time << 16, 1 << 63 | 7] {
            assert_eq!(time_of(lease), None, "{lease}");
        }
    }
}
