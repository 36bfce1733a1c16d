//! Tests flows from the first packet to the last. The cases are those of kube-proxy's tables of
//! packet flows: type of address, traffic policy, origin of the packet, and location of the
//! backend.

use std::format;
use std::string::String;
use std::vec;

use super::frames::*;
use super::*;

/// How a client's first packet leaves, and how the answer to it does.
fn both(
    model: &Model,
    origin: Origin,
    family: usize,
    from: (&str, u16),
    to: (&str, u16),
) -> [String; 2] {
    let (verdict, out, _) = run(model, origin, &tcp(from, to, SYN, b""));
    if !matches!(verdict, PacketVerdict::Translate | PacketVerdict::Forward) {
        return [format!("{verdict:?}"), String::new()];
    }
    let out = read(&out);
    // The backend's answer, from where it passes first.
    let (backend, client) = (format!("{}", out.to), format!("{}", out.from));
    let (server, port) = (out.ports.1, out.ports.0);
    let origin = if backend == NODE[family] {
        Origin::Host
    } else if backend == LOCAL[family] {
        Origin::Pod
    } else {
        Origin::Device
    };
    let answer = tcp((&backend, server), (&client, port), SYN | ACK, b"");
    let (back, answered, _) = run(model, origin, &answer);
    [
        format!("{verdict:?} {}", shown(&out)),
        format!("{back:?} {}", shown(&read(&answered))),
    ]
}

/// Names instead of addresses, and no port that was allocated.
fn shown(read: &Read) -> String {
    let name = |address: core::net::IpAddr, port: u16| {
        let text = format!("{address}");
        for (name, known) in [
            ("node", NODE),
            ("client", CLIENT),
            ("vip", VIP),
            ("local", LOCAL),
            ("remote", REMOTE),
        ] {
            if known.contains(&text.as_str()) {
                let port = if (61_000..=65_535).contains(&port) {
                    "given".into()
                } else {
                    format!("{port}")
                };
                return format!("{name}:{port}");
            }
        }
        format!("{text}:{port}")
    };
    format!(
        "{} > {} hops {}",
        name(read.from, read.ports.0),
        name(read.to, read.ports.1),
        read.hops
    )
}

fn vip(family: usize, flags: ServiceFlags, backends: &[Backend]) -> Model {
    let mut model = node();
    serve(
        &mut model,
        1,
        at(VIP[family], 80, Protocol::TCP),
        flags,
        backends,
    );
    model
}

fn ports(family: usize, flags: ServiceFlags, backends: &[Backend]) -> Model {
    let mut model = node();
    serve(
        &mut model,
        1,
        node_port(family, Protocol::TCP),
        flags,
        backends,
    );
    model
}

