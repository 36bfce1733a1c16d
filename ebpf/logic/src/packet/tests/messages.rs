//! Tests ICMP errors, refusals and fragments.

use std::format;
use std::vec;

use super::frames::*;
use super::*;

fn exchange(family: usize) -> (Model, Vec<u8>) {
    let mut model = node();
    serve(
        &mut model,
        1,
        node_port(family, Protocol::TCP),
        ServiceFlags::NONE,
        &[backend(REMOTE[family])],
    );
    let syn = tcp((CLIENT[family], 4000), (NODE[family], NODE_PORT), SYN, b"");
    let (_, out, _) = run(&model, Origin::Device, &syn);
    (model, out)
}

/// What an error quotes, read as a packet.
fn quoted(read: &Read) -> (core::net::IpAddr, core::net::IpAddr, u16, u16) {
    let packet = &read.content[8..];
    let (start, four) = if read.from.is_ipv4() {
        (12, true)
    } else {
        (8, false)
    };
    let get = |at: usize| -> core::net::IpAddr {
        if four {
            <[u8; 4]>::try_from(&packet[at..at + 4]).unwrap().into()
        } else {
            <[u8; 16]>::try_from(&packet[at..at + 16]).unwrap().into()
        }
    };
    let (size, end) = if four { (4, 20) } else { (16, 40) };
    let port = |at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    (get(start), get(start + size), port(end), port(end + 2))
}

#[test]
fn errors_from_the_way_to_the_backend_reach_the_client() {
    for (family, router) in [(0, "203.0.113.9"), (1, "2001:db8:99::9")] {
        let (model, out) = exchange(family);
        for from in [router, REMOTE[family]] {
            let (kind, code) = if family == 0 { (3, 4) } else { (2, 0) };
            let error = icmp(from, NODE[family], kind, code, 1400, &out[14..]);
            let (verdict, after, _) = run(&model, Origin::Device, &error);
            assert_eq!(verdict, PacketVerdict::TranslateError);
            let after = read(&after);
            let sender = if from == router { router } else { NODE[family] };
            assert_eq!(
                format!("{} {}", after.from, after.to),
                format!("{} {}", address(sender), address(CLIENT[family]))
            );
            assert_eq!(after.content[4..8], 1400_u32.to_be_bytes());
            let (a, b, c, d) = quoted(&after);
            assert_eq!(
                format!("{a} {c} {b} {d}"),
                format!(
                    "{} 4000 {} {NODE_PORT}",
                    address(CLIENT[family]),
                    address(NODE[family])
                )
            );
        }
    }
}

#[test]
fn errors_from_the_way_to_the_client_reach_the_backend() {
    for (family, router) in [(0, "203.0.113.9"), (1, "2001:db8:99::9")] {
        let (model, out) = exchange(family);
        let given = read(&out).ports.0;
        // The client's side complains about the service's answer.
        let answer = tcp(
            (NODE[family], NODE_PORT),
            (CLIENT[family], 4000),
            ACK,
            b"much",
        );
        let (kind, code) = if family == 0 { (3, 4) } else { (2, 0) };
        let error = icmp(router, NODE[family], kind, code, 1300, &answer[14..]);
        let (verdict, after, _) = run(&model, Origin::Device, &error);
        assert_eq!(verdict, PacketVerdict::TranslateError);
        let after = read(&after);
        assert_eq!(
            format!("{} {}", after.from, after.to),
            format!("{} {}", address(NODE[family]), address(REMOTE[family]))
        );
        let (a, b, c, d) = quoted(&after);
        assert_eq!(
            format!("{a} {c} {b} {d}"),
            format!(
                "{} 8080 {} {given}",
                address(REMOTE[family]),
                address(NODE[family])
            )
        );
    }
}

