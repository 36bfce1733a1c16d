//! Tests how long flows live, and which of them are evicted for others.

use std::collections::BTreeSet;
use std::format;
use std::string::String;
use std::vec;

use ebpf_abi::{DirectReturn, FlowEntry, FlowFlags, Timeouts};

use super::frames::*;
use super::*;

/// A load balancer's address whose only backend answers clients directly.
fn direct(protocol: Protocol) -> Model {
    let mut model = node();
    model.config.as_mut().unwrap().direct_return = DirectReturn::IPIP;
    serve(
        &mut model,
        1,
        at(VIP[0], 80, protocol),
        ServiceFlags::DIRECT_RETURN,
        &[backend(REMOTE[0])],
    );
    model
}

/// A node port with one remote backend.
fn masqueraded() -> Model {
    let mut model = node();
    let key = node_port(0, Protocol::TCP);
    serve(
        &mut model,
        1,
        key,
        ServiceFlags::NONE,
        &[backend(REMOTE[0])],
    );
    model
}

fn wait(model: &Model, ticks: u64) {
    model.now.set(model.now.get() + (ticks << Life::TICK));
}

const fn ticks_of(seconds: u32) -> u32 {
    ((seconds as u64 * 1_000_000_000) >> Life::TICK) as u32
}

/// A service's next generation with these backends.
fn next_generation(model: &mut Model, key: ServiceKey, backends: &[Backend]) {
    let former = model.services[&key].unchecked();
    let service = Service {
        generation: former.generation + 1,
        count: u32::try_from(backends.len()).unwrap(),
        ..former
    };
    model.put(key, service, backends);
}

#[test]
fn one_way_flow_lives_as_long_as_the_client_s_packets_say() {
    for (script, seconds) in [
        (vec![SYN], 60),
        (vec![SYN, SYN], 60),
        // A single packet establishes nothing, whoever forged it.
        (vec![ACK], 60),
        (vec![SYN, ACK], 86_400),
        (vec![ACK, ACK], 86_400),
        (vec![SYN, ACK, FIN | ACK], 120),
        (vec![SYN, ACK, FIN | ACK, ACK], 120),
        (vec![SYN, ACK, RST], 120),
        (vec![SYN, ACK, RST, ACK], 86_400),
    ] {
        let model = direct(Protocol::TCP);
        for flags in &script {
            let packet = tcp((CLIENT[0], 4000), (VIP[0], 80), *flags, b"");
            assert_eq!(
                run(&model, Origin::Device, &packet).0,
                PacketVerdict::Encapsulate
            );
            wait(&model, 2);
        }
        assert_timeout(&model, Protocol::TCP, seconds, &format!("{script:?}"));
    }
    for (datagrams, seconds) in [(1, 30), (2, 120)] {
        let model = direct(Protocol::UDP);
        for _ in 0..datagrams {
            let packet = udp((CLIENT[0], 4000), (VIP[0], 80), b"x");
            assert_eq!(
                run(&model, Origin::Device, &packet).0,
                PacketVerdict::Encapsulate
            );
        }
        assert_timeout(&model, Protocol::UDP, seconds, &format!("{datagrams}"));
    }
}

/// Asserts after how much silence the model's only flow is over.
fn assert_timeout(model: &Model, protocol: Protocol, seconds: u32, what: &str) {
    let flows = model.flows.borrow();
    assert_eq!(flows.len(), 1, "{what}");
    let life = flows.values().next().unwrap().life;
    let over = |ticks| is_over(&Timeouts::DEFAULT, protocol, life, life.used() + ticks);
    assert!(!over(ticks_of(seconds)), "{what} before {seconds} s");
    assert!(over(ticks_of(seconds) + 1), "{what} after {seconds} s");
}

#[test]
fn open_one_way_connection_keeps_its_backend_when_endpoints_change() {
    let mut model = direct(Protocol::TCP);
    let sent = |model: &Model, flags| {
        let packet = tcp((CLIENT[0], 4000), (VIP[0], 80), flags, b"");
        let (verdict, out, _) = run(model, Origin::Device, &packet);
        assert_eq!(verdict, PacketVerdict::Encapsulate);
        format!("{}", read(&out).to)
    };
    assert_eq!(sent(&model, SYN), REMOTE[0]);
    assert_eq!(sent(&model, ACK), REMOTE[0]);
    next_generation(
        &mut model,
        at(VIP[0], 80, Protocol::TCP),
        &[backend("10.244.7.7")],
    );
    wait(&model, 300);
    assert_eq!(sent(&model, ACK), REMOTE[0]);
    // After its FIN the client's next connection goes to who serves now.
    assert_eq!(sent(&model, FIN | ACK), REMOTE[0]);
    assert_eq!(sent(&model, SYN), "10.244.7.7");
    assert_eq!(model.flows.borrow().len(), 1);
    assert_eq!(model.log.borrow().len(), 1);
}

