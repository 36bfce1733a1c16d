//! Recovery at a start: interrupted operations are finished or rolled back, and volumes
//! are adopted.

use std::fs::File;
use std::path::Path;

use rustix::io::Errno;

use super::Store;
use crate::catalog::journal::{Intent, Repair, plan_replay};
use crate::device::block;
use crate::error::{Error, Result};

/// Replays the journal of a class, and compares records with the storage.
///
/// # Errors
/// When a repair fails; the journal keeps the intent.
pub fn recover(store: &Store) -> Result<()> {
    let intents: Vec<Intent> = store.catalog.entries().intents.values().cloned().collect();
    for intent in intents {
        let repairs = {
            let entries = store.catalog.entries();
            plan_replay(&intent, &|kind, id| entries.is_recorded(kind, id))
        };
        tracing::info!(
            class = store.class.name,
            intent = intent.key(),
            repairs = repairs.len(),
            "repairing an interrupted operation"
        );
        for repair in &repairs {
            apply(store, repair)?;
        }
        store.catalog.finish(&intent)?;
    }
    compare(store)
}

/// Carries out one repair.
fn apply(store: &Store, repair: &Repair) -> Result<()> {
    match repair {
        Repair::Thaw(path) => thaw(path),
        Repair::RemoveVolume(record) => store.backend.delete(record),
        Repair::RemoveVolumeRecord(id) => store.catalog.remove_volume(id),
        Repair::Expand(id, bytes) => {
            let found = store.catalog.entries().volumes.get(id).cloned();
            let Some(mut record) = found else {
                return Ok(());
            };
            store.backend.expand(&record, *bytes)?;
            record.bytes = record.bytes.max(*bytes);
            store.catalog.put_volume(record)
        }
        Repair::RemoveSnapshot(id) => store.backend.delete_snapshot(id),
        Repair::RemoveSnapshotRecord(id) => store.catalog.remove_snapshot(id),
        Repair::RemoveGroupRecord(id) => store.catalog.remove_group(id),
    }
}

/// Thaws a file system; one that is not frozen, or missing, is left alone.
pub(super) fn thaw(path: &Path) -> Result<()> {
    let Ok(folder) = File::open(path) else {
        return Ok(());
    };
    match block::thaw(&folder) {
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(error) => Err(Error::sys("thaw", path)(error)),
    }
}

/// Reports volumes without data and data without a volume. Neither is touched:
/// a disk may come back, and data may be all that is left of a lost record.
fn compare(store: &Store) -> Result<()> {
    let inventory = store.backend.list()?;
    let entries = store.catalog.entries().clone();
    let class = &store.class.name;
    for record in entries.volumes.values() {
        if store.backend.usage(record).is_err() {
            tracing::error!(
                class,
                volume = record.id,
                "the data of a recorded volume is missing"
            );
        }
    }
    for id in inventory
        .volumes
        .iter()
        .filter(|id| !entries.volumes.contains_key(*id))
    {
        tracing::warn!(
            class,
            volume = id,
            "data of an unrecorded volume is left alone"
        );
    }
    for id in inventory
        .snapshots
        .iter()
        .filter(|id| !entries.snapshots.contains_key(*id))
    {
        tracing::warn!(
            class,
            snapshot = id,
            "data of an unrecorded snapshot is left alone"
        );
    }
    Ok(())
}
