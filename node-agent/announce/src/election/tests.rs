use proptest::prelude::*;

use super::*;
use crate::desired::L2Address;

const ADDRESS: &str = "10.0.0.1";
const MS: fn(u64) -> Duration = Duration::from_millis;

fn ip() -> IpAddr {
    ADDRESS.parse().unwrap()
}

fn nodes(names: &[&str]) -> BTreeSet<Text> {
    names.iter().map(|name| Text::from(*name)).collect()
}

fn wanted(names: &[&str]) -> L2 {
    let it = L2Address {
        nodes: nodes(names),
        ..L2Address::default()
    };
    L2::from([(ip(), it)])
}

/// The nodes a, b, c in their order for the address.
fn order() -> [Text; 3] {
    let all = nodes(&["a", "b", "c"]);
    let ranked: Vec<Text> = ranked(ip(), &all).into_iter().cloned().collect();
    ranked.try_into().unwrap()
}

/// One node, and what it hears.
struct Seen {
    own: Text,
    lives: AgentLives,
    held: HeldClaims,
    revision: u64,
    t0: Instant,
    now: u64,
}

impl Seen {
    /// In touch for long, the hearing of [`ADDRESS`] over.
    fn by(own: &Text) -> Self {
        let mut seen = Self {
            own: own.clone(),
            lives: AgentLives::new(own),
            held: HeldClaims::default(),
            revision: 0,
            t0: Instant::now(),
            now: 0,
        };
        let _ = seen.decide();
        for at in [0, 500, 1000] {
            seen.own_word(at);
        }
        seen
    }

    fn at(&self, ms: u64) -> Instant {
        self.t0 + MS(ms)
    }

    /// The own node says something, and hears it at once.
    fn own_word(&mut self, at: u64) {
        let word = self.send(at);
        self.arrive(&word);
    }

    /// The own node says something, which others may hear first.
    fn send(&mut self, at: u64) -> OwnStatement {
        self.now = at;
        let report = self.report();
        let word = OwnStatement {
            renewed: format!("{at:09}").into(),
            sent: self.at(at),
            claims: report.claims,
        };
        self.lives.record_own(word.clone());
        word
    }

    fn arrive(&mut self, word: &OwnStatement) {
        let own = self.own.clone();
        self.hear(&own, &word.renewed, &word.claims);
    }

    fn hear(&mut self, node: &Text, renewed: &str, claims: &Claims) {
        self.revision += 1;
        let said = AnnouncerStatement {
            renewed: Some(renewed.into()),
            revision: self.revision,
            claims: claims.clone(),
        };
        let now = self.at(self.now);
        self.lives.observe(node, &said, now);
    }

    /// Another says at `at` what it claims: nothing, or the address at a term.
    fn other(&mut self, node: &Text, at: u64, claim: Option<ClaimState>) {
        self.now = at;
        let claims = claim.map(|it| (ip(), it)).into_iter().collect();
        self.hear(node, &format!("{at:09}"), &claims);
    }

    /// Decides at the time of what came last.
    fn decide(&mut self) -> bool {
        let (now, wanted) = (self.at(self.now), wanted(&["a", "b", "c"]));
        self.held = decide(&self.own, &wanted, &self.lives, &self.held, now);
        self.held.addresses().next().is_some()
    }

    fn decide_at(&mut self, at: u64) -> bool {
        self.now = at;
        self.decide()
    }

    fn report(&self) -> Report {
        let wanted = wanted(&["a", "b", "c"]);
        Report::new(
            &self.own,
            &wanted,
            &self.lives,
            &self.held,
            self.at(self.now),
        )
    }

    fn term(&self) -> Option<u64> {
        self.held.claims.get(&ip()).map(|claim| claim.said.term)
    }
}

const fn answers(term: u64) -> Option<ClaimState> {
    let answers = true;
    Some(ClaimState { term, answers })
}

const fn claims(term: u64) -> Option<ClaimState> {
    let answers = false;
    Some(ClaimState { term, answers })
}

/// The second node, after it took the address from the first, which was cut off.
fn taker() -> Seen {
    let [first, second, _] = order();
    let mut seen = Seen::by(&second);
    seen.other(&first, 1010, answers(1));
    for at in [1500, 2000, 2500, 3000, 3510] {
        seen.own_word(at);
        assert!(!seen.decide() && seen.term().is_some() == (at == 3510));
    }
    seen
}