#[test]
fn opening_connection_is_not_sent_to_a_backend_that_left() {
    for (direct_return, origin, from) in [
        (true, Origin::Device, CLIENT[0]),
        (false, Origin::Pod, LOCAL[0]),
    ] {
        let mut model = direct(Protocol::TCP);
        if !direct_return {
            model.config.as_mut().unwrap().direct_return = DirectReturn::NONE;
        }
        let syn = tcp((from, 4000), (VIP[0], 80), SYN, b"");
        let to = |model: &Model| format!("{}", read(&run(model, origin, &syn).1).to);
        assert_eq!(to(&model), REMOTE[0]);
        let key = at(VIP[0], 80, Protocol::TCP);
        next_generation(&mut model, key, &[backend("10.244.7.7")]);
        assert_eq!(to(&model), "10.244.7.7");
        // Also where the backend was replaced within the generation.
        let service = model.services[&key].unchecked();
        model.members.clear();
        model.put(key, service, &[backend("10.244.7.8")]);
        assert_eq!(to(&model), "10.244.7.8");
    }
}

/// An open connection through a node port, and the port that it was given.
fn open() -> (Model, u16) {
    let model = masqueraded();
    let syn = tcp((CLIENT[0], 4000), (NODE[0], NODE_PORT), SYN, b"");
    let port = read(&run(&model, Origin::Device, &syn).1).ports.0;
    sent(&model, port, '<', SYN | ACK);
    sent(&model, port, '>', ACK);
    (model, port)
}

fn sent(model: &Model, port: u16, side: char, flags: u8) -> PacketVerdict {
    let packet = if side == '>' {
        tcp((CLIENT[0], 4000), (NODE[0], NODE_PORT), flags, b"")
    } else {
        tcp((REMOTE[0], 8080), (NODE[0], port), flags, b"")
    };
    run(model, Origin::Device, &packet).0
}

#[test]
fn rst_counts_until_the_other_side_sends_even_within_a_tick() {
    for (script, alive) in [
        // The answer to an RST that was not accepted.
        (vec![('>', RST), ('<', ACK)], true),
        (vec![('<', RST), ('>', ACK)], true),
        // What went before an RST does not answer it.
        (vec![('<', ACK), ('>', RST)], false),
        (vec![('>', ACK), ('<', RST)], false),
        (vec![('>', RST), ('<', ACK), ('>', RST)], false),
        (vec![('>', RST), ('>', ACK)], true),
        (vec![('>', RST), ('<', RST)], false),
    ] {
        for apart in [0, 2] {
            let (model, port) = open();
            for (side, flags) in &script {
                wait(&model, apart);
                assert_eq!(sent(&model, port, *side, *flags), PacketVerdict::Forward);
            }
            wait(&model, 60);
            let late = sent(&model, port, '<', ACK);
            let expected = if alive {
                PacketVerdict::Forward
            } else {
                PacketVerdict::Pass
            };
            assert_eq!(late, expected, "{script:?}, {apart} ticks apart");
        }
    }
}

/// An open connection through a node port that both sides have closed.
fn closed() -> (Model, u16) {
    let (model, port) = open();
    sent(&model, port, '>', FIN | ACK);
    sent(&model, port, '<', FIN | ACK);
    (model, port)
}

/// kube-proxy serves again, and the client takes the port of a connection that it closed.
#[test]
fn a_client_s_port_is_left_to_whoever_serves_after_us() {
    for ticks in [1, 100] {
        let (mut model, port) = closed();
        wait(&model, ticks);
        model.services.clear();
        for flags in [SYN, ACK] {
            assert_eq!(
                sent(&model, port, '>', flags),
                PacketVerdict::Pass,
                "{flags}"
            );
        }
        assert!(model.flows.borrow().is_empty(), "{ticks} ticks");
    }
    // Nor did a connection that never opened leave anything.
    let mut model = masqueraded();
    sent(&model, 0, '>', SYN);
    model.services.clear();
    for flags in [SYN, ACK] {
        assert_eq!(sent(&model, 0, '>', flags), PacketVerdict::Pass, "{flags}");
    }
}

