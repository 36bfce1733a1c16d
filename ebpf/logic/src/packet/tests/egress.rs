//! Pods that leave the cluster.

use std::format;

use super::frames::*;
use super::*;

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
            assert_eq!(verdict, Verdict::Forward);
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
            assert_eq!(verdict, Verdict::Translate, "the kernel sends it on");
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
            assert_eq!(verdict, Verdict::Pass, "{from} to {to}");
        }
        assert!(model.flows.borrow().is_empty());
    }
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
        (Verdict::Drop, Counter::DroppedNoAddress)
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
    assert_eq!(verdicts[0].0, Verdict::Forward);
    assert_eq!(verdicts[1].0, Verdict::Forward);
    assert_eq!(verdicts[2], (Verdict::Drop, Counter::DroppedNoPort));
}
