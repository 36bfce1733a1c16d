//! The whole protocol in virtual time: nodes with the very decisions of this module, an
//! API server that is an order of words, watches that lag and resume, writes that are
//! slow, lost or late, announcements that are heard or not; and nodes that are cut off,
//! killed, paused, while the API server is away or slow.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;
use crate::desired::L2Address;

/// Milliseconds since the beginning.
type Ms = u64;

/// As `renewal` and `l2` have it.
const TIMEOUT: Ms = 1500;
const ANNOUNCED: [Ms; 6] = [0, 100, 500, 1200, 2500, 5000];
/// What a healthy API server takes for a write, and a watch to bring it, at most.
const WRITE: Ms = 60;
const LAG: Ms = 40;
/// How long a watch may take to go on after a cut: connections send again ever later.
const RESUME: Ms = 4000;
/// After this long without faults a node hears and is heard as ever.
const HEALED: Ms = RESUME + 2000;

/// What goes wrong.
#[derive(Debug, Clone, Copy)]
enum Fault {
    /// A node loses the API server; its cable is out if `cable`.
    Cut { node: usize, cable: bool },
    /// An agent is killed, and starts anew when it is over.
    Killed { node: usize },
    /// An agent gets no processor.
    Paused { node: usize },
    /// The API server is away: calls are refused, or hang.
    Away { refuses: bool },
    /// The API server is slow by up to so many milliseconds a write.
    Slow { by: Ms },
}

#[derive(Debug, Clone, Copy)]
struct Trouble {
    at: Ms,
    lasts: Ms,
    fault: Fault,
}

impl Trouble {
    fn is_of(&self, node: usize) -> bool {
        match self.fault {
            Fault::Cut { node: of, .. }
            | Fault::Killed { node: of }
            | Fault::Paused { node: of } => of == node,
            Fault::Away { .. } | Fault::Slow { .. } => true,
        }
    }
}

enum Event {
    Begin(usize),
    End(usize),
    Start(usize),
    Attempt(usize, u32),
    Commit(usize, OwnStatement, u32),
    /// The agent's write ended, well or not.
    Written(usize, u32, u32),
    Deliver(usize, u32),
    Wake(usize, u32),
    Announce(usize, u32, u32, usize),
}

enum Item {
    Said(OwnStatement),
    Heard(usize, AnnouncerStatement),
    Conflict,
}

struct Agent {
    lives: AgentLives,
    held: Option<HeldClaims>,
    former: Claims,
    /// What waits for the agent's loop.
    inbox: VecDeque<Item>,
    /// How far the watch is.
    cursor: usize,
    delivering: bool,
    report: Report,
    /// The write under way.
    writing: Option<u32>,
    began: Ms,
    /// When the next write is to begin.
    due: Ms,
    changed: bool,
    writes: u32,
    answers: bool,
    /// Counts how often it began to answer.
    reigns: u32,
}

#[derive(Default)]
struct Node {
    agent: Option<Agent>,
    /// Counts agents.
    epoch: u32,
    cut: u32,
    unplugged: u32,
    paused: u32,
    killed: u32,
    /// When a fault of it ended last, and how many last.
    healed: Ms,
    faults: u32,
    words: u64,
}

struct World {
    now: Ms,
    t0: Instant,
    random: u64,
    queue: BinaryHeap<Reverse<(Ms, u64)>>,
    events: BTreeMap<u64, Event>,
    next: u64,
    names: Vec<Text>,
    wanted: L2,
    address: IpAddr,
    nodes: Vec<Node>,
    log: Vec<(usize, AnnouncerStatement)>,
    away: Vec<bool>,
    slow: Vec<Ms>,
    troubles: Vec<Trouble>,
    /// When somebody began or ended to answer.
    answering: Vec<(Ms, usize, bool)>,
    faults: Vec<String>,
    trace: Option<String>,
}

impl World {
    fn new(seed: u64, count: usize, troubles: &[Trouble], trace: bool) -> Self {
        let address = IpAddr::from([10, 0, 0, (seed >> 32) as u8]);
        let names: Vec<Text> = (0..count).map(|n| format!("n{n}").into()).collect();
        let it = L2Address {
            nodes: names.iter().cloned().collect(),
            ..L2Address::default()
        };
        let mut world = Self {
            now: 0,
            t0: Instant::now(),
            random: seed,
            queue: BinaryHeap::new(),
            events: BTreeMap::new(),
            next: 0,
            wanted: L2::from([(address, it)]),
            address,
            nodes: names.iter().map(|_| Node::default()).collect(),
            names,
            log: Vec::new(),
            away: Vec::new(),
            slow: Vec::new(),
            troubles: troubles.to_vec(),
            answering: Vec::new(),
            faults: Vec::new(),
            trace: trace.then(String::new),
        };
        for node in 0..count {
            world.nodes[node].epoch = 1;
            let at = world.up_to(300);
            world.at(at, Event::Start(node));
        }
        for (n, trouble) in troubles.iter().enumerate() {
            world.at(trouble.at, Event::Begin(n));
            world.at(trouble.at + trouble.lasts, Event::End(n));
        }
        world
    }

