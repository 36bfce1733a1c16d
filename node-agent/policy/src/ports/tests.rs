//! Tests that incremental changes give the same result as all ranges together.

use super::*;

fn tcp(first: u16, last: u16) -> PortRange {
    PortRange {
        protocol: Protocol::TCP,
        first,
        last,
    }
}

#[test]
fn ports_in_the_same_ranges_share_a_class() {
    let mut ports = Ports::default();
    let wide = ports.acquire(tcp(80, 90));
    let narrow = ports.acquire(tcp(85, 85));
    let changed = ports.recompute_classes(0);
    assert_eq!(changed.elements.len(), 3);
    let class = |port| ports.class(Protocol::TCP, port);
    assert_eq!(class(79), 0);
    assert_eq!(class(80), class(90));
    assert_ne!(class(80), class(85));
    assert_eq!(class(91), 0);
    assert_eq!(ports.class(Protocol::UDP, 80), 0);
    assert_eq!(ports.signature(class(85)), [wide, narrow]);
    assert_eq!(ports.classes(wide).len(), 2);
    assert_eq!(ports.classes(narrow), [class(85)]);
}

#[test]
fn what_stays_keeps_its_number() {
    let mut ports = Ports::default();
    ports.acquire(tcp(80, 80));
    ports.recompute_classes(0);
    let class = ports.class(Protocol::TCP, 80);
    let other = ports.acquire(tcp(443, 443));
    let changed = ports.recompute_classes(0);
    assert_eq!(ports.class(Protocol::TCP, 80), class);
    assert_eq!(changed.elements.len(), 1);
    assert_eq!(changed.ranges, FxHashSet::from_iter([other]));
    ports.release(other);
    ports.recompute_classes(0);
    assert_eq!(ports.class(Protocol::TCP, 443), 0);
    assert_eq!(ports.class(Protocol::TCP, 80), class);
}

#[test]
fn ends_of_the_space_count() {
    let mut ports = Ports::default();
    ports.acquire(tcp(0, 65535));
    ports.recompute_classes(1);
    let class = ports.class(Protocol::TCP, 0);
    assert_ne!(class, 0);
    assert_eq!(ports.class(Protocol::TCP, 65535), class);
}

#[test]
fn a_range_that_ends_before_it_begins_holds_no_port() {
    let mut ports = Ports::default();
    let none = ports.acquire(tcp(90, 80));
    assert_eq!(ports.recompute_classes(0).elements, []);
    assert_eq!((ports.len(), ports.classes(none).len()), (0, 0));
    ports.release(none);
    ports.recompute_classes(0);
    assert_eq!(ports.pieces.each_ref().map(Pieces::len), [1; 3]);
}

#[test]
fn what_came_and_went_was_never_there() {
    let mut ports = Ports::default();
    let range = ports.acquire(tcp(80, 80));
    ports.release(range);
    assert!(!ports.is_dirty());
    assert_eq!(ports.recompute_classes(0).elements, []);
}

/// A number below `below`, of a fixed sequence.
fn pick(state: &mut u64, below: u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state % below
}

/// Few ends, so that ranges touch, nest and share them.
fn range(state: &mut u64) -> PortRange {
    const ENDS: [u16; 10] = [0, 1, 79, 80, 81, 90, 4000, 4001, 65534, 65535];
    let end = |state: &mut u64| ENDS[pick(state, 10) as usize];
    let (a, b) = (end(state), end(state));
    PortRange {
        protocol: PROTOCOLS[pick(state, 3) as usize],
        first: a.min(b),
        last: a.max(b),
    }
}

#[test]
fn after_any_history_classes_are_the_signatures_of_ports() {
    for seed in 1..=12_u64 {
        let mut state = seed * 0x9e37_79b9;
        let mut ports = Ports::default();
        let mut held: Vec<(PortId, PortRange)> = Vec::new();
        let mut table = vec![0_u16; 3 << 16];
        let mut before: FxHashMap<Arc<[PortId]>, ClassId> = FxHashMap::default();
        for _ in 0..40 {
            for _ in 0..=pick(&mut state, 3) {
                if !held.is_empty() && pick(&mut state, 5) < 2 {
                    let (number, _) =
                        held.swap_remove(pick(&mut state, held.len() as u64) as usize);
                    ports.release(number);
                } else {
                    let range = range(&mut state);
                    held.push((ports.acquire(range), range));
                }
            }
            let changed = ports.recompute_classes(1);
            for (element, classes) in &changed.elements {
                let first = (element - PortClasses::HALF) as usize * 4;
                assert_ne!(
                    table[first..first + 4],
                    classes.0,
                    "seed {seed}: nothing changed"
                );
                table[first..first + 4].copy_from_slice(&classes.0);
            }
            let mut seen: FxHashMap<Arc<[PortId]>, ClassId> = FxHashMap::default();
            for (row, protocol) in PROTOCOLS.into_iter().enumerate() {
                let near = [
                    0, 2, 3, 78, 80, 82, 85, 91, 92, 3999, 4000, 4002, 4005, 65533, 65535,
                ];
                for port in near {
                    let mut signature: Vec<PortId> = held
                        .iter()
                        .filter(|(_, it)| {
                            it.protocol == protocol && (it.first..=it.last).contains(&port)
                        })
                        .map(|(number, _)| *number)
                        .collect();
                    signature.sort_unstable();
                    signature.dedup();
                    let class = ports.class(protocol, port);
                    assert_eq!(
                        class,
                        table[(row << 16) + usize::from(port)],
                        "seed {seed}: {port}"
                    );
                    assert_eq!(ports.signature(class), signature, "seed {seed}: {port}");
                    assert_eq!(class == 0, signature.is_empty());
                    if class != 0 {
                        assert!(
                            signature
                                .iter()
                                .all(|it| ports.classes(*it).contains(&class))
                        );
                        seen.insert(signature.into(), class);
                    }
                }
            }
            for (signature, class) in &before {
                let now = ports.classes.numbers.get(signature);
                assert!(
                    now.is_none_or(|it| it == class),
                    "seed {seed}: it stays under its number"
                );
                let told = signature.iter().all(|it| changed.ranges.contains(it));
                assert!(
                    now.is_some() || told,
                    "seed {seed}: it went and nobody was told"
                );
            }
            for (signature, class) in &seen {
                let is_new = !before.contains_key(signature);
                let told = signature.iter().all(|it| changed.ranges.contains(it));
                assert!(!is_new || told, "seed {seed}: it came and nobody was told");
                let reused = before.values().any(|it| it == class);
                assert!(
                    !is_new || !reused,
                    "seed {seed}: a number that still stands in the maps"
                );
            }
            before = ports.classes.numbers.clone();
        }
        for (number, _) in held.drain(..) {
            ports.release(number);
        }
        ports.recompute_classes(1);
        assert_eq!(
            ports.len() + ports.classes.of_range.len() + ports.classes.numbers.len(),
            0
        );
        assert_eq!(
            ports.pieces.each_ref().map(Pieces::len),
            [1; 3],
            "seed {seed}"
        );
    }
}
