use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::bgp::routes::{Communities, Routes, diff};

fn opening() -> LocalOpen {
    LocalOpen {
        asn: 4_200_000_000,
        hold_time: 90,
        router_id: [192, 0, 2, 1].into(),
        restart_time: 120,
        restarted: true,
    }
}

fn body(message: &[u8]) -> &[u8] {
    &message[HEADER..]
}

#[test]
fn an_opening_says_all_we_can() {
    let message = open(&opening()).unwrap();
    let head: [u8; HEADER] = message[..HEADER].try_into().unwrap();
    assert_eq!(header(&head), Ok((Kind::Open, message.len() - HEADER)));
    let read = read_open(body(&message)).unwrap();
    assert_eq!(
        read,
        PeerOpening {
            asn: 4_200_000_000,
            hold_time: 90,
            router_id: [192, 0, 2, 1].into(),
            four_octets: true,
            ipv4: true,
            ipv6: true,
            keeps_routes: true,
        }
    );
    // Graceful restart by the byte (RFC 4724, 3): restarting, 120 s; both families
    // with forwarding kept.
    let capability = [64, 10, 0x80, 120, 0, 1, 1, 0x80, 0, 2, 1, 0x80];
    assert!(
        message
            .windows(capability.len())
            .any(|bytes| bytes == capability)
    );
    assert_eq!(body(&message)[1..3], [0x5b, 0xa0], "AS_TRANS");
    let without = open(&LocalOpen {
        restart_time: 0,
        ..opening()
    })
    .unwrap();
    assert!(!read_open(body(&without)).unwrap().keeps_routes);
}

#[test]
fn openings_that_are_wrong_are_refused_with_the_reason() {
    let good = open(&opening()).unwrap();
    let with = |at: usize, value: u8| {
        let mut bytes = body(&good).to_vec();
        bytes[at] = value;
        read_open(&bytes)
    };
    assert_eq!(with(0, 3), Err(Fault::new(2, 1)));
    assert_eq!(with(4, 2), Err(Fault::new(2, 6)));
    assert_eq!(
        with(10, 1),
        Err(Fault::new(2, 4)),
        "another parameter than capabilities"
    );
    assert_eq!(
        with(9, 200),
        Err(Fault::new(2, 0)),
        "longer than the message"
    );
    assert_eq!(
        with(13, 200),
        Err(Fault::new(2, 0)),
        "a capability longer than its parameter"
    );
    let plain = [4, 0xfd, 0xe8, 0, 90, 1, 2, 3, 4, 0];
    let old = read_open(&plain).unwrap();
    assert!(old.ipv4 && !old.ipv6 && !old.four_octets && old.asn == 65000);
}

#[test]
fn headers_that_are_wrong_are_refused() {
    let good: [u8; HEADER] = keepalive().try_into().unwrap();
    assert_eq!(header(&good), Ok((Kind::Keepalive, 0)));
    let with = |at: usize, value: u8| {
        let mut bytes = good;
        bytes[at] = value;
        header(&bytes)
    };
    assert_eq!(with(3, 0), Err(Fault::new(1, 1)));
    assert_eq!(with(17, 20), Err(Fault::new(1, 2)));
    assert_eq!(with(16, 0xff), Err(Fault::new(1, 2)));
    assert_eq!(with(18, 9), Err(Fault::new(1, 3)));
    assert_eq!(
        with(18, 1),
        Err(Fault::new(1, 2)),
        "too short for an opening"
    );
}

fn writing(internal: bool) -> UpdateEncoding {
    UpdateEncoding {
        asn: 4_200_000_000,
        internal,
        four_octets: true,
        next_hop_v4: Some([192, 0, 2, 1].into()),
        next_hop_v6: Some("2001:db8::1".parse().unwrap()),
    }
}

fn routes(nets: &[&str], communities: &[&str], local_pref: Option<u32>) -> Routes {
    let attributes = Attributes {
        communities: Communities::parse(communities),
        local_pref,
    };
    nets.iter()
        .map(|net| (net.parse().unwrap(), attributes.clone()))
        .collect()
}

/// The attributes of an update, by type: flags and value.
fn attributes(update: &[u8]) -> Vec<(u8, u8, Vec<u8>)> {
    let body = body(update);
    let skip = 2 + usize::from(u16::from_be_bytes([body[0], body[1]]));
    let length = usize::from(u16::from_be_bytes([body[skip], body[skip + 1]]));
    let mut rest = &body[skip + 2..skip + 2 + length];
    let mut all = Vec::new();
    while !rest.is_empty() {
        let (size, from) = if rest[0] & 0x10 == 0 {
            (usize::from(rest[2]), 3)
        } else {
            (usize::from(u16::from_be_bytes([rest[2], rest[3]])), 4)
        };
        all.push((rest[1], rest[0] & !0x10, rest[from..from + size].to_vec()));
        rest = &rest[from + size..];
    }
    all
}