#[test]
fn every_cell_of_address_source_and_backend() {
    for family in [0, 1] {
        let (client, node, local, remote) =
            (CLIENT[family], NODE[family], LOCAL[family], REMOTE[family]);
        let none = ServiceFlags::NONE;
        let cluster = ServiceFlags::CLUSTER_IP;
        let cells = [
            // Name, flags, backend, origin, source, node port?, out, back.
            (
                "node port from outside, remote backend",
                none,
                remote,
                Origin::Device,
                client,
                true,
                "Forward node:given > remote:8080 hops 63",
                "Forward node:30080 > client:4000 hops 63",
            ),
            (
                "node port from outside, local backend",
                none,
                local,
                Origin::Device,
                client,
                true,
                "Translate client:4000 > local:8080 hops 64",
                "Forward node:30080 > client:4000 hops 63",
            ),
            (
                "node port from outside, backend of the node itself",
                none,
                node,
                Origin::Device,
                client,
                true,
                "Translate client:4000 > node:8080 hops 64",
                "Translate node:30080 > client:4000 hops 64",
            ),
            (
                "node port from another node's pod, remote backend",
                none,
                remote,
                Origin::Device,
                ["10.244.3.3", "fd00:244:3::3"][family],
                true,
                "Forward node:given > remote:8080 hops 63",
                "",
            ),
            (
                "load balancer's address from outside, remote backend",
                none,
                remote,
                Origin::Device,
                client,
                false,
                "Forward node:given > remote:8080 hops 63",
                "Forward vip:80 > client:4000 hops 63",
            ),
            (
                "load balancer's address from outside, local backend",
                none,
                local,
                Origin::Device,
                client,
                false,
                "Translate client:4000 > local:8080 hops 64",
                "Forward vip:80 > client:4000 hops 63",
            ),
            (
                "cluster IP from outside, remote backend",
                cluster,
                remote,
                Origin::Device,
                client,
                false,
                "Forward node:given > remote:8080 hops 63",
                "Forward vip:80 > client:4000 hops 63",
            ),
            (
                "cluster IP from outside, local backend",
                cluster,
                local,
                Origin::Device,
                client,
                false,
                "Forward node:given > local:8080 hops 63",
                "Forward vip:80 > client:4000 hops 63",
            ),
            (
                "cluster IP from outside, backend of the node itself",
                cluster,
                node,
                Origin::Device,
                client,
                false,
                "Translate client:4000 > node:8080 hops 64",
                "Translate vip:80 > client:4000 hops 64",
            ),
            (
                "cluster IP from a pod, remote backend",
                cluster,
                remote,
                Origin::Pod,
                local,
                false,
                "Translate local:4000 > remote:8080 hops 64",
                "Forward vip:80 > local:4000 hops 63",
            ),
            (
                "cluster IP from a pod, to itself",
                cluster,
                local,
                Origin::Pod,
                local,
                false,
                "Forward node:given > local:8080 hops 63",
                "Forward vip:80 > local:4000 hops 63",
            ),
            (
                "cluster IP from a pod, backend of the node itself",
                cluster,
                node,
                Origin::Pod,
                local,
                false,
                "Translate local:4000 > node:8080 hops 64",
                "Translate vip:80 > local:4000 hops 64",
            ),
            (
                "cluster IP from the node, remote backend",
                cluster,
                remote,
                Origin::Host,
                node,
                false,
                "Forward node:4000 > remote:8080 hops 63",
                "Forward vip:80 > node:4000 hops 63",
            ),
            (
                "cluster IP from the node, local backend",
                cluster,
                local,
                Origin::Host,
                node,
                false,
                "Forward node:4000 > local:8080 hops 63",
                "Forward vip:80 > node:4000 hops 63",
            ),
            (
                "load balancer's address from a pod, remote backend",
                none,
                remote,
                Origin::Pod,
                local,
                false,
                "Translate local:4000 > remote:8080 hops 64",
                "Forward vip:80 > local:4000 hops 63",
            ),
        ];
        for (name, flags, to, origin, source, by_port, out, back) in cells {
            let model = if by_port {
                ports(family, flags, &[backend(to)])
            } else {
                vip(family, flags, &[backend(to)])
            };
            let asked = if by_port {
                (node, NODE_PORT)
            } else {
                (VIP[family], 80)
            };
            let [first, answer] = both(&model, origin, family, (source, 4000), asked);
            assert_eq!(first, out, "{name}, family {family}");
            if !back.is_empty() {
                assert_eq!(answer, back, "{name}, family {family}: the answer");
            }
            assert_eq!(model.flows.borrow().len(), 2, "{name}");
            assert_eq!(model.log.borrow().len(), 1, "{name}");
        }
    }
}

#[test]
fn policy_local_serves_outside_from_its_own_entry_and_inside_from_all() {
    for family in [0, 1] {
        let mut model = node();
        let key = at(VIP[family], 80, Protocol::TCP);
        serve(
            &mut model,
            1,
            key,
            ServiceFlags::SCOPED,
            &[backend(REMOTE[family])],
        );
        let outside = ServiceKey::new(key.address, key.port, key.protocol, Scope::EXTERNAL);
        serve(
            &mut model,
            2,
            outside,
            ServiceFlags::LOCAL_ONLY,
            &[backend(LOCAL[family])],
        );
        let asked = (VIP[family], 80);
        let [first, answer] = both(
            &model,
            Origin::Device,
            family,
            (CLIENT[family], 4000),
            asked,
        );
        assert_eq!(first, "Translate client:4000 > local:8080 hops 64");
        assert_eq!(answer, "Forward vip:80 > client:4000 hops 63");
        let [first, _] = both(&model, Origin::Pod, family, (LOCAL[family], 4001), asked);
        assert_eq!(first, "Translate local:4001 > remote:8080 hops 64");
        // Pods of other nodes are inside, too.
        let pod = ["10.244.9.9", "fd00:244:9::9"][family];
        let [first, _] = both(&model, Origin::Device, family, (pod, 4002), asked);
        assert_eq!(first, "Forward node:given > remote:8080 hops 63");
    }
}