#[test]
fn echo_and_errors_about_others_pass() {
    let (model, _) = exchange(0);
    let other = tcp((NODE[0], 5000), (REMOTE[0], 443), ACK, b"");
    for packet in [
        icmp(CLIENT[0], NODE[0], 8, 0, 7, b"ping"),
        icmp("203.0.113.9", NODE[0], 3, 1, 0, &other[14..]),
        icmp("203.0.113.9", NODE[0], 3, 1, 0, &other[14..30]),
    ] {
        let (verdict, after, _) = run(&model, Origin::Device, &packet);
        assert_eq!((verdict, after), (PacketVerdict::Pass, packet));
    }
}

#[test]
fn datagram_to_nobody_is_answered_with_port_unreachable() {
    for family in [0, 1] {
        let mut model = node();
        serve(
            &mut model,
            1,
            at(VIP[family], 53, Protocol::UDP),
            ServiceFlags::NONE,
            &[],
        );
        for length in [0, 1, 5, 100, 1400] {
            let sent = udp((CLIENT[family], 4000), (VIP[family], 53), &vec![7; length]);
            let (verdict, answer, _) = run(&model, Origin::Device, &sent);
            assert_eq!(verdict, PacketVerdict::Refuse);
            assert_eq!(answer[..6], sent[6..12], "back to who sent it");
            let answer = read(&answer);
            assert_eq!(
                format!("{} {}", answer.from, answer.to),
                format!("{} {}", address(VIP[family]), address(CLIENT[family]))
            );
            assert_eq!(
                answer.content[..2],
                if family == 0 { [3, 3] } else { [1, 4] }
            );
            let quoted = &answer.content[8..];
            assert_eq!(quoted, &sent[14..14 + quoted.len()]);
            assert!(quoted.len() >= if family == 0 { 28 } else { 48 });
        }
    }
}

#[test]
fn reset_answers_with_the_numbers_that_the_client_expects() {
    let mut model = node();
    serve(
        &mut model,
        1,
        at(VIP[0], 80, Protocol::TCP),
        ServiceFlags::NONE,
        &[],
    );
    for (flags, content, sequence, acknowledged, answer) in [
        (SYN, &b""[..], 0, 1001, RST | ACK),
        (SYN, b"early", 0, 1006, RST | ACK),
        (ACK, b"data", 2000, 0, RST),
        (FIN | ACK, b"", 2000, 0, RST),
        (FIN, b"", 0, 1001, RST | ACK),
    ] {
        let (_, out, _) = run(
            &model,
            Origin::Device,
            &tcp((CLIENT[0], 4000), (VIP[0], 80), flags, content),
        );
        let out = read(&out).content;
        let word = |at: usize| u32::from_be_bytes(out[at..at + 4].try_into().unwrap());
        assert_eq!(
            (word(4), word(8), out[13]),
            (sequence, acknowledged, answer)
        );
        assert_eq!(out.len(), 20);
    }
    let rst = tcp((CLIENT[0], 4000), (VIP[0], 80), RST, b"");
    let (verdict, after, _) = run(&model, Origin::Device, &rst);
    assert_ne!(
        (verdict, after.len()),
        (PacketVerdict::Refuse, 0),
        "a reset is never answered"
    );
}

#[test]
fn reset_of_a_packet_that_its_device_was_to_sum_holds_the_pseudo_header_only() {
    let mut model = node();
    serve(
        &mut model,
        1,
        at(VIP[0], 80, Protocol::TCP),
        ServiceFlags::NONE,
        &[],
    );
    let mut syn = tcp((LOCAL[0], 4000), (VIP[0], 80), SYN, b"");
    let partial = |bytes: &[u8], length: u16| {
        let mut total = 6 + u32::from(length);
        for pair in bytes[26..34].chunks(2) {
            total += u32::from(u16::from_be_bytes([pair[0], pair[1]]));
        }
        let folded = (total & 0xffff) + (total >> 16);
        ((folded & 0xffff) + (folded >> 16)) as u16
    };
    let sum = partial(&syn, 20).to_be_bytes();
    syn[50..52].copy_from_slice(&sum);
    let (_, out, _) = run(&model, Origin::Pod, &syn);
    assert_eq!(out[50..52], partial(&out, 20).to_be_bytes());
}

