//! Packets through the programs in the kernel, beside the same decisions run
//! natively and an independent model.
//!
//! `ORLOP_PACKET_CASES` sets how many cases are run (default 1 000 000; 4 000 on an
//! emulated processor), and
//! `ORLOP_PACKET_SEED` where they begin.

#[path = "packets/cases.rs"]
mod cases;
#[path = "packets/kernel.rs"]
mod kernel;
#[path = "packets/native.rs"]
mod native;
#[path = "packets/oracle.rs"]
mod oracle;
#[path = "packets/raw.rs"]
mod raw;

use std::collections::BTreeMap;

use cases::Random;
use ebpf_logic::packet::{Origin, PacketVerdict};
use kernel::Kernel;
use oracle::Oracle;

/// Packets to one node, before it is made anew.
const A_NODE: u64 = 400;

const fn program(origin: Origin) -> &'static str {
    match origin {
        Origin::Device => "orlop_tc_ingress",
        Origin::Pod => "orlop_tc_pod_ingress",
        Origin::Host => "orlop_tc_egress",
        Origin::Leaving => "orlop_tc_pod_egress",
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

/// So many cases come to every verdict; fewer need not.
const ENOUGH: u64 = 20_000;

fn default_cases() -> u64 {
    let processor = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    if processor.contains("QEMU") {
        4_000
    } else {
        1_000_000
    }
}

#[test]
fn kernel_and_native_and_independent_model_agree() {
    let Some(mut kernel) = Kernel::new() else {
        return;
    };
    let (cases, seed) = (
        number("ORLOP_PACKET_CASES", default_cases()),
        number("ORLOP_PACKET_SEED", 1),
    );
    let mut seen: BTreeMap<String, u64> = BTreeMap::new();
    let mut judged = 0;
    for batch in 0..cases.div_ceil(A_NODE) {
        let mut random = Random((seed + batch).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        let model = cases::node(&mut random, kernel::ticks());
        kernel.write(&model);
        let mut oracle = Oracle::default();
        let mut known: Vec<Vec<u8>> = Vec::new();
        for case in 0..A_NODE {
            let (origin, sent) = cases::packet(&mut random, &known);
            if !kernel::takes(&sent) {
                continue;
            }
            model
                .now
                .set(u64::from(kernel::ticks()) << ebpf_abi::Life::TICK);
            let (code, packet, verdict) = native::run(&model, origin, &sent);
            // Written out only for a case that fails.
            let name = std::fmt::from_fn(|f| {
                let seed = seed + batch;
                write!(
                    f,
                    "seed {seed} case {case} {origin:?} {verdict:?} {sent:02x?}"
                )
            });
            if origin == Origin::Device && random.one_in(3) {
                let ran = kernel.run("orlop_xdp", &sent, 1);
                let (code, packet) = at_driver(code, packet, verdict, &sent);
                assert_eq!(
                    (ran.code, &ran.packet[12..]),
                    (code, &packet[12..]),
                    "XDP {name}"
                );
                *seen.entry(format!("XDP {code}")).or_default() += 1;
                continue;
            }
            let ran = kernel.run(program(origin), &sent, 1);
            assert_eq!(ran.code, code, "{name}");
            if code != native::DROP {
                // The way's addresses are the kernel's affair.
                assert_eq!(ran.packet[12..], packet[12..], "{name}");
                if matches!(verdict, PacketVerdict::Translate | PacketVerdict::Forward) {
                    oracle.judge(&model, origin, &sent, &ran.packet, &name);
                }
            }
            if matches!(verdict, PacketVerdict::Translate | PacketVerdict::Forward)
                && known.len() < 64
            {
                known.push(ran.packet);
            } else if !known.is_empty() && random.one_in(8) {
                known.swap_remove(0);
            }
            *seen.entry(format!("{verdict:?}")).or_default() += 1;
            let echo = cases::ends(&sent).is_some_and(|it| cases::ECHO.contains(&it.4));
            if echo {
                *seen.entry(format!("echo {verdict:?}")).or_default() += 1;
            }
        }
        assert_eq!(
            kernel.flows(),
            native::flows(&model),
            "seed {}",
            seed + batch
        );
        judged += oracle.judged;
    }
    println!("{cases} cases: {seen:?}, {judged} translations judged");
    for verdict in [
        "Pass",
        "Drop",
        "Translate",
        "Forward",
        "TranslateError",
        "Refuse",
        "Encapsulate",
        "echo Forward",
        "echo Translate",
        "XDP 1",
        "XDP 2",
        "XDP 3",
    ] {
        // Few cases need not come to all of it.
        let is_due = cases >= ENOUGH;
        assert!(
            !is_due || seen.contains_key(verdict),
            "no case came to {verdict}"
        );
    }
    assert!(judged > cases / 20);
}

/// What XDP makes of it: what it can send on itself leaves, what is dropped by
/// decision is dropped, and the rest is untouched.
fn at_driver(code: i32, packet: Vec<u8>, verdict: PacketVerdict, sent: &[u8]) -> (i32, Vec<u8>) {
    const DROP: i32 = 1;
    const PASS: i32 = 2;
    const SEND: i32 = 3;
    let tunnelled = packet.len() < sent.len();
    match verdict {
        PacketVerdict::Drop => (DROP, sent.to_vec()),
        PacketVerdict::Forward | PacketVerdict::TranslateError | PacketVerdict::Encapsulate
            if code == native::REDIRECT && !tunnelled =>
        {
            (SEND, packet)
        }
        _ => (PASS, sent.to_vec()),
    }
}

/// What the verifier walked through, by kernel series and program. A change
/// that costs more than a fiftieth more is to be meant: the file is then
/// changed with it.
#[test]
fn programs_cost_what_is_recorded() {
    let Some(mut kernel) = Kernel::load() else {
        return;
    };
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let series: Vec<_> = release.split('.').take(2).collect();
    let series = series.join(".");
    let recorded: BTreeMap<(&str, &str), u32> = include_str!("packets/costs.txt")
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| {
            let words: Vec<_> = line.split(' ').collect();
            ((words[0], words[1]), words[2].parse().unwrap())
        })
        .collect();
    let mut more = Vec::new();
    for (name, cost) in kernel.costs() {
        println!("cost {series} {name} {cost}");
        assert!(cost < 800_000, "{name} is near the verifier's limit");
        if let Some(known) = recorded.get(&(series.as_str(), name.as_str()))
            && cost > known + known / 50
        {
            more.push(format!("{name}: {cost} instead of {known}"));
        }
    }
    assert!(more.is_empty(), "{more:?}");
}

/// Nanoseconds a packet of a known flow takes, by `BPF_PROG_TEST_RUN`.
///
/// A run changes the packet, and the next one gets what it left: so two
/// entries lead to each other, and the hops are as many as there can be.
#[test]
fn packets_of_known_flows_take() {
    let Some(mut kernel) = Kernel::new() else {
        return;
    };
    let mut random = Random(1);
    let model = cases::node(&mut random, kernel::ticks());
    for family in [0, 1] {
        let [there, back] = cases::circle(family);
        let flow = |to| ebpf_abi::Flow {
            to,
            set: 0,
            generation: 0,
            flags: ebpf_abi::FlowFlags::REPLY,
            reserved: 0,
        };
        let life = ebpf_abi::Life::new(kernel::ticks(), ebpf_abi::Life::REPLIED);
        for (key, to) in [(there, back), (back, there)] {
            let flow = ebpf_abi::ChecksummedValue::new(&key, flow(to));
            model
                .flows
                .borrow_mut()
                .insert(key, ebpf_abi::FlowEntry { flow, life });
        }
        kernel.write(&model);
        let packet = cases::of_tuple(&there);
        for (name, most) in [("orlop_xdp", 2_000), ("orlop_tc_ingress", 4_000)] {
            let what = format!("{name} IPv{}", [4, 6][family]);
            time(&mut kernel, name, &packet, &what, most, |code| {
                matches!(code, 3 | native::REDIRECT)
            });
        }
        // Most packets: between others, of no flow and to no service.
        let mut stranger = there;
        stranger.destination_port = ebpf_abi::Port::new(45_678);
        let packet = cases::of_tuple(&stranger);
        for name in ["orlop_xdp", "orlop_tc_ingress", "orlop_tc_egress"] {
            let what = format!("{name} IPv{}, none of ours", [4, 6][family]);
            time(&mut kernel, name, &packet, &what, 2_000, |code| {
                matches!(code, 2 | -1)
            });
        }
    }
}

/// Nanoseconds a packet takes that opens a connection through a node port. Each is
/// another client's, so that memory is met as it is met by clients: cold.
#[test]
fn packets_that_begin_flows_take() {
    let Some(mut kernel) = Kernel::new() else {
        return;
    };
    let mut model = cases::node(&mut Random(1), kernel::ticks());
    cases::busy(&mut model);
    kernel.write(&model);
    let mut all: Vec<_> = cases::openings(20_000)
        .map(|packet| {
            let ran = kernel.run("orlop_tc_ingress", &packet, 1);
            assert_eq!(ran.code, native::REDIRECT);
            ran.nanoseconds
        })
        .collect();
    assert_eq!(kernel.flows().len(), 2 * all.len());
    all.sort_unstable();
    let (least, middle) = (all[0], all[all.len() / 2]);
    let most = all[all.len() * 9 / 10];
    println!("a flow begins: least {least} ns, middle {middle} ns, nine tenths within {most} ns");
}

/// Nanoseconds a packet takes that opens a connection to a destination for which so many
/// thousandths of the ports are taken. Flows whose packets passed a moment ago are known
/// by that; of others, both entries are read.
#[test]
fn packets_that_search_for_a_port_take() {
    let Some(mut kernel) = Kernel::new() else {
        return;
    };
    for (state, idle) in [("in use", 0), ("idle", 60)] {
        for taken in [0, 500, 900, 990, 1_000] {
            let mut model = cases::node(&mut Random(1), kernel::ticks());
            cases::crowded(&mut model, taken, kernel::ticks().wrapping_sub(idle));
            kernel.write(&model);
            let (mut all, mut dropped) = (Vec::new(), 0);
            for packet in cases::openings(if taken == 990 { 20 } else { 100 }) {
                let ran = kernel.run("orlop_tc_ingress", &packet, 1);
                dropped += usize::from(ran.code != native::REDIRECT);
                all.push(ran.nanoseconds);
            }
            assert_eq!(dropped == all.len(), taken == 1_000, "{state} {taken}");
            all.sort_unstable();
            let (middle, most) = (all[all.len() / 2], all[all.len() * 9 / 10]);
            println!(
                "{}.{} % of the ports {state}: middle {middle} ns, nine tenths within {most} ns, \
                 {dropped} of {} dropped",
                taken / 10,
                taken % 10,
                all.len()
            );
        }
    }
}

/// Nanoseconds each packet of a short connection through a node port takes, one
/// connection after the other, each of another client.
#[test]
fn packets_of_short_connections_take() {
    const SYN: u8 = 2;
    const ACK: u8 = 16;
    const FIN: u8 = 1;
    let Some(mut kernel) = Kernel::new() else {
        return;
    };
    let mut model = cases::node(&mut Random(1), kernel::ticks());
    cases::busy(&mut model);
    kernel.write(&model);
    let steps = [
        ("SYN", true, SYN),
        ("its answer", false, SYN | ACK),
        ("ACK", true, ACK),
        ("FIN", true, FIN | ACK),
        ("its answer", false, FIN | ACK),
        ("last ACK", true, ACK),
    ];
    let mut took: Vec<Vec<u128>> = vec![Vec::new(); steps.len() + 1];
    for opening in cases::openings(8_000) {
        let mut answer = None;
        let mut sum = 0;
        for (number, (name, client, flags)) in steps.into_iter().enumerate() {
            let mut packet = match &answer {
                Some(answer) if !client => Vec::clone(answer),
                _ => opening.clone(),
            };
            packet[14 + 20 + 13] = flags;
            let ran = kernel.run("orlop_tc_ingress", &packet, 1);
            assert_eq!(ran.code, native::REDIRECT, "{name}");
            answer.get_or_insert_with(|| {
                let (from, port, to, to_port, protocol) = cases::ends(&ran.packet).unwrap();
                let [from, to] = [(from, port), (to, to_port)]
                    .map(|(address, port)| (address.into(), ebpf_abi::Port::new(port)));
                cases::of_tuple(&ebpf_abi::Tuple::new(to.0, to.1, from.0, from.1, protocol))
            });
            took[number].push(ran.nanoseconds);
            sum += ran.nanoseconds;
        }
        took[steps.len()].push(sum);
    }
    let names = steps.iter().map(|it| it.0).chain(["all"]);
    for (name, mut all) in names.zip(took) {
        all.sort_unstable();
        let (least, middle) = (all[0], all[all.len() / 2]);
        println!("{name}: least {least} ns, middle {middle} ns");
    }
}

/// Prints what a run takes, in nanoseconds, at least and mostly.
fn time(
    kernel: &mut Kernel,
    name: &str,
    packet: &[u8],
    what: &str,
    most: u128,
    is_right: impl Fn(i32) -> bool,
) {
    let mut all: Vec<_> = (0..150)
        .map(|_| {
            let ran = kernel.run(name, packet, 240);
            assert!(is_right(ran.code), "{what}: {}", ran.code);
            ran.nanoseconds
        })
        .collect();
    all.sort_unstable();
    let (least, middle) = (all[0], all[all.len() / 2]);
    println!("{what}: least {least} ns, middle {middle} ns");
    // An emulated machine has no times.
    let emulated = std::env::var_os("ORLOP_VM").is_some();
    assert!(emulated || least < most, "{what} takes {least} ns");
}
