use std::collections::BTreeMap;

use super::*;

fn holder(id: &str) -> Holder {
    Holder {
        container_id: id.to_owned(),
        ifname: "eth0".to_owned(),
    }
}

fn pool(ranges: &[&str]) -> Pool {
    Pool {
        name: "default".to_owned(),
        ranges: ranges.iter().map(|it| it.parse().expect("range")).collect(),
    }
}

fn ips(texts: &[&str]) -> Vec<IpAddr> {
    texts
        .iter()
        .map(|it| it.parse().expect("address"))
        .collect()
}

fn store(folder: &Path) -> Store {
    Store::open(folder, "net").expect("a folder")
}

#[test]
fn addresses_are_kept_over_reopening_and_given_back_once() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let pool = pool(&["10.1.2.0/29", "fd00::/64"]);
    let first = store(folder.path())
        .take(&pool, &[], &holder("a"))
        .expect("given");
    assert_eq!(first, ips(&["10.1.2.2", "fd00::2"]));
    let store = store(folder.path());
    let again = store.take(&pool, &[], &holder("a"));
    assert_eq!(again.expect("the same"), first);
    let other = store.take(&pool, &[], &holder("b")).expect("given");
    assert_eq!(other, ips(&["10.1.2.3", "fd00::3"]));
    assert_eq!(store.addresses_of(&holder("a")).expect("read"), first);
    let mut given = store.give_back(&holder("a")).expect("given back");
    given.sort_by_key(IpAddr::is_ipv6);
    assert_eq!(given, first);
    assert!(store.give_back(&holder("a")).expect("again").is_empty());
    // Not the one that was given back, nor any before the last.
    let next = store.take(&pool, &[], &holder("c")).expect("given");
    assert_eq!(next, ips(&["10.1.2.4", "fd00::4"]));
}

#[test]
fn an_address_rests_before_it_is_given_again() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let pool = pool(&["10.1.2.0/30"]);
    let store = store(folder.path());
    let only = store.take(&pool, &[], &holder("a")).expect("given");
    let full = store.take(&pool, &[], &holder("b"));
    assert!(matches!(full, Err(Error::Exhausted { .. })), "{full:?}");
    assert!(matches!(store.room(&pool), Err(Error::Exhausted { .. })));
    store.give_back(&holder("a")).expect("given back");
    let early = store.take(&pool, &[], &holder("b"));
    assert!(matches!(early, Err(Error::Resting { .. })), "{early:?}");
    store.room(&pool).expect("it will be free");
    // Whoever asks for it by itself gets it.
    let asked = store.take(&pool, &only, &holder("c")).expect("given");
    assert_eq!(asked, only);
    store.give_back(&holder("c")).expect("given back");
    let rested = store.resting_for(Duration::ZERO);
    assert_eq!(rested.take(&pool, &[], &holder("d")).expect("given"), only);
}

#[test]
fn what_is_asked_for_is_given_if_it_is_the_pools_and_nobodys() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let pool = pool(&["10.1.2.0/24", "fd00::/64"]);
    let store = store(folder.path());
    let wanted = ips(&["fd00::77"]);
    let given = store.take(&pool, &wanted, &holder("a")).expect("given");
    assert_eq!(given, ips(&["10.1.2.2", "fd00::77"]));
    let taken = store.take(&pool, &wanted, &holder("b"));
    assert!(
        matches!(&taken, Err(Error::Taken { holder, .. }) if holder == "a"),
        "{taken:?}"
    );
    // Nothing of the other version is kept by whoever got nothing.
    assert!(store.addresses_of(&holder("b")).expect("read").is_empty());
    let foreign = store.take(&pool, &ips(&["10.1.3.4"]), &holder("b"));
    assert!(matches!(foreign, Err(Error::Foreign { .. })), "{foreign:?}");
    let none = store.take(&Pool::default(), &[], &holder("b"));
    assert!(matches!(none, Err(Error::NoPool(_))), "{none:?}");
}

#[test]
fn a_pools_second_range_gives_when_its_first_is_full() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let pool = pool(&["10.1.2.0/30", "10.1.3.0/30"]);
    let store = store(folder.path());
    let given = ["a", "b"].map(|it| store.take(&pool, &[], &holder(it)).expect("given"));
    assert_eq!(given, [ips(&["10.1.2.2"]), ips(&["10.1.3.2"])]);
}

