use proptest::prelude::*;

use super::*;
use control_load_balancer::IpPoolSpec;

fn pool(name: &str, ranges: &[&str]) -> Pool {
    let spec = IpPoolSpec {
        ranges: ranges.iter().map(|range| (*range).into()).collect(),
        ..IpPoolSpec::default()
    };
    let (pool, wrong) = Pool::from_spec(name, &spec);
    assert_eq!(wrong, None);
    pool
}

fn claim(name: &str) -> AddressClaim {
    AddressClaim {
        namespace: "d".into(),
        name: name.into(),
        uid: name.into(),
        ipv4: true,
        ports: BTreeSet::from([("TCP".into(), 80)]),
        ..AddressClaim::default()
    }
}

fn ip(text: &str) -> IpAddr {
    text.parse().unwrap()
}

/// `name=address,address` each, `name!problem` where there is one.
fn given(pools: &[Pool], claims: &[AddressClaim]) -> Vec<String> {
    allocate(pools, &BTreeSet::from([ip("10.0.0.9")]), claims)
        .into_iter()
        .map(|it| {
            let addresses: Vec<String> = it.addresses.iter().map(ToString::to_string).collect();
            let problem = it.problem.map(|problem| {
                let debug = format!("{problem:?}");
                let word = debug
                    .split(['(', ' ', '{'])
                    .next()
                    .unwrap_or_default()
                    .to_owned();
                format!("!{word}")
            });
            format!(
                "{}={}{}",
                it.key.name,
                addresses.join(","),
                problem.unwrap_or_default()
            )
        })
        .collect()
}

#[test]
fn the_older_gets_the_lower() {
    let mut b = claim("b");
    b.created = Some("2026-01-01T00:00:00Z".parse().unwrap());
    let mut a = claim("a");
    a.created = Some("2026-01-02T00:00:00Z".parse().unwrap());
    let pools = [pool("p", &["10.0.0.1-10.0.0.2"])];
    assert_eq!(
        given(&pools, &[a.clone(), b.clone()]),
        ["b=10.0.0.1", "a=10.0.0.2"]
    );
    assert_eq!(given(&pools, &[b, a]), ["b=10.0.0.1", "a=10.0.0.2"]);
}

#[test]
fn what_one_has_it_keeps_and_what_is_asked_for_by_name_comes_first() {
    let pools = [pool("p", &["10.0.0.1-10.0.0.4"])];
    let mut c = claim("c");
    c.current = vec![ip("10.0.0.1")];
    let mut z = claim("z");
    z.requested = vec![ip("10.0.0.2")];
    assert_eq!(
        given(&pools, &[claim("a"), claim("b"), c.clone(), z]),
        ["a=10.0.0.3", "b=10.0.0.4", "c=10.0.0.1", "z=10.0.0.2"]
    );
    c.requested = vec![ip("10.0.0.4")];
    assert_eq!(given(&pools, &[c]), ["c=10.0.0.4"], "another was asked for");
}

#[test]
fn what_cannot_be_had_is_said() {
    let pools = [
        pool("p", &["10.0.0.1", "10.0.0.9"]),
        pool("q", &["fd00::1"]),
    ];
    let mut a = claim("a");
    a.requested = vec![ip("10.0.0.1")];
    let mut b = claim("b");
    b.requested = vec![ip("10.0.0.1")];
    assert_eq!(given(&pools, &[a.clone(), b]), ["a=10.0.0.1", "b=!Taken"]);
    assert_eq!(
        given(&pools, &[claim("a"), claim("b")]),
        ["a=10.0.0.1", "b=!Exhausted"]
    );
    a.requested = vec![ip("10.9.9.9")];
    assert_eq!(given(&pools, &[a.clone()]), ["a=!NotInPool"]);
    a.requested = vec![ip("10.0.0.9")];
    assert_eq!(given(&pools, &[a.clone()]), ["a=!OfNode"]);
    a.requested = vec![ip("fd00::1")];
    assert_eq!(given(&pools, &[a.clone()]), ["a=!Family"]);
    a.requested = Vec::new();
    a.pool = Some("none".into());
    assert_eq!(given(&pools, &[a.clone()]), ["a=!UnknownPool"]);
    a.malformed = Some("bad".into());
    assert_eq!(given(&pools, &[a]), ["a=!Malformed"]);
    assert_eq!(given(&[], &[claim("a")]), ["a=!NoPool"]);
}