#[test]
fn local_policy_without_backends_is_silent_and_others_are_told() {
    for family in [0, 1] {
        let asked = (VIP[family], 80);
        let from = (CLIENT[family], 4000);
        let silent = ServiceFlags::DROP_EMPTY.with(ServiceFlags::LOCAL_ONLY);
        let model = vip(family, silent, &[]);
        let (verdict, _, work) = run(&model, Origin::Device, &tcp(from, asked, SYN, b""));
        assert_eq!(
            (verdict, work.counter),
            (PacketVerdict::Drop, Counter::DroppedEmpty)
        );
        for flags in [ServiceFlags::NONE, ServiceFlags::LOCAL_ONLY] {
            let model = vip(family, flags, &[]);
            let (verdict, answer, _) = run(&model, Origin::Device, &tcp(from, asked, SYN, b""));
            assert_eq!(verdict, PacketVerdict::Refuse);
            let answer = read(&answer);
            assert_eq!(
                answer.way(),
                format!(
                    "{}:80 > {}:4000",
                    address(VIP[family]),
                    address(CLIENT[family])
                )
            );
            assert_eq!(answer.content[13], RST | ACK);
            assert_eq!(answer.content[8..12], 1001_u32.to_be_bytes());
            assert!(model.flows.borrow().is_empty());
        }
    }
}

#[test]
fn only_clients_in_source_ranges_are_served() {
    let mut model = vip(0, ServiceFlags::SOURCES, &[backend(LOCAL[0])]);
    let syn = tcp((CLIENT[0], 4000), (VIP[0], 80), SYN, b"");
    let (verdict, _, work) = run(&model, Origin::Device, &syn);
    assert_eq!(
        (verdict, work.counter),
        (PacketVerdict::Drop, Counter::DroppedSource)
    );
    let range = address("198.51.100.0");
    model
        .sources
        .insert((Range::prefix(range, 24), Range::new(1, range)));
    assert_eq!(
        run(&model, Origin::Device, &syn).0,
        PacketVerdict::Translate
    );
}

#[test]
fn what_is_no_service_passes_untouched() {
    let model = vip(0, ServiceFlags::NONE, &[backend(LOCAL[0])]);
    for packet in [
        tcp((CLIENT[0], 4000), (VIP[0], 81), SYN, b""),
        udp((CLIENT[0], 4000), (VIP[0], 80), b"x"),
        tcp((CLIENT[0], 4000), (NODE[0], 22), SYN, b""),
        tcp((LOCAL[0], 8080), (CLIENT[0], 4000), ACK, b""),
        // The wildcard itself is no address.
        tcp((CLIENT[0], 4000), ("0.0.0.0", 80), SYN, b""),
    ] {
        let (verdict, after, _) = run(&model, Origin::Device, &packet);
        assert_eq!((verdict, after), (PacketVerdict::Pass, packet));
    }
}

#[test]
fn two_services_with_one_backend_do_not_meet() {
    for family in [0, 1] {
        let mut model = node();
        let vips = [VIP[family], ["10.96.0.2", "fd00:96::2"][family]];
        for (set, vip) in (1..).zip(vips) {
            serve(
                &mut model,
                set,
                at(vip, 80, Protocol::TCP),
                ServiceFlags::NONE,
                &[backend(LOCAL[family])],
            );
        }
        let from = (CLIENT[family], 4000);
        let mut answers = Vec::new();
        for vip in vips {
            let (_, out, _) = run(&model, Origin::Device, &tcp(from, (vip, 80), SYN, b""));
            let out = read(&out);
            assert_eq!(
                out.from,
                from.0.parse::<core::net::IpAddr>().unwrap(),
                "the client stays itself"
            );
            let there = tcp((LOCAL[family], 8080), (from.0, out.ports.0), SYN | ACK, b"");
            let (_, answer, _) = run(&model, Origin::Pod, &there);
            answers.push(read(&answer).way());
        }
        let expected = vips.map(|vip| format!("{}:80 > {}:4000", address(vip), address(from.0)));
        assert_eq!(answers, expected);
        assert_eq!(model.counted(Counter::PortReplaced), 1);
    }
}

