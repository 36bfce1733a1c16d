//! What programs tell of single verdicts: real packets, real programs, the ring.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use ebpf_abi::policy::cookies;
use ebpf_abi::record::recording::RING;
use ebpf_abi::{Address, Counter, FlowRecord, Port, Protocol};
use node_agent_datapath::{RecordingOptions, Records, ServiceNames, clock};
use serde_json::json;

use super::host::{put_service, put_slice, service, slice};
use super::world::{By, PATIENCE, Place, World};

/// Reads until there is a record that fits, and says which.
#[track_caller]
fn wait(
    records: &mut Records,
    seen: &mut Vec<FlowRecord>,
    fits: impl Fn(&FlowRecord) -> bool,
) -> FlowRecord {
    let until = Instant::now() + PATIENCE;
    loop {
        while let Some(record) = records.take() {
            seen.push(record);
        }
        if let Some(found) = seen.iter().find(|it| fits(it)) {
            return *found;
        }
        assert!(Instant::now() < until, "no such record among {seen:#?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn is(record: &FlowRecord, reason: Counter, from: &Place, to: IpAddr) -> bool {
    record.reason == reason.index()
        && IpAddr::from(record.tuple.source) == from.v4
        && IpAddr::from(record.tuple.destination) == to
}

fn socket(from: &Place, to: SocketAddr) -> UdpSocket {
    from.within(|| {
        let socket = UdpSocket::bind("0.0.0.0:0").expect("bind");
        socket.connect(to).expect("connect");
        socket
    })
}

#[test]
fn verdicts_and_drops_are_told_with_their_rules_and_flows_that_go_on_are_not() {
    let Some(mut world) = World::new() else {
        return;
    };
    let a = world.pod("x", "a", &json!({"app": "a"}));
    let mut b = world.pod("x", "b", &json!({"app": "b"}));
    b.serve(80);
    world.sync();
    let mut records = Records::open(&world.host.pin_dir).expect("the ring");
    let mut seen = Vec::new();
    let at = SocketAddr::new(b.v4, 80);
    let before = clock();

    // A flow that is allowed: once at each end, however much is said.
    let asking = socket(&a, at);
    asking
        .set_read_timeout(Some(Duration::from_millis(500)))
        .expect("timeout");
    let mut answers = 0;
    let until = Instant::now() + PATIENCE;
    while answers < 20 {
        assert!(Instant::now() < until, "{:?}", world.drops());
        let sent = asking.send(b"?").is_ok();
        answers += u32::from(sent && asking.recv(&mut [0; 8]).is_ok());
    }
    let port = asking.local_addr().expect("an address").port();
    let is_its = |it: &FlowRecord| {
        is(it, Counter::PolicyAllowed, &a, b.v4) && it.tuple.source_port.get() == port
    };
    let sent = wait(&mut records, &mut seen, |it| {
        is_its(it) && it.has(FlowRecord::EGRESS)
    });
    let received = wait(&mut records, &mut seen, |it| {
        is_its(it) && it.has(FlowRecord::INGRESS)
    });
    assert_eq!(seen.iter().filter(|it| is_its(it)).count(), 2);
    for record in [sent, received] {
        assert_eq!(record.tuple.protocol, Protocol::UDP);
        assert_eq!(record.tuple.destination_port.get(), 80);
        assert_eq!((record.cookie, record.weight), (cookies::DEFAULT, 1));
        assert_eq!(record.epoch, world.policy.root().expect("root").epoch);
        assert!((before..=clock()).contains(&record.time), "{record:?}");
    }
    assert_eq!(IpAddr::from(sent.peer), b.v4);
    assert_eq!(IpAddr::from(received.peer), a.v4);
    assert_ne!(sent.device, received.device);

    // A drop, and the rule that is to blame.
    world.put(
        "p",
        &json!({"podSelector": {"matchLabels": {"app": "b"}}, "ingress": []}),
    );
    world.dropped(&a, at, By::Tcp, Counter::DroppedIngress);
    let dropped = wait(&mut records, &mut seen, |it| {
        is(it, Counter::DroppedIngress, &a, b.v4) && it.tuple.protocol == Protocol::TCP
    });
    let rule = world.policy.rule(dropped.cookie).expect("rules");
    assert_eq!(
        rule.as_deref(),
        Some("NetworkPolicy x/p ingress: no rule allows it")
    );
    // The flow from before ends, which is told for each of its packets.
    let _ = asking.send(b"?");
    let ended = wait(&mut records, &mut seen, |it| {
        it.reason == Counter::DroppedEnded.index()
    });
    assert!(is(&ended, Counter::DroppedEnded, &a, b.v4), "{ended:?}");
    assert_eq!(ended.cookie, dropped.cookie);

    // A service: what the pod asked for, and who serves behind it.
    put_service(world.engine(), &service("web", &["10.96.0.7"], 80));
    put_service(world.engine(), &service("empty", &["10.96.0.8"], 80));
    let serves = slice("web-4", "web", &[&b.v4.to_string()], 80);
    put_slice(world.engine(), &serves);
    let vip: SocketAddr = "10.96.0.7:80".parse().expect("an address");
    world.dropped(&a, vip, By::Tcp, Counter::DroppedIngress);
    let asked = wait(&mut records, &mut seen, |it| {
        is(it, Counter::PolicyAllowed, &a, vip.ip())
    });
    assert_eq!(IpAddr::from(asked.peer), b.v4);
    assert_eq!(asked.peer_port, Port::new(80));
    let names = ServiceNames::open(&world.host.pin_dir);
    let address = Address::from(vip.ip());
    let name = names.name(address, Port::new(80), Protocol::TCP);
    let name = name.expect("names").expect("a name");
    assert!(name.starts_with("default/web"), "{name}");
    let other = names.name(address, Port::new(81), Protocol::TCP);
    assert_eq!(other.expect("names"), None);
    // Refused by the programs of services.
    let nobody: SocketAddr = "10.96.0.8:80".parse().expect("an address");
    let _ = socket(&a, nobody).send(b"?");
    let refused = wait(&mut records, &mut seen, |it| {
        is(it, Counter::PacketRefused, &a, nobody.ip())
    });
    assert_eq!((refused.flags, refused.epoch), (0, 0));
    assert_eq!(refused.device, sent.device);
}

#[test]
fn what_finds_no_room_is_counted_and_what_is_not_wanted_is_not_told() {
    let Some(mut world) = World::new() else {
        return;
    };
    let a = world.pod("x", "a", &json!({"app": "a"}));
    let b = world.pod("x", "b", &json!({"app": "b"}));
    world.put(
        "p",
        &json!({"podSelector": {"matchLabels": {"app": "b"}}, "ingress": []}),
    );
    let at = SocketAddr::new(b.v4, 80);
    let asking = socket(&a, at);
    // More than the ring holds, which nobody reads.
    let room = u64::from(RING) / size_of::<FlowRecord>() as u64;
    let before = world.counted(Counter::DroppedIngress);
    let until = Instant::now() + PATIENCE;
    while world.counted(Counter::RecordLost) == 0 {
        assert!(Instant::now() < until, "{:?}", world.drops());
        for _ in 0..512 {
            let _ = asking.send(b"?");
        }
    }
    let mut records = Records::open(&world.host.pin_dir).expect("the ring");
    let lost = records.lost().expect("counters");
    let mut told = 0;
    while let Some(record) = records.take() {
        told += u64::from(record.reason == Counter::DroppedIngress.index());
    }
    let dropped = world.counted(Counter::DroppedIngress) - before;
    assert!(
        told < room && told + lost >= dropped,
        "{told}, {lost}, {dropped}"
    );
    assert!(told > room / 2, "{told}");
    // There is room again.
    let mut seen = Vec::new();
    let _ = asking.send(b"?");
    wait(&mut records, &mut seen, |it| {
        it.reason == Counter::DroppedIngress.index()
    });

    // Only drops, as an agent that takes over wants it; the ring stays.
    let restart = |world: &mut World, recording| {
        world.end();
        world.host.recording = recording;
        world.begin();
    };
    restart(
        &mut world,
        RecordingOptions {
            verdicts: true,
            sample: 0,
        },
    );
    seen.clear();
    let allowed = world.counted(Counter::PolicyAllowed);
    let _ = socket(&a, at).send(b"?");
    wait(&mut records, &mut seen, |it| {
        it.reason == Counter::DroppedIngress.index()
    });
    assert!(world.counted(Counter::PolicyAllowed) > allowed);
    let is_allowed = |it: &&FlowRecord| it.reason == Counter::PolicyAllowed.index();
    assert_eq!(seen.iter().filter(is_allowed).count(), 0);
    // Nothing at all.
    restart(&mut world, RecordingOptions::default());
    while records.take().is_some() {}
    let before = world.counted(Counter::DroppedIngress);
    let until = Instant::now() + PATIENCE;
    while world.counted(Counter::DroppedIngress) == before {
        assert!(Instant::now() < until, "{:?}", world.drops());
        let _ = socket(&a, at).send(b"?");
    }
    assert_eq!(records.take(), None);
}
