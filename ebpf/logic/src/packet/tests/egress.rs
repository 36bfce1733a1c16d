//! Tests pods' packets that leave the cluster.

use std::format;
use std::vec::Vec;

use super::frames::*;
use super::*;
use crate::maps::FlowBeginner;

/// A node whose pods reach outside as the node, but for one range.
fn leaving() -> Model {
    let mut model = node();
    for (range, bits) in [("198.51.100.0", 24), ("2001:db8:c::", 48)] {
        let range = address(range);
        let range = (Range::prefix(range, bits), Range::new(0, range));
        model.leaving.insert(range);
    }
    model
}

#[test]
fn a_pod_leaves_as_the_node_and_its_answers_come_back_to_it() {
    for family in [0, 1] {
        let model = leaving();
        let (pod, outside) = ((LOCAL[family], 4000), (CLIENT[family], 443));
        for protocol in [Protocol::TCP, Protocol::UDP] {
            let frame = |from, to, flags| match protocol {
                Protocol::TCP => tcp(from, to, flags, b""),
                _ => udp(from, to, b"x"),
            };
            let (verdict, out, work) = run(&model, Origin::Pod, &frame(pod, outside, SYN));
            assert_eq!(verdict, PacketVerdict::Forward);
            assert_eq!(work.counter, Counter::PacketTranslated);
            let first = read(&out);
            assert_eq!(format!("{}", first.from), NODE[family]);
            assert!((61_000..).contains(&first.ports.0), "{}", first.ports.0);
            assert_eq!(
                (format!("{}", first.to), first.ports.1),
                (outside.0.into(), 443)
            );
            // The next one takes the same port: the flow is known.
            let (_, again, _) = run(&model, Origin::Pod, &frame(pod, outside, ACK));
            assert_eq!(read(&again).ports, first.ports);
            let back = frame(outside, (NODE[family], first.ports.0), SYN | ACK);
            let (verdict, back, _) = run(&model, Origin::Device, &back);
            assert_eq!(verdict, PacketVerdict::Translate, "the kernel sends it on");
            let back = read(&back);
            assert_eq!(
                (format!("{}", back.to), back.ports),
                (pod.0.into(), (443, 4000))
            );
            assert_eq!(format!("{}", back.from), outside.0);
        }
        let counted = model.counted(Counter::Masqueraded);
        assert_eq!(counted, 2, "a flow each");
    }
}

#[test]
fn who_stays_itself() {
    for family in [0, 1] {
        let model = leaving();
        let (pod, other) = (LOCAL[family], REMOTE[family]);
        let outside = CLIENT[family];
        let foreign = ["172.17.0.2", "fd17::2"][family];
        for (origin, from, to) in [
            // In the cluster, or where the way to pods is known.
            (Origin::Pod, pod, other),
            (Origin::Pod, pod, ["203.0.113.9", "2001:db8:d::9"][family]),
            (Origin::Pod, pod, NODE[family]),
            // Not a pod of this cluster, not from a pod's device.
            (Origin::Pod, foreign, outside),
            (Origin::Device, other, outside),
            (Origin::Host, NODE[family], outside),
        ] {
            let frame = tcp((from, 4000), (to, 443), SYN, b"");
            let (verdict, _, _) = run(&model, origin, &frame);
            assert_eq!(verdict, PacketVerdict::Pass, "{from} to {to}");
        }
        assert!(model.flows.borrow().is_empty());
    }
}

#[test]
fn who_addressed_a_pod_itself_is_answered_by_the_pod() {
    for family in [0, 1] {
        let mut model = leaving();
        let (pod, outside) = ((LOCAL[family], 80), (CLIENT[family], 4000));
        let answer = tcp(pod, outside, SYN | ACK, b"");
        assert_eq!(
            run(&model, Origin::Pod, &answer).0,
            PacketVerdict::Pass,
            "a stream says so itself"
        );
        for (frame, protocol) in [
            (tcp(pod, outside, ACK, b"x"), Protocol::TCP),
            (udp(pod, outside, b"x"), Protocol::UDP),
        ] {
            let tuple = tuple(pod, outside, protocol);
            model.beginners.insert(tuple, FlowBeginner::Peer);
            let (verdict, out, _) = run(&model, Origin::Pod, &frame);
            assert_eq!((verdict, &out), (PacketVerdict::Pass, &frame));
            // The flow that another machine began is over: the pod begins another.
            model.beginners.remove(&tuple);
            let begins = match protocol {
                Protocol::TCP => tcp(pod, outside, SYN, b""),
                _ => frame,
            };
            assert_eq!(run(&model, Origin::Pod, &begins).0, PacketVerdict::Forward);
        }
    }
}

