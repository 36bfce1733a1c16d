//! Deferred removal of entries that nothing refers to any more, but that programs may
//! still use.
//!
//! A program reads the root, an endpoint's ruleset, a peer, a class of ports and then the
//! verdict, and may be interrupted anywhere in between. What it has read may be replaced
//! meanwhile, but must keep its meaning: a ruleset stays complete for all new peers and
//! classes, a peer keeps its rows, a number is not reused. So unreferenced entries stay,
//! and a [`sync`](Compiler::sync) after [`passed`](Compiler::passed) removes them, when
//! all programs have ended that were running when the last reference was overwritten.

use std::collections::VecDeque;

use ebpf_abi::policy::VerdictKey;

use super::Compiler;
use super::round::RoundOutput;
use crate::action::Action;
use crate::ports::ClassId;
use crate::ruleset::{PeerId, PolicyId, RulesetId};

/// Marks the actions whose replaced references may be freed: see [`Compiler::mark`].
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
    waiting: VecDeque<(FreeMark, Batch)>,
    /// No program holds these.
    free: Vec<Batch>,
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

    fn len(&self) -> usize {
        self.rulesets.len()
            + self.peers.len()
            + self.bindings.len()
            + self.verdicts.len()
            + self.classes.len()
            + self.policies.len()
    }
}

// === impl Compiler ===

impl Compiler {
    /// Returns the mark to [pass](Self::passed) once the actions so far are written;
    /// `None` if there is nothing to wait for.
    #[must_use]
    pub fn mark(&self) -> Option<FreeMark> {
        self.leaving.waiting.back().map(|(mark, _)| *mark)
    }

    /// Records that all programs have ended that were running when the actions before the
    /// mark were written. The next [`sync`](Self::sync) contains the removals.
    pub fn passed(&mut self, mark: FreeMark) {
        let all = &mut self.leaving.waiting;
        while let Some((_, batch)) = all.pop_front_if(|(of, _)| *of <= mark) {
            self.leaving.free.push(batch);
        }
    }

    /// How much waits for programs that are at work: references.
    #[must_use]
    pub fn waiting(&self) -> usize {
        let waiting = self.leaving.waiting.iter();
        waiting.map(|(_, batch)| batch.len()).sum()
    }

    /// Removes what no program uses, and releases what it needed.
    pub(super) fn release(&mut self, actions: &mut Vec<Action>) {
        let mut out = RoundOutput::default();
        let mut policies = Vec::new();
        for batch in std::mem::take(&mut self.leaving.free) {
            for peer in batch.peers {
                self.release_peer(peer, &mut out);
            }
            for binding in batch.bindings {
                self.release_binding(binding);
            }
            for ruleset in batch.rulesets {
                self.release_ruleset(ruleset, &mut out);
            }
            for key in batch.verdicts {
                if !self.has_entry(&key) {
                    out.gone.push(Action::DeleteVerdict(key));
                }
            }
            self.ports.give_back(&batch.classes);
            policies.extend(batch.policies);
        }
        actions.append(&mut out.gone);
        // References only of old policies.
        for id in policies {
            self.retire(id, actions);
        }
    }
}
