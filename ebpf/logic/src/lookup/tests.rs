use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

use ebpf_abi::{Address, BackendFlags, Config, Original, OriginalKey, Port, Protocol, Range};

use super::*;
use crate::model::Model;

const SECOND: u64 = 1_000_000_000;

fn key() -> ServiceKey {
    ServiceKey::internal(Address::v4([10, 96, 0, 1]), Port::new(80), Protocol::TCP)
}

fn service(generation: u32, count: u32, flags: ServiceFlags) -> Service {
    Service {
        set: 7,
        generation,
        count,
        flags,
        affinity_seconds: 10,
        table: 0,
    }
}

fn backends(count: u8) -> Vec<Backend> {
    let backend = |n| {
        Backend::new(
            Address::v4([10, 244, 0, n]),
            Port::new(8080),
            BackendFlags::NONE,
        )
    };
    (1..=count).map(backend).collect()
}

/// A process of a namespace.
struct Asker {
    spread: u32,
    client: u64,
}

impl LookupClient for Asker {
    fn spread(&self) -> u32 {
        self.spread
    }

    fn client(&self, set: u32) -> AffinityKey {
        AffinityKey::of_namespace(self.client, set)
    }

    fn admission(&self, _set: u32) -> Admission {
        Admission::Unknown
    }

    fn is_outside(&self) -> bool {
        false
    }

    fn is_host(&self) -> bool {
        false
    }

    fn hash(&self, _client_alone: bool) -> Option<u32> {
        None
    }

    fn chosen(&self) -> Option<Address> {
        None
    }
}

/// The client's result, with only the address of a backend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Got {
    Backend(Backend),
    Other(Choice),
}

fn ask(model: &Model, client: u64) -> Got {
    let spread = model.random();
    let mut found = FoundBackend::NOTHING;
    match choose::<ATTEMPTS, _, _>(model, &mut key(), &Asker { spread, client }, &mut found) {
        Choice::Backend => Got::Backend(found.backend),
        other => Got::Other(other),
    }
}

#[test]
fn unknown_key_is_no_service() {
    assert_eq!(ask(&Model::default(), 1), Got::Other(Choice::NoService));
}

#[test]
fn service_without_backends_says_which_kind_of_nothing() {
    let mut model = Model::default();
    model.put(key(), service(1, 0, ServiceFlags::NONE), &[]);
    assert_eq!(ask(&model, 1), Got::Other(Choice::NoEndpoint));
    model.put(key(), service(1, 0, ServiceFlags::LOCAL_ONLY), &[]);
    assert_eq!(ask(&model, 1), Got::Other(Choice::NoLocalEndpoint));
}

#[test]
fn choices_spread_evenly() {
    let mut model = Model::default();
    let all = backends(5);
    model.put(key(), service(1, 5, ServiceFlags::NONE), &all);
    let mut counts: BTreeMap<Backend, u32> = BTreeMap::new();
    for _ in 0..5_000 {
        let Got::Backend(backend) = ask(&model, 1) else {
            panic!("no backend")
        };
        *counts.entry(backend).or_default() += 1;
    }
    assert_eq!(counts.len(), 5);
    assert!(
        counts.values().all(|count| (900..1_100).contains(count)),
        "{counts:?}"
    );
}

#[test]
fn extremes_of_spread_stay_inside() {
    for count in [1, 2, 3, 65_535, u32::MAX] {
        assert_eq!(scale(0, count), 0);
        assert_eq!(scale(u32::MAX, count), count - 1);
    }
}

#[test]
fn torn_entry_is_never_followed() {
    let mut model = Model::default();
    model.put(key(), service(1, 2, ServiceFlags::NONE), &backends(2));
    // An entry of another key, as if the element had been reused.
    let other = ServiceKey::internal(Address::v4([10, 96, 0, 2]), Port::new(80), Protocol::TCP);
    let entry = ChecksummedValue::new(&other, service(1, 2, ServiceFlags::NONE));
    model.services.insert(key(), entry);
    assert_eq!(ask(&model, 1), Got::Other(Choice::Unstable));
    assert_eq!(model.counted(Counter::Reread), u64::from(ATTEMPTS));
}

#[test]
fn missing_slot_is_read_again_and_never_guessed() {
    let mut model = Model::default();
    model.put(key(), service(1, 2, ServiceFlags::NONE), &backends(2));
    model.slots.clear();
    assert_eq!(ask(&model, 1), Got::Other(Choice::Unstable));
}

