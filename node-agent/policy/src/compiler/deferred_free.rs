//! Deferred removal of entries that nothing refers to any more, but that programs may
//! still use.
//!
//! A program reads the root, an endpoint's ruleset, a peer, a class of ports and then the
//! verdict, and may be interrupted anywhere in between. What it has read may be replaced
//! meanwhile, but must keep its meaning: a ruleset stays complete for all new peers and
//! classes, a peer keeps its rows, a number is not reused. So unreferenced entries stay,
//! and a [`sync`](super::Compiler::sync) after [`passed`](super::Compiler::passed) removes them, when
//! all programs have ended that were running when the last reference was overwritten.

use std::collections::VecDeque;

use ebpf_abi::policy::VerdictKey;

use crate::ports::ClassId;
use crate::ruleset::{PeerId, PolicyId, RulesetId};

/// Marks the actions whose replaced references may be freed: see [`Compiler::mark`](super::Compiler::mark).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct FreeMark(u64);

/// Removed references.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Held once less each.
    pub(super) rulesets: Vec<RulesetId>,
    /// Held once less each.
    pub(super) peers: Vec<PeerId>,
    /// Held once less each.
    pub(super) bindings: Vec<u32>,
    /// Entries of rows that are there otherwise.
    pub(super) verdicts: Vec<VerdictKey>,
    pub(super) classes: Vec<ClassId>,
    pub(super) policies: Vec<PolicyId>,
}

/// Keeps removed references until no running program can hold them.
#[derive(Debug, Default)]
pub(super) struct DeferredFree {
    /// Since the last sync.
    pub(super) now: Batch,
    /// The batch of each earlier sync that has not passed yet.
    pub(super) waiting: VecDeque<(FreeMark, Batch)>,
    /// No program holds these.
    pub(super) free: Vec<Batch>,
    last: u64,
}

// === impl Leaving ===

impl DeferredFree {
    /// The references are overwritten by the actions that are handed out now.
    pub(super) fn seal(&mut self) {
        if !self.now.is_empty() {
            self.last += 1;
            let batch = std::mem::take(&mut self.now);
            self.waiting.push_back((FreeMark(self.last), batch));
        }
    }
}

impl Batch {
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn len(&self) -> usize {
        self.rulesets.len()
            + self.peers.len()
            + self.bindings.len()
            + self.verdicts.len()
            + self.classes.len()
            + self.policies.len()
    }
}
