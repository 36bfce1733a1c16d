//! Pods that are to be placed, in order.
//!
//! A pod is *active* (to be placed now, by priority, then by age), *backing
//! off* (it failed a moment ago), *waiting* (it fits nowhere until something
//! changes), or *in flight* (handed out). Pure: time comes from the caller.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use crate::snapshot::{PodKey, Wake};
use crate::view::Pod;

/// After the first failure; doubles with each.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
/// The longest.
const LONGEST_BACKOFF: Duration = Duration::from_secs(10);
/// A pod that waits this long is tried again even if nothing happened: a
/// missed change must not make it wait for ever.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// The pods that are to be placed.
#[derive(Debug, Default)]
pub struct Queue {
    pods: FxHashMap<PodKey, Entry>,
    active: BinaryHeap<(i32, Reverse<u64>, u64, PodKey)>,
    timers: BinaryHeap<Reverse<(Instant, u64, PodKey)>>,
    arrivals: u64,
    /// Makes entries of `active` and `timers` that were overtaken invalid.
    tickets: u64,
}

#[derive(Debug)]
struct Entry {
    pod: Arc<Pod>,
    arrival: u64,
    attempts: u32,
    failed_at: Option<Instant>,
    ticket: u64,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Active,
    BackingOff,
    Waiting(Wake),
    InFlight,
}

fn key(pod: &Pod) -> PodKey {
    (pod.metadata.namespace.clone(), pod.metadata.name.clone())
}

impl Queue {
    /// A pod is to be placed, or changed while it waits.
    pub fn put(&mut self, pod: &Arc<Pod>, now: Instant) {
        let key = key(pod);
        let same_object = self
            .pods
            .get(&key)
            .is_some_and(|entry| entry.pod.metadata.uid == pod.metadata.uid);
        if !same_object {
            self.remove(&key);
        }
        let Some(entry) = self.pods.get_mut(&key) else {
            self.arrivals += 1;
            let entry = Entry {
                pod: Arc::clone(pod),
                arrival: self.arrivals,
                attempts: 0,
                failed_at: None,
                ticket: 0,
                state: State::Waiting(Wake::NONE),
            };
            self.pods.insert(key.clone(), entry);
            self.activate(&key);
            return;
        };
        let before = std::mem::replace(&mut entry.pod, Arc::clone(pod));
        // its own condition being written is no reason to try again
        let changed = !Arc::ptr_eq(&before.shape, &pod.shape)
            || before.metadata.labels != pod.metadata.labels
            || before.priority != pod.priority
            || before.claims != pod.claims;
        if changed && matches!(entry.state, State::Waiting(_)) {
            self.ready(&key, now);
        }
    }

    /// A pod is not to be placed (any more).
    pub fn remove(&mut self, key: &PodKey) {
        self.pods.remove(key);
    }

    /// The next pod to place. It is in flight until it is removed, or comes
    /// back by [`Queue::wait`].
    pub fn pop(&mut self, now: Instant) -> Option<Arc<Pod>> {
        self.ripen(now);
        while let Some((_, _, ticket, key)) = self.active.pop() {
            if let Some(entry) = self.pods.get_mut(&key)
                && entry.ticket == ticket
                && entry.state == State::Active
            {
                entry.state = State::InFlight;
                entry.attempts = entry.attempts.saturating_add(1);
                return Some(Arc::clone(&entry.pod));
            }
        }
        None
    }

    /// The pod fits nowhere until one of `wake` happens.
    pub fn wait(&mut self, key: &PodKey, wake: Wake, now: Instant) {
        self.tickets += 1;
        let ticket = self.tickets;
        if let Some(entry) = self.pods.get_mut(key) {
            entry.state = State::Waiting(wake);
            entry.failed_at = Some(now);
            entry.ticket = ticket;
            self.timers
                .push(Reverse((now + LONGEST_WAIT, ticket, key.clone())));
        }
    }

    /// A pod whose placement failed after it was decided: again, after a
    /// back-off.
    pub fn put_failed(&mut self, pod: &Arc<Pod>, now: Instant) {
        let key = key(pod);
        self.put(pod, now);
        if let Some(entry) = self.pods.get_mut(&key) {
            entry.attempts = entry.attempts.saturating_add(1);
            entry.failed_at = Some(now);
            self.ready(&key, now);
        }
    }

    /// Something happened that may help waiting pods.
    pub fn wake(&mut self, happened: Wake, now: Instant) {
        if happened.is_none() {
            return;
        }
        let helped = |entry: &Entry| match entry.state {
            State::Waiting(wake) => wake.meets(happened),
            State::Active | State::BackingOff | State::InFlight => false,
        };
        let keys: Vec<PodKey> = self
            .pods
            .iter()
            .filter(|(_, entry)| helped(entry))
            .map(|(key, _)| key.clone())
            .collect();
        for key in keys {
            self.ready(&key, now);
        }
    }

    /// When to look again though nothing happened.
    #[must_use]
    pub fn next_time(&self) -> Option<Instant> {
        self.timers.peek().map(|Reverse((at, ..))| *at)
    }

    /// How many pods are not placed, in flight included.
    #[must_use]
    pub fn len(&self) -> usize {
        self.pods.len()
    }

