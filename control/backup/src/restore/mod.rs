//! Fills a store from a backup: a file of the embedded store, a file for etcd, or an etcd
//! that runs.

mod embedded;
mod etcd_file;
mod folder;
mod live;

use control_store::Revision;
use jiff::Timestamp;

pub use embedded::restore_embedded;
pub use etcd_file::restore_etcd_file;
pub use folder::{DataFolder, is_in_use};
pub(crate) use live::{ensure_empty, put_all};
pub use live::{raise_revision, restore_live};

use crate::archive::ServerFile;
use crate::manifest::Manifest;

/// The result of a restore.
#[derive(Clone, Debug)]
pub struct RestoreSummary {
    /// The contents of the backup.
    pub manifest: Manifest,
    /// Files of the server, which are not written yet.
    pub files: Vec<ServerFile>,
    /// The revision at which the store stands.
    pub revision: Revision,
}

/// How far a restore moves the revision at least.
const GAP: Revision = 1_000_000_000;
/// How many revisions a second a cluster is taken to make at most.
const PER_SECOND: Revision = 10_000;

/// Returns the revision at which a restored store begins, beyond everything that clients
/// have seen: later writes of the original cluster, an earlier restore of the same
/// backup, and a replaced store.
#[must_use]
pub fn restored_revision(
    backup: Revision,
    created: Timestamp,
    now: Timestamp,
    replaced: Option<Revision>,
) -> Revision {
    let age = u64::try_from(now.as_second() - created.as_second()).unwrap_or_default();
    backup
        .max(replaced.unwrap_or_default())
        .saturating_add(GAP)
        .saturating_add(age.saturating_mul(PER_SECOND))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_restored_store_begins_beyond_all_that_was_seen() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let first = restored_revision(500, at(0), at(60), None);
        assert!(first > 500 + GAP);
        // A cluster restored first, which wrote for an hour, and a second restore then.
        let written = first + 3_600 * 5_000;
        assert!(restored_revision(500, at(0), at(3_660), None) > written);
        assert!(restored_revision(500, at(0), at(60), Some(9 * GAP)) > 9 * GAP);
        // A clock that went back.
        assert!(restored_revision(500, at(100), at(0), None) > 500);
    }
}
