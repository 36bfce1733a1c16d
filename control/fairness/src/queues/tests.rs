use std::cmp::Reverse;
use std::collections::BinaryHeap;

use proptest::prelude::*;

use super::*;
use crate::{QueueingSettings, estimate, flow_hash};

/// Counts how often it was woken.
#[derive(Debug, Default)]
struct Bell(u32);

impl Waiter for Bell {
    fn wake(&mut self) {
        self.0 += 1;
    }
}

const QUEUED: Discipline = Discipline::Queue(QueueingSettings {
    queues: 64,
    hand: 6,
    length: 50,
});

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn set(discipline: Discipline, limit: usize) -> QueueSet<Bell> {
    let mut set = QueueSet::new(Duration::ZERO, discipline, limit);
    assert_eq!(set.slot("s"), 0);
    set
}

fn of(flow: &str, estimate: Estimate) -> Arrival<'_> {
    Arrival {
        slot: 0,
        hash: flow_hash("s", flow),
        flow,
        estimate,
        watch: false,
    }
}

fn one(flow: &str) -> Arrival<'_> {
    of(flow, estimate::ONE)
}

fn wide(seats: u32) -> Estimate {
    Estimate {
        seats,
        ..estimate::ONE
    }
}

/// Clients that always have something to ask, in virtual time.
struct Simulation {
    set: QueueSet<Bell>,
    now: Duration,
    /// What happens next, by time; the second number keeps the order of equals.
    events: BinaryHeap<Reverse<(Duration, usize, Event)>>,
    happened: usize,
    served: Vec<usize>,
    longest: Vec<Duration>,
    refused: Vec<usize>,
    waiting: Vec<(Id, usize, Duration)>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Ask(usize),
    Answered(usize, u64),
    Release,
}

struct Client {
    flow: String,
    /// How long its requests take.
    takes: Duration,
    /// How long it thinks before the next.
    thinks: Duration,
    /// How many it has open at once.
    open: usize,
    estimate: Estimate,
}

impl Simulation {
    fn run(limit: usize, clients: &[Client], long: Duration) -> Self {
        let mut simulation = Self {
            set: set(QUEUED, limit),
            now: Duration::ZERO,
            events: BinaryHeap::new(),
            happened: 0,
            served: vec![0; clients.len()],
            longest: vec![Duration::ZERO; clients.len()],
            refused: vec![0; clients.len()],
            waiting: Vec::new(),
        };
        for (at, client) in clients.iter().enumerate() {
            for _ in 0..client.open {
                simulation.later(Duration::ZERO, Event::Ask(at));
            }
        }
        let mut running: Vec<(Id, u64)> = Vec::new();
        let mut number = 0;
        while let Some(Reverse((at, _, event))) = simulation.events.pop()
            && at <= long
        {
            simulation.now = at;
            match event {
                Event::Ask(who) => {
                    let client = &clients[who];
                    let arrival = of(&client.flow, client.estimate);
                    match simulation.set.start(at, &arrival, Bell::default()) {
                        Start::Refused(_) => {
                            simulation.refused[who] += 1;
                            simulation.later(at + ms(1000), Event::Ask(who));
                        }
                        Start::Executing(id) | Start::Waiting(id) => {
                            simulation.waiting.push((id, who, at));
                        }
                    }
                }
                Event::Answered(who, which) => {
                    let place = running.iter().position(|(_, other)| *other == which);
                    let (id, _) = running.swap_remove(place.expect("it runs"));
                    simulation.set.finish(at, id);
                    let thinks = clients[who].thinks;
                    simulation.later(at + thinks, Event::Ask(who));
                }
                Event::Release => simulation.set.tick(at),
            }
            // Whoever was dispatched begins.
            let mut still = Vec::new();
            for (id, who, since) in std::mem::take(&mut simulation.waiting) {
                if simulation.set.is_waiting(id) {
                    still.push((id, who, since));
                    continue;
                }
                number += 1;
                running.push((id, number));
                simulation.served[who] += 1;
                let waited = at - since;
                simulation.longest[who] = simulation.longest[who].max(waited);
                simulation.later(at + clients[who].takes, Event::Answered(who, number));
            }
            simulation.waiting = still;
            if let Some(release) = simulation.set.next_release() {
                simulation.later(release, Event::Release);
            }
            if simulation.happened.is_multiple_of(7) {
                check(&simulation.set);
            }
        }
        simulation
    }