#[test]
fn ports_run_out_cleanly_and_are_reused_when_flows_are_over() {
    let mut model = ports(0, ServiceFlags::NONE, &[backend(REMOTE[0])]);
    let config = model.config.as_mut().unwrap();
    (config.first_port, config.last_port) = (61_000, 61_003);
    let mut served = Vec::new();
    for client in 1..=60_u16 {
        let syn = tcp((CLIENT[0], 4000 + client), (NODE[0], NODE_PORT), SYN, b"");
        let (verdict, out, work) = run(&model, Origin::Device, &syn);
        if verdict == PacketVerdict::Drop {
            assert_eq!(work.counter, Counter::DroppedNoPort);
        } else {
            served.push(read(&out).ports.0);
        }
    }
    served.sort_unstable();
    assert_eq!(served, [61_000, 61_001, 61_002, 61_003], "each port once");
    // No flow is lost by those that found no room.
    assert_eq!(model.flows.borrow().len(), 8);
    model.now.set(model.now.get() + 61_000_000_000);
    let syn = tcp((CLIENT[0], 5000), (NODE[0], NODE_PORT), SYN, b"");
    assert_eq!(run(&model, Origin::Device, &syn).0, PacketVerdict::Forward);
    // The new one, and no more than the hand has not reached yet.
    assert!(model.flows.borrow().len() <= 8);
}

#[test]
fn ports_of_closed_connections_are_reused_where_all_are_in_use() {
    let mut model = ports(0, ServiceFlags::NONE, &[backend(REMOTE[0])]);
    let config = model.config.as_mut().unwrap();
    (config.first_port, config.last_port) = (61_000, 61_003);
    let send = |model: &Model, client: u16, flags| {
        let packet = tcp((CLIENT[0], 4000 + client), (NODE[0], NODE_PORT), flags, b"");
        let (verdict, out, _) = run(model, Origin::Device, &packet);
        (verdict, out)
    };
    let mut given = Vec::new();
    for client in 0..4 {
        let (_, out) = send(&model, client, SYN);
        let given_port = read(&out).ports.0;
        let answer = |flags| tcp((REMOTE[0], 8080), (NODE[0], given_port), flags, b"");
        run(&model, Origin::Device, &answer(SYN | ACK));
        send(&model, client, ACK);
        // One connection is closed by both sides.
        if client == 2 {
            send(&model, client, FIN | ACK);
            run(&model, Origin::Device, &answer(FIN | ACK));
            send(&model, client, ACK);
        }
        given.push(given_port);
    }
    let later = |model: &Model, seconds: u64| {
        model.now.set(model.now.get() + seconds * 1_000_000_000);
    };
    // Its last segments may still be on the way.
    later(&model, 3);
    assert_eq!(send(&model, 10, SYN).0, PacketVerdict::Drop);
    later(&model, 3);
    let (verdict, out) = send(&model, 11, SYN);
    assert_eq!(verdict, PacketVerdict::Forward);
    assert_eq!(read(&out).ports.0, given[2]);
    // Those that are open keep theirs.
    later(&model, 3);
    assert_eq!(send(&model, 12, SYN).0, PacketVerdict::Drop);
    for client in [0, 1, 3] {
        let (verdict, out) = send(&model, client, ACK);
        assert_eq!(verdict, PacketVerdict::Forward, "{client}");
        assert_eq!(read(&out).ports.0, given[usize::from(client)]);
    }
}

#[test]
fn full_table_refuses_new_flows_and_keeps_old_ones() {
    let mut model = ports(0, ServiceFlags::NONE, &[backend(REMOTE[0])]);
    model.flows_capacity = Some(20);
    let mut kept = Vec::new();
    for client in 0..40_u16 {
        let syn = tcp((CLIENT[0], 4000 + client), (NODE[0], NODE_PORT), SYN, b"");
        let (verdict, out, work) = run(&model, Origin::Device, &syn);
        if verdict == PacketVerdict::Forward {
            kept.push((syn, out));
        } else {
            assert_eq!(
                (verdict, work.counter),
                (PacketVerdict::Drop, Counter::DroppedFlowsFull)
            );
        }
    }
    assert_eq!(kept.len(), 10);
    for (syn, out) in kept {
        assert_eq!(run(&model, Origin::Device, &syn).1, out);
    }
    assert_eq!(model.flows.borrow().len(), 20);
    assert_eq!(model.log.borrow().len(), 10);
}