    fn up_to(&mut self, most: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % (most + 1)
    }

    fn at(&mut self, time: Ms, event: Event) {
        self.queue.push(Reverse((time.max(self.now), self.next)));
        self.events.insert(self.next, event);
        self.next += 1;
    }

    fn clock(&self) -> Instant {
        self.t0 + Duration::from_millis(self.now)
    }

    fn note(&mut self, text: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            let _ = writeln!(trace, "{:>6} {}", self.now, text());
        }
    }

    fn reaches(&self, node: usize) -> bool {
        self.away.is_empty() && self.nodes[node].cut == 0
    }

    fn run_until(&mut self, end: Ms) {
        while let Some(Reverse((time, id))) = self.queue.peek().copied() {
            if time > end {
                break;
            }
            self.queue.pop();
            self.now = time;
            if let Some(event) = self.events.remove(&id) {
                self.happen(event);
                self.judge();
            }
        }
        self.now = end;
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Begin(n) => self.begin(n),
            Event::End(n) => self.end(n),
            Event::Start(node) => self.start(node),
            Event::Attempt(node, epoch) => self.attempt(node, epoch),
            Event::Commit(node, word, tries) => self.commit(node, word, tries),
            Event::Written(node, epoch, write) => self.written(node, epoch, write),
            Event::Deliver(node, epoch) => self.deliver(node, epoch),
            Event::Wake(node, epoch) => self.wake(node, epoch),
            Event::Announce(node, epoch, reign, n) => self.announce(node, epoch, reign, n),
        }
    }

    fn of_epoch(&mut self, node: usize, epoch: u32) -> Option<&mut Agent> {
        let node = &mut self.nodes[node];
        (node.epoch == epoch)
            .then_some(node.agent.as_mut())
            .flatten()
    }

    // === faults ===

    fn begin(&mut self, n: usize) {
        let trouble = self.troubles[n];
        self.note(|| format!("begins: {trouble:?}"));
        for node in 0..self.nodes.len() {
            self.nodes[node].faults += u32::from(trouble.is_of(node));
        }
        match trouble.fault {
            Fault::Cut { node, cable } => {
                self.nodes[node].cut += 1;
                self.nodes[node].unplugged += u32::from(cable);
            }
            Fault::Killed { node } => {
                self.nodes[node].killed += 1;
                self.nodes[node].epoch += 1;
                let agent = self.nodes[node].agent.take();
                if agent.is_some_and(|it| it.answers) {
                    self.answering.push((self.now, node, false));
                }
            }
            Fault::Paused { node } => self.nodes[node].paused += 1,
            Fault::Away { refuses } => self.away.push(refuses),
            Fault::Slow { by } => self.slow.push(by),
        }
    }

    fn end(&mut self, n: usize) {
        let trouble = self.troubles[n];
        self.note(|| format!("ends: {trouble:?}"));
        for node in 0..self.nodes.len() {
            if trouble.is_of(node) {
                self.nodes[node].faults -= 1;
                self.nodes[node].healed = self.now;
            }
        }
        match trouble.fault {
            Fault::Cut { node, cable } => {
                self.nodes[node].cut -= 1;
                self.nodes[node].unplugged -= u32::from(cable);
                self.resume(node);
            }
            Fault::Killed { node } => {
                self.nodes[node].killed -= 1;
                if self.nodes[node].killed == 0 {
                    self.at(self.now, Event::Start(node));
                }
            }
            Fault::Paused { node } => {
                self.nodes[node].paused -= 1;
                let epoch = self.nodes[node].epoch;
                self.at(self.now, Event::Wake(node, epoch));
            }
            Fault::Away { .. } => {
                self.away.pop();
                for node in 0..self.nodes.len() {
                    self.resume(node);
                }
            }
            Fault::Slow { by } => {
                let at = self.slow.iter().position(|it| *it == by);
                self.slow.remove(at.expect("it began"));
            }
        }
    }

    /// The watch goes on, sooner or later; sometimes with everything anew.
    fn resume(&mut self, node: usize) {
        let epoch = self.nodes[node].epoch;
        if self.nodes[node].agent.is_some() {
            let after = self.up_to(RESUME);
            let at = self.now + self.up_to(after);
            self.at(at, Event::Deliver(node, epoch));
        }
    }

    // === the agent ===

    fn start(&mut self, node: usize) {
        if self.nodes[node].agent.is_some() || self.nodes[node].killed > 0 {
            return;
        }
        if !self.reaches(node) {
            self.at(self.now + 200, Event::Start(node));
            return;
        }
        let mut lives = AgentLives::new(&self.names[node]);
        let latest = latest(&self.log);
        for (of, said) in &latest {
            lives.observe(&self.names[*of], said, self.clock());
        }
        let former = latest.get(&node).map(|it| it.claims.clone());
        self.nodes[node].agent = Some(Agent {
            lives,
            held: None,
            former: former.unwrap_or_default(),
            inbox: VecDeque::new(),
            cursor: self.log.len(),
            delivering: false,
            report: Report::default(),
            writing: None,
            began: 0,
            due: Ms::MAX,
            changed: false,
            writes: 0,
            answers: false,
            reigns: 0,
        });
        let epoch = self.nodes[node].epoch;
        self.note(|| format!("n{node} starts"));
        self.at(self.now, Event::Wake(node, epoch));
    }

    fn wake(&mut self, node: usize, epoch: u32) {
        let (now, due, address) = (self.clock(), self.now, self.address);
        let own = self.names[node].clone();
        if self.nodes[node].paused > 0 {
            return;
        }
        let names = self.names.clone();
        let wanted = std::mem::take(&mut self.wanted);
        let Some(agent) = self.of_epoch(node, epoch) else {
            self.wanted = wanted;
            return;
        };
        while let Some(item) = agent.inbox.pop_front() {
            match item {
                Item::Said(word) => agent.lives.record_own(word),
                Item::Heard(of, said) => agent.lives.observe(&names[of], &said, now),
                Item::Conflict => {
                    if let Some(held) = &mut agent.held {
                        held.contested(address, &agent.lives, now);
                    }
                }
            }
        }
        let resumed = || HeldClaims::resumed(&agent.former, &agent.lives, now);
        let before = agent.held.take().unwrap_or_else(resumed);
        let held = decide(&own, &wanted, &agent.lives, &before, now);
        let report = Report::new(&own, &wanted, &agent.lives, &held, now);
        let news = agent.report != report;
        agent.report = report;
        let answers = held.addresses().next().is_some();
        let turns = agent.answers != answers;
        agent.answers = answers;
        agent.reigns += u32::from(turns && answers);
        let reign = agent.reigns;
        let ends = [agent.lives.next_end(now), held.next_end()];
        let claim = held.claims.get(&address).copied();
        agent.held = Some(held);
        let idle = agent.writing.is_none();
        agent.changed |= news && !idle;
        if news && idle {
            agent.due = due;
            self.at(due, Event::Attempt(node, epoch));
        }
        self.wanted = wanted;
        if turns {
            self.note(|| format!("n{node} answers: {answers}"));
            self.answering.push((self.now, node, answers));
            if answers {
                self.at(self.now, Event::Announce(node, epoch, reign, 0));
            }
        } else if let Some(claim) = claim.filter(|it| news && !it.said.answers) {
            self.note(|| format!("n{node} claims at {}", claim.said.term));
        }
        if let Some(end) = ends.into_iter().flatten().filter(|end| *end > now).min() {
            let at = end.saturating_duration_since(self.t0).as_millis();
            self.at(at.try_into().expect("short"), Event::Wake(node, epoch));
        }
    }

    fn attempt(&mut self, node: usize, epoch: u32) {
        let now = self.clock();
        if self.nodes[node].paused > 0 {
            self.at(self.now + 20, Event::Attempt(node, epoch));
            return;
        }
        let (began, reaches) = (self.now, self.reaches(node));
        let Some(agent) = self.of_epoch(node, epoch) else {
            return;
        };
        // Another attempt, sooner than was thought, took its place.
        if agent.writing.is_some() || agent.due > began || !agent.report.contends {
            return;
        }
        agent.writes += 1;
        let write = agent.writes;
        (agent.writing, agent.began, agent.due) = (Some(write), began, Ms::MAX);
        let claims = agent.report.claims.clone();
        self.nodes[node].words += 1;
        let word = OwnStatement {
            renewed: format!("{:09}", self.nodes[node].words).into(),
            sent: now,
            claims,
        };
        let agent = self.of_epoch(node, epoch).expect("it runs");
        agent.inbox.push_back(Item::Said(word.clone()));
        if reaches {
            let slow = self.slow.iter().sum::<Ms>();
            let takes = 1 + self.up_to(WRITE / 2) + self.up_to(slow);
            let back = takes + self.up_to(WRITE / 2);
            self.at(began + takes, Event::Commit(node, word, 0));
            self.at(
                began + back.min(TIMEOUT),
                Event::Written(node, epoch, write),
            );
        } else {
            let refused = self.away.first() == Some(&true) && self.nodes[node].cut == 0;
            let after = if refused { 2 } else { TIMEOUT };
            // What was sent into nothing may arrive after all.
            if !refused && self.up_to(3) == 0 {
                self.at(began + TIMEOUT, Event::Commit(node, word, 0));
            }
            self.at(began + after, Event::Written(node, epoch, write));
        }
    }

    fn commit(&mut self, node: usize, word: OwnStatement, tries: u32) {
        if !self.reaches(node) {
            // As long as connections try.
            if tries < 20 {
                let after = 100 + self.up_to(400);
                self.at(self.now + after, Event::Commit(node, word, tries + 1));
            }
            return;
        }
        let said = AnnouncerStatement {
            renewed: Some(word.renewed),
            revision: self.log.len() as u64 + 1,
            claims: word.claims,
        };
        self.note(|| format!("n{node} says {said:?}"));
        self.log.push((node, said));
        for to in 0..self.nodes.len() {
            let epoch = self.nodes[to].epoch;
            let at = self.now + 1 + self.up_to(LAG);
            let waits = self.of_epoch(to, epoch).is_some_and(|it| !it.delivering);
            if waits && self.reaches(to) {
                self.of_epoch(to, epoch).expect("it runs").delivering = true;
                self.at(at, Event::Deliver(to, epoch));
            }
        }
    }

    fn written(&mut self, node: usize, epoch: u32, write: u32) {
        let now = self.now;
        let Some(agent) = self.of_epoch(node, epoch) else {
            return;
        };
        if agent.writing == Some(write) {
            agent.writing = None;
            let soon = std::mem::take(&mut agent.changed);
            let next = if soon {
                now
            } else {
                now.max(agent.began + 500)
            };
            agent.due = next;
            self.at(next, Event::Attempt(node, epoch));
        }
    }

    /// The watch brings what is there; after a long time it may have to bring all anew.
    fn deliver(&mut self, node: usize, epoch: u32) {
        let reaches = self.reaches(node);
        let (end, anew) = (self.log.len(), self.up_to(3) == 0);
        let log = std::mem::take(&mut self.log);
        if let Some(agent) = self.of_epoch(node, epoch) {
            agent.delivering = false;
            if reaches {
                if end - agent.cursor > 8 && anew {
                    for (of, said) in latest(&log) {
                        agent.inbox.push_back(Item::Heard(of, said.clone()));
                    }
                } else {
                    for (of, said) in &log[agent.cursor..end] {
                        agent.inbox.push_back(Item::Heard(*of, said.clone()));
                    }
                }
                agent.cursor = end;
            }
        }
        self.log = log;
        self.at(self.now, Event::Wake(node, epoch));
    }

    fn announce(&mut self, node: usize, epoch: u32, reign: u32, n: usize) {
        let still = |agent: &mut Agent| agent.answers && agent.reigns == reign;
        if !self.of_epoch(node, epoch).is_some_and(still) {
            return;
        }
        if let Some(after) = ANNOUNCED.get(n + 1) {
            let at = self.now + after - ANNOUNCED[n];
            self.at(at, Event::Announce(node, epoch, reign, n + 1));
        }
        for to in 0..self.nodes.len() {
            let apart = self.nodes[to].unplugged + self.nodes[node].unplugged > 0;
            if to == node || apart || self.up_to(4) == 0 {
                continue;
            }
            let epoch = self.nodes[to].epoch;
            if let Some(agent) = self.of_epoch(to, epoch).filter(|it| it.answers) {
                agent.inbox.push_back(Item::Conflict);
                self.at(self.now, Event::Wake(to, epoch));
            }
        }
    }

    // === what must hold ===

    fn is_well(&self, node: usize, since: Ms) -> bool {
        let node = &self.nodes[node];
        node.faults == 0 && (node.healed == 0 || node.healed + since <= self.now)
    }

    fn answerers(&self) -> Vec<usize> {
        let answers = |node: &Node| node.agent.as_ref().is_some_and(|it| it.answers);
        (0..self.nodes.len())
            .filter(|n| answers(&self.nodes[*n]))
            .collect()
    }

    /// After each event.
    fn judge(&mut self) {
        let well: Vec<usize> = self.answerers();
        let well = well.into_iter().filter(|node| self.is_well(*node, HEALED));
        if well.count() > 1 {
            self.faults
                .push(format!("{}: two answer, and both are well", self.now));
        }
        if let Some((at, node, false)) = self.answering.last().copied()
            && at == self.now
            && self.is_well(node, HEALED)
        {
            self.faults
                .push(format!("{at}: n{node} is well and lost the address"));
        }
    }

    fn check(&mut self) -> Result<(), String> {
        let answerers = self.answerers();
        let claimants: Vec<usize> = (latest(&self.log).iter())
            .filter(|(_, said)| !said.claims.is_empty())
            .map(|(node, _)| *node)
            .collect();
        if answerers.len() != 1 || claimants != answerers {
            self.faults
                .push(format!("{answerers:?} answer, {claimants:?} claim"));
        }
        if self.faults.is_empty() {
            Ok(())
        } else {
            Err(self.faults.join("\n"))
        }
    }
}

