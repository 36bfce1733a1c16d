//! Tests packets that are truncated, inconsistent or random.

use std::vec::Vec;

use proptest::prelude::*;

use super::frames::*;
use super::*;

fn model() -> Model {
    let mut model = node();
    for (set, (family, protocol)) in (1..).zip([
        (0, Protocol::TCP),
        (1, Protocol::TCP),
        (0, Protocol::UDP),
        (1, Protocol::UDP),
    ]) {
        serve(
            &mut model,
            set,
            at(VIP[family], 80, protocol),
            ServiceFlags::NONE,
            &[backend(REMOTE[family])],
        );
    }
    model
}

fn frames() -> impl Strategy<Value = Vec<u8>> {
    (
        0..2_usize,
        0..5_usize,
        prop::collection::vec(any::<u8>(), 0..80),
    )
        .prop_map(|(family, kind, content)| {
            let (from, to) = ((CLIENT[family], 4000), (VIP[family], 80));
            match kind {
                0 => tcp(from, to, SYN, &content),
                1 => udp(from, to, &content),
                2 => icmp(
                    CLIENT[family],
                    VIP[family],
                    if family == 0 { 3 } else { 1 },
                    3,
                    0,
                    &tcp(to, from, ACK, &content)[14..],
                ),
                3 => frame(&ip(
                    CLIENT[family],
                    VIP[family],
                    if family == 0 { 4 } else { 41 },
                    &tcp(from, to, SYN, &content)[14..],
                )),
                _ => frame(&ip(CLIENT[family], VIP[family], 44, &content)),
            }
        })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Whatever comes: what is passed on is untouched, and nothing is written
    /// beyond headers.
    #[test]
    fn noise_is_never_translated_wrongly(
        bytes in prop::collection::vec(any::<u8>(), 0..200),
        origin in 0..4_u8,
    ) {
        let origin = [Origin::Device, Origin::Pod, Origin::Host, Origin::Leaving][usize::from(origin)];
        let model = model();
        let (verdict, after, _) = run(&model, origin, &bytes);
        if verdict == PacketVerdict::Pass {
            prop_assert_eq!(after, bytes);
        }
    }

    /// Packets of services with bytes changed and ends cut off: the length
    /// stays, and what a translated packet carries is what it carried.
    #[test]
    fn damaged_packets_are_never_translated_wrongly(
        frame in frames(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
        cuts in any::<bool>(),
    ) {
        let mut bytes = frame;
        for (at, value) in damage {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if cuts {
            bytes.truncate(cut.index(bytes.len()));
        }
        let model = model();
        let (verdict, after, work) = run(&model, Origin::Device, &bytes);
        match verdict {
            PacketVerdict::Pass => prop_assert_eq!(after, bytes),
            PacketVerdict::Translate | PacketVerdict::Forward => {
                prop_assert_eq!(after.len(), bytes.len());
                let start = work.headers.transport as usize;
                let header = if work.headers.fragment == Fragment::LATER { 0 } else { 20.min(after.len() - start) };
                prop_assert_eq!(&after[start + header..], &bytes[start + header..]);
                prop_assert_eq!(&after[..14], &bytes[..14]);
            }
            _ => {}
        }
    }

    /// What lies in a row is read at once, and means the same as read piece by
    /// piece. Few bytes of headers are changed, so that many packets stay whole.
    #[test]
    fn headers_read_at_once_are_those_read_piece_by_piece(
        frame in frames(),
        damage in prop::collection::vec((0..54_usize, any::<u8>()), 0..3),
        more in prop::collection::vec(any::<u8>(), 0..8),
    ) {
        let mut bytes = frame;
        bytes.extend(more);
        for (at, value) in damage {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = value;
            }
        }
        let bytes = RefCell::new(bytes);
        let (mut at_once, mut piecewise) = (Work::new(), Work::new());
        let kind = parse_front(Frame(&bytes), &mut at_once);
        if kind != Kind::Other {
            prop_assert_eq!(kind, parse(Frame(&bytes), &mut piecewise));
            prop_assert_eq!(at_once.headers, piecewise.headers);
            prop_assert_eq!(at_once.tunnel, piecewise.tunnel);
        }
    }
}

#[test]
fn most_packets_are_read_at_once() {
    for frame in [
        tcp((CLIENT[0], 4000), (VIP[0], 80), SYN, b""),
        udp((CLIENT[0], 4000), (VIP[0], 80), &[0; 12]),
    ] {
        let bytes = RefCell::new(frame);
        let mut work = Work::new();
        assert_eq!(parse_front(Frame(&bytes), &mut work), Kind::Transport);
        assert_eq!(work.headers.tuple.destination, address(VIP[0]));
    }
}

#[test]
fn options_and_extension_headers_are_stepped_over() {
    let model = model();
    // IPv4 with eight bytes of options.
    let mut packet = ip(
        CLIENT[0],
        VIP[0],
        6,
        &tcp((CLIENT[0], 4000), (VIP[0], 80), SYN, b"")[34..],
    );
    packet.splice(20..20, [1; 8]);
    packet[0] = 0x47;
    let length = u16::try_from(packet.len()).unwrap();
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    let (verdict, out, work) = run(&model, Origin::Device, &frame(&packet));
    assert_eq!(
        (verdict, work.headers.transport),
        (PacketVerdict::Forward, 14 + 28)
    );
    assert_eq!(out[34..42], [1; 8]);
    assert_eq!(out[44..46], 8080_u16.to_be_bytes());
    // IPv6 with hop-by-hop and destination options.
    let segment = tcp((CLIENT[1], 4000), (VIP[1], 80), SYN, b"")[54..].to_vec();
    let mut content = Vec::from([60, 0, 1, 4, 0, 0, 0, 0, 6, 0, 1, 4, 0, 0, 0, 0]);
    content.extend(segment);
    let (verdict, out, _) = run(
        &model,
        Origin::Device,
        &frame(&ip(CLIENT[1], VIP[1], 0, &content)),
    );
    assert_eq!(verdict, PacketVerdict::Forward);
    assert_eq!(out[72..74], 8080_u16.to_be_bytes());
    // A routing header names another destination; more headers than are walked
    // through hide the ports.
    let mut routing = Vec::from([6, 0, 0, 0, 0, 0, 0, 0]);
    routing.extend(&content[16..]);
    let mut many = Vec::new();
    for _ in 0..7 {
        many.extend([60, 0, 1, 4, 0, 0, 0, 0]);
    }
    for (next, content) in [(43, routing), (60, many)] {
        let sent = frame(&ip(CLIENT[1], VIP[1], next, &content));
        let (verdict, after, _) = run(&model, Origin::Device, &sent);
        assert_eq!((verdict, after), (PacketVerdict::Pass, sent));
    }
}

#[test]
fn tags_of_virtual_networks_pass() {
    let model = model();
    let mut sent = tcp((CLIENT[0], 4000), (VIP[0], 80), SYN, b"");
    sent.splice(12..12, [0x81, 0, 0, 5]);
    let (verdict, after, _) = run(&model, Origin::Device, &sent);
    assert_eq!((verdict, after), (PacketVerdict::Pass, sent));
}