/// kube-proxy shows its clients under any port of the node, ours included.
#[test]
fn a_port_that_a_closed_connection_had_is_left_to_whoever_gets_an_answer_there() {
    let (mut model, port) = closed();
    model.services.clear();
    for flags in [SYN | ACK, ACK] {
        assert_eq!(
            sent(&model, port, '<', flags),
            PacketVerdict::Pass,
            "{flags}"
        );
    }
    assert!(model.flows.borrow().is_empty());
    // The answer to a first packet that came twice.
    let (model, port) = open();
    assert_eq!(sent(&model, port, '<', SYN | ACK), PacketVerdict::Forward);
}

fn opening(client: u16) -> Vec<u8> {
    tcp((CLIENT[0], 1000 + client), (VIP[0], 80), SYN, b"")
}

#[test]
fn full_table_of_one_way_flows_makes_room_once_they_are_over() {
    let mut model = direct(Protocol::TCP);
    (model.flows_capacity, model.log_capacity) = (Some(20), Some(20));
    let begins = |client| run(&model, Origin::Device, &opening(client)).0;
    let begun = (0..40).filter(|it| begins(*it) == PacketVerdict::Encapsulate);
    assert_eq!(begun.count(), 20);
    wait(&model, 70);
    for client in 40..80 {
        assert_eq!(begins(client), PacketVerdict::Encapsulate, "{client}");
        assert_eq!(model.flows.borrow().len(), model.log.borrow().len());
        wait(&model, 70);
    }
    assert!(model.flows.borrow().len() <= 3);
}

#[test]
fn flood_of_openings_does_not_keep_others_out_for_a_minute() {
    for (mut model, packet) in [
        (direct(Protocol::TCP), opening as fn(u16) -> Vec<u8>),
        (masqueraded(), |client| {
            tcp((CLIENT[0], 1000 + client), (NODE[0], NODE_PORT), SYN, b"")
        }),
    ] {
        (model.flows_capacity, model.log_capacity) = (Some(20), Some(20));
        let begins = |client| {
            let (verdict, _, _) = run(&model, Origin::Device, &packet(client));
            verdict != PacketVerdict::Drop
        };
        assert!(begins(0));
        let mut established = packet(0);
        established[14 + 20 + 13] = ACK;
        run(&model, Origin::Device, &established);
        (1..40).for_each(|client| {
            begins(client);
        });
        assert!(!begins(40), "what came a moment ago stays");
        wait(&model, 12);
        (50..60).for_each(|client| assert!(begins(client), "{client}"));
    }
}

#[test]
fn flow_whose_key_cannot_be_logged_is_not_kept() {
    let mut model = direct(Protocol::TCP);
    model.log_capacity = Some(5);
    for client in 0..10 {
        let (verdict, _, work) = run(&model, Origin::Device, &opening(client));
        if client < 5 {
            assert_eq!(verdict, PacketVerdict::Encapsulate);
        } else {
            let dropped = (PacketVerdict::Drop, Counter::DroppedFlowsFull);
            assert_eq!((verdict, work.counter), dropped);
        }
    }
    assert_eq!(model.flows.borrow().len(), 5);
}

#[test]
fn search_finds_each_port_while_one_is_free() {
    let mut model = masqueraded();
    let config = model.config.as_mut().unwrap();
    (config.first_port, config.last_port) = (61_000, 61_999);
    let begin = |client: u16| {
        let syn = tcp((CLIENT[0], 1000 + client), (NODE[0], NODE_PORT), SYN, b"");
        run(&model, Origin::Device, &syn)
    };
    let mut given = BTreeSet::new();
    for client in 0..1000 {
        let (verdict, out, _) = begin(client);
        assert_eq!(verdict, PacketVerdict::Forward, "{client}");
        assert!(given.insert(read(&out).ports.0));
    }
    assert_eq!(
        (given.first(), given.last()),
        (Some(&61_000), Some(&61_999))
    );
    let (verdict, _, work) = begin(1000);
    let dropped = (PacketVerdict::Drop, Counter::DroppedNoPort);
    assert_eq!((verdict, work.counter), dropped);
    assert_eq!(model.flows.borrow().len(), 2000);
    // Those of flows that are over are free, too.
    wait(&model, 61);
    assert_eq!(begin(1000).0, PacketVerdict::Forward);
}

