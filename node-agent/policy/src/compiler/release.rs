//! Releases what no running program can hold any more.

use super::Compiler;
use super::deferred_free::FreeMark;
use super::round::RoundOutput;
use crate::action::Action;

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