    /// Whether all pods are placed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// Active, or active after its back-off.
    fn ready(&mut self, key: &PodKey, now: Instant) {
        let Some(entry) = self.pods.get_mut(key) else {
            return;
        };
        let until = entry.failed_at.map(|at| at + backoff(entry.attempts));
        match until.filter(|until| *until > now) {
            Some(until) => {
                self.tickets += 1;
                entry.ticket = self.tickets;
                entry.state = State::BackingOff;
                self.timers
                    .push(Reverse((until, entry.ticket, key.clone())));
            }
            None => self.activate(key),
        }
    }

    fn activate(&mut self, key: &PodKey) {
        self.tickets += 1;
        if let Some(entry) = self.pods.get_mut(key) {
            entry.state = State::Active;
            entry.ticket = self.tickets;
            let place = (
                entry.pod.priority,
                Reverse(entry.arrival),
                entry.ticket,
                key.clone(),
            );
            self.active.push(place);
        }
    }

    /// Activates the pods whose time has come.
    fn ripen(&mut self, now: Instant) {
        while let Some(Reverse((at, ticket, _))) = self.timers.peek() {
            let (at, ticket) = (*at, *ticket);
            if at > now {
                return;
            }
            let Some(Reverse((.., key))) = self.timers.pop() else {
                return;
            };
            if self
                .pods
                .get(&key)
                .is_some_and(|entry| entry.ticket == ticket)
            {
                self.activate(&key);
            }
        }
    }
}

fn backoff(attempts: u32) -> Duration {
    FIRST_BACKOFF
        .saturating_mul(1 << attempts.saturating_sub(1).min(10))
        .min(LONGEST_BACKOFF)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, priority: i32) -> Arc<Pod> {
        let pod = json!({"metadata": {"name": name, "uid": name}, "spec": {"priority": priority}});
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn popped(queue: &mut Queue, now: Instant) -> String {
        let names = std::iter::from_fn(|| queue.pop(now)).map(|pod| pod.metadata.name.to_string());
        names.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn higher_priority_goes_first_then_the_older() {
        let now = Instant::now();
        let mut queue = Queue::default();
        for (name, priority) in [("a", 0), ("b", 5), ("c", 0), ("d", 5)] {
            queue.put(&pod(name, priority), now);
        }
        assert_eq!(popped(&mut queue, now), "b d a c");
    }

    #[test]
    fn a_waiting_pod_is_woken_only_by_what_may_help_and_after_its_back_off() {
        let now = Instant::now();
        let mut queue = Queue::default();
        queue.put(&pod("a", 0), now);
        queue.pop(now).unwrap();
        queue.wait(&key(&pod("a", 0)), Wake::NODE_TAINTS, now);
        queue.wake(Wake::POD_REMOVED, now);
        let later = now + Duration::from_secs(60);
        assert_eq!(popped(&mut queue, later), "");
        queue.wake(Wake::NODE_TAINTS, now);
        assert_eq!(popped(&mut queue, now), "");
        assert_eq!(queue.next_time(), Some(now + Duration::from_secs(1)));
        assert_eq!(popped(&mut queue, now + Duration::from_secs(1)), "a");
    }

    #[test]
    fn the_back_off_doubles_up_to_ten_seconds() {
        let seconds: Vec<u64> = (1..7).map(|attempts| backoff(attempts).as_secs()).collect();
        assert_eq!(seconds, [1, 2, 4, 8, 10, 10]);
    }

    #[test]
    fn a_pod_that_waits_long_is_tried_again() {
        let now = Instant::now();
        let mut queue = Queue::default();
        queue.put(&pod("a", 0), now);
        queue.pop(now).unwrap();
        queue.wait(&key(&pod("a", 0)), Wake::NONE, now);
        assert_eq!(popped(&mut queue, now + Duration::from_secs(299)), "");
        assert_eq!(popped(&mut queue, now + Duration::from_secs(300)), "a");
    }

    #[test]
    fn a_changed_condition_does_not_wake_but_a_changed_spec_does() {
        let now = Instant::now();
        let later = now + Duration::from_secs(2);
        let mut queue = Queue::default();
        queue.put(&pod("a", 0), now);
        queue.pop(now).unwrap();
        queue.wait(&key(&pod("a", 0)), Wake::NONE, now);
        queue.put(&pod("a", 0), later);
        assert_eq!(popped(&mut queue, later), "");
        queue.put(&pod("a", 7), later);
        assert_eq!(popped(&mut queue, later), "a");
    }

    #[test]
    fn a_removed_pod_is_not_handed_out_and_one_made_anew_is() {
        let now = Instant::now();
        let mut queue = Queue::default();
        queue.put(&pod("a", 0), now);
        queue.put(&pod("b", 0), now);
        queue.remove(&key(&pod("a", 0)));
        assert_eq!(popped(&mut queue, now), "b");
        let mut again = (*pod("b", 0)).clone();
        again.metadata.uid = "another".into();
        queue.put(&Arc::new(again), now);
        assert_eq!(popped(&mut queue, now), "b");
        assert_eq!(queue.len(), 1);
    }
}
