//! The intent journal: operations record their intent before they change anything, and a
//! restart replays or rolls back the intents that it finds.
//!
//! There is one rule: a volume or snapshot exists when its record does. A creation
//! without a record is rolled back, since its caller has no answer and may never ask
//! again; with a record it is complete. A deletion and a growth are rolled forward.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::record::{GroupRecord, SnapshotRecord, VolumeRecord};

/// An operation that has begun.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "operation", rename_all = "camelCase")]
pub enum Intent {
    /// Creates a volume.
    CreateVolume {
        /// Record that it gets.
        record: Box<VolumeRecord>,
    },
    /// Deletes a volume.
    DeleteVolume {
        /// Record that it had.
        record: Box<VolumeRecord>,
    },
    /// Grows a volume.
    ExpandVolume {
        /// Identifier.
        id: String,
        /// New size in bytes.
        bytes: u64,
    },
    /// Creates a snapshot.
    CreateSnapshot {
        /// Record that it gets.
        record: SnapshotRecord,
    },
    /// Deletes a snapshot.
    DeleteSnapshot {
        /// Identifier.
        id: String,
    },
    /// Creates snapshots of several volumes at one moment.
    CreateGroup {
        /// Record that the group gets.
        group: GroupRecord,
        /// Records that its snapshots get.
        snapshots: Vec<SnapshotRecord>,
        /// Mount points of file systems that are frozen meanwhile.
        frozen: Vec<PathBuf>,
    },
    /// Deletes a group and its snapshots.
    DeleteGroup {
        /// Record that the group had.
        group: GroupRecord,
    },
}

impl Intent {
    /// Returns the name of the journal's file for the intent, unique among concurrent
    /// intents.
    #[must_use]
    pub fn key(&self) -> String {
        match self {
            Self::CreateVolume { record } | Self::DeleteVolume { record } => {
                format!("volume-{}", record.id)
            }
            Self::ExpandVolume { id, .. } => format!("volume-{id}"),
            Self::CreateSnapshot { record } => format!("snapshot-{}", record.id),
            Self::DeleteSnapshot { id } => format!("snapshot-{id}"),
            Self::CreateGroup { group, .. } | Self::DeleteGroup { group } => {
                format!("group-{}", group.id)
            }
        }
    }
}

/// Something that a restart has to do; each can be done twice.
#[derive(Clone, Debug, PartialEq)]
pub enum Repair {
    /// Thaws the file system mounted at a path.
    Thaw(PathBuf),
    /// Removes a volume from the backend.
    RemoveVolume(Box<VolumeRecord>),
    /// Removes the record of a volume.
    RemoveVolumeRecord(String),
    /// Grows a volume in the backend and in its record.
    Expand(String, u64),
    /// Removes a snapshot from the backend.
    RemoveSnapshot(String),
    /// Removes the record of a snapshot.
    RemoveSnapshotRecord(String),
    /// Removes the record of a group.
    RemoveGroupRecord(String),
}

/// Plans the replay of an intent, given the existing records.
#[must_use]
pub fn plan_replay(intent: &Intent, recorded: &dyn Fn(Kind, &str) -> bool) -> Vec<Repair> {
    let drop_snapshot = |id: &String| {
        [
            Repair::RemoveSnapshot(id.clone()),
            Repair::RemoveSnapshotRecord(id.clone()),
        ]
    };
    match intent {
        Intent::CreateVolume { record } if recorded(Kind::Volume, &record.id) => Vec::new(),
        Intent::CreateVolume { record } => vec![Repair::RemoveVolume(record.clone())],
        Intent::DeleteVolume { record } => vec![
            Repair::RemoveVolume(record.clone()),
            Repair::RemoveVolumeRecord(record.id.clone()),
        ],
        Intent::ExpandVolume { id, bytes } if recorded(Kind::Volume, id) => {
            vec![Repair::Expand(id.clone(), *bytes)]
        }
        Intent::ExpandVolume { .. } => Vec::new(),
        Intent::CreateSnapshot { record } if recorded(Kind::Snapshot, &record.id) => Vec::new(),
        Intent::CreateSnapshot { record } => vec![Repair::RemoveSnapshot(record.id.clone())],
        Intent::DeleteSnapshot { id } => drop_snapshot(id).into(),
        Intent::CreateGroup {
            group,
            snapshots,
            frozen,
        } => {
            let mut repairs: Vec<Repair> = frozen.iter().cloned().map(Repair::Thaw).collect();
            if !recorded(Kind::Group, &group.id) {
                repairs.extend(snapshots.iter().flat_map(|it| drop_snapshot(&it.id)));
            }
            repairs
        }
        Intent::DeleteGroup { group } => {
            let snapshots = group.snapshots.iter().flat_map(drop_snapshot);
            let last = Repair::RemoveGroupRecord(group.id.clone());
            snapshots.chain([last]).collect()
        }
    }
}

/// Kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A volume.
    Volume,
    /// A snapshot.
    Snapshot,
    /// A group of snapshots.
    Group,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(id: &str) -> SnapshotRecord {
        SnapshotRecord {
            id: id.to_owned(),
            name: id.to_owned(),
            source: "v".to_owned(),
            bytes: 1,
            content: Default::default(),
            group: None,
            created: 0,
        }
    }

    #[test]
    fn a_creation_without_a_record_is_rolled_back_and_one_with_a_record_is_kept() {
        let record = snapshot("s");
        let intent = Intent::CreateSnapshot { record };
        let lost = plan_replay(&intent, &|_, _| false);
        assert_eq!(lost, [Repair::RemoveSnapshot("s".to_owned())]);
        assert!(plan_replay(&intent, &|_, _| true).is_empty());
    }

    #[test]
    fn a_deletion_is_finished_whether_or_not_the_record_is_left() {
        let intent = Intent::DeleteSnapshot { id: "s".to_owned() };
        for recorded in [true, false] {
            let repairs = plan_replay(&intent, &|_, _| recorded);
            let wanted = [
                Repair::RemoveSnapshot("s".to_owned()),
                Repair::RemoveSnapshotRecord("s".to_owned()),
            ];
            assert_eq!(repairs, wanted);
        }
    }

    #[test]
    fn a_growth_of_a_volume_that_is_gone_is_dropped() {
        let id = "v".to_owned();
        let intent = Intent::ExpandVolume { id, bytes: 8 };
        assert!(plan_replay(&intent, &|_, _| false).is_empty());
        let repairs = plan_replay(&intent, &|_, _| true);
        assert_eq!(repairs, [Repair::Expand("v".to_owned(), 8)]);
    }

    #[test]
    fn file_systems_are_thawed_whatever_became_of_the_group() {
        let intent = Intent::CreateGroup {
            group: GroupRecord {
                id: "g".to_owned(),
                name: "g".to_owned(),
                snapshots: vec!["s".to_owned()],
                created: 0,
            },
            snapshots: vec![snapshot("s")],
            frozen: vec!["/mnt".into()],
        };
        let done = plan_replay(&intent, &|kind, _| kind == Kind::Group);
        assert_eq!(done, [Repair::Thaw("/mnt".into())]);
        let lost = plan_replay(&intent, &|_, _| false);
        assert_eq!(lost.len(), 3);
        assert_eq!(lost[0], Repair::Thaw("/mnt".into()));
    }
}