#[test]
fn selectors_and_auto_assign_decide_which_pool() {
    let selector = |text: &str| Some(serde_json::from_str(text).unwrap());
    let mut team = pool("a-team", &["10.1.0.0/24"]);
    team.namespace_selector = selector(r#"{"matchLabels":{"team":"a"}}"#);
    let mut manual = pool("b-manual", &["10.2.0.0/24"]);
    manual.auto_assign = false;
    let mut labelled = pool("c-labelled", &["10.3.0.0/24"]);
    labelled.service_selector = selector(r#"{"matchLabels":{"public":"yes"}}"#);
    let rest = pool("d-rest", &["10.4.0.0/24"]);
    let mut in_team = claim("in-team");
    in_team.namespace_labels = [("team", "a")].into_iter().collect();
    let mut public = claim("public");
    public.labels = [("public", "yes")].into_iter().collect();
    let mut asks = claim("asks");
    asks.pool = Some("b-manual".into());
    let mut foreign = claim("foreign");
    foreign.requested = vec![ip("10.1.0.7")];
    let pools = [team, manual, labelled, rest];
    assert_eq!(
        given(&pools, &[in_team, public, asks, foreign, claim("other")]),
        [
            "asks=10.2.0.0",
            "foreign=!NotInPool",
            "in-team=10.1.0.0",
            "other=10.4.0.0",
            "public=10.3.0.0"
        ]
    );
}

#[test]
fn families_come_from_one_pool_if_one_has_both() {
    let pools = [
        pool("a", &["10.0.0.1"]),
        pool("b", &["10.1.0.1", "fd01::1"]),
        pool("c", &["fd02::1"]),
    ];
    let mut dual = claim("dual");
    dual.ipv6 = true;
    let mut more = dual.clone();
    more.name = "more".into();
    let mut required = dual.clone();
    (required.name, required.all_families) = ("required".into(), true);
    assert_eq!(
        given(&pools, &[dual, more, required]),
        [
            "dual=10.1.0.1,fd01::1",
            "more=10.0.0.1,fd02::1",
            "required=!Exhausted"
        ]
    );
    let mut preferred = claim("preferred");
    preferred.ipv6 = true;
    assert_eq!(
        given(&pools[..1], &[preferred]),
        ["preferred=10.0.0.1!Exhausted"]
    );
}

#[test]
fn addresses_are_shared_by_key_disjoint_ports_and_like_policies() {
    let pools = [pool("p", &["10.0.0.0/24"])];
    let with = |name: &str, key: &str, port: i32, local: bool, app: &str| {
        let mut it = claim(name);
        it.sharing = (!key.is_empty()).then(|| key.into());
        it.ports = BTreeSet::from([("TCP".into(), port)]);
        it.local = local;
        it.selector = Some(BTreeMap::from([("app".into(), app.into())]));
        it
    };
    let all = [
        with("a", "k", 80, false, "x"),
        with("b", "k", 443, false, "y"),
        with("c", "k", 80, false, "x"),
        with("d", "other", 81, false, "x"),
        with("e", "k", 82, true, "x"),
        with("f", "k", 83, true, "x"),
        with("g", "k", 84, true, "y"),
        with("h", "", 85, false, "x"),
    ];
    assert_eq!(
        given(&pools, &all),
        [
            "a=10.0.0.0",
            "b=10.0.0.0",
            "c=10.0.0.1",
            "d=10.0.0.2",
            "e=10.0.0.3",
            "f=10.0.0.3",
            "g=10.0.0.4",
            "h=10.0.0.5"
        ]
    );
    let mut late = all;
    for (claim, address) in late.iter_mut().zip(["10.0.0.7"; 8]) {
        claim.current = vec![ip(address)];
    }
    // A Service that cannot stay gets another address; the oldest and those compatible
    // with it stay.
    let now = given(&pools, &late);
    assert_eq!(now[..3], ["a=10.0.0.7", "b=10.0.0.7", "c=10.0.0.0"]);
}

#[test]
fn addresses_that_old_devices_refuse_are_held_back() {
    let mut pool = pool("p", &["10.0.0.254-10.0.1.1"]);
    pool.avoid_buggy_ips = true;
    assert_eq!(
        given(&[pool], &[claim("a"), claim("b"), claim("c")]),
        ["a=10.0.0.254", "b=10.0.1.1", "c=!Exhausted"]
    );
}

fn any_claim() -> impl Strategy<Value = AddressClaim> {
    let key = prop_oneof![3 => Just(None), 2 => "[kl]".prop_map(|key| Some(Text::from(key)))];
    let address = (0_u8..2, 0_u8..12).prop_map(|(v6, last)| {
        if v6 == 1 {
            ip(&format!("fd00::{last:x}"))
        } else {
            ip(&format!("10.0.0.{last}"))
        }
    });
    let addresses = prop::collection::vec(address, 0..3);
    let ports = prop::collection::btree_set((Just(Text::from("TCP")), 80..84), 1..3);
    (
        key,
        addresses.clone(),
        addresses,
        ports,
        any::<[bool; 5]>(),
        0..3_i64,
    )
        .prop_map(
            |(sharing, mut requested, current, ports, [ipv4, ipv6, all, local, asks], second)| {
                // Two of a family are refused when a request is read.
                requested.dedup_by_key(|address| address.is_ipv4());
                requested.truncate(2);
                AddressClaim {
                    namespace: "d".into(),
                    created: Timestamp::from_second(second).ok(),
                    ipv4: ipv4 || !ipv6,
                    ipv6,
                    all_families: all,
                    requested: if asks { requested } else { Vec::new() },
                    sharing,
                    ports,
                    local,
                    selector: Some(BTreeMap::new()),
                    current,
                    ..AddressClaim::default()
                }
            },
        )
}

fn any_claims() -> impl Strategy<Value = Vec<AddressClaim>> {
    prop::collection::vec(any_claim(), 0..14).prop_map(|mut claims| {
        for (index, claim) in claims.iter_mut().enumerate() {
            claim.name = format!("s{index}").into();
        }
        claims
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn no_address_is_given_twice_unless_shared_and_restarts_change_nothing(
        claims in any_claims(), rotate in 0_usize..14,
    ) {
        let pools = [pool("a", &["10.0.0.2-10.0.0.6", "fd00::2-fd00::5"]), pool("b", &["10.0.0.5-10.0.0.10"])];
        let nodes = BTreeSet::from([ip("10.0.0.4")]);
        let first = allocate(&pools, &nodes, &claims);
        let claim_of = |it: &Assignment| claims.iter().find(|c| c.name == it.key.name).unwrap();
        let mut seen: BTreeMap<IpAddr, Vec<&AddressClaim>> = BTreeMap::new();
        for it in &first {
            let claim = claim_of(it);
            prop_assert!(it.addresses.len() <= 2);
            for &address in &it.addresses {
                prop_assert!(pools.iter().any(|pool| pool.contains(address)));
                prop_assert!(!nodes.contains(&address));
                let family = if address.is_ipv4() { claim.ipv4 } else { claim.ipv6 };
                prop_assert!(family);
                prop_assert!(claim.requested.is_empty() || claim.requested.contains(&address));
                for other in seen.entry(address).or_default().iter() {
                    prop_assert_eq!(why_apart(claim, other), None, "{}", address);
                }
                seen.entry(address).or_default().push(claim);
            }
            let all = usize::from(claim.ipv4) + usize::from(claim.ipv6);
            if claim.requested.is_empty() && it.addresses.len() < all {
                prop_assert!(it.problem.is_some(), "silence about {}", it.key);
            }
            if claim.all_families && claim.requested.is_empty() {
                prop_assert!(it.addresses.is_empty() || it.addresses.len() == all);
            }
        }
        // another order of the same
        let mut turned = claims.clone();
        if !turned.is_empty() { let by = rotate % turned.len(); turned.rotate_left(by); turned.reverse(); }
        prop_assert_eq!(&allocate(&pools, &nodes, &turned), &first);
        // after a restart, with the allocations in the statuses
        let mut after = claims.clone();
        for claim in &mut after {
            claim.current = first.iter().find(|it| it.key.name == claim.name).unwrap().addresses.clone();
        }
        let second = allocate(&pools, &nodes, &after);
        for (one, two) in first.iter().zip(&second) {
            for address in &one.addresses {
                prop_assert!(two.addresses.contains(address), "{} moved", one.key);
            }
        }
    }
}