#[test]
fn flows_that_are_over_are_collected_by_those_that_come() {
    let model = ports(0, ServiceFlags::NONE, &[backend(REMOTE[0])]);
    for round in 0..50_u16 {
        for client in 0..20_u16 {
            let syn = tcp(
                (CLIENT[0], 1000 + round * 20 + client),
                (NODE[0], NODE_PORT),
                SYN,
                b"",
            );
            run(&model, Origin::Device, &syn);
        }
        model.now.set(model.now.get() + 70_000_000_000);
        let flows = model.flows.borrow();
        assert!(flows.len() <= 80, "{}", flows.len());
        assert_eq!(
            model.log.borrow().len() * 2,
            flows.len(),
            "each flow is logged once"
        );
    }
}

#[test]
fn keys_rest_in_the_queue_before_they_are_looked_at() {
    let model = ports(0, ServiceFlags::NONE, &[backend(REMOTE[0])]);
    let begin = |client| {
        let syn = tcp((CLIENT[0], client), (NODE[0], NODE_PORT), SYN, b"");
        run(&model, Origin::Device, &syn);
        let log = model.log.borrow();
        log.iter()
            .map(|it| it.key().source_port.get())
            .collect::<Vec<_>>()
    };
    let pass = |ticks: u64| model.now.set(model.now.get() + (ticks << Life::TICK));
    begin(1);
    assert_eq!(begin(2), [1, 2]);
    pass(9);
    assert_eq!(
        begin(3),
        [1, 2, 3],
        "those that came a moment ago are left alone"
    );
    pass(1);
    // Two of those that rested are looked at, and live; the third rests.
    assert_eq!(begin(4), [3, 4, 1, 2]);
    // After a minute they are over, but for those that are looked at no sooner.
    pass(60);
    assert_eq!(begin(5), [1, 2, 5]);
}

/// Runs a script of packets: `>` from the client, `<` from the backend.
fn life_after(script: &[(char, u8)]) -> (Model, Read) {
    let model = ports(0, ServiceFlags::NONE, &[backend(REMOTE[0])]);
    let (_, out, _) = run(
        &model,
        Origin::Device,
        &tcp((CLIENT[0], 4000), (NODE[0], NODE_PORT), SYN, b""),
    );
    let out = read(&out);
    for (side, flags) in script {
        let packet = if *side == '>' {
            tcp((CLIENT[0], 4000), (NODE[0], NODE_PORT), *flags, b"")
        } else {
            tcp((REMOTE[0], 8080), (NODE[0], out.ports.0), *flags, b"")
        };
        assert_eq!(
            run(&model, Origin::Device, &packet).0,
            PacketVerdict::Forward
        );
        model.now.set(model.now.get() + 2_200_000_000);
    }
    (model, out)
}

#[test]
fn tcp_flows_live_as_long_as_their_state_says() {
    let open = [('<', SYN | ACK), ('>', ACK)];
    let with = |more: &[(char, u8)]| [&open[..], more].concat();
    for (script, seconds) in [
        (vec![], 60),
        (vec![('<', SYN | ACK)], 60),
        (with(&[]), 86_400),
        (with(&[('>', FIN | ACK)]), 3_600),
        (with(&[('<', FIN | ACK)]), 3_600),
        (with(&[('>', FIN | ACK), ('<', FIN | ACK)]), 120),
        (with(&[('<', RST)]), 10),
        (with(&[('>', RST)]), 10),
        // Somebody else's RST does not end what goes on.
        (with(&[('>', RST), ('>', ACK)]), 86_400),
    ] {
        for (more, alive) in [(-5_i64, true), (5, false)] {
            let (model, out) = life_after(&script);
            let idle = u64::try_from(seconds + more).unwrap() * 1_000_000_000;
            model.now.set(model.now.get() + idle);
            let late = tcp((REMOTE[0], 8080), (NODE[0], out.ports.0), ACK, b"");
            let expected = if alive {
                PacketVerdict::Forward
            } else {
                PacketVerdict::Pass
            };
            let got = run(&model, Origin::Device, &late).0;
            assert_eq!(got, expected, "{script:?} after {seconds} {more}");
        }
    }
}

