//! How little memory a node's agent keeps.
//!
//! A start needs much that nothing needs afterwards: lists of a large cluster, and pages of
//! the program that are run once. Neither goes by itself: what threads free stays in their
//! heaps, and the kernel keeps a page mapped that was touched once, with fifteen around it.
//! So whenever the process has become quiet, both are given back, and again after each
//! minute in which it was:
//!
//! ```text
//! start ──► busy ──► quiet for two seconds ──► give back ──► each quiet minute: give back
//! ```
//!
//! What is still needed comes back by itself, at a fraction of a microsecond a page.

use std::time::Duration;

use nix::sys::resource::{UsageWho, getrusage};

mod allocator;
mod program;

pub use allocator::{give_back_when_asked, without_huge_pages};

/// How long a start takes, at the most: lists of a large cluster, on a slow machine.
const START: Duration = Duration::from_secs(60);
/// How often it is looked during a start, and later.
const OFTEN: Duration = Duration::from_secs(1);
const SELDOM: Duration = Duration::from_secs(60);
/// A process that uses less than this fraction of a processor is quiet.
const QUIET: u32 = 20;
/// How often in a row, until a start is over.
const SETTLED: u32 = 2;
/// Releases unused memory of this process whenever it becomes quiet. Must be called once,
/// in a runtime that was built with [`give_back_when_asked`].
pub fn thrifty() {
    allocator::keep_nothing();
    control_supervise::task("memory-keeper").spawn_restarting(|| async {
        let mut keeper = MemoryTrimmer::default();
        let mut frugal = true;
        loop {
            tokio::time::sleep(keeper.pause()).await;
            let Some(used) = used() else {
                return allocator::keep_for_a_while();
            };
            if keeper.looks(used) {
                allocator::ask_all();
                program::give_back();
            }
            if frugal && keeper.started() {
                allocator::keep_for_a_while();
                frugal = false;
            }
        }
    });
}

/// Decides when to release memory.
#[derive(Debug, Default)]
struct MemoryTrimmer {
    /// The processor time at the last check.
    used: Duration,
    /// How long it has looked.
    age: Duration,
    /// How often in a row it was quiet.
    quiet: u32,
    has_started: bool,
}

// === impl Keeper ===

impl MemoryTrimmer {
    /// How long to wait until it is looked again.
    fn pause(&self) -> Duration {
        if self.started() { SELDOM } else { OFTEN }
    }

    /// Returns whether the start is over.
    fn started(&self) -> bool {
        self.has_started
    }

    /// Records the processor time, one interval after the last call; returns whether to
    /// release memory.
    fn looks(&mut self, used: Duration) -> bool {
        let pause = self.pause();
        self.age += pause;
        let is_quiet = used.saturating_sub(self.used) * QUIET < pause;
        self.quiet = if is_quiet { self.quiet + 1 } else { 0 };
        self.used = used;
        if self.has_started {
            return is_quiet;
        }
        // A process that never becomes quiet needs its memory; but the initial lists have
        // arrived by then.
        self.has_started = self.quiet >= SETTLED || self.age >= START;
        self.has_started
    }
}

/// Returns the processor time of this process; `None` if the system does not report it.
fn used() -> Option<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
    let times = [usage.user_time(), usage.system_time()];
    let used = times.iter().map(|it| {
        let seconds = u64::try_from(it.tv_sec()).unwrap_or(0);
        let micros = u64::try_from(it.tv_usec()).unwrap_or(0);
        Duration::from_secs(seconds) + Duration::from_micros(micros)
    });
    Some(used.sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks once, having used so much of a processor meanwhile.
    fn look(keeper: &mut MemoryTrimmer, share: f64) -> bool {
        let used = keeper.used + keeper.pause().mul_f64(share);
        keeper.looks(used)
    }

    #[test]
    fn a_start_is_over_once_it_is_quiet() {
        let mut keeper = MemoryTrimmer::default();
        for share in [0.9, 0.0, 0.5, 0.0] {
            assert!(!look(&mut keeper, share), "{share}");
            assert_eq!(keeper.pause(), OFTEN);
        }
        assert!(look(&mut keeper, 0.0));
        assert_eq!(keeper.pause(), SELDOM);
    }

    #[test]
    fn a_start_that_never_is_quiet_is_over_after_a_minute() {
        let mut keeper = MemoryTrimmer::default();
        let looks = (1..).find(|_| look(&mut keeper, 0.8));
        assert_eq!(looks, Some(60));
    }

    /// What a crowd of pods left behind goes in the first quiet minute, also if it came in
    /// the minute after something was given back.
    #[test]
    fn each_quiet_minute_something_is_given_back() {
        let mut keeper = MemoryTrimmer::default();
        while !look(&mut keeper, 0.0) {}
        for (share, is_time) in [(0.01, true), (0.3, false), (0.2, false), (0.005, true)] {
            assert_eq!(look(&mut keeper, share), is_time, "{share}");
        }
    }

    #[test]
    fn this_process_has_used_something() {
        assert!(used().unwrap() > Duration::ZERO);
    }
}
