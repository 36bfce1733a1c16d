//! Only so many at once of what many would begin together. The runtime makes sandboxes
//! with programs of its own: five hundred of them at the same time get in each other's way
//! until calls take longer than they may, end, and are begun again. Whoever takes long
//! lets the next go, so that nobody waits for what hangs.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use tokio::sync::Semaphore;

/// How long one keeps another waiting.
const PATIENCE: Duration = Duration::from_secs(10);

/// How many at once for each processor, and at least: much of the work is waiting.
const EACH: usize = 4;
const LEAST: usize = 8;

/// Limits how many sandboxes are created at the same time.
#[derive(Debug)]
pub struct SandboxLimiter {
    places: Semaphore,
    patience: Duration,
}

impl SandboxLimiter {
    /// Returns a limiter for a machine with this many processors.
    #[must_use]
    pub fn for_processors(processors: usize) -> Self {
        Self::new(processors.saturating_mul(EACH).max(LEAST), PATIENCE)
    }

    fn new(places: usize, patience: Duration) -> Self {
        Self {
            places: Semaphore::new(places.min(Semaphore::MAX_PERMITS)),
            patience,
        }
    }

    /// Does this once there is a place for it, first come, first served.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> T {
        let place = self.places.acquire().await;
        let mut work = pin!(work);
        if let Ok(done) = tokio::time::timeout(self.patience, &mut work).await {
            return done;
        }
        drop(place);
        work.await
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test]
    async fn no_more_than_may_are_at_work_and_all_get_their_turn() {
        let crowd = Arc::new(SandboxLimiter::new(3, PATIENCE));
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let all = (0..20).map(|number| {
            let (crowd, now, most) = (crowd.clone(), now.clone(), most.clone());
            tokio::spawn(async move {
                let work = async {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(1)).await;
                    now.fetch_sub(1, Ordering::SeqCst);
                    number
                };
                crowd.run(work).await
            })
        });
        let done = futures::future::try_join_all(all.collect::<Vec<_>>()).await;
        assert_eq!(done.unwrap(), (0..20).collect::<Vec<_>>());
        assert_eq!(most.load(Ordering::SeqCst), 3);
    }

    #[tokio::test]
    async fn nobody_waits_long_for_what_hangs() {
        let patience = Duration::from_millis(50);
        let crowd = Arc::new(SandboxLimiter::new(2, patience));
        let begun = std::time::Instant::now();
        let hanging: Vec<_> = (0..2)
            .map(|_| {
                let crowd = crowd.clone();
                tokio::spawn(async move { crowd.run(std::future::pending::<()>()).await })
            })
            .collect();
        tokio::task::yield_now().await;
        crowd.run(async {}).await;
        assert!(begun.elapsed() >= patience);
        assert!(hanging.iter().all(|task| !task.is_finished()));
        for task in hanging {
            task.abort();
        }
    }

    #[tokio::test]
    async fn who_gives_up_waiting_takes_no_place() {
        let crowd = SandboxLimiter::new(1, PATIENCE);
        let first = crowd.run(tokio::time::sleep(Duration::from_millis(1)));
        let mut first = Box::pin(first);
        assert!(futures::poll!(&mut first).is_pending());
        let mut second = Box::pin(crowd.run(async {}));
        assert!(futures::poll!(&mut second).is_pending());
        drop(second);
        first.await;
        crowd.run(async {}).await;
    }
}