/// What each node said last.
fn latest(log: &[(usize, AnnouncerStatement)]) -> BTreeMap<usize, &AnnouncerStatement> {
    log.iter().map(|(node, said)| (*node, said)).collect()
}

/// How long troubles go on, at most, and what is quiet before and after them.
const QUIET: Ms = 5000;
const TROUBLES: Ms = 25_000;
const LONGEST: Ms = 9000;
const END: Ms = QUIET + TROUBLES + LONGEST + 16_000;

fn simulate(seed: u64, count: usize, troubles: &[Trouble]) -> World {
    let mut world = World::new(seed, count, troubles, false);
    world.run_until(END);
    world
}

/// What happened, in words.
fn told(seed: u64, count: usize, troubles: &[Trouble]) -> String {
    let mut world = World::new(seed, count, troubles, true);
    world.run_until(END);
    world.trace.unwrap_or_default()
}

fn fault() -> impl Strategy<Value = Fault> {
    let node = 0..4_usize;
    prop_oneof![
        4 => (node.clone(), any::<bool>()).prop_map(|(node, cable)| Fault::Cut { node, cable }),
        2 => node.clone().prop_map(|node| Fault::Killed { node }),
        2 => node.prop_map(|node| Fault::Paused { node }),
        1 => any::<bool>().prop_map(|refuses| Fault::Away { refuses }),
        1 => (100..2500_u64).prop_map(|by| Fault::Slow { by }),
    ]
}

