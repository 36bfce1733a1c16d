//! What this agent changed on the machine outside of its own files, recorded
//! before each change, so that a clean-up undoes these changes and no others.
//!
//! The record lies below `/run`: like the settings and mounts that it names, it
//! ends with the machine's run.

use std::{
    collections::BTreeSet,
    fs, io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::{Error, services::local_api};

/// A record of the changes made to this machine.
#[derive(Clone, Debug)]
pub struct HostChanges {
    path: PathBuf,
}

/// The recorded changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RecordedChanges {
    /// Ports that the agent added to `net.ipv4.ip_local_reserved_ports`. Those that were
    /// reserved before are not among them.
    pub reserved_ports: BTreeSet<u16>,
    /// Where the agent mounted a BPF filesystem because there was none.
    pub mounts: BTreeSet<PathBuf>,
}

// === impl HostChanges ===

impl HostChanges {
    /// The record of the agent whose maps are pinned there.
    pub fn at(pin_dir: &Path) -> Self {
        Self {
            path: local_api::socket(pin_dir).with_extension("changes.json"),
        }
    }

    /// Reads the record; `None` if no agent made one.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn read(&self) -> Result<Option<RecordedChanges>, Error> {
        let failed = |source| Error::file("read", &self.path)(source);
        match fs::read(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error)),
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|error| failed(error.into())),
        }
    }

    /// Adds to the record what is about to be changed. The change itself is more
    /// important: a record that cannot be written is only logged.
    pub fn record(&self, add: impl FnOnce(&mut RecordedChanges)) {
        let written = self.read().and_then(|former| {
            let mut changes = former.clone().unwrap_or_default();
            add(&mut changes);
            if former.as_ref() == Some(&changes) {
                return Ok(());
            }
            self.write(&changes)
                .map_err(Error::file("write", &self.path))
        });
        if let Err(error) = written {
            warn!(
                error = &error as &dyn std::error::Error,
                "failed to record a change of the host; uninstall will not undo it"
            );
        }
    }

    /// Removes the record, once all is undone.
    ///
    /// # Errors
    /// [`Error::File`].
    pub fn forget(&self) -> Result<(), Error> {
        local_api::remove_at(&self.path).map_err(Error::file("remove", &self.path))
    }

    fn write(&self, changes: &RecordedChanges) -> io::Result<()> {
        if let Some(folder) = self.path.parent() {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(folder)?;
        }
        let new = self.path.with_extension("new");
        fs::write(&new, serde_json::to_vec(changes)?)?;
        fs::rename(&new, &self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_add_up_over_restarts_until_they_are_forgotten() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let record = HostChanges {
            path: folder.path().join("run/orlop/pins.changes.json"),
        };
        assert_eq!(record.read().expect("none"), None);
        record.record(|_| {});
        assert_eq!(
            record.read().expect("one"),
            Some(RecordedChanges::default())
        );
        record.record(|it| it.reserved_ports.extend([61_000, 61_001]));
        record.record(|it| {
            it.mounts.insert("/sys/fs/bpf".into());
        });
        let changes = record.read().expect("read").expect("a record");
        assert_eq!(changes.reserved_ports.len(), 2);
        assert_eq!(changes.mounts.len(), 1);
        record.forget().expect("removed");
        record.forget().expect("twice");
        assert_eq!(record.read().expect("none"), None);
    }

    #[test]
    fn a_broken_record_is_an_error_that_names_it() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("pins.changes.json");
        fs::write(&path, "}{").expect("written");
        let record = HostChanges { path };
        let error = record.read().expect_err("broken").to_string();
        assert!(error.contains("pins.changes.json"), "{error}");
    }
}
