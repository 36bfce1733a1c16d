//! What the compiler leaves until programs have ended that may hold it.
//!
//! Nothing waits for that but its removal: changes are written meanwhile.
//!
//! # When the kernel cannot be waited for
//!
//! Nothing is removed then, and no number given anew: it cannot be said that nobody holds
//! it. It is asked again, ever less often, and changes go on to be written beside what
//! stays, until the maps are as large as this machine allows: then what has no room is
//! closed, and the Node says so, as whenever they are full. `docs/reference/counters.md` has the
//! metrics that tell of it before.

use std::time::Duration;

use node_agent_datapath::{Error, wait_for_programs};
use node_agent_policy::{Compiler, FreeMark};
use prometheus_client::{
    metrics::{counter::Counter, gauge::Gauge},
    registry::Registry,
};
use tokio::task::JoinHandle;
use tracing::{info, warn};

/// So much may wait; before more does, changes wait, too, if the kernel can be waited for.
const MOST: usize = 65_536;
/// How long after a wait that failed it is tried again, at first.
const AGAIN: Duration = Duration::from_secs(1);
/// The same, at the most.
const RARELY: Duration = Duration::from_secs(60);

/// Metrics of deferred removals; docs/reference/counters.md explains them. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct GraceMetrics {
    waiting: Gauge,
    failed: Counter,
}

type GraceResult = Result<(), Box<dyn std::error::Error + Send + Sync>>;

/// Waits until no running program can hold removed entries.
#[derive(Debug)]
pub struct GraceWait {
    /// Waits for all programs that are at work.
    wait: fn() -> Result<(), Error>,
    under_way: Option<(FreeMark, JoinHandle<GraceResult>)>,
    /// How often in a row it was not known when programs ended.
    failures: u32,
    metrics: GraceMetrics,
}

// === impl Metrics ===

impl GraceMetrics {
    /// Shows them in a registry.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "orlop_policy_leaving",
            "What policies no longer need and stays until no program can hold it",
            self.waiting.clone(),
        );
        registry.register(
            "orlop_policy_waits_failed",
            "Times that the kernel could not be waited for until programs end",
            self.failed.clone(),
        );
    }
}

// === impl Passing ===

impl GraceWait {
    pub fn new(metrics: GraceMetrics) -> Self {
        Self {
            wait: wait_for_programs,
            under_way: None,
            failures: 0,
            metrics,
        }
    }

    /// The compiler's actions so far are written.
    pub fn begin(&mut self, compiler: &Compiler) {
        let waiting = i64::try_from(compiler.waiting()).unwrap_or(i64::MAX);
        self.metrics.waiting.set(waiting);
        if let (None, Some(mark)) = (&self.under_way, compiler.mark()) {
            let (wait, pause) = (self.wait, pause(self.failures));
            let task = tokio::spawn(async move {
                if !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
                tokio::task::spawn_blocking(wait).await??;
                Ok(())
            });
            self.under_way = Some((mark, task));
        }
    }

    /// The compiler is another one.
    pub fn forget(&mut self) {
        if let Some((_, task)) = self.under_way.take() {
            task.abort();
        }
    }

    /// Is somebody waited for?
    pub const fn is_waiting(&self) -> bool {
        self.under_way.is_some()
    }

    /// Must changes wait while so much waits to be removed? Not for a kernel that does not say when programs have ended:
    /// nobody knows for how long.
    pub const fn is_too_much(&self, waiting: usize) -> bool {
        self.failures == 0 && waiting > MOST
    }

    /// Waits; none if it is not known when programs end, or nobody is waited for: what
    /// is left stays then.
    pub async fn over(&mut self) -> Option<FreeMark> {
        let (mark, wait) = self.under_way.as_mut()?;
        let (mark, waited) = (*mark, wait.await);
        self.under_way = None;
        let Err(problem) = waited.unwrap_or_else(|panic| Err(panic.into())) else {
            let failures = std::mem::take(&mut self.failures);
            if failures > 0 {
                info!(failures, "deferred removal of policy entries resumed");
            }
            return Some(mark);
        };
        self.failures = self.failures.saturating_add(1);
        self.metrics.failed.inc();
        warn!(
            error = &*problem as &dyn std::error::Error,
            failures = self.failures,
            leaving = self.metrics.waiting.get(),
            again_in = ?pause(self.failures),
            "failed to wait for running programs; removal of policy entries is deferred"
        );
        None
    }
}

/// How long after so many failures in a row it is tried again.
fn pause(failures: u32) -> Duration {
    match failures.checked_sub(1) {
        None => Duration::ZERO,
        Some(more) => AGAIN.saturating_mul(1 << more.min(16)).min(RARELY),
    }
}

#[cfg(test)]
mod tests;
