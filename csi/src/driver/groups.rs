//! Consistent snapshots of several volumes.
//!
//! The file systems are frozen meanwhile. The journal names them, so that a restart thaws
//! them after a crash.

use std::collections::BTreeSet;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use super::snapshots::draft;
use super::{Driver, Store, now, optional, recover};
use crate::backend::unsupported;
use crate::catalog::journal::Intent;
use crate::catalog::record::{GroupRecord, SnapshotRecord, VolumeRecord};
use crate::device::block;
use crate::error::{Error, Result};
use crate::filesystem::mounts::MountTable;
use crate::ids;
use crate::steps::Step;

/// Thaws file systems when it is dropped.
struct Frozen(Vec<PathBuf>);

impl Drop for Frozen {
    fn drop(&mut self) {
        for path in &self.0 {
            if let Err(error) = recover::thaw(path) {
                let path = path.display();
                tracing::error!(%path, error = error.chain(), "failed to thaw a file system");
            }
        }
    }
}

impl Driver {
    /// Finds a group of snapshots.
    ///
    /// # Errors
    /// When there is none.
    pub fn group(&self, id: &str) -> Result<(Arc<Store>, GroupRecord, Vec<SnapshotRecord>)> {
        let (store, group) = self.find("group snapshot", id, |store| {
            store.catalog.entries().groups.get(id).cloned()
        })?;
        let entries = store.catalog.entries().clone();
        let members = group
            .snapshots
            .iter()
            .filter_map(|id| entries.snapshots.get(id).cloned());
        let members = members.collect();
        Ok((store, group, members))
    }

    /// Takes snapshots of volumes of one class at one moment.
    ///
    /// # Errors
    /// When a group of that name exists of other volumes, the volumes are of
    /// several classes, or their backend cannot.
    pub fn create_group(
        &self,
        name: &str,
        sources: &[String],
    ) -> Result<(GroupRecord, Vec<SnapshotRecord>)> {
        let id = ids::for_name(name);
        let _held = self.busy.change("group", &id)?;
        let wanted: BTreeSet<&str> = sources.iter().map(String::as_str).collect();
        if let Some((_, group, members)) = optional(self.group(&id))? {
            let has: BTreeSet<&str> = members.iter().map(|it| it.source.as_str()).collect();
            if has == wanted {
                return Ok((group, members));
            }
            return Err(Error::Incompatible {
                kind: "group snapshot",
                name: name.to_owned(),
                difference: "other source volumes".to_owned(),
            });
        }
        let mut volumes = Vec::new();
        let mut held = Vec::new();
        let mut class: Option<Arc<Store>> = None;
        for source in wanted {
            held.push(self.busy.read("volume", source)?);
            let (store, volume) = self.volume(source)?;
            if class
                .as_ref()
                .is_some_and(|it| it.class.name != store.class.name)
            {
                return Err(Error::Precondition {
                    id: source.to_owned(),
                    reason: "the volumes of a group are of one class".to_owned(),
                });
            }
            class = Some(store);
            volumes.push(volume);
        }
        let store = class.ok_or(Error::Missing {
            field: "source_volume_ids",
        })?;
        if !store.backend.features().groups {
            let instead = "take single snapshots, or use a class whose backend can";
            let what = "take snapshots at one moment";
            return Err(unsupported(
                &store.class.name,
                store.class.backend,
                what,
                instead,
            ));
        }
        self.take_group(&store, &id, name, &volumes)
    }

    fn take_group(
        &self,
        store: &Store,
        id: &str,
        name: &str,
        volumes: &[VolumeRecord],
    ) -> Result<(GroupRecord, Vec<SnapshotRecord>)> {
        let snapshots: Vec<SnapshotRecord> = volumes
            .iter()
            .map(|volume| {
                let name = format!("{name}/{}", volume.id);
                draft(&ids::for_name(&name), &name, volume, Some(id))
            })
            .collect();
        let group = GroupRecord {
            id: id.to_owned(),
            name: name.to_owned(),
            snapshots: snapshots.iter().map(|it| it.id.clone()).collect(),
            created: now(),
        };
        let table = MountTable::read()?;
        let mut frozen = Vec::new();
        for volume in volumes.iter().filter(|it| !it.block) {
            let mounts = store.mounts(volume, &table)?;
            frozen.extend(mounts.first().map(|mount| mount.target.clone()));
        }
        let intent = Intent::CreateGroup {
            group: group.clone(),
            snapshots: snapshots.clone(),
            frozen: frozen.clone(),
        };
        store.catalog.begin(intent.clone(), |_| Ok(()))?;
        self.environment.steps.reached(Step::IntentWritten, id);
        let taken = self.freeze(&frozen, id).and_then(|guard| {
            for (volume, snapshot) in volumes.iter().zip(&snapshots) {
                let live = store.backend.attached(volume)?.is_some();
                store.backend.snapshot(volume, snapshot, live)?;
            }
            drop(guard);
            for snapshot in &snapshots {
                store.catalog.put_snapshot(snapshot.clone())?;
            }
            store.catalog.put_group(group.clone())
        });
        if let Err(error) = taken {
            let mut removed = true;
            for snapshot in &snapshots {
                removed &= store.backend.delete_snapshot(&snapshot.id).is_ok()
                    && store.catalog.remove_snapshot(&snapshot.id).is_ok();
            }
            if removed {
                store.catalog.finish(&intent)?;
            }
            return Err(error);
        }
        self.environment.steps.reached(Step::RecordWritten, id);
        store.catalog.finish(&intent)?;
        self.environment.steps.reached(Step::IntentRemoved, id);
        Ok((group, snapshots))
    }

    fn freeze(&self, paths: &[PathBuf], id: &str) -> Result<Frozen> {
        let mut guard = Frozen(Vec::new());
        for path in paths {
            let folder = File::open(path).map_err(Error::io("open", path))?;
            block::freeze(&folder).map_err(Error::sys("freeze", path))?;
            guard.0.push(path.clone());
        }
        self.environment.steps.reached(Step::Frozen, id);
        Ok(guard)
    }

    /// Deletes a group with its snapshots; one that does not exist is deleted
    /// already.
    ///
    /// # Errors
    /// When `snapshots` names others than the group's.
    pub fn delete_group(&self, id: &str, snapshots: &[String]) -> Result<()> {
        let _held = self.busy.change("group", id)?;
        let Some((store, group, _)) = optional(self.group(id))? else {
            return Ok(());
        };
        check_members(&group, snapshots)?;
        let intent = Intent::DeleteGroup {
            group: group.clone(),
        };
        store.catalog.begin(intent.clone(), |_| Ok(()))?;
        self.environment.steps.reached(Step::IntentWritten, id);
        for snapshot in &group.snapshots {
            store.backend.delete_snapshot(snapshot)?;
            store.catalog.remove_snapshot(snapshot)?;
        }
        store.catalog.remove_group(id)?;
        self.environment.steps.reached(Step::RecordWritten, id);
        store.catalog.finish(&intent)?;
        self.environment.steps.reached(Step::IntentRemoved, id);
        Ok(())
    }
}

/// Checks that a request names only snapshots of a group.
///
/// # Errors
/// Names the first that belongs to another.
pub fn check_members(group: &GroupRecord, snapshots: &[String]) -> Result<()> {
    match snapshots.iter().find(|id| !group.snapshots.contains(id)) {
        None => Ok(()),
        Some(other) => {
            let expected = format!(
                "group snapshot `{}` has {}",
                group.id,
                group.snapshots.join(", ")
            );
            Err(Error::invalid("snapshot_ids", other, expected))
        }
    }
}
