//! Pods that are to be placed, in order.
//!
//! A pod is *gated* (not to be placed yet), *active* (to be placed now, by priority, then by
//! the time of its last attempt), *backing off* (it failed a moment ago), *waiting* (it fits
//! nowhere until something changes), or *in flight* (handed out). As upstream has it since
//! 1.33, a pod that backs off though it may fit by now is handed out when no pod is active;
//! one that backs off after an error is not. Pure: time comes from the caller.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use compact_str::CompactString;
use rustc_hash::FxHashMap;

use crate::event::Event;
use crate::snapshot::{PodKey, Wake};
use crate::view::Pod;

/// A pod that waits this long is tried again even if nothing happened: a
/// missed change must not make it wait for ever.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// How long pods back off after failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// After the first failure; doubles with each.
    pub initial: Duration,
    /// The longest.
    pub longest: Duration,
}

/// The reasons why a pod fits nowhere, as far as the queue needs them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rejecters {
    /// The plugins that rejected it, by their places in the profile.
    pub plugins: u64,
    /// The kinds of events that one of them waits for.
    pub wake: Wake,
}

/// Numbers of pending pods by queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PendingPods {
    /// The number of pods to be placed now.
    pub active: usize,
    /// Backing off.
    pub backoff: usize,
    /// Waiting.
    pub unschedulable: usize,
    /// Not to be placed yet, by their scheduling gates or a plugin.
    pub gated: usize,
}

/// The attempts at placing a pod so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempts {
    /// How many.
    pub count: u32,
    /// When the pod became active for the first time.
    pub since: Instant,
}

/// The plugin that keeps gated pods.
const SCHEDULING_GATES: &str = "SchedulingGates";

/// The pods that are to be placed.
#[derive(Debug)]
pub struct Queue {
    backoff: Backoff,
    pods: FxHashMap<PodKey, Entry>,
    active: BinaryHeap<(i32, Reverse<u64>, u64, PodKey)>,
    /// Pods that back off though they may fit.
    resting: BinaryHeap<Reverse<(Instant, Reverse<i32>, u64, u64, PodKey)>>,
    timers: BinaryHeap<Reverse<(Instant, u64, PodKey)>>,
    arrivals: u64,
    /// Makes entries of the heaps that were overtaken invalid.
    tickets: u64,
    incoming: FxHashMap<(&'static str, &'static str), u64>,
    counts: Counts,
}

/// Counts of pods, so that nothing iterates over them.
#[derive(Debug, Default)]
struct Counts {
    pending: PendingPods,
    /// Waiting pods by each kind of event that they wait for.
    waiting_for: [u32; 32],
    /// Pods by plugin that rejected them at the last attempt, and by profile.
    rejected: FxHashMap<(&'static str, CompactString), usize>,
}

#[derive(Debug)]
struct Entry {
    pod: Arc<Pod>,
    /// The order among pods of one priority: of arrival, or of the last failure.
    arrival: u64,
    attempts: u32,
    since: Option<Instant>,
    /// How often it fitted nowhere.
    unschedulable: u32,
    /// How often placing it failed in a row, for other reasons.
    errors: u32,
    failed_at: Option<Instant>,
    ticket: u64,
    state: EntryState,
    /// Whether it is not to be tried, and whether it would have been.
    held: bool,
    missed: bool,
    /// The plugins that rejected it at the last attempt.
    rejected_by: Box<[&'static str]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EntryState {
    Gated,
    Active,
    BackingOff,
    Waiting(Rejecters),
    /// As waiting, but it was not tried.
    Barred(Rejecters),
    InFlight,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            initial: Duration::from_secs(1),
            longest: Duration::from_secs(10),
        }
    }
}

