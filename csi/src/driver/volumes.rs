//! Creating, deleting, growing and modifying volumes.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use super::{Driver, Store, now, optional};
use crate::backend::{CopySource, unsupported};
use crate::catalog::journal::Intent;
use crate::catalog::record::{Content, Origin, SnapshotRecord, VolumeRecord};
use crate::config::BackendKind;
use crate::device::luks;
use crate::error::{Error, Result};
use crate::filesystem::FsType;
use crate::filesystem::mounts::MountTable;
use crate::ids;
use crate::request::access::{Access, AccessKind};
use crate::request::io_limits::IoLimits;
use crate::request::size::{self, Bounds, Range};
use crate::steps::Step;

/// A volume that is wanted.
#[derive(Clone, Debug)]
pub struct NewVolume {
    /// Name, which identifies the request.
    pub name: String,
    /// Sizes that will do.
    pub range: Range,
    /// How it is going to be used.
    pub access: Vec<Access>,
    /// Class that is named.
    pub class: Option<String>,
    /// The source to copy.
    pub origin: Option<Origin>,
    /// IO limits and the like.
    pub mutable: BTreeMap<String, String>,
    /// The path at which an inline volume will be published.
    pub ephemeral: Option<PathBuf>,
}

impl NewVolume {
    fn is_block(&self) -> bool {
        self.access.iter().any(|it| it.kind == AccessKind::Block)
    }

    fn fs_type(&self) -> Option<FsType> {
        self.access.iter().find_map(Access::fs_type)
    }
}

/// A source that was found.
enum Source {
    Snapshot(SnapshotRecord),
    Volume(Box<VolumeRecord>),
}

impl Driver {
    /// Creates a volume; one that exists and meets the request is returned.
    ///
    /// # Errors
    /// When it exists and differs, or cannot be made.
    pub fn create_volume(&self, new: &NewVolume) -> Result<(Arc<Store>, VolumeRecord)> {
        let id = ids::for_name(&new.name);
        IoLimits::parse(&new.mutable)?;
        let _held = self.busy.change("volume", &id)?;
        if let Some((store, record)) = optional(self.volume(&id))? {
            check_same(new, &store, &record)?;
            return Ok((store, record));
        }
        let (_source_held, source) = self.resolve(new.origin.as_ref())?;
        let store = match &source {
            None => self.class(new.class.as_deref())?,
            Some((store, _)) => {
                let class = &store.class.name;
                if let Some(wanted) = new.class.as_ref().filter(|it| *it != class) {
                    let expected = format!("a copy stays in the class `{class}` of its source");
                    return Err(Error::invalid("parameters[class]", wanted, expected));
                }
                store.clone()
            }
        };
        check_access(new, &store)?;
        let source = source.map(|(_, source)| source);
        let record = self.draft(&id, new, &store, source.as_ref())?;
        let record = self.admit(&store, new, record)?;
        let intent = Intent::CreateVolume {
            record: Box::new(record.clone()),
        };
        let made = self.make(&store, &record, source.as_ref());
        if let Err(error) = made {
            // A failed attempt leaves nothing; if its cleanup fails too, the journal
            // makes a restart do it.
            if store.backend.delete(&record).is_ok() {
                store.catalog.finish(&intent)?;
            }
            return Err(error);
        }
        self.environment.steps.reached(Step::RecordWritten, &id);
        store.catalog.finish(&intent)?;
        self.environment.steps.reached(Step::IntentRemoved, &id);
        tracing::info!(
            volume = id,
            class = store.class.name,
            bytes = record.bytes,
            "volume created"
        );
        Ok((store, record))
    }

    fn resolve(
        &self,
        origin: Option<&Origin>,
    ) -> Result<(Option<super::busy::Guard>, Option<(Arc<Store>, Source)>)> {
        Ok(match origin {
            None => (None, None),
            Some(Origin::Snapshot(id)) => {
                let held = self.busy.read("snapshot", id)?;
                let (store, record) = self.snapshot(id).map_err(Self::elsewhere)?;
                (Some(held), Some((store, Source::Snapshot(record))))
            }
            Some(Origin::Volume(id)) => {
                let held = self.busy.read("volume", id)?;
                let (store, record) = self.volume(id)?;
                (Some(held), Some((store, Source::Volume(Box::new(record)))))
            }
        })
    }