#[test]
fn closed_connection_makes_room_for_the_same_clients_next() {
    for closed in [vec![('>', FIN | ACK), ('<', FIN | ACK)], vec![('<', RST)]] {
        let (mut model, _) = life_after(&[&[('<', SYN | ACK), ('>', ACK)], &closed[..]].concat());
        // Only the other backend serves now.
        serve(
            &mut model,
            1,
            node_port(0, Protocol::TCP),
            ServiceFlags::NONE,
            &[backend(LOCAL[0])],
        );
        let syn = tcp((CLIENT[0], 4000), (NODE[0], NODE_PORT), SYN, b"");
        assert_eq!(
            read(&run(&model, Origin::Device, &syn).1).to,
            LOCAL[0].parse::<core::net::IpAddr>().unwrap()
        );
        assert_eq!(model.flows.borrow().len(), 2);
        assert_eq!(model.log.borrow().len(), 1);
    }
}

#[test]
fn stream_drains_and_datagrams_move_when_the_backend_goes() {
    for (protocol, moves) in [(Protocol::TCP, false), (Protocol::UDP, true)] {
        let mut model = node();
        let key = at(VIP[0], 80, protocol);
        serve(
            &mut model,
            1,
            key,
            ServiceFlags::NONE,
            &[backend(REMOTE[0])],
        );
        let packet = |flags| {
            if moves {
                udp((LOCAL[0], 4000), (VIP[0], 80), b"x")
            } else {
                tcp((LOCAL[0], 4000), (VIP[0], 80), flags, b"")
            }
        };
        run(&model, Origin::Pod, &packet(SYN));
        // Another backend comes: the flow stays, and is not asked again.
        let other = backend("10.244.7.7");
        let next = |generation, count| Service {
            set: 1,
            generation,
            count,
            flags: ServiceFlags::NONE,
            affinity_seconds: 0,
            table: 0,
        };
        model.put(key, next(2, 2), &[other, backend(REMOTE[0])]);
        let to = |model: &Model| format!("{}", read(&run(model, Origin::Pod, &packet(ACK)).1).to);
        assert_eq!(to(&model), REMOTE[0]);
        model.put(key, next(3, 1), &[other]);
        assert_eq!(to(&model), if moves { "10.244.7.7" } else { REMOTE[0] });
        assert_eq!(model.flows.borrow().len(), 2);
        assert_eq!(model.counted(Counter::FlowMoved), u64::from(moves));
    }
}

#[test]
fn sctp_gets_addresses_only() {
    let mut model = node();
    let key = at(VIP[0], 8080, Protocol::SCTP);
    serve(
        &mut model,
        1,
        key,
        ServiceFlags::NONE,
        &[backend(REMOTE[0])],
    );
    let packet = sctp((CLIENT[0], 4000), (VIP[0], 8080));
    let (verdict, out, _) = run(&model, Origin::Device, &packet);
    assert_eq!(verdict, PacketVerdict::Forward);
    let out_read = read(&out);
    assert_eq!(
        out_read.way(),
        format!("{}:4000 > {}:8080", NODE[0], REMOTE[0])
    );
    assert_eq!(
        out_read.content,
        read(&packet).content,
        "ports and checksum stay"
    );
}

#[test]
fn sctp_s_checksum_is_right_where_a_port_changes_and_fragments_are_dropped_there() {
    for family in [0, 1] {
        let mut model = node();
        let key = at(VIP[family], 80, Protocol::SCTP);
        let backends = [backend(LOCAL[family])];
        serve(&mut model, 1, key, ServiceFlags::NONE, &backends);
        let sent = sctp((CLIENT[family], 4000), (VIP[family], 80));
        let (verdict, out, _) = run(&model, Origin::Device, &sent);
        assert_eq!(verdict, PacketVerdict::Translate);
        let right = sctp((CLIENT[family], 4000), (LOCAL[family], 8080));
        let start = if family == 0 { 34 } else { 54 };
        assert_eq!(out[start..], right[start..]);
        let answer = sctp((LOCAL[family], 8080), (CLIENT[family], 4000));
        let (_, back, _) = run(&model, Origin::Pod, &answer);
        let right = sctp((VIP[family], 80), (CLIENT[family], 4000));
        assert_eq!(back[start..], right[start..]);
    }
    let mut model = node();
    let key = at(VIP[0], 80, Protocol::SCTP);
    serve(&mut model, 1, key, ServiceFlags::NONE, &[backend(LOCAL[0])]);
    let mut first = sctp((CLIENT[0], 4000), (VIP[0], 80));
    first[20] = 0x20;
    let (verdict, _, work) = run(&model, Origin::Device, &first);
    assert_eq!(
        (verdict, work.counter),
        (PacketVerdict::Drop, Counter::DroppedSctpPort)
    );
}

