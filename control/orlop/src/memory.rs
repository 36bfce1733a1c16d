//! How little memory a node's agent keeps.
//!
//! A start needs much that nothing needs afterwards: lists of a large cluster, and pages of
//! the program that are run once. Neither goes by itself: what threads free stays in their
//! heaps, and the kernel keeps a page mapped that was touched once, with fifteen around it.
//! So whenever the process has become quiet, both are given back:
//!
//! ```text
//! start ──► busy ──► quiet for two seconds ──► give back ──► a minute ──► give back
//!                                                                           │ ▲
//!                          each minute: much more than after it, and quiet? └─┘
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
/// Who uses less of a processor than one part in so many is quiet.
const QUIET: u32 = 20;
/// How often in a row, until a start is over.
const SETTLED: u32 = 2;
/// How many bytes of files may come to what came back at once: what is needed every few
/// minutes.
const MORE: u64 = 4 << 20;

/// Gives back what this process does not need any more, whenever it becomes quiet. To be
/// called once, in a runtime that was built with [`give_back_when_asked`].
pub fn thrifty() {
    allocator::keep_nothing();
    tokio::spawn(async {
        let mut keeper = Keeper::default();
        let mut frugal = true;
        loop {
            tokio::time::sleep(keeper.pause()).await;
            let Some(now) = Sample::now() else {
                return allocator::keep_for_a_while();
            };
            if keeper.looks(now) {
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

/// What a process took until now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sample {
    /// Of a processor.
    used: Duration,
    /// Bytes of files that it has mapped and in memory.
    mapped: u64,
}

/// Decides when to give back.
#[derive(Debug, Default)]
struct Keeper {
    last: Sample,
    /// How long it has looked.
    age: Duration,
    /// How often in a row it was quiet.
    quiet: u32,
    given: Given,
}

/// When it was given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Given {
    /// Not yet.
    #[default]
    Never,
    /// Once, when the start seemed to be over: it may have waited for others.
    Once,
    /// When it was looked last.
    Now,
    /// Before that; so many bytes had come back after a pause.
    Before(u64),
}

// === impl Keeper ===

impl Keeper {
    /// How long to wait until it is looked again.
    fn pause(&self) -> Duration {
        if self.started() { SELDOM } else { OFTEN }
    }

    /// Is the start over?
    fn started(&self) -> bool {
        self.given != Given::Never
    }

    /// Takes notice of what is, a pause later; true: it is time to give back.
    fn looks(&mut self, now: Sample) -> bool {
        let pause = self.pause();
        self.age += pause;
        let used = now.used.saturating_sub(self.last.used);
        let is_quiet = used * QUIET < pause;
        self.quiet = if is_quiet { self.quiet + 1 } else { 0 };
        self.last = now;
        let (due, given) = match self.given {
            // Who never becomes quiet needs what it has; but lists came by then.
            Given::Never => (self.quiet >= SETTLED || self.age >= START, Given::Once),
            Given::Once => (is_quiet, Given::Now),
            Given::Now => {
                self.given = Given::Before(now.mapped);
                return false;
            }
            Given::Before(then) => (is_quiet && now.mapped > then + MORE, Given::Now),
        };
        if due {
            self.given = given;
        }
        due
    }
}

// === impl Sample ===

impl Sample {
    /// What this process took; none where the system does not say it.
    fn now() -> Option<Self> {
        let usage = getrusage(UsageWho::RUSAGE_SELF).ok()?;
        let times = [usage.user_time(), usage.system_time()];
        let used = times.iter().map(|it| {
            let seconds = u64::try_from(it.tv_sec()).unwrap_or(0);
            let micros = u64::try_from(it.tv_usec()).unwrap_or(0);
            Duration::from_secs(seconds) + Duration::from_micros(micros)
        });
        let status = std::fs::read_to_string("/proc/self/status").ok()?;
        Some(Self {
            used: used.sum(),
            mapped: mapped(&status)?,
        })
    }
}

/// Bytes of files in memory, of the text of `/proc/PID/status` (proc_pid_status(5)).
fn mapped(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|it| it.strip_prefix("RssFile:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MB: u64 = 1 << 20;

    /// Looks once, having used so much of a processor meanwhile.
    fn look(keeper: &mut Keeper, share: f64, mapped: u64) -> bool {
        let used = keeper.last.used + keeper.pause().mul_f64(share);
        keeper.looks(Sample { used, mapped })
    }

    #[test]
    fn a_start_is_over_once_it_is_quiet() {
        let mut keeper = Keeper::default();
        let shares = [0.9, 0.0, 0.5, 0.0];
        for share in shares {
            assert!(!look(&mut keeper, share, 30 * MB), "{share}");
            assert_eq!(keeper.pause(), OFTEN);
        }
        assert!(look(&mut keeper, 0.0, 30 * MB));
        assert_eq!(keeper.pause(), SELDOM);
    }

    #[test]
    fn a_start_that_never_is_quiet_is_over_after_a_minute() {
        let mut keeper = Keeper::default();
        let looks = (1..).find(|_| look(&mut keeper, 0.8, 30 * MB));
        assert_eq!(looks, Some(60));
    }

    #[test]
    fn what_comes_back_is_left_alone_until_much_more_is_there_and_it_is_quiet() {
        let mut keeper = Keeper::default();
        while !look(&mut keeper, 0.0, 30 * MB) {}
        // What seemed to be the start's end may have been a pause.
        assert!(!look(&mut keeper, 0.3, 25 * MB));
        assert!(look(&mut keeper, 0.0, 25 * MB));
        assert!(!look(&mut keeper, 0.0, 18 * MB));
        for _ in 0..10 {
            assert!(!look(&mut keeper, 0.0, 20 * MB));
        }
        assert!(!look(&mut keeper, 0.6, 28 * MB));
        assert!(look(&mut keeper, 0.0, 28 * MB));
        assert!(!look(&mut keeper, 0.0, 16 * MB));
        assert!(!look(&mut keeper, 0.0, 16 * MB));
    }

    #[test]
    fn this_process_has_used_and_mapped_something() {
        let now = Sample::now().unwrap();
        assert!(now.used > Duration::ZERO && now.mapped > MB, "{now:?}");
        let status = "Name:\torlop\nRssAnon:\t   19276 kB\nRssFile:\t   29580 kB\n";
        assert_eq!(mapped(status), Some(29_580 << 10));
        assert_eq!(mapped("none"), None);
    }
}
