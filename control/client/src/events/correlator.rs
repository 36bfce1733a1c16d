//! Decides which events are written, counted, combined or dropped.

use std::time::{Duration, Instant};

use rustc_hash::{FxHashMap, FxHashSet};

use super::{Note, ObjectReference};

/// More different messages than this about one reason are combined …
const SIMILAR: usize = 10;
/// … when they come within this time.
const SIMILAR_WITHIN: Duration = Duration::from_secs(600);

/// Events about one object that may be written in a burst …
const BURST: f64 = 25.0;
/// … and the time after which one more may.
const REFILL: Duration = Duration::from_secs(300);

/// Entries kept; beyond it those that rested are forgotten.
const REMEMBERED: usize = 4096;

/// The decision about an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Write a new object.
    Create,
    /// Raise the count of an existing object.
    Repeat { name: String, count: u32 },
    /// Say nothing.
    Drop,
}

/// The events that were written so far.
#[derive(Debug, Default)]
pub(super) struct Correlator {
    written: FxHashMap<Note, WrittenEvent>,
    groups: FxHashMap<Note, Group>,
    budgets: FxHashMap<ObjectReference, Budget>,
}

#[derive(Debug)]
struct WrittenEvent {
    name: String,
    count: u32,
    last: Instant,
}

/// Events that differ only in their message.
#[derive(Debug)]
struct Group {
    messages: FxHashSet<String>,
    last: Instant,
}

#[derive(Debug)]
struct Budget {
    tokens: f64,
    last: Instant,
}

impl Correlator {
    /// Decides about `note`, and returns it in the form to write.
    pub(super) fn decide(&mut self, now: Instant, note: Note) -> (Note, Decision) {
        self.forget_the_oldest(now);
        let note = self.combine(now, note);
        if !self.afford(now, &note.regarding) {
            return (note, Decision::Drop);
        }
        let decision = match self.written.get_mut(&note) {
            Some(written) if !written.name.is_empty() => {
                written.count = written.count.saturating_add(1);
                written.last = now;
                Decision::Repeat {
                    name: written.name.clone(),
                    count: written.count,
                }
            }
            _ => {
                let written = WrittenEvent {
                    name: String::new(),
                    count: 1,
                    last: now,
                };
                self.written.insert(note.clone(), written);
                Decision::Create
            }
        };
        (note, decision)
    }

    /// `note` was written under this name.
    pub(super) fn created(&mut self, note: &Note, name: String) {
        if let Some(written) = self.written.get_mut(note) {
            written.name = name;
            written.count = 1;
        }
    }

    /// `note` was not written.
    pub(super) fn failed(&mut self, note: &Note) {
        self.written.remove(note);
    }

    fn combine(&mut self, now: Instant, note: Note) -> Note {
        let key = Note {
            message: String::new(),
            ..note.clone()
        };
        let group = self.groups.entry(key).or_insert_with(|| Group {
            messages: FxHashSet::default(),
            last: now,
        });
        if now.duration_since(group.last) > SIMILAR_WITHIN {
            group.messages.clear();
        }
        group.last = now;
        if group.messages.contains(&note.message) {
            return note;
        }
        if group.messages.len() >= SIMILAR {
            return Note {
                message: format!("(combined from similar events): {}", note.message),
                ..note
            };
        }
        group.messages.insert(note.message.clone());
        note
    }

    fn afford(&mut self, now: Instant, regarding: &ObjectReference) -> bool {
        let budget = self.budgets.entry(regarding.clone()).or_insert(Budget {
            tokens: BURST,
            last: now,
        });
        let refilled = now.duration_since(budget.last).as_secs_f64() / REFILL.as_secs_f64();
        budget.tokens = (budget.tokens + refilled).min(BURST);
        budget.last = now;
        if budget.tokens < 1.0 {
            return false;
        }
        budget.tokens -= 1.0;
        true
    }

    fn forget_the_oldest(&mut self, now: Instant) {
        let old = |last: Instant| now.duration_since(last) > SIMILAR_WITHIN;
        if self.written.len() > REMEMBERED {
            self.written.retain(|_, written| !old(written.last));
        }
        if self.groups.len() > REMEMBERED {
            self.groups.retain(|_, group| !old(group.last));
        }
        if self.budgets.len() > REMEMBERED {
            self.budgets.retain(|_, budget| !old(budget.last));
        }
        // many objects within a short time: starting over costs only counts
        if self.written.len() > 4 * REMEMBERED {
            self.written.clear();
            self.groups.clear();
            self.budgets.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Severity;
    use super::*;

    fn note(message: &str) -> Note {
        Note {
            related: None,
            regarding: ObjectReference {
                name: "web".to_owned(),
                ..ObjectReference::default()
            },
            severity: Severity::Normal,
            reason: "Pulled".to_owned(),
            action: String::new(),
            message: message.to_owned(),
        }
    }

    #[test]
    fn equal_events_are_counted_in_one_object() {
        let now = Instant::now();
        let mut correlator = Correlator::default();
        let (first, decision) = correlator.decide(now, note("a"));
        assert_eq!(decision, Decision::Create);
        correlator.created(&first, "web.1".to_owned());
        for count in 2..5 {
            let name = "web.1".to_owned();
            assert_eq!(
                correlator.decide(now, note("a")).1,
                Decision::Repeat { name, count }
            );
        }
        assert_eq!(correlator.decide(now, note("b")).1, Decision::Create);
    }

    #[test]
    fn an_event_that_was_not_written_is_written_next_time() {
        let now = Instant::now();
        let mut correlator = Correlator::default();
        let (first, _) = correlator.decide(now, note("a"));
        correlator.failed(&first);
        assert_eq!(correlator.decide(now, note("a")).1, Decision::Create);
    }

    #[test]
    fn many_messages_of_one_reason_are_combined() {
        let now = Instant::now();
        let mut correlator = Correlator::default();
        for number in 0..SIMILAR {
            let (written, _) = correlator.decide(now, note(&number.to_string()));
            assert_eq!(written.message, number.to_string());
        }
        let (combined, _) = correlator.decide(now, note("one more"));
        assert_eq!(combined.message, "(combined from similar events): one more");
        let later = now + SIMILAR_WITHIN + Duration::from_secs(1);
        let (alone, _) = correlator.decide(later, note("one more"));
        assert_eq!(alone.message, "one more");
    }

    #[test]
    fn an_object_that_is_talked_of_too_much_falls_silent_for_a_while() {
        let mut now = Instant::now();
        let mut correlator = Correlator::default();
        for _ in 0..25 {
            let (written, decision) = correlator.decide(now, note("a"));
            assert_ne!(decision, Decision::Drop);
            if decision == Decision::Create {
                correlator.created(&written, "web.1".to_owned());
            }
        }
        assert_eq!(correlator.decide(now, note("a")).1, Decision::Drop);
        now += REFILL + Duration::from_secs(1);
        assert_ne!(correlator.decide(now, note("a")).1, Decision::Drop);
        assert_eq!(correlator.decide(now, note("a")).1, Decision::Drop);
    }
}
