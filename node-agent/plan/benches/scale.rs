//! Measures plans: from an empty state, and after one change among many objects. It prints rows of
//! docs/performance.md.

use std::time::{Duration, Instant};

use node_agent_plan::{
    Action, Conditions, Current, Endpoint, EndpointPort, EndpointSlice, Metadata, Planner, Service,
    ServicePort, ServiceSpec,
};

const EVENTS: usize = 5_000;

fn main() {
    println!("| what | figure |\n|---|---|");
    let (planner, actions) = cold(10_000, 10);
    drop((planner, actions));
    for (services, endpoints) in [(10, 10), (10_000, 10), (30_000, 10), (30_000, 1_000)] {
        // Only one service has a thousand endpoints: the others have two.
        let small = if endpoints > 100 { 2 } else { endpoints };
        let (mut planner, _) = cold(services, small);
        for number in 0..endpoints.div_ceil(100) {
            tell_slice(&mut planner, 0, number, endpoints.min(100), 0);
        }
        let mut less = vec![0; services];
        let (mut took, mut written) = (Vec::with_capacity(EVENTS), 0);
        for event in 0..EVENTS {
            let service = if endpoints > 100 {
                0
            } else {
                event * 7_919 % services
            };
            less[service] = 1 - less[service];
            let slice = slice(service, 0, endpoints.min(100), less[service]);
            let start = Instant::now();
            let actions = planner.slice_changed("ns", &slice.metadata.name, Some(&slice));
            took.push(start.elapsed());
            written += actions.len();
        }
        took.sort_unstable();
        let each = written as f64 / EVENTS as f64;
        println!(
            "| one endpoint of {endpoints} changes, {services} services: p50, p99, actions | {}, {}, {each:.1} |",
            micros(took[EVENTS / 2]),
            micros(took[EVENTS * 99 / 100])
        );
    }
}

/// Returns a plan with all objects, compared with empty maps.
fn cold(services: usize, endpoints: usize) -> (Planner, Vec<Action>) {
    let before = resident();
    let mut planner = Planner::default();
    let start = Instant::now();
    for number in 0..services {
        let it = service(number);
        planner.service_changed("ns", &it.metadata.name, Some(&it));
        tell_slice(&mut planner, number, 0, endpoints, 0);
    }
    let told = start.elapsed();
    let start = Instant::now();
    let actions = planner.resync(&Current::default());
    println!(
        "| cold plan of {services} services of {endpoints}: told, planned, actions, resident | {}, {}, {}, {} MB |",
        micros(told),
        micros(start.elapsed()),
        actions.len(),
        (resident() - before) >> 20
    );
    (planner, actions)
}

fn tell_slice(planner: &mut Planner, service: usize, number: usize, count: usize, less: usize) {
    let it = slice(service, number, count, less);
    planner.slice_changed("ns", &it.metadata.name, Some(&it));
}

fn service(number: usize) -> Service {
    Service {
        metadata: Metadata {
            name: format!("service-{number}"),
            namespace: "ns".into(),
            ..Metadata::default()
        },
        spec: ServiceSpec {
            cluster_ips: vec![format!(
                "10.{}.{}.{}",
                96 + number / 62_500,
                number / 250 % 250,
                number % 250 + 1
            )],
            ports: vec![ServicePort {
                name: Some("http".into()),
                port: 80,
                ..ServicePort::default()
            }],
            ..ServiceSpec::default()
        },
        ..Service::default()
    }
}

fn slice(service: usize, number: usize, count: usize, less: usize) -> EndpointSlice {
    let endpoint = |n: usize| Endpoint {
        addresses: vec![format!(
            "10.{}.{}.{}",
            128 + service / 250 % 100,
            service % 250,
            n % 250 + 1
        )],
        conditions: Conditions {
            ready: Some(true),
            ..Conditions::default()
        },
        node_name: Some(format!("node-{}", n % 100)),
        ..Endpoint::default()
    };
    let label = (
        "kubernetes.io/service-name".to_owned(),
        format!("service-{service}"),
    );
    EndpointSlice {
        metadata: Metadata {
            name: format!("service-{service}-{number}"),
            namespace: "ns".into(),
            labels: [label].into(),
            ..Metadata::default()
        },
        address_type: "IPv4".into(),
        // A thousand endpoints are of four ports, since of a /24 there are 250.
        endpoints: (number * 100..number * 100 + count - less)
            .map(endpoint)
            .collect(),
        ports: vec![EndpointPort {
            name: Some("http".into()),
            port: Some(8_080 + i64::try_from(number / 2).unwrap_or_default()),
            ..EndpointPort::default()
        }],
    }
}

fn micros(took: Duration) -> String {
    let micros = took.as_secs_f64() * 1e6;
    match micros {
        0.0..1_000.0 => format!("{micros:.1} µs"),
        _ => format!("{:.1} ms", micros / 1e3),
    }
}

/// Bytes of this process in memory.
fn resident() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text
        .split(' ')
        .nth(1)
        .and_then(|it| it.parse::<usize>().ok());
    pages.unwrap_or_default() * 4_096
}