#[test]
fn client_keeps_its_backend_across_generations_until_it_goes() {
    let mut model = Model::default();
    let all = backends(5);
    model.put(key(), service(1, 5, ServiceFlags::AFFINITY), &all);
    let Got::Backend(first) = ask(&model, 1) else {
        panic!("no backend")
    };
    for _ in 0..20 {
        assert_eq!(ask(&model, 1), Got::Backend(first));
    }
    assert_eq!(model.counted(Counter::AffinityKept), 20);

    // Another order, another generation: the same backend.
    let mut fewer: Vec<_> = all.iter().rev().copied().collect();
    fewer.truncate(4);
    if !fewer.contains(&first) {
        fewer[3] = first;
    }
    model.put(key(), service(2, 4, ServiceFlags::AFFINITY), &fewer);
    assert_eq!(ask(&model, 1), Got::Backend(first));

    // Without it: another one, which is then kept.
    fewer.retain(|backend| *backend != first);
    model.put(key(), service(3, 3, ServiceFlags::AFFINITY), &fewer);
    let Got::Backend(second) = ask(&model, 1) else {
        panic!("no backend")
    };
    assert!(fewer.contains(&second));
    assert_eq!(ask(&model, 1), Got::Backend(second));
}

#[test]
fn affinity_ends_when_unused_for_its_time() {
    let mut model = Model::default();
    model.put(key(), service(1, 5, ServiceFlags::AFFINITY), &backends(5));
    ask(&model, 1);
    model.now.set(9 * SECOND);
    ask(&model, 1);
    assert_eq!(model.counted(Counter::AffinityKept), 1);
    model.now.set(18 * SECOND);
    ask(&model, 1);
    assert_eq!(
        model.counted(Counter::AffinityKept),
        2,
        "use prolongs affinity"
    );
    model.now.set(28 * SECOND);
    ask(&model, 1);
    assert_eq!(model.counted(Counter::AffinityKept), 2, "it has ended");
}

#[test]
fn clients_have_affinities_of_their_own() {
    let mut model = Model::default();
    model.put(key(), service(1, 5, ServiceFlags::AFFINITY), &backends(5));
    let choices: Vec<_> = (0..64).map(|client| ask(&model, client)).collect();
    let again: Vec<_> = (0..64).map(|client| ask(&model, client)).collect();
    assert_eq!(choices, again);
    assert!(choices.iter().any(|choice| *choice != choices[0]));
}

/// Maps that change after some looks at what user space writes: their reader is stopped.
struct Halted {
    model: RefCell<Model>,
    looks: Cell<u32>,
    change: fn(&mut Model),
}

impl Halted {
    fn look(&self) -> std::cell::Ref<'_, Model> {
        let left = self.looks.get();
        if left == 0 {
            (self.change)(&mut self.model.borrow_mut());
        }
        self.looks.set(left.wrapping_sub(1));
        self.model.borrow()
    }
}

impl Maps for Halted {
    fn served(&self, protocol: Protocol, port: Port) -> ServiceEntryKinds {
        self.look().served(protocol, port)
    }
    fn service(&self, key: &ServiceKey) -> Option<ChecksummedValue<Service>> {
        self.look().service(key)
    }
    fn slot(&self, key: &SlotKey) -> Option<ChecksummedValue<Backend>> {
        self.look().slot(key)
    }
    fn member(&self, key: &MemberKey) -> Option<u32> {
        self.look().member(key)
    }
    fn place(&self, key: &MaglevKey, place: u32) -> Option<u16> {
        self.look().place(key, place)
    }
    fn node(&self, address: &Address) -> Option<NodeFlags> {
        self.look().node(address)
    }
    fn config(&self) -> Option<Config> {
        self.model.borrow().config()
    }
    fn original(&self, key: &OriginalKey) -> Option<ChecksummedValue<Original>> {
        self.model.borrow().original(key)
    }
    fn remember(&self, key: &OriginalKey, value: &ChecksummedValue<Original>) -> bool {
        self.model.borrow().remember(key, value)
    }
    fn forget(&self, key: &OriginalKey) {
        self.model.borrow().forget(key);
    }
    fn affinity(&self, key: &AffinityKey) -> Option<ChecksummedValue<Affinity>> {
        self.model.borrow().affinity(key)
    }
    fn keep(&self, key: &AffinityKey, value: &ChecksummedValue<Affinity>) {
        self.model.borrow().keep(key, value);
    }
    fn count(&self, counter: Counter) {
        self.model.borrow().count(counter);
    }
    fn tell(&self, what: Counter, asked: &ServiceKey) {
        self.model.borrow().tell(what, asked);
    }
}

