//! Was a history of reads and writes of one register linearizable? A search in the way of Wing
//! and Gong, with the memory of states that Lowe added; histories of a few clients are short
//! enough for it.

use std::collections::HashSet;

/// What one client did to the register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Wrote this value, which nobody else ever writes.
    Write(u64),
    /// Read this value; 0 before the first write.
    Read(u64),
    /// Replaced `from`, and nothing else, by `to`, which nobody else ever writes.
    Swap {
        /// The value that was there.
        from: u64,
        /// The value that is there from then on.
        to: u64,
    },
}

// === impl Action ===

impl Action {
    /// The value that it writes.
    fn written(&self) -> Option<u64> {
        match *self {
            Self::Write(value) | Self::Swap { to: value, .. } => Some(value),
            Self::Read(_) => None,
        }
    }

    /// The register's value after it, if it can happen to one with `value`.
    fn apply(&self, value: u64) -> Option<u64> {
        match *self {
            Self::Write(written) => Some(written),
            Self::Read(read) => (read == value).then_some(value),
            Self::Swap { from, to } => (from == value).then_some(to),
        }
    }
}

/// One operation. Times are of one clock.
#[derive(Clone, Debug)]
pub struct Operation {
    /// What was done.
    pub action: Action,
    /// When it was asked for.
    pub began: u64,
    /// When it was answered. `None` if it is unknown what became of it: a write may have
    /// happened at any time since, or not at all.
    pub ended: Option<u64>,
}

/// Returns whether there is an order of the operations, each at a moment between its beginning
/// and its end, by which every read gives the value of the write before it.
#[must_use]
pub fn is_linearizable(history: &[Operation]) -> bool {
    // What is not known to have happened and was seen by nobody may be taken as not happened.
    let seen: HashSet<u64> = history
        .iter()
        .filter_map(|one| match (&one.action, one.ended) {
            (Action::Read(value), Some(_)) => Some(*value),
            (Action::Swap { from, .. }, _) => Some(*from),
            _ => None,
        })
        .collect();
    let mut all: Vec<&Operation> = history
        .iter()
        .filter(|one| {
            let written = one.action.written();
            one.ended.is_some() || written.is_some_and(|value| seen.contains(&value))
        })
        .collect();
    all.sort_by_key(|one| one.began);
    let words = all.len().div_ceil(64);
    let mut search = Search {
        all,
        seen: HashSet::new(),
    };
    search.from(0, &mut vec![0; words], 0)
}

struct Search<'a> {
    all: Vec<&'a Operation>,
    /// Sets of operations that are done, with the value, from which no way leads on.
    seen: HashSet<(Vec<u64>, u64)>,
}

impl Search<'_> {
    /// Whether the operations that are not done can follow. `first` is the first that is not.
    fn from(&mut self, mut first: usize, done: &mut Vec<u64>, value: u64) -> bool {
        while first < self.all.len() && is_set(done, first) {
            first += 1;
        }
        if first == self.all.len() {
            return true;
        }
        if !self.seen.insert((done.clone(), value)) {
            return false;
        }
        // Only what begins before the first of the others ends may be next.
        let mut bound = u64::MAX;
        for at in first..self.all.len() {
            let operation = self.all[at];
            if operation.began > bound {
                break;
            }
            if !is_set(done, at) {
                bound = bound.min(operation.ended.unwrap_or(u64::MAX));
            }
        }
        for at in first..self.all.len() {
            let operation = self.all[at];
            if operation.began > bound {
                break;
            }
            if is_set(done, at) {
                continue;
            }
            let Some(next) = operation.action.apply(value) else {
                continue;
            };
            done[at / 64] |= 1 << (at % 64);
            if self.from(first, done, next) {
                return true;
            }
            done[at / 64] &= !(1 << (at % 64));
        }
        false
    }
}