    /// Turns "not found" into [`Error::SnapshotElsewhere`] for a snapshot of another node.
    fn elsewhere(error: Error) -> Error {
        let Error::NotFound { kind, id, node } = error else {
            return error;
        };
        match ids::node_of_snapshot(&id).map(str::to_owned) {
            Some(on) => Error::SnapshotElsewhere { id, on, node },
            None => Error::NotFound { kind, id, node },
        }
    }

    /// Makes the record of a new volume, without a place yet.
    fn draft(
        &self,
        id: &str,
        new: &NewVolume,
        store: &Store,
        source: Option<&Source>,
    ) -> Result<VolumeRecord> {
        let (content, floor) = match source {
            None => (Content::Blank, 0),
            Some(Source::Snapshot(record)) => (record.content, record.bytes),
            Some(Source::Volume(record)) => (record.content, record.bytes),
        };
        if let (Content::Filesystem(has), Some(wants)) = (content, new.fs_type())
            && has != wants
        {
            let expected = format!("the source holds {}", has.name());
            return Err(Error::invalid("fs_type", wants.name(), expected));
        }
        if (content == Content::Block) != new.is_block() && content != Content::Blank {
            let expected = "a copy is used as its source: as a device, or as a file system";
            return Err(Error::invalid(
                "volume_capabilities",
                "other than the source",
                expected,
            ));
        }
        let requested = match content {
            Content::Filesystem(has) => Some(has),
            _ => new.fs_type(),
        };
        let bounds = bounds(store, new.is_block(), requested);
        Ok(VolumeRecord {
            id: id.to_owned(),
            name: new.name.clone(),
            bytes: new.range.choose(id, bounds, floor)?,
            origin: new.origin.clone(),
            block: new.is_block(),
            requested,
            content,
            copied_identity: source.is_some() && matches!(content, Content::Filesystem(_)),
            filled: 0,
            mutable: new.mutable.clone(),
            ephemeral: new.ephemeral.clone(),
            device: None,
            created: now(),
        })
    }

    /// Reserves space and notes the intent, as one step.
    fn admit(
        &self,
        store: &Store,
        new: &NewVolume,
        mut record: VolumeRecord,
    ) -> Result<VolumeRecord> {
        let _admission = store.admission();
        let mut others = store.promised();
        // Space reserved by an earlier attempt is reserved for this one.
        others.retain(|it| it.id != record.id);
        let space = store.backend.space(&others)?;
        if record.bytes > space.largest {
            return Err(Error::NoSpace {
                class: store.class.name.clone(),
                id: record.id,
                wanted: record.bytes,
                available: space.largest,
            });
        }
        store.backend.place(&mut record, &others)?;
        if !new.range.contains(record.bytes) {
            return Err(Error::OutOfRange {
                id: record.id,
                reason: format!(
                    "the smallest free device has {} bytes, more than the limit {}",
                    record.bytes, new.range.limit
                ),
            });
        }
        let intent = Intent::CreateVolume {
            record: Box::new(record.clone()),
        };
        store.catalog.begin(intent, |_| Ok(()))?;
        self.environment
            .steps
            .reached(Step::IntentWritten, &record.id);
        Ok(record)
    }

    fn make(&self, store: &Store, record: &VolumeRecord, source: Option<&Source>) -> Result<()> {
        match source {
            None => store.backend.create(record, None)?,
            Some(Source::Snapshot(snapshot)) => {
                store
                    .backend
                    .create(record, Some(CopySource::Snapshot(snapshot)))?;
            }
            Some(Source::Volume(volume)) => {
                let live = self.prepare_copy(store, volume)?;
                let source = CopySource::Volume {
                    record: volume,
                    live,
                };
                store.backend.create(record, Some(source))?;
            }
        }
        store.catalog.put_volume(record.clone())
    }

    /// Writes a mounted volume's dirty pages back, and returns whether the
    /// volume may be written while it is copied.
    pub(super) fn prepare_copy(&self, store: &Store, record: &VolumeRecord) -> Result<bool> {
        let mounts = store.mounts(record, &MountTable::read()?)?;
        if let Some(mount) = mounts.first() {
            let folder = File::open(&mount.target).map_err(Error::io("open", &mount.target))?;
            rustix::fs::syncfs(&folder).map_err(Error::sys("sync", &mount.target))?;
        }
        if !store.backend.features().devices {
            return Ok(!mounts.is_empty());
        }
        Ok(store.backend.attached(record)?.is_some())
    }

