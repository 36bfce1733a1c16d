//! The last flows of a node, and those who wait for further ones. Memory is
//! bounded: of flows by their number, of those who wait by what they may miss.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use jiff::Timestamp;
use tokio::sync::broadcast;

use super::flow::{Flow, FlowFilter};

/// Flows that whoever follows may be behind; then some are missed, which is
/// said.
const BEHIND: usize = 1_024;

/// The most recent flows.
#[derive(Debug)]
pub struct FlowStore {
    inner: Mutex<FlowRing>,
    sender: broadcast::Sender<Arc<Flow>>,
}

#[derive(Debug)]
struct FlowRing {
    flows: VecDeque<Arc<Flow>>,
    most: usize,
    /// Records that programs could not write, since the agent began.
    lost: u64,
}

// === impl Store ===

impl FlowStore {
    /// Keeps so many.
    #[must_use]
    pub fn new(most: usize) -> Self {
        Self {
            inner: Mutex::new(FlowRing {
                flows: VecDeque::new(),
                most,
                lost: 0,
            }),
            sender: broadcast::channel(BEHIND).0,
        }
    }

    fn inner(&self) -> MutexGuard<'_, FlowRing> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds flows in their order; the oldest ones go.
    pub fn add(&self, flows: impl IntoIterator<Item = Flow>) {
        for flow in flows {
            let flow = Arc::new(flow);
            {
                let mut inner = self.inner();
                inner.flows.push_back(Arc::clone(&flow));
                while inner.flows.len() > inner.most {
                    inner.flows.pop_front();
                }
            }
            // Nobody may be following.
            let _ = self.sender.send(flow);
        }
    }

    /// Says how many were lost.
    pub fn lose(&self, lost: u64) {
        self.inner().lost = lost;
    }

    /// How many were lost.
    pub fn lost(&self) -> u64 {
        self.inner().lost
    }

    /// How many there are.
    pub fn kept(&self) -> usize {
        self.inner().flows.len()
    }

    /// The last `most` of those that a filter takes, oldest first.
    pub fn last(&self, filter: &FlowFilter, most: usize, now: Timestamp) -> Vec<Arc<Flow>> {
        let all: Vec<_> = {
            let inner = self.inner();
            inner.flows.iter().cloned().collect()
        };
        let mut taken: Vec<_> = all
            .into_iter()
            .rev()
            .filter(|flow| filter.takes(flow, now))
            .take(most)
            .collect();
        taken.reverse();
        taken
    }

    /// The last ones, and all that come.
    pub fn follow(
        &self,
        filter: &FlowFilter,
        most: usize,
        now: Timestamp,
    ) -> (Vec<Arc<Flow>>, broadcast::Receiver<Arc<Flow>>) {
        // In this order one that comes meanwhile may be there twice, but is not
        // missed; the lock is not held while flows are sent.
        let receiver = self.sender.subscribe();
        let last = self.last(filter, most, now);
        (last, receiver)
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::flow::{FlowVerdict, tests::flow},
        *,
    };

    fn seconds(flows: &[Arc<Flow>]) -> Vec<i64> {
        flows.iter().map(|it| it.time.as_second()).collect()
    }

    #[tokio::test]
    async fn the_last_ones_are_kept_and_those_who_follow_get_the_rest() {
        let store = FlowStore::new(3);
        let now = Timestamp::from_second(100).expect("a time");
        store.add((0..5).map(|it| flow(it, FlowVerdict::Dropped)));
        let all = FlowFilter::default();
        assert_eq!(seconds(&store.last(&all, 9, now)), [2, 3, 4]);
        assert_eq!(seconds(&store.last(&all, 2, now)), [3, 4]);
        assert_eq!(store.kept(), 3);
        let forwarded = FlowFilter {
            verdict: Some(FlowVerdict::Forwarded),
            ..FlowFilter::default()
        };
        assert!(store.last(&forwarded, 9, now).is_empty());
        let (last, mut more) = store.follow(&all, 1, now);
        assert_eq!(seconds(&last), [4]);
        store.add([flow(5, FlowVerdict::Forwarded)]);
        assert_eq!(more.recv().await.expect("a flow").time.as_second(), 5);
        // Who does not read is told so, and costs nothing.
        store.add((0..2 * BEHIND as i64).map(|it| flow(it, FlowVerdict::Dropped)));
        let missed = more.recv().await;
        assert!(matches!(
            missed,
            Err(broadcast::error::RecvError::Lagged(1..))
        ));
        assert_eq!(store.kept(), 3);
    }

    #[test]
    fn nothing_is_kept_where_nothing_is_to_be() {
        let store = FlowStore::new(0);
        store.add([flow(1, FlowVerdict::Dropped)]);
        assert_eq!(store.kept(), 0);
    }
}