#[test]
fn client_without_an_address_to_be_shown_as_is_dropped() {
    let mut model = ports(0, ServiceFlags::NONE, &[backend(REMOTE[0])]);
    model.config.as_mut().unwrap().node_v4 = Address::UNSPECIFIED;
    let (verdict, _, work) = run(
        &model,
        Origin::Device,
        &tcp((CLIENT[0], 4000), (NODE[0], NODE_PORT), SYN, b""),
    );
    assert_eq!(
        (verdict, work.counter),
        (PacketVerdict::Drop, Counter::DroppedNoAddress)
    );
}

#[test]
fn affinity_of_addresses_and_of_namespaces_do_not_collide() {
    let cookie = 0x0a60_0001_u64;
    let ours = ebpf_abi::AffinityKey::of_namespace(cookie, 1);
    assert_eq!(ours.namespace(), Some(cookie));
    assert_eq!(
        ebpf_abi::AffinityKey::of_address(address(CLIENT[1]), 1).namespace(),
        None
    );
    let model = vip(
        0,
        ServiceFlags::AFFINITY,
        &[
            backend(LOCAL[0]),
            backend("10.244.1.3"),
            backend("10.244.1.4"),
        ],
    );
    let mut seen = std::collections::BTreeSet::new();
    for port in 4000..4050 {
        seen.insert(
            read(
                &run(
                    &model,
                    Origin::Device,
                    &tcp((CLIENT[0], port), (VIP[0], 80), SYN, b""),
                )
                .1,
            )
            .to,
        );
    }
    assert_eq!(seen.len(), 1);
}

#[test]
fn all_nodes_choose_the_same_place_of_the_table() {
    let backends: Vec<_> = (1..=5).map(|n| backend(&format!("10.244.2.{n}"))).collect();
    let made = |node_address: &str| {
        let mut model = node();
        model.config.as_mut().unwrap().node_v4 = address(node_address);
        model.config.as_mut().unwrap().seed =
            u32::from_ne_bytes(address(node_address).octets()[12..].try_into().unwrap());
        let key = at(VIP[0], 80, Protocol::TCP);
        let service = Service {
            set: 1,
            generation: 1,
            count: 5,
            flags: ServiceFlags::MAGLEV,
            affinity_seconds: 0,
            table: 101,
        };
        model.put(key, service, &backends);
        for chunk in 0..=3_u32 {
            let mut places = [0; 32];
            for (n, place) in (0_u32..).zip(places.iter_mut()) {
                *place = ((chunk * 32 + n) * 7 % 5) as u16;
            }
            let key = ebpf_abi::MaglevKey {
                set: 1,
                generation: 1,
                chunk,
                reserved: 0,
            };
            model.maglev.insert(
                key,
                ChecksummedValue::new(&key, ebpf_abi::MaglevChunk(places)),
            );
        }
        model
    };
    let (a, b) = (made("192.0.2.1"), made("192.0.2.9"));
    let mut seen = std::collections::BTreeSet::new();
    for port in 4000..4200 {
        let syn = tcp((CLIENT[0], port), (VIP[0], 80), SYN, b"");
        let to = |model| read(&run(model, Origin::Device, &syn).1).to;
        assert_eq!(to(&a), to(&b));
        seen.insert(to(&a));
    }
    assert_eq!(seen.len(), 5);
}

