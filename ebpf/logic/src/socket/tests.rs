use std::vec::Vec;

use ebpf_abi::{BackendFlags, Service, ServiceFlags};
use proptest::prelude::*;

use super::*;
use crate::model::{Model, ModelSocket};

const VIP4: Address = Address::v4([10, 96, 0, 1]);
const POD4: Address = Address::v4([10, 244, 0, 1]);
const VIP6: Address = Address::v6([0xfd, 0, 0, 0x96, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
const POD6: Address = Address::v6([0xfd, 0, 2, 0x44, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

fn serve(model: &mut Model, set: u32, vip: Address, protocol: Protocol, backends: &[Backend]) {
    let key = ServiceKey::internal(vip, Port::new(80), protocol);
    let service = Service {
        set,
        generation: 1,
        count: u32::try_from(backends.len()).unwrap(),
        flags: ServiceFlags::NONE,
        affinity_seconds: 0,
        table: 0,
    };
    model.put(key, service, backends);
}

fn backend(address: Address) -> Backend {
    Backend::new(address, Port::new(8080), BackendFlags::NONE)
}

fn socket(family: Family, protocol: Protocol, address: Address) -> ModelSocket {
    ModelSocket::new(family, protocol, address, Port::new(80))
}

#[test]
fn connection_goes_to_the_backend_and_its_peer_name_is_the_service() {
    for (family, vip, pod) in [
        (Family::V4, VIP4, POD4),
        (Family::V6, VIP6, POD6),
        (Family::V6, VIP4, POD4),
    ] {
        let mut model = Model::default();
        serve(&mut model, 1, vip, Protocol::TCP, &[backend(pod)]);
        let mut it = socket(family, Protocol::TCP, vip);
        assert_eq!(connect(&model, &mut it), SocketVerdict::Translated);
        let there = Peer {
            address: pod,
            port: Port::new(8080),
        };
        assert_eq!(it.peer, there);
        peer_name(&model, &mut it);
        assert_eq!(it, socket(family, Protocol::TCP, vip));
    }
}

#[test]
fn other_protocol_of_the_same_port_is_another_service() {
    let mut model = Model::default();
    serve(&mut model, 1, VIP4, Protocol::TCP, &[backend(POD4)]);
    let mut it = socket(Family::V4, Protocol::UDP, VIP4);
    assert_eq!(connect(&model, &mut it), SocketVerdict::Pass);
    assert_eq!(it, socket(Family::V4, Protocol::UDP, VIP4));
}

#[test]
fn datagrams_of_one_socket_stay_together() {
    let mut model = Model::default();
    let all: Vec<_> = (1..=9)
        .map(|n| backend(Address::v4([10, 244, 0, n])))
        .collect();
    serve(&mut model, 1, VIP4, Protocol::UDP, &all);
    let mut seen = Vec::new();
    for cookie in 1..200 {
        let mut first = ModelSocket {
            cookie,
            ..socket(Family::V4, Protocol::UDP, VIP4)
        };
        let mut second = first;
        send(&model, &mut first);
        send(&model, &mut second);
        assert_eq!(first, second);
        seen.push(first.peer.address);
    }
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), 9, "sockets spread over all backends");
}

#[test]
fn backend_of_another_family_is_refused() {
    let mut model = Model::default();
    serve(&mut model, 1, VIP4, Protocol::TCP, &[backend(POD6)]);
    serve(&mut model, 2, VIP6, Protocol::TCP, &[backend(POD4)]);
    for (family, vip) in [(Family::V4, VIP4), (Family::V6, VIP4), (Family::V6, VIP6)] {
        let mut it = socket(family, Protocol::TCP, vip);
        assert_eq!(
            connect(&model, &mut it),
            SocketVerdict::Refuse(Refusal::Family),
            "{family:?} {vip}"
        );
        assert_eq!(it, socket(family, Protocol::TCP, vip), "left as it was");
    }
}

#[test]
fn datagram_is_refused_where_its_reply_would_be_a_strangers() {
    let mut model = Model {
        originals_capacity: Some(0),
        ..Model::default()
    };
    serve(&mut model, 1, VIP4, Protocol::UDP, &[backend(POD4)]);
    let mut it = socket(Family::V4, Protocol::UDP, VIP4);
    assert_eq!(
        send(&model, &mut it),
        SocketVerdict::Refuse(Refusal::NotStored)
    );
    assert_eq!(connect(&model, &mut it), SocketVerdict::Translated);
    assert_eq!(model.counted(Counter::OriginalNotStored), 2);
    assert_eq!(model.told.borrow().len(), 2);
}

#[test]
fn socket_that_leaves_the_service_sees_the_backend_itself() {
    let mut model = Model::default();
    serve(&mut model, 1, VIP4, Protocol::UDP, &[backend(POD4)]);
    let mut it = socket(Family::V4, Protocol::UDP, VIP4);
    connect(&model, &mut it);
    let direct = it;
    assert_eq!(connect(&model, &mut it), SocketVerdict::Pass);
    receive(&model, &mut it);
    assert_eq!(it, direct);
}

#[test]
fn every_refusal_is_counted_told_and_has_an_error_number() {
    let key = ServiceKey::internal(VIP4, Port::new(80), Protocol::TCP);
    for refusal in [
        Refusal::NoEndpoint,
        Refusal::NoLocalEndpoint,
        Refusal::Unstable,
        Refusal::Family,
        Refusal::NotStored,
    ] {
        let model = Model::default();
        assert_eq!(
            refuse(&model, &key, refusal),
            SocketVerdict::Refuse(refusal)
        );
        assert_eq!(model.counted(refusal.counter()), 1);
        assert_eq!(*model.told.borrow(), [(refusal.counter(), key)]);
        assert!(refusal.errno() > 0);
    }
}

fn addresses() -> impl Strategy<Value = Address> {
    // Few, so that services, backends and calls meet.
    prop_oneof![
        (0_u8..4).prop_map(|n| Address::v4([10, 0, 0, n])),
        (0_u8..4).prop_map(|n| Address::v6([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n])),
    ]
}

proptest! {
    /// Whatever the maps contain: a translated call carries a backend of the requested
    /// service, in a family that the socket can send, and the reverse translation
    /// restores the original. Every other call is unchanged.
    #[test]
    fn translation_is_right_and_reversible(
        services in prop::collection::vec((addresses(), prop::collection::vec(addresses(), 0..4)), 0..6),
        asked in addresses(),
        v6 in any::<bool>(),
        tcp in any::<bool>(),
        cookie in any::<u64>(),
    ) {
        let protocol = if tcp { Protocol::TCP } else { Protocol::UDP };
        let mut model = Model::default();
        for (set, (vip, pods)) in (1..).zip(&services) {
            let all: Vec<_> = pods.iter().map(|pod| backend(*pod)).collect();
            serve(&mut model, set, *vip, protocol, &all);
        }
        prop_assume!(v6 || asked.is_v4());
        let family = if v6 { Family::V6 } else { Family::V4 };
        let before = ModelSocket { cookie, ..socket(family, protocol, asked) };
        let mut after = before;
        let verdict = if tcp { connect(&model, &mut after) } else { send(&model, &mut after) };
        let serving = services.iter().rev().find(|(vip, _)| *vip == asked).map(|(_, pods)| pods);
        match verdict {
            SocketVerdict::Translated => {
                prop_assert!(model.told.borrow().is_empty());
                prop_assert!(serving.is_some_and(|pods| pods.contains(&after.peer.address)));
                prop_assert_eq!(after.peer.address.is_v4(), asked.is_v4());
                prop_assert_eq!(after.peer.port, Port::new(8080));
                receive(&model, &mut after);
                prop_assert_eq!(after, before);
            }
            SocketVerdict::Pass => {
                prop_assert!(model.told.borrow().is_empty());
                prop_assert!(serving.is_none());
                prop_assert_eq!(after, before);
            }
            SocketVerdict::Refuse(refusal) => {
                let pods = serving.unwrap();
                prop_assert_eq!(refusal == Refusal::NoEndpoint, pods.is_empty());
                prop_assert_eq!(after, before);
                prop_assert_eq!(model.counted(refusal.counter()), 1);
            }
        }
    }
}

const NODE4: Address = Address::v4([192, 0, 2, 1]);
const LOOPBACK: Address = Address::v4([127, 0, 0, 1]);

/// A node with a node port, whose own namespace is 1.
fn with_node_port(flags: ServiceFlags) -> Model {
    let mut model = Model {
        config: Some(ebpf_abi::Config {
            host_namespace: 1,
            ..ebpf_abi::Config::DEFAULT
        }),
        ..Model::default()
    };
    model.nodes.insert(NODE4, NodeFlags::PORTS);
    let loopback = NodeFlags::PORTS.with(NodeFlags::LOOPBACK);
    model.nodes.insert(LOOPBACK, loopback);
    let key = ServiceKey::internal(Address::UNSPECIFIED_V4, Port::new(80), Protocol::TCP);
    let service = Service {
        set: 1,
        generation: 1,
        count: 1,
        flags: flags.with(ServiceFlags::NODE_PORT),
        affinity_seconds: 0,
        table: 0,
    };
    model.put(key, service, &[backend(POD4)]);
    model
}

#[test]
fn node_port_answers_at_the_nodes_addresses_and_at_loopback_for_the_node_only() {
    let model = with_node_port(ServiceFlags::NONE);
    for (address, namespace, expected) in [
        (NODE4, 1, SocketVerdict::Translated),
        (NODE4, 2, SocketVerdict::Translated),
        (LOOPBACK, 1, SocketVerdict::Translated),
        (LOOPBACK, 2, SocketVerdict::Pass),
        (VIP4, 1, SocketVerdict::Pass),
        (Address::UNSPECIFIED_V4, 1, SocketVerdict::Pass),
    ] {
        let mut it = ModelSocket {
            namespace,
            ..socket(Family::V4, Protocol::TCP, address)
        };
        assert_eq!(connect(&model, &mut it), expected, "{address} {namespace}");
    }
}

#[test]
fn source_ranges_and_pods_are_left_to_packets_where_they_must_be() {
    let model = with_node_port(ServiceFlags::SOURCES);
    let mut it = socket(Family::V4, Protocol::TCP, NODE4);
    assert_eq!(connect(&model, &mut it), SocketVerdict::Pass);
    let mut model = with_node_port(ServiceFlags::NONE);
    let config = model.config.as_mut().unwrap();
    config.flags = ConfigFlags::HOST_SOCKETS_ONLY;
    for (namespace, expected) in [(1, SocketVerdict::Translated), (2, SocketVerdict::Pass)] {
        let mut it = ModelSocket {
            namespace,
            ..socket(Family::V4, Protocol::TCP, NODE4)
        };
        assert_eq!(connect(&model, &mut it), expected, "{namespace}");
    }
}

#[test]
fn node_port_is_not_bound_by_the_nodes_processes() {
    let mut model = with_node_port(ServiceFlags::NONE);
    let refused = SocketVerdict::Refuse(Refusal::NodePort);
    for (family, address, port, namespace, expected) in [
        (Family::V4, Address::UNSPECIFIED_V4, 80, 1, refused),
        (Family::V6, Address::UNSPECIFIED, 80, 1, refused),
        (Family::V4, NODE4, 80, 1, refused),
        (
            Family::V4,
            Address::UNSPECIFIED_V4,
            81,
            1,
            SocketVerdict::Pass,
        ),
        (
            Family::V4,
            Address::UNSPECIFIED_V4,
            0,
            1,
            SocketVerdict::Pass,
        ),
        (
            Family::V4,
            Address::UNSPECIFIED_V4,
            80,
            2,
            SocketVerdict::Pass,
        ),
        (Family::V4, POD4, 80, 1, SocketVerdict::Pass),
    ] {
        let it = ModelSocket {
            namespace,
            peer: Peer {
                address,
                port: Port::new(port),
            },
            ..socket(family, Protocol::TCP, address)
        };
        assert_eq!(bind(&model, &it), expected, "{address}:{port} {namespace}");
    }
    assert_eq!(
        refused,
        bind(&model, &socket(Family::V4, Protocol::TCP, NODE4))
    );
    model.config.as_mut().unwrap().flags = ConfigFlags::NO_BIND_PROTECTION;
    let it = socket(Family::V4, Protocol::TCP, NODE4);
    assert_eq!(bind(&model, &it), SocketVerdict::Pass);
}
