//! Pods that have a bandwidth: what passes is held against what the clock grants.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ebpf_abi::Counter;
use node_agent_datapath::{Bandwidths, Rate};
use serde_json::json;

use super::world::{PATIENCE, Place, World, ip, shown};

/// Bits a second that are asked for.
const RATE: u64 = 8_000_000;
/// So much may go at once: a sender that does not run for so long loses nothing.
const BURST: u64 = RATE / 2;

fn rate(rate: u64) -> Option<Rate> {
    Some(Rate { rate, burst: BURST })
}

fn index(device: &str) -> u32 {
    nix::net::if_::if_nametoindex(device).expect("a device")
}

/// Bytes that went to the pod behind a device.
fn passed(device: &str) -> u64 {
    let text = shown(&format!("-s link show {device}"));
    let mut lines = text.lines().skip_while(|it| !it.trim().starts_with("TX:"));
    let counts = lines.nth(1).expect("counts");
    let bytes = counts.split_whitespace().next().expect("bytes");
    bytes.parse().expect("a number")
}

/// Sends far too many datagrams.
fn flood(from: &Place, to: IpAddr, stop: &AtomicBool) {
    from.within(|| {
        let any = if to.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = UdpSocket::bind(any).expect("bind");
        while !stop.load(Ordering::Relaxed) {
            for _ in 0..20 {
                // The receiver's kernel says that nobody listens.
                let _ = socket.send_to(&[7; 1_400], (to, 9));
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
}

/// How much passes to the pod behind `device` of what is far too much; bits a second.
fn measured(world: &World, from: &Place, to: IpAddr, device: &str) -> f64 {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| flood(from, to, &stop));
        // The bucket is empty once something was dropped.
        let before = world.counted(Counter::DroppedBandwidth);
        let until = Instant::now() + PATIENCE;
        while world.counted(Counter::DroppedBandwidth) == before && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        let (begun, first) = (Instant::now(), passed(device));
        std::thread::sleep(Duration::from_millis(1_200));
        let dropped = world.counted(Counter::DroppedBandwidth);
        let (lasted, bytes) = (begun.elapsed(), passed(device) - first);
        stop.store(true, Ordering::Relaxed);
        assert!(dropped > before, "nothing was too much");
        bytes as f64 * 8.0 / lasted.as_secs_f64()
    })
}

#[track_caller]
fn is_about(measured: f64, asked: u64) {
    let share = measured / asked as f64;
    println!("{measured:.0} bit/s of {asked}: {share:.3}");
    assert!(
        (0.8..1.2).contains(&share),
        "{measured:.0} bit/s of {asked}"
    );
}

#[test]
fn what_a_pod_sends_and_gets_is_what_was_asked_for() {
    let Some(mut world) = World::new() else {
        return;
    };
    let a = world.pod("x", "a", &json!({"app": "a"}));
    let b = world.pod("x", "b", &json!({"app": "b"}));
    let c = world.pod("x", "c", &json!({"app": "c"}));
    world.sync();
    let map = Bandwidths::open(world.pin_dir()).expect("the map");
    assert!(!map.is_in_force(index("orl1")));
    // What `a` sends, and what `b` gets, twice as much.
    map.set(index("orl1"), None, rate(RATE)).expect("written");
    map.set(index("orl2"), rate(2 * RATE), None)
        .expect("written");
    world.follow();
    for device in ["orl1", "orl2"] {
        assert!(map.is_in_force(index(device)), "{device}");
    }
    assert!(!map.is_in_force(index("orl3")));
    is_about(measured(&world, &a, c.v4, "orl3"), RATE);
    is_about(measured(&world, &c, b.v6, "orl2"), 2 * RATE);
    // Of both the narrower, in the direction that was asked for alone.
    is_about(measured(&world, &a, b.v4, "orl2"), RATE);
    // The other way it is not limited: of what goes back, only complaints that nobody
    // listens may be too much, of which kernels send few.
    let dropped = world.counted(Counter::DroppedBandwidth);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| flood(&b, a.v4, &stop));
        let (until, first) = (Instant::now() + PATIENCE, passed("orl1"));
        while passed("orl1") - first < 4_000_000 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(5));
        }
        stop.store(true, Ordering::Relaxed);
    });
    let dropped = world.counted(Counter::DroppedBandwidth) - dropped;
    assert!(dropped < 100, "{dropped}");

    // The agent ends and another takes over: buckets and programs stay.
    world.end();
    world.begin();
    assert!(map.is_in_force(index("orl1")));
    is_about(measured(&world, &a, c.v4, "orl3"), RATE);
    // Another rate, and then none.
    map.set(index("orl1"), None, rate(RATE / 2))
        .expect("written");
    is_about(measured(&world, &a, c.v4, "orl3"), RATE / 2);
    map.set(index("orl1"), None, None).expect("written");
    world.follow();
    assert!(!map.is_in_force(index("orl1")));
    // What goes takes what was said of it along.
    let gone = index("orl2");
    assert!(map.get(gone).expect("read")[0].is_some());
    ip("link del orl2");
    world.follow();
    assert_eq!(map.get(gone).expect("read"), [None; 2]);
    assert!(!map.is_in_force(gone));
}

/// Bits a second of content that one stream carries for four seconds.
fn streamed(from: &Place, to: &Place) -> f64 {
    let listener = to.within(|| TcpListener::bind((to.v4, 7_001)).expect("bind"));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let at = SocketAddr::new(to.v4, 7_001);
            let mut stream =
                from.within(|| TcpStream::connect_timeout(&at, PATIENCE).expect("a connection"));
            let short = Some(Duration::from_millis(100));
            stream.set_write_timeout(short).expect("timeout");
            while !stop.load(Ordering::Relaxed) {
                let _ = stream.write(&[7; 65_536]);
            }
        });
        let (mut stream, _) = listener.accept().expect("accept");
        let mut bytes = vec![0; 65_536];
        let mut read = |for_so_long: Duration| {
            let (begun, mut got) = (Instant::now(), 0);
            while begun.elapsed() < for_so_long {
                got += stream.read(&mut bytes).expect("read");
            }
            got as f64 * 8.0 / begun.elapsed().as_secs_f64()
        };
        // The burst first.
        read(Duration::from_secs(1));
        let measured = read(Duration::from_secs(4));
        stop.store(true, Ordering::Relaxed);
        measured
    })
}

#[test]
fn a_stream_is_as_quick_as_was_asked_for() {
    let Some(mut world) = World::new() else {
        return;
    };
    let a = world.pod("x", "a", &json!({"app": "a"}));
    let b = world.pod("x", "b", &json!({"app": "b"}));
    world.sync();
    let map = Bandwidths::open(world.pin_dir()).expect("the map");
    // A sender whose segments are all lost speaks again after a fifth of a second, or
    // two (RFC 6298): a bucket for less would lose what is granted meanwhile.
    let rate = 20_000_000;
    let burst = rate;
    map.set(index("orl1"), None, Some(Rate { rate, burst }))
        .expect("written");
    world.follow();
    let measured = streamed(&a, &b);
    let share = measured / rate as f64;
    println!("{measured:.0} bit/s of {rate}: {share:.3}");
    // A machine that is busy with others may take longer, and never less long.
    assert!((0.5..1.2).contains(&share), "{measured:.0} of {rate}");
    assert!(world.counted(Counter::DroppedBandwidth) > 0);
}
