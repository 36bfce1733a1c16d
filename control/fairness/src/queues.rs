//! The seats and queues of one priority level.
//!
//! Fair queuing as in KEP-1040: every non-empty queue gets the same number of seats in a
//! virtual world, whose progress is the meter R(t). A queue knows the reading of R at
//! which its next request would begin there, and the queue whose next request would end
//! first there is served first here. The duration of a request is estimated when it is
//! dispatched and corrected when it ends.
//!
//! The clock is the caller's: each call passes the time, which never decreases.

mod stats;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use crate::{Dealer, Discipline, Estimate, Integral, Integrator, SeatSeconds};

use stats::Utilization;
pub use stats::{FlowStats, Totals};

/// How long a request is thought to take before that is known.
const GUESS: Duration = Duration::from_millis(3);

/// The waiting caller of a request: notified when the request may begin.
pub trait Waiter {
    /// The request found its seats.
    fn wake(&mut self);
}

/// A request in a [`QueueSet`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id {
    index: u32,
    generation: u32,
}

/// A request that arrives.
#[derive(Clone, Copy, Debug)]
pub struct Arrival<'a> {
    /// Its flow schema, as [`QueueSet::slot`] numbered it.
    pub slot: usize,
    /// The hash of its flow.
    pub hash: u64,
    /// The distinguisher of its flow within the schema.
    pub flow: &'a str,
    /// The seats that it needs.
    pub estimate: Estimate,
    /// Whether it is a watch, which holds seats only while it begins.
    pub watch: bool,
}

/// The outcome for a new request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// It begins immediately.
    Executing(Id),
    /// It waits; its [`Waiter`] will be woken.
    Waiting(Id),
    /// It is rejected.
    Refused(Reason),
}

/// The reason of a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// All seats are taken, and this level does not queue.
    ConcurrencyLimit,
    /// The queue is full.
    QueueFull,
    /// It waited too long, or its client disconnected.
    TimeOut,
}

/// A queue, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueView {
    /// How many wait.
    pub waiting: usize,
    /// How many of its requests are being answered.
    pub executing: usize,
    /// The seats that those hold.
    pub seats_in_use: u32,
    /// The virtual time at which the next one begins.
    pub next: SeatSeconds,
    /// Seats that the waiting ones need while they are answered.
    pub initial: u32,
    /// The most seats that they need.
    pub most: u32,
    /// The work that waits.
    pub work: SeatSeconds,
}

/// A request, for people.
#[derive(Debug)]
pub struct RequestView<'a, W> {
    /// Its queue; `None` if there are none.
    pub queue: Option<usize>,
    /// How many are before it; `None` when it is being answered.
    pub position: Option<usize>,
    /// The name of its flow schema.
    pub schema: &'a str,
    /// The distinguisher of its flow.
    pub flow: &'a str,
    /// The arrival time.
    pub arrived: Duration,
    /// When it began.
    pub began: Option<Duration>,
    /// The seats that it needs.
    pub estimate: Estimate,
    /// The waiter.
    pub waiter: &'a W,
}

/// The seats and queues of one priority level.
#[derive(Debug)]
pub struct QueueSet<W> {
    discipline: Discipline,
    dealer: Option<Dealer>,
    /// How many queues requests are put into; there may be more that still drain.
    desired: usize,
    length: usize,
    limit: u32,
    queues: Vec<Queue>,
    requests: Vec<Entry<W>>,
    free: Vec<u32>,
    lingering: BinaryHeap<Reverse<LingeringSeats>>,
    meter: SeatSeconds,
    now: Duration,
    robin: usize,
    enqueued: usize,
    /// Queues with requests in them.
    active: u32,
    waiting: usize,
    executing: usize,
    seats_in_use: u32,
    seats_waiting: u32,
    demand: Integrator,
    utilization: Utilization,
    totals: Totals,
    slots: Vec<(String, FlowStats)>,
}