    /// Deletes a volume; one that does not exist is deleted already.
    ///
    /// # Errors
    /// When it is mounted, or snapshots depend on it.
    pub fn delete_volume(&self, id: &str) -> Result<()> {
        let _held = self.busy.change("volume", id)?;
        let Some((store, record)) = optional(self.volume(id))? else {
            return Ok(());
        };
        let mounts = store.mounts(&record, &MountTable::read()?)?;
        if let Some(mount) = mounts.first() {
            return Err(Error::InUse {
                kind: "volume",
                id: id.to_owned(),
                usage: format!(
                    "at `{}`: delete the pods that use it",
                    mount.target.display()
                ),
            });
        }
        check_no_snapshots(&store, id)?;
        let intent = Intent::DeleteVolume {
            record: Box::new(record.clone()),
        };
        store.catalog.begin(intent.clone(), |_| Ok(()))?;
        self.environment.steps.reached(Step::IntentWritten, id);
        if store.is_encrypted() {
            luks::close(&*self.environment.tools, id)?;
        }
        store.backend.detach(&record)?;
        store.backend.delete(&record)?;
        store.catalog.remove_volume(id)?;
        self.environment.steps.reached(Step::RecordWritten, id);
        store.catalog.finish(&intent)?;
        self.environment.steps.reached(Step::IntentRemoved, id);
        tracing::info!(volume = id, class = store.class.name, "volume deleted");
        Ok(())
    }

    /// Grows a volume, and returns it, with whether its node has to grow its contents.
    ///
    /// # Errors
    /// When there is no such volume, or no space.
    pub fn expand_volume(&self, id: &str, range: Range) -> Result<(VolumeRecord, bool)> {
        let _held = self.busy.change("volume", id)?;
        let (store, mut record) = self.volume(id)?;
        let features = store.backend.features();
        let on_node = features.devices && (!record.block || store.is_encrypted());
        let bounds = bounds(&store, record.block, record.requested);
        let bytes = if range.contains(record.bytes) {
            record.bytes
        } else if record.bytes > range.limit && range.limit != 0 {
            return Err(Error::OutOfRange {
                id: id.to_owned(),
                reason: format!("it has {} bytes, and volumes do not shrink", record.bytes),
            });
        } else {
            range.choose(id, bounds, record.bytes)?
        };
        if bytes <= record.bytes {
            return Ok((record, on_node));
        }
        if !features.expansion {
            let instead = "create a larger volume and copy the data";
            return Err(unsupported(
                &store.class.name,
                store.class.backend,
                "grow volumes",
                instead,
            ));
        }
        check_no_snapshots(&store, id)?;
        let intent = Intent::ExpandVolume {
            id: id.to_owned(),
            bytes,
        };
        {
            let _admission = store.admission();
            let space = store.space()?;
            let wanted = bytes - record.bytes;
            if wanted > space.available {
                return Err(Error::NoSpace {
                    class: store.class.name.clone(),
                    id: id.to_owned(),
                    wanted,
                    available: space.available,
                });
            }
            store.catalog.begin(intent.clone(), |_| Ok(()))?;
        }
        self.environment.steps.reached(Step::IntentWritten, id);
        if let Err(error) = store.backend.expand(&record, bytes) {
            // Whatever was added does no harm, and the next attempt uses it.
            store.catalog.finish(&intent)?;
            return Err(error);
        }
        record.bytes = bytes;
        store.catalog.put_volume(record.clone())?;
        self.environment.steps.reached(Step::RecordWritten, id);
        store.catalog.finish(&intent)?;
        self.environment.steps.reached(Step::IntentRemoved, id);
        tracing::info!(volume = id, bytes, "volume expanded");
        Ok((record, on_node))
    }

    /// Changes parameters of a volume; others stay.
    ///
    /// # Errors
    /// When there is no such volume or parameter, or the backend cannot limit single
    /// volumes.
    pub fn modify_volume(&self, id: &str, changes: &BTreeMap<String, String>) -> Result<()> {
        let _held = self.busy.change("volume", id)?;
        let (store, mut record) = self.volume(id)?;
        check_mutable(changes, &store)?;
        record.mutable.extend(changes.clone());
        let limits = IoLimits::parse(&record.mutable)?;
        store.catalog.put_volume(record.clone())?;
        self.limit_everywhere(&store, &record, limits)
    }
}