fn trouble(fault: impl Strategy<Value = Fault>) -> impl Strategy<Value = Trouble> {
    (QUIET..QUIET + TROUBLES, 100..LONGEST, fault).prop_map(|(at, lasts, fault)| Trouble {
        at,
        lasts,
        fault,
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, max_shrink_iters: 400, ..ProptestConfig::default() })]

    /// Whatever happens, nobody who is well loses an address, no two who are well answer
    /// for it, and in the end one does and all say so.
    #[test]
    fn one_answers_and_who_is_well_keeps_the_address(
        seed in any::<u64>(), troubles in prop::collection::vec(trouble(fault()), 1..8),
    ) {
        let mut world = simulate(seed, 4, &troubles);
        if let Err(error) = world.check() {
            prop_assert!(false, "{error}\n{}", told(seed, 4, &troubles));
        }
    }

    #[test]
    fn an_api_server_that_is_away_moves_nothing_by_itself(
        seed in any::<u64>(),
        away in prop::collection::vec(
            trouble(any::<bool>().prop_map(|refuses| Fault::Away { refuses })), 1..5,
        ),
    ) {
        let mut world = simulate(seed, 4, &away);
        let began = world.answering.len();
        if world.check().is_err() || began != 1 {
            prop_assert!(false, "{:?}\n{}", world.answering, told(seed, 4, &away));
        }
    }

    /// The bound of the module's docs; of the writes one may be under way already.
    #[test]
    fn another_takes_over_soon_after_a_death(
        seed in any::<u64>(), at in QUIET..QUIET + TROUBLES, cable in any::<bool>(), killed in any::<bool>(),
    ) {
        let mut world = World::new(seed, 4, &[], false);
        world.run_until(at);
        let node = world.answerers()[0];
        let fault = if killed { Fault::Killed { node } } else { Fault::Cut { node, cable } };
        world.troubles.push(Trouble { at, lasts: 60_000, fault });
        world.begin(0);
        let most = u64::try_from(STALE.as_millis()).expect("short") + 4 * (WRITE + LAG);
        world.run_until(at + most);
        let taker = world.answerers().into_iter().find(|it| *it != node);
        prop_assert!(taker.is_some(), "{:?}", world.answering);
    }
}