#[test]
fn search_begins_elsewhere_for_each_retry() {
    let syn = tcp((CLIENT[0], 4000), (NODE[0], NODE_PORT), SYN, b"");
    let mut given = BTreeSet::new();
    for tick in 0..16 {
        let model = masqueraded();
        wait(&model, tick);
        let first = read(&run(&model, Origin::Device, &syn).1).ports.0;
        // Another client has the port that this one would be given.
        let reply = *model.flows.borrow().keys().next().unwrap();
        assert_eq!(reply.destination_port, Port::new(first));
        let other = tcp((CLIENT[0], 5000), (NODE[0], NODE_PORT), SYN, b"");
        let theirs = read(&run(&model, Origin::Device, &other).1).ports.0;
        assert_ne!(theirs, first);
        let mut flows = model.flows.borrow_mut();
        flows.retain(|key, _| {
            key.source_port != Port::new(4000) && key.destination_port != Port::new(first)
        });
        let taken = flows.clone();
        for (key, entry) in &taken {
            if entry.flow.unchecked().flags.contains(FlowFlags::REPLY) {
                let mut key = *key;
                key.destination_port = Port::new(first);
                let flow = ChecksummedValue::new(&key, entry.flow.unchecked());
                let life = entry.life;
                flows.insert(key, FlowEntry { flow, life });
            }
        }
        drop(flows);
        given.insert(read(&run(&model, Origin::Device, &syn).1).ports.0);
    }
    assert!(given.len() > 8, "{given:?}");
}

/// So many backends, of which one is this node's.
fn many(count: u16, local: u16) -> Vec<Backend> {
    let address = |n: u16| -> String { format!("10.244.{}.{}", 20 + n / 200, n % 200 + 1) };
    (0..count)
        .map(|n| {
            let mut it = backend(&address(n));
            if n == local {
                it.flags = BackendFlags::LOCAL;
            }
            it
        })
        .collect()
}

#[test]
fn direct_return_reaches_each_backend_of_a_large_service() {
    let inner = tcp((CLIENT[0], 4000), (VIP[0], 80), SYN, b"");
    for local in [0, 31, 32, 199] {
        let backends = many(200, local);
        let mut model = node();
        let key = at(VIP[0], 80, Protocol::TCP);
        serve(&mut model, 1, key, ServiceFlags::DIRECT_RETURN, &backends);
        let to = core::net::IpAddr::from(backends[usize::from(local)].address);
        let outer = frame(&ip(NODE[0], &format!("{to}"), 4, &inner[14..]));
        let (verdict, out, _) = run(&model, Origin::Device, &outer);
        assert_eq!(
            (verdict, read(&out).to),
            (PacketVerdict::Translate, to),
            "{local}"
        );
        // Other backends are on other nodes.
        let other = core::net::IpAddr::from(backends[50].address);
        let outer = frame(&ip(NODE[0], &format!("{other}"), 4, &inner[14..]));
        assert_eq!(run(&model, Origin::Device, &outer).0, PacketVerdict::Pass);
    }
}

#[test]
fn datagrams_leave_a_removed_backend_of_a_large_service() {
    let mut model = node();
    let key = at(VIP[0], 80, Protocol::UDP);
    let mut backends = many(60, 60);
    serve(&mut model, 1, key, ServiceFlags::NONE, &backends);
    let packet = udp((LOCAL[0], 4000), (VIP[0], 80), b"x");
    let to = |model: &Model| Address::from(read(&run(model, Origin::Pod, &packet).1).to);
    let first = to(&model);
    backends.push(backend("10.244.7.7"));
    next_generation(&mut model, key, &backends);
    assert_eq!(to(&model), first, "it is still there");
    backends.retain(|it| it.address != first);
    next_generation(&mut model, key, &backends);
    let second = to(&model);
    assert_ne!(second, first);
    assert!(backends.iter().any(|it| it.address == second));
    assert_eq!(model.counted(Counter::FlowMoved), 1);
}

#[test]
fn direct_return_follows_the_balancer_that_chooses_another_backend() {
    for protocol in [Protocol::TCP, Protocol::UDP] {
        let mut model = node();
        let backends = [LOCAL[0], "10.244.1.3"].map(|it| Backend {
            flags: BackendFlags::LOCAL,
            ..backend(it)
        });
        let key = at(VIP[0], 80, protocol);
        serve(&mut model, 1, key, ServiceFlags::DIRECT_RETURN, &backends);
        let inner = match protocol {
            Protocol::TCP => tcp((CLIENT[0], 4000), (VIP[0], 80), SYN, b""),
            _ => udp((CLIENT[0], 4000), (VIP[0], 80), b"x"),
        };
        for to in [LOCAL[0], "10.244.1.3", LOCAL[0]] {
            let outer = frame(&ip(NODE[0], to, 4, &inner[14..]));
            let (verdict, out, _) = run(&model, Origin::Device, &outer);
            assert_eq!(verdict, PacketVerdict::Translate);
            assert_eq!(format!("{}", read(&out).to), to);
            assert_eq!(model.flows.borrow().len(), 2);
            assert_eq!(model.log.borrow().len(), 1);
        }
    }
}