impl PendingPods {
    /// Returns the count to which a pod belongs.
    const fn of(&mut self, state: EntryState, held: bool) -> Option<&mut usize> {
        Some(match state {
            EntryState::Gated | EntryState::Barred(_) => &mut self.gated,
            EntryState::Waiting(_) if held => &mut self.gated,
            EntryState::Active => &mut self.active,
            EntryState::BackingOff => &mut self.backoff,
            EntryState::Waiting(_) => &mut self.unschedulable,
            EntryState::InFlight => return None,
        })
    }
}

impl Counts {
    /// A pod begins or ends to wait.
    fn wait(&mut self, state: EntryState, begins: bool) {
        if let EntryState::Waiting(rejecters) | EntryState::Barred(rejecters) = state {
            for kind in rejecters.wake.kinds() {
                if let Some(count) = self.waiting_for.get_mut(kind) {
                    *count = if begins {
                        *count + 1
                    } else {
                        count.saturating_sub(1)
                    };
                }
            }
        }
    }

    /// Whether a pod waits for one of these events.
    fn is_awaited(&self, wake: Wake) -> bool {
        let mut kinds = wake.kinds();
        kinds.any(|kind| self.waiting_for.get(kind).is_some_and(|count| *count > 0))
    }
}

impl Entry {
    /// Moves the pod on.
    fn set(&mut self, state: EntryState, held: bool, counts: &mut Counts) {
        if let Some(count) = counts.pending.of(self.state, self.held) {
            *count = count.saturating_sub(1);
        }
        counts.wait(self.state, false);
        (self.state, self.held) = (state, held);
        if let Some(count) = counts.pending.of(self.state, self.held) {
            *count += 1;
        }
        counts.wait(self.state, true);
    }
}

impl Entry {
    /// Notes which plugins rejected the pod; none when it is tried again.
    fn reject(&mut self, by: Box<[&'static str]>, counts: &mut Counts) {
        let profile = &self.pod.scheduler_name;
        for plugin in &self.rejected_by {
            let key = (*plugin, profile.clone());
            let count = counts.rejected.entry(key).or_default();
            *count = count.saturating_sub(1);
        }
        for plugin in &by {
            *counts
                .rejected
                .entry((*plugin, profile.clone()))
                .or_default() += 1;
        }
        self.rejected_by = by;
    }
}

impl Backoff {
    /// After so many failures.
    fn after(self, failures: u32) -> Duration {
        match failures.checked_sub(1) {
            None => Duration::ZERO,
            Some(shift) => {
                let doubled = 1u32.checked_shl(shift).filter(|it| *it > 0);
                let backoff = doubled.and_then(|factor| self.initial.checked_mul(factor));
                backoff.map_or(self.longest, |backoff| backoff.min(self.longest))
            }
        }
    }
}

impl Default for Queue {
    fn default() -> Self {
        Self::new(Backoff::default())
    }
}

impl Queue {
    /// An empty queue.
    #[must_use]
    pub fn new(backoff: Backoff) -> Self {
        Self {
            backoff,
            pods: FxHashMap::default(),
            active: BinaryHeap::new(),
            resting: BinaryHeap::new(),
            timers: BinaryHeap::new(),
            arrivals: 0,
            tickets: 0,
            incoming: FxHashMap::default(),
            counts: Counts::default(),
        }
    }

    /// A pod is to be placed, or changed while it waits; `worth` says whether the change may
    /// make it fit.
    pub fn put(
        &mut self,
        pod: &Arc<Pod>,
        now: Instant,
        worth: impl FnOnce(&Event<'_>, Rejecters) -> bool,
    ) {
        let key = pod.key();
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
                since: None,
                unschedulable: 0,
                errors: 0,
                failed_at: None,
                ticket: 0,
                state: EntryState::Gated,
                held: false,
                missed: false,
                rejected_by: Box::default(),
            };
            self.pods.insert(key.clone(), entry);
            self.counts.pending.gated += 1;
            if pod.gated {
                self.reject(&key, [SCHEDULING_GATES]);
                self.count("gated", "UnscheduledPodAdd");
            } else {
                self.activate(&key, "UnscheduledPodAdd", now);
            }
            return;
        };
        let before = std::mem::replace(&mut entry.pod, Arc::clone(pod));
        match entry.state {
            EntryState::Gated if !pod.gated => self.activate(&key, "UnscheduledPodUpdate", now),
            EntryState::Waiting(rejecters) | EntryState::Barred(rejecters) => {
                let event = Event::itself(&before, pod);
                if worth(&event, rejecters) {
                    self.ready(&key, "UnscheduledPodUpdate", now);
                }
            }
            EntryState::Gated
            | EntryState::Active
            | EntryState::BackingOff
            | EntryState::InFlight => {}
        }
    }