#[derive(Debug, Default)]
struct Queue {
    waiting: VecDeque<u32>,
    executing: usize,
    seats_in_use: u32,
    initial_waiting: u32,
    seats_waiting: u32,
    work_waiting: SeatSeconds,
    next: SeatSeconds,
}

#[derive(Debug)]
struct Entry<W> {
    generation: u32,
    request: Option<Request<W>>,
}

#[derive(Debug)]
struct Request<W> {
    slot: usize,
    flow: Box<str>,
    queue: Option<usize>,
    estimate: Estimate,
    work: SeatSeconds,
    watch: bool,
    arrived: Duration,
    arrived_at: SeatSeconds,
    began: Option<Duration>,
    waiter: W,
}

/// Seats that are held after an answer.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct LingeringSeats {
    until: Duration,
    seats: u32,
    queue: Option<usize>,
    slot: usize,
}

// === impl QueueSet ===

impl<W: Waiter> QueueSet<W> {
    /// Empty, with so many seats. Queues that no dealer can deal are one queue.
    #[must_use]
    pub fn new(now: Duration, discipline: Discipline, limit: usize) -> Self {
        let mut set = Self {
            discipline,
            dealer: None,
            desired: 0,
            length: 0,
            limit: 0,
            queues: Vec::new(),
            requests: Vec::new(),
            free: Vec::new(),
            lingering: BinaryHeap::new(),
            meter: SeatSeconds::default(),
            now,
            robin: 0,
            enqueued: 0,
            active: 0,
            waiting: 0,
            executing: 0,
            seats_in_use: 0,
            seats_waiting: 0,
            demand: Integrator::new(now),
            utilization: Utilization::new(now),
            totals: Totals::default(),
            slots: Vec::new(),
        };
        set.configure(now, discipline, limit);
        set
    }

    /// Reconfigures the level. Waiting requests stay.
    pub fn configure(&mut self, now: Duration, discipline: Discipline, limit: usize) {
        self.advance(now);
        self.discipline = discipline;
        if let Discipline::Queue(queueing) = discipline {
            self.dealer = Dealer::new(queueing.queues, queueing.hand).or(Dealer::new(1, 1));
            self.desired = self.dealer.map_or(1, |dealer| dealer.deck());
            self.length = queueing.length;
            while self.queues.len() < self.desired {
                self.queues.push(Queue::default());
            }
        } else {
            self.dealer = None;
            self.desired = 0;
        }
        self.drop_idle_queues();
        self.set_limit(now, limit);
        let room = self.length.max(1) * self.desired.max(1);
        self.utilization.set_room(now, room);
    }

    /// Sets the number of seats.
    pub fn set_limit(&mut self, now: Duration, limit: usize) {
        self.advance(now);
        self.limit = u32::try_from(limit).unwrap_or(u32::MAX);
        self.utilization.set_limit(now, limit);
        self.dispatch_all();
    }

    /// Returns the number of seats.
    #[must_use]
    pub fn limit(&self) -> usize {
        usize::try_from(self.limit).unwrap_or(usize::MAX)
    }

    /// Numbers a flow schema, for [`Arrival::slot`].
    pub fn slot(&mut self, schema: &str) -> usize {
        if let Some(known) = self.slots.iter().position(|(name, _)| name == schema) {
            return known;
        }
        self.slots.push((schema.to_owned(), FlowStats::default()));
        self.slots.len() - 1
    }

    /// Returns the statistics of each flow schema.
    #[must_use]
    pub fn slots(&self) -> &[(String, FlowStats)] {
        &self.slots
    }

