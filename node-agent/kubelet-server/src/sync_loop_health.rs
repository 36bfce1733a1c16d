//! Whether the loop over all pods goes round. It is asked, and answers: an agent that
//! nobody asks has nothing more to do.

use std::time::Duration;

use tokio::sync::Notify;

/// Reports whether the sync loop is alive, for `/healthz`.
#[derive(Debug, Default)]
pub struct SyncLoopHealth {
    asked: Notify,
    answered: Notify,
}

impl SyncLoopHealth {
    /// Whether the loop goes round within that time.
    pub async fn beats(&self, within: Duration) -> bool {
        // begins to listen before it asks
        let answered = self.answered.notified();
        self.asked.notify_one();
        tokio::time::timeout(within, answered).await.is_ok()
    }

    /// A loop that does nothing but answer.
    pub async fn go_round(&self) {
        loop {
            self.asked().await;
            self.answer();
        }
    }

    /// Waits until somebody asks; for the loop, which then [answers](Self::answer).
    pub async fn asked(&self) {
        self.asked.notified().await;
    }

    /// Answers all who ask.
    pub fn answer(&self) {
        self.answered.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn a_loop_that_goes_round_answers_all_who_ask_and_one_that_hangs_nobody() {
        let pulse = Arc::new(SyncLoopHealth::default());
        assert!(!pulse.beats(Duration::from_millis(50)).await);
        let loops = tokio::spawn({
            let pulse = pulse.clone();
            async move { pulse.go_round().await }
        });
        let long = Duration::from_secs(60);
        let all = tokio::join!(pulse.beats(long), pulse.beats(long), pulse.beats(long));
        assert_eq!(all, (true, true, true));
        loops.abort();
        assert!(loops.await.is_err());
        assert!(!pulse.beats(Duration::from_millis(50)).await);
    }
}
