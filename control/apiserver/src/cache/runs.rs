//! Events put together, once for all watchers that want the same.
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

/// So many are kept; more than that, only watchers that are far apart would want.
const KEPT: usize = 4;

/// A form of watch frames that watchers of one resource share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameForm {
    /// The stored object in JSON.
    Json,
    /// The stored object in protobuf.
    Protobuf,
    /// Its projection in JSON (see [`crate::api::Served::projection`]).
    Projection,
}

/// Which events, and how they are shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The sequence number of the first event.
    pub from: u64,
    /// What the keys of the objects begin with.
    pub prefix: CompactString,
    /// The form of the frames.
    pub form: FrameForm,
}

/// Some events, put together.
#[derive(Debug)]
pub struct Run {
    /// What they are.
    pub wanted: Wanted,
    /// The sequence number of the first event that is not in it.
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

/// The latest runs of a resource: with what watchers put together at once, at most
/// 256 KiB and an event each.
#[derive(Debug)]
pub struct Runs([ArcSwapOption<Run>; KEPT]);

impl Default for Runs {
    fn default() -> Self {
        Self([const { ArcSwapOption::const_empty() }; KEPT])
    }
}

impl Runs {
    /// What somebody put together for others who want the same.
    #[must_use]
    pub fn find(&self, wanted: &Wanted) -> Option<Arc<Run>> {
        let kept = self.slot(wanted.from).load();
        let run = kept.as_ref().filter(|run| run.wanted == *wanted)?;
        Some(Arc::clone(run))
    }

    /// Keeps a run for others.
    pub fn keep(&self, run: Run) {
        self.slot(run.wanted.from).store(Some(Arc::new(run)));
    }

    fn slot(&self, from: u64) -> &ArcSwapOption<Run> {
        &self.0[usize::try_from(from).unwrap_or_default() % KEPT]
    }
}

#[cfg(test)]
mod tests {
    use super::FrameForm::{Json, Projection, Protobuf};
    use super::*;

    fn wanted(from: u64, prefix: &str, form: FrameForm) -> Wanted {
        Wanted {
            from,
            prefix: prefix.into(),
            form,
        }
    }

    #[test]
    fn only_who_wants_the_very_same_is_given_a_run() {
        let runs = Runs::default();
        runs.keep(Run {
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