impl Entropy for Halted {
    fn random(&self) -> u32 {
        self.model.borrow().random()
    }
    fn now(&self) -> u64 {
        self.model.borrow().now()
    }
    fn ticks(&self) -> u32 {
        self.model.borrow().ticks()
    }
}

/// A client whose address is known.
struct Known<'a>(&'a Halted, u32);

const CLIENT: Address = Address::v4([192, 0, 2, 1]);

impl LookupClient for Known<'_> {
    fn spread(&self) -> u32 {
        self.1
    }

    fn client(&self, set: u32) -> AffinityKey {
        AffinityKey::of_address(CLIENT, set)
    }

    fn admission(&self, set: u32) -> Admission {
        if crate::Flows::is_source(&*self.0.look(), set, CLIENT) {
            Admission::Yes
        } else {
            Admission::No
        }
    }

    fn is_outside(&self) -> bool {
        true
    }

    fn is_host(&self) -> bool {
        false
    }

    fn hash(&self, _client_alone: bool) -> Option<u32> {
        Some(self.1)
    }

    fn chosen(&self) -> Option<Address> {
        None
    }
}

/// Returns the results that a client may get if it is interrupted anywhere while a
/// service changes.
fn stopped(before: fn() -> Model, change: fn(&mut Model)) -> BTreeSet<std::string::String> {
    let mut all = BTreeSet::new();
    for looks in 0..12 {
        for spread in [0, u32::MAX / 2, u32::MAX] {
            let (model, looks) = (RefCell::new(before()), Cell::new(looks));
            let maps = Halted {
                model,
                looks,
                change,
            };
            let mut found = FoundBackend::NOTHING;
            let choice = choose::<3, _, _>(&maps, &mut key(), &Known(&maps, spread), &mut found);
            all.insert(match choice {
                Choice::Backend => {
                    std::format!("{}", std::net::IpAddr::from(found.backend.address))
                }
                other => std::format!("{other:?}"),
            });
        }
    }
    all
}

fn set_of<const N: usize>(all: [&str; N]) -> BTreeSet<std::string::String> {
    all.into_iter().map(Into::into).collect()
}

#[test]
fn who_is_stopped_while_a_service_changes_gets_what_was_or_what_is() {
    let admitted = || {
        let mut model = Model::default();
        let flags = ServiceFlags::SOURCES;
        model.put(key(), service(1, 1, flags), &backends(1));
        model.sources.insert((160, Range::new(7, CLIENT)));
        model
    };
    // The ranges are removed, and clients in them are admitted as before.
    let free = |model: &mut Model| {
        model.put(key(), service(1, 1, ServiceFlags::NONE), &backends(1));
        model.sources.clear();
    };
    assert_eq!(stopped(admitted, free), set_of(["10.244.0.1"]));
    // The service goes.
    let gone = |model: &mut Model| {
        model.services.clear();
        model.slots.clear();
        model.sources.clear();
    };
    assert_eq!(stopped(admitted, gone), set_of(["10.244.0.1", "NoService"]));
    // Another generation, of which the former one is removed.
    let two = || {
        let mut model = Model::default();
        model.put(key(), service(1, 2, ServiceFlags::NONE), &backends(2));
        model
    };
    let anew = |model: &mut Model| {
        model.put(key(), service(2, 1, ServiceFlags::NONE), &backends(3)[2..]);
        model.slots.retain(|key, _| key.generation == 2);
    };
    assert_eq!(
        stopped(two, anew),
        set_of(["10.244.0.1", "10.244.0.2", "10.244.0.3"])
    );
    // The client's own backend gets another slot, and its former one is another's.
    let kept = || {
        let mut model = Model::default();
        let all = backends(3);
        model.put(key(), service(1, 3, ServiceFlags::AFFINITY), &all);
        let own = AffinityKey::of_address(CLIENT, 7);
        let value = Affinity::new(0, all[2].address, all[2].port);
        model
            .affinity
            .borrow_mut()
            .insert(own, ChecksummedValue::new(&own, value));
        model
    };
    let swapped = |model: &mut Model| {
        let all = backends(4);
        model.put(
            key(),
            service(1, 3, ServiceFlags::AFFINITY),
            &[all[2], all[1], all[3]],
        );
    };
    assert_eq!(stopped(kept, swapped), set_of(["10.244.0.3"]));
}
