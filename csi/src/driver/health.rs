//! Health of volumes and of classes.

use super::{Driver, Store};
use crate::catalog::record::VolumeRecord;
use crate::error::Result;
use crate::filesystem::mounts::{Mount, MountTable};

/// Share of a class's storage from which on it counts as nearly full, in percent.
const NEARLY_FULL_PERCENT: u64 = 95;

/// Kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// The volume works, and will not for long.
    Degraded,
    /// The volume cannot be written or read at present.
    Inaccessible,
    /// The data is lost.
    DataLoss,
}

/// Something that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// One word in CamelCase.
    pub reason: &'static str,
    /// The problem, and the way out.
    pub message: String,
}

impl Driver {
    /// Examines a volume.
    ///
    /// # Errors
    /// When there is no such volume.
    pub fn volume_health(&self, id: &str) -> Result<Vec<Finding>> {
        let (store, record) = self.volume(id)?;
        Ok(examine(&store, &record))
    }

    /// Examines all volumes.
    #[must_use]
    pub fn all_health(&self) -> Vec<(String, Vec<Finding>)> {
        let mut all = Vec::new();
        for store in self.stores() {
            let records: Vec<VolumeRecord> =
                store.catalog.entries().volumes.values().cloned().collect();
            for record in records {
                let findings = examine(&store, &record);
                all.push((record.id, findings));
            }
        }
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }

    /// Examines the classes.
    #[must_use]
    pub fn storage_health(&self) -> Vec<(String, Finding)> {
        let mut found = Vec::new();
        for class in &self.classes {
            let name = class.config.name.clone();
            match self.store(class) {
                Err(error) => found.push((
                    name,
                    Finding {
                        severity: Severity::Inaccessible,
                        reason: "ClassUnavailable",
                        message: error.chain(),
                    },
                )),
                Ok(store) => found.extend(nearly_full(&store).map(|finding| (name, finding))),
            }
        }
        found
    }
}

fn examine(store: &Store, record: &VolumeRecord) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Err(error) = store.backend.usage(record) {
        findings.push(Finding {
            severity: Severity::DataLoss,
            reason: "DataMissing",
            message: format!(
                "{}: bring the disk back, or restore a snapshot",
                error.chain()
            ),
        });
        return findings;
    }
    let table = MountTable::read().unwrap_or_default();
    let mounts = store.mounts(record, &table).unwrap_or_default();
    findings.extend(read_only(&mounts));
    findings.extend(nearly_full(store));
    findings
}

/// Detects a file system error: it is read-only while one of its mounts is not.
fn read_only(mounts: &[Mount]) -> Option<Finding> {
    let broken = mounts
        .iter()
        .find(|it| it.is_super_read_only() && !it.is_read_only())?;
    Some(Finding {
        severity: Severity::Inaccessible,
        reason: "FilesystemReadOnly",
        message: format!(
            "the file system at `{}` became read-only after an error: see the kernel's log, and delete the pod to have it checked",
            broken.target.display()
        ),
    })
}

/// Thin volumes stop when their class is full.
fn nearly_full(store: &Store) -> Option<Finding> {
    let space = store.space().ok()?;
    let full = space.total > 0 && space.used >= space.total / 100 * NEARLY_FULL_PERCENT;
    (full && space.available == 0).then(|| Finding {
        severity: Severity::Degraded,
        reason: "ClassNearlyFull",
        message: format!(
            "class `{}` has {} of {} bytes in use: delete snapshots or volumes, or add space",
            store.class.name, space.used, space.total
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_that_became_read_only_is_found() {
        let table = MountTable::parse(
            "1 1 7:3 / /a rw - ext4 /dev/loop3 ro,errors=remount-ro\n\
             2 1 7:4 / /b ro - ext4 /dev/loop4 ro\n\
             3 1 7:5 / /c rw - ext4 /dev/loop5 rw\n",
        );
        let mount = |path: &str| vec![table.at(path.as_ref()).unwrap().clone()];
        assert_eq!(
            read_only(&mount("/a")).unwrap().reason,
            "FilesystemReadOnly"
        );
        assert_eq!(read_only(&mount("/b")), None);
        assert_eq!(read_only(&mount("/c")), None);
    }
}
