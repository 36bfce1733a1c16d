//! Measures the costs of the datapath with 10 000 Services of ten endpoints each: the start with
//! empty and with full maps, memory, and a change. The agent (`orlop node-agent --datapath-only`)
//! and its maps are real; the API server only serves the given objects.
//!
//! `cargo bench -p tests --bench services` uses the built program, or the one in
//! `$ORLOP_PROGRAMS`. `ORLOP_SERVICES` sets the number of Services. The benchmark needs root. The
//! machine should be idle; processor time is printed beside elapsed time in case it is not.

mod api;
mod host;
mod objects;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use tests::{Failure, ensure, node_programs};

use api::{Api, event};
use host::{Agent, Host, Probe};

const SERVICES: usize = 10_000;
const ENDPOINTS: usize = 10;
/// Changes that come one by one, as an agent mostly sees them, and such as come while
/// the former one is still warm: how many, and how long after each other.
const RARE: (usize, Duration) = (200, Duration::from_millis(40));
const DENSE: (usize, Duration) = (1_000, Duration::from_millis(2));
const SLICES: &str = "/apis/discovery.k8s.io/v1/endpointslices";

fn main() -> Result<(), Failure> {
    let program = node_programs().join("orlop");
    if !program.is_file() {
        println!("skipped: {} is not built", program.display());
        return Ok(());
    }
    let Some(host) = Host::new()? else {
        println!("skipped: this needs root and cgroup2");
        return Ok(());
    };
    let text = std::env::var("ORLOP_SERVICES").unwrap_or_default();
    let services = text.parse().unwrap_or(SERVICES);
    println!("load average: {}", host::load());
    let api = api(services);
    let place = api.serve()?;
    let kubeconfig = host.file("kubeconfig", place.kubeconfig())?;
    let mut probe = Probe::new(objects::PROBE, objects::PROBED)?;

    println!("| {services} services of {ENDPOINTS} endpoints | figure |\n|---|---|");
    let agent = start(&host, &program, &kubeconfig, "cold start")?;
    ensure(probe.asks()? == Some(0), "the probe's Service answers")?;
    host.check(services, ENDPOINTS)?;
    std::thread::sleep(Duration::from_secs(3));
    row("resident, 3 s later", &agent.memory()?);
    idle(&agent)?;
    let mut fewer = vec![false; services];
    others(&agent, &api, &mut fewer, RARE, 200_000)?;
    others(&agent, &api, &mut fewer, DENSE, 250_000)?;
    probed(&agent, &api, &mut probe)?;
    row("resident, after them", &agent.memory()?);
    agent.end()?;

    let agent = start(&host, &program, &kubeconfig, "start with full maps")?;
    std::thread::sleep(Duration::from_secs(3));
    row("resident, 3 s later", &agent.memory()?);
    std::thread::sleep(Duration::from_secs(12));
    row("resident, 15 s later", &agent.memory()?);
    if let Some(seconds) = std::env::var_os("ORLOP_STAY") {
        let seconds = seconds.to_string_lossy().parse().unwrap_or(60);
        println!("agent {} stays for {seconds} s", agent.id());
        std::thread::sleep(Duration::from_secs(seconds));
        row("resident", &agent.memory()?);
    }
    agent.end()?;
    println!("load average: {}", host::load());
    Ok(())
}

fn row(name: &str, figure: &str) {
    println!("| {name} | {figure} |");
}

fn micros(took: Duration) -> String {
    format!("{:.0} µs", took.as_secs_f64() * 1e6)
}

/// A server of so many Services, the probe's among them.
fn api(services: usize) -> Api {
    let added = |object| event("ADDED", &object);
    let mut of_services: Vec<_> = (0..services)
        .map(|it| added(objects::service(it)))
        .collect();
    of_services.push(added(objects::probe()));
    let slice = |number| added(objects::slice(number, ENDPOINTS, 100_000 + number));
    let mut of_slices: Vec<_> = (0..services).map(slice).collect();
    of_slices.push(added(objects::probe_slice(0, 99_999)));
    Api::new(HashMap::from([
        ("/api/v1/services", of_services),
        (SLICES, of_slices),
        ("/api/v1/nodes", vec![added(objects::node())]),
    ]))
}

/// Starts the agent and tells how long it took until the maps held all.
fn start(
    host: &Host,
    program: &std::path::Path,
    kubeconfig: &std::path::Path,
    what: &str,
) -> Result<Agent, Failure> {
    let mut agent = host.start(program, kubeconfig)?;
    let (took, said) = agent.until("service maps are in sync")?;
    let used = agent.used()?;
    row(
        what,
        &format!("{took:.2?}, {used:.2?} of processor time ({said})"),
    );
    Ok(agent)
}

fn idle(agent: &Agent) -> Result<(), Failure> {
    let (before, begun) = (agent.used()?, Instant::now());
    std::thread::sleep(Duration::from_secs(5));
    let used = (agent.used()? - before).as_secs_f64() / begun.elapsed().as_secs_f64();
    row(
        "processor time of a second without changes",
        &format!("{:.2} ms", used * 1e3),
    );
    Ok(())
}

/// An endpoint of one of many Services goes, or comes back.
fn others(
    agent: &Agent,
    api: &Api,
    fewer: &mut [bool],
    (count, pause): (usize, Duration),
    revision: usize,
) -> Result<(), Failure> {
    let mut changed = Vec::with_capacity(count);
    for change in 0..count {
        let number = change * 7_919 % fewer.len();
        let Some(is_fewer) = fewer.get_mut(number) else {
            continue;
        };
        *is_fewer = !*is_fewer;
        let endpoints = ENDPOINTS - usize::from(*is_fewer);
        let object = objects::slice(number, endpoints, revision + change);
        changed.push(event("MODIFIED", &object));
    }
    let before = agent.used()?;
    for change in &changed {
        api.tell(SLICES, change);
        std::thread::sleep(pause);
    }
    let used = (agent.used()? - before) / u32::try_from(count)?;
    row(
        &format!("processor time of a change, one every {pause:?}"),
        &micros(used),
    );
    Ok(())
}

/// The probe's endpoint moves: from the server's event to the first answer.
fn probed(agent: &Agent, api: &Api, probe: &mut Probe) -> Result<(), Failure> {
    let (count, pause) = RARE;
    let mut took = Vec::with_capacity(count);
    let before = agent.used()?;
    for change in 1..=count {
        let changed = event("MODIFIED", &objects::probe_slice(change, 300_000 + change));
        let begun = Instant::now();
        api.tell(SLICES, &changed);
        probe.until(change % 2)?;
        took.push(begun.elapsed());
        std::thread::sleep(pause);
    }
    let used = (agent.used()? - before) / u32::try_from(count)?;
    took.sort_unstable();
    let at = |share: usize| took.get(count * share / 100).copied().unwrap_or_default();
    row(
        "an event until the new endpoint answers: p50, p90, p99",
        &format!("{}, {}, {}", micros(at(50)), micros(at(90)), micros(at(99))),
    );
    row(
        "processor time of such a change, after which connected sockets are looked for",
        &micros(used),
    );
    Ok(())
}
