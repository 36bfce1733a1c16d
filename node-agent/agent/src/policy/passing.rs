//! What the compiler leaves until programs have ended that may hold it.
//!
//! Nothing waits for that but its removal: changes are written meanwhile.

use node_agent_datapath::{Error, wait_for_programs};
use node_agent_policy::{Compiler, Mark};
use tokio::task::JoinHandle;
use tracing::warn;

/// So much may wait; before more does, changes wait, too.
pub const MOST: usize = 65_536;

/// Programs that are waited for.
#[derive(Debug, Default)]
pub struct Passing {
    wait: Option<(Mark, JoinHandle<Result<(), Error>>)>,
}

// === impl Passing ===

impl Passing {
    /// The compiler's actions so far are written.
    pub fn begin(&mut self, compiler: &Compiler) {
        if let (None, Some(mark)) = (&self.wait, compiler.mark()) {
            self.wait = Some((mark, tokio::task::spawn_blocking(wait_for_programs)));
        }
    }

    /// The compiler is another one.
    pub fn forget(&mut self) {
        self.wait = None;
    }

    /// Is somebody waited for?
    pub const fn is_waiting(&self) -> bool {
        self.wait.is_some()
    }

    /// Waits; none if it is not known when programs end, or nobody is waited for: what
    /// is left stays then, which harms nobody.
    pub async fn over(&mut self) -> Option<Mark> {
        let (mark, wait) = self.wait.as_mut()?;
        let (mark, waited) = (*mark, wait.await);
        self.wait = None;
        match waited {
            Ok(Ok(())) => return Some(mark),
            Ok(Err(error)) => warn!(
                error = &error as &dyn std::error::Error,
                "what policies no longer need stays in the maps for now"
            ),
            Err(error) => warn!(%error, "what policies no longer need stays in the maps for now"),
        }
        None
    }
}
