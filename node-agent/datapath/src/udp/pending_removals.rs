//! When and where what went is looked for.
//!
//! What went is looked for at once, and forgotten after two things, in whatever order: a
//! look in all namespaces, and a look [a moment](AGAIN) later than it went. So no
//! namespace is missed, however new, and no socket that was just being connected, which
//! is not listed for a moment. A look in all namespaces is dear, and one is made in each
//! [`PAUSE`] at most: for all that went meanwhile.

use std::time::{Duration, Instant};

use crate::namespaces::NamespaceSelection;

/// How long after a look in all namespaces the next one is made, if one is needed.
pub(super) const PAUSE: Duration = Duration::from_secs(10);
/// How long a call may take that connects a socket, after its address was translated.
const AGAIN: Duration = Duration::from_secs(1);

/// Removals whose sockets are still searched for.
#[derive(Debug)]
pub(super) struct PendingRemovals<T> {
    all: Vec<GoneBackend<T>>,
    /// When all namespaces were looked into.
    walked: Option<Instant>,
}

#[derive(Debug)]
struct GoneBackend<T> {
    what: T,
    since: Instant,
    /// It was looked for in all namespaces.
    everywhere: bool,
    /// It was looked for at all.
    looked: bool,
}

// === impl Pending ===

impl<T: Clone> PendingRemovals<T> {
    /// These are gone.
    pub(super) fn add(&mut self, what: &[T], now: Instant) {
        self.all.extend(what.iter().map(|what| GoneBackend {
            what: what.clone(),
            since: now,
            everywhere: false,
            looked: false,
        }));
    }

    /// What to look for: for the first time, and again.
    pub(super) fn all(&self) -> (Vec<T>, Vec<T>) {
        let of = |looked| {
            let all = self.all.iter().filter(move |it| it.looked == looked);
            all.map(|it| it.what.clone()).collect()
        };
        (of(false), of(true))
    }

    /// Where to look now; none: nowhere.
    pub(super) fn look(&self, now: Instant) -> Option<NamespaceSelection> {
        if self.due().is_none_or(|due| due > now) {
            return None;
        }
        let wanted = self.all.iter().any(|it| !it.everywhere);
        let may = self.next_walk().is_none_or(|next| next <= now);
        Some(if wanted && may {
            NamespaceSelection::All
        } else {
            NamespaceSelection::AtHand
        })
    }

    /// It was looked there.
    pub(super) fn looked(&mut self, which: NamespaceSelection, now: Instant) {
        if which == NamespaceSelection::All {
            self.walked = Some(now);
        }
        for it in &mut self.all {
            it.looked = true;
            it.everywhere |= which == NamespaceSelection::All;
        }
        self.all
            .retain(|it| !it.everywhere || now < it.since + AGAIN);
    }

    /// When to look next.
    pub(super) fn due(&self) -> Option<Instant> {
        let due = |it: &GoneBackend<T>| {
            let again = it.since + AGAIN;
            match self.next_walk() {
                _ if !it.looked => it.since,
                Some(walk) if !it.everywhere => again.max(walk),
                _ => again,
            }
        };
        self.all.iter().map(due).min()
    }

    fn next_walk(&self) -> Option<Instant> {
        self.walked.map(|walked| walked + PAUSE)
    }
}

impl<T> Default for PendingRemovals<T> {
    fn default() -> Self {
        Self {
            all: Vec::new(),
            walked: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks whenever that is due until nothing is, and says when, where and for what.
    fn history(gone: &[(u64, char)]) -> Vec<(u64, NamespaceSelection, String)> {
        let start = Instant::now();
        let mut pending = PendingRemovals::default();
        let mut gone = gone.iter().peekable();
        let mut looks = Vec::new();
        loop {
            let next = gone.peek().map(|it| start + Duration::from_millis(it.0));
            let now = match (next, pending.due()) {
                (None, None) => return looks,
                (next, due) => next.into_iter().chain(due).min().unwrap(),
            };
            if next == Some(now) {
                let (_, what) = gone.next().unwrap();
                pending.add(&[*what], now);
            }
            let Some(which) = pending.look(now) else {
                continue;
            };
            let at = (now - start).as_millis().try_into().unwrap();
            let (first, again) = pending.all();
            looks.push((at, which, again.iter().chain(&first).collect()));
            pending.looked(which, now);
            assert!(looks.len() < 1_000, "it never ends");
        }
    }

    #[test]
    fn the_first_is_looked_for_everywhere_and_again() {
        let all = |at, what: &str| (at, NamespaceSelection::All, what.to_owned());
        let near = |at, what: &str| (at, NamespaceSelection::AtHand, what.to_owned());
        assert_eq!(history(&[(0, 'a')]), [all(0, "a"), near(1_000, "a")]);
        assert_eq!(
            history(&[(0, 'a'), (400, 'b'), (9_800, 'c'), (30_000, 'd')]),
            [
                all(0, "a"),
                near(400, "ab"),
                near(1_000, "ab"),
                near(9_800, "bc"),
                all(10_000, "bc"),
                near(10_800, "c"),
                all(30_000, "d"),
                near(31_000, "d"),
            ]
        );
    }

    #[test]
    fn whatever_goes_is_looked_for_at_once_everywhere_and_a_moment_later_and_seldom_all_is_walked()
    {
        let mut state = 1_u64;
        let mut random = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..200 {
            let mut at = 0;
            let letters = ('a'..='z').map(|what| {
                at += [0, random(300), random(3_000), random(30_000)][random(4) as usize];
                (at, what)
            });
            let gone: Vec<(u64, char)> = letters.collect();
            let looks = history(&gone);
            for (at, what) in &gone {
                let of: Vec<_> = looks.iter().filter(|it| it.2.contains(*what)).collect();
                assert_eq!(of[0].0, *at, "{what} at once: {gone:?} {looks:?}");
                assert!(
                    of.iter().any(|it| it.1 == NamespaceSelection::All),
                    "{what}: {looks:?}"
                );
                let last = of.last().unwrap().0;
                assert!(
                    last >= at + 1_000 && last <= at + 11_000,
                    "{what}: {looks:?}"
                );
            }
            let walks: Vec<u64> = looks
                .iter()
                .filter(|it| it.1 == NamespaceSelection::All)
                .map(|it| it.0)
                .collect();
            assert!(
                walks.windows(2).all(|it| it[1] - it[0] >= 10_000),
                "{looks:?}"
            );
        }
    }
}
