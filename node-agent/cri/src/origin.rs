//! Which pods of a machine this agent made.
//!
//! A runtime and a folder of pods may be shared with another kubelet, or be left by one.
//! Sandboxes of this agent have a label, and folders of its pods a file, by which they are
//! told from those: only they are cleaned up unasked.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::observed::key;
use crate::{Runtime, api};

/// Label of sandboxes that this agent made. Labels of pods do not replace it.
pub const LABEL: &str = "orlop.dev/agent";

/// What [`LABEL`] is.
pub const LABEL_VALUE: &str = "true";

/// File in the folder of a pod that this agent runs.
const MARKER: &str = ".orlop-pod";

/// Notes in its folder that this agent runs a pod.
///
/// # Errors
/// When the file system refuses.
pub fn mark(pod_dir: &Path) -> io::Result<()> {
    let path = pod_dir.join(MARKER);
    let file = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .open(path);
    match file {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Whether this agent made the pod's folder, or runs the pod.
#[must_use]
pub fn is_marked(pod_dir: &Path) -> bool {
    fs::symlink_metadata(pod_dir.join(MARKER)).is_ok_and(|found| found.is_file())
}

/// The pods on a machine, by the agent that created them.
#[derive(Clone, Debug, Default)]
pub struct PodInventory {
    /// Ids of sandboxes of this agent.
    pub own_sandboxes: Vec<String>,
    /// Ids of others.
    pub foreign_sandboxes: Vec<String>,
    /// Folders of pods of this agent.
    pub own_folders: Vec<PathBuf>,
    /// Folders of others.
    pub foreign_folders: Vec<PathBuf>,
    /// Uids of pods of this agent.
    pub own: BTreeSet<String>,
}

impl PodInventory {
    /// Looks at the folders of pods below `root`, and at the sandboxes of a runtime if
    /// there is one.
    ///
    /// # Errors
    /// When the runtime does not answer.
    pub async fn take(runtime: Option<&dyn Runtime>, root: &Path) -> crate::Result<Self> {
        let mut found = Self::default();
        for entry in fs::read_dir(root.join("pods"))
            .into_iter()
            .flatten()
            .flatten()
        {
            if is_marked(&entry.path()) {
                found
                    .own
                    .insert(entry.file_name().to_string_lossy().into_owned());
                found.own_folders.push(entry.path());
            } else {
                found.foreign_folders.push(entry.path());
            }
        }
        let Some(runtime) = runtime else {
            return Ok(found);
        };
        let request = api::ListPodSandboxRequest { filter: None };
        for sandbox in runtime.list_pod_sandbox(request).await?.items {
            let uid = sandbox.metadata.as_ref().map(|m| m.uid.clone());
            let uid = uid.unwrap_or_default();
            if is_own(&sandbox.labels) || found.own.contains(&uid) {
                found.own.insert(uid);
                found.own_sandboxes.push(sandbox.id);
            } else {
                found.foreign_sandboxes.push(sandbox.id);
            }
        }
        Ok(found)
    }

    /// Whether there are pods that this agent did not make.
    #[must_use]
    pub fn has_foreign(&self) -> bool {
        !self.foreign_sandboxes.is_empty() || !self.foreign_folders.is_empty()
    }

    /// Whether a folder of logs, named `NAMESPACE_NAME_UID`, is of a pod of this agent.
    #[must_use]
    pub fn owns_logs(&self, name: &str) -> bool {
        let uid = name.rsplit('_').next().unwrap_or_default();
        self.own.contains(uid)
    }
}

/// Whether a sandbox with these labels was made by this agent.
#[must_use]
pub fn is_own(labels: &std::collections::BTreeMap<String, String>) -> bool {
    labels.get(LABEL).is_some_and(|value| value == LABEL_VALUE) && labels.contains_key(key::POD_UID)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Fake;

    #[tokio::test]
    async fn pods_of_another_kubelet_are_told_from_own_ones() {
        let root = tempfile::tempdir().unwrap();
        for uid in ["own", "adopted", "foreign"] {
            fs::create_dir_all(root.path().join("pods").join(uid)).unwrap();
        }
        for uid in ["own", "adopted"] {
            mark(&root.path().join("pods").join(uid)).unwrap();
            mark(&root.path().join("pods").join(uid)).unwrap();
        }
        let runtime = Fake::default();
        for (uid, labelled) in [("own", true), ("adopted", false), ("foreign", false)] {
            runtime.run_sandbox(uid, labelled).await;
        }
        let found = PodInventory::take(Some(&runtime), root.path())
            .await
            .unwrap();
        assert_eq!(found.own_sandboxes.len(), 2);
        assert_eq!(found.foreign_sandboxes.len(), 1);
        assert_eq!(found.foreign_folders, [root.path().join("pods/foreign")]);
        assert_eq!(found.own_folders.len(), 2);
        assert!(found.has_foreign());
        assert!(found.owns_logs("default_web_own") && !found.owns_logs("default_own_foreign"));
    }
}