    /// A pod is not to be placed (any more).
    pub fn remove(&mut self, key: &PodKey) {
        if let Some(mut entry) = self.pods.remove(key) {
            entry.set(EntryState::InFlight, false, &mut self.counts);
            entry.reject(Box::default(), &mut self.counts);
        }
    }

    /// The next pod to place. It is in flight until it is removed, or comes
    /// back by [`Queue::wait`] or [`Queue::fail`].
    pub fn pop(&mut self, now: Instant) -> Option<Arc<Pod>> {
        self.ripen(now);
        while let Some((_, _, ticket, key)) = self.active.pop() {
            if let Some(pod) = self.take(&key, ticket, EntryState::Active, now) {
                return Some(pod);
            }
        }
        while let Some(Reverse((.., ticket, key))) = self.resting.pop() {
            if let Some(pod) = self.take(&key, ticket, EntryState::BackingOff, now) {
                self.count("active", "PopFromBackoffQ");
                return Some(pod);
            }
        }
        None
    }

    fn take(
        &mut self,
        key: &PodKey,
        ticket: u64,
        from: EntryState,
        now: Instant,
    ) -> Option<Arc<Pod>> {
        let entry = self.pods.get(key)?;
        if entry.ticket != ticket || entry.state != from || entry.held {
            return None;
        }
        self.hand_out(key, now)
    }

    fn hand_out(&mut self, key: &PodKey, now: Instant) -> Option<Arc<Pod>> {
        let entry = self.pods.get_mut(key)?;
        entry.set(EntryState::InFlight, false, &mut self.counts);
        entry.reject(Box::default(), &mut self.counts);
        entry.attempts = entry.attempts.saturating_add(1);
        entry.since.get_or_insert(now);
        Some(Arc::clone(&entry.pod))
    }

    /// The attempts at placing a pod so far.
    #[must_use]
    pub fn attempts(&self, key: &PodKey) -> Option<Attempts> {
        let entry = self.pods.get(key)?;
        Some(Attempts {
            count: entry.attempts,
            since: entry.since?,
        })
    }

    /// The pod fits nowhere until something happens.
    pub fn wait(&mut self, key: &PodKey, rejecters: Rejecters, now: Instant) {
        self.tickets += 1;
        self.arrivals += 1;
        let (ticket, arrival) = (self.tickets, self.arrivals);
        if let Some(entry) = self.pods.get_mut(key) {
            entry.set(EntryState::Waiting(rejecters), false, &mut self.counts);
            entry.missed = false;
            entry.unschedulable = entry.unschedulable.saturating_add(1);
            entry.errors = 0;
            entry.failed_at = Some(now);
            entry.ticket = ticket;
            entry.arrival = arrival;
            self.timers
                .push(Reverse((now + LONGEST_WAIT, ticket, key.clone())));
            self.count("unschedulable", "ScheduleAttemptFailure");
        }
    }

    /// Notes which plugins rejected a pod, until it is tried again.
    pub fn reject(&mut self, key: &PodKey, plugins: impl IntoIterator<Item = &'static str>) {
        if let Some(entry) = self.pods.get_mut(key) {
            entry.reject(plugins.into_iter().collect(), &mut self.counts);
        }
    }

    /// How many pods each plugin rejected at their last attempt, by plugin and profile.
    pub fn rejected(&self) -> impl Iterator<Item = (&'static str, &str, usize)> {
        let all = self.counts.rejected.iter();
        all.map(|((plugin, profile), count)| (*plugin, profile.as_str(), *count))
    }