#[test]
fn a_stream_of_the_pod_whose_entry_is_gone_takes_another_port() {
    let mut model = leaving();
    let frame = tcp((LOCAL[0], 4000), (CLIENT[0], 443), ACK, b"x");
    let (verdict, ..) = run(&model, Origin::Pod, &frame);
    assert_eq!(verdict, PacketVerdict::Pass, "nobody knows who began it");
    let tuple = tuple((LOCAL[0], 4000), (CLIENT[0], 443), Protocol::TCP);
    model.beginners.insert(tuple, FlowBeginner::Pod);
    let (verdict, ..) = run(&model, Origin::Pod, &frame);
    assert_eq!(verdict, PacketVerdict::Forward);
}

#[test]
fn a_backend_outside_sees_the_node_and_one_inside_the_pod() {
    for family in [0, 1] {
        for (at_backend, seen) in [(CLIENT, NODE), (REMOTE, LOCAL)] {
            let mut model = leaving();
            let key = at(VIP[family], 80, Protocol::TCP);
            let backends = [backend(at_backend[family])];
            serve(&mut model, 1, key, ServiceFlags::CLUSTER_IP, &backends);
            let frame = tcp((LOCAL[family], 4000), (VIP[family], 80), SYN, b"");
            let (_, out, _) = run(&model, Origin::Pod, &frame);
            let out = read(&out);
            assert_eq!(format!("{}", out.from), seen[family]);
            let answer = tcp(
                (at_backend[family], 8080),
                (seen[family], out.ports.0),
                SYN | ACK,
                b"",
            );
            let (_, back, _) = run(&model, Origin::Device, &answer);
            let back = read(&back);
            assert_eq!(format!("{}", back.from), VIP[family]);
            assert_eq!(
                (format!("{}", back.to), back.ports.1),
                (LOCAL[family].into(), 4000)
            );
        }
    }
}

#[test]
fn without_an_address_or_a_port_it_is_dropped_and_counted() {
    let mut model = leaving();
    let frame = |port| tcp((LOCAL[0], port), (CLIENT[0], 443), SYN, b"");
    if let Some(config) = &mut model.config {
        config.node_v4 = Address::UNSPECIFIED;
    }
    let (verdict, _, work) = run(&model, Origin::Pod, &frame(4000));
    assert_eq!(
        (verdict, work.counter),
        (PacketVerdict::Drop, Counter::DroppedNoAddress)
    );
    let mut model = leaving();
    if let Some(config) = &mut model.config {
        (config.first_port, config.last_port) = (61_000, 61_001);
    }
    let verdicts: Vec<_> = (4000..4003)
        .map(|port| {
            let (verdict, _, work) = run(&model, Origin::Pod, &frame(port));
            (verdict, work.counter)
        })
        .collect();
    assert_eq!(verdicts[0].0, PacketVerdict::Forward);
    assert_eq!(verdicts[1].0, PacketVerdict::Forward);
    assert_eq!(verdicts[2], (PacketVerdict::Drop, Counter::DroppedNoPort));
}

/// The identifier of an echo that was read.
fn identifier(of: &Read) -> u16 {
    u16::from_be_bytes([of.content[4], of.content[5]])
}

#[test]
fn an_echo_leaves_with_another_identifier_and_its_answer_comes_back() {
    for family in [0, 1] {
        let model = leaving();
        let (pod, outside) = (LOCAL[family], CLIENT[family]);
        let mut given = Vec::new();
        // Two pods with one identifier do not share one outside.
        for (pod, number) in [(pod, 7), (["10.244.1.3", "fd00:244:1::3"][family], 7)] {
            let ask = echo(pod, outside, false, number, b"odd");
            let (verdict, out, _) = run(&model, Origin::Pod, &ask);
            assert_eq!(verdict, PacketVerdict::Forward);
            let out = read(&out);
            assert_eq!((out.from, out.to), (ip_of(NODE[family]), ip_of(outside)));
            assert_eq!(out.content[8..], b"odd"[..]);
            given.push(identifier(&out));
            let answer = echo(outside, NODE[family], true, identifier(&out), b"odd");
            let (verdict, back, _) = run(&model, Origin::Device, &answer);
            assert_eq!(verdict, PacketVerdict::Translate);
            let back = read(&back);
            assert_eq!((back.from, back.to), (ip_of(outside), ip_of(pod)));
            assert_eq!(identifier(&back), number);
            // The next one is of the same flow.
            let (_, again, _) = run(&model, Origin::Pod, &ask);
            assert_eq!(identifier(&read(&again)), identifier(&out));
        }
        assert_ne!(given[0], given[1]);
        assert!(given.iter().all(|it| (61_000..).contains(it)), "{given:?}");
        assert_eq!(model.counted(Counter::Masqueraded), 2);
    }
}

