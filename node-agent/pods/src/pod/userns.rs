//! User namespaces (KEP-127): a pod with `hostUsers: false` gets a range of the
//! node's user and group ids for its own, in which its root is nobody to the
//! node.
//!
//! The range is kept in the pod's folder, in the kubelet's file `userns`, and is
//! free again when that is gone; nothing else is remembered. Ranges follow each
//! other from 65536 on, as many as the node may have pods.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use node_agent_cri::api::{IdMapping, NamespaceMode, UserNamespace};
use node_agent_files::{atomic_file, blocking, read_to_string};
use serde::{Deserialize, Serialize};

/// Ids that a pod gets; an image has no others.
const LENGTH: u32 = 65_536;

const FILE: &str = "userns";

/// Longest such file that is read.
const FILE_MOST: u64 = 64 << 10;

/// Why a pod gets no range of user ids.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// All are taken.
    #[error("could not find an empty slot to allocate a user namespace")]
    Full,
    /// What was kept of a pod's is no range.
    #[error("invalid user namespace mappings file `{}`; delete the pod", .0.display())]
    Kept(PathBuf),
    /// It cannot be kept.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mappings {
    uid_mappings: Vec<Mapping>,
    gid_mappings: Vec<Mapping>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Mapping {
    host_id: u32,
    container_id: u32,
    length: u32,
}

impl Mappings {
    fn of(first: u32) -> Self {
        let mapping = Mapping {
            host_id: first,
            container_id: 0,
            length: LENGTH,
        };
        Self {
            uid_mappings: vec![mapping],
            gid_mappings: vec![mapping],
        }
    }

    /// The first id, if it is a range that could have been given.
    fn first(&self) -> Option<u32> {
        let first = self.uid_mappings.first()?.host_id;
        let sound = *self == Self::of(first) && first >= LENGTH && first.is_multiple_of(LENGTH);
        sound.then_some(first)
    }
}

/// The ranges of user ids on the node.
#[derive(Debug)]
pub struct IdRanges {
    pods: PathBuf,
    most: u32,
    turn: Mutex<()>,
}

impl IdRanges {
    /// Ranges for as many pods, whose folders are below the agent's.
    #[must_use]
    pub fn new(root: &Path, most: u32) -> Self {
        Self {
            pods: root.join("pods"),
            most: most.min(u32::MAX / LENGTH - 1),
            turn: Mutex::default(),
        }
    }

    fn file(&self, uid: &str) -> PathBuf {
        self.pods.join(uid).join(FILE)
    }

    /// The range that the pod has; none when it has none.
    ///
    /// # Errors
    /// When what was kept cannot be read: another range would make its files
    /// somebody else's.
    pub fn range_of_pod(&self, uid: &str) -> Result<Option<UserNamespace>, Error> {
        let path = self.file(uid);
        let Ok(text) = read_to_string(&path, FILE_MOST) else {
            return Ok(None);
        };
        let first = serde_json::from_str::<Mappings>(&text)
            .ok()
            .and_then(|kept| kept.first());
        first
            .map(|first| Some(namespace(first)))
            .ok_or(Error::Kept(path))
    }

    /// The range that the pod has, or a free one.
    ///
    /// # Errors
    /// When there is none, or it cannot be kept.
    pub fn take(&self, uid: &str) -> Result<UserNamespace, Error> {
        let _turn = blocking::lock(&self.turn);
        if let Some(kept) = self.range_of_pod(uid)? {
            return Ok(kept);
        }
        let first = free(&self.taken(), self.most).ok_or(Error::Full)?;
        let path = self.file(uid);
        let text = serde_json::to_string(&Mappings::of(first)).unwrap_or_default();
        atomic_file::write(&path, &text).map_err(|source| Error::Write { path, source })?;
        Ok(namespace(first))
    }

    fn taken(&self) -> BTreeSet<u32> {
        let Ok(entries) = fs::read_dir(&self.pods) else {
            return BTreeSet::new();
        };
        entries
            .flatten()
            .filter_map(|entry| {
                let text = read_to_string(&entry.path().join(FILE), FILE_MOST).ok()?;
                serde_json::from_str::<Mappings>(&text).ok()?.first()
            })
            .collect()
    }
}

/// The lowest range that nobody has.
fn free(taken: &BTreeSet<u32>, most: u32) -> Option<u32> {
    (1..=most)
        .map(|at| at * LENGTH)
        .find(|first| !taken.contains(first))
}

fn namespace(first: u32) -> UserNamespace {
    let mapping = IdMapping {
        host_id: first,
        container_id: 0,
        length: LENGTH,
    };
    UserNamespace {
        mode: NamespaceMode::Pod.into(),
        uids: vec![mapping],
        gids: vec![mapping],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_do_not_overlap_are_kept_and_are_free_when_the_pod_is_gone() {
        let root = tempfile::tempdir().unwrap();
        let first = |ranges: &IdRanges, uid: &str| ranges.take(uid).map(|r| r.uids[0].host_id);
        let ranges = IdRanges::new(root.path(), 2);
        assert!(ranges.range_of_pod("a").unwrap().is_none());
        assert_eq!(first(&ranges, "a").unwrap(), 65_536);
        assert_eq!(first(&ranges, "b").unwrap(), 131_072);
        assert!(matches!(ranges.take("c"), Err(Error::Full)));
        // as another agent finds them
        let ranges = IdRanges::new(root.path(), 2);
        assert_eq!(first(&ranges, "b").unwrap(), 131_072);
        fs::remove_dir_all(root.path().join("pods/a")).unwrap();
        assert_eq!(first(&ranges, "c").unwrap(), 65_536);
    }

    #[test]
    fn what_is_no_range_gives_the_pod_no_other_and_nobody_the_nodes_own_ids() {
        let root = tempfile::tempdir().unwrap();
        let ranges = IdRanges::new(root.path(), 5);
        let kept = |host: u32, length: u32| {
            let one = Mapping {
                host_id: host,
                container_id: 0,
                length,
            };
            let all = Mappings {
                uid_mappings: vec![one],
                gid_mappings: vec![one],
            };
            atomic_file::write(&ranges.file("a"), &serde_json::to_string(&all).unwrap()).unwrap();
            ranges.take("a").map(|r| r.uids[0].host_id)
        };
        assert_eq!(kept(131_072, LENGTH).unwrap(), 131_072);
        for (host, length) in [(0, LENGTH), (65_537, LENGTH), (65_536, 10)] {
            assert!(
                matches!(kept(host, length), Err(Error::Kept(_))),
                "{host} {length}"
            );
        }
        fs::write(ranges.file("a"), "{").unwrap();
        assert!(matches!(ranges.take("a"), Err(Error::Kept(_))));
    }
}
