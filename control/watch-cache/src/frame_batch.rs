//! Frames of several events, joined once for all watchers that want the same.
//!
//! When changes come faster than watchers can be served, each watcher is sent some
//! of them together. Watchers of a resource that select nothing less than a
//! namespace want the same bytes from the same event on: the first of them puts
//! them together, the others send what it made.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use compact_str::CompactString;
use control_store::Revision;

/// Batches that are kept: only watchers that lag far behind would want others.
const KEPT: usize = 4;

/// A form of watch frames that watchers of one resource share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameForm {
    /// The stored object in JSON.
    Json,
    /// The stored object in protobuf.
    Protobuf,
    /// The projection of the stored object that a read-only view serves, in JSON.
    Projection,
}

/// The events of a batch and the form of their frames.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrameBatchKey {
    /// The sequence number of the first event.
    pub from: u64,
    /// What the keys of the objects begin with.
    pub prefix: CompactString,
    /// The form of the frames.
    pub form: FrameForm,
}

/// The joined frames of consecutive events.
#[derive(Debug)]
pub struct FrameBatch {
    /// The events.
    pub wanted: FrameBatchKey,
    /// The sequence number after the last event.
    pub to: u64,
    /// The revision of the first event.
    pub first: Revision,
    /// The revision of the last.
    pub last: Revision,
    /// Their frames.
    pub bytes: Bytes,
    /// How long each frame is.
    pub sizes: Vec<usize>,
}

/// The latest batches of a resource, each of at most 256 KiB and one event.
#[derive(Debug)]
pub struct FrameBatches([ArcSwapOption<FrameBatch>; KEPT]);

impl Default for FrameBatches {
    fn default() -> Self {
        Self([const { ArcSwapOption::const_empty() }; KEPT])
    }
}

impl FrameBatches {
    /// Returns a batch that another watcher joined.
    #[must_use]
    pub fn find(&self, wanted: &FrameBatchKey) -> Option<Arc<FrameBatch>> {
        let kept = self.slot(wanted.from).load();
        let run = kept.as_ref().filter(|run| run.wanted == *wanted)?;
        Some(Arc::clone(run))
    }

    /// Keeps a batch for other watchers.
    pub fn keep(&self, run: FrameBatch) {
        self.slot(run.wanted.from).store(Some(Arc::new(run)));
    }

    fn slot(&self, from: u64) -> &ArcSwapOption<FrameBatch> {
        &self.0[usize::try_from(from).unwrap_or_default() % KEPT]
    }
}

#[cfg(test)]
mod tests {
    use super::FrameForm::{Json, Projection, Protobuf};
    use super::*;

    fn wanted(from: u64, prefix: &str, form: FrameForm) -> FrameBatchKey {
        FrameBatchKey {
            from,
            prefix: prefix.into(),
            form,
        }
    }

    #[test]
    fn only_who_wants_the_very_same_is_given_a_run() {
        let runs = FrameBatches::default();
        runs.keep(FrameBatch {
            wanted: wanted(7, "a/", Json),
            to: 9,
            first: 70,
            last: 71,
            bytes: Bytes::from_static(b"xy"),
            sizes: vec![1, 1],
        });
        assert!(runs.find(&wanted(7, "a/", Json)).is_some());
        for other in [
            wanted(7, "", Json),
            wanted(7, "a/", Protobuf),
            wanted(7, "a/", Projection),
            wanted(8, "a/", Json),
            wanted(7 + KEPT as u64, "a/", Json),
        ] {
            assert!(runs.find(&other).is_none(), "{other:?}");
        }
    }
}