#[test]
fn routes_are_written_as_the_rfcs_have_them() {
    let told = routes(&["10.0.0.1/32"], &["65000:7", "1:2:3"], Some(50));
    let changes = diff(&Routes::new(), &told);
    let external = updates(&changes, &writing(false)).unwrap();
    assert_eq!(external.len(), 1);
    assert_eq!(external[0][external[0].len() - 5..], [32, 10, 0, 0, 1]);
    assert_eq!(
        attributes(&external[0]),
        [
            (1, 0x40, vec![0]),
            (2, 0x40, vec![2, 1, 0xfa, 0x56, 0xea, 0x00]),
            (3, 0x40, vec![192, 0, 2, 1]),
            (8, 0xc0, vec![0xfd, 0xe8, 0, 7]),
            (32, 0xc0, vec![0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3]),
        ],
        "no local preference to another autonomous system"
    );
    let old = UpdateEncoding {
        asn: 65001,
        four_octets: false,
        ..writing(false)
    };
    let two = attributes(&updates(&changes, &old).unwrap()[0])[1].clone();
    assert_eq!(two, (2, 0x40, vec![2, 1, 0xfd, 0xe9]));
    let internal = updates(&changes, &writing(true)).unwrap();
    let all = attributes(&internal[0]);
    assert_eq!(all[1], (2, 0x40, vec![]), "an empty path");
    assert!(all.contains(&(5, 0x40, vec![0, 0, 0, 50])));
}

#[test]
fn ipv6_goes_by_the_multiprotocol_attributes() {
    let told = routes(&["fd00::1/128"], &[], None);
    let update = &updates(&diff(&Routes::new(), &told), &writing(false)).unwrap()[0];
    let reach = attributes(update)
        .into_iter()
        .find(|it| it.0 == 14)
        .unwrap();
    let mut expected = vec![0, 2, 1, 16];
    expected.extend("2001:db8::1".parse::<Ipv6Addr>().unwrap().octets());
    expected.extend([0, 128]);
    expected.extend("fd00::1".parse::<Ipv6Addr>().unwrap().octets());
    assert_eq!(reach, (14, 0x80, expected));
    let gone = &updates(&diff(&told, &Routes::new()), &writing(false)).unwrap()[0];
    assert_eq!(attributes(gone)[0].0, 15);
    let no_v6 = UpdateEncoding {
        next_hop_v6: None,
        ..writing(false)
    };
    assert!(
        updates(&diff(&Routes::new(), &told), &no_v6)
            .unwrap()
            .is_empty()
    );
}

#[test]
fn the_end_of_all_routes_is_told_for_both_families() {
    let all = ends(&writing(false)).unwrap();
    assert_eq!(body(&all[0]), [0, 0, 0, 0]);
    assert_eq!(body(&all[1])[..4], [0, 0, 0, 7]);
    assert_eq!(attributes(&all[1]), [(15, 0x80, vec![0, 2, 1])]);
}

#[test]
fn many_routes_with_all_communities_fit() {
    let nets: BTreeSet<IpNet> = (0..5000_u32)
        .flat_map(|n| {
            let v4 = IpNet::new(Ipv4Addr::from(0x0a00_0000 + n).into(), 32).unwrap();
            let v6 = IpNet::new(
                Ipv6Addr::from((0xfd00_u128 << 112) + u128::from(n)).into(),
                128,
            )
            .unwrap();
            [v4, v6]
        })
        .collect();
    let texts: Vec<String> = (0..30)
        .flat_map(|n| [format!("65000:{n}"), format!("65000:1:{n}")])
        .collect();
    let attributes = Attributes {
        communities: Communities::parse(&texts),
        local_pref: Some(1),
    };
    let told: Routes = nets
        .into_iter()
        .map(|net| (net, attributes.clone()))
        .collect();
    let all = updates(&diff(&Routes::new(), &told), &writing(true)).unwrap();
    assert!(all.iter().all(|update| update.len() <= LONGEST));
    assert_eq!(all.len(), 2 * 5000_usize.div_ceil(IN_ONE));
    let gone = updates(&diff(&told, &Routes::new()), &writing(true)).unwrap();
    assert_eq!(gone.len(), all.len());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5000))]
    #[test]
    fn no_opening_is_too_strange(
        head in prop::collection::vec(any::<u8>(), 0..12),
        capabilities in prop::collection::vec(
            (prop_oneof![any::<u8>(), Just(1), Just(64), Just(65), Just(69), Just(71), Just(73)],
             prop::collection::vec(any::<u8>(), 0..20)), 0..5),
        cut in 0_usize..100, change in any::<(u8, u8)>(),
    ) {
        let mut bytes = vec![4, 0xfd, 0xe8, 0, 90, 1, 2, 3, 4, 0];
        for (code, data) in &capabilities {
            bytes.extend([2, data.len() as u8 + 2, *code, data.len() as u8]);
            bytes.extend(data);
        }
        bytes[9] = (bytes.len() - 10) as u8;
        let _ = read_open(&bytes);
        let at = usize::from(change.0) % bytes.len();
        bytes[at] = change.1;
        let _ = read_open(&bytes);
        bytes.truncate(cut);
        let _ = read_open(&bytes);
        let _ = read_open(&head);
    }
}