#[test]
fn an_address_is_answered_for_once_the_claim_came_back() {
    let [first, ..] = order();
    let mut seen = Seen::by(&first);
    assert!(!seen.decide() && seen.term() == Some(3));
    let word = seen.send(1010);
    assert!(!seen.decide(), "others may have been first");
    seen.arrive(&word);
    assert!(seen.decide());
    assert_eq!(
        seen.report().claims,
        Claims::from([(ip(), answers(3).unwrap())])
    );
    // A second of another that knew less, or of one that does not answer yet.
    for (at, claim) in [(1020, answers(2)), (1030, claims(9))] {
        seen.other(&order()[1], at, claim);
        assert!(seen.decide());
    }
    seen.other(&order()[1], 1040, answers(9));
    assert!(!seen.decide() && seen.held.claims.is_empty());
}

#[test]
fn of_two_that_claim_at_once_the_first_in_the_order_has_it() {
    let [first, second, _] = order();
    for other_is_first in [true, false] {
        let mut seen = Seen::by(&first);
        seen.decide();
        let word = seen.send(1010);
        if other_is_first {
            seen.other(&second, 1012, claims(3));
            seen.arrive(&word);
        } else {
            seen.arrive(&word);
            seen.other(&second, 1012, claims(3));
        }
        assert_eq!(seen.decide(), !other_is_first);
    }
}

#[test]
fn who_is_silent_is_dead_when_own_words_prove_it_and_one_is_said_for_that() {
    let [first, second, _] = order();
    let mut seen = Seen::by(&second);
    seen.other(&first, 1010, answers(1));
    for at in [1500, 2000, 2500, 3000, 3500] {
        seen.own_word(at);
        assert!(!seen.decide() && seen.term().is_none());
    }
    assert_eq!(seen.lives.next_end(seen.at(3500)), Some(seen.at(3510)));
    assert_eq!(seen.report().proof, None);
    assert!(!seen.decide_at(3510), "the first may have spoken");
    assert_eq!(seen.report().proof, Some(seen.at(3510)));
    seen.own_word(3510);
    assert!(!seen.decide() && seen.term().is_some() && seen.report().proof.is_none());
    // It speaks up in time: nothing moves.
    let mut late = taker();
    let word = late.send(3520);
    late.other(&first, 3525, answers(1));
    late.arrive(&word);
    assert!(!late.decide() && late.term().is_none());
    // Or it does not.
    seen.own_word(3520);
    assert!(seen.decide());
}

/// Its rank is higher, and its words come as they like.
#[test]
fn who_took_an_address_keeps_it_from_whom_it_took_it() {
    let [first, ..] = order();
    let mut seen = taker();
    seen.own_word(3520);
    assert!(seen.decide());
    for (at, claim) in [(3530, answers(1)), (3600, None), (3700, answers(1))] {
        seen.other(&first, at, claim);
        assert!(seen.decide());
    }
    // Out of touch itself, and back.
    assert!(seen.decide_at(20_000));
    seen.other(&first, 20_010, answers(1));
    seen.own_word(20_020);
    assert!(seen.decide());
    // An older word than one that was heard says nothing.
    seen.hear(
        &first,
        "000000001",
        &Claims::from([(ip(), answers(99).unwrap())]),
    );
    assert!(seen.decide());
}

#[test]
fn who_is_cut_off_keeps_what_it_has_until_it_hears_of_another() {
    let [first, second, _] = order();
    let holder = || {
        let mut seen = Seen::by(&first);
        seen.decide();
        seen.own_word(1010);
        assert!(seen.decide() && seen.decide_at(60_000));
        let now = seen.at(60_000);
        assert!(!seen.lives.is_in_touch(now));
        seen
    };
    // By its claim, after own words of before.
    let mut seen = holder();
    let old = seen.send(60_000);
    seen.arrive(&old);
    assert!(seen.decide());
    seen.other(&second, 60_010, answers(7));
    assert!(!seen.decide());
    // By its announcement.
    let mut seen = holder();
    let now = seen.at(60_000);
    let early = seen.send(59_990);
    assert!(
        seen.held.contested(ip(), &seen.lives, now) && !seen.held.contested(ip(), &seen.lives, now)
    );
    assert!(!seen.decide_at(60_010));
    // A word of before is no proof that nobody has it, one of after is.
    seen.arrive(&early);
    assert!(!seen.decide() && seen.term().is_none());
    let mut alone = seen;
    alone.own_word(60_500);
    assert!(
        !alone.decide() && alone.term().is_some(),
        "it was no node of ours"
    );
    // In touch it stays.
    let mut seen = Seen::by(&first);
    seen.decide();
    seen.own_word(1010);
    let now = seen.at(1500);
    assert!(seen.decide() && !seen.held.contested(ip(), &seen.lives, now));
}