#[test]
fn collection_keeps_the_valid_and_the_young_and_takes_what_names_nobody() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let pool = pool(&["10.1.2.0/24"]);
    let store = store(folder.path());
    let kept = store.take(&pool, &[], &holder("a")).expect("given");
    let gone = store.take(&pool, &[], &holder("b")).expect("given");
    fs::write(folder.path().join("net/10.1.2.9"), b"{").expect("a broken file");
    let keep = BTreeSet::from([holder("a")]);
    let young = store.give_back_others(&keep, Duration::from_secs(3600));
    assert!(young.expect("collected").is_empty());
    let mut given = store
        .give_back_others(&keep, Duration::ZERO)
        .expect("collected");
    given.sort();
    assert_eq!(given, [gone, ips(&["10.1.2.9"])].concat());
    assert_eq!(store.addresses_of(&holder("a")).expect("read"), kept);
}

#[test]
fn files_of_the_former_form_are_read() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let store = store(folder.path());
    let text = r#"{"containerID":"old","ifname":"eth0"}"#;
    fs::write(folder.path().join("net/10.1.2.2"), text).expect("a file");
    let pool = pool(&["10.1.2.0/24"]);
    let new = store.take(&pool, &[], &holder("new")).expect("given");
    assert_eq!(new, ips(&["10.1.2.3"]));
    let old = store.give_back(&holder("old")).expect("given back");
    assert_eq!(old, ips(&["10.1.2.2"]));
}

#[test]
fn of_many_at_once_each_gets_its_own() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let pool = pool(&["10.1.2.0/24", "fd00::/120"]);
    let path = folder.path();
    let given: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|thread| {
                let pool = &pool;
                scope.spawn(move || {
                    // As processes do: each with a store of its own.
                    (0..8)
                        .map(|n| {
                            let name = format!("{thread}-{n}");
                            let taken = store(path).take(pool, &[], &holder(&name));
                            (name, taken.expect("given"))
                        })
                        .collect::<Vec<_>>()
                })
            })
            .collect();
        threads
            .into_iter()
            .flat_map(|it| it.join().expect("a thread"))
            .collect()
    });
    let by_address: BTreeMap<_, _> = given
        .iter()
        .flat_map(|(name, addresses)| addresses.iter().map(move |address| (*address, name)))
        .collect();
    assert_eq!(by_address.len(), 128, "two addresses each, none twice");
    for (name, addresses) in &given {
        assert_eq!(
            store(path).addresses_of(&holder(name)).expect("read"),
            *addresses
        );
    }
}

#[test]
fn a_crowd_is_served_as_if_each_came_alone() {
    let folder = tempfile::tempdir().expect("temporary folder");
    let store = store(folder.path());
    let (wide, narrow) = (pool(&["10.1.2.0/24", "fd00::/120"]), pool(&["10.9.0.0/30"]));
    let holders = ["a", "b", "a", "c", "d", "e", "f"].map(holder);
    let taken = ips(&["10.1.2.2"]);
    let wish = |pool, wanted, number: usize| AddressRequest {
        pool,
        wanted,
        holder: &holders[number],
    };
    let all = store.take_all(&[
        wish(&wide, &[], 0),
        wish(&narrow, &[], 1),
        // The same again, an address that somebody has since, and a pool that is full.
        wish(&wide, &[], 2),
        wish(&wide, &taken, 3),
        wish(&narrow, &[], 4),
        wish(&wide, &[], 5),
    ]);
    let all = all.expect("served");
    let [a, b, again, c, d, e] = &all.given[..] else {
        panic!("{:?}", all.given);
    };
    let first = ips(&["10.1.2.2", "fd00::2"]);
    assert_eq!(a.as_ref().expect("given"), &first);
    assert_eq!(again.as_ref().expect("the same"), &first);
    assert_eq!(b.as_ref().expect("given"), &ips(&["10.9.0.2"]));
    assert!(
        matches!(c, Err(Error::Taken { holder, .. }) if holder == "a"),
        "{c:?}"
    );
    assert!(matches!(d, Err(Error::Exhausted { .. })), "{d:?}");
    assert_eq!(e.as_ref().expect("given"), &ips(&["10.1.2.3", "fd00::3"]));
    all.flush().expect("flushed");
    assert!(store.addresses_of(&holders[3]).expect("read").is_empty());
    // Who comes alone afterwards goes on behind them.
    let next = store.take(&wide, &[], &holders[6]).expect("given");
    assert_eq!(next, ips(&["10.1.2.4", "fd00::4"]));
    drop(all);
    let alone = Store::open(folder.path(), "net").expect("a store");
    assert_eq!(alone.addresses_of(&holders[0]).expect("read"), first);
}