    /// Starts a request. The fast path is that of a level without waiting requests.
    pub fn start(&mut self, now: Duration, arrival: &Arrival<'_>, waiter: W) -> Start {
        self.advance(now);
        let Arrival { slot, estimate, .. } = *arrival;
        if slot >= self.slots.len() {
            self.slot("");
        }
        let slot = slot.min(self.slots.len() - 1);
        self.slots[slot].1.seats.observe(f64::from(estimate.most()));
        let work = SeatSeconds::new(estimate.seats, GUESS) + estimate.last_work();
        let mut request = Request {
            slot,
            flow: arrival.flow.into(),
            queue: None,
            estimate,
            work,
            watch: arrival.watch,
            arrived: self.now,
            arrived_at: self.meter,
            began: None,
            waiter,
        };
        let Some(dealer) = self.dealer else {
            if self.discipline != Discipline::Exempt && !self.has_room(estimate.most()) {
                self.refuse(slot, Reason::ConcurrencyLimit);
                return Start::Refused(Reason::ConcurrencyLimit);
            }
            request.began = Some(self.now);
            let id = self.insert(request);
            self.begin(id.index);
            return Start::Executing(id);
        };
        let at = self.choose(dealer, arrival.hash);
        if self.seats_in_use >= self.limit && self.queues[at].waiting.len() >= self.length {
            self.refuse(slot, Reason::QueueFull);
            return Start::Refused(Reason::QueueFull);
        }
        request.queue = Some(at);
        let id = self.insert(request);
        self.enqueue(at, id.index);
        self.dispatch_all();
        if self.is_waiting(id) {
            Start::Waiting(id)
        } else {
            Start::Executing(id)
        }
    }

    /// Whether a request still waits.
    #[must_use]
    pub fn is_waiting(&self, id: Id) -> bool {
        self.get(id).is_some_and(|request| request.began.is_none())
    }

    /// Returns the waiter of a request.
    pub fn waiter(&mut self, id: Id) -> Option<&mut W> {
        let entry = self.requests.get_mut(position(id.index))?;
        (entry.generation == id.generation)
            .then_some(entry.request.as_mut())
            .flatten()
            .map(|request| &mut request.waiter)
    }

    /// Finishes a request at any stage: answered, or timed out. A second call has no
    /// effect.
    pub fn finish(&mut self, now: Duration, id: Id) {
        self.advance(now);
        let Some(request) = self.get(id) else {
            return;
        };
        if request.began.is_some() {
            self.end(id.index);
        } else {
            self.give_up(id.index);
        }
        self.dispatch_all();
    }

    /// Lets seats go that were held until now.
    pub fn tick(&mut self, now: Duration) {
        self.advance(now);
    }

    /// Returns when the next seats become free for waiting requests by time alone.
    #[must_use]
    pub fn next_release(&self) -> Option<Duration> {
        let Reverse(first) = self.lingering.peek()?;
        (self.waiting > 0).then_some(first.until)
    }

    /// Returns the demand since the last call.
    pub fn take_demand(&mut self, now: Duration) -> Integral {
        self.advance(now);
        self.demand.take(now)
    }