fn ip_of(text: &str) -> core::net::IpAddr {
    text.parse().unwrap()
}

#[test]
fn echoes_that_do_not_leave_and_answers_to_nothing_pass() {
    for family in [0, 1] {
        let model = leaving();
        let (pod, outside) = (LOCAL[family], CLIENT[family]);
        for (origin, frame) in [
            (Origin::Pod, echo(pod, REMOTE[family], false, 7, b"")),
            (Origin::Pod, echo(pod, outside, true, 7, b"")),
            (Origin::Device, echo(outside, NODE[family], false, 0, b"")),
            (
                Origin::Device,
                echo(outside, NODE[family], true, 61_001, b""),
            ),
            (Origin::Host, echo(NODE[family], outside, false, 7, b"")),
        ] {
            let (verdict, out, _) = run(&model, origin, &frame);
            assert_eq!((verdict, out), (PacketVerdict::Pass, frame));
        }
        assert!(model.flows.borrow().is_empty());
    }
}

#[test]
fn errors_about_echoes_come_back_to_the_pod_that_asked() {
    for (family, router) in [(0, "203.0.113.9"), (1, "2001:db8:99::9")] {
        let model = leaving();
        let (pod, outside) = (LOCAL[family], CLIENT[family]);
        // Many contents, so that checksums of all kinds meet.
        for number in 0..200_u16 {
            let content = number.to_be_bytes().repeat(3);
            let ask = echo(pod, outside, false, number, &content);
            let (_, out, _) = run(&model, Origin::Pod, &ask);
            let (kind, code) = if family == 0 { (11, 0) } else { (3, 0) };
            let error = icmp(router, NODE[family], kind, code, 0, &out[14..]);
            let (verdict, back, _) = run(&model, Origin::Device, &error);
            assert_eq!(verdict, PacketVerdict::TranslateError);
            let back = read(&back);
            assert_eq!((back.from, back.to), (ip_of(router), ip_of(pod)));
            // What it quotes is what the pod sent, but for a hop.
            let mut quoted = frame(&back.content[8..]);
            let hops = if family == 0 { 22 } else { 21 };
            quoted[hops] += 1;
            if family == 0 {
                quoted[24..26].copy_from_slice(&ask[24..26]);
            }
            assert_eq!(quoted, ask);
        }
    }
}

#[test]
fn a_long_echo_leaves_with_all_of_its_fragments() {
    let model = leaving();
    let (pod, outside) = (LOCAL[0], CLIENT[0]);
    let whole = echo(pod, outside, false, 7, &[5; 32]);
    let cut = |content: &[u8], at: u16, more: bool| {
        let mut packet = ip(pod, outside, 1, content);
        let word = (at / 8) | (u16::from(more) << 13);
        packet[6..8].copy_from_slice(&word.to_be_bytes());
        packet[10..12].copy_from_slice(&[0, 0]);
        let check = header_sum(&packet[..20]).to_be_bytes();
        packet[10..12].copy_from_slice(&check);
        frame(&packet)
    };
    let (first, later) = (cut(&whole[34..58], 0, true), cut(&whole[58..], 24, false));
    let (verdict, out, _) = run(&model, Origin::Pod, &first);
    assert_eq!(verdict, PacketVerdict::Forward);
    let (verdict, rest, _) = run(&model, Origin::Pod, &later);
    assert_eq!(verdict, PacketVerdict::Forward);
    // Put together, its checksum is right.
    let content = [&out[34..], &rest[34..]].concat();
    let put_together = read(&frame(&ip(NODE[0], outside, 1, &content)));
    assert!((61_000..).contains(&identifier(&put_together)));
    assert_eq!(rest[26..30], [192, 0, 2, 1]);
    // Whose first was not seen stays as it is.
    let model = leaving();
    let (verdict, _, _) = run(&model, Origin::Pod, &later);
    assert_eq!(verdict, PacketVerdict::Pass);
}
