//! The parts of an agent as tasks under the supervisor. The end of any part ends all.

use control_supervise::task;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::Error;

/// The parts of an agent that have been started.
pub struct AgentParts {
    tasks: JoinSet<Result<(), Error>>,
    shutdown: CancellationToken,
    stop: CancellationToken,
}

impl AgentParts {
    /// No parts yet, for an agent that ends at `shutdown`.
    pub fn new(shutdown: CancellationToken) -> Self {
        Self {
            tasks: JoinSet::new(),
            stop: shutdown.child_token(),
            shutdown,
        }
    }

    /// Returns the token at which each part ends: at the shutdown, or when another part has
    /// ended.
    pub fn stop(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Starts a part.
    pub fn start<P>(&mut self, name: &'static str, part: P)
    where
        P: Future<Output = Result<(), Error>> + Send + 'static,
    {
        self.tasks.spawn(task(name).owned(part));
    }

    /// Starts a part on a thread of its own, since it may compute for a while.
    pub fn start_on_thread<P>(&mut self, name: &'static str, part: P)
    where
        P: Future<Output = Result<(), Error>> + Send + 'static,
    {
        let runtime = tokio::runtime::Handle::current();
        let part = task(name).owned(part);
        self.tasks.spawn_blocking(move || runtime.block_on(part));
    }

    /// Waits for the end of all parts, which the end of any of them brings about.
    ///
    /// # Errors
    /// The first failure of a part, or that a part returned before the shutdown.
    pub async fn join(mut self) -> Result<(), Error> {
        let mut result = Ok(());
        while let Some(ended) = self.tasks.join_next().await {
            let ended = ended.unwrap_or_else(|panic| Err(Error::Panic(panic)));
            let early = !self.stop.is_cancelled();
            self.stop.cancel();
            // The first failure is the cause of the others.
            if result.is_ok() {
                result = match ended {
                    Ok(()) if early && !self.shutdown.is_cancelled() => Err(Error::Ended),
                    ended => ended,
                };
            }
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use control_supervise::{State, Supervisor};

    use super::*;

    /// A part that ends only when it is to.
    async fn part(stop: CancellationToken) -> Result<(), Error> {
        stop.cancelled().await;
        Ok(())
    }

    #[tokio::test]
    async fn a_part_that_panics_ends_all_parts_and_the_agent_with_its_panic() {
        let supervisor = Supervisor::new();
        let test = async {
            let shutdown = CancellationToken::new();
            let mut parts = AgentParts::new(shutdown.clone());
            let stop = parts.stop();
            for name in ["services", "dns", "pods"] {
                parts.start(name, part(stop.clone()));
            }
            // Of a thread, too.
            parts.start_on_thread("network-policy", part(stop.clone()));
            let ended = tokio::spawn(parts.join());
            tokio::task::yield_now().await;
            assert_eq!(supervisor.panic("dns"), 1);
            let ended = ended.await.expect("no panic");
            assert!(matches!(ended, Err(Error::Panic(_))), "{ended:?}");
            assert!(stop.is_cancelled() && !shutdown.is_cancelled());
            let left = supervisor.health();
            let left: Vec<_> = left.iter().map(|task| (task.name, task.state)).collect();
            assert_eq!(left, [("dns", State::Failed)]);
        };
        tokio::time::timeout(std::time::Duration::from_secs(30), supervisor.scope(test))
            .await
            .expect("in time");
    }

    #[tokio::test]
    async fn a_part_that_returns_ends_the_agent_with_an_error_unless_it_is_to_end() {
        for is_shutdown in [false, true] {
            let shutdown = CancellationToken::new();
            let mut parts = AgentParts::new(shutdown.clone());
            parts.start("stays", part(parts.stop()));
            if is_shutdown {
                shutdown.cancel();
            } else {
                parts.start("returns", async { Ok(()) });
            }
            let ended = parts.join().await;
            match ended {
                Ok(()) => assert!(is_shutdown),
                Err(error) => assert!(matches!(error, Error::Ended) && !is_shutdown, "{error}"),
            }
        }
    }
}