    /// The pod was not tried, and is not before something happens (PreEnqueue).
    pub fn gate(&mut self, key: &PodKey, rejecters: Rejecters, now: Instant) {
        self.tickets += 1;
        let ticket = self.tickets;
        if let Some(entry) = self.pods.get_mut(key) {
            entry.set(EntryState::Barred(rejecters), false, &mut self.counts);
            entry.missed = false;
            entry.attempts = entry.attempts.saturating_sub(1);
            if entry.attempts == 0 {
                // The time that it takes to place it has not begun.
                entry.since = None;
            }
            entry.ticket = ticket;
            self.timers
                .push(Reverse((now + LONGEST_WAIT, ticket, key.clone())));
        }
    }

    /// Placing the pod failed for a reason that has nothing to do with where it fits: again,
    /// after a back-off.
    pub fn fail(&mut self, key: &PodKey, now: Instant) {
        self.arrivals += 1;
        let arrival = self.arrivals;
        if let Some(entry) = self.pods.get_mut(key) {
            entry.errors = entry.errors.saturating_add(1);
            entry.failed_at = Some(now);
            entry.arrival = arrival;
            self.ready(key, "ScheduleAttemptFailure", now);
        }
    }

    /// Delays a pod that fits nowhere: it is tried again after a back-off regardless of
    /// events, and not before, since it is unknown which events help its PodGroup.
    pub fn back_off(&mut self, key: &PodKey, now: Instant) {
        self.arrivals += 1;
        let arrival = self.arrivals;
        if let Some(entry) = self.pods.get_mut(key) {
            entry.unschedulable = entry.unschedulable.saturating_add(1);
            entry.errors = 0;
            entry.failed_at = Some(now);
            entry.arrival = arrival;
            self.rest(key, false, "ScheduleAttemptFailure", now);
        }
    }

    /// Returns whether the pod could be tried now regardless of back-off: it is not in
    /// flight, has no scheduling gates, and is not held.
    #[must_use]
    pub fn may_take(&self, key: &PodKey) -> bool {
        self.pods.get(key).is_some_and(|entry| {
            !entry.held && !matches!(entry.state, EntryState::Gated | EntryState::InFlight)
        })
    }

    /// Returns the pod, which is in flight from now on, as if [`Queue::pop`] had returned
    /// it.
    pub fn take_now(&mut self, key: &PodKey, now: Instant) -> Option<Arc<Pod>> {
        if !self.may_take(key) {
            return None;
        }
        let entry = self.pods.get_mut(key)?;
        if entry.state == EntryState::Active {
            return self.hand_out(key, now);
        }
        self.activate(key, "ForceActivate", now);
        self.hand_out(key, now)
    }

    /// Tries the pod now, whether it waits or backs off.
    pub fn force(&mut self, key: &PodKey, now: Instant) {
        let entry = self.pods.get(key).filter(|entry| !entry.held);
        if entry
            .is_some_and(|it| matches!(it.state, EntryState::Waiting(_) | EntryState::BackingOff))
        {
            self.activate(key, "ForceActivate", now);
        }
    }

    /// Something happened; `worth` says whether it may help a pod with these rejecters.
    pub fn wake(
        &mut self,
        event: &Event<'_>,
        now: Instant,
        worth: impl Fn(&Pod, Rejecters) -> bool,
    ) {
        if !self.counts.is_awaited(event.wake) {
            return;
        }
        let helped = |entry: &Entry| match entry.state {
            EntryState::Waiting(rejecters) | EntryState::Barred(rejecters) => {
                rejecters.wake.meets(event.wake) && worth(&entry.pod, rejecters)
            }
            EntryState::Gated
            | EntryState::Active
            | EntryState::BackingOff
            | EntryState::InFlight => false,
        };
        let keys: Vec<PodKey> = self
            .pods
            .iter()
            .filter(|(_, entry)| helped(entry))
            .map(|(key, _)| key.clone())
            .collect();
        for key in keys {
            self.ready(&key, event.label(), now);
        }
    }