/// Thick snapshots of LVM are removed with their volume, and block its growth.
fn check_no_snapshots(store: &Store, id: &str) -> Result<()> {
    if store.class.backend != BackendKind::Lvm {
        return Ok(());
    }
    let entries = store.catalog.entries();
    match entries.snapshots.values().find(|it| it.source == id) {
        None => Ok(()),
        Some(snapshot) => Err(Error::InUse {
            kind: "volume",
            id: id.to_owned(),
            usage: format!("by snapshot `{}`: delete the snapshot first", snapshot.id),
        }),
    }
}

fn check_mutable(changes: &BTreeMap<String, String>, store: &Store) -> Result<()> {
    let limits = IoLimits::parse(changes)?;
    if limits.is_unlimited() || store.backend.features().devices {
        return Ok(());
    }
    let expected = format!(
        "volumes of class `{}` ({}) share a device and cannot be limited one by one",
        store.class.name,
        store.class.backend.name()
    );
    Err(Error::invalid("mutable_parameters", "IO limits", expected))
}

/// Checks that the backend supports the request.
fn check_access(new: &NewVolume, store: &Store) -> Result<()> {
    let features = store.backend.features();
    check_mutable(&new.mutable, store)?;
    if new.origin.is_some() && !(features.snapshots && features.clones) {
        let instead = "use a class of another backend";
        return Err(unsupported(
            &store.class.name,
            store.class.backend,
            "copy volumes",
            instead,
        ));
    }
    if features.devices {
        if let Some(fs_type) = new.fs_type() {
            for access in &new.access {
                if let AccessKind::Mount { options, .. } = &access.kind {
                    options.data(fs_type)?;
                }
            }
        }
        return Ok(());
    }
    let refuse = |value: &str, expected: &str| {
        let expected = format!(
            "volumes of class `{}` ({}) are folders: {expected}",
            store.class.name,
            store.class.backend.name()
        );
        Err(Error::invalid("volume_capabilities", value, expected))
    };
    if new.is_block() {
        return refuse(
            "block",
            "use `volumeMode: Filesystem`, or a class of another backend",
        );
    }
    let own = match store.class.backend {
        BackendKind::Btrfs => Some(FsType::Btrfs),
        BackendKind::XfsQuota => Some(FsType::Xfs),
        _ => None,
    };
    for access in &new.access {
        if let AccessKind::Mount { fs_type, options } = &access.kind {
            if fs_type.is_some() && *fs_type != own {
                return refuse(
                    fs_type.map_or("", FsType::name),
                    "leave the file system out",
                );
            }
            if options.has_data() {
                return refuse(
                    "mount_flags",
                    "mount their file system with the options instead",
                );
            }
        }
    }
    Ok(())
}

/// Checks that an existing volume matches the request.
fn check_same(new: &NewVolume, store: &Store, record: &VolumeRecord) -> Result<()> {
    let differs = |difference: String| {
        Err(Error::Incompatible {
            kind: "volume",
            name: new.name.clone(),
            difference,
        })
    };
    if !new.range.contains(record.bytes) {
        return differs(format!("{} bytes", record.bytes));
    }
    if record.origin != new.origin {
        return differs("another content source".to_owned());
    }
    if let Some(class) = new.class.as_ref().filter(|it| **it != store.class.name) {
        return differs(format!("class `{}` instead of `{class}`", store.class.name));
    }
    if record.block != new.is_block() {
        return differs("another access type".to_owned());
    }
    match (new.fs_type(), record.requested) {
        (Some(wanted), Some(has)) if wanted != has && !record.block => {
            differs(format!("file system {}", has.name()))
        }
        _ => Ok(()),
    }
}

/// Returns the possible sizes of a volume, which depend on its future contents, too.
pub(super) fn bounds(store: &Store, block: bool, requested: Option<FsType>) -> Bounds {
    let mut bounds = store.backend.bounds();
    if store.backend.features().devices && !block {
        let fs_type = requested.or(store.class.filesystem).unwrap_or(FsType::Ext4);
        bounds.minimum = bounds.minimum.max(size::filesystem_minimum(Some(fs_type)));
    }
    if store.is_encrypted() {
        bounds.minimum += luks::HEADER_BYTES;
    }
    bounds
}