fn is_set(done: &[u64], at: usize) -> bool {
    done[at / 64] & (1 << (at % 64)) != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(value: u64, began: u64, ended: u64) -> Operation {
        Operation {
            action: Action::Write(value),
            began,
            ended: Some(ended),
        }
    }

    fn read(value: u64, began: u64, ended: u64) -> Operation {
        Operation {
            action: Action::Read(value),
            began,
            ended: Some(ended),
        }
    }

    fn lost(value: u64, began: u64) -> Operation {
        Operation {
            action: Action::Write(value),
            began,
            ended: None,
        }
    }

    #[test]
    fn what_happened_in_order_is_linearizable() {
        assert!(is_linearizable(&[]));
        assert!(is_linearizable(&[
            write(1, 0, 1),
            read(1, 2, 3),
            write(2, 4, 5),
            read(2, 6, 7)
        ]));
        assert!(is_linearizable(&[read(0, 0, 1), write(1, 2, 3)]));
    }

    #[test]
    fn overlapping_operations_may_have_happened_in_either_order() {
        let both = [write(1, 0, 10), write(2, 0, 10), read(1, 11, 12)];
        assert!(is_linearizable(&both));
        assert!(is_linearizable(&[
            write(1, 0, 10),
            read(0, 1, 2),
            read(1, 3, 4)
        ]));
        assert!(!is_linearizable(&[
            write(1, 0, 10),
            read(1, 1, 2),
            read(0, 3, 4)
        ]));
    }

    #[test]
    fn a_lost_write_and_a_stale_read_are_found() {
        assert!(!is_linearizable(&[write(1, 0, 1), read(0, 2, 3)]), "lost");
        let stale = [write(1, 0, 1), write(2, 2, 3), read(1, 4, 5)];
        assert!(!is_linearizable(&stale));
        let back = [write(1, 0, 1), write(2, 2, 9), read(2, 3, 4), read(1, 5, 6)];
        assert!(!is_linearizable(&back), "a read goes back");
    }

    #[test]
    fn a_write_of_unknown_fate_may_happen_late_or_never_but_not_early() {
        assert!(is_linearizable(&[
            write(1, 0, 1),
            lost(2, 2),
            read(1, 5, 6)
        ]));
        assert!(is_linearizable(&[
            write(1, 0, 1),
            lost(2, 2),
            read(2, 5, 6)
        ]));
        assert!(is_linearizable(&[
            write(1, 0, 1),
            lost(2, 2),
            read(1, 5, 6),
            read(2, 7, 8),
        ]));
        assert!(
            !is_linearizable(&[read(2, 0, 1), lost(2, 2)]),
            "before it began"
        );
        assert!(!is_linearizable(&[
            write(1, 0, 1),
            lost(2, 2),
            read(2, 5, 6),
            read(1, 7, 8),
        ]));
    }

    #[test]
    fn a_swap_happens_only_to_the_value_that_it_replaces() {
        let swap = |from, to, began, ended| Operation {
            action: Action::Swap { from, to },
            began,
            ended,
        };
        assert!(is_linearizable(&[
            write(1, 0, 1),
            swap(1, 2, 2, Some(3)),
            read(2, 4, 5)
        ]));
        let after_another = [write(1, 0, 1), write(2, 2, 3), swap(1, 3, 4, Some(5))];
        assert!(!is_linearizable(&after_another), "a write is lost");
        let both = [
            write(1, 0, 1),
            swap(1, 2, 2, Some(9)),
            swap(1, 3, 2, Some(9)),
        ];
        assert!(!is_linearizable(&both), "two replaced the same value");
        assert!(is_linearizable(&[
            write(1, 0, 1),
            swap(1, 2, 2, None),
            swap(2, 3, 4, Some(5)),
            read(3, 6, 7),
        ]));
        assert!(is_linearizable(&[swap(7, 8, 0, None), read(0, 1, 2)]));
    }

    #[test]
    fn long_histories_of_a_few_clients_are_decided() {
        let mut history = Vec::new();
        for step in 0..2000_u64 {
            history.push(write(step + 1, step * 10, step * 10 + 12));
            history.push(read(step, step * 10, step * 10 + 1));
        }
        history.truncate(3000);
        assert!(is_linearizable(&history));
        history.push(read(1, 100_000, 100_001));
        assert!(!is_linearizable(&history));
    }
}