#[test]
fn direct_return_goes_in_an_outer_header_and_comes_back_from_the_backends_node() {
    for family in [0, 1] {
        let direct = ServiceFlags::DIRECT_RETURN;
        let mut first = vip(family, direct, &[backend(REMOTE[family])]);
        first.config.as_mut().unwrap().direct_return = ebpf_abi::DirectReturn::IPIP;
        let syn = tcp((CLIENT[family], 4000), (VIP[family], 80), SYN, b"");
        let (verdict, outer, _) = run(&first, Origin::Device, &syn);
        assert_eq!(verdict, PacketVerdict::Encapsulate);
        let read_outer = read(&outer);
        assert_eq!(
            format!("{} {}", read_outer.from, read_outer.to),
            format!("{} {}", address(NODE[family]), address(REMOTE[family]))
        );
        assert_eq!(read_outer.content, syn[14..], "what is inside is untouched");
        // The backend's node.
        let mut second = node();
        let there = Backend::new(
            address(REMOTE[family]),
            Port::new(8080),
            BackendFlags::LOCAL,
        );
        serve(
            &mut second,
            1,
            at(VIP[family], 80, Protocol::TCP),
            direct,
            &[backend("10.244.8.8"), there],
        );
        for _ in 0..2 {
            let (verdict, inner, _) = run(&second, Origin::Device, &outer);
            assert_eq!(verdict, PacketVerdict::Translate);
            assert_eq!(shown(&read(&inner)), "client:4000 > remote:8080 hops 64");
        }
        let answer = tcp(
            (REMOTE[family], 8080),
            (CLIENT[family], 4000),
            SYN | ACK,
            b"",
        );
        let (verdict, answer, _) = run(&second, Origin::Pod, &answer);
        assert_eq!(
            (verdict, shown(&read(&answer)).as_str()),
            (PacketVerdict::Forward, "vip:80 > client:4000 hops 63")
        );
        // An outer header to nobody's address is not ours.
        let stray = frame(&ip(
            NODE[family],
            LOCAL[family],
            if family == 0 { 4 } else { 41 },
            &syn[14..],
        ));
        let (verdict, after, _) = run(&second, Origin::Device, &stray);
        assert_eq!((verdict, after), (PacketVerdict::Pass, stray));
    }
}

/// Without an outer header the other node chooses anew: only where all choose
/// alike may it be asked so, and each time takes a hop, that nodes which do not
/// agree for a moment end it.
#[test]
fn direct_return_by_the_link_needs_consistent_hashing_and_takes_a_hop() {
    for family in [0, 1] {
        let syn = tcp((CLIENT[family], 4000), (VIP[family], 80), SYN, b"");
        let made = |flags| {
            let mut model = vip(family, flags, &[backend(REMOTE[family])]);
            model.config.as_mut().unwrap().direct_return = ebpf_abi::DirectReturn::LINK;
            model
        };
        let alone = made(ServiceFlags::DIRECT_RETURN);
        assert_eq!(run(&alone, Origin::Device, &syn).0, PacketVerdict::Forward);
        let hashed = made(ServiceFlags::DIRECT_RETURN.with(ServiceFlags::MAGLEV));
        let mut packet = syn;
        for hops in (1..=63).rev() {
            let (verdict, after, _) = run(&hashed, Origin::Device, &packet);
            assert_eq!(verdict, PacketVerdict::Link);
            assert_eq!(
                shown(&read(&after)),
                format!("client:4000 > vip:80 hops {hops}")
            );
            packet = after;
        }
    }
}

/// Its own node may have sent another connection from the same port straight to
/// the same backend: that one keeps the port.
#[test]
fn pod_of_another_node_keeps_its_address_and_gets_another_port() {
    for family in [0, 1] {
        let model = ports(family, ServiceFlags::NONE, &[backend(LOCAL[family])]);
        let [out, back] = both(
            &model,
            Origin::Device,
            family,
            (REMOTE[family], 4000),
            (NODE[family], NODE_PORT),
        );
        assert_eq!(out, "Translate remote:given > local:8080 hops 64");
        assert_eq!(back, "Forward node:30080 > remote:4000 hops 63");
        let other = tcp(
            (LOCAL[family], 8080),
            (REMOTE[family], 4000),
            SYN | ACK,
            b"",
        );
        let (verdict, after, _) = run(&model, Origin::Pod, &other);
        assert_eq!(
            (verdict, after),
            (PacketVerdict::Pass, other),
            "not of this connection"
        );
    }
}
