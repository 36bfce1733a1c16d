//! How long an event takes to be in the maps with 10 000 services there, how
//! long a cold start and a restart take, and what the hooks cost a `connect`.
//! Prints the rows of docs/performance.md.

#[path = "../tests/host/mod.rs"]
mod host;

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use host::{Host, put_service, put_slice, service, slice};
use node_agent_datapath::Engine;

const SERVICES: usize = 10_000;
const ENDPOINTS: usize = 10;
const EVENTS: usize = 5_000;
const ROUNDS: usize = 9;
const UDP_CONNECTS: u32 = 50_000;
const TCP_CONNECTS: u32 = 4_000;

const POD: &str = "10.244.0.1:8080";
const VIP: &str = "10.97.0.1:80";

fn main() {
    let Some(host) = Host::new() else { return };
    host.address("10.244.0.1");
    let mut engine = Engine::open(&host.options(), Host::config()).expect("open");
    tell(&mut engine);
    let start = Instant::now();
    let written = engine.resync().expect("resync");
    println!("| what | figure |\n|---|---|");
    row(
        &format!("cold start, {SERVICES} services of 2 ports: {written} entries written"),
        start.elapsed(),
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
    for (name, share) in [("p50", 500), ("p99", 990), ("p99.9", 999)] {
        let took = took[EVENTS * share / 1_000];
        row(
            &format!("EndpointSlice event to maps, {name} of {EVENTS}"),
            took,
        );
    }

    drop(engine);
    let start = Instant::now();
    let mut engine = Engine::open(&host.options(), Host::config()).expect("open");
    row("restart: load, verify, replace 8 programs", start.elapsed());
    tell(&mut engine);
    let start = Instant::now();
    engine.resync().expect("resync");
    row(
        "restart: compare all entries with the plan",
        start.elapsed(),
    );

    put_service(&mut engine, &service("bench", &["10.97.0.1"], 80));
    put_slice(&mut engine, &slice("bench", "bench", &["10.244.0.1"], 8080));
    println!("\n| connect(2), median of {ROUNDS} rounds | UDP | TCP |\n|---|---|---|");
    for (name, udp, tcp) in connects(&host) {
        println!("| {name} | {} | {} |", micros(udp), micros(tcp));
    }
    println!("\n| program | instructions | walked through by the verifier |\n|---|---|---|");
    for cost in engine.datapath().costs() {
        println!(
            "| {} | {} | {} |",
            cost.hook, cost.instructions, cost.verified
        );
    }
}

fn row(name: &str, took: Duration) {
    println!("| {name} | {} |", micros(took));
}

fn micros(took: Duration) -> String {
    let micros = took.as_secs_f64() * 1e6;
    match micros {
        0.0..1_000.0 => format!("{micros:.2} µs"),
        _ => format!("{:.1} ms", micros / 1e3),
    }
}

/// What a `connect` takes, UDP and TCP. All cases take turns in each round, so
/// that what slows the machine for a while slows them all.
fn connects(host: &Host) -> Vec<(&'static str, Duration, Duration)> {
    let cases = [
        ("no hooks", false, POD),
        ("hooks, to no service", true, POD),
        ("hooks, to a service", true, VIP),
    ];
    let listener = TcpListener::bind(POD).expect("bind");
    let mut rounds = vec![(Vec::new(), Vec::new()); cases.len()];
    for _ in 0..ROUNDS {
        for ((_, hooks, address), (udp, tcp)) in cases.iter().zip(&mut rounds) {
            host.within_reach(*hooks);
            let address = address.parse().expect("address");
            udp.push(connect_udp(address));
            tcp.push(connect_tcp(address, &listener));
        }
    }
    let median = |mut all: Vec<Duration>| {
        all.sort_unstable();
        all[all.len() / 2]
    };
    let figures = cases.iter().zip(rounds);
    figures
        .map(|((name, ..), (udp, tcp))| (*name, median(udp), median(tcp)))
        .collect()
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

/// Mean time of `connect(2)` of one UDP socket.
fn connect_udp(address: SocketAddr) -> Duration {
    let socket = UdpSocket::bind("0.0.0.0:0").expect("bind");
    let start = Instant::now();
    for _ in 0..UDP_CONNECTS {
        socket.connect(address).expect("connect");
    }
    start.elapsed() / UDP_CONNECTS
}

/// Mean time of making and connecting a TCP socket; accepting and closing are
/// not counted.
fn connect_tcp(address: SocketAddr, listener: &TcpListener) -> Duration {
    let mut took = Duration::ZERO;
    for _ in 0..TCP_CONNECTS {
        let start = Instant::now();
        let client = TcpStream::connect(address).expect("connect");
        took += start.elapsed();
        let (server, _) = listener.accept().expect("accept");
        // A reset leaves no socket behind that waits for late segments.
        rustix::net::sockopt::set_socket_linger(&client, Some(Duration::ZERO)).expect("linger");
        drop(client);
        drop(server);
    }
    took / TCP_CONNECTS
}
