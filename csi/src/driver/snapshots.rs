//! Snapshots.

use std::sync::Arc;

use super::{Driver, Store, now, optional};
use crate::backend::{Extent, unsupported};
use crate::catalog::journal::Intent;
use crate::catalog::record::{SnapshotRecord, VolumeRecord};
use crate::error::{Error, Result};
use crate::ids;
use crate::steps::Step;

impl Driver {
    /// Takes a snapshot; one that exists of the same volume is returned.
    ///
    /// # Errors
    /// When it exists of another volume, or cannot be taken.
    pub fn create_snapshot(&self, name: &str, source: &str) -> Result<SnapshotRecord> {
        let id = ids::for_name(name);
        let _held = self.busy.change("snapshot", &id)?;
        if let Some((_, record)) = optional(self.snapshot(&id))? {
            if record.source == source {
                return Ok(record);
            }
            return Err(Error::Incompatible {
                kind: "snapshot",
                name: name.to_owned(),
                difference: format!("source volume `{}`", record.source),
            });
        }
        let _source_held = self.busy.read("volume", source)?;
        let (store, volume) = self.volume(source)?;
        check_snapshots(&store)?;
        let record = draft(&id, name, &volume, None);
        let intent = Intent::CreateSnapshot {
            record: record.clone(),
        };
        store.catalog.begin(intent.clone(), |_| Ok(()))?;
        self.environment.steps.reached(Step::IntentWritten, &id);
        let made = self.prepare_copy(&store, &volume).and_then(|live| {
            store.backend.snapshot(&volume, &record, live)?;
            store.catalog.put_snapshot(record.clone())
        });
        if let Err(error) = made {
            if store.backend.delete_snapshot(&id).is_ok() {
                store.catalog.finish(&intent)?;
            }
            return Err(error);
        }
        self.environment.steps.reached(Step::RecordWritten, &id);
        store.catalog.finish(&intent)?;
        self.environment.steps.reached(Step::IntentRemoved, &id);
        tracing::info!(snapshot = id, volume = source, "snapshot created");
        Ok(record)
    }

    /// Deletes a snapshot; one that does not exist is deleted already.
    ///
    /// # Errors
    /// When it belongs to a group, or the backend fails.
    pub fn delete_snapshot(&self, id: &str) -> Result<()> {
        let _held = self.busy.change("snapshot", id)?;
        let Some((store, record)) = optional(self.snapshot(id))? else {
            return Ok(());
        };
        if let Some(group) = record.group {
            return Err(Error::InUse {
                kind: "snapshot",
                id: id.to_owned(),
                usage: format!("by group snapshot `{group}`: delete the group"),
            });
        }
        let intent = Intent::DeleteSnapshot { id: id.to_owned() };
        store.catalog.begin(intent.clone(), |_| Ok(()))?;
        self.environment.steps.reached(Step::IntentWritten, id);
        store.backend.delete_snapshot(id)?;
        store.catalog.remove_snapshot(id)?;
        self.environment.steps.reached(Step::RecordWritten, id);
        store.catalog.finish(&intent)?;
        self.environment.steps.reached(Step::IntentRemoved, id);
        tracing::info!(snapshot = id, "snapshot deleted");
        Ok(())
    }

    /// Returns the size of a snapshot, and the ranges that hold data, or with
    /// `base` those that may differ from that older snapshot.
    ///
    /// # Errors
    /// When a snapshot does not exist, or the backend does not know.
    pub fn snapshot_blocks(&self, id: &str, base: Option<&str>) -> Result<(u64, Vec<Extent>)> {
        let _held = self.busy.read("snapshot", id)?;
        let (store, record) = self.snapshot(id)?;
        let _base_held = base
            .map(|base| self.busy.read("snapshot", base))
            .transpose()?;
        if let Some(base) = base {
            let (_, older) = self.snapshot(base)?;
            if older.source != record.source {
                let expected = format!("a snapshot of volume `{}`", record.source);
                return Err(Error::invalid("base_snapshot_id", base, expected));
            }
        }
        let blocks = store.backend.blocks(id, base)?.ok_or_else(|| {
            let what = "tell which blocks changed";
            let instead = "copy the whole snapshot";
            unsupported(&store.class.name, store.class.backend, what, instead)
        })?;
        Ok((record.bytes, blocks))
    }
}

/// Makes the record of a new snapshot.
pub(super) fn draft(
    id: &str,
    name: &str,
    volume: &VolumeRecord,
    group: Option<&str>,
) -> SnapshotRecord {
    SnapshotRecord {
        id: id.to_owned(),
        name: name.to_owned(),
        source: volume.id.clone(),
        bytes: volume.bytes,
        content: volume.content,
        group: group.map(str::to_owned),
        created: now(),
    }
}

pub(super) fn check_snapshots(store: &Arc<Store>) -> Result<()> {
    if store.backend.features().snapshots {
        return Ok(());
    }
    let instead = "use a class of another backend";
    Err(unsupported(
        &store.class.name,
        store.class.backend,
        "take snapshots",
        instead,
    ))
}