    /// The pod is not to be tried before [`Queue::release`], whatever happens.
    pub fn hold(&mut self, key: &PodKey) {
        if let Some(entry) = self.pods.get_mut(key) {
            entry.set(entry.state, true, &mut self.counts);
        }
    }

    /// The pod may be tried again: when something happens that may help it, or already did;
    /// with `at_once`, now.
    pub fn release(&mut self, key: &PodKey, at_once: bool, now: Instant) {
        let Some(entry) = self.pods.get_mut(key) else {
            return;
        };
        entry.set(entry.state, false, &mut self.counts);
        let missed = std::mem::take(&mut entry.missed);
        if at_once {
            self.activate(key, "ForceActivate", now);
        } else if missed {
            self.ready(key, "AssignedPodDelete", now);
        }
    }

    /// When to look again though nothing happened.
    #[must_use]
    pub fn next_time(&self) -> Option<Instant> {
        self.timers.peek().map(|Reverse((at, ..))| *at)
    }

    /// How many pods are where.
    #[must_use]
    pub const fn pending(&self) -> PendingPods {
        self.counts.pending
    }

    /// Returns how many pods entered each queue since the last call, by queue and event.
    pub fn take_incoming(
        &mut self,
    ) -> impl Iterator<Item = ((&'static str, &'static str), u64)> + '_ {
        self.incoming.drain()
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

    fn count(&mut self, queue: &'static str, event: &'static str) {
        *self.incoming.entry((queue, event)).or_default() += 1;
    }

    /// Active, or active after its back-off, or earlier when no other pod is active.
    fn ready(&mut self, key: &PodKey, event: &'static str, now: Instant) {
        self.rest(key, true, event, now);
    }

    /// Active, or active after its back-off; with `eager`, earlier when no other pod is active
    /// and the pod did not fail with an error.
    fn rest(&mut self, key: &PodKey, eager: bool, event: &'static str, now: Instant) {
        self.tickets += 1;
        let ticket = self.tickets;
        let Some(entry) = self.pods.get_mut(key) else {
            return;
        };
        if entry.held {
            entry.missed = true;
            return;
        }
        let is_error = entry.errors > 0;
        let failures = if is_error {
            entry.errors
        } else {
            entry.unschedulable
        };
        let until = entry.failed_at.map(|at| at + self.backoff.after(failures));
        let Some(until) = until.filter(|until| *until > now) else {
            self.activate(key, event, now);
            return;
        };
        entry.ticket = ticket;
        entry.set(EntryState::BackingOff, false, &mut self.counts);
        let (priority, arrival) = (entry.pod.priority, entry.arrival);
        self.timers.push(Reverse((until, ticket, key.clone())));
        if eager && !is_error {
            self.resting.push(Reverse((
                until,
                Reverse(priority),
                arrival,
                ticket,
                key.clone(),
            )));
        }
        self.count("backoff", event);
    }

    fn activate(&mut self, key: &PodKey, event: &'static str, now: Instant) {
        self.tickets += 1;
        if let Some(entry) = self.pods.get_mut(key) {
            entry.set(EntryState::Active, false, &mut self.counts);
            entry.ticket = self.tickets;
            entry.since.get_or_insert(now);
            let place = (
                entry.pod.priority,
                Reverse(entry.arrival),
                entry.ticket,
                key.clone(),
            );
            self.active.push(place);
            self.count("active", event);
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
            let Some(entry) = self.pods.get_mut(&key) else {
                continue;
            };
            if entry.ticket != ticket {
                continue;
            }
            if entry.held {
                entry.missed = true;
                continue;
            }
            let event = match entry.state {
                EntryState::BackingOff => "BackoffComplete",
                _ => "UnschedulableTimeout",
            };
            self.activate(&key, event, now);
        }
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