    fn later(&mut self, at: Duration, event: Event) {
        self.happened += 1;
        self.events.push(Reverse((at, self.happened, event)));
    }
}

/// What must hold at all times.
fn check(set: &QueueSet<Bell>) {
    let totals = set.totals();
    let queues: Vec<_> = set.queues().collect();
    let waiting: usize = queues.iter().map(|queue| queue.waiting).sum();
    assert_eq!(totals.waiting, waiting);
    let seats: u32 = queues.iter().map(|queue| queue.most).sum();
    assert_eq!(totals.seats_waiting, seats);
    if !queues.is_empty() {
        let seats: u32 = queues.iter().map(|queue| queue.seats_in_use).sum();
        assert_eq!(totals.seats_in_use, seats);
        let active = queues
            .iter()
            .filter(|queue| queue.waiting + queue.executing > 0)
            .count();
        assert_eq!(set.active as usize, active);
        // Nobody waits while there are seats, but for who needs many.
        let only_narrow = set
            .requests()
            .filter(|request| request.began.is_none())
            .all(|request| request.estimate.most() == 1);
        if only_narrow && totals.waiting > 0 {
            assert!(totals.seats_in_use >= set.limit, "{totals:?}");
        }
    }
    let open = set.requests.len() - set.free.len();
    assert_eq!(open, totals.waiting + totals.executing);
}

fn greedy(flow: String, open: usize) -> Client {
    Client {
        flow,
        takes: ms(10),
        thinks: Duration::ZERO,
        open,
        estimate: estimate::ONE,
    }
}

#[test]
fn a_request_that_finds_a_seat_does_not_wait() {
    let mut set = set(QUEUED, 2);
    let first = set.start(ms(0), &one("a"), Bell::default());
    let second = set.start(ms(0), &one("b"), Bell::default());
    let third = set.start(ms(0), &one("c"), Bell::default());
    let (Start::Executing(first), Start::Executing(_), Start::Waiting(third)) =
        (first, second, third)
    else {
        panic!("two seats for three");
    };
    set.finish(ms(5), first);
    assert!(!set.is_waiting(third));
    assert_eq!(set.waiter(third).expect("there").0, 1);
    set.finish(ms(6), third);
    set.finish(ms(7), third);
    assert_eq!(set.totals().executing, 1);
    check(&set);
}

