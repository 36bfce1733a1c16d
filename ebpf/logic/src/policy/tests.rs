use ebpf_abi::policy::{
    Direction, EndpointKey, EndpointPolicy, PeerEntry, PolicyRoot, PolicyVerdict, PortClasses,
    VerdictKey, cookies,
};
use ebpf_abi::{Address, ChecksummedValue, Protocol, Range};

use super::model::PolicyModel;
use super::*;

const EPOCH: u32 = 7;
const OWN: Address = Address::v4([10, 0, 0, 1]);
const FRIEND: Address = Address::v4([10, 0, 0, 2]);
const STRANGER: Address = Address::v4([10, 0, 0, 3]);
const OUTSIDE: Address = Address::v4([192, 0, 2, 1]);
const NODE: Address = Address::v4([172, 16, 0, 1]);

/// A pod whose ruleset 1 allows a friend port 80 and other pods nothing;
/// outside may do everything.
fn model() -> PolicyModel {
    let mut model = PolicyModel {
        root: PolicyRoot {
            epoch: EPOCH,
            generation: 3,
        },
        ..PolicyModel::default()
    };
    for (address, peer, flags) in [
        (FRIEND, 9, PeerEntry::POD),
        (STRANGER, 10, PeerEntry::POD),
        (NODE, 0, PeerEntry::NODE | PeerEntry::LOCAL),
    ] {
        model
            .peers
            .insert((EPOCH, 128, address), PeerEntry { peer, flags });
    }
    model.endpoints.insert(
        key(Direction::INGRESS),
        EndpointPolicy {
            ruleset: 1,
            reserved: 0,
        },
    );
    model.endpoints.insert(
        key(Direction::EGRESS),
        EndpointPolicy {
            ruleset: 0,
            reserved: 0,
        },
    );
    let (element, place) = PortClasses::place(EPOCH, Protocol::TCP, 80).unwrap();
    let mut classes = PortClasses::default();
    classes.0[place as usize] = 5;
    model.ports.insert(element, classes);
    for (peer, class, cookie, flags) in [
        (9, 0, 20, PolicyVerdict::PORTS),
        (9, 5, 21, PolicyVerdict::ALLOW),
        (2, 0, 22, 0),
        (0, 0, 23, PolicyVerdict::ALLOW),
    ] {
        model.verdicts.insert(
            VerdictKey {
                epoch: EPOCH,
                ruleset: 1,
                peer,
                class,
            },
            PolicyVerdict { cookie, flags },
        );
    }
    model
}

fn key(direction: Direction) -> EndpointKey {
    EndpointKey {
        epoch: EPOCH,
        direction,
        address: OWN,
    }
}

fn from(peer: Address, port: u16) -> Flow {
    Flow {
        place: HookPlace::Pod,
        direction: Direction::INGRESS,
        own: OWN,
        peer,
        protocol: Protocol::TCP,
        port,
        relayed: false,
    }
}

fn asked(model: &PolicyModel, flow: Flow) -> (bool, u32) {
    let decision = policy(model, &flow);
    assert_eq!(decision.root, model.root);
    (decision.allow, decision.cookie)
}

#[test]
fn exact_entry_then_class_zero_then_kind() {
    let model = model();
    assert_eq!(asked(&model, from(FRIEND, 80)), (true, 21));
    assert_eq!(asked(&model, from(FRIEND, 81)), (false, 20));
    assert_eq!(asked(&model, from(STRANGER, 80)), (false, 22));
    assert_eq!(asked(&model, from(OUTSIDE, 80)), (true, 23));
}

#[test]
fn a_protocol_without_ports_is_in_no_class() {
    let model = model();
    let icmp = Flow {
        protocol: Protocol(1),
        ..from(FRIEND, 80)
    };
    assert_eq!(asked(&model, icmp), (false, 20));
    let udp = Flow {
        protocol: Protocol::UDP,
        ..from(FRIEND, 80)
    };
    assert_eq!(asked(&model, udp), (false, 20));
}

#[test]
fn the_own_node_and_the_pod_itself_always_reach_a_pod() {
    let mut model = model();
    assert_eq!(asked(&model, from(NODE, 80)), (true, cookies::NODE));
    assert_eq!(asked(&model, from(OWN, 80)), (true, cookies::ITSELF));
    model.endpoints.clear();
    assert_eq!(asked(&model, from(NODE, 80)), (true, cookies::NODE));
}

#[test]
fn a_pod_without_rules_is_closed_and_a_host_open() {
    let mut model = model();
    model.endpoints.clear();
    assert_eq!(asked(&model, from(FRIEND, 80)), (false, cookies::CLOSED));
    let host = Flow {
        place: HookPlace::Host,
        own: NODE,
        ..from(FRIEND, 80)
    };
    assert_eq!(asked(&model, host), (true, cookies::DEFAULT));
}

#[test]
fn ruleset_zero_allows_everything() {
    let model = model();
    let out = Flow {
        direction: Direction::EGRESS,
        ..from(STRANGER, 80)
    };
    assert_eq!(asked(&model, out), (true, cookies::DEFAULT));
}

#[test]
fn a_ruleset_that_is_not_there_denies() {
    let mut model = model();
    model.verdicts.clear();
    assert_eq!(asked(&model, from(OUTSIDE, 80)), (false, cookies::BROKEN));
}

#[test]
fn torn_entries_deny() {
    struct Torn(PolicyModel);
    impl PolicyMaps for Torn {
        fn policy_root(&self) -> PolicyRoot {
            self.0.root
        }
        fn peer(&self, range: &Range) -> Option<PeerEntry> {
            self.0.peer(range)
        }
        fn endpoint(&self, key: &EndpointKey) -> Option<ChecksummedValue<EndpointPolicy>> {
            self.0.endpoint(key)
        }
        fn ports(&self, element: u32) -> Option<PortClasses> {
            self.0.ports(element)
        }
        fn verdict(&self, key: &VerdictKey) -> Option<ChecksummedValue<PolicyVerdict>> {
            let other = VerdictKey { class: 77, ..*key };
            self.0
                .verdicts
                .get(key)
                .map(|value| ChecksummedValue::new(&other, *value))
        }
    }
    let decision = policy(&Torn(model()), &from(OUTSIDE, 80));
    assert_eq!((decision.allow, decision.cookie), (false, cookies::BROKEN));
}

#[test]
fn halves_of_ports_do_not_overlap() {
    let (last, _) = PortClasses::place(0, Protocol::SCTP, 65535).unwrap();
    let (first, _) = PortClasses::place(1, Protocol::TCP, 0).unwrap();
    assert_eq!(last + 1, first);
    let (end, _) = PortClasses::place(1, Protocol::SCTP, 65535).unwrap();
    assert_eq!(end + 1, PortClasses::ENTRIES);
}
