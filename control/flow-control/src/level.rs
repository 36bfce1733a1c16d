//! A priority level at work.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use arc_swap::ArcSwap;
use control_fairness::{Claim, Demand, Discipline, LevelSpec, Limits, QueueSet, RetryAfter};

use crate::fairness::{Ticket, now};

/// A level.
#[derive(Debug)]
pub(super) struct Level {
    pub(super) spec: ArcSwap<LevelSpec>,
    set: Mutex<QueueSet<Ticket>>,
    retry_after: Mutex<RetryAfter>,
    /// The most seats of one request; 0 for no limit of its own.
    widest: AtomicU32,
    share: Mutex<Share>,
    /// Whether somebody looks after seats that come free by themselves.
    keeps_time: AtomicBool,
}

/// A level's part of the server's seats.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Share {
    pub(super) limits: Limits,
    pub(super) demand: Demand,
    pub(super) current: usize,
    /// What it aimed at when seats were last shared.
    pub(super) target: f64,
    /// The part of their aims that levels got then.
    pub(super) fair: f64,
    /// Whether nobody names it any more, so that it goes once it is idle.
    pub(super) leaves: bool,
}

// === impl Level ===

impl Level {
    pub(super) fn new(spec: LevelSpec) -> Self {
        Self {
            set: Mutex::new(QueueSet::new(now(), spec.discipline, 0)),
            spec: ArcSwap::from_pointee(spec),
            retry_after: Mutex::default(),
            widest: AtomicU32::new(0),
            share: Mutex::default(),
            keeps_time: AtomicBool::new(false),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, QueueSet<Ticket>> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn share(&self) -> MutexGuard<'_, Share> {
        self.share.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn discipline(&self) -> Discipline {
        self.spec.load().discipline
    }

    pub(super) fn is_exempt(&self) -> bool {
        self.discipline() == Discipline::Exempt
    }

    pub(super) fn widest(&self) -> Option<u32> {
        match self.widest.load(Ordering::Relaxed) {
            0 => None,
            widest => Some(widest),
        }
    }

    /// Sets what the level may have, and how many it has at first if it is new.
    pub(super) fn configure(&self, limits: Limits, is_new: bool) {
        let spec = self.spec.load();
        let widest = spec.widest(limits.nominal).unwrap_or(0);
        self.widest.store(widest, Ordering::Relaxed);
        let mut share = self.share();
        share.limits = limits;
        if is_new {
            share.current = limits.nominal - (limits.nominal - limits.least) / 2;
        }
        let current = share.current;
        drop(share);
        self.lock().configure(now(), spec.discipline, current);
    }

    /// What the level brings into the sharing, with what it demanded since the
    /// last time.
    pub(super) fn claim(&self) -> Claim {
        let demanded = self.lock().take_demand(now());
        let exempt = self.is_exempt();
        let mut share = self.share();
        share.demand.update(&demanded);
        Claim {
            exempt,
            limits: share.limits,
            demand: share.demand,
            current: share.current,
        }
    }

    /// Sets how many seats the level has until the next time.
    pub(super) fn assign(&self, seats: usize, target: f64, fair: f64) {
        let mut share = self.share();
        share.current = seats;
        share.target = target;
        share.fair = fair;
        drop(share);
        self.lock().set_limit(now(), seats);
    }

    /// A request was refused: in how many seconds it may come again.
    pub(super) fn refused(&self) -> u64 {
        let second = jiff::Timestamp::now().as_second();
        let mut retry_after = self
            .retry_after
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        retry_after.refused(u64::try_from(second).unwrap_or_default())
    }

    /// Starts the timer that frees seats at their release time, unless it runs already or
    /// nothing is due.
    pub(super) fn keep_time(self: &Arc<Self>, release: Option<Duration>) {
        let Some(release) = release else {
            return;
        };
        if self.keeps_time.swap(true, Ordering::AcqRel) {
            return;
        }
        if tokio::runtime::Handle::try_current().is_err() {
            self.keeps_time.store(false, Ordering::Release);
            return;
        }
        let level = Arc::clone(self);
        let keep_time = move || {
            let level = Arc::clone(&level);
            let mut release = release;
            async move {
                loop {
                    tokio::time::sleep(release.saturating_sub(now())).await;
                    let mut set = level.lock();
                    set.tick(now());
                    match set.next_release() {
                        Some(next) => release = next,
                        None => {
                            // Cleared under the lock, so that the next caller starts a new timer.
                            level.keeps_time.store(false, Ordering::Release);
                            break;
                        }
                    }
                }
            }
        };
        control_supervise::task("flow-control-timer").spawn_restarting(keep_time);
    }
}