#[test]
fn exempt_requests_never_wait_and_are_counted() {
    let mut set = set(Discipline::Exempt, 0);
    let ids: Vec<_> = (0..1000)
        .map(|_| match set.start(ms(0), &one(""), Bell::default()) {
            Start::Executing(id) => id,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(set.totals().seats_in_use, 1000);
    for id in ids {
        set.finish(ms(1), id);
    }
    assert!(set.is_idle());
    assert_eq!(set.take_demand(ms(2)).most, 1000.0);
}

#[test]
fn without_queues_the_limit_refuses() {
    let mut set = set(Discipline::Reject, 1);
    assert!(matches!(
        set.start(ms(0), &one("a"), Bell::default()),
        Start::Executing(_)
    ));
    assert_eq!(
        set.start(ms(0), &one("a"), Bell::default()),
        Start::Refused(Reason::ConcurrencyLimit)
    );
    assert_eq!(set.slots()[0].1.at_limit, 1);
}

#[test]
fn a_full_queue_refuses_and_who_gives_up_makes_room() {
    let queueing = QueueingSettings {
        queues: 1,
        hand: 1,
        length: 2,
    };
    let mut set = set(Discipline::Queue(queueing), 1);
    let start = |set: &mut QueueSet<Bell>| set.start(ms(0), &one("a"), Bell::default());
    assert!(matches!(start(&mut set), Start::Executing(_)));
    let Start::Waiting(tired) = start(&mut set) else {
        panic!("one seat");
    };
    assert!(matches!(start(&mut set), Start::Waiting(_)));
    assert_eq!(start(&mut set), Start::Refused(Reason::QueueFull));
    set.finish(ms(9), tired);
    assert!(matches!(start(&mut set), Start::Waiting(_)));
    let stats = &set.slots()[0].1;
    assert_eq!(
        (stats.queue_full, stats.timed_out, stats.waiting),
        (1, 1, 2)
    );
    check(&set);
}

#[test]
fn greedy_flows_do_not_slow_a_modest_one() {
    // Four flows that each want five times what there is, and one that asks
    // for something ten times a second. Their hands leave it a queue of its own,
    // which is what shuffle sharding is for.
    let mut clients: Vec<_> = (0..4)
        .map(|at| greedy(format!("greedy-{at}"), 100))
        .collect();
    clients.push(Client {
        thinks: ms(100),
        ..greedy("modest".into(), 1)
    });
    let run = Simulation::run(20, &clients, Duration::from_secs(4));
    let longest = run.longest[4];
    assert!(longest <= ms(20), "{longest:?}");
    assert!(run.served[4] >= 30, "{}", run.served[4]);
    assert_eq!(run.refused[4], 0);
    // The others get the rest, and no seat stays empty.
    let all: usize = run.served.iter().sum();
    assert!(all > 20 * 100 * 4 * 97 / 100, "{all}");
}

#[test]
fn flows_with_queues_of_their_own_get_equal_shares_of_time() {
    // One asks for much at a time, another for little, a third for long answers.
    let clients = [
        greedy("a".into(), 40),
        greedy("b".into(), 10),
        Client {
            takes: ms(40),
            ..greedy("c".into(), 20)
        },
    ];
    let run = Simulation::run(6, &clients, Duration::from_secs(10));
    let time =
        |at: usize, takes: f64| f64::from(u32::try_from(run.served[at]).expect("few")) * takes;
    let (a, b, c) = (time(0, 0.01), time(1, 0.01), time(2, 0.04));
    // Hands of six: a flow may have up to six queues, so shares are not exact;
    // yet none is left without.
    let least = a.min(b).min(c);
    let most = a.max(b).max(c);
    assert!(least > 0.2 * most, "{a} {b} {c}");
    // And no seat stays empty: six seats for ten seconds.
    assert!(a + b + c > 0.97 * 60.0, "{a} {b} {c}");
}

#[test]
fn wide_requests_are_served_though_narrow_ones_keep_coming() {
    let mut clients: Vec<_> = (0..20)
        .map(|at| greedy(format!("narrow-{at}"), 10))
        .collect();
    clients.push(Client {
        estimate: wide(8),
        ..greedy("wide".into(), 1)
    });
    clients.push(Client {
        // More than there is at all.
        estimate: wide(40),
        thinks: ms(500),
        ..greedy("widest".into(), 1)
    });
    let run = Simulation::run(10, &clients, Duration::from_secs(5));
    assert!(run.served[20] > 10, "{}", run.served[20]);
    assert!(run.served[21] > 1, "{}", run.served[21]);
}

#[test]
fn seats_are_held_while_watchers_are_told_and_then_come_free_by_themselves() {
    let mut set = set(QUEUED, 4);
    let estimate = estimate::write(40, Some(4));
    assert_eq!((estimate.last, estimate.lingering), (4, ms(5)));
    let Start::Executing(writer) = set.start(ms(0), &of("a", estimate), Bell::default()) else {
        panic!("a free level");
    };
    let Start::Waiting(reader) = set.start(ms(1), &one("b"), Bell::default()) else {
        panic!("all seats are taken");
    };
    set.finish(ms(10), writer);
    assert_eq!(set.next_release(), Some(ms(15)));
    assert!(set.is_waiting(reader));
    set.tick(ms(14));
    assert!(set.is_waiting(reader));
    set.tick(ms(20));
    assert!(!set.is_waiting(reader));
    assert_eq!(set.next_release(), None);
    check(&set);
}

#[test]
fn a_level_that_changes_keeps_who_waits() {
    let mut set = set(QUEUED, 1);
    let Start::Executing(first) = set.start(ms(0), &one("0"), Bell::default()) else {
        panic!("a free level");
    };
    let names: Vec<_> = (1..200).map(|at| at.to_string()).collect();
    let waiting: Vec<_> = names
        .iter()
        .filter_map(|name| match set.start(ms(0), &one(name), Bell::default()) {
            Start::Waiting(id) => Some(id),
            _ => None,
        })
        .collect();
    assert_eq!(waiting.len(), 199);
    let fewer = Discipline::Queue(QueueingSettings {
        queues: 4,
        hand: 2,
        length: 10,
    });
    set.configure(ms(1), fewer, 1);
    assert_eq!(set.totals().waiting, 199);
    set.finish(ms(2), first);
    set.set_limit(ms(3), 1000);
    assert_eq!(set.totals().waiting, 0);
    for id in waiting {
        assert!(!set.is_waiting(id));
        set.finish(ms(4), id);
    }
    check(&set);
    assert_eq!(set.queues().count(), 4);
    // Even without queues: who is in one stays in one.
    set.configure(ms(5), Discipline::Reject, 1);
    assert_eq!(set.queues().count(), 0);
}

#[test]
fn an_idle_queue_saves_nothing_up() {
    let mut set = set(QUEUED, 1);
    let mut now = ms(0);
    // One flow alone for a long time.
    for _ in 0..1000 {
        let Start::Executing(id) = set.start(now, &one("busy"), Bell::default()) else {
            panic!("a free level");
        };
        now += ms(100);
        set.finish(now, id);
    }
    // Both are then served in turn: the one that was idle is not paid back.
    let mut ids = Vec::new();
    for flow in ["busy", "new"] {
        for _ in 0..20 {
            match set.start(now, &one(flow), Bell::default()) {
                Start::Executing(id) | Start::Waiting(id) => ids.push((id, flow)),
                Start::Refused(_) => {}
            }
        }
    }
    let mut order = Vec::new();
    while order.len() < 20 {
        let place = ids
            .iter()
            .position(|(id, _)| !set.is_waiting(*id))
            .expect("somebody is served");
        let (id, flow) = ids.remove(place);
        order.push(flow);
        now += ms(3);
        set.finish(now, id);
    }
    let new = order.iter().filter(|flow| **flow == "new").count();
    assert!((5..=15).contains(&new), "{order:?}");
}

proptest! {
    #[test]
    fn seats_and_requests_are_never_lost(
        limit in 0_usize..6,
        steps in proptest::collection::vec((0_u8..6, 0_usize..8, 1_u32..5, 0_u64..4), 1..200)
    ) {
        let mut set = set(QUEUED, limit);
        let mut now = Duration::ZERO;
        let mut open: Vec<Id> = Vec::new();
        for (what, which, seats, later) in steps {
            now += ms(later);
            match what {
                0..=2 => {
                    let estimate = if seats == 4 {
                        estimate::write(35, Some(3))
                    } else {
                        wide(seats)
                    };
                    let flow = which.to_string();
                    match set.start(now, &of(&flow, estimate), Bell::default()) {
                        Start::Executing(id) | Start::Waiting(id) => open.push(id),
                        Start::Refused(_) => {}
                    }
                }
                3 | 4 => {
                    if !open.is_empty() {
                        let id = open.swap_remove(which % open.len());
                        set.finish(now, id);
                    }
                }
                _ => set.set_limit(now, which),
            }
            check(&set);
        }
        for id in open {
            set.finish(now, id);
        }
        set.tick(now + ms(1000));
        let totals = set.totals();
        prop_assert!(set.is_idle());
        prop_assert_eq!((totals.seats_in_use, totals.seats_waiting), (0, 0));
        let stats = &set.slots()[0].1;
        prop_assert_eq!((stats.executing, stats.waiting, stats.seats_in_use), (0, 0, 0));
    }
}