#[test]
fn later_fragments_follow_the_first() {
    let mut model = node();
    serve(
        &mut model,
        1,
        at(VIP[0], 53, Protocol::UDP),
        ServiceFlags::NONE,
        &[backend(REMOTE[0])],
    );
    let whole = udp((CLIENT[0], 4000), (VIP[0], 53), &[9; 1600]);
    let cut = |from: usize, to: usize, more: bool| {
        let mut packet = ip(CLIENT[0], VIP[0], 17, &whole[34 + from..34 + to]);
        let field = u16::try_from(from / 8).unwrap() | if more { 0x2000 } else { 0 };
        packet[6..8].copy_from_slice(&field.to_be_bytes());
        // A header's sum of its own.
        packet[10..12].copy_from_slice(&[0, 0]);
        let mut total = 0_u32;
        for pair in packet[..20].chunks(2) {
            total += u32::from(u16::from_be_bytes([pair[0], pair[1]]));
        }
        let total = (total & 0xffff) + (total >> 16);
        packet[10..12].copy_from_slice(&(!(total as u16)).to_be_bytes());
        frame(&packet)
    };
    let (first, later) = (cut(0, 800, true), cut(800, 1608, false));
    // Out of order: nothing is guessed.
    assert_eq!(run(&model, Origin::Device, &later).0, PacketVerdict::Pass);
    let (verdict, a, _) = run(&model, Origin::Device, &first);
    assert_eq!(verdict, PacketVerdict::Forward);
    let (verdict, b, _) = run(&model, Origin::Device, &later);
    assert_eq!(verdict, PacketVerdict::Forward);
    assert_eq!(a[26..34], b[26..34], "the same addresses");
    assert_eq!(b[34..], later[34..], "no ports are written into content");
    // Put together, the datagram's checksum is right.
    let mut content = a[34..].to_vec();
    content.extend(&b[34..]);
    let joined = frame(&ip(NODE[0], REMOTE[0], 17, &content));
    assert_eq!(
        read(&joined).to,
        REMOTE[0].parse::<core::net::IpAddr>().unwrap()
    );
}

#[test]
fn datagram_without_a_checksum_stays_without() {
    let mut model = node();
    serve(
        &mut model,
        1,
        at(VIP[0], 53, Protocol::UDP),
        ServiceFlags::NONE,
        &[backend(REMOTE[0])],
    );
    let mut sent = udp((CLIENT[0], 4000), (VIP[0], 53), b"x");
    sent[40..42].copy_from_slice(&[0, 0]);
    let (_, out, _) = run(&model, Origin::Device, &sent);
    assert_eq!(out[40..42], [0, 0]);
    assert_eq!(read(&out).ports.1, 8080);
}

#[test]
fn packet_that_is_too_long_is_answered_with_the_mtu() {
    for family in [0, 1] {
        let (model, _) = exchange(family);
        let sent = tcp(
            (CLIENT[family], 4000),
            (NODE[family], NODE_PORT),
            ACK,
            &[1; 1400],
        );
        let (_, _, work) = run(&model, Origin::Device, &sent);
        let bytes = RefCell::new(sent.clone());
        assert!(answer(Frame(&bytes), &work, 1280));
        let out = read(&bytes.borrow());
        assert_eq!(out.content[..2], if family == 0 { [3, 4] } else { [2, 0] });
        assert_eq!(out.content[4..8], 1280_u32.to_be_bytes());
        assert_eq!(out.content[8..], sent[14..14 + out.content.len() - 8]);
        assert_eq!(
            format!("{}", out.to),
            format!("{}", address(CLIENT[family]))
        );
    }
}
