//! How long an event takes to be in the maps with 10 000 services there, how
//! long a cold start and a restart take, and what the hooks cost a `connect`.

#[path = "../tests/host/mod.rs"]
mod host;

use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use host::{Host, put_service, put_slice, service, slice};
use node_agent_datapath::Engine;

const SERVICES: usize = 10_000;
const ENDPOINTS: usize = 10;
const EVENTS: usize = 5_000;
const CONNECTS: u32 = 200_000;

fn main() {
    let Some(host) = Host::new() else { return };
    host.address("10.244.0.1");
    let before = connect("10.244.0.1:9");
    let mut engine = Engine::open(&host.options(), Host::config()).expect("open");
    tell(&mut engine);
    let start = Instant::now();
    let written = engine.resync().expect("resync");
    println!(
        "cold start, {SERVICES} services of 2 ports: {written} entries in {:?}",
        start.elapsed()
    );

    let mut took = Vec::with_capacity(EVENTS);
    for event in 0..EVENTS {
        let number = event * 7_919 % SERVICES;
        let changed = endpoints(number, ENDPOINTS + 1 + event % 2);
        let start = Instant::now();
        put_slice(&mut engine, &changed);
        took.push(start.elapsed());
    }
    took.sort_unstable();
    let at = |share: usize| took[EVENTS * share / 1_000];
    println!(
        "event to map: p50 {:?}, p99 {:?}, p99.9 {:?}",
        at(500),
        at(990),
        at(999)
    );

    drop(engine);
    let start = Instant::now();
    let mut engine = Engine::open(&host.options(), Host::config()).expect("open");
    let opened = start.elapsed();
    tell(&mut engine);
    let start = Instant::now();
    engine.resync().expect("resync");
    println!(
        "restart: open {opened:?}, compare and write {:?}",
        start.elapsed()
    );

    put_service(&mut engine, &service("bench", &["10.97.0.1"], 80));
    put_slice(&mut engine, &slice("bench", "bench", &["10.244.0.1"], 9));
    println!("UDP connect, no hooks: {before:?}");
    println!(
        "UDP connect, hooks, no service: {:?}",
        connect("10.244.0.1:9")
    );
    println!(
        "UDP connect, hooks, to a service: {:?}",
        connect("10.97.0.1:80")
    );
}

fn tell(engine: &mut Engine) {
    for number in 0..SERVICES {
        let address = format!("10.96.{}.{}", number / 250, number % 250);
        put_service(engine, &service(&format!("s{number}"), &[&address], 80));
        put_slice(engine, &endpoints(number, ENDPOINTS));
    }
}

fn endpoints(service: usize, count: usize) -> node_agent_plan::EndpointSlice {
    let address = |n| format!("10.{}.{}.{n}", 100 + service / 250, service % 250);
    let addresses: Vec<_> = (1..=count).map(address).collect();
    let addresses: Vec<_> = addresses.iter().map(String::as_str).collect();
    slice(
        &format!("e{service}"),
        &format!("s{service}"),
        &addresses,
        8080,
    )
}

/// Mean time of `connect(2)` of one UDP socket; the best of five runs.
fn connect(address: &str) -> Duration {
    let address: SocketAddr = address.parse().expect("address");
    let socket = UdpSocket::bind("0.0.0.0:0").expect("bind");
    let run = || {
        let start = Instant::now();
        for _ in 0..CONNECTS {
            socket.connect(address).expect("connect");
        }
        start.elapsed() / CONNECTS
    };
    (0..5).map(|_| run()).min().unwrap_or_default()
}