#[test]
fn an_outage_of_the_api_server_kills_nobody() {
    let [first, _, last] = order();
    let mut seen = Seen::by(&first);
    seen.other(&last, 1010, answers(1));
    // Own words with gaps: each proves no more than its part.
    for at in [1500, 2900, 4300] {
        seen.own_word(at);
        assert!(!seen.decide() && seen.term().is_none(), "{at}");
    }
    // After a long one all have the whole time anew.
    for at in [60_000, 60_500, 61_000, 61_500, 62_000] {
        seen.own_word(at);
        assert!(!seen.decide() && seen.term().is_none(), "{at}");
    }
    // Nor after a word that was sent while it was away.
    let word = seen.send(62_400);
    seen.now = 63_500;
    seen.arrive(&word);
    for at in [63_600, 64_100, 64_600, 65_100, 65_500] {
        seen.own_word(at);
        assert!(!seen.decide() && seen.term().is_none(), "{at}");
    }
    seen.own_word(66_000);
    assert!(!seen.decide() && seen.term().is_some());
}

#[test]
fn a_restart_resumes_what_no_other_answers_for_by_now() {
    let [first, second, _] = order();
    let former = Claims::from([(ip(), answers(5).unwrap())]);
    let now = Instant::now();
    for (claim, resumes) in [
        (None, true),
        (answers(4), true),
        (claims(9), true),
        (answers(9), false),
    ] {
        let mut lives = AgentLives::new(&first);
        let of = |claims| AnnouncerStatement {
            renewed: Some("1".into()),
            revision: 10,
            claims,
        };
        lives.observe(&first, &of(former.clone()), now);
        let claims = claim.map(|it| (ip(), it)).into_iter().collect();
        lives.observe(&second, &of(claims), now);
        assert_eq!(
            HeldClaims::resumed(&former, &lives, now)
                .addresses()
                .count(),
            usize::from(resumes)
        );
        assert!(
            !lives.is_in_touch(now),
            "the former agent's word is not ours"
        );
    }
    let unheard = Claims::from([(ip(), claims(5).unwrap())]);
    assert!(
        HeldClaims::resumed(&unheard, &AgentLives::new(&first), now)
            .claims
            .is_empty()
    );
}

#[test]
fn a_new_address_waits_for_those_of_higher_rank_to_be_heard() {
    let [first, second, _] = order();
    let mut seen = Seen::by(&second);
    seen.held = HeldClaims::default();
    for at in [5000, 5500, 5990] {
        seen.own_word(at);
        assert!(!seen.decide() && seen.term().is_none());
    }
    seen.own_word(6500);
    assert!(!seen.decide() && seen.term().is_some(), "the first is dead");
    seen.held.claims.clear();
    seen.other(&first, 6600, None);
    assert!(!seen.decide() && seen.term().is_none(), "the first lives");
}

#[test]
fn a_claim_that_never_comes_back_is_given_up() {
    let [first, ..] = order();
    let mut seen = Seen::by(&first);
    seen.decide();
    assert_eq!(seen.held.next_end(), Some(seen.at(1000) + PENDING));
    assert!(!seen.decide_at(5900) && seen.term().is_some());
    assert!(!seen.decide_at(6000) && seen.term().is_none());
}

#[test]
fn only_the_first_few_say_that_they_live() {
    let names: Vec<String> = (0..20).map(|n| format!("n{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let wanted = wanted(&names);
    let nothing = HeldClaims::default();
    let speak = names.iter().filter(|n| contends(n, &wanted, &nothing));
    assert_eq!(speak.count(), CONTENDERS);
    let claim = Claim {
        said: answers(1).unwrap(),
        at: Instant::now(),
    };
    let held = HeldClaims {
        claims: BTreeMap::from([(ip(), claim)]),
        ..HeldClaims::default()
    };
    assert!(
        names.iter().all(|n| contends(n, &wanted, &held)),
        "and who holds it"
    );
}

proptest! {
    #[test]
    fn a_node_that_goes_moves_only_its_own(last in any::<u16>(), gone in 0_usize..8) {
        let address = IpAddr::from([10, 0, (last >> 8) as u8, last as u8]);
        let all: BTreeSet<Text> = (0..8).map(|n| format!("n{n}").into()).collect();
        let mut left = all.clone();
        left.remove(format!("n{gone}").as_str());
        let (before, after) = (ranked(address, &all), ranked(address, &left));
        let same: Vec<_> = before.into_iter().filter(|n| n.as_str() != format!("n{gone}")).collect();
        prop_assert_eq!(same, after);
    }
}

#[test]
fn addresses_spread_over_nodes() {
    let all: BTreeSet<Text> = (0..4).map(|n| format!("node-{n}").into()).collect();
    let mut counts: BTreeMap<Text, u32> = BTreeMap::new();
    for n in 0..=255 {
        let first = ranked(IpAddr::from([192, 0, 2, n]), &all)[0].clone();
        *counts.entry(first).or_default() += 1;
    }
    assert!(
        counts.len() == 4 && counts.values().all(|n| (40..=90).contains(n)),
        "{counts:?}"
    );
}