    /// Returns whether the level is idle.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waiting == 0 && self.executing == 0
    }

    /// How many wait and are answered, and the seats that they need and hold.
    #[must_use]
    pub fn totals(&self) -> Totals {
        Totals {
            waiting: self.waiting,
            executing: self.executing,
            seats_waiting: self.seats_waiting,
            seats_in_use: self.seats_in_use,
            ..self.totals.clone()
        }
    }

    /// How full the level was.
    pub fn utilization(&mut self, now: Duration) -> &mut Utilization {
        self.advance(now);
        self.utilization.advance(now);
        &mut self.utilization
    }

    /// The meter R(t).
    #[must_use]
    pub fn meter(&self) -> SeatSeconds {
        self.meter
    }

    /// All queues.
    pub fn queues(&self) -> impl Iterator<Item = QueueView> + '_ {
        self.queues.iter().map(|queue| QueueView {
            waiting: queue.waiting.len(),
            executing: queue.executing,
            seats_in_use: queue.seats_in_use,
            next: queue.next,
            initial: queue.initial_waiting,
            most: queue.seats_waiting,
            work: queue.work_waiting,
        })
    }

    /// All requests: queue by queue, those that wait before those that are answered.
    pub fn requests(&self) -> impl Iterator<Item = RequestView<'_, W>> {
        let waiting = self.queues.iter().flat_map(|queue| {
            let indices = queue.waiting.iter().enumerate();
            indices.filter_map(|(at, &index)| self.view(index, Some(at)))
        });
        let all = (0..self.requests.len()).filter_map(|index| {
            let index = u32::try_from(index).ok()?;
            self.view(index, None).filter(|view| view.began.is_some())
        });
        waiting.chain(all)
    }

    fn view(&self, index: u32, position: Option<usize>) -> Option<RequestView<'_, W>> {
        let request = self.requests[self::position(index)].request.as_ref()?;
        Some(RequestView {
            queue: request.queue,
            position,
            schema: &self.slots[request.slot].0,
            flow: &request.flow,
            arrived: request.arrived,
            began: request.began,
            estimate: request.estimate,
            waiter: &request.waiter,
        })
    }

    fn get(&self, id: Id) -> Option<&Request<W>> {
        let entry = self.requests.get(position(id.index))?;
        (entry.generation == id.generation)
            .then_some(entry.request.as_ref())
            .flatten()
    }

    fn insert(&mut self, request: Request<W>) -> Id {
        if let Some(index) = self.free.pop() {
            let entry = &mut self.requests[position(index)];
            entry.request = Some(request);
            return Id {
                index,
                generation: entry.generation,
            };
        }
        let index = u32::try_from(self.requests.len()).unwrap_or(u32::MAX);
        self.requests.push(Entry {
            generation: 0,
            request: Some(request),
        });
        Id {
            index,
            generation: 0,
        }
    }

    fn remove(&mut self, index: u32) -> Option<Request<W>> {
        let entry = &mut self.requests[position(index)];
        let request = entry.request.take()?;
        entry.generation = entry.generation.wrapping_add(1);
        self.free.push(index);
        Some(request)
    }

    /// Advances virtual and real time to `now`, through every moment at which seats
    /// become free.
    fn advance(&mut self, now: Duration) {
        while let Some(Reverse(first)) = self.lingering.peek()
            && first.until <= now
        {
            let Some(Reverse(ended)) = self.lingering.pop() else {
                break;
            };
            self.flow(ended.until);
            self.release(ended.seats, ended.queue, ended.slot);
            self.dispatch_all();
        }
        self.flow(now);
    }

    fn flow(&mut self, now: Duration) {
        let passed = now.saturating_sub(self.now);
        self.now = self.now.max(now);
        if self.active > 0 {
            let wanted = self.seats_in_use + self.seats_waiting;
            let rate = f64::from(wanted.min(self.limit)) / f64::from(self.active);
            self.meter += SeatSeconds::at_rate(rate, passed);
        }
    }

    /// Returns the queue with the least work among those of a flow. The start of the
    /// search rotates, since the first of equals would get everything otherwise.
    fn choose(&mut self, dealer: Dealer, hash: u64) -> usize {
        let mut table = Dealer::table();
        let hand = dealer.deal(hash, &mut table);
        let offset = self.enqueued % hand.len();
        self.enqueued = self.enqueued.wrapping_add(1);
        let (after, before) = (&hand[offset..], &hand[..offset]);
        after
            .iter()
            .chain(before)
            .copied()
            .min_by_key(|&at| self.queues[at].work_waiting)
            .unwrap_or_default()
    }

    fn has_room(&self, seats: u32) -> bool {
        if seats > self.limit {
            // A request that needs more than the limit must run alone.
            self.executing == 0
        } else {
            self.seats_in_use + seats <= self.limit
        }
    }

    fn enqueue(&mut self, at: usize, index: u32) {
        let Some(request) = &self.requests[position(index)].request else {
            return;
        };
        let (estimate, work, slot) = (request.estimate, request.work, request.slot);
        let queue = &mut self.queues[at];
        if queue.is_idle() {
            queue.next = self.meter;
            self.active += 1;
        }
        queue.waiting.push_back(index);
        queue.initial_waiting += estimate.seats;
        queue.seats_waiting += estimate.most();
        queue.work_waiting += work;
        self.waiting += 1;
        self.seats_waiting += estimate.most();
        let length = queue.waiting.len();
        let stats = &mut self.slots[slot].1;
        stats.waiting += 1;
        stats.seats_waiting += u64::from(estimate.most());
        #[expect(clippy::cast_precision_loss, reason = "for metrics")]
        stats.queue_length.observe(length as f64);
        self.note_demand();
        self.bound(at);
    }

    /// Takes a request out of the counts of those that wait; it must be out of its
    /// queue already.
    fn leave(&mut self, at: usize, index: u32) {
        let Some(request) = &self.requests[position(index)].request else {
            return;
        };
        let (estimate, work, slot) = (request.estimate, request.work, request.slot);
        let queue = &mut self.queues[at];
        queue.initial_waiting -= estimate.seats;
        queue.seats_waiting -= estimate.most();
        queue.work_waiting -= work;
        self.waiting -= 1;
        self.seats_waiting -= estimate.most();
        let stats = &mut self.slots[slot].1;
        stats.waiting -= 1;
        stats.seats_waiting -= u64::from(estimate.most());
    }

    fn dispatch_all(&mut self) {
        while self.waiting > 0 && self.seats_in_use < self.limit && self.dispatch() {}
    }

    /// Serves the queue whose first request would end first in the virtual world;
    /// whether that was possible.
    fn dispatch(&mut self) -> bool {
        let count = self.queues.len();
        let mut best: Option<(SeatSeconds, usize, u32)> = None;
        for step in 1..=count {
            let at = (self.robin + step) % count;
            let queue = &self.queues[at];
            let Some(&index) = queue.waiting.front() else {
                continue;
            };
            let Some(request) = &self.requests[position(index)].request else {
                continue;
            };
            let end = queue.next + request.work;
            if best.is_none_or(|(least, ..)| end < least) {
                best = Some((end, at, index));
            }
            if self.waiting == queue.waiting.len() {
                break;
            }
        }
        let Some((_, at, index)) = best else {
            return false;
        };
        let (limit, now) = (self.limit, self.now);
        let Some(request) = &self.requests[position(index)].request else {
            return false;
        };
        if !self.has_room(request.estimate.most()) {
            // Others that need less must not overtake it for ever.
            self.slots[request.slot].1.no_room += 1;
            return false;
        }
        self.queues[at].waiting.pop_front();
        self.leave(at, index);
        // The next search begins with the queue after this one: equals are served in
        // turn.
        self.robin = at;
        if let Some(request) = &mut self.requests[position(index)].request {
            request.began = Some(now);
            if request.estimate.last > limit {
                // As much work, on as many seats as there are.
                let work = request.estimate.last_work();
                request.estimate.last = limit;
                request.estimate.lingering = work.on_seats(limit);
            }
            self.totals.last_start = self.queues[at].next;
            self.queues[at].next += request.work;
        }
        self.queues[at].executing += 1;
        self.begin(index);
        self.bound(at);
        if let Some(request) = &mut self.requests[position(index)].request {
            request.waiter.wake();
        }
        true
    }

    /// A request begins to be answered.
    fn begin(&mut self, index: u32) {
        let Some(request) = &self.requests[position(index)].request else {
            return;
        };
        let seats = request.estimate.most();
        let stats = &mut self.slots[request.slot].1;
        stats.executing += 1;
        stats.seats_in_use += u64::from(seats);
        stats.dispatched += 1;
        if self.discipline != Discipline::Exempt {
            let waited = self.now.saturating_sub(request.arrived);
            stats.waited.observe(waited.as_secs_f64());
        }
        self.totals.dispatched += 1;
        self.totals.last_meter = self.meter;
        self.executing += 1;
        self.seats_in_use += seats;
        if let Some(at) = request.queue {
            self.queues[at].seats_in_use += seats;
        }
        self.note_demand();
    }

    /// A request was answered.
    fn end(&mut self, index: u32) {
        let Some(request) = self.remove(index) else {
            return;
        };
        let took = request
            .began
            .map_or(Duration::ZERO, |began| self.now.saturating_sub(began));
        self.executing -= 1;
        let stats = &mut self.slots[request.slot].1;
        stats.executing -= 1;
        let took_seconds = took.as_secs_f64();
        if request.watch {
            stats.watch_began.observe(took_seconds);
        } else {
            stats.executed.observe(took_seconds);
        }
        let seats = request.estimate.most();
        if let Some(at) = request.queue {
            let guessed = SeatSeconds::new(request.estimate.seats, GUESS);
            let queue = &mut self.queues[at];
            queue.executing -= 1;
            queue.next -= guessed;
            queue.next += SeatSeconds::new(request.estimate.seats, took);
            if queue.is_idle() {
                self.active -= 1;
            }
            self.bound(at);
        }
        if request.estimate.lingering.is_zero() {
            self.release(seats, request.queue, request.slot);
        } else {
            self.lingering.push(Reverse(LingeringSeats {
                until: self.now + request.estimate.lingering,
                seats,
                queue: request.queue,
                slot: request.slot,
            }));
        }
    }

    fn release(&mut self, seats: u32, queue: Option<usize>, slot: usize) {
        self.seats_in_use -= seats;
        if let Some(queue) = queue.and_then(|at| self.queues.get_mut(at)) {
            queue.seats_in_use -= seats;
        }
        self.slots[slot].1.seats_in_use -= u64::from(seats);
        self.note_demand();
        self.drop_idle_queues();
    }

    /// A request waits no longer, and was not served.
    fn give_up(&mut self, index: u32) {
        let Some(request) = &self.requests[position(index)].request else {
            return;
        };
        let (Some(at), slot, arrived) = (request.queue, request.slot, request.arrived) else {
            return;
        };
        self.queues[at].waiting.retain(|&other| other != index);
        self.leave(at, index);
        self.remove(index);
        if self.queues[at].is_idle() {
            self.active -= 1;
        }
        self.refuse(slot, Reason::TimeOut);
        self.totals.cancelled += 1;
        let waited = self.now.saturating_sub(arrived);
        self.slots[slot]
            .1
            .waited_in_vain
            .observe(waited.as_secs_f64());
        self.note_demand();
        self.bound(at);
        self.drop_idle_queues();
    }

    fn refuse(&mut self, slot: usize, reason: Reason) {
        self.totals.rejected += 1;
        let stats = &mut self.slots[slot].1;
        match reason {
            Reason::ConcurrencyLimit => stats.at_limit += 1,
            Reason::QueueFull => stats.queue_full += 1,
            Reason::TimeOut => stats.timed_out += 1,
        }
        if reason != Reason::TimeOut {
            stats.waited_in_vain.observe(0.0);
        }
    }

    /// In the virtual world nothing is dispatched before it arrives: else a queue
    /// that used less than its allotment would save it up and then starve others.
    fn bound(&mut self, at: usize) {
        let queue = &mut self.queues[at];
        let Some(&first) = queue.waiting.front() else {
            return;
        };
        if let Some(request) = &self.requests[position(first)].request {
            queue.next = queue.next.max(request.arrived_at);
        }
    }

    fn note_demand(&mut self) {
        let wanted = f64::from(self.seats_in_use + self.seats_waiting);
        self.demand.set(self.now, wanted);
        self.utilization.set(
            self.now,
            self.waiting,
            self.executing,
            self.seats_in_use,
            wanted,
        );
    }

    /// Queues that are too many go once they are empty.
    fn drop_idle_queues(&mut self) {
        while self.queues.len() > self.desired
            && self
                .queues
                .last()
                .is_some_and(|queue| queue.is_idle() && queue.seats_in_use == 0)
        {
            self.queues.pop();
            self.robin = 0;
        }
    }
}

fn position(index: u32) -> usize {
    usize::try_from(index).unwrap_or(usize::MAX)
}

// === impl Queue ===

impl Queue {
    fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.executing == 0
    }
}
